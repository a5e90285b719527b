/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See reserve.h.
 * Zone: probe thread.
 */
#include "agent/reserve.h"

#include <fcntl.h>
#include <linux/mman.h>
#include <stdint.h>

#include "agent/process.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/nolibc.h"

#define PAGE_SIZE UINT64_C(4096)
#define OUR_SHARE 8

/* Bytes of address space that the program's limit leaves us. */
static uint64_t budget(void)
{
    uint64_t limit = sys_address_space_limit(), pages;
    char text[128];
    const char *cursor = text;

    if (limit == UINT64_MAX)
        return limit;
    /* statm's first number is what the limit is compared with (mm/mmap.c, may_expand_vm). */
    if (process_read_file(AT_FDCWD, "/proc/thread-self/statm", text, sizeof text) <= 0 ||
        !text_take_decimal(&cursor, &pages))
        return 0;
    return pages < limit / PAGE_SIZE ? (limit - pages * PAGE_SIZE) / OUR_SHARE : 0;
}

void *reserve_memory(size_t most, size_t least, size_t *ret_size)
{
    uint64_t allowed = budget();

    for (size_t size = most; size >= least; size /= 2) {
        long address = size <= allowed ? sys_mmap(size, PROT_READ | PROT_WRITE, MAP_NORESERVE) : 0;

        if (address > 0 || address < -4095) {
            void *memory = (void *)(uintptr_t)address;

            /*
             * In a fork child the memory of the parent's dump is of no use; huge pages would be mostly empty.
             */
            sys_madvise(memory, size, MADV_DONTFORK);
            sys_madvise(memory, size, MADV_NOHUGEPAGE);
            *ret_size = size;
            return memory;
        }
    }
    return NULL;
}
