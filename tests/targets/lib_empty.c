/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The smallest preload: what any preload costs, for comparison in benchmarks. */
extern const int probe_empty_library;
const int probe_empty_library = 1;
