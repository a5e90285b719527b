/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/insn_x86_64.c: each form that recovery knows, and what it must not claim to know. The referee
 * compares whole libraries; this says what the kinds mean. Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "unwind/insn.h"

TestSuite(insn, .timeout = 5);

#define AT 0x1000

static void expect(const char *what, const uint8_t *code, size_t n, enum insn_kind kind, int64_t value)
{
    struct insn insn;

    cr_assert(insn_decode(code, n, AT, &insn), "%s", what);
    cr_expect(eq(sz, insn.length, n), "%s", what);
    cr_expect(eq(int, (int)insn.kind, (int)kind), "%s", what);
    cr_expect(eq(i64, insn.value, value), "%s", what);
    for (size_t cut = 0; cut < n; cut++)
        cr_expect(not(insn_decode(code, cut, AT, &insn)), "%s, %zu bytes of it", what, cut);
}

#define IS(what, kind, value, ...)                       \
    do {                                                 \
        static const uint8_t code_[] = {__VA_ARGS__};    \
        expect(what, code_, sizeof(code_), kind, value); \
    } while (0)

#define UNKNOWN(what, ...)                                                         \
    do {                                                                           \
        static const uint8_t code_[INSN_MAX_LENGTH] = {__VA_ARGS__};               \
        struct insn insn_;                                                         \
        cr_expect(not(insn_decode(code_, sizeof(code_), AT, &insn_)), "%s", what); \
    } while (0)

Test(insn, control_flow)
{
    IS("call", INSN_CALL, AT + 5 + 0x10, 0xe8, 0x10, 0, 0, 0);
    IS("call backwards", INSN_CALL, AT + 5 - 2, 0xe8, 0xfe, 0xff, 0xff, 0xff);
    IS("data16 data16 rex.W call", INSN_CALL, AT + 8, 0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0);
    IS("call *slot(%rip)", INSN_CALL_SLOT, AT + 6 + 0x20, 0xff, 0x15, 0x20, 0, 0, 0);
    IS("call *%rax", INSN_CALL_INDIRECT, 0, 0xff, 0xd0);
    IS("call *8(%rsp,%rbx,2)", INSN_CALL_INDIRECT, 0, 0xff, 0x54, 0x5c, 8);
    IS("call *%fs:slot(%rip)", INSN_CALL_INDIRECT, 0, 0x64, 0xff, 0x15, 0x20, 0, 0, 0);
    IS("jmp", INSN_JUMP, AT + 2 + 4, 0xeb, 4);
    IS("bnd jmp *slot(%rip)", INSN_JUMP_SLOT, AT + 7 + 1, 0xf2, 0xff, 0x25, 1, 0, 0, 0);
    IS("notrack jmp *%rax", INSN_JUMP_INDIRECT, 0, 0x3e, 0xff, 0xe0);
    IS("jne", INSN_BRANCH, AT + 6 + 0x100, 0x0f, 0x85, 0, 1, 0, 0);
    IS("ret", INSN_RETURN, 0, 0xc3);
    IS("repz ret", INSN_RETURN, 0, 0xf3, 0xc3);
    IS("ud2", INSN_STOP, 0, 0x0f, 0x0b);
    IS("endbr64", INSN_OTHER, 0, 0xf3, 0x0f, 0x1e, 0xfa);
}

Test(insn, stack_pointer)
{
    IS("push %rbp", INSN_SP_ADD, -8, 0x55);
    IS("push %r12", INSN_SP_ADD, -8, 0x41, 0x54);
    IS("push -8(%r10)", INSN_SP_ADD, -8, 0x41, 0xff, 0x72, 0xf8);
    IS("push $1", INSN_SP_ADD, -8, 0x6a, 1);
    IS("pop %r13", INSN_SP_ADD, 8, 0x41, 0x5d);
    IS("pop %rbp", INSN_POP_FRAME, 8, 0x5d);
    IS("pop %rsp", INSN_SP_UNKNOWN, 0, 0x5c);
    IS("sub $0x20,%rsp", INSN_SP_ADD, -0x20, 0x48, 0x83, 0xec, 0x20);
    IS("add $-0x80,%rsp", INSN_SP_ADD, -0x80, 0x48, 0x83, 0xc4, 0x80);
    IS("sub $0x1000,%rsp", INSN_SP_ADD, -0x1000, 0x48, 0x81, 0xec, 0, 0x10, 0, 0);
    IS("lea 8(%rsp),%rsp", INSN_SP_ADD, 8, 0x48, 0x8d, 0x64, 0x24, 8);
    IS("lea -0x28(%rbp),%rsp", INSN_SP_FROM_FRAME, -0x28, 0x48, 0x8d, 0x65, 0xd8);
    IS("mov %rbp,%rsp", INSN_SP_FROM_FRAME, 0, 0x48, 0x89, 0xec);
    IS("and $-64,%rsp", INSN_SP_ALIGN, 64, 0x48, 0x83, 0xe4, 0xc0);
    IS("and $-63,%rsp", INSN_SP_UNKNOWN, 0, 0x48, 0x83, 0xe4, 0xc1);
    IS("sub %rax,%rsp", INSN_SP_UNKNOWN, 0, 0x48, 0x29, 0xc4);
    IS("mov %rcx,%rsp", INSN_SP_UNKNOWN, 0, 0x48, 0x89, 0xcc);
    IS("cmp %rcx,%rsp", INSN_OTHER, 0, 0x48, 0x39, 0xcc);
    IS("cmp $1,%rsp", INSN_OTHER, 0, 0x48, 0x83, 0xfc, 1);
    IS("mov %rsp,(%rsp)", INSN_OTHER, 0, 0x48, 0x89, 0x24, 0x24);
    IS("mov %r12,%rax", INSN_OTHER, 0, 0x4c, 0x89, 0xe0);
    IS("mov $1,%ah", INSN_OTHER, 0, 0xb4, 1);
}

Test(insn, frame_pointer)
{
    IS("mov %rsp,%rbp", INSN_FRAME_FROM_SP, 0, 0x48, 0x89, 0xe5);
    IS("mov %rsp,%rbp, the other way", INSN_FRAME_FROM_SP, 0, 0x48, 0x8b, 0xec);
    IS("lea 0x80(%rsp),%rbp", INSN_FRAME_FROM_SP, 0x80, 0x48, 0x8d, 0xac, 0x24, 0x80, 0, 0, 0);
    IS("mov %rdi,%rbp", INSN_FRAME_UNKNOWN, 0, 0x48, 0x89, 0xfd);
    IS("xor %ebp,%ebp", INSN_FRAME_UNKNOWN, 0, 0x31, 0xed);
    IS("leave", INSN_LEAVE, 0, 0xc9);
    IS("lea -0x40(%rbp),%rsi", INSN_LEA_FRAME, -0x40, 0x48, 0x8d, 0x75, 0xc0);
    IS("lea -0x40(%rbp,%rax),%rsi", INSN_OTHER, 0, 0x48, 0x8d, 0x74, 0x05, 0xc0);
    IS("lea main(%rip),%rdi", INSN_LEA, AT + 7 + 4, 0x48, 0x8d, 0x3d, 4, 0, 0, 0);
    IS("mov slot(%rip),%rdi", INSN_LOAD, AT + 7 + 4, 0x48, 0x8b, 0x3d, 4, 0, 0, 0);
}

Test(insn, lengths_of_the_rest)
{
    IS("movabs", INSN_OTHER, 0, 0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8);
    IS("movw $1,(%rax)", INSN_OTHER, 0, 0x66, 0xc7, 0x00, 1, 0);
    IS("testl $1,(%rax)", INSN_OTHER, 0, 0xf7, 0x00, 1, 0, 0, 0);
    IS("notl (%rax)", INSN_OTHER, 0, 0xf7, 0x10);
    IS("vpxor", INSN_OTHER, 0, 0xc5, 0xf9, 0xef, 0xc0);
    IS("vpalignr", INSN_OTHER, 0, 0xc4, 0xe3, 0x7d, 0x0f, 0xc1, 8);
    IS("vmovdqu64 with EVEX", INSN_OTHER, 0, 0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x44, 0x24, 1);
    IS("nopw", INSN_OTHER, 0, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0);
}

Test(insn, what_is_not_known)
{
    UNKNOWN("push %es", 0x06);
    UNKNOWN("16-bit call", 0x66, 0xe8, 0, 0);
    UNKNOWN("lret", 0xcb);
    UNKNOWN("a prefix without end", 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
            0x66, 0x66, 0x66);
    UNKNOWN("VEX of an unknown map", 0xc4, 0xe9, 0x7d, 0x0f, 0xc1, 8);
}
