/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The call frame instruction machine (DWARF 5, 6.4.2 and 7.24; LSB 10.5.2 for the GNU extensions). The
 * program is streamed, never held, and stopped at the first row behind pc.
 * Zone: pure.
 */
#include "unwind/cfi.h"

#include "unwind/arch.h"
#include "unwind/span.h"

enum {
    /* The operand is in the low six bits. */
    CFA_ADVANCE_LOC = 0x40,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,

    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_MIPS_ADVANCE_LOC8 = 0x1d,
    CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* Compilers nest remember_state once; hand-written assembly twice. */
#define MAX_REMEMBERED 6
/* Bound on instructions of one program. Large generated functions reach some ten thousand. */
#define MAX_INSTRUCTIONS (1 << 18)

struct machine {
    struct span span;
    const struct uw_space *space;
    const struct eh_fde *fde;
    uint64_t pc;
    bool done;   /* the row that covers pc is complete */
    bool in_cie; /* there is no initial row yet */
    unsigned n_remembered;
    struct cfi_row row;
    struct cfi_row initial; /* after the CIE's instructions: what DW_CFA_restore goes back to */
    struct cfi_row remembered[MAX_REMEMBERED];
};

_Static_assert(sizeof(struct machine) < 3500, "must fit the stack of the probe thread with room to spare");

static void bad(struct machine *m)
{
    span_fail(&m->span, UW_BAD_CFI);
}

static void move_to(struct machine *m, uint64_t location)
{
    /* Locations only grow (DWARF 5, 6.4.2.1). A CIE has none. */
    if (m->in_cie || location < m->row.start) {
        bad(m);
        return;
    }
    if (!span_ok(&m->span))
        return;
    if (location > m->pc) {
        m->row.end = location < m->fde->end ? location : m->fde->end;
        m->done = true;
        return;
    }
    m->row.start = location;
}

static void advance(struct machine *m, uint64_t delta)
{
    uint64_t bytes;

    if (__builtin_mul_overflow(delta, m->fde->cie.code_align, &bytes) || m->row.start + bytes < bytes)
        bad(m);
    else
        move_to(m, m->row.start + bytes);
}

static void set_rule(struct machine *m, uint64_t reg, enum cfi_rule rule, int64_t value)
{
    /* Vector registers and the like: nothing that unwinding needs. */
    if (reg >= UW_N_REGS)
        return;
    m->row.rule[reg] = (uint8_t)rule;
    m->row.value[reg] = value;
}

static int64_t factored(struct machine *m, int64_t offset)
{
    int64_t value;

    if (__builtin_mul_overflow(offset, m->fde->cie.data_align, &value))
        bad(m);
    return value;
}

static int64_t factored_unsigned(struct machine *m)
{
    return factored(m, (int64_t)span_uleb(&m->span));
}

static int64_t factored_signed(struct machine *m)
{
    return factored(m, span_sleb(&m->span));
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
    m->row.cfa_kind = CFI_CFA_REGISTER;
    m->row.cfa_register = reg < UW_N_REGS ? (uint16_t)reg : UW_N_REGS;
    m->row.cfa_value = offset;
}

/* These two keep the other half, which an expression does not have (DWARF 5, 6.4.2.2). */
static void set_cfa_register(struct machine *m, uint64_t reg)
{
    if (m->row.cfa_kind != CFI_CFA_REGISTER)
        bad(m);
    set_cfa(m, reg, m->row.cfa_value);
}

static void set_cfa_offset(struct machine *m, int64_t offset)
{
    if (m->row.cfa_kind != CFI_CFA_REGISTER)
        bad(m);
    m->row.cfa_value = offset;
}

/* Passes over a block and returns its address. */
static int64_t take_block(struct machine *m)
{
    uint64_t address = m->span.address;

    span_skip(&m->span, span_uleb(&m->span));
    return (int64_t)address;
}

static void set_cfa_expression(struct machine *m)
{
    m->row.cfa_kind = CFI_CFA_EXPRESSION;
    m->row.cfa_value = take_block(m);
}

static void set_expression(struct machine *m, enum cfi_rule rule)
{
    uint64_t reg = span_uleb(&m->span);

    set_rule(m, reg, rule, take_block(m));
}

static void restore(struct machine *m, uint64_t reg)
{
    if (m->in_cie)
        bad(m);
    else if (reg < UW_N_REGS)
        set_rule(m, reg, m->initial.rule[reg], m->initial.value[reg]);
}

static void remember(struct machine *m)
{
    if (m->n_remembered == MAX_REMEMBERED)
        bad(m);
    else
        m->remembered[m->n_remembered++] = m->row;
}

/* The whole row comes back, the CFA too: what every producer relies on. The location stays. */
static void restore_state(struct machine *m)
{
    uint64_t start = m->row.start;

    if (m->n_remembered == 0) {
        bad(m);
        return;
    }
    m->row = m->remembered[--m->n_remembered];
    m->row.start = start;
}

static void negate_ra_state(struct machine *m)
{
    if (m->space->arch->ra_sign_state == 0)
        bad(m); /* the same number is GNU_window_save on SPARC */
    m->row.ra_signed = !m->row.ra_signed;
}

/* Operands are read left to right, hence the locals. */
static void extended(struct machine *m, uint8_t op)
{
    struct span *s = &m->span;
    uint64_t reg;

    /* clang-format off */
    switch (op) {
    case CFA_OFFSET_EXTENDED: reg = span_uleb(s); set_rule(m, reg, CFI_OFFSET, factored_unsigned(m)); break;
    case CFA_OFFSET_EXTENDED_SF: reg = span_uleb(s); set_rule(m, reg, CFI_OFFSET, factored_signed(m)); break;
    case CFA_VAL_OFFSET: reg = span_uleb(s); set_rule(m, reg, CFI_VAL_OFFSET, factored_unsigned(m)); break;
    case CFA_VAL_OFFSET_SF: reg = span_uleb(s); set_rule(m, reg, CFI_VAL_OFFSET, factored_signed(m)); break;
    case CFA_REGISTER: reg = span_uleb(s); set_rule(m, reg, CFI_REGISTER, (int64_t)span_uleb(s)); break;
    case CFA_DEF_CFA: reg = span_uleb(s); set_cfa(m, reg, (int64_t)span_uleb(s)); break;
    case CFA_DEF_CFA_SF: reg = span_uleb(s); set_cfa(m, reg, factored_signed(m)); break;
    /* Old gcc wrote positive numbers for offsets below the CFA's. */
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        reg = span_uleb(s);
        set_rule(m, reg, CFI_OFFSET, factored(m, (int64_t)-span_uleb(s)));
        break;
    default: bad(m); break;
    }
    /* clang-format on */
}

static void simple(struct machine *m, uint8_t op)
{
    struct span *s = &m->span;

    /* clang-format off */
    switch (op) {
    case CFA_NOP: break;
    case CFA_SET_LOC: move_to(m, eh_read_pointer(s, m->fde->cie.encoding, 0)); break;
    case CFA_ADVANCE_LOC1: advance(m, span_unsigned(s, 1)); break;
    case CFA_ADVANCE_LOC2: advance(m, span_unsigned(s, 2)); break;
    case CFA_ADVANCE_LOC4: advance(m, span_unsigned(s, 4)); break;
    case CFA_MIPS_ADVANCE_LOC8: advance(m, span_unsigned(s, 8)); break;
    case CFA_RESTORE_EXTENDED: restore(m, span_uleb(s)); break;
    case CFA_UNDEFINED: set_rule(m, span_uleb(s), CFI_UNDEFINED, 0); break;
    case CFA_SAME_VALUE: set_rule(m, span_uleb(s), CFI_SAME_VALUE, 0); break;
    case CFA_REMEMBER_STATE: remember(m); break;
    case CFA_RESTORE_STATE: restore_state(m); break;
    case CFA_DEF_CFA_REGISTER: set_cfa_register(m, span_uleb(s)); break;
    case CFA_DEF_CFA_OFFSET: set_cfa_offset(m, (int64_t)span_uleb(s)); break;
    case CFA_DEF_CFA_OFFSET_SF: set_cfa_offset(m, factored_signed(m)); break;
    case CFA_DEF_CFA_EXPRESSION: set_cfa_expression(m); break;
    case CFA_EXPRESSION: set_expression(m, CFI_EXPRESSION); break;
    case CFA_VAL_EXPRESSION: set_expression(m, CFI_VAL_EXPRESSION); break;
    case CFA_AARCH64_NEGATE_RA_STATE: negate_ra_state(m); break;
    case CFA_GNU_ARGS_SIZE: (void)span_uleb(s); break; /* matters to landing pads only */
    default: extended(m, op); break;
    }
    /* clang-format on */
}

static void instruction(struct machine *m)
{
    uint8_t op = span_u8(&m->span), low = op & 0x3f;

    /* clang-format off */
    switch (op & 0xc0) {
    case CFA_ADVANCE_LOC: advance(m, low); break;
    case CFA_OFFSET: set_rule(m, low, CFI_OFFSET, factored_unsigned(m)); break;
    case CFA_RESTORE: restore(m, low); break;
    default: simple(m, op); break;
    }
    /* clang-format on */
}

static enum uw_status run(struct machine *m, uint64_t program, uint64_t end)
{
    uint8_t buffer[SPAN_BUFFER_SIZE];

    span_init(&m->span, m->space, program, end, buffer, sizeof(buffer));
    for (unsigned i = 0; span_left(&m->span) > 0 && !m->done; i++) {
        if (i == MAX_INSTRUCTIONS)
            bad(m);
        instruction(m);
    }
    m->span.buffer = NULL;
    return m->span.status;
}

enum uw_status cfi_row_at(const struct uw_space *space, const struct eh_fde *fde, uint64_t pc,
                          struct cfi_row *ret_row)
{
    struct machine m;
    enum uw_status status;

    if (pc < fde->start || pc >= fde->end)
        return UW_NO_CFI;
    m.space = space;
    m.fde = fde;
    m.pc = pc;
    m.done = false;
    m.in_cie = true;
    m.n_remembered = 0;
    m.row = (struct cfi_row){.start = fde->start, .end = fde->end};
    status = run(&m, fde->cie.program, fde->cie.program_end);
    if (status != UW_OK)
        return status;
    m.in_cie = false;
    m.n_remembered = 0;
    m.initial = m.row;
    status = run(&m, fde->program, fde->program_end);
    if (status != UW_OK)
        return status;
    *ret_row = m.row;
    return UW_OK;
}
