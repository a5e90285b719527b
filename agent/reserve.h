/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address space for a dump, as much as the program can spare.
 * Zone: probe thread.
 */
#ifndef AGENT_RESERVE_H
#define AGENT_RESERVE_H

#include <stddef.h>

/*
 * reserve_memory() - map zeroed memory: most bytes, or half of that, a quarter, ..., not less than least
 * Untouched pages cost nothing but address space, and where that is limited (RLIMIT_AS) the program keeps
 * seven eighths of what is left: its own mmap and malloc must not fail because of us. Return: the memory,
 * *ret_size bytes, to be given back with sys_munmap(); NULL when not even least can be had.
 */
void *reserve_memory(size_t most, size_t least, size_t *ret_size);

#endif
