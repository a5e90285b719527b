/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See recover.h. Evidence in this order: the distance that the function's control flow gives; the few places
 * that rounding the stack pointer down leaves open; every place further up the stack. A place is believed if
 * the call in front of the return address led to this function, and from the second kind on only if every
 * call up to the thread's base led where it must and no other place could be true as well. Zone: pure.
 */
#include "unwind/recover.h"

#include "unwind/arch.h"
#include "unwind/callproof.h"
#include "unwind/cfi.h"
#include "unwind/flow.h"

#define N_FLOWS 64           /* remembered results, a power of two */
#define N_PROOFS 512         /* likewise */
#define MAX_PLACES 32768     /* 256 KiB of stack, as much as is copied */
#define MAX_STEPS 20000      /* of one search */
#define SEARCH_STEPS 2000000 /* of all searches of a dump */
#define MAX_CHAIN 1024
/*
 * Of the CFA. psABI 3.2.2 wants 16, but code that is built for less (-mpreferred-stack-boundary=3) works: a
 * true place must not be passed over.
 */
#define FRAME_ALIGNMENT 8

struct uw_recovery {
    struct {
        uint64_t pc;
        struct flow flow;
    } flow[N_FLOWS];
    struct {
        uint64_t return_address, start;
        enum call_proof proof;
    } proof[N_PROOFS];
    uint64_t steps_left;
    struct flow_memory memory;
};

/* A recovery under way. */
struct attempt {
    const struct uw_space *space;
    struct uw_recovery *recovery;
    const struct uw_cursor *cursor;
    struct eh_fde fde;
    struct cfi_row row;
    uint64_t stack_end;
    unsigned steps_left;
    /* What was found so far. */
    uint64_t frame_pointer;
    unsigned n_possible, n_proven;
    bool cut; /* a chain ended in a return address of 0: the base of a coroutine, or no frame at all */
};

size_t uw_recovery_size(void)
{
    return sizeof(struct uw_recovery);
}

void uw_recovery_clear(struct uw_recovery *recovery)
{
    for (unsigned i = 0; i < N_FLOWS; i++)
        recovery->flow[i].pc = 0;
    for (unsigned i = 0; i < N_PROOFS; i++)
        recovery->proof[i].return_address = 0;
    recovery->steps_left = SEARCH_STEPS;
}

static unsigned hash(uint64_t x)
{
    return (unsigned)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 48);
}

static struct flow flow_of(struct attempt *a)
{
    uint64_t pc = a->cursor->regs.pc;
    unsigned slot = hash(pc + a->cursor->pc_kind) % N_FLOWS;

    if (a->recovery->flow[slot].pc != pc) {
        a->recovery->flow[slot].flow =
            flow_find(a->space, &a->recovery->memory, &a->fde, pc, a->cursor->pc_kind == UW_PC_RETURN);
        a->recovery->flow[slot].pc = pc;
    }
    return a->recovery->flow[slot].flow;
}

static enum call_proof proof_of(struct attempt *a, uint64_t return_address, const struct eh_fde *callee)
{
    unsigned slot = hash(return_address ^ callee->start << 7) % N_PROOFS;

    if (a->recovery->proof[slot].return_address != return_address ||
        a->recovery->proof[slot].start != callee->start) {
        a->recovery->proof[slot].proof = call_prove(a->space, return_address, callee->start, callee->end);
        a->recovery->proof[slot].return_address = return_address;
        a->recovery->proof[slot].start = callee->start;
    }
    return a->recovery->proof[slot].proof;
}

static bool find_fde(const struct uw_space *space, const struct uw_cursor *cursor, struct eh_fde *ret)
{
    uint64_t pc = uw_lookup_pc(cursor);
    const struct uw_module *module = space->find_module(space->context, pc);

    return module && eh_find_fde(space, module, pc, ret) == UW_OK;
}

/* The caller if the frame pointer is @frame_pointer, and what its call says. */
static enum call_proof prove_link(struct attempt *a, uint64_t frame_pointer, struct uw_cursor *ret_caller)
{
    struct uw_cursor caller = *a->cursor;

    uw_regs_set(&caller.regs, a->space->arch->frame_pointer, frame_pointer);
    if (uw_step(a->space, &caller) != UW_OK || !a->space->find_module(a->space->context, caller.regs.pc - 1))
        return CALL_IMPOSSIBLE;
    *ret_caller = caller;
    return proof_of(a, caller.regs.pc, &a->fde);
}

/* The outermost frame says by its unwind table that it has no caller; a zero on the stack proves nothing. */
static bool is_outermost(const struct uw_space *space, const struct uw_cursor *cursor)
{
    struct eh_fde fde;
    struct cfi_row row;

    return find_fde(space, cursor, &fde) && cfi_row_at(space, &fde, uw_lookup_pc(cursor), &row) == UW_OK &&
           row.rule[space->arch->return_address] == CFI_UNDEFINED;
}

/*
 * glibc's stacks end where struct pthread keeps the list of robust mutexes; the start routine stands behind
 * it in the same structure (nptl/descr.h), whatever the version.
 */
#define DESCRIPTOR_WORDS 256
#define PAGE UINT64_C(4096)

/* The structure may end with its mapping. Returns the number of words. */
static unsigned read_descriptor(const struct attempt *a, uint64_t words[DESCRIPTOR_WORDS])
{
    const uint64_t size = DESCRIPTOR_WORDS * sizeof(words[0]);
    uint64_t first = PAGE - a->stack_end % PAGE;

    first = first < size ? first : size;
    if (a->stack_end % 8 != 0 || !a->stack_end ||
        !a->space->read_stack(a->space->context, a->stack_end, words, first))
        return 0;
    if (first < size &&
        a->space->read_stack(a->space->context, a->stack_end + first, words + first / 8, size - first))
        first = size;
    return (unsigned)(first / 8);
}

static enum call_proof prove_start_routine(struct attempt *a)
{
    enum call_proof best = CALL_IMPOSSIBLE;
    uint64_t words[DESCRIPTOR_WORDS];
    unsigned n = read_descriptor(a, words);
    bool seen = false;

    for (unsigned i = 0; i < n; i++) {
        const struct uw_module *module = a->space->find_module(a->space->context, words[i]);
        enum call_proof proof;
        struct eh_fde fde;

        if (!module || eh_find_fde(a->space, module, words[i], &fde) != UW_OK || fde.start != words[i])
            continue;
        seen = true;
        proof = call_leads_to(a->space, words[i], a->fde.start, a->fde.end);
        best = proof > best ? proof : best;
    }
    return seen ? best : CALL_POSSIBLE;
}

static bool in_module_of(const struct attempt *a, const struct uw_cursor *cursor)
{
    return a->space->find_module(a->space->context, a->fde.start) ==
           a->space->find_module(a->space->context, uw_lookup_pc(cursor));
}

/*
 * The first functions of a thread are called through pointers, whose values can be known: _start calls libc,
 * two functions of which lead to main; clone calls start_thread beside it, which calls the start routine. A
 * thread that was made without libc has no descriptor, and @stack_end is not known.
 */
static enum call_proof prove_entry(struct attempt *a, const struct uw_cursor *outermost, unsigned n_links)
{
    uint64_t entry;
    bool main_thread = call_find_main(a->space, outermost->regs.pc, &entry);
    enum call_proof proof;

    if (n_links == 1 && main_thread)
        return CALL_IMPOSSIBLE; /* not proven by _start's slot, and that is all it calls */
    if (n_links == 1)
        return a->stack_end && !in_module_of(a, outermost) ? CALL_IMPOSSIBLE : CALL_POSSIBLE;
    if (n_links == 2 && !main_thread)
        return prove_start_routine(a);
    if (n_links > 3 || !main_thread)
        return CALL_POSSIBLE;
    proof = call_leads_to(a->space, entry, a->fde.start, a->fde.end);
    /* Constructors, too, are called through pointers, but by the function that _start calls. */
    return n_links == 3 || proof == CALL_PROVEN ? proof : CALL_POSSIBLE;
}

/* The links from @caller, which the first link led to, up to the thread's base. */
static enum call_proof prove_chain(struct attempt *a, enum call_proof first, struct uw_cursor *caller)
{
    for (unsigned n_links = 1; n_links < MAX_CHAIN; n_links++) {
        struct uw_cursor before = *caller;
        enum uw_status status = uw_step(a->space, caller);
        struct eh_fde callee;

        if (a->steps_left == 0 || --a->steps_left == 0)
            return CALL_IMPOSSIBLE;
        if (status == UW_END && is_outermost(a->space, caller))
            return first == CALL_POSSIBLE ? prove_entry(a, caller, n_links) : first;
        if (status == UW_END) {
            a->cut = true;
            return CALL_POSSIBLE;
        }
        if (status == UW_NO_CFI || status == UW_BAD_CFI || status == UW_REGISTER_UNKNOWN)
            return a->space->arch->returns_to(a->space, before.regs.pc) == UW_CALL_NO ? CALL_IMPOSSIBLE
                                                                                      : CALL_POSSIBLE;
        if (status != UW_OK)
            return CALL_IMPOSSIBLE;
        if (caller->signal_frame)
            continue;
        if (!find_fde(a->space, &before, &callee))
            return CALL_POSSIBLE;
        if (proof_of(a, caller->regs.pc, &callee) == CALL_IMPOSSIBLE)
            return CALL_IMPOSSIBLE;
    }
    return CALL_POSSIBLE;
}

static void try(struct attempt *a, uint64_t frame_pointer)
{
    struct uw_cursor caller;
    enum call_proof proof = prove_link(a, frame_pointer, &caller);

    if (proof != CALL_IMPOSSIBLE)
        proof = prove_chain(a, proof, &caller);
    if (proof == CALL_IMPOSSIBLE)
        return;
    if (proof == CALL_PROVEN || a->n_proven == 0)
        a->frame_pointer = frame_pointer;
    a->n_possible++;
    a->n_proven += proof == CALL_PROVEN;
}

/* One place is proven, and no other is possible. */
static bool is_settled(const struct attempt *a)
{
    return a->steps_left > 0 && a->n_possible == 1 && a->n_proven == 1;
}

/*
 * A distance that had to assume where a jump table or an exception leads must hold up to the thread's base.
 * Otherwise the code has said it all, and the call only confirms it.
 */
static bool by_distance(struct attempt *a, const struct flow *flow, uint64_t sp)
{
    uint64_t frame_pointer = sp + (uint64_t)(int64_t)flow->distance;
    struct uw_cursor caller;

    if (flow->jump_table) {
        try(a, frame_pointer);
        return a->steps_left > 0 && a->n_possible == 1 && !a->cut;
    }
    a->frame_pointer = frame_pointer;
    return prove_link(a, frame_pointer, &caller) != CALL_IMPOSSIBLE;
}

static bool by_alignment(struct attempt *a, const struct flow *flow, uint64_t sp)
{
    uint64_t first = sp + (uint64_t)(int64_t)flow->distance;

    for (uint64_t pad = 0; pad < flow->alignment; pad += FRAME_ALIGNMENT)
        try(a, first + pad);
    return is_settled(a);
}

/* The return address of a frame whose CFA is rbp plus a constant can be looked at before anything is tried.
 */
static bool looks_possible(const struct attempt *a, uint64_t frame_pointer)
{
    uint64_t cfa = frame_pointer + (uint64_t)a->row.cfa_value, word;

    if (a->row.cfa_kind != CFI_CFA_REGISTER)
        return true;
    return cfa % FRAME_ALIGNMENT == 0 &&
           a->space->read_stack(a->space->context, cfa - 8, &word, sizeof(word)) &&
           a->space->find_module(a->space->context, word - 1);
}

static bool by_search(struct attempt *a, uint64_t sp)
{
    uint64_t stack_end = a->stack_end;
    uint64_t frame_pointer = (sp + 7) & ~UINT64_C(7);

    if (stack_end <= sp || stack_end - sp > (uint64_t)MAX_PLACES * FRAME_ALIGNMENT)
        return false;
    for (; frame_pointer < stack_end && a->n_possible < 2; frame_pointer += 8) {
        if (looks_possible(a, frame_pointer))
            try(a, frame_pointer);
        if (a->steps_left == 0 || a->recovery->steps_left-- == 0) {
            a->recovery->steps_left = 0;
            return false;
        }
    }
    return is_settled(a);
}

static bool find(struct attempt *a)
{
    uint64_t sp = a->cursor->regs.value[a->space->arch->stack_pointer];
    struct flow flow = flow_of(a);

    /* What the unwind table says about the frame pointer must be what the code does. */
    if (a->row.cfa_kind == CFI_CFA_REGISTER && flow.frame != a->row.cfa_value)
        flow.kind = FLOW_UNKNOWN;
    switch (flow.kind) {
    case FLOW_EXACT:
        return by_distance(a, &flow, sp);
    case FLOW_ALIGNED:
        return by_alignment(a, &flow, sp);
    default:
        return by_search(a, sp);
    }
}

enum uw_status uw_recover(const struct uw_space *space, struct uw_recovery *recovery,
                          struct uw_cursor *cursor, uint64_t stack_end)
{
    struct attempt a = {.space = space,
                        .recovery = recovery,
                        .cursor = cursor,
                        .stack_end = stack_end,
                        .steps_left = MAX_STEPS};
    unsigned fp = space->arch->frame_pointer;

    if (uw_regs_known(&cursor->regs, fp) || !uw_regs_known(&cursor->regs, space->arch->stack_pointer) ||
        !find_fde(space, cursor, &a.fde) || a.fde.cie.signal_frame ||
        cfi_row_at(space, &a.fde, uw_lookup_pc(cursor), &a.row) != UW_OK ||
        (a.row.cfa_kind == CFI_CFA_REGISTER && a.row.cfa_register != fp))
        return UW_REGISTER_UNKNOWN;
    if (!find(&a))
        return UW_AMBIGUOUS;
    uw_regs_set(&cursor->regs, fp, a.frame_pointer);
    cursor->trust = UW_TRUST_INFERRED;
    return UW_OK;
}
