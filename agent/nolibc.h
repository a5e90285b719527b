/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Included last by every file of the agent: using one of these names in the target is a compile error. They
 * may lock, allocate, touch thread-local storage or belong to somebody's interposer. Names that are also
 * ordinary words (read, open, stat) are left to the check of libprobe.so's imports.
 * Zone: handler and probe thread.
 */
#ifndef AGENT_NOLIBC_H
#define AGENT_NOLIBC_H

#ifndef PROBE_TEST
#pragma GCC poison malloc calloc realloc free strdup printf fprintf snprintf sprintf vsnprintf puts fopen \
    fclose
#pragma GCC poison getenv setenv dlopen dlsym dladdr dl_iterate_phdr pthread_create pthread_mutex_lock fork \
    vfork
#pragma GCC poison errno exit abort getpid openat close_range accept4 recvfrom sendto
#pragma GCC poison sleep usleep nanosleep clock_gettime sigprocmask pthread_sigmask strlen strcmp
#pragma GCC poison strcpy strncpy strcat strchr strrchr strstr strtol strtoul atoi qsort bsearch
#endif

#endif
