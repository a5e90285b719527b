/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What can be seen of a process when its agent does not answer: states, kernel functions, system calls.
 * Zone: client. Reads /proc only; never signals, never attaches.
 */
#ifndef CLI_OUTSIDE_H
#define CLI_OUTSIDE_H

#include <stdbool.h>

#include "agent/report/snapshot.h"
#include "cli/procfs.h"

/*
 * What keeps the process or its agent, a malloc()ed sentence each: stopped by what, the agent in which call.
 * The rest of the array is NULL.
 */
#define OUTSIDE_REMARKS 2
void outside_remarks(const struct process_facts *facts, char *ret[OUTSIDE_REMARKS]);

/* Does the agent's thread run, or did it within a tenth of a second? Then it is busy, and will answer. */
bool outside_agent_at_work(const struct process_facts *facts);

/* All threads with capture "none", reason "no_agent". NULL: out of memory or no such process any more. */
struct snapshot *outside_view(const struct process_facts *facts, bool with_args);
void outside_free(struct snapshot *snapshot);

/* Fills what /proc says about the process itself; strings are malloc()ed. */
void outside_process(const struct process_facts *facts, bool with_args, struct process_info *process);

#endif
