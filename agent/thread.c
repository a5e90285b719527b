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
#include "agent/endpoint.h"
#include "agent/process.h"
#include "agent/procfs.h"
#include "agent/report/out.h"
#include "agent/server.h"
#include "agent/sys.h"
#include "agent/nolibc.h"

/* Deepest use seen is below 24 KiB (the stack-usage check of the build holds every frame under 4 KiB). */
#define STACK_SIZE ((size_t)128 * 1024)
#define GUARD_SIZE ((size_t)4096)
#define STACK_TOP                                                                                        \
    ((size_t)64) /* unused bytes above the first frame: valgrind warns of a stack pointer at an unmapped \
                    byte */

/* A program that lives shorter than this never makes a socket. */
#define SETTLE_NANOS UINT64_C(100000000)

/* Of /proc/<pid>/task/<tid>/status: a process in hundreds of groups has a longer one, and its filters stay
 * uncounted. */
#define STATUS_SIZE 8192

#define SIG_SETMASK 2 /* asm-generic/signal-defs.h; the libc header would bring libc's sigset_t */

/*
 * What every thread shares with its process, but for CLONE_FS: the program's chroot and chdir stay its own,
 * and so does setns(mnt), which the kernel refuses while the fs struct is shared.
 */
#define THREAD_FLAGS (CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

/* The one set that valgrind takes for a thread; it ends the program when it sees another. */
#define VALGRIND_FLAGS (THREAD_FLAGS | CLONE_FS | CLONE_FILES)

static struct {
    const struct config *config;
    uint8_t *stack;    /* with its guard page at the low end */
    bool table_shared; /* born with the program's descriptor table */
} birth;

/*
 * The thread's descriptors are its own from its first instruction on: nothing the program does to its
 * numbers meets ours, ours never hold its pipes open, and POSIX locks survive (they belong to the
 * table, not to the process).
 */
static bool make_private_table(void)
{
    if (birth.table_shared)
        return sys_close_range(0, ~0u, CLOSE_RANGE_UNSHARE) == 0;
    /*
     * Born with a copy of the table, on kernels before 5.9 or where a sandbox hides
     * close_range: empty the copy.
     */
    for (unsigned fd = 0, missing = 0; missing < 1024; fd++)
        missing = sys_close((int)fd) == -EBADF ? missing + 1 : 0;
    return true;
}

/*
 * probectl compares the filters that we were born with to those that we have when it comes: a filter that the
 * program laid on us meanwhile may kill it for what a dump does. The name is what probectl sees without
 * waking us.
 */
static void set_name(void)
{
    static char text[STATUS_SIZE]; /* not for our small stack; there is one probe thread in a process */
    struct procfs_status status;
    char name[16];
    struct out out = {.buffer = name, .size = sizeof name - 1};
    long n = 0;

    out_text(&out, "libprobe");
    if (sys_get_seccomp() != 0) {
        n = process_read_file(AT_FDCWD, "/proc/thread-self/status", text, sizeof text);
        out_char(&out, ':');
        if (n > 0 && procfs_parse_status(text, (size_t)n, &status) && status.seccomp_filters > 0)
            out_unsigned(&out, status.seccomp_filters);
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
        sys_sleep(SETTLE_NANOS);
        listener = endpoint_open(birth.config);
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

    /* No such descriptor exists, so this asks only whether the call does. */
    can_unshare = sys_close_range(~0u, ~0u, 0) == 0;
    if (can_unshare)
        flags |= CLONE_FILES;
    if (config->under_valgrind)
        flags = VALGRIND_FLAGS;
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
    sys_sigprocmask(SIG_SETMASK, &before, NULL);
    return r < 0 ? (int)r : 0;
}
