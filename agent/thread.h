/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The probe thread's birth. It is a raw clone thread that libc does not know: as a pthread it would make
 * single-threaded programs take locks, keep a process alive after main's pthread_exit, and break setuid.
 * Zone: load time; the thread itself is the probe thread zone.
 */
#ifndef AGENT_THREAD_H
#define AGENT_THREAD_H

#include "agent/config.h"

/*
 * thread_start() - start the probe thread of this process
 * Called by the constructor, and by the fork handler in a child, where it uses the parent's (now
 * unused) stack again and so allocates nothing. @config is kept. Return: 0 or -errno; the
 * program is unharmed either way.
 */
int thread_start(const struct config *config);

#endif
