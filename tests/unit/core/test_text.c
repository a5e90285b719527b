/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/text.c: tables of ordinary and strange input. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/text.h"

TestSuite(text, .timeout = 5);

Test(text, glob_matches_like_a_shell)
{
    static const struct {
        const char *pattern, *text;
        bool match;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "a", true},
        {"a", "ab", false},
        {"*", "", true},
        {"*", "anything", true},
        {"a*", "abc", true},
        {"*c", "abc", true},
        {"a*c", "abbbc", true},
        {"a*c", "abbb", false},
        {"?", "", false},
        {"?", "x", true},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"**a**", "bab", true},
        {"*ab*ab", "abab", true},
        {"*ab*ab", "abxb", false},
        {"test_*", "test_", true},
        {"redis-*", "redis-server", true},
        /* Exponential for a naive matcher; the suite's time limit would tell. */
        {"*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(text_glob(rows[i].pattern, rows[i].text) == rows[i].match, "%s against %s", rows[i].pattern,
                  rows[i].text);
}

Test(text, numbers_are_taken_whole_or_not_at_all)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t value;
    } rows[] = {
        {"0", true, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999999999999999999", false, 0},
        {"", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0x10", false, 0},
        {"007", true, 7},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = 42;
        bool ok = text_decimal(rows[i].text, &value);

        cr_expect(ok == rows[i].ok, "'%s'", rows[i].text);
        cr_expect(ok == false || value == rows[i].value, "'%s' gave %lu", rows[i].text, value);
    }
}

Test(text, hexadecimal_stops_behind_its_digits)
{
    const char *cursor = "7fFf00-rest";
    uint64_t value;

    cr_assert(text_take_hex(&cursor, &value));
    cr_assert(eq(u64, value, 0x7fff00));
    cr_assert(eq(str, (char *)cursor, "-rest"));
    cr_assert(not(text_take_hex(&cursor, &value)), "'-' is no digit");
    cr_assert(eq(str, (char *)cursor, "-rest"));
    cursor = "10000000000000000";
    cr_assert(not(text_take_hex(&cursor, &value)), "17 digits do not fit");
}

Test(text, copy_never_cuts_silently)
{
    char to[4] = "xyz";

    cr_assert(text_copy(to, sizeof to, "abc"));
    cr_assert(eq(str, to, "abc"));
    cr_assert(not(text_copy(to, sizeof to, "abcd")));
    cr_assert(eq(str, to, ""));
}

Test(text, basename_and_after)
{
    cr_assert(eq(str, (char *)text_basename("/usr/bin/app"), "app"));
    cr_assert(eq(str, (char *)text_basename("app"), "app"));
    cr_assert(eq(str, (char *)text_basename("/"), ""));
    cr_assert(eq(str, (char *)text_after("PROBE_DIR=/x", "PROBE_DIR="), "/x"));
    cr_assert(text_after("PROBE_DI", "PROBE_DIR=") == NULL);
}
