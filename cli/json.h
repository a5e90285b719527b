/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The JSON report: agent/report/probe-report.schema.json is the contract.
 * Zone: client.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include "agent/report/arena.h"
#include "agent/report/snapshot.h"

struct json_object;

/* An object with everything but the processes. NULL: out of memory. */
struct json_object *json_report_new(const char *agent_version);
/* Adds a process; the arena is scratch memory for grouping. */
void json_report_add(struct json_object *report, const struct snapshot *snapshot, struct arena *arena);
/* False when it could not be written. */
bool json_report_print(struct json_object *report, FILE *to);

#endif
