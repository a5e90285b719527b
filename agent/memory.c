/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See memory.h.
 * Zone: probe thread.
 */
#include "agent/memory.h"

#include <fcntl.h>
#include <linux/errno.h>
#include <sys/uio.h>

#include "agent/sys.h"
#include "agent/nolibc.h"

enum { MEM_NOT_TRIED = -1, MEM_REFUSED = -2 };

static bool open_file(struct memory *memory)
{
    if (memory->mem_fd == MEM_NOT_TRIED) {
        long fd = sys_openat(memory->directory, "mem", O_RDONLY | O_CLOEXEC, 0);

        memory->mem_fd = fd < 0 ? MEM_REFUSED : (int)fd;
    }
    return memory->mem_fd != MEM_REFUSED;
}

static size_t read_through_file(struct memory *memory, uint64_t address, void *to, size_t size)
{
    long n = open_file(memory) ? sys_pread(memory->mem_fd, to, size, address) : 0;

    return n > 0 ? (size_t)n : 0;
}

size_t memory_read(struct memory *memory, uint64_t address, void *to, size_t size)
{
    struct iovec local = {to, size};
    struct iovec remote = {(void *)(uintptr_t)address, size};
    long n;

    /* The kernel checks the range itself; only its wrap-around is ours to refuse. */
    if (size == 0 || address + size < address)
        return 0;
    if (memory->vm_refused || (memory->file_first && open_file(memory)))
        return read_through_file(memory, address, to, size);

    n = sys_process_vm_readv(memory->pid, &local, 1, &remote, 1);
    if (n == -ENOSYS || n == -EPERM) {
        /* Refused altogether (sandbox, emulator, old kernel), not because of this address: that is EFAULT. */
        memory->vm_refused = true;
        return read_through_file(memory, address, to, size);
    }
    return n > 0 ? (size_t)n : 0;
}

static const struct memory_page *cached_page(struct memory *memory, uint64_t address)
{
    struct memory_page *page = &memory->pages[address / MEMORY_PAGE % MEMORY_CACHED_PAGES];

    if (page->address != address) {
        page->address = 0;
        if (memory_read(memory, address, page->bytes, MEMORY_PAGE) != MEMORY_PAGE)
            return NULL;
        page->address = address;
    }
    return page;
}

bool memory_read_cached(struct memory *memory, uint64_t address, void *to, size_t size)
{
    uint8_t *out = to;

    if (!memory->pages || size > MEMORY_PAGE)
        return memory_read(memory, address, to, size) == size;
    while (size > 0) {
        uint64_t offset = address % MEMORY_PAGE;
        size_t n = MEMORY_PAGE - offset < size ? (size_t)(MEMORY_PAGE - offset) : size;
        const struct memory_page *page = cached_page(memory, address - offset);

        if (!page)
            return false;
        __builtin_memcpy(out, page->bytes + offset, n);
        out += n;
        address += n;
        size -= n;
    }
    return true;
}

bool memory_is_hidden(const struct memory *memory)
{
    return memory->vm_refused && memory->mem_fd == MEM_REFUSED;
}

void memory_forget(struct memory *memory)
{
    if (memory->pages)
        for (size_t i = 0; i < MEMORY_CACHED_PAGES; i++)
            memory->pages[i].address = 0;
}
