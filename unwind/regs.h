/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registers of one frame, as far as they are known.
 * Zone: pure. Used by everything that captures, unwinds or prints.
 */
#ifndef UNWIND_REGS_H
#define UNWIND_REGS_H

#include <stdbool.h>
#include <stdint.h>

/* Large enough for AArch64: x0..x30, sp (31), and ra_sign_state (34); x86-64 uses 0..16. */
#define UW_N_REGS 35

/* DWARF register numbers of x86-64 (System V psABI, figure 3.36). */
enum uw_x86_64_reg {
    UW_X86_64_RAX = 0,
    UW_X86_64_RDX = 1,
    UW_X86_64_RCX = 2,
    UW_X86_64_RBX = 3,
    UW_X86_64_RSI = 4,
    UW_X86_64_RDI = 5,
    UW_X86_64_RBP = 6,
    UW_X86_64_RSP = 7,
    UW_X86_64_R8 = 8,
    UW_X86_64_R15 = 15,
    UW_X86_64_RA = 16,
};

/* A passive capture knows only a few registers, so each value has a valid bit. The pc is always known. */
struct uw_regs {
    uint64_t pc;
    uint64_t valid; /* bit n: value[n] is known */
    uint64_t value[UW_N_REGS];
};

static inline bool uw_regs_known(const struct uw_regs *regs, unsigned n)
{
    return n < UW_N_REGS && (regs->valid >> n & 1);
}

static inline void uw_regs_set(struct uw_regs *regs, unsigned n, uint64_t value)
{
    regs->value[n] = value;
    regs->valid |= UINT64_C(1) << n;
}

static inline void uw_regs_forget(struct uw_regs *regs, unsigned n)
{
    regs->valid &= ~(UINT64_C(1) << n);
}

#endif
