/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What /proc and the kernel say about one thread; see task.h.
 * Zone: probe thread.
 */
#include "agent/backends/task.h"

#include <asm/errno.h>
#include <asm/fcntl.h>

#include "agent/report/units.h"
#include "agent/sys.h"

#include "agent/nolibc.h"

#define MAX_WCHAN 128 /* KSYM_NAME_LEN until Linux 6.1; what is longer is cut */

static int open_file(const struct capture_session *session, int32_t tid, const char *file)
{
    char path[PROCFS_PATH_MAX];

    procfs_task_path(path, tid, file);
    return (int)sys_openat(session->task_fd, path, O_RDONLY | O_CLOEXEC, 0);
}

static void close_file(int fd)
{
    if (fd >= 0)
        sys_close(fd);
}

void task_open(struct task *ret, const struct capture_session *session, int32_t tid)
{
    *ret =
        (struct task){.session = session, .tid = tid, .syscall_fd = -1, .schedstat_fd = -1, .status_fd = -1};
}

void task_close(struct task *task)
{
    close_file(task->syscall_fd);
    close_file(task->schedstat_fd);
    close_file(task->status_fd);
}

/* Reads a file from its start that is opened on the way if need be. */
static long read_file(struct task *task, int *fd, const char *file, char *text, size_t size)
{
    long n;

    if (*fd < 0)
        *fd = open_file(task->session, task->tid, file);
    if (*fd < 0)
        return *fd;
    n = sys_pread(*fd, text, size, 0);
    return n == 0 ? -ESRCH : n; /* nothing: what files say whose thread ended after they were opened */
}

enum capture_reason task_reason(long error)
{
    return error == -ESRCH || error == -ENOENT ? REASON_VANISHED : REASON_SYSCALL_UNREADABLE;
}

int task_look(struct task *task, struct procfs_syscall *ret)
{
    char text[256];
    long n = read_file(task, &task->syscall_fd, "syscall", text, sizeof(text));

    if (n < 0)
        return (int)n;
    return procfs_parse_syscall(text, (size_t)n, ret) ? 0 : -EPROTO;
}

static int read_status(struct task *task, struct procfs_status *ret)
{
    char *text = task->session->text;
    long n = read_file(task, &task->status_fd, "status", text, CAPTURE_TEXT);

    if (n < 0)
        return (int)n;
    return procfs_parse_status(text, (size_t)n, ret) ? 0 : -EPROTO;
}

int task_switches(struct task *task, struct task_switches *ret)
{
    struct procfs_schedstat line;
    struct procfs_status status;
    char text[96];
    long n;

    if (!task->uncounted) {
        n = read_file(task, &task->schedstat_fd, "schedstat", text, sizeof(text));
        if (n > 0 && procfs_parse_schedstat(text, (size_t)n, &line) && line.switches) {
            *ret = (struct task_switches){.count = line.switches, .cpu_nanos = line.cpu_nanos, .proof = true};
            return 0;
        }
        task->uncounted = true;
    }
    n = read_status(task, &status);
    if (n < 0)
        return (int)n;
    *ret = (struct task_switches){.count = status.switches};
    return 0;
}

int task_status(const struct capture_session *session, int32_t tid, struct procfs_status *ret)
{
    struct task task;
    int result;

    task_open(&task, session, tid);
    result = read_status(&task, ret);
    task_close(&task);
    return result;
}

enum capture_reason task_describe(const struct capture_session *session, struct thread_sample *sample)
{
    struct procfs_stat stat_line;
    char text[PROCFS_LINE_MAX];
    int fd = open_file(session, sample->os_tid, "stat");
    long n = fd;

    if (fd >= 0) {
        n = sys_read(fd, text, sizeof(text));
        close_file(fd);
    }
    if (n == 0 || n == -ESRCH || n == -ENOENT)
        return REASON_VANISHED;
    if (n < 0 || !procfs_parse_stat(text, (size_t)n, &stat_line))
        return REASON_NONE; /* hidden: the stack may be readable all the same; name and state stay unknown */
    __builtin_memcpy(sample->name, stat_line.name, sizeof(sample->name));
    sample->state = stat_line.state;
    if (!sample->cpu_nanos)
        sample->cpu_nanos = stat_line.cpu_ticks * NANOS_PER_TICK;
    if (stat_line.state == 'Z' || stat_line.state == 'X')
        return REASON_ZOMBIE;
    if (stat_line.flags & (PROCFS_FLAG_IO_WORKER | PROCFS_FLAG_KTHREAD))
        return REASON_KERNEL_WORKER;
    return REASON_NONE;
}

const char *task_wchan(const struct capture_session *session, int32_t tid)
{
    char text[MAX_WCHAN];
    int fd = open_file(session, tid, "wchan");
    long n = fd;
    char *kept;

    if (fd >= 0) {
        n = sys_read(fd, text, sizeof(text) - 1);
        close_file(fd);
    }
    if (n <= 0 ||
        text[0] == '0') /* "0": it runs, or the kernel does not say (fs/proc/base.c, proc_pid_wchan) */
        return NULL;
    text[n] = '\0';
    kept = arena_alloc(session->arena, (size_t)n + 1);
    if (kept)
        __builtin_memcpy(kept, text, (size_t)n + 1);
    return kept;
}

static const struct mapping *readable_mapping(const struct modules *modules, uint64_t address)
{
    const struct mapping *mapping = modules_find_mapping(modules, address);

    return mapping && mapping->readable ? mapping : NULL;
}

void task_own_stack(const struct capture_session *session, int32_t tid, struct task_stack *ret)
{
    const struct mapping *mapping;
    uint64_t top = 0;
    size_t size;

    *ret = (struct task_stack){0};
    if (tid == session->main_tid)
        top = session->modules->main_stack_top;
    else if (session->foreign_proc || sys_get_robust_list(tid, &top, &size) < 0)
        return; /* the call counts threads as the kernel does for us, /proc differently */
    if (!top)
        return;
    mapping = readable_mapping(session->modules, top - 1);
    if (!mapping)
        return;
    *ret = (struct task_stack){.low = mapping->start, .top = top};
}
