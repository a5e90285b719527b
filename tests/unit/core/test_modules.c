/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/modules.c: against prepared maps, and against this process as the loader sees it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/modules.h"
#include "agent/sys.h"

TestSuite(modules, .timeout = 10);

static const char *fake_maps; /* what reading maps gives */
static size_t fake_at, fake_chunk;

enum { FAKE_FD = 9999 };

static bool serve_fake_maps(long number, const long args[6], long *ret_result)
{
    if (number == SYS_openat && !strcmp((const char *)args[1], "maps")) {
        fake_at = 0;
        *ret_result = FAKE_FD;
        return true;
    }
    if (number == SYS_read && args[0] == FAKE_FD) {
        size_t left = strlen(fake_maps) - fake_at, n = (size_t)args[2] < left ? (size_t)args[2] : left;

        n = n < fake_chunk ? n : fake_chunk;
        memcpy((void *)args[1], fake_maps + fake_at, n);
        fake_at += n;
        *ret_result = (long)n;
        return true;
    }
    if (number == SYS_close && args[0] == FAKE_FD) {
        *ret_result = 0;
        return true;
    }
    return false;
}

static struct memory own_memory(void)
{
    return (struct memory){
        .pid = sys_gettid(), .directory = open("/proc/thread-self", O_RDONLY | O_DIRECTORY), .mem_fd = -1};
}

static struct arena new_arena(size_t size)
{
    return (struct arena){.base = malloc(size), .size = size};
}

static struct modules load_fake(const char *maps, size_t chunk)
{
    struct arena arena = new_arena(8 << 20);
    struct memory memory = own_memory();
    struct modules modules;

    fake_maps = maps;
    fake_chunk = chunk;
    sys_hook = serve_fake_maps;
    cr_assert(eq(int, modules_load(&modules, &memory, &arena), 0));
    sys_hook = NULL;
    return modules;
}

Test(modules, lines_are_parsed_whatever_the_size_of_a_read)
{
    static const char maps[] =
        "00400000-00401000 r--p 00000000 fd:01 17                                 /no/such file\n"
        "7ffd0000-7ffd1000 rw-p 00000000 00:00 0                                  [stack]\n"
        "7ffe0000-7ffe1000 ---p 00000000 00:00 0 \n"
        "garbage\n"
        "7fff0000-7ffe1000 rw-p 00000000 00:00 0                                  [reversed]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

    for (size_t chunk = 1; chunk < sizeof maps; chunk += 13) {
        struct modules modules = load_fake(maps, chunk);

        cr_assert(eq(u32, modules.n_mappings, 4u), "chunk %zu", chunk);
        cr_expect(eq(u64, modules.mappings[0].device, UINT64_C(0xfd00000001)));
        cr_expect(eq(u64, modules.mappings[0].inode, 17ul));
        cr_expect(eq(str, (char *)modules.mappings[0].path, "/no/such file"));
        cr_expect(eq(u64, modules.main_stack_top, 0x7ffd1000ul));
        cr_expect(not(modules.mappings[2].readable));
        cr_expect(modules.mappings[3].executable);
        cr_expect(modules_find_mapping(&modules, 0x7ffd0fff) == &modules.mappings[1]);
        cr_expect(modules_find_mapping(&modules, 0x7ffd1000) == NULL);
        cr_expect(modules_find_mapping(&modules, 0) == NULL);
        cr_expect(eq(u32, modules.n_modules, 0u));
    }
}

Test(modules, a_line_feed_in_a_path_is_one)
{
    struct modules modules =
        load_fake("7ffd0000-7ffd1000 rw-p 00000000 fd:01 17                  /a\\012b\\\\012\\01\n", 4096);

    cr_assert(eq(u32, modules.n_mappings, 1u));
    cr_assert(eq(str, (char *)modules.mappings[0].path, "/a\nb\\\n\\01"));
}

Test(modules, a_map_cut_at_any_byte_is_read_in_bounds)
{
    static const char line[] =
        "7ffd0000-7ffd1000 rw-p 00000000 fd:01 17                                 /x\n";

    for (size_t n = 0; n < sizeof line; n++) {
        char cut[sizeof line];

        memcpy(cut, line, n);
        cut[n] = 0;
        cr_expect(load_fake(cut, 4096).n_mappings <= 1, "cut at %zu", n);
    }
}

Test(modules, a_map_larger_than_the_memory_is_said_so)
{
    enum { LINES = 4000 };
    static char maps[LINES * 64];
    struct arena arena = new_arena(300 * 1000);
    struct memory memory = own_memory();
    struct modules modules;
    size_t used = 0;

    for (int i = 0; i < LINES; i++)
        used += (size_t)sprintf(maps + used, "%08x-%08x rw-p 00000000 00:00 0 \n", i * 0x2000,
                                i * 0x2000 + 0x1000);
    fake_maps = maps;
    fake_chunk = 4096;
    sys_hook = serve_fake_maps;
    cr_assert(lt(int, modules_load(&modules, &memory, &arena), 0));
    sys_hook = NULL;
    cr_assert(le(sz, arena.used, arena.size));
}

static int compare_with_loader(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct modules *modules = data;
    int32_t i = -1;

    for (int p = 0; p < info->dlpi_phnum; p++)
        if (info->dlpi_phdr[p].p_type == PT_LOAD && info->dlpi_phdr[p].p_flags & PF_X)
            i = modules_find(modules, info->dlpi_addr + info->dlpi_phdr[p].p_vaddr);
    cr_assert(ge(int, i, 0), "%s is missing", info->dlpi_name);
    cr_expect(modules->report[i].base == info->dlpi_addr, "%s", info->dlpi_name);
    for (int p = 0; p < info->dlpi_phnum; p++)
        if (info->dlpi_phdr[p].p_type == PT_GNU_EH_FRAME)
            cr_expect(modules->unwind[i].eh_frame_hdr == info->dlpi_addr + info->dlpi_phdr[p].p_vaddr, "%s",
                      info->dlpi_name);
    return 0;
}

Test(modules, agree_with_the_loader_about_this_process)
{
    struct arena arena = new_arena(8 << 20);
    struct memory memory = own_memory();
    struct modules modules;

    cr_assert(eq(int, modules_load(&modules, &memory, &arena), 0));
    dl_iterate_phdr(compare_with_loader, &modules);
    for (uint32_t i = 1; i < modules.n_modules; i++)
        cr_expect(modules.unwind[i].start >= modules.unwind[i - 1].end, "%s overlaps",
                  modules.report[i].path);
}

/* A linker or debugger that maps a library for reading has not loaded it. */
Test(modules, a_library_mapped_as_data_is_no_module)
{
    struct arena arena = new_arena(8 << 20);
    struct memory memory = own_memory();
    struct modules modules;
    Dl_info libc;
    void *data;
    int fd;

    cr_assert(dladdr((void *)malloc, &libc));
    fd = open(libc.dli_fname, O_RDONLY | O_CLOEXEC);
    cr_assert(ge(int, fd, 0));
    data = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE, fd, 0);
    cr_assert(data != MAP_FAILED);
    cr_assert(eq(int, modules_load(&modules, &memory, &arena), 0));
    cr_expect(eq(int, modules_find(&modules, (uintptr_t)data + 4096), -1));
    cr_expect(ge(int, modules_find(&modules, (uintptr_t)malloc), 0));
}

/* The program headers in memory are the program's to write. */
Test(modules, an_image_that_claims_the_whole_address_space_leaves_the_others_theirs)
{
    struct arena arena = new_arena(16 << 20);
    struct memory memory = own_memory();
    struct modules before, after;
    unsigned changed = 0;

    cr_assert(eq(int, modules_load(&before, &memory, &arena), 0));
    for (uint32_t i = 0; i + 1 < before.n_modules; i++) {
        ElfW(Ehdr) *header = (void *)before.report[i].start;
        ElfW(Phdr) *program = (void *)(before.report[i].start + sizeof(*header));

        if (before.report[i].path[0] != '/' || mprotect(header, 4096, PROT_READ | PROT_WRITE) < 0)
            continue;
        for (int p = 0; p < header->e_phnum; p++)
            if (program[p].p_type == PT_LOAD)
                program[p].p_memsz = UINT64_C(1) << 46;
        changed++;
    }
    cr_assert(gt(uint, changed, 1));
    cr_assert(eq(int, modules_load(&after, &memory, &arena), 0));
    cr_assert(eq(u32, after.n_modules, before.n_modules));
    for (uint32_t i = 0; i < after.n_modules; i++)
        cr_expect(eq(str, (char *)after.report[i].path, (char *)before.report[i].path));
}
