/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See model.h.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/report/explain.h"
#include "agent/report/text.h"
#include "tests/unit/report/model.h"

#define ARENA_SIZE ((size_t)16 * 1024 * 1024)

struct model *model_new(void)
{
    static const struct report_module modules[] = {
        [MODEL_APP] = {"app", "/opt/app/app", "ab12", 0x1000, 0x1000, 0x9000, .symbols = SYMBOLS_TABLE,
                       .own = true},
        [MODEL_LIBC] = {"libc.so.6", "/lib/libc.so.6", "cd34", 0x100000, 0x100000, 0x200000,
                        .symbols = SYMBOLS_DYNAMIC},
        [MODEL_OTHER] = {"libother.so.1", "/lib/libother.so.1", NULL, 0x300000, 0x300000, 0x400000,
                         .symbols = SYMBOLS_TABLE},
    };
    struct model *model = calloc(1, sizeof(*model));
    struct snapshot *s = &model->snapshot;

    memcpy(model->modules, modules, sizeof(modules));
    s->modules = model->modules;
    s->frames = model->frames;
    s->symbols = model->symbols;
    s->stacks = model->stacks;
    s->threads = model->threads;
    s->addresses = model->addresses;
    s->n_modules = 3;
    s->process = (struct process_info){.pid = 100,
                                       .ns_pid = 100,
                                       .main_tid = 100,
                                       .ppid = 1,
                                       .uid = 1000,
                                       .exe = "/opt/app/app",
                                       .command = "./app",
                                       .start_ticks = 77,
                                       .start_time = 1700000000000000000,
                                       .up_nanos = 192000000000};
    s->captured = s->frames_resolved = s->complete = true;
    model->arena = (struct arena){malloc(ARENA_SIZE), ARENA_SIZE, 0};
    return model;
}

uint32_t model_frame(struct model *model, int32_t module, const char *name)
{
    struct snapshot *s = &model->snapshot;
    struct frame frame = {.module = module, .symbol = -1, .trust = UW_TRUST_CFI};

    frame.offset = 0x10 * (s->n_frames + 1);
    frame.pc = module >= 0 ? model->modules[module].base + frame.offset : 0x7f0000000000 + frame.offset;
    if (name != NULL) {
        frame.symbol = (int32_t)s->n_symbols;
        frame.symbol_offset = 4;
        model->symbols[s->n_symbols++].name = name;
    }
    model->frames[s->n_frames] = frame;
    return s->n_frames++;
}

int32_t model_stack(struct model *model, ...)
{
    struct snapshot *s = &model->snapshot;
    struct report_stack stack = {.frames = &model->stack_frames[model->n_stack_frames], .end = UW_END};
    va_list list;
    int frame;

    va_start(list, model);
    while ((frame = va_arg(list, int)) >= 0) {
        model->stack_frames[model->n_stack_frames++] = (uint32_t)frame;
        stack.n_frames++;
    }
    va_end(list);
    model->stacks[s->n_stacks] = stack;
    return (int32_t)s->n_stacks++;
}

struct thread_sample *model_thread(struct model *model, int32_t tid, const char *name, int32_t stack)
{
    struct thread_sample *thread = &model->threads[model->snapshot.n_threads++];

    *thread = (struct thread_sample){.os_tid = tid,
                                     .state = 'S',
                                     .capture = CAPTURE_PASSIVE,
                                     .stable = true,
                                     .still = true,
                                     .stack = stack,
                                     .cpu_nanos = 10000000};
    memcpy(thread->name, name, strnlen(name, sizeof(thread->name)));
    return thread;
}

struct thread_sample *model_waiter(struct model *model, int32_t tid, const char *name, uint64_t lock,
                                   int32_t owner)
{
    int32_t stack = -1;
    struct thread_sample *thread;

    for (uint32_t i = 0; i < model->snapshot.n_stacks && stack < 0; i++) {
        const struct frame *frame = &model->frames[model->stacks[i].frames[1]];

        if (model->stacks[i].n_frames == 3 && frame->symbol >= 0 &&
            strcmp(model->symbols[frame->symbol].name, "pthread_mutex_lock") == 0)
            stack = (int32_t)i;
    }
    if (stack < 0)
        stack = model_stack(model, model_frame(model, MODEL_LIBC, NULL),
                            model_frame(model, MODEL_LIBC, "pthread_mutex_lock"),
                            model_frame(model, MODEL_APP, "worker"), -1);
    thread = model_thread(model, tid, name, stack);
    thread->syscall = (struct report_syscall){true, 202, {lock, 128, 2, 0, 0, 0}};
    thread->lock_word = (struct lock_word){true, 2, 0, owner, 1, 0};
    return thread;
}

void model_explain(struct model *model)
{
    struct snapshot *s = &model->snapshot;

    s->stats.threads_total = s->n_threads;
    s->stats.threads_captured = 0;
    for (uint32_t i = 0; i < s->n_threads; i++)
        s->stats.threads_captured += s->threads[i].capture != CAPTURE_NONE;
    s->stats.threads_dropped = s->n_threads - s->stats.threads_captured;
    explain_waits(s);
    explain_conclude(s, &model->arena);
}

char *model_text(struct model *model)
{
    static const struct text_options options;
    struct out out = {.buffer = malloc(1 << 20), .size = 1 << 20};

    report_text(&out, &model->snapshot, &options, &model->arena);
    out_char(&out, '\0');
    return out.buffer;
}
