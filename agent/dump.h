/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One dump from start to end: list, capture, unwind, name, explain, encode.
 * Zone: probe thread.
 */
#ifndef AGENT_DUMP_H
#define AGENT_DUMP_H

#include "agent/report/out.h"
#include "agent/request.h"
#include "agent/subject.h"

/* Where the records go. */
struct dump_sink {
    struct out *out;
    /*
     * Called when a stage is whole: what is in out now should be on its way before
     * riskier things are touched.
     */
    void (*stage_done)(void *context);
    void *context;
};

/*
 * dump_run() - take a dump and encode it
 * @subject: whose process; stays the caller's
 * @arena: all working memory, empty; may be freed as soon as the call returns
 * Always writes a stream that PROTOCOL.md allows; what could not be done is said in it.
 */
void dump_run(const struct request *request, const struct config *config, const struct subject *subject,
              struct arena *arena, const struct dump_sink *sink);

#endif
