/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The report a person reads: verdict first and last, identical stacks grouped, counts that add up.
 * Zone: pure; memory for grouping from the caller's arena.
 */
#ifndef AGENT_REPORT_TEXT_H
#define AGENT_REPORT_TEXT_H

#include "agent/report/arena.h"
#include "agent/report/out.h"
#include "agent/report/snapshot.h"

struct text_options {
    bool color;
    /* Display name for a symbol, e.g. demangled; NULL: linkage names. Returned string is used at once. */
    const char *(*display_name)(void *context, const char *linkage_name);
    void *context;
};

void report_text(struct out *out, const struct snapshot *snapshot, const struct text_options *options,
                 struct arena *arena);

#endif
