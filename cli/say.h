/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Text of strangers on the terminal. Zone: client.
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <stdio.h>

/* Writes text that a program or an agent chose, on one line: what a terminal would obey comes as '?'. */
void say_stranger(FILE *to, const char *text);

#endif
