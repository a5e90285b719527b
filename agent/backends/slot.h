/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where a running thread puts its registers and stack bytes: the contract between probe thread and handler.
 * Zone: handler and probe thread. With the architecture's context.h and restart.h all that the handler sees.
 *
 * Slots are never freed. Whoever holds a slot is said by one word, its generation and state:
 *
 *   FREE ──probe: fills in the bounds──► ARMED
 *   ARMED ──handler: claims──► BUSY ──handler: publishes──► FULL ──probe: takes──► FREE
 *   ARMED ──probe: no answer in time──► FREE
 *
 * The signal carries index and generation. A handler that comes late finds a newer generation, or the slot
 * not armed, and leaves; one that is stopped between claiming and publishing keeps its slot out of use until
 * it goes on.
 */
#ifndef AGENT_BACKENDS_SLOT_H
#define AGENT_BACKENDS_SLOT_H

#include <stdint.h>

#include "agent/backends/x86_64/context.h"

#define SLOT_COUNT 64u /* the signal's value is generation * SLOT_COUNT + index: every value names a slot */

enum slot_state { SLOT_FREE, SLOT_ARMED, SLOT_BUSY, SLOT_FULL };

struct slot_window {
    uint64_t base, size; /* size is a multiple of 8 */
};

struct slot {
    /*
     * generation << 2 | state. Claiming acquires what the probe thread wrote before arming; publishing
     * releases what the handler wrote; the probe thread's load acquires it.
     */
    uint64_t word;

    /* Written by the probe thread before arming. */
    uint64_t stack_low, stack_top; /* the thread's own stack, readable throughout, by 8; top 0: unknown */
    uint64_t *bytes;               /* inner_size, then outer_size bytes */
    uint64_t inner_size, outer_size;

    /* Written by the handler. */
    uint64_t registers[CONTEXT_N_REGISTERS]; /* by DWARF number */
    struct slot_window window[2]; /* as in struct raw_context; the second has size 0 if not needed */
    uint64_t entered, left;       /* time-stamp counter */
};

extern __attribute__((visibility("hidden"))) struct slot libprobe_slots[SLOT_COUNT];

CONTEXT_INLINE uint64_t slot_word(uint64_t generation, enum slot_state state)
{
    return generation << 2 | state;
}

#endif
