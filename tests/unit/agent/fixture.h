/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A capture session over the test process itself. The thread that runs the test plays the probe thread.
 */
#ifndef TESTS_UNIT_AGENT_FIXTURE_H
#define TESTS_UNIT_AGENT_FIXTURE_H

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "agent/backends/backend.h"
#include "agent/capture.h"
#include "agent/sys.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* What session->take was given, with its bytes copied. */
struct taken {
    int32_t tid;
    struct raw_context raw;
    uint8_t *bytes[2];
};

struct fixture {
    struct arena arena;
    struct memory memory;
    struct modules modules;
    struct snapshot_stats stats;
    struct capture_session session;
    struct taken taken[2048];
    unsigned n_taken;
    struct thread_sample *threads;
    uint32_t n_threads;
    void (*on_take)(struct fixture *fixture, const struct raw_context *raw); /* or NULL */
    struct fixture *next; /* of all: a test that ends has leaked nothing */
};

/* Reads the memory map as it is now: threads to be captured come first. */
struct fixture *fixture_new(void);
void fixture_capture(struct fixture *fixture);                              /* list and capture all */
void fixture_forget(struct fixture *fixture);                               /* ready for the next dump */
struct thread_sample *fixture_sample(struct fixture *fixture, int32_t tid); /* asserts that it is listed */
struct taken *fixture_taken(struct fixture *fixture, int32_t tid); /* the last; asserts that there is one */

/* Are these the bytes at address now? Also where a sanitizer sees a red zone. */
bool same_as_memory(const uint8_t *bytes, uint64_t address, size_t size);

/* A thread that announces itself and then runs body. */
struct worker {
    pthread_t thread;
    _Atomic int32_t tid;
    void (*body)(struct worker *worker);
    void *data;
    size_t stack_size; /* 0: 256 KiB */
    void *stack;       /* or NULL */
    /* Set by bodies that know. */
    _Atomic uint64_t sp, pc, pc_end;
    _Atomic bool stop, returned;
    _Atomic long result;
};

void worker_start(struct worker *worker);             /* returns when it is about to run body */
void worker_stop(struct worker *worker);              /* bodies that look at stop; waits for its end */
void worker_wait_asleep(const struct worker *worker); /* until the kernel says so */
void worker_wait_running(const struct worker *worker);
int64_t worker_syscall_number(const struct worker *worker); /* -2: running */

/* Bodies */
void worker_spin(struct worker *worker); /* until stop */

/* Hooks: tests set what the next calls shall see. */
bool path_ends(long path, const char *end);

#endif
