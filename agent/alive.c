/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See alive.h. A descriptor costs nothing while nothing happens; looking now and then
 * would wake the thread up.
 * Zone: probe thread.
 */
#include "agent/alive.h"

#include <fcntl.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "agent/process.h"
#include "agent/procfs.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/nolibc.h"

#define PIDFD_THREAD O_EXCL /* linux/pidfd.h since 6.9; EINVAL before */
#define ATTEMPTS 16

static bool lives(int task_fd, int32_t tid)
{
    struct procfs_stat stat_line;
    int r = process_task_stat(task_fd, tid, &stat_line);

    if (r == -ENOENT || r == -ESRCH)
        return false;
    if (r < 0)
        return true; /* it cannot be looked at, for want of descriptors, say: nobody is declared dead for that
                      */
    return stat_line.state != 'Z' && stat_line.state != 'X' &&
           !(stat_line.flags & (PROCFS_FLAG_IO_WORKER | PROCFS_FLAG_KTHREAD));
}

/* A living thread that is not ours, 0 if there is none. */
static int32_t find_living(int task_fd, int32_t own)
{
    _Alignas(struct sys_dirent) char buffer[1024];
    long n;

    while ((n = sys_getdents(task_fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n;) {
            const struct sys_dirent *entry = (const void *)(buffer + at);
            int32_t tid = procfs_parse_tid(entry->name);

            at += entry->length;
            if (tid > 0 && tid != own && lives(task_fd, tid))
                return tid;
        }
    return n < 0 ? (int32_t)n : 0;
}

int alive_watch(void)
{
    long fd = sys_pidfd_open(sys_getpid(), PIDFD_THREAD);

    return fd < 0 ? ALIVE_UNWATCHED : (int)fd;
}

/* Where /proc numbers threads differently, it cannot say whom to watch. */
static int32_t find_other(void)
{
    int32_t proc_pid, own, tid;
    long task_fd;

    if (process_proc_ids(&proc_pid, &own) < 0 || own != sys_gettid())
        return -ENOENT;
    task_fd = sys_openat(AT_FDCWD, "/proc/thread-self/..", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (task_fd < 0)
        return (int32_t)task_fd;
    tid = find_living((int)task_fd, own);
    sys_close((int)task_fd);
    return tid;
}

int alive_watch_next(int fd)
{
    long next = -ESRCH;

    sys_close(fd);
    /* Whom we found may end before we watch it. */
    for (unsigned i = 0; next == -ESRCH && i < ATTEMPTS; i++) {
        int32_t tid = find_other();

        if (tid == 0)
            return ALIVE_NOBODY;
        next = tid > 0 ? sys_pidfd_open(tid, PIDFD_THREAD) : tid;
    }
    return next < 0 ? ALIVE_UNWATCHED : (int)next;
}

bool alive_anybody(void)
{
    return find_other() != 0;
}

/* exit_code, the last field of stat (proc(5), field 52): status << 8 or the number of a signal. */
static uint64_t leader_exit_code(void)
{
    char line[PROCFS_LINE_MAX];
    long n = process_read_file(AT_FDCWD, "/proc/thread-self/../../stat", line, sizeof line);
    const char *cursor;
    uint64_t code = 0;

    while (n > 0 && (line[n - 1] < '0' || line[n - 1] > '9'))
        n--;
    while (n > 0 && line[n - 1] >= '0' && line[n - 1] <= '9')
        n--;
    cursor = &line[n > 0 ? n : 0];
    return n > 0 && text_take_decimal(&cursor, &code) ? code : 0;
}

int alive_exit_status(void)
{
    uint64_t code = alive_anybody() ? 0 : leader_exit_code();

    return (int)(code & 127 ? 128 + (code & 127) : code >> 8 & 255);
}
