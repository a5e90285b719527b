/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The few string functions the agent needs, without a locale and without libc.
 * Zone: probe thread and load time.
 */
#ifndef AGENT_TEXT_H
#define AGENT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/report/strings.h"

/* The part behind the last '/'. */
const char *text_basename(const char *path);
/* Copies with NUL; false when it did not fit, then to holds an empty string. */
bool text_copy(char *to, size_t size, const char *from);
/* Shell pattern with * and ? (no classes). Bounded: linear in the product of both lengths. */
bool text_glob(const char *pattern, const char *text);

/*
 * Decimal or hexadecimal digits at *cursor, which moves behind them.
 * false when there is no digit or the value does not fit.
 */
bool text_take_decimal(const char **cursor, uint64_t *ret_value);
bool text_take_hex(const char **cursor, uint64_t *ret_value);
/* The whole text is one decimal number. */
bool text_decimal(const char *text, uint64_t *ret_value);

#endif
