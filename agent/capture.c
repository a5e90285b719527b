/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a process to one sample per thread; see capture.h.
 * Zone: probe thread.
 */
#include "agent/capture.h"

#include <asm/errno.h>
#include <asm/fcntl.h>

#include "agent/backends/task.h"
#include "agent/process.h"
#include "agent/procfs.h"
#include "agent/sys.h"

#include "agent/nolibc.h"

#define LIST_BUFFER ((size_t)32 * 1024)
#define LIST_PASSES 4
#define ROUNDS 3

/* What the listing works on; everything but the samples is given back at its end. */
struct listing {
    struct thread_sample *threads;
    uint32_t n, capacity;
    uint32_t *table; /* open addressing over tids: index + 1 */
    uint32_t slots;  /* a power of two, at least twice the capacity */
    uint8_t *buffer;
    bool full;
};

static uint32_t count_threads(const struct capture_session *session)
{
    struct procfs_stat stat_line;

    return process_task_stat(session->task_fd, session->main_tid, &stat_line) == 0 ? stat_line.n_threads : 0;
}

static void add_thread(struct listing *listing, int32_t tid)
{
    uint32_t slot = (uint32_t)tid * 2654435769u; /* Fibonacci hashing: tids are dense */

    for (uint32_t i = 0; i < listing->slots; i++, slot++) {
        uint32_t *entry = &listing->table[slot & (listing->slots - 1)];

        if (*entry && listing->threads[*entry - 1].os_tid == tid)
            return;
        if (*entry)
            continue;
        if (listing->n == listing->capacity) {
            listing->full = true;
            return;
        }
        listing->threads[listing->n] = (struct thread_sample){.os_tid = tid, .state = '?', .stack = -1};
        *entry = ++listing->n;
        return;
    }
}

static int list_once(struct capture_session *session, struct listing *listing)
{
    long n;

    n = sys_rewind(session->task_fd);
    if (n < 0)
        return (int)n;
    while ((n = sys_getdents(session->task_fd, listing->buffer, LIST_BUFFER)) > 0 && !listing->full) {
        for (long at = 0; at < n;) {
            const struct sys_dirent *entry = (const void *)(listing->buffer + at);
            int32_t tid = procfs_parse_tid(entry->name);

            if (tid > 0 && tid != session->self_tid)
                add_thread(listing, tid);
            at += entry->length;
        }
    }
    return (int)n;
}

int capture_list(struct capture_session *session, struct thread_sample **ret_threads, uint32_t *ret_n)
{
    struct arena *arena = session->arena;
    struct listing listing = {.capacity = count_threads(session), .slots = 64};
    uint32_t before;
    size_t end;
    int result;

    *ret_threads = NULL;
    *ret_n = 0;
    if (!listing.capacity || listing.capacity > 1024 * 1024)
        listing.capacity = 4096;
    listing.capacity += listing.capacity / 4 + 256; /* those that start while we look */
    while (listing.slots < 2 * listing.capacity)
        listing.slots *= 2;
    listing.threads = arena_array(arena, listing.capacity, sizeof(*listing.threads));
    if (!listing.threads)
        return -ENOMEM;
    end = arena->used;
    listing.table = arena_array(arena, listing.slots, sizeof(*listing.table));
    listing.buffer = arena_alloc(arena, LIST_BUFFER);
    if (!listing.table || !listing.buffer) {
        arena->used = end;
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < listing.slots; i++)
        listing.table[i] = 0;

    /*
     * The kernel finds its place again by counting, so a thread that ends during a listing hides a living one
     * behind it. Listed until a pass brings nothing new.
     */
    for (unsigned pass = 0; pass < LIST_PASSES; pass++) {
        before = listing.n;
        result = list_once(session, &listing);
        if (result < 0 || listing.full || listing.n == before)
            break;
    }
    arena->used = end - (listing.capacity - listing.n) * sizeof(*listing.threads);
    *ret_threads = listing.threads;
    *ret_n = listing.n;
    if (listing.full)
        return -ENOMEM;
    return result < 0 ? result : 0;
}

static bool pending(const struct thread_sample *sample)
{
    return sample->capture == CAPTURE_NONE && sample->reason == REASON_NONE;
}

/* Keeps those that still have neither a stack nor a reason. */
static uint32_t keep_pending(struct thread_sample **samples, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        if (pending(samples[i]))
            samples[kept++] = samples[i];
    return kept;
}

static void account(struct capture_session *session, const struct thread_sample *threads, uint32_t n)
{
    uint32_t captured = 0;

    for (uint32_t i = 0; i < n; i++)
        captured += sample_counts_as_captured(&threads[i]);
    session->stats->threads_total = n;
    session->stats->threads_captured = captured;
    session->stats->threads_dropped = n - captured;
}

static void capture_pending(struct capture_session *session, struct thread_sample **samples, uint32_t n)
{
    /*
     * The signal backend leaves alone whoever fell asleep since the passive look, and the passive one whoever
     * woke up: a thread changes sides at most a few times before it is said to keep moving.
     */
    for (unsigned round = 0; round < ROUNDS && n; round++) {
        backend_passive.capture(session, samples, n);
        n = keep_pending(samples, n);
        session->running->capture(session, samples, n);
        n = keep_pending(samples, n);
    }
    give_reason(samples, n, REASON_UNSTABLE);
}

/* Where there is no stack, the kernel still says what it waits for. */
static void note_wchan(const struct capture_session *session, struct thread_sample *threads, uint32_t n)
{
    for (uint32_t i = 0; i < n && sys_monotonic_nanos() < session->deadline; i++)
        if (threads[i].capture == CAPTURE_NONE && (threads[i].state == 'S' || threads[i].state == 'D'))
            threads[i].wchan = task_wchan(session, threads[i].os_tid);
}

/* In an arena made small by RLIMIT_AS a deep stack is cut, and said to be, but there are stacks. */
static size_t affordable_stack(const struct arena *arena, size_t max_stack)
{
    size_t share = arena_left(arena) / 4 & ~(size_t)4095;

    return share < max_stack ? share : max_stack;
}

void capture_threads(struct capture_session *session, struct thread_sample *threads, uint32_t n)
{
    struct arena *arena = session->arena;
    struct thread_sample **samples = arena_array(arena, n, sizeof(struct thread_sample *));

    session->text = arena_alloc(arena, CAPTURE_TEXT);
    session->max_stack = affordable_stack(arena, session->max_stack);
    session->buffer = arena_alloc(arena, session->max_stack);
    for (uint32_t i = 0; samples && i < n; i++)
        samples[i] = &threads[i];
    if (!samples || !session->text || !session->buffer || !session->max_stack) {
        capture_none(session, threads, n, REASON_MEMORY);
        return;
    }
    capture_pending(session, samples, n);
    note_wchan(session, threads, n);
    account(session, threads, n);
}

void capture_none(struct capture_session *session, struct thread_sample *threads, uint32_t n,
                  enum capture_reason reason)
{
    for (uint32_t i = 0; i < n; i++)
        threads[i].reason = reason;
    note_wchan(session, threads, n);
    account(session, threads, n);
}

bool capture_is_still(struct capture_session *session, const struct thread_sample *sample)
{
    return sample->capture == CAPTURE_PASSIVE && passive_is_still(session, sample);
}
