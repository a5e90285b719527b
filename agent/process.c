/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See process.h. /proc/thread-self is used throughout: /proc/self goes blank when the main thread has exited.
 * Zone: probe thread.
 */
#include "agent/process.h"

#include <fcntl.h>
#include <linux/auxvec.h>
#include <linux/errno.h>

#include "agent/report/out.h"
#include "agent/report/units.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/nolibc.h"

#define MAX_PATH 4096
/* Of /proc/<pid>/task/<tid>/status: that of a process in hundreds of groups is longer, and ends early for us.
 */
#define STATUS_SIZE 8192
#define INITIAL_PID_NAMESPACE "pid:[4026531836]" /* PROC_PID_INIT_INO, include/uapi/linux/nsfs.h */
#define MAX_ARGUMENTS 4096                       /* bytes of the command line shown with --args */

long process_read_file(int directory, const char *path, char *to, size_t size)
{
    long fd = sys_openat(directory, path, O_RDONLY | O_CLOEXEC, 0);
    size_t used = 0;
    long n;

    if (fd < 0)
        return fd;
    do {
        n = sys_read((int)fd, to + used, size - 1 - used);
        if (n > 0)
            used += (size_t)n;
    } while (n > 0 && used < size - 1);
    sys_close((int)fd);
    to[used] = 0;
    return n < 0 ? n : (long)used;
}

uint64_t process_own_filters(void)
{
    static char text[STATUS_SIZE]; /* not for our small stack */
    struct procfs_status status;
    long n = process_read_file(AT_FDCWD, "/proc/thread-self/status", text, sizeof text);

    return n > 0 && procfs_parse_status(text, (size_t)n, &status) ? status.seccomp_filters : 0;
}

bool process_filter_may_kill(void)
{
    char link[32];
    long n;

    if (sys_get_seccomp() == 0)
        return false;
    n = sys_readlinkat(AT_FDCWD, "/proc/thread-self/ns/pid", link, sizeof link - 1);
    if (n <= 0)
        return true;
    link[n] = 0;
    return text_equal(link, INITIAL_PID_NAMESPACE) || process_own_filters() != 1;
}

static int read_stat(int directory, const char *path, struct procfs_stat *ret)
{
    char line[PROCFS_LINE_MAX];
    long n = process_read_file(directory, path, line, sizeof line);

    if (n < 0)
        return (int)n;
    return procfs_parse_stat(line, (size_t)n, ret) ? 0 : -EINVAL;
}

int process_task_stat(int task_fd, int32_t tid, struct procfs_stat *ret)
{
    char path[PROCFS_PATH_MAX];

    procfs_task_path(path, tid, "stat");
    return read_stat(task_fd, path, ret);
}

static int read_process_stat(int32_t pid, struct procfs_stat *ret)
{
    char path[64];
    struct out out = {.buffer = path, .size = sizeof path - 1};

    if (pid == 0) {
        /* The process's own line, which a zombie leader still has; thread-self/stat would be our thread's. */
        out_text(&out, "/proc/thread-self/../../stat");
    } else {
        out_text(&out, "/proc/");
        out_unsigned(&out, (uint64_t)pid);
        out_text(&out, "/stat");
    }
    path[out.used] = 0;
    return read_stat(AT_FDCWD, path, ret);
}

int process_start_ticks(int32_t pid, uint64_t *ret_ticks)
{
    struct procfs_stat line;
    int r = read_process_stat(pid, &line);

    if (r == 0)
        *ret_ticks = line.start_ticks;
    return r;
}

int process_proc_ids(int32_t *ret_pid, int32_t *ret_tid)
{
    char link[64];
    const char *cursor = link;
    uint64_t pid, tid;
    long n = sys_readlinkat(AT_FDCWD, "/proc/thread-self", link, sizeof link - 1);

    if (n < 0)
        return (int)n;
    link[n] = 0;
    if (!text_take_decimal(&cursor, &pid) || !(cursor = text_after(cursor, "/task/")) ||
        !text_take_decimal(&cursor, &tid) || pid > INT32_MAX || tid > INT32_MAX)
        return -EINVAL;
    *ret_pid = (int32_t)pid;
    *ret_tid = (int32_t)tid;
    return 0;
}

static const char *read_link(int directory, const char *path, struct arena *arena)
{
    char *text = arena_alloc(arena, MAX_PATH);
    long n = text ? sys_readlinkat(directory, path, text, MAX_PATH - 1) : -ENOMEM;

    if (n < 0)
        return NULL;
    text[n] = 0;
    return text;
}

/*
 * Arguments are separated by NUL bytes; only argv[0] is shown unless the user asked,
 * since arguments hold secrets.
 */
static const char *read_command(int directory, bool all_arguments, struct arena *arena)
{
    char *text = arena_alloc(arena, MAX_ARGUMENTS);
    long n = text ? process_read_file(directory, "cmdline", text, MAX_ARGUMENTS) : -ENOMEM;

    if (n <= 0)
        return NULL;
    if (all_arguments)
        for (long i = 0; i + 1 < n; i++)
            if (!text[i])
                text[i] = ' ';
    return text;
}

void process_describe(struct process_info *ret, const struct subject *subject, bool all_arguments,
                      struct arena *arena)
{
    struct procfs_stat line;

    *ret = (struct process_info){.ns_pid = subject->pid,
                                 .pid = subject->proc_pid ? subject->proc_pid : subject->pid,
                                 .uid = subject->uid,
                                 .foreign_proc = subject->foreign_proc};
    ret->main_tid = ret->pid;
    ret->exe = read_link(subject->directory, "exe", arena);
    ret->command = read_command(subject->directory, all_arguments, arena);
    if (read_stat(subject->directory, "../../stat", &line) < 0)
        return;
    ret->ppid = line.ppid;
    ret->start_ticks = line.start_ticks;

    uint64_t age_since_boot = ret->start_ticks * NANOS_PER_TICK;
    uint64_t now_since_boot = sys_boottime_nanos();

    ret->up_nanos = now_since_boot > age_since_boot ? now_since_boot - age_since_boot : 0;
    ret->start_time = sys_realtime_nanos() - ret->up_nanos;
}
