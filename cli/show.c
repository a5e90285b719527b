/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * probectl show: a saved answer of an agent, printed now and here.
 * Zone: client.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/exit.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/print.h"

const char show_help[] =
    "usage: probectl show [OPTION...] FILE|-\n"
    "\n"
    "Prints a report saved with probectl dump -o FILE.jsonl or FILE.json.\n"
    "\n"
    "  -f, --format text|json        what to print (default text)\n"
    "  -o, --output FILE             write to FILE.txt or FILE.json\n"
    "      --color auto|always|never\n"
    "\n"
    "exit code: 0 complete, 1 printed but incomplete, 2 nothing readable or captured, 64 usage.\n"
    "\n"
    "examples:\n"
    "  probectl show hang.jsonl\n"
    "  ssh host cat hang.jsonl | probectl show -f json - | jq .\n";

static const char hello[] = "{\"type\":\"hello\"";

struct show {
    struct printer printer;
    struct decoder *decoder; /* of the process that is being read */
    enum exit_code code;
};

static void show_snapshot(struct show *show, struct snapshot *snapshot, const char *problem,
                          const char *agent_version)
{
    if (problem != NULL)
        fprintf(stderr, "probectl: %s\n", problem);
    if (snapshot->n_threads > 0)
        printer_add(&show->printer, snapshot, agent_version, NULL, 0);
    if (!snapshot->captured || snapshot->stats.threads_captured == 0)
        show->code = exit_worse(show->code, EXIT_NOTHING);
    else if (!snapshot->complete)
        show->code = exit_worse(show->code, EXIT_INCOMPLETE);
}

static void finish_process(struct show *show)
{
    if (show->decoder == NULL)
        return;
    show_snapshot(show, decoder_finish(show->decoder), decoder_problem(show->decoder),
                  decoder_agent_version(show->decoder));
    decoder_free(show->decoder);
    show->decoder = NULL;
}

/* A file holds the answers of several processes one after the other; each begins with its own hello. */
static bool show_line(struct show *show, const char *line, size_t n)
{
    if (n >= sizeof(hello) - 1 && memcmp(line, hello, sizeof(hello) - 1) == 0)
        finish_process(show);
    if (show->decoder == NULL) {
        show->decoder = decoder_new();
        if (show->decoder == NULL)
            return false;
    }
    decoder_feed(show->decoder, line, n);
    return true;
}

static bool show_stream(struct show *show, const char *text, size_t n)
{
    const char *end;
    bool good = true;

    for (size_t at = 0; at < n && good; at += (size_t)(end - text) + 1 - at) {
        end = memchr(text + at, '\n', n - at);
        if (end == NULL)
            end = text + n - 1;
        good = show_line(show, text + at, (size_t)(end - text) + 1 - at);
    }
    finish_process(show);
    return good;
}

static bool show_report(struct show *show, json_object *report)
{
    struct loaded loaded;

    show->printer.explained = true;
    for (size_t i = 0; i < load_n_processes(report); i++) {
        if (!load_process(report, i, &loaded))
            return false;
        show_snapshot(show, loaded.snapshot, decoder_problem(loaded.decoder), NULL);
        load_free(&loaded);
    }
    return true;
}

/* The whole input, malloc()ed; NULL when it cannot be read or is too long. */
static char *read_all(FILE *from, size_t *ret_n)
{
    char *text = NULL, *bigger;
    size_t used = 0, size = 0;

    do {
        if (size - used < 65536) {
            size = size ? size * 2 : (size_t)1 << 20;
            bigger = size <= 2 * DECODE_STREAM_MAX ? realloc(text, size) : NULL;
            if (bigger == NULL) {
                free(text);
                return NULL;
            }
            text = bigger;
        }
        used += fread(text + used, 1, size - used, from);
    } while (!feof(from) && !ferror(from));
    *ret_n = used;
    return text;
}

static bool show_file(struct show *show, FILE *from)
{
    json_object *report = NULL;
    size_t n = 0;
    char *text = read_all(from, &n);
    bool good = text != NULL;

    if (good && (n < sizeof(hello) - 1 || memcmp(text, hello, sizeof(hello) - 1) != 0))
        report = load_parse(text, n);
    if (good)
        good = report != NULL ? show_report(show, report) : show_stream(show, text, n);
    json_object_put(report);
    free(text);
    return good;
}

static FILE *open_input(const char *path)
{
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");

    if (from == NULL)
        fprintf(stderr, "probectl: cannot read %s: %s\n", path, strerror(errno));
    return from;
}

int command_show(int argc, char **argv)
{
    int format = -1, color = 0, code;
    const char *output = NULL;
    const struct option_row rows[] = {
        {"--format", 'f', .choice = &format, .words = print_format_words},
        {"--output", 'o', .text = &output},
        {"--color", 0, .choice = &color, .words = print_color_words},
    };
    struct show show = {0};
    FILE *from;

    switch (options_parse(&argc, argv, rows, sizeof(rows) / sizeof(rows[0]), "probectl show --help")) {
    case OPTIONS_HELP:
        fputs(show_help, stdout);
        return EXIT_COMPLETE;
    case OPTIONS_USAGE:
        return EXIT_USAGE;
    case OPTIONS_OK:
        break;
    }
    if (argc != 2) {
        fprintf(
            stderr,
            "probectl: show wants one file, or - for standard input\nprobectl: see probectl show --help\n");
        return EXIT_USAGE;
    }
    from = open_input(argv[1]);
    if (from == NULL)
        return EXIT_NOTHING;
    code = printer_open(&show.printer, format, output, color);
    if (code != 0)
        return code;
    if (show.printer.format == PRINT_RAW) {
        fprintf(stderr,
                "probectl: show writes no .jsonl, which is the agent's own answer\n"
                "probectl: give %s an ending of .json or .txt, or choose with -f\n",
                output);
        printer_close(&show.printer);
        fclose(from);
        return EXIT_USAGE;
    }
    if (!show_file(&show, from) || show.printer.n_printed == 0) {
        fprintf(stderr,
                "probectl: %s holds no report that can be shown\n"
                "probectl: it wants what probectl dump -o FILE.jsonl or FILE.json saved\n",
                argv[1]);
        show.code = EXIT_NOTHING;
    }
    if (!printer_close(&show.printer))
        show.code = EXIT_NOTHING;
    fclose(from);
    return show.code;
}
