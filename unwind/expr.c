/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The DWARF stack machine (DWARF 5, 2.5 and 7.7.1). Stack and steps are bounded; it can jump backwards, so
 * the step limit is what ends a hostile loop.
 * Zone: pure.
 */
#include "unwind/expr.h"

#include "unwind/arch.h"
#include "unwind/span.h"

enum {
    OP_ADDR = 0x03,
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONST1S = 0x09,
    OP_CONST2U = 0x0a,
    OP_CONST2S = 0x0b,
    OP_CONST4U = 0x0c,
    OP_CONST4S = 0x0d,
    OP_CONST8U = 0x0e,
    OP_CONST8S = 0x0f,
    OP_CONSTU = 0x10,
    OP_CONSTS = 0x11,
    OP_DUP = 0x12,
    OP_DROP = 0x13,
    OP_OVER = 0x14,
    OP_PICK = 0x15,
    OP_SWAP = 0x16,
    OP_ROT = 0x17,
    OP_ABS = 0x19,
    OP_AND = 0x1a,
    OP_DIV = 0x1b,
    OP_MINUS = 0x1c,
    OP_MOD = 0x1d,
    OP_MUL = 0x1e,
    OP_NEG = 0x1f,
    OP_NOT = 0x20,
    OP_OR = 0x21,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_SHR = 0x25,
    OP_SHRA = 0x26,
    OP_XOR = 0x27,
    OP_BRA = 0x28,
    OP_EQ = 0x29,
    OP_GE = 0x2a,
    OP_GT = 0x2b,
    OP_LE = 0x2c,
    OP_LT = 0x2d,
    OP_NE = 0x2e,
    OP_SKIP = 0x2f,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
    OP_DEREF_SIZE = 0x94,
    OP_NOP = 0x96,
};

/* PLT entries and stack realignment need 4 values and 10 steps; __restore_rt needs 1. */
#define MAX_DEPTH 32
#define MAX_STEPS 1024
#define MAX_BLOCK (UINT64_C(1) << 16)

struct stack_machine {
    struct span span;
    uint64_t start; /* of the expression: no jump goes below */
    const struct uw_regs *regs;
    unsigned depth;
    uint64_t stack[MAX_DEPTH];
};

static void push(struct stack_machine *m, uint64_t value)
{
    if (m->depth == MAX_DEPTH)
        span_fail(&m->span, UW_BAD_CFI);
    else
        m->stack[m->depth++] = value;
}

static uint64_t pop(struct stack_machine *m)
{
    if (m->depth > 0)
        return m->stack[--m->depth];
    span_fail(&m->span, UW_BAD_CFI);
    return 0;
}

static void pick(struct stack_machine *m, unsigned index)
{
    if (index < m->depth)
        push(m, m->stack[m->depth - 1 - index]);
    else
        span_fail(&m->span, UW_BAD_CFI);
}

static void swap(struct stack_machine *m)
{
    uint64_t top = pop(m), second = pop(m);

    push(m, top);
    push(m, second);
}

/* The first becomes the third. */
static void rotate(struct stack_machine *m)
{
    uint64_t first = pop(m), second = pop(m), third = pop(m);

    push(m, first);
    push(m, third);
    push(m, second);
}

static void push_register(struct stack_machine *m, uint64_t reg, int64_t offset)
{
    if (reg == m->span.space->arch->pc_register)
        push(m, m->regs->pc + (uint64_t)offset);
    else if (reg < UW_N_REGS && uw_regs_known(m->regs, (unsigned)reg))
        push(m, m->regs->value[reg] + (uint64_t)offset);
    else
        span_fail(&m->span, UW_REGISTER_UNKNOWN);
}

static void push_register_extended(struct stack_machine *m)
{
    uint64_t reg = span_uleb(&m->span);

    push_register(m, reg, span_sleb(&m->span));
}

static void dereference(struct stack_machine *m, unsigned size)
{
    uint64_t address = pop(m), value = 0;

    if (size == 0 || size > sizeof(value))
        span_fail(&m->span, UW_BAD_CFI);
    if (!span_ok(&m->span))
        return;
    if (m->span.space->read_stack(m->span.space->context, address, &value, size))
        push(m, value);
    else
        span_fail(&m->span, UW_STACK_UNREADABLE);
}

static void jump(struct stack_machine *m, bool taken)
{
    int64_t distance = span_signed(&m->span, 2);

    if (taken && span_ok(&m->span))
        span_seek(&m->span, m->start, m->span.address + (uint64_t)distance);
}

static uint64_t negate_if(uint64_t value, bool negative)
{
    return negative ? -value : value;
}

/* Signed, truncated; the one overflow wraps. */
static uint64_t divide(struct stack_machine *m, uint64_t a, uint64_t b)
{
    bool negative = (int64_t)(a ^ b) < 0;

    a = negate_if(a, (int64_t)a < 0);
    b = negate_if(b, (int64_t)b < 0);
    if (b == 0) {
        span_fail(&m->span, UW_BAD_CFI);
        return 0;
    }
    return negate_if(a / b, negative);
}

/* Unsigned, as in gcc's and elfutils' evaluators. */
static uint64_t modulo(struct stack_machine *m, uint64_t a, uint64_t b)
{
    if (b != 0)
        return a % b;
    span_fail(&m->span, UW_BAD_CFI);
    return 0;
}

static uint64_t shift_left(uint64_t a, uint64_t n)
{
    return n < 64 ? a << n : 0;
}

static uint64_t shift_right(uint64_t a, uint64_t n)
{
    return n < 64 ? a >> n : 0;
}

static uint64_t shift_arithmetic(uint64_t a, uint64_t n)
{
    return (uint64_t)((int64_t)a >> (n < 64 ? n : 63));
}

/* @a is the former second, @b the top of the stack. */
static bool binary(struct stack_machine *m, uint8_t op, uint64_t a, uint64_t b, uint64_t *ret)
{
    int64_t sa = (int64_t)a, sb = (int64_t)b;

    /* clang-format off */
    switch (op) {
    case OP_AND: *ret = a & b; return true;
    case OP_DIV: *ret = divide(m, a, b); return true;
    case OP_MINUS: *ret = a - b; return true;
    case OP_MOD: *ret = modulo(m, a, b); return true;
    case OP_MUL: *ret = a * b; return true;
    case OP_OR: *ret = a | b; return true;
    case OP_PLUS: *ret = a + b; return true;
    case OP_SHL: *ret = shift_left(a, b); return true;
    case OP_SHR: *ret = shift_right(a, b); return true;
    case OP_SHRA: *ret = shift_arithmetic(a, b); return true;
    case OP_XOR: *ret = a ^ b; return true;
    case OP_EQ: *ret = a == b; return true;
    case OP_GE: *ret = sa >= sb; return true;
    case OP_GT: *ret = sa > sb; return true;
    case OP_LE: *ret = sa <= sb; return true;
    case OP_LT: *ret = sa < sb; return true;
    case OP_NE: *ret = a != b; return true;
    default: return false;
    }
    /* clang-format on */
}

static void binary_or_bad(struct stack_machine *m, uint8_t op)
{
    uint64_t result = 0, b = pop(m), a = pop(m);

    if (!binary(m, op, a, b, &result))
        span_fail(&m->span, UW_BAD_CFI);
    push(m, result);
}

static void absolute(struct stack_machine *m)
{
    uint64_t value = pop(m);

    push(m, negate_if(value, (int64_t)value < 0));
}

static void stack_operation(struct stack_machine *m, uint8_t op)
{
    struct span *s = &m->span;

    /* clang-format off */
    switch (op) {
    case OP_DEREF: dereference(m, 8); break;
    case OP_DEREF_SIZE: dereference(m, span_u8(s)); break;
    case OP_DUP: pick(m, 0); break;
    case OP_DROP: (void)pop(m); break;
    case OP_OVER: pick(m, 1); break;
    case OP_PICK: pick(m, span_u8(s)); break;
    case OP_SWAP: swap(m); break;
    case OP_ROT: rotate(m); break;
    case OP_ABS: absolute(m); break;
    case OP_NEG: push(m, -pop(m)); break;
    case OP_NOT: push(m, ~pop(m)); break;
    case OP_PLUS_UCONST: push(m, pop(m) + span_uleb(s)); break;
    case OP_BRA: jump(m, pop(m) != 0); break;
    case OP_SKIP: jump(m, true); break;
    case OP_NOP: break;
    default: binary_or_bad(m, op); break;
    }
    /* clang-format on */
}

static void operation(struct stack_machine *m)
{
    struct span *s = &m->span;
    uint8_t op = span_u8(s);

    /* clang-format off */
    switch (op) {
    case OP_ADDR:
    case OP_CONST8U:
    case OP_CONST8S: push(m, span_unsigned(s, 8)); break;
    case OP_CONST1U: push(m, span_unsigned(s, 1)); break;
    case OP_CONST1S: push(m, (uint64_t)span_signed(s, 1)); break;
    case OP_CONST2U: push(m, span_unsigned(s, 2)); break;
    case OP_CONST2S: push(m, (uint64_t)span_signed(s, 2)); break;
    case OP_CONST4U: push(m, span_unsigned(s, 4)); break;
    case OP_CONST4S: push(m, (uint64_t)span_signed(s, 4)); break;
    case OP_CONSTU: push(m, span_uleb(s)); break;
    case OP_CONSTS: push(m, (uint64_t)span_sleb(s)); break;
    case OP_BREGX: push_register_extended(m); break;
    default:
        if (op >= OP_LIT0 && op <= OP_LIT31)
            push(m, op - OP_LIT0);
        else if (op >= OP_BREG0 && op <= OP_BREG31)
            push_register(m, op - OP_BREG0, span_sleb(s));
        else
            stack_operation(m, op);
        break;
    }
    /* clang-format on */
}

enum uw_status expr_evaluate(const struct uw_space *space, uint64_t block, const struct uw_regs *regs,
                             const uint64_t *initial, uint64_t *ret_value)
{
    uint8_t buffer[SPAN_BUFFER_SIZE];
    struct stack_machine m;
    uint64_t size;

    m.regs = regs;
    m.depth = 0;
    span_init(&m.span, space, block, block + MAX_BLOCK, buffer, sizeof(buffer));
    size = span_uleb(&m.span);
    if (size > span_left(&m.span))
        span_fail(&m.span, UW_BAD_CFI);
    m.span.end = m.span.address + size;
    m.start = m.span.address;
    if (initial)
        push(&m, *initial);
    for (unsigned i = 0; span_left(&m.span) > 0; i++) {
        if (i == MAX_STEPS)
            span_fail(&m.span, UW_BAD_CFI);
        operation(&m);
    }
    size = pop(&m);
    if (span_ok(&m.span))
        *ret_value = size;
    return m.span.status;
}
