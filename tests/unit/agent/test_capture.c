/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/capture.c: who is listed, who is counted, what happens when time or memory runs out. */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(capture, .timeout = 20);

static void sleep_forever(struct worker *worker)
{
    while (!worker->stop)
        pause();
}

static void expect_counts(const struct fixture *fixture)
{
    uint32_t captured = 0, dropped = 0;

    for (uint32_t i = 0; i < fixture->n_threads; i++) {
        const struct thread_sample *sample = &fixture->threads[i];

        if (sample->capture == CAPTURE_NONE) {
            cr_expect(ne(int, sample->reason, REASON_NONE), "thread %d is missing without a reason",
                      sample->os_tid);
            cr_expect(eq(i32, sample->stack, -1));
            /* Where there is no user stack, nothing is missing. */
            if (sample->reason == REASON_ZOMBIE || sample->reason == REASON_KERNEL_WORKER)
                captured++;
            else
                dropped++;
        } else {
            captured++;
        }
    }
    cr_expect(eq(u32, fixture->stats.threads_total, fixture->n_threads));
    cr_expect(eq(u32, fixture->stats.threads_captured, captured));
    cr_expect(eq(u32, fixture->stats.threads_dropped, dropped));
}

Test(capture, every_thread_but_the_caller)
{
    static struct worker workers[300];
    struct fixture *fixture;

    for (size_t i = 0; i < N_ELEMENTS(workers); i++) {
        workers[i] = (struct worker){.body = sleep_forever, .stack_size = 65536};
        worker_start(&workers[i]);
    }
    for (size_t i = 0; i < N_ELEMENTS(workers); i++)
        worker_wait_asleep(&workers[i]);
    fixture = fixture_new();
    fixture_capture(fixture);

    for (size_t i = 0; i < N_ELEMENTS(workers); i++)
        cr_expect(eq(int, fixture_sample(fixture, workers[i].tid)->capture, CAPTURE_PASSIVE));
    for (uint32_t i = 0; i < fixture->n_threads; i++) {
        cr_expect(ne(i32, fixture->threads[i].os_tid, (int32_t)gettid()));
        for (uint32_t j = 0; j < i; j++)
            cr_assert(ne(i32, fixture->threads[i].os_tid, fixture->threads[j].os_tid), "listed twice");
    }
    expect_counts(fixture);
    cr_expect(eq(u32, fixture->stats.threads_dropped, 0));
}

static int32_t hidden;
static unsigned listings;

/* In the first listing one thread is skipped, as when another one before it ends between two blocks. */
static bool hide(long number, const long args[6], long *ret_result)
{
    if (number == SYS_lseek)
        listings++;
    if (number != SYS_getdents64)
        return false;
    *ret_result = syscall(SYS_getdents64, args[0], args[1], args[2]);
    for (long at = 0; listings == 1 && at < *ret_result;) {
        char *entry = (char *)args[1] + at;

        if (atoi(entry + 19) == hidden) /* struct linux_dirent64: d_name */
            strcpy(entry + 19, ".");
        at += *(uint16_t *)(entry + 16);
    }
    return true;
}

Test(capture, a_thread_that_one_listing_skips_is_found)
{
    struct worker worker = {.body = sleep_forever};
    struct fixture *fixture;

    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    hidden = worker.tid;
    sys_hook = hide;
    fixture_capture(fixture);
    sys_hook = NULL;
    cr_expect(eq(int, fixture_sample(fixture, worker.tid)->capture, CAPTURE_PASSIVE));
    cr_expect(eq(u32, listings, 3), "until one brings nothing new");
}

static void *do_nothing(void *argument)
{
    return argument;
}

static void churn(struct worker *worker)
{
    while (!worker->stop) {
        pthread_t threads[8];
        unsigned n = 0;

        while (n < 8 && !pthread_create(&threads[n], NULL, do_nothing, NULL))
            n++;
        while (n)
            pthread_join(threads[--n], NULL);
    }
}

/* Threads that come and go must not hide one that stays, and have a reason themselves. */
Test(capture, nobody_is_missed_under_churn)
{
    static struct worker stayers[50];
    struct worker churner = {.body = churn};
    struct fixture *fixture;

    worker_start(&churner);
    for (size_t i = 0; i < N_ELEMENTS(stayers); i++) {
        stayers[i] = (struct worker){.body = sleep_forever, .stack_size = 65536};
        worker_start(&stayers[i]);
    }
    fixture = fixture_new();
    fixture->session.mode = CAPTURE_MODE_PASSIVE;
    for (unsigned round = 0; round < 200; round++) {
        size_t mark = fixture->arena.used;

        fixture_forget(fixture);
        fixture_capture(fixture);
        for (size_t i = 0; i < N_ELEMENTS(stayers); i++)
            fixture_sample(fixture, stayers[i].tid);
        expect_counts(fixture);
        fixture->arena.used = mark;
    }
    worker_stop(&churner);
}

Test(capture, names_and_states)
{
    struct worker sleeper = {.body = sleep_forever}, spinner = {.body = worker_spin};
    struct fixture *fixture;
    struct thread_sample *sample;

    worker_start(&sleeper);
    worker_start(&spinner);
    pthread_setname_np(sleeper.thread, "a)\nb (c");
    worker_wait_asleep(&sleeper);
    fixture = fixture_new();
    fixture->session.mode = CAPTURE_MODE_PASSIVE;
    fixture_capture(fixture);
    sample = fixture_sample(fixture, sleeper.tid);
    cr_expect(eq(str, sample->name, "a)\nb (c"));
    cr_expect(eq(chr, sample->state, 'S'));
    sample = fixture_sample(fixture, spinner.tid);
    cr_expect(eq(chr, sample->state, 'R'));
    cr_expect(eq(int, sample->reason, REASON_PASSIVE_ONLY));
    worker_stop(&spinner);
}

static void exit_leader(struct worker *worker)
{
    struct fixture *fixture;
    struct thread_sample *sample;
    unsigned tries = 0;

    pthread_join(worker->thread, NULL); /* returns when the main thread has ended */
    fixture = fixture_new();
    do {
        usleep(1000);
        fixture_capture(fixture);
        sample = fixture_sample(fixture, getpid());
    } while (sample->state != 'Z' && tries++ < 1000);
    _exit(sample->reason == REASON_ZOMBIE && sample->capture == CAPTURE_NONE ? 0 : 1);
}

static void *exit_leader_thread(void *argument)
{
    struct worker worker = {.thread = *(pthread_t *)argument};

    exit_leader(&worker);
    return NULL;
}

/* Case S57: main has called pthread_exit and stays as a zombie that every thread listing shows. */
Test(capture, ended_main_thread, .exit_code = 0)
{
    static pthread_t leader;
    pthread_t other;

    if (getpid() != gettid())
        _exit(0);
    leader = pthread_self();
    pthread_create(&other, NULL, exit_leader_thread, &leader);
    pthread_exit(NULL);
}

Test(capture, past_deadline_says_so)
{
    struct worker worker = {.body = sleep_forever}, spinner = {.body = worker_spin};
    struct fixture *fixture;

    worker_start(&worker);
    worker_start(&spinner);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture->session.deadline = 1;
    fixture_capture(fixture);

    cr_expect(eq(int, fixture_sample(fixture, worker.tid)->reason, REASON_DEADLINE));
    cr_expect(eq(int, fixture_sample(fixture, spinner.tid)->reason, REASON_DEADLINE));
    cr_expect(eq(u32, fixture->stats.signals_sent, 0));
    expect_counts(fixture);
    worker_stop(&spinner);
}

Test(capture, small_arenas_fail_cleanly)
{
    struct worker worker = {.body = sleep_forever};
    struct fixture *fixture;
    bool whole = false;

    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture->arena.used = (fixture->arena.used + 15) & ~(size_t)15;
    for (size_t size = 0; size < 640 * 1024; size += 4096) {
        struct arena small = {.base = fixture->arena.base + fixture->arena.used, .size = size};
        struct thread_sample *threads;
        uint32_t n;

        fixture_forget(fixture);
        fixture->session.arena = &small;
        if (capture_list(&fixture->session, &threads, &n) < 0) {
            cr_expect(eq(u32, n, 0));
            cr_expect(not(whole));
            continue;
        }
        capture_threads(&fixture->session, threads, n);
        fixture->threads = threads;
        fixture->n_threads = n;
        expect_counts(fixture);
        if (fixture_sample(fixture, worker.tid)->capture == CAPTURE_NONE)
            cr_expect(eq(int, fixture_sample(fixture, worker.tid)->reason, REASON_MEMORY));
        else
            whole = true;
    }
    cr_expect(whole);
}

static int fail_with, fail_number;

static bool fail(long number, const long args[6], long *ret_result)
{
    *ret_result = -fail_with;
    return number == fail_number;
}

/* Whatever single call the kernel refuses: an answer, and counts that add up. */
Test(capture, every_refused_call_leaves_a_counted_answer)
{
    static const int numbers[] = {SYS_openat,
                                  SYS_pread64,
                                  SYS_read,
                                  SYS_close,
                                  SYS_lseek,
                                  SYS_getdents64,
                                  SYS_process_vm_readv,
                                  SYS_get_robust_list,
                                  SYS_rt_sigaction,
                                  SYS_mmap,
                                  SYS_rt_tgsigqueueinfo,
                                  SYS_timer_create,
                                  SYS_timer_settime,
                                  SYS_timer_delete,
                                  SYS_mincore,
                                  SYS_madvise};
    static const int errors[] = {EPERM, ENOSYS, ENOMEM, ESRCH, EACCES, EINTR};
    struct worker worker = {.body = sleep_forever};
    struct fixture *fixture;

    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    for (size_t i = 0; i < N_ELEMENTS(numbers); i++) {
        for (size_t j = 0; j < N_ELEMENTS(errors); j++) {
            size_t mark = fixture->arena.used;

            fixture_forget(fixture);
            fail_number = numbers[i];
            fail_with = errors[j];
            sys_hook = fail;
            if (capture_list(&fixture->session, &fixture->threads, &fixture->n_threads) == 0) {
                capture_threads(&fixture->session, fixture->threads, fixture->n_threads);
                expect_counts(fixture);
            }
            sys_hook = NULL;
            fixture->arena.used = mark;
        }
    }
}

/* Where /proc counts threads differently nobody may be signalled, and no stack bound be asked for. */
static bool deny_signals(long number, const long args[6], long *ret_result)
{
    if (number == SYS_rt_tgsigqueueinfo || number == SYS_timer_create || number == SYS_get_robust_list)
        abort();
    return false;
}

Test(capture, foreign_proc_signals_nobody)
{
    struct worker sleeper = {.body = sleep_forever}, spinner = {.body = worker_spin};
    struct fixture *fixture;

    worker_start(&sleeper);
    worker_start(&spinner);
    worker_wait_asleep(&sleeper);
    fixture = fixture_new();
    fixture->session.foreign_proc = true;
    sys_hook = deny_signals;
    fixture_capture(fixture);
    sys_hook = NULL;
    cr_expect(eq(int, fixture_sample(fixture, sleeper.tid)->capture, CAPTURE_PASSIVE));
    cr_expect(eq(int, fixture_sample(fixture, spinner.tid)->reason, REASON_PASSIVE_ONLY));
    worker_stop(&spinner);
}

/* Under qemu-user a sleeping thread's line is the emulator's: no stack, but what it waits in; running ones
 * answer. */
Test(capture, registers_of_an_emulator_are_not_taken_for_the_programs)
{
    struct worker sleeper = {.body = sleep_forever}, spinner = {.body = worker_spin};
    struct fixture *fixture;
    struct thread_sample *sample;

    worker_start(&sleeper);
    worker_start(&spinner);
    worker_wait_asleep(&sleeper);
    fixture = fixture_new();
    fixture->session.foreign_registers = true;
    fixture_capture(fixture);
    sample = fixture_sample(fixture, sleeper.tid);
    cr_expect(eq(int, sample->capture, CAPTURE_NONE));
    cr_expect(eq(int, sample->reason, REASON_SYSCALL_UNREADABLE));
    cr_expect(not(sample->has_registers));
    cr_expect(sample->state == 'S' && sample->wchan && sample->wchan[0], "state %c, %s", sample->state,
              sample->wchan ? sample->wchan : "no wchan");
    cr_expect(eq(int, fixture_sample(fixture, spinner.tid)->capture, CAPTURE_SIGNAL));
    worker_stop(&spinner);
}

Test(capture, unsupported_platforms_say_so)
{
    struct thread_sample samples[2] = {{.os_tid = 1}, {.os_tid = 2, .reason = REASON_ZOMBIE}};
    struct thread_sample *list[2] = {&samples[0], &samples[1]};

    backend_none.capture(NULL, list, 2);
    cr_expect(eq(int, samples[0].reason, REASON_UNSUPPORTED));
    cr_expect(eq(int, samples[1].reason, REASON_ZOMBIE));
}
