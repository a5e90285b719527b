/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The file of a module, for what is not in memory: symbols, and where sections lie.
 * Zone: probe thread. A file may sit on a dead network drive, where no deadline ends a read: nothing that
 * needs a file may come before what can do without.
 */
#ifndef AGENT_MODULE_FILE_H
#define AGENT_MODULE_FILE_H

#include "agent/modules.h"
#include "unwind/elf.h"

struct module_file {
    int fd;            /* -1: not open */
    uint64_t deadline; /* CLOCK_MONOTONIC ns: reads fail from then on */
    bool late, failed; /* the last read ended at the deadline, or with an error: the file is not to blame */
    struct elf_reader reader; /* reads from this file; points back here, so the struct must not be moved */
    struct elf_file elf;      /* valid where module_file_open() returned SYMBOLS_TABLE */
};

/*
 * module_file_open() - open a module's file and read its headers
 * A file is used only if it is the one that is mapped: same build-id, or same device and
 * inode where there is none.
 * @root: where module paths begin, modules.root
 * Return: SYMBOLS_TABLE, or why the file cannot be used; SYMBOLS_NOT_LOOKED at the deadline. To be closed in
 * either case.
 */
enum module_symbols module_file_open(struct module_file *file, int root, const struct report_module *module,
                                     uint64_t deadline);

void module_file_close(struct module_file *file);

#endif
