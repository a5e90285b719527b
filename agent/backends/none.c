/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A platform without a way to capture threads says so for every thread; an empty dump would
 * look like an idle program.
 * Zone: probe thread.
 */
#include "agent/backends/backend.h"

#include "agent/nolibc.h"

static void none_capture(struct capture_session *session, struct thread_sample **samples, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (samples[i]->capture == CAPTURE_NONE && samples[i]->reason == REASON_NONE)
            samples[i]->reason = REASON_UNSUPPORTED;
}

const struct capture_backend backend_none = {.name = "none", .capture = none_capture};
