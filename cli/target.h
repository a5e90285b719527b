/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * TARGET on the command line: a pid, or name:GLOB.
 * Zone: client.
 */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct targets {
    pid_t *pids; /* malloc()ed */
    size_t n;
};

/*
 * targets_add() - resolve one TARGET and append what it means
 * @all: several matches of a glob are fine
 * Return: 0, or the exit code; the reason has been told on stderr.
 */
int targets_add(struct targets *targets, const char *text, bool all);

#endif
