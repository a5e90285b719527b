/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is mapped: from maps in /proc to modules with their unwind tables. Uses neither the loader's
 * lists nor its lock.
 *
 * Zone: probe thread, once a dump. All memory is the arena's and goes with it; nothing is ever freed singly.
 * The program maps and unmaps meanwhile: what is found is what was there at one moment, and an address in it
 * may be unreadable a moment later.
 */
#ifndef AGENT_MODULES_H
#define AGENT_MODULES_H

#include "agent/memory.h"
#include "agent/report/arena.h"
#include "agent/report/snapshot.h"

/* One line of maps. */
struct mapping {
    uint64_t start, end;  /* run-time addresses; end is the first that does not belong */
    uint64_t file_offset; /* bytes; of start in the file */
    uint64_t device;      /* major << 32 | minor, as maps shows it */
    uint64_t inode;       /* 0: no file */
    bool readable, executable;
    bool main_stack;  /* "[stack]" */
    int32_t module;   /* index of the module it belongs to, or -1 */
    const char *path; /* as maps shows it, line feeds restored; "" for anonymous memory */
};

/* The arrays may be NULL where their count is 0. */
struct modules {
    struct mapping *mappings; /* ascending by address, not overlapping */
    uint32_t n_mappings;
    struct uw_module *unwind;     /* what the unwinder needs of each module; ascending by address */
    struct report_module *report; /* what the report needs of it: the same index */
    uint32_t n_modules;
    uint64_t main_stack_top; /* end of [stack]; 0: unknown */
    int root;                /* where the paths begin; AT_FDCWD: where ours do */
    bool truncated;          /* more mappings or modules than fit, or maps unreadable: said in why */
};

/*
 * modules_load() - read the map and the ELF headers of every module
 * @ret:    filled; borrows from @arena
 * @memory: to read the program's memory with; its page cache is used
 * @arena:  a third of what is left is used for the text of maps at most, and about as much again for the
 * arrays
 *
 * Opens no file but maps. A module whose headers are damaged or unreadable is left out: its mappings have
 * none. Return: 0; -ENOMEM when not all fits; else the negative error number of opening or reading maps. On
 * failure *ret is what was found so far, perhaps nothing, and usable.
 */
int modules_load(struct modules *ret, struct memory *memory, struct arena *arena);

/*
 * The mapping that contains a run-time address, borrowed from modules, or NULL. Binary search; reads nothing.
 */
const struct mapping *modules_find_mapping(const struct modules *modules, uint64_t address);

/*
 * The index of the module whose image contains a run-time address (also in its gaps and .bss), or -1. Binary
 * search; reads nothing.
 */
int32_t modules_find(const struct modules *modules, uint64_t address);

#endif
