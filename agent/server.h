/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Serves clients one report at a time.
 * Zone: probe thread.
 *
 * A report is built once, in memory, for all clients that had asked for the same when it began, and every
 * client reads it at its own pace: a slow, silent or dead client costs bounded memory and time, and nobody
 * else anything.
 */
#ifndef AGENT_SERVER_H
#define AGENT_SERVER_H

#include "agent/config.h"

/*
 * server_run() - serve the clients of a listening descriptor
 * Returns when the program has no thread left (alive.h), or when waiting itself fails.
 */
void server_run(int listener, const struct config *config);

#endif
