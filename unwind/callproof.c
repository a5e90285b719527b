/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See callproof.h. "Impossible" is said only where all the code that the call can run before it reaches a
 * frame of its own was read. Zone: pure.
 */
#include "unwind/callproof.h"

#include "unwind/arch.h"
#include "unwind/cfi.h"
#include "unwind/code.h"
#include "unwind/ehframe.h"

#define MAX_JUMPS 3           /* tail calls in a row */
#define MAX_PLACES 24         /* different places that they lead to */
#define MAX_INSTRUCTIONS 3000 /* read for one proof */
#define LONGEST_CALL 8        /* data16 data16 rex.W call, as the linker pads it */

/* What a call can lead to without a frame of its own in between. */
struct search {
    const struct uw_space *space;
    uint64_t start, end; /* looked for */
    struct {
        uint64_t address;
        unsigned jumps;
    } place[MAX_PLACES];
    unsigned n_places;
    unsigned n_instructions;
    bool found;
    bool open; /* something was not followed to its end */
    struct code_window window;
};

static bool is_endbr(const struct uw_space *space, uint64_t address)
{
    uint8_t code[4];

    return space->read_table(space->context, address, code, sizeof(code)) && code[0] == 0xf3 &&
           code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa;
}

static void add_place(struct search *s, uint64_t address, unsigned jumps)
{
    if (address >= s->start && address < s->end) {
        s->found = true;
        return;
    }
    if (!s->space->find_module(s->space->context, address))
        return;
    for (unsigned i = 0; i < s->n_places; i++)
        if (s->place[i].address == address)
            return;
    if (jumps > MAX_JUMPS || s->n_places == MAX_PLACES) {
        s->open = true;
        return;
    }
    s->place[s->n_places].address = address;
    s->place[s->n_places++].jumps = jumps;
}

/* A slot that is not bound yet leads back into its PLT, which pushes the number of the symbol. */
static bool is_unbound(struct search *s, uint64_t address)
{
    uint8_t first;

    if (is_endbr(s->space, address))
        address += 4;
    return s->space->read_table(s->space->context, address, &first, 1) && first == 0x68;
}

static void add_slot(struct search *s, uint64_t slot, unsigned jumps)
{
    uint64_t target;

    if (!s->space->read_table(s->space->context, slot, &target, sizeof(target)) || is_unbound(s, target))
        s->open = true;
    else
        add_place(s, target, jumps);
}

/* jmp *slot, at most behind an endbr64: a stub that the linker made. Its slot, once bound, stays. */
static bool follow_stub(struct search *s, uint64_t address, unsigned jumps)
{
    uint64_t at = is_endbr(s->space, address) ? address + 4 : address;
    struct insn insn;

    if (!code_at(&s->window, at, at + INSN_MAX_LENGTH, &insn) || insn.kind != INSN_JUMP_SLOT)
        return false;
    add_slot(s, (uint64_t)insn.value, jumps);
    return true;
}

static void follow_jump(struct search *s, const struct eh_fde *fde, const struct insn *insn, unsigned jumps)
{
    uint64_t target = (uint64_t)insn->value;

    switch (insn->kind) {
    case INSN_JUMP:
    case INSN_BRANCH:
        if (target < fde->start || target >= fde->end)
            add_place(s, target, jumps + 1);
        return;
    case INSN_JUMP_SLOT: /* a GOT slot, or a variable that has changed since */
        s->open = true;
        add_slot(s, target, jumps + 1);
        return;
    case INSN_JUMP_INDIRECT: /* a jump table, or a tail call through a pointer */
        s->open = true;
        return;
    default:
        return;
    }
}

/* A return with more on the stack than the return address goes where the function wants: retpolines. */
static bool is_plain_return(const struct search *s, const struct eh_fde *fde, uint64_t address)
{
    struct cfi_row row;

    return cfi_row_at(s->space, fde, address, &row) == UW_OK && row.cfa_kind == CFI_CFA_REGISTER &&
           row.cfa_register == s->space->arch->stack_pointer && row.cfa_value == 8;
}

static void follow_function(struct search *s, uint64_t address, unsigned jumps)
{
    const struct uw_module *module = s->space->find_module(s->space->context, address);
    struct eh_fde fde;
    struct insn insn;

    if (follow_stub(s, address, jumps))
        return;
    if (!module || eh_find_fde(s->space, module, address, &fde) != UW_OK) {
        s->open = true;
        return;
    }
    for (uint64_t at = fde.start; at < fde.end && !s->found; at += insn.length) {
        if (s->n_instructions++ == MAX_INSTRUCTIONS || !code_at(&s->window, at, fde.end, &insn)) {
            s->open = true;
            return;
        }
        if (insn.kind == INSN_RETURN && !is_plain_return(s, &fde, at))
            s->open = true;
        follow_jump(s, &fde, &insn, jumps);
    }
}

static enum call_proof reaches(struct search *s)
{
    for (unsigned i = 0; i < s->n_places && !s->found && s->n_instructions < MAX_INSTRUCTIONS; i++)
        follow_function(s, s->place[i].address, s->place[i].jumps);
    if (s->found)
        return CALL_PROVEN;
    return s->open || s->n_instructions >= MAX_INSTRUCTIONS ? CALL_POSSIBLE : CALL_IMPOSSIBLE;
}

static enum call_proof prove_call(const struct uw_space *space, const struct insn *call, uint64_t start,
                                  uint64_t end)
{
    struct search s = {.space = space, .start = start, .end = end, .window.space = space};

    switch (call->kind) {
    case INSN_CALL:
        add_place(&s, (uint64_t)call->value, 0);
        return reaches(&s);
    case INSN_CALL_SLOT:
        s.open = true; /* it may be a variable that has changed since */
        add_slot(&s, (uint64_t)call->value, 0);
        return reaches(&s);
    case INSN_CALL_INDIRECT:
        return CALL_POSSIBLE;
    default:
        return CALL_IMPOSSIBLE;
    }
}

/* Frames that were made by hand return to the first byte of a function: signal handlers, coroutines. */
static bool is_function_start(const struct uw_space *space, uint64_t address)
{
    const struct uw_module *module = space->find_module(space->context, address);
    struct eh_fde fde;

    return module && eh_find_fde(space, module, address, &fde) == UW_OK && fde.start == address;
}

/* The byte in front may end more than one instruction: the best proof counts. */
enum call_proof call_prove(const struct uw_space *space, uint64_t return_address, uint64_t start,
                           uint64_t end)
{
    enum call_proof best = CALL_IMPOSSIBLE;
    uint8_t code[LONGEST_CALL];
    struct insn insn;

    for (size_t n = 2; n <= LONGEST_CALL && best < CALL_PROVEN; n++) {
        enum call_proof proof;

        if (!space->read_table(space->context, return_address - n, code, n))
            break;
        if (!insn_decode(code, n, return_address - n, &insn) || insn.length != n || !code_is_call(insn.kind))
            continue;
        proof = prove_call(space, &insn, start, end);
        best = proof > best ? proof : best;
    }
    if (best == CALL_IMPOSSIBLE && (is_function_start(space, return_address) ||
                                    space->arch->returns_to(space, return_address) == UW_CALL_UNREADABLE))
        return CALL_POSSIBLE;
    return best;
}

enum call_proof call_leads_to(const struct uw_space *space, uint64_t target, uint64_t start, uint64_t end)
{
    const struct insn call = {.kind = INSN_CALL, .value = (int64_t)target};

    return prove_call(space, &call, start, end);
}

#define LARGEST_START 256 /* bytes; it has about 40 */

bool call_find_main(const struct uw_space *space, uint64_t pc, uint64_t *ret)
{
    const struct uw_module *module = space->find_module(space->context, pc);
    struct code_window window = {.space = space};
    struct eh_fde fde;
    struct insn insn;

    if (!module || eh_find_fde(space, module, pc, &fde) != UW_OK || fde.end - fde.start > LARGEST_START)
        return false;
    for (uint64_t at = fde.start; at < fde.end && code_at(&window, at, fde.end, &insn); at += insn.length) {
        *ret = (uint64_t)insn.value;
        if (insn.kind == INSN_LOAD && !space->read_table(space->context, *ret, ret, sizeof(*ret)))
            return false;
        if ((insn.kind == INSN_LEA || insn.kind == INSN_LOAD) && space->find_module(space->context, *ret))
            return true;
    }
    return false;
}
