/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bounded decoder of the wire; see decode.h.
 *
 * One line is parsed at a time with json-c (strict, UTF-8 checked, flat), then read field by field through
 * getters that remember the first mismatch. Ids must be dense and refer backwards, so no reference can
 * dangle. Zone: client.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agent/report/encode.h"
#include "agent/report/words.h"
#include "cli/decode.h"

/* Records nest as deep as {"syscall":{"args":[...]}}; json-c counts each level, and one for the scalar. */
#define DEPTH_MAX 8
/* Limits that only a damaged or malicious stream reaches. */
#define WHY_MAX 256
#define ID_MAX INT32_MAX
#define CHUNK_SIZE ((size_t)64 * 1024)

struct chunk {
    struct chunk *next;
    size_t size, used;
    char bytes[];
};

struct decoder {
    struct snapshot snapshot;
    uint32_t room_modules, room_frames, room_symbols, room_stacks, room_threads, room_addresses, room_why;
    const struct thread_sample **by_tid; /* sorted; made when the first "still" arrives */
    struct chunk *chunks;
    struct json_tokener *tokener;
    char *line; /* a line that has not ended yet */
    size_t line_used, line_size, received;
    bool ended_complete, names_seen, end_seen;
    enum decode_progress progress;
    const char *problem, *error_code, *error_text, *agent_version;
    uint64_t lost;
};

/* Reads one record; the first field that is missing or of the wrong kind makes it bad. */
struct fields {
    struct decoder *decoder;
    json_object *object;
    bool bad;
};

void *decoder_keep(struct decoder *decoder, size_t size)
{
    struct chunk *chunk = decoder->chunks;
    size_t start = chunk ? (chunk->used + 15) & ~(size_t)15 : 0;

    if (chunk == NULL || start > chunk->size || size > chunk->size - start) {
        size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;

        chunk = malloc(sizeof(*chunk) + room);
        if (chunk == NULL)
            return NULL;
        chunk->next = decoder->chunks;
        chunk->size = room;
        decoder->chunks = chunk;
        start = 0;
    }
    chunk->used = start + size;
    return chunk->bytes + start;
}

const char *decoder_keep_text(struct decoder *decoder, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = decoder_keep(decoder, size);

    return copy ? memcpy(copy, text, size) : "";
}

void decoder_set_symbols(struct decoder *decoder, const struct symbol *symbols, uint32_t n)
{
    struct symbol *copy = malloc((n + 1) * sizeof(*copy));

    if (copy == NULL)
        return;
    for (uint32_t i = 0; i < n; i++)
        copy[i] = (struct symbol){.name = decoder_keep_text(decoder, symbols[i].name)};
    free(decoder->snapshot.symbols);
    decoder->snapshot.symbols = copy;
    decoder->snapshot.n_symbols = n;
    decoder->room_symbols = n + 1;
}

/* Room for one more element, doubling. */
static bool grow(void **array, uint32_t n, uint32_t *room, size_t size)
{
    uint32_t more = *room ? *room * 2 : 64;
    void *bigger;

    if (n < *room)
        return true;
    if (n >= ID_MAX / 2)
        return false;
    bigger = realloc(*array, more * size);
    if (bigger == NULL)
        return false;
    *array = bigger;
    *room = more;
    return true;
}

static json_object *field(struct fields *f, const char *key, json_type type)
{
    json_object *value = NULL;

    if (!json_object_object_get_ex(f->object, key, &value) || !json_object_is_type(value, type)) {
        f->bad = true;
        return NULL;
    }
    return value;
}

static bool has_field(const struct fields *f, const char *key)
{
    json_object *value;

    return json_object_object_get_ex(f->object, key, &value) && value != NULL;
}

static int64_t get_signed(struct fields *f, const char *key, int64_t min, int64_t max)
{
    json_object *value = field(f, key, json_type_int);
    int64_t number;

    if (value == NULL)
        return 0;
    number = json_object_get_int64(value); /* saturates */
    if (number < min || number > max) {
        f->bad = true;
        return 0;
    }
    return number;
}

static uint64_t get_unsigned(struct fields *f, const char *key, uint64_t max)
{
    json_object *value = field(f, key, json_type_int);
    uint64_t number;

    if (value == NULL)
        return 0;
    number = json_object_get_uint64(value); /* 0 for negative numbers */
    if (number > max || json_object_get_int64(value) < 0) {
        f->bad = true;
        return 0;
    }
    return number;
}

static bool get_bool(struct fields *f, const char *key)
{
    json_object *value = field(f, key, json_type_boolean);

    return value != NULL && json_object_get_boolean(value);
}

static bool get_optional_bool(struct fields *f, const char *key)
{
    return has_field(f, key) && get_bool(f, key);
}

/* Borrowed from the record. */
static const char *get_word(struct fields *f, const char *key)
{
    json_object *value = field(f, key, json_type_string);

    return value != NULL ? json_object_get_string(value) : "";
}

static const char *get_text(struct fields *f, const char *key)
{
    return decoder_keep_text(f->decoder, get_word(f, key));
}

/* Absent or null gives otherwise. */
static const char *get_optional_text(struct fields *f, const char *key, const char *otherwise)
{
    return has_field(f, key) ? get_text(f, key) : otherwise;
}

static bool parse_address(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t i;

    if (text[0] != '0' || text[1] != 'x' || text[2] == '\0')
        return false;
    for (i = 2; text[i] != '\0'; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (digit < 0 || i >= 18)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret_value = value;
    return true;
}

static uint64_t get_address(struct fields *f, const char *key)
{
    uint64_t value = 0;

    if (!parse_address(get_word(f, key), &value))
        f->bad = true;
    return value;
}

/* An index below n, or -1 for null. The key must be there. */
static int32_t get_index(struct fields *f, const char *key, uint32_t n)
{
    json_object *value;

    if (json_object_object_get_ex(f->object, key, &value) && value == NULL)
        return -1;
    if (n == 0) {
        f->bad = true;
        return -1;
    }
    return (int32_t)get_unsigned(f, key, n - 1);
}

/* Ids are dense, so the next one is known. */
static void check_id(struct fields *f, uint32_t next)
{
    uint64_t id = get_unsigned(f, "id", ID_MAX);

    if (id > next)
        f->decoder->problem = "records are missing: an id is not the next one";
    if (id != next)
        f->bad = true;
}

static void take_why(struct fields *f)
{
    struct decoder *decoder = f->decoder;
    json_object *list = field(f, "why", json_type_array);
    size_t i, n = list ? json_object_array_length(list) : 0;

    if (n > WHY_MAX) {
        f->bad = true;
        return;
    }
    decoder->snapshot.process.n_why = 0; /* the list in "end" is the whole list again */
    for (i = 0; i < n; i++) {
        json_object *text = json_object_array_get_idx(list, i);

        if (!json_object_is_type(text, json_type_string)) {
            f->bad = true;
            return;
        }
        decoder_add_why(decoder, json_object_get_string(text));
    }
}

void decoder_add_why(struct decoder *decoder, const char *text)
{
    struct process_info *process = &decoder->snapshot.process;

    if (!grow((void **)&process->why, process->n_why, &decoder->room_why, sizeof(*process->why)))
        return;
    process->why[process->n_why++] = decoder_keep_text(decoder, text);
}

static void take_hello(struct fields *f)
{
    if (get_unsigned(f, "protocol", UINT32_MAX) != WIRE_PROTOCOL && !f->bad) {
        f->decoder->problem = "the agent speaks another version of the protocol";
        return;
    }
    f->decoder->agent_version = get_text(f, "agent");
    if (!f->bad)
        f->decoder->progress = DECODE_HELLO;
}

static void take_process(struct fields *f)
{
    struct process_info *process = &f->decoder->snapshot.process;

    process->pid = process->ns_pid = process->main_tid = (int32_t)get_signed(f, "pid", 0, INT32_MAX);
    process->ppid = (int32_t)get_signed(f, "ppid", 0, INT32_MAX);
    process->uid = (uint32_t)get_unsigned(f, "uid", UINT32_MAX);
    process->exe = get_optional_text(f, "exe", NULL);
    process->command = get_optional_text(f, "command", NULL);
    process->label = get_optional_text(f, "label", NULL);
    process->start_ticks = get_unsigned(f, "start_ticks", UINT64_MAX);
    process->start_time = get_unsigned(f, "start_time", UINT64_MAX);
    process->up_nanos = get_unsigned(f, "up_nanos", UINT64_MAX);
    process->foreign_proc = get_optional_bool(f, "foreign_proc");
    take_why(f);
}

static void take_module(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    struct report_module module = {0};

    check_id(f, s->n_modules);
    module.name = get_optional_text(f, "name", "");
    module.path = get_optional_text(f, "path", "");
    module.build_id = get_optional_text(f, "build_id", NULL);
    module.base = get_address(f, "base");
    module.start = get_address(f, "start");
    module.end = get_address(f, "end");
    module.own = get_bool(f, "own");
    if (f->bad || !grow((void **)&s->modules, s->n_modules, &f->decoder->room_modules, sizeof(module))) {
        f->bad = true;
        return;
    }
    s->modules[s->n_modules++] = module;
}

static void take_frame(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    struct frame frame = {.symbol = -1};
    const char *trust = get_word(f, "trust");
    unsigned i;

    check_id(f, s->n_frames);
    frame.pc = get_address(f, "pc");
    frame.module = get_index(f, "module", s->n_modules);
    if (frame.module >= 0)
        frame.offset = get_address(f, "offset");
    frame.exact = get_optional_bool(f, "exact");
    for (i = 0; i < UW_TRUST_N && strcmp(trust, word_trust((enum uw_trust)i)) != 0; i++)
        ;
    /* A kind of trust that only a newer agent knows is at best a guess to us. */
    frame.trust = i < UW_TRUST_N ? (enum uw_trust)i : UW_TRUST_INFERRED;
    if (f->bad || !grow((void **)&s->frames, s->n_frames, &f->decoder->room_frames, sizeof(frame))) {
        f->bad = true;
        return;
    }
    s->frames[s->n_frames++] = frame;
}

static void take_stack(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    struct report_stack stack = {0};
    const char *end = get_word(f, "end");
    json_object *list = field(f, "frames", json_type_array);
    size_t i, n = list ? json_object_array_length(list) : 0;
    uint32_t *frames = NULL;
    unsigned e;

    check_id(f, s->n_stacks);
    stack.truncated = get_optional_bool(f, "truncated");
    for (e = 0; e < UW_STATUS_N && strcmp(end, word_end((enum uw_status)e)) != 0; e++)
        ;
    stack.end = e < UW_STATUS_N ? (enum uw_status)e : UW_BAD_CFI;
    if (n > SNAPSHOT_MAX_FRAMES ||
        (n > 0 && (frames = decoder_keep(f->decoder, n * sizeof(*frames))) == NULL))
        f->bad = true;
    for (i = 0; i < n && !f->bad; i++) {
        json_object *id = json_object_array_get_idx(list, i);
        uint64_t index = json_object_is_type(id, json_type_int) ? json_object_get_uint64(id) : UINT64_MAX;

        if (index >= s->n_frames || json_object_get_int64(id) < 0)
            f->bad = true;
        else
            frames[i] = (uint32_t)index;
    }
    stack.frames = frames;
    stack.n_frames = (uint32_t)n;
    if (f->bad || !grow((void **)&s->stacks, s->n_stacks, &f->decoder->room_stacks, sizeof(stack))) {
        f->bad = true;
        return;
    }
    s->stacks[s->n_stacks++] = stack;
}

static char state_from_word(const char *word)
{
    static const char states[] = "RSDTtZXIP";
    size_t i;

    for (i = 0; states[i] != '\0'; i++)
        if (strcmp(word, word_state(states[i])) == 0)
            return states[i];
    return '?';
}

static void take_registers(struct fields *f, struct thread_sample *thread)
{
    struct fields inner = {f->decoder, field(f, "registers", json_type_object), f->bad};
    struct report_registers *registers = &thread->registers;

    if (!inner.bad) {
        thread->has_registers = true;
        registers->instruction_pointer = get_address(&inner, "instruction_pointer");
        registers->stack_pointer = get_address(&inner, "stack_pointer");
        registers->frame_pointer_known = has_field(&inner, "frame_pointer");
        if (registers->frame_pointer_known)
            registers->frame_pointer = get_address(&inner, "frame_pointer");
        registers->link_register_known = has_field(&inner, "link_register");
        if (registers->link_register_known)
            registers->link_register = get_address(&inner, "link_register");
    }
    f->bad = inner.bad || f->bad;
}

static void take_syscall(struct fields *f, struct thread_sample *thread)
{
    struct fields inner = {f->decoder, field(f, "syscall", json_type_object), f->bad};
    json_object *args = inner.object ? field(&inner, "args", json_type_array) : NULL;
    size_t i;

    if (args == NULL || json_object_array_length(args) != 6) {
        f->bad = true;
        return;
    }
    thread->syscall.known = true;
    thread->syscall.number = get_signed(&inner, "number", INT64_MIN, INT64_MAX);
    for (i = 0; i < 6; i++) {
        json_object *arg = json_object_array_get_idx(args, i);

        if (!json_object_is_type(arg, json_type_string) ||
            !parse_address(json_object_get_string(arg), &thread->syscall.args[i]))
            inner.bad = true;
    }
    f->bad = inner.bad || f->bad;
}

static void take_lock_word(struct fields *f, struct thread_sample *thread)
{
    struct fields inner = {f->decoder, field(f, "lock_word", json_type_object), f->bad};
    struct lock_word *word = &thread->lock_word;

    if (!inner.bad) {
        word->known = true;
        word->word = (uint32_t)get_unsigned(&inner, "word", UINT32_MAX);
        word->count = (uint32_t)get_unsigned(&inner, "count", UINT32_MAX);
        word->owner = (int32_t)get_signed(&inner, "owner", INT32_MIN, INT32_MAX);
        word->users = (uint32_t)get_unsigned(&inner, "users", UINT32_MAX);
        word->kind = (int32_t)get_signed(&inner, "kind", INT32_MIN, INT32_MAX);
    }
    f->bad = inner.bad || f->bad;
}

static enum capture_kind capture_from_word(const char *word)
{
    unsigned i;

    for (i = 0; i < CAPTURE_KIND_N; i++)
        if (strcmp(word, word_capture((enum capture_kind)i)) == 0)
            return (enum capture_kind)i;
    return CAPTURE_NONE;
}

static enum capture_reason reason_from_word(const char *word)
{
    unsigned i;

    for (i = 0; i < REASON_N; i++)
        if (strcmp(word, word_reason((enum capture_reason)i)) == 0)
            return (enum capture_reason)i;
    return REASON_N; /* a newer agent's: printed as unknown */
}

static void take_thread(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    struct thread_sample thread = {0};
    const char *name = get_word(f, "name");

    thread.os_tid = (int32_t)get_signed(f, "tid", 0, INT32_MAX);
    memcpy(thread.name, name, strnlen(name, sizeof(thread.name)));
    thread.state = state_from_word(get_word(f, "state"));
    thread.cpu_nanos = get_unsigned(f, "cpu_nanos", UINT64_MAX);
    thread.capture = capture_from_word(get_word(f, "capture"));
    if (has_field(f, "reason"))
        thread.reason = reason_from_word(get_word(f, "reason"));
    thread.truncated = get_bool(f, "truncated");
    thread.stable = get_bool(f, "stable");
    thread.stack_bytes = get_unsigned(f, "stack_bytes", UINT64_MAX);
    thread.stack = get_index(f, "stack", s->n_stacks);
    if (has_field(f, "registers"))
        take_registers(f, &thread);
    if (has_field(f, "syscall"))
        take_syscall(f, &thread);
    if (has_field(f, "lock_word"))
        take_lock_word(f, &thread);
    thread.wchan = get_optional_text(f, "wchan", NULL);
    if (f->bad || !grow((void **)&s->threads, s->n_threads, &f->decoder->room_threads, sizeof(thread))) {
        f->bad = true;
        return;
    }
    s->threads[s->n_threads++] = thread;
}

static void take_captured(struct fields *f)
{
    struct fields inner = {f->decoder, field(f, "stats", json_type_object), f->bad};
    struct snapshot_stats *stats = &f->decoder->snapshot.stats;

    if (inner.bad) {
        f->bad = true;
        return;
    }
    stats->threads_total = (uint32_t)get_unsigned(&inner, "threads_total", UINT32_MAX);
    stats->threads_captured = (uint32_t)get_unsigned(&inner, "threads_captured", UINT32_MAX);
    stats->threads_dropped = (uint32_t)get_unsigned(&inner, "threads_dropped", UINT32_MAX);
    stats->pause_nanos = get_unsigned(&inner, "pause_nanos", UINT64_MAX);
    stats->pause_nanos_max = get_unsigned(&inner, "pause_nanos_max", UINT64_MAX);
    stats->signals_sent = (uint32_t)get_unsigned(&inner, "signals_sent", UINT32_MAX);
    stats->frames_unattributed = (uint32_t)get_unsigned(&inner, "frames_unattributed", UINT32_MAX);
    stats->duration_nanos = get_unsigned(&inner, "duration_nanos", UINT64_MAX);
    f->bad = inner.bad;
    if (!f->bad)
        f->decoder->progress = DECODE_CAPTURED;
}

static void take_symbols(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    int32_t module = get_index(f, "module", s->n_modules);
    const char *word = get_word(f, "symbols");
    unsigned i;

    if (f->bad || module < 0) {
        f->bad = true;
        return;
    }
    for (i = 0; i < SYMBOLS_N && strcmp(word, word_symbols((enum module_symbols)i)) != 0; i++)
        ;
    s->modules[module].symbols = i < SYMBOLS_N ? (enum module_symbols)i : SYMBOLS_NOT_LOOKED;
    f->decoder->names_seen = true;
}

static void take_symbol(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    struct symbol symbol = {get_text(f, "name")};

    check_id(f, s->n_symbols);
    if (f->bad || !grow((void **)&s->symbols, s->n_symbols, &f->decoder->room_symbols, sizeof(symbol))) {
        f->bad = true;
        return;
    }
    s->symbols[s->n_symbols++] = symbol;
}

static void take_name(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    int32_t frame = get_index(f, "frame", s->n_frames);
    int32_t symbol = get_index(f, "symbol", s->n_symbols);
    uint64_t offset = get_unsigned(f, "offset", UINT64_MAX);

    if (f->bad || frame < 0 || symbol < 0) {
        f->bad = true;
        return;
    }
    s->frames[frame].symbol = symbol;
    s->frames[frame].symbol_offset = offset;
}

static void take_address(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    struct report_address address = {
        .address = get_address(f, "address"),
        .module = get_index(f, "module", s->n_modules),
        .symbol = get_index(f, "symbol", s->n_symbols),
        .symbol_offset = get_unsigned(f, "offset", UINT64_MAX),
    };

    if (f->bad ||
        !grow((void **)&s->addresses, s->n_addresses, &f->decoder->room_addresses, sizeof(address))) {
        f->bad = true;
        return;
    }
    s->addresses[s->n_addresses++] = address;
}

static int compare_tids(const void *a, const void *b)
{
    int32_t x = (*(struct thread_sample *const *)a)->os_tid, y = (*(struct thread_sample *const *)b)->os_tid;

    return x < y ? -1 : x > y;
}

/* All threads have arrived: "captured" came before. */
static bool sort_by_tid(struct decoder *decoder)
{
    struct snapshot *s = &decoder->snapshot;
    uint32_t i;

    if (decoder->by_tid != NULL || s->n_threads == 0)
        return true;
    decoder->by_tid = calloc(s->n_threads, sizeof(*decoder->by_tid));
    if (decoder->by_tid == NULL)
        return false;
    for (i = 0; i < s->n_threads; i++)
        decoder->by_tid[i] = &s->threads[i];
    qsort(decoder->by_tid, s->n_threads, sizeof(*decoder->by_tid), compare_tids);
    return true;
}

static void take_still(struct fields *f)
{
    struct snapshot *s = &f->decoder->snapshot;
    json_object *list = field(f, "tids", json_type_array);
    size_t i, n = list ? json_object_array_length(list) : 0;

    if (!sort_by_tid(f->decoder)) {
        f->bad = true;
        return;
    }
    for (i = 0; i < n; i++) {
        json_object *tid = json_object_array_get_idx(list, i);
        struct thread_sample key = {.os_tid = json_object_get_int(tid)}, *at = &key, **found;

        if (!json_object_is_type(tid, json_type_int)) {
            f->bad = true;
            return;
        }
        found = s->n_threads ? bsearch(&at, f->decoder->by_tid, s->n_threads, sizeof(*found), compare_tids)
                             : NULL;
        if (found != NULL)
            (*found)->still = true;
    }
}

static void take_end(struct fields *f)
{
    struct decoder *decoder = f->decoder;

    decoder->ended_complete = get_bool(f, "complete");
    decoder->lost = get_unsigned(f, "lost", UINT64_MAX);
    take_why(f);
    if (f->bad)
        return;
    decoder->end_seen = true;
    if (decoder->progress == DECODE_CAPTURED)
        decoder->progress = DECODE_END;
}

static void take_error(struct fields *f)
{
    f->decoder->error_code = get_text(f, "code");
    f->decoder->error_text = get_text(f, "text");
}

/* Which record may come when: hello first, the raw stage before "captured", names after it, nothing after
 * "end". */
static const struct {
    const char *type;
    void (*take)(struct fields *f);
    enum decode_progress from, to;
} records[] = {
    {"hello", take_hello, DECODE_NOTHING, DECODE_NOTHING},
    {"process", take_process, DECODE_HELLO, DECODE_HELLO},
    {"module", take_module, DECODE_HELLO, DECODE_HELLO},
    {"frame", take_frame, DECODE_HELLO, DECODE_HELLO},
    {"stack", take_stack, DECODE_HELLO, DECODE_HELLO},
    {"thread", take_thread, DECODE_HELLO, DECODE_HELLO},
    {"captured", take_captured, DECODE_HELLO, DECODE_HELLO},
    {"symbols", take_symbols, DECODE_CAPTURED, DECODE_CAPTURED},
    {"symbol", take_symbol, DECODE_CAPTURED, DECODE_CAPTURED},
    {"name", take_name, DECODE_CAPTURED, DECODE_CAPTURED},
    {"address", take_address, DECODE_CAPTURED, DECODE_CAPTURED},
    {"still", take_still, DECODE_CAPTURED, DECODE_CAPTURED},
    {"end", take_end, DECODE_HELLO, DECODE_CAPTURED},
    {"error", take_error, DECODE_NOTHING, DECODE_CAPTURED},
};

static void take_record(struct decoder *decoder, json_object *object)
{
    struct fields f = {decoder, object, false};
    const char *type = get_word(&f, "type");
    size_t i;

    for (i = 0; i < sizeof(records) / sizeof(records[0]) && !f.bad; i++) {
        if (strcmp(type, records[i].type) != 0)
            continue;
        if (decoder->progress < records[i].from || decoder->progress > records[i].to || decoder->end_seen) {
            decoder->problem = "a record came out of order";
            return;
        }
        records[i].take(&f);
        break;
    }
    /* Types that we do not know are a newer agent's, and skipped, but the first word must be hello. */
    if (decoder->progress == DECODE_NOTHING && decoder->error_code == NULL && decoder->problem == NULL)
        decoder->problem = "the answer does not begin as an agent's does";
    else if (f.bad && decoder->problem == NULL)
        decoder->problem = "a record is malformed";
}

static void take_line(struct decoder *decoder, const char *line, size_t n)
{
    json_object *object;

    if (memchr(line, '\0', n) != NULL || n == 0) {
        decoder->problem = "a line is not JSON";
        return;
    }
    json_tokener_reset(decoder->tokener);
    object = json_tokener_parse_ex(decoder->tokener, line, (int)n);
    if (object == NULL || json_tokener_get_error(decoder->tokener) != json_tokener_success ||
        json_tokener_get_parse_end(decoder->tokener) != n || !json_object_is_type(object, json_type_object))
        decoder->problem = "a line is not JSON";
    else
        take_record(decoder, object);
    json_object_put(object);
}

struct decoder *decoder_new(void)
{
    struct decoder *decoder = calloc(1, sizeof(*decoder));

    if (decoder == NULL)
        return NULL;
    decoder->tokener = json_tokener_new_ex(DEPTH_MAX);
    if (decoder->tokener == NULL) {
        free(decoder);
        return NULL;
    }
    json_tokener_set_flags(decoder->tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    decoder->agent_version = "";
    return decoder;
}

void decoder_free(struct decoder *decoder)
{
    struct chunk *chunk, *next;

    if (decoder == NULL)
        return;
    for (chunk = decoder->chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    json_tokener_free(decoder->tokener);
    free(decoder->snapshot.modules);
    free(decoder->snapshot.frames);
    free(decoder->snapshot.symbols);
    free(decoder->snapshot.stacks);
    free(decoder->snapshot.threads);
    free(decoder->snapshot.addresses);
    free(decoder->snapshot.process.why);
    free(decoder->by_tid);
    free(decoder->line);
    free(decoder);
}

/* Adds to the line that has not ended yet; false when that is no record any more. */
static bool hold(struct decoder *decoder, const char *bytes, size_t n)
{
    size_t size = decoder->line_size ? decoder->line_size : 4096;
    char *bigger;

    if (n > DECODE_LINE_MAX - decoder->line_used) {
        decoder->problem = "a line is too long";
        return false;
    }
    while (size < decoder->line_used + n)
        size *= 2;
    if (size != decoder->line_size) {
        bigger = realloc(decoder->line, size);
        if (bigger == NULL) {
            decoder->problem = "out of memory";
            return false;
        }
        decoder->line = bigger;
        decoder->line_size = size;
    }
    memcpy(decoder->line + decoder->line_used, bytes, n);
    decoder->line_used += n;
    return true;
}

bool decoder_feed(struct decoder *decoder, const char *bytes, size_t n)
{
    const char *end;
    size_t length;

    decoder->received += n;
    if (decoder->received > DECODE_STREAM_MAX && decoder->problem == NULL)
        decoder->problem = "the answer is too long";
    while (n > 0 && decoder->problem == NULL) {
        end = memchr(bytes, '\n', n);
        length = end ? (size_t)(end - bytes) : n;
        if (!hold(decoder, bytes, length) || end == NULL)
            break;
        take_line(decoder, decoder->line, decoder->line_used);
        decoder->line_used = 0;
        bytes += length + 1;
        n -= length + 1;
    }
    return decoder->problem == NULL;
}

enum decode_progress decoder_progress(const struct decoder *decoder)
{
    return decoder->progress;
}

const char *decoder_problem(const struct decoder *decoder)
{
    return decoder->problem;
}

const char *decoder_error_code(const struct decoder *decoder)
{
    return decoder->error_code;
}

const char *decoder_error_text(const struct decoder *decoder)
{
    return decoder->error_text;
}

const char *decoder_agent_version(const struct decoder *decoder)
{
    return decoder->agent_version;
}

bool decoder_ended(const struct decoder *decoder)
{
    return decoder->end_seen;
}

struct snapshot *decoder_finish(struct decoder *decoder)
{
    struct snapshot *s = &decoder->snapshot;

    s->captured = decoder->progress >= DECODE_CAPTURED;
    s->frames_resolved = decoder->names_seen;
    s->complete = decoder->progress == DECODE_END && decoder->ended_complete && decoder->lost == 0;
    if (decoder->problem != NULL)
        decoder_add_why(decoder, decoder->problem);
    if (!s->captured)
        decoder_add_why(decoder, "the answer ended before all threads were captured");
    else if (decoder->progress != DECODE_END)
        decoder_add_why(decoder, "the answer ended before all names were sent");
    if (decoder->lost > 0)
        decoder_add_why(decoder, "the agent had no room for all of its answer");
    if (!s->captured) { /* the counts come with "captured"; these are what arrived */
        uint32_t i;

        s->stats = (struct snapshot_stats){.threads_total = s->n_threads};
        for (i = 0; i < s->n_threads; i++)
            s->stats.threads_captured += s->threads[i].capture != CAPTURE_NONE;
        s->stats.threads_dropped = s->n_threads - s->stats.threads_captured;
    }
    return s;
}
