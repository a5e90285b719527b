/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * In a program that starts with privileges the probe thread gives up its own, so that it is never a way back
 * to what the program gives up later. libc's setuid() and its kind reach the threads that libc knows, and
 * whoever can make such a program do as he likes can write to our stack as well.
 *
 * Not by a system call filter: seccomp(SECCOMP_FILTER_FLAG_TSYNC) fails in a process one of whose threads has
 * a filter of its own (kernel/seccomp.c, seccomp_can_sync_threads), so the program would notice. Landlock
 * and credentials belong to a thread alone, and nobody asks for them.
 * Zone: probe thread.
 */
#ifndef AGENT_CONFINE_H
#define AGENT_CONFINE_H

#include <stdbool.h>

#include "agent/config.h"

/*
 * confine_begin() - to be called at birth, before anything is opened
 * What a thread of a privileged program keeps: making its socket, reading /proc, and the files that hold
 * code. Nothing is done under a filter that may kill for the attempt, or in valgrind: there the thread
 * follows the program when it is asked for a dump, and until then has what the program had when it was
 * loaded.
 */
void confine_begin(const struct config *config);

/*
 * confine_end() - to be called when the socket is there
 * The thread becomes nobody, and keeps one capability: to read /proc, whoever the program is by then.
 */
void confine_end(void);

/* Is the thread nobody, for good? Then it need not and cannot follow the program. */
bool confine_is_final(void);

#endif
