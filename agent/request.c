/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See request.h.
 * Zone: probe thread.
 */
#include "agent/request.h"

#include "agent/report/units.h"
#include "agent/text.h"
#include "agent/nolibc.h"

#define DEFAULT_TIMEOUT_MS 5000
#define MAX_TIMEOUT_MS 60000

/* Cuts the next word off; NULL at the end of the line. */
static char *next_word(char **cursor)
{
    char *word = *cursor, *end;

    while (*word == ' ')
        word++;
    if (!*word)
        return NULL;
    for (end = word; *end && *end != ' '; end++)
        ;
    *cursor = *end ? end + 1 : end;
    *end = 0;
    return word;
}

static bool parse_symbols(struct request *request, const char *value)
{
    request->symbols = text_equal(value, "table");
    return request->symbols || text_equal(value, "none");
}

static bool parse_arguments(struct request *request, const char *value)
{
    request->all_arguments = text_equal(value, "1");
    return request->all_arguments || text_equal(value, "0");
}

static bool parse_timeout(struct request *request, const char *value)
{
    uint64_t ms;

    if (!text_decimal(value, &ms) || ms < 1)
        return false;
    request->timeout_nanos = (ms < MAX_TIMEOUT_MS ? ms : MAX_TIMEOUT_MS) * NANOS_PER_MS;
    return true;
}

static const char *parse_option(struct request *request, const char *word)
{
    const char *value;

    if ((value = text_after(word, "capture=")))
        return config_parse_mode(value, &request->mode) ? NULL : "capture is none of auto, passive, signal";
    if ((value = text_after(word, "symbols=")))
        return parse_symbols(request, value) ? NULL : "symbols is neither none nor table";
    if ((value = text_after(word, "args=")))
        return parse_arguments(request, value) ? NULL : "args is neither 0 nor 1";
    if ((value = text_after(word, "timeout=")))
        return parse_timeout(request, value) ? NULL : "timeout is not a number of milliseconds from 1";
    return "unknown option";
}

const char *request_parse(struct request *ret, char *line, const struct config *config)
{
    char *word = next_word(&line);

    *ret = (struct request){
        .mode = config->mode, .symbols = true, .timeout_nanos = DEFAULT_TIMEOUT_MS * NANOS_PER_MS};
    if (!word)
        return "empty request";
    if (text_equal(word, "hello"))
        ret->verb = REQUEST_HELLO;
    else if (!text_equal(word, "dump"))
        return "unknown request";
    while ((word = next_word(&line))) {
        const char *complaint = parse_option(ret, word);

        if (complaint)
            return complaint;
    }
    return NULL;
}

bool request_same(const struct request *a, const struct request *b)
{
    return a->verb == b->verb && a->mode == b->mode && a->symbols == b->symbols &&
           a->all_arguments == b->all_arguments && a->timeout_nanos == b->timeout_nanos;
}
