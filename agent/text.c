/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See text.h.
 * Zone: probe thread and load time.
 */
#include "agent/text.h"

#include "agent/nolibc.h"

const char *text_basename(const char *path)
{
    const char *name = path;

    for (; *path; path++)
        if (*path == '/')
            name = path + 1;
    return name;
}

bool text_copy(char *to, size_t size, const char *from)
{
    size_t n = text_length(from);

    if (n >= size) {
        to[0] = 0;
        return false;
    }
    for (size_t i = 0; i <= n; i++)
        to[i] = from[i];
    return true;
}

bool text_glob(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            /* The last star takes one character more; earlier stars never need to be tried again. */
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

static bool take_number(const char **cursor, unsigned base, uint64_t *ret_value)
{
    const char *p = *cursor;
    uint64_t value = 0;

    for (; (unsigned)digit_value(*p) < base; p++)
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit_value(*p), &value))
            return false;
    if (p == *cursor)
        return false;
    *cursor = p;
    *ret_value = value;
    return true;
}

bool text_take_decimal(const char **cursor, uint64_t *ret_value)
{
    return take_number(cursor, 10, ret_value);
}

bool text_take_hex(const char **cursor, uint64_t *ret_value)
{
    return take_number(cursor, 16, ret_value);
}

bool text_decimal(const char *text, uint64_t *ret_value)
{
    return text_take_decimal(&text, ret_value) && !*text;
}
