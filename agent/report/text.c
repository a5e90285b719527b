/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The text report. Its order: verdict, who holds what, the count, warnings, groups by rank, locks,
 * verdict again. ASCII only; the words in capitals (DEADLOCK, LOCK, GROUP, WARN, NO STACK, STACK ENDS)
 * are for grep and do not change.
 * Zone: pure.
 */
#include "agent/report/group.h"
#include "agent/report/strings.h"
#include "agent/report/syscalls.h"
#include "agent/report/text.h"
#include "agent/report/units.h"
#include "agent/report/words.h"

/* A log is read by people: what is left out here is said, counted, and whole in -f json. */
#define FRAMES_INNERMOST 48
#define FRAMES_OUTERMOST 16
#define VERDICT_LINES 8
#define CYCLES_SHOWN 4
#define MEMBERS_SHOWN 16
#define NAMES_SHOWN 8
#define RANGES_SHOWN 64
#define LOCKS_SHOWN 32
#define WAITERS_SHOWN 12

#define COLUMN_CONTEXT 58 /* of line 1: where the program is named */
#define COLUMN_THREAD 30  /* of a group's line: where the state stands */
#define COLUMN_MODULE 42  /* of a frame: where the module stands */
#define LINE_WIDTH 100

struct text {
    struct out *out;
    const struct snapshot *snapshot;
    const struct text_options *options;
    struct report_groups groups;
    bool grouped;
};

static size_t unsigned_length(uint64_t value)
{
    size_t n = 1;

    while (value >= 10) {
        value /= 10;
        n++;
    }
    return n;
}

static size_t name_length(const struct thread_sample *thread)
{
    size_t n = 0;

    while (n < sizeof(thread->name) && thread->name[n] != '\0')
        n++;
    return n;
}

static void plain(struct text *t, const char *text)
{
    if (text != NULL)
        out_plain(t->out, text, text_length(text));
}

/* Spaces from column used to column wanted, and at least two. */
static void pad(struct text *t, size_t used, size_t wanted)
{
    do
        out_char(t->out, ' ');
    while (++used < wanted);
    out_char(t->out, ' ');
}

static void color(struct text *t, const char *code)
{
    if (t->options->color)
        out_text(t->out, code);
}

static void put_thread(struct text *t, const struct thread_sample *thread)
{
    out_plain(t->out, thread->name, name_length(thread));
    out_char(t->out, ' ');
    out_signed(t->out, thread->os_tid);
}

static void put_tid(struct text *t, int32_t tid)
{
    int32_t i = group_find_thread(t->snapshot, tid);

    if (i >= 0) {
        put_thread(t, &t->snapshot->threads[i]);
        return;
    }
    out_text(t->out, "thread ");
    out_signed(t->out, tid);
}

static size_t put_two_digits(struct text *t, uint64_t value)
{
    out_char(t->out, (char)('0' + value / 10 % 10));
    out_char(t->out, (char)('0' + value % 10));
    return 2;
}

/* 4.20s, 3m12s, 2h03m, 5d07h */
static void put_age(struct text *t, uint64_t nanos)
{
    uint64_t seconds = nanos / NANOS_PER_SECOND, major, minor;
    const char *units;

    if (seconds < 60) {
        out_unsigned(t->out, seconds);
        out_char(t->out, '.');
        put_two_digits(t, nanos % NANOS_PER_SECOND / (NANOS_PER_SECOND / 100));
        out_char(t->out, 's');
        return;
    }
    if (seconds < 3600) {
        units = "ms";
        major = seconds / 60;
        minor = seconds % 60;
    } else if (seconds < 86400) {
        units = "hm";
        major = seconds / 3600;
        minor = seconds / 60 % 60;
    } else {
        units = "dh";
        major = seconds / 86400;
        minor = seconds / 3600 % 24;
    }
    out_unsigned(t->out, major);
    out_char(t->out, units[0]);
    put_two_digits(t, minor);
    out_char(t->out, units[1]);
}

static void put_cpu(struct text *t, uint64_t nanos)
{
    out_text(t->out, "cpu ");
    out_unsigned(t->out, nanos / NANOS_PER_SECOND);
    out_char(t->out, '.');
    put_two_digits(t, nanos % NANOS_PER_SECOND / (NANOS_PER_SECOND / 100));
    out_char(t->out, 's');
}

/* Locks are sorted by address where explain made them. 0: not in the list. */
static uint32_t lock_number(const struct snapshot *snapshot, uint64_t address)
{
    uint32_t low = 0, high = snapshot->n_locks, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (snapshot->locks[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < snapshot->n_locks && snapshot->locks[low].address == address ? low + 1 : 0;
}

/* A name of the form module:symbol+offset with the symbol as the reader wants it. */
static void put_lock_name(struct text *t, const char *name)
{
    size_t n = 0, length;
    char symbol[256];

    while (name[n] != '\0' && name[n] != ':')
        n++;
    for (length = 0; name[n] != '\0' && name[n + 1 + length] != '\0' && name[n + 1 + length] != '+';
         length++) {
        if (length + 1 == sizeof(symbol))
            break;
        symbol[length] = name[n + 1 + length];
    }
    symbol[length] = '\0';
    if (t->options->display_name == NULL || symbol[0] != '_' || length + 1 == sizeof(symbol)) {
        plain(t, name);
        return;
    }
    out_plain(t->out, name, n + 1);
    plain(t, t->options->display_name(t->options->context, symbol));
    plain(t, name + n + 1 + length);
}

static void put_lock(struct text *t, uint64_t address, bool whole)
{
    uint32_t number = lock_number(t->snapshot, address);

    if (number == 0) {
        out_hex(t->out, address);
        return;
    }
    out_char(t->out, 'M');
    out_unsigned(t->out, number);
    if (!whole)
        return;
    out_char(t->out, ' ');
    out_hex(t->out, address);
    if (t->snapshot->locks[number - 1].name != NULL) {
        out_text(t->out, " (");
        put_lock_name(t, t->snapshot->locks[number - 1].name);
        out_char(t->out, ')');
    }
}

static void put_cycle(struct text *t, const struct report_cycle *cycle)
{
    const struct snapshot *snapshot = t->snapshot;
    int32_t before = group_find_thread(snapshot, cycle->tids[cycle->n_tids - 1]), at;
    uint32_t i;

    for (i = 0; i < cycle->n_tids && i < MEMBERS_SHOWN; i++, before = at) {
        at = group_find_thread(snapshot, cycle->tids[i]);
        if (at < 0 || before < 0)
            return;
        out_text(t->out, "  ");
        put_thread(t, &snapshot->threads[at]);
        pad(t, 3 + name_length(&snapshot->threads[at]) + unsigned_length((uint64_t)cycle->tids[i]), 20);
        out_text(t->out, "holds ");
        put_lock(t, snapshot->threads[before].wait.address, true);
        out_text(t->out, "   wants ");
        put_lock(t, snapshot->threads[at].wait.address, true);
        out_char(t->out, '\n');
    }
    if (cycle->n_tids > MEMBERS_SHOWN) {
        out_text(t->out, "  ... ");
        out_unsigned(t->out, cycle->n_tids - MEMBERS_SHOWN);
        out_text(t->out, " more in this circle\n");
    }
}

static void put_behind(struct text *t)
{
    const struct snapshot *snapshot = t->snapshot;
    uint32_t i, n = 0, shown = 0;

    for (i = 0; t->grouped && i < snapshot->n_threads; i++)
        n += t->groups.ranks[i] == RANK_BEHIND;
    if (n == 0)
        return;
    out_text(t->out, "  + ");
    out_unsigned(t->out, n);
    out_text(t->out, " more blocked behind it: ");
    for (i = 0; i < snapshot->n_threads && shown < NAMES_SHOWN; i++) {
        if (t->groups.ranks[i] != RANK_BEHIND)
            continue;
        if (shown++ > 0)
            out_text(t->out, ", ");
        put_thread(t, &snapshot->threads[i]);
        out_text(t->out, " wants ");
        put_lock(t, snapshot->threads[i].wait.address, false);
    }
    out_text(t->out, n > shown ? ", ...\n" : "\n");
}

static void put_verdict_kind(struct text *t, const struct report_verdict *verdict)
{
    color(t, "\033[1;31m");
    plain(t, verdict->kind);
    color(t, "\033[0m");
    if (verdict->confidence[0] == 'l') /* likely: a proven verdict needs no adjective */
        out_text(t->out, " (likely)");
    out_text(t->out, "  ");
}

static const struct report_verdict *first_verdict(const struct snapshot *snapshot)
{
    static const struct report_verdict unknown = {"UNKNOWN", "none", "nothing was concluded"};

    return snapshot->n_verdicts > 0 ? &snapshot->verdicts[0] : &unknown;
}

/* The program's name in line 1 is its argv[0]; a process that cleared it still has a file. */
static const char *program(const struct process_info *process)
{
    if (process->command != NULL && process->command[0] != '\0')
        return process->command;
    return process->exe;
}

static void put_head(struct text *t)
{
    const struct process_info *process = &t->snapshot->process;
    const struct report_verdict *verdict = first_verdict(t->snapshot);
    uint32_t i;

    put_verdict_kind(t, verdict);
    plain(t, verdict->text);
    pad(t, text_length(verdict->kind) + 4 + text_length(verdict->text), COLUMN_CONTEXT);
    plain(t, program(process));
    out_text(t->out, "  pid ");
    out_signed(t->out, process->pid);
    if (process->ns_pid != process->pid) {
        out_text(t->out, " (");
        out_signed(t->out, process->ns_pid);
        out_text(t->out, " in its own namespace)");
    }
    out_text(t->out, "  up ");
    put_age(t, process->up_nanos);
    if (process->label != NULL) {
        out_text(t->out, "  ");
        plain(t, process->label);
    }
    out_char(t->out, '\n');
    for (i = 1; i < t->snapshot->n_verdicts && i < VERDICT_LINES; i++) {
        put_verdict_kind(t, &t->snapshot->verdicts[i]);
        plain(t, t->snapshot->verdicts[i].text);
        out_char(t->out, '\n');
    }
    for (i = 0; i < t->snapshot->n_cycles && i < CYCLES_SHOWN; i++)
        put_cycle(t, &t->snapshot->cycles[i]);
    if (t->snapshot->n_cycles > CYCLES_SHOWN) {
        out_text(t->out, "  ... ");
        out_unsigned(t->out, t->snapshot->n_cycles - CYCLES_SHOWN);
        out_text(t->out, " more circles\n");
    }
    put_behind(t);
}

static void put_pauses(struct text *t, uint32_t signalled)
{
    const struct snapshot_stats *stats = &t->snapshot->stats;

    if (stats->signals_sent == 0) {
        out_text(t->out, "; none was paused");
        return;
    }
    out_text(t->out, "; ");
    out_unsigned(t->out, signalled);
    out_text(t->out, signalled == 1 ? " was paused, for " : " were paused, for at most ");
    out_unsigned(t->out, stats->pause_nanos_max / 1000);
    out_text(t->out, " us");
}

/* Counted from the threads themselves, so the line adds up with what is printed below it. */
static void put_count(struct text *t)
{
    const struct snapshot *snapshot = t->snapshot;
    uint32_t kinds[CAPTURE_KIND_N] = {0}, i, total = snapshot->n_threads;

    for (i = 0; i < total; i++)
        kinds[(size_t)snapshot->threads[i].capture < CAPTURE_KIND_N ? snapshot->threads[i].capture
                                                                    : CAPTURE_NONE]++;
    out_unsigned(t->out, total);
    out_text(t->out, total == 1 ? " thread" : " threads");
    if (t->grouped && t->groups.n_groups < total) {
        out_text(t->out, " in ");
        out_unsigned(t->out, t->groups.n_groups);
        out_text(t->out, t->groups.n_groups == 1 ? " group" : " groups");
    }
    out_text(t->out, ": ");
    out_unsigned(t->out, total - kinds[CAPTURE_NONE]);
    out_text(t->out, " captured (");
    out_unsigned(t->out, kinds[CAPTURE_PASSIVE]);
    out_text(t->out, " passive");
    if (kinds[CAPTURE_SIGNAL] > 0) {
        out_text(t->out, ", ");
        out_unsigned(t->out, kinds[CAPTURE_SIGNAL]);
        out_text(t->out, " by signal");
    }
    out_text(t->out, "), ");
    out_unsigned(t->out, kinds[CAPTURE_NONE]);
    out_text(t->out, " missing");
    put_pauses(t, kinds[CAPTURE_SIGNAL]);
    out_text(t->out, snapshot->complete ? "; complete\n" : "; INCOMPLETE\n");
    if (snapshot->captured && snapshot->stats.threads_total != total) {
        out_text(t->out, "WARN  the process had ");
        out_unsigned(t->out, snapshot->stats.threads_total);
        out_text(t->out, " threads, so not all of them are listed\n");
    }
}

static void put_warnings(struct text *t)
{
    const struct snapshot *snapshot = t->snapshot;
    uint32_t i;

    for (i = 0; i < snapshot->process.n_why; i++) {
        out_text(t->out, "WARN  ");
        plain(t, snapshot->process.why[i]);
        out_char(t->out, '\n');
    }
    for (i = 0; i < snapshot->n_modules; i++) {
        const char *sentence = sentence_symbols(snapshot->modules[i].symbols);

        if (sentence[0] == '\0')
            continue;
        out_text(t->out, "WARN  no names from ");
        plain(t, snapshot->modules[i].path);
        out_text(t->out, ": ");
        out_text(t->out, sentence);
        out_char(t->out, '\n');
    }
}

/*
 * Frame pointers are taken on trust, and code that keeps none of its own leaves its caller out of the chain.
 */
static bool follows_frame_pointers(const struct text *t, const struct report_stack *stack)
{
    uint32_t i;

    for (i = 0; i < stack->n_frames; i++)
        if (t->snapshot->frames[stack->frames[i]].trust == UW_TRUST_FRAME_POINTER)
            return true;
    return false;
}

static void put_owner(struct text *t, const struct report_wait *wait)
{
    switch (wait->owner_status) {
    case OWNER_LIVE:
        out_text(t->out, " held by ");
        put_tid(t, wait->owner_tid);
        break;
    case OWNER_SELF:
        out_text(t->out, " held by this same thread");
        break;
    case OWNER_GONE:
        out_text(t->out, " owner is gone: thread ");
        out_signed(t->out, wait->owner_tid);
        out_text(t->out, " exited, or was lost in fork");
        break;
    case OWNER_NONE:
        out_text(t->out, " records no owner now");
        break;
    default:
        out_text(t->out, t->snapshot->process.foreign_proc
                             ? " owner not known: its tid is of another pid namespace"
                             : " owner not proven: somebody moved");
        break;
    }
}

static void put_syscall(struct text *t, const struct thread_sample *thread, bool alone)
{
    const char *name = word_syscall(thread->syscall.number);

    if (!thread->syscall.known || thread->syscall.number < 0)
        return;
    out_text(t->out, "   ");
    if (name != NULL) {
        out_text(t->out, name);
    } else {
        out_text(t->out, "system call ");
        out_signed(t->out, thread->syscall.number);
    }
    if (alone && syscall_takes_descriptor(&thread->syscall)) {
        out_text(t->out, "(fd ");
        out_signed(t->out, (int32_t)thread->syscall.args[0]);
        out_char(t->out, ')');
    }
}

static void put_doing(struct text *t, const struct report_group *group)
{
    const struct thread_sample *thread = &t->snapshot->threads[group->threads[0]];
    uint64_t cpu = 0;
    uint32_t i;

    for (i = 0; i < group->n_threads; i++)
        cpu += t->snapshot->threads[group->threads[i]].cpu_nanos;
    out_text(t->out, word_state(thread->state));
    out_text(t->out, ", ");
    put_cpu(t, cpu);
    if (group->n_threads > 1)
        out_text(t->out, " in all");
    put_syscall(t, thread, group->n_threads == 1);
    if (thread->wchan != NULL) {
        out_text(t->out, "   in kernel function ");
        plain(t, thread->wchan);
    }
    if (thread->wait.kind == WAIT_MUTEX) {
        out_text(t->out, "   LOCK ");
        put_lock(t, thread->wait.address, false);
        put_owner(t, &thread->wait);
    }
    out_char(t->out, '\n');
    if (thread->reason != REASON_NONE || thread->capture == CAPTURE_NONE) {
        out_text(t->out, thread->capture == CAPTURE_NONE ? "      NO STACK: " : "      WARN: ");
        out_text(t->out,
                 thread->reason == REASON_NONE ? "the reason is not known" : sentence_reason(thread->reason));
        out_char(t->out, '\n');
    } else if (!thread->stable) {
        out_text(t->out, "      WARN: it moved while it was read\n");
    }
}

static size_t prefix_length(const struct thread_sample *thread)
{
    size_t n = name_length(thread);

    while (n > 0 && thread->name[n - 1] >= '0' && thread->name[n - 1] <= '9')
        n--;
    return n;
}

struct name_class {
    const struct thread_sample *first;
    uint32_t n;
};

static bool same_class(const struct thread_sample *a, const struct thread_sample *b)
{
    size_t n = prefix_length(a), i;

    if (n != prefix_length(b) || (n == name_length(a)) != (n == name_length(b)))
        return false;
    for (i = 0; i < n; i++)
        if (a->name[i] != b->name[i])
            return false;
    return true;
}

/* worker-0 ... worker-1957 become worker-*; every thread is counted, in its class or among the others. */
static void put_names(struct text *t, const struct report_group *group)
{
    struct name_class classes[NAMES_SHOWN];
    uint32_t n_classes = 0, others = 0, i, c;

    for (i = 0; i < group->n_threads; i++) {
        const struct thread_sample *thread = &t->snapshot->threads[group->threads[i]];

        for (c = 0; c < n_classes && !same_class(classes[c].first, thread); c++)
            ;
        if (c < n_classes)
            classes[c].n++;
        else if (n_classes < NAMES_SHOWN)
            classes[n_classes++] = (struct name_class){thread, 1};
        else
            others++;
    }
    out_text(t->out, "      ");
    for (c = 0; c < n_classes; c++) {
        const struct thread_sample *first = classes[c].first;
        size_t n = classes[c].n > 1 ? prefix_length(first) : name_length(first);

        if (c > 0)
            out_text(t->out, ", ");
        out_plain(t->out, first->name, n);
        if (n < name_length(first))
            out_char(t->out, '*');
        if (classes[c].n > 1 && (n_classes > 1 || others > 0)) {
            out_text(t->out, " (");
            out_unsigned(t->out, classes[c].n);
            out_char(t->out, ')');
        }
    }
    if (others > 0) {
        out_text(t->out, ", other names (");
        out_unsigned(t->out, others);
        out_char(t->out, ')');
    }
    out_char(t->out, '\n');
}

/* 101-140 155 160-170; wrapped. */
static void put_ids(struct text *t, const struct report_group *group)
{
    const struct thread_sample *threads = t->snapshot->threads;
    uint32_t i, j, ranges = 0;
    size_t column = 0, width;

    for (i = 0; i < group->n_threads && ranges < RANGES_SHOWN; i = j, ranges++) {
        int32_t first = threads[group->threads[i]].os_tid, last = first;

        for (j = i + 1; j < group->n_threads && threads[group->threads[j]].os_tid == last + 1; j++)
            last++;
        width =
            1 + unsigned_length((uint64_t)first) + (last > first ? 1 + unsigned_length((uint64_t)last) : 0);
        if (column == 0 || column + width > LINE_WIDTH) {
            out_text(t->out, column == 0 ? "      tids" : "\n          ");
            column = 10;
        }
        column += width;
        out_char(t->out, ' ');
        out_signed(t->out, first);
        if (last > first) {
            out_char(t->out, '-');
            out_signed(t->out, last);
        }
    }
    if (i < group->n_threads) {
        out_text(t->out, " and ");
        out_unsigned(t->out, group->n_threads - i);
        out_text(t->out, " more (all in -f json)");
    }
    out_char(t->out, '\n');
}

static void put_trust(struct text *t, enum uw_trust trust)
{
    if (trust == UW_TRUST_FRAME_POINTER)
        out_text(t->out, "  [by frame pointer, unverified]");
    else if (trust != UW_TRUST_CONTEXT && trust != UW_TRUST_CFI)
        out_text(t->out, "  [inferred]");
}

static void put_frame(struct text *t, const struct frame *frame)
{
    const struct report_module *module = frame->module >= 0 ? &t->snapshot->modules[frame->module] : NULL;
    bool own = module != NULL && module->own;
    const char *name = NULL;

    if (own)
        color(t, "\033[1m");
    out_text(t->out, own ? "    > " : "      ");
    if (frame->symbol >= 0) {
        name = t->snapshot->symbols[frame->symbol].name;
        if (t->options->display_name != NULL)
            name = t->options->display_name(t->options->context, name);
        plain(t, name);
        if (module != NULL) {
            pad(t, 7 + text_length(name), COLUMN_MODULE);
            plain(t, module->name);
        }
    } else if (module != NULL) {
        plain(t, module->name);
        out_text(t->out, ":+");
        out_hex(t->out, frame->offset);
    } else {
        out_hex(t->out, frame->pc);
        out_text(t->out, "  (in no file)");
    }
    put_trust(t, frame->trust);
    if (own)
        color(t, "\033[0m");
    out_char(t->out, '\n');
}

static void put_stack(struct text *t, const struct report_stack *stack, bool copy_cut)
{
    uint32_t i, skipped = 0;

    if (stack->n_frames > FRAMES_INNERMOST + FRAMES_OUTERMOST)
        skipped = stack->n_frames - FRAMES_INNERMOST - FRAMES_OUTERMOST;
    for (i = 0; i < stack->n_frames; i++) {
        if (skipped > 0 && i == FRAMES_INNERMOST) {
            out_text(t->out, "      ... ");
            out_unsigned(t->out, skipped);
            out_text(t->out, " frames not shown here (all in -f json)\n");
            i += skipped;
        }
        put_frame(t, &t->snapshot->frames[stack->frames[i]]);
    }
    if (follows_frame_pointers(t, stack))
        out_text(t->out,
                 "      WARN: where frames are by frame pointer, a caller may be missing between them\n");
    if (stack->end != UW_END) {
        out_text(t->out, "      STACK ENDS: ");
        out_text(t->out, sentence_end(stack->end));
        out_char(t->out, '\n');
    } else if (stack->truncated || copy_cut) {
        out_text(t->out, "      STACK ENDS: the copy of the stack has a gap or was cut\n");
    }
}

static void put_group(struct text *t, const struct report_group *group, uint32_t number)
{
    const struct thread_sample *thread = &t->snapshot->threads[group->threads[0]];
    size_t used = 3 + unsigned_length(number);

    out_text(t->out, "\n[");
    out_unsigned(t->out, number);
    out_text(t->out, "] ");
    if (group->n_threads == 1) {
        put_thread(t, thread);
        used += name_length(thread) + 1 + unsigned_length((uint64_t)thread->os_tid);
    } else {
        out_text(t->out, "GROUP of ");
        out_unsigned(t->out, group->n_threads);
        out_text(t->out, " threads");
        used += 17 + unsigned_length(group->n_threads);
    }
    pad(t, used + 1, COLUMN_THREAD);
    put_doing(t, group);
    if (group->n_threads > 1) {
        put_names(t, group);
        put_ids(t, group);
    }
    if (thread->stack >= 0)
        put_stack(t, &t->snapshot->stacks[thread->stack], thread->truncated);
}

static void put_locks(struct text *t)
{
    const struct snapshot *snapshot = t->snapshot;
    uint32_t i, w;

    if (snapshot->n_locks > 0)
        out_char(t->out, '\n');
    for (i = 0; i < snapshot->n_locks && i < LOCKS_SHOWN; i++) {
        const struct report_lock *lock = &snapshot->locks[i];

        out_text(t->out, "LOCK  ");
        put_lock(t, lock->address, true);
        out_text(t->out, "  ");
        plain(t, lock->kind);
        out_text(t->out, "  owner ");
        if (lock->owner_tid != 0)
            put_tid(t, lock->owner_tid);
        else
            out_text(t->out, "none proven");
        out_text(t->out, "  ");
        out_unsigned(t->out, lock->n_waiters);
        out_text(t->out, lock->n_waiters == 1 ? " waiter:" : " waiters:");
        for (w = 0; w < lock->n_waiters && w < WAITERS_SHOWN; w++) {
            out_char(t->out, ' ');
            out_signed(t->out, lock->waiters[w]);
        }
        out_text(t->out, lock->n_waiters > WAITERS_SHOWN ? " ...\n" : "\n");
    }
    if (snapshot->n_locks > LOCKS_SHOWN) {
        out_text(t->out, "... ");
        out_unsigned(t->out, snapshot->n_locks - LOCKS_SHOWN);
        out_text(t->out, " more locks (all in -f json)\n");
    }
}

static void put_foot(struct text *t)
{
    const struct snapshot *snapshot = t->snapshot;
    const struct report_verdict *verdict = first_verdict(snapshot);
    uint32_t i;

    out_char(t->out, '\n');
    put_verdict_kind(t, verdict);
    if (snapshot->n_cycles == 0) {
        plain(t, verdict->text);
        out_char(t->out, '\n');
        return;
    }
    for (i = 0; i < snapshot->cycles[0].n_tids && i < NAMES_SHOWN; i++) {
        put_tid(t, snapshot->cycles[0].tids[i]);
        out_text(t->out, " -> ");
    }
    if (snapshot->cycles[0].n_tids > NAMES_SHOWN)
        out_text(t->out, "... -> ");
    put_tid(t, snapshot->cycles[0].tids[0]);
    out_char(t->out, '\n');
}

void report_text(struct out *out, const struct snapshot *snapshot, const struct text_options *options,
                 struct arena *arena)
{
    static const struct text_options no_options;
    struct text t = {.out = out, .snapshot = snapshot, .options = options ? options : &no_options};
    uint32_t i;

    t.grouped = group_threads(snapshot, arena, &t.groups);
    put_head(&t);
    put_count(&t);
    put_warnings(&t);
    for (i = 0; t.grouped && i < t.groups.n_groups; i++)
        put_group(&t, &t.groups.groups[i], i + 1);
    for (i = 0; !t.grouped && i < snapshot->n_threads; i++) /* no memory to sort: one by one, as they come */
        put_group(&t, &(struct report_group){&i, 1, RANK_OTHER}, i + 1);
    put_locks(&t);
    put_foot(&t);
}
