/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What every way of capturing threads implements, and what it yields: registers and
 * stack bytes, not yet unwound.
 * Zone: probe thread.
 */
#ifndef AGENT_BACKENDS_BACKEND_H
#define AGENT_BACKENDS_BACKEND_H

#include "agent/memory.h"
#include "agent/modules.h"
#include "agent/report/arena.h"
#include "agent/report/snapshot.h"

/* For all of them the same: why they have no stack. */
static inline void give_reason(struct thread_sample **samples, uint32_t n, enum capture_reason reason)
{
    for (uint32_t i = 0; i < n; i++)
        samples[i]->reason = reason;
}

enum capture_mode {
    CAPTURE_MODE_AUTO,    /* sleeping threads passively, running ones by signal */
    CAPTURE_MODE_PASSIVE, /* nobody is signalled */
    CAPTURE_MODE_SIGNAL,  /* as auto: no sleeping thread is signalled yet */
};

/* Copied stack bytes. */
struct stack_window {
    uint64_t base;
    size_t size;
    const uint8_t *bytes;
};

/* One captured thread before unwinding. Borrowed: valid until the take callback returns. */
struct raw_context {
    struct uw_regs regs;
    /* pc is an interrupted instruction; else the instruction after a system call, which is exact too. */
    bool exact;
    /* Innermost bytes; outermost bytes when the stack was longer than the limit. */
    struct stack_window window[2];
    uint64_t stack_top; /* end of the thread's own stack, where the bytes reach up to it; 0: not known */
    bool truncated;     /* there is a gap between the windows, or no bytes at all */
    /* The thread sleeps on: what is outside the windows may be read now, if it is proven still afterwards. */
    bool live;
    /* Set by walk_unwind() when it did read outside the windows: look again. NULL: not asked. */
    bool *ret_read_live;
};

struct capture_backend;

/* One dump's capture stage. Filled by dump.c; backends read it and fill samples and stats. */
struct capture_session {
    int task_fd;            /* /proc/<pid>/task; entries are "<tid>/syscall" and so on */
    int32_t pid;            /* getpid(): for signals */
    int32_t self_tid;       /* the probe thread as /proc numbers it: never a sample; 0: there is none */
    bool foreign_proc;      /* /proc numbers threads differently from the kernel calls: nobody is signalled */
    bool foreign_registers; /* what /proc says about registers is an emulator's: nobody is read */
    enum capture_mode mode;
    size_t max_stack;                      /* bytes copied per thread */
    uint64_t deadline;                     /* CLOCK_MONOTONIC ns: no new wait begins after it */
    const struct capture_backend *running; /* takes the threads that backend_passive leaves over */
    struct memory *memory;
    const struct modules *modules;
    struct arena *arena;
    struct snapshot_stats *stats;
    int32_t main_tid; /* as /proc numbers it: the thread whose stack is [stack] */
    /*
     * Called once per thread that has a raw context, as soon as it has one; sets sample->stack. Sleeping
     * threads share one buffer, so the context does not outlive the call.
     */
    void (*take)(void *context, struct thread_sample *sample, const struct raw_context *raw);
    void *take_context;
    /* Set by capture_threads() for the backends. */
    uint8_t *buffer; /* max_stack bytes, reused for every sleeping thread */
    char *text;      /* CAPTURE_TEXT bytes for files of /proc */
};

/* A status file can be long: its Groups line comes before the signal masks, 11 bytes a group. */
#define CAPTURE_TEXT ((size_t)64 * 1024)

struct capture_backend {
    const char *name;
    /*
     * Captures those of the n samples it can (sample->capture is still CAPTURE_NONE), sets their capture,
     * reason, registers and accounting, and calls session->take. Bounded by session->deadline.
     */
    void (*capture)(struct capture_session *session, struct thread_sample **samples, uint32_t n);
};

extern const struct capture_backend backend_passive; /* sleeping threads, never touched */
extern const struct capture_backend backend_signal;  /* running threads copy themselves in a handler */
extern const struct capture_backend backend_none; /* unsupported platforms: every thread with that reason */

/* Has a passively captured thread not run since (switch count), and is its lock word unchanged? */
bool passive_is_still(const struct capture_session *session, const struct thread_sample *sample);

/*
 * The signal backend's part at load time, on the program's thread: takes note of the wanted number
 * (0: the highest free real-time signal, chosen when it is needed) and forgets what the parent of
 * a fork child had prepared.
 */
void signal_backend_init(int requested_signal);

#endif
