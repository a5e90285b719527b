/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names for the frames of a dump, from the symbol tables of the modules' files.
 * Zone: probe thread. The riskiest stage: a file may sit on a dead network drive, so everything else has been
 * sent before.
 */
#ifndef AGENT_NAMES_H
#define AGENT_NAMES_H

#include "agent/modules.h"

/*
 * names_resolve() - fill snapshot->symbols, frames[].symbol, modules[].symbols, and addresses: the places
 * inside modules where threads wait at a futex
 * @snapshot: frames and modules are there; its arrays of symbols and addresses are made here, in @arena
 * @deadline: CLOCK_MONOTONIC ns; modules that were not reached keep SYMBOLS_NOT_LOOKED
 * Return: false when time or memory ran out before the last module.
 */
bool names_resolve(struct snapshot *snapshot, const struct modules *modules, struct memory *memory,
                   struct arena *arena, uint64_t deadline);

/*
 * names_fill() - names for what another reader could not name, with the rights and the deadline of this one
 * Only of modules whose files were not readable or not looked at. New symbols are added to those that are
 * there; snapshot->symbols is then an array in @arena, as are their names. @root: where module paths begin.
 * Zone: client.
 */
void names_fill(struct snapshot *snapshot, int root, struct arena *arena, uint64_t deadline);

#endif
