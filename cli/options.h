/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Command lines as tables: one row per option, so that help, hints and parsing cannot drift apart in code.
 * Zone: client.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option_row {
    const char *name;         /* "--timeout" */
    char letter;              /* 'o', or 0 */
    bool *flag;               /* an option without a value */
    const char **text;        /* any value */
    int *choice;              /* index into words; */
    const char *const *words; /* with choice: NULL-terminated */
    uint64_t *nanos;          /* a duration: 10, 10s, 500ms, 2m */
};

enum options_outcome {
    OPTIONS_OK,
    OPTIONS_HELP,  /* --help was there */
    OPTIONS_USAGE, /* the mistake has been told on stderr */
};

/*
 * options_parse() - fill the variables of the rows; what is no option stays, in order, in argv[1...]
 * @argc: in and out
 * @help: how to get help, for messages: "probectl dump --help"
 * "--" ends the options. Values follow as "--name value", "--name=value", "-n value" or "-nvalue".
 */
enum options_outcome options_parse(int *argc, char **argv, const struct option_row *rows, size_t n_rows,
                                   const char *help);

/* Says that a word is unknown, with the nearest known one as a hint. Returns EXIT_USAGE. */
int options_unknown(const char *what, const char *word, const char *const *known, const char *help);

/* False when the text is no duration; no unit means seconds. */
bool options_duration(const char *text, uint64_t *ret_nanos);

#endif
