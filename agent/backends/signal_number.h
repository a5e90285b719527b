/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which signal number is ours, and whether its handler still is: the program, or its runtime, may take it.
 * Zone: probe thread; signal_number_init() at load time.
 */
#ifndef AGENT_BACKENDS_SIGNAL_NUMBER_H
#define AGENT_BACKENDS_SIGNAL_NUMBER_H

#include "agent/report/snapshot.h"

/* requested: the user's number; 0, or one that cannot be used: the agent chooses. */
void signal_number_init(int requested);
/* Once for each process, so again in a fork child: takes the requested number, or one that is free. */
void signal_number_choose(void);
/* 0: there is none. */
int signal_number(void);
/* Makes sure that there is a number that we may use, if need be another one; installs nothing. */
enum capture_reason signal_number_settle(void);
/* Makes sure that the signal comes to our handler, at this moment. */
enum capture_reason signal_number_own(void);

#endif
