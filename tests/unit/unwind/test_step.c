/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/step.c and arch_x86_64.c: order of attempts, progress, ends, and the places without CFI, on
 * integer-array stacks. Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unwind/fixture.h"
#include "unwind/rule.h"

TestSuite(step, .timeout = 5);

#define TABLES 0x400000
#define CODE 0x410000   /* module 0, with CFI for functions of 16 bytes */
#define NO_CFI 0x510000 /* module 1, without */
#define SP 0x7000

/* Functions of module 0. */
enum {
    PLAIN = CODE,            /* CFA = rsp + 16 */
    FRAME = CODE + 0x10,     /* CFA = rbp + 16, rbp saved at CFA - 16 */
    OUTERMOST = CODE + 0x20, /* return address undefined */
    REALIGNED = CODE + 0x30, /* CFA = *(rbp - 8): def_cfa_expression */
    SIGNAL = CODE + 0x40,    /* S: CFA = *(rsp + 160), pc at rsp + 168, rbx at rsp + 128 */
    RA_IN_RDI = CODE + 0x50, /* return address in rdi, as in glibc's vfork */
    BROKEN = CODE + 0x60,    /* unknown instruction */
    RSP_SAVED = CODE + 0x70, /* rsp at CFA - 16 */
    BACKWARDS = CODE + 0x80, /* CFA = rsp + 0 */
    DEREF_RBX = CODE + 0x90, /* rbx = *(*(rsp)) */
};

struct world {
    struct fixture f;
    struct emit tables;
    struct emit code; /* of module 1 */
    struct uw_rule_cache *cache;
    struct uw_cursor c;
};

static struct world w;

#define FUNCTION(start, ...)                                                       \
    do {                                                                           \
        static const uint8_t program_[] = {__VA_ARGS__};                           \
        emit_fde(&w.tables, TABLES, cie, (start), 16, program_, sizeof(program_)); \
    } while (0)

static void world_init(void)
{
    size_t cie;

    memset(&w, 0, sizeof(w));
    fixture_init(&w.f);
    cie = emit_cie(&w.tables, "zR");
    FUNCTION(PLAIN, 0x0e, 16);
    FUNCTION(FRAME, 0x0c, 6, 16, 0x86, 2);
    FUNCTION(OUTERMOST, 0x07, 16);
    FUNCTION(REALIGNED, 0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0);
    FUNCTION(RA_IN_RDI, 0x09, 16, 5);
    FUNCTION(BROKEN, 0x3f);
    FUNCTION(RSP_SAVED, 0x0e, 16, 0x87, 2);
    FUNCTION(BACKWARDS, 0x0e, 0);
    FUNCTION(DEREF_RBX, 0x0e, 16, 0x10, 3, 3, 0x77, 0, 0x06);
    cie = emit_cie(&w.tables, "zRS");
    FUNCTION(SIGNAL, 0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3, 0x77, 0xa8, 1, 0x10, 3, 3, 0x77, 0x80, 1,
             0x10, 7, 3, 0x77, 0xa0, 1);
    emit_int(&w.tables, 0, 4);
    fixture_table(&w.f, TABLES, w.tables.bytes, w.tables.n);
    w.f.modules[0] = (struct uw_module){
        .start = TABLES, .end = CODE + 0x1000, .eh_frame = TABLES, .eh_frame_size = w.tables.n};
    w.f.modules[1] = (struct uw_module){.start = NO_CFI - 0x1000, .end = NO_CFI + 0x1000};
    w.c.pc_kind = UW_PC_EXACT;
    uw_regs_set(&w.c.regs, UW_X86_64_RSP, SP);
}

/* Module 1's code from NO_CFI on. */
#define CODE_BYTES(...)                                      \
    do {                                                     \
        EMIT(&w.code, __VA_ARGS__);                          \
        fixture_table(&w.f, NO_CFI, w.code.bytes, w.code.n); \
    } while (0)
#define STACK(...)                                                           \
    do {                                                                     \
        static const uint64_t words_[] = {__VA_ARGS__};                      \
        fixture_stack(&w.f, SP, words_, sizeof(words_) / sizeof(words_[0])); \
    } while (0)

static enum uw_status step(void)
{
    return uw_step(&w.f.space, &w.c);
}

static void use_cache(void)
{
    w.cache = aligned_alloc(16, uw_rule_cache_size());
    memset(w.cache, 0xa5, uw_rule_cache_size());
    uw_rule_cache_clear(w.cache);
    w.f.space.cache = w.cache;
}

Test(step, walks_plain_frames_to_the_end)
{
    world_init();
    w.c.regs.pc = PLAIN;
    STACK(1, PLAIN + 4, 2, OUTERMOST + 5);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.pc, PLAIN + 4));
    cr_assert(eq(u64, w.c.regs.value[7], SP + 16));
    cr_assert(eq(int, w.c.trust, UW_TRUST_CFI));
    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.pc, OUTERMOST + 5));
    cr_assert(eq(int, step(), UW_END));
    cr_assert(eq(u64, w.c.regs.pc, OUTERMOST + 5), "untouched");
}

/* A call as the last instruction (noreturn) returns behind the function. */
Test(step, return_address_belongs_to_the_function_in_front)
{
    world_init();
    w.c.regs.pc = FRAME;
    w.c.pc_kind = UW_PC_RETURN;
    STACK(1, OUTERMOST + 1);

    cr_assert(eq(u64, uw_lookup_pc(&w.c), FRAME - 1));
    cr_assert(eq(int, step(), UW_OK), "unwound by PLAIN's row, which needs no rbp");
}

Test(step, null_return_address_is_the_end)
{
    world_init();
    w.c.regs.pc = PLAIN;
    STACK(1, 0);

    cr_assert(eq(int, step(), UW_END));
}

Test(step, frame_pointer_rule_needs_rbp)
{
    world_init();
    w.c.regs.pc = FRAME;
    STACK(0, 0, 0x7777, PLAIN + 1);
    cr_assert(eq(int, step(), UW_REGISTER_UNKNOWN));

    uw_regs_set(&w.c.regs, UW_X86_64_RBP, SP + 16);
    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.value[6], 0x7777));
    cr_assert(eq(u64, w.c.cfa, SP + 32));
}

Test(step, cfa_by_expression)
{
    world_init();
    w.c.regs.pc = REALIGNED;
    uw_regs_set(&w.c.regs, UW_X86_64_RBP, SP + 8);
    STACK(SP + 40, 0x6666, 0, 0, PLAIN + 1);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.cfa, SP + 40));
    cr_assert(eq(u64, w.c.regs.value[6], 0x6666));
}

Test(step, return_address_in_a_register)
{
    world_init();
    w.c.regs.pc = RA_IN_RDI;
    cr_assert(eq(int, step(), UW_REGISTER_UNKNOWN));

    uw_regs_set(&w.c.regs, 5, PLAIN + 3);
    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.pc, PLAIN + 3));
    cr_assert(not(uw_regs_known(&w.c.regs, 5)), "caller-saved");

    w.c.regs.pc = RA_IN_RDI;
    w.c.pc_kind = UW_PC_EXACT;
    uw_regs_set(&w.c.regs, 5, 0);
    cr_assert(eq(int, step(), UW_END));
}

Test(step, register_that_cannot_be_recovered_is_unknown)
{
    world_init();
    w.c.regs.pc = DEREF_RBX;
    uw_regs_set(&w.c.regs, 3, 0x3333);
    STACK(0xdead0000, PLAIN + 3);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(not(uw_regs_known(&w.c.regs, 3)));
}

Test(step, explicit_stack_pointer_rule)
{
    world_init();
    w.c.regs.pc = RSP_SAVED;
    STACK(SP + 0x100, PLAIN + 3);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.value[7], SP + 0x100));
    cr_assert(eq(u64, w.c.cfa, SP + 16));
}

Test(step, reasons)
{
    world_init();
    STACK(1, PLAIN + 1);
    w.c.regs.pc = BROKEN;
    cr_assert(eq(int, step(), UW_BAD_CFI));
    w.c.regs.pc = BACKWARDS;
    cr_assert(eq(int, step(), UW_NOT_ADVANCING));
    w.c.regs.pc = 0x1234;
    cr_assert(eq(int, step(), UW_NO_MODULE));
    w.c.regs.pc = CODE + 0x800;
    cr_assert(eq(int, step(), UW_NO_CFI));
    w.c.regs.pc = 0;
    cr_assert(eq(int, step(), UW_END));
    w.c.regs.pc = PLAIN;
    w.f.n_stacks = 0;
    cr_assert(eq(int, step(), UW_STACK_UNREADABLE));
    w.f.n_tables = 0;
    cr_assert(eq(int, step(), UW_TABLE_UNREADABLE));
}

Test(step, every_status_has_its_own_text)
{
    for (int a = 0; a <= UW_STATUS_N; a++) {
        const char *text = uw_status_text((enum uw_status)a);

        cr_assert(text && text[0] != '\0' && text[strlen(text) - 1] != '.');
        for (int b = 0; b < a; b++)
            cr_assert(ne(str, (char *)text, (char *)uw_status_text((enum uw_status)b)));
    }
}

/* The frame of the handler ends at uc; the alternate stack may lie above the interrupted one. */
Test(step, signal_frame_by_cfi)
{
    static uint64_t words[40];
    static const uint64_t below[] = {1, OUTERMOST + 1};

    world_init();
    w.c.regs.pc = SIGNAL + 1;
    w.c.pc_kind = UW_PC_RETURN;
    w.c.cfa = SP;
    words[160 / 8] = SP - 0x1000;
    words[168 / 8] = PLAIN;
    words[128 / 8] = 0x3b3b;
    fixture_stack(&w.f, SP, words, 40);
    fixture_stack(&w.f, SP - 0x1000, below, 2);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(w.c.signal_frame);
    cr_assert(eq(int, w.c.pc_kind, UW_PC_EXACT));
    cr_assert(eq(int, w.c.trust, UW_TRUST_CONTEXT));
    cr_assert(eq(u64, w.c.regs.pc, PLAIN));
    cr_assert(eq(u64, w.c.regs.value[3], 0x3b3b));
    cr_assert(eq(int, step(), UW_OK), "goes on from the first byte of PLAIN, on the other stack");
    cr_assert(not(w.c.signal_frame));
    cr_assert(eq(u64, w.c.regs.pc, OUTERMOST + 1));
}

Test(step, signal_frame_that_returns_to_itself_is_refused)
{
    static uint64_t words[40];

    world_init();
    w.c.regs.pc = SIGNAL + 1;
    w.c.pc_kind = UW_PC_RETURN;
    words[160 / 8] = SP;
    words[168 / 8] = SIGNAL + 1;
    fixture_stack(&w.f, SP, words, 40);

    cr_assert(eq(int, step(), UW_NOT_ADVANCING));
}

/* musl's and Go's restorers have no CFI. Kernel layout: sigcontext at uc + 40, r8 first, rsp at 160, rip at
 * 168. */
static void kernel_frame(void)
{
    static uint64_t words[40];

    for (size_t i = 0; i < 40; i++)
        words[i] = 0x1000 + i * 8;
    words[168 / 8] = PLAIN + 2;
    fixture_stack(&w.f, SP, words, 40);
}

static void assert_restored(void)
{
    static const unsigned at[17] = {144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96};

    cr_assert(eq(u64, w.c.regs.pc, PLAIN + 2));
    cr_assert(eq(u64, w.c.regs.valid, 0xffff));
    for (unsigned reg = 0; reg < 16; reg++)
        cr_assert(eq(u64, w.c.regs.value[reg], 0x1000 + at[reg]), "register %u", reg);
    cr_assert(w.c.signal_frame);
    cr_assert(eq(int, w.c.pc_kind, UW_PC_EXACT));
    cr_assert(eq(int, w.c.trust, UW_TRUST_CONTEXT));
    cr_assert(eq(u64, w.c.cfa, 0x1000 + 160));
}

Test(step, trampoline_by_its_bytes)
{
    for (int form = 0; form < 4; form++) {
        world_init();
        kernel_frame();
        w.c.pc_kind = form < 2 ? UW_PC_RETURN : UW_PC_EXACT;
        w.c.regs.pc = NO_CFI;
        if (form % 2 == 0)
            CODE_BYTES(0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05);
        else
            CODE_BYTES(0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05);
        if (form >= 2)
            w.c.regs.pc += form == 2 ? 7 : 5;

        cr_assert(eq(int, step(), UW_OK), "form %d", form);
        assert_restored();
    }
}

Test(step, other_system_calls_are_no_trampoline)
{
    world_init();
    kernel_frame();
    w.c.pc_kind = UW_PC_RETURN;
    w.c.regs.pc = NO_CFI;
    CODE_BYTES(0xb8, 0x0e, 0, 0, 0, 0x0f, 0x05);

    cr_assert(eq(int, step(), UW_NO_CFI));
}

/* PLAIN's last byte is right in front of the trampoline: pc - 1 finds PLAIN's CFI. */
Test(step, trampoline_behind_a_function_with_cfi)
{
    static const uint8_t code[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

    world_init();
    kernel_frame();
    w.c.pc_kind = UW_PC_RETURN;
    w.c.regs.pc = PLAIN + 16;
    fixture_table(&w.f, PLAIN + 16, code, sizeof(code));

    cr_assert(eq(int, step(), UW_OK));
    assert_restored();
}

Test(step, trampoline_whose_frame_cannot_be_read)
{
    world_init();
    w.c.pc_kind = UW_PC_RETURN;
    w.c.regs.pc = NO_CFI;
    CODE_BYTES(0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05);

    cr_assert(eq(int, step(), UW_STACK_UNREADABLE));
}

/* Where calls are in module 1, by their return address. */
#define CALL_DIRECT (NO_CFI + 0x105)
#define NO_CALL (NO_CFI + 0x110)

static void code_with_calls(void)
{
    static const uint8_t code[] = {0xe8, 1,    2,    3,    4,    0x90, 0x90, 0x90, 0x90, 0x90,
                                   0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};

    fixture_table(&w.f, NO_CFI + 0x100, code, sizeof(code));
}

static const struct {
    const char *name;
    size_t size;
    uint8_t code[8];
    bool is_call;
} calls[] = {
    {"call rel32", 5, {0xe8, 1, 2, 3, 4}, true},
    {"call *%rax", 2, {0xff, 0xd0}, true},
    {"call *%r12", 3, {0x41, 0xff, 0xd4}, true},
    {"call *(%rax)", 2, {0xff, 0x10}, true},
    {"call *8(%rax)", 3, {0xff, 0x50, 8}, true},
    {"call *8(%rsp)", 4, {0xff, 0x54, 0x24, 8}, true},
    {"call *(%rax,%rbx,8)", 3, {0xff, 0x14, 0xd8}, true},
    {"call *0x1000(%rax)", 6, {0xff, 0x90, 0, 0x10, 0, 0}, true},
    {"call *x(%rip)", 6, {0xff, 0x15, 1, 2, 3, 4}, true},
    {"call *0x1000(%rax,%rbx,8)", 7, {0xff, 0x94, 0xd8, 0, 0x10, 0, 0}, true},
    {"call *0x1000(,%rbx,8)", 7, {0xff, 0x14, 0xdd, 0, 0x10, 0, 0}, true},
    {"nop", 1, {0x90}, false},
    {"jmp *x(%rip)", 6, {0xff, 0x25, 1, 2, 3, 4}, false},
    {"push *x(%rip)", 6, {0xff, 0x35, 1, 2, 3, 4}, false},
    {"jmp rel32", 5, {0xe9, 1, 2, 3, 4}, false},
    {"call *8(%rax) with the displacement missing", 2, {0xff, 0x50}, false},
};

Test(step, call_instructions)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (size_t pad = 0; pad <= 8; pad += 8) {
            uint8_t code[16];
            enum uw_call expected = calls[i].is_call ? UW_CALL_YES : UW_CALL_NO;

            world_init();
            memset(code, 0x90, sizeof(code));
            memcpy(code + pad, calls[i].code, calls[i].size);
            fixture_table(&w.f, NO_CFI, code, pad + calls[i].size);
            cr_expect(eq(int, uw_arch_x86_64.returns_to(&w.f.space, NO_CFI + pad + calls[i].size), expected),
                      "%s behind %zu", calls[i].name, pad);
        }
    }
    world_init();
    cr_assert(eq(int, uw_arch_x86_64.returns_to(&w.f.space, NO_CFI), UW_CALL_UNREADABLE));
}

Test(step, frame_pointer_chain_where_there_is_no_cfi)
{
    world_init();
    code_with_calls();
    w.c.regs.pc = NO_CFI + 0x10;
    uw_regs_set(&w.c.regs, UW_X86_64_RBP, SP + 16);
    uw_regs_set(&w.c.regs, 3, 1);
    STACK(1, 2, SP + 48, CALL_DIRECT, 3, 4, SP + 80, CALL_DIRECT);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.pc, CALL_DIRECT));
    cr_assert(eq(int, w.c.trust, UW_TRUST_FRAME_POINTER));
    cr_assert(eq(u64, w.c.regs.value[7], SP + 32));
    cr_assert(eq(u64, w.c.regs.value[6], SP + 48));
    cr_assert(eq(u64, w.c.regs.valid, 0xc0), "rbp and rsp, nothing else");
    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.cfa, SP + 64));
    cr_assert(eq(int, step(), UW_NO_CFI), "the next link is not on the stack");
}

/* A handler without CFI: its caller is the trampoline, with no call in front. */
Test(step, frame_pointer_of_a_signal_handler)
{
    static const uint8_t code[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48,
                                   0xc7, 0xc0, 0x0f, 0,    0,    0,    0x0f, 0x05};

    world_init();
    fixture_table(&w.f, NO_CFI + 0x100, code, sizeof(code));
    w.c.regs.pc = NO_CFI + 0x10;
    uw_regs_set(&w.c.regs, UW_X86_64_RBP, SP);
    STACK(0, NO_CFI + 0x107);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.pc, NO_CFI + 0x107));
}

Test(step, trust_does_not_rise_again)
{
    world_init();
    code_with_calls();
    w.c.regs.pc = PLAIN;
    w.c.trust = UW_TRUST_INFERRED;
    STACK(1, PLAIN + 1);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(int, w.c.trust, UW_TRUST_INFERRED));
}

/* What must not be followed. rbp, and the link at SP + 16. */
static const struct {
    const char *name;
    uint64_t rbp, cfa, return_address;
} bad_links[] = {
    {"below the stack", SP - 0x100, 0, CALL_DIRECT},
    {"below the frame before", SP + 16, SP + 32, CALL_DIRECT},
    {"not readable", SP + 0x100000, 0, CALL_DIRECT},
    {"at the end of the address space", UINT64_MAX - 7, 0, CALL_DIRECT},
    {"return address 0", SP + 16, 0, 0},
    {"return address in no module", SP + 16, 0, 0x1234},
    {"no call in front of it", SP + 16, 0, NO_CALL},
};

Test(step, frame_pointers_that_are_none)
{
    for (size_t i = 0; i < sizeof(bad_links) / sizeof(bad_links[0]); i++) {
        uint64_t words[5] = {1, 2, SP + 48, bad_links[i].return_address, 0};

        world_init();
        code_with_calls();
        w.c.regs.pc = NO_CFI + 0x10;
        w.c.cfa = bad_links[i].cfa;
        uw_regs_set(&w.c.regs, UW_X86_64_RBP, bad_links[i].rbp);
        fixture_stack(&w.f, SP, words, 5);
        cr_expect(eq(int, step(), UW_NO_CFI), "%s", bad_links[i].name);
    }
}

/* A good link but for its place. */
Test(step, frame_pointers_in_the_wrong_place)
{
    static const struct {
        const char *name;
        int64_t rbp;
        enum uw_status status;
    } rows[] = {
        {"at the stack pointer", 0, UW_OK}, {"one word below", -8, UW_NO_CFI}, {"unaligned", 17, UW_NO_CFI}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[64] = {0};
        uint64_t link[2] = {SP + 64, CALL_DIRECT};

        world_init();
        code_with_calls();
        memcpy(bytes + 16 + rows[i].rbp, link, sizeof(link));
        w.f.stacks[w.f.n_stacks++] = (struct region){SP - 16, bytes, sizeof(bytes)};
        w.c.regs.pc = NO_CFI + 0x10;
        uw_regs_set(&w.c.regs, UW_X86_64_RBP, SP + (uint64_t)rows[i].rbp);
        cr_expect(eq(int, step(), rows[i].status), "%s", rows[i].name);
    }
}

Test(step, frame_pointer_of_a_jit_without_module)
{
    world_init();
    code_with_calls();
    w.c.regs.pc = 0x99990000;
    uw_regs_set(&w.c.regs, UW_X86_64_RBP, SP);
    STACK(0, CALL_DIRECT);
    cr_assert(eq(int, step(), UW_OK));

    w.c.regs.pc = 0x99990000;
    cr_assert(eq(int, step(), UW_NO_MODULE), "rbp is 0: the chain ends, and the reason is the code's");
}

/* PLT of lld: head at 0 (push, jmp), entry at 0x10 (jmp, push, jmp head). pc, and where the return address
 * is. */
static const struct {
    const char *name;
    unsigned pc;
    unsigned depth;
} stubs[] = {
    {"head, push", 0, 8},
    {"head, jmp", 6, 16},
    {"entry, jmp", 0x10, 0},
    {"entry, push", 0x16, 0},
    {"entry, jmp head", 0x1b, 8},
    {"entry with IBT", 0x20, 0},
    {"its jmp", 0x24, 0},
    {"function, endbr64", 0x30, 0},
    {"function, push rbp", 0x34, 0},
    {"function, mov rsp,rbp", 0x35, 8},
    {"function, ret", 0x39, 0},
};

static void code_of_plt(void)
{
    CODE_BYTES(0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25, 1, 2, 3, 4, 0x0f, 0x1f, 0x40, 0,                /* */
               0xff, 0x25, 1, 2, 3, 4, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff,             /* */
               0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 1, 2, 3, 4, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, /* */
               0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3, 0x48, 0x89, 0xe5);
}

Test(step, plt_entries_without_cfi)
{
    for (size_t i = 0; i < sizeof(stubs) / sizeof(stubs[0]); i++) {
        uint64_t words[4] = {1, 2, 3, 4};

        world_init();
        code_with_calls();
        code_of_plt();
        words[stubs[i].depth / 8] = CALL_DIRECT;
        fixture_stack(&w.f, SP, words, 4);
        uw_regs_set(&w.c.regs, 3, 0x33);
        uw_regs_set(&w.c.regs, 0, 0x00);
        w.c.regs.pc = NO_CFI + stubs[i].pc;

        cr_expect(eq(int, step(), UW_OK), "%s", stubs[i].name);
        cr_expect(eq(u64, w.c.regs.pc, CALL_DIRECT), "%s", stubs[i].name);
        cr_expect(eq(u64, w.c.regs.value[7], SP + stubs[i].depth + 8), "%s", stubs[i].name);
        cr_expect(eq(u64, w.c.regs.valid, 0x88), "%s", stubs[i].name);
        cr_expect(eq(int, w.c.trust, UW_TRUST_INFERRED), "%s", stubs[i].name);
    }
}

Test(step, plt_without_proof_is_skipped)
{
    world_init();
    code_with_calls();
    code_of_plt();
    w.c.regs.pc = NO_CFI + 0x10;
    STACK(NO_CALL);
    cr_assert(eq(int, step(), UW_NO_CFI), "no call in front of what lies on the stack");

    w.c.pc_kind = UW_PC_RETURN;
    w.f.n_stacks = 0;
    STACK(CALL_DIRECT);
    cr_assert(eq(int, step(), UW_NO_CFI), "nothing returns into a stub");

    w.c.pc_kind = UW_PC_EXACT;
    w.c.regs.pc = NO_CFI + 0x12;
    cr_assert(eq(int, step(), UW_NO_CFI), "not an instruction of a stub");
    w.c.regs.pc = NO_CFI + 0x3a;
    cr_assert(eq(int, step(), UW_NO_CFI), "mov rsp,rbp without the push in front");
}

Test(step, call_through_a_null_pointer)
{
    world_init();
    code_with_calls();
    STACK(CALL_DIRECT);

    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(u64, w.c.regs.pc, CALL_DIRECT));
    cr_assert(eq(int, w.c.trust, UW_TRUST_INFERRED));
}

Test(step, cached_step_equals_the_first_and_reads_no_table)
{
    struct uw_cursor start, first;
    size_t reads;

    world_init();
    use_cache();
    uw_regs_set(&w.c.regs, UW_X86_64_RBP, SP + 16);
    w.c.regs.pc = FRAME;
    start = w.c;
    STACK(0, 0, 0x7777, PLAIN + 1);
    cr_assert(eq(int, step(), UW_OK));
    first = w.c;
    reads = w.f.n_table_reads;

    w.c = start;
    cr_assert(eq(int, step(), UW_OK));
    cr_assert(zero(int, memcmp(&w.c, &first, sizeof(first))));
    cr_assert(eq(sz, w.f.n_table_reads, reads));

    w.c = start;
    uw_rule_cache_clear(w.cache);
    cr_assert(eq(int, step(), UW_OK));
    cr_assert(gt(sz, w.f.n_table_reads, reads));
    free(w.cache);
}

Test(step, odd_rows_are_not_cached)
{
    world_init();
    use_cache();
    w.c.regs.pc = RA_IN_RDI;
    uw_regs_set(&w.c.regs, 5, PLAIN + 3);
    cr_assert(eq(int, step(), UW_OK));
    cr_assert(eq(ptr, (void *)rule_cache_find(w.cache, RA_IN_RDI), NULL));
    free(w.cache);
}

Test(step, outermost_frame_is_cached)
{
    size_t reads;

    world_init();
    use_cache();
    w.c.regs.pc = OUTERMOST;
    cr_assert(eq(int, step(), UW_END));
    reads = w.f.n_table_reads;
    cr_assert(eq(int, step(), UW_END));
    cr_assert(eq(sz, w.f.n_table_reads, reads));
    free(w.cache);
}
