/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parsers for the files of /proc/<pid>/task/<tid>: text in, struct out. They do no input or output
 * themselves, so an odd kernel is a fixture and not a machine.
 *
 * Every parser returns false for text that is cut short or of another form, and then leaves *ret untouched.
 * Zone: probe thread (pure).
 */
#ifndef AGENT_PROCFS_H
#define AGENT_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Enough for every line but status: stat has 52 numbers of up to 20 digits (fs/proc/array.c, do_task_stat).
 */
#define PROCFS_LINE_MAX 1280

/* task_struct.flags as printed in stat (include/linux/sched.h) */
#define PROCFS_FLAG_IO_WORKER 0x00000010u /* PF_IO_WORKER, since 5.12 */
#define PROCFS_FLAG_KTHREAD 0x00200000u   /* PF_KTHREAD: before 5.12 io_uring workers were kernel threads */

/* stat */
struct procfs_stat {
    char name[16]; /* comm as it is: any byte but NUL may be in it; NUL-terminated */
    char state;
    int32_t ppid;
    uint64_t flags;
    uint64_t cpu_ticks; /* utime + stime in USER_HZ */
    uint32_t n_threads;
    uint64_t start_ticks; /* since boot, in USER_HZ */
};

bool procfs_parse_stat(const char *text, size_t size, struct procfs_stat *ret);

/* syscall */
enum procfs_syscall_kind {
    PROCFS_SYSCALL_RUNNING, /* on a CPU, or it moved while the kernel looked */
    PROCFS_SYSCALL_INSIDE,  /* asleep in a system call */
    PROCFS_SYSCALL_OUTSIDE, /* asleep, but not in a system call: page fault, stopped, exiting */
};

struct procfs_syscall {
    enum procfs_syscall_kind kind;
    int64_t number;
    uint64_t args[6];
    uint64_t sp, pc;
};

bool procfs_parse_syscall(const char *text, size_t size, struct procfs_syscall *ret);

/* schedstat */
struct procfs_schedstat {
    uint64_t cpu_nanos;
    uint64_t switches; /* how often it was switched in; 0: this kernel does not count */
};

bool procfs_parse_schedstat(const char *text, size_t size, struct procfs_schedstat *ret);

/* status */
struct procfs_status {
    /* SigPnd (this thread's), ShdPnd (the process's), SigBlk, SigCgt: bit n-1 is signal n */
    uint64_t pending, shared_pending, blocked, caught;
    uint64_t switches;                 /* voluntary + nonvoluntary: how often it was switched out */
    uint64_t sleeps;                   /* voluntary: how often it went to sleep */
    uint64_t seccomp, seccomp_filters; /* mode, and number of filters (since 5.9, else 0) */
};

bool procfs_parse_status(const char *text, size_t size, struct procfs_status *ret);

#define PROCFS_PATH_MAX 32

/* "<tid>/<file>"; file has at most 18 characters. */
void procfs_task_path(char path[PROCFS_PATH_MAX], int32_t tid, const char *file);

/* A directory entry that is all digits and fits a thread id, else 0. */
int32_t procfs_parse_tid(const char *name);

#endif
