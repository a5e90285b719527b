/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libc's setuid() and its kind tell every thread that libc knows, and ours is not among them. So the probe
 * thread follows by itself, before it serves anybody: what the program has given up must not live on in it.
 * Zone: probe thread.
 */
#ifndef AGENT_CREDENTIALS_H
#define AGENT_CREDENTIALS_H

#include <stdint.h>

/*
 * credentials_follow() - take on the program's user, groups and capabilities where ours are more or others
 * The program's are those of its main thread, or of another thread when main has exited. Capabilities are
 * only ever given up. A thread that is nobody for good (confine.h) stays so. Return: 0, or -errno: ours may
 * be more than the program's, and nobody must be served.
 */
int credentials_follow(void);

/* The program's user ids, as they were at the last credentials_follow(). */
uint32_t credentials_real_user(void);
uint32_t credentials_effective_user(void);

/* The capabilities that the calling thread may use or raise, by bit; 0 also where they cannot be had. */
uint64_t credentials_capabilities(void);

/* Gives up all capabilities but these. 0 or -errno. */
int credentials_keep(uint64_t permitted, uint64_t effective);

/* Becomes this user and group, and a member of no other, with its capabilities. 0 or -errno: nothing changed.
 */
int credentials_become(uint32_t id);

#endif
