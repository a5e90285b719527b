/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounded reads of the program's memory that return an error instead of faulting.
 * Zone: probe thread.
 *
 * process_vm_readv works where /proc/thread-self/mem is refused (dumpable 0) and the other way round (old
 * sandboxes). The file also reads what is mapped without PROT_READ (fs/proc/base.c, FOLL_FORCE); that is no
 * fault either.
 */
#ifndef AGENT_MEMORY_H
#define AGENT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_PAGE 4096
#define MEMORY_CACHED_PAGES 64

/*
 * Pages of unwind tables and code, kept for one dump: a table search touches the same
 * few pages again and again.
 */
struct memory_page {
    uint64_t address; /* 0: empty */
    uint8_t bytes[MEMORY_PAGE];
};

struct memory {
    int32_t pid;               /* task whose memory is read; in the agent the probe thread's own tid */
    int directory;             /* that task's directory in /proc */
    int mem_fd;                /* its file mem, opened when first needed; -1 not tried, -2 refused */
    bool vm_refused;           /* process_vm_readv does not work here */
    bool file_first;           /* in a sandbox: reading a file is the less unusual system call */
    struct memory_page *pages; /* MEMORY_CACHED_PAGES of them, or NULL: no cache */
};

/*
 * memory_read() - copy up to size bytes
 * Return: bytes copied, short at the first unreadable page, 0 if nothing is readable there.
 */
size_t memory_read(struct memory *memory, uint64_t address, void *to, size_t size);

/*
 * All of it or false; through the page cache. For loaded segments, which do not change while they are mapped.
 */
bool memory_read_cached(struct memory *memory, uint64_t address, void *to, size_t size);

/* Neither way is open. */
bool memory_is_hidden(const struct memory *memory);

void memory_forget(struct memory *memory); /* empties the cache */

#endif
