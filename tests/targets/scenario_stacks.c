/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scenarios that are hard to unwind: stack switching, code without unwind tables, generated code, hostile
 * stack contents, very deep and quickly changing stacks.
 */
#include "tests/targets/target.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/targets/no_cfi.h"

static sem_t may_go;
static _Atomic pid_t sleeper;
static _Atomic bool loops_end;
static _Atomic int loops[4];

/* The leaf of the sleeping scenarios of this file. */
T_FRAME long sleeps_here(void *argument);
T_FRAME long sleeps_here(void *argument)
{
    (void)argument;
    t_publish(&sleeper);
    while (sem_wait(&may_go))
        ;
    T_NO_TAIL_CALL();
    return 5;
}

static void await_sleeper(void)
{
    t_await_blocked(t_await_tid(&sleeper), SYS_futex);
}

static int finish_sleeper(pthread_t thread)
{
    t_ready();
    t_wait_release();
    sem_post(&may_go);
    t_join(thread);
    return 0;
}

static int finish_loops(pthread_t *threads, int n)
{
    for (int i = 0; i < n; i++)
        t_await(&loops[i], 3);
    t_ready();
    t_wait_release();
    for (int i = 0; i < n; i++)
        t_await(&loops[i], atomic_load(&loops[i]) + 3);
    atomic_store(&loops_end, true);
    for (int i = 0; i < n; i++)
        t_join(threads[i]);
    return 0;
}

/* S48: swapcontext between heap stacks, and longjmp out of a recursion, all the time. */

static ucontext_t outer_context, inner_context;

static void coroutine(void)
{
    for (;;)
        swapcontext(&inner_context, &outer_context);
}

static void *swap_thread(void *argument)
{
    getcontext(&inner_context);
    inner_context.uc_stack.ss_size = 64 * 1024;
    inner_context.uc_stack.ss_sp = malloc(inner_context.uc_stack.ss_size);
    inner_context.uc_link = &outer_context;
    makecontext(&inner_context, coroutine, 0);
    while (!atomic_load(&loops_end)) {
        for (int i = 0; i < 1000; i++)
            swapcontext(&outer_context, &inner_context);
        atomic_fetch_add((_Atomic int *)argument, 1);
    }
    free(inner_context.uc_stack.ss_sp);
    return NULL;
}

T_FRAME int jumps_out(jmp_buf *to, int depth);
T_FRAME int jumps_out(jmp_buf *to, int depth)
{
    if (depth == 0)
        longjmp(*to, 1);
    int r = jumps_out(to, depth - 1);
    T_NO_TAIL_CALL();
    return r;
}

static void *jump_thread(void *argument)
{
    while (!atomic_load(&loops_end)) {
        jmp_buf to;
        if (!setjmp(to))
            jumps_out(&to, 10);
        atomic_fetch_add((_Atomic int *)argument, 1);
    }
    return NULL;
}

static int run_swapcontext(void)
{
    pthread_t threads[2] = {t_thread(swap_thread, (void *)&loops[0], "swap"),
                            t_thread(jump_thread, (void *)&loops[1], "jump")};
    return finish_loops(threads, 2);
}

/* A coroutine that sleeps on a heap stack: its frames are real, and end at the coroutine's start. */

static void sleeping_coroutine(void)
{
    t_sink += (unsigned)t_chain(3, sleeps_here, NULL);
}

static void *coroutine_thread(void *argument)
{
    getcontext(&inner_context);
    inner_context.uc_stack.ss_size = 64 * 1024;
    inner_context.uc_stack.ss_sp = malloc(inner_context.uc_stack.ss_size);
    inner_context.uc_link = &outer_context;
    makecontext(&inner_context, sleeping_coroutine, 0);
    swapcontext(&outer_context, &inner_context);
    free(inner_context.uc_stack.ss_sp);
    return argument;
}

static int run_coroutine(void)
{
    sem_init(&may_go, 0, 0);
    pthread_t thread = t_thread(coroutine_thread, NULL, "coroutine");
    await_sleeper();
    t_expect_chain(sleeper, "sleeps_here", 3, "t_chain sleeping_coroutine");
    return finish_sleeper(thread);
}

/*
 * S49: code in anonymous memory. One thread sleeps in a function that generated code called, with a frame
 * pointer chain and without any table; one runs inside generated code.
 */

static unsigned char *generated;

static void generate(void)
{
    static const unsigned char call_argument[] = {
        0x55,             /* push %rbp */
        0x48, 0x89, 0xe5, /* mov %rsp,%rbp */
        0x48, 0x89, 0xf8, /* mov %rdi,%rax */
        0x48, 0x89, 0xf7, /* mov %rsi,%rdi */
        0xff, 0xd0,       /* call *%rax */
        0x5d,             /* pop %rbp */
        0xc3,             /* ret */
    };
    static const unsigned char loop_while_zero[] = {
        0x55,             /* push %rbp */
        0x48, 0x89, 0xe5, /* mov %rsp,%rbp */
        0xf3, 0x90,       /* pause */
        0x80, 0x3f, 0x00, /* cmpb $0,(%rdi) */
        0x74, 0xf9,       /* je back to pause */
        0x5d,             /* pop %rbp */
        0xc3,             /* ret */
    };
    generated =
        (unsigned char *)t_must(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memcpy(generated, call_argument, sizeof(call_argument));
    memcpy(generated + 256, loop_while_zero, sizeof(loop_while_zero));
    t_must(mprotect(generated, 4096, PROT_READ | PROT_EXEC));
}

static volatile char generated_end;
static _Atomic pid_t generated_spinner;

T_FRAME void *sleeps_below_generated(void *argument);
T_FRAME void *sleeps_below_generated(void *argument)
{
    long (*call)(t_leaf, void *) = (long (*)(t_leaf, void *))(void *)generated;
    t_check(call(sleeps_here, NULL) == 5);
    return argument;
}

T_FRAME void *runs_generated(void *argument);
T_FRAME void *runs_generated(void *argument)
{
    void (*loop)(volatile char *) = (void (*)(volatile char *))(void *)(generated + 256);
    t_publish(&generated_spinner);
    loop(&generated_end);
    T_NO_TAIL_CALL();
    return argument;
}

static int run_generated(void)
{
    sem_init(&may_go, 0, 0);
    generate();
    pthread_t running = t_thread(runs_generated, NULL, "runs");
    pthread_t thread = t_thread(sleeps_below_generated, NULL, "sleeps");
    await_sleeper();
    t_await_running(t_await_tid(&generated_spinner));
    t_fact("generated", "0x%lx", (unsigned long)(uintptr_t)generated);
    t_fact("sleeper", "%d", (int)sleeper);
    t_fact("spinner", "%d", (int)generated_spinner);
    t_ready();
    t_wait_release();
    generated_end = 1;
    t_join(running);
    sem_post(&may_go);
    t_join(thread);
    return 0;
}

/* S50: words on the stack that look like pointers but must never be followed blindly. */

static uintptr_t forbidden;

T_FRAME long hostile_frame(t_leaf leaf, size_t words);
T_FRAME long hostile_frame(t_leaf leaf, size_t words)
{
    volatile uintptr_t *filled = (volatile uintptr_t *)alloca(words * sizeof(*filled));
    for (size_t i = 0; i < words; i++)
        filled[i] = forbidden + i * 13; /* unaligned ones too */
    long result = leaf(NULL);
    t_sink += (unsigned)filled[words - 1];
    return result;
}

T_FRAME void *hostile_thread(void *argument);
T_FRAME void *hostile_thread(void *argument)
{
    t_check(hostile_frame(sleeps_here, 1000) == 5);
    return argument;
}

static int run_hostile_stack(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    size_t size = 256 * 1024;

    sem_init(&may_go, 0, 0);
    forbidden = (uintptr_t)t_must(mmap(NULL, 64 * 1024, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    /* The stack's last byte is the last byte before an inaccessible page, and no guard that libc knows is
     * below. */
    char *stack = (char *)t_must(mmap(NULL, size + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    t_must(mprotect(stack + 4096, size, PROT_READ | PROT_WRITE));
    pthread_attr_init(&attributes);
    t_check(!pthread_attr_setstack(&attributes, stack + 4096, size));
    t_check(!pthread_create(&thread, &attributes, hostile_thread, NULL));
    await_sleeper();
    /* alloca needs a frame register, which a sleeping thread's capture does not know: the test allows an end
     * there. */
    t_expect(sleeper, "sleeps_here hostile_frame hostile_thread");
    return finish_sleeper(thread);
}

/* S66: recursing and returning quickly. */

T_FRAME unsigned recurses(unsigned depth);
T_FRAME unsigned recurses(unsigned depth)
{
    unsigned r = depth ? recurses(depth - 1) : 1;
    T_NO_TAIL_CALL();
    return r + 1;
}

static void *recursing_thread(void *argument)
{
    while (!atomic_load(&loops_end)) {
        t_check(recurses(200) == 202);
        atomic_fetch_add((_Atomic int *)argument, 1);
    }
    return NULL;
}

static int run_recurse(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = t_thread(recursing_thread, (void *)&loops[i], "recursing");
    return finish_loops(threads, 4);
}

/* S88: a deep recursion with a big frame at its end. */

T_FRAME long sinks(int depth);
T_FRAME long sinks(int depth)
{
    char pad[64];
    memset(pad, depth, sizeof(pad));
    long r = depth ? sinks(depth - 1) : t_chain(1, sleeps_here, NULL);
    t_sink += (unsigned char)pad[depth % 64];
    return r;
}

T_FRAME void *deep_thread(void *argument);
T_FRAME void *deep_thread(void *argument)
{
    t_check(sinks(*(int *)argument) == 5);
    return NULL;
}

static int run_deep(void)
{
    int depth = (int)t_param("depth", 2000);
    sem_init(&may_go, 0, 0);
    pthread_t thread = t_thread_on(8 << 20, deep_thread, &depth, "deep");
    await_sleeper();
    t_fact("deep", "%d", (int)sleeper);
    return finish_sleeper(thread);
}

/* S90: a caller with .debug_frame only, asleep; and a sleep inside a handler with an unmarked trampoline. */

T_FRAME void *no_cfi_thread(void *argument);
T_FRAME void *no_cfi_thread(void *argument)
{
    t_check(without_cfi(sleeps_here, NULL) == 5);
    return argument;
}

static int run_debug_frame(void)
{
    sem_init(&may_go, 0, 0);
    pthread_t thread = t_thread(no_cfi_thread, NULL, "no-cfi");
    await_sleeper();
    t_expect(sleeper, "sleeps_here without_cfi no_cfi_thread");
    return finish_sleeper(thread);
}

/* S90: a library whose unwind tables only its section headers lead to. */

T_FRAME void *no_hdr_thread(void *argument);
T_FRAME void *no_hdr_thread(void *argument)
{
    void *library = t_dlopen("lib_no_hdr.so");
    long (*outer)(t_leaf, void *) = (long (*)(t_leaf, void *))dlsym(library, "no_hdr_outer");

    t_check(outer(sleeps_here, NULL) == 12);
    T_NO_TAIL_CALL();
    return argument;
}

static int run_no_eh_frame_hdr(void)
{
    sem_init(&may_go, 0, 0);
    pthread_t thread = t_thread(no_hdr_thread, NULL, "no-hdr");
    await_sleeper();
    t_expect(sleeper, "sleeps_here no_hdr_inner no_hdr_outer no_hdr_thread");
    return finish_sleeper(thread);
}

T_FRAME void on_raw_signal(int number);
T_FRAME void on_raw_signal(int number)
{
    (void)number;
    t_sink += (unsigned)sleeps_here(NULL);
}

T_FRAME void *raises_raw(void *argument);
T_FRAME void *raises_raw(void *argument)
{
    /* The kernel's layout, not glibc's: glibc would put its own restorer, which has CFI. */
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {
        .handler = on_raw_signal, .flags = 0x04000000 /* SA_RESTORER */, .restorer = restorer_without_cfi};
    t_must(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8));
    t_must(syscall(SYS_tgkill, getpid(), t_gettid(), SIGUSR1));
    T_NO_TAIL_CALL();
    return argument;
}

static int run_raw_trampoline(void)
{
    sem_init(&may_go, 0, 0);
    pthread_t thread = t_thread(raises_raw, NULL, "raw-signal");
    await_sleeper();
    t_expect(sleeper, "sleeps_here on_raw_signal restorer_without_cfi raises_raw");
    return finish_sleeper(thread);
}

/* S52: two deep paths to the same short sleep, one after the other. */

#define PATH_DEPTH 20
static _Atomic bool paths_over;

T_FRAME long sleeps_a_moment(long path);
T_FRAME long sleeps_a_moment(long path)
{
    struct timespec moment = {.tv_nsec = 100000 + path * 50000};
    nanosleep(&moment, NULL);
    T_NO_TAIL_CALL();
    return path;
}

T_FRAME long first_path(long depth);
T_FRAME long first_path(long depth)
{
    long result = depth > 1 ? first_path(depth - 1) : sleeps_a_moment(0);
    T_NO_TAIL_CALL();
    return result + 1;
}

/* Its frames are of another size, so that what is left of one path lies at odd places of the other. */
T_FRAME long second_path(long depth);
T_FRAME long second_path(long depth)
{
    volatile char room[72] = {(char)depth};
    long result = depth > 1 ? second_path(depth - 1) : sleeps_a_moment(1);
    T_NO_TAIL_CALL();
    return result + room[0];
}

T_FRAME void *walks_both_paths(void *argument);
T_FRAME void *walks_both_paths(void *argument)
{
    while (!paths_over) {
        t_sink += (unsigned)first_path(PATH_DEPTH);
        t_sink += (unsigned)second_path(PATH_DEPTH);
    }
    return argument;
}

static int run_two_paths(void)
{
    pthread_t thread = t_thread(walks_both_paths, NULL, "walker");

    t_fact("depth", "%d", PATH_DEPTH);
    t_ready();
    t_wait_release();
    paths_over = true;
    pthread_join(thread, NULL);
    return 0;
}

const struct t_scenario t_stack_scenarios[] = {
    {"two_paths", "S52", "a thread that takes two deep paths to the same short sleep, one after the other",
     NULL, run_two_paths},
    {"swapcontext", "S48", "loops in swapcontext() and longjmp()", NULL, run_swapcontext},
    {"coroutine", "S48", "a coroutine asleep on a heap stack", NULL, run_coroutine},
    {"generated", "S49", "generated code: one thread asleep below it, one running in it", NULL,
     run_generated},
    {"hostile_stack", "S50", "a stack full of pointers to inaccessible pages", NULL, run_hostile_stack},
    {"recurse", "S66", "4 threads recursing and returning quickly", NULL, run_recurse},
    {"deep", "S88", "depth=2000: a deep recursion, asleep at its end", NULL, run_deep},
    {"debug_frame", "S90", "asleep below a function that has only .debug_frame", NULL, run_debug_frame},
    {"no_eh_frame_hdr", "S90", "asleep below a library without .eh_frame_hdr", NULL, run_no_eh_frame_hdr},
    {"raw_trampoline", "S90", "asleep in a signal handler whose trampoline has no CFI", NULL,
     run_raw_trampoline},
    {NULL, NULL, NULL, NULL, NULL},
};
