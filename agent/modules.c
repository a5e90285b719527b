/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See modules.h. The text of maps stays in the arena and is cut into lines in place, so
 * that the module paths need no copies.
 * Zone: probe thread.
 */
#include "agent/modules.h"

#include <fcntl.h>
#include <linux/errno.h>

#include "agent/sys.h"
#include "agent/text.h"
#include "unwind/elf.h"
#include "agent/nolibc.h"

#define MAX_MODULES 4096u /* picked at random: the largest program seen has 400 */
#define MIN_LINE 40       /* bytes; the shortest line of maps: two addresses and an offset of 8 digits each */

/*
 * The whole file, NUL-terminated. procfs gives whole lines, at most a page a read; a map that changes in
 * between can show a mapping twice or not at all, never half.
 */
static int read_maps(int directory, struct arena *arena, char **ret_text, size_t *ret_size)
{
    char *text = arena_alloc(arena, 0);
    size_t used = 0;
    /* Leave room for the arrays made from the text: they take about as much again. */
    size_t limit = text ? arena_left(arena) / 3 : 0;
    long fd, n;

    if (limit < 4096)
        return -ENOMEM;
    fd = sys_openat(directory, "maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return (int)fd;
    do {
        n = sys_read((int)fd, text + used, limit - 1 - used);
        if (n > 0)
            used += (size_t)n;
    } while (n > 0 && used < limit - 1);
    sys_close((int)fd);
    if (n < 0)
        return (int)n;
    text[used] = 0;
    arena_alloc(arena, used + 1);
    *ret_text = text;
    *ret_size = used;
    return n > 0 ? -ENOMEM : 0; /* the map is longer than the arena has room for: used, and said so */
}

/* maps shows a line feed in a path as \012 (fs/proc/task_mmu.c, seq_path with "\n"); nothing else is escaped.
 */
static void unescape(char *path)
{
    char *to = path;

    for (const char *from = path; *from; to++) {
        const char *after = text_after(from, "\\012");

        *to = after ? '\n' : *from;
        from = after ? after : from + 1;
    }
    *to = 0;
}

/* "start-end perms offset major:minor inode   path" (proc(5)); false for anything else. */
static bool parse_line(const char *line, struct mapping *mapping)
{
    uint64_t major, minor;

    *mapping = (struct mapping){.module = -1};
    if (!text_take_hex(&line, &mapping->start) || *line++ != '-' || !text_take_hex(&line, &mapping->end) ||
        *line++ != ' ' || mapping->end <= mapping->start)
        return false;
    for (unsigned i = 0; i < 4; i++)
        if (!line[i])
            return false;
    mapping->readable = line[0] == 'r';
    mapping->executable = line[2] == 'x';
    line += 4;
    if (*line++ != ' ' || !text_take_hex(&line, &mapping->file_offset) || *line++ != ' ' ||
        !text_take_hex(&line, &major) || *line++ != ':' || !text_take_hex(&line, &minor) || *line++ != ' ' ||
        !text_take_decimal(&line, &mapping->inode))
        return false;
    mapping->device = major << 32 | minor;
    while (*line == ' ')
        line++;
    mapping->main_stack = text_equal(line, "[stack]");
    mapping->path = line;
    return true;
}

struct image_source {
    struct memory *memory;
    uint64_t base;
};

static bool read_image(void *context, uint64_t offset, void *to, size_t size)
{
    struct image_source *source = context;

    return memory_read_cached(source->memory, source->base + offset, to, size);
}

static char *hex_text(struct arena *arena, const uint8_t *bytes, size_t n)
{
    char *text = arena_alloc(arena, n * 2 + 1);

    if (!text)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        text[i * 2] = text_hex_digit(bytes[i] >> 4);
        text[i * 2 + 1] = text_hex_digit(bytes[i] & 15);
    }
    text[n * 2] = 0;
    return text;
}

static bool is_system_path(const char *path)
{
    static const char *const prefixes[] = {"/lib/",       "/lib64/",     "/lib32/",      "/usr/lib/",
                                           "/usr/lib64/", "/usr/lib32/", "/usr/libexec/"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (text_after(path, prefixes[i]))
            return true;
    return false;
}

/* Adds the module whose ELF header is at the start of this mapping; false where there is none. */
static bool add_module(struct modules *modules, struct memory *memory, struct arena *arena,
                       const struct mapping *mapping)
{
    const char *path = mapping->path;
    struct image_source source = {memory, mapping->start};
    struct elf_reader reader = {&source, read_image};
    struct report_module *report = &modules->report[modules->n_modules];
    struct elf_image image;

    if (elf_read_image(&reader, mapping->start, &image) != ELF_OK || image.end <= mapping->start)
        return false;
    *report = (struct report_module){
        .path = path,
        .name = text_basename(path),
        .base = image.bias,
        .start = image.start,
        .end = image.end,
        .device = mapping->device,
        .inode = mapping->inode,
        .own = path[0] == '/' && !is_system_path(path),
    };
    if (image.build_id_size > 0)
        report->build_id = hex_text(arena, image.build_id, image.build_id_size);
    modules->unwind[modules->n_modules] = (struct uw_module){
        .start = image.start,
        .end = image.end,
        .bias = image.bias,
        .eh_frame_hdr = image.eh_frame_hdr,
        .eh_frame_hdr_size = image.eh_frame_hdr_size,
    };
    modules->n_modules++;
    return true;
}

/*
 * Does a loaded ELF image begin here? A file that is only mapped for reading (a linker or debugger looking at
 * a library) has no executable part and its layout is the file's, not an image's.
 */
static bool begins_image(const struct modules *modules, uint32_t i)
{
    const struct mapping *first = &modules->mappings[i];

    if (first->file_offset != 0 || !first->readable)
        return false;
    if (first->inode == 0)
        return text_equal(first->path, "[vdso]");
    for (uint32_t j = i; j < modules->n_mappings; j++) {
        const struct mapping *next = &modules->mappings[j];

        if (next->inode != 0 && (next->inode != first->inode || next->device != first->device))
            break;
        if (j > i && next->file_offset == 0 && next->inode != 0)
            break; /* the same file once more */
        if (next->executable && next->inode != 0)
            return true;
    }
    return false;
}

/* An image ends where another file's begins at the latest, whatever its program headers claim. */
static void end_image_at(struct modules *modules, const struct mapping *next)
{
    struct report_module *last = &modules->report[modules->n_modules - 1];

    if (last->inode == next->inode && last->device == next->device)
        return;
    last->end = modules->unwind[modules->n_modules - 1].end = next->start;
}

static void find_modules(struct modules *modules, struct memory *memory, struct arena *arena)
{
    for (uint32_t i = 0; i < modules->n_mappings; i++) {
        struct mapping *mapping = &modules->mappings[i];
        uint32_t n = modules->n_modules;

        if (n > 0 && mapping->start < modules->unwind[n - 1].end && begins_image(modules, i))
            end_image_at(modules, mapping);
        /* Anonymous memory inside a module's range is its .bss. */
        if (n > 0 && mapping->start < modules->unwind[n - 1].end) {
            mapping->module = (int32_t)n - 1;
        } else if (begins_image(modules, i)) {
            if (n == MAX_MODULES)
                modules->truncated = true;
            else if (add_module(modules, memory, arena, mapping))
                mapping->module = (int32_t)n;
        }
    }
}

static void parse_mappings(struct modules *modules, char *text, size_t size)
{
    for (char *line = text, *end; line < text + size; line = end + 1) {
        struct mapping *mapping = &modules->mappings[modules->n_mappings];

        for (end = line; *end && *end != '\n'; end++)
            ;
        *end = 0;
        if (end - line < MIN_LINE - 1 || !parse_line(line, mapping))
            continue;
        modules->n_mappings++;
        unescape(line + (mapping->path - line));
        if (mapping->main_stack)
            modules->main_stack_top = mapping->end;
    }
}

int modules_load(struct modules *ret, struct memory *memory, struct arena *arena)
{
    char *text = NULL;
    size_t size = 0;
    uint32_t most;
    int r;

    *ret = (struct modules){.root = AT_FDCWD};
    r = read_maps(memory->directory, arena, &text, &size);
    if (!text)
        return r;
    ret->truncated = r < 0;
    ret->mappings = arena_array(arena, size / MIN_LINE + 1, sizeof *ret->mappings);
    if (ret->mappings)
        parse_mappings(ret, text, size);
    /* A module begins with a mapping of its own. */
    most = ret->n_mappings < MAX_MODULES ? ret->n_mappings : MAX_MODULES;
    ret->unwind = arena_array(arena, most, sizeof *ret->unwind);
    ret->report = arena_array(arena, most, sizeof *ret->report);
    if (!ret->mappings || !ret->unwind || !ret->report) {
        *ret = (struct modules){.root = AT_FDCWD, .truncated = true};
        return -ENOMEM;
    }
    find_modules(ret, memory, arena);
    return r;
}

const struct mapping *modules_find_mapping(const struct modules *modules, uint64_t address)
{
    uint32_t low = 0, high = modules->n_mappings;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (modules->mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < modules->n_mappings && modules->mappings[low].start <= address)
        return &modules->mappings[low];
    return NULL;
}

int32_t modules_find(const struct modules *modules, uint64_t address)
{
    uint32_t low = 0, high = modules->n_modules;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (modules->unwind[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < modules->n_modules && modules->unwind[low].start <= address)
        return (int32_t)low;
    return -1;
}
