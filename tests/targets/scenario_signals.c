/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scenarios about who owns a signal and on which stack a handler runs: dispositions taken or reset by the
 * program, blocked signals, small stacks, threads inside fault handlers.
 */
#include "tests/targets/target.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A running thread with a known chain, in all scenarios of this file. */

struct spinner {
    pthread_t thread;
    _Atomic pid_t tid;
    _Atomic unsigned long turns;
    void (*before)(struct spinner *); /* runs in the thread first; or NULL */
    void *memory;
};
static _Atomic bool spin_end;

T_FRAME long spins_here(void *argument);
T_FRAME long spins_here(void *argument)
{
    struct spinner *s = (struct spinner *)argument;
    while (!atomic_load_explicit(&spin_end, memory_order_relaxed))
        atomic_fetch_add_explicit(&s->turns, 1, memory_order_relaxed);
    return 0;
}

T_FRAME void *spinning_thread(void *argument);
T_FRAME void *spinning_thread(void *argument)
{
    struct spinner *s = (struct spinner *)argument;
    if (s->before)
        s->before(s);
    t_publish(&s->tid);
    t_chain(3, spins_here, s);
    return NULL;
}

static void spinner_start(struct spinner *s, const char *name)
{
    s->thread = t_thread(spinning_thread, s, name);
    t_await_running(t_await_tid(&s->tid));
    t_expect_chain(s->tid, "spins_here", 3, "t_chain spinning_thread");
    t_fact("spinner", "%d", (int)s->tid);
}

static void must_turn(const _Atomic unsigned long *turns, const char *what, int i)
{
    unsigned long before = atomic_load(turns);
    uint64_t end = t_now_ns() + (uint64_t)T_DEADLINE_S * 1000000000u;

    while (atomic_load(turns) == before) {
        if (t_now_ns() > end)
            t_fail("%s %d stopped turning", what, i);
        t_sleep_ms(1);
    }
}

/* Every spinner must still turn, then end. */
static void spinners_stop(struct spinner *all, int n)
{
    for (int i = 0; i < n; i++)
        must_turn(&all[i].turns, "spinner", i);
    atomic_store(&spin_end, true);
    for (int i = 0; i < n; i++)
        t_join(all[i].thread);
}

/* A sleeping thread with a known chain. */

struct sleeper {
    pthread_t thread;
    _Atomic pid_t tid;
    sem_t may_go;
    void (*before)(struct spinner *); /* as a spinner's, with NULL */
};

T_FRAME long waits_here(void *argument);
T_FRAME long waits_here(void *argument)
{
    struct sleeper *s = (struct sleeper *)argument;
    long r = sem_wait(&s->may_go);
    T_NO_TAIL_CALL();
    return r;
}

T_FRAME void *waiting_thread(void *argument);
T_FRAME void *waiting_thread(void *argument)
{
    struct sleeper *s = (struct sleeper *)argument;
    s->before(NULL);
    t_publish(&s->tid);
    t_check(t_chain(3, waits_here, s) == 0);
    return NULL;
}

static void sleeper_start(struct sleeper *s)
{
    sem_init(&s->may_go, 0, 0);
    s->thread = t_thread(waiting_thread, s, "sleeper");
    t_await_blocked(t_await_tid(&s->tid), SYS_futex);
    t_expect_chain(s->tid, "waits_here", 3, "t_chain waiting_thread");
    t_fact("sleeper", "%d", (int)s->tid);
}

static void sleeper_stop(struct sleeper *s)
{
    sem_post(&s->may_go);
    t_join(s->thread);
}

/*
 * S27: every disposition goes back to SIG_DFL, as node does: at the start (step 1 finds that), and once more
 * after a first dump, when the agent has its handler installed.
 */

static void reset_all(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int number = 1; number <= SIGRTMAX; number++)
        sigaction(number, &action, NULL);
}

static int run_sigdfl(void)
{
    static struct spinner spinner;
    reset_all();
    spinner_start(&spinner, "spinner");
    t_ready();
    t_wait_step();
    reset_all();
    t_must(write(1, "reset\n", 6));
    t_wait_release();
    spinners_stop(&spinner, 1);
    return 0;
}

/* S30: the program handles every realtime signal itself, or all but one. */

static _Atomic int foreign_signals;

static void on_realtime(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    atomic_fetch_add(&foreign_signals, 1);
}

static int run_rt_taken(void)
{
    static struct spinner spinner;
    int leave = (int)t_param("free", 0); /* this many, from the top, are left alone */
    struct sigaction action = {.sa_sigaction = on_realtime, .sa_flags = SA_SIGINFO | SA_RESTART};

    for (int number = SIGRTMIN; number <= SIGRTMAX - leave; number++)
        t_must(sigaction(number, &action, NULL));
    spinner_start(&spinner, "spinner");
    t_ready();
    t_wait_release();
    spinners_stop(&spinner, 1);
    if (foreign_signals)
        t_fail("the program's own handlers ran %d times", foreign_signals);
    return 0;
}

/* S32: everything blocked, asleep and running. */

static void block_all(struct spinner *s)
{
    sigset_t all;
    (void)s;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static int run_sig_blocked(void)
{
    static struct spinner spinner = {.before = block_all};
    static struct sleeper sleeper = {.before = block_all};
    sleeper_start(&sleeper);
    spinner_start(&spinner, "spinner");
    t_ready();
    t_wait_release();
    sleeper_stop(&sleeper);
    spinners_stop(&spinner, 1);
    return 0;
}

/*
 * S79: threads that sandbox themselves. In one, every return from a signal handler kills; another is in
 * seccomp's strict mode; the process goes on without a thread that died so, and whoever waits for it hangs.
 */

static void forbid_sigreturn(struct spinner *s)
{
    (void)s;
    t_forbid(SYS_rt_sigreturn, SECCOMP_RET_KILL_THREAD, 0);
}

static _Atomic pid_t strict_tid;
static _Atomic unsigned long strict_turns;

/* In strict mode a thread may read, write, exit and return from a handler; libc's way out needs more. */
static void *strict_thread(void *argument)
{
    pid_t tid = gettid();

    /* Not to be had under a filter, as Docker's: the kernel leads from no mode to another. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
        forbid_sigreturn(NULL);
    atomic_store(&strict_tid, tid);
    while (!atomic_load(&spin_end))
        atomic_fetch_add(&strict_turns, 1);
    syscall(SYS_exit, 0);
    return argument;
}

static int run_own_filters(void)
{
    static struct spinner spinner = {.before = forbid_sigreturn};
    static struct sleeper sleeper = {.before = forbid_sigreturn};
    pthread_t strict = t_thread(strict_thread, NULL, "strict");

    t_await_running(t_await_tid(&strict_tid));
    t_fact("strict", "%d", (int)strict_tid);
    sleeper_start(&sleeper);
    spinner_start(&spinner, "spinner");
    t_ready();
    t_wait_release();
    must_turn(&strict_turns, "strict thread", 0);
    sleeper_stop(&sleeper);
    spinners_stop(&spinner, 1);
    t_join(strict);
    return 0;
}

/* S37: SIGTERM is blocked everywhere and awaited; if another thread takes it, the process dies. */

static int run_sigterm(void)
{
    sigset_t set;
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    t_check(!pthread_sigmask(SIG_BLOCK, &set, NULL));
    t_expect(getpid(), "run_sigterm main");
    t_ready();
    t_check(!sigwait(&set, &number));
    t_check(number == SIGTERM);
    t_must(write(1, "graceful\n", 9));
    return 0;
}

/* S42: running threads with an alternate stack as small as Rust's. */

enum { SMALL_ALTERNATE = 8192 };

static void small_alternate(struct spinner *s)
{
    stack_t stack = {.ss_size = SMALL_ALTERNATE};
    s->memory = stack.ss_sp =
        t_must(mmap(NULL, SMALL_ALTERNATE + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    stack.ss_sp = (char *)stack.ss_sp + 4096; /* a guard below it, as Rust has */
    t_must(mprotect(stack.ss_sp, SMALL_ALTERNATE, PROT_READ | PROT_WRITE));
    t_must(sigaltstack(&stack, NULL));
}

static int run_altstack(void)
{
    static struct spinner spinners[2] = {{.before = small_alternate}, {.before = small_alternate}};
    spinner_start(&spinners[0], "spinner");
    spinner_start(&spinners[1], "spinner");
    t_ready();
    t_wait_release();
    spinners_stop(spinners, 2);
    return 0;
}

/* S45: running on a stack that has no room for a signal frame with AVX-512 state. */

T_FRAME long uses_stack(void *argument);
T_FRAME long uses_stack(void *argument)
{
    const struct spinner *s = (struct spinner *)argument;
    size_t used = (size_t)t_param("used", 10 * 1024);
    volatile char *bytes = (volatile char *)alloca(used);
    for (size_t i = 0; i < used; i += 64)
        bytes[i] = 1;
    long r = spins_here((void *)(uintptr_t)s);
    T_NO_TAIL_CALL();
    return r + bytes[0] - 1;
}

T_FRAME void *small_stack_thread(void *argument);
T_FRAME void *small_stack_thread(void *argument)
{
    struct spinner *s = (struct spinner *)argument;
    t_publish(&s->tid);
    t_check(uses_stack(s) == 0);
    return NULL;
}

static int run_small_stack(void)
{
    static struct spinner spinner;
    size_t size = 16 * 1024;
    if (size < (size_t)sysconf(_SC_THREAD_STACK_MIN))
        size = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    t_param("used", 0);
    spinner.thread = t_thread_on(size, small_stack_thread, &spinner, "small-stack");
    t_await_running(t_await_tid(&spinner.tid));
    t_expect(spinner.tid, "spins_here uses_stack small_stack_thread");
    t_fact("spinner", "%d", (int)spinner.tid);
    t_ready();
    t_wait_release();
    spinners_stop(&spinner, 1);
    return 0;
}

/*
 * S44, S46: a thread inside its SIGSEGV handler, on an alternate stack. The handler repairs the page before
 * it returns, so the faulting function goes on.
 */

static char *fault_page;
static sem_t fault_may_go;
static struct spinner fault_spinner;
static const char *fault_kind;
static _Atomic pid_t faulting;
static void *volatile fault_memory;
static _Atomic int fault_gate; /* 1: the faulting thread may fault */

T_FRAME void in_fault_handler(void);
T_FRAME void in_fault_handler(void)
{
    if (!strcmp(fault_kind, "spin")) {
        t_publish(&fault_spinner.tid);
        spins_here(&fault_spinner);
    } else if (!strcmp(fault_kind, "malloc")) {
        fault_memory = malloc(100);
    } else {
        while (sem_wait(&fault_may_go))
            ;
    }
    T_NO_TAIL_CALL();
}

T_FRAME void on_fault(int number, siginfo_t *info, void *context);
T_FRAME void on_fault(int number, siginfo_t *info, void *context)
{
    /* 2 KiB: with the kernel's frame a good part of the 8 KiB, without overflowing it by ourselves. */
    volatile char used[2048];
    (void)number;
    (void)context;
    used[0] = used[2047] = 1;
    if ((char *)info->si_addr != fault_page)
        _exit(99); /* a fault that this scenario did not cause */
    in_fault_handler();
    mprotect(fault_page, 4096, PROT_READ | PROT_WRITE);
    t_sink += (unsigned)used[0];
}

T_FRAME long faults_here(void *argument);
T_FRAME long faults_here(void *argument)
{
    (void)argument;
    *(volatile char *)fault_page = 1;
    T_NO_TAIL_CALL();
    return *(volatile char *)fault_page;
}

T_FRAME void *faulting_thread(void *argument);
T_FRAME void *faulting_thread(void *argument)
{
    struct spinner unused;
    small_alternate(&unused);
    t_publish(&faulting);
    t_await(&fault_gate, 1);
    t_check(t_chain(3, faults_here, NULL) == 1);
    return argument;
}

static pthread_t fault_start(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sem_init(&fault_may_go, 0, 0);
    t_must(sigaction(SIGSEGV, &action, NULL));
    fault_page = (char *)t_must(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    pthread_t thread = t_thread(faulting_thread, NULL, "faulting");
    t_await_tid(&faulting);
    return thread;
}

#define FAULT_CHAIN " in_fault_handler on_fault faults_here"

static int run_fault_handler(void)
{
    fault_kind = t_param_text("kind", "sleep");
    pthread_t thread = fault_start();
    atomic_store(&fault_gate, 1);
    if (!strcmp(fault_kind, "spin")) {
        t_await_running(t_await_tid(&fault_spinner.tid));
        t_expect_chain(faulting, "spins_here" FAULT_CHAIN, 3, "t_chain faulting_thread");
    } else {
        t_await_blocked(faulting, SYS_futex);
        t_expect_chain(faulting, &FAULT_CHAIN[1], 3, "t_chain faulting_thread");
    }
    t_fact("faulting", "%d", (int)faulting);
    t_ready();
    t_wait_release();
    atomic_store(&spin_end, true);
    sem_post(&fault_may_go);
    t_join(thread);
    return 0;
}

/* S46: the handler allocates, the lock is held by another thread for ever. Needs lib_lockmalloc.so preloaded.
 */

static _Atomic pid_t crash_holder;

T_FRAME void *crash_holder_thread(void *argument);
T_FRAME void *crash_holder_thread(void *argument)
{
    void (*hold)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "lockmalloc_hold");
    if (!hold)
        t_fail("lib_lockmalloc.so is not preloaded");
    hold(t_gettid());
    t_publish(&crash_holder);
    fault_memory = malloc(50);
    T_NO_TAIL_CALL();
    return argument;
}

static int run_crash_malloc(void)
{
    fault_kind = "malloc";
    void (*release)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "lockmalloc_release");
    /* All threads before the lock is held: creating one allocates. */
    pthread_t thread = fault_start();
    pthread_t holder = t_thread(crash_holder_thread, NULL, "holder");
    t_await_blocked(t_await_tid(&crash_holder), SYS_futex);
    atomic_store(&fault_gate, 1);
    t_await_blocked(faulting, SYS_futex);
    t_expect(crash_holder, "allocator_holds_lock allocate malloc crash_holder_thread");
    t_expect_chain(faulting, "allocator_takes_lock allocate malloc" FAULT_CHAIN, 3,
                   "t_chain faulting_thread");
    t_fact("faulting", "%d", (int)faulting);
    t_ready();
    t_wait_release();
    release();
    t_join(thread);
    t_join(holder);
    return 0;
}

/*
 * S64: a thread that hardly ever runs answers a signal long after everybody gave up. It shares one CPU with
 * hogs of a higher class.
 */

static _Atomic bool hog_end;

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    t_check(!pthread_setaffinity_np(pthread_self(), sizeof(set), &set));
}

static int starved_cpu;

static void *hog_thread(void *argument)
{
    struct sched_param fifo = {.sched_priority = 1};
    pin(starved_cpu);
    /* Without the privilege the hog is an ordinary thread: the other one is only slow then. */
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &fifo);
    while (!atomic_load(&hog_end))
        ;
    return argument;
}

static void become_idle_class(struct spinner *s)
{
    struct sched_param none = {.sched_priority = 0};
    (void)s;
    pin(starved_cpu);
    t_check(!pthread_setschedparam(pthread_self(), SCHED_IDLE, &none));
}

static const char *one_cpu(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN) < 2 ? "needs two CPUs" : NULL;
}

static int run_starved(void)
{
    static struct spinner spinner = {.before = become_idle_class};
    cpu_set_t allowed;
    t_must(sched_getaffinity(0, sizeof(allowed), &allowed));
    for (starved_cpu = CPU_SETSIZE - 1; starved_cpu > 0 && !CPU_ISSET(starved_cpu, &allowed); starved_cpu--)
        ;
    spinner_start(&spinner, "starved");
    pthread_t hog = t_thread(hog_thread, NULL, "hog");
    t_ready();
    t_wait_step();
    atomic_store(&hog_end, true);
    t_join(hog);
    t_must(write(1, "fed\n", 4));
    t_wait_release();
    spinners_stop(&spinner, 1);
    return 0;
}

/*
 * Calls that compute for long and never sleep: the kernel cuts them short for any signal that comes in
 * between.
 */
static _Atomic unsigned long short_reads;

static void *long_reader(void *argument)
{
    size_t size = (size_t)16 << 20;
    char *buffer = malloc(size);
    int fd = open("/dev/zero", O_RDONLY);

    t_must(fd);
    t_publish(argument);
    while (!spin_end)
        short_reads += read(fd, buffer, size) != (ssize_t)size;
    free(buffer);
    return NULL;
}

static int run_long_reads(void)
{
    pthread_t threads[4];
    static _Atomic pid_t tids[4];

    for (unsigned i = 0; i < 4; i++) {
        threads[i] = t_thread(long_reader, &tids[i], "reader");
        t_await_running(t_await_tid(&tids[i]));
    }
    t_ready();
    t_wait_release();
    spin_end = true;
    for (unsigned i = 0; i < 4; i++)
        t_join(threads[i]);
    if (short_reads)
        t_fail("%lu reads were cut short", short_reads);
    return 0;
}

const struct t_scenario t_signal_scenarios[] = {
    {"sigdfl", "S27", "resets all dispositions at start and again at the first line; a running thread", NULL,
     run_sigdfl},
    {"rt_taken", "S30", "free=0: handlers on all realtime signals but the top `free`; a running thread", NULL,
     run_rt_taken},
    {"sig_blocked", "S32", "threads with all signals blocked, asleep and running", NULL, run_sig_blocked},
    {"own_filters", "S79", "threads that sandbox themselves: a handler's return kills; strict mode", NULL,
     run_own_filters},
    {"sigterm", "S37", "ends gracefully when SIGTERM reaches its sigwait()", NULL, run_sigterm},
    {"altstack", "S42", "running threads with an 8 KiB alternate signal stack", NULL, run_altstack},
    {"small_stack", "S45", "used=10240: a running thread on a 16 KiB stack", NULL, run_small_stack},
    {"fault_handler", "S44",
     "kind=sleep|spin: a thread inside its SIGSEGV handler on an 8 KiB alternate stack", NULL,
     run_fault_handler},
    {"crash_malloc", "S46", "a SIGSEGV handler hung in malloc (preload lib_lockmalloc.so)", NULL,
     run_crash_malloc},
    {"starved", "S64", "a running thread that gets no CPU until the first line", one_cpu, run_starved},
    {"long_reads", "S01", "four threads in reads that compute for milliseconds", NULL, run_long_reads},
    {NULL, NULL, NULL, NULL, NULL},
};
