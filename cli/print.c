/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Printing reports; see print.h.
 * Zone: client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "agent/report/explain.h"
#include "agent/report/text.h"
#include "cli/exit.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/print.h"

const char *const print_format_words[] = {"text", "json", NULL};
const char *const print_color_words[] = {"auto", "always", "never", NULL};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool wants_color(int choice, const struct report_file *file)
{
    const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");

    if (choice != 0)
        return choice == 1;
    return file->to == stdout && isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') &&
           terminal != NULL && strcmp(terminal, "dumb") != 0;
}

int printer_open(struct printer *printer, int format, const char *path, int color)
{
    *printer = (struct printer){.format = format == 1 ? PRINT_JSON : PRINT_TEXT};
    if (path != NULL && strcmp(path, "-") == 0)
        path = NULL;
    if (path != NULL && format < 0) {
        if (ends_with(path, ".jsonl")) {
            printer->format = PRINT_RAW;
        } else if (ends_with(path, ".json")) {
            printer->format = PRINT_JSON;
        } else if (!ends_with(path, ".txt")) {
            fprintf(stderr,
                    "probectl: which format? %s ends in none of .jsonl, .json, .txt, and there is no -f\n",
                    path);
            return EXIT_USAGE;
        }
    }
    if (report_file_open(&printer->file, path) < 0)
        return EXIT_NOTHING;
    printer->color = printer->format == PRINT_TEXT && wants_color(color, &printer->file);
    return 0;
}

static bool write_out(struct out *out)
{
    bool written = fwrite(out->buffer, 1, out->used, out->context) == out->used;

    out->used = 0;
    return written;
}

static void print_text(struct printer *printer, const struct snapshot *snapshot, struct arena *arena)
{
    const struct text_options options = {.color = printer->color, .display_name = names_display};
    char buffer[16384];
    struct out out = {
        .buffer = buffer, .size = sizeof(buffer), .flush = write_out, .context = printer->file.to};

    if (printer->n_printed > 0)
        out_char(&out, '\n');
    report_text(&out, snapshot, &options, arena);
    write_out(&out);
    fflush(printer->file.to); /* each process's report is out before the next one is asked for */
}

/* Room for explaining and grouping; untouched memory costs nothing. */
static bool make_arena(struct arena *arena, const struct snapshot *snapshot)
{
    size_t size = ((size_t)1 << 20) + snapshot->n_threads * (size_t)1024 + snapshot->n_stacks * (size_t)128;

    *arena = (struct arena){.base = malloc(size), .size = size};
    return arena->base != NULL;
}

void printer_add(struct printer *printer, struct snapshot *snapshot, const char *agent_version,
                 const char *raw, size_t raw_size)
{
    struct arena arena;

    if (printer->format == PRINT_RAW) {
        if (raw_size > 0)
            fwrite(raw, 1, raw_size, printer->file.to);
        printer->n_printed += raw_size > 0;
        return;
    }
    if (!make_arena(&arena, snapshot))
        return;
    if (!printer->explained) {
        explain_waits(snapshot);
        explain_conclude(snapshot, &arena);
    }
    if (printer->format == PRINT_JSON) {
        if (printer->json == NULL)
            printer->json = json_report_new(agent_version);
        if (printer->json != NULL)
            json_report_add(printer->json, snapshot, &arena);
    } else {
        print_text(printer, snapshot, &arena);
    }
    printer->n_printed++;
    free(arena.base);
}

bool printer_close(struct printer *printer)
{
    bool written = true;

    if (printer->json != NULL)
        written = json_report_print(printer->json, printer->file.to);
    json_object_put(printer->json);
    return report_file_close(&printer->file, printer->n_printed > 0) == 0 && written;
}
