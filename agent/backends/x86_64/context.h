/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the kernel hands to a signal handler on x86-64, as far as the handler reads it.
 * Zone: handler. Everything is inlined at every optimisation level: the handler makes no call.
 */
#ifndef AGENT_BACKENDS_CONTEXT_H
#define AGENT_BACKENDS_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#define CONTEXT_INLINE static inline __attribute__((always_inline))

#define CONTEXT_N_REGISTERS 17 /* DWARF numbers 0..16; 16 is the return address column, here rip */
#define CONTEXT_RED_ZONE 128   /* bytes below rsp that belong to the interrupted function (psABI 3.2.2) */
#define CONTEXT_SP 7
#define CONTEXT_PC 16

/* siginfo_t as rt_tgsigqueueinfo and a timer send it (include/uapi/asm-generic/siginfo.h) */
struct context_siginfo {
    int32_t signal, error, code, padding;
    int32_t pid;  /* of a timer: its number */
    uint32_t uid; /* of a timer: how often it has overrun */
    uint64_t value;
};

#define CONTEXT_SI_QUEUE (-1)
#define CONTEXT_SI_TIMER (-2)

_Static_assert(offsetof(struct context_siginfo, value) == 24, "kernel layout");

/* The start of struct ucontext and its struct sigcontext_64 (arch/x86/include/uapi/asm/sigcontext.h) */
struct context_frame {
    uint64_t flags, link, stack[3];
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
};

_Static_assert(offsetof(struct context_frame, r8) == 40, "kernel layout");
_Static_assert(offsetof(struct context_frame, rip) == 168, "kernel layout");

/* One by one: a loop or a structure assignment becomes a call of memcpy in some compilers. */
CONTEXT_INLINE void context_copy_registers(uint64_t *to, const struct context_frame *frame)
{
    to[0] = frame->rax;
    to[1] = frame->rdx;
    to[2] = frame->rcx;
    to[3] = frame->rbx;
    to[4] = frame->rsi;
    to[5] = frame->rdi;
    to[6] = frame->rbp;
    to[CONTEXT_SP] = frame->rsp;
    to[8] = frame->r8;
    to[9] = frame->r9;
    to[10] = frame->r10;
    to[11] = frame->r11;
    to[12] = frame->r12;
    to[13] = frame->r13;
    to[14] = frame->r14;
    to[15] = frame->r15;
    to[CONTEXT_PC] = frame->rip;
}

/* The time-stamp counter: the only clock that needs neither a system call nor the vDSO. */
CONTEXT_INLINE uint64_t context_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

#endif
