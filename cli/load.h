/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A saved JSON report (probectl dump -f json) back into the report model.
 * Zone: client.
 */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "cli/decode.h"

struct json_object;

struct loaded {
    struct decoder *decoder;   /* owns the snapshot; see decoder_problem() */
    struct snapshot *snapshot; /* with the explanation that the file holds: lock words are not in it */
};

/* The report in a text, or NULL when it is none of ours. Free with json_object_put(). */
struct json_object *load_parse(const char *text, size_t n);
size_t load_n_processes(struct json_object *report);
/* False when out of memory. The report is changed on the way. */
bool load_process(struct json_object *report, size_t index, struct loaded *ret_loaded);
void load_free(struct loaded *loaded);

#endif
