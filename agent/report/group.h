/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that do the same: same functions, same wait object, same state. And which of them to look at first.
 * Zone: pure; memory from the caller's arena.
 */
#ifndef AGENT_REPORT_GROUP_H
#define AGENT_REPORT_GROUP_H

#include "agent/report/arena.h"
#include "agent/report/snapshot.h"

/* Most interesting first; groups are printed in this order. */
enum group_rank {
    RANK_CYCLE,  /* part of a proven cycle, or waits for itself */
    RANK_BEHIND, /* waits, directly or through others, for a member of a cycle */
    RANK_OWNER,  /* proven owner of a lock that others want */
    RANK_WAITER, /* wants a lock */
    RANK_RUNNING,
    RANK_IO,      /* blocked in a transfer, or uninterruptible */
    RANK_MISSING, /* no stack, so nothing is known of what it does */
    RANK_MAIN,
    RANK_OTHER,
};

struct report_group {
    const uint32_t *threads; /* indexes, ascending by tid */
    uint32_t n_threads;
    enum group_rank rank;
};

struct report_groups {
    struct report_group *groups; /* ascending by rank; equal ranks: by size, then by first tid */
    uint32_t n_groups;
    enum group_rank *ranks; /* per thread */
};

/* Every thread is in exactly one group. False when the arena is full; then nothing is set. */
bool group_threads(const struct snapshot *snapshot, struct arena *arena, struct report_groups *ret_groups);

/* The thread with this tid, or -1. */
int32_t group_find_thread(const struct snapshot *snapshot, int32_t tid);

#endif
