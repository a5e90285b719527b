/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * x86-64: register roles (psABI 3.2), signal trampolines, PLT entries and call instructions by their bytes.
 * Zone: pure.
 */
#include "unwind/arch.h"

#include "unwind/rule.h"

/* As many bytes as are readable, up to size, ending at @end. Returns how many; they lie at the end of @to. */
static size_t read_before(const struct uw_space *space, uint64_t end, uint8_t *to, size_t size)
{
    for (size_t n = size; n > 0; n--) {
        if (space->read_table(space->context, end - n, to + size - n, n))
            return n;
    }
    return 0;
}

/*
 * Length of the ModRM operand of an indirect near call, FF /2 (Intel SDM 2.1.5), modrm byte included; 0: it
 * is not one. @modrm and what follows must be readable up to @size.
 */
static size_t call_operand_length(const uint8_t *modrm, size_t size)
{
    unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7;
    size_t length = 1;

    if ((modrm[0] >> 3 & 7) != 2)
        return 0;
    if (mod == 3)
        return 1;
    if (rm == 4) {
        if (size < 2)
            return 0;
        length = 2;
        if (mod == 0 && (modrm[1] & 7) == 5)
            return length + 4;
    }
    if (mod == 0)
        return rm == 5 ? length + 4 : length;
    return length + (mod == 1 ? 1 : 4);
}

/*
 * What sa_restorer points to: rt_sigreturn is number 15. libcs and Go write one of
 *   48 c7 c0 0f 00 00 00   mov  $15,%rax
 *   b8 0f 00 00 00         mov  $15,%eax
 * before 0f 05 (syscall).
 */
static const uint8_t restore_rax[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
static const uint8_t restore_eax[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

static bool code_is(const struct uw_space *space, uint64_t address, const uint8_t *bytes, size_t size)
{
    uint8_t code[sizeof(restore_rax)];

    return size <= sizeof(code) && space->read_table(space->context, address, code, size) &&
           __builtin_memcmp(code, bytes, size) == 0;
}

static bool starts_trampoline(const struct uw_space *space, uint64_t pc)
{
    return code_is(space, pc, restore_rax, sizeof(restore_rax)) ||
           code_is(space, pc, restore_eax, sizeof(restore_eax));
}

/* Also interrupted between its two instructions. */
static bool is_trampoline(const struct uw_space *space, const struct uw_cursor *cursor)
{
    uint64_t pc = cursor->regs.pc;

    return starts_trampoline(space, pc) ||
           (cursor->pc_kind == UW_PC_EXACT && (code_is(space, pc - 7, restore_rax, sizeof(restore_rax)) ||
                                               code_is(space, pc - 5, restore_eax, sizeof(restore_eax))));
}

#define LONGEST_CALL 7

/* A signal handler returns to its trampoline, everything else behind a call. */
static enum uw_call returns_to(const struct uw_space *space, uint64_t return_address)
{
    uint8_t code[LONGEST_CALL];
    size_t n = read_before(space, return_address, code, sizeof(code));

    if (n == 0)
        return starts_trampoline(space, return_address) ? UW_CALL_YES : UW_CALL_UNREADABLE;
    if (n >= 5 && code[sizeof(code) - 5] == 0xe8) /* call rel32 */
        return UW_CALL_YES;
    for (size_t length = 2; length <= n; length++) {
        const uint8_t *call = code + sizeof(code) - length;

        if (call[0] == 0xff && call_operand_length(call + 1, length - 1) == length - 1)
            return UW_CALL_YES;
    }
    return starts_trampoline(space, return_address) ? UW_CALL_YES : UW_CALL_NO;
}

/*
 * Linux puts struct rt_sigframe { pretcode; struct ucontext uc; ... } on the stack
 * (arch/x86/include/asm/sigframe.h); the handler's return popped pretcode, so uc lies at the stack pointer.
 * sigcontext follows 40 bytes into it.
 */
#define UC_SIGCONTEXT 40

static enum uw_status step_trampoline(const struct uw_space *space, const struct uw_cursor *cursor,
                                      struct uw_cursor *next)
{
    /* struct sigcontext_64: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip; here as DWARF numbers. */
    static const uint8_t order[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7};
    uint64_t saved[sizeof(order) + 1];

    if (!uw_regs_known(&cursor->regs, UW_X86_64_RSP) || !is_trampoline(space, cursor))
        return UW_NO_CFI;
    if (!space->read_stack(space->context, cursor->regs.value[UW_X86_64_RSP] + UC_SIGCONTEXT, saved,
                           sizeof(saved)))
        return UW_STACK_UNREADABLE;
    next->regs.valid = 0;
    for (size_t i = 0; i < sizeof(order); i++)
        uw_regs_set(&next->regs, order[i], saved[i]);
    next->regs.pc = saved[sizeof(order)];
    return UW_OK;
}

/* Code around a pc, as far as it can be read: n bytes from at[0] on, n_before bytes up to
 * before[sizeof(before)]. */
struct code {
    uint8_t at[16], before[16];
    size_t n, n_before;
};

static bool follows(const struct code *code, size_t offset, const uint8_t *bytes, size_t n)
{
    return offset + n <= code->n && __builtin_memcmp(code->at + offset, bytes, n) == 0;
}

static bool precedes(const struct code *code, size_t distance, const uint8_t *bytes, size_t n)
{
    return distance <= code->n_before &&
           __builtin_memcmp(code->before + sizeof(code->before) - distance, bytes, n) == 0;
}

#define FOLLOWS(code, offset, ...) \
    follows(code, offset, (const uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))
#define PRECEDES(code, distance, ...) \
    precedes(code, distance, (const uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))

/*
 * How many bytes lie on top of the return address; false: this is no such place. Forms of PLTs without CFI
 * (lld, gold): lazy entry   ff 25 rel32  jmp *slot(%rip)   [0]   68 imm32  push $n  [0]   e9 rel32  jmp head
 * [8] head         ff 35 rel32  push slot(%rip)   [8]   ff 25 rel32  jmp *slot(%rip)  [16] with IBT     f3 0f
 * 1e fa  endbr64           [0]   then one of the above and the ends of a function that keeps a frame pointer,
 * where the frame pointer is still, or already, the caller's: first        55           push %rbp         [0]
 * 48 89 e5  mov %rsp,%rbp  [8] last         c3           ret               [0] In brackets: bytes pushed
 * before that instruction runs. Only an exact pc can be at one of them.
 */
static bool known_depth(const struct code *code, uint64_t *ret)
{
    *ret = 0;
    if (FOLLOWS(code, 0, 0xff, 0x25)) {
        *ret = PRECEDES(code, 6, 0xff, 0x35) ? 16 : 0;
        return true;
    }
    if (FOLLOWS(code, 0, 0x68))
        return FOLLOWS(code, 5, 0xe9) && PRECEDES(code, 6, 0xff, 0x25);
    if (FOLLOWS(code, 0, 0xf3, 0x0f, 0x1e, 0xfa))
        return FOLLOWS(code, 4, 0xff, 0x25) || FOLLOWS(code, 4, 0x55);
    if (FOLLOWS(code, 0, 0x55) || FOLLOWS(code, 0, 0xc3))
        return true;
    *ret = 8;
    if (FOLLOWS(code, 0, 0xff, 0x35))
        return FOLLOWS(code, 6, 0xff, 0x25);
    if (FOLLOWS(code, 0, 0xe9))
        return PRECEDES(code, 11, 0xff, 0x25) && PRECEDES(code, 5, 0x68);
    return FOLLOWS(code, 0, 0x48, 0x89, 0xe5) && PRECEDES(code, 1, 0x55);
}

static bool depth_at(const struct uw_space *space, uint64_t pc, uint64_t *ret)
{
    struct code code = {.n = sizeof(code.at)};

    while (code.n > 0 && !space->read_table(space->context, pc, code.at, code.n))
        code.n--;
    code.n_before = read_before(space, pc, code.before, sizeof(code.before));
    return known_depth(&code, ret);
}

/* Also the place that a call through a null pointer reaches: nothing has run since the call. */
static enum uw_status step_by_code(const struct uw_space *space, const struct uw_cursor *cursor,
                                   struct uw_cursor *next)
{
    uint64_t depth = 0, address, return_address;

    if (cursor->pc_kind != UW_PC_EXACT || !uw_regs_known(&cursor->regs, UW_X86_64_RSP))
        return UW_NO_CFI;
    if (cursor->regs.pc != 0 && !depth_at(space, cursor->regs.pc, &depth))
        return UW_NO_CFI;
    address = cursor->regs.value[UW_X86_64_RSP] + depth;
    if (!space->read_stack(space->context, address, &return_address, sizeof(return_address)) ||
        return_address == 0 || !space->find_module(space->context, return_address - 1) ||
        returns_to(space, return_address) != UW_CALL_YES)
        return UW_NO_CFI;
    if (!rule_advances(space->arch, cursor, address + 8, false))
        return UW_NOT_ADVANCING;
    next->regs.valid &= space->arch->preserved;
    uw_regs_set(&next->regs, UW_X86_64_RSP, address + 8);
    next->regs.pc = return_address;
    next->cfa = address + 8;
    next->signal_frame = false;
    next->pc_kind = UW_PC_RETURN;
    next->trust = rule_trust(cursor, UW_TRUST_INFERRED);
    return UW_OK;
}

/* rbx, rbp, r12 to r15 (psABI, figure 3.4). */
#define PRESERVED (1 << 3 | 1 << 6 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15)

const struct uw_arch uw_arch_x86_64 = {
    .n_regs = 17,
    .stack_pointer = UW_X86_64_RSP,
    .frame_pointer = UW_X86_64_RBP,
    .return_address = UW_X86_64_RA,
    .return_address_offset = -8,
    .pc_register = UW_X86_64_RA, /* linkers say "rip" so in the CFI of PLT entries */
    .preserved = PRESERVED,
    .n_saved = 6,
    .saved = {3, 6, 12, 13, 14, 15},
    .step_trampoline = step_trampoline,
    .step_by_code = step_by_code,
    .returns_to = returns_to,
};
