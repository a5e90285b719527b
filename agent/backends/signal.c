/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Running threads copy themselves in a signal handler.
 * Zone: probe thread; signal_backend_init() at load time.
 *
 * A signal is the one thing by which the agent touches the program's threads, so everything that can be known
 * is looked at before: whether the thread can take it, whether the handler is still ours, whether it runs at
 * all. A thread that has fallen asleep meanwhile is left to the passive backend.
 */
#include "agent/backends/signal_bounds.h"
#include "agent/backends/signal_number.h"
#include "agent/backends/signal_raise.h"
#include "agent/backends/signal_recent.h"
#include "agent/backends/task.h"
#include "agent/backends/watch.h"

#include <asm/errno.h>
#include <asm/mman.h>
#include <asm/signal.h>

#include "agent/backends/slot.h"
#include "agent/reserve.h"
#include "agent/sys.h"

#include "agent/nolibc.h"

/*
 * A batch is given up when nobody has answered for so long: a busy machine needs a few time slices each.
 * Counted in our own looks as well: where the whole container is throttled, time passes for us that they did
 * not have.
 */
#define SILENCE_NANOS UINT64_C(200000000)
#define SILENCE_LOOKS 50
#define LONGEST_NAP UINT64_C(1000000)
#define PAGE ((uint64_t)4096)
/* Stack bytes of one batch (DESIGN, "Data types"). */
#define BATCH_SIZE ((size_t)32 * 1024 * 1024)
/*
 * Of every slot, made present before the signal, so that the handler does not wait for
 * the kernel to clear pages.
 */
#define PRESENT_PAGES 4

struct slot libprobe_slots[SLOT_COUNT];

/* Of the process; the slots must outlive every dump, since a handler may come late. */
static struct {
    bool ready;
    uint64_t own_seccomp, own_filters; /* the probe thread's, in this dump */
    uint8_t *bytes;                    /* n_slots times slot_size, mapped when first needed */
    size_t slot_size;
    unsigned
        n_slots; /* of libprobe_slots: fewer where stacks of any size were asked for, or memory is short */
} state;

void signal_backend_init(int requested_signal)
{
    signal_number_init(requested_signal);
    state.ready = false;
}

/*
 * Before the first running thread of this process: most programs never get here, so load
 * time pays for none of it.
 */
static void prepare(void)
{
    state.ready = true;
    state.bytes = NULL; /* of a fork's parent: not inherited */
    signal_number_choose();
    signal_recent_forget();
    /* In a fork child no thread is left that could answer the parent's signals. */
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        uint64_t generation = libprobe_slots[i].word ? libprobe_slots[i].word >> 2 : context_ticks() >> 8;

        libprobe_slots[i].word = slot_word(generation + 1, SLOT_FREE);
    }
}

/* The slot's buffer for the copy: innermost bytes, then outermost ones. */
static void set_buffer(const struct capture_session *session, struct slot *slot)
{
    uint64_t size = session->max_stack < state.slot_size ? session->max_stack : state.slot_size;

    slot->inner_size = size / 4 * 3 & ~UINT64_C(7);
    slot->outer_size = size / 4 & ~UINT64_C(7);
    slot->bytes = (uint64_t *)(state.bytes + (size_t)(slot - libprobe_slots) * state.slot_size);
    for (size_t i = 0; i < PRESENT_PAGES; i++)
        *((volatile uint8_t *)slot->bytes + i * PAGE) = 0;
}

/* May this thread be signalled, going by what it says about itself? */
static enum capture_reason classify(const struct capture_session *session, const struct thread_sample *sample)
{
    struct procfs_status status;
    uint64_t bit;
    int result;

    if (!signal_number())
        return REASON_NO_SIGNAL;
    if (signal_recent(sample->os_tid, sys_monotonic_nanos()))
        return REASON_SIGNALLED_RECENTLY;
    result = task_status(session, sample->os_tid, &status);
    if (result < 0)
        return task_reason(result);
    bit = UINT64_C(1) << (signal_number() - 1);
    if (status.blocked & bit)
        return REASON_SIGNAL_BLOCKED;
    if (status.blocked & UINT64_C(1) << (SIGSEGV - 1))
        return REASON_FAULT_HANDLER;
    /* The handler's return is a system call, too. */
    if (status.seccomp != state.own_seccomp || status.seccomp_filters != state.own_filters)
        return REASON_SANDBOXED;
    if (status.pending & bit)
        return REASON_NO_ANSWER; /* the last dump's signal is still on its way; a second one would only queue
                                    up */
    /*
     * It has been woken for a signal of the program's, and may still be on its way out of
     * the call that this ended.
     */
    if ((status.pending | status.shared_pending) & ~status.blocked)
        return REASON_NOT_RUN;
    return REASON_NONE;
}

struct batch {
    struct thread_sample *samples[SLOT_COUNT];
    struct slot *slots[SLOT_COUNT];
    struct raised_signal raised[SLOT_COUNT];
    bool given_up[SLOT_COUNT]; /* not waited for any more */
    unsigned n;
};

/* A slot that nobody holds. Those that a handler is stuck in stay out of use until it publishes. */
static struct slot *next_slot(unsigned *at)
{
    while (*at < state.n_slots) {
        struct slot *slot = &libprobe_slots[(*at)++];
        uint64_t word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);

        if ((word & 3) != SLOT_BUSY)
            return slot;
    }
    return NULL;
}

static enum capture_reason send_signal(const struct capture_session *session, struct slot *slot, int32_t tid,
                                       struct raised_signal *ret_raised)
{
    uint64_t generation = (slot->word >> 2) + 1;
    long result;

    __atomic_store_n(&slot->word, slot_word(generation, SLOT_ARMED), __ATOMIC_RELEASE);
    result =
        signal_raise(session, tid, generation * SLOT_COUNT + (uint64_t)(slot - libprobe_slots), ret_raised);
    if (result == 0)
        return REASON_NONE;
    __atomic_store_n(&slot->word, slot_word(generation, SLOT_FREE), __ATOMIC_RELEASE);
    return result == -ESRCH ? REASON_VANISHED : REASON_SIGNAL_REFUSED;
}

/* Returns whether a signal is on its way; else the sample has a reason, or is left to the passive backend. */
static bool signal_one(const struct capture_session *session, struct thread_sample *sample, struct slot *slot,
                       struct raised_signal *ret_raised)
{
    struct procfs_syscall line;
    struct task task;
    int result;

    if (sample->state == 'T' || sample->state == 't')
        return false; /* stopped between two looks: the passive one can read it */
    sample->reason = classify(session, sample);
    if (sample->reason != REASON_NONE)
        return false;
    set_buffer(session, slot);
    sample->reason = signal_bounds(session, slot, sample->os_tid, state.own_seccomp == 0);
    if (sample->reason != REASON_NONE)
        return false;

    task_open(&task, session, sample->os_tid);
    result = task_look(&task, &line);
    task_close(&task);
    if (result < 0)
        sample->reason = task_reason(result);
    else if (line.kind != PROCFS_SYSCALL_RUNNING)
        return false; /* fell asleep since */
    else
        sample->reason = signal_number_own();
    if (sample->reason == REASON_NONE)
        sample->reason = send_signal(session, slot, sample->os_tid, ret_raised);
    return sample->reason == REASON_NONE;
}

static bool answered(const struct slot *slot)
{
    return (__atomic_load_n(&slot->word, __ATOMIC_ACQUIRE) & 3) == SLOT_FULL;
}

/* Gone, or asleep by now: then the passive backend can have it, and a timer of its processor time stands. */
static enum capture_reason why_silent(const struct capture_session *session, int32_t tid)
{
    struct procfs_syscall line;
    struct task task;
    int result;

    task_open(&task, session, tid);
    result = task_look(&task, &line);
    task_close(&task);
    if (result < 0)
        return task_reason(result) == REASON_VANISHED ? REASON_VANISHED : REASON_NO_ANSWER;
    return line.kind == PROCFS_SYSCALL_RUNNING ? REASON_NO_ANSWER : REASON_NONE;
}

static unsigned count_waited_for(const struct batch *batch)
{
    unsigned n = 0;

    for (unsigned i = 0; i < batch->n; i++)
        n += !batch->given_up[i] && !answered(batch->slots[i]);
    return n;
}

/* A queued signal wakes its thread, but a timer does not count for one that sleeps. */
static void give_up_sleepers(const struct capture_session *session, struct batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++)
        if (signal_can_call_back(&batch->raised[i]) && !batch->given_up[i] && !answered(batch->slots[i]))
            batch->given_up[i] = why_silent(session, batch->samples[i]->os_tid) != REASON_NO_ANSWER;
}

/* Polls, since waking somebody would be a system call in the handler. */
static void wait_for_answers(const struct capture_session *session, struct batch *batch)
{
    uint64_t now = sys_monotonic_nanos(), progress = now, nap = 20000;
    unsigned before = batch->n, looks = 0, n;

    while ((n = count_waited_for(batch)) > 0 && now < session->deadline) {
        if (n != before) {
            progress = now;
            looks = 0;
        }
        if (now - progress >= SILENCE_NANOS && looks >= SILENCE_LOOKS)
            break;
        before = n;
        looks++;
        if (nap < LONGEST_NAP)
            nap *= 2;
        else
            give_up_sleepers(session, batch);
        sys_sleep(nap);
        now = sys_monotonic_nanos();
    }
}

/* Takes the slot back from a thread that has not answered; false when it just did. */
static bool withdraw(struct slot *slot)
{
    uint64_t word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);

    if ((word & 3) == SLOT_ARMED &&
        __atomic_compare_exchange_n(&slot->word, &word, slot_word(word >> 2, SLOT_FREE), 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return true;
    return (word & 3) != SLOT_FULL;
}

static void take_slot(struct capture_session *session, struct thread_sample *sample, const struct slot *slot)
{
    const uint64_t *registers = slot->registers;
    struct raw_context raw = {.regs.pc = registers[CONTEXT_PC], .exact = true};

    for (unsigned i = 0; i < CONTEXT_PC; i++)
        uw_regs_set(&raw.regs, i, registers[i]);
    raw.window[0] =
        (struct stack_window){slot->window[0].base, slot->window[0].size, (const uint8_t *)slot->bytes};
    raw.window[1] = (struct stack_window){slot->window[1].base, slot->window[1].size,
                                          (const uint8_t *)slot->bytes + slot->inner_size};
    raw.truncated = slot->window[0].size == 0 || slot->window[1].size > 0;

    sample->capture = CAPTURE_SIGNAL;
    sample->reason = slot->window[0].size ? REASON_NONE : REASON_FOREIGN_STACK;
    sample->stable = true;
    sample->state = 'R';
    sample->truncated = raw.truncated;
    sample->stack_bytes = slot->window[0].size + slot->window[1].size;
    sample->has_registers = true;
    sample->registers = (struct report_registers){.instruction_pointer = registers[CONTEXT_PC],
                                                  .stack_pointer = registers[CONTEXT_SP],
                                                  .frame_pointer = registers[UW_X86_64_RBP],
                                                  .frame_pointer_known = true};
    session->take(session->take_context, sample, &raw);
}

/* Ticks of the time-stamp counter to nanoseconds, by reading both clocks at the two ends of the capture. */
struct tick_clock {
    uint64_t ticks, nanos;
};

static struct tick_clock read_tick_clock(void)
{
    struct tick_clock now;

    now.nanos = sys_monotonic_nanos();
    now.ticks = context_ticks();
    return now;
}

static uint64_t ticks_to_nanos(uint64_t ticks, const struct tick_clock *start)
{
    struct tick_clock now = read_tick_clock();
    uint64_t passed_ticks = now.ticks - start->ticks, passed_nanos = now.nanos - start->nanos;

    /*
     * 20 binary digits of the ratio; both operands are bounded so that nothing
     * overflows: 2^43 ns are 2 hours.
     */
    if (!passed_ticks || passed_nanos >> 43)
        return 0;
    if (ticks > passed_ticks)
        ticks = passed_ticks;
    if (ticks >> 40)
        return passed_nanos;
    return ticks * ((passed_nanos << 20) / passed_ticks) >> 20;
}

static void add_pause(struct capture_session *session, const struct slot *slot,
                      const struct tick_clock *start)
{
    uint64_t nanos = slot->left > slot->entered ? ticks_to_nanos(slot->left - slot->entered, start) : 0;

    session->stats->pause_nanos += nanos;
    if (nanos > session->stats->pause_nanos_max)
        session->stats->pause_nanos_max = nanos;
}

/* The bytes are the kernel's again until the next dump, but those of a handler that is still writing. */
static void collect(struct capture_session *session, struct batch *batch, const struct tick_clock *start)
{
    wait_for_answers(session, batch);
    for (unsigned i = 0; i < batch->n; i++) {
        struct thread_sample *sample = batch->samples[i];
        struct slot *slot = batch->slots[i];

        signal_call_back(&batch->raised[i]);
        if (answered(slot) || !signal_can_call_back(&batch->raised[i])) {
            signal_recent_add(sample->os_tid, sys_monotonic_nanos());
            session->stats->signals_sent++;
        }
        if (!answered(slot) && withdraw(slot)) {
            sample->reason = why_silent(session, sample->os_tid);
            continue;
        }
        add_pause(session, slot, start);
        take_slot(session, sample, slot);
        sys_madvise(slot->bytes, state.slot_size, MADV_DONTNEED);
    }
    batch->n = 0;
}

/* Never freed: a handler may come late. */
static bool map_slots(size_t max_stack)
{
    size_t slot_size = (max_stack + PAGE - 1) & ~(size_t)(PAGE - 1), size;

    if (state.bytes)
        return true;
    if (slot_size < PRESENT_PAGES * PAGE)
        slot_size = PRESENT_PAGES * PAGE;
    size = SLOT_COUNT * slot_size < BATCH_SIZE ? SLOT_COUNT * slot_size : BATCH_SIZE;
    state.bytes = reserve_memory(size, slot_size, &size);
    state.slot_size = slot_size;
    state.n_slots = state.bytes ? (unsigned)(size / slot_size) : 0;
    return state.bytes;
}

static enum capture_reason why_nobody(const struct capture_session *session)
{
    struct procfs_status own;

    if (session->mode == CAPTURE_MODE_PASSIVE || session->foreign_proc)
        return REASON_PASSIVE_ONLY;
    if (task_status(session, session->self_tid, &own) < 0)
        return REASON_SYSCALL_UNREADABLE;
    state.own_seccomp = own.seccomp;
    state.own_filters = own.seccomp_filters;
    if (!map_slots(session->max_stack))
        return REASON_MEMORY;
    return signal_number_settle();
}

/* A batch is whoever fits the slots: all of it is signalled before anybody is waited for. */
static uint32_t fill_batch(struct capture_session *session, struct batch *batch,
                           struct thread_sample **samples, uint32_t n)
{
    unsigned at = 0;
    struct slot *slot = next_slot(&at);
    uint32_t i;

    for (i = 0; i < n && slot; i++) {
        if (sys_monotonic_nanos() >= session->deadline) {
            samples[i]->reason = REASON_DEADLINE;
        } else if (signal_one(session, samples[i], slot, &batch->raised[batch->n])) {
            batch->samples[batch->n] = samples[i];
            batch->given_up[batch->n] = false;
            batch->slots[batch->n++] = slot;
            slot = next_slot(&at);
        }
    }
    return i;
}

static void signal_capture(struct capture_session *session, struct thread_sample **samples, uint32_t n)
{
    struct tick_clock start = read_tick_clock();
    struct batch batch = {.n = 0};
    enum capture_reason reason;
    uint32_t done = 0;

    if (!n)
        return;
    if (!state.ready)
        prepare();
    reason = why_nobody(session);
    if (reason == REASON_NONE)
        n = watch_runners(session, samples, n);
    while (reason == REASON_NONE && done < n) {
        uint32_t used = fill_batch(session, &batch, samples + done, n - done);

        if (!used) /* every slot is stuck */
            reason = REASON_NO_ANSWER;
        done += used;
        collect(session, &batch, &start);
    }
    give_reason(samples + done, n - done, reason);
}

const struct capture_backend backend_signal = {.name = "signal", .capture = signal_capture};
