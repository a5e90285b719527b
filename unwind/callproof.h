/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Does a return address belong to a frame of a given function? The code in front of it tells: a word on the
 * stack that merely looks like a return address lies behind a call of something else.
 * Zone: pure. Used by recover.c and the tests.
 */
#ifndef UNWIND_CALLPROOF_H
#define UNWIND_CALLPROOF_H

#include "unwind/unwind.h"

enum call_proof {
    CALL_IMPOSSIBLE, /* whatever was called there, it does not lead to the function */
    CALL_POSSIBLE,   /* nothing speaks against it: an indirect call, code that was not understood, ... */
    CALL_PROVEN,     /* the call reaches the function: directly, through its PLT or GOT slot, by tail jumps */
};

/*
 * call_prove() - can the call in front of @return_address have led into the code in [@start, @end)?
 *
 * Bounded: tail jumps are followed three deep, over a limited number of instructions; what lies beyond is
 * possible.
 */
enum call_proof call_prove(const struct uw_space *space, uint64_t return_address, uint64_t start,
                           uint64_t end);

/* The same for a call of the function at @target, whoever makes it. */
enum call_proof call_leads_to(const struct uw_space *space, uint64_t target, uint64_t start, uint64_t end);

/* The function that the code around @pc (_start) hands on in its first argument, main; false: none is seen.
 */
bool call_find_main(const struct uw_space *space, uint64_t pc, uint64_t *ret);

#endif
