/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How far the handler may copy: from the stack pointer to the top of the thread's own stack, never into what
 * is not surely readable, since a fault in the handler would end the program.
 * Zone: probe thread.
 */
#ifndef AGENT_BACKENDS_SIGNAL_BOUNDS_H
#define AGENT_BACKENDS_SIGNAL_BOUNDS_H

#include "agent/backends/backend.h"
#include "agent/backends/slot.h"

/*
 * signal_bounds() - fill in the slot's stack_low and stack_top; 0 where the stack is
 * not known: registers only
 * @may_ask_residency: mincore(2) may be called; systemd's @system-service lacks it, and its filters kill
 * unless told otherwise Overwrites session->text. Return: REASON_NONE, or REASON_SMALL_STACK: no room for a
 * signal frame.
 */
enum capture_reason signal_bounds(const struct capture_session *session, struct slot *slot, int32_t tid,
                                  bool may_ask_residency);

#endif
