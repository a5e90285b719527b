/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stages of an answer, each a run of records. The buffer is bounded: where it is full, the snapshot is
 * cut to what was sent. So ids stay dense, no record refers to a missing one, and later stages speak of what
 * the reader has. Whatever is cut, room is left for the records that close the answer.
 * Zone: pure.
 */
#ifndef AGENT_REPORT_STAGES_H
#define AGENT_REPORT_STAGES_H

#include "agent/report/encode.h"

/* Modules, frames, stacks, threads, and "captured". */
void encode_raw_stage(struct out *out, struct snapshot *snapshot);
/* What the lookup in each module gave, symbols, the names of frames and addresses. */
void encode_names_stage(struct out *out, struct snapshot *snapshot);
/* Who was still, locks, cycles, verdicts. */
void encode_explanation_stage(struct out *out, const struct snapshot *snapshot);

#endif
