/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See thread.h.
 * Zone: load time up to the clone, probe thread after it.
 */
#include "agent/thread.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/errno.h>
#include <linux/mman.h>
#include <linux/sched.h>

#include "agent/alive.h"
#include "agent/confine.h"
#include "agent/endpoint.h"
#include "agent/process.h"
#include "agent/report/out.h"
#include "agent/server.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/nolibc.h"

/* Deepest use seen is below 24 KiB (the stack-usage check of the build holds every frame under 4 KiB). */
#define STACK_SIZE ((size_t)128 * 1024)
#define GUARD_SIZE ((size_t)4096)
#define STACK_TOP                                                                                        \
    ((size_t)64) /* unused bytes above the first frame: valgrind warns of a stack pointer at an unmapped \
                    byte */

/*
 * A program that lives shorter than the second never makes a socket; one that lives shorter than the first
 * has no time to give up anything.
 */
#define CONFINE_NANOS UINT64_C(2000000)
#define SETTLE_NANOS UINT64_C(100000000)

#define SIG_SETMASK 2 /* asm-generic/signal-defs.h; the libc header would bring libc's sigset_t */

/*
 * What every thread shares with its process, but for CLONE_FS: the program's chroot and chdir stay its own,
 * and so does setns(mnt), which the kernel refuses while the fs struct is shared.
 */
#define THREAD_FLAGS (CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

/* The one set that emulators take for a thread. valgrind ends the program when it sees another, qemu refuses.
 */
#define EMULATOR_FLAGS (THREAD_FLAGS | CLONE_FS | CLONE_FILES)

static struct {
    const struct config *config;
    uint8_t *stack;    /* with its guard page at the low end */
    bool table_shared; /* born with the program's descriptor table */
} birth;

/* Of the copy of the program's table. Closing leaves the list, so it is read from its start each time. */
static void close_listed(int directory)
{
    _Alignas(struct sys_dirent) char buffer[1024];
    bool closed = true;
    long n;

    while (closed && sys_rewind(directory) >= 0 && (n = sys_getdents(directory, buffer, sizeof buffer)) > 0) {
        closed = false;
        for (long at = 0; at < n;) {
            const struct sys_dirent *entry = (const void *)(buffer + at);
            const char *cursor = entry->name;
            uint64_t fd;

            if (text_take_decimal(&cursor, &fd) && fd != (uint64_t)directory)
                closed |= sys_close((int)fd) == 0;
            at += entry->length;
        }
    }
}

static void close_counting(void)
{
    for (unsigned fd = 0, missing = 0; missing < 1024; fd++)
        missing = sys_close((int)fd) == -EBADF ? missing + 1 : 0;
}

/*
 * The thread's descriptors are its own from its first instruction on: nothing the program does to its
 * numbers meets ours, ours never hold its pipes open, and POSIX locks survive (they belong to the
 * table, not to the process).
 */
static bool make_private_table(void)
{
    long directory;

    if (birth.table_shared)
        return sys_close_range(0, ~0u, CLOSE_RANGE_UNSHARE) == 0;
    directory = sys_openat(AT_FDCWD, "/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (directory >= 0) {
        close_listed((int)directory);
        sys_close((int)directory);
    } else {
        close_counting();
    }
    return true;
}

/*
 * probectl compares the filters that we were born with to those that we have when it comes: a filter that the
 * program laid on us meanwhile may kill it for what a dump does. The name is what probectl sees without
 * waking us.
 */
static void set_name(void)
{
    char name[16];
    struct out out = {.buffer = name, .size = sizeof name - 1};
    uint64_t filters;

    out_text(&out, "libprobe");
    if (sys_get_seccomp() != 0) {
        filters = process_own_filters();
        out_char(&out, ':');
        if (filters > 0)
            out_unsigned(&out, filters);
        else
            out_char(&out, '?'); /* before Linux 5.9 nobody counts them */
    }
    name[out.used] = 0;
    sys_set_name(name);
}

static void probe_thread(void *unused)
{
    int listener = -EMFILE;

    set_name();
    if (make_private_table()) {
        sys_sleep(CONFINE_NANOS);
        confine_begin(birth.config);
        sys_sleep(SETTLE_NANOS - CONFINE_NANOS);
        listener = endpoint_open(birth.config);
        confine_end();
    }
    if (listener >= 0)
        server_run(listener, birth.config);
    sys_exit_thread(alive_exit_status());
}

static long map_stack(void)
{
    long address = sys_mmap(STACK_SIZE, PROT_READ | PROT_WRITE, MAP_NORESERVE | MAP_STACK);

    if (address < 0 && address > -4096)
        return address;
    birth.stack = (uint8_t *)(uintptr_t)address;
    sys_mprotect(birth.stack, GUARD_SIZE, PROT_NONE);
    return 0;
}

int thread_start(const struct config *config)
{
    static const uint64_t all = ~UINT64_C(0);
    unsigned long flags = THREAD_FLAGS;
    uint64_t before;
    bool can_unshare;
    long r;

    birth.config = config;
    if (!birth.stack && (r = map_stack()) < 0)
        return (int)r;

    /*
     * A filter may kill for a call as young as close_range (5.9). No such descriptor exists, so this asks
     * only whether the call does. Without it the thread is born with a copy of the table, and empties that.
     */
    can_unshare = !process_filter_may_kill() && sys_close_range(~0u, ~0u, 0) == 0;
    if (can_unshare)
        flags |= CLONE_FILES;
    if (config->under_valgrind)
        flags = EMULATOR_FLAGS;
    birth.table_shared = flags & CLONE_FILES;
    if (birth.table_shared && !can_unshare) /* emptying the table would close the program's own descriptors */
        return -ENOSYS;

    /*
     * The thread inherits the mask, so no signal of the program ever finds it; 64 raw
     * bits, libc's own two included.
     */
    r = sys_sigprocmask(SIG_SETMASK, &all, &before);
    if (r < 0)
        return (int)r;
    r = sys_clone(flags, birth.stack + STACK_SIZE - STACK_TOP, probe_thread, NULL);
    if (r == -EINVAL && birth.table_shared)
        r = sys_clone(EMULATOR_FLAGS, birth.stack + STACK_SIZE - STACK_TOP, probe_thread, NULL);
    sys_sigprocmask(SIG_SETMASK, &before, NULL);
    return r < 0 ? (int)r : 0;
}
