/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The decoder of the wire and everything that works on what it made: explanation, text, JSON.
 * The first byte of the input says in what pieces the rest is fed; 255: the rest is a JSON report. Zone:
 * tests.
 */
#include <stdio.h>
#include <stdlib.h>

#include <json-c/json.h>

#include "agent/report/explain.h"
#include "agent/report/text.h"
#include "cli/decode.h"
#include "cli/json.h"
#include "cli/load.h"
#include "cli/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

#define ARENA_SIZE ((size_t)1 << 20)

static bool throw_away(struct out *out)
{
    for (size_t i = 0; i < out->used; i++)
        CHECK(out->buffer[i] == '\n' || (out->buffer[i] >= 0x20 && out->buffer[i] < 0x7f));
    out->used = 0;
    return true;
}

/* Every reference leads somewhere. */
static void check_references(const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_frames; i++) {
        CHECK(s->frames[i].module >= -1 && s->frames[i].module < (int64_t)s->n_modules);
        CHECK(s->frames[i].symbol >= -1 && s->frames[i].symbol < (int64_t)s->n_symbols);
    }
    for (uint32_t i = 0; i < s->n_stacks; i++)
        for (uint32_t j = 0; j < s->stacks[i].n_frames; j++)
            CHECK(s->stacks[i].frames[j] < s->n_frames);
    for (uint32_t i = 0; i < s->n_threads; i++)
        CHECK(s->threads[i].stack >= -1 && s->threads[i].stack < (int64_t)s->n_stacks);
    CHECK(!s->complete || s->captured);
}

static void print(const struct snapshot *snapshot, struct arena *arena)
{
    const struct text_options options = {.display_name = names_display};
    struct json_object *json = json_report_new("fuzz");
    char buffer[512];
    struct out out = {.buffer = buffer, .size = sizeof(buffer), .flush = throw_away};

    report_text(&out, snapshot, &options, arena);
    throw_away(&out);
    json_report_add(json, snapshot, arena);
    CHECK(json_object_to_json_string(json) != NULL);
    json_object_put(json);
}

static void load(const char *text, size_t n, struct arena *arena)
{
    struct json_object *report = load_parse(text, n);
    struct loaded loaded;

    for (size_t i = 0; i < load_n_processes(report); i++) {
        CHECK(load_process(report, i, &loaded));
        arena->used = 0;
        check_references(loaded.snapshot);
        print(loaded.snapshot, arena);
        load_free(&loaded);
    }
    json_object_put(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct decoder *decoder = decoder_new();
    size_t piece = size > 0 && data[0] > 0 ? data[0] : size;
    struct arena arena = {malloc(ARENA_SIZE), ARENA_SIZE, 0};
    struct snapshot *snapshot;

    for (size_t at = 1; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        char *copy = malloc(n); /* of exact size, so that the sanitizer sees every byte read too much */

        for (size_t i = 0; i < n; i++)
            copy[i] = (char)data[at + i];
        decoder_feed(decoder, copy, n);
        free(copy);
    }
    if (size > 1 && data[0] == 255)
        load((const char *)data + 1, size - 1, &arena);
    snapshot = decoder_finish(decoder);
    check_references(snapshot);
    explain_waits(snapshot);
    explain_conclude(snapshot, &arena);
    print(snapshot, &arena);
    free(arena.base);
    decoder_free(decoder);
    return 0;
}
