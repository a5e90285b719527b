/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One step from a frame to its caller.
 *
 * Zone: pure. No system call, no allocation, no global state; target memory and unwind tables are read only
 * through the callbacks of struct uw_space, so the same code serves the agent, probectl and the tests.
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

/* How the registers of a frame were found. In a walk it never rises again: a caller is known no better than
 * its callee. */
enum uw_trust {
    UW_TRUST_CONTEXT, /* the thread's own registers, or restored from a signal frame */
    UW_TRUST_CFI,
    UW_TRUST_FRAME_POINTER, /* no CFI: the chain of saved frame pointers; unverified */
    UW_TRUST_INFERRED,      /* recovered by evidence */
    UW_TRUST_N
};

/*
 * An exact pc is the next instruction to run. A return address may lie behind the function's last
 * instruction, so it is looked up at pc - 1. A pc restored from a signal frame is exact again.
 */
enum uw_pc_kind { UW_PC_EXACT, UW_PC_RETURN };

/* A loaded module, in run-time addresses. Sizes 0: the section does not exist. */
struct uw_module {
    uint64_t start, end; /* address range that belongs to the module */
    uint64_t bias;       /* run-time address minus ELF virtual address */
    uint64_t eh_frame_hdr, eh_frame_hdr_size;
    uint64_t eh_frame, eh_frame_size; /* only needed where there is no usable .eh_frame_hdr */
};

struct uw_rule_cache;
struct uw_arch;

/* What the unwinder may look at. Borrowed; must not change during a walk. */
struct uw_space {
    const struct uw_arch *arch;
    void *context; /* handed to the callbacks */
    /* The module that contains address, or NULL. */
    const struct uw_module *(*find_module)(void *context, uint64_t address);
    /* All size bytes at address, or false. Stack and data. */
    bool (*read_stack)(void *context, uint64_t address, void *to, size_t size);
    /* All size bytes at address, or false. Loaded segments of modules: unwind tables and code. */
    bool (*read_table)(void *context, uint64_t address, void *to, size_t size);
    struct uw_rule_cache *cache; /* NULL: none. Must be cleared when modules change. */
};

/* A frame on the way up. The caller sets regs and pc_kind for the innermost frame and zeroes the rest. */
struct uw_cursor {
    struct uw_regs regs;
    enum uw_pc_kind pc_kind;
    enum uw_trust trust;
    uint64_t cfa;      /* of the frame that was left by the last step; 0 before the first */
    bool signal_frame; /* the frame that was left was a signal frame: its caller was interrupted */
};

extern const struct uw_arch uw_arch_x86_64;

/*
 * uw_step() - recover the caller of one frame
 * @space:  borrowed
 * @cursor: in: a frame; out: its caller, registers with valid bits. Untouched unless UW_OK is returned.
 *
 * Never allocates. The loop, and its limit, belong to the caller.
 */
enum uw_status uw_step(const struct uw_space *space, struct uw_cursor *cursor);

/* The address under which code belonging to cursor's frame is looked up: pc, or pc - 1 for a return address.
 */
uint64_t uw_lookup_pc(const struct uw_cursor *cursor);

/* A sentence without a full stop, for the report; never NULL. */
const char *uw_status_text(enum uw_status status);

/*
 * A fixed-size cache from pc to unwind rule, so that a thousand equal stacks cost one table search per frame.
 * The memory is the caller's: uw_rule_cache_size() bytes, 16-aligned, and uw_rule_cache_clear()ed before use.
 */
size_t uw_rule_cache_size(void);
void uw_rule_cache_clear(struct uw_rule_cache *cache);

#endif
