/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the unwinder must know about a machine: register roles and the code sequences that carry no CFI.
 * Zone: pure. One file arch_<machine>.c each; nothing outside unwind/ looks inside.
 */
#ifndef UNWIND_ARCH_H
#define UNWIND_ARCH_H

#include "unwind/unwind.h"

/* As many registers as a cached rule can restore: x19..x29 of AArch64 and one spare. */
#define UW_ARCH_SAVED_MAX 12

/* Whether something returns to an address, by the code around it. What cannot be read proves nothing. */
enum uw_call { UW_CALL_NO, UW_CALL_YES, UW_CALL_UNREADABLE };

struct uw_arch {
    uint8_t n_regs; /* registers with higher DWARF numbers are not followed */
    uint8_t stack_pointer, frame_pointer, return_address; /* DWARF numbers */
    uint8_t pc_register; /* the DWARF number that stands for the frame's own pc; UW_N_REGS: none does */
    /* Where the call instruction leaves the return address, seen from the CFA; 0: in the register. */
    int8_t return_address_offset;
    uint8_t ra_sign_state; /* pseudo register of DW_CFA_AARCH64_negate_ra_state; 0: none */
    uint64_t preserved;    /* bit n: where no rule speaks of it, the caller's register n is the callee's */
    uint8_t n_saved;
    uint8_t saved[UW_ARCH_SAVED_MAX]; /* the preserved registers other than the stack pointer */

    /*
     * Steps that need no CFI. They fill the registers and the cfa of @next, which starts as a copy of the
     * cursor. UW_NO_CFI: it is no such place, or not provably.
     */
    enum uw_status (*step_trampoline)(const struct uw_space *space, const struct uw_cursor *cursor,
                                      struct uw_cursor *next);
    enum uw_status (*step_by_code)(const struct uw_space *space, const struct uw_cursor *cursor,
                                   struct uw_cursor *next);
    enum uw_call (*returns_to)(const struct uw_space *space, uint64_t return_address);
};

#endif
