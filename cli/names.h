/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Linkage names as people write them.
 * Zone: client.
 */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

/* The demangled form, or the name itself. Valid until the next call. Fits text_options.display_name. */
const char *names_display(void *context, const char *linkage_name);

#endif
