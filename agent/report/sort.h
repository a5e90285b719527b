/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sorting without recursion, allocation or a bad case: heap sort over an array of indexes.
 * Zone: pure.
 */
#ifndef AGENT_REPORT_SORT_H
#define AGENT_REPORT_SORT_H

#include <stdbool.h>
#include <stdint.h>

/* Does the element with index a come before the one with index b? */
typedef bool sort_before(const void *context, uint32_t a, uint32_t b);

static inline void sort_sink(uint32_t *items, uint32_t root, uint32_t n, sort_before *before,
                             const void *context)
{
    uint32_t item = items[root], child;

    while ((child = 2 * root + 1) < n) {
        if (child + 1 < n && before(context, items[child], items[child + 1]))
            child++;
        if (!before(context, item, items[child]))
            break;
        items[root] = items[child];
        root = child;
    }
    items[root] = item;
}

static inline void sort_indexes(uint32_t *items, uint32_t n, sort_before *before, const void *context)
{
    uint32_t i, last;

    for (i = n / 2; i > 0; i--)
        sort_sink(items, i - 1, n, before, context);
    for (i = n; i > 1; i--) {
        last = items[i - 1];
        items[i - 1] = items[0];
        items[0] = last;
        sort_sink(items, 0, i - 1, before, context);
    }
}

#endif
