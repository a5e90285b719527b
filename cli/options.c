/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Command line parsing; see options.h.
 * Zone: client.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/exit.h"
#include "cli/options.h"

#define WORD_MAX 32

/* Insertions, deletions and replacements between two short words. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], n = strnlen(a, WORD_MAX), m = strnlen(b, WORD_MAX);

    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            size_t least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

            diagonal = row[j];
            row[j] = replace < least ? replace : least;
        }
    }
    return row[m];
}

int options_unknown(const char *what, const char *word, const char *const *known, const char *help)
{
    const char *nearest = NULL;
    size_t best = 4; /* guessed: further away it is no typing mistake */

    for (size_t i = 0; known[i] != NULL; i++) {
        size_t d = distance(word, known[i]);

        if (d < best && d < strlen(known[i])) {
            best = d;
            nearest = known[i];
        }
    }
    fprintf(stderr, "probectl: unknown %s '%s'", what, word);
    if (nearest != NULL)
        fprintf(stderr, "; did you mean '%s'?", nearest);
    fprintf(stderr, "\nprobectl: see %s\n", help);
    return EXIT_USAGE;
}

bool options_duration(const char *text, uint64_t *ret_nanos)
{
    static const struct {
        const char *unit;
        uint64_t nanos;
    } units[] = {
        {"", 1000000000}, {"s", 1000000000}, {"ms", 1000000}, {"m", 60000000000}, {"h", 3600000000000}};
    unsigned long long value;
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].unit) == 0)
            return !__builtin_mul_overflow(value, units[i].nanos, ret_nanos);
    return false;
}

static const struct option_row *find_row(const struct option_row *rows, size_t n_rows, const char *word,
                                         const char **ret_value)
{
    size_t length = strcspn(word, "=");

    *ret_value = NULL;
    for (size_t i = 0; i < n_rows; i++) {
        const struct option_row *row = &rows[i];

        if (word[1] == '-' && strlen(row->name) == length && strncmp(word, row->name, length) == 0) {
            if (word[length] == '=')
                *ret_value = word + length + 1;
            return row;
        }
        if (word[1] != '-' && row->letter != 0 && word[1] == row->letter) {
            if (word[2] != '\0')
                *ret_value = word + 2;
            return row;
        }
    }
    return NULL;
}

/* False when the value does not fit; the mistake has been told. */
static bool take_value(const struct option_row *row, const char *value, const char *help)
{
    if (row->text != NULL) {
        *row->text = value;
        return true;
    }
    if (row->nanos != NULL) {
        if (options_duration(value, row->nanos))
            return true;
        fprintf(stderr, "probectl: %s wants a duration such as 10s, 500ms or 2m, not '%s'\n", row->name,
                value);
        return false;
    }
    for (int i = 0; row->words[i] != NULL; i++) {
        if (strcmp(value, row->words[i]) == 0) {
            *row->choice = i;
            return true;
        }
    }
    fprintf(stderr, "probectl: %s wants one of", row->name);
    for (int i = 0; row->words[i] != NULL; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", row->words[i]);
    fprintf(stderr, ", not '%s'\n", value);
    return false;
}

static enum options_outcome unknown_option(const char *word, const struct option_row *rows, size_t n_rows,
                                           const char *help)
{
    const char **known = calloc(n_rows + 2, sizeof(*known));
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; known != NULL && i < n_rows; i++)
        known[i] = rows[i].name;
    if (known != NULL) {
        known[n_rows] = "--help";
        options_unknown("option", name, known, help);
    }
    free(known);
    return OPTIONS_USAGE;
}

enum options_outcome options_parse(int *argc, char **argv, const struct option_row *rows, size_t n_rows,
                                   const char *help)
{
    int n = 1, i;
    bool ended = false;

    for (i = 1; i < *argc; i++) {
        const struct option_row *row;
        const char *value;

        if (ended || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[n++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            ended = true;
            continue;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return OPTIONS_HELP;
        row = find_row(rows, n_rows, argv[i], &value);
        if (row == NULL || (row->flag != NULL && value != NULL))
            return unknown_option(argv[i], rows, n_rows, help);
        if (row->flag != NULL) {
            *row->flag = true;
            continue;
        }
        if (value == NULL && i + 1 == *argc) {
            fprintf(stderr, "probectl: %s wants a value\nprobectl: see %s\n", row->name, help);
            return OPTIONS_USAGE;
        }
        if (!take_value(row, value != NULL ? value : argv[++i], help)) {
            fprintf(stderr, "probectl: see %s\n", help);
            return OPTIONS_USAGE;
        }
    }
    *argc = n;
    argv[n] = NULL;
    return OPTIONS_OK;
}
