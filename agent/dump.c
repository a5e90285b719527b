/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See dump.h. This file is the way of the data; each stage lives in a file of its own.
 * Zone: probe thread.
 */
#include "agent/dump.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "agent/capture.h"
#include "agent/names.h"
#include "agent/process.h"
#include "agent/report/explain.h"
#include "agent/report/stages.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/walk.h"
#include "agent/nolibc.h"

#define MAX_WHY 24

struct dump {
    const struct request *request;
    const struct config *config;
    const struct subject *subject;
    struct arena *arena;
    const struct dump_sink *sink;
    struct snapshot snapshot;
    struct memory memory;
    struct modules modules;
    struct walk walk;
    struct capture_session session;
    const char *why[MAX_WHY];
    uint64_t started, deadline;
    bool list_whole; /* every thread is in the snapshot */
};

static void because(struct dump *dump, const char *sentence)
{
    struct process_info *process = &dump->snapshot.process;

    if (process->n_why < MAX_WHY)
        dump->why[process->n_why++] = sentence;
}

static void describe_process(struct dump *dump)
{
    struct process_info *process = &dump->snapshot.process;

    process_describe(process, dump->subject, dump->request->all_arguments, dump->arena);
    process->why = dump->why;
    if (dump->config->label[0])
        process->label = dump->config->label;
    for (unsigned i = 0; i < dump->config->n_complaints; i++)
        because(dump, dump->config->complaints[i]);
    for (unsigned i = 0; i < SUBJECT_LIMITS && dump->subject->limits[i]; i++)
        because(dump, dump->subject->limits[i]);
}

static void load_modules(struct dump *dump)
{
    struct modules *modules = &dump->modules;
    const char *exe = dump->snapshot.process.exe;
    int r = modules_load(modules, &dump->memory, dump->arena);

    if (r < 0 && modules->n_mappings == 0)
        because(dump, "the memory map cannot be read: no frame can be attributed to a module");
    else if (r < 0 || modules->truncated)
        because(dump, "the memory map is larger than the agent's memory: some frames have no module");
    modules->root = dump->subject->root;
    dump->snapshot.modules = modules->report;
    dump->snapshot.n_modules = modules->n_modules;
    for (uint32_t i = 0; exe && i < modules->n_modules; i++)
        if (text_equal(modules->report[i].path, exe))
            modules->report[i].own = true;
    int32_t ours = modules_find(modules, dump->subject->agent_code);
    if (ours >= 0)
        modules->report[ours].own = false;
}

/* Called by the backends for every raw context, while its bytes are there. */
static void take_context(void *context, struct thread_sample *sample, const struct raw_context *raw)
{
    struct dump *dump = context;

    sample->stack = walk_unwind(&dump->walk, raw);
    if (sample->stack < 0) {
        sample->capture = CAPTURE_NONE;
        sample->reason = REASON_MEMORY;
    }
}

static bool open_session(struct dump *dump)
{
    const struct subject *subject = dump->subject;
    long fd = sys_openat(subject->directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

    if (fd < 0)
        return false;
    dump->session = (struct capture_session){
        .task_fd = (int)fd,
        .pid = subject->pid,
        .self_tid = subject->agent_tid,
        .main_tid = subject->proc_pid,
        .foreign_proc = subject->foreign_proc,
        .foreign_registers = subject->foreign_registers,
        .mode = dump->request->mode,
        .max_stack = dump->config->max_stack,
        .deadline = dump->deadline,
        .running = subject->running,
        .memory = &dump->memory,
        .modules = &dump->modules,
        .arena = dump->arena,
        .stats = &dump->snapshot.stats,
        .take = take_context,
        .take_context = dump,
    };
    return true;
}

static void capture(struct dump *dump)
{
    struct snapshot *snapshot = &dump->snapshot;
    int r;

    if (!open_session(dump))
        return;
    r = capture_list(&dump->session, &snapshot->threads, &snapshot->n_threads);
    dump->list_whole = r == 0;
    if (!dump->list_whole)
        because(dump, "the list of threads is not whole: memory or permission");
    if (walk_init(&dump->walk, snapshot, &dump->modules, &dump->memory, dump->arena, snapshot->n_threads) <
        0) {
        because(dump, "the agent's memory is too small for this program: stacks are missing");
        capture_none(&dump->session, snapshot->threads, snapshot->n_threads, REASON_MEMORY);
        return;
    }
    dump->walk.deadline = dump->deadline;
    capture_threads(&dump->session, snapshot->threads, snapshot->n_threads);
}

/* What the kernel keeps from us, once for all threads. */
static void note_what_is_hidden(struct dump *dump)
{
    const struct snapshot *snapshot = &dump->snapshot;
    bool registers = false;

    for (uint32_t i = 0; i < snapshot->n_threads; i++)
        registers = registers || snapshot->threads[i].reason == REASON_SYSCALL_UNREADABLE;
    if (registers && !dump->session.foreign_registers)
        because(dump,
                "the registers of sleeping threads cannot be read from /proc: those threads have no stack");
    if (memory_is_hidden(&dump->memory))
        because(dump, "the program's memory cannot be read, neither by process_vm_readv nor through /proc");
}

static bool has_whole_stack(const struct snapshot *snapshot, const struct thread_sample *thread)
{
    const struct report_stack *stack;

    if (thread->reason == REASON_ZOMBIE || thread->reason == REASON_KERNEL_WORKER)
        return true; /* there is no user stack to be had */
    if (thread->stack < 0 || thread->truncated || !thread->stable)
        return false;
    stack = &snapshot->stacks[thread->stack];
    return stack->end == UW_END && !stack->truncated;
}

static void count(struct dump *dump)
{
    struct snapshot *snapshot = &dump->snapshot;

    snapshot->complete = dump->list_whole && snapshot->n_threads > 0 && !snapshot_partial(snapshot);
    for (uint32_t i = 0; i < snapshot->n_threads; i++) {
        const struct thread_sample *thread = &snapshot->threads[i];

        if (!has_whole_stack(snapshot, thread))
            snapshot->complete = false;
        for (uint32_t j = 0; thread->stack >= 0 && j < snapshot->stacks[thread->stack].n_frames; j++)
            if (snapshot->frames[snapshot->stacks[thread->stack].frames[j]].module < 0)
                snapshot->stats.frames_unattributed++;
    }
    snapshot->captured = true;
    snapshot->stats.duration_nanos = sys_monotonic_nanos() - dump->started;
}

static void name(struct dump *dump)
{
    struct snapshot *snapshot = &dump->snapshot;

    if (!dump->request->symbols)
        return;
    if (!names_resolve(snapshot, &dump->modules, &dump->memory, dump->arena, dump->deadline))
        because(dump, "time or memory ran out before every frame had a name");
    encode_names_stage(dump->sink->out, snapshot);
}

/*
 * A thread that started after the list was made may own a lock by now. It is alive, so its lock must not be
 * called orphaned; what is not in the snapshot cannot be proven still either.
 */
static bool owner_is_newcomer(const struct dump *dump, const struct thread_sample *thread)
{
    const struct snapshot *snapshot = &dump->snapshot;
    char name[16];
    struct out out = {.buffer = name, .size = sizeof name - 1};
    struct stat status;

    if (thread->wait.owner_status != OWNER_GONE)
        return false;
    for (uint32_t i = 0; i < snapshot->n_threads; i++)
        if (snapshot->threads[i].os_tid == thread->wait.owner_tid)
            return false;
    out_unsigned(&out, (uint64_t)thread->wait.owner_tid);
    name[out.used] = 0;
    return sys_fstatat(dump->session.task_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Captures are not simultaneous: what is claimed about several threads rests on proof that
 * they stayed as they were.
 */
static void explain(struct dump *dump)
{
    struct snapshot *snapshot = &dump->snapshot;

    explain_waits(snapshot);
    for (uint32_t i = 0; i < snapshot->n_threads; i++) {
        struct thread_sample *thread = &snapshot->threads[i];

        if (explain_needs_proof(snapshot, thread))
            thread->still = capture_is_still(&dump->session, thread) && !owner_is_newcomer(dump, thread);
    }
    explain_conclude(snapshot, dump->arena);
    encode_explanation_stage(dump->sink->out, snapshot);
}

static void stage_done(const struct dump *dump)
{
    dump->sink->stage_done(dump->sink->context);
}

static void take_dump(struct dump *dump)
{
    struct out *out = dump->sink->out;

    describe_process(dump);
    encode_process(out, &dump->snapshot.process);
    stage_done(dump);

    load_modules(dump);
    capture(dump);
    note_what_is_hidden(dump);
    count(dump);
    encode_raw_stage(out, &dump->snapshot);
    stage_done(dump);

    name(dump);
    explain(dump);
    if (dump->session.task_fd >= 0)
        sys_close(dump->session.task_fd);
}

void dump_run(const struct request *request, const struct config *config, const struct subject *subject,
              struct arena *arena, const struct dump_sink *sink)
{
    struct dump dump = {
        .request = request,
        .config = config,
        .subject = subject,
        .arena = arena,
        .sink = sink,
        .memory = {.pid = subject->tid,
                   .directory = subject->directory,
                   .mem_fd = -1,
                   .file_first = subject->file_first},
        .session = {.task_fd = -1},
        .started = sys_monotonic_nanos(),
    };

    dump.deadline = dump.started + request->timeout_nanos;
    dump.memory.pages = arena_array(arena, MEMORY_CACHED_PAGES, sizeof *dump.memory.pages);
    memory_forget(&dump.memory);
    encode_hello(sink->out, PROBE_VERSION);
    if (request->verb == REQUEST_DUMP)
        take_dump(&dump);
    if (dump.memory.mem_fd >= 0)
        sys_close(dump.memory.mem_fd);
    encode_end(sink->out, &dump.snapshot);
    stage_done(&dump);
}
