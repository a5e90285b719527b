/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scenarios of programs that hang inside, or keep using, a lock of the runtime: allocator, stdio, loader,
 * fork handlers, the unwinder of libgcc. An agent that takes the same lock hangs with them.
 */
#include "tests/targets/target.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two threads, each wanting the other's mutex; a third waits behind them; main joins one; a fifth reads a
 * socket. */

static pthread_mutex_t mutex_a = PTHREAD_MUTEX_INITIALIZER, mutex_b = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_hold;
static _Atomic pid_t flusher, compactor, writer, net_io;

T_FRAME void lock_second(pthread_mutex_t *mutex);
T_FRAME void lock_second(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    T_NO_TAIL_CALL();
}

T_FRAME void *flusher_thread(void *argument);
T_FRAME void *flusher_thread(void *argument)
{
    t_publish(&flusher);
    pthread_mutex_lock(&mutex_a);
    pthread_barrier_wait(&both_hold);
    lock_second(&mutex_b);
    return argument;
}

T_FRAME void *compactor_thread(void *argument);
T_FRAME void *compactor_thread(void *argument)
{
    t_publish(&compactor);
    pthread_mutex_lock(&mutex_b);
    pthread_barrier_wait(&both_hold);
    lock_second(&mutex_a);
    return argument;
}

T_FRAME void *writer_thread(void *argument);
T_FRAME void *writer_thread(void *argument)
{
    t_publish(&writer);
    lock_second(&mutex_a);
    return argument;
}

T_FRAME void *net_thread(void *argument);
T_FRAME void *net_thread(void *argument)
{
    char byte;
    t_publish(&net_io);
    t_must(recv(*(int *)argument, &byte, 1, 0));
    return argument;
}

/* Never ends by itself: the test kills it. Main reports ready before it joins, so the test awaits that
 * itself. */
static int run_deadlock2(void)
{
    int pair[2];
    pthread_barrier_init(&both_hold, NULL, 2);
    t_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    pthread_t first = t_thread(flusher_thread, NULL, "flusher");
    t_thread(compactor_thread, NULL, "compactor");
    t_await_blocked(t_await_tid(&flusher), SYS_futex);
    t_await_blocked(t_await_tid(&compactor), SYS_futex);
    t_thread(writer_thread, NULL, "writer-0");
    t_thread(net_thread, &pair[0], "net-io");
    t_await_blocked(t_await_tid(&writer), SYS_futex);
    t_await_blocked(t_await_tid(&net_io), SYS_recvfrom);
    t_expect(flusher, "lock_second flusher_thread");
    t_expect(compactor, "lock_second compactor_thread");
    t_expect(writer, "lock_second writer_thread");
    t_expect(net_io, "net_thread");
    t_expect(getpid(), "t_join run_deadlock2 main");
    t_fact("flusher", "%d", (int)flusher);
    t_fact("compactor", "%d", (int)compactor);
    t_fact("writer", "%d", (int)writer);
    t_ready();
    t_join(first);
    t_fail("the deadlock ended");
}

/* S19: hung inside malloc with the lock held. Needs lib_lockmalloc.so preloaded beside the agent. */

static _Atomic pid_t alloc_tid[4];
static _Atomic int alloc_stage; /* 1: the holder may allocate, 2: the others too */
static void *volatile allocated;

T_FRAME void *allocating_thread(void *argument);
T_FRAME void *allocating_thread(void *argument)
{
    t_publish((_Atomic pid_t *)argument);
    t_await(&alloc_stage, argument == (void *)&alloc_tid[0] ? 1 : 2);
    allocated = malloc(100);
    T_NO_TAIL_CALL();
    return NULL;
}

static void *lock_function(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (!function)
        t_fail("lib_lockmalloc.so is not preloaded: no %s", name);
    return function;
}

static int run_malloc_locked(void)
{
    enum { N = 4 };
    void (*hold)(int) = (void (*)(int))lock_function("lockmalloc_hold");
    void (*release)(void) = (void (*)(void))lock_function("lockmalloc_release");
    pthread_t threads[N];

    for (int i = 0; i < N; i++) {
        threads[i] = t_thread(allocating_thread, (void *)&alloc_tid[i], i ? "wants-lock" : "holds-lock");
        t_await_tid(&alloc_tid[i]);
    }
    hold(alloc_tid[0]);
    for (int i = 0; i < N; i++) {
        atomic_store(&alloc_stage, i ? 2 : 1);
        t_await_blocked(alloc_tid[i], SYS_futex);
        t_expect(alloc_tid[i], i ? "allocator_takes_lock allocate malloc allocating_thread"
                                 : "allocator_holds_lock allocate malloc allocating_thread");
    }
    t_ready();
    t_wait_release();
    release();
    for (int i = 0; i < N; i++)
        t_join(threads[i]);
    return 0;
}

/* A stream's lock held by a thread that sleeps; others want to print. */

static FILE *stream;
static sem_t stream_may_go;
static _Atomic pid_t stream_tid[4];

T_FRAME void *holds_stream(void *argument);
T_FRAME void *holds_stream(void *argument)
{
    flockfile(stream);
    t_publish((_Atomic pid_t *)argument);
    while (sem_wait(&stream_may_go))
        ;
    funlockfile(stream);
    return NULL;
}

T_FRAME void *wants_stream(void *argument);
T_FRAME void *wants_stream(void *argument)
{
    t_publish((_Atomic pid_t *)argument);
    fprintf(stream, "line %d\n", 1);
    T_NO_TAIL_CALL();
    return NULL;
}

static int run_stdio_locked(void)
{
    enum { N = 4 };
    pthread_t threads[N];
    /* Standard output, as in most such hangs: the agent must not print through it. */
    stream = stdout;
    sem_init(&stream_may_go, 0, 0);
    for (int i = 0; i < N; i++) {
        threads[i] = t_thread(i ? wants_stream : holds_stream, (void *)&stream_tid[i],
                              i ? "wants-stream" : "holds-stream");
        t_await_blocked(t_await_tid(&stream_tid[i]), SYS_futex);
        t_expect(stream_tid[i], i ? "wants_stream" : "holds_stream");
    }
    t_ready();
    t_wait_release();
    sem_post(&stream_may_go);
    for (int i = 0; i < N; i++)
        t_join(threads[i]);
    return 0;
}

/* fork() hung in a prepare handler of somebody's library. */

static sem_t prepare_may_end;
static _Atomic pid_t forker;

T_FRAME void prepare_handler_blocks(void);
T_FRAME void prepare_handler_blocks(void)
{
    while (sem_wait(&prepare_may_end))
        ;
    T_NO_TAIL_CALL();
}

T_FRAME void *forking_thread(void *argument);
T_FRAME void *forking_thread(void *argument)
{
    int status;
    t_publish(&forker);
    pid_t child = t_must(fork());
    if (child == 0)
        _exit(9);
    t_must(waitpid(child, &status, 0));
    t_check(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    return argument;
}

static int run_fork_handler(void)
{
    sem_init(&prepare_may_end, 0, 0);
    t_check(!pthread_atfork(prepare_handler_blocks, NULL, NULL));
    pthread_t thread = t_thread(forking_thread, NULL, "forker");
    t_await_blocked(t_await_tid(&forker), SYS_futex);
    t_expect(forker, "prepare_handler_blocks forking_thread");
    t_ready();
    t_wait_release();
    sem_post(&prepare_may_end);
    t_join(thread);
    return 0;
}

/* Threads that keep using something; after the release each must make progress once more. */

enum { MAX_BUSY = 16 };
static struct busy {
    pthread_t thread;
    _Atomic pid_t tid;
    _Atomic int rounds;
    void (*round)(struct busy *);
} busy[MAX_BUSY];
static _Atomic bool busy_end;

T_FRAME void *busy_thread(void *argument);
T_FRAME void *busy_thread(void *argument)
{
    struct busy *b = (struct busy *)argument;
    t_publish(&b->tid);
    while (!atomic_load(&busy_end)) {
        b->round(b);
        atomic_fetch_add(&b->rounds, 1);
    }
    return NULL;
}

static void busy_start(int i, void (*round)(struct busy *), const char *name)
{
    busy[i].round = round;
    busy[i].thread = t_thread(busy_thread, &busy[i], name);
    t_await_tid(&busy[i].tid);
}

static int busy_run(int n)
{
    for (int i = 0; i < n; i++)
        t_await(&busy[i].rounds, 3);
    t_ready();
    t_wait_release();
    for (int i = 0; i < n; i++)
        t_await(&busy[i].rounds, atomic_load(&busy[i].rounds) + 3);
    atomic_store(&busy_end, true);
    for (int i = 0; i < n; i++)
        t_join(busy[i].thread);
    return 0;
}

static int slow_callback(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info;
    (void)size;
    (void)data;
    t_sleep_ms(1);
    return 0;
}

static void round_iterate(struct busy *b)
{
    (void)b;
    dl_iterate_phdr(slow_callback, NULL);
    t_sleep_ms(1); /* the loader's lock is not fair: let another thread have it */
}

static int run_dl_iterate(void)
{
    for (int i = 0; i < 8; i++)
        busy_start(i, round_iterate, "iterate");
    return busy_run(8);
}

static void round_malloc(struct busy *b)
{
    (void)b;
    for (size_t i = 1; i < 1000; i++) {
        allocated = malloc(i * 7);
        free(allocated);
    }
}

static void round_dlopen(struct busy *b)
{
    void *library = t_dlopen("lib_plugin.so");
    unsigned (*work)(unsigned) = (unsigned (*)(unsigned))dlsym(library, "plugin_work");
    t_sink += work((unsigned)b->rounds);
    dlclose(library);
}

static int run_malloc_dlopen(void)
{
    busy_start(0, round_malloc, "malloc");
    busy_start(1, round_dlopen, "dlopen");
    return busy_run(2);
}

static void round_backtrace(struct busy *b)
{
    void *frames[64];
    (void)b;
    t_sink += (unsigned)backtrace(frames, 64);
}

static int run_self_backtrace(void)
{
    for (int i = 0; i < 4; i++)
        busy_start(i, round_backtrace, "backtrace");
    return busy_run(4);
}

const struct t_scenario t_lock_scenarios[] = {
    {"deadlock2", "", "two threads deadlocked over two mutexes, one behind them, main joins; never ends",
     NULL, run_deadlock2},
    {"malloc_locked", "S19 S26", "a thread inside malloc with the lock held (preload lib_lockmalloc.so)",
     NULL, run_malloc_locked},
    {"stdio_locked", "", "stdout's lock held by a sleeping thread, others in printf", NULL, run_stdio_locked},
    {"fork_handler", "", "fork() hung in a pthread_atfork prepare handler", NULL, run_fork_handler},
    {"dl_iterate", "S14", "8 threads in dl_iterate_phdr with a slow callback", NULL, run_dl_iterate},
    {"malloc_dlopen", "S16", "one thread in malloc/free, one in dlopen/dlclose", NULL, run_malloc_dlopen},
    {"self_backtrace", "S22", "4 threads in backtrace()", NULL, run_self_backtrace},
    {NULL, NULL, NULL, NULL, NULL},
};
