/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From the wire to the report model. The stream is hostile: it comes from inside a program that may be
 * damaged, or from a file that anybody wrote. Every length, id and count is checked; time and memory grow
 * linearly with the bytes received. Zone: client.
 */
#ifndef CLI_DECODE_H
#define CLI_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/report/snapshot.h"

/* A longer line is not a record. The longest real one, a stack of SNAPSHOT_MAX_FRAMES ids, is 40 KiB. */
#define DECODE_LINE_MAX ((size_t)1024 * 1024)
/* More than any real report (10,000 threads with 4,096 different frames each would still fit). */
#define DECODE_STREAM_MAX ((size_t)1024 * 1024 * 1024)

struct decoder;

enum decode_progress {
    DECODE_NOTHING,  /* no record yet */
    DECODE_HELLO,    /* an agent that speaks our protocol */
    DECODE_CAPTURED, /* the raw stage is whole */
    DECODE_END,      /* everything that was to come has come */
};

/* NULL: out of memory. */
struct decoder *decoder_new(void);
void decoder_free(struct decoder *decoder); /* NULL is allowed; the snapshot goes with it */

/* Bytes as they arrive, in pieces of any size. False once the stream is malformed; then nothing more is
 * taken. */
bool decoder_feed(struct decoder *decoder, const char *bytes, size_t n);

enum decode_progress decoder_progress(const struct decoder *decoder);
/* Why the stream was refused, or NULL. */
const char *decoder_problem(const struct decoder *decoder);
/* The agent's own error answer, or NULL. */
const char *decoder_error_code(const struct decoder *decoder);
const char *decoder_error_text(const struct decoder *decoder);
const char *decoder_agent_version(const struct decoder *decoder); /* never NULL */
/* The "end" record has come: the agent has nothing more to say. */
bool decoder_ended(const struct decoder *decoder);

/*
 * decoder_finish() - no more bytes will come: say in process.why what is missing
 * Sets captured, frames_resolved, complete and drops references to what never arrived.
 * Return: the snapshot, owned by the decoder; usable also when the stream was cut.
 */
struct snapshot *decoder_finish(struct decoder *decoder);
/* A sentence more in process.why; the text is copied. */
void decoder_add_why(struct decoder *decoder, const char *text);

/* All symbols anew, those that came in the stream included; array and names are copied. Without memory: as
 * before. */
void decoder_set_symbols(struct decoder *decoder, const struct symbol *symbols, uint32_t n);

/* Memory and text that live as long as the decoder. NULL, or "" for text: out of memory. */
void *decoder_keep(struct decoder *decoder, size_t size);
const char *decoder_keep_text(struct decoder *decoder, const char *text);

#endif
