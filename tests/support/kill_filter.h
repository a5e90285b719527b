/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A filter that kills for calls its author did not think of; see kill_filter.c. */
#ifndef TESTS_SUPPORT_KILL_FILTER_H
#define TESTS_SUPPORT_KILL_FILTER_H

/* For this process and all it starts. Returns 0, or -1 with errno. */
int kill_filter_apply(void);
/* One that answers process_vm_readv with this errno, as other sandboxes do. */
int refuse_memory_apply(int error);

#endif
