/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a process to one sample per thread: list, classify, let the right backend capture each.
 * Zone: probe thread.
 */
#ifndef AGENT_CAPTURE_H
#define AGENT_CAPTURE_H

#include "agent/backends/backend.h"

/*
 * capture_list() - every thread but our own, in the kernel's order
 * Allocates *ret_threads (tid, name, state, cpu time and so on still empty) in session->arena.
 * Return: 0, -errno, or -ENOMEM; then *ret_n may be short and the caller says so.
 */
int capture_list(struct capture_session *session, struct thread_sample **ret_threads, uint32_t *ret_n);

/*
 * capture_threads() - fill every sample: name, state, cpu time, and a stack or the reason why there is none
 * Sleeping threads first, passively; then those that are running, by DESIGN's capture policy. Counts go to
 * session->stats: captured + dropped = total.
 */
void capture_threads(struct capture_session *session, struct thread_sample *threads, uint32_t n);

/* capture_none() - no thread can be captured, all for this reason; counted in session->stats as above */
void capture_none(struct capture_session *session, struct thread_sample *threads, uint32_t n,
                  enum capture_reason reason);

/* Has the thread not run since its capture (switch count), and is its lock word unchanged? */
bool capture_is_still(struct capture_session *session, const struct thread_sample *sample);

#endif
