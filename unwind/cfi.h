/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a frame description and an address to the row of the unwind table (DWARF 5, 6.4).
 * Zone: pure. Used by step.c and the tests.
 */
#ifndef UNWIND_CFI_H
#define UNWIND_CFI_H

#include "unwind/ehframe.h"

/* Register rules (DWARF 5, 6.4.1). */
enum cfi_rule {
    CFI_UNSPECIFIED = 0, /* no instruction named the register: the ABI decides */
    CFI_UNDEFINED,
    CFI_SAME_VALUE,
    CFI_OFFSET,         /* saved at CFA + value */
    CFI_VAL_OFFSET,     /* is CFA + value */
    CFI_REGISTER,       /* is in register value */
    CFI_EXPRESSION,     /* saved where the expression at address value says */
    CFI_VAL_EXPRESSION, /* is what the expression at address value says */
};

enum cfi_cfa {
    CFI_CFA_NONE = 0,
    CFI_CFA_REGISTER,   /* register cfa_register + cfa_value */
    CFI_CFA_EXPRESSION, /* the expression at address cfa_value */
};

/*
 * Expressions are kept as the address of their ULEB128 length. Rules for registers >= UW_N_REGS are dropped.
 */
struct cfi_row {
    uint64_t start, end; /* code range of the row */
    int64_t cfa_value;
    uint16_t cfa_register;   /* UW_N_REGS: one that is not tracked */
    uint8_t cfa_kind;        /* enum cfi_cfa */
    bool ra_signed;          /* DW_CFA_AARCH64_negate_ra_state */
    uint8_t rule[UW_N_REGS]; /* enum cfi_rule */
    int64_t value[UW_N_REGS];
};

/* cfi_row_at() - the row of @fde that covers @pc, which must lie in its range */
enum uw_status cfi_row_at(const struct uw_space *space, const struct eh_fde *fde, uint64_t pc,
                          struct cfi_row *ret_row);

#endif
