/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The report model: one process as it was found at one moment. Plain data between the stages capture, unwind,
 * name, explain and encode, and again in probectl after decoding.
 *
 * Zone: pure. Strings are NUL-terminated and live in the caller's arena, like all arrays.
 */
#ifndef AGENT_REPORT_SNAPSHOT_H
#define AGENT_REPORT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind.h"

/* Default for PROBE_MAX_STACK: stack bytes copied per thread. */
#define SNAPSHOT_MAX_STACK ((size_t)256 * 1024)
/* Frames kept per stack; a longer stack is marked truncated. */
#define SNAPSHOT_MAX_FRAMES 4096

enum capture_kind {
    CAPTURE_NONE,    /* no stack; reason says why */
    CAPTURE_PASSIVE, /* read while it slept; the thread did not notice */
    CAPTURE_SIGNAL,  /* it was running and copied its own registers and stack in our handler */
    CAPTURE_KIND_N
};

/*
 * Why a thread has no stack, or only part of one. Words for the wire and sentences for people are in words.h.
 */
enum capture_reason {
    REASON_NONE,
    REASON_VANISHED,           /* ended while the dump was taken */
    REASON_UNSTABLE,           /* kept moving while it was read */
    REASON_SIGNAL_BLOCKED,     /* running with the capture signal blocked */
    REASON_FAULT_HANDLER,      /* running with SIGSEGV blocked: inside a fault handler */
    REASON_NO_ANSWER,          /* running, signalled, did not answer in time */
    REASON_SIGNALLED_RECENTLY, /* running, signalled less than min_gap ago */
    REASON_SMALL_STACK,        /* running on a stack too small for a signal frame */
    REASON_KERNEL_WORKER,      /* io_uring or other kernel worker: no user stack */
    REASON_SIGNAL_TAKEN,       /* running, and the program has its own handler for the capture signal */
    REASON_NO_SIGNAL,          /* running, and no signal number was free */
    REASON_SIGNAL_REFUSED,     /* running, and the kernel refused to queue the signal */
    REASON_PASSIVE_ONLY,       /* running, and PROBE_CAPTURE=passive */
    REASON_SYSCALL_UNREADABLE, /* /proc/<pid>/task/<tid>/syscall cannot be read */
    REASON_STACK_UNREADABLE,   /* its stack memory cannot be read */
    REASON_ZOMBIE,             /* the thread has ended, the process goes on */
    REASON_DEADLINE,           /* the dump's own time was used up */
    REASON_MEMORY,             /* the agent's memory was used up */
    REASON_UNSUPPORTED,        /* no capture on this platform */
    REASON_NO_AGENT,           /* seen from outside only */
    REASON_NOT_RUN,            /* runnable, but got no processor time while it was watched */
    REASON_SANDBOXED,          /* running under a seccomp filter that our own thread does not have */
    REASON_FOREIGN_STACK,      /* registers only: the stack pointer is outside the thread's own stack */
    REASON_OUTSIDE,            /* running, and captured from outside: nobody is signalled */
    REASON_N
};

struct report_registers {
    uint64_t instruction_pointer, stack_pointer;
    uint64_t frame_pointer; /* valid where frame_pointer_known */
    uint64_t link_register; /* aarch64 only */
    bool frame_pointer_known, link_register_known;
};

/* Frames are interned: equal frames of all threads are one entry. */
struct frame {
    uint64_t pc;
    uint64_t offset;        /* pc minus the module's bias: the ELF virtual address, as addr2line wants it */
    int32_t module;         /* index, or -1: pc is in no file-backed module */
    int32_t symbol;         /* index, or -1: not looked up, or no symbol contains it */
    uint64_t symbol_offset; /* pc minus the symbol's start; valid with symbol */
    enum uw_trust trust;
    bool exact; /* pc is an interrupted instruction, not a return address: look up pc, else pc - 1 */
};

struct symbol {
    const char *name; /* linkage name */
};

enum module_symbols {
    SYMBOLS_NOT_LOOKED, /* no frame needed them, or names were not asked for */
    SYMBOLS_TABLE,      /* read from .symtab */
    SYMBOLS_DYNAMIC,    /* the file has only .dynsym */
    SYMBOLS_NONE,       /* the file has no symbol table */
    SYMBOLS_DELETED,    /* the file is gone or was replaced */
    SYMBOLS_MISMATCHED, /* the file's build-id differs from the one in memory */
    SYMBOLS_UNREADABLE, /* the file cannot be opened or read */
    SYMBOLS_MALFORMED,
    SYMBOLS_N
};

struct report_module {
    const char *name; /* last part of path, or "[vdso]" */
    const char *path;
    const char *build_id; /* hex, or NULL */
    uint64_t base;        /* bias: run-time address minus ELF virtual address */
    uint64_t start, end;
    uint64_t device, inode; /* of the mapping; not on the wire */
    enum module_symbols symbols;
    bool own; /* the program itself, or from the program's own directories: not /lib, /usr/lib ... */
};

/* Innermost frame first. Interned: equal stacks are one entry. */
struct report_stack {
    const uint32_t *frames; /* indexes into snapshot.frames */
    uint32_t n_frames;
    enum uw_status end; /* why it ends: UW_END, or the reason */
    bool truncated;     /* frame limit reached, or the copy has a gap or ended */
};

struct report_syscall {
    bool known;
    int64_t number;
    uint64_t args[6];
};

/*
 * What was in memory at the futex a thread waits on, glibc's pthread_mutex_t layout;
 * meaning is given to it later.
 */
struct lock_word {
    bool known;
    uint32_t word;  /* +0  __lock */
    uint32_t count; /* +4  __count */
    int32_t owner;  /* +8  __owner */
    uint32_t users; /* +12 __nusers */
    int32_t kind;   /* +16 __kind */
};

/* Every bit that a glibc mutex can have in __kind: type, robust, PI, PP, shared, elision (pthreadP.h). */
#define MUTEX_KIND_BITS 0x3f3

enum wait_kind { WAIT_NONE, WAIT_MUTEX, WAIT_KIND_N };

enum owner_status {
    OWNER_NOT_APPLICABLE,
    OWNER_LIVE,     /* a live thread of this process */
    OWNER_SELF,     /* this same thread */
    OWNER_GONE,     /* recorded, but no such thread: exited, or lost in fork */
    OWNER_NONE,     /* the lock records no owner (now) */
    OWNER_UNPROVEN, /* something moved since the capture, or tids cannot be compared; nothing is claimed */
    OWNER_STATUS_N
};

struct report_wait {
    enum wait_kind kind;
    uint64_t address;
    int32_t owner_tid; /* valid where owner_status says live, self or gone */
    enum owner_status owner_status;
};

struct thread_sample {
    int32_t os_tid;
    char name[16]; /* the kernel's comm; may hold any byte */
    char state;    /* as in /proc/<pid>/stat: R S D T t Z X I; '?' unknown */
    uint64_t cpu_nanos;
    uint64_t switches; /* how often it was switched in when captured; not on the wire */
    enum capture_kind capture;
    enum capture_reason reason;
    bool truncated; /* the stack copy has a gap or is cut; see also report_stack */
    bool stable;    /* the same sleep before and after the copy, or copied by the thread itself */
    bool still;     /* proven unmoved after all captures: switch count and lock word unchanged */
    bool has_registers;
    struct report_registers registers;
    uint64_t stack_bytes; /* copied */
    int32_t stack;        /* index, or -1 */
    struct report_syscall syscall;
    struct lock_word lock_word;
    struct report_wait wait; /* filled by explain */
    bool owns_waited_lock; /* filled by explain: somebody waits for a lock that names this thread as owner */
    const char *wchan;     /* the kernel function it sleeps in, where there is no stack; or NULL */
};

struct snapshot_stats {
    uint32_t threads_total, threads_captured, threads_dropped;
    uint64_t pause_nanos, pause_nanos_max; /* wall-clock time threads spent in our handler: sum, longest */
    uint32_t signals_sent;
    uint32_t frames_unattributed; /* frames in no module */
    uint64_t duration_nanos;      /* request to captured */
};

/* A data address that was looked up because somebody waits there: what a lock is called. */
struct report_address {
    uint64_t address;
    int32_t module;         /* index; the address lies in it */
    int32_t symbol;         /* index, or -1: no data symbol contains the address */
    uint64_t symbol_offset; /* address minus the symbol's start; valid with symbol */
};

struct report_lock {
    uint64_t address;
    const char *kind;  /* "pthread mutex" */
    const char *name;  /* module:symbol+offset, "heap", "stack of TID", or NULL */
    int32_t owner_tid; /* 0: none */
    const int32_t *waiters;
    uint32_t n_waiters;
};

struct report_cycle {
    const int32_t *tids; /* each waits for the next, the last for the first */
    uint32_t n_tids;
};

struct report_verdict {
    const char *kind;       /* "DEADLOCK", ... "UNKNOWN" */
    const char *confidence; /* "proven", "likely"; "none" for UNKNOWN */
    const char *text;
};

struct process_info {
    int32_t pid;      /* as the agent (or, after decoding, probectl) sees it */
    int32_t ns_pid;   /* in the process's own pid namespace */
    int32_t main_tid; /* the main thread, numbered as threads[].os_tid is: by the /proc that the agent sees */
    int32_t ppid;
    uint32_t uid;
    const char *exe, *command; /* NULL: looked, and not there or not readable */
    const char *label;         /* NULL: none was given */
    uint64_t start_ticks;      /* clock ticks since boot, /proc/<pid>/stat field 22 */
    uint64_t start_time;       /* unix time in ns */
    uint64_t up_nanos;         /* age of the process when captured */
    bool foreign_proc; /* /proc is of another pid namespace: tids in memory (of owners) are other numbers */
    const char **why;  /* what limits this report, a sentence each */
    uint32_t n_why;
};

struct snapshot {
    struct process_info process;
    struct report_module *modules;
    struct frame *frames;
    struct symbol *symbols;
    struct report_stack *stacks;
    struct thread_sample *threads;
    struct report_address *addresses; /* optional */
    uint32_t n_modules, n_frames, n_symbols, n_stacks, n_threads, n_addresses;
    struct snapshot_stats stats;
    bool captured;        /* the raw stage is whole */
    bool frames_resolved; /* names were looked up; an empty frame list does not tell */
    bool complete;        /* every thread has a stack to its end, and nothing was lost on the way */
    struct report_lock *locks;
    struct report_cycle *cycles;
    struct report_verdict *verdicts;
    uint32_t n_locks, n_cycles, n_verdicts;
};

/* Where there is no user stack, nothing is missing. */
static inline bool sample_counts_as_captured(const struct thread_sample *thread)
{
    return thread->capture != CAPTURE_NONE || thread->reason == REASON_ZOMBIE ||
           thread->reason == REASON_KERNEL_WORKER;
}

/* threads_dropped > 0: a partial snapshot. */
static inline bool snapshot_partial(const struct snapshot *snapshot)
{
    return snapshot->stats.threads_dropped > 0;
}

#endif
