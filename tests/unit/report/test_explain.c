/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who waits for whom, and above all: when nothing may be claimed.
 */
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/report/explain.h"
#include "tests/unit/report/model.h"

TestSuite(explain, .timeout = 10);

#define LOCK_A 0x4000
#define LOCK_B 0x4040

static struct model *two_thread_cycle(void)
{
    struct model *m = model_new();

    model_waiter(m, 101, "one", LOCK_A, 102);
    model_waiter(m, 102, "two", LOCK_B, 101);
    return m;
}

static const char *verdict(const struct model *m)
{
    cr_assert(m->snapshot.n_verdicts > 0);
    return m->snapshot.verdicts[0].kind;
}

#define expect_verdict(m, kind) cr_expect(eq(str, (char *)verdict(m), (char *)(kind)))

Test(explain, two_threads_in_a_circle_are_a_deadlock)
{
    struct model *m = two_thread_cycle();
    const struct snapshot *s = &m->snapshot;

    model_explain(m);

    expect_verdict(m, "DEADLOCK");
    cr_assert(eq(str, (char *)s->verdicts[0].confidence, "proven"));
    cr_assert(eq(u32, s->n_cycles, 1));
    cr_assert(eq(u32, s->cycles[0].n_tids, 2));
    cr_assert(eq(i32, s->cycles[0].tids[0], 101));
    cr_assert(eq(i32, s->cycles[0].tids[1], 102));
    cr_assert(eq(u32, s->n_locks, 2));
    cr_assert(eq(i32, s->locks[0].owner_tid, 102));
    cr_assert(eq(i32, s->locks[0].waiters[0], 101));
}

Test(explain, a_circle_of_seven_with_two_behind_it_is_one_cycle)
{
    struct model *m = model_new();

    model_waiter(m, 90, "early", 0x5000, 103); /* found first, but outside the circle */
    for (int i = 0; i < 7; i++)
        model_waiter(m, 100 + i, "ring", 0x4000 + 0x40 * (uint64_t)i, 100 + (i + 1) % 7);
    model_waiter(m, 200, "late", 0x4000, 101);
    model_explain(m);

    expect_verdict(m, "DEADLOCK");
    cr_assert(eq(u32, m->snapshot.n_cycles, 1));
    cr_assert(eq(u32, m->snapshot.cycles[0].n_tids, 7));
    for (uint32_t i = 1; i < 7; i++)
        cr_expect(
            eq(i32, m->snapshot.cycles[0].tids[i], (m->snapshot.cycles[0].tids[i - 1] - 100 + 1) % 7 + 100));
}

Test(explain, two_separate_circles_are_two_deadlocks)
{
    struct model *m = two_thread_cycle();

    model_waiter(m, 103, "three", 0x4080, 104);
    model_waiter(m, 104, "four", 0x40c0, 103);
    model_explain(m);
    cr_assert(eq(u32, m->snapshot.n_cycles, 2));
    cr_assert(eq(u32, m->snapshot.n_verdicts, 2));
}

Test(explain, conclusions_replace_earlier_ones)
{
    struct model *m = two_thread_cycle();

    m->threads[0].still = false; /* as before the agent's proof */
    model_explain(m);
    expect_verdict(m, "UNKNOWN");
    m->threads[0].still = true;
    explain_conclude(&m->snapshot, &m->arena);
    expect_verdict(m, "DEADLOCK");
    cr_assert(eq(u32, m->snapshot.n_verdicts, 1));
}

Test(explain, a_thread_that_moved_proves_nothing)
{
    for (int moved = 0; moved < 2; moved++) {
        struct model *m = two_thread_cycle();

        m->threads[moved].still = false;
        model_explain(m);
        expect_verdict(m, "UNKNOWN");
        cr_expect(eq(u32, m->snapshot.n_cycles, 0));
        for (int i = 0; i < 2; i++) {
            cr_expect(eq(int, m->threads[i].wait.owner_status, OWNER_UNPROVEN));
            cr_expect(eq(i32, m->threads[i].wait.owner_tid, 0));
        }
        for (uint32_t i = 0; i < m->snapshot.n_locks; i++)
            cr_expect(eq(i32, m->snapshot.locks[i].owner_tid, 0));
    }
}

Test(explain, an_owner_that_is_no_thread_is_gone)
{
    struct model *m = model_new();

    model_waiter(m, 101, "one", LOCK_A, 4242);
    model_explain(m);
    cr_assert(eq(int, m->threads[0].wait.owner_status, OWNER_GONE));
    cr_assert(eq(i32, m->threads[0].wait.owner_tid, 4242));
    cr_assert(eq(i32, m->snapshot.locks[0].owner_tid, 0));
    expect_verdict(m, "UNKNOWN");
}

Test(explain, an_owner_that_has_ended_is_gone)
{
    struct model *m = model_new();

    model_waiter(m, 101, "one", LOCK_A, 102);
    model_thread(m, 102, "zombie", -1)->state = 'Z';
    model_explain(m);
    cr_assert(eq(int, m->threads[0].wait.owner_status, OWNER_GONE));
}

Test(explain, a_thread_that_owns_what_it_wants_is_a_self_deadlock)
{
    struct model *m = model_new();

    model_waiter(m, 101, "one", LOCK_A, 101);
    model_waiter(m, 102, "two", LOCK_A, 101);
    model_explain(m);
    expect_verdict(m, "SELF-DEADLOCK");
    cr_assert(eq(int, m->threads[0].wait.owner_status, OWNER_SELF));
    cr_assert(eq(int, m->threads[1].wait.owner_status, OWNER_LIVE));
    cr_assert(eq(i32, m->snapshot.locks[0].owner_tid, 101));
}

Test(explain, a_busy_lock_is_no_deadlock)
{
    struct model *m = model_new();

    for (int i = 0; i < 40; i++)
        model_waiter(m, 101 + i, "one", LOCK_A, 200);
    model_thread(m, 200, "owner", -1);
    model_explain(m);
    expect_verdict(m, "UNKNOWN");
    cr_assert(eq(u32, m->snapshot.n_locks, 1));
    cr_assert(eq(u32, m->snapshot.locks[0].n_waiters, 40));
    cr_assert(eq(i32, m->snapshot.locks[0].owner_tid, 200));
    cr_assert(m->threads[40].owns_waited_lock);
    cr_assert(explain_needs_proof(&m->snapshot, &m->threads[40]));
}

Test(explain, waiters_that_saw_different_owners_claim_none)
{
    struct model *m = two_thread_cycle();

    model_waiter(m, 103, "three", LOCK_A, 101); /* A changed hands between the captures of 101 and 103 */
    model_explain(m);
    expect_verdict(m, "UNKNOWN");
    cr_assert(eq(int, m->threads[0].wait.owner_status, OWNER_UNPROVEN));
    cr_assert(eq(int, m->threads[2].wait.owner_status, OWNER_UNPROVEN));
}

Test(explain, an_unlocked_or_unowned_lock_has_no_owner)
{
    struct model *m = model_new();

    model_waiter(m, 101, "one", LOCK_A, 102)->lock_word.word = 0;
    model_waiter(m, 102, "two", LOCK_B, 0);
    model_explain(m);
    cr_assert(eq(int, m->threads[0].wait.owner_status, OWNER_NONE));
    cr_assert(eq(int, m->threads[1].wait.owner_status, OWNER_NONE));
}

Test(explain, a_wait_with_a_time_out_is_only_likely)
{
    struct model *m = two_thread_cycle();

    m->threads[1].syscall.args[1] = 9 | 128 | 256; /* FUTEX_WAIT_BITSET, private, realtime: a timed lock */
    m->threads[1].syscall.args[3] = 0x7ff0;
    model_explain(m);
    expect_verdict(m, "DEADLOCK");
    cr_assert(eq(str, (char *)m->snapshot.verdicts[0].confidence, "likely"));
}

/* Each row breaks one premise of "thread 101 waits for a mutex". */
static void not_a_futex(struct model *m)
{
    m->threads[0].syscall.number = 0;
}
static void syscall_unknown(struct model *m)
{
    m->threads[0].syscall.known = false;
}
static void a_wake(struct model *m)
{
    m->threads[0].syscall.args[1] = 1 | 128;
}
static void no_lock_word(struct model *m)
{
    m->threads[0].lock_word.known = false;
}
static void not_a_mutex_kind(struct model *m)
{
    m->threads[0].lock_word.kind = 0x12345678;
}
static void not_stable(struct model *m)
{
    m->threads[0].stable = false;
}
static void no_stack(struct model *m)
{
    m->threads[0].stack = -1;
}
static void not_captured(struct model *m)
{
    m->threads[0].capture = CAPTURE_NONE;
}

static void replace_frame(struct model *m, int32_t module, const char *name, enum uw_trust trust)
{
    uint32_t frame = model_frame(m, module, name);

    m->frames[frame].trust = trust;
    m->threads[0].stack = model_stack(m, (int)m->stacks[0].frames[0], (int)frame, -1);
}

static void by_frame_pointer(struct model *m)
{
    replace_frame(m, MODEL_LIBC, "pthread_mutex_lock", UW_TRUST_FRAME_POINTER);
}
static void inferred(struct model *m)
{
    replace_frame(m, MODEL_LIBC, "pthread_mutex_lock", UW_TRUST_INFERRED);
}
static void another_library(struct model *m)
{
    replace_frame(m, MODEL_OTHER, "pthread_mutex_lock", UW_TRUST_CFI);
}
static void a_condition(struct model *m)
{
    replace_frame(m, MODEL_LIBC, "pthread_cond_wait", UW_TRUST_CFI);
}
static void longer_name(struct model *m)
{
    replace_frame(m, MODEL_LIBC, "pthread_mutex_lockdep", UW_TRUST_CFI);
}
static void shorter_name(struct model *m)
{
    replace_frame(m, MODEL_LIBC, "pthread_mutex", UW_TRUST_CFI);
}
static void unnamed(struct model *m)
{
    replace_frame(m, MODEL_LIBC, NULL, UW_TRUST_CFI);
}
static void lock_too_far_out(struct model *m)
{
    int inner = (int)m->stacks[0].frames[0], lock = (int)m->stacks[0].frames[1];

    m->threads[0].stack = model_stack(m, inner, inner, inner, inner, lock, -1);
}
static void own_code_innermost(struct model *m)
{
    int own = (int)m->stacks[0].frames[2], lock = (int)m->stacks[0].frames[1];

    m->threads[0].stack = model_stack(m, own, lock, -1);
}

Test(explain, near_misses_are_no_mutex_wait)
{
    static const struct {
        const char *name;
        void (*spoil)(struct model *m);
    } rows[] = {
        {"not a futex", not_a_futex},
        {"system call unknown", syscall_unknown},
        {"a wake", a_wake},
        {"no lock word", no_lock_word},
        {"kind bits unknown", not_a_mutex_kind},
        {"not stable", not_stable},
        {"no stack", no_stack},
        {"not captured", not_captured},
        {"frame pointer", by_frame_pointer},
        {"inferred", inferred},
        {"another library", another_library},
        {"a condition", a_condition},
        {"longer name", longer_name},
        {"shorter name", shorter_name},
        {"unnamed", unnamed},
        {"too far out", lock_too_far_out},
        {"own code innermost", own_code_innermost},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct model *m = two_thread_cycle();

        rows[i].spoil(m);
        model_explain(m);
        cr_expect(eq(int, m->threads[0].wait.kind, WAIT_NONE), "%s", rows[i].name);
        cr_expect(eq(str, (char *)verdict(m), "UNKNOWN"), "%s", rows[i].name);
        cr_expect(eq(u32, m->snapshot.n_cycles, 0), "%s", rows[i].name);
    }
}

Test(explain, every_kind_of_lock_function_is_recognised)
{
    static const char *const names[] = {
        "pthread_mutex_lock",        "__pthread_mutex_lock",       "___pthread_mutex_lock",
        "pthread_mutex_timedlock",   "___pthread_mutex_timedlock", "pthread_mutex_clocklock",
        "__pthread_mutex_clocklock", "__pthread_mutex_cond_lock",  "__pthread_mutex_lock_full",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct model *m = two_thread_cycle();

        replace_frame(m, MODEL_LIBC, names[i], UW_TRUST_CFI);
        model_explain(m);
        cr_expect(eq(str, (char *)verdict(m), "DEADLOCK"), "%s", names[i]);
    }
}

Test(explain, locks_are_called_by_what_contains_them)
{
    struct model *m = model_new();
    const struct snapshot *s = &m->snapshot;

    m->symbols[s->n_symbols].name = "queue_lock";
    m->addresses[m->snapshot.n_addresses++] =
        (struct report_address){LOCK_A, MODEL_APP, (int32_t)s->n_symbols, 8};
    m->snapshot.n_symbols++;
    model_waiter(m, 101, "one", LOCK_A, 200);
    model_waiter(m, 102, "two", LOCK_B, 200);
    model_waiter(m, 103, "three", 0x7fff00000010, 200);
    model_waiter(m, 104, "four", 0x555500000010, 200);
    m->threads[1].has_registers = true;
    m->threads[1].registers.stack_pointer = 0x7fff00000000;
    m->threads[1].stack_bytes = 0x100;
    model_thread(m, 200, "owner", -1);
    model_explain(m);

    cr_assert(eq(u32, s->n_locks, 4));
    cr_assert(eq(str, (char *)s->locks[0].name, "app:queue_lock+0x8"));
    cr_assert(eq(str, (char *)s->locks[1].name, "app:+0x3040"));
    cr_assert(s->locks[2].name == NULL, "heap or not: nothing says so");
    cr_assert(eq(str, (char *)s->locks[3].name, "stack of 102"));
}

Test(explain, threads_in_any_order_are_found)
{
    struct model *m = model_new();

    model_waiter(m, 102, "two", LOCK_B, 101); /* ids have wrapped */
    model_waiter(m, 101, "one", LOCK_A, 102);
    model_explain(m);
    expect_verdict(m, "DEADLOCK");
}

/* Whatever fits into the arena: never a wrong claim, never a crash. */
Test(explain, a_small_arena_gives_fewer_conclusions)
{
    struct model *m = two_thread_cycle();

    for (size_t size = 0; size < 16384; size += 16) {
        m->arena.size = size;
        m->arena.used = 0;
        model_explain(m);
        cr_expect(m->snapshot.n_cycles <= 1);
        cr_expect(m->snapshot.n_locks <= 2);
        for (uint32_t i = 0; i < m->snapshot.n_verdicts; i++)
            cr_expect(m->snapshot.verdicts[i].text != NULL);
    }
    expect_verdict(m, "DEADLOCK");
}

/* Lock words hold tids of the program's own pid namespace; /proc, and so the thread list, may be of another.
 */
Test(explain, tids_of_another_namespace_name_nobody)
{
    struct model *m = two_thread_cycle();

    model_waiter(m, 103, "three", 0x4080, 103);
    model_waiter(m, 104, "four", 0x40c0, 4242);
    m->snapshot.process.foreign_proc = true;
    model_explain(m);
    expect_verdict(m, "UNKNOWN");
    cr_assert(eq(u32, m->snapshot.n_cycles, 0));
    for (int i = 0; i < 4; i++) {
        cr_expect(eq(int, m->threads[i].wait.owner_status, OWNER_UNPROVEN), "thread %d", i);
        cr_expect(eq(i32, m->threads[i].wait.owner_tid, 0));
    }
}
