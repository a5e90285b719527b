/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/span.h: bounds, stickiness and refilling.
 * Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "tests/unit/unwind/fixture.h"
#include "unwind/span.h"

TestSuite(span, .timeout = 5);

#define BASE 0x1000

/* 40 bytes 0, 1, 2, ... seen through an 8-byte buffer, so that everything crosses a refill. */
struct numbers {
    struct fixture f;
    uint8_t bytes[40], buffer[8];
    struct span span;
};

static struct numbers n;

static void numbers_open(uint64_t end)
{
    fixture_init(&n.f);
    for (size_t i = 0; i < sizeof(n.bytes); i++)
        n.bytes[i] = (uint8_t)i;
    fixture_table(&n.f, BASE, n.bytes, sizeof(n.bytes));
    span_init(&n.span, &n.f.space, BASE, end, n.buffer, sizeof(n.buffer));
}

Test(span, reads_across_refills)
{
    numbers_open(BASE + 40);

    cr_assert(eq(u64, span_unsigned(&n.span, 4), 0x03020100));
    cr_assert(eq(u64, span_unsigned(&n.span, 8), 0x0b0a090807060504));
    cr_assert(eq(u64, span_unsigned(&n.span, 2), 0x0d0c));
    cr_assert(eq(u64, span_u8(&n.span), 0x0e));
    cr_assert(eq(u64, n.span.address, BASE + 15));
    cr_assert(eq(int, n.span.status, UW_OK));
}

Test(span, the_end_is_sticky)
{
    numbers_open(BASE + 5);

    cr_assert(eq(u64, span_unsigned(&n.span, 4), 0x03020100));
    cr_assert(eq(u64, span_unsigned(&n.span, 2), 0));
    cr_assert(eq(int, n.span.status, UW_BAD_CFI));
    cr_assert(eq(u64, span_unsigned(&n.span, 1), 0), "a byte is left, but the span is spoiled");
    cr_assert(eq(u64, span_left(&n.span), 0));
}

Test(span, an_end_before_the_start_is_bad)
{
    numbers_open(BASE - 1);

    cr_assert(eq(int, n.span.status, UW_BAD_CFI));
    cr_assert(eq(u64, span_u8(&n.span), 0));
}

Test(span, an_end_that_was_guessed_too_far_does_not_hurt)
{
    numbers_open(BASE + 1000);
    span_skip(&n.span, 35);

    cr_assert(eq(u64, span_unsigned(&n.span, 4), 0x26252423));
    cr_assert(eq(int, n.span.status, UW_OK));
    (void)span_unsigned(&n.span, 4);
    cr_assert(eq(int, n.span.status, UW_TABLE_UNREADABLE));
}

Test(span, skips_within_and_beyond_the_buffer)
{
    numbers_open(BASE + 40);
    (void)span_u8(&n.span);

    span_skip(&n.span, 3);
    cr_assert(eq(u64, span_u8(&n.span), 4));
    span_skip(&n.span, 20);
    cr_assert(eq(u64, span_u8(&n.span), 25));
    span_skip(&n.span, UINT64_MAX);
    cr_assert(eq(int, n.span.status, UW_BAD_CFI));
}

Test(span, seeks_only_inside)
{
    numbers_open(BASE + 40);
    (void)span_unsigned(&n.span, 8);

    span_seek(&n.span, BASE, BASE + 2);
    cr_assert(eq(u64, span_u8(&n.span), 2));
    span_seek(&n.span, BASE, BASE + 40);
    cr_assert(eq(int, n.span.status, UW_OK));
    span_seek(&n.span, BASE, BASE - 1);
    cr_assert(eq(int, n.span.status, UW_BAD_CFI));
}

Test(span, leb128)
{
    static const struct {
        const char *name;
        uint8_t bytes[20];
        bool is_signed;
        uint64_t value;
        enum uw_status status;
    } rows[] = {
        {"zero", {0}, false, 0, UW_OK},
        {"one byte", {0x7f}, false, 127, UW_OK},
        {"two bytes", {0x80, 1}, false, 128, UW_OK},
        {"padded", {0x81, 0x80, 0x80, 0}, false, 1, UW_OK},
        {"64 bits", {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, false, UINT64_MAX, UW_OK},
        {"more than 64 bits",
         {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
         false,
         UINT64_MAX,
         UW_OK},
        {"endless",
         {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0},
         false,
         0,
         UW_BAD_CFI},
        {"-1", {0x7f}, true, UINT64_MAX, UW_OK},
        {"63", {0x3f}, true, 63, UW_OK},
        {"-64", {0x40}, true, (uint64_t)-64, UW_OK},
        {"-128", {0x80, 0x7f}, true, (uint64_t)-128, UW_OK},
        {"128", {0x80, 1}, true, 128, UW_OK},
        {"INT64_MIN", {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}, true, 1ULL << 63, UW_OK},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        struct span span;
        uint8_t buffer[SPAN_BUFFER_SIZE];
        uint64_t value;

        fixture_init(&f);
        fixture_table(&f, BASE, rows[i].bytes, sizeof(rows[i].bytes));
        span_init(&span, &f.space, BASE, BASE + sizeof(rows[i].bytes), buffer, sizeof(buffer));
        value = rows[i].is_signed ? (uint64_t)span_sleb(&span) : span_uleb(&span);

        cr_expect(eq(int, span.status, rows[i].status), "%s", rows[i].name);
        cr_expect(eq(u64, value, rows[i].value), "%s", rows[i].name);
    }
}
