/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Undoing the EINTR that our own signal caused.
 * Zone: handler.
 *
 * Only for a signal that was queued (signal_raise.h), or that an old kernel's timer raised: a thread that was
 * running when we looked may have entered a wait before it came. The kernel then ends the wait with -EINTR,
 * SA_RESTART or not (signal(7) lists the calls). If the interrupted code is, byte for byte,
 *
 *     b8 <number>       mov $number, %eax      or, for read:   31 c0   xor %eax, %eax
 *     [4x] 8b 4x 24 xx  mov xx(%rsp), %reg                     0f 05   syscall
 *     0f 05             syscall
 *     rip ->            with rax == -EINTR
 *
 * with at most two loads of arguments from the stack (glibc's recvfrom, pselect and the like have those, as
 * they have called a function first), then putting the number back into rax and rip onto the syscall
 * instruction makes the thread wait again: all other argument registers are as they were, since the kernel
 * preserves them. Only calls that have moved no data when they return EINTR are in the list, so nothing is
 * done twice. Finite time-outs that the kernel does not count down in memory start over; the wait began after
 * our look, so they are late by at most the moment in between.
 */
#ifndef AGENT_BACKENDS_RESTART_H
#define AGENT_BACKENDS_RESTART_H

#include <stdbool.h>

#include "agent/backends/x86_64/context.h"

#define RESTART_EINTR 4
#define RESTART_PAGE 4096
#define RESTART_LEAST 7 /* bytes of the sequence without loads */
#define RESTART_MOST 17 /* and with two of them */

/* Bit n of word n / 64: call n (arch/x86/entry/syscalls/syscall_64.tbl) returns EINTR after any handler. */
#define RESTART_BIT(number, word) ((number) / 64 == (word) ? UINT64_C(1) << (number) % 64 : 0)
#define RESTART_WORD(word)                                                                    \
    (RESTART_BIT(0, word) /* read: sockets with SO_RCVTIMEO */ |                              \
     RESTART_BIT(1, word) /* write: SO_SNDTIMEO */ | RESTART_BIT(7, word) /* poll */ |        \
     RESTART_BIT(19, word) /* readv */ | RESTART_BIT(20, word) /* writev */ |                 \
     RESTART_BIT(23, word) /* select */ | RESTART_BIT(34, word) /* pause */ |                 \
     RESTART_BIT(35, word) /* nanosleep */ | RESTART_BIT(43, word) /* accept */ |             \
     RESTART_BIT(44, word) /* sendto */ | RESTART_BIT(45, word) /* recvfrom */ |              \
     RESTART_BIT(46, word) /* sendmsg */ | RESTART_BIT(47, word) /* recvmsg */ |              \
     RESTART_BIT(65, word) /* semop */ | RESTART_BIT(69, word) /* msgsnd */ |                 \
     RESTART_BIT(70, word) /* msgrcv */ | RESTART_BIT(128, word) /* rt_sigtimedwait */ |      \
     RESTART_BIT(130, word) /* rt_sigsuspend */ | RESTART_BIT(202, word) /* futex */ |        \
     RESTART_BIT(208, word) /* io_getevents */ | RESTART_BIT(220, word) /* semtimedop */ |    \
     RESTART_BIT(230, word) /* clock_nanosleep */ | RESTART_BIT(232, word) /* epoll_wait */ | \
     RESTART_BIT(270, word) /* pselect6 */ | RESTART_BIT(271, word) /* ppoll */ |             \
     RESTART_BIT(281, word) /* epoll_pwait */ | RESTART_BIT(288, word) /* accept4 */ |        \
     RESTART_BIT(299, word) /* recvmmsg */ | RESTART_BIT(307, word) /* sendmmsg */ |          \
     RESTART_BIT(333, word) /* io_pgetevents */ | RESTART_BIT(441, word) /* epoll_pwait2 */ | \
     RESTART_BIT(449, word) /* futex_waitv */)

CONTEXT_INLINE bool restart_returns_eintr(uint32_t number)
{
    static const uint64_t calls[] = {RESTART_WORD(0), RESTART_WORD(1), RESTART_WORD(2), RESTART_WORD(3),
                                     RESTART_WORD(4), RESTART_WORD(5), RESTART_WORD(6), RESTART_WORD(7)};

    return number < 512 && (calls[number / 64] >> number % 64 & 1);
}

/* Is it nothing but loads of registers, not rax, from the stack? */
CONTEXT_INLINE bool restart_only_loads(const uint8_t *code, const uint8_t *end)
{
    while (code < end) {
        bool high = false;

        if ((code[0] & 0xf0) == 0x40) /* REX; its bit 2 makes the register one of r8 to r15 */
            high = *code++ & 4;
        if (end - code < 4 || code[0] != 0x8b || (code[1] & 0xc7) != 0x44 || code[2] != 0x24)
            return false;
        if (!high && !(code[1] & 0x38))
            return false;
        code += 4;
    }
    return true;
}

/* The number of the call before next, of which room bytes can be read; or -1. */
CONTEXT_INLINE int64_t restart_number(const uint8_t *next, uint64_t room)
{
    if (next[-4] == 0x31 && next[-3] == 0xc0)
        return 0;
    for (unsigned n = RESTART_LEAST; n <= RESTART_MOST && n <= room; n++) {
        const uint8_t *code = next - n;

        if (code[0] == 0xb8 && restart_only_loads(code + 5, next - 2))
            return code[1] | code[2] << 8 | code[3] << 16 | (int64_t)code[4] << 24;
    }
    return -1;
}

CONTEXT_INLINE void restart_interrupted_call(struct context_frame *frame)
{
    const uint8_t *next = (const uint8_t *)frame->rip; /* NOLINT: an address of the program */
    uint64_t room =
        frame->rip % RESTART_PAGE; /* The page of rip is being executed; is the one before it there? */
    int64_t number;

    if (frame->rax != (uint64_t)-RESTART_EINTR || room < RESTART_LEAST)
        return;
    if (next[-2] != 0x0f || next[-1] != 0x05)
        return;
    number = restart_number(next, room);
    if (number < 0 || !restart_returns_eintr((uint32_t)number))
        return;
    frame->rax = (uint64_t)number;
    frame->rip -= 2;
}

#endif
