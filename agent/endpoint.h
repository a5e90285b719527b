/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The socket that probectl finds: <PROBE_DIR>/<pid>-<starttime>.sock.
 * Zone: probe thread.
 */
#ifndef AGENT_ENDPOINT_H
#define AGENT_ENDPOINT_H

#include "agent/config.h"

#define ENDPOINT_PATH CONFIG_TEXT

/*
 * endpoint_directory() - the n-th directory that would do, from 0 on; false: there is no such
 * Of a program whose user has not changed since it was loaded.
 */
bool endpoint_directory(const struct config *config, unsigned n, char ret_path[ENDPOINT_PATH]);

/*
 * endpoint_open() - create the directory if need be, sweep sockets whose owner is gone, bind and listen
 * The directory must be ours, no symlink, and not writable by others; the socket is private from its first
 * instant. Return: a listening, non-blocking descriptor, or -errno of the last directory tried.
 */
int endpoint_open(const struct config *config);

/* Is the peer of a connection this user, or root? */
bool endpoint_peer_allowed(int fd, uint32_t uid);

#endif
