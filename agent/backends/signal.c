/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Running threads copy themselves in a signal handler.
 * Zone: probe thread; signal_backend_init at load time.
 */
#include "agent/backends/backend.h"

#include "agent/nolibc.h"

void signal_backend_init(int requested_signal) {}

static void signal_capture(struct capture_session *session, struct thread_sample **samples, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        samples[i]->reason = REASON_NO_SIGNAL;
}

const struct capture_backend backend_signal = {.name = "signal", .capture = signal_capture};
