/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The report as one JSON object, with json-c; field by field as in agent/report/probe-report.schema.json.
 * Zone: client.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <json-c/json.h>

#include "agent/report/group.h"
#include "agent/report/out.h"
#include "agent/report/words.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/version.h"

/* Keys are literals and stay valid, so json-c need not copy them. */
static void add(json_object *object, const char *key, json_object *value)
{
    json_object_object_add_ex(object, key, value,
                              JSON_C_OBJECT_ADD_KEY_IS_NEW | JSON_C_OBJECT_KEY_IS_CONSTANT);
}

/* Names and paths may hold any byte, JSON may not: what is not UTF-8 becomes U+FFFD, as on the wire. */
static json_object *new_text(const char *text, size_t n)
{
    struct out out = {.size = 6 * n + 3}; /* the longest escape, two quotes, NUL */
    json_object *value = NULL;

    out.buffer = malloc(out.size);
    if (out.buffer == NULL)
        return json_object_new_string("");
    out_json_string(&out, text, n);
    out_char(&out, '\0');
    value = json_tokener_parse(out.buffer);
    free(out.buffer);
    return value;
}

static void add_text(json_object *object, const char *key, const char *text)
{
    size_t n = 0;

    while (text != NULL && text[n] >= 0x20 && text[n] < 0x7f)
        n++;
    if (text == NULL || text[n] == '\0')
        add(object, key, json_object_new_string_len(text ? text : "", (int)n));
    else
        add(object, key, new_text(text, strlen(text)));
}

/* NULL is null: looked, and not there. */
static void add_text_or_null(json_object *object, const char *key, const char *text)
{
    if (text != NULL)
        add_text(object, key, text);
    else
        add(object, key, NULL);
}

static void add_unsigned(json_object *object, const char *key, uint64_t value)
{
    add(object, key, json_object_new_uint64(value));
}

static void add_signed(json_object *object, const char *key, int64_t value)
{
    add(object, key, json_object_new_int64(value));
}

static void add_bool(json_object *object, const char *key, bool value)
{
    add(object, key, json_object_new_boolean(value));
}

static json_object *new_address(uint64_t value)
{
    char text[19];
    int n = snprintf(text, sizeof(text), "0x%" PRIx64, value);

    return json_object_new_string_len(text, n);
}

static void add_address(json_object *object, const char *key, uint64_t value)
{
    add(object, key, new_address(value));
}

/* An index, or null for "looked and not there". */
static void add_index(json_object *object, const char *key, int32_t index)
{
    add(object, key, index >= 0 ? json_object_new_int(index) : NULL);
}

static json_object *new_tids(const int32_t *tids, uint32_t n)
{
    json_object *list = json_object_new_array_ext((int)n);

    for (uint32_t i = 0; i < n; i++)
        json_object_array_add(list, json_object_new_int(tids[i]));
    return list;
}

static void add_time(json_object *object, const char *key, uint64_t unix_nanos)
{
    time_t seconds = (time_t)(unix_nanos / 1000000000);
    char date[32], text[64];
    struct tm utc;

    if (gmtime_r(&seconds, &utc) == NULL)
        return;
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof(text), "%s.%09uZ", date, (unsigned)(unix_nanos % 1000000000));
    add_text(object, key, text);
}

static json_object *new_stats(const struct snapshot_stats *stats)
{
    json_object *object = json_object_new_object();

    add_unsigned(object, "threads_total", stats->threads_total);
    add_unsigned(object, "threads_captured", stats->threads_captured);
    add_unsigned(object, "threads_dropped", stats->threads_dropped);
    add_unsigned(object, "pause_nanos", stats->pause_nanos);
    add_unsigned(object, "pause_nanos_max", stats->pause_nanos_max);
    add_unsigned(object, "signals_sent", stats->signals_sent);
    add_unsigned(object, "frames_unattributed", stats->frames_unattributed);
    add_unsigned(object, "duration_nanos", stats->duration_nanos);
    return object;
}

static json_object *new_module(const struct report_module *module)
{
    json_object *object = json_object_new_object();

    add_text(object, "name", module->name);
    add_text(object, "path", module->path);
    if (module->build_id != NULL)
        add_text(object, "build_id", module->build_id);
    add_address(object, "base", module->base);
    add_address(object, "start", module->start);
    add_address(object, "end", module->end);
    add_bool(object, "own", module->own);
    add_text(object, "symbols", word_symbols(module->symbols));
    return object;
}

static json_object *new_frame(const struct snapshot *snapshot, const struct frame *frame)
{
    json_object *object = json_object_new_object();
    const char *symbol;

    add_address(object, "pc", frame->pc);
    add_index(object, "module", frame->module);
    if (frame->module >= 0)
        add_address(object, "offset", frame->offset);
    if (frame->symbol >= 0) {
        symbol = snapshot->symbols[frame->symbol].name;
        add_text(object, "function", names_display(NULL, symbol));
        add_text(object, "symbol", symbol);
        add_unsigned(object, "function_offset", frame->symbol_offset);
    }
    add_bool(object, "inlined", false); /* a physical frame; inlined ones need debug information */
    add_text(object, "trust", word_trust(frame->trust));
    if (frame->exact)
        add_bool(object, "exact", true);
    return object;
}

/*
 * A frame that many stacks share is one object with many references: json-c frees it with the last. That
 * keeps the memory of 10,000 deep stacks that differ only at the top linear in what was received.
 */
static json_object *new_stacks(const struct snapshot *snapshot)
{
    json_object *stacks = json_object_new_array_ext((int)snapshot->n_stacks);
    json_object **frames = calloc(snapshot->n_frames ? snapshot->n_frames : 1, sizeof(json_object *));

    for (uint32_t i = 0; i < snapshot->n_frames && frames != NULL; i++)
        frames[i] = new_frame(snapshot, &snapshot->frames[i]);
    for (uint32_t i = 0; i < snapshot->n_stacks; i++) {
        const struct report_stack *stack = &snapshot->stacks[i];
        json_object *list = json_object_new_array_ext((int)stack->n_frames);

        for (uint32_t j = 0; j < stack->n_frames && frames != NULL; j++)
            json_object_array_add(list, json_object_get(frames[stack->frames[j]]));
        json_object_array_add(stacks, list);
    }
    for (uint32_t i = 0; i < snapshot->n_frames && frames != NULL; i++)
        json_object_put(frames[i]);
    free(frames);
    return stacks;
}

static json_object *new_stack_ends(const struct snapshot *snapshot)
{
    json_object *list = json_object_new_array_ext((int)snapshot->n_stacks);

    for (uint32_t i = 0; i < snapshot->n_stacks; i++) {
        json_object *object = json_object_new_object();

        add_text(object, "end", word_end(snapshot->stacks[i].end));
        add_bool(object, "truncated", snapshot->stacks[i].truncated);
        json_object_array_add(list, object);
    }
    return list;
}

static json_object *new_syscall(const struct report_syscall *syscall)
{
    json_object *object = json_object_new_object(), *args = json_object_new_array_ext(6);
    const char *name = word_syscall(syscall->number);

    add_signed(object, "number", syscall->number);
    if (name != NULL)
        add_text(object, "name", name);
    for (int i = 0; i < 6; i++)
        json_object_array_add(args, new_address(syscall->args[i]));
    add(object, "args", args);
    return object;
}

static json_object *new_wait(const struct report_wait *wait)
{
    json_object *object = json_object_new_object();

    add_text(object, "kind", word_wait(wait->kind));
    add_address(object, "address", wait->address);
    if (wait->owner_status == OWNER_LIVE || wait->owner_status == OWNER_SELF ||
        wait->owner_status == OWNER_GONE)
        add_signed(object, "owner_tid", wait->owner_tid);
    else
        add(object, "owner_tid", NULL);
    add_text(object, "owner_status", word_owner(wait->owner_status));
    return object;
}

static json_object *new_registers(const struct report_registers *registers)
{
    json_object *object = json_object_new_object();

    add_address(object, "instruction_pointer", registers->instruction_pointer);
    add_address(object, "stack_pointer", registers->stack_pointer);
    if (registers->frame_pointer_known)
        add_address(object, "frame_pointer", registers->frame_pointer);
    if (registers->link_register_known)
        add_address(object, "link_register", registers->link_register);
    return object;
}

static json_object *new_thread(const struct thread_sample *thread)
{
    json_object *object = json_object_new_object();

    add_signed(object, "tid", thread->os_tid);
    add(object, "name", new_text(thread->name, strnlen(thread->name, sizeof(thread->name))));
    add_text(object, "state", word_state(thread->state));
    add_unsigned(object, "cpu_nanos", thread->cpu_nanos);
    add_text(object, "capture", word_capture(thread->capture));
    if (thread->reason != REASON_NONE)
        add_text(object, "reason", word_reason(thread->reason));
    add_bool(object, "truncated", thread->truncated);
    add_bool(object, "stable", thread->stable);
    add_bool(object, "still", thread->still);
    add_unsigned(object, "stack_bytes", thread->stack_bytes);
    add_index(object, "stack", thread->stack);
    if (thread->has_registers)
        add(object, "registers", new_registers(&thread->registers));
    if (thread->syscall.known)
        add(object, "syscall", new_syscall(&thread->syscall));
    if (thread->wait.kind != WAIT_NONE)
        add(object, "wait", new_wait(&thread->wait));
    if (thread->wchan != NULL)
        add_text(object, "wchan", thread->wchan);
    return object;
}

/* One line per group for people who read the JSON: the innermost frame of the program's own, or the
 * innermost. */
static const char *group_text(const struct snapshot *snapshot, const struct thread_sample *thread)
{
    const struct report_stack *stack = thread->stack >= 0 ? &snapshot->stacks[thread->stack] : NULL;
    int32_t symbol = -1;

    for (uint32_t i = 0; stack != NULL && i < stack->n_frames; i++) {
        const struct frame *frame = &snapshot->frames[stack->frames[i]];

        if (frame->symbol < 0)
            continue;
        if (symbol < 0)
            symbol = frame->symbol;
        if (frame->module >= 0 && snapshot->modules[frame->module].own) {
            symbol = frame->symbol;
            break;
        }
    }
    return symbol >= 0 ? names_display(NULL, snapshot->symbols[symbol].name) : word_state(thread->state);
}

static json_object *new_groups(const struct snapshot *snapshot, struct arena *arena)
{
    json_object *list = json_object_new_array();
    struct report_groups groups = {0};

    if (!group_threads(snapshot, arena, &groups))
        return list;
    for (uint32_t i = 0; i < groups.n_groups; i++) {
        const struct report_group *group = &groups.groups[i];
        const struct thread_sample *first = &snapshot->threads[group->threads[0]];
        json_object *object = json_object_new_object(),
                    *tids = json_object_new_array_ext((int)group->n_threads);

        for (uint32_t j = 0; j < group->n_threads; j++)
            json_object_array_add(tids, json_object_new_int(snapshot->threads[group->threads[j]].os_tid));
        add(object, "tids", tids);
        add_index(object, "stack", first->stack);
        add_text(object, "text", group_text(snapshot, first));
        json_object_array_add(list, object);
    }
    return list;
}

static json_object *new_locks(const struct snapshot *snapshot)
{
    json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < snapshot->n_locks; i++) {
        const struct report_lock *lock = &snapshot->locks[i];
        json_object *object = json_object_new_object();

        add_address(object, "address", lock->address);
        add_text(object, "kind", lock->kind);
        if (lock->name != NULL)
            add_text(object, "name", lock->name);
        add(object, "owner_tid", lock->owner_tid != 0 ? json_object_new_int(lock->owner_tid) : NULL);
        add(object, "waiters", new_tids(lock->waiters, lock->n_waiters));
        json_object_array_add(list, object);
    }
    return list;
}

static json_object *new_verdicts(const struct snapshot *snapshot)
{
    json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < snapshot->n_verdicts; i++) {
        json_object *object = json_object_new_object();

        add_text(object, "kind", snapshot->verdicts[i].kind);
        add_text(object, "confidence", snapshot->verdicts[i].confidence);
        add_text(object, "text", snapshot->verdicts[i].text);
        json_object_array_add(list, object);
    }
    return list;
}

static void add_process_facts(json_object *object, const struct snapshot *snapshot)
{
    const struct process_info *process = &snapshot->process;
    json_object *why = json_object_new_array();

    add_signed(object, "pid", process->pid);
    add_signed(object, "ns_pid", process->ns_pid);
    add_signed(object, "ppid", process->ppid);
    add_unsigned(object, "uid", process->uid);
    add_signed(object, "main_tid", process->main_tid);
    add_text_or_null(object, "exe", process->exe);
    add_text_or_null(object, "command", process->command);
    add_time(object, "start_time", process->start_time);
    add_unsigned(object, "up_nanos", process->up_nanos);
    if (process->label != NULL)
        add_text(object, "label", process->label);
    if (process->foreign_proc)
        add_bool(object, "foreign_proc", true);
    add_bool(object, "complete", snapshot->complete);
    add_bool(object, "resolved", snapshot->frames_resolved);
    for (uint32_t i = 0; i < process->n_why; i++)
        json_object_array_add(why, new_text(process->why[i], strlen(process->why[i])));
    add(object, "why", why);
}

void json_report_add(json_object *report, const struct snapshot *snapshot, struct arena *arena)
{
    json_object *object = json_object_new_object(), *processes, *list;

    add_process_facts(object, snapshot);
    add(object, "stats", new_stats(&snapshot->stats));
    list = json_object_new_array_ext((int)snapshot->n_modules);
    for (uint32_t i = 0; i < snapshot->n_modules; i++)
        json_object_array_add(list, new_module(&snapshot->modules[i]));
    add(object, "modules", list);
    add(object, "stacks", new_stacks(snapshot));
    add(object, "stack_ends", new_stack_ends(snapshot));
    list = json_object_new_array_ext((int)snapshot->n_threads);
    for (uint32_t i = 0; i < snapshot->n_threads; i++)
        json_object_array_add(list, new_thread(&snapshot->threads[i]));
    add(object, "threads", list);
    add(object, "groups", new_groups(snapshot, arena));
    add(object, "locks", new_locks(snapshot));
    list = json_object_new_array_ext((int)snapshot->n_cycles);
    for (uint32_t i = 0; i < snapshot->n_cycles; i++)
        json_object_array_add(list, new_tids(snapshot->cycles[i].tids, snapshot->cycles[i].n_tids));
    add(object, "cycles", list);
    add(object, "verdicts", new_verdicts(snapshot));
    if (json_object_object_get_ex(report, "processes", &processes))
        json_object_array_add(processes, object);
}

json_object *json_report_new(const char *agent_version)
{
    json_object *report = json_object_new_object(), *part;
    struct utsname host;

    if (report == NULL)
        return NULL;
    add_text(report, "schema", "probe-report/1");
    part = json_object_new_object();
    add_text(part, "name", "probectl");
    add_text(part, "version", PROBE_VERSION);
    if (agent_version != NULL && agent_version[0] != '\0')
        add_text(part, "agent", agent_version);
    add(report, "tool", part);
    part = json_object_new_object();
    if (uname(&host) == 0) {
        add_text(part, "system", host.sysname);
        add_text(part, "kernel", host.release);
        add_text(part, "machine", host.machine);
    }
    add(report, "host", part);
    part = json_object_new_object();
    add_text(part, "kind", "request");
    add_time(part, "time", (uint64_t)time(NULL) * 1000000000);
    add(report, "trigger", part);
    add(report, "processes", json_object_new_array());
    return report;
}

bool json_report_print(json_object *report, FILE *to)
{
    size_t length = 0;
    const char *text = json_object_to_json_string_length(
        report, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &length);

    return text != NULL && fwrite(text, 1, length, to) == length && fputc('\n', to) != EOF;
}
