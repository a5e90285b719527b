/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cfi_row_at() and rule_from_row(). Input: code and data alignment, encoding, pc, length of the CIE's
 * program, both programs. Rows must tile the function: each begins where the one before ended. Zone: tests.
 */
#include "tests/fuzz/unwind/fuzz.h"
#include "unwind/rule.h"

#define CODE 0x20000
#define CODE_SIZE 0x10000

static void check_rule(const struct cfi_row *row)
{
    struct uw_rule rule;

    if (!rule_from_row(&uw_arch_x86_64, row->start, row, &rule))
        return;
    if (rule.return_slot == RULE_OUTERMOST)
        return;
    CHECK(rule.n_words <= RULE_MAX_WORDS && rule.return_slot > 0 && rule.return_slot <= rule.n_words);
    for (unsigned k = 0; k < uw_arch_x86_64.n_saved; k++)
        CHECK(rule.slot[k] <= rule.n_words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct fuzz_world w;
    struct eh_fde fde = {.start = CODE, .end = CODE + CODE_SIZE};
    struct cfi_row row;
    uint64_t cie_size;

    fde.cie.code_align = input_int(&in, 1);
    fde.cie.data_align = (int8_t)input_int(&in, 1);
    fde.cie.encoding = (uint8_t)input_int(&in, 1);
    cie_size = input_int(&in, 1);
    fuzz_world_init(&w, input_piece(&in, FUZZ_TABLE, in.size), (struct piece){0});
    cie_size = cie_size < w.table.size ? cie_size : w.table.size;
    fde.cie.program = FUZZ_TABLE;
    fde.cie.program_end = fde.program = FUZZ_TABLE + cie_size;
    fde.program_end = FUZZ_TABLE + w.table.size;
    for (uint64_t pc = CODE; pc < fde.end && pc < CODE + 0x80;) {
        if (cfi_row_at(&w.space, &fde, pc, &row) != UW_OK)
            break;
        CHECK(row.start == pc && row.end > pc && row.end <= fde.end);
        check_rule(&row);
        pc = row.end;
    }
    fuzz_world_free(&w);
    return 0;
}
