/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A library whose constructor does not return until the program lets it: hangs its caller inside dlopen(). */
#include <semaphore.h>
#include <stddef.h>

/* The program's; resolved while loading, so the constructor needs no lookup of its own. */
extern sem_t ctor_may_end;

static volatile unsigned sink;

__attribute__((noinline, used)) static void blocks_in_constructor(void)
{
    while (sem_wait(&ctor_may_end))
        ;
    sink++;
}

__attribute__((constructor)) static void library_constructor(void)
{
    blocks_in_constructor();
    sink++;
}
