/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reading a JSON report; see load.h.
 *
 * The objects of a report are, but for their type and id, records of the wire. So each is given those and fed
 * to the decoder, which then does all the checking. What the wire does not carry, waits and conclusions, is
 * added afterwards. Zone: client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "agent/report/encode.h"
#include "agent/report/words.h"
#include "cli/load.h"

/* report, processes, process, stacks, stack, frame, value */
#define DEPTH_MAX 16

json_object *load_parse(const char *text, size_t n)
{
    json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
    json_object *report = NULL, *schema;

    if (tokener == NULL || n > INT32_MAX)
        return NULL;
    json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
    report = json_tokener_parse_ex(tokener, text, (int)n);
    json_tokener_free(tokener);
    if (!json_object_object_get_ex(report, "schema", &schema) ||
        strcmp(json_object_get_string(schema) ? json_object_get_string(schema) : "", "probe-report/1") != 0) {
        json_object_put(report);
        return NULL;
    }
    return report;
}

static json_object *member(json_object *object, const char *key)
{
    json_object *value = NULL;

    return json_object_object_get_ex(object, key, &value) ? value : NULL;
}

static size_t length(json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

/* NULL for what is not there: json-c would assert. */
static json_object *item(json_object *list, size_t i)
{
    return i < length(list) ? json_object_array_get_idx(list, i) : NULL;
}

static const char *text_of(json_object *object, const char *key)
{
    const char *text = json_object_get_string(member(object, key));

    return text != NULL ? text : "";
}

size_t load_n_processes(json_object *report)
{
    return length(member(report, "processes"));
}

static void feed(struct decoder *decoder, json_object *record, const char *type)
{
    const char *text;
    size_t n;

    if (!json_object_is_type(record, json_type_object))
        record = json_object_new_object(); /* no record at all: the decoder says so */
    else
        json_object_get(record);
    json_object_object_add(record, "type", json_object_new_string(type));
    text = json_object_to_json_string_length(record, JSON_C_TO_STRING_PLAIN, &n);
    decoder_feed(decoder, text, n);
    decoder_feed(decoder, "\n", 1);
    json_object_put(record);
}

static void feed_with_id(struct decoder *decoder, json_object *record, const char *type, size_t id)
{
    if (json_object_is_type(record, json_type_object))
        json_object_object_add(record, "id", json_object_new_int64((int64_t)id));
    feed(decoder, record, type);
}

/* "2023-11-14T22:13:20.123456789Z" in unix ns; 0 when it is none. */
static uint64_t parse_time(const char *text)
{
    struct tm utc = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
    uint64_t nanos = 0, unit = 100000000;

    if (rest == NULL)
        return 0;
    for (rest += *rest == '.'; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
        nanos += (uint64_t)(*rest - '0') * unit;
    return (uint64_t)timegm(&utc) * 1000000000 + nanos;
}

static void feed_process(struct decoder *decoder, json_object *process)
{
    json_object *hello = json_object_new_object(), *facts = json_object_new_object();
    static const char *const keys[] = {"pid",   "ppid",     "uid", "exe",         "command",
                                       "label", "up_nanos", "why", "foreign_proc"};

    json_object_object_add(hello, "protocol", json_object_new_int(WIRE_PROTOCOL));
    json_object_object_add(hello, "agent", json_object_new_string(""));
    feed(decoder, hello, "hello");
    json_object_put(hello);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (member(process, keys[i]) != NULL)
            json_object_object_add(facts, keys[i], json_object_get(member(process, keys[i])));
    json_object_object_add(facts, "start_ticks", json_object_new_int(0));
    json_object_object_add(facts, "start_time",
                           json_object_new_uint64(parse_time(text_of(process, "start_time"))));
    feed(decoder, facts, "process");
    json_object_put(facts);
}

/* Frames that stacks share are written out in each of them, so here each stack has its own. */
static void feed_stacks(struct decoder *decoder, json_object *process)
{
    json_object *stacks = member(process, "stacks"), *ends = member(process, "stack_ends");
    size_t frame = 0;

    for (size_t i = 0; i < length(stacks); i++) {
        json_object *stack = json_object_new_object(), *ids = json_object_new_array(), *end = item(ends, i);

        for (size_t j = 0; j < length(item(stacks, i)); j++, frame++) {
            feed_with_id(decoder, item(item(stacks, i), j), "frame", frame);
            json_object_array_add(ids, json_object_new_int64((int64_t)frame));
        }
        json_object_object_add(stack, "frames", ids);
        json_object_object_add(stack, "end", json_object_new_string(text_of(end, "end")));
        json_object_object_add(stack, "truncated", json_object_get(member(end, "truncated")));
        feed_with_id(decoder, stack, "stack", i);
        json_object_put(stack);
    }
}

static void feed_captured(struct decoder *decoder, json_object *process)
{
    json_object *captured = json_object_new_object();

    json_object_object_add(captured, "stats", json_object_get(member(process, "stats")));
    feed(decoder, captured, "captured");
    json_object_put(captured);
}

static void feed_names(struct decoder *decoder, json_object *process)
{
    json_object *stacks = member(process, "stacks"), *modules = member(process, "modules");
    size_t frame = 0, symbol = 0;

    for (size_t i = 0; i < length(modules); i++) {
        json_object *record = json_object_new_object();

        json_object_object_add(record, "module", json_object_new_int64((int64_t)i));
        json_object_object_add(record, "symbols",
                               json_object_new_string(text_of(item(modules, i), "symbols")));
        feed(decoder, record, "symbols");
        json_object_put(record);
    }
    for (size_t i = 0; i < length(stacks); i++) {
        for (size_t j = 0; j < length(item(stacks, i)); j++, frame++) {
            json_object *from = item(item(stacks, i), j), *record;

            if (member(from, "symbol") == NULL)
                continue;
            record = json_object_new_object();
            json_object_object_add(record, "name", json_object_get(member(from, "symbol")));
            feed_with_id(decoder, record, "symbol", symbol);
            json_object_put(record);
            record = json_object_new_object();
            json_object_object_add(record, "frame", json_object_new_int64((int64_t)frame));
            json_object_object_add(record, "symbol", json_object_new_int64((int64_t)symbol++));
            json_object_object_add(record, "offset", json_object_get(member(from, "function_offset")));
            feed(decoder, record, "name");
            json_object_put(record);
        }
    }
}

static void feed_end(struct decoder *decoder, json_object *process)
{
    json_object *end = json_object_new_object();

    json_object_object_add(end, "complete", json_object_get(member(process, "complete")));
    json_object_object_add(end, "why", json_object_get(member(process, "why")));
    json_object_object_add(end, "lost", json_object_new_int(0));
    feed(decoder, end, "end");
    json_object_put(end);
}

/* The conclusions live as long as the decoder; where memory runs out there are fewer. */
static const char *keep(struct decoder *decoder, json_object *object, const char *key)
{
    return decoder_keep_text(decoder, text_of(object, key));
}

static int32_t *keep_tids(struct decoder *decoder, json_object *list, uint32_t *ret_n)
{
    size_t n = length(list);
    int32_t *tids = decoder_keep(decoder, (n + 1) * sizeof(*tids));

    for (size_t i = 0; i < n && tids != NULL; i++)
        tids[i] = json_object_get_int(item(list, i));
    *ret_n = tids != NULL ? (uint32_t)n : 0;
    return tids;
}

static uint64_t address_of(json_object *object)
{
    return strtoull(text_of(object, "address"), NULL, 16);
}

static void add_waits(struct snapshot *s, json_object *threads)
{
    for (uint32_t i = 0; i < s->n_threads && i < length(threads); i++) {
        json_object *wait = member(item(threads, i), "wait");
        struct report_wait *to = &s->threads[i].wait;
        unsigned status;

        s->threads[i].still = json_object_get_boolean(member(item(threads, i), "still"));
        if (wait == NULL || strcmp(text_of(wait, "kind"), word_wait(WAIT_MUTEX)) != 0)
            continue;
        for (status = 0; status < OWNER_STATUS_N; status++)
            if (strcmp(text_of(wait, "owner_status"), word_owner((enum owner_status)status)) == 0)
                break;
        to->kind = WAIT_MUTEX;
        to->address = address_of(wait);
        to->owner_tid = json_object_get_int(member(wait, "owner_tid"));
        to->owner_status = status < OWNER_STATUS_N ? (enum owner_status)status : OWNER_UNPROVEN;
    }
}

static void add_conclusions(struct decoder *decoder, struct snapshot *s, json_object *process)
{
    json_object *locks = member(process, "locks"), *cycles = member(process, "cycles"),
                *verdicts = member(process, "verdicts");

    s->locks = decoder_keep(decoder, (length(locks) + 1) * sizeof(*s->locks));
    for (size_t i = 0; i < length(locks) && s->locks != NULL; i++) {
        struct report_lock *lock = &s->locks[s->n_locks++];

        *lock = (struct report_lock){.address = address_of(item(locks, i)),
                                     .kind = keep(decoder, item(locks, i), "kind"),
                                     .owner_tid = json_object_get_int(member(item(locks, i), "owner_tid"))};
        if (member(item(locks, i), "name") != NULL)
            lock->name = keep(decoder, item(locks, i), "name");
        lock->waiters = keep_tids(decoder, member(item(locks, i), "waiters"), &lock->n_waiters);
    }
    s->cycles = decoder_keep(decoder, (length(cycles) + 1) * sizeof(*s->cycles));
    for (size_t i = 0; i < length(cycles) && s->cycles != NULL; i++) {
        struct report_cycle *cycle = &s->cycles[s->n_cycles];

        cycle->tids = keep_tids(decoder, item(cycles, i), &cycle->n_tids);
        s->n_cycles += cycle->n_tids > 0;
    }
    s->verdicts = decoder_keep(decoder, (length(verdicts) + 1) * sizeof(*s->verdicts));
    for (size_t i = 0; i < length(verdicts) && s->verdicts != NULL; i++)
        s->verdicts[s->n_verdicts++] = (struct report_verdict){keep(decoder, item(verdicts, i), "kind"),
                                                               keep(decoder, item(verdicts, i), "confidence"),
                                                               keep(decoder, item(verdicts, i), "text")};
}

bool load_process(json_object *report, size_t index, struct loaded *ret_loaded)
{
    json_object *process = item(member(report, "processes"), index), *list;
    struct decoder *decoder = decoder_new();
    struct snapshot *s;

    if (decoder == NULL)
        return false;
    feed_process(decoder, process);
    list = member(process, "modules");
    for (size_t i = 0; i < length(list); i++)
        feed_with_id(decoder, item(list, i), "module", i);
    feed_stacks(decoder, process);
    list = member(process, "threads");
    for (size_t i = 0; i < length(list); i++)
        feed(decoder, item(list, i), "thread");
    feed_captured(decoder, process);
    if (json_object_get_boolean(member(process, "resolved")))
        feed_names(decoder, process);
    feed_end(decoder, process);
    s = decoder_finish(decoder);
    s->process.pid = json_object_get_int(member(process, "pid"));
    s->process.ns_pid = json_object_get_int(member(process, "ns_pid"));
    s->process.main_tid = member(process, "main_tid") != NULL
                              ? json_object_get_int(member(process, "main_tid"))
                              : s->process.ns_pid;
    add_waits(s, list);
    add_conclusions(decoder, s, process);
    *ret_loaded = (struct loaded){decoder, s};
    return true;
}

void load_free(struct loaded *loaded)
{
    decoder_free(loaded->decoder);
    *loaded = (struct loaded){0};
}
