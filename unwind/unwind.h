/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One step from a frame to its caller.
 *
 * Zone: pure. No system call, no allocation, no global state; target memory and unwind tables are read only
 * through the callbacks of struct uw_space, so the same code serves the agent, probectl and the tests. Every
 * function may be called from any thread that is allowed to run the callbacks, but not from a signal handler:
 * a step takes some KiB of stack. Two walks may run at once if they share no cache.
 *
 * Addresses and sizes are bytes in the address space of the target, which need not be ours. All
 * that comes from there is taken for hostile: no value of it leads to an endless loop or to a
 * read outside the callbacks.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include <stddef.h>

#include "unwind/regs.h"

/* Why a step gave no caller. Every value has a sentence in uw_status_text() that ends up in the report. */
enum uw_status {
    UW_OK = 0,
    UW_END,              /* the outermost frame: the CFI leaves the return address undefined, or pc is 0 */
    UW_NO_MODULE,        /* pc is in no known module, and no frame pointer leads on */
    UW_NO_CFI,           /* the module has no unwind information for pc, and no frame pointer leads on */
    UW_BAD_CFI,          /* unwind information is malformed or uses something unknown */
    UW_REGISTER_UNKNOWN, /* the rule needs a register that the capture does not know */
    UW_STACK_UNREADABLE, /* the rule needs stack bytes that were not captured or cannot be read */
    UW_TABLE_UNREADABLE, /* unwind information could not be read (module unloaded?) */
    UW_NOT_ADVANCING,    /* the caller's CFA would not lie above this frame's */
    UW_AMBIGUOUS,        /* such a register could not be recovered with proof */
    UW_STATUS_N
};

/*
 * How the registers of a frame were found. In a walk it never rises again: a caller is known
 * no better than its callee.
 */
enum uw_trust {
    UW_TRUST_CONTEXT, /* the thread's own registers, or restored from a signal frame */
    UW_TRUST_CFI,
    /*
     * No CFI: the chain of saved frame pointers; unverified. A function that has no frame of its own (a leaf,
     * or one interrupted in its prologue) is not in the chain, so its caller may be missing; where the
     * register holds something else, the frame may be wrong.
     */
    UW_TRUST_FRAME_POINTER,
    UW_TRUST_INFERRED, /* recovered by evidence */
    UW_TRUST_N
};

/*
 * An exact pc is the next instruction to run. A return address may lie behind the function's last
 * instruction, so it is looked up at pc - 1. A pc restored from a signal frame is exact again.
 */
enum uw_pc_kind { UW_PC_EXACT, UW_PC_RETURN };

/*
 * A loaded module, in run-time addresses. Sizes 0: the section does not exist, or it is not known where.
 * .eh_frame is only looked at where there is no .eh_frame_hdr with a sorted table, and then searched from its
 * beginning for every pc that is not in the cache.
 */
struct uw_module {
    uint64_t start, end; /* address range that belongs to the module */
    uint64_t bias;       /* run-time address minus ELF virtual address */
    uint64_t eh_frame_hdr, eh_frame_hdr_size;
    uint64_t eh_frame, eh_frame_size;
};

struct uw_rule_cache;
struct uw_arch;

/*
 * What the unwinder may look at. Borrowed; must not change during a walk. The callbacks must return in
 * bounded time, may be called with any address and size, and keep nothing: what they return or fill is used
 * at once.
 */
struct uw_space {
    const struct uw_arch *arch;
    void *context; /* handed to the callbacks */
    /* The module that contains address, or NULL; valid until the next call. */
    const struct uw_module *(*find_module)(void *context, uint64_t address);
    /* All size bytes at address, or false. Stack and data. */
    bool (*read_stack)(void *context, uint64_t address, void *to, size_t size);
    /* All size bytes at address, or false. Loaded segments of modules: unwind tables and code. */
    bool (*read_table)(void *context, uint64_t address, void *to, size_t size);
    struct uw_rule_cache *cache; /* written to; NULL: none. Must be cleared when modules change. */
};

/*
 * A frame on the way up. The caller sets regs and pc_kind for the innermost frame and zeroes the rest; regs
 * need pc and the stack pointer, more registers allow more frames. Owned by the caller, may be copied.
 */
struct uw_cursor {
    struct uw_regs regs;
    enum uw_pc_kind pc_kind;
    enum uw_trust trust;
    uint64_t cfa;      /* of the frame that was left by the last step; 0 before the first */
    bool signal_frame; /* the frame that was left was a signal frame: its caller was interrupted */
};

/* For uw_space.arch. */
extern const struct uw_arch uw_arch_x86_64;

/*
 * uw_step() - recover the caller of one frame
 * @space:  borrowed
 * @cursor: in: a frame; out: its caller, registers with valid bits. Untouched unless UW_OK is returned.
 *
 * The loop, and its limit, belong to the caller: each step moves up the stack, but a hostile one is long.
 * Return: UW_OK; UW_END at the outermost frame; else why no caller can be told. Asking again gives the same.
 */
enum uw_status uw_step(const struct uw_space *space, struct uw_cursor *cursor);

/* The address under which code of cursor's frame is looked up: pc, or pc - 1 for a return address. */
uint64_t uw_lookup_pc(const struct uw_cursor *cursor);

/* A static sentence without a full stop, for the report; never NULL, whatever status is. */
const char *uw_status_text(enum uw_status status);

/*
 * A fixed-size cache from pc to unwind rule, so that a thousand equal stacks cost one table search per frame.
 * The memory is the caller's: uw_rule_cache_size() bytes, 16-aligned, and uw_rule_cache_clear()ed before use
 * and whenever a module came or went. Not locked: one walk at a time.
 */
size_t uw_rule_cache_size(void);
void uw_rule_cache_clear(struct uw_rule_cache *cache);

#endif
