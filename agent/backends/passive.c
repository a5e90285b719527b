/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sleeping threads, read from outside: the thread does not notice.
 * Zone: probe thread.
 *
 * /proc/<pid>/task/<tid>/syscall gives stack pointer, program counter and the system call's arguments of a
 * thread that is off the CPU. The stack below is then copied, and the copy counts only if the thread has not
 * run since: how often it was switched in is read before the look and after the copy. That is stronger than
 * comparing two syscall lines, since a thread may run and come back to the same place.
 */
#include "agent/backends/task.h"

#include <asm/unistd.h>
#include <linux/futex.h>

#include "agent/sys.h"

#include "agent/nolibc.h"

#define ATTEMPTS 3
#define CLOCK_EVERY 16 /* threads between two looks at the clock: half a millisecond */
/*
 * Copied where nobody says how far the stack reaches (musl, coroutine stacks): more than 9 in 10 stacks need.
 */
#define UNBOUNDED_COPY ((uint64_t)64 * 1024)
/* A stack whose mapping was made after maps was read: how far its top may be away at most. */
#define LARGEST_STACK ((uint64_t)1 << 30)

enum look {
    LOOK_DONE,   /* captured, or there is a reason why not */
    LOOK_MOVED,  /* it ran meanwhile */
    LOOK_RUNNING /* not ours; sample is as it was */
};

/* Where the copy that starts at sp ends; *ret_top: where the thread's own stack does, or 0. */
static uint64_t copy_end(const struct capture_session *session, int32_t tid, uint64_t sp, uint64_t *ret_top)
{
    const struct mapping *mapping = modules_find_mapping(session->modules, sp);
    struct task_stack own;
    uint64_t end;

    task_own_stack(session, tid, &own);
    *ret_top = 0;
    if (own.top > sp && (mapping ? own.top <= mapping->end : own.top - sp <= LARGEST_STACK))
        return *ret_top = own.top;
    if (__builtin_add_overflow(sp, UNBOUNDED_COPY, &end))
        end = UINT64_MAX;
    return mapping && mapping->end < end ? mapping->end : end;
}

static void read_window(const struct capture_session *session, struct stack_window *window, uint8_t *to,
                        uint64_t base, uint64_t size)
{
    *window = (struct stack_window){
        .base = base, .size = memory_read(session->memory, base, to, (size_t)size), .bytes = to};
}

/* Three quarters for the innermost frames, where the thread is; one for the outermost, who started it. */
static void copy_stack(const struct capture_session *session, struct raw_context *raw, uint64_t sp,
                       uint64_t end)
{
    uint64_t inner = session->max_stack / 4 * 3, outer = session->max_stack - inner;

    if (end - sp <= session->max_stack) {
        read_window(session, &raw->window[0], session->buffer, sp, end - sp);
        raw->truncated = raw->window[0].size == 0;
        return;
    }
    read_window(session, &raw->window[0], session->buffer, sp, inner);
    read_window(session, &raw->window[1], session->buffer + inner, end - outer, outer);
    raw->truncated = true;
}

static bool waits_on_lock_word(const struct procfs_syscall *line)
{
    if (line->kind != PROCFS_SYSCALL_INSIDE || line->number != __NR_futex)
        return false;
    switch (line->args[1] & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
    case FUTEX_WAIT_REQUEUE_PI:
        return true;
    default:
        return false;
    }
}

#define LARGEST_TID 4194304u /* PID_MAX_LIMIT, include/linux/threads.h */

/*
 * glibc's struct __pthread_mutex_s (bits/struct_mutex.h): five words. Words that no mutex can have belong to
 * something else; they stay out of the report, which shows no memory contents.
 */
static void read_lock_word(const struct capture_session *session, const struct procfs_syscall *line,
                           struct lock_word *ret)
{
    uint32_t words[5];

    *ret = (struct lock_word){0};
    if (!waits_on_lock_word(line) ||
        memory_read(session->memory, line->args[0], words, sizeof(words)) != sizeof(words) ||
        words[2] > LARGEST_TID || words[4] & ~(uint32_t)MUTEX_KIND_BITS)
        return;
    *ret = (struct lock_word){.known = true,
                              .word = words[0],
                              .count = words[1],
                              .owner = (int32_t)words[2],
                              .users = words[3],
                              .kind = (int32_t)words[4]};
}

/* What a system call leaves in registers: the arguments (DWARF numbers of rdi rsi rdx r10 r8 r9). */
static void set_registers(struct raw_context *raw, const struct procfs_syscall *line)
{
    static const uint8_t arguments[6] = {UW_X86_64_RDI, UW_X86_64_RSI, UW_X86_64_RDX, 10, UW_X86_64_R8, 9};

    raw->regs.pc = line->pc;
    uw_regs_set(&raw->regs, UW_X86_64_RSP, line->sp);
    for (unsigned i = 0; line->kind == PROCFS_SYSCALL_INSIDE && i < 6; i++)
        uw_regs_set(&raw->regs, arguments[i], line->args[i]);
}

static void fill_sample(struct thread_sample *sample, const struct procfs_syscall *line,
                        const struct raw_context *raw)
{
    sample->capture = CAPTURE_PASSIVE;
    sample->reason = raw->window[0].size ? REASON_NONE : REASON_STACK_UNREADABLE;
    sample->stable = true;
    sample->truncated = raw->truncated;
    sample->stack_bytes = raw->window[0].size + raw->window[1].size;
    sample->has_registers = true;
    sample->registers = (struct report_registers){.instruction_pointer = line->pc, .stack_pointer = line->sp};
    sample->syscall =
        (struct report_syscall){.known = line->kind == PROCFS_SYSCALL_INSIDE, .number = line->number};
    for (unsigned i = 0; i < 6; i++)
        sample->syscall.args[i] = line->args[i];
}

static bool same_line(const struct procfs_syscall *a, const struct procfs_syscall *b)
{
    return a->kind == b->kind && a->number == b->number && a->sp == b->sp && a->pc == b->pc &&
           !__builtin_memcmp(a->args, b->args, sizeof(a->args));
}

/* Has it not run since the look that gave line? */
static bool unmoved(struct task *task, const struct procfs_syscall *line, const struct task_switches *before)
{
    struct procfs_syscall again;
    struct task_switches after;

    if (!before->proof && (task_look(task, &again) < 0 || !same_line(line, &again)))
        return false;
    return task_switches(task, &after) == 0 && after.proof == before->proof && after.count == before->count;
}

static enum look fail(struct thread_sample *sample, enum capture_reason reason)
{
    sample->reason = reason;
    return LOOK_DONE;
}

/* It ran meanwhile: only who it is stays in the sample, nothing of where it was. */
static enum look moved(struct thread_sample *sample)
{
    sample->capture = CAPTURE_NONE;
    sample->stable = sample->truncated = sample->has_registers = false;
    sample->stack = -1;
    sample->stack_bytes = 0;
    sample->syscall = (struct report_syscall){0};
    sample->lock_word = (struct lock_word){0};
    return LOOK_MOVED;
}

static enum look attempt(struct task *task, const struct capture_session *session,
                         struct thread_sample *sample)
{
    struct procfs_syscall line = {0};
    struct raw_context raw = {.live = true};
    struct task_switches before;
    enum capture_reason reason;
    bool read_live = false;
    int result;

    result = task_switches(task, &before);
    if (result == 0)
        result = task_look(task, &line);
    if (result < 0) {
        reason = task_describe(session, sample);
        if (reason == REASON_NONE) /* described after the failed look, so it lives, and its file was empty */
            reason = sample->state == '?' ? task_reason(result) : REASON_SYSCALL_UNREADABLE;
        return fail(sample, reason);
    }
    sample->cpu_nanos = before.cpu_nanos;
    sample->switches = before.count;
    reason = task_describe(session, sample);
    if (reason != REASON_NONE)
        return fail(sample, reason);
    if (line.kind == PROCFS_SYSCALL_RUNNING)
        return LOOK_RUNNING;
    if (session->foreign_registers)
        return fail(sample, REASON_SYSCALL_UNREADABLE);
    if (!line.pc && !line.sp) /* it has given its memory back already */
        return fail(sample, REASON_VANISHED);

    raw.exact = line.kind == PROCFS_SYSCALL_OUTSIDE;
    raw.ret_read_live = &read_live;
    set_registers(&raw, &line);
    copy_stack(session, &raw, line.sp, copy_end(session, sample->os_tid, line.sp, &raw.stack_top));
    read_lock_word(session, &line, &sample->lock_word);
    if (!unmoved(task, &line, &before))
        return moved(sample);

    fill_sample(sample, &line, &raw);
    session->take(session->take_context, sample, &raw);
    return read_live && !unmoved(task, &line, &before) ? moved(sample) : LOOK_DONE;
}

static void capture_one(struct capture_session *session, struct thread_sample *sample)
{
    enum look look = LOOK_MOVED;
    struct task task;

    task_open(&task, session, sample->os_tid);
    for (unsigned i = 0; i < ATTEMPTS && look == LOOK_MOVED; i++)
        look = attempt(&task, session, sample);
    if (look == LOOK_MOVED)
        sample->reason = REASON_UNSTABLE;
    task_close(&task);
}

static void passive_capture(struct capture_session *session, struct thread_sample **samples, uint32_t n)
{
    bool late = false;

    for (uint32_t i = 0; i < n; i++) {
        if (samples[i]->capture != CAPTURE_NONE || samples[i]->reason != REASON_NONE)
            continue;
        if (i % CLOCK_EVERY == 0)
            late = sys_monotonic_nanos() >= session->deadline;
        if (late)
            samples[i]->reason = REASON_DEADLINE;
        else
            capture_one(session, samples[i]);
    }
}

const struct capture_backend backend_passive = {.name = "passive", .capture = passive_capture};

static bool same_lock_word(const struct lock_word *a, const struct lock_word *b)
{
    return a->known == b->known && a->word == b->word && a->count == b->count && a->owner == b->owner &&
           a->users == b->users && a->kind == b->kind;
}

bool passive_is_still(const struct capture_session *session, const struct thread_sample *sample)
{
    struct procfs_syscall then = {.kind =
                                      sample->syscall.known ? PROCFS_SYSCALL_INSIDE : PROCFS_SYSCALL_OUTSIDE,
                                  .number = sample->syscall.number,
                                  .sp = sample->registers.stack_pointer,
                                  .pc = sample->registers.instruction_pointer};
    struct task_switches now;
    struct lock_word lock;
    struct task task;
    bool still;

    __builtin_memcpy(then.args, sample->syscall.args, sizeof(then.args));
    read_lock_word(session, &then, &lock);
    task_open(&task, session, sample->os_tid);
    still = task_switches(&task, &now) == 0 &&
            unmoved(&task, &then, &(struct task_switches){.count = sample->switches, .proof = now.proof}) &&
            same_lock_word(&lock, &sample->lock_word);
    task_close(&task);
    return still;
}
