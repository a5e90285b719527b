/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The handler: a running thread copies its own registers and stack into a slot.
 *
 * Zone: handler. Runs on any thread of the program, at any instruction, perhaps on a small alternate stack,
 * perhaps under a seccomp filter that kills. So: no system call, no call at all, no lock, no thread-local
 * storage, no errno, no floating point, at most 128 bytes of stack. Loops copy words, and volatile keeps them
 * from becoming memcpy. It reads the interrupted thread's own stack between bounds that the probe thread has
 * found to be readable, writes its slot, and nothing else. tests/contract proves this on the object.
 */
#include "agent/backends/signal_handler.h"

#include "agent/backends/slot.h"
#include "agent/backends/x86_64/restart.h"

CONTEXT_INLINE void copy_words(uint64_t *to, const volatile uint64_t *from, uint64_t n)
{
    while (n--)
        *to++ = *from++;
}

/*
 * The innermost and the outermost part when the whole is longer than the slot; nothing when sp is elsewhere.
 */
CONTEXT_INLINE void copy_stack(struct slot *slot, uint64_t sp)
{
    slot->window[0].size = 0;
    slot->window[1].size = 0;
    if (sp > slot->stack_top || sp < slot->stack_low + CONTEXT_RED_ZONE + sizeof(uint64_t))
        return;
    slot->window[0].base = (sp - CONTEXT_RED_ZONE) & ~UINT64_C(7);
    slot->window[0].size = slot->stack_top - slot->window[0].base;
    if (slot->window[0].size > slot->inner_size + slot->outer_size) {
        slot->window[0].size = slot->inner_size;
        slot->window[1].base = slot->stack_top - slot->outer_size;
        slot->window[1].size = slot->outer_size;
    }
    for (unsigned i = 0; i < 2; i++)
        copy_words(slot->bytes + (i ? slot->inner_size / 8 : 0),
                   (const volatile uint64_t *)slot->window[i].base, slot->window[i].size / 8);
}

void libprobe_capture_signal(int signal, const struct context_siginfo *info, struct context_frame *frame)
{
    struct slot *slot = &libprobe_slots[info->value % SLOT_COUNT];
    uint64_t word = slot_word(info->value / SLOT_COUNT, SLOT_ARMED);

    if ((info->code == CONTEXT_SI_TIMER || info->code == CONTEXT_SI_QUEUE) &&
        __atomic_compare_exchange_n(&slot->word, &word, word + SLOT_BUSY - SLOT_ARMED, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
        slot->entered = context_ticks();
        context_copy_registers(slot->registers, frame);
        copy_stack(slot, frame->rsp);
        slot->left = context_ticks();
        __atomic_store_n(&slot->word, word + SLOT_FULL - SLOT_ARMED, __ATOMIC_RELEASE);
        /*
         * Not when it comes late: then the thread had no processor, or was in a handler of the program's that
         * held our signal off, and an EINTR belongs to that handler.
         */
        restart_interrupted_call(frame);
    }
}
