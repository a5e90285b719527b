/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reports of one or more processes, one after the other, in one format and to one place.
 * Zone: client.
 */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/report/snapshot.h"
#include "cli/file.h"

enum print_format { PRINT_TEXT, PRINT_JSON, PRINT_RAW };

struct printer {
    enum print_format format;
    bool color;
    bool explained; /* snapshots come with their explanation; see load.h */
    struct report_file file;
    struct json_object *json; /* the report so far */
    size_t n_printed;
};

extern const char *const print_format_words[]; /* of -f: without the raw form, which -o FILE.jsonl asks for */
extern const char *const print_color_words[];

/*
 * printer_open() - decide on format and colour and open the output
 * @format: index into print_format_words, or -1 for what the file's extension says, else text
 * @path:   of -o, or NULL for standard output
 * @color:  index into print_color_words
 * Return: 0, or an exit code; the reason has been told.
 */
int printer_open(struct printer *printer, int format, const char *path, int color);
/*
 * printer_add() - explain and print one process
 * @raw: the stream as it came, for PRINT_RAW
 */
void printer_add(struct printer *printer, struct snapshot *snapshot, const char *agent_version,
                 const char *raw, size_t raw_size);
/* False when the report could not be written. A file appears only if something was printed. */
bool printer_close(struct printer *printer);

#endif
