/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The words of the wire and of the JSON report for every enumeration of the model,
 * and the sentence for people.
 * Zone: pure.
 */
#ifndef AGENT_REPORT_WORDS_H
#define AGENT_REPORT_WORDS_H

#include "agent/report/snapshot.h"

/* Each returns a static string, never NULL; "unknown" for a value out of range. */
const char *word_capture(enum capture_kind kind);        /* "passive" */
const char *word_reason(enum capture_reason reason);     /* "signal_blocked"; "" for REASON_NONE */
const char *sentence_reason(enum capture_reason reason); /* "running with the capture signal blocked" */
const char *word_trust(enum uw_trust trust);             /* "cfi" */
const char *word_end(enum uw_status status);             /* "outermost", "register_unknown", ... */
const char *sentence_end(enum uw_status status); /* "a caller's register is not known"; "" for outermost */
const char *word_symbols(enum module_symbols symbols);     /* "table" */
const char *sentence_symbols(enum module_symbols symbols); /* why names are missing; "" where they are not */
const char *word_wait(enum wait_kind kind);                /* "mutex" */
const char *word_owner(enum owner_status status);          /* "live" */
/* NULL: no name known for this number on x86-64 */
const char *word_syscall(int64_t number);
const char *word_state(char state); /* "sleeping" */

#endif
