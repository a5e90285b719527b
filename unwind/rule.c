/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compressing table rows to rules, and the fast step by a rule: one look into the
 * cache, one read of the stack.
 * Zone: pure.
 */
#include "unwind/rule.h"

/* Words below the CFA, which are what a slot can name. */
static bool words_below(const struct cfi_row *row, unsigned reg, int64_t *ret)
{
    int64_t value = row->value[reg];

    if (row->rule[reg] != CFI_OFFSET || value >= 0 || value % 8 != 0 || value / 8 < -UINT16_MAX)
        return false;
    *ret = -value / 8;
    return true;
}

/*
 * Notes in @rule how many words below the CFA saved registers reach, and whether the
 * registers fit a rule at all.
 */
static bool measure(const struct uw_arch *arch, const struct cfi_row *row, int64_t *ret_low,
                    int64_t *ret_high)
{
    int64_t low = INT64_MAX, high = 0;

    for (unsigned reg = 0; reg < arch->n_regs; reg++) {
        bool restorable = (arch->preserved >> reg & 1) || reg == arch->return_address;
        int64_t words;

        switch (row->rule[reg]) {
        case CFI_UNSPECIFIED:
            break;
        case CFI_UNDEFINED:
            if (restorable)
                return false;
            break;
        case CFI_SAME_VALUE:
            if (!restorable || reg == arch->stack_pointer || reg == arch->return_address)
                return false;
            break;
        default:
            if (!restorable || reg == arch->stack_pointer || !words_below(row, reg, &words))
                return false;
            low = words < low ? words : low;
            high = words > high ? words : high;
            break;
        }
    }
    *ret_low = low;
    *ret_high = high;
    return true;
}

static uint8_t slot_of(const struct cfi_row *row, unsigned reg, int64_t depth)
{
    int64_t words;

    return words_below(row, reg, &words) ? (uint8_t)(depth - words + 1) : 0;
}

bool rule_from_row(const struct uw_arch *arch, uint64_t pc, const struct cfi_row *row,
                   struct uw_rule *ret_rule)
{
    struct uw_rule rule = {.pc = pc};
    int64_t low, high, pushed = -arch->return_address_offset / 8;
    bool pushed_implied = pushed > 0 && row->rule[arch->return_address] == CFI_UNSPECIFIED;

    if (pc != 0 && row->rule[arch->return_address] == CFI_UNDEFINED) {
        rule.return_slot = RULE_OUTERMOST;
        *ret_rule = rule;
        return true;
    }
    if (pc == 0 || row->cfa_kind != CFI_CFA_REGISTER || row->cfa_register >= arch->n_regs ||
        row->cfa_value != (int32_t)row->cfa_value || row->ra_signed)
        return false;
    if (!measure(arch, row, &low, &high))
        return false;
    if (pushed_implied) {
        low = pushed < low ? pushed : low;
        high = pushed > high ? pushed : high;
    }
    if (high > 0 && high - low >= RULE_MAX_WORDS)
        return false;
    rule.cfa_offset = (int32_t)row->cfa_value;
    rule.cfa_register = (uint8_t)row->cfa_register;
    rule.depth = (uint16_t)high;
    rule.n_words = high > 0 ? (uint8_t)(high - low + 1) : 0;
    rule.return_slot =
        pushed_implied ? (uint8_t)(high - pushed + 1) : slot_of(row, arch->return_address, high);
    for (unsigned k = 0; k < arch->n_saved; k++)
        rule.slot[k] = slot_of(row, arch->saved[k], high);
    *ret_rule = rule;
    return true;
}

/*
 * A saved register that cannot be read is unknown in the caller; without a return address there is no caller.
 */
static uint64_t read_words(const struct uw_space *space, const struct uw_rule *rule, uint64_t address,
                           uint64_t words[RULE_MAX_WORDS])
{
    uint64_t readable = 0;

    if (space->read_stack(space->context, address, words, rule->n_words * sizeof(words[0])))
        return ~UINT64_C(0);
    for (unsigned i = 0; i < rule->n_words; i++) {
        if (space->read_stack(space->context, address + i * sizeof(words[0]), &words[i], sizeof(words[0])))
            readable |= UINT64_C(1) << i;
    }
    return readable;
}

static void restore_saved(const struct uw_arch *arch, const struct uw_rule *rule, struct uw_regs *regs,
                          const uint64_t words[RULE_MAX_WORDS], uint64_t readable)
{
    for (unsigned k = 0; k < arch->n_saved; k++) {
        unsigned slot = rule->slot[k];

        if (slot == 0)
            continue;
        if (readable >> (slot - 1) & 1)
            uw_regs_set(regs, arch->saved[k], words[slot - 1]);
        else
            uw_regs_forget(regs, arch->saved[k]);
    }
}

enum uw_status rule_step(const struct uw_space *space, const struct uw_rule *rule, struct uw_cursor *cursor)
{
    const struct uw_arch *arch = space->arch;
    uint64_t words[RULE_MAX_WORDS], readable = ~UINT64_C(0), cfa, pc;

    if (rule->return_slot == RULE_OUTERMOST)
        return UW_END;
    if (!uw_regs_known(&cursor->regs, rule->cfa_register))
        return UW_REGISTER_UNKNOWN;
    cfa = cursor->regs.value[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset;
    if (!rule_advances(arch, cursor, cfa, rule->return_slot == 0))
        return UW_NOT_ADVANCING;
    if (rule->n_words > 0)
        readable = read_words(space, rule, cfa - 8 * (uint64_t)rule->depth, words);
    if (rule->return_slot > 0) {
        if (!(readable >> (rule->return_slot - 1) & 1))
            return UW_STACK_UNREADABLE;
        pc = words[rule->return_slot - 1];
    } else if (uw_regs_known(&cursor->regs, arch->return_address)) {
        pc = cursor->regs.value[arch->return_address];
    } else {
        return UW_REGISTER_UNKNOWN;
    }
    if (pc == 0)
        return UW_END;

    cursor->regs.valid &= arch->preserved;
    restore_saved(arch, rule, &cursor->regs, words, readable);
    uw_regs_set(&cursor->regs, arch->stack_pointer, cfa);
    cursor->regs.pc = pc;
    cursor->pc_kind = UW_PC_RETURN;
    cursor->trust = rule_trust(cursor, UW_TRUST_CFI);
    cursor->cfa = cfa;
    cursor->signal_frame = false;
    return UW_OK;
}

size_t uw_rule_cache_size(void)
{
    return sizeof(struct uw_rule_cache);
}

void uw_rule_cache_clear(struct uw_rule_cache *cache)
{
    /* Only the keys count. A loop: no memset call for the compiler to place. */
    for (size_t i = 0; i < sizeof(cache->rules) / sizeof(cache->rules[0]); i++) {
        for (size_t way = 0; way < RULE_CACHE_WAYS; way++)
            cache->rules[i][way].pc = 0;
    }
}
