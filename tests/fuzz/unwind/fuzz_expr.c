/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * expr_evaluate(). Input: one byte of form, length of the stack, the stack, and the expression with its
 * length. Zone: tests.
 */
#include "tests/fuzz/unwind/fuzz.h"
#include "unwind/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t form = (uint8_t)input_int(&in, 1);
    size_t stack_size = (size_t)input_int(&in, 1);
    struct piece stack = input_piece(&in, FUZZ_STACK, stack_size);
    struct fuzz_world w;
    struct uw_regs regs = {};
    uint64_t cfa = FUZZ_STACK + 16, value = 0x5a5a, again = 0x5a5a;
    enum uw_status status;

    fuzz_world_init(&w, input_piece(&in, FUZZ_TABLE, in.size), stack);
    uw_regs_set(&regs, UW_X86_64_RSP, FUZZ_STACK);
    regs.pc = FUZZ_TABLE + 0x8000;
    status = expr_evaluate(&w.space, FUZZ_TABLE, &regs, form & 1 ? &cfa : NULL, &value);
    CHECK(status == UW_OK || value == 0x5a5a);
    CHECK(expr_evaluate(&w.space, FUZZ_TABLE, &regs, form & 1 ? &cfa : NULL, &again) == status &&
          again == value);
    fuzz_world_free(&w);
    return 0;
}
