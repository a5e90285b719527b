/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How our signal comes to a running thread: by a timer on that thread's own processor time.
 * Zone: probe thread.
 *
 * Such a timer stands while the thread sleeps, so it wakes nobody. On x86-64 since Linux 5.9
 * (CONFIG_POSIX_CPU_TIMERS_TASK_WORK, kernel/time/posix-cpu-timers.c) the thread itself raises the signal, on
 * its way back from the kernel: a system call that it entered meanwhile has ended by then, with the result
 * that it would have had. So no call ends early, counts short or starts over, whatever the thread does
 * between our look and the signal. Before 5.9 the scheduler's tick raises it, within a call that computes.
 *
 * The price is up to one tick, 1 to 10 ms. Where the kernel has no such timer or refuses it, the signal is
 * queued at once: then a call that the thread has entered meanwhile feels it (see restart.h).
 */
#ifndef AGENT_BACKENDS_SIGNAL_RAISE_H
#define AGENT_BACKENDS_SIGNAL_RAISE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/backends/backend.h"

/* A signal that is on its way, or has arrived. */
struct raised_signal {
    int32_t timer; /* -1: queued */
};

/* value: what siginfo carries. Returns 0 or -errno. */
long signal_raise(const struct capture_session *session, int32_t tid, uint64_t value,
                  struct raised_signal *ret_raised);

/* Can the thread be left alone still? Only then signal_call_back() does something. */
bool signal_can_call_back(const struct raised_signal *raised);
/*
 * To be called once for each that was raised. Afterwards it has arrived or does not arrive any more, but
 * where it was queued, or pending before Linux 6.13: then its slot is no longer armed for it.
 */
void signal_call_back(const struct raised_signal *raised);

#endif
