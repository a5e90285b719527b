/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A bounded cursor over unwind tables: every read is checked against the end of the record, and the first
 * failure sticks, so that a parser checks once per record. Bytes are streamed through a small buffer.
 * Zone: pure. Used by ehframe.c, cfi.c and expr.c.
 */
#ifndef UNWIND_SPAN_H
#define UNWIND_SPAN_H

#include "unwind/unwind.h"

/* Most FDEs with their program are shorter, so one read serves a record. */
#define SPAN_BUFFER_SIZE 96

struct span {
    const struct uw_space *space;
    uint64_t address;      /* of the next byte */
    uint64_t end;          /* first address that does not belong to the span */
    enum uw_status status; /* sticky: UW_OK, UW_BAD_CFI (the end was passed), UW_TABLE_UNREADABLE */
    uint8_t *buffer;
    size_t capacity;
    size_t at, filled; /* bytes used and present in buffer; buffer[at] lies at address */
};

/* An empty range [address, end) with end < address is bad from the start. The buffer is the caller's. */
static inline void span_init(struct span *span, const struct uw_space *space, uint64_t address, uint64_t end,
                             uint8_t *buffer, size_t capacity)
{
    span->space = space;
    span->address = address;
    span->end = end;
    span->status = address <= end ? UW_OK : UW_BAD_CFI;
    span->buffer = buffer;
    span->capacity = capacity;
    span->at = span->filled = 0;
}

static inline bool span_ok(const struct span *span)
{
    return span->status == UW_OK;
}

static inline uint64_t span_left(const struct span *span)
{
    return span_ok(span) ? span->end - span->address : 0;
}

static inline void span_fail(struct span *span, enum uw_status status)
{
    if (span_ok(span))
        span->status = status;
}

/* Makes size bytes (at most the buffer's capacity) available at buffer[at], or fails. */
static inline bool span_need(struct span *span, size_t size)
{
    uint64_t left = span_left(span);
    size_t want;

    if (size > left) {
        span_fail(span, UW_BAD_CFI);
        return false;
    }
    if (span->filled - span->at >= size)
        return true;
    want = left < span->capacity ? (size_t)left : span->capacity;
    span->at = 0;
    span->filled = want;
    if (span->space->read_table(span->space->context, span->address, span->buffer, want))
        return true;
    /* The end may be a guess where the size of the table is not known: settle for what is needed. */
    span->filled = size;
    if (want != size && span->space->read_table(span->space->context, span->address, span->buffer, size))
        return true;
    span->filled = 0;
    span_fail(span, UW_TABLE_UNREADABLE);
    return false;
}

/* size is at most 8. Little-endian, zero-extended; 0 on failure. */
static inline uint64_t span_unsigned(struct span *span, size_t size)
{
    uint64_t value = 0;

    if (!span_need(span, size))
        return 0;
    for (size_t i = size; i > 0; i--)
        value = value << 8 | span->buffer[span->at + i - 1];
    span->at += size;
    span->address += size;
    return value;
}

static inline int64_t span_signed(struct span *span, size_t size)
{
    unsigned shift = 64 - 8 * (unsigned)size;

    return (int64_t)(span_unsigned(span, size) << shift) >> shift;
}

static inline uint8_t span_u8(struct span *span)
{
    return (uint8_t)span_unsigned(span, 1);
}

/*
 * DWARF 5, 7.6. Bits beyond 64 are dropped, as other readers do; a number longer than any encoder writes
 * is bad, so that padding cannot hold us up.
 */
#define SPAN_LEB_MAX 16

static inline uint64_t span_uleb(struct span *span)
{
    uint64_t value = 0;
    unsigned shift = 0;

    for (unsigned i = 0; i < SPAN_LEB_MAX; i++) {
        uint8_t byte = span_u8(span);

        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            return value;
    }
    span_fail(span, UW_BAD_CFI);
    return 0;
}

static inline int64_t span_sleb(struct span *span)
{
    uint64_t value = 0;
    unsigned shift = 0;

    for (unsigned i = 0; i < SPAN_LEB_MAX; i++) {
        uint8_t byte = span_u8(span);

        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && (byte & 0x40))
            value |= ~UINT64_C(0) << shift;
        return (int64_t)value;
    }
    span_fail(span, UW_BAD_CFI);
    return 0;
}

static inline void span_skip(struct span *span, uint64_t size)
{
    if (size > span_left(span)) {
        span_fail(span, UW_BAD_CFI);
        return;
    }
    span->address += size;
    if (size <= span->filled - span->at)
        span->at += (size_t)size;
    else
        span->at = span->filled = 0;
}

/* Moves to an address in [start, end]; what is buffered is read again, jumps are rare. */
static inline void span_seek(struct span *span, uint64_t start, uint64_t address)
{
    if (address < start || address > span->end) {
        span_fail(span, UW_BAD_CFI);
        return;
    }
    span->address = address;
    span->at = span->filled = 0;
}

#endif
