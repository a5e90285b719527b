/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See flow.h. The function is read from its first to its last byte; the state in front of an instruction is
 * that behind the one before it, or that of the jumps that lead there. This is repeated until nothing
 * changes. Where jumps disagree about the stack pointer it is variable. Zone: pure.
 */
#include "unwind/flow.h"

#include "unwind/cfi.h"
#include "unwind/code.h"

#define MAX_PASSES 12
#define MAX_INSTRUCTIONS 60000 /* all passes together: a millisecond */
#define MAX_DEPTH (1 << 24)

struct reading {
    const struct uw_space *space;
    struct flow_memory *memory;
    const struct eh_fde *fde;
    uint64_t pc;
    bool after_call;
    bool assume;             /* code that no jump leads to is entered as said below */
    struct flow_state jumps; /* merged: in front of indirect jumps */
    struct flow_state calls; /* merged: in front of calls */
    struct flow_state at_pc;
    unsigned n_labels, n_instructions;
    bool changed, failed;
    struct code_window window;
};

static bool same(const struct flow_state *a, const struct flow_state *b)
{
    return a->known == b->known && a->variable == b->variable && a->has_frame == b->has_frame &&
           a->alignment == b->alignment && a->depth == b->depth && a->frame == b->frame;
}

static struct flow_state merge(const struct flow_state *a, const struct flow_state *b)
{
    struct flow_state merged = *a;

    if (!a->known || !b->known)
        return a->known ? *a : *b;
    merged.variable = a->variable || b->variable || a->depth != b->depth || a->alignment != b->alignment;
    merged.has_frame = a->has_frame && b->has_frame && a->frame == b->frame;
    /* One value for all that is unknown, so that the passes come to an end. */
    if (merged.variable)
        merged.depth = merged.alignment = 0;
    if (!merged.has_frame)
        merged.frame = 0;
    return merged;
}

/* The entry of @address, or an empty one for it; NULL: the table is full. */
static struct flow_label *label_at(struct reading *r, uint64_t address)
{
    const unsigned n = sizeof(r->memory->labels) / sizeof(r->memory->labels[0]);
    unsigned slot = (unsigned)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % n;

    while (r->memory->labels[slot].address != 0 && r->memory->labels[slot].address != address)
        slot = (slot + 1) % n;
    return &r->memory->labels[slot];
}

static void arrive(struct reading *r, uint64_t target, const struct flow_state *state)
{
    struct flow_label *label;
    struct flow_state merged;

    if (!state->known || target < r->fde->start || target >= r->fde->end)
        return;
    label = label_at(r, target);
    if (label->address == 0) {
        if (r->n_labels++ == FLOW_MAX_LABELS) {
            r->failed = true;
            return;
        }
        label->address = target;
        label->state = (struct flow_state){0};
    }
    merged = merge(&label->state, state);
    if (!same(&merged, &label->state)) {
        label->state = merged;
        r->changed = true;
    }
}

/* rsp = rbp + value */
static void sp_from_frame(struct flow_state *state, int64_t value)
{
    if (!state->has_frame) {
        state->variable = true;
        return;
    }
    state->variable = false;
    state->alignment = 0;
    state->depth = (int32_t)(state->frame - value);
}

static void forget_frame(struct flow_state *state)
{
    state->has_frame = false;
    state->frame = 0;
}

/* rbp = rsp + value. Above the CFA it is no frame pointer. */
static void frame_from_sp(struct flow_state *state, int64_t value)
{
    forget_frame(state);
    if (state->variable || state->depth < value)
        return;
    state->has_frame = true;
    state->frame = (int32_t)(state->depth - value);
    state->alignment = 0;
}

static void apply(struct reading *r, const struct insn *insn, struct flow_state *state)
{
    switch (insn->kind) {
    case INSN_POP_FRAME:
        forget_frame(state);
        state->depth -= 8;
        break;
    case INSN_SP_ADD:
        state->depth = (int32_t)(state->depth - insn->value);
        break;
    case INSN_SP_FROM_FRAME:
        sp_from_frame(state, insn->value);
        break;
    case INSN_SP_ALIGN:
        if (state->has_frame && state->alignment == 0 && !state->variable)
            state->alignment = (uint16_t)insn->value;
        else if (state->has_frame)
            state->variable = true;
        break;
    case INSN_SP_UNKNOWN:
        state->variable = true;
        break;
    case INSN_FRAME_FROM_SP:
        frame_from_sp(state, insn->value);
        break;
    case INSN_FRAME_UNKNOWN:
        forget_frame(state);
        break;
    case INSN_LEAVE:
        sp_from_frame(state, 0);
        state->depth -= 8;
        forget_frame(state);
        break;
    default:
        break;
    }
    /* Popped more than there is: it switches stacks. */
    if (state->depth < 0)
        state->variable = true;
    if (state->variable)
        state->depth = state->alignment = 0;
    if (state->depth > MAX_DEPTH)
        r->failed = true;
}

/* The state in front of the instruction at @at. A call that never returns is followed by whatever. */
static void enter(struct reading *r, uint64_t at, bool behind_call, struct flow_state *state)
{
    const struct flow_label *label = label_at(r, at);

    if (label->address == 0) {
        if (!state->known && r->assume)
            *state = r->jumps.known ? r->jumps : r->calls;
        return;
    }
    if (state->known && !behind_call)
        arrive(r, at, state);
    *state = label->state;
}

static void note(struct reading *r, uint64_t at, const struct insn *insn, const struct flow_state *state)
{
    if (!state->known)
        return;
    if (state->has_frame && insn->kind == INSN_JUMP_INDIRECT)
        r->jumps = merge(&r->jumps, state);
    if (state->has_frame && code_is_call(insn->kind))
        r->calls = merge(&r->calls, state);
    if (r->after_call ? code_is_call(insn->kind) && at + insn->length == r->pc : at == r->pc)
        r->at_pc = *state;
}

static void read_once(struct reading *r)
{
    struct flow_state state = {.known = true, .depth = 8};
    bool behind_call = false;
    struct insn insn;

    r->at_pc = (struct flow_state){0};
    for (uint64_t at = r->fde->start; at < r->fde->end && !r->failed; at += insn.length) {
        if (r->n_instructions++ == MAX_INSTRUCTIONS || !code_at(&r->window, at, r->fde->end, &insn)) {
            r->failed = true;
            return;
        }
        enter(r, at, behind_call, &state);
        note(r, at, &insn, &state);
        if (insn.kind == INSN_JUMP || insn.kind == INSN_BRANCH)
            arrive(r, (uint64_t)insn.value, &state);
        behind_call = code_is_call(insn.kind);
        if (!code_goes_on(insn.kind))
            state = (struct flow_state){0};
        else if (state.known)
            apply(r, &insn, &state);
    }
}

static void read_all(struct reading *r)
{
    unsigned pass = 0;

    do {
        r->changed = false;
        read_once(r);
    } while (r->changed && !r->failed && ++pass < MAX_PASSES);
    r->failed = r->failed || r->changed;
}

/* A part that was moved away from its function (.cold) begins in the middle of things. */
static bool begins_function(const struct uw_space *space, const struct eh_fde *fde)
{
    struct cfi_row row;

    return cfi_row_at(space, fde, fde->start, &row) == UW_OK && row.cfa_kind == CFI_CFA_REGISTER &&
           row.cfa_register == UW_X86_64_RSP && row.cfa_value == 8;
}

struct flow flow_find(const struct uw_space *space, struct flow_memory *memory, const struct eh_fde *fde,
                      uint64_t pc, bool after_call)
{
    struct reading r = {.space = space,
                        .memory = memory,
                        .fde = fde,
                        .pc = pc,
                        .after_call = after_call,
                        .window.space = space};
    struct flow flow = {.kind = FLOW_UNKNOWN};

    if (!begins_function(space, fde))
        return flow;
    for (size_t i = 0; i < sizeof(memory->labels) / sizeof(memory->labels[0]); i++)
        memory->labels[i].address = 0;
    read_all(&r);
    if (!r.failed && !r.at_pc.known) {
        flow.jump_table = r.assume = true;
        read_all(&r);
    }
    if (r.failed || !r.at_pc.known)
        return flow;
    flow.depth = r.at_pc.depth;
    flow.frame = r.at_pc.frame;
    flow.alignment = r.at_pc.alignment;
    flow.distance = flow.depth - flow.frame;
    if (r.at_pc.variable)
        flow.kind = FLOW_VARIABLE;
    else if (!r.at_pc.has_frame)
        flow.kind = FLOW_NO_FRAME;
    else
        flow.kind = flow.alignment ? FLOW_ALIGNED : FLOW_EXACT;
    return flow;
}
