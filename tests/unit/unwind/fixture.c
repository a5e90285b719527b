/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See fixture.h.
 * Zone: tests.
 */
#include "tests/unit/unwind/fixture.h"

#include <stdlib.h>
#include <string.h>

static bool read_region(const struct region *regions, size_t n, uint64_t address, void *to, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        const struct region *r = &regions[i];

        if (address < r->address || address - r->address > r->size || size > r->size - (address - r->address))
            continue;
        memcpy(to, (const uint8_t *)r->bytes + (address - r->address), size);
        return true;
    }
    return false;
}

static bool read_table(void *context, uint64_t address, void *to, size_t size)
{
    struct fixture *f = context;

    f->n_table_reads++;
    return read_region(f->tables, f->n_tables, address, to, size);
}

static bool read_stack(void *context, uint64_t address, void *to, size_t size)
{
    const struct fixture *f = context;

    return read_region(f->stacks, f->n_stacks, address, to, size);
}

static const struct uw_module *find_module(void *context, uint64_t address)
{
    const struct fixture *f = context;

    for (size_t i = 0; i < sizeof(f->modules) / sizeof(f->modules[0]); i++) {
        if (address >= f->modules[i].start && address < f->modules[i].end)
            return &f->modules[i];
    }
    return NULL;
}

void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->space = (struct uw_space){.arch = &uw_arch_x86_64,
                                 .context = f,
                                 .find_module = find_module,
                                 .read_stack = read_stack,
                                 .read_table = read_table};
}

void fixture_table(struct fixture *f, uint64_t address, const void *bytes, size_t size)
{
    f->tables[f->n_tables++] = (struct region){address, bytes, size};
}

void fixture_stack(struct fixture *f, uint64_t address, const uint64_t *words, size_t n)
{
    f->stacks[f->n_stacks++] = (struct region){address, words, n * sizeof(*words)};
}

void emit_bytes(struct emit *e, const void *bytes, size_t n)
{
    if (e->n + n > sizeof(e->bytes))
        abort();
    memcpy(e->bytes + e->n, bytes, n);
    e->n += n;
}

void emit_int(struct emit *e, uint64_t value, size_t size)
{
    emit_bytes(e, &value, size);
}

void emit_uleb(struct emit *e, uint64_t value)
{
    do {
        uint8_t byte = value & 0x7f;

        value >>= 7;
        EMIT(e, byte | (value ? 0x80 : 0));
    } while (value);
}

size_t emit_begin(struct emit *e)
{
    emit_int(e, 0, 4);
    return e->n - 4;
}

void emit_end(struct emit *e, size_t start)
{
    uint32_t length;

    while (e->n % 4 != 0)
        EMIT(e, 0);
    length = (uint32_t)(e->n - start - 4);
    memcpy(e->bytes + start, &length, sizeof(length));
}

size_t emit_cie(struct emit *e, const char *augmentation)
{
    size_t start = emit_begin(e);

    emit_int(e, 0, 4);
    EMIT(e, 1);
    emit_bytes(e, augmentation, strlen(augmentation) + 1);
    EMIT(e, 1, 0x78, 16, 1, 0x1b);     /* factors, column, augmentation data: R */
    EMIT(e, 0x0c, 7, 8, 0x80 | 16, 1); /* def_cfa rsp+8; offset ra, 1 */
    emit_end(e, start);
    return start;
}

size_t emit_fde(struct emit *e, uint64_t base, size_t cie, uint64_t start, uint64_t size,
                const uint8_t *program, size_t n_program)
{
    size_t at = emit_begin(e);

    emit_int(e, e->n - cie, 4);
    emit_int(e, start - (base + e->n), 4);
    emit_int(e, size, 4);
    EMIT(e, 0);
    emit_bytes(e, program, n_program);
    emit_end(e, at);
    return at;
}
