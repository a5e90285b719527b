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

#include "agent/confine.h"
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

static struct credentials program, ours; /* as last read */

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

/* Reads the program's credentials and ours. 0 or -errno. */
static int look(void)
{
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
    }
    if (task_fd >= 0)
        sys_close((int)task_fd);
    return r;
}

/* Nothing to take on, and nothing to give up. */
static bool fits(void)
{
    return ours.n_groups == program.n_groups &&
           !__builtin_memcmp(ours.groups, program.groups, ours.n_groups * sizeof ours.groups[0]) &&
           !__builtin_memcmp(ours.uid, program.uid, sizeof ours.uid) &&
           !__builtin_memcmp(ours.gid, program.gid, sizeof ours.gid) &&
           !(ours.permitted & ~program.permitted) && !(ours.effective & ~program.effective) &&
           !(ours.inheritable & ~program.inheritable);
}

/* Of what we have, nothing but this. */
static int keep(uint64_t permitted, uint64_t effective, uint64_t inheritable)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    long r = sys_capget(&header, data);

    if (r < 0)
        return (int)r;
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        data[i].permitted &= (uint32_t)(permitted >> 32 * i);
        data[i].inheritable &= (uint32_t)(inheritable >> 32 * i);
        data[i].effective = data[i].permitted & (uint32_t)(effective >> 32 * i);
    }
    return (int)sys_capset(&header, data);
}

int credentials_keep(uint64_t permitted, uint64_t effective)
{
    return keep(permitted, effective, 0);
}

uint64_t credentials_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    return sys_capget(&header, data) < 0 ? 0 : data[0].permitted | (uint64_t)data[1].permitted << 32;
}

/* Groups first: without root they cannot be changed any more. */
static int take_on(void)
{
    bool groups_differ =
        program.n_groups != ours.n_groups ||
        __builtin_memcmp(program.groups, ours.groups, program.n_groups * sizeof program.groups[0]);
    long r = groups_differ ? sys_setgroups(program.n_groups, program.groups) : 0;

    if (r == 0)
        r = sys_setresgid(program.gid[REAL], program.gid[EFFECTIVE], program.gid[SAVED]);
    if (r == 0)
        r = sys_setresuid(program.uid[REAL], program.uid[EFFECTIVE], program.uid[SAVED]);
    if (r == 0)
        r = keep(program.permitted, program.effective, program.inheritable);
    return (int)r;
}

/*
 * A change of credentials takes "dumpable" from the whole process (kernel/cred.c). The program gets it back,
 * unless it has changed its own meanwhile, which takes it for good.
 */
static void restore_dumpable(bool before)
{
    uint32_t uid[N_IDS], gid[N_IDS];

    if (!before)
        return;
    __builtin_memcpy(uid, program.uid, sizeof uid);
    __builtin_memcpy(gid, program.gid, sizeof gid);
    sys_set_dumpable(1);
    if (look() < 0 || __builtin_memcmp(uid, program.uid, sizeof uid) ||
        __builtin_memcmp(gid, program.gid, sizeof gid))
        sys_set_dumpable(0);
}

static int take_on_quietly(void)
{
    bool dumpable = sys_get_dumpable() == 1;
    int r = take_on();

    restore_dumpable(dumpable);
    return r;
}

int credentials_become(uint32_t id)
{
    int looked = look();
    bool dumpable = sys_get_dumpable() == 1;
    long r = looked < 0 ? looked : sys_keep_capabilities(true);

    if (r < 0)
        return (int)r;
    r = sys_setresgid(id, id, id);
    if (r == 0) {
        /* Refused in user namespaces that are denied it; group ids there are the owner's. */
        sys_setgroups(0, NULL);
        r = sys_setresuid(id, id, id);
    }
    restore_dumpable(dumpable);
    return (int)r;
}

int credentials_follow(void)
{
    int r = look();

    return r < 0 || confine_is_final() || fits() ? r : take_on_quietly();
}

uint32_t credentials_real_user(void)
{
    return program.uid[REAL];
}

uint32_t credentials_effective_user(void)
{
    return program.uid[EFFECTIVE];
}
