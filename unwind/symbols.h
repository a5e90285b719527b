/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From addresses to symbol names, in one streaming pass over each symbol table for all addresses at once.
 * Zone: pure.
 */
#ifndef UNWIND_SYMBOLS_H
#define UNWIND_SYMBOLS_H

#include "unwind/elf.h"

/*
 * One address to name. The caller fills address (ELF virtual address, already looked up at pc - 1 where due).
 */
struct symbol_query {
    uint64_t address;
    /*
     * Results. found is false where no function or data symbol contains the address: never a nearest guess.
     */
    bool found;
    uint64_t value, size; /* of the symbol */
    uint64_t name;        /* file offset of its name */
    uint64_t name_limit;  /* file offset where its string table ends */
    uint32_t rank;        /* internal: how good the symbol is */
};

/*
 * symbols_resolve() - find the symbol that contains each address
 * @queries: sorted by address, unique
 * @buffer:  scratch, at least 4 KiB; larger means fewer reads
 *
 * STT_FUNC, STT_GNU_IFUNC and STT_OBJECT symbols with a size count; of several that contain an address the
 * innermost wins, then global over weak over local, then the first one in the table (.symtab before .dynsym).
 */
enum elf_status symbols_resolve(const struct elf_reader *reader, const struct elf_file *file,
                                struct symbol_query *queries, size_t n_queries, void *buffer, size_t size);

/*
 * symbols_read_name() - copy the name of a found symbol, NUL-terminated
 * Return: length without NUL; 0 when it is empty or unreadable; size - 1 when it was cut to fit.
 */
size_t symbols_read_name(const struct elf_reader *reader, const struct symbol_query *query, char *to,
                         size_t size);

#endif
