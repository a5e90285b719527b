/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The text report against golden files. PROBE_GOLDEN=write rewrites them; read the difference before you
 * commit it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/report/group.h"
#include "agent/report/text.h"
#include "tests/unit/report/model.h"

TestSuite(text, .timeout = 10);

static void expect_golden(const char *name, const char *text)
{
    const char *mode = getenv("PROBE_GOLDEN");
    char path[512], *golden = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.txt", GOLDEN_DIR, name);
    if (mode != NULL && strcmp(mode, "write") == 0) {
        file = fopen(path, "w");
        cr_assert(file != NULL);
        fputs(text, file);
        fclose(file);
        return;
    }
    file = fopen(path, "r");
    cr_assert(file != NULL, "%s is missing", path);
    cr_assert(fread(golden, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    cr_expect(eq(str, (char *)text, golden), "%s", name);
    free(golden);
}

static size_t lines(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

static void expect_ascii(const char *text)
{
    for (; *text != '\0'; text++) {
        bool printable = *text == '\n' || (*text >= 0x20 && *text < 0x7f);

        cr_assert(printable, "byte %02x", (unsigned char)*text);
    }
}

static struct model *deadlock(void)
{
    struct model *m = model_new();
    int start = (int)model_frame(m, MODEL_LIBC, NULL);

    model_thread(m, 100, "app",
                 model_stack(m, (int)model_frame(m, MODEL_LIBC, "pthread_join"),
                             (int)model_frame(m, MODEL_APP, "main"), start, -1))
        ->syscall = (struct report_syscall){true, 202, {0x9000, 0, 101, 0, 0, 0}};
    model_waiter(m, 101, "flusher", 0x4000, 102);
    model_waiter(m, 102, "compactor", 0x4040, 101);
    model_waiter(m, 103, "writer-0", 0x4000, 102);
    model_thread(m, 104, "net-io",
                 model_stack(m, (int)model_frame(m, MODEL_LIBC, "recv"), (int)model_frame(m, MODEL_APP, "rd"),
                             start, -1))
        ->syscall = (struct report_syscall){true, 45, {3, 0x7000, 64, 0, 0, 0}};
    model_explain(m);
    return m;
}

Test(text, a_deadlock)
{
    char *text = model_text(deadlock());

    expect_ascii(text);
    cr_assert(strncmp(text, "DEADLOCK  ", 10) == 0);
    expect_golden("deadlock", text);
}

/* Story: report.md, the pool of 2,000 threads. */
Test(text, two_thousand_threads_in_few_groups)
{
    struct model *m = model_new();
    int start = (int)model_frame(m, MODEL_LIBC, NULL);
    int32_t idle = model_stack(m, (int)model_frame(m, MODEL_LIBC, "pthread_cond_wait"),
                               (int)model_frame(m, MODEL_APP, "wait_job"), start, -1);
    char name[16], *text;

    model_thread(m, 100, "pool",
                 model_stack(m, (int)model_frame(m, MODEL_LIBC, "pause"),
                             (int)model_frame(m, MODEL_APP, "main"), start, -1));
    model_thread(m, 101, "committer",
                 model_stack(m, (int)model_frame(m, MODEL_LIBC, "read"),
                             (int)model_frame(m, MODEL_APP, "commit"), start, -1))
        ->syscall = (struct report_syscall){true, 0, {3, 0x7000, 64, 0, 0, 0}};
    for (int i = 0; i < 40; i++)
        model_waiter(m, 110 + i, "writer", 0x4000, 101);
    for (int i = 0; i < 1958; i++) {
        snprintf(name, sizeof(name), "worker-%d", i);
        model_thread(m, 200 + i, name, idle)->syscall =
            (struct report_syscall){true, 202, {0x5000, 128, 0, 0, 0, 0}};
    }
    model_explain(m);
    text = model_text(m);
    expect_ascii(text);
    cr_expect(lines(text) <= 40, "%zu lines", lines(text));
    cr_expect(strstr(text, "2000 threads in 4 groups: 2000 captured (2000 passive), 0 missing") != NULL);
    expect_golden("pool", text);
}

Test(text, everything_that_can_be_missing_says_so)
{
    struct model *m = model_new();
    uint32_t odd = model_frame(m, MODEL_APP, "by_chain"), guess = model_frame(m, MODEL_APP, "by_guess");
    int32_t stack = model_stack(m, (int)model_frame(m, -1, NULL), (int)odd, (int)guess,
                                (int)model_frame(m, MODEL_OTHER, NULL), -1);
    static const char *why[] = {"PROBE_MAX_STACK is not a number; the default is used",
                                "a \033[31mhostile\033[0m text"};
    struct thread_sample *thread;

    m->frames[odd].trust = UW_TRUST_FRAME_POINTER;
    m->frames[guess].trust = UW_TRUST_INFERRED;
    m->stacks[stack].end = UW_REGISTER_UNKNOWN;
    m->modules[MODEL_OTHER].symbols = SYMBOLS_DELETED;
    m->snapshot.complete = false;
    m->snapshot.process.why = why;
    m->snapshot.process.n_why = 2;
    m->snapshot.process.label = "test 7 of suite x";
    m->snapshot.process.pid = 31000;
    m->snapshot.process.up_nanos = 7384000000000;
    m->snapshot.stats.signals_sent = 2;
    m->snapshot.stats.pause_nanos_max = 12300;

    model_thread(m, 100, "app", stack);
    thread = model_thread(m, 101, "spinner\xff\033", -1);
    thread->state = 'R';
    thread->capture = CAPTURE_NONE;
    thread->reason = REASON_NO_ANSWER;
    thread = model_thread(m, 102, "runner", model_stack(m, (int)model_frame(m, MODEL_APP, "spin"), -1));
    thread->state = 'R';
    thread->capture = CAPTURE_SIGNAL;
    thread->truncated = true;
    thread = model_thread(m, 103, "swapper", -1);
    thread->state = 'D';
    thread->capture = CAPTURE_NONE;
    thread->reason = REASON_UNSTABLE;
    model_waiter(m, 104, "orphan", 0x4000, 4242);
    model_waiter(m, 105, "twice", 0x4040, 105);
    model_waiter(m, 106, "mover", 0x4080, 100)->still = false;
    model_explain(m);
    expect_golden("missing", model_text(m));
}

Test(text, a_deep_stack_shows_both_ends)
{
    struct model *m = model_new();
    int recurse = (int)model_frame(m, MODEL_APP, "recurse");
    int32_t stack = model_stack(m, (int)model_frame(m, MODEL_LIBC, "pause"), -1);
    char *text;

    for (int i = 0; i < 2000; i++)
        m->stack_frames[m->n_stack_frames++] = (uint32_t)recurse;
    m->stack_frames[m->n_stack_frames++] = model_frame(m, MODEL_APP, "main");
    m->stacks[stack].n_frames = 2002;
    model_thread(m, 100, "app", stack);
    model_explain(m);
    text = model_text(m);
    cr_expect(lines(text) < 80);
    cr_expect(strstr(text, "... 1938 frames not shown here") != NULL);
    cr_expect(strstr(text, "> main ") != NULL);
}

Test(text, equal_functions_at_different_addresses_are_one_group)
{
    struct model *m = model_new();
    uint32_t a = model_frame(m, MODEL_APP, "spin"), b = model_frame(m, MODEL_APP, "other");
    char *text;

    m->frames[b].symbol = m->frames[a].symbol;
    model_thread(m, 101, "w", model_stack(m, (int)a, -1));
    model_thread(m, 102, "w", model_stack(m, (int)b, -1));
    model_explain(m);
    text = model_text(m);
    cr_expect(strstr(text, "GROUP of 2 threads") != NULL);
}

/* Wish 27: a frame kind, a reason or an owner is never lost in a group. */
Test(text, threads_that_differ_in_what_is_printed_are_not_grouped)
{
    struct model *m = model_new();
    uint32_t a = model_frame(m, MODEL_APP, "spin"), b = model_frame(m, MODEL_APP, "spin");
    char *text;

    m->frames[b].symbol = m->frames[a].symbol;
    m->frames[b].trust = UW_TRUST_INFERRED;
    model_thread(m, 101, "w", model_stack(m, (int)a, -1));
    model_thread(m, 102, "w", model_stack(m, (int)b, -1));
    model_thread(m, 103, "w", 0)->state = 'T';
    model_waiter(m, 104, "w", 0x4000, 200);
    model_waiter(m, 105, "w", 0x4040, 200);
    model_thread(m, 200, "owner", -1);
    model_explain(m);
    text = model_text(m);
    cr_expect(strstr(text, "GROUP") == NULL, "%s", text);
}

Test(text, without_memory_every_thread_is_still_there)
{
    struct model *m = deadlock();
    char *text;

    m->arena.used = m->arena.size;
    text = model_text(m);
    for (int tid = 100; tid < 105; tid++) {
        char wanted[16];

        snprintf(wanted, sizeof(wanted), " %d ", tid);
        cr_expect(strstr(text, wanted) != NULL, "%d", tid);
    }
    cr_expect(strncmp(text, "DEADLOCK", 8) == 0);
}

Test(text, an_empty_snapshot_prints)
{
    struct model *m = model_new();
    struct snapshot empty = {.process = {.exe = "", .command = ""}};
    struct out out = {.buffer = malloc(4096), .size = 4096};

    m->snapshot = empty;
    report_text(&out, &empty, NULL, &m->arena);
    cr_expect(out.used > 0);
    cr_expect(strncmp(out.buffer, "UNKNOWN", 7) == 0);
}

Test(text, colour_is_only_there_when_asked_for)
{
    struct model *m = deadlock();
    const struct text_options options = {.color = true};
    struct out out = {.buffer = malloc(65536), .size = 65536};

    report_text(&out, &m->snapshot, &options, &m->arena);
    cr_expect(memchr(out.buffer, '\033', out.used) != NULL);
    cr_expect(strchr(model_text(m), '\033') == NULL);
}

Test(text, the_main_thread_is_found_under_the_number_that_proc_gives_it)
{
    struct model *m = model_new();
    struct report_groups groups;
    int32_t stack = model_stack(m, (int)model_frame(m, MODEL_APP, "f"), -1);

    m->snapshot.process.pid = 5000; /* as seen from outside */
    m->snapshot.process.ns_pid = 1; /* as the program sees itself; /proc is of a namespace in between */
    model_thread(m, 1, "other", stack);
    model_thread(m, 100, "main", stack);
    model_thread(m, 5000, "third", stack);
    cr_assert(group_threads(&m->snapshot, &m->arena, &groups));
    cr_expect(eq(int, groups.ranks[0], RANK_OTHER));
    cr_expect(eq(int, groups.ranks[1], RANK_MAIN));
    cr_expect(eq(int, groups.ranks[2], RANK_OTHER));
}

Test(text, frame_pointer_frames_are_said_to_leave_callers_out)
{
    struct model *m = model_new();
    int jit = (int)model_frame(m, -1, NULL), below = (int)model_frame(m, MODEL_APP, "run");
    const char *text;

    m->frames[below].trust = UW_TRUST_FRAME_POINTER;
    model_thread(m, 100, "app", model_stack(m, jit, below, -1));
    model_explain(m);
    text = model_text(m);
    cr_assert(strstr(text, "[by frame pointer, unverified]") != NULL);
    cr_assert(strstr(text, "a caller may be missing") != NULL);
    m->frames[below].trust = UW_TRUST_CFI;
    cr_assert(strstr(model_text(m), "a caller may be missing") == NULL);
}
