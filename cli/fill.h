/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names that the agent could not find: in a program that started with privileges it may read the system's
 * directories only (agent/confine.h), and a file may have been slow.
 */
#ifndef CLI_FILL_H
#define CLI_FILL_H

#include <sys/types.h>

#include "cli/decode.h"

/* From files as pid sees them, with the rights of probectl; what cannot be read stays as it is. */
void fill_names(struct decoder *decoder, struct snapshot *snapshot, pid_t pid);

#endif
