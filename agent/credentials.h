/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libc's setuid() and its kind tell every thread that libc knows, and ours is not among them. So the probe
 * thread follows by itself, before it serves anybody: what the program has given up must not live on in it.
 * Zone: probe thread.
 */
#ifndef AGENT_CREDENTIALS_H
#define AGENT_CREDENTIALS_H

/*
 * credentials_follow() - take on the program's user, groups and capabilities where ours differ
 * The program's are those of its main thread, or of another thread when main has exited. Capabilities are
 * only ever given up. Return: 0, or -errno: ours may be more than the program's, and nobody must be served.
 */
int credentials_follow(void);

#endif
