/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process leaves its socket file behind when it ends: at exit the agent does nothing, since a program that
 * has locked itself into a sandbox would be killed for a system call it did not foresee. So whoever comes
 * next cleans up. Zone: client.
 */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

/* Removes the sockets of dead processes from our own socket directories. Failures are nobody's concern. */
void sweep_own_directories(void);

#endif
