/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Grouping and ranking; see group.h. Everything is sorted, so the cost is n log n for any input.
 * Zone: pure.
 */
#include "agent/report/group.h"
#include "agent/report/sort.h"
#include "agent/report/syscalls.h"

struct grouping {
    const struct snapshot *snapshot;
    uint64_t *hashes;    /* per stack, of what is printed of it */
    uint32_t *canonical; /* per stack: the first stack that prints the same */
    uint32_t *by_tid;    /* thread indexes, ascending by tid */
    enum group_rank *ranks;
    struct report_group *groups;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
    return hash ^ hash >> 29;
}

/*
 * What tells two frames apart in print: the function, or the address where no
 * function is known; and the trust.
 */
static uint64_t frame_key(const struct frame *frame)
{
    if (frame->symbol >= 0)
        return (uint64_t)frame->symbol;
    return frame->module >= 0 ? frame->offset : frame->pc;
}

static uint64_t hash_stack(const struct snapshot *snapshot, const struct report_stack *stack)
{
    uint64_t hash = mix((uint64_t)stack->end, stack->truncated);
    uint32_t i;

    for (i = 0; i < stack->n_frames; i++) {
        const struct frame *frame = &snapshot->frames[stack->frames[i]];

        hash = mix(hash, frame_key(frame));
        hash = mix(hash,
                   (uint64_t)(frame->module + 1) << 8 | (uint64_t)(frame->symbol >= 0) << 4 | frame->trust);
    }
    return hash;
}

static bool same_stack(const struct snapshot *snapshot, uint32_t a, uint32_t b)
{
    const struct report_stack *x = &snapshot->stacks[a], *y = &snapshot->stacks[b];
    uint32_t i;

    if (x->n_frames != y->n_frames || x->end != y->end || x->truncated != y->truncated)
        return false;
    for (i = 0; i < x->n_frames; i++) {
        const struct frame *f = &snapshot->frames[x->frames[i]], *g = &snapshot->frames[y->frames[i]];

        if (frame_key(f) != frame_key(g) || f->module != g->module || (f->symbol >= 0) != (g->symbol >= 0) ||
            f->trust != g->trust)
            return false;
    }
    return true;
}

static bool hash_before(const void *context, uint32_t a, uint32_t b)
{
    const uint64_t *hashes = context;

    return hashes[a] != hashes[b] ? hashes[a] < hashes[b] : a < b;
}

/* Equal hashes are checked in full: two different stacks are never printed as one. */
static bool merge_stacks(struct grouping *g, struct arena *arena)
{
    const struct snapshot *snapshot = g->snapshot;
    uint32_t *order = arena_array(arena, snapshot->n_stacks, sizeof(*order)), i, first = 0;

    g->hashes = arena_array(arena, snapshot->n_stacks, sizeof(*g->hashes));
    g->canonical = arena_array(arena, snapshot->n_stacks, sizeof(*g->canonical));
    if (order == NULL || g->hashes == NULL || g->canonical == NULL)
        return false;
    for (i = 0; i < snapshot->n_stacks; i++) {
        order[i] = i;
        g->hashes[i] = hash_stack(snapshot, &snapshot->stacks[i]);
    }
    sort_indexes(order, snapshot->n_stacks, hash_before, g->hashes);
    for (i = 0; i < snapshot->n_stacks; i++) {
        if (g->hashes[order[i]] != g->hashes[order[first]] || !same_stack(snapshot, order[i], order[first]))
            first = i;
        g->canonical[order[i]] = order[first];
    }
    return true;
}

static bool tid_before(const void *context, uint32_t a, uint32_t b)
{
    const struct thread_sample *threads = context;

    return threads[a].os_tid != threads[b].os_tid ? threads[a].os_tid < threads[b].os_tid : a < b;
}

static int32_t find_by_tid(const struct grouping *g, int32_t tid)
{
    const struct thread_sample *threads = g->snapshot->threads;
    uint32_t low = 0, high = g->snapshot->n_threads, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (threads[g->by_tid[middle]].os_tid < tid)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == g->snapshot->n_threads || threads[g->by_tid[low]].os_tid != tid)
        return -1;
    return (int32_t)g->by_tid[low];
}

int32_t group_find_thread(const struct snapshot *snapshot, int32_t tid)
{
    uint32_t i;

    for (i = 0; i < snapshot->n_threads; i++)
        if (snapshot->threads[i].os_tid == tid)
            return (int32_t)i;
    return -1;
}

static enum group_rank own_rank(const struct snapshot *snapshot, const struct thread_sample *thread)
{
    if (thread->wait.kind == WAIT_MUTEX)
        return thread->wait.owner_status == OWNER_SELF ? RANK_CYCLE : RANK_WAITER;
    if (thread->state == 'R')
        return RANK_RUNNING;
    if (thread->state == 'D' || syscall_transfers(&thread->syscall))
        return RANK_IO;
    if (thread->capture == CAPTURE_NONE)
        return RANK_MISSING;
    return thread->os_tid == snapshot->process.main_tid ? RANK_MAIN : RANK_OTHER;
}

static int32_t owner_of(const struct grouping *g, uint32_t thread)
{
    const struct report_wait *wait = &g->snapshot->threads[thread].wait;

    return wait->owner_status == OWNER_LIVE ? find_by_tid(g, wait->owner_tid) : -1;
}

/* Follows the owners from a waiter; each thread is settled once, so all walks together are linear. */
static void rank_behind(struct grouping *g, uint8_t *settled, uint32_t start)
{
    int32_t at = (int32_t)start, next;
    bool behind;

    while (at >= 0 && !settled[at]) {
        settled[at] = 1;
        if (g->ranks[at] == RANK_CYCLE)
            break;
        at = owner_of(g, (uint32_t)at);
    }
    behind = at >= 0 && (g->ranks[at] == RANK_CYCLE || g->ranks[at] == RANK_BEHIND);
    for (next = (int32_t)start; behind && next >= 0 && next != at; next = owner_of(g, (uint32_t)next))
        g->ranks[next] = RANK_BEHIND;
}

static bool rank_threads(struct grouping *g, struct arena *arena)
{
    const struct snapshot *snapshot = g->snapshot;
    uint8_t *settled = arena_array(arena, snapshot->n_threads, 1);
    uint32_t i, j;
    int32_t at;

    g->ranks = arena_array(arena, snapshot->n_threads, sizeof(*g->ranks));
    if (settled == NULL || g->ranks == NULL)
        return false;
    for (i = 0; i < snapshot->n_threads; i++) {
        settled[i] = 0;
        g->ranks[i] = own_rank(snapshot, &snapshot->threads[i]);
    }
    for (i = 0; i < snapshot->n_locks; i++) {
        at = snapshot->locks[i].owner_tid != 0 ? find_by_tid(g, snapshot->locks[i].owner_tid) : -1;
        if (at >= 0 && g->ranks[at] > RANK_OWNER)
            g->ranks[at] = RANK_OWNER;
    }
    for (i = 0; i < snapshot->n_cycles; i++)
        for (j = 0; j < snapshot->cycles[i].n_tids; j++)
            if ((at = find_by_tid(g, snapshot->cycles[i].tids[j])) >= 0)
                g->ranks[at] = RANK_CYCLE;
    for (i = 0; i < snapshot->n_threads; i++)
        if (snapshot->threads[i].wait.kind != WAIT_NONE)
            rank_behind(g, settled, i);
    return true;
}

/* NULL comes first. */
static int compare_texts(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return (a != NULL) - (b != NULL);
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

/* Less, equal or greater by everything that a group's line and stack say; 0: the same group. */
static int compare_threads(const struct grouping *g, uint32_t a, uint32_t b)
{
    const struct thread_sample *x = &g->snapshot->threads[a], *y = &g->snapshot->threads[b];
    const int64_t pairs[][2] = {
        {g->ranks[a], g->ranks[b]},
        {x->stack < 0 ? -1 : (int64_t)g->canonical[x->stack],
         y->stack < 0 ? -1 : (int64_t)g->canonical[y->stack]},
        {x->capture, y->capture},
        {x->reason, y->reason},
        {x->state, y->state},
        {x->truncated, y->truncated},
        {x->syscall.known ? x->syscall.number : -1, y->syscall.known ? y->syscall.number : -1},
        {x->wait.kind, y->wait.kind},
        {x->wait.owner_status, y->wait.owner_status},
        {x->wait.owner_tid, y->wait.owner_tid},
    };
    size_t i;

    for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1] ? -1 : 1;
    if (x->wait.address != y->wait.address)
        return x->wait.address < y->wait.address ? -1 : 1;
    return compare_texts(x->wchan, y->wchan);
}

static bool thread_before(const void *context, uint32_t a, uint32_t b)
{
    const struct grouping *g = context;
    int order = compare_threads(g, a, b);

    return order != 0 ? order < 0 : tid_before(g->snapshot->threads, a, b);
}

static bool group_before(const void *context, uint32_t a, uint32_t b)
{
    const struct grouping *g = context;
    const struct report_group *x = &g->groups[a], *y = &g->groups[b];

    if (x->rank != y->rank)
        return x->rank < y->rank;
    if (x->n_threads != y->n_threads) /* a crowd that waits matters more, a crowd that idles less */
        return (x->rank <= RANK_WAITER) == (x->n_threads > y->n_threads);
    return tid_before(g->snapshot->threads, x->threads[0], y->threads[0]);
}

static uint32_t cut_groups(struct grouping *g, const uint32_t *order)
{
    uint32_t i, first, n_groups = 0, n = g->snapshot->n_threads;

    for (first = 0; first < n; first = i) {
        for (i = first + 1; i < n && compare_threads(g, order[first], order[i]) == 0; i++)
            ;
        g->groups[n_groups++] = (struct report_group){&order[first], i - first, g->ranks[order[first]]};
    }
    return n_groups;
}

bool group_threads(const struct snapshot *snapshot, struct arena *arena, struct report_groups *ret_groups)
{
    struct grouping g = {.snapshot = snapshot};
    uint32_t i, n = snapshot->n_threads, n_groups;
    uint32_t *order = arena_array(arena, n, sizeof(*order)), *group_order;
    struct report_group *sorted;

    g.by_tid = arena_array(arena, n, sizeof(*g.by_tid));
    g.groups = arena_array(arena, n, sizeof(*g.groups));
    if (order == NULL || g.by_tid == NULL || g.groups == NULL)
        return false;
    for (i = 0; i < n; i++)
        order[i] = g.by_tid[i] = i;
    sort_indexes(g.by_tid, n, tid_before, snapshot->threads);
    if (!merge_stacks(&g, arena) || !rank_threads(&g, arena))
        return false;
    sort_indexes(order, n, thread_before, &g);
    n_groups = cut_groups(&g, order);
    group_order = arena_array(arena, n_groups, sizeof(*group_order));
    sorted = arena_array(arena, n_groups, sizeof(*sorted));
    if (group_order == NULL || sorted == NULL)
        return false;
    for (i = 0; i < n_groups; i++)
        group_order[i] = i;
    sort_indexes(group_order, n_groups, group_before, &g);
    for (i = 0; i < n_groups; i++)
        sorted[i] = g.groups[group_order[i]];
    *ret_groups = (struct report_groups){sorted, n_groups, g.ranks};
    return true;
}
