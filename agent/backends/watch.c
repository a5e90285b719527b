/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See watch.h.
 * Zone: probe thread.
 */
#include "agent/backends/watch.h"

#include "agent/backends/task.h"
#include "agent/sys.h"

#include "agent/nolibc.h"

#define STEP_NANOS UINT64_C(1000000)
/*
 * Two hundred runnable threads on two processors have had their turn by then. It is
 * over sooner when all have.
 */
#define WATCH_NANOS UINT64_C(300000000)
/* The way out of the kernel and into the program takes about one microsecond. */
#define RAN_NANOS UINT64_C(20000)

struct watched {
    uint64_t cpu_nanos; /* when the watch began */
    uint64_t sleeps;
};

static enum capture_reason begin(const struct capture_session *session, int32_t tid, struct watched *ret)
{
    struct procfs_status status;
    int result = task_status(session, tid, &status);

    if (result < 0)
        return task_reason(result);
    ret->sleeps = status.sleeps;
    ret->cpu_nanos = sys_thread_cpu_nanos(tid);
    return REASON_NONE;
}

static bool ran(int32_t tid, const struct watched *watched)
{
    return sys_thread_cpu_nanos(tid) >= watched->cpu_nanos + RAN_NANOS;
}

static bool slept(const struct capture_session *session, int32_t tid, const struct watched *watched)
{
    struct procfs_status status;

    /* Whatever is wrong with it, the passive look that follows will say so. */
    return task_status(session, tid, &status) < 0 || status.sleeps != watched->sleeps;
}

static void wait_for_turns(const struct capture_session *session, struct thread_sample *const *samples,
                           const struct watched *watched, uint32_t n)
{
    uint64_t end = sys_monotonic_nanos() + WATCH_NANOS;

    if (end > session->deadline)
        end = session->deadline;
    while (sys_monotonic_nanos() < end) {
        uint32_t waiting = 0;

        sys_sleep(STEP_NANOS);
        for (uint32_t i = 0; i < n; i++)
            waiting += samples[i]->reason == REASON_NONE && !ran(samples[i]->os_tid, &watched[i]);
        if (waiting == 0)
            return;
    }
}

uint32_t watch_runners(const struct capture_session *session, struct thread_sample **samples, uint32_t n)
{
    size_t mark = session->arena->used;
    struct watched *watched = arena_array(session->arena, n, sizeof *watched);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        samples[i]->reason = watched ? begin(session, samples[i]->os_tid, &watched[i]) : REASON_MEMORY;
    if (!watched)
        return 0;
    wait_for_turns(session, samples, watched, n);
    for (uint32_t i = 0; i < n; i++) {
        struct thread_sample *sample = samples[i];

        if (sample->reason != REASON_NONE || slept(session, sample->os_tid, &watched[i]))
            continue;
        if (!ran(sample->os_tid, &watched[i])) {
            sample->reason = REASON_NOT_RUN;
            continue;
        }
        samples[i] = samples[kept];
        samples[kept++] = sample;
    }
    session->arena->used = mark;
    return kept;
}
