/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One request to an agent and its whole answer, within a deadline.
 * Zone: client.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/decode.h"

enum client_result {
    CLIENT_ENDED,    /* the answer came to its end, or the agent hung up, or sent nonsense: see the decoder */
    CLIENT_SILENT,   /* connected, but no hello within a second, and not at work either */
    CLIENT_DEADLINE, /* the caller's deadline */
    CLIENT_MEMORY,
};

struct client {
    struct decoder *decoder;
    bool keep_raw; /* in: keep the bytes as they came, for a file */
    char *raw;     /* malloc()ed */
    size_t raw_used, raw_size;
    /*
     * Asked for every second without an answer: is the agent at work? On a crowded machine it may just not
     * have had its turn. NULL: a second of silence is the end.
     */
    bool (*at_work)(const void *context);
    const void *context;
};

/* Monotonic time in ns. */
uint64_t client_now(void);

/*
 * client_request() - send one line and decode the answer
 * @fd:       connected and non-blocking; stays the caller's
 * @request:  with its line feed
 * @deadline: client_now() time
 */
enum client_result client_request(struct client *client, int fd, const char *request, uint64_t deadline);

/* One line on stderr when the program has been waiting for two seconds; at most once. */
void client_progress(const char *what);

#endif
