/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The test process itself as a thing to unwind: its modules and its memory, read by process_vm_readv so that
 * a wrong address is an error and not a crash; and the caller's own registers. Zone: tests.
 */
#ifndef TESTS_UNIT_UNWIND_SELF_H
#define TESTS_UNIT_UNWIND_SELF_H

#include <stddef.h>
#include <sys/types.h>

#include "unwind/elf.h"
#include "unwind/unwind.h"

#define SELF_MAX_MODULES 64

struct self_module {
    struct uw_module module;
    struct elf_image image;
    char name[256]; /* empty: the program; "[vdso]" */
};

struct self {
    struct uw_space space;
    struct self_module modules[SELF_MAX_MODULES];
    size_t n_modules;
    size_t n_table_reads, n_stack_reads;
    bool direct;    /* memcpy instead of process_vm_readv: for benchmarks */
    pid_t stack_of; /* a child whose stack is meant, 0: ours. It has our modules at our addresses. */
};

/* Finds all modules through elf_read_image(). The result points into itself: not copyable. */
void self_init(struct self *self);

/* The registers as they are in the function that calls this macro. */
#define SELF_CURSOR(cursor)                                                                           \
    do {                                                                                              \
        uint64_t self_rip_, *self_v_ = (cursor)->regs.value;                                          \
        *(cursor) = (struct uw_cursor){.pc_kind = UW_PC_EXACT};                                       \
        __asm__ volatile(                                                                             \
            "lea 0(%%rip), %0\n\t"                                                                    \
            "movq %%rbx, 24(%1)\n\tmovq %%rbp, 48(%1)\n\tmovq %%rsp, 56(%1)\n\t"                      \
            "movq %%r12, 96(%1)\n\tmovq %%r13, 104(%1)\n\tmovq %%r14, 112(%1)\n\tmovq %%r15, 120(%1)" \
            : "=&a"(self_rip_)                                                                        \
            : "d"(self_v_)                                                                            \
            : "memory");                                                                              \
        (cursor)->regs.pc = self_rip_;                                                                \
        (cursor)->regs.valid = 1 << 3 | 1 << 6 | 1 << 7 | 0xf000;                                     \
    } while (0)

/* Steps to the end and notes each pc, the first included. Returns why it ended. */
enum uw_status self_walk(struct self *self, struct uw_cursor *cursor, uint64_t *pcs, size_t max,
                         size_t *ret_n);

#endif
