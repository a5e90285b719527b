/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See names.h. Every used module is opened once; all addresses in it are found in one pass over its tables.
 * Zone: probe thread.
 */
#include "agent/names.h"

#include "agent/module_file.h"
#include "agent/sys.h"
#include "unwind/symbols.h"
#include "agent/nolibc.h"

#define PASS_BUFFER ((size_t)64 * 1024)
#define MAX_NAME ((size_t)64 * 1024) /* the longest C++ name seen in the wild is below 20,000 bytes */

/* What is to be named: a frame, or the address of a lock. */
struct wanted {
    uint64_t address; /* ELF virtual address to look up */
    uint32_t index;   /* of the frame or address in the snapshot */
    bool is_frame;
};

static uint64_t lookup_address(const struct frame *frame)
{
    return frame->offset - (frame->exact ? 0 : 1);
}

/* Shell sort: no recursion, no allocation; the gaps are Ciura's. */
static void sort_wanted(struct wanted *wanted, size_t n)
{
    static const size_t gaps[] = {86961, 33936, 13776, 4592, 1968, 701, 301, 132, 57, 23, 10, 4, 1};

    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (size_t i = gaps[g]; i < n; i++) {
            struct wanted moving = wanted[i];
            size_t j = i;

            for (; j >= gaps[g] && wanted[j - gaps[g]].address > moving.address; j -= gaps[g])
                wanted[j] = wanted[j - gaps[g]];
            wanted[j] = moving;
        }
}

/* The addresses in modules where threads wait at a futex: what a lock is called, if it is one. */
static void collect_addresses(struct snapshot *snapshot, const struct modules *modules,
                              struct wanted *scratch)
{
    size_t n = 0;

    for (uint32_t i = 0; i < snapshot->n_threads; i++)
        if (snapshot->threads[i].lock_word.known)
            scratch[n++] = (struct wanted){.address = snapshot->threads[i].syscall.args[0]};
    sort_wanted(scratch, n);
    for (size_t i = 0; i < n; i++) {
        int32_t module = modules_find(modules, scratch[i].address);

        if (module >= 0 && (i == 0 || scratch[i].address != scratch[i - 1].address))
            snapshot->addresses[snapshot->n_addresses++] =
                (struct report_address){.address = scratch[i].address, .module = module, .symbol = -1};
    }
}

static size_t collect(const struct snapshot *snapshot, int32_t module, struct wanted *ret)
{
    size_t n = 0;

    for (uint32_t i = 0; i < snapshot->n_frames; i++)
        if (snapshot->frames[i].module == module)
            ret[n++] = (struct wanted){lookup_address(&snapshot->frames[i]), i, true};
    for (uint32_t i = 0; i < snapshot->n_addresses; i++)
        if (snapshot->addresses[i].module == module)
            ret[n++] =
                (struct wanted){snapshot->addresses[i].address - snapshot->modules[module].base, i, false};
    sort_wanted(ret, n);
    return n;
}

static size_t make_queries(const struct wanted *wanted, size_t n, struct symbol_query *ret)
{
    size_t n_queries = 0;

    for (size_t i = 0; i < n; i++)
        if (i == 0 || wanted[i].address != wanted[i - 1].address)
            ret[n_queries++] = (struct symbol_query){.address = wanted[i].address};
    return n_queries;
}

/* The stage's working memory: arrays for the frames of one module at a time. */
struct naming {
    struct snapshot *snapshot;
    struct arena *arena;
    struct wanted *wanted;
    struct symbol_query *queries;
    void *buffer;
    int root; /* modules.root */
    uint64_t deadline;
};

static int32_t add_symbol(const struct naming *naming, const struct elf_reader *reader,
                          const struct symbol_query *query)
{
    struct snapshot *snapshot = naming->snapshot;
    struct arena *arena = naming->arena;
    size_t before = arena->used;
    char *name = arena_alloc(arena, MAX_NAME);
    size_t n = name ? symbols_read_name(reader, query, name, MAX_NAME) : 0;

    if (n == 0) {
        arena->used = before;
        return -1;
    }
    arena->used -= MAX_NAME - (n + 1);
    snapshot->symbols[snapshot->n_symbols] = (struct symbol){.name = name};
    return (int32_t)snapshot->n_symbols++;
}

/*
 * symbol_offset is counted from the symbol's start, so that of a return address is one
 * more than what was looked up.
 */
static void give_name(struct snapshot *snapshot, const struct wanted *wanted, int32_t symbol, uint64_t value)
{
    if (wanted->is_frame) {
        struct frame *frame = &snapshot->frames[wanted->index];

        frame->symbol = symbol;
        frame->symbol_offset = frame->offset - value;
    } else {
        struct report_address *address = &snapshot->addresses[wanted->index];

        address->symbol = symbol;
        address->symbol_offset = wanted->address - value;
    }
}

/* Hands the answers out; both arrays are sorted by address. Neighbours often share a symbol. */
static void apply(const struct naming *naming, const struct elf_reader *reader, size_t n)
{
    const struct symbol_query *query = naming->queries, *named = NULL;
    int32_t symbol = -1;

    for (size_t i = 0; i < n; i++) {
        if (naming->wanted[i].address != query->address)
            query++;
        if (!query->found)
            continue;
        if (!named || named->name != query->name || named->value != query->value)
            symbol = add_symbol(naming, reader, query);
        named = query;
        if (symbol >= 0)
            give_name(naming->snapshot, &naming->wanted[i], symbol, query->value);
    }
}

static enum module_symbols resolve_tables(const struct naming *naming, const struct elf_reader *reader,
                                          const struct elf_file *file, size_t n)
{
    size_t n_queries = make_queries(naming->wanted, n, naming->queries);

    if (file->symtab.count == 0 && file->dynsym.count == 0)
        return SYMBOLS_NONE;
    if (symbols_resolve(reader, file, naming->queries, n_queries, naming->buffer, PASS_BUFFER) != ELF_OK)
        return SYMBOLS_MALFORMED;
    apply(naming, reader, n);
    return file->symtab.count ? SYMBOLS_TABLE : SYMBOLS_DYNAMIC;
}

static enum module_symbols resolve_in_file(const struct naming *naming, const struct report_module *module,
                                           size_t n)
{
    struct module_file file;
    enum module_symbols outcome = module_file_open(&file, naming->root, module, naming->deadline);

    if (outcome == SYMBOLS_TABLE) {
        outcome = resolve_tables(naming, &file.reader, &file.elf, n);
        if (file.failed)
            outcome = SYMBOLS_UNREADABLE;
        if (file.late)
            outcome = SYMBOLS_NOT_LOOKED;
    }
    module_file_close(&file);
    return outcome;
}

struct image {
    struct memory *memory;
    uint64_t base;
};

static bool read_image_at(void *context, uint64_t offset, void *to, size_t size)
{
    const struct image *image = context;

    return memory_read(image->memory, image->base + offset, to, size) == size;
}

/* The vDSO is no file, but the kernel maps its whole image, section headers included. */
static enum module_symbols resolve_vdso(const struct naming *naming, struct memory *memory,
                                        const struct report_module *module, size_t n)
{
    struct image image = {memory, module->start};
    struct elf_reader reader = {&image, read_image_at};
    struct elf_file file;

    return elf_read_file(&reader, &file) == ELF_OK ? resolve_tables(naming, &reader, &file, n)
                                                   : SYMBOLS_MALFORMED;
}

static enum module_symbols resolve_module(const struct naming *naming, struct memory *memory,
                                          const struct report_module *module, size_t n)
{
    return module->path[0] == '/' ? resolve_in_file(naming, module, n)
                                  : resolve_vdso(naming, memory, module, n);
}

static bool has_no_names(const struct report_module *module)
{
    return module->symbols == SYMBOLS_NOT_LOOKED || module->symbols == SYMBOLS_UNREADABLE;
}

/* Room for the names of most frames and addresses, after those that are there. */
static bool begin(struct naming *naming, size_t most)
{
    struct snapshot *snapshot = naming->snapshot;
    struct symbol *symbols = arena_array(naming->arena, most + snapshot->n_symbols, sizeof *symbols);

    naming->wanted = arena_array(naming->arena, most, sizeof *naming->wanted);
    naming->queries = arena_array(naming->arena, most, sizeof *naming->queries);
    naming->buffer = arena_alloc(naming->arena, PASS_BUFFER);
    if (!symbols || !naming->wanted || !naming->queries || !naming->buffer)
        return false;
    for (uint32_t i = 0; i < snapshot->n_symbols; i++)
        symbols[i] = snapshot->symbols[i];
    snapshot->symbols = symbols;
    return true;
}

/* Returns false when time ran out. */
static bool resolve_modules(const struct naming *naming, struct memory *memory)
{
    struct snapshot *snapshot = naming->snapshot;

    for (uint32_t i = 0; i < snapshot->n_modules; i++) {
        struct report_module *module = &snapshot->modules[i];
        size_t n = has_no_names(module) ? collect(snapshot, (int32_t)i, naming->wanted) : 0;

        if (n == 0 || (!memory && module->path[0] != '/'))
            continue;
        if (sys_monotonic_nanos() >= naming->deadline)
            return false;
        module->symbols = resolve_module(naming, memory, module, n);
        if (module->symbols == SYMBOLS_NOT_LOOKED)
            return false;
    }
    return true;
}

bool names_resolve(struct snapshot *snapshot, const struct modules *modules, struct memory *memory,
                   struct arena *arena, uint64_t deadline)
{
    struct naming naming = {
        .snapshot = snapshot, .arena = arena, .root = modules->root, .deadline = deadline};

    snapshot->n_symbols = 0;
    snapshot->n_addresses = 0;
    snapshot->addresses = arena_array(arena, snapshot->n_threads, sizeof *snapshot->addresses);
    if (!snapshot->addresses || !begin(&naming, (size_t)snapshot->n_frames + snapshot->n_threads))
        return false;
    collect_addresses(snapshot, modules, naming.wanted);
    if (!resolve_modules(&naming, memory))
        return false;
    snapshot->frames_resolved = true;
    return true;
}

void names_fill(struct snapshot *snapshot, int root, struct arena *arena, uint64_t deadline)
{
    struct naming naming = {.snapshot = snapshot, .arena = arena, .root = root, .deadline = deadline};

    if (begin(&naming, (size_t)snapshot->n_frames + snapshot->n_addresses))
        resolve_modules(&naming, NULL);
}
