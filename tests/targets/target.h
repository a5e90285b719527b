/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The scenario program: a table of situations that the agent is pointed at. This header is what a scenario
 * may use.
 *
 * A scenario builds its situation, reports "ready" once every thread is proven (through /proc, never by
 * sleeping) to be where it should be, waits for a line on stdin, and then checks what a program would
 * observe: return values, elapsed time, bytes moved, counters. It returns 0, or calls t_fail().
 */
#ifndef TESTS_TARGETS_TARGET_H
#define TESTS_TARGETS_TARGET_H

#include <pthread.h>
#ifdef __cplusplus
#include <atomic>
#else
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Every function of an expected chain: visible in the symbol table under its own name, never inlined or
 * cloned. noipa is gcc's strongest form; clang has no such attribute and needs noinline alone.
 */
#if defined(__clang__)
#define T_FRAME __attribute__((noinline, used))
#else
#define T_FRAME __attribute__((noinline, noclone, noipa, used))
#endif

/* Work behind a call, so that the compiler cannot turn it into a jump. */
extern volatile unsigned t_sink;
#define T_NO_TAIL_CALL() (t_sink = t_sink + 1)

struct t_scenario {
    const char *name;
    const char *story;                /* "S01 S02", or "" */
    const char *describe;             /* one line, with the parameters */
    const char *(*unavailable)(void); /* reason, or NULL: available; the pointer may be NULL */
    int (*run)(void);
};

/* Each scenario file ends in one such table; target.c lists them all. The last row has no name. */
extern const struct t_scenario t_blocked_scenarios[], t_lock_scenarios[], t_signal_scenarios[],
    t_stack_scenarios[], t_process_scenarios[], t_loader_scenarios[], t_cxx_scenarios[], t_uring_scenarios[],
    t_takeover_scenarios[], t_fuse_scenarios[];

/* Parameters: key=value words of the command line. An unknown key given by the caller is an error at
 * t_ready(). */
long t_param(const char *key, long otherwise);
const char *t_param_text(const char *key, const char *otherwise);

/* The program stops here with exit status 1 and the reason on stderr. */
void t_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define t_check(condition)                                                 \
    do {                                                                   \
        if (!(condition))                                                  \
            t_fail("%s:%d: not true: %s", __FILE__, __LINE__, #condition); \
    } while (0)
/* A call that must not fail with -1; the reason names errno. */
#define t_must(call)                                            \
    ({                                                          \
        __auto_type t_result_ = (call);                         \
        if (t_result_ == (__typeof__(t_result_))-1)             \
            t_fail("%s:%d: %s: %m", __FILE__, __LINE__, #call); \
        t_result_;                                              \
    })

/* Facts for the test, before t_ready(): "fact KEY VALUE". */
void t_fact(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The expected functions of a thread, innermost first, a blank between them: "chain TID f3 f2 f1". */
void t_expect(pid_t tid, const char *chain);
/* t_expect() with: innermost words, then the chain functions of this depth, then outermost words. */
void t_expect_chain(pid_t tid, const char *innermost, int depth, const char *outermost);
/* "ready PID TID..." with all threads of this process. */
void t_ready(void);
/* Until the test sends a line; its end of the pipe closing counts as "the test is gone": exits 1. */
void t_wait_release(void);
/* As t_wait_release(), for scenarios with several steps: the next call waits for another line. */
void t_wait_step(void);
/* Has the test sent its line? Never blocks. */
bool t_released(void);

/* Time and threads. */
uint64_t t_now_ns(void);
void t_sleep_ms(long ms);
/* Deadline in seconds for everything a scenario waits for. Generous: only a hang ends here. */
#define T_DEADLINE_S 60
pthread_t t_thread(void *(*start)(void *), void *argument, const char *name);
pthread_t t_thread_on(size_t stack_size, void *(*start)(void *), void *argument, const char *name);
void t_join(pthread_t thread);
pid_t t_gettid(void);
/* This system call ends in action, SECCOMP_RET_...: for this thread, or by flags for all. */
void t_forbid(unsigned number, unsigned action, unsigned flags);
#ifndef __cplusplus
/* A thread's id, published by the thread itself through t_publish(). */
void t_publish(_Atomic pid_t *to);
pid_t t_await_tid(_Atomic pid_t *from);
void t_await(_Atomic int *value, int at_least);
#endif

/*
 * Until thread tid of this process is seen asleep in system call number twice in a row without having run in
 * between (switch counters). Fails after the deadline. number -1: any system call; -2: a page fault.
 */
void t_await_blocked(pid_t tid, long number);
/* Until thread tid is seen running (state R and no system call). */
void t_await_running(pid_t tid);
/* Content of /proc/self/task/<tid>/<name>; false: cannot be read (thread gone). */
bool t_task_file(pid_t tid, const char *name, char *to, size_t size);
/* Value of a field of /proc/self/task/<tid>/status, copied into value; false: no such field. */
bool t_status_field(pid_t tid, const char *field, char *value, size_t size);

/*
 * The known chain: chain_1 calls chain_2 ... calls chain_<depth>, which calls leaf(argument); depth 0 calls
 * it at once. At most T_CHAIN_MAX. The result is leaf's.
 */
#define T_CHAIN_MAX 32
typedef long (*t_leaf)(void *argument);
long t_chain(int depth, t_leaf leaf, void *argument);

/* The directory of this executable, where the plug-in libraries are. */
const char *t_directory(void);
/* dlopen() of a plug-in library beside this executable. */
void *t_dlopen(const char *name);

#ifdef __cplusplus
}
#endif
#endif
