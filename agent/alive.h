/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel ends a process with its last thread, and ours is one: a program whose threads all end one by
 * one, by the bare system call or killed by a sandbox, would stay as a zombie, and its parent would wait. So
 * the probe thread watches one of the others at a time, and leaves when there is none.
 *
 * Only Linux 6.9 to 6.14 tells when the main thread has ended before the process (PIDFD_THREAD;
 * since 6.15 the leader counts as gone with the last thread). Elsewhere it is seen at the next
 * request: `probectl ps` is one.
 * Zone: probe thread.
 */
#ifndef AGENT_ALIVE_H
#define AGENT_ALIVE_H

#include <stdbool.h>

#define ALIVE_UNWATCHED (-1) /* the kernel cannot tell, or a sandbox hides it: the probe thread stays */
#define ALIVE_NOBODY (-2)    /* the program has no thread left */

/*
 * alive_watch() - watch a thread of the program: main, or one that lives
 * Return: a descriptor that becomes readable when that thread has ended, or one of the above.
 */
int alive_watch(void);

/* The watched thread has ended: closes fd and watches another one; returns what alive_watch() does. */
int alive_watch_next(int fd);

/* Has the program a living thread, as far as can be known? */
bool alive_anybody(void);

/*
 * alive_exit_status() - what the probe thread ends with
 * The kernel gives the parent what the last thread ends with (since 5.17), and that is ours: the main
 * thread's status, as a shell would say it (128 + n for a signal n); 0 while the program lives on without us.
 */
int alive_exit_status(void);

#endif
