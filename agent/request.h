/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The one line a client sends; agent/report/PROTOCOL.md is the contract.
 * Zone: probe thread.
 */
#ifndef AGENT_REQUEST_H
#define AGENT_REQUEST_H

#include "agent/config.h"

#define REQUEST_MAX 512 /* bytes of the line, line feed included */

enum request_verb { REQUEST_DUMP, REQUEST_HELLO };

struct request {
    enum request_verb verb;
    enum capture_mode mode;
    bool symbols; /* look names up */
    bool all_arguments;
    uint64_t timeout_nanos;
};

/*
 * request_parse() - one line without its line feed, NUL-terminated
 * Return: NULL, or a sentence about what is wrong with it.
 */
const char *request_parse(struct request *ret, char *line, const struct config *config);

/* Can both be answered with the same report? */
bool request_same(const struct request *a, const struct request *b);

#endif
