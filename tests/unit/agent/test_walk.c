/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/walk.c: windows, live memory, interning and limits. The unwinder itself is tested in
 * tests/unit/unwind. */
#include "fixture.h"

#include <ucontext.h>

#include "agent/walk.h"

TestSuite(walk, .timeout = 10);

struct walked {
    struct fixture *fixture;
    struct snapshot snapshot;
    struct walk walk;
};

static void prepare(struct walked *walked, uint32_t n_threads)
{
    *walked = (struct walked){.fixture = fixture_new()};
    cr_assert(walk_init(&walked->walk, &walked->snapshot, &walked->fixture->modules, &walked->fixture->memory,
                        &walked->fixture->arena, n_threads) == 0);
}

/* The caller's registers, with all of its stack up to the thread's base as the first window. */
#define HERE(raw, all) \
    ucontext_t here;   \
    getcontext(&here); \
    from_context(&(raw), &here, (all))

static void from_context(struct raw_context *raw, const ucontext_t *context, const struct stack_window *all)
{
    static const int gregs[17] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                  REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

    *raw = (struct raw_context){.exact = true, .window[0] = *all};
    for (unsigned i = 0; i < 16; i++)
        uw_regs_set(&raw->regs, i, (uint64_t)context->uc_mcontext.gregs[gregs[i]]);
    raw->regs.pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
}

static struct stack_window own_stack(struct fixture *fixture)
{
    uint64_t sp = (uintptr_t)__builtin_frame_address(0);
    const struct mapping *mapping = modules_find_mapping(&fixture->modules, sp);

    cr_assert(mapping != NULL);
    return (struct stack_window){.base = mapping->start,
                                 .size = mapping->end - mapping->start,
                                 .bytes = (const uint8_t *)mapping->start};
}

static const struct report_stack *stack_of(struct walked *walked, int32_t index)
{
    cr_assert(index >= 0 && (uint32_t)index < walked->snapshot.n_stacks);
    return &walked->snapshot.stacks[index];
}

Test(walk, whole_stack_from_the_windows)
{
    struct walked walked;
    struct raw_context raw;
    struct stack_window all;
    bool read_live = false;
    const struct report_stack *stack;
    const struct frame *frame;

    prepare(&walked, 1);
    all = own_stack(walked.fixture);
    HERE(raw, &all);
    raw.live = true;
    raw.ret_read_live = &read_live;
    stack = stack_of(&walked, walk_unwind(&walked.walk, &raw));

    cr_expect(eq(int, stack->end, UW_END), "%s", uw_status_text(stack->end));
    cr_expect(not(stack->truncated));
    cr_expect(not(read_live), "everything was in the window");
    cr_expect(ge(u32, stack->n_frames, 4));
    frame = &walked.snapshot.frames[stack->frames[0]];
    cr_expect(eq(u64, frame->pc, raw.regs.pc));
    cr_expect(frame->exact && frame->trust == UW_TRUST_CONTEXT);
    cr_expect(frame->module >= 0 &&
              frame->offset == frame->pc - walked.fixture->modules.report[frame->module].base);
    cr_expect(eq(i32, frame->symbol, -1));
    frame = &walked.snapshot.frames[stack->frames[1]];
    cr_expect(not(frame->exact));
    cr_expect(eq(int, frame->trust, UW_TRUST_CFI));
}

Test(walk, live_memory_only_for_sleepers_and_said)
{
    struct walked walked;
    struct raw_context raw;
    struct stack_window nothing = {0};
    bool read_live = false;
    const struct report_stack *stack;

    prepare(&walked, 1);
    HERE(raw, &nothing);
    raw.truncated = true;
    raw.ret_read_live = &read_live;
    stack = stack_of(&walked, walk_unwind(&walked.walk, &raw));
    cr_expect(eq(int, stack->end, UW_STACK_UNREADABLE));
    cr_expect(eq(u32, stack->n_frames, 1));
    cr_expect(stack->truncated);
    cr_expect(not(read_live));

    raw.live = true;
    stack = stack_of(&walked, walk_unwind(&walked.walk, &raw));
    cr_expect(eq(int, stack->end, UW_END));
    cr_expect(read_live && walked.walk.read_live);
}

Test(walk, gap_between_the_windows_ends_the_stack)
{
    struct walked walked;
    struct raw_context raw;
    struct stack_window all;
    uint64_t sp;
    const struct report_stack *stack;

    prepare(&walked, 1);
    all = own_stack(walked.fixture);
    HERE(raw, &all);
    sp = raw.regs.value[UW_X86_64_RSP];
    raw.window[0] = (struct stack_window){sp, 64, (const uint8_t *)sp};
    raw.window[1] = (struct stack_window){all.base + all.size - 64, 64, all.bytes + all.size - 64};
    raw.truncated = true;
    stack = stack_of(&walked, walk_unwind(&walked.walk, &raw));

    cr_expect(eq(int, stack->end, UW_STACK_UNREADABLE));
    cr_expect(stack->truncated);
}

/* Two equal captures share everything; one with other bytes shares nothing it should not. */
Test(walk, equal_stacks_are_one)
{
    struct walked walked;
    struct raw_context raw;
    struct stack_window all, nothing = {0};
    int32_t first, again, other;
    uint32_t frames;

    prepare(&walked, 1);
    all = own_stack(walked.fixture);
    HERE(raw, &all);
    first = walk_unwind(&walked.walk, &raw);
    frames = walked.snapshot.n_frames;
    again = walk_unwind(&walked.walk, &raw);
    cr_expect(eq(i32, first, again));
    cr_expect(eq(u32, walked.snapshot.n_frames, frames));
    raw.window[0] = nothing;
    other = walk_unwind(&walked.walk, &raw);

    cr_expect(ne(i32, first, other));
    cr_expect(eq(u32, walked.snapshot.n_frames, frames), "its only frame is known already");
    cr_expect(eq(u32, walked.snapshot.n_stacks, 2));
}

Test(walk, pc_in_no_module_is_kept)
{
    struct walked walked;
    struct raw_context raw = {.exact = true};
    const struct report_stack *stack;

    prepare(&walked, 1);
    raw.regs.pc = 0x1234;
    stack = stack_of(&walked, walk_unwind(&walked.walk, &raw));

    cr_expect(eq(u32, stack->n_frames, 1));
    cr_expect(ne(int, stack->end, UW_END));
    cr_expect(eq(i32, walked.snapshot.frames[0].module, -1));
    cr_expect(eq(u64, walked.snapshot.frames[0].offset, 0x1234));
}

static __attribute__((noinline)) int32_t deep(struct walked *walked, unsigned n)
{
    struct raw_context raw;
    struct stack_window nothing = {0};
    int32_t stack;

    if (n > 0) {
        stack = deep(walked, n - 1);
    } else {
        HERE(raw, &nothing);
        raw.live = true;
        stack = walk_unwind(&walked->walk, &raw);
    }
    __asm__ volatile("" : "+r"(stack)); /* no tail call */
    return stack;
}

Test(walk, frame_limit)
{
    struct walked walked;
    const struct report_stack *stack;

    prepare(&walked, 1);
    stack = stack_of(&walked, deep(&walked, SNAPSHOT_MAX_FRAMES + 10));

    cr_expect(eq(u32, stack->n_frames, SNAPSHOT_MAX_FRAMES));
    cr_expect(stack->truncated);
}

Test(walk, full_tables_are_reported_not_overrun)
{
    struct walked walked;
    struct raw_context raw = {.exact = true};
    int32_t stack = 0;
    uint32_t n;

    prepare(&walked, 1);
    for (n = 0; n < 2 * walked.walk.frame_limit; n++) {
        raw.regs.pc = 0x1000 + n;
        stack = walk_unwind(&walked.walk, &raw);
        if (stack < 0)
            break;
    }
    cr_expect(eq(i32, stack, -1));
    cr_expect(eq(u32, n, walked.walk.stack_limit), "one stack each, and stacks are fewer than frames");
    cr_expect(le(u32, walked.snapshot.n_frames, walked.walk.frame_limit));
    raw.regs.pc = 0x1000;
    cr_expect(eq(i32, walk_unwind(&walked.walk, &raw), 0), "known stacks are still found");
}

Test(walk, every_small_arena_fails_cleanly)
{
    struct fixture *fixture = fixture_new();
    struct snapshot snapshot = {0};
    struct walk walk;
    size_t size, needed = 0;

    for (size = 0; size < (8u << 20); size += 64 * 1024) {
        struct arena arena = {.base = fixture->arena.base + (16 << 20), .size = size};
        int result = walk_init(&walk, &snapshot, &fixture->modules, &fixture->memory, &arena, 1000);

        if (!needed && result == 0)
            needed = size;
        cr_expect(eq(int, result, needed ? 0 : -12), "%zu bytes", size);
    }
    cr_expect(needed > 0);
}
