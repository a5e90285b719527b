/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * elf_read_file(), symbols_resolve() and symbols_read_name(): the input is a file.
 * Zone: tests.
 */
#include "tests/fuzz/unwind/fuzz.h"
#include "unwind/symbols.h"

#define N_QUERIES 16

static bool read_piece(void *context, uint64_t offset, void *to, size_t size)
{
    return piece_read(context, offset, to, size);
}

/* Addresses all over a small file, and the last one. */
static void make_queries(struct symbol_query queries[N_QUERIES])
{
    memset(queries, 0, N_QUERIES * sizeof(queries[0]));
    for (size_t i = 0; i < N_QUERIES; i++)
        queries[i].address = i * i * 0x111;
    queries[N_QUERIES - 1].address = UINT64_MAX;
}

static void check_names(const struct elf_reader *reader, const struct symbol_query *query)
{
    char name[32];
    size_t length;

    memset(name, 'x', sizeof(name));
    length = symbols_read_name(reader, query, name, sizeof(name));
    CHECK(length < sizeof(name) && name[length] == '\0' && strlen(name) == length);
    CHECK(symbols_read_name(reader, query, name, 1) == 0 && name[0] == '\0');
    CHECK(query->found ? query->address - query->value < query->size : length == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct piece piece = input_piece(&in, 0, size);
    struct elf_reader reader = {&piece, read_piece};
    struct symbol_query queries[N_QUERIES];
    struct elf_file file;
    static uint8_t buffer[4096];

    if (elf_read_file(&reader, &file) == ELF_OK) {
        CHECK(file.build_id_size <= ELF_BUILD_ID_MAX);
        make_queries(queries);
        (void)symbols_resolve(&reader, &file, queries, N_QUERIES, buffer, sizeof(buffer));
        for (size_t i = 0; i < N_QUERIES; i++)
            check_names(&reader, &queries[i]);
    }
    free(piece.bytes);
    return 0;
}
