/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * S90: code without .eh_frame. Built with frame pointers, -g and -fno-asynchronous-unwind-tables
 * -fno-unwind-tables, so that only .debug_frame describes it, as in async-profiler#1320.
 */
#include "tests/targets/no_cfi.h"

T_FRAME long without_cfi(t_leaf leaf, void *argument)
{
    long result = leaf(argument);
    T_NO_TAIL_CALL();
    return result;
}

/* A signal trampoline without CFI: what it is can only be read from its bytes (mov $15,%eax; syscall). */
__asm__(".pushsection .text\n"
        ".globl restorer_without_cfi\n"
        ".type restorer_without_cfi, @function\n"
        "restorer_without_cfi:\n"
        "    movl $15, %eax\n"
        "    syscall\n"
        ".size restorer_without_cfi, . - restorer_without_cfi\n"
        ".popsection\n");
