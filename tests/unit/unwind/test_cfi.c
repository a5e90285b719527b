/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/cfi.c: each call frame instruction by its bytes, and every way a program can be wrong.
 * Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "tests/unit/unwind/fixture.h"

TestSuite(cfi, .timeout = 10);

#define BASE 0x4000
#define CODE 0x20000
#define SIZE 0x100000
#define RBX 3

/* What the row at CODE + pc says of rbx and the CFA. The CIE says CFA = rsp + 8. */
struct row {
    const char *name;
    uint64_t pc;
    size_t size;
    uint8_t program[48];
    enum uw_status status;
    uint16_t cfa_register;
    int64_t cfa_value;
    uint8_t rule;
    int64_t value;
    uint64_t start, end;
};

#define P(...)                        \
    sizeof((uint8_t[]){__VA_ARGS__}), \
    {                                 \
        __VA_ARGS__                   \
    }
#define RSP_8 UW_OK, 7, 8
#define NO_RULE 0, 0
#define ALL 0, SIZE
#define BAD UW_BAD_CFI, 0, 0, NO_RULE, 0, 0

static const struct row rows[] = {
    {"nop", 0, P(0), RSP_8, NO_RULE, ALL},
    {"advance_loc, before", 3, P(0x44, 0x0e, 16), RSP_8, NO_RULE, 0, 4},
    {"advance_loc, behind", 4, P(0x44, 0x0e, 16), UW_OK, 7, 16, NO_RULE, 4, SIZE},
    {"advance_loc1", 200, P(0x02, 200, 0x0e, 16), UW_OK, 7, 16, NO_RULE, 200, SIZE},
    {"advance_loc2", 0x1234, P(0x03, 0x34, 0x12, 0x0e, 16), UW_OK, 7, 16, NO_RULE, 0x1234, SIZE},
    {"advance_loc4", 0x12345, P(0x04, 0x45, 0x23, 1, 0, 0x0e, 16), UW_OK, 7, 16, NO_RULE, 0x12345, SIZE},
    {"MIPS_advance_loc8", 0x12345, P(0x1d, 0x45, 0x23, 1, 0, 0, 0, 0, 0, 0x0e, 16), UW_OK, 7, 16, NO_RULE,
     0x12345, SIZE},
    {"two rows between", 6, P(0x44, 0x0e, 16, 0x44, 0x0e, 24), UW_OK, 7, 16, NO_RULE, 4, 8},
    {"a row ends with the function", 4, P(0x44, 0x0e, 16, 0x04, 0xff, 0xff, 0xff, 0x7f, 0x0e, 24), UW_OK, 7,
     16, NO_RULE, 4, SIZE},
    {"offset", 0, P(0x83, 2), RSP_8, CFI_OFFSET, -16, ALL},
    {"offset_extended", 0, P(0x05, 3, 2), RSP_8, CFI_OFFSET, -16, ALL},
    {"offset_extended_sf", 0, P(0x11, 3, 0x7e), RSP_8, CFI_OFFSET, 16, ALL},
    {"GNU_negative_offset_extended", 0, P(0x2f, 3, 2), RSP_8, CFI_OFFSET, 16, ALL},
    {"val_offset", 0, P(0x14, 3, 2), RSP_8, CFI_VAL_OFFSET, -16, ALL},
    {"val_offset_sf", 0, P(0x15, 3, 0x7e), RSP_8, CFI_VAL_OFFSET, 16, ALL},
    {"undefined", 0, P(0x07, 3), RSP_8, CFI_UNDEFINED, 0, ALL},
    {"same_value", 0, P(0x08, 3), RSP_8, CFI_SAME_VALUE, 0, ALL},
    {"register", 0, P(0x09, 3, 12), RSP_8, CFI_REGISTER, 12, ALL},
    {"restore", 0, P(0x83, 2, 0xc3), RSP_8, NO_RULE, ALL},
    {"restore_extended", 0, P(0x83, 2, 0x06, 3), RSP_8, NO_RULE, ALL},
    {"restore goes back to the CIE's rule (of 16)", 0, P(0x90, 3, 0xd0), RSP_8, NO_RULE, ALL},
    {"def_cfa", 0, P(0x0c, 6, 16), UW_OK, 6, 16, NO_RULE, ALL},
    {"def_cfa_sf", 0, P(0x12, 6, 0x7e), UW_OK, 6, 16, NO_RULE, ALL},
    {"def_cfa_register", 0, P(0x0d, 6), UW_OK, 6, 8, NO_RULE, ALL},
    {"def_cfa_offset_sf", 0, P(0x13, 0x7e), UW_OK, 7, 16, NO_RULE, ALL},
    {"remember and restore state", 8, P(0x44, 0x0a, 0x0c, 6, 16, 0x83, 2, 0x44, 0x0b), RSP_8, NO_RULE, 8,
     SIZE},
    {"restore_state brings rules back", 8, P(0x83, 2, 0x0a, 0x44, 0x07, 3, 0x44, 0x0b), RSP_8, CFI_OFFSET,
     -16, 8, SIZE},
    {"six remembered", 0, P(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0e, 16, 0x0b), RSP_8, NO_RULE, ALL},
    {"GNU_args_size", 0, P(0x2e, 0x90, 1), RSP_8, NO_RULE, ALL},
    {"rule for a vector register", 0, P(0x05, 0x80, 1, 2), RSP_8, NO_RULE, ALL},
    {"CFA in a register we do not follow", 0, P(0x0c, 0x80, 1, 16), UW_OK, UW_N_REGS, 16, NO_RULE, ALL},
    {"what follows pc is not run", 0, P(0x44, 0xff, 0xff), RSP_8, NO_RULE, 0, 4},

    {"unknown instruction", 0, P(0x3f), BAD},
    {"negate_ra_state is AArch64's", 0, P(0x2d), BAD},
    {"operand cut off", 0, P(0x04, 1), BAD},
    {"uleb cut off", 0, P(0x83, 0x80), BAD},
    {"restore_state of nothing", 0, P(0x0b), BAD},
    {"seven remembered", 0, P(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a), BAD},
    {"block beyond the program", 0, P(0x10, 3, 5, 1), BAD},
    {"register of an expression", 0, P(0x0f, 1, 0x30, 0x0d, 6), BAD},
    {"offset of an expression", 0, P(0x0f, 1, 0x30, 0x0e, 6), BAD},
    {"offset overflows", 0, P(0x11, 3, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xc0, 0), BAD},
    {"location wraps", 8, P(0x44, 0x1d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), BAD},
};

struct program {
    struct fixture f;
    struct emit e;
    struct eh_record record;
};

static struct program p;

/* Without the padding of a real FDE, so that an operand that is cut off is cut off. */
static void build(const uint8_t *program, size_t n)
{
    size_t cie, at;

    memset(&p, 0, sizeof(p));
    fixture_init(&p.f);
    cie = emit_cie(&p.e, "zR");
    at = emit_fde(&p.e, BASE, cie, CODE, SIZE, program, n);
    fixture_table(&p.f, BASE, p.e.bytes, p.e.n);
    cr_assert(eq(int, eh_read_record(&p.f.space, BASE + at, BASE + p.e.n, &p.record, 0), UW_OK));
    p.record.fde.program_end = p.record.fde.program + n;
}

Test(cfi, instructions)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        struct cfi_row got;
        enum uw_status status;

        build(r->program, r->size);
        status = cfi_row_at(&p.f.space, &p.record.fde, CODE + r->pc, &got);

        cr_expect(eq(int, status, r->status), "%s", r->name);
        if (status != UW_OK || r->status != UW_OK)
            continue;
        cr_expect(eq(u8, got.cfa_kind, CFI_CFA_REGISTER), "%s", r->name);
        cr_expect(eq(u16, got.cfa_register, r->cfa_register), "%s", r->name);
        cr_expect(eq(i64, got.cfa_value, r->cfa_value), "%s", r->name);
        cr_expect(eq(u8, got.rule[RBX], r->rule), "%s", r->name);
        cr_expect(eq(i64, got.value[RBX], r->value), "%s", r->name);
        cr_expect(eq(u64, got.start, CODE + r->start), "%s", r->name);
        cr_expect(eq(u64, got.end, CODE + r->end), "%s", r->name);
        cr_expect(eq(i64, got.value[16], -8), "%s", r->name);
    }
}

Test(cfi, expressions_are_kept_by_address)
{
    static const uint8_t program[] = {0x0f, 2, 0x77, 8, 0x10, 3, 1, 0x30, 0x16, 12, 1, 0x31};
    struct cfi_row row;
    uint64_t at;

    build(program, sizeof(program));
    at = p.record.fde.program;

    cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE, &row), UW_OK));
    cr_assert(eq(u8, row.cfa_kind, CFI_CFA_EXPRESSION));
    cr_assert(eq(u64, (uint64_t)row.cfa_value, at + 1));
    cr_assert(eq(u8, row.rule[3], CFI_EXPRESSION));
    cr_assert(eq(u64, (uint64_t)row.value[3], at + 6));
    cr_assert(eq(u8, row.rule[12], CFI_VAL_EXPRESSION));
    cr_assert(eq(u64, (uint64_t)row.value[12], at + 10));
}

/* Its operand has the encoding of the FDE's addresses, here relative to itself. */
Test(cfi, set_loc)
{
    uint8_t program[] = {0x48, 0x01, 0, 0, 0, 0, 0x0e, 16};
    struct cfi_row row;

    for (int32_t to = 0x20; to >= 0; to -= 0x20) {
        int32_t operand;

        build(program, sizeof(program));
        operand = (int32_t)(CODE + to - (p.record.fde.program + 2));
        memcpy(program + 2, &operand, sizeof(operand));
        build(program, sizeof(program));
        if (to == 0) {
            cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE + 0x20, &row), UW_BAD_CFI),
                      "goes back");
            break;
        }
        cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE + 0x20, &row), UW_OK));
        cr_assert(eq(u64, row.start, CODE + 0x20));
        cr_assert(eq(i64, row.cfa_value, 16));
    }
}

Test(cfi, pc_outside_the_function_has_no_row)
{
    struct cfi_row row;

    build(rows[0].program, 1);
    cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE - 1, &row), UW_NO_CFI));
    cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE + SIZE, &row), UW_NO_CFI));
}

Test(cfi, a_cie_may_not_advance_or_restore)
{
    static const uint8_t programs[][2] = {{0x41, 0}, {0xc3, 0}};

    for (size_t i = 0; i < 2; i++) {
        struct cfi_row row;

        build(rows[0].program, 1);
        fixture_table(&p.f, 0x9000, programs[i], 2);
        p.record.fde.cie.program = 0x9000;
        p.record.fde.cie.program_end = 0x9002;
        cr_expect(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE, &row), UW_BAD_CFI));
    }
}

Test(cfi, code_alignment_scales_advances)
{
    static const uint8_t program[] = {0x44, 0x0e, 16};
    struct cfi_row row;

    build(program, sizeof(program));
    p.record.fde.cie.code_align = 4;
    cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE + 15, &row), UW_OK));
    cr_assert(eq(u64, row.end, CODE + 16));

    p.record.fde.cie.code_align = UINT64_MAX;
    cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE + 15, &row), UW_BAD_CFI));
}

Test(cfi, unreadable_program_is_reported)
{
    struct cfi_row row;

    build(rows[1].program, rows[1].size);
    p.record.fde.program = 0x9000;
    p.record.fde.program_end = 0x9008;
    cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE, &row), UW_TABLE_UNREADABLE));
}

/* A program need not fit any buffer: 2000 pushes and pops. */
Test(cfi, long_programs_are_streamed)
{
    static uint8_t program[6000];
    struct cfi_row row;

    for (size_t i = 0; i < sizeof(program); i += 3) {
        program[i] = 0x41;
        program[i + 1] = 0x0e;
        program[i + 2] = i % 2 ? 16 : 24;
    }
    build(program, sizeof(program));

    cr_assert(eq(int, cfi_row_at(&p.f.space, &p.record.fde, CODE + 1999, &row), UW_OK));
    cr_assert(eq(u64, row.start, CODE + 1999));
    cr_assert(eq(i64, row.cfa_value, 24));
}
