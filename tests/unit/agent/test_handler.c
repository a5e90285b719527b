/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * agent/backends/signal_handler.c called like any function, with contexts made by hand; what it does inside
 * real signals is in test_signal.c, that it makes no calls in tests/contract.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/backends/signal_handler.h"
#include "agent/backends/slot.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* agent_host brings the real one along with signal.c */
#define GENERATION UINT64_C(0x123456)
#define STACK_WORDS 512u

TestSuite(handler, .timeout = 5);

static uint64_t stack[STACK_WORDS], bytes[STACK_WORDS + 2];
static struct context_frame frame;
static struct context_siginfo info;
static struct slot *slot;

static void arm(unsigned index)
{
    slot = &libprobe_slots[index];
    memset(slot, 0xee, sizeof(*slot));
    for (unsigned i = 0; i < STACK_WORDS; i++)
        stack[i] = UINT64_C(0x5000000000000000) + i;
    memset(bytes, 0xaa, sizeof(bytes));
    slot->word = slot_word(GENERATION, SLOT_ARMED);
    slot->stack_low = (uintptr_t)stack;
    slot->stack_top = (uintptr_t)(stack + STACK_WORDS);
    slot->bytes = bytes;
    slot->inner_size = sizeof(stack) / 4 * 3;
    slot->outer_size = sizeof(stack) / 4;
    info = (struct context_siginfo){
        .signal = 64, .code = CONTEXT_SI_QUEUE, .value = GENERATION * SLOT_COUNT + index};
    frame = (struct context_frame){.rsp = (uintptr_t)(stack + 100), .rip = (uintptr_t)&arm};
}

static void deliver(void)
{
    libprobe_capture_signal(64, &info, &frame);
}

static void expect_untouched(const char *what)
{
    cr_expect(eq(u64, slot->registers[0], UINT64_C(0xeeeeeeeeeeeeeeee)), "%s: registers", what);
    cr_expect(eq(u64, slot->window[0].size, UINT64_C(0xeeeeeeeeeeeeeeee)), "%s: window", what);
    cr_expect(eq(u64, bytes[0], UINT64_C(0xaaaaaaaaaaaaaaaa)), "%s: bytes", what);
}

Test(handler, fills_the_slot_and_publishes)
{
    arm(SLOT_COUNT - 1);
    frame = (struct context_frame){.r8 = 8,
                                   .r9 = 9,
                                   .r10 = 10,
                                   .r11 = 11,
                                   .r12 = 12,
                                   .r13 = 13,
                                   .r14 = 14,
                                   .r15 = 15,
                                   .rdi = 5,
                                   .rsi = 4,
                                   .rbp = 6,
                                   .rbx = 3,
                                   .rdx = 1,
                                   .rax = 0,
                                   .rcx = 2,
                                   .rsp = (uintptr_t)(stack + 100),
                                   .rip = (uintptr_t)&deliver};
    deliver();

    cr_assert(eq(u64, slot->word, slot_word(GENERATION, SLOT_FULL)));
    for (unsigned i = 0; i < 16; i++)
        cr_expect(eq(u64, slot->registers[i], i == 7 ? (uintptr_t)(stack + 100) : i), "DWARF register %u", i);
    cr_expect(eq(u64, slot->registers[16], (uintptr_t)&deliver));
    /* from the red zone to the top, and not a word more */
    cr_expect(eq(u64, slot->window[0].base, (uintptr_t)(stack + 100 - 16)));
    cr_expect(eq(u64, slot->window[0].size, (STACK_WORDS - 84) * 8));
    cr_expect(eq(u64, slot->window[1].size, 0));
    cr_expect(not(memcmp(bytes, stack + 84, (STACK_WORDS - 84) * 8)));
    cr_expect(eq(u64, bytes[STACK_WORDS - 84], UINT64_C(0xaaaaaaaaaaaaaaaa)));
    cr_expect(ge(u64, slot->left, slot->entered));
}

Test(handler, leaves_what_it_does_not_hold)
{
    static const struct {
        const char *what;
        uint64_t word, value;
        int32_t code;
    } rows[] = {
        {"free", GENERATION << 2 | SLOT_FREE, GENERATION * SLOT_COUNT + 3, CONTEXT_SI_QUEUE},
        {"claimed by another", GENERATION << 2 | SLOT_BUSY, GENERATION * SLOT_COUNT + 3, CONTEXT_SI_QUEUE},
        {"full", GENERATION << 2 | SLOT_FULL, GENERATION * SLOT_COUNT + 3, CONTEXT_SI_QUEUE},
        {"armed for a newer dump", (GENERATION + 1) << 2 | SLOT_ARMED, GENERATION * SLOT_COUNT + 3,
         CONTEXT_SI_QUEUE},
        {"armed for an older dump", (GENERATION - 1) << 2 | SLOT_ARMED, GENERATION * SLOT_COUNT + 3,
         CONTEXT_SI_QUEUE},
        {"not our value", GENERATION << 2 | SLOT_ARMED, 3, CONTEXT_SI_QUEUE},
        {"any value", GENERATION << 2 | SLOT_ARMED, UINT64_MAX, CONTEXT_SI_QUEUE},
        {"sent by kill", GENERATION << 2 | SLOT_ARMED, GENERATION * SLOT_COUNT + 3, 0},
        {"sent by tgkill", GENERATION << 2 | SLOT_ARMED, GENERATION * SLOT_COUNT + 3, -6},
        {"sent by a message queue", GENERATION << 2 | SLOT_ARMED, GENERATION * SLOT_COUNT + 3, -3},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        arm(3);
        slot->word = rows[i].word;
        info.value = rows[i].value;
        info.code = rows[i].code;
        deliver();
        cr_expect(eq(u64, slot->word, rows[i].word), "%s", rows[i].what);
        expect_untouched(rows[i].what);
    }
}

Test(handler, second_delivery_finds_the_slot_full)
{
    arm(0);
    deliver();
    slot->registers[0] = 77;
    frame.rax = 5;
    deliver();

    cr_expect(eq(u64, slot->registers[0], 77));
}

/* Outside of the thread's own stack nothing is read: the page behind may be a guard. */
Test(handler, foreign_stack_pointers_give_registers_only)
{
    uint64_t low = (uintptr_t)stack, top = (uintptr_t)(stack + STACK_WORDS);
    const struct {
        const char *what;
        uint64_t sp, low, top;
        bool copied;
    } rows[] = {
        {"own stack", low + 1024, low, top, true},
        {"at the top", top, low, top, true},
        {"above the top", top + 8, low, top, false},
        {"the red zone begins below", low + 120, low, top, false},
        {"just inside", low + 136, low, top, true},
        {"far below", 0x1000, low, top, false},
        {"zero", 0, low, top, false},
        {"the highest", UINT64_MAX, low, top, false},
        {"unknown bounds", low + 1024, 0, 0, false},
        {"unaligned", low + 1027, low, top, true},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        arm(1);
        slot->stack_low = rows[i].low;
        slot->stack_top = rows[i].top;
        frame.rsp = rows[i].sp;
        deliver();
        cr_expect(eq(u64, slot->word, slot_word(GENERATION, SLOT_FULL)), "%s", rows[i].what);
        cr_expect(eq(u64, slot->registers[7], rows[i].sp), "%s", rows[i].what);
        if (!rows[i].copied) {
            cr_expect(eq(u64, slot->window[0].size, 0), "%s", rows[i].what);
            cr_expect(eq(u64, bytes[0], UINT64_C(0xaaaaaaaaaaaaaaaa)), "%s", rows[i].what);
            continue;
        }
        cr_expect(eq(u64, slot->window[0].base, (rows[i].sp - 128) & ~UINT64_C(7)), "%s", rows[i].what);
        cr_expect(eq(u64, slot->window[0].base + slot->window[0].size, top), "%s", rows[i].what);
        cr_expect(not(memcmp(bytes, (void *)slot->window[0].base, slot->window[0].size)), "%s", rows[i].what);
    }
}

Test(handler, long_stacks_keep_both_ends)
{
    arm(2);
    slot->inner_size = 96;
    slot->outer_size = 32;
    frame.rsp = (uintptr_t)(stack + 17);
    deliver();

    cr_expect(eq(u64, slot->window[0].base, (uintptr_t)(stack + 1)));
    cr_expect(eq(u64, slot->window[0].size, 96));
    cr_expect(eq(u64, slot->window[1].base, (uintptr_t)(stack + STACK_WORDS) - 32));
    cr_expect(eq(u64, slot->window[1].size, 32));
    cr_expect(not(memcmp(bytes, stack + 1, 96)));
    cr_expect(not(memcmp(bytes + 12, stack + STACK_WORDS - 4, 32)));
    cr_expect(eq(u64, bytes[16], UINT64_C(0xaaaaaaaaaaaaaaaa)));
}

Test(handler, exactly_as_long_as_the_slot_is_whole)
{
    arm(2);
    slot->inner_size = (STACK_WORDS - 84) * 8 / 4 * 3 / 8 * 8;
    slot->outer_size = (STACK_WORDS - 84) * 8 - slot->inner_size;
    deliver();

    cr_expect(eq(u64, slot->window[0].size, (STACK_WORDS - 84) * 8));
    cr_expect(eq(u64, slot->window[1].size, 0));
}

/* Code bytes that end where rip points to, at the given distance from the start of a page. */
static uint64_t code_before(const uint8_t *code, size_t size, size_t page_offset)
{
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(pages != MAP_FAILED);
    memcpy(pages + 4096 + page_offset - size, code, size);
    return (uintptr_t)pages + 4096 + page_offset;
}

#define MOV(number) 0xb8, (number)&0xff, (number) >> 8, 0, 0
#define SYSCALL 0x0f, 0x05
#define CODE(...) {__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static const struct {
    const char *what;
    uint64_t rax;
    uint8_t code[24];
    size_t size;
    int64_t number; /* -1: must be left alone */
} undo_rows[] = {
    {"poll", (uint64_t)-EINTR, CODE(MOV(7), SYSCALL), 7},
    {"epoll_wait", (uint64_t)-EINTR, CODE(MOV(232), SYSCALL), 232},
    {"clock_nanosleep", (uint64_t)-EINTR, CODE(MOV(230), SYSCALL), 230},
    {"futex", (uint64_t)-EINTR, CODE(MOV(202), SYSCALL), 202},
    {"pselect6", (uint64_t)-EINTR, CODE(MOV(270), SYSCALL), 270},
    {"futex_waitv", (uint64_t)-EINTR, CODE(MOV(449), SYSCALL), 449},
    {"read, xor eax", (uint64_t)-EINTR, CODE(0x90, 0x90, 0x90, 0x31, 0xc0, SYSCALL), 0},
    {"another error", (uint64_t)-EAGAIN, CODE(MOV(7), SYSCALL), -1},
    {"a result", 4, CODE(MOV(7), SYSCALL), -1},
    {"EINTR in 32 bits", (uint32_t)-EINTR, CODE(MOV(7), SYSCALL), -1},
    {"no syscall instruction", (uint64_t)-EINTR, CODE(MOV(7), 0x90, 0x90), -1},
    {"int 0x80", (uint64_t)-EINTR, CODE(MOV(7), 0xcd, 0x80), -1},
    {"number in another register", (uint64_t)-EINTR, CODE(0xb9, 7, 0, 0, 0, SYSCALL), -1},
    {"syscall(): number unknown", (uint64_t)-EINTR, CODE(0x4c, 0x8b, 0x4c, 0x24, 0x08, SYSCALL), -1},
    {"connect goes on by itself", (uint64_t)-EINTR, CODE(MOV(42), SYSCALL), -1},
    {"close has closed", (uint64_t)-EINTR, CODE(MOV(3), SYSCALL), -1},
    {"beyond the table", (uint64_t)-EINTR, CODE(MOV(0xfff0), SYSCALL), -1},
    {"32-bit number", (uint64_t)-EINTR, CODE(0xb8, 7, 0, 0, 0x40, SYSCALL), -1},
    {"recvfrom: one load", (uint64_t)-EINTR, CODE(MOV(45), 0x8b, 0x7c, 0x24, 0x08, SYSCALL), 45},
    {"one load, 64 bits", (uint64_t)-EINTR, CODE(MOV(45), 0x48, 0x8b, 0x74, 0x24, 0x10, SYSCALL), 45},
    {"two loads", (uint64_t)-EINTR,
     CODE(MOV(281), 0x48, 0x8b, 0x54, 0x24, 0x10, 0x4c, 0x8b, 0x44, 0x24, 0x48, SYSCALL), 281},
    {"two loads, 32 bits", (uint64_t)-EINTR,
     CODE(MOV(44), 0x8b, 0x54, 0x24, 0x48, 0x8b, 0x7c, 0x24, 0x08, SYSCALL), 44},
    {"a load of r8", (uint64_t)-EINTR, CODE(MOV(44), 0x44, 0x8b, 0x44, 0x24, 0x08, SYSCALL), 44},
    {"a load of the number", (uint64_t)-EINTR, CODE(MOV(44), 0x8b, 0x44, 0x24, 0x08, SYSCALL), -1},
    {"a load by another base", (uint64_t)-EINTR, CODE(MOV(44), 0x8b, 0x7d, 0x08, SYSCALL), -1},
    {"something else between", (uint64_t)-EINTR, CODE(MOV(44), 0x31, 0xff, SYSCALL), -1},
    {"three loads", (uint64_t)-EINTR,
     CODE(MOV(44), 0x8b, 0x7c, 0x24, 8, 0x8b, 0x7c, 0x24, 8, 0x8b, 0x7c, 0x24, 8, 0x90, SYSCALL), -1},
};

Test(handler, undoes_eintr_only_where_it_is_certain)
{
    for (size_t i = 0; i < N_ELEMENTS(undo_rows); i++) {
        uint64_t rip = code_before(undo_rows[i].code, undo_rows[i].size, 64);
        bool undone = undo_rows[i].number >= 0;

        arm(0);
        frame.rip = rip;
        frame.rax = undo_rows[i].rax;
        deliver();
        cr_expect(eq(u64, frame.rip, undone ? rip - 2 : rip), "%s", undo_rows[i].what);
        cr_expect(eq(u64, frame.rax, undone ? (uint64_t)undo_rows[i].number : undo_rows[i].rax), "%s",
                  undo_rows[i].what);
        cr_expect(eq(u64, slot->registers[16], rip), "%s: the sample has the pc as it was found",
                  undo_rows[i].what);
    }
}

/*
 * A signal comes late to a thread that had no processor, so it has begun nothing since, or that was in a
 * handler of the program's which held ours off: the EINTR is that handler's, and the program may be waiting
 * for it.
 */
Test(handler, leaves_an_eintr_alone_when_it_comes_late)
{
    uint64_t rip = code_before(undo_rows[0].code, 7, 64);

    arm(0);
    slot->word = slot_word(GENERATION + 1, SLOT_FREE);
    frame.rip = rip;
    frame.rax = (uint64_t)-EINTR;
    deliver();

    cr_expect(eq(u64, frame.rip, rip));
    cr_expect(eq(u64, frame.rax, (uint64_t)-EINTR));
    expect_untouched("late");
}

Test(handler, does_not_read_the_page_before_the_code)
{
    for (size_t i = 0; i < N_ELEMENTS(undo_rows); i++) {
        for (size_t offset = 0; offset <= undo_rows[i].size; offset++) {
            uint64_t rip = code_before(undo_rows[i].code, undo_rows[i].size, offset);
            bool undone = undo_rows[i].number > 0 && offset == undo_rows[i].size;

            mprotect((void *)((rip - offset) - 4096), 4096, PROT_NONE);
            arm(0);
            frame.rip = rip;
            frame.rax = undo_rows[i].rax;
            deliver();
            if (undo_rows[i].number != 0)
                cr_expect(eq(u64, frame.rip, undone ? rip - 2 : rip), "%s, offset %zu", undo_rows[i].what,
                          offset);
        }
    }
}

Test(handler, kernel_layouts)
{
    /* what the kernel's own headers say, included apart from libc's */
    cr_expect(eq(sz, sizeof(struct context_siginfo), 32ul));
    cr_expect(eq(sz, offsetof(struct context_frame, rsp), 160ul));
    cr_expect(eq(sz, offsetof(struct context_frame, rdi), 104ul));
}
