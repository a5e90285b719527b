/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread that runs when the agent looks, and sleeps when the signal comes: the race that no look can avoid,
 * hit on purpose in every round. Its wait must end as it would have ended without us.
 */
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/backends/signal_recent.h"

/* The product spares a thread for a second after a signal (min_gap); here there is no gap. */
void signal_recent_forget(void) {}

bool signal_recent(int32_t tid, uint64_t now)
{
    return false;
}

void signal_recent_add(int32_t tid, uint64_t now) {}

#define N_CALLS 4

/* At its turn it spins until it is told to wait, waits until it is told to go on, and counts what comes of
 * it. */
struct racer {
    struct worker worker;
    const char *what;
    int (*wait)(struct racer *racer); /* 0 or -1 with errno, as the call under test */
    void (*end)(struct racer *racer); /* or NULL: it ends by itself */
    int fds[2], epoll;
    sem_t turn, semaphore;
    _Atomic unsigned told, done, interrupted, wrong, terminations, terminated;
};

static struct racer racers[N_CALLS];
static __thread struct racer *self;
static struct racer *at_turn;
static unsigned hits, misses;
static bool no_timer;

static int in_poll(struct racer *racer)
{
    char c;

    return poll(&(struct pollfd){.fd = racer->fds[0], .events = POLLIN}, 1, 3600000) == 1 &&
                   read(racer->fds[0], &c, 1) == 1
               ? 0
               : -1;
}

static int in_epoll(struct racer *racer)
{
    struct epoll_event event;
    char c;

    return epoll_wait(racer->epoll, &event, 1, -1) == 1 && read(racer->fds[0], &c, 1) == 1 ? 0 : -1;
}

static void end_fd(struct racer *racer)
{
    cr_assert(write(racer->fds[1], "x", 1) == 1);
}

static int in_nanosleep(struct racer *racer)
{
    return nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int in_semaphore(struct racer *racer)
{
    struct timespec when;

    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_sec += 3600;
    return sem_timedwait(&racer->semaphore, &when);
}

static void end_semaphore(struct racer *racer)
{
    sem_post(&racer->semaphore);
}

static const struct racer calls[N_CALLS] = {
    {.what = "poll", .wait = in_poll, .end = end_fd},
    {.what = "epoll_wait", .wait = in_epoll, .end = end_fd},
    {.what = "nanosleep", .wait = in_nanosleep},
    {.what = "sem_timedwait", .wait = in_semaphore, .end = end_semaphore},
};

static void race(struct worker *worker)
{
    struct racer *racer = worker->data;

    self = racer;
    for (;;) {
        while (sem_wait(&racer->turn) < 0)
            continue;
        while (racer->told == racer->done && !worker->stop)
            continue;
        if (worker->stop)
            break;
        while (racer->wait(racer) < 0) {
            if (errno == EINTR)
                racer->interrupted++;
            else
                racer->wrong++;
        }
        racer->done++;
    }
}

static void on_term(int signal)
{
    self->terminated++;
}

/* Between the agent's last look and its signal: the thread falls asleep. */
static bool fall_asleep(long number, const long args[6], long *ret_result)
{
    static int32_t timed;
    int32_t tid = 0;

    if (number == SYS_timer_create) {
        timed = ((const int32_t *)args[1])[4]; /* struct sigevent: sigev_notify_thread_id */
        *ret_result = -ENOSYS;
        return no_timer;
    }
    if (number == SYS_timer_settime)
        tid = timed;
    if (number == SYS_rt_tgsigqueueinfo)
        tid = (int32_t)args[1];
    if (tid != at_turn->worker.tid || at_turn->told != at_turn->done)
        return false;
    at_turn->told++;
    for (unsigned i = 0; i < 1000; i++)
        if (worker_syscall_number(&at_turn->worker) != -2) {
            hits++;
            return false;
        }
    misses++;
    return false;
}

/* As often as a standard signal can be told apart: not before the last one has been handled. */
static void terminate(struct worker *worker)
{
    while (!worker->stop)
        for (unsigned i = 0; i < N_CALLS; i++) {
            struct racer *racer = &racers[i];

            usleep((unsigned)rand() % 1000);
            if (racer->terminations == racer->terminated) {
                racer->terminations++;
                syscall(SYS_tgkill, getpid(), racer->worker.tid, SIGTERM);
            }
        }
}

static void start(void)
{
    for (unsigned i = 0; i < N_CALLS; i++) {
        struct racer *racer = &racers[i];
        struct epoll_event event = {.events = EPOLLIN};

        *racer = calls[i];
        cr_assert(pipe(racer->fds) == 0);
        racer->epoll = epoll_create1(0);
        epoll_ctl(racer->epoll, EPOLL_CTL_ADD, racer->fds[0], &event);
        sem_init(&racer->turn, 0, 0);
        sem_init(&racer->semaphore, 0, 0);
        racer->worker = (struct worker){.body = race, .data = racer};
        worker_start(&racer->worker);
    }
}

/* Into its wait and out again; the others, parked, do not keep the processors from it. */
static void one_round(struct fixture *fixture, struct racer *racer)
{
    size_t mark = fixture->arena.used;
    unsigned before = racer->told;

    at_turn = racer;
    sem_post(&racer->turn);
    worker_wait_running(&racer->worker);
    sys_hook = fall_asleep;
    while (racer->told == before) {
        fixture_forget(fixture);
        fixture->arena.used = mark;
        fixture->session.deadline = sys_monotonic_nanos() + UINT64_C(4000000000);
        fixture_capture(fixture);
    }
    sys_hook = NULL;
    if (racer->end)
        racer->end(racer);
    while (racer->told != racer->done)
        usleep(20);
    fixture->arena.used = mark;
}

static void race_with(bool timer, struct worker *killer)
{
    unsigned rounds = getenv("PROBE_TEST_FULL") ? 25000 : 50; /* of each call */
    struct fixture *fixture = fixture_new();

    no_timer = !timer;
    start();
    signal_backend_init(0);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    if (killer)
        worker_start(killer);
    for (unsigned i = 0; hits < rounds * N_CALLS && misses < rounds * N_CALLS; i++)
        one_round(fixture, &racers[i % N_CALLS]);
    if (killer)
        worker_stop(killer);
    fprintf(stderr, "# %u times asleep when the signal came, %u times not yet\n", hits, misses);
    cr_expect(ge(u32, hits, rounds * N_CALLS));
    for (unsigned i = 0; i < N_CALLS; i++) {
        struct racer *racer = &racers[i];

        sem_post(&racer->turn);
        worker_stop(&racer->worker);
        cr_expect(eq(u32, racer->wrong, 0), "%s", racer->what);
        cr_expect(le(u32, racer->interrupted, racer->terminations), "%s", racer->what);
        cr_expect(eq(u32, racer->terminated, racer->terminations), "%s: SIGTERM", racer->what);
        cr_expect(killer ? racer->terminations > rounds / 10 : racer->terminations == 0, "%s", racer->what);
    }
}

TestSuite(race, .timeout = 3000);

Test(race, a_timer_lets_sleepers_sleep)
{
    race_with(true, NULL);
}

Test(race, a_queued_signal_is_undone)
{
    race_with(false, NULL);
}

/* The program's own signals come through all of it, each to its handler. */
Test(race, a_timer_and_sigterm)
{
    race_with(true, &(struct worker){.body = terminate});
}

Test(race, a_queued_signal_and_sigterm)
{
    race_with(false, &(struct worker){.body = terminate});
}
