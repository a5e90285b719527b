/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hand-made snapshots for the tests of explanation, text and wire.
 * A program "app" with its own functions, and glibc; threads are added one by one.
 */
#ifndef TESTS_UNIT_REPORT_MODEL_H
#define TESTS_UNIT_REPORT_MODEL_H

#include "agent/report/arena.h"
#include "agent/report/snapshot.h"

#define MODEL_MAX 4096

enum { MODEL_APP, MODEL_LIBC, MODEL_OTHER }; /* modules; OTHER is a library of the system */

struct model {
    struct snapshot snapshot;
    struct report_module modules[3];
    struct frame frames[MODEL_MAX];
    struct symbol symbols[MODEL_MAX];
    struct report_stack stacks[MODEL_MAX];
    struct thread_sample threads[MODEL_MAX];
    struct report_address addresses[MODEL_MAX];
    uint32_t stack_frames[MODEL_MAX], n_stack_frames;
    struct arena arena;
};

/* An empty process with three modules. Big: allocate it statically or with model_new(). */
struct model *model_new(void);
/* Interns a frame of trust cfi; name NULL: no symbol contains it. Returns its index. */
uint32_t model_frame(struct model *model, int32_t module, const char *name);
/* A stack of frames given innermost first, ended by -1; end UW_END. */
int32_t model_stack(struct model *model, ...);
/* A sleeping, passively captured, stable and still thread. */
struct thread_sample *model_thread(struct model *model, int32_t tid, const char *name, int32_t stack);
/* A thread inside pthread_mutex_lock(), called by "worker"; owner is what the lock word says. */
struct thread_sample *model_waiter(struct model *model, int32_t tid, const char *name, uint64_t lock,
                                   int32_t owner);
/* Sets the counts, then explains in both steps as agent and client do. */
void model_explain(struct model *model);
/* The text report, malloc()ed. */
char *model_text(struct model *model);

#endif
