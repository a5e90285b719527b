/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A small library to load and unload in a loop; its constructor allocates. */
#include <stdlib.h>

static void *kept[64];

__attribute__((constructor)) static void plugin_constructor(void)
{
    for (int i = 0; i < 64; i++)
        kept[i] = malloc(1000);
}

__attribute__((destructor)) static void plugin_destructor(void)
{
    for (int i = 0; i < 64; i++)
        free(kept[i]);
}

/* Runs code of this library, so that a dump can meet it just before it is unloaded. */
unsigned plugin_work(unsigned seed);
__attribute__((noinline)) unsigned plugin_work(unsigned seed)
{
    for (volatile unsigned i = 0; i < 2000; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}
