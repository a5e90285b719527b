/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Instructions one after the other out of a module, through a small buffer. Zone: pure. Used by flow.c and
 * callproof.c.
 */
#ifndef UNWIND_CODE_H
#define UNWIND_CODE_H

#include "unwind/insn.h"
#include "unwind/unwind.h"

struct code_window {
    const struct uw_space *space;
    uint64_t address; /* of bytes[0] */
    size_t n;
    uint8_t bytes[240];
};

/* code_at() - the instruction at @at, no byte of which may lie at or behind @end; false: cannot be known */
static inline bool code_at(struct code_window *window, uint64_t at, uint64_t end, struct insn *ret)
{
    uint64_t left = end > at ? end - at : 0;
    size_t want = left < INSN_MAX_LENGTH ? (size_t)left : INSN_MAX_LENGTH;

    if (at < window->address || at - window->address > window->n ||
        window->n - (at - window->address) < want) {
        size_t n = left < sizeof(window->bytes) ? (size_t)left : sizeof(window->bytes);

        window->n = 0;
        window->address = at;
        if (!window->space->read_table(window->space->context, at, window->bytes, n)) {
            /* The end may lie in a page that is not there. */
            n = want;
            if (!window->space->read_table(window->space->context, at, window->bytes, n))
                return false;
        }
        window->n = n;
    }
    return insn_decode(window->bytes + (at - window->address), want, at, ret);
}

static inline bool code_goes_on(enum insn_kind kind)
{
    return kind != INSN_JUMP && kind != INSN_JUMP_SLOT && kind != INSN_JUMP_INDIRECT && kind != INSN_RETURN &&
           kind != INSN_STOP;
}

static inline bool code_is_call(enum insn_kind kind)
{
    return kind == INSN_CALL || kind == INSN_CALL_SLOT || kind == INSN_CALL_INDIRECT;
}

#endif
