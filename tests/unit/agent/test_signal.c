/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/backends/signal.c: real signals to running threads of this process, and everybody who must not get
 * one. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/backends/signal_handler.h"
#include "agent/backends/slot.h"

TestSuite(signal_backend, .timeout = 20);

#define MARKER UINT64_C(0x6d61726b6d61726b)
#define MADV_GUARD_INSTALL_ 102 /* linux/mman.h since 6.13 */

static __attribute__((constructor)) void pick_signal(void)
{
    signal_backend_init(0);
}

static void expect_dropped(struct worker *worker, enum capture_reason reason)
{
    struct fixture *fixture = fixture_new();
    struct thread_sample *sample;

    worker_wait_running(worker);
    fixture_capture(fixture);
    sample = fixture_sample(fixture, worker->tid);
    cr_expect(eq(int, sample->capture, CAPTURE_NONE));
    cr_expect(eq(int, sample->reason, reason));
    cr_expect(eq(i32, sample->stack, -1));
}

/* Bodies that say where they are do so when they have arrived. */
static void wait_arrived(const struct worker *worker)
{
    while (!worker->sp)
        usleep(200);
}

static struct thread_sample *expect_captured(struct fixture *fixture, struct worker *worker)
{
    struct thread_sample *sample;

    worker_wait_running(worker);
    fixture_capture(fixture);
    sample = fixture_sample(fixture, worker->tid);
    /* A machine with dozens of busy processes may not have let it run for 100 ms. */
    for (unsigned i = 0; i < 3 && sample->reason == REASON_NO_ANSWER; i++) {
        usleep(1010000);
        fixture_forget(fixture);
        fixture->session.deadline = sys_monotonic_nanos() + UINT64_C(4000000000);
        fixture_capture(fixture);
        sample = fixture_sample(fixture, worker->tid);
    }
    cr_assert(eq(int, sample->capture, CAPTURE_SIGNAL), "reason %d", sample->reason);
    return sample;
}

/* Spins with a known value in every callee-saved register but rsp and rbp. */
static __attribute__((noinline)) void spin_marked(struct worker *worker)
{
    __asm__ volatile("lea 1f(%%rip), %%rax\n\t"
                     "mov %%rax, %[pc]\n\t"
                     "lea 2f(%%rip), %%rax\n\t"
                     "mov %%rax, %[end]\n\t"
                     "mov $0x1111, %%rbx\n\t"
                     "mov $0x2222, %%r12\n\t"
                     "mov $0x3333, %%r13\n\t"
                     "mov $0x4444, %%r14\n\t"
                     "mov $0x5555, %%r15\n\t"
                     "mov %%rsp, %[sp]\n" /* last: who sees it knows that the rest is there */
                     "1: pause\n\t"
                     "cmpb $0, (%%rcx)\n\t"
                     "je 1b\n"
                     "2:"
                     : [pc] "=m"(worker->pc), [end] "=m"(worker->pc_end), [sp] "=m"(worker->sp)
                     : "c"(&worker->stop)
                     : "rax", "rbx", "r12", "r13", "r14", "r15", "memory");
}

static void spin_with_marker(struct worker *worker)
{
    volatile uint64_t marker[4] = {MARKER, 1, 2, 3};

    spin_marked(worker);
    (void)marker[0];
}

static bool holds(const struct taken *taken, unsigned window, uint64_t value)
{
    for (uint64_t at = 0; at + 8 <= taken->raw.window[window].size; at += 8)
        if (!memcmp(taken->bytes[window] + at, &value, 8))
            return true;
    return false;
}

Test(signal_backend, running_thread_exactly)
{
    struct worker worker = {.body = spin_with_marker};
    struct fixture *fixture;
    struct thread_sample *sample;
    struct taken *taken;
    const uint64_t *value;
    uint64_t head;
    size_t size;

    worker_start(&worker);
    wait_arrived(&worker);
    fixture = fixture_new();
    sample = expect_captured(fixture, &worker);
    taken = fixture_taken(fixture, worker.tid);
    value = taken->raw.regs.value;

    cr_expect(eq(int, sample->reason, REASON_NONE));
    cr_expect(eq(chr, sample->state, 'R'));
    cr_expect(sample->stable && !sample->truncated && sample->has_registers);
    cr_expect(sample->registers.frame_pointer_known);
    cr_expect(taken->raw.exact && !taken->raw.live && !taken->raw.truncated);
    cr_expect(taken->raw.regs.pc >= worker.pc && taken->raw.regs.pc < worker.pc_end);
    cr_expect(eq(u64, taken->raw.regs.valid, 0xffff));
    cr_expect(eq(u64, value[3], 0x1111));
    cr_expect(eq(u64, value[7], worker.sp));
    for (unsigned i = 12; i < 16; i++)
        cr_expect(eq(u64, value[i], 0x1111u * (i - 10)), "r%u", i);
    cr_assert(sys_get_robust_list(worker.tid, &head, &size) == 0);
    cr_expect(eq(u64, taken->raw.window[0].base, (worker.sp - 128) & ~UINT64_C(7)));
    cr_expect(eq(u64, taken->raw.window[0].base + taken->raw.window[0].size, head & ~UINT64_C(7)));
    cr_expect(holds(taken, 0, MARKER));
    cr_expect(eq(u64, sample->stack_bytes, taken->raw.window[0].size));
    cr_expect(eq(u32, fixture->stats.signals_sent, 1));
    cr_expect(fixture->stats.pause_nanos > 0 && fixture->stats.pause_nanos < 100000000);
    cr_expect(eq(u64, fixture->stats.pause_nanos_max, fixture->stats.pause_nanos));
    cr_expect(not(capture_is_still(&fixture->session, sample)));
    worker_stop(&worker);
    cr_expect(worker.returned, "and it runs on");
}

static _Atomic bool go;

static void spin_when_told(struct worker *worker)
{
    while (!go)
        usleep(2000);
    spin_with_marker(worker);
}

Test(signal_backend, more_threads_than_slots)
{
    static struct worker workers[SLOT_COUNT + 40];
    unsigned captured = 0;
    struct fixture *fixture;

    for (size_t i = 0; i < N_ELEMENTS(workers); i++) {
        workers[i] = (struct worker){.body = spin_when_told, .stack_size = 131072};
        worker_start(&workers[i]);
    }
    fixture = fixture_new();
    fixture->session.deadline += UINT64_C(8000000000);
    go = true;
    for (size_t i = 0; i < N_ELEMENTS(workers); i++)
        while (!workers[i].sp)
            usleep(1000);
    fixture_capture(fixture);
    for (size_t i = 0; i < N_ELEMENTS(workers); i++) {
        struct thread_sample *sample = fixture_sample(fixture, workers[i].tid);

        if (sample->capture == CAPTURE_NONE) {
            /* a crowded machine has not let it run, before the signal or after it */
            cr_expect(sample->reason == REASON_NO_ANSWER || sample->reason == REASON_NOT_RUN, "reason %d",
                      sample->reason);
            continue;
        }
        captured++;
        /* each slot's bytes belong to its own thread */
        cr_expect(eq(u64, fixture_taken(fixture, workers[i].tid)->raw.regs.value[7], workers[i].sp));
        cr_expect(holds(fixture_taken(fixture, workers[i].tid), 0, MARKER));
    }
    cr_expect(captured > N_ELEMENTS(workers) / 2, "%u", captured);
    cr_expect(le(u32, fixture->stats.signals_sent, N_ELEMENTS(workers)));
    for (size_t i = 0; i < N_ELEMENTS(workers); i++)
        workers[i].stop = true;
    for (size_t i = 0; i < N_ELEMENTS(workers); i++)
        pthread_join(workers[i].thread, NULL);
}

static uint64_t block_set;

static void spin_blocking(struct worker *worker)
{
    sys_sigprocmask(SIG_BLOCK, &block_set, NULL);
    worker_spin(worker);
}

static unsigned sent;

static bool count_signals(long number, const long args[6], long *ret_result)
{
    sent += number == SYS_rt_tgsigqueueinfo || number == SYS_timer_settime;
    return false;
}

/* As a kernel that has no timer of another thread's processor time: then a signal is queued. */
static bool refuse_timer(long number, long *ret_result)
{
    *ret_result = -EINVAL;
    return number == SYS_timer_create;
}

/* Cases S32 b and S44 b: said at once, and never signalled. */
Test(signal_backend, blocked_signals)
{
    static const struct {
        uint64_t set;
        enum capture_reason reason;
    } rows[] = {
        {~UINT64_C(0), REASON_SIGNAL_BLOCKED},
        {UINT64_C(1) << 63 | UINT64_C(1) << 62 | UINT64_C(1) << 61, REASON_SIGNAL_BLOCKED},
        {1 << (SIGSEGV - 1), REASON_FAULT_HANDLER},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct worker worker = {.body = spin_blocking};

        block_set = rows[i].set;
        worker_start(&worker);
        sys_hook = count_signals;
        expect_dropped(&worker, rows[i].reason);
        sys_hook = NULL;
        cr_expect(eq(u32, sent, 0));
        worker_stop(&worker);
    }
}

/* Case S45: facts.md 4, a signal frame may kill there. */
Test(signal_backend, small_stacks)
{
    struct worker worker = {.body = worker_spin, .stack_size = 16384};

    worker_start(&worker);
    sys_hook = count_signals;
    expect_dropped(&worker, REASON_SMALL_STACK);
    sys_hook = NULL;
    cr_expect(eq(u32, sent, 0));
    worker_stop(&worker);
}

static void spin_on_other_stack(struct worker *worker)
{
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "mov %[stack], %%rsp\n\t"
                     "mov %%rsp, %[sp]\n"
                     "1: pause\n\t"
                     "cmpb $0, (%%rcx)\n\t"
                     "je 1b\n\t"
                     "mov %%rbx, %%rsp"
                     : [sp] "=m"(worker->sp)
                     : [stack] "r"(worker->data), "c"(&worker->stop)
                     : "rax", "rbx", "memory");
}

Test(signal_backend, other_stacks_registers_only)
{
    uint8_t *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct worker worker = {.body = spin_on_other_stack, .data = stack + 65536};
    struct fixture *fixture;
    struct thread_sample *sample;
    struct taken *taken;

    worker_start(&worker);
    wait_arrived(&worker);
    fixture = fixture_new();
    sample = expect_captured(fixture, &worker);
    taken = fixture_taken(fixture, worker.tid);

    cr_expect(eq(int, sample->reason, REASON_FOREIGN_STACK));
    cr_expect(sample->truncated);
    cr_expect(eq(u64, sample->stack_bytes, 0));
    cr_expect(eq(u64, taken->raw.regs.value[7], worker.sp));
    cr_expect(eq(sz, taken->raw.window[0].size, 0ul));
    worker_stop(&worker);
}

/*
 * A coroutine's stack and the thread's own in one mapping, with an invisible guard between: reading from the
 * stack pointer to the top of the own stack would kill the program.
 */
Test(signal_backend, invisible_guards_are_not_run_into)
{
    size_t size = 512 * 1024;
    uint8_t *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct worker worker = {.body = spin_on_other_stack,
                            .data = area + 65536,
                            .stack = area + 131072,
                            .stack_size = size - 131072};
    struct fixture *fixture;
    struct thread_sample *sample;

    /* Everything present: only the guard itself tells where the own stack ends. */
    memset(area, 1, size);
    if (madvise(area + 131072 - 4096, 4096, MADV_GUARD_INSTALL_) < 0)
        cr_skip_test("no invisible guards before 6.13");
    worker_start(&worker);
    wait_arrived(&worker);
    fixture = fixture_new();
    sample = expect_captured(fixture, &worker);

    cr_expect(eq(int, sample->reason, REASON_FOREIGN_STACK));
    cr_expect(eq(u64, sample->stack_bytes, 0));
    worker_stop(&worker);
}

static __attribute__((noinline)) void descend(struct worker *worker, unsigned n)
{
    volatile char room[1024];

    room[0] = (char)n;
    if (n)
        descend(worker, n - 1);
    else
        spin_marked(worker);
    room[1] = room[0]; /* no tail call */
}

static void spin_deep(struct worker *worker)
{
    volatile uint64_t marker[4] = {MARKER, 1, 2, 3};

    descend(worker, 100);
    (void)marker[0];
}

Test(signal_backend, long_stacks_keep_both_ends)
{
    struct worker worker = {.body = spin_deep};
    struct fixture *fixture;
    struct thread_sample *sample;
    struct taken *taken;
    uint64_t head;
    size_t size;

    worker_start(&worker);
    wait_arrived(&worker);
    fixture = fixture_new();
    fixture->session.max_stack = 16384;
    sample = expect_captured(fixture, &worker);
    taken = fixture_taken(fixture, worker.tid);
    sys_get_robust_list(worker.tid, &head, &size);

    cr_expect(sample->truncated && taken->raw.truncated);
    cr_expect(eq(u64, sample->stack_bytes, 16384));
    cr_expect(eq(sz, taken->raw.window[0].size, 12288ul));
    cr_expect(eq(u64, taken->raw.window[1].base + taken->raw.window[1].size, head & ~UINT64_C(7)));
    cr_expect(same_as_memory(taken->bytes[0], taken->raw.window[0].base, 12288));
    cr_expect(holds(taken, 1, MARKER), "who called it first is in the outermost part");
    worker_stop(&worker);
}

static void spin_with_much(struct worker *worker)
{
    volatile uint8_t room[600 * 1024];

    for (size_t i = 0; i < sizeof room; i += 4096)
        room[i] = 1;
    spin_marked(worker);
    room[1] = room[0]; /* no tail call */
}

/* PROBE_MAX_STACK holds for running threads, too: larger stacks, fewer of them at a time. */
Test(signal_backend, as_much_as_was_asked_for_of_any_number_of_threads)
{
    enum { THREADS = 6 };
    struct worker workers[THREADS] = {0};
    struct fixture *fixture;

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.body = spin_with_much, .stack_size = 1 << 20};
        worker_start(&workers[i]);
        wait_arrived(&workers[i]);
    }
    fixture = fixture_new();
    fixture->session.max_stack = 8 << 20; /* four fit a batch */
    fixture_capture(fixture);
    for (unsigned i = 0; i < THREADS; i++) {
        struct thread_sample *sample = fixture_sample(fixture, workers[i].tid);

        cr_expect(eq(int, sample->capture, CAPTURE_SIGNAL), "reason %d", sample->reason);
        cr_expect(not(sample->truncated));
        cr_expect(gt(u64, sample->stack_bytes, 600 * 1024));
        worker_stop(&workers[i]);
    }
}

/* Cases S07, S08 */
Test(signal_backend, not_twice_in_a_second)
{
    struct worker worker = {.body = worker_spin};
    struct fixture *fixture;

    worker_start(&worker);
    fixture = fixture_new();
    expect_captured(fixture, &worker);
    sys_hook = count_signals;
    expect_dropped(&worker, REASON_SIGNALLED_RECENTLY);
    sys_hook = NULL;
    cr_expect(eq(u32, sent, 0));
    usleep(1010000);
    expect_captured(fixture, &worker);
    worker_stop(&worker);
}

Test(signal_backend, passive_mode_signals_nobody)
{
    struct worker worker = {.body = worker_spin};
    struct fixture *fixture;

    worker_start(&worker);
    fixture = fixture_new();
    fixture->session.mode = CAPTURE_MODE_PASSIVE;
    sys_hook = count_signals;
    fixture_capture(fixture);
    sys_hook = NULL;
    cr_expect(eq(int, fixture_sample(fixture, worker.tid)->reason, REASON_PASSIVE_ONLY));
    cr_expect(eq(u32, sent, 0));
    worker_stop(&worker);
}

/* Whose signal it is */
static _Atomic unsigned others;

static void other_handler(int signal)
{
    others++;
}

static void other_handler_info(int signal, siginfo_t *info, void *context)
{
    others++;
}

static void handle(int signal, bool info)
{
    struct sigaction action = {.sa_flags = info ? SA_SIGINFO : 0};

    if (info)
        action.sa_sigaction = other_handler_info;
    else
        action.sa_handler = other_handler;
    sigaction(signal, &action, NULL);
}

static void *handler_of(int signal)
{
    struct sys_sigaction action = {0};

    sys_sigaction(signal, NULL, &action);
    return action.handler;
}

/* Refusals of the kernel */
static long queue_result;
static struct context_siginfo lost;

static bool lose_signals(long number, const long args[6], long *ret_result)
{
    if (refuse_timer(number, ret_result))
        return true;
    if (number != SYS_rt_tgsigqueueinfo)
        return false;
    memcpy(&lost, (void *)args[3], sizeof(lost));
    *ret_result = queue_result;
    return true;
}

Test(signal_backend, refused_signals)
{
    static const struct {
        long result;
        enum capture_reason reason;
    } rows[] = {{-EAGAIN, REASON_SIGNAL_REFUSED}, {-EPERM, REASON_SIGNAL_REFUSED}, {-ESRCH, REASON_VANISHED}};
    struct worker worker = {.body = worker_spin};

    worker_start(&worker);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        queue_result = rows[i].result;
        sys_hook = lose_signals;
        expect_dropped(&worker, rows[i].reason);
        sys_hook = NULL;
    }
    worker_stop(&worker);
}

static long status_fd = -1;

static bool say_pending(long number, const long args[6], long *ret_result)
{
    static const char text[] = "SigPnd:\tffffffffffffffff\nSigBlk:\t0\nSigCgt:\t0\n"
                               "voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n";

    sent += number == SYS_rt_tgsigqueueinfo || number == SYS_timer_settime;
    if (number == SYS_openat && path_ends(args[1], "/status")) {
        *ret_result = status_fd = syscall(SYS_openat, args[0], args[1], args[2], args[3]);
        return true;
    }
    if (number != SYS_pread64 || args[0] != status_fd)
        return false;
    memcpy((char *)args[1], text, sizeof(text) - 1);
    *ret_result = sizeof(text) - 1;
    return true;
}

/* A thread that has not taken the last signal yet gets no second one to keep. */
Test(signal_backend, pending_signals_do_not_pile_up)
{
    struct worker worker = {.body = worker_spin};

    worker_start(&worker);
    sys_hook = say_pending;
    expect_dropped(&worker, REASON_NO_ANSWER);
    sys_hook = NULL;
    cr_expect(eq(u32, sent, 0));
    worker_stop(&worker);
}

static bool refuse_sigaction(long number, const long args[6], long *ret_result)
{
    *ret_result = -EINVAL;
    return number == SYS_rt_sigaction && args[1];
}

/* Case S41: emulators refuse to install some signals, or all. */
Test(signal_backend, refused_handlers)
{
    struct worker worker = {.body = worker_spin};

    worker_start(&worker);
    sys_hook = refuse_sigaction;
    expect_dropped(&worker, REASON_NO_SIGNAL);
    sys_hook = NULL;
    expect_captured(fixture_new(), &worker);
    cr_expect(handler_of(63) == (void *)libprobe_capture_signal, "the next number");
    worker_stop(&worker);
}

/* Case S36: the answer comes when nobody waits for it any more. */
Test(signal_backend, late_answers_are_ignored)
{
    struct worker worker = {.body = worker_spin};
    struct context_frame frame = {.rax = 1};
    uint64_t start = sys_monotonic_nanos(), before;
    struct slot *slot;

    worker_start(&worker);
    queue_result = 0;
    sys_hook = lose_signals;
    expect_dropped(&worker, REASON_NO_ANSWER);
    sys_hook = NULL;
    cr_expect(gt(u64, sys_monotonic_nanos() - start, 90000000));
    cr_expect(lt(u64, sys_monotonic_nanos() - start, 2000000000));

    slot = &libprobe_slots[lost.value % SLOT_COUNT];
    before = slot->word;
    cr_expect(eq(u64, before & 3, SLOT_FREE));
    libprobe_capture_signal(lost.signal, &lost, &frame);
    cr_expect(eq(u64, slot->word, before));
    worker_stop(&worker);
}

static bool stick(long number, const long args[6], long *ret_result)
{
    if (refuse_timer(number, ret_result))
        return true;
    if (number != SYS_rt_tgsigqueueinfo)
        return false;
    memcpy(&lost, (void *)args[3], sizeof(lost));
    /* as a handler that is stopped right after claiming */
    libprobe_slots[lost.value % SLOT_COUNT].word += SLOT_BUSY - SLOT_ARMED;
    *ret_result = 0;
    return true;
}

Test(signal_backend, stuck_slots_stay_out_of_use)
{
    struct worker first = {.body = worker_spin}, second = {.body = worker_spin};
    struct slot *stuck;
    uint64_t word;
    struct fixture *fixture;

    worker_start(&first);
    sys_hook = stick;
    expect_dropped(&first, REASON_NO_ANSWER);
    sys_hook = NULL;
    stuck = &libprobe_slots[lost.value % SLOT_COUNT];
    word = stuck->word;
    cr_expect(eq(u64, word & 3, SLOT_BUSY));
    worker_stop(&first);

    worker_start(&second);
    fixture = fixture_new();
    expect_captured(fixture, &second);
    cr_expect(eq(u64, stuck->word, word), "not touched");
    /* it goes on: from now on the slot can be used again */
    stuck->word += SLOT_FULL - SLOT_BUSY;
    usleep(1010000);
    expect_captured(fixture, &second);
    cr_expect(ne(u64, stuck->word, word + 1));
    worker_stop(&second);
}

Test(signal_backend, all_slots_stuck)
{
    struct worker first = {.body = worker_spin}, worker = {.body = worker_spin};

    worker_start(&first);
    expect_captured(fixture_new(), &first); /* the slots are in use from the first signal on */
    worker_stop(&first);
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        libprobe_slots[i].word = slot_word(libprobe_slots[i].word >> 2, SLOT_BUSY);
    worker_start(&worker);
    expect_dropped(&worker, REASON_NO_ANSWER);
    worker_stop(&worker);
}

Test(signal_backend, installed_only_when_needed_and_only_there)
{
    struct worker worker = {.body = worker_spin};
    struct fixture *fixture;
    struct sys_sigaction action = {0};

    for (int i = 1; i <= 64; i++)
        cr_expect(handler_of(i) != (void *)libprobe_capture_signal);
    fixture = fixture_new();
    fixture_capture(fixture); /* nobody runs */
    for (int i = 1; i <= 64; i++)
        cr_expect(handler_of(i) != (void *)libprobe_capture_signal);
    worker_start(&worker);
    expect_captured(fixture, &worker);
    sys_sigaction(64, NULL, &action);
    cr_expect(action.handler == (void *)libprobe_capture_signal);
    cr_expect(
        eq(u64, action.flags & (SA_ONSTACK | SA_RESTART | SA_SIGINFO), SA_ONSTACK | SA_RESTART | SA_SIGINFO));
    for (int i = 1; i < 64; i++)
        cr_expect(handler_of(i) != (void *)libprobe_capture_signal);
    worker_stop(&worker);
}

Test(signal_backend, requested_number_that_the_program_took)
{
    struct worker worker = {.body = worker_spin};

    signal_backend_init(SIGUSR2);
    handle(SIGUSR2, false);
    worker_start(&worker);
    expect_dropped(&worker, REASON_SIGNAL_TAKEN);
    cr_expect(eq(u32, others, 0));
    cr_expect(handler_of(SIGUSR2) == (void *)other_handler);
    worker_stop(&worker);
}

Test(signal_backend, requested_number_that_is_free)
{
    struct worker worker = {.body = worker_spin};

    signal_backend_init(SIGUSR2);
    worker_start(&worker);
    expect_captured(fixture_new(), &worker);
    cr_expect(handler_of(SIGUSR2) == (void *)libprobe_capture_signal);
    worker_stop(&worker);
}

/* Case S30: the program has all but one, then all. */
Test(signal_backend, the_one_free_number_or_none)
{
    struct worker first = {.body = worker_spin}, second = {.body = worker_spin};

    for (int i = SIGRTMIN; i <= 64; i++)
        if (i != 41)
            handle(i, i % 2);
    signal_backend_init(0);
    worker_start(&first);
    expect_captured(fixture_new(), &first);
    cr_expect(handler_of(41) == (void *)libprobe_capture_signal);
    worker_stop(&first);

    handle(41, false);
    worker_start(&second);
    expect_dropped(&second, REASON_SIGNAL_TAKEN);
    cr_expect(eq(u32, others, 0));
    signal_backend_init(0);
    expect_dropped(&second, REASON_NO_SIGNAL);
    worker_stop(&second);
}

/* The program starts to use the number that we had: we go to another. */
Test(signal_backend, gives_way_to_the_program)
{
    struct worker first = {.body = worker_spin}, second = {.body = worker_spin};

    worker_start(&first);
    expect_captured(fixture_new(), &first);
    worker_stop(&first);
    handle(64, true);
    worker_start(&second);
    expect_captured(fixture_new(), &second);
    cr_expect(handler_of(64) == (void *)other_handler_info);
    cr_expect(handler_of(63) == (void *)libprobe_capture_signal);
    cr_expect(eq(u32, others, 0));
    worker_stop(&second);
}

/* Case S27: node sets every signal to its default at start; sending it then would kill. */
Test(signal_backend, reset_to_default_is_installed_again)
{
    struct worker first = {.body = worker_spin}, second = {.body = worker_spin};

    worker_start(&first);
    expect_captured(fixture_new(), &first);
    worker_stop(&first);
    signal(64, SIG_DFL);
    worker_start(&second);
    expect_captured(fixture_new(), &second);
    worker_stop(&second);
}

/* Case S29 and facts.md 9: Go takes all signals; ours is taken back, with SA_ONSTACK. */
Test(signal_backend, a_runtime_that_took_everything)
{
    struct worker first = {.body = worker_spin}, second = {.body = worker_spin};
    struct sys_sigaction action = {0};

    worker_start(&first);
    expect_captured(fixture_new(), &first);
    worker_stop(&first);
    for (int i = 1; i <= 64; i++)
        if (i != SIGKILL && i != SIGSTOP && i != 32 && i != 33)
            handle(i, true);
    worker_start(&second);
    expect_captured(fixture_new(), &second);
    sys_sigaction(64, NULL, &action);
    cr_expect(action.handler == (void *)libprobe_capture_signal);
    cr_expect(ne(u64, action.flags & SA_ONSTACK, 0));
    cr_expect(eq(u32, others, 0));
    for (int i = 1; i < 64; i++)
        if (i != SIGKILL && i != SIGSTOP && i != 32 && i != 33)
            cr_expect(handler_of(i) == (void *)other_handler_info, "%d", i);
    worker_stop(&second);
}

/* The kernel is made to say that a sleeping thread runs. */
static int syscall_fd = -1;
static int32_t told;
static unsigned lies, looks;

static bool say_running(long number, const long args[6], long *ret_result)
{
    if (refuse_timer(number, ret_result))
        return true;
    if (number == SYS_openat && path_ends(args[1], "/syscall") &&
        strtol((const char *)args[1], NULL, 10) == told) {
        *ret_result = syscall_fd = (int)syscall(SYS_openat, args[0], args[1], args[2], args[3]);
        return true;
    }
    if (number == SYS_close && (int)args[0] == syscall_fd)
        syscall_fd = -1;
    if (number == SYS_pread64 && (int)args[0] == syscall_fd && looks++ < lies) {
        memcpy((char *)args[1], "running\n", 8);
        *ret_result = 8;
        return true;
    }
    /* ... and that it uses its processor: a quarter of a millisecond since it was last asked. */
    if (number == SYS_clock_gettime && (int)args[0] == (int)(~(unsigned)told << 3 | 6)) {
        static long used;

        used += 250000;
        *(struct timespec *)args[1] = (struct timespec){.tv_nsec = used};
        *ret_result = 0;
        return true;
    }
    return false;
}

static int pipe_ends[2], sockets[2];
static sem_t semaphore;

static struct timespec in_an_hour(clockid_t clock)
{
    struct timespec when;

    clock_gettime(clock, &when);
    when.tv_sec += 3600;
    return when;
}

static void in_poll(struct worker *worker)
{
    worker->result = poll(&(struct pollfd){.fd = pipe_ends[0], .events = POLLIN}, 1, -1);
}

static void in_poll_finite(struct worker *worker)
{
    worker->result = poll(&(struct pollfd){.fd = pipe_ends[0], .events = POLLIN}, 1, 3600000);
}

static void in_epoll(struct worker *worker)
{
    struct epoll_event event;

    worker->result = epoll_wait(epoll_create1(0), &event, 1, -1);
}

static void in_select(struct worker *worker)
{
    fd_set set;

    FD_ZERO(&set);
    FD_SET(pipe_ends[0], &set);
    worker->result = select(pipe_ends[0] + 1, &set, NULL, NULL, NULL);
}

static void in_nanosleep(struct worker *worker)
{
    worker->result = nanosleep(&(struct timespec){.tv_sec = 3600}, NULL);
}

static void in_absolute_sleep(struct worker *worker)
{
    struct timespec when = in_an_hour(CLOCK_MONOTONIC);

    worker->result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

static void in_sleep(struct worker *worker)
{
    worker->result = sleep(3600);
}

static void in_recv(struct worker *worker)
{
    struct timeval timeout = {.tv_sec = 3600};
    char c;

    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    worker->result = recv(sockets[0], &c, 1, 0);
}

static void in_read_of_socket(struct worker *worker)
{
    struct timeval timeout = {.tv_sec = 3600};
    char c;

    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    worker->result = read(sockets[0], &c, 1);
}

static void in_sem_timedwait(struct worker *worker)
{
    struct timespec when = in_an_hour(CLOCK_REALTIME);

    worker->result = sem_timedwait(&semaphore, &when);
}

static void in_sigtimedwait(struct worker *worker)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    worker->result = sigtimedwait(&set, NULL, &(struct timespec){.tv_sec = 3600});
}

static void in_pause(struct worker *worker)
{
    worker->result = pause();
}

static void in_read(struct worker *worker)
{
    char c;

    worker->result = read(pipe_ends[0], &c, 1);
}

static const struct {
    const char *what;
    void (*body)(struct worker *worker);
} waits[] = {
    {"poll", in_poll},
    {"poll with a time-out", in_poll_finite},
    {"epoll_wait", in_epoll},
    {"select", in_select},
    {"nanosleep", in_nanosleep},
    {"clock_nanosleep", in_absolute_sleep},
    {"sleep", in_sleep},
    {"recv with SO_RCVTIMEO", in_recv},
    {"read with SO_RCVTIMEO", in_read_of_socket},
    {"sem_timedwait", in_sem_timedwait},
    {"sigtimedwait", in_sigtimedwait},
    {"pause", in_pause},
    {"read of a pipe", in_read},
};

static void set_up_waits(void)
{
    cr_assert(pipe(pipe_ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    sem_init(&semaphore, 0, 0);
}

/*
 * The race of the capture policy, made certain: it ran when we looked, both times, and sleeps when the signal
 * comes. Case S01 and facts.md 1: none of these calls may return.
 */
Test(signal_backend, a_wait_entered_before_the_signal_goes_on, .init = set_up_waits)
{
    for (size_t i = 0; i < N_ELEMENTS(waits); i++) {
        static struct worker workers[N_ELEMENTS(waits)];
        struct worker *worker = &workers[i];
        struct fixture *fixture;
        struct thread_sample *sample;
        int64_t number;

        *worker = (struct worker){.body = waits[i].body};
        worker_start(worker);
        worker_wait_asleep(worker);
        number = worker_syscall_number(worker);
        fixture = fixture_new();
        told = worker->tid;
        lies = 100;
        looks = 0;
        sys_hook = say_running;
        fixture_capture(fixture);
        sys_hook = NULL;
        sample = fixture_sample(fixture, worker->tid);

        cr_expect(eq(int, sample->capture, CAPTURE_SIGNAL), "%s: reason %d", waits[i].what, sample->reason);
        cr_expect(eq(u32, fixture->stats.signals_sent, 1), "%s", waits[i].what);
        worker_wait_asleep(worker);
        cr_expect(eq(i64, worker_syscall_number(worker), number), "%s", waits[i].what);
        cr_expect(not(worker->returned), "%s returned %ld", waits[i].what, worker->result);
    }
}

/* It fell asleep between the two looks: not signalled, but read. */
Test(signal_backend, second_look_spares_the_sleeper, .init = set_up_waits)
{
    struct worker worker = {.body = in_poll};
    struct fixture *fixture;
    struct thread_sample *sample;

    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    told = worker.tid;
    lies = 1;
    sys_hook = say_running;
    fixture_capture(fixture);
    sys_hook = NULL;
    sample = fixture_sample(fixture, worker.tid);

    cr_expect(eq(int, sample->capture, CAPTURE_PASSIVE));
    cr_expect(eq(u32, fixture->stats.signals_sent, 0));
    cr_expect(ge(u32, looks, 3));
}

/* Woken for a signal of the program's own, it waits for a processor to finish the call that this ended. */
static bool say_woken(long number, const long args[6], long *ret_result)
{
    return number != SYS_clock_gettime && say_running(number, args, ret_result);
}

Test(signal_backend, runnable_without_running_is_left_alone, .init = set_up_waits)
{
    struct worker worker = {.body = in_poll};
    struct fixture *fixture;

    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    told = worker.tid;
    lies = 1000;
    sys_hook = say_woken;
    fixture_capture(fixture);
    sys_hook = NULL;

    cr_expect(eq(u32, fixture->stats.signals_sent, 0));
    cr_expect(eq(int, fixture_sample(fixture, worker.tid)->reason, REASON_NOT_RUN));
}

static bool lie_and_lose(long number, const long args[6], long *ret_result)
{
    return lose_signals(number, args, ret_result) || say_running(number, args, ret_result);
}

/* TSan and the like keep a signal back until the thread goes on; asleep it can be read all the same. */
Test(signal_backend, asleep_without_an_answer_is_read, .init = set_up_waits)
{
    struct worker worker = {.body = in_poll};
    struct fixture *fixture;

    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    told = worker.tid;
    lies = 2;
    queue_result = 0;
    sys_hook = lie_and_lose;
    fixture_capture(fixture);
    sys_hook = NULL;

    cr_expect(eq(u32, fixture->stats.signals_sent, 1));
    cr_expect(eq(int, fixture_sample(fixture, worker.tid)->capture, CAPTURE_PASSIVE));
}

/* A signal of an application's own in the handler's time is not lost and still ends the wait. */
static _Atomic bool got_usr1;

static void on_usr1(int signal)
{
    got_usr1 = true;
}

Test(signal_backend, other_signals_still_interrupt, .init = set_up_waits)
{
    struct worker worker = {.body = in_poll};
    struct fixture *fixture;
    struct sigaction action = {.sa_handler = on_usr1};

    sigaction(SIGUSR1, &action, NULL);
    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    told = worker.tid;
    lies = 100;
    sys_hook = say_running;
    fixture_capture(fixture);
    sys_hook = NULL;
    worker_wait_asleep(&worker);
    cr_expect(not(worker.returned));
    pthread_kill(worker.thread, SIGUSR1);
    pthread_join(worker.thread, NULL);
    cr_expect(got_usr1);
    cr_expect(eq(i64, worker.result, -1));
}

/* In a fork child the parent's claims mean nothing. */
Test(signal_backend, works_again_after_fork)
{
    struct worker worker = {.body = worker_spin};
    pid_t child;
    int status;

    worker_start(&worker);
    expect_captured(fixture_new(), &worker);
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        libprobe_slots[i].word = slot_word(libprobe_slots[i].word >> 2, SLOT_BUSY);
    child = fork();
    if (child == 0) {
        struct worker own = {.body = worker_spin};
        struct fixture *fixture;
        bool ok;

        signal_backend_init(0);
        worker_start(&own);
        worker_wait_running(&own);
        fixture = fixture_new();
        fixture_capture(fixture);
        ok = fixture_sample(fixture, own.tid)->capture == CAPTURE_SIGNAL;
        _exit(ok ? 0 : 1);
    }
    waitpid(child, &status, 0);
    cr_expect(eq(int, status, 0));
    worker_stop(&worker);
}
