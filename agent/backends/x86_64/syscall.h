/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The system call instruction of x86-64.
 * Zone: probe thread, load time. Included by sys.c and by nothing else.
 */
#ifndef AGENT_BACKENDS_SYSCALL_H
#define AGENT_BACKENDS_SYSCALL_H

/*
 * System V psABI, A.2.1: number in rax, arguments in rdi rsi rdx r10 r8 r9, result in rax (-errno on
 * failure); the instruction itself overwrites rcx and r11.
 */
static inline long raw_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/*
 * Starts entry(argument) on a stack of its own in a new thread that libc does not know. In the new thread
 * nothing of the caller's frame exists, so the call happens in assembly; entry must not return. The zeroed
 * frame pointer and the undefined return address end its stack for every unwinder.
 */
static inline long raw_clone(unsigned long flags, void *stack_top, void (*entry)(void *), void *argument)
{
    long result;

    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     ".cfi_remember_state\n\t"
                     ".cfi_undefined rip\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %[argument], %%rdi\n\t"
                     "call *%[entry]\n\t"
                     "hlt\n\t"
                     ".cfi_restore_state\n\t"
                     "1:"
                     : "=a"(result)
                     : "0"(56L /* clone */), "D"(flags), "S"(stack_top),
                       "d"(0L), [argument] "r"(argument), [entry] "r"(entry)
                     : "rcx", "r11", "r10", "r8", "memory");
    return result;
}

#endif
