/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who was signalled less than a second ago: fork and other long calls start over at each signal (cases S07,
 * S08). A small table: of many threads the oldest are forgotten first.
 * Zone: probe thread.
 */
#ifndef AGENT_BACKENDS_SIGNAL_RECENT_H
#define AGENT_BACKENDS_SIGNAL_RECENT_H

#include <stdbool.h>
#include <stdint.h>

void signal_recent_forget(void);
/* now: CLOCK_MONOTONIC ns */
bool signal_recent(int32_t tid, uint64_t now);
void signal_recent_add(int32_t tid, uint64_t now);

#endif
