/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the loader runs: decide whether to be active here, and if so start the probe thread. Fails open
 * everywhere and prints nothing: whatever goes wrong, the program runs as without us.
 * Zone: load time, on the program's thread.
 */
#include <fcntl.h>
#include <linux/auxvec.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/backends/backend.h"
#include "agent/config.h"
#include "agent/process.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/thread.h"
#include "agent/nolibc.h"

/*
 * Everything that is imported, and all of it weak: what a libc does not have is NULL, and the same file loads
 * under glibc from 2.17 on and under musl. tests/contract holds the built library to this list.
 */
extern char **environ __attribute__((weak));
extern unsigned long getauxval(unsigned long type) __attribute__((weak));
/* Two entry points exist: glibc keeps pthread_atfork out of its shared library and musl has only that one. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
    __attribute__((weak));
extern int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
    __attribute__((weak));

static struct config config;
static bool loaded_under_filter; /* that of a container, say */

static bool matches_program(void)
{
    char path[CONFIG_TEXT];
    long n;

    if (!config.match[0])
        return true;
    n = process_read_file(AT_FDCWD, "/proc/thread-self/comm", path, sizeof path);
    if (n > 0) {
        path[n - 1] = 0; /* the kernel ends it with a line feed */
        if (text_glob(config.match, path))
            return true;
    }
    n = sys_readlinkat(AT_FDCWD, "/proc/thread-self/exe", path, sizeof path - 1);
    if (n <= 0)
        return false;
    path[n] = 0;
    return text_glob(config.match, text_basename(path));
}

/* Chromium's zygote refuses to go on when it is not single-threaded. */
static bool is_zygote(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (text_equal(argv[i], "--type=zygote"))
            return true;
    return false;
}

/*
 * The child of fork without exec has none of our threads; it gets its own, on the stack the parent's had. Not
 * under a filter that the program made for itself: it may kill for what starting a thread takes.
 */
static void start_in_child(void)
{
    if (!loaded_under_filter && sys_get_seccomp() != 0)
        return;
    signal_backend_init(config.signal);
    thread_start(&config);
}

__attribute__((constructor)) static void load(int argc, char **argv, char **envp)
{
    if (!&environ || !environ || !getauxval || getauxval(AT_SECURE))
        return;
    config_read(&config, environ);
    /* glibc hands constructors the program's arguments, musl does not. */
    if (config.disabled || config.lazy || !matches_program() || (__register_atfork && is_zygote(argc, argv)))
        return;
    loaded_under_filter = sys_get_seccomp() != 0;
    signal_backend_init(config.signal);
    if (thread_start(&config) < 0)
        return;
    if (__register_atfork)
        __register_atfork(NULL, NULL, start_in_child, NULL);
    else if (pthread_atfork)
        pthread_atfork(NULL, NULL, start_in_child);
}
