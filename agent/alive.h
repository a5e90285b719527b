/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel ends a process with its last thread, and ours is one: a program whose threads all end one by
 * one, by the bare system call or killed by a sandbox, would stay as a zombie that nobody can wait for. So
 * the probe thread watches one of the others at a time, and leaves when there is none. Zone: probe thread.
 */
#ifndef AGENT_ALIVE_H
#define AGENT_ALIVE_H

#define ALIVE_UNWATCHED (-1) /* the kernel cannot tell (before 6.9), or hides it: the probe thread stays */
#define ALIVE_NOBODY (-2)    /* the program has no thread left */

/*
 * alive_watch() - watch a thread of the program: main, or one that lives
 * Return: a descriptor that becomes readable when that thread has ended, or one of the above.
 */
int alive_watch(void);

/* The watched thread has ended: closes fd and watches another one; returns what alive_watch() does. */
int alive_watch_next(int fd);

#endif
