/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From stacks and lock words to who waits for whom. Run in the agent, and again in
 * probectl with better names.
 *
 * Captures are not simultaneous, so a claim takes two steps: explain_waits() finds what each thread
 * seems to wait for, the agent then checks that the threads it names have not moved, and
 * explain_conclude() uses only those.
 * Zone: pure; memory from the caller's arena.
 */
#ifndef AGENT_REPORT_EXPLAIN_H
#define AGENT_REPORT_EXPLAIN_H

#include "agent/report/arena.h"
#include "agent/report/snapshot.h"

/*
 * explain_waits() - fill threads[].wait from proven, named frames and lock words
 * A mutex wait is a thread blocked in futex(2) called (through libc's internal functions) from a frame named
 * pthread_mutex_lock and its kind in libc.so.6, with a readable lock word at the futex address.
 */
void explain_waits(struct snapshot *snapshot);

/*
 * Must this thread's stillness be proven before anything is concluded: it waits for a
 * lock, or owns one waited for.
 */
bool explain_needs_proof(const struct snapshot *snapshot, const struct thread_sample *thread);

/*
 * explain_conclude() - locks, cycles and verdicts from waits whose waiter and owner are still
 * Replaces earlier conclusions. Out of arena: fewer conclusions, never wrong ones.
 */
void explain_conclude(struct snapshot *snapshot, struct arena *arena);

#endif
