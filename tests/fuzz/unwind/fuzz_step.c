/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * uw_step() from a hostile start over hostile tables, code and stack. Input: form, which registers are known,
 * rbp, pc, size of the tables, tables, and the stack. With and without a cache the walk must be the same, and
 * it must advance. Where rbp is missing, recovery either leaves the cursor alone or makes the step possible.
 * Zone: tests.
 */
#include "tests/fuzz/unwind/fuzz.h"
#include "unwind/recover.h"
#include "unwind/rule.h"

#define MAX_STEPS 48

static void check_step(const struct uw_cursor *before, const struct uw_cursor *after, enum uw_status status)
{
    if (status != UW_OK) {
        CHECK(memcmp(before, after, sizeof(*before)) == 0);
        return;
    }
    CHECK(after->regs.valid >> 17 == 0);
    CHECK(after->trust >= before->trust);
    CHECK(after->pc_kind == (after->signal_frame ? UW_PC_EXACT : UW_PC_RETURN));
    CHECK(after->signal_frame || after->regs.pc != 0);
    if (!after->signal_frame && uw_regs_known(&before->regs, UW_X86_64_RSP))
        CHECK(after->cfa > before->regs.value[UW_X86_64_RSP] && after->cfa > before->cfa);
}

/* Values of unknown registers mean nothing. */
static bool same(const struct uw_cursor *a, const struct uw_cursor *b)
{
    for (unsigned reg = 0; reg < UW_N_REGS; reg++) {
        if (uw_regs_known(&a->regs, reg) && a->regs.value[reg] != b->regs.value[reg])
            return false;
    }
    return a->regs.pc == b->regs.pc && a->regs.valid == b->regs.valid && a->cfa == b->cfa &&
           a->pc_kind == b->pc_kind && a->trust == b->trust && a->signal_frame == b->signal_frame;
}

static size_t walk(struct fuzz_world *w, struct uw_cursor cursor, struct uw_cursor *trace,
                   enum uw_status *ret_status)
{
    size_t n = 0;

    while (n < MAX_STEPS) {
        struct uw_cursor before = cursor;

        *ret_status = uw_step(&w->space, &cursor);
        check_step(&before, &cursor, *ret_status);
        if (*ret_status != UW_OK)
            break;
        trace[n++] = cursor;
    }
    return n;
}

static void compare_walks(struct fuzz_world *w, const struct uw_cursor *start)
{
    static struct uw_cursor plain[MAX_STEPS], cached[MAX_STEPS];
    static struct uw_rule_cache cache;
    enum uw_status status = UW_OK, status_cached = UW_OK;
    size_t n = walk(w, *start, plain, &status);

    w->space.cache = &cache;
    uw_rule_cache_clear(&cache);
    for (int i = 0; i < 2; i++) {
        CHECK(walk(w, *start, cached, &status_cached) == n && status == status_cached);
        for (size_t k = 0; k < n; k++)
            CHECK(same(&plain[k], &cached[k]));
    }
}

static void recover(struct fuzz_world *w, struct uw_cursor cursor)
{
    static struct uw_recovery *recovery;
    struct uw_cursor before = cursor;
    enum uw_status status;

    if (!recovery)
        recovery = malloc(uw_recovery_size());
    uw_recovery_clear(recovery);
    status = uw_recover(&w->space, recovery, &cursor, FUZZ_STACK + w->stack.size);
    CHECK(status == UW_OK || status == UW_AMBIGUOUS || status == UW_REGISTER_UNKNOWN);
    if (status != UW_OK) {
        CHECK(memcmp(&before, &cursor, sizeof(before)) == 0);
        return;
    }
    CHECK(cursor.trust == UW_TRUST_INFERRED && uw_regs_known(&cursor.regs, UW_X86_64_RBP));
    CHECK(uw_step(&w->space, &cursor) == UW_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t form = (uint8_t)input_int(&in, 1);
    struct uw_cursor cursor = {.pc_kind = form & 1 ? UW_PC_RETURN : UW_PC_EXACT};
    uint64_t known = input_int(&in, 2), rbp = FUZZ_STACK + input_int(&in, 2);
    struct piece table;
    struct fuzz_world w;
    size_t table_size;

    cursor.regs.pc = form & 2 ? 0 : FUZZ_TABLE + input_int(&in, 2);
    for (unsigned reg = 0; reg < 16; reg++) {
        if (known >> reg & 1)
            uw_regs_set(&cursor.regs, reg, 0x1000 + reg);
    }
    uw_regs_set(&cursor.regs, UW_X86_64_RSP, FUZZ_STACK);
    if (known >> UW_X86_64_RBP & 1)
        uw_regs_set(&cursor.regs, UW_X86_64_RBP, rbp);
    table_size = (size_t)input_int(&in, 2);
    table = input_piece(&in, FUZZ_TABLE, table_size);
    fuzz_world_init(&w, table, input_piece(&in, FUZZ_STACK, in.size));
    if (form & 4) {
        w.module.eh_frame_hdr = FUZZ_TABLE;
        w.module.eh_frame_hdr_size = w.table.size;
    } else if (!(form & 8)) {
        w.module.eh_frame = FUZZ_TABLE;
        w.module.eh_frame_size = w.table.size;
    }
    compare_walks(&w, &cursor);
    recover(&w, cursor);
    fuzz_world_free(&w);
    return 0;
}
