/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/expr.c: each operation by its bytes, and every way an expression can be wrong.
 * Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "tests/unit/unwind/fixture.h"
#include "unwind/expr.h"

TestSuite(expr, .timeout = 5);

#define BASE 0x2000
#define STACK 0x9000
#define M1 0x11, 0x7f /* consts -1 */

struct row {
    const char *name;
    size_t size;
    uint8_t bytes[24];
    uint64_t value;
    enum uw_status status;
};

#define OK(name, value, ...)                                                            \
    {                                                                                   \
        name, sizeof((uint8_t[]){__VA_ARGS__}), {__VA_ARGS__}, (uint64_t)(value), UW_OK \
    }
#define FAILS(name, status, ...)                                              \
    {                                                                         \
        name, sizeof((uint8_t[]){__VA_ARGS__}), {__VA_ARGS__}, 0xdead, status \
    }

/* pc is 0x1234c, rsp is 0x9000, rbx is not known; the stack holds 0x1111222233334444 and 0x5555. */
static const struct row rows[] = {
    OK("lit0", 0, 0x30),
    OK("lit31", 31, 0x4f),
    OK("addr", 0x0807060504030201, 0x03, 1, 2, 3, 4, 5, 6, 7, 8),
    OK("const1u", 0xff, 0x08, 0xff),
    OK("const1s", -1, 0x09, 0xff),
    OK("const2u", 0xfffe, 0x0a, 0xfe, 0xff),
    OK("const2s", -2, 0x0b, 0xfe, 0xff),
    OK("const4u", 0xfffffffd, 0x0c, 0xfd, 0xff, 0xff, 0xff),
    OK("const4s", -3, 0x0d, 0xfd, 0xff, 0xff, 0xff),
    OK("const8u", -4, 0x0e, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
    OK("const8s", -4, 0x0f, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
    OK("constu", 300, 0x10, 0xac, 2),
    OK("consts", -1, M1),
    OK("dup", 10, 0x35, 0x12, 0x22),
    OK("drop", 1, 0x31, 0x32, 0x13),
    OK("over", 1, 0x31, 0x32, 0x14),
    OK("pick 2", 1, 0x31, 0x32, 0x33, 0x15, 2),
    OK("swap", 1, 0x31, 0x32, 0x16),
    OK("rot makes the second the first", 2, 0x31, 0x32, 0x33, 0x17),
    OK("rot makes the first the third", 3, 0x31, 0x32, 0x33, 0x17, 0x13, 0x13),
    OK("abs", 1, M1, 0x19),
    OK("and", 4, 0x36, 0x3c, 0x1a),
    OK("div", 3, 0x3a, 0x33, 0x1b),
    OK("div is signed", -5, 0x3a, 0x11, 0x7e, 0x1b),
    OK("INT64_MIN / -1 wraps", 1ULL << 63, 0x31, 0x08, 63, 0x24, M1, 0x1b),
    OK("minus", 7, 0x3a, 0x33, 0x1c),
    OK("mod", 1, 0x3a, 0x33, 0x1d),
    OK("mod is unsigned", 5, M1, 0x3a, 0x1d),
    OK("mul", 30, 0x3a, 0x33, 0x1e),
    OK("neg", -3, 0x33, 0x1f),
    OK("not", ~3, 0x33, 0x20),
    OK("or", 7, 0x35, 0x33, 0x21),
    OK("plus", 13, 0x3a, 0x33, 0x22),
    OK("plus_uconst", 0x8a, 0x3a, 0x23, 0x80, 1),
    OK("shl", 40, 0x35, 0x33, 0x24),
    OK("shl by 64", 0, 0x35, 0x08, 64, 0x24),
    OK("shr", 1, 0x3a, 0x33, 0x25),
    OK("shr is logical", 1, M1, 0x08, 63, 0x25),
    OK("shra", -1, M1, 0x08, 63, 0x26),
    OK("shra by 200", -1, M1, 0x08, 200, 0x26),
    OK("shra by 200 of a positive number", 0, 0x0a, 0, 1, 0x08, 200, 0x26),
    OK("xor", 6, 0x35, 0x33, 0x27),
    OK("eq", 1, 0x33, 0x33, 0x29),
    OK("ge", 1, 0x33, M1, 0x2a),
    OK("gt is signed", 0, M1, 0x33, 0x2b),
    OK("le", 1, 0x33, 0x33, 0x2c),
    OK("lt", 1, M1, 0x30, 0x2d),
    OK("ne", 1, M1, 0x30, 0x2e),
    OK("skip", 1, 0x31, 0x2f, 1, 0, 0x32),
    OK("skip to the end", 1, 0x31, 0x2f, 0, 0),
    OK("bra taken", 1, 0x31, 0x31, 0x28, 1, 0, 0x32),
    OK("bra not taken", 2, 0x31, 0x30, 0x28, 1, 0, 0x32),
    OK("counts down in a loop", 0, 0x3a, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff),
    OK("breg7", 0x9010, 0x77, 0x10),
    OK("breg7 with a negative offset", 0x8ff8, 0x77, 0x78),
    OK("bregx", 0x9010, 0x92, 7, 0x10),
    OK("deref", 0x1111222233334444, 0x77, 0, 0x06),
    OK("deref_size", 0x3333, 0x77, 2, 0x94, 2),
    OK("nop", 1, 0x31, 0x96),
    /* .plt by GNU ld: rsp + 8 + ((rip & 15) >= 11) * 8, with 16 for rip */
    OK("PLT", 0x9010, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22),

    {"empty", 0, {0}, 0xdead, UW_BAD_CFI},
    FAILS("operand cut off", UW_BAD_CFI, 0x0c, 1, 2),
    FAILS("dup of nothing", UW_BAD_CFI, 0x12),
    FAILS("plus of one", UW_BAD_CFI, 0x31, 0x22),
    FAILS("rot of two", UW_BAD_CFI, 0x31, 0x32, 0x17),
    FAILS("pick beyond", UW_BAD_CFI, 0x31, 0x15, 1),
    FAILS("div by zero", UW_BAD_CFI, 0x31, 0x30, 0x1b),
    FAILS("mod by zero", UW_BAD_CFI, 0x31, 0x30, 0x1d),
    FAILS("skip in front of the expression", UW_BAD_CFI, 0x31, 0x2f, 0xfb, 0xff),
    FAILS("skip behind it", UW_BAD_CFI, 0x31, 0x2f, 1, 0),
    FAILS("endless loop", UW_BAD_CFI, 0x2f, 0xfd, 0xff),
    FAILS("endless growth", UW_BAD_CFI, 0x31, 0x2f, 0xfc, 0xff),
    FAILS("deref_size 0", UW_BAD_CFI, 0x77, 0, 0x94, 0),
    FAILS("deref_size 9", UW_BAD_CFI, 0x77, 0, 0x94, 9),
    FAILS("unknown operation", UW_BAD_CFI, 0x31, 0x31, 0xe0),
    FAILS("fbreg is not allowed in CFI", UW_BAD_CFI, 0x31, 0x31, 0x91, 0),
    FAILS("call_frame_cfa is not allowed", UW_BAD_CFI, 0x31, 0x31, 0x9c),
    FAILS("breg3 not known", UW_REGISTER_UNKNOWN, 0x73, 0),
    FAILS("bregx out of range", UW_REGISTER_UNKNOWN, 0x92, 0xff, 0x7f, 0),
    FAILS("deref of nowhere", UW_STACK_UNREADABLE, 0x31, 0x06),
    FAILS("deref of the last half word", UW_STACK_UNREADABLE, 0x77, 12, 0x06),
};

/* Length, expression; the length's address is what counts. */
static enum uw_status evaluate(const struct row *row, const uint64_t *initial, size_t cut, uint64_t *ret)
{
    static const uint64_t words[] = {0x1111222233334444, 0x5555};
    struct fixture f;
    struct emit e = {};
    struct uw_regs regs = {};

    fixture_init(&f);
    emit_uleb(&e, row->size);
    emit_bytes(&e, row->bytes, row->size);
    fixture_table(&f, BASE, e.bytes, e.n - cut);
    fixture_stack(&f, STACK, words, 2);
    uw_regs_set(&regs, UW_X86_64_RSP, STACK);
    regs.pc = 0x1234c;
    return expr_evaluate(&f.space, BASE, &regs, initial, ret);
}

Test(expr, operations)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value = 0xdead;
        enum uw_status status = evaluate(&rows[i], NULL, 0, &value);

        cr_expect(eq(int, status, rows[i].status), "%s", rows[i].name);
        cr_expect(eq(u64, value, rows[i].value), "%s", rows[i].name);
    }
}

Test(expr, starts_with_the_initial_value)
{
    static const struct row plus_8 = {"", 2, {0x23, 8}, 0, UW_OK};
    uint64_t cfa = 0x100, value = 0;

    cr_assert(eq(int, evaluate(&plus_8, &cfa, 0, &value), UW_OK));
    cr_assert(eq(u64, value, 0x108));
}

Test(expr, a_table_that_ends_early_is_unreadable)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value = 0xdead;

        for (size_t cut = 1; rows[i].status == UW_OK && cut <= rows[i].size + 1; cut++) {
            enum uw_status status = evaluate(&rows[i], NULL, cut, &value);
            bool jumped_over = rows[i].bytes[1] == 0x2f || rows[i].bytes[2] == 0x28;

            cr_expect(status == UW_TABLE_UNREADABLE || (jumped_over && status == UW_OK), "%s cut by %zu: %d",
                      rows[i].name, cut, status);
        }
    }
}

Test(expr, deep_stack_is_bounded)
{
    struct fixture f;
    struct emit e = {};
    struct uw_regs regs = {};
    uint64_t value = 0;

    fixture_init(&f);
    emit_uleb(&e, 33);
    for (int i = 0; i < 33; i++)
        EMIT(&e, 0x31);
    fixture_table(&f, BASE, e.bytes, e.n);
    cr_assert(eq(int, expr_evaluate(&f.space, BASE, &regs, NULL, &value), UW_BAD_CFI));

    e.bytes[0] = 32;
    cr_assert(eq(int, expr_evaluate(&f.space, BASE, &regs, NULL, &value), UW_OK));
}
