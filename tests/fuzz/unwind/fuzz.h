/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the fuzz programs of the unwinder: an address space whose tables, code and stack are pieces of
 * the input, and checks that abort. Each piece is a copy of exact size, so that the sanitizer sees every byte
 * read too much. Zone: tests.
 */
#ifndef TESTS_FUZZ_UNWIND_FUZZ_H
#define TESTS_FUZZ_UNWIND_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/elf.h"
#include "unwind/unwind.h"

/* What libFuzzer calls; replay_main.c calls it, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also with NDEBUG. */
#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

/* Consumes the input from the front; zeroes when it runs out. */
struct input {
    const uint8_t *data;
    size_t size;
};

static inline uint64_t input_int(struct input *in, size_t size)
{
    uint64_t value = 0;
    size_t n = size < in->size ? size : in->size;

    if (n > 0)
        memcpy(&value, in->data, n);
    in->data += n;
    in->size -= n;
    return value;
}

struct piece {
    uint64_t address;
    uint8_t *bytes;
    size_t size;
};

static inline struct piece input_piece(struct input *in, uint64_t address, size_t size)
{
    struct piece piece = {address, NULL, size < in->size ? size : in->size};

    piece.bytes = malloc(piece.size ? piece.size : 1);
    memcpy(piece.bytes, in->data, piece.size);
    in->data += piece.size;
    in->size -= piece.size;
    return piece;
}

static inline bool piece_read(const struct piece *piece, uint64_t address, void *to, size_t size)
{
    if (address < piece->address || address - piece->address > piece->size ||
        size > piece->size - (address - piece->address))
        return false;
    memcpy(to, piece->bytes + (address - piece->address), size);
    return true;
}

#define FUZZ_TABLE 0x10000
#define FUZZ_STACK 0x80000

struct fuzz_world {
    struct uw_space space;
    struct uw_module module;
    struct piece table, stack;
    size_t n_reads;
};

/* No input may cost more reads than this: the scan of the longest table, and then some. */
#define FUZZ_MAX_READS 2000000

static inline bool fuzz_read_table(void *context, uint64_t address, void *to, size_t size)
{
    struct fuzz_world *w = context;

    CHECK(++w->n_reads < FUZZ_MAX_READS);
    return piece_read(&w->table, address, to, size);
}

static inline bool fuzz_read_stack(void *context, uint64_t address, void *to, size_t size)
{
    struct fuzz_world *w = context;

    CHECK(++w->n_reads < FUZZ_MAX_READS);
    return piece_read(&w->stack, address, to, size);
}

static inline const struct uw_module *fuzz_find_module(void *context, uint64_t address)
{
    struct fuzz_world *w = context;

    return address >= w->module.start && address < w->module.end ? &w->module : NULL;
}

static inline void fuzz_world_init(struct fuzz_world *w, struct piece table, struct piece stack)
{
    memset(w, 0, sizeof(*w));
    w->table = table;
    w->stack = stack;
    w->module.start = FUZZ_TABLE;
    w->module.end = FUZZ_STACK;
    w->space = (struct uw_space){.arch = &uw_arch_x86_64,
                                 .context = w,
                                 .find_module = fuzz_find_module,
                                 .read_stack = fuzz_read_stack,
                                 .read_table = fuzz_read_table};
}

static inline void fuzz_world_free(struct fuzz_world *w)
{
    free(w->table.bytes);
    free(w->stack.bytes);
}

#endif
