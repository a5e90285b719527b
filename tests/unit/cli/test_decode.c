/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The wire: what is encoded is decoded, and what is damaged is refused without harm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/report/encode.h"
#include "agent/report/explain.h"
#include "cli/decode.h"
#include "tests/unit/cli/stream.h"

TestSuite(decode, .timeout = 60);

static struct decoder *decode(const char *bytes, size_t n)
{
    struct decoder *decoder = decoder_new();

    cr_assert(decoder != NULL);
    decoder_feed(decoder, bytes, n);
    return decoder;
}

/* A text as a stream; the records end with line feeds. */
static struct decoder *decode_text(const char *text)
{
    return decode(text, strlen(text));
}

#define HELLO "{\"type\":\"hello\",\"protocol\":1,\"agent\":\"0\"}\n"
#define CAPTURED                                                                                          \
    "{\"type\":\"captured\",\"stats\":{\"threads_total\":0,\"threads_captured\":0,\"threads_dropped\":0," \
    "\"pause_nanos\":0,\"pause_nanos_max\":0,\"signals_sent\":0,\"frames_unattributed\":0,\"duration_"    \
    "nanos\":0}}\n"
#define END "{\"type\":\"end\",\"complete\":true,\"why\":[],\"lost\":0}\n"

static void expect_same_thread(const struct thread_sample *a, const struct thread_sample *b)
{
    cr_expect(eq(i32, a->os_tid, b->os_tid));
    cr_expect(a->state == b->state && a->cpu_nanos == b->cpu_nanos && a->capture == b->capture &&
              a->reason == b->reason && a->truncated == b->truncated && a->stable == b->stable &&
              a->still == b->still && a->stack == b->stack && a->stack_bytes == b->stack_bytes);
    cr_expect(a->has_registers == b->has_registers);
    if (a->has_registers)
        cr_expect(memcmp(&a->registers, &b->registers, sizeof(a->registers)) == 0);
    cr_expect(a->syscall.known == b->syscall.known && a->syscall.number == b->syscall.number &&
              memcmp(a->syscall.args, b->syscall.args, sizeof(a->syscall.args)) == 0);
    cr_expect(a->lock_word.known == b->lock_word.known && a->lock_word.owner == b->lock_word.owner &&
              a->lock_word.kind == b->lock_word.kind && a->lock_word.word == b->lock_word.word);
}

Test(decode, what_was_encoded_comes_back)
{
    struct model *m = stream_model();
    const struct snapshot *s = &m->snapshot, *d;
    size_t n;
    char *stream = stream_encode(&m->snapshot, &n);
    struct decoder *decoder = decode(stream, n);

    cr_assert(decoder_problem(decoder) == NULL, "%s", decoder_problem(decoder));
    d = decoder_finish(decoder);
    cr_assert(eq(int, decoder_progress(decoder), DECODE_END));
    cr_assert(eq(str, (char *)decoder_agent_version(decoder), "1.2.3"));
    cr_assert(d->captured && d->frames_resolved && !d->complete);
    cr_assert(eq(u32, d->n_modules, s->n_modules));
    cr_assert(eq(u32, d->n_frames, s->n_frames));
    cr_assert(eq(u32, d->n_stacks, s->n_stacks));
    cr_assert(eq(u32, d->n_symbols, s->n_symbols));
    cr_assert(eq(u32, d->n_threads, s->n_threads));
    cr_assert(eq(u32, d->n_addresses, s->n_addresses));
    cr_assert(memcmp(&d->stats, &s->stats, sizeof(s->stats)) == 0);
    for (uint32_t i = 0; i < s->n_threads; i++)
        expect_same_thread(&d->threads[i], &s->threads[i]);
    for (uint32_t i = 0; i < s->n_frames; i++) {
        const struct frame *a = &d->frames[i], *b = &s->frames[i];

        cr_expect(a->pc == b->pc && a->module == b->module && a->symbol == b->symbol &&
                  a->trust == b->trust && a->exact == b->exact);
        cr_expect(a->module < 0 || a->offset == b->offset);
        cr_expect(a->symbol < 0 || a->symbol_offset == b->symbol_offset);
    }
    for (uint32_t i = 0; i < s->n_stacks; i++) {
        cr_expect(d->stacks[i].end == s->stacks[i].end && d->stacks[i].truncated == s->stacks[i].truncated);
        cr_assert(eq(u32, d->stacks[i].n_frames, s->stacks[i].n_frames));
        cr_expect(
            memcmp(d->stacks[i].frames, s->stacks[i].frames, s->stacks[i].n_frames * sizeof(uint32_t)) == 0);
    }
    for (uint32_t i = 0; i < s->n_modules; i++) {
        cr_expect(eq(str, (char *)d->modules[i].path, (char *)s->modules[i].path));
        cr_expect(d->modules[i].symbols == s->modules[i].symbols && d->modules[i].own == s->modules[i].own);
    }
    cr_expect(eq(str, (char *)d->process.label, "a label"));
    cr_expect(eq(u32, d->process.n_why, 2));
    cr_expect(eq(str, (char *)d->process.why[1], (char *)s->process.why[1]));
    cr_expect(d->process.start_time == s->process.start_time && d->process.start_ticks == 77);
    decoder_free(decoder);
    free(stream);
}

Test(decode, the_client_concludes_what_the_agent_did)
{
    struct model *m = stream_model();
    size_t n;
    char *stream = stream_encode(&m->snapshot, &n);
    struct decoder *decoder = decode(stream, n);
    struct snapshot *d = decoder_finish(decoder);

    m->arena.used = 0;
    explain_waits(d);
    explain_conclude(d, &m->arena);
    cr_assert(eq(str, (char *)d->verdicts[0].kind, "DEADLOCK"));
    cr_assert(eq(str, (char *)d->locks[0].name, "app:lock_a"));
}

/* Decodes, finishes and explains; everything that a reader of the snapshot would touch is touched. */
static enum decode_progress survive(const char *bytes, size_t n, struct arena *arena)
{
    struct decoder *decoder = decode(bytes, n);
    struct snapshot *s = decoder_finish(decoder);
    enum decode_progress progress = decoder_progress(decoder);

    arena->used = 0;
    explain_waits(s);
    explain_conclude(s, arena);
    if (s->complete)
        cr_expect(s->captured && progress == DECODE_END);
    decoder_free(decoder);
    return progress;
}

Test(decode, a_cut_at_every_byte_is_told_by_its_place)
{
    struct model *m = stream_model();
    size_t n, captured, i;
    char *stream = stream_encode(&m->snapshot, &n), *at = strstr(stream, "{\"type\":\"captured\"");

    cr_assert(at != NULL);
    captured = (size_t)(strchr(at, '\n') - stream) + 1;
    for (i = 0; i <= n; i++) {
        enum decode_progress progress = survive(stream, i, &m->arena);

        if (i < captured)
            cr_expect(progress < DECODE_CAPTURED, "cut at %zu", i);
        else if (i < n)
            cr_expect(eq(int, progress, DECODE_CAPTURED), "cut at %zu", i);
        else
            cr_expect(eq(int, progress, DECODE_END));
    }
    free(stream);
}

Test(decode, any_flipped_byte_is_survived)
{
    static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};
    struct model *m = stream_model();
    size_t n;
    char *stream = stream_encode(&m->snapshot, &n);

    for (size_t f = 0; f < sizeof(flips); f++) {
        for (size_t i = 0; i < n; i++) {
            stream[i] = (char)(stream[i] ^ flips[f]);
            survive(stream, n, &m->arena);
            stream[i] = (char)(stream[i] ^ flips[f]);
        }
    }
    free(stream);
}

Test(decode, pieces_of_any_size_are_the_same_stream)
{
    struct model *m = stream_model();
    size_t n;
    char *stream = stream_encode(&m->snapshot, &n);

    for (size_t piece = 1; piece < 400; piece += 7) {
        struct decoder *decoder = decoder_new();

        for (size_t i = 0; i < n; i += piece)
            cr_assert(decoder_feed(decoder, stream + i, n - i < piece ? n - i : piece));
        cr_expect(eq(int, decoder_progress(decoder), DECODE_END), "pieces of %zu", piece);
        decoder_free(decoder);
    }
}

Test(decode, streams_that_are_refused)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"not JSON", HELLO "hello\n"},
        {"an empty line", HELLO "\n"},
        {"two objects in a line", HELLO "{\"type\":\"x\"}{\"type\":\"x\"}\n"},
        {"an array", HELLO "[]\n"},
        {"no type", HELLO "{}\n"},
        {"a number as type", HELLO "{\"type\":1}\n"},
        {"no hello", CAPTURED},
        {"an unknown record first", "{\"type\":\"x\"}\n"},
        {"two hellos", HELLO HELLO},
        {"another protocol", "{\"type\":\"hello\",\"protocol\":2,\"agent\":\"0\"}\n"},
        {"invalid UTF-8", HELLO "{\"type\":\"\xff\"}\n"},
        {"nested too deep", HELLO "{\"type\":\"x\",\"a\":[[[[[[[[[[]]]]]]]]]]}\n"},
        {"a thread after captured",
         HELLO CAPTURED "{\"type\":\"thread\",\"tid\":1,\"name\":\"\",\"state\":\"sleeping\",\"cpu_nanos\":0,"
                        "\"capture\":\"none\","
                        "\"truncated\":false,\"stable\":true,\"stack_bytes\":0,\"stack\":null}\n"},
        {"a name before captured", HELLO "{\"type\":\"symbol\",\"id\":0,\"name\":\"x\"}\n"},
        {"a stack that does not exist",
         HELLO "{\"type\":\"thread\",\"tid\":1,\"name\":\"\",\"state\":\"sleeping\",\"cpu_nanos\":0,"
               "\"capture\":\"none\","
               "\"truncated\":false,\"stable\":true,\"stack_bytes\":0,\"stack\":0}\n"},
        {"a negative index", HELLO "{\"type\":\"thread\",\"tid\":1,\"name\":\"\",\"state\":\"sleeping\","
                                   "\"cpu_nanos\":0,\"capture\":\"none\","
                                   "\"truncated\":false,\"stable\":true,\"stack_bytes\":0,\"stack\":-1}\n"},
        {"an id that is not the next", HELLO CAPTURED "{\"type\":\"symbol\",\"id\":1,\"name\":\"x\"}\n"},
        {"a huge id", HELLO CAPTURED "{\"type\":\"symbol\",\"id\":99999999999999999999,\"name\":\"x\"}\n"},
        {"a frame that does not exist",
         HELLO "{\"type\":\"stack\",\"id\":0,\"frames\":[0],\"end\":\"outermost\"}\n"},
        {"text as frame", HELLO "{\"type\":\"stack\",\"id\":0,\"frames\":[\"0\"],\"end\":\"outermost\"}\n"},
        {"null as frame", HELLO "{\"type\":\"stack\",\"id\":0,\"frames\":[null],\"end\":\"outermost\"}\n"},
        {"an address of 17 digits", HELLO
         "{\"type\":\"frame\",\"id\":0,\"pc\":\"0x10000000000000000\",\"module\":null,\"trust\":\"cfi\"}\n"},
        {"an address without digits",
         HELLO "{\"type\":\"frame\",\"id\":0,\"pc\":\"0x\",\"module\":null,\"trust\":\"cfi\"}\n"},
        {"an address without 0x",
         HELLO "{\"type\":\"frame\",\"id\":0,\"pc\":\"12\",\"module\":null,\"trust\":\"cfi\"}\n"},
        {"anything after end", HELLO CAPTURED END CAPTURED},
        {"a capture after the end", HELLO END CAPTURED},
        {"still without list", HELLO CAPTURED "{\"type\":\"still\",\"tids\":1}\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct decoder *decoder = decode_text(rows[i].text);

        cr_expect(decoder_problem(decoder) != NULL, "%s", rows[i].name);
        if (strcmp(rows[i].name, "anything after end") != 0)
            cr_expect(zero(int, decoder_finish(decoder)->complete), "%s", rows[i].name);
        decoder_free(decoder);
    }
}

Test(decode, what_a_newer_agent_may_send_is_skipped)
{
    static const char text[] = HELLO
        "{\"type\":\"weather\",\"rain\":true}\n"
        "{\"type\":\"frame\",\"id\":0,\"pc\":\"0x1\",\"module\":null,\"trust\":\"telepathy\",\"color\":3}\n"
        "{\"type\":\"stack\",\"id\":0,\"frames\":[0],\"end\":\"boredom\"}\n"
        "{\"type\":\"thread\",\"tid\":1,\"name\":\"x\",\"state\":\"dreaming\",\"cpu_nanos\":0,"
        "\"capture\":\"none\",\"reason\":\"magic\",\"truncated\":false,\"stable\":true,\"stack_bytes\":0,"
        "\"stack\":0,\"aura\":{}}\n" CAPTURED END;
    struct decoder *decoder = decode_text(text);
    struct snapshot *s = decoder_finish(decoder);

    cr_assert(decoder_problem(decoder) == NULL, "%s", decoder_problem(decoder));
    cr_assert(eq(int, s->frames[0].trust, UW_TRUST_INFERRED), "the least trust");
    cr_assert(s->stacks[0].end != UW_END, "an unknown end is no outermost frame");
    cr_assert(s->threads[0].state == '?');
    cr_assert(s->threads[0].reason != REASON_NONE);
}

Test(decode, a_line_without_end_is_refused_at_its_limit)
{
    struct decoder *decoder = decode_text(HELLO);
    char *piece = malloc(65536);
    size_t fed = 0;

    memset(piece, '[', 65536);
    while (fed < 100 * DECODE_LINE_MAX && decoder_feed(decoder, piece, 65536))
        fed += 65536;
    cr_assert(fed <= DECODE_LINE_MAX);
    cr_assert(eq(str, (char *)decoder_problem(decoder), "a line is too long"));
}

Test(decode, an_agents_error_is_kept)
{
    struct decoder *decoder =
        decode_text(HELLO "{\"type\":\"error\",\"code\":\"busy\",\"text\":\"later\"}\n"
                          "{\"type\":\"end\",\"complete\":false,\"why\":[],\"lost\":0}\n");

    cr_assert(decoder_problem(decoder) == NULL);
    cr_assert(eq(str, (char *)decoder_error_code(decoder), "busy"));
    cr_assert(decoder_ended(decoder));
    cr_assert(zero(int, decoder_finish(decoder)->captured));
}

Test(decode, a_loss_is_not_complete)
{
    struct decoder *decoder =
        decode_text(HELLO CAPTURED "{\"type\":\"end\",\"complete\":true,\"why\":[],\"lost\":7}\n");

    cr_assert(zero(int, decoder_finish(decoder)->complete));
}

Test(decode, ten_thousand_still_threads_are_not_quadratic)
{
    struct model *m = model_new();
    struct decoder *decoder = decode_text(HELLO);
    struct out out = {.buffer = malloc(1 << 20), .size = 1 << 20};

    for (int i = 0; i < 200000; i++) {
        struct thread_sample thread = {.os_tid = 200000 - i, .state = 'S', .stack = -1, .still = true};

        out.used = 0;
        encode_thread(&out, &thread);
        cr_assert(decoder_feed(decoder, out.buffer, out.used));
    }
    cr_assert(decoder_feed(decoder, CAPTURED, strlen(CAPTURED)));
    for (int i = 0; i < 50; i++) {
        m->snapshot.n_threads = 4000;
        for (int j = 0; j < 4000; j++)
            m->threads[j] = (struct thread_sample){.os_tid = i * 4000 + j + 1, .still = true};
        out.used = 0;
        encode_still(&out, &m->snapshot);
        cr_assert(decoder_feed(decoder, out.buffer, out.used));
    }
    for (uint32_t i = 0; i < 200000; i += 999) {
        bool still = decoder_finish(decoder)->threads[i].still;

        cr_assert(still);
    }
}

/* Wire text of each record that does not fit is taken back whole. */
Test(decode, a_full_buffer_holds_whole_records_only)
{
    struct model *m = stream_model();

    for (size_t size = 0; size < 4000; size += 11) {
        char *buffer = malloc(size + 1);
        struct out out = {.buffer = buffer, .size = size};

        encode_hello(&out, "1");
        encode_process(&out, &m->snapshot.process);
        for (uint32_t i = 0; i < m->snapshot.n_threads; i++)
            encode_thread(&out, &m->snapshot.threads[i]);
        if (out.used > 0)
            cr_expect(buffer[out.used - 1] == '\n', "size %zu", size);
        for (size_t i = 0; i + 1 < out.used; i++)
            if (buffer[i] == '\n')
                cr_assert(buffer[i + 1] == '{' && buffer[i - 1] == '}');
        free(buffer);
    }
}

Test(decode, what_finds_no_room_is_left_out_and_said)
{
    struct model *m;
    size_t whole, n;
    bool fits = false;

    m = stream_model();
    m->snapshot.complete = true;
    free(stream_encode(&m->snapshot, &whole));
    for (size_t size = 10240; !fits; size += 61) {
        char *stream;
        struct decoder *decoder;
        struct snapshot *d;

        m = stream_model();
        m->snapshot.complete = true;
        stream = stream_encode_into(&m->snapshot, size, &n);
        decoder = decode(stream, n);
        cr_assert(decoder_problem(decoder) == NULL, "%zu bytes: %s", size, decoder_problem(decoder));
        d = decoder_finish(decoder);
        fits = n == whole;
        cr_assert(eq(int, decoder_progress(decoder), DECODE_END), "%zu bytes", size);
        cr_assert(d->complete == fits, "%zu bytes", size);
        cr_assert(d->stats.threads_total == 4 && d->n_threads <= 4);
        cr_assert(d->stats.threads_captured + d->stats.threads_dropped == d->stats.threads_total);
        cr_assert(eq(u32, d->n_threads, m->snapshot.n_threads));
        cr_assert(eq(u32, d->n_stacks, m->snapshot.n_stacks));
        cr_assert(eq(u32, d->n_symbols, m->snapshot.n_symbols));
        if (!fits)
            cr_assert(strstr(d->process.why[d->process.n_why - 1], "no room") != NULL);
        cr_assert(size < 2 * whole + 65536);
        decoder_free(decoder);
        free(stream);
        free(m->arena.base);
        free(m);
    }
}

Test(decode, threads_are_told_where_their_stacks_find_no_room)
{
    struct model *m = model_new();
    int frames[] = {(int)model_frame(m, MODEL_APP, "f"), (int)model_frame(m, MODEL_APP, "g")};
    const struct snapshot *d;
    char label[25000], *stream;
    size_t n;

    memset(label, 'x', sizeof(label));
    label[sizeof(label) - 1] = '\0';
    m->snapshot.process.label = label;
    for (int i = 0; i < 200; i++)
        model_thread(m, 100 + i, "t",
                     model_stack(m, frames[i & 1], frames[i >> 1 & 1], frames[i >> 2 & 1], -1));
    model_explain(m);
    stream = stream_encode_into(&m->snapshot, 84000, &n); /* half of the stacks, all of the threads */
    d = decoder_finish(decode(stream, n));
    cr_assert(d->n_stacks > 0 && d->n_stacks < 200);
    cr_assert(eq(u32, d->n_threads, 200));
    cr_assert(eq(u32, d->stats.threads_captured, d->n_stacks));
    cr_assert(eq(int, d->threads[199].reason, REASON_MEMORY));
    cr_assert(eq(int, d->threads[199].capture, CAPTURE_NONE));
    cr_assert(d->captured && !d->complete);
}

Test(decode, a_hole_in_the_ids_is_named)
{
    struct decoder *decoder = decode_text(HELLO "{\"type\":\"frame\",\"id\":1,\"pc\":\"0x1\",\"module\":null,"
                                                "\"trust\":\"cfi\"}\n" CAPTURED END);

    cr_assert(strstr(decoder_problem(decoder), "records are missing") != NULL);
    cr_assert(decoder_finish(decoder)->complete == false);
}

Test(decode, what_the_agent_could_not_read_is_not_an_empty_text)
{
    struct model *m = stream_model();
    const struct snapshot *d;
    size_t n;
    char *stream;

    m->snapshot.process.exe = m->snapshot.process.command = NULL;
    stream = stream_encode(&m->snapshot, &n);
    cr_assert(strstr(stream, "\"exe\":null,\"command\":null") != NULL);
    d = decoder_finish(decode(stream, n));
    cr_assert(d->process.exe == NULL && d->process.command == NULL);
}

Test(decode, another_pid_namespace_is_told)
{
    struct model *m = stream_model();
    size_t n;
    char *stream;

    m->snapshot.process.foreign_proc = true;
    m->snapshot.process.ns_pid = 1;
    stream = stream_encode(&m->snapshot, &n);
    cr_assert(decoder_finish(decode(stream, n))->process.foreign_proc);
}
