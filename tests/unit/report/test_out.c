/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bounded output buffer: strange inputs, and what happens at its end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/report/out.h"

TestSuite(out, .timeout = 10);

static char buffer[4096];

static struct out fresh(void)
{
    return (struct out){.buffer = buffer, .size = sizeof(buffer)};
}

static const char *text(struct out *out)
{
    cr_assert(out->used < out->size);
    out->buffer[out->used] = '\0';
    return out->buffer;
}

Test(out, numbers_at_their_limits)
{
    struct out out = fresh();

    out_unsigned(&out, 0);
    out_char(&out, ' ');
    out_unsigned(&out, UINT64_MAX);
    out_char(&out, ' ');
    out_signed(&out, INT64_MIN);
    out_char(&out, ' ');
    out_signed(&out, -1);
    out_char(&out, ' ');
    out_hex(&out, 0);
    out_char(&out, ' ');
    out_hex(&out, UINT64_MAX);
    cr_assert(
        eq(str, (char *)text(&out), "0 18446744073709551615 -9223372036854775808 -1 0x0 0xffffffffffffffff"));
}

Test(out, a_missing_text_prints_nothing)
{
    struct out out = fresh();

    out_text(&out, NULL);
    out_text(&out, "");
    cr_assert(eq(sz, out.used, 0));
}

static const struct {
    const char *name, *in;
    size_t n;
    const char *json, *plain;
} rows[] = {
    {"ascii", "abc", 3, "\"abc\"", "abc"},
    {"empty", "", 0, "\"\"", ""},
    {"quote and backslash", "a\"b\\c", 5, "\"a\\\"b\\\\c\"", "a\"b\\\\c"},
    {"white space", "\n\t\r", 3, "\"\\n\\t\\r\"", "\\x0a\\x09\\x0d"},
    {"NUL", "a\0b", 3, "\"a\\u0000b\"", "a\\x00b"},
    {"escape sequence", "\033[31m", 5, "\"\\u001b[31m\"", "\\x1b[31m"},
    {"DEL", "\x7f", 1, "\"\\u007f\"", "\\x7f"},
    {"two bytes", "\xc3\xa9", 2, "\"\xc3\xa9\"", "\\xc3\\xa9"},
    {"three bytes", "\xe2\x82\xac", 3, "\"\xe2\x82\xac\"", "\\xe2\\x82\\xac"},
    {"four bytes", "\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\"", "\\xf0\\x9f\\x98\\x80"},
    {"C1 control", "\xc2\x9b", 2, "\"\\u009b\"", "\\xc2\\x9b"},
    {"first after C1", "\xc2\xa0", 2, "\"\xc2\xa0\"", "\\xc2\\xa0"},
    {"lone continuation", "a\x80z", 3, "\"a\\ufffdz\"", "a\\x80z"},
    {"overlong slash", "\xc0\xaf", 2, "\"\\ufffd\\ufffd\"", "\\xc0\\xaf"},
    {"overlong three", "\xe0\x80\xaf", 3, "\"\\ufffd\\ufffd\\ufffd\"", "\\xe0\\x80\\xaf"},
    {"surrogate", "\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\"", "\\xed\\xa0\\x80"},
    {"last before surrogates", "\xed\x9f\xbf", 3, "\"\xed\x9f\xbf\"", "\\xed\\x9f\\xbf"},
    {"U+10FFFF", "\xf4\x8f\xbf\xbf", 4, "\"\xf4\x8f\xbf\xbf\"", "\\xf4\\x8f\\xbf\\xbf"},
    {"beyond U+10FFFF", "\xf4\x90\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"", "\\xf4\\x90\\x80\\x80"},
    {"cut at the end", "a\xe2\x82", 3, "\"a\\ufffd\\ufffd\"", "a\\xe2\\x82"},
    {"no sequence begins so", "\xfe\xff", 2, "\"\\ufffd\\ufffd\"", "\\xfe\\xff"},
};

Test(out, strange_strings)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct out out = fresh();

        out_json_string(&out, rows[i].in, rows[i].n);
        cr_expect(eq(str, (char *)text(&out), (char *)rows[i].json), "json: %s", rows[i].name);
        out = fresh();
        out_plain(&out, rows[i].in, rows[i].n);
        cr_expect(eq(str, (char *)text(&out), (char *)rows[i].plain), "plain: %s", rows[i].name);
    }
}

Test(out, what_does_not_fit_is_left_out_whole_and_counted)
{
    struct out out = {.buffer = buffer, .size = 8};

    out_text(&out, "12345");
    out_text(&out, "6789"); /* four bytes, three free */
    out_text(&out, "abc");
    cr_assert(eq(sz, out.used, 8));
    cr_assert(eq(sz, out.lost, 4));
    cr_assert(memcmp(buffer, "12345abc", 8) == 0);
}

static char collected[65536];
static size_t n_collected, flushes_left;

static bool collect(struct out *out)
{
    if (flushes_left == 0)
        return false;
    flushes_left--;
    memcpy(collected + n_collected, out->buffer, out->used);
    n_collected += out->used;
    out->used = 0;
    return true;
}

Test(out, a_string_longer_than_the_buffer_arrives_through_flushes)
{
    char *long_text = malloc(20000);

    for (size_t size = 1; size < 300; size += 13) {
        struct out out = {.buffer = buffer, .size = size, .flush = collect};

        n_collected = 0;
        flushes_left = SIZE_MAX;
        memset(long_text, 'x', 20000);
        out_bytes(&out, long_text, 20000);
        out_json_string(&out, long_text, 20000);
        out_plain(&out, long_text, 20000);
        collect(&out);
        cr_expect(eq(sz, n_collected, 60002), "buffer of %zu", size);
        cr_expect(eq(sz, out.lost, 0));
    }
    free(long_text);
}

Test(out, a_flush_that_fails_or_makes_no_room_ends_it)
{
    struct out out = {.buffer = buffer, .size = 4, .flush = collect};

    flushes_left = 1;
    n_collected = 0;
    out_text(&out, "123456789");
    out_text(&out, "abcdef");
    cr_assert(out.lost > 0);
    cr_assert(out.used <= 4);
    out = (struct out){.buffer = buffer, .size = 0, .flush = collect};
    flushes_left = SIZE_MAX;
    out_char(&out, 'x'); /* must return */
    cr_assert(eq(sz, out.lost, 1));
}

Test(out, an_escape_and_a_name_that_looks_like_one_differ)
{
    struct out out = {.buffer = buffer, .size = sizeof(buffer)};

    out_plain(&out, "\x1b \\x1b \\", 8);
    cr_assert(eq(sz, out.used, 13));
    cr_assert(memcmp(buffer, "\\x1b \\\\x1b \\\\", 13) == 0);
}
