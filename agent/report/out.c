/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounded output: numbers, JSON strings and terminal-safe text.
 * Zone: pure; in the target it is called by the probe thread. Of the C library only memcpy() is used, which
 * the agent supplies.
 */
#include <string.h>

#include "agent/report/out.h"
#include "agent/report/strings.h"

/* A string is passed on in runs of this many bytes, so that a small buffer can hold it piece by piece. */
#define RUN_MAX 128

void out_bytes(struct out *out, const char *bytes, size_t n)
{
    size_t room = out->size - out->used, take;

    while (n > room) {
        if (out->flush == NULL || !out->flush(out)) {
            out->lost += n;
            return;
        }
        out->flushes++;
        room = out->size - out->used;
        if (room == 0) { /* a flush that made no room would be asked for ever */
            out->lost += n;
            return;
        }
        take = n < room ? n : room; /* only a piece larger than the whole buffer is ever split */
        memcpy(out->buffer + out->used, bytes, take);
        out->used += take;
        bytes += take;
        n -= take;
        room -= take;
    }
    if (n > 0)
        memcpy(out->buffer + out->used, bytes, n);
    out->used += n;
}

void out_char(struct out *out, char c)
{
    out_bytes(out, &c, 1);
}

void out_text(struct out *out, const char *text)
{
    if (text != NULL)
        out_bytes(out, text, text_length(text));
}

void out_unsigned(struct out *out, uint64_t value)
{
    char digits[20]; /* 2^64 - 1 has 20 digits */
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    out_bytes(out, digits + at, sizeof(digits) - at);
}

void out_signed(struct out *out, int64_t value)
{
    char digits[20]; /* sign and 19 digits */
    size_t at = sizeof(digits);
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value; /* INT64_MIN has no positive twin */

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0)
        digits[--at] = '-';
    out_bytes(out, digits + at, sizeof(digits) - at);
}

void out_hex(struct out *out, uint64_t value)
{
    char digits[18]; /* 0x and 16 digits */
    size_t at = sizeof(digits);

    do {
        digits[--at] = text_hex_digit(value & 15);
        value >>= 4;
    } while (value != 0);
    digits[--at] = 'x';
    digits[--at] = '0';
    out_bytes(out, digits + at, sizeof(digits) - at);
}

/* Length of the well-formed UTF-8 sequence at text (Unicode, table 3-7), or 0. n is at least 1. */
static size_t utf8_length(const unsigned char *text, size_t n)
{
    unsigned char lead = text[0], low = 0x80, high = 0xbf;
    size_t length, i;

    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length > n)
        return 0;
    /* The second byte excludes overlong forms, surrogates and what lies above U+10FFFF. */
    if (lead == 0xe0)
        low = 0xa0;
    if (lead == 0xed)
        high = 0x9f;
    if (lead == 0xf0)
        low = 0x90;
    if (lead == 0xf4)
        high = 0x8f;
    if (text[1] < low || text[1] > high)
        return 0;
    for (i = 2; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static void json_escape(struct out *out, unsigned char c)
{
    char escape[6] = {'\\', 'u', '0', '0', text_hex_digit(c >> 4), text_hex_digit(c & 15)};
    char pair[2] = {'\\', (char)c};

    switch (c) {
    case '"':
    case '\\':
        break;
    case '\n':
        pair[1] = 'n';
        break;
    case '\t':
        pair[1] = 't';
        break;
    case '\r':
        pair[1] = 'r';
        break;
    default:
        out_bytes(out, escape, sizeof(escape));
        return;
    }
    out_bytes(out, pair, sizeof(pair));
}

/*
 * Length of what can stand in a JSON string as it is, or 0: quotes, backslash, C0, DEL, C1 and invalid bytes.
 */
static size_t json_verbatim(const unsigned char *text, size_t n)
{
    size_t length = utf8_length(text, n);

    if (length == 1 && (text[0] < 0x20 || text[0] == '"' || text[0] == '\\' || text[0] == 0x7f))
        return 0;
    if (length == 2 && text[0] == 0xc2 && text[1] < 0xa0)
        return 0;
    return length;
}

void out_json_string(struct out *out, const char *text, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t run = 0, at = 0, length;

    out_char(out, '"');
    while (at < n) {
        length = json_verbatim(bytes + at, n - at);
        if (length == 0 || at + length - run > RUN_MAX) {
            out_bytes(out, text + run, at - run);
            run = at;
        }
        if (length > 0) {
            at += length;
            continue;
        }
        if (bytes[at] < 0x80) {
            json_escape(out, bytes[at]);
            at++;
        } else if (utf8_length(bytes + at, n - at) == 2) { /* C1: valid, but a terminal may obey it */
            json_escape(out, bytes[at + 1]);
            at += 2;
        } else {
            out_bytes(out, "\\ufffd", 6);
            at++;
        }
        run = at;
    }
    out_bytes(out, text + run, at - run);
    out_char(out, '"');
}

void out_plain(struct out *out, const char *text, size_t n)
{
    size_t i, run = 0;

    for (i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[4] = {'\\', 'x', text_hex_digit(c >> 4), text_hex_digit(c & 15)};
        bool printable = c >= 0x20 && c < 0x7f;

        if (printable && c != '\\' && i - run < RUN_MAX)
            continue;
        out_bytes(out, text + run, i - run);
        run = i;
        if (c == '\\') {
            out_char(out, '\\'); /* the first of two: the run that begins here has the second */
        } else if (!printable) {
            out_bytes(out, escape, sizeof(escape));
            run = i + 1;
        }
    }
    out_bytes(out, text + run, n - run);
}
