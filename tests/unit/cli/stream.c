/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See stream.h.
 */
#include <stdlib.h>

#include "agent/report/stages.h"
#include "tests/unit/cli/stream.h"

#define STREAM_MAX ((size_t)1 << 20)

struct model *stream_model(void)
{
    static const char *why[] = {"one reason", "another \"reason\" \xe2\x82\xac"};
    struct model *m = model_new();
    struct thread_sample *thread;

    m->snapshot.process.label = "a label";
    m->snapshot.process.why = why;
    m->snapshot.process.n_why = 2;
    model_waiter(m, 101, "one", 0x4000, 102);
    model_waiter(m, 102, "two", 0x4040, 101);
    thread = model_thread(m, 103, "spin\xff", -1);
    thread->state = 'R';
    thread->capture = CAPTURE_NONE;
    thread->reason = REASON_NO_ANSWER;
    thread->stable = thread->still = false;
    thread = model_thread(
        m, 100, "app",
        model_stack(m, (int)model_frame(m, -1, NULL), (int)model_frame(m, MODEL_APP, "_ZN3foo3barEv"), -1));
    thread->capture = CAPTURE_SIGNAL;
    thread->truncated = true;
    thread->has_registers = true;
    thread->registers = (struct report_registers){0x7f0000000040, 0x7ffe0000, 0x7ffe0010, 0, true, false};
    thread->stack_bytes = 4096;
    m->stacks[1].end = UW_NO_MODULE;
    m->stacks[1].truncated = true;
    m->frames[m->stacks[1].frames[0]].exact = true;
    m->frames[m->stacks[1].frames[1]].trust = UW_TRUST_INFERRED;
    m->symbols[m->snapshot.n_symbols].name = "lock_a";
    m->addresses[m->snapshot.n_addresses++] =
        (struct report_address){0x4000, MODEL_APP, (int32_t)m->snapshot.n_symbols++, 0};
    m->addresses[m->snapshot.n_addresses++] = (struct report_address){0x4040, MODEL_APP, -1, 0};
    model_explain(m);
    m->snapshot.stats.signals_sent = 1;
    m->snapshot.stats.pause_nanos = m->snapshot.stats.pause_nanos_max = 12345;
    m->snapshot.stats.duration_nanos = UINT64_MAX;
    m->snapshot.complete = false;
    return m;
}

char *stream_encode(struct snapshot *s, size_t *ret_size)
{
    return stream_encode_into(s, STREAM_MAX, ret_size);
}

char *stream_encode_into(struct snapshot *s, size_t size, size_t *ret_size)
{
    struct out out = {.buffer = malloc(size + 1), .size = size};

    encode_hello(&out, "1.2.3");
    encode_process(&out, &s->process);
    encode_raw_stage(&out, s);
    encode_names_stage(&out, s);
    encode_explanation_stage(&out, s);
    encode_end(&out, s);
    out.buffer[out.used] = '\0';
    *ret_size = out.used;
    return out.buffer;
}
