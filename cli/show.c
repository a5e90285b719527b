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

#include "cli/commands.h"
#include "cli/decode.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "cli/print.h"

const char show_help[] =
    "usage: probectl show [OPTION...] FILE|-\n"
    "\n"
    "Prints a report saved with probectl dump -o FILE.jsonl, or by PROBE_OUTPUT.\n"
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

static void finish_process(struct show *show)
{
    struct snapshot *snapshot;

    if (show->decoder == NULL)
        return;
    snapshot = decoder_finish(show->decoder);
    if (decoder_problem(show->decoder) != NULL)
        fprintf(stderr, "probectl: %s\n", decoder_problem(show->decoder));
    if (snapshot->n_threads > 0)
        printer_add(&show->printer, snapshot, decoder_agent_version(show->decoder), NULL, 0);
    if (!snapshot->captured || snapshot->stats.threads_captured == 0)
        show->code = exit_worse(show->code, EXIT_NOTHING);
    else if (!snapshot->complete)
        show->code = exit_worse(show->code, EXIT_INCOMPLETE);
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

static bool show_stream(struct show *show, FILE *from)
{
    char *line = malloc(DECODE_LINE_MAX + 2);
    size_t used = 0;
    bool good = line != NULL;
    int c;

    while (good && (c = getc_unlocked(from)) != EOF) {
        if (used <= DECODE_LINE_MAX) /* one byte more than a record may have: the decoder then refuses it */
            line[used++] = (char)c;
        if (c != '\n')
            continue;
        line[used - 1] = used <= DECODE_LINE_MAX ? '\n' : line[used - 1];
        good = show_line(show, line, used);
        used = 0;
    }
    if (good && used > 0)
        show_line(show, line, used);
    finish_process(show);
    free(line);
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
    if (!show_stream(&show, from) || show.printer.n_printed == 0)
        show.code = EXIT_NOTHING;
    if (!printer_close(&show.printer))
        show.code = EXIT_NOTHING;
    fclose(from);
    return show.code;
}
