/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Facts about the process as a whole, from /proc.
 * Zone: probe thread.
 */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include "agent/procfs.h"
#include "agent/report/arena.h"
#include "agent/report/snapshot.h"
#include "agent/subject.h"

/* Start time of a process in clock ticks since boot; pid 0: our own. 0 or -errno. */
int process_start_ticks(int32_t pid, uint64_t *ret_ticks);

/*
 * process_describe() - fill everything but label and why
 * @all_arguments: the whole command line; else its first word. What cannot be read stays NULL or 0.
 */
void process_describe(struct process_info *ret, const struct subject *subject, bool all_arguments,
                      struct arena *arena);

/*
 * How /proc numbers the calling thread, from the link /proc/thread-self: "<pid>/task/<tid>". Differs from
 * getpid() and gettid() where /proc belongs to an outer pid namespace. 0 or -errno.
 */
int process_proc_ids(int32_t *ret_pid, int32_t *ret_tid);

/* The file's content, cut to size - 1 bytes and NUL-terminated. Length or -errno. */
long process_read_file(int directory, const char *path, char *to, size_t size);

/* How many system call filters the calling thread has; 0: none, or nobody counts them (before Linux 5.9). One
 * caller at a time. */
uint64_t process_own_filters(void);

/*
 * process_filter_may_kill() - is there a system call filter that may end the process for a call it does not
 * list? No filter can be asked. Container runtimes lay one, in a pid namespace of their own, and theirs
 * answers with an error; whoever lists the calls of one service (systemd's SystemCallFilter) often kills. In
 * doubt: true. One caller at a time. Zone: load time, probe thread.
 */
bool process_filter_may_kill(void);

/* A thread's line in stat; task_fd is /proc/<pid>/task. 0 or -errno, -EINVAL for a line that is none. */
int process_task_stat(int task_fd, int32_t tid, struct procfs_stat *ret);

#endif
