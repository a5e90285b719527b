/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A report file: private, and there only once it is whole.
 * Zone: client.
 */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct report_file {
    FILE *to;
    char *path, *temporary; /* NULL: standard output */
};

/* path NULL: standard output. 0, or a negative errno, told on stderr. */
int report_file_open(struct report_file *file, const char *path);
/* Flushes and, if keep, gives the file its name: a link of that name is replaced, never followed. */
int report_file_close(struct report_file *file, bool keep);

#endif
