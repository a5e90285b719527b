/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hand-made address spaces: tables and code as bytes, stacks as integer arrays, at addresses of the test's
 * choice. A read must lie wholly inside one region, so every byte read too much is seen. Zone: tests.
 */
#ifndef TESTS_UNIT_UNWIND_FIXTURE_H
#define TESTS_UNIT_UNWIND_FIXTURE_H

#include "unwind/cfi.h"
#include "unwind/ehframe.h"
#include "unwind/unwind.h"

struct region {
    uint64_t address;
    const void *bytes;
    size_t size;
};

struct fixture {
    struct uw_space space;
    struct uw_module modules[4]; /* end 0: unused */
    struct region tables[8], stacks[8];
    size_t n_tables, n_stacks;
    size_t n_table_reads;
};

/* The fixture points into itself: not copyable. */
void fixture_init(struct fixture *f);
void fixture_table(struct fixture *f, uint64_t address, const void *bytes, size_t size);
void fixture_stack(struct fixture *f, uint64_t address, const uint64_t *words, size_t n);

/* Bytes under construction. */
struct emit {
    uint8_t bytes[8192];
    size_t n;
};

void emit_bytes(struct emit *e, const void *bytes, size_t n);
void emit_int(struct emit *e, uint64_t value, size_t size);
void emit_uleb(struct emit *e, uint64_t value);
#define EMIT(e, ...)                                       \
    do {                                                   \
        const uint8_t emit_bytes_[] = {__VA_ARGS__};       \
        emit_bytes((e), emit_bytes_, sizeof(emit_bytes_)); \
    } while (0)

/* A record with a length in front: begin returns where it starts, end pads to 4 and patches the length. */
size_t emit_begin(struct emit *e);
void emit_end(struct emit *e, size_t start);

/*
 * The usual CIE of x86-64: "zR" with pcrel sdata4, factors 1 and -8, return address in 16, CFA = rsp + 8,
 * return address at CFA - 8. Returns its offset.
 */
size_t emit_cie(struct emit *e, const char *augmentation);
/* An FDE for it; @base is the address where e->bytes will lie. */
size_t emit_fde(struct emit *e, uint64_t base, size_t cie, uint64_t start, uint64_t size,
                const uint8_t *program, size_t n_program);

#endif
