/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One record of the wire per function: a JSON object and a line feed. PROTOCOL.md is the contract.
 *
 * A record that does not fit, or would use the last out->keep bytes of the buffer, is left out whole and its
 * bytes are counted in out->lost. Records with an id, and threads, return whether they were written: ids must
 * be dense, so after the first that was not, stages.c writes no more of that type.
 *
 * Zone: pure; called by the probe thread.
 */
#ifndef AGENT_REPORT_ENCODE_H
#define AGENT_REPORT_ENCODE_H

#include "agent/report/out.h"
#include "agent/report/snapshot.h"

#define WIRE_PROTOCOL 1

void encode_hello(struct out *out, const char *agent_version);
void encode_process(struct out *out, const struct process_info *process);
bool encode_module(struct out *out, const struct snapshot *snapshot, uint32_t index);
bool encode_frame(struct out *out, const struct snapshot *snapshot, uint32_t index);
bool encode_stack(struct out *out, const struct snapshot *snapshot, uint32_t index);
bool encode_thread(struct out *out, const struct thread_sample *thread);
void encode_captured(struct out *out, const struct snapshot *snapshot);
/* After the raw stage: */
void encode_module_symbols(struct out *out, const struct snapshot *snapshot,
                           uint32_t index); /* "symbols" record */
bool encode_symbol(struct out *out, const struct snapshot *snapshot, uint32_t index);
void encode_name(struct out *out, const struct snapshot *snapshot, uint32_t frame); /* frame → symbol */
void encode_address(struct out *out, const struct snapshot *snapshot,
                    uint32_t index); /* what a lock is called */
/* tids proven unmoved after the capture; several records when there are many */
void encode_still(struct out *out, const struct snapshot *snapshot);
void encode_explanation(struct out *out, const struct snapshot *snapshot); /* lock, cycle, verdict records */
/*
 * Uses what earlier records kept free, and says "complete" only where nothing was lost. snapshot may be NULL:
 * the end of an answer that is not a report (hello, error).
 */
void encode_end(struct out *out, const struct snapshot *snapshot);
void encode_error(struct out *out, const char *code, const char *text);

#endif
