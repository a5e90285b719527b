/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Most rows of the unwind table say the same little: CFA = register + constant, some registers
 * saved in a few adjacent words. Such a row is kept as a rule of 32 bytes in a fixed cache; odd
 * rows take the slow path each time.
 * Zone: pure. Used by step.c and the tests.
 */
#ifndef UNWIND_RULE_H
#define UNWIND_RULE_H

#include "unwind/arch.h"
#include "unwind/cfi.h"

/* x86-64 saves 7 words, AArch64 12, often with a gap or two. */
#define RULE_MAX_WORDS 16

/*
 * CFA            = cfa_register + cfa_offset
 * word[i]        = *(CFA - 8 * depth + 8 * i), i < n_words
 * saved[k]       = slot[k] ? word[slot[k] - 1] : the callee's
 * return address = return_slot ? word[return_slot - 1] : the callee's
 * stack pointer  = CFA; everything else is unknown in the caller
 * return_slot RULE_OUTERMOST: there is no caller, nothing else counts. Every walk ends in such a row (_start,
 * clone).
 */
#define RULE_OUTERMOST 0xff

struct uw_rule {
    uint64_t pc; /* lookup address; 0: empty */
    int32_t cfa_offset;
    uint16_t depth;
    uint8_t cfa_register;
    uint8_t n_words;
    uint8_t return_slot;
    uint8_t slot[UW_ARCH_SAVED_MAX];
};

_Static_assert(sizeof(struct uw_rule) == 32, "two rules share a cache line");

/*
 * 1024 rules (32 KiB): a thousand threads rarely stand on more than some hundred different return addresses.
 * Two ways, because two frames of one stack that keep throwing each other out would be looked up anew in
 * every thread.
 */
#define RULE_CACHE_BITS 9
#define RULE_CACHE_WAYS 2

struct uw_rule_cache {
    struct uw_rule rules[1 << RULE_CACHE_BITS][RULE_CACHE_WAYS];
};

/* Multiplying by 2^64 / golden ratio spreads addresses that differ in a few bits over the upper ones. */
static inline struct uw_rule *rule_cache_set(struct uw_rule_cache *cache, uint64_t pc)
{
    return cache->rules[(pc * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - RULE_CACHE_BITS)];
}

/* pc is not 0, which marks an empty place. */
static inline const struct uw_rule *rule_cache_find(struct uw_rule_cache *cache, uint64_t pc)
{
    const struct uw_rule *set = rule_cache_set(cache, pc);

    return set[0].pc == pc ? &set[0] : set[1].pc == pc ? &set[1] : NULL;
}

/* The newer one first, the older one goes. */
static inline void rule_cache_add(struct uw_rule_cache *cache, const struct uw_rule *rule)
{
    struct uw_rule *set = rule_cache_set(cache, rule->pc);

    set[1] = set[0];
    set[0] = *rule;
}

/* rule_from_row() - false: the row is odd */
bool rule_from_row(const struct uw_arch *arch, uint64_t pc, const struct cfi_row *row,
                   struct uw_rule *ret_rule);

/* rule_step() - uw_step() by a rule; @cursor is untouched unless UW_OK is returned */
enum uw_status rule_step(const struct uw_space *space, const struct uw_rule *rule, struct uw_cursor *cursor);

/*
 * The one rule about progress. The CFA lies above the stack pointer and above the CFA of the frame before;
 * only an interrupted function whose return address is in a register may have pushed nothing (AArch64 leaves,
 * glibc's vfork).
 */
static inline bool rule_advances(const struct uw_arch *arch, const struct uw_cursor *cursor, uint64_t cfa,
                                 bool return_in_register)
{
    bool leaf = cursor->pc_kind == UW_PC_EXACT && return_in_register;
    uint64_t floor = cursor->cfa;

    if (uw_regs_known(&cursor->regs, arch->stack_pointer) && cursor->regs.value[arch->stack_pointer] > floor)
        floor = cursor->regs.value[arch->stack_pointer];
    return cfa > floor || (leaf && cfa == floor);
}

/* A caller is known no better than the frame it was derived from. */
static inline enum uw_trust rule_trust(const struct uw_cursor *cursor, enum uw_trust trust)
{
    return cursor->trust > trust ? cursor->trust : trust;
}

#endif
