/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Demangling with libiberty: C++ and Rust, both manglings.
 * Zone: client.
 */
#include <setjmp.h>
#include <stddef.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "cli/names.h"

#define NAME_MAX_DEMANGLED 4096
/* A hostile name of a hundred bytes can expand to gigabytes, so printing is left in the middle when it gets
 * long. */
#define OUTPUT_MAX 16384

struct display {
    char text[OUTPUT_MAX];
    size_t used;
    jmp_buf too_long;
};

static void append(const char *text, size_t n, void *context)
{
    struct display *display = context;

    /* libiberty keeps its state on the stack while it calls back, so nothing leaks. */
    if (n >= sizeof(display->text) - display->used)
        longjmp(display->too_long, 1);
    memcpy(display->text + display->used, text, n);
    display->used += n;
}

const char *names_display(void *context, const char *linkage_name)
{
    static struct display display;
    const int options = DMGL_PARAMS | DMGL_ANSI;

    if (linkage_name[0] != '_' || strnlen(linkage_name, NAME_MAX_DEMANGLED) == NAME_MAX_DEMANGLED)
        return linkage_name;
    if (setjmp(display.too_long) != 0)
        return linkage_name;
    display.used = 0;
    if (!rust_demangle_callback(linkage_name, options, append, &display)) {
        display.used = 0; /* it may have printed before it gave up */
        if (!cplus_demangle_v3_callback(linkage_name, options, append, &display))
            return linkage_name;
    }
    display.text[display.used] = '\0';
    return display.text;
}
