/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See signal_raise.h.
 * Zone: probe thread.
 */
#include "agent/backends/signal_raise.h"

#include "agent/backends/signal_number.h"
#include "agent/backends/x86_64/context.h"
#include "agent/sys.h"

#include "agent/nolibc.h"

static long queue(const struct capture_session *session, int32_t tid, uint64_t value)
{
    struct {
        struct context_siginfo head;
        uint8_t rest[128 - sizeof(struct context_siginfo)]; /* the kernel reads SI_MAX_SIZE bytes */
    } info = {.head = {.signal = signal_number(),
                       .code = CONTEXT_SI_QUEUE,
                       .pid = session->pid,
                       .uid = sys_getuid(),
                       .value = value}};

    return sys_tgsigqueueinfo(session->pid, tid, signal_number(), &info);
}

long signal_raise(const struct capture_session *session, int32_t tid, uint64_t value,
                  struct raised_signal *ret_raised)
{
    /* The next tick that finds it running is late enough to be noticed by nobody. */
    if (sys_cpu_timer(tid, 1, signal_number(), value, &ret_raised->timer) == 0)
        return 0;
    ret_raised->timer = -1;
    return queue(session, tid, value);
}

bool signal_can_call_back(const struct raised_signal *raised)
{
    return raised->timer >= 0;
}

void signal_call_back(const struct raised_signal *raised)
{
    if (signal_can_call_back(raised))
        sys_timer_delete(raised->timer);
}
