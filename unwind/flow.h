/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the frame pointer lies, seen from the stack pointer, by following the control flow of a function from
 * its start. Zone: pure. Used by recover.c and the tests.
 */
#ifndef UNWIND_FLOW_H
#define UNWIND_FLOW_H

#include "unwind/ehframe.h"
#include "unwind/insn.h"

enum flow_kind {
    FLOW_UNKNOWN,  /* the code was not understood, or is too large */
    FLOW_NO_FRAME, /* rbp does not point into this frame */
    FLOW_EXACT,    /* rbp = rsp + distance */
    FLOW_ALIGNED,  /* rbp = rsp + distance + up to alignment - 1: rsp was rounded down */
    FLOW_VARIABLE, /* rsp was moved by a register: alloca */
};

struct flow {
    enum flow_kind kind;
    int32_t distance;
    uint32_t alignment;
    int32_t depth;   /* CFA - rsp; not where variable, and as if rsp had not been rounded down */
    int32_t frame;   /* CFA - rbp where rbp was set */
    bool jump_table; /* pc was reached only by assuming where an indirect jump or an exception leads */
};

#define FLOW_MAX_LABELS 1024

/* What is known in front of an instruction. */
struct flow_state {
    bool known, variable;
    bool has_frame;
    uint16_t alignment; /* of an "and" on rsp since rbp was set; 0: none */
    int32_t depth;      /* CFA - rsp, as if the "and" had changed nothing */
    int32_t frame;      /* CFA - rbp */
};

struct flow_label {
    uint64_t address; /* 0: empty */
    struct flow_state state;
};

/* Working memory, the caller's. */
struct flow_memory {
    struct flow_label labels[2 * FLOW_MAX_LABELS];
};

/* flow_find() - at @pc in @fde; @after_call: pc is a return address, so what counts is the call's side of it
 */
struct flow flow_find(const struct uw_space *space, struct flow_memory *memory, const struct eh_fde *fde,
                      uint64_t pc, bool after_call);

#endif
