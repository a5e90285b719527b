/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See credentials.h.
 * Zone: probe thread.
 */
#include "agent/credentials.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <stdbool.h>

#include "agent/process.h"
#include "agent/report/out.h"
#include "agent/sys.h"
#include "agent/text.h"

#include "agent/nolibc.h"

/*
 * Bytes of /proc/<pid>/task/<tid>/status that are looked at: 800 supplementary groups
 * fit, and fewer are no harm.
 */
#define STATUS_SIZE 8192
#define MAX_GROUPS 512

enum { REAL, EFFECTIVE, SAVED, N_IDS };

struct credentials {
    uint32_t uid[N_IDS], gid[N_IDS];
    uint32_t groups[MAX_GROUPS];
    uint32_t n_groups;
    uint64_t permitted, effective, inheritable;
};

/* What follows "name:" and blanks at the start of a line, or NULL. */
static const char *find_line(const char *text, const char *name)
{
    while (*text) {
        const char *after = text_after(text, name);

        if (after) {
            while (*after == '\t' || *after == ' ')
                after++;
            return after;
        }
        while (*text && *text++ != '\n')
            ;
    }
    return NULL;
}

/* Up to most decimal numbers of the line. */
static uint32_t read_numbers(const char *line, uint32_t *ret, uint32_t most)
{
    uint32_t n = 0;
    uint64_t value;

    while (line && n < most && text_take_decimal(&line, &value)) {
        ret[n++] = (uint32_t)value;
        while (*line == '\t' || *line == ' ')
            line++;
    }
    return n;
}

static bool read_set(const char *text, const char *name, uint64_t *ret)
{
    const char *line = find_line(text, name);

    return line && text_take_hex(&line, ret);
}

/* "Uid:\treal\teffective\tsaved\tfile system" and so on (proc(5)). */
static bool parse(const char *text, struct credentials *ret)
{
    ret->n_groups = read_numbers(find_line(text, "Groups:"), ret->groups, MAX_GROUPS);
    return read_numbers(find_line(text, "Uid:"), ret->uid, N_IDS) == N_IDS &&
           read_numbers(find_line(text, "Gid:"), ret->gid, N_IDS) == N_IDS &&
           read_set(text, "CapInh:", &ret->inheritable) && read_set(text, "CapPrm:", &ret->permitted) &&
           read_set(text, "CapEff:", &ret->effective);
}

static bool read_credentials(int task_fd, const char *name, struct credentials *ret)
{
    static char text[STATUS_SIZE]; /* not for our small stack; there is one probe thread in a process */
    char path[32];
    struct out out = {.buffer = path, .size = sizeof path - 1};
    const char *state;

    out_text(&out, name);
    out_text(&out, "/status");
    path[out.used] = 0;
    if (process_read_file(task_fd, path, text, sizeof text) <= 0 || !parse(text, ret))
        return false;
    state = find_line(text, "State:");
    return state && *state != 'Z' && *state != 'X';
}

/* The first thread of the list that lives and is not ours: main, unless it has exited. */
static bool read_program(int task_fd, const char *own, struct credentials *ret)
{
    _Alignas(struct sys_dirent) char buffer[1024];
    long n;

    while ((n = sys_getdents(task_fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n;) {
            const struct sys_dirent *entry = (const void *)(buffer + at);

            at += entry->length;
            if (entry->name[0] != '.' && !text_equal(entry->name, own) &&
                read_credentials(task_fd, entry->name, ret))
                return true;
        }
    return false;
}

static bool same(const struct credentials *a, const struct credentials *b)
{
    return a->n_groups == b->n_groups &&
           !__builtin_memcmp(a->groups, b->groups, a->n_groups * sizeof a->groups[0]) &&
           !__builtin_memcmp(a->uid, b->uid, sizeof a->uid) &&
           !__builtin_memcmp(a->gid, b->gid, sizeof a->gid) && a->permitted == b->permitted &&
           a->effective == b->effective && a->inheritable == b->inheritable;
}

static int drop_capabilities(const struct credentials *wanted)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    long r = sys_capget(&header, data);

    if (r < 0)
        return (int)r;
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        data[i].permitted &= (uint32_t)(wanted->permitted >> 32 * i);
        data[i].inheritable &= (uint32_t)(wanted->inheritable >> 32 * i);
        data[i].effective = data[i].permitted & (uint32_t)(wanted->effective >> 32 * i);
    }
    return (int)sys_capset(&header, data);
}

/* Groups first: without root they cannot be changed any more. */
static int take_on(const struct credentials *wanted, const struct credentials *ours)
{
    bool groups_differ =
        wanted->n_groups != ours->n_groups ||
        __builtin_memcmp(wanted->groups, ours->groups, wanted->n_groups * sizeof wanted->groups[0]);
    long r = groups_differ ? sys_setgroups(wanted->n_groups, wanted->groups) : 0;

    if (r == 0)
        r = sys_setresgid(wanted->gid[REAL], wanted->gid[EFFECTIVE], wanted->gid[SAVED]);
    if (r == 0)
        r = sys_setresuid(wanted->uid[REAL], wanted->uid[EFFECTIVE], wanted->uid[SAVED]);
    if (r == 0)
        r = drop_capabilities(wanted);
    return (int)r;
}

/*
 * A change of credentials takes "dumpable" from the whole process (kernel/cred.c), also
 * if the program had set it.
 */
static int take_on_quietly(const struct credentials *wanted, const struct credentials *ours)
{
    bool dumpable = sys_get_dumpable() == 1;
    int r = take_on(wanted, ours);

    if (dumpable)
        sys_set_dumpable(1);
    return r;
}

int credentials_follow(void)
{
    static struct credentials program, ours;
    char own[16];
    struct out out = {.buffer = own, .size = sizeof own - 1};
    int32_t proc_pid, proc_tid;
    long task_fd = sys_openat(AT_FDCWD, "/proc/thread-self/..", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int r = task_fd < 0 ? (int)task_fd : process_proc_ids(&proc_pid, &proc_tid);

    if (r == 0) {
        out_unsigned(&out, (uint64_t)proc_tid);
        own[out.used] = 0;
        if (!read_program((int)task_fd, own, &program) || !read_credentials((int)task_fd, own, &ours))
            r = -ESRCH;
        else if (!same(&program, &ours))
            r = take_on_quietly(&program, &ours);
    }
    if (task_fd >= 0)
        sys_close((int)task_fd);
    return r;
}
