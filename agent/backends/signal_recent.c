/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See signal_recent.h.
 * Zone: probe thread.
 */
#include "agent/backends/signal_recent.h"

#include "agent/report/units.h"

#include "agent/nolibc.h"

#define MIN_GAP_NANOS NANOS_PER_SECOND
#define RECENT 512u
#define RECENT_PROBES 8u

static struct {
    int32_t tid; /* 0: free */
    uint64_t when;
} recent[RECENT];

/* The entry of tid, or the one to be used for it: a free or the oldest one of those where it may be. */
static unsigned recent_entry(int32_t tid)
{
    unsigned start = (uint32_t)tid * 2654435769u >> 8, oldest = start % RECENT;

    for (unsigned i = 0; i < RECENT_PROBES; i++) {
        unsigned at = (start + i) % RECENT;

        if (recent[at].tid == tid)
            return at;
        if (recent[oldest].tid && (!recent[at].tid || recent[at].when < recent[oldest].when))
            oldest = at;
    }
    return oldest;
}

void signal_recent_forget(void)
{
    for (unsigned i = 0; i < RECENT; i++)
        recent[i].tid = 0;
}

bool signal_recent(int32_t tid, uint64_t now)
{
    unsigned at = recent_entry(tid);

    return recent[at].tid == tid && now - recent[at].when < MIN_GAP_NANOS;
}

void signal_recent_add(int32_t tid, uint64_t now)
{
    unsigned at = recent_entry(tid);

    recent[at].tid = tid;
    recent[at].when = now;
}
