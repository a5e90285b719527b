/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * x86-64 instructions as far as recovery needs them: where the next one begins, where control goes, and what
 * happens to the stack and frame pointer. Everything else is INSN_OTHER; what is not known for certain is no
 * instruction at all. Zone: pure. Used by insn_x86_64.c, extent.c, callproof.c and the tests.
 */
#ifndef UNWIND_INSN_H
#define UNWIND_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Intel SDM 2.3.11. */
#define INSN_MAX_LENGTH 15

enum insn_kind {
    INSN_OTHER,         /* touches neither rsp nor rbp, and goes on */
    INSN_CALL,          /* value: target */
    INSN_CALL_SLOT,     /* call *x(%rip); value: address of the slot */
    INSN_CALL_INDIRECT, /* call *register or memory */
    INSN_JUMP,          /* value: target */
    INSN_BRANCH,        /* conditional; value: target */
    INSN_JUMP_SLOT,     /* jmp *x(%rip); value: address of the slot */
    INSN_JUMP_INDIRECT,
    INSN_RETURN,
    INSN_STOP,          /* ud2, hlt, int3: does not go on */
    INSN_SP_ADD,        /* rsp += value: push, pop, sub, add, lea */
    INSN_POP_FRAME,     /* pop %rbp: rsp += 8, rbp is no longer this function's */
    INSN_SP_FROM_FRAME, /* rsp = rbp + value */
    INSN_SP_ALIGN,      /* rsp &= -value, a power of two */
    INSN_SP_UNKNOWN,    /* rsp becomes something else */
    INSN_FRAME_FROM_SP, /* rbp = rsp + value */
    INSN_FRAME_UNKNOWN, /* rbp becomes something else */
    INSN_LEAVE,         /* rsp = rbp; pop %rbp */
    INSN_LEA_FRAME,     /* another register = rbp + value */
    INSN_LEA,           /* %rdi = value (an address known from the code): what _start does with main */
    INSN_LOAD,          /* %rdi = word at the address value */
    INSN_KIND_N
};

struct insn {
    uint8_t length;
    enum insn_kind kind;
    int64_t value;
};

/*
 * insn_decode() - the instruction at @code, which lies at @address
 * @size: bytes that may be read, at most INSN_MAX_LENGTH are
 *
 * Return: false if it is cut, not valid, or not known.
 */
bool insn_decode(const uint8_t *code, size_t size, uint64_t address, struct insn *ret);

#endif
