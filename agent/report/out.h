/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A bounded output buffer with the few formats that reports need; no locale, no allocation.
 * Zone: pure.
 */
#ifndef AGENT_REPORT_OUT_H
#define AGENT_REPORT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct out {
    char *buffer;
    size_t size, used;
    /*
     * Makes room: called when the next piece does not fit. Sets used (and may replace buffer and size).
     * NULL, or false: there is no more room; the rest is counted in lost, and nothing of the piece is kept.
     */
    bool (*flush)(struct out *out);
    void *context;
    size_t keep;    /* bytes at the end of the buffer that whole records leave to later ones; see encode.h */
    size_t lost;    /* bytes that did not fit */
    size_t flushes; /* how often flush made room; start at 0 */
};

void out_bytes(struct out *out, const char *bytes, size_t n);
void out_char(struct out *out, char c);
void out_text(struct out *out, const char *text); /* NUL-terminated; NULL prints nothing */
void out_unsigned(struct out *out, uint64_t value);
void out_signed(struct out *out, int64_t value);
void out_hex(struct out *out, uint64_t value); /* 0x1f */
/*
 * "text" with JSON escapes; bytes that are not valid UTF-8 become U+FFFD, so the line is
 * valid JSON whatever comes in.
 */
void out_json_string(struct out *out, const char *text, size_t n);
/*
 * Printable ASCII as it is, a backslash doubled, everything else as \xNN: no escape sequence reaches a
 * terminal or a log, and what was escaped can be told from what looked like it.
 */
void out_plain(struct out *out, const char *text, size_t n);

#endif
