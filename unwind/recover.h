/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The frame pointer of a frame whose rule needs it, where the capture does not know it: found in the code of
 * the function and on the stack, with proof, or not at all. Zone: pure.
 */
#ifndef UNWIND_RECOVER_H
#define UNWIND_RECOVER_H

#include "unwind/unwind.h"

/* Working memory and what was learnt about code; the caller's, cleared before use, for one set of modules. */
struct uw_recovery;

size_t uw_recovery_size(void);
void uw_recovery_clear(struct uw_recovery *recovery);

/*
 * uw_recover() - give @cursor, for which uw_step() said UW_REGISTER_UNKNOWN, its frame pointer
 * @stack_end: where the thread's own stack ends; 0: not known, or a part of it is missing. Frames that were
 *             lengthened at run time (alloca) are then not searched for.
 *
 * Return: UW_OK (the frame pointer is set in @cursor, and a step will succeed or end), UW_AMBIGUOUS (nothing,
 * or more than one thing, could be proven), UW_REGISTER_UNKNOWN (something else is missing).
 */
enum uw_status uw_recover(const struct uw_space *space, struct uw_recovery *recovery,
                          struct uw_cursor *cursor, uint64_t stack_end);

#endif
