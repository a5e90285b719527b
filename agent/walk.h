/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a raw context to an interned stack of interned frames.
 * Zone: probe thread. Reads the copied windows, and live memory only where the thread is known to sleep on.
 */
#ifndef AGENT_WALK_H
#define AGENT_WALK_H

#include "agent/backends/backend.h"

/* The walk's memory for one dump. Opaque arrays come from the dump's arena. */
struct walk {
    struct snapshot *snapshot; /* frames and stacks are added here */
    const struct modules *modules;
    bool *tables_sought; /* per module: its file was asked where .eh_frame is */
    uint64_t deadline;   /* CLOCK_MONOTONIC ns: no file is read from then on. 0: none is read at all */
    struct memory *memory;
    struct uw_rule_cache *cache;
    struct uw_recovery *recovery;
    bool foreign_code;                   /* there is code of no module (JIT), which calls whom it likes */
    const struct raw_context *raw;       /* of the walk under way */
    bool read_live;                      /* it used memory outside the windows */
    uint32_t *frame_table, *stack_table; /* open addressing hash tables of index + 1 */
    uint32_t frame_slots, stack_slots;   /* powers of two */
    uint32_t frame_limit, stack_limit;   /* capacity of the snapshot's arrays */
    uint32_t *ids;                       /* frame ids of all stacks, one after the other */
    uint32_t n_ids, ids_limit;
    uint32_t *current; /* SNAPSHOT_MAX_FRAMES entries */
};

/* Allocates for up to n_threads threads; 0 or -ENOMEM. */
int walk_init(struct walk *walk, struct snapshot *snapshot, const struct modules *modules,
              struct memory *memory, struct arena *arena, uint32_t n_threads);

/*
 * walk_unwind() - unwind raw and return the index of its stack, or -1 when memory is used up
 * walk->read_live tells afterwards whether the result depends on memory read after the copy: the caller then
 * has to prove once more that the thread has not moved.
 */
int32_t walk_unwind(struct walk *walk, const struct raw_context *raw);

#endif
