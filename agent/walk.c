/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a raw context to an interned stack of interned frames; see walk.h.
 * Zone: probe thread.
 */
#include "agent/walk.h"

#include <asm/errno.h>

#include "agent/module_file.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "unwind/recover.h"

#include "agent/nolibc.h"

/*
 * Capacities by thread count. A large array costs memory only where it is touched, but the hash tables are
 * cleared for every dump, so they grow with the threads: 32 different frames each is twice what the stacks of
 * the server programs we looked at have. Where that is too little the report says so (REASON_MEMORY).
 */
#define FRAMES_BASE 8192u
#define FRAMES_PER_THREAD 32u
#define FRAMES_MAX 65536u
#define IDS_BASE (16u * SNAPSHOT_MAX_FRAMES)
#define IDS_PER_THREAD 128u
#define IDS_MAX (2u * 1024 * 1024)

static uint32_t clamp_sum(uint32_t base, uint32_t per_thread, uint32_t n, uint32_t max)
{
    uint64_t sum = base + (uint64_t)per_thread * n;

    return sum > max ? max : (uint32_t)sum;
}

/* The part of a table that does not grow with the threads, in an arena made small by RLIMIT_AS. */
static uint32_t affordable(uint32_t base, size_t element, const struct arena *arena)
{
    size_t share = arena_left(arena) / 8 / element;

    return share < base ? (uint32_t)share : base;
}

/* A power of two that keeps an open table at most half full. */
static uint32_t table_slots(uint32_t limit)
{
    uint32_t slots = 64;

    while (slots < 2 * limit)
        slots *= 2;
    return slots;
}

static uint32_t *new_table(struct arena *arena, uint32_t slots)
{
    uint32_t *table = arena_array(arena, slots, sizeof(*table));

    for (uint32_t i = 0; table && i < slots; i++)
        table[i] = 0;
    return table;
}

/* What calls from there is not on any list; the page that the kernel has for old programs calls nobody. */
static bool has_foreign_code(const struct modules *modules)
{
    for (uint32_t i = 0; i < modules->n_mappings; i++) {
        const struct mapping *mapping = &modules->mappings[i];

        if (mapping->executable && modules_find(modules, mapping->start) < 0 &&
            !text_equal(mapping->path, "[vsyscall]"))
            return true;
    }
    return modules->truncated;
}

int walk_init(struct walk *walk, struct snapshot *snapshot, const struct modules *modules,
              struct memory *memory, struct arena *arena, uint32_t n_threads)
{
    *walk = (struct walk){.snapshot = snapshot, .modules = modules, .memory = memory};
    walk->frame_limit = clamp_sum(affordable(FRAMES_BASE, sizeof(*snapshot->frames), arena),
                                  FRAMES_PER_THREAD, n_threads, FRAMES_MAX);
    /*
     * A stack that could not be proven in the end stays in the table, so there may be
     * more stacks than threads.
     */
    walk->stack_limit = clamp_sum(64, 2, n_threads, 1024 * 1024);
    walk->ids_limit =
        clamp_sum(affordable(IDS_BASE, sizeof(*walk->ids), arena), IDS_PER_THREAD, n_threads, IDS_MAX);
    walk->frame_slots = table_slots(walk->frame_limit);
    walk->stack_slots = table_slots(walk->stack_limit);

    snapshot->frames = arena_array(arena, walk->frame_limit, sizeof(*snapshot->frames));
    snapshot->stacks = arena_array(arena, walk->stack_limit, sizeof(*snapshot->stacks));
    snapshot->n_frames = snapshot->n_stacks = 0;
    walk->frame_table = new_table(arena, walk->frame_slots);
    walk->stack_table = new_table(arena, walk->stack_slots);
    walk->ids = arena_array(arena, walk->ids_limit, sizeof(*walk->ids));
    walk->current = arena_array(arena, SNAPSHOT_MAX_FRAMES, sizeof(*walk->current));
    walk->tables_sought = arena_array(arena, modules->n_modules, sizeof(*walk->tables_sought));
    walk->cache = arena_alloc(arena, uw_rule_cache_size());
    walk->recovery = arena_alloc(arena, uw_recovery_size());
    if (!snapshot->frames || !snapshot->stacks || !walk->frame_table || !walk->stack_table || !walk->ids ||
        !walk->current || !walk->tables_sought || !walk->cache || !walk->recovery)
        return -ENOMEM;
    for (uint32_t i = 0; i < modules->n_modules; i++)
        walk->tables_sought[i] = false;
    uw_rule_cache_clear(walk->cache);
    uw_recovery_clear(walk->recovery);
    walk->foreign_code = has_foreign_code(modules);
    return 0;
}

/*
 * A module that was linked without .eh_frame_hdr has its unwind tables in memory, but only the section
 * headers say where, and those are in its file. It is opened once a dump, and only when a stack leads through
 * the module.
 */
static void seek_tables(const struct walk *walk, int32_t index)
{
    struct uw_module *module = &walk->modules->unwind[index];
    const struct report_module *report = &walk->modules->report[index];
    struct module_file file;

    walk->tables_sought[index] = true;
    if (report->path[0] != '/' || sys_monotonic_nanos() >= walk->deadline)
        return;
    if (module_file_open(&file, walk->modules->root, report, walk->deadline) == SYMBOLS_TABLE) {
        uint64_t start = module->bias + file.elf.eh_frame;

        if (start >= module->start && start < module->end && file.elf.eh_frame_size <= module->end - start) {
            module->eh_frame = start;
            module->eh_frame_size = file.elf.eh_frame_size;
        }
    }
    module_file_close(&file);
}

static const struct uw_module *find_module(void *context, uint64_t address)
{
    const struct walk *walk = context;
    int32_t index = modules_find(walk->modules, address);

    if (index < 0)
        return NULL;
    if (walk->modules->unwind[index].eh_frame_hdr_size == 0 && !walk->tables_sought[index])
        seek_tables(walk, index);
    return &walk->modules->unwind[index];
}

static bool in_window(const struct stack_window *window, uint64_t address, size_t size)
{
    return address >= window->base && address - window->base <= window->size &&
           size <= window->size - (address - window->base);
}

static bool read_stack(void *context, uint64_t address, void *to, size_t size)
{
    struct walk *walk = context;
    const struct raw_context *raw = walk->raw;

    for (unsigned i = 0; i < 2; i++) {
        const struct stack_window *window = &raw->window[i];

        if (in_window(window, address, size)) {
            __builtin_memcpy(to, window->bytes + (address - window->base), size);
            return true;
        }
    }
    if (!raw->live || memory_read(walk->memory, address, to, size) != size)
        return false;
    walk->read_live = true;
    return true;
}

static bool read_table(void *context, uint64_t address, void *to, size_t size)
{
    struct walk *walk = context;

    return memory_read_cached(walk->memory, address, to, size);
}

/* splitmix64's finaliser: pcs differ in few, neighbouring bits. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool same_frame(const struct frame *a, const struct frame *b)
{
    return a->pc == b->pc && a->module == b->module && a->trust == b->trust && a->exact == b->exact;
}

/* The index of frame among the snapshot's frames, added if new, or -1 when there is no room. */
static int64_t intern_frame(struct walk *walk, const struct frame *frame)
{
    struct snapshot *snapshot = walk->snapshot;
    uint32_t slot = (uint32_t)mix(frame->pc + ((uint64_t)frame->trust << 1) + frame->exact);

    for (uint32_t i = 0; i < walk->frame_slots; i++, slot++) {
        uint32_t *entry = &walk->frame_table[slot & (walk->frame_slots - 1)];

        if (*entry && same_frame(&snapshot->frames[*entry - 1], frame))
            return *entry - 1;
        if (!*entry) {
            if (snapshot->n_frames == walk->frame_limit)
                return -1;
            snapshot->frames[snapshot->n_frames] = *frame;
            *entry = ++snapshot->n_frames;
            return *entry - 1;
        }
    }
    return -1;
}

static int64_t add_frame(struct walk *walk, const struct uw_cursor *cursor)
{
    struct frame frame = {.pc = cursor->regs.pc,
                          .offset = cursor->regs.pc,
                          .symbol = -1,
                          .trust = cursor->trust,
                          .exact = cursor->pc_kind == UW_PC_EXACT};

    frame.module = modules_find(walk->modules, uw_lookup_pc(cursor));
    if (frame.module >= 0)
        frame.offset = frame.pc - walk->modules->report[frame.module].base;
    return intern_frame(walk, &frame);
}

static bool same_stack(const struct report_stack *a, const struct report_stack *b)
{
    return a->n_frames == b->n_frames && a->end == b->end && a->truncated == b->truncated &&
           !__builtin_memcmp(a->frames, b->frames, a->n_frames * sizeof(*a->frames));
}

static int32_t intern_stack(struct walk *walk, const struct report_stack *stack)
{
    struct snapshot *snapshot = walk->snapshot;
    uint64_t hash = mix(stack->n_frames + ((uint64_t)stack->end << 33) + ((uint64_t)stack->truncated << 32));
    uint32_t slot;

    for (uint32_t i = 0; i < stack->n_frames; i++)
        hash = mix(hash + stack->frames[i]);
    slot = (uint32_t)hash;
    for (uint32_t i = 0; i < walk->stack_slots; i++, slot++) {
        uint32_t *entry = &walk->stack_table[slot & (walk->stack_slots - 1)];

        if (*entry && same_stack(&snapshot->stacks[*entry - 1], stack))
            return (int32_t)*entry - 1;
        if (!*entry) {
            struct report_stack *added = &snapshot->stacks[snapshot->n_stacks];

            if (snapshot->n_stacks == walk->stack_limit || stack->n_frames > walk->ids_limit - walk->n_ids)
                return -1;
            *added = *stack;
            added->frames = walk->ids + walk->n_ids;
            __builtin_memcpy(walk->ids + walk->n_ids, stack->frames,
                             stack->n_frames * sizeof(*stack->frames));
            walk->n_ids += stack->n_frames;
            *entry = ++snapshot->n_stacks;
            return (int32_t)*entry - 1;
        }
    }
    return -1;
}

/* The whole stack from the stack pointer to its end was copied, and all that can call is known. */
static uint64_t searchable_end(const struct walk *walk, const struct raw_context *raw)
{
    if (raw->truncated || walk->foreign_code || raw->stack_top != raw->window[0].base + raw->window[0].size)
        return 0;
    return raw->stack_top;
}

/* A sleeping thread's frame pointer is not known at first; where a frame cannot do without, it is recovered.
 */
static enum uw_status step(struct walk *walk, const struct uw_space *space, struct uw_cursor *cursor)
{
    enum uw_status status = uw_step(space, cursor);
    struct uw_cursor recovered = *cursor;

    if (status != UW_REGISTER_UNKNOWN)
        return status;
    status = uw_recover(space, walk->recovery, &recovered, searchable_end(walk, walk->raw));
    if (status != UW_OK)
        return status;
    status = uw_step(space, &recovered);
    if (status == UW_OK)
        *cursor = recovered;
    return status;
}

int32_t walk_unwind(struct walk *walk, const struct raw_context *raw)
{
    const struct uw_space space = {.arch = &uw_arch_x86_64,
                                   .context = walk,
                                   .find_module = find_module,
                                   .read_stack = read_stack,
                                   .read_table = read_table,
                                   .cache = walk->cache};
    struct uw_cursor cursor = {.regs = raw->regs, .pc_kind = UW_PC_EXACT, .trust = UW_TRUST_CONTEXT};
    struct report_stack stack = {.frames = walk->current};

    walk->raw = raw;
    walk->read_live = false;
    do {
        struct uw_cursor left = cursor;
        int64_t frame;

        stack.end = step(walk, &space, &cursor);
        /*
         * A handler returns to the first byte of its trampoline, which nobody called: that pc is looked up as
         * it is, or it would take the name of the function in front of it.
         */
        if (stack.end == UW_OK && cursor.signal_frame)
            left.pc_kind = UW_PC_EXACT;
        frame = add_frame(walk, &left);
        if (frame < 0)
            return -1;
        walk->current[stack.n_frames++] = (uint32_t)frame;
    } while (stack.end == UW_OK && stack.n_frames < SNAPSHOT_MAX_FRAMES);

    /* The limit or the end of what was copied cut it; any other end is the unwinder's own. */
    if (stack.end == UW_OK || (stack.end == UW_STACK_UNREADABLE && raw->truncated))
        stack.truncated = true;
    if (raw->ret_read_live && walk->read_live)
        *raw->ret_read_live = true;
    return intern_stack(walk, &stack);
}
