/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What /proc and the kernel say about one thread: the looks that the backends are made of.
 * Zone: probe thread.
 */
#ifndef AGENT_BACKENDS_TASK_H
#define AGENT_BACKENDS_TASK_H

#include "agent/backends/backend.h"
#include "agent/procfs.h"

/* A thread's files, held open while it is looked at: opening costs more than reading. */
struct task {
    const struct capture_session *session;
    int32_t tid;
    int syscall_fd, schedstat_fd, status_fd; /* opened when first read; -1: not yet, or it cannot be */
    bool uncounted;                          /* schedstat does not count here: status is used */
};

void task_open(struct task *ret, const struct capture_session *session, int32_t tid);
void task_close(struct task *task);

/* Negative results of the looks are -errno; -ESRCH or -ENOENT mean that the thread has ended. */

/* The reason that belongs to a failed look. */
enum capture_reason task_reason(long error);

/* Where it is. RUNNING is an answer, not an error. */
int task_look(struct task *task, struct procfs_syscall *ret);

/*
 * How often it was switched, and whether an unchanged count is a proof: schedstat counts when a thread is
 * switched in, so an unchanged count after a look that found it asleep means that it has not run since.
 * status counts when it is switched out; then it also has to be asleep still.
 */
struct task_switches {
    uint64_t count;
    uint64_t cpu_nanos; /* 0 where proof is false */
    bool proof;
};

int task_switches(struct task *task, struct task_switches *ret);

/*
 * task_describe() - name, state and cpu time from one read of stat
 * Return: REASON_NONE, or why this thread has no user stack: ended, kernel worker, unreadable.
 */
enum capture_reason task_describe(const struct capture_session *session, struct thread_sample *sample);

/* The kernel function it sleeps in, in the session's arena; NULL where it does not, or that cannot be read.
 */
const char *task_wchan(const struct capture_session *session, int32_t tid);

/* SigBlk and so on; session->text is overwritten. */
int task_status(const struct capture_session *session, int32_t tid, struct procfs_status *ret);

/* The thread's own stack as far as it is known. */
struct task_stack {
    uint64_t low, top; /* top 0: not known */
};

/*
 * task_own_stack() - the bounds of a thread's own stack
 * top: for main the end of [stack], for others the head of its robust futex list, which both glibc and musl
 * keep in the thread's control block; glibc places that at the top of the stack. low: the start of the
 * mapping. A guard page between may be invisible in maps.
 */
void task_own_stack(const struct capture_session *session, int32_t tid, struct task_stack *ret);

#endif
