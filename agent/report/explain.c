/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who waits for whom; see explain.h for the two steps.
 *
 * Facts used: a thread in futex(2) gives the address it waits at; a proven frame of glibc's mutex lock
 * functions below it says that the address is a pthread_mutex_t, whose owner is the kernel tid 8 bytes into
 * it. That layout is ABI: statically initialised mutexes are compiled into programs.
 * Zone: pure.
 */
#include "agent/report/explain.h"
#include "agent/report/out.h"
#include "agent/report/sort.h"
#include "agent/report/strings.h"
#include "agent/report/syscalls.h"

/* The lock function is at most this deep: system call wrapper, slow path, full lock, public function. */
#define LOCK_FRAMES 4
/* More verdicts than anybody reads; the cycles are all listed. */
#define VERDICTS_MAX 64
#define NO_THREAD UINT32_MAX

static bool is_libc(const char *name)
{
    return text_after(name, "libc.so.6") || text_after(name, "libc-2.") ||
           text_after(name, "libpthread.so.0") || text_after(name, "libpthread-2.");
}

static bool is_mutex_lock(const char *name)
{
    /* The last two are internal: the re-locking inside a condition wait, and robust or PI mutexes. */
    static const char names[][32] = {
        "pthread_mutex_lock",      "pthread_mutex_timedlock", "pthread_mutex_clocklock",
        "pthread_mutex_cond_lock", "pthread_mutex_lock_full",
    };
    size_t i, underscores = 0;

    while (name[underscores] == '_' && underscores < 3)
        underscores++;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (text_equal(name + underscores, names[i]))
            return i < 3 || underscores >= 2;
    return false;
}

/*
 * Is this stack one of a thread inside a mutex lock function? Only proven frames, only the C library's own.
 */
static bool stack_locks_mutex(const struct snapshot *snapshot, const struct report_stack *stack)
{
    uint32_t i;

    for (i = 0; i < stack->n_frames && i < LOCK_FRAMES; i++) {
        const struct frame *frame = &snapshot->frames[stack->frames[i]];

        if (frame->trust != UW_TRUST_CONTEXT && frame->trust != UW_TRUST_CFI)
            return false;
        if (frame->module < 0 || !is_libc(snapshot->modules[frame->module].name))
            return false;
        if (frame->symbol >= 0 && is_mutex_lock(snapshot->symbols[frame->symbol].name))
            return true;
    }
    return false;
}

/* A wait with a time-out ends by itself. */
static bool waits_for_ever(const struct thread_sample *thread)
{
    return thread->syscall.args[3] == 0;
}

static uint32_t find_linear(const struct snapshot *snapshot, int32_t tid)
{
    uint32_t i;

    for (i = 0; i < snapshot->n_threads; i++)
        if (snapshot->threads[i].os_tid == tid)
            return i;
    return NO_THREAD;
}

/* The kernel lists threads in ascending order until its ids wrap, so the quick way is nearly always right. */
static uint32_t find_thread(const struct snapshot *snapshot, int32_t tid, bool sorted)
{
    uint32_t low = 0, high = snapshot->n_threads, middle;

    if (!sorted)
        return find_linear(snapshot, tid);
    while (low < high) {
        middle = low + (high - low) / 2;
        if (snapshot->threads[middle].os_tid < tid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < snapshot->n_threads && snapshot->threads[low].os_tid == tid ? low : NO_THREAD;
}

static bool threads_sorted(const struct snapshot *snapshot)
{
    uint32_t i;

    for (i = 1; i < snapshot->n_threads; i++)
        if (snapshot->threads[i - 1].os_tid >= snapshot->threads[i].os_tid)
            return false;
    return true;
}

static bool gone(const struct thread_sample *thread)
{
    return thread->state == 'Z' || thread->state == 'X' || thread->reason == REASON_ZOMBIE ||
           thread->reason == REASON_VANISHED;
}

static void unproven(struct thread_sample *thread)
{
    thread->wait.owner_status = OWNER_UNPROVEN;
    thread->wait.owner_tid = 0;
}

/*
 * What the lock word says about the owner, before anything is proven. Returns the
 * owner's index where it is live.
 */
static uint32_t read_owner(const struct snapshot *snapshot, struct thread_sample *thread, bool sorted)
{
    struct report_wait *wait = &thread->wait;
    const struct lock_word *word = &thread->lock_word;
    uint32_t owner;

    wait->owner_tid = 0;
    wait->owner_status = OWNER_NONE;
    if (word->word == 0 || word->owner <= 0)
        return NO_THREAD;
    if (snapshot->process
            .foreign_proc) { /* the owner is recorded under another number than the one in /proc */
        unproven(thread);
        return NO_THREAD;
    }
    wait->owner_tid = word->owner;
    wait->owner_status = OWNER_SELF;
    if (word->owner == thread->os_tid)
        return NO_THREAD;
    owner = find_thread(snapshot, word->owner, sorted);
    if (owner == NO_THREAD || gone(&snapshot->threads[owner])) {
        wait->owner_status = OWNER_GONE;
        return NO_THREAD;
    }
    wait->owner_status = OWNER_LIVE;
    return owner;
}

static bool waits_for_mutex(const struct snapshot *snapshot, const struct thread_sample *thread)
{
    return thread->capture != CAPTURE_NONE && thread->stable && thread->stack >= 0 &&
           syscall_waits_on_futex(&thread->syscall) && thread->lock_word.known &&
           (thread->lock_word.kind & ~MUTEX_KIND_BITS) == 0 &&
           stack_locks_mutex(snapshot, &snapshot->stacks[thread->stack]);
}

void explain_waits(struct snapshot *snapshot)
{
    bool sorted = threads_sorted(snapshot);
    uint32_t i, owner;

    for (i = 0; i < snapshot->n_threads; i++)
        snapshot->threads[i].owns_waited_lock = false;
    for (i = 0; i < snapshot->n_threads; i++) {
        struct thread_sample *thread = &snapshot->threads[i];

        thread->wait = (struct report_wait){WAIT_NONE, 0, 0, OWNER_NOT_APPLICABLE};
        if (!waits_for_mutex(snapshot, thread))
            continue;
        thread->wait.kind = WAIT_MUTEX;
        thread->wait.address = thread->syscall.args[0];
        owner = read_owner(snapshot, thread, sorted);
        if (owner != NO_THREAD)
            snapshot->threads[owner].owns_waited_lock = true;
    }
}

bool explain_needs_proof(const struct snapshot *snapshot, const struct thread_sample *thread)
{
    (void)snapshot;
    return thread->wait.kind != WAIT_NONE || thread->owns_waited_lock;
}

/* Working memory of one conclusion. */
struct conclusion {
    struct snapshot *snapshot;
    struct arena *arena;
    uint32_t *owner;   /* per thread: index of the proven owner of what it waits for, or NO_THREAD */
    uint32_t *waiters; /* indexes of threads with a proven wait, ascending by address, then tid */
    uint32_t n_waiters;
};

static bool waiter_before(const void *context, uint32_t a, uint32_t b)
{
    const struct thread_sample *threads = context, *x = &threads[a], *y = &threads[b];

    if (x->wait.address != y->wait.address)
        return x->wait.address < y->wait.address;
    return x->os_tid != y->os_tid ? x->os_tid < y->os_tid : a < b;
}

/* Keeps the waits that the stillness of waiter and owner proves; the others claim no owner. */
static void prove_waits(struct conclusion *c)
{
    struct snapshot *snapshot = c->snapshot;
    bool sorted = threads_sorted(snapshot);
    uint32_t i, owner;

    for (i = 0; i < snapshot->n_threads; i++) {
        struct thread_sample *thread = &snapshot->threads[i];

        c->owner[i] = NO_THREAD;
        if (thread->wait.kind != WAIT_MUTEX)
            continue;
        owner = read_owner(snapshot, thread, sorted);
        if (!thread->still || (owner != NO_THREAD && !snapshot->threads[owner].still)) {
            unproven(thread);
            owner = NO_THREAD;
        }
        if (!thread->still)
            continue;
        c->owner[i] = owner;
        c->waiters[c->n_waiters++] = i;
    }
    sort_indexes(c->waiters, c->n_waiters, waiter_before, snapshot->threads);
}

/* Waiters of one lock were looked at one after another; where they saw different owners, none is claimed. */
static void settle_owner(struct conclusion *c, uint32_t first, uint32_t n)
{
    struct thread_sample *threads = c->snapshot->threads;
    const struct report_wait *wait = &threads[c->waiters[first]].wait;
    int32_t tid = wait->owner_tid;
    bool agreed = true;
    uint32_t i;

    /* SELF and LIVE are the same owner seen by itself and by another. */
    for (i = first; i < first + n; i++)
        agreed = agreed && threads[c->waiters[i]].wait.owner_tid == tid;
    for (i = first; i < first + n && !agreed; i++) {
        unproven(&threads[c->waiters[i]]);
        c->owner[c->waiters[i]] = NO_THREAD;
    }
}

static char *finish_text(struct out *out)
{
    out_char(out, '\0');
    return out->lost == 0 ? out->buffer : NULL;
}

/* Text of limited length that is built in place. */
static bool start_text(struct conclusion *c, struct out *out, size_t size)
{
    *out = (struct out){.buffer = arena_alloc(c->arena, size), .size = size};
    return out->buffer != NULL;
}

static void out_thread(struct out *out, const struct thread_sample *thread)
{
    size_t n = 0;

    while (n < sizeof(thread->name) && thread->name[n] != '\0')
        n++;
    out_plain(out, thread->name, n);
    out_char(out, ' ');
    out_signed(out, thread->os_tid);
}

static const struct report_address *find_address(const struct snapshot *snapshot, uint64_t address)
{
    uint32_t i;

    for (i = 0; i < snapshot->n_addresses; i++)
        if (snapshot->addresses[i].address == address)
            return &snapshot->addresses[i];
    return NULL;
}

/* The thread in whose captured stack bytes the address lies, or NULL. */
static const struct thread_sample *stack_holder(const struct snapshot *snapshot, uint64_t address)
{
    uint32_t i;

    for (i = 0; i < snapshot->n_threads; i++) {
        const struct thread_sample *thread = &snapshot->threads[i];

        if (thread->has_registers && address >= thread->registers.stack_pointer &&
            address - thread->registers.stack_pointer < thread->stack_bytes)
            return thread;
    }
    return NULL;
}

static const char *lock_name(struct conclusion *c, uint64_t address)
{
    const struct snapshot *snapshot = c->snapshot;
    const struct report_address *known = find_address(snapshot, address);
    const struct report_module *module = NULL;
    const struct thread_sample *holder;
    struct out out;
    uint32_t i;

    for (i = 0; i < snapshot->n_modules && module == NULL; i++)
        if (address >= snapshot->modules[i].start && address < snapshot->modules[i].end)
            module = &snapshot->modules[i];
    holder = module == NULL ? stack_holder(snapshot, address) : NULL;
    if ((module == NULL && holder == NULL) || !start_text(c, &out, 256))
        return NULL;
    if (holder != NULL) {
        out_text(&out, "stack of ");
        out_signed(&out, holder->os_tid);
        return finish_text(&out);
    }
    out_text(&out, module->name);
    if (known != NULL && known->symbol >= 0) {
        out_char(&out, ':');
        out_text(&out, snapshot->symbols[known->symbol].name);
        if (known->symbol_offset != 0) {
            out_char(&out, '+');
            out_hex(&out, known->symbol_offset);
        }
    } else { /* the module is known, the variable is not: as an unnamed frame is printed */
        out_text(&out, ":+");
        out_hex(&out, address - module->base);
    }
    return finish_text(&out);
}

/* Naming looks through modules, threads and addresses once per lock; beyond this many it would be felt. */
#define NAMED_LOCKS_MAX 256

static bool add_lock(struct conclusion *c, uint32_t first, uint32_t n)
{
    const struct thread_sample *threads = c->snapshot->threads;
    const struct report_wait *wait = &threads[c->waiters[first]].wait;
    int32_t *tids = arena_array(c->arena, n, sizeof(*tids));
    struct report_lock *lock = &c->snapshot->locks[c->snapshot->n_locks];
    uint32_t i;

    if (tids == NULL)
        return false;
    for (i = 0; i < n; i++)
        tids[i] = threads[c->waiters[first + i]].os_tid;
    *lock = (struct report_lock){
        .address = wait->address, .kind = "pthread mutex", .waiters = tids, .n_waiters = n};
    if (wait->owner_status == OWNER_LIVE || wait->owner_status == OWNER_SELF)
        lock->owner_tid = wait->owner_tid;
    if (c->snapshot->n_locks < NAMED_LOCKS_MAX)
        lock->name = lock_name(c, wait->address);
    c->snapshot->n_locks++;
    return true;
}

static void find_locks(struct conclusion *c)
{
    const struct thread_sample *threads = c->snapshot->threads;
    uint32_t first, n;
    bool room;

    c->snapshot->locks = arena_array(c->arena, c->n_waiters, sizeof(*c->snapshot->locks));
    room = c->snapshot->locks != NULL;
    for (first = 0; first < c->n_waiters; first += n) {
        uint64_t address = threads[c->waiters[first]].wait.address;

        for (n = 1; first + n < c->n_waiters && threads[c->waiters[first + n]].wait.address == address; n++)
            ;
        settle_owner(c, first, n);
        room = room && add_lock(c, first, n);
    }
}

static struct report_verdict *add_verdict(struct conclusion *c)
{
    if (c->snapshot->n_verdicts == VERDICTS_MAX)
        return NULL;
    return &c->snapshot->verdicts[c->snapshot->n_verdicts++];
}

static void conclude_cycle(struct conclusion *c, const struct report_cycle *cycle, bool for_ever)
{
    struct report_verdict *verdict;
    const char *text = NULL;
    struct out out;

    if (start_text(c, &out, 128)) {
        out_unsigned(&out, cycle->n_tids);
        out_text(&out, cycle->n_tids == 2 ? " threads wait for each other's mutex"
                                          : " threads wait for one another's mutexes in a circle");
        if (!for_ever)
            out_text(&out, ", until a time-out ends it");
        text = finish_text(&out);
    }
    if (text == NULL || (verdict = add_verdict(c)) == NULL)
        return;
    *verdict = (struct report_verdict){"DEADLOCK", for_ever ? "proven" : "likely", text};
}

/*
 * Everybody waits for at most one other thread, so following the owners from start comes back to it, or ends.
 */
static void add_cycle(struct conclusion *c, uint32_t start)
{
    struct snapshot *snapshot = c->snapshot;
    struct report_cycle *cycle = &snapshot->cycles[snapshot->n_cycles];
    uint32_t at = start, n = 0;
    bool for_ever = true;
    int32_t *tids;

    do {
        n++;
        at = c->owner[at];
    } while (at != start);
    tids = arena_array(c->arena, n, sizeof(*tids));
    if (tids == NULL)
        return;
    for (n = 0, at = start; n == 0 || at != start; at = c->owner[at]) {
        for_ever = for_ever && waits_for_ever(&snapshot->threads[at]);
        tids[n++] = snapshot->threads[at].os_tid;
    }
    cycle->tids = tids;
    cycle->n_tids = n;
    snapshot->n_cycles++;
    conclude_cycle(c, cycle, for_ever);
}

static void find_cycles(struct conclusion *c)
{
    struct snapshot *snapshot = c->snapshot;
    uint32_t *seen = arena_array(c->arena, snapshot->n_threads, sizeof(*seen)), i, at;

    /* A cycle has two members or more. */
    snapshot->cycles = arena_array(c->arena, c->n_waiters / 2 + 1, sizeof(*snapshot->cycles));
    if (seen == NULL || snapshot->cycles == NULL)
        return;
    for (i = 0; i < snapshot->n_threads; i++)
        seen[i] = NO_THREAD;
    for (i = 0; i < snapshot->n_threads; i++) {
        for (at = i; c->owner[at] != NO_THREAD && seen[at] == NO_THREAD; at = c->owner[at])
            seen[at] = i;
        if (c->owner[at] != NO_THREAD && seen[at] == i)
            add_cycle(c, at);
        /* The end of a chain is marked too, but never starts a walk of its own that matters. */
    }
}

static void find_self_deadlocks(struct conclusion *c)
{
    const struct snapshot *snapshot = c->snapshot;
    uint32_t i;

    for (i = 0; i < c->n_waiters; i++) {
        const struct thread_sample *thread = &snapshot->threads[c->waiters[i]];
        bool for_ever = waits_for_ever(thread);
        struct report_verdict *verdict;
        const char *text = NULL;
        struct out out;

        if (thread->wait.owner_status != OWNER_SELF)
            continue;
        if (start_text(c, &out, 160)) {
            out_thread(&out, thread);
            out_text(&out, " waits for a mutex that it holds itself");
            if (!for_ever)
                out_text(&out, ", until a time-out ends it");
            text = finish_text(&out);
        }
        if (text == NULL || (verdict = add_verdict(c)) == NULL)
            return;
        *verdict = (struct report_verdict){"SELF-DEADLOCK", for_ever ? "proven" : "likely", text};
    }
}

static const char *unknown_text(const struct conclusion *c)
{
    const struct snapshot *snapshot = c->snapshot;

    if (snapshot->stats.threads_captured == 0)
        return "no thread was captured";
    if (!snapshot->captured)
        return "the capture is not whole";
    if (!snapshot->frames_resolved)
        return "names were not looked up, so no lock was recognised";
    if (c->n_waiters > 0)
        return "threads wait for locks, but no circle of them is proven";
    return "no thread is known to wait for a lock; what each does is below";
}

void explain_conclude(struct snapshot *snapshot, struct arena *arena)
{
    struct conclusion c = {.snapshot = snapshot, .arena = arena};
    struct report_verdict *verdict;

    snapshot->locks = NULL;
    snapshot->cycles = NULL;
    snapshot->n_locks = snapshot->n_cycles = snapshot->n_verdicts = 0;
    snapshot->verdicts = arena_array(arena, VERDICTS_MAX + 1, sizeof(*snapshot->verdicts));
    if (snapshot->verdicts == NULL)
        return;
    c.owner = arena_array(arena, snapshot->n_threads, sizeof(*c.owner));
    c.waiters = arena_array(arena, snapshot->n_threads, sizeof(*c.waiters));
    if (c.owner != NULL && c.waiters != NULL) {
        prove_waits(&c);
        find_locks(&c);
        find_cycles(&c);
        find_self_deadlocks(&c);
    }
    if (snapshot->n_verdicts > 0)
        return;
    verdict = add_verdict(&c);
    *verdict = (struct report_verdict){"UNKNOWN", "none", unknown_text(&c)};
}
