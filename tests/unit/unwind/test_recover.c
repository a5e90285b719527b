/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/flow.c, callproof.c and recover.c in a small made-up program: _start, two functions of libc, main
 * and one function of each kind. Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unwind/fixture.h"
#include "unwind/callproof.h"
#include "unwind/flow.h"
#include "unwind/recover.h"

TestSuite(recover, .timeout = 10);

#define TABLES 0x30000
#define CODE 0x40000
#define SLOTS (CODE + 0x2000)
#define FUNCTION_SIZE 0x100
#define AT(n) (CODE + FUNCTION_SIZE * (n))
#define SP 0x700000
#define WORDS 64

enum {
    F_START = 0,
    F_LIBC,    /* __libc_start_main */
    F_LIBC_2,  /* __libc_start_call_main */
    F_MAIN,    /* calls F_PLAIN, F_ALLOCA, F_ALIGNED and others, one after the other */
    F_PLAIN,   /* a frame pointer, 16 bytes of locals */
    F_PUSHED,  /* the same and pushed arguments */
    F_UNEVEN,  /* the same and something pushed on one of two ways */
    F_ALLOCA,  /* the same and rsp moved by a register on one of two ways */
    F_ALIGNED, /* rsp rounded down to 64 */
    F_TABLE,   /* the call stands behind a jump table */
    F_OTHER,   /* no calls, no jumps */
    F_TAIL,    /* jumps to F_PLAIN */
    F_POINTER, /* jumps where a register says */
    F_THUNK,   /* the same by a return, as retpolines do */
    F_STUB,    /* PLT stub of F_PLAIN, bound */
    F_UNBOUND, /* PLT stub that is not bound yet */
    F_N
};

static struct world {
    struct fixture f;
    struct emit tables, code;
    uint64_t stack[WORDS];
    uint64_t after[F_N]; /* return address of the (last) call in a function */
    uint64_t last[F_N];  /* its return instruction, if it has a frame */
    uint64_t main_after[F_N];
    struct uw_recovery *recovery;
    struct flow_memory flow;
    struct uw_cursor c;
} w;

static uint64_t here(void)
{
    return CODE + w.code.n;
}

/* An instruction that ends in the distance to target. */
static void relative(uint64_t target)
{
    emit_int(&w.code, target - (here() + 4), 4);
}

static void begin(unsigned n)
{
    while (here() < AT(n))
        EMIT(&w.code, 0xcc);
}

static void call(unsigned from, unsigned to)
{
    EMIT(&w.code, 0xe8);
    relative(AT(to));
    w.after[from] = here();
    if (from == F_MAIN)
        w.main_after[to] = here();
}

#define PROLOGUE() EMIT(&w.code, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10)

static void epilogue(unsigned n)
{
    EMIT(&w.code, 0xc9, 0xc3); /* leave; ret */
    w.last[n] = here() - 1;
}

static void emit_start_code(void)
{
    begin(F_START);
    EMIT(&w.code, 0x48, 0x8d, 0x3d); /* lea main(%rip),%rdi */
    relative(AT(F_MAIN));
    EMIT(&w.code, 0xff, 0x15); /* call *slot(%rip) */
    relative(SLOTS);
    w.after[F_START] = here();
    EMIT(&w.code, 0xf4);
    begin(F_LIBC);
    EMIT(&w.code, 0x48, 0x83, 0xec, 0x08);
    call(F_LIBC, F_LIBC_2);
    begin(F_LIBC_2);
    EMIT(&w.code, 0x48, 0x83, 0xec, 0x08, 0xff, 0xd0); /* call *%rax */
    w.after[F_LIBC_2] = here();
    begin(F_MAIN);
    PROLOGUE();
    for (unsigned to = F_PLAIN; to < F_N; to++)
        call(F_MAIN, to);
    epilogue(F_MAIN);
}

static void emit_frames(void)
{
    begin(F_PLAIN);
    PROLOGUE();
    call(F_PLAIN, F_OTHER);
    epilogue(F_PLAIN);
    begin(F_PUSHED);
    PROLOGUE();
    EMIT(&w.code, 0x6a, 1, 0x6a, 2); /* push $1; push $2 */
    call(F_PUSHED, F_OTHER);
    epilogue(F_PUSHED);
    begin(F_UNEVEN);
    PROLOGUE();
    EMIT(&w.code, 0x85, 0xc0, 0x74, 0x02, 0x6a, 1); /* test; je +2; push $1 */
    call(F_UNEVEN, F_OTHER);
    epilogue(F_UNEVEN);
    begin(F_ALLOCA);
    PROLOGUE();
    EMIT(&w.code, 0x85, 0xc0, 0x74, 0x03, 0x48, 0x29, 0xc4); /* test; je +3; sub %rax,%rsp */
    call(F_ALLOCA, F_OTHER);
    epilogue(F_ALLOCA);
    begin(F_ALIGNED);
    EMIT(&w.code, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x83, 0xec, 0x40);
    call(F_ALIGNED, F_OTHER);
    epilogue(F_ALIGNED);
    begin(F_TABLE);
    PROLOGUE();
    EMIT(&w.code, 0x3e, 0xff, 0xe0); /* notrack jmp *%rax */
    call(F_TABLE, F_OTHER);
    epilogue(F_TABLE);
}

static void emit_others(void)
{
    begin(F_OTHER);
    EMIT(&w.code, 0x31, 0xc0, 0xc3);
    begin(F_TAIL);
    EMIT(&w.code, 0xe9);
    relative(AT(F_PLAIN));
    begin(F_POINTER);
    EMIT(&w.code, 0xff, 0xe0);
    begin(F_THUNK);
    EMIT(&w.code, 0x48, 0x89, 0x04, 0x24, 0xc3); /* mov %rax,(%rsp); ret */
    begin(F_STUB);
    EMIT(&w.code, 0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25);
    relative(SLOTS + 8);
    begin(F_UNBOUND);
    EMIT(&w.code, 0xff, 0x25);
    relative(SLOTS + 16);
    EMIT(&w.code, 0x68, 0, 0, 0, 0); /* push $0 */
    begin(F_N);
}

/* push %rbp: CFA = rsp + 16, rbp saved; mov %rsp,%rbp: CFA = rbp + 16; from the return on: CFA = rsp + 8 */
static size_t frame_program(unsigned n, uint8_t ret[16])
{
    const uint8_t program[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, (uint8_t)(w.last[n] - AT(n) - 4),
                               0x0c, 7,    8};

    memcpy(ret, program, sizeof(program));
    return w.last[n] ? sizeof(program) : 0;
}

static void emit_tables(void)
{
    static const uint8_t outermost[] = {0x07, 16};
    static const uint8_t eight_more[] = {0x0e, 16};
    size_t cie = emit_cie(&w.tables, "zR");

    for (unsigned n = 0; n < F_STUB; n++) {
        uint8_t frame[16];

        if (n == F_START)
            emit_fde(&w.tables, TABLES, cie, AT(n), FUNCTION_SIZE, outermost, sizeof(outermost));
        else if (n <= F_LIBC_2 || n == F_THUNK)
            emit_fde(&w.tables, TABLES, cie, AT(n), FUNCTION_SIZE, eight_more, sizeof(eight_more));
        else
            emit_fde(&w.tables, TABLES, cie, AT(n), FUNCTION_SIZE, frame, frame_program(n, frame));
    }
    emit_int(&w.tables, 0, 4);
}

static void world_init(void)
{
    static uint64_t slots[3];

    memset(&w, 0, sizeof(w));
    fixture_init(&w.f);
    emit_start_code();
    emit_frames();
    emit_others();
    emit_tables();
    slots[0] = AT(F_LIBC);
    slots[1] = AT(F_PLAIN);
    slots[2] = AT(F_UNBOUND) + 6;
    fixture_table(&w.f, TABLES, w.tables.bytes, w.tables.n);
    fixture_table(&w.f, CODE, w.code.bytes, w.code.n);
    fixture_table(&w.f, SLOTS, slots, sizeof(slots));
    fixture_stack(&w.f, SP, w.stack, WORDS);
    w.f.modules[0] = (struct uw_module){
        .start = TABLES, .end = SLOTS + 0x1000, .eh_frame = TABLES, .eh_frame_size = w.tables.n};
    w.recovery = malloc(uw_recovery_size());
    memset(w.recovery, 0xa5, uw_recovery_size());
    uw_recovery_clear(w.recovery);
}

/* The frames above: main, called by libc, from word i on. Returns the address of main's frame pointer. */
static uint64_t outer_frames(unsigned i)
{
    w.stack[i] = 0x1234; /* main's caller's rbp */
    w.stack[i + 1] = w.after[F_LIBC_2];
    w.stack[i + 3] = w.after[F_LIBC];
    w.stack[i + 5] = w.after[F_START];
    return SP + 8 * i;
}

/* A frame of function n, called by main, whose rbp points to word i. */
static void frame_at(unsigned i, unsigned n, uint64_t outer)
{
    w.stack[i] = outer;
    w.stack[i + 1] = w.main_after[n];
}

static enum uw_status recover(unsigned n, uint64_t stack_end)
{
    w.c.regs.pc = w.after[n];
    w.c.pc_kind = UW_PC_RETURN;
    w.c.trust = UW_TRUST_CFI;
    w.c.regs.valid = 0;
    uw_regs_set(&w.c.regs, UW_X86_64_RSP, SP);
    return uw_recover(&w.f.space, w.recovery, &w.c, stack_end);
}

static struct flow flow_in(unsigned n)
{
    const struct eh_fde fde = {0};
    struct eh_fde found = fde;

    cr_assert(eq(int, eh_find_fde(&w.f.space, &w.f.modules[0], AT(n), &found), UW_OK));
    return flow_find(&w.f.space, &w.flow, &found, w.after[n], true);
}

#define WHOLE (SP + 8 * WORDS)

Test(recover, distances_by_control_flow)
{
    struct flow flow;

    world_init();
    flow = flow_in(F_PLAIN);
    cr_expect(flow.kind == FLOW_EXACT && flow.distance == 16 && flow.frame == 16 && !flow.jump_table);
    flow = flow_in(F_PUSHED);
    cr_expect(flow.kind == FLOW_EXACT && flow.distance == 32, "pushed arguments count");
    cr_expect(flow_in(F_UNEVEN).kind == FLOW_VARIABLE, "two ways that disagree");
    cr_expect(flow_in(F_ALLOCA).kind == FLOW_VARIABLE, "moved on one of two ways");
    flow = flow_in(F_ALIGNED);
    cr_expect(flow.kind == FLOW_ALIGNED && flow.distance == 64 && flow.alignment == 64);
    flow = flow_in(F_TABLE);
    cr_expect(flow.kind == FLOW_EXACT && flow.distance == 16 && flow.jump_table);
    cr_expect(flow_in(F_LIBC).kind == FLOW_UNKNOWN, "its table does not begin as a function's does");
}

static enum call_proof proof(uint64_t return_address, unsigned n)
{
    return call_prove(&w.f.space, return_address, AT(n), AT(n) + FUNCTION_SIZE);
}

Test(recover, calls_prove_or_refute)
{
    world_init();
    cr_expect(eq(int, proof(w.main_after[F_PLAIN], F_PLAIN), CALL_PROVEN), "direct");
    cr_expect(eq(int, proof(w.main_after[F_TAIL], F_PLAIN), CALL_PROVEN), "by a tail jump");
    cr_expect(eq(int, proof(w.main_after[F_STUB], F_PLAIN), CALL_PROVEN), "by its PLT stub");
    cr_expect(eq(int, proof(w.after[F_START], F_LIBC), CALL_PROVEN), "by its slot");
    cr_expect(eq(int, proof(w.main_after[F_UNBOUND], F_PLAIN), CALL_POSSIBLE), "a slot that is not bound");
    cr_expect(eq(int, proof(w.main_after[F_POINTER], F_PLAIN), CALL_POSSIBLE), "a jump through a pointer");
    cr_expect(eq(int, proof(w.main_after[F_THUNK], F_PLAIN), CALL_POSSIBLE), "a jump made of a return");
    cr_expect(eq(int, proof(w.after[F_LIBC_2], F_PLAIN), CALL_POSSIBLE), "a call through a pointer");
    cr_expect(eq(int, proof(w.main_after[F_OTHER], F_PLAIN), CALL_IMPOSSIBLE), "another function");
    cr_expect(eq(int, proof(w.main_after[F_STUB], F_OTHER), CALL_IMPOSSIBLE), "another stub");
    cr_expect(eq(int, proof(AT(F_PLAIN) + 3, F_PLAIN), CALL_IMPOSSIBLE), "no call at all");
}

Test(recover, exact_distance)
{
    world_init();
    frame_at(2, F_PLAIN, outer_frames(8));

    cr_assert(eq(int, recover(F_PLAIN, 0), UW_OK));
    cr_expect(eq(u64, w.c.regs.value[UW_X86_64_RBP], SP + 16));
    cr_expect(eq(int, w.c.trust, UW_TRUST_INFERRED));
    cr_assert(eq(int, uw_step(&w.f.space, &w.c), UW_OK));
    cr_expect(eq(u64, w.c.regs.pc, w.main_after[F_PLAIN]));
    cr_expect(eq(u64, w.c.regs.value[UW_X86_64_RBP], SP + 64), "main's, exactly");
}

Test(recover, exact_distance_without_the_call_is_not_believed)
{
    world_init();
    frame_at(2, F_OTHER, outer_frames(8));

    cr_expect(eq(int, recover(F_PLAIN, WHOLE), UW_AMBIGUOUS));
    cr_expect(not(uw_regs_known(&w.c.regs, UW_X86_64_RBP)));
}

Test(recover, jump_table_needs_the_whole_chain)
{
    world_init();
    frame_at(2, F_TABLE, outer_frames(8));
    cr_expect(eq(int, recover(F_TABLE, 0), UW_OK));
    w.stack[2] = SP + 8 * 20; /* main's frame is not there */
    cr_expect(eq(int, recover(F_TABLE, 0), UW_AMBIGUOUS));
}

Test(recover, rounded_stack_pointer)
{
    world_init();
    frame_at(12, F_ALIGNED, outer_frames(20)); /* 64 + 32 above */

    cr_assert(eq(int, recover(F_ALIGNED, 0), UW_OK));
    cr_expect(eq(u64, w.c.regs.value[UW_X86_64_RBP], SP + 96));
    frame_at(10, F_ALIGNED, SP + 160); /* a stale one, as good as the true one */
    cr_expect(eq(int, recover(F_ALIGNED, 0), UW_AMBIGUOUS));
}

Test(recover, search_finds_the_only_place)
{
    world_init();
    frame_at(12, F_ALLOCA, outer_frames(20));
    w.stack[5] = w.main_after[F_OTHER];
    w.stack[7] = w.main_after[F_ALLOCA]; /* leads nowhere */

    cr_assert(eq(int, recover(F_ALLOCA, WHOLE), UW_OK));
    cr_expect(eq(u64, w.c.regs.value[UW_X86_64_RBP], SP + 96));
}

/* Code built for a smaller alignment than the psABI's works: passing it over would prove a stale place. */
Test(recover, a_place_at_any_word_counts)
{
    world_init();
    frame_at(13, F_ALLOCA, outer_frames(20));
    cr_assert(eq(int, recover(F_ALLOCA, WHOLE), UW_OK));
    cr_expect(eq(u64, w.c.regs.value[UW_X86_64_RBP], SP + 104));
    frame_at(6, F_ALLOCA, SP + 160);
    cr_expect(eq(int, recover(F_ALLOCA, WHOLE), UW_AMBIGUOUS));
    world_init();
    frame_at(13, F_ALIGNED, outer_frames(20));
    cr_expect(eq(int, recover(F_ALIGNED, 0), UW_OK));
}

/* A coroutine's base has a return address of 0, and the thread's stack further up may be a chain as good. */
Test(recover, a_chain_that_ends_in_zero_is_a_rival)
{
    world_init();
    frame_at(6, F_ALLOCA, SP + 8 * 9);
    w.stack[9] = 0;
    w.stack[10] = 0;
    frame_at(14, F_ALLOCA, outer_frames(20));
    cr_expect(eq(int, recover(F_ALLOCA, WHOLE), UW_AMBIGUOUS));
}

Test(recover, search_with_a_rival_is_ambiguous)
{
    uint64_t outer;

    world_init();
    outer = outer_frames(20);
    frame_at(12, F_ALLOCA, outer);
    frame_at(6, F_ALLOCA, outer);
    cr_expect(eq(int, recover(F_ALLOCA, WHOLE), UW_AMBIGUOUS));
    w.stack[7] = w.main_after[F_POINTER]; /* not proven, but possible */
    cr_expect(eq(int, recover(F_ALLOCA, WHOLE), UW_AMBIGUOUS));
    w.stack[7] = w.main_after[F_OTHER];
    cr_expect(eq(int, recover(F_ALLOCA, WHOLE), UW_OK));
}

Test(recover, no_search_where_a_part_of_the_stack_is_missing)
{
    world_init();
    frame_at(12, F_ALLOCA, outer_frames(20));
    cr_expect(eq(int, recover(F_ALLOCA, 0), UW_AMBIGUOUS));
}

/* A zero on the stack ends a walk, but it is no base that proves anything. */
Test(recover, chain_must_reach_the_base)
{
    world_init();
    frame_at(12, F_ALLOCA, outer_frames(20));
    w.stack[25] = 0;
    cr_expect(eq(int, recover(F_ALLOCA, WHOLE), UW_AMBIGUOUS));
}

Test(recover, only_a_missing_frame_pointer)
{
    world_init();
    frame_at(2, F_PLAIN, outer_frames(8));
    w.c.regs.pc = w.after[F_LIBC];
    w.c.pc_kind = UW_PC_RETURN;
    uw_regs_set(&w.c.regs, UW_X86_64_RSP, SP);
    cr_expect(eq(int, uw_recover(&w.f.space, w.recovery, &w.c, WHOLE), UW_REGISTER_UNKNOWN));
    uw_regs_forget(&w.c.regs, UW_X86_64_RSP);
    w.c.regs.pc = w.after[F_PLAIN];
    cr_expect(eq(int, uw_recover(&w.f.space, w.recovery, &w.c, WHOLE), UW_REGISTER_UNKNOWN));
}
