/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See fill.h. */
#include "cli/fill.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/names.h"
#include "agent/report/units.h"
#include "agent/reserve.h"
#include "agent/sys.h"

#define ARENA_MOST ((size_t)64 * 1024 * 1024) /* untouched memory costs nothing */
#define ARENA_LEAST ((size_t)1024 * 1024)
/* The report is there already; it does not wait for a dead network drive. */
#define MOST_NANOS (2 * NANOS_PER_SECOND)

static bool is_wanted(const struct snapshot *snapshot)
{
    bool wanted = false;

    for (uint32_t i = 0; i < snapshot->n_frames; i++)
        wanted |= snapshot->frames[i].module >= 0 && snapshot->frames[i].symbol < 0 &&
                  snapshot->modules[snapshot->frames[i].module].symbols == SYMBOLS_UNREADABLE;
    return wanted;
}

void fill_names(struct decoder *decoder, struct snapshot *snapshot, pid_t pid)
{
    struct arena arena = {.base = NULL};
    struct snapshot filled = *snapshot;
    char path[32];
    int root;

    if (!snapshot->frames_resolved || !is_wanted(snapshot))
        return;
    snprintf(path, sizeof(path), "/proc/%d/root", pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return;
    arena.base = reserve_memory(ARENA_MOST, ARENA_LEAST, &arena.size);
    if (arena.base != NULL) {
        names_fill(&filled, root, &arena, sys_monotonic_nanos() + MOST_NANOS);
        decoder_set_symbols(decoder, filled.symbols, filled.n_symbols);
        sys_munmap(arena.base, arena.size);
    }
    close(root);
}
