/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See signal_bounds.h.
 * Zone: probe thread.
 */
#include "agent/backends/signal_bounds.h"

#include "agent/backends/task.h"
#include "agent/sys.h"

#include "agent/nolibc.h"

/* Below it a signal frame with AVX-512 state may not fit (facts.md 4: 16 KiB stacks die). */
#define SMALL_STACK ((uint64_t)64 * 1024)
#define PAGE ((uint64_t)4096)
/*
 * Untouched pages below the touched part of a stack that are tried, so that it may
 * grow until the signal comes.
 */
#define SLACK_PAGES 8
#define MAX_TRIED_PAGES 64

/*
 * How far down from its top a stack can be read: below an invisible guard (MADV_GUARD_INSTALL) there may be
 * another stack in the same mapping. What is resident is no guard; other pages are tried, but not all that
 * were never used.
 */
static uint64_t readable_low(const struct capture_session *session, const struct task_stack *stack,
                             bool may_ask_residency, bool *ret_bounded)
{
    uint8_t *resident = (uint8_t *)session->text;
    uint64_t end = (stack->top + PAGE - 1) & ~(PAGE - 1), low = stack->low, at;
    unsigned tried = 0, untouched = 0;

    if (end - low > CAPTURE_TEXT * PAGE)
        low = end - CAPTURE_TEXT * PAGE;
    *ret_bounded = true;
    if (!may_ask_residency || sys_mincore((void *)(uintptr_t)low, end - low, resident) < 0)
        for (uint64_t i = 0; i < (end - low) / PAGE; i++)
            resident[i] = 0;
    for (at = end; at > low; at -= PAGE) {
        uint8_t byte;

        if (resident[(at - PAGE - low) / PAGE] & 1) {
            untouched = 0;
            continue;
        }
        if (tried >= MAX_TRIED_PAGES || (untouched >= SLACK_PAGES && end - at >= SMALL_STACK)) {
            *ret_bounded = false;
            break;
        }
        if (memory_read(session->memory, at - PAGE, &byte, 1) != 1)
            break;
        tried++;
        untouched++;
    }
    return at;
}

enum capture_reason signal_bounds(const struct capture_session *session, struct slot *slot, int32_t tid,
                                  bool may_ask_residency)
{
    struct task_stack stack;
    bool bounded;

    slot->stack_low = slot->stack_top = 0; /* registers only */
    task_own_stack(session, tid, &stack);
    if (!stack.top)
        return REASON_NONE;
    slot->stack_low = readable_low(session, &stack, may_ask_residency, &bounded);
    slot->stack_top = stack.top & ~UINT64_C(7);
    /* main's stack grows by itself */
    if (bounded && tid != session->main_tid && slot->stack_top - slot->stack_low < SMALL_STACK)
        return REASON_SMALL_STACK;
    return REASON_NONE;
}
