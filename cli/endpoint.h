/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a pid to a connected agent, or to the cause why there is none.
 * Zone: client. Never signals the target.
 */
#ifndef CLI_ENDPOINT_H
#define CLI_ENDPOINT_H

#include "cli/procfs.h"

enum endpoint_result {
    ENDPOINT_OK,
    ENDPOINT_NO_PROCESS,    /* exit 3 */
    ENDPOINT_NOT_PERMITTED, /* exit 4 */
    ENDPOINT_NO_AGENT,      /* exit 4 */
    ENDPOINT_SILENT, /* the socket is the target's, but nobody takes the connection: look from outside */
};

struct endpoint_failure {
    char cause[512];
    char next_step[512];
};

/*
 * endpoint_connect() - find the target's socket and connect to it
 * @facts:   of the target
 * @ret_fd:  a connected, close-on-exec, non-blocking socket whose peer is the target
 * @failure: filled unless ENDPOINT_OK
 * Waits until the process is one second old before it says that there is no agent.
 */
enum endpoint_result endpoint_connect(const struct process_facts *facts, int *ret_fd,
                                      struct endpoint_failure *failure);

/* Does this process's agent listen, as far as the kernel's table of sockets shows? Connects to nobody. */
bool endpoint_listens(const struct process_facts *facts);

/*
 * Directories that may hold the target's socket, as the target sees them; malloc()ed strings,
 * NULL-terminated. Free with endpoint_free_directories().
 */
char **endpoint_directories(const struct process_facts *facts);
void endpoint_free_directories(char **directories);

/* Opens a socket directory below root with O_PATH, or a negative errno; refuses a symlink as its last part.
 */
int endpoint_open_directory(int root, const char *directory);

#endif
