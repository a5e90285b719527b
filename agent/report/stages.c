/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See stages.h.
 * Zone: pure; called by the probe thread.
 */
#include "agent/report/stages.h"

/* Bytes for "end": 24 sentences of why, at most some 200 bytes each, as the agent writes them. */
#define KEEP_END 8192
/* "captured" is 19 keys and 8 numbers. */
#define KEEP_CAPTURED 1024
/* A thread's record is 450 bytes with registers, system call and lock word. */
#define KEEP_THREAD 512
/* A tid in "still". */
#define KEEP_STILL 11

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sends as many of n records as fit, and returns how many those are. */
static uint32_t send(struct out *out, const struct snapshot *snapshot, uint32_t n,
                     bool (*encode)(struct out *out, const struct snapshot *snapshot, uint32_t index))
{
    uint32_t i = 0;

    while (i < n && encode(out, snapshot, i))
        i++;
    return i;
}

static bool send_frame(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    return snapshot->frames[index].module < (int32_t)snapshot->n_modules &&
           encode_frame(out, snapshot, index);
}

static bool send_stack(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    const struct report_stack *stack = &snapshot->stacks[index];
    uint32_t i;

    for (i = 0; i < stack->n_frames; i++)
        if (stack->frames[i] >= snapshot->n_frames)
            return false;
    return encode_stack(out, snapshot, index);
}

static bool send_thread(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    return encode_thread(out, &snapshot->threads[index]);
}

static void count_as_dropped(struct snapshot *snapshot)
{
    snapshot->stats.threads_captured--;
    snapshot->stats.threads_dropped++;
}

/* Threads whose stack was not sent: the reader is told as little as we know how to tell. */
static void drop_unsent_stacks(struct snapshot *snapshot)
{
    uint32_t i;

    for (i = 0; i < snapshot->n_threads; i++) {
        struct thread_sample *thread = &snapshot->threads[i];

        if (thread->stack < (int32_t)snapshot->n_stacks)
            continue;
        thread->stack = -1;
        thread->capture = CAPTURE_NONE;
        thread->reason = REASON_MEMORY;
        count_as_dropped(snapshot);
    }
}

static void drop_unsent_threads(struct snapshot *snapshot, uint32_t n_sent)
{
    uint32_t i;

    for (i = n_sent; i < snapshot->n_threads; i++)
        if (sample_counts_as_captured(&snapshot->threads[i]))
            count_as_dropped(snapshot);
    snapshot->n_threads = n_sent;
}

void encode_raw_stage(struct out *out, struct snapshot *snapshot)
{
    size_t lost = out->lost;

    out->keep = KEEP_END + KEEP_CAPTURED + smaller((size_t)snapshot->n_threads * KEEP_THREAD, out->size / 2);
    snapshot->n_modules = send(out, snapshot, snapshot->n_modules, encode_module);
    snapshot->n_frames = send(out, snapshot, snapshot->n_frames, send_frame);
    snapshot->n_stacks = send(out, snapshot, snapshot->n_stacks, send_stack);
    drop_unsent_stacks(snapshot);

    out->keep = KEEP_END + KEEP_CAPTURED;
    drop_unsent_threads(snapshot, send(out, snapshot, snapshot->n_threads, send_thread));
    snapshot->complete = snapshot->complete && out->lost == lost;

    out->keep = KEEP_END;
    encode_captured(out, snapshot);
}

void encode_names_stage(struct out *out, struct snapshot *snapshot)
{
    size_t lost = out->lost;
    uint32_t i;

    out->keep = KEEP_END + smaller((size_t)snapshot->n_threads * KEEP_STILL, out->size / 2);
    for (i = 0; i < snapshot->n_modules; i++)
        if (snapshot->modules[i].symbols != SYMBOLS_NOT_LOOKED)
            encode_module_symbols(out, snapshot, i);
    snapshot->n_symbols = send(out, snapshot, snapshot->n_symbols, encode_symbol);
    for (i = 0; i < snapshot->n_frames; i++) {
        if (snapshot->frames[i].symbol >= (int32_t)snapshot->n_symbols)
            snapshot->frames[i].symbol = -1;
        if (snapshot->frames[i].symbol >= 0)
            encode_name(out, snapshot, i);
    }
    for (i = 0; i < snapshot->n_addresses; i++) {
        struct report_address *address = &snapshot->addresses[i];

        if (address->symbol >= (int32_t)snapshot->n_symbols)
            address->symbol = -1;
        if (address->module < (int32_t)snapshot->n_modules)
            encode_address(out, snapshot, i);
    }
    snapshot->complete = snapshot->complete && out->lost == lost;
}

void encode_explanation_stage(struct out *out, const struct snapshot *snapshot)
{
    out->keep = KEEP_END;
    encode_still(out, snapshot);
    encode_explanation(out, snapshot);
}
