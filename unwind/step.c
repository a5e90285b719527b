/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One step: cached rule, signal trampoline, CFI, places known by their code, frame pointer, in that order.
 * What counts as progress is decided in rule_advances(), nowhere else.
 * Zone: pure.
 */
#include "unwind/arch.h"
#include "unwind/expr.h"
#include "unwind/rule.h"

uint64_t uw_lookup_pc(const struct uw_cursor *cursor)
{
    return cursor->regs.pc - (cursor->pc_kind == UW_PC_RETURN);
}

const char *uw_status_text(enum uw_status status)
{
    switch (status) {
    case UW_OK:
        return "a caller was found";
    case UW_END:
        return "outermost frame";
    case UW_NO_MODULE:
        return "the address is in no known module";
    case UW_NO_CFI:
        return "the module has no unwind information for this address";
    case UW_BAD_CFI:
        return "the unwind information for this address is malformed or not understood";
    case UW_REGISTER_UNKNOWN:
        return "the caller depends on a register whose value is not known";
    case UW_STACK_UNREADABLE:
        return "the stack memory that holds the caller was not captured or cannot be read";
    case UW_TABLE_UNREADABLE:
        return "the unwind information could not be read";
    case UW_NOT_ADVANCING:
        return "the caller would not lie further up the stack";
    case UW_AMBIGUOUS:
        return "the caller depends on a register that could not be recovered with proof";
    case UW_STATUS_N:
        break;
    }
    return "unknown reason";
}

static enum uw_status find_cfa(const struct uw_space *space, const struct uw_cursor *cursor,
                               const struct cfi_row *row, uint64_t *ret)
{
    switch (row->cfa_kind) {
    case CFI_CFA_REGISTER:
        if (!uw_regs_known(&cursor->regs, row->cfa_register))
            return UW_REGISTER_UNKNOWN;
        *ret = cursor->regs.value[row->cfa_register] + (uint64_t)row->cfa_value;
        return UW_OK;
    case CFI_CFA_EXPRESSION:
        return expr_evaluate(space, (uint64_t)row->cfa_value, &cursor->regs, NULL, ret);
    default:
        return UW_BAD_CFI;
    }
}

static enum uw_status read_word(const struct uw_space *space, uint64_t address, uint64_t *ret)
{
    return space->read_stack(space->context, address, ret, sizeof(*ret)) ? UW_OK : UW_STACK_UNREADABLE;
}

static enum uw_status copy_register(const struct uw_regs *regs, uint64_t reg, uint64_t *ret)
{
    if (reg >= UW_N_REGS || !uw_regs_known(regs, (unsigned)reg))
        return UW_REGISTER_UNKNOWN;
    *ret = regs->value[reg];
    return UW_OK;
}

/* Rules that no instruction gave: psABI, 3.2.1 and 3.2.2 (the CFA is the stack pointer before the call). */
static enum uw_status unspecified(const struct uw_space *space, const struct uw_regs *regs, uint64_t cfa,
                                  unsigned reg, uint64_t *ret)
{
    const struct uw_arch *arch = space->arch;

    if (reg == arch->stack_pointer) {
        *ret = cfa;
        return UW_OK;
    }
    if (reg == arch->return_address && arch->return_address_offset != 0)
        return read_word(space, cfa + (uint64_t)(int64_t)arch->return_address_offset, ret);
    if (reg == arch->return_address || (arch->preserved >> reg & 1))
        return copy_register(regs, reg, ret);
    return UW_REGISTER_UNKNOWN;
}

/* The caller's value of one register. UW_END: it has none. */
static enum uw_status recover(const struct uw_space *space, const struct uw_regs *regs,
                              const struct cfi_row *row, uint64_t cfa, unsigned reg, uint64_t *ret)
{
    uint64_t value = (uint64_t)row->value[reg];
    enum uw_status status;

    switch (row->rule[reg]) {
    case CFI_UNSPECIFIED:
        return unspecified(space, regs, cfa, reg, ret);
    case CFI_UNDEFINED:
        return UW_END;
    case CFI_SAME_VALUE:
        return copy_register(regs, reg, ret);
    case CFI_OFFSET:
        return read_word(space, cfa + value, ret);
    case CFI_VAL_OFFSET:
        *ret = cfa + value;
        return UW_OK;
    case CFI_REGISTER:
        return copy_register(regs, value, ret);
    case CFI_EXPRESSION:
        status = expr_evaluate(space, value, regs, &cfa, &value);
        return status == UW_OK ? read_word(space, value, ret) : status;
    case CFI_VAL_EXPRESSION:
        return expr_evaluate(space, value, regs, &cfa, ret);
    default:
        return UW_BAD_CFI;
    }
}

static bool returns_by_register(const struct uw_arch *arch, const struct cfi_row *row, uint64_t column)
{
    switch (row->rule[column]) {
    case CFI_REGISTER:
    case CFI_SAME_VALUE:
        return true;
    case CFI_UNSPECIFIED:
        return arch->return_address_offset == 0;
    default:
        return false;
    }
}

/*
 * The caller by a row in full generality. A register that cannot be recovered is unknown in the caller and
 * stops the walk only where a rule needs it.
 */
static enum uw_status step_by_row(const struct uw_space *space, const struct uw_cursor *cursor,
                                  const struct eh_fde *fde, const struct cfi_row *row, struct uw_cursor *next)
{
    const struct uw_arch *arch = space->arch;
    bool interrupted = fde->cie.signal_frame;
    enum uw_status status;
    uint64_t cfa, value;

    if (fde->cie.return_address >= arch->n_regs)
        return UW_BAD_CFI;
    status = find_cfa(space, cursor, row, &cfa);
    if (status != UW_OK)
        return status;
    if (!interrupted &&
        !rule_advances(arch, cursor, cfa, returns_by_register(arch, row, fde->cie.return_address)))
        return UW_NOT_ADVANCING;
    status = recover(space, &cursor->regs, row, cfa, (unsigned)fde->cie.return_address, &next->regs.pc);
    if (status != UW_OK)
        return status;
    if (next->regs.pc == 0 && !interrupted)
        return UW_END;
    next->regs.valid = 0;
    for (unsigned reg = 0; reg < arch->n_regs; reg++) {
        if (recover(space, &cursor->regs, row, cfa, reg, &value) == UW_OK)
            uw_regs_set(&next->regs, reg, value);
    }
    next->signal_frame = interrupted;
    next->pc_kind = interrupted ? UW_PC_EXACT : UW_PC_RETURN;
    next->trust = rule_trust(cursor, interrupted ? UW_TRUST_CONTEXT : UW_TRUST_CFI);
    next->cfa = cfa;
    return UW_OK;
}

/*
 * A handler may run on an alternate stack anywhere, so the stack pointer says nothing about progress here;
 * the walk must just not stand still.
 */
static enum uw_status finish_trampoline(const struct uw_arch *arch, const struct uw_cursor *cursor,
                                        struct uw_cursor *next)
{
    unsigned sp = arch->stack_pointer;

    if (!uw_regs_known(&next->regs, sp))
        return UW_REGISTER_UNKNOWN;
    if (next->regs.pc == cursor->regs.pc && uw_regs_known(&cursor->regs, sp) &&
        next->regs.value[sp] == cursor->regs.value[sp])
        return UW_NOT_ADVANCING;
    next->cfa = next->regs.value[sp];
    next->signal_frame = true;
    next->pc_kind = UW_PC_EXACT;
    next->trust = rule_trust(cursor, UW_TRUST_CONTEXT);
    return UW_OK;
}

static enum uw_status step_by_fde(const struct uw_space *space, const struct uw_cursor *cursor,
                                  const struct eh_fde *fde, uint64_t pc, struct uw_cursor *next)
{
    struct cfi_row row;
    struct uw_rule rule;
    enum uw_status status;

    status = cfi_row_at(space, fde, pc, &row);
    if (status != UW_OK)
        return status;
    if (fde->cie.signal_frame) {
        status = step_by_row(space, cursor, fde, &row, next);
        return status == UW_OK ? finish_trampoline(space->arch, cursor, next) : status;
    }
    if (fde->cie.return_address != space->arch->return_address ||
        !rule_from_row(space->arch, pc, &row, &rule))
        return step_by_row(space, cursor, fde, &row, next);
    if (space->cache)
        rule_cache_add(space->cache, &rule);
    return rule_step(space, &rule, next);
}

/*
 * No unwind information: the chain of saved frame pointers, if there is one. The frame itself may not keep it
 * (then a caller is missing), so each link must look like one: aligned, above the stack pointer, behind a
 * call in a module.
 */
static enum uw_status step_by_frame_pointer(const struct uw_space *space, const struct uw_cursor *cursor,
                                            struct uw_cursor *next)
{
    const struct uw_arch *arch = space->arch;
    uint64_t fp = cursor->regs.value[arch->frame_pointer], link[2];

    if (!uw_regs_known(&cursor->regs, arch->frame_pointer) ||
        !uw_regs_known(&cursor->regs, arch->stack_pointer))
        return UW_NO_CFI;
    if (fp % 8 != 0 || fp < cursor->regs.value[arch->stack_pointer] || fp > UINT64_MAX - sizeof(link) ||
        !rule_advances(arch, cursor, fp + sizeof(link), false))
        return UW_NO_CFI;
    if (!space->read_stack(space->context, fp, link, sizeof(link)))
        return UW_NO_CFI;
    if (!space->find_module(space->context, link[1] - 1) || arch->returns_to(space, link[1]) == UW_CALL_NO)
        return UW_NO_CFI;
    next->regs.valid = 0;
    uw_regs_set(&next->regs, arch->frame_pointer, link[0]);
    uw_regs_set(&next->regs, arch->stack_pointer, fp + sizeof(link));
    next->regs.pc = link[1];
    next->cfa = fp + sizeof(link);
    next->signal_frame = false;
    next->pc_kind = UW_PC_RETURN;
    next->trust = rule_trust(cursor, UW_TRUST_FRAME_POINTER);
    return UW_OK;
}

/* The places that are known by their bytes, and the frame pointer. @why: what to say when none helps. */
static enum uw_status step_without_cfi(const struct uw_space *space, const struct uw_cursor *cursor,
                                       enum uw_status why, struct uw_cursor *next)
{
    enum uw_status status = space->arch->step_by_code(space, cursor, next);

    if (status == UW_NO_CFI)
        status = step_by_frame_pointer(space, cursor, next);
    return status == UW_NO_CFI ? why : status;
}

static enum uw_status step_slowly(const struct uw_space *space, const struct uw_cursor *cursor, uint64_t pc,
                                  struct uw_cursor *next)
{
    const struct uw_module *module = space->find_module(space->context, pc);
    enum uw_status status = UW_NO_MODULE, trampoline;
    struct eh_fde fde;

    if (module)
        status = eh_find_fde(space, module, pc, &fde);
    /*
     * The handler returns to the trampoline's first byte, so that pc - 1 may lie in the function in front:
     * the bytes are looked at before that function's CFI is believed. A trampoline of other bytes is found by
     * its own CFI.
     */
    trampoline = space->arch->step_trampoline(space, cursor, next);
    if (trampoline == UW_OK)
        return finish_trampoline(space->arch, cursor, next);
    if (trampoline != UW_NO_CFI)
        return trampoline;
    if (status == UW_OK)
        return step_by_fde(space, cursor, &fde, pc, next);
    if (status != UW_NO_CFI && status != UW_NO_MODULE)
        return status;
    return step_without_cfi(space, cursor, status, next);
}

enum uw_status uw_step(const struct uw_space *space, struct uw_cursor *cursor)
{
    uint64_t pc = uw_lookup_pc(cursor);
    struct uw_cursor next;
    enum uw_status status;

    if (space->cache && pc != 0) {
        const struct uw_rule *rule = rule_cache_find(space->cache, pc);

        if (rule)
            return rule_step(space, rule, cursor);
    }
    next = *cursor;
    /*
     * Only a call through a null pointer gets to an exact 0; its caller is on the stack. Else 0 is the end.
     */
    if (cursor->regs.pc == 0) {
        if (cursor->pc_kind != UW_PC_EXACT || space->arch->step_by_code(space, cursor, &next) != UW_OK)
            return UW_END;
        status = UW_OK;
    } else {
        status = step_slowly(space, cursor, pc, &next);
    }
    if (status == UW_OK)
        *cursor = next;
    return status;
}
