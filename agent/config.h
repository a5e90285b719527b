/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The PROBE_* variables, read once at load. The program may change its environment at any
 * time, so everything is copied.
 * Zone: load time.
 */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/backends/backend.h"

#define CONFIG_TEXT 512
#define CONFIG_MAX_COMPLAINTS 8

struct config {
    bool disabled;               /* PROBE_DISABLE=1 */
    bool lazy;                   /* PROBE_START=lazy */
    char directory[CONFIG_TEXT]; /* PROBE_DIR, or $XDG_RUNTIME_DIR/probe; "" where neither is set */
    bool directory_explicit;     /* PROBE_DIR was set: there is no second choice */
    char match[CONFIG_TEXT];     /* PROBE_MATCH; "" matches everything */
    char label[CONFIG_TEXT];     /* PROBE_LABEL */
    bool under_valgrind;         /* its own preloads are in LD_PRELOAD */
    enum capture_mode mode;      /* PROBE_CAPTURE */
    int signal;                  /* PROBE_SIGNAL; 0: the agent chooses */
    size_t max_stack;            /* PROBE_MAX_STACK */
    /*
     * One sentence for every bad value; the default is used. Printed in the header of a dump, never before.
     */
    const char *complaints[CONFIG_MAX_COMPLAINTS];
    unsigned n_complaints;
};

/* Fills all of *ret from envp; never fails. */
void config_read(struct config *ret, char *const *envp);

/* "auto", "passive", "signal"; false for anything else. */
bool config_parse_mode(const char *text, enum capture_mode *ret_mode);

#endif
