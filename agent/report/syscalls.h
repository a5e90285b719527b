/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the report knows about system calls: one file syscalls_<machine>.c each, since numbers differ.
 * Zone: pure. Names are in words.h.
 */
#ifndef AGENT_REPORT_SYSCALLS_H
#define AGENT_REPORT_SYSCALLS_H

#include "agent/report/snapshot.h"

/* Moves bytes to or from somebody else, or waits for a child: not poll and its kind. */
bool syscall_transfers(const struct report_syscall *syscall);
/* Its first argument is a descriptor worth showing. */
bool syscall_takes_descriptor(const struct report_syscall *syscall);
/* futex(2), waiting for a word as a lock does: args[0] is its address, args[3] the time-out. */
bool syscall_waits_on_futex(const struct report_syscall *syscall);

#endif
