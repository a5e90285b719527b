/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/rule.c: which rows become rules, and that a rule says what its row said.
 * Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "tests/unit/unwind/fixture.h"
#include "unwind/rule.h"

TestSuite(rule, .timeout = 5);

#define PC 0x20000
#define SP 0x7000

static struct cfi_row row_of(uint16_t reg, int64_t offset)
{
    struct cfi_row row = {.cfa_kind = CFI_CFA_REGISTER, .cfa_register = reg, .cfa_value = offset};

    row.rule[16] = CFI_OFFSET;
    row.value[16] = -8;
    return row;
}

static struct uw_rule rule_of(const struct cfi_row *row)
{
    struct uw_rule rule;

    cr_assert(rule_from_row(&uw_arch_x86_64, PC, row, &rule));
    return rule;
}

Test(rule, plain_row)
{
    struct cfi_row row = row_of(7, 16);
    struct uw_rule rule = rule_of(&row);

    cr_assert(eq(u64, rule.pc, PC));
    cr_assert(eq(i32, rule.cfa_offset, 16));
    cr_assert(eq(u8, rule.cfa_register, 7));
    cr_assert(eq(u16, rule.depth, 1));
    cr_assert(eq(u8, rule.n_words, 1));
    cr_assert(eq(u8, rule.return_slot, 1));
}

Test(rule, six_pushes)
{
    struct cfi_row row = row_of(7, 64);
    struct uw_rule rule;
    static const uint8_t pushed[] = {6, 15, 14, 13, 12, 3}; /* rbp first, as gcc does */

    for (size_t i = 0; i < 6; i++) {
        row.rule[pushed[i]] = CFI_OFFSET;
        row.value[pushed[i]] = -16 - 8 * (int64_t)i;
    }
    rule = rule_of(&row);

    cr_assert(eq(u16, rule.depth, 7));
    cr_assert(eq(u8, rule.n_words, 7));
    cr_assert(eq(u8, rule.return_slot, 7));
    cr_assert(eq(u8, rule.slot[0], 1), "rbx lies deepest");
    cr_assert(eq(u8, rule.slot[1], 6), "rbp lies below the return address");
}

Test(rule, same_value_is_unchanged)
{
    struct cfi_row row = row_of(7, 16);

    row.rule[3] = CFI_SAME_VALUE;
    cr_assert(eq(u8, rule_of(&row).slot[0], 0));
}

Test(rule, return_address_without_a_rule_lies_below_the_cfa)
{
    struct cfi_row row = row_of(7, 32);

    row.rule[16] = CFI_UNSPECIFIED;
    row.rule[3] = CFI_OFFSET;
    row.value[3] = -24;

    cr_assert(eq(u8, rule_of(&row).return_slot, 3));
    cr_assert(eq(u16, rule_of(&row).depth, 3));
}

Test(rule, outermost_frame_needs_no_cfa)
{
    struct cfi_row row = {.cfa_kind = CFI_CFA_NONE};
    struct fixture f;
    struct uw_cursor c = {};
    struct uw_rule rule;

    row.rule[16] = CFI_UNDEFINED;
    rule = rule_of(&row);
    fixture_init(&f);
    cr_assert(eq(int, rule_step(&f.space, &rule, &c), UW_END));
}

/* One change each to a row that would do. */
static const struct {
    const char *name;
    unsigned reg;
    uint8_t rule;
    int64_t value;
} odd[] = {
    {"return address in a register", 16, CFI_REGISTER, 5},
    {"return address the same", 16, CFI_SAME_VALUE, 0},
    {"callee-saved undefined", 3, CFI_UNDEFINED, 0},
    {"callee-saved in a register", 3, CFI_REGISTER, 12},
    {"callee-saved by expression", 3, CFI_EXPRESSION, 0x100},
    {"callee-saved computed", 3, CFI_VAL_OFFSET, -16},
    {"saved at the CFA", 3, CFI_OFFSET, 0},
    {"saved above the CFA", 3, CFI_OFFSET, 8},
    {"saved unaligned", 3, CFI_OFFSET, -12},
    {"saved far away from the return address", 3, CFI_OFFSET, -8 * 17},
    {"saved too far away for a rule", 3, CFI_OFFSET, -8 * 65536},
    {"caller-saved restored", 0, CFI_OFFSET, -16},
    {"caller-saved the same", 0, CFI_SAME_VALUE, 0},
    {"stack pointer restored", 7, CFI_OFFSET, -16},
    {"stack pointer the same", 7, CFI_SAME_VALUE, 0},
};

Test(rule, odd_rows_are_refused)
{
    struct uw_rule rule;
    struct cfi_row row;

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        row = row_of(7, 16);
        row.rule[odd[i].reg] = odd[i].rule;
        row.value[odd[i].reg] = odd[i].value;
        cr_expect(not(rule_from_row(&uw_arch_x86_64, PC, &row, &rule)), "%s", odd[i].name);
    }
    row = row_of(7, INT64_C(1) << 31);
    cr_expect(not(rule_from_row(&uw_arch_x86_64, PC, &row, &rule)), "offset of 2 GiB");
    row = row_of(UW_N_REGS, 16);
    cr_expect(not(rule_from_row(&uw_arch_x86_64, PC, &row, &rule)), "CFA in a register we do not follow");
    row = row_of(7, 16);
    row.cfa_kind = CFI_CFA_EXPRESSION;
    cr_expect(not(rule_from_row(&uw_arch_x86_64, PC, &row, &rule)), "CFA by expression");
    row = row_of(7, 16);
    row.ra_signed = true;
    cr_expect(not(rule_from_row(&uw_arch_x86_64, PC, &row, &rule)), "signed return address (AArch64)");
    row = row_of(7, 16);
    cr_expect(not(rule_from_row(&uw_arch_x86_64, 0, &row, &rule)), "pc 0 is the mark of an empty slot");
}

Test(rule, sixteen_words_are_the_most)
{
    struct cfi_row row = row_of(7, 256);
    struct uw_rule rule;

    row.rule[3] = CFI_OFFSET;
    row.value[3] = -8 * 16;
    rule = rule_of(&row);

    cr_assert(eq(u8, rule.n_words, RULE_MAX_WORDS));
    cr_assert(eq(u8, rule.return_slot, RULE_MAX_WORDS));
    cr_assert(eq(u8, rule.slot[0], 1));
}

/* push rbp; push rbx; sub $8: rbx at CFA-24, rbp at CFA-16. */
static const uint64_t stack[] = {0xaaaa, 0xbbbb, 0xb0b0, 0x401234, 0xcccc};

static struct uw_rule two_saved(void)
{
    struct cfi_row row = row_of(7, 32);

    row.rule[6] = row.rule[3] = CFI_OFFSET;
    row.value[6] = -16;
    row.value[3] = -24;
    return rule_of(&row);
}

static struct uw_cursor at_sp(void)
{
    struct uw_cursor cursor = {.pc_kind = UW_PC_EXACT};

    cursor.regs.pc = PC;
    for (unsigned reg = 0; reg < 17; reg++)
        uw_regs_set(&cursor.regs, reg, 0x1000 + reg);
    uw_regs_set(&cursor.regs, UW_X86_64_RSP, SP);
    return cursor;
}

Test(rule, step_recovers_the_caller)
{
    struct uw_rule rule = two_saved();
    struct uw_cursor c = at_sp();
    struct fixture f;

    fixture_init(&f);
    fixture_stack(&f, SP, stack, 4);
    cr_assert(eq(int, rule_step(&f.space, &rule, &c), UW_OK));

    cr_assert(eq(u64, c.regs.pc, 0x401234));
    cr_assert(eq(u64, c.cfa, SP + 32));
    cr_assert(eq(u64, c.regs.value[7], SP + 32));
    cr_assert(eq(u64, c.regs.value[6], 0xb0b0));
    cr_assert(eq(u64, c.regs.value[3], 0xbbbb));
    cr_assert(eq(u64, c.regs.value[12], 0x100c));
    cr_assert(eq(u64, c.regs.valid, 0xf0c8), "callee-saved and rsp are known, nothing else");
    cr_assert(eq(int, c.pc_kind, UW_PC_RETURN));
    cr_assert(eq(int, c.trust, UW_TRUST_CFI));
}

Test(rule, unreadable_register_is_unknown_in_the_caller)
{
    struct uw_rule rule = two_saved();
    struct uw_cursor c = at_sp();
    struct fixture f;

    fixture_init(&f);
    fixture_stack(&f, SP + 16, stack + 2, 2);
    cr_assert(eq(int, rule_step(&f.space, &rule, &c), UW_OK));

    cr_assert(not(uw_regs_known(&c.regs, 3)));
    cr_assert(eq(u64, c.regs.value[6], 0xb0b0));
    cr_assert(eq(u64, c.regs.pc, 0x401234));
}

Test(rule, failures_leave_the_cursor_alone)
{
    struct uw_rule rule = two_saved();
    struct uw_cursor c = at_sp(), before = c;
    struct fixture f;
    static const uint64_t end[4] = {0};

    fixture_init(&f);
    fixture_stack(&f, SP, stack, 3);
    cr_assert(eq(int, rule_step(&f.space, &rule, &c), UW_STACK_UNREADABLE));
    cr_assert(zero(int, memcmp(&c, &before, sizeof(c))));

    f.stacks[0] = (struct region){SP, end, sizeof(end)};
    cr_assert(eq(int, rule_step(&f.space, &rule, &c), UW_END));
    cr_assert(zero(int, memcmp(&c, &before, sizeof(c))));

    c.cfa = before.cfa = SP + 32;
    cr_assert(eq(int, rule_step(&f.space, &rule, &c), UW_NOT_ADVANCING));
    cr_assert(zero(int, memcmp(&c, &before, sizeof(c))));

    rule.cfa_register = 16;
    uw_regs_forget(&c.regs, 16);
    uw_regs_forget(&before.regs, 16);
    cr_assert(eq(int, rule_step(&f.space, &rule, &c), UW_REGISTER_UNKNOWN));
    cr_assert(zero(int, memcmp(&c, &before, sizeof(c))));
}

static struct uw_rule_cache cache;

Test(rule, cache_sets_are_inside)
{
    uint64_t pc = 1;

    cr_assert(eq(sz, uw_rule_cache_size(), sizeof(cache)));
    for (int i = 0; i < 100000; i++) {
        const struct uw_rule *set = rule_cache_set(&cache, pc);

        cr_assert(set >= &cache.rules[0][0] &&
                  set < &cache.rules[0][0] + sizeof(cache) / sizeof(cache.rules[0][0]));
        pc = pc * 6364136223846793005u + 1442695040888963407u;
    }
}

/* Three addresses of one set: the oldest goes. */
Test(rule, cache_keeps_two_of_a_set)
{
    struct uw_rule rules[3] = {{.pc = 0x1000}};
    size_t n = 1;

    for (uint64_t pc = 0x1001; n < 3; pc++) {
        if (rule_cache_set(&cache, pc) == rule_cache_set(&cache, 0x1000))
            rules[n++].pc = pc;
    }
    uw_rule_cache_clear(&cache);
    for (size_t i = 0; i < 3; i++)
        cr_assert(eq(ptr, (void *)rule_cache_find(&cache, rules[i].pc), NULL));
    rule_cache_add(&cache, &rules[0]);
    rule_cache_add(&cache, &rules[1]);
    cr_assert(eq(u64, rule_cache_find(&cache, rules[0].pc)->pc, rules[0].pc));
    cr_assert(eq(u64, rule_cache_find(&cache, rules[1].pc)->pc, rules[1].pc));

    rule_cache_add(&cache, &rules[2]);
    cr_assert(eq(ptr, (void *)rule_cache_find(&cache, rules[0].pc), NULL));
    cr_assert(eq(u64, rule_cache_find(&cache, rules[1].pc)->pc, rules[1].pc));
    cr_assert(eq(u64, rule_cache_find(&cache, rules[2].pc)->pc, rules[2].pc));
}
