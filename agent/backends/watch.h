/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Is a thread that /proc calls "running" really running its own code, so that a signal disturbs no call of
 * it? Zone: probe thread.
 */
#ifndef AGENT_BACKENDS_WATCH_H
#define AGENT_BACKENDS_WATCH_H

#include "agent/backends/backend.h"

/*
 * watch_runners() - keep the threads that ran while they were watched and did not sleep
 * "running" also covers a thread that was just woken, by a time-out or by a signal of the program's own, and
 * waits for a processor with its call not yet finished: our signal would end that call once more. One that
 * used processor time and did not go to sleep meanwhile has left any such call. Takes a few milliseconds for
 * all together. Those that slept keep no reason, so that they are looked at passively; the others get theirs.
 * Return: how many are kept, in front of the array.
 */
uint32_t watch_runners(const struct capture_session *session, struct thread_sample **samples, uint32_t n);

#endif
