/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The one function that runs on the program's threads. Its name is what other tools show when they look at a
 * thread that is just being captured.
 * Zone: handler.
 */
#ifndef AGENT_BACKENDS_SIGNAL_HANDLER_H
#define AGENT_BACKENDS_SIGNAL_HANDLER_H

#include "agent/backends/x86_64/context.h"

void libprobe_capture_signal(int signal, const struct context_siginfo *info, struct context_frame *frame);

#endif
