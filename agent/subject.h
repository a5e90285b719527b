/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Whose process a dump is about: the one we are in or, in probectl, another.
 * Zone: probe thread, client.
 */
#ifndef AGENT_SUBJECT_H
#define AGENT_SUBJECT_H

#include "agent/backends/backend.h"

#define SUBJECT_LIMITS 4

/* Plain data, so that no stage asks which of the two it is. */
struct subject {
    /*
     * /proc/<pid>/task/<tid> of a living thread, held open for one dump: the process's own directory goes
     * blank when the main thread has exited, and a number may be given to another process. -1: /proc is not
     * readable.
     */
    int directory;
    int root;            /* where the paths of its files begin; AT_FDCWD: where ours do */
    int32_t pid, tid;    /* the process and that thread, as system calls number them */
    int32_t proc_pid;    /* the process, as /proc numbers it; 0: not known */
    int32_t agent_tid;   /* the agent's thread in it, as /proc numbers it; 0: none */
    uint64_t agent_code; /* an address in the agent's code; 0: none */
    uint32_t uid;
    bool foreign_proc;                     /* /proc numbers threads differently from the system calls */
    bool foreign_registers;                /* /proc shows an emulator's registers, not the program's */
    bool file_first;                       /* see memory.h */
    const struct capture_backend *running; /* captures threads that do not sleep */
    const char *limits[SUBJECT_LIMITS];    /* sentences about what cannot be seen; the rest NULL */
};

/* The process we are in. Never fails: what cannot be had is said in limits. */
void subject_open_own(struct subject *ret);
void subject_close(struct subject *subject);

#endif
