/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is mapped: from /proc/thread-self/maps to modules with their unwind tables. Uses neither the loader's
 * lists nor its lock. Zone: probe thread.
 */
#ifndef AGENT_MODULES_H
#define AGENT_MODULES_H

#include "agent/memory.h"
#include "agent/report/arena.h"
#include "agent/report/snapshot.h"

struct mapping {
    uint64_t start, end;
    uint64_t file_offset, device, inode;
    bool readable, executable;
    bool main_stack;  /* "[stack]" */
    int32_t module;   /* index, or -1 */
    const char *path; /* as maps shows it; "" for anonymous memory */
};

struct modules {
    struct mapping *mappings; /* sorted by address */
    uint32_t n_mappings;
    struct uw_module *unwind; /* parallel to the report modules */
    struct report_module *report;
    uint32_t n_modules;
    uint64_t main_stack_top; /* end of [stack]; 0 unknown */
    bool truncated;          /* more mappings or modules than fit, or maps unreadable: said in why */
};

/*
 * modules_load() - read the map and the ELF headers of every module
 * Return: 0, -ENOMEM when the arena is full, or the error of opening maps. On failure *ret is empty but
 * usable.
 */
int modules_load(struct modules *ret, struct memory *memory, struct arena *arena);

/* The mapping that contains address, or NULL. */
const struct mapping *modules_find_mapping(const struct modules *modules, uint64_t address);

/* The module that contains address, or NULL; callback form of struct uw_space. */
int32_t modules_find(const struct modules *modules, uint64_t address);

#endif
