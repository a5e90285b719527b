/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A whole answer of an agent, encoded from a hand-made snapshot.
 */
#ifndef TESTS_UNIT_CLI_STREAM_H
#define TESTS_UNIT_CLI_STREAM_H

#include <stddef.h>

#include "tests/unit/report/model.h"

/* Two threads in a deadlock, one running without a stack, one with every optional field. */
struct model *stream_model(void);
/* The stream in wire order; malloc()ed, NUL-terminated. */
char *stream_encode(struct snapshot *snapshot, size_t *ret_size);
/* Into a buffer of this size; the snapshot is cut to what fits. */
char *stream_encode_into(struct snapshot *snapshot, size_t size, size_t *ret_size);

#endif
