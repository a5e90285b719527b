/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Exit codes of probectl (DESIGN, Interfaces). They are part of the interface.
 * Zone: client.
 */
#ifndef CLI_EXIT_H
#define CLI_EXIT_H

enum exit_code {
    EXIT_COMPLETE = 0,
    EXIT_INCOMPLETE = 1, /* printed, but something is missing */
    EXIT_NOTHING = 2,    /* nothing was captured */
    EXIT_NO_TARGET = 3,  /* no such target, or ambiguous */
    EXIT_NO_AGENT = 4,   /* no agent there, or not permitted */
    EXIT_USAGE = 64,
    EXIT_DEADLINE = 124, /* our own deadline */
};

/* Of several targets the most serious outcome counts. */
static inline enum exit_code exit_worse(enum exit_code a, enum exit_code b)
{
    return a > b ? a : b;
}

#endif
