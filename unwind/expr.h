/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DWARF expressions as far as call frame information may use them (DWARF 5, 2.5 and 6.4.2).
 * Zone: pure. Used by step.c and the tests.
 */
#ifndef UNWIND_EXPR_H
#define UNWIND_EXPR_H

#include "unwind/unwind.h"

/*
 * expr_evaluate() - the value an expression leaves on top of its stack
 * @block:   address of the ULEB128 length in front of the expression
 * @regs:    of the frame that is left
 * @initial: pushed first (the CFA, for register rules), or NULL
 *
 * Return: UW_OK, UW_BAD_CFI (malformed, too deep, too long, or not allowed here), UW_REGISTER_UNKNOWN,
 * UW_STACK_UNREADABLE (a dereference failed), UW_TABLE_UNREADABLE.
 */
enum uw_status expr_evaluate(const struct uw_space *space, uint64_t block, const struct uw_regs *regs,
                             const uint64_t *initial, uint64_t *ret_value);

#endif
