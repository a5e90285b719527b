/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What /proc says about a process from outside.
 * Zone: client.
 */
#ifndef CLI_PROCFS_H
#define CLI_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_facts {
    pid_t pid;        /* as we see it */
    pid_t ns_pid;     /* as it sees itself */
    pid_t tgid, ppid; /* tgid differs from pid: pid names a thread */
    uid_t uid[4];     /* real, effective, saved, file system */
    char state;
    uint64_t start_ticks; /* clock ticks since boot */
    uint64_t up_nanos;    /* age */
    uint32_t n_threads;
    int seccomp; /* 0 off, 1 strict, 2 filter; -1 unknown */
};

/*
 * procfs_read() - a whole small file, NUL-terminated
 * @path:     relative to /proc
 * @ret_text: malloc()ed, also when empty; at most 4 MiB
 * Return: length, or a negative errno
 */
ssize_t procfs_read(const char *path, char **ret_text);

/* 0, or a negative errno: -ENOENT when there is no such process. */
int procfs_facts(pid_t pid, struct process_facts *ret_facts);

/*
 * procfs_agent_thread() - the agent's thread in a process, by its name
 * @ret_filters: seccomp filters that it was born with; -1: its name does not say. May be NULL.
 * Return: its tid as we see it; 0: there is none
 */
pid_t procfs_agent_thread(pid_t pid, int *ret_filters);

/* Seccomp filters of one thread, at least; -1: not known. */
int procfs_seccomp_filters(pid_t pid, pid_t tid);

/* The value of NAME in a block of NUL-separated NAME=value, or NULL. */
const char *procfs_environ(const char *block, size_t size, const char *name);

/* The value after "Key:" in the text of a status file, or NULL. */
const char *procfs_status_field(const char *status, const char *key);

/*
 * procfs_list() - the numeric names in a directory below /proc, ascending
 * @ret_ids: malloc()ed
 * Return: how many, or a negative errno
 */
ssize_t procfs_list(const char *path, pid_t **ret_ids);

/* Unix time of the process's start, in ns. */
uint64_t procfs_start_time(const struct process_facts *facts);

#endif
