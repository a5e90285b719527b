/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The socket that probectl finds: <PROBE_DIR>/<pid>-<starttime>.sock.
 * Zone: probe thread.
 */
#ifndef AGENT_ENDPOINT_H
#define AGENT_ENDPOINT_H

#include "agent/config.h"

/*
 * endpoint_open() - create the directory if need be, sweep sockets whose owner is gone, bind and listen
 * The directory must be ours, no symlink, and not writable by others; the socket is private from its first
 * instant. Return: a listening, non-blocking descriptor, or -errno of the last directory tried.
 */
int endpoint_open(const struct config *config);

/* Does the peer of a connection have our uid, or is it root? */
bool endpoint_peer_allowed(int fd);

#endif
