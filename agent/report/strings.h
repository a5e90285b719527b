/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The few string functions that everything needs, without libc.
 * Zone: pure.
 */
#ifndef AGENT_REPORT_STRINGS_H
#define AGENT_REPORT_STRINGS_H

#include <stdbool.h>
#include <stddef.h>

static inline size_t text_length(const char *text)
{
    size_t n = 0;

    while (text[n])
        n++;
    return n;
}

static inline bool text_equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* What follows prefix in text, or NULL where text does not begin with it. */
static inline const char *text_after(const char *text, const char *prefix)
{
    while (*prefix)
        if (*text++ != *prefix++)
            return NULL;
    return text;
}

/* value is below 16. */
static inline char text_hex_digit(unsigned value)
{
    return (char)(value < 10 ? '0' + value : 'a' + value - 10);
}

#endif
