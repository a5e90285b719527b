/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The agent's passive capture of a process that has no agent, or one that cannot answer.
 * Zone: client.
 *
 * A child of ours plays the agent: it speaks the agent's protocol on a socket pair and reads the process
 * through /proc. So everything behind it is the same, and a read that never returns or a hostile file costs
 * the child. Nothing is attached to the process, nothing in it is stopped or signalled.
 */
#ifndef CLI_EXTERNAL_H
#define CLI_EXTERNAL_H

#include "cli/endpoint.h"

struct external {
    int fd; /* as of endpoint_connect() */
    pid_t child;
};

/*
 * external_connect() - see whether the process may be read, and start the child
 * Return: ENDPOINT_OK, or another with *failure filled. A failure costs nothing that is to be closed.
 */
enum endpoint_result external_connect(const struct process_facts *facts, struct external *ret,
                                      struct endpoint_failure *failure);
void external_close(struct external *external);

/* struct client's at_work: false when the child is stuck in the kernel or gone. */
bool external_at_work(const void *external);

#endif
