/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams the symbol tables once and keeps, for each queried address, the best symbol that contains it.
 * The table may be larger than any memory we have; only the queries are kept.
 * Zone: pure.
 */
#include "unwind/symbols.h"

#include <elf.h>

/*
 * Bound on (symbol, address) pairs looked at: a hostile table whose every symbol covers everything must not
 * hold up the dump. An ordinary table gives one to three per address.
 */
#define MAX_MATCHES (UINT64_C(1) << 24)

/* Global over weak over local; code over data only among equals. 0: the symbol does not count. */
static uint32_t symbol_rank(const Elf64_Sym *symbol)
{
    uint32_t code;

    if (symbol->st_size == 0 || symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
        symbol->st_shndx == SHN_COMMON)
        return 0;
    switch (ELF64_ST_TYPE(symbol->st_info)) {
    case STT_FUNC:
    case STT_GNU_IFUNC:
        code = 1;
        break;
    case STT_OBJECT:
        code = 0;
        break;
    default:
        return 0;
    }
    switch (ELF64_ST_BIND(symbol->st_info)) {
    case STB_GLOBAL:
    case STB_GNU_UNIQUE:
        return 6 + code;
    case STB_WEAK:
        return 4 + code;
    default:
        return 2 + code;
    }
}

/* Innermost: the later start, then the smaller size; true nesting never makes the two disagree. */
static bool is_better(const struct symbol_query *query, const Elf64_Sym *symbol, uint32_t rank)
{
    if (!query->found)
        return true;
    if (symbol->st_value != query->value)
        return symbol->st_value > query->value;
    if (symbol->st_size != query->size)
        return symbol->st_size < query->size;
    return rank > query->rank;
}

/* Index of the first query whose address is not below. */
static size_t lower_bound(const struct symbol_query *queries, size_t n, uint64_t address)
{
    size_t low = 0;

    while (n > 0) {
        size_t half = n / 2;

        if (queries[low + half].address < address) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

struct resolve {
    const struct elf_symbol_table *table;
    struct symbol_query *queries;
    size_t n_queries;
    uint64_t n_matches;
};

static void match_symbol(struct resolve *resolve, const Elf64_Sym *symbol)
{
    uint32_t rank = symbol_rank(symbol);

    if (rank == 0 || symbol->st_name >= resolve->table->strings_size)
        return;
    for (size_t i = lower_bound(resolve->queries, resolve->n_queries, symbol->st_value);
         i < resolve->n_queries && resolve->queries[i].address - symbol->st_value < symbol->st_size; i++) {
        struct symbol_query *query = &resolve->queries[i];

        resolve->n_matches++;
        if (!is_better(query, symbol, rank))
            continue;
        query->found = true;
        query->value = symbol->st_value;
        query->size = symbol->st_size;
        query->name = resolve->table->strings + symbol->st_name;
        query->name_limit = resolve->table->strings + resolve->table->strings_size;
        query->rank = rank;
    }
}

static enum elf_status scan_table(const struct elf_reader *reader, struct resolve *resolve, void *buffer,
                                  size_t size)
{
    const struct elf_symbol_table *table = resolve->table;
    uint64_t per_read = size / sizeof(Elf64_Sym);

    for (uint64_t i = 0; i < table->count; i += per_read) {
        uint64_t n = table->count - i < per_read ? table->count - i : per_read;

        if (!reader->read(reader->context, table->symbols + i * sizeof(Elf64_Sym), buffer,
                          (size_t)n * sizeof(Elf64_Sym)))
            return ELF_UNREADABLE;
        for (uint64_t k = 0; k < n; k++) {
            Elf64_Sym symbol;

            __builtin_memcpy(&symbol, (const uint8_t *)buffer + k * sizeof(symbol), sizeof(symbol));
            match_symbol(resolve, &symbol);
            if (resolve->n_matches > MAX_MATCHES)
                return ELF_MALFORMED;
        }
    }
    return ELF_OK;
}

enum elf_status symbols_resolve(const struct elf_reader *reader, const struct elf_file *file,
                                struct symbol_query *queries, size_t n_queries, void *buffer, size_t size)
{
    struct resolve resolve = {.queries = queries, .n_queries = n_queries};
    enum elf_status status, status_dynamic;

    for (size_t i = 0; i < n_queries; i++)
        queries[i].found = false;
    if (n_queries == 0)
        return ELF_OK;
    if (size < sizeof(Elf64_Sym))
        return ELF_MALFORMED;
    resolve.table = &file->symtab;
    status = scan_table(reader, &resolve, buffer, size);
    /* What the other table knows is true whether or not the first one could be read. */
    resolve.table = &file->dynsym;
    status_dynamic = scan_table(reader, &resolve, buffer, size);
    return status != ELF_OK ? status : status_dynamic;
}

size_t symbols_read_name(const struct elf_reader *reader, const struct symbol_query *query, char *to,
                         size_t size)
{
    size_t length = 0;

    if (size == 0)
        return 0;
    while (query->found && length < size - 1) {
        uint64_t at = query->name + length;
        uint64_t left = at < query->name_limit ? query->name_limit - at : 0;
        size_t room = size - 1 - length, n = 64;

        n = n < room ? n : room;
        n = n < left ? n : (size_t)left;
        /* A name that runs into the end of its table has no end: not a name. */
        if (n == 0 || !reader->read(reader->context, at, to + length, n)) {
            length = 0;
            break;
        }
        for (size_t i = 0; i < n; i++) {
            if (to[length + i] == '\0')
                return length + i;
        }
        length += n;
    }
    to[length] = '\0';
    return length;
}
