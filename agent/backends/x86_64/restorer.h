/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where our handler returns to: x86-64 needs SA_RESTORER (arch/x86/kernel/signal_64.c).
 * Zone: runs on the program's threads, after the handler. Included by signal_number.c only.
 *
 * The instruction bytes are the ones by which libgcc and gdb know a signal frame, so no mov to %eax. For
 * everybody else the CFI says where the kernel put the registers: at the return from the handler rsp points
 * to the ucontext. The nop is part of the function because a return address is looked up one byte before it.
 */
#ifndef AGENT_BACKENDS_RESTORER_H
#define AGENT_BACKENDS_RESTORER_H

/* DW_CFA_expression reg, { DW_OP_breg7 offset }; offsets of 64 and more take two SLEB128 bytes. */
#define RESTORER_RULE(reg, offset) \
    ".cfi_escape 0x10, " #reg ", 3, 0x77, (" #offset " & 0x7f) | 0x80, " #offset " >> 7\n\t"

/* clang-format off */
__asm__(".text\n\t"
        ".p2align 4\n\t"
        ".cfi_startproc simple\n\t"
        ".cfi_signal_frame\n\t"
        /* DW_CFA_def_cfa_expression { DW_OP_breg7 160; DW_OP_deref }: the interrupted rsp */
        ".cfi_escape 0x0f, 4, 0x77, (160 & 0x7f) | 0x80, 160 >> 7, 0x06\n\t"
        RESTORER_RULE(8, 40)
        RESTORER_RULE(9, 48)
        RESTORER_RULE(10, 56)
        RESTORER_RULE(11, 64)
        RESTORER_RULE(12, 72)
        RESTORER_RULE(13, 80)
        RESTORER_RULE(14, 88)
        RESTORER_RULE(15, 96)
        RESTORER_RULE(5, 104)
        RESTORER_RULE(4, 112)
        RESTORER_RULE(6, 120)
        RESTORER_RULE(3, 128)
        RESTORER_RULE(1, 136)
        RESTORER_RULE(0, 144)
        RESTORER_RULE(2, 152)
        RESTORER_RULE(7, 160)
        RESTORER_RULE(16, 168)
        "nop\n\t"
        ".type libprobe_signal_return, @function\n\t"
        ".hidden libprobe_signal_return\n\t"
        ".globl libprobe_signal_return\n"
        "libprobe_signal_return:\n\t"
        "movq $15, %rax\n\t" /* rt_sigreturn */
        "syscall\n\t"
        ".size libprobe_signal_return, . - libprobe_signal_return\n\t"
        ".cfi_endproc\n\t"
        ".previous\n");
/* clang-format on */

void libprobe_signal_return(void);

#endif
