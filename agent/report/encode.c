/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The records of the wire. Field by field as in PROTOCOL.md.
 * Zone: pure; called by the probe thread.
 */
#include "agent/report/encode.h"
#include "agent/report/strings.h"
#include "agent/report/words.h"

/* Keeps one "still" line well below the line limit of readers. */
#define STILL_TIDS_PER_RECORD 4096

/* Where a record began, so that one that does not fit can be taken back whole. */
struct record {
    size_t used, lost, flushes;
};

static void json_text(struct out *out, const char *text)
{
    if (text == NULL)
        out_text(out, "null");
    else
        out_json_string(out, text, text_length(text));
}

/* key is a literal and holds its own quotes, comma and colon: the source then reads like the record. */
static void put_text(struct out *out, const char *key, const char *text)
{
    out_text(out, key);
    json_text(out, text);
}

static void put_unsigned(struct out *out, const char *key, uint64_t value)
{
    out_text(out, key);
    out_unsigned(out, value);
}

static void put_signed(struct out *out, const char *key, int64_t value)
{
    out_text(out, key);
    out_signed(out, value);
}

static void put_address(struct out *out, const char *key, uint64_t value)
{
    out_text(out, key);
    out_char(out, '"');
    out_hex(out, value);
    out_char(out, '"');
}

static void put_bool(struct out *out, const char *key, bool value)
{
    out_text(out, key);
    out_text(out, value ? "true" : "false");
}

static void put_index(struct out *out, const char *key, int32_t index)
{
    out_text(out, key);
    if (index < 0)
        out_text(out, "null");
    else
        out_signed(out, index);
}

static void put_why(struct out *out, const struct process_info *process)
{
    uint32_t i;

    out_text(out, ",\"why\":[");
    for (i = 0; process != NULL && i < process->n_why; i++) {
        if (i > 0)
            out_char(out, ',');
        json_text(out, process->why[i]);
    }
    out_char(out, ']');
}

static struct record begin(struct out *out, const char *type)
{
    struct record record = {out->used, out->lost, out->flushes};

    put_text(out, "{\"type\":", type);
    return record;
}

static bool finish(struct out *out, const struct record *record)
{
    bool whole;

    out_text(out, "}\n");
    whole = out->lost == record->lost;
    if (out->flushes !=
        record->flushes) /* its beginning has left already; or the stream ends in a torn line */
        return whole;
    if (whole && (out->flush != NULL || out->keep <= out->size - out->used))
        return true;
    out->lost += out->used - record->used;
    out->used = record->used;
    return false;
}

void encode_hello(struct out *out, const char *agent_version)
{
    struct record record = begin(out, "hello");

    put_unsigned(out, ",\"protocol\":", WIRE_PROTOCOL);
    put_text(out, ",\"agent\":", agent_version);
    finish(out, &record);
}

void encode_process(struct out *out, const struct process_info *process)
{
    struct record record = begin(out, "process");

    put_signed(out, ",\"pid\":", process->pid);
    put_signed(out, ",\"ppid\":", process->ppid);
    put_unsigned(out, ",\"uid\":", process->uid);
    put_text(out, ",\"exe\":", process->exe);
    put_text(out, ",\"command\":", process->command);
    if (process->label != NULL)
        put_text(out, ",\"label\":", process->label);
    put_unsigned(out, ",\"start_ticks\":", process->start_ticks);
    put_unsigned(out, ",\"start_time\":", process->start_time);
    put_unsigned(out, ",\"up_nanos\":", process->up_nanos);
    if (process->foreign_proc)
        put_bool(out, ",\"foreign_proc\":", true);
    put_why(out, process);
    finish(out, &record);
}

bool encode_module(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    const struct report_module *module = &snapshot->modules[index];
    struct record record = begin(out, "module");

    put_unsigned(out, ",\"id\":", index);
    put_text(out, ",\"name\":", module->name);
    put_text(out, ",\"path\":", module->path);
    if (module->build_id != NULL)
        put_text(out, ",\"build_id\":", module->build_id);
    put_address(out, ",\"base\":", module->base);
    put_address(out, ",\"start\":", module->start);
    put_address(out, ",\"end\":", module->end);
    put_bool(out, ",\"own\":", module->own);
    return finish(out, &record);
}

bool encode_frame(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    const struct frame *frame = &snapshot->frames[index];
    struct record record = begin(out, "frame");

    put_unsigned(out, ",\"id\":", index);
    put_address(out, ",\"pc\":", frame->pc);
    put_index(out, ",\"module\":", frame->module);
    if (frame->module >= 0)
        put_address(out, ",\"offset\":", frame->offset);
    put_text(out, ",\"trust\":", word_trust(frame->trust));
    if (frame->exact)
        put_bool(out, ",\"exact\":", true);
    return finish(out, &record);
}

bool encode_stack(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    const struct report_stack *stack = &snapshot->stacks[index];
    struct record record = begin(out, "stack");
    uint32_t i;

    put_unsigned(out, ",\"id\":", index);
    out_text(out, ",\"frames\":[");
    for (i = 0; i < stack->n_frames; i++) {
        if (i > 0)
            out_char(out, ',');
        out_unsigned(out, stack->frames[i]);
    }
    put_text(out, "],\"end\":", word_end(stack->end));
    if (stack->truncated)
        put_bool(out, ",\"truncated\":", true);
    return finish(out, &record);
}

static void put_registers(struct out *out, const struct report_registers *registers)
{
    put_address(out, ",\"registers\":{\"instruction_pointer\":", registers->instruction_pointer);
    put_address(out, ",\"stack_pointer\":", registers->stack_pointer);
    if (registers->frame_pointer_known)
        put_address(out, ",\"frame_pointer\":", registers->frame_pointer);
    if (registers->link_register_known)
        put_address(out, ",\"link_register\":", registers->link_register);
    out_char(out, '}');
}

static void put_syscall(struct out *out, const struct report_syscall *syscall)
{
    int i;

    put_signed(out, ",\"syscall\":{\"number\":", syscall->number);
    out_text(out, ",\"args\":");
    for (i = 0; i < 6; i++)
        put_address(out, i == 0 ? "[" : ",", syscall->args[i]);
    out_text(out, "]}");
}

static void put_lock_word(struct out *out, const struct lock_word *word)
{
    put_unsigned(out, ",\"lock_word\":{\"word\":", word->word);
    put_unsigned(out, ",\"count\":", word->count);
    put_signed(out, ",\"owner\":", word->owner);
    put_unsigned(out, ",\"users\":", word->users);
    put_signed(out, ",\"kind\":", word->kind);
    out_char(out, '}');
}

bool encode_thread(struct out *out, const struct thread_sample *thread)
{
    struct record record = begin(out, "thread");
    size_t length = 0;

    while (length < sizeof(thread->name) && thread->name[length] != '\0')
        length++;
    put_signed(out, ",\"tid\":", thread->os_tid);
    out_text(out, ",\"name\":");
    out_json_string(out, thread->name, length);
    put_text(out, ",\"state\":", word_state(thread->state));
    put_unsigned(out, ",\"cpu_nanos\":", thread->cpu_nanos);
    put_text(out, ",\"capture\":", word_capture(thread->capture));
    if (thread->reason != REASON_NONE)
        put_text(out, ",\"reason\":", word_reason(thread->reason));
    put_bool(out, ",\"truncated\":", thread->truncated);
    put_bool(out, ",\"stable\":", thread->stable);
    if (thread->has_registers)
        put_registers(out, &thread->registers);
    put_unsigned(out, ",\"stack_bytes\":", thread->stack_bytes);
    put_index(out, ",\"stack\":", thread->stack);
    if (thread->syscall.known)
        put_syscall(out, &thread->syscall);
    if (thread->lock_word.known)
        put_lock_word(out, &thread->lock_word);
    if (thread->wchan != NULL)
        put_text(out, ",\"wchan\":", thread->wchan);
    return finish(out, &record);
}

void encode_captured(struct out *out, const struct snapshot *snapshot)
{
    const struct snapshot_stats *stats = &snapshot->stats;
    struct record record = begin(out, "captured");

    put_unsigned(out, ",\"stats\":{\"threads_total\":", stats->threads_total);
    put_unsigned(out, ",\"threads_captured\":", stats->threads_captured);
    put_unsigned(out, ",\"threads_dropped\":", stats->threads_dropped);
    put_unsigned(out, ",\"pause_nanos\":", stats->pause_nanos);
    put_unsigned(out, ",\"pause_nanos_max\":", stats->pause_nanos_max);
    put_unsigned(out, ",\"signals_sent\":", stats->signals_sent);
    put_unsigned(out, ",\"frames_unattributed\":", stats->frames_unattributed);
    put_unsigned(out, ",\"duration_nanos\":", stats->duration_nanos);
    out_char(out, '}');
    finish(out, &record);
}

void encode_module_symbols(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    struct record record = begin(out, "symbols");

    put_unsigned(out, ",\"module\":", index);
    put_text(out, ",\"symbols\":", word_symbols(snapshot->modules[index].symbols));
    finish(out, &record);
}

bool encode_symbol(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    struct record record = begin(out, "symbol");

    put_unsigned(out, ",\"id\":", index);
    put_text(out, ",\"name\":", snapshot->symbols[index].name);
    return finish(out, &record);
}

void encode_name(struct out *out, const struct snapshot *snapshot, uint32_t frame)
{
    struct record record = begin(out, "name");

    put_unsigned(out, ",\"frame\":", frame);
    put_index(out, ",\"symbol\":", snapshot->frames[frame].symbol);
    put_unsigned(out, ",\"offset\":", snapshot->frames[frame].symbol_offset);
    finish(out, &record);
}

void encode_address(struct out *out, const struct snapshot *snapshot, uint32_t index)
{
    const struct report_address *address = &snapshot->addresses[index];
    struct record record = begin(out, "address");

    put_address(out, ",\"address\":", address->address);
    put_index(out, ",\"module\":", address->module);
    put_index(out, ",\"symbol\":", address->symbol);
    put_unsigned(out, ",\"offset\":", address->symbol >= 0 ? address->symbol_offset : 0);
    finish(out, &record);
}

void encode_still(struct out *out, const struct snapshot *snapshot)
{
    struct record record;
    uint32_t i = 0, n;

    do { /* at least one record: "nothing was still" is an answer too */
        record = begin(out, "still");
        out_text(out, ",\"tids\":[");
        for (n = 0; i < snapshot->n_threads && n < STILL_TIDS_PER_RECORD; i++) {
            if (!snapshot->threads[i].still)
                continue;
            if (n > 0)
                out_char(out, ',');
            out_signed(out, snapshot->threads[i].os_tid);
            n++;
        }
        out_char(out, ']');
        finish(out, &record);
    } while (i < snapshot->n_threads);
}

static void put_tids(struct out *out, const char *key, const int32_t *tids, uint32_t n)
{
    uint32_t i;

    out_text(out, key);
    out_char(out, '[');
    for (i = 0; i < n; i++) {
        if (i > 0)
            out_char(out, ',');
        out_signed(out, tids[i]);
    }
    out_char(out, ']');
}

static void encode_lock(struct out *out, const struct report_lock *lock)
{
    struct record record = begin(out, "lock");

    put_address(out, ",\"address\":", lock->address);
    put_text(out, ",\"kind\":", lock->kind);
    if (lock->name != NULL)
        put_text(out, ",\"name\":", lock->name);
    out_text(out, ",\"owner_tid\":");
    if (lock->owner_tid != 0)
        out_signed(out, lock->owner_tid);
    else
        out_text(out, "null");
    put_tids(out, ",\"waiters\":", lock->waiters, lock->n_waiters);
    finish(out, &record);
}

void encode_explanation(struct out *out, const struct snapshot *snapshot)
{
    struct record record;
    uint32_t i;

    for (i = 0; i < snapshot->n_locks; i++)
        encode_lock(out, &snapshot->locks[i]);
    for (i = 0; i < snapshot->n_cycles; i++) {
        record = begin(out, "cycle");
        put_tids(out, ",\"tids\":", snapshot->cycles[i].tids, snapshot->cycles[i].n_tids);
        finish(out, &record);
    }
    for (i = 0; i < snapshot->n_verdicts; i++) {
        record = begin(out, "verdict");
        put_text(out, ",\"kind\":", snapshot->verdicts[i].kind);
        put_text(out, ",\"confidence\":", snapshot->verdicts[i].confidence);
        put_text(out, ",\"text\":", snapshot->verdicts[i].text);
        finish(out, &record);
    }
}

void encode_end(struct out *out, const struct snapshot *snapshot)
{
    struct record record;

    out->keep = 0;
    record = begin(out, "end");
    put_bool(out, ",\"complete\":", snapshot != NULL && snapshot->complete && record.lost == 0);
    put_why(out, snapshot != NULL ? &snapshot->process : NULL);
    put_unsigned(out, ",\"lost\":", record.lost);
    finish(out, &record);
}

void encode_error(struct out *out, const char *code, const char *text)
{
    struct record record = begin(out, "error");

    put_text(out, ",\"code\":", code);
    put_text(out, ",\"text\":", text);
    finish(out, &record);
}
