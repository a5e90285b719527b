/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A bump allocator over one block of memory that somebody else owns.
 * Zone: pure. The agent gives it a private mapping, probectl and the tests give it malloc()ed memory.
 */
#ifndef AGENT_REPORT_ARENA_H
#define AGENT_REPORT_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena {
    uint8_t *base;
    size_t size, used;
};

/*
 * size bytes, aligned to 16, uninitialised: a large array costs memory only where it is touched.
 * NULL when the arena is full; the arena is unchanged then, and the caller says in
 * the report what is missing.
 */
static inline void *arena_alloc(struct arena *arena, size_t size)
{
    size_t start = (arena->used + 15) & ~(size_t)15;

    if (start > arena->size || size > arena->size - start)
        return NULL;
    arena->used = start + size;
    return arena->base + start;
}

/* Bytes that are still free; what is left out for alignment may be among them. */
static inline size_t arena_left(const struct arena *arena)
{
    return arena->size - arena->used;
}

/* n elements of size bytes; NULL as well when the product overflows. */
static inline void *arena_array(struct arena *arena, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    return arena_alloc(arena, total);
}

#endif
