/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * eh_find_fde() and cfi_row_at(). Input: one byte of form, 2 bytes where .eh_frame begins behind
 * .eh_frame_hdr, then both tables. Code is where the tables are, so that any pc between FUZZ_TABLE and
 * FUZZ_STACK may be described. Zone: tests.
 */
#include "tests/fuzz/unwind/fuzz.h"
#include "unwind/cfi.h"

static void look_up(struct fuzz_world *w, uint64_t pc)
{
    struct eh_fde fde;
    struct cfi_row row;

    if (eh_find_fde(&w->space, &w->module, pc, &fde) != UW_OK)
        return;
    CHECK(pc >= fde.start && pc < fde.end);
    CHECK(fde.program <= fde.program_end && fde.cie.program <= fde.cie.program_end);
    if (cfi_row_at(&w->space, &fde, pc, &row) != UW_OK)
        return;
    CHECK(row.start <= pc && pc < row.end && row.start >= fde.start && row.end <= fde.end);
    for (unsigned reg = 0; reg < UW_N_REGS; reg++)
        CHECK(row.rule[reg] <= CFI_VAL_EXPRESSION);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t form = (uint8_t)input_int(&in, 1);
    uint64_t split = input_int(&in, 2);
    struct fuzz_world w;

    fuzz_world_init(&w, input_piece(&in, FUZZ_TABLE, in.size), (struct piece){0});
    split = split < w.table.size ? split : w.table.size;
    if (form & 1) {
        w.module.eh_frame_hdr = FUZZ_TABLE;
        w.module.eh_frame_hdr_size = split;
    }
    if (form & 2) {
        w.module.eh_frame = FUZZ_TABLE + split;
        w.module.eh_frame_size = w.table.size - split;
    }
    for (uint64_t pc = FUZZ_TABLE; pc < FUZZ_STACK; pc += 0x3ff1)
        look_up(&w, pc);
    look_up(&w, FUZZ_TABLE + 0x8000);
    fuzz_world_free(&w);
    return 0;
}
