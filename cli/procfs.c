/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Readers for /proc; see procfs.h.
 * Zone: client.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/procfs.h"

#define FILE_MAX ((size_t)4 * 1024 * 1024)
#define NANOS UINT64_C(1000000000)

ssize_t procfs_read(const char *path, char **ret_text)
{
    char full[128], *text = NULL, *bigger;
    size_t used = 0, size = 0;
    ssize_t n;
    int fd, r = 0;

    snprintf(full, sizeof(full), "/proc/%s", path);
    fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    for (;;) {
        if (size - used < 2) {
            size = size ? size * 2 : 4096;
            bigger = size <= FILE_MAX ? realloc(text, size) : NULL;
            if (bigger == NULL) {
                r = -ENOMEM;
                break;
            }
            text = bigger;
        }
        n = read(fd, text + used, size - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            r = n < 0 ? -errno : 0;
            break;
        }
        used += (size_t)n;
    }
    close(fd);
    if (r < 0) {
        free(text);
        return r;
    }
    text[used] = '\0';
    *ret_text = text;
    return (ssize_t)used;
}

const char *procfs_environ(const char *block, size_t size, const char *name)
{
    size_t length = strlen(name), at, next;

    for (at = 0; at < size; at = next + 1) {
        next = at + strnlen(block + at, size - at);
        if (next - at > length && memcmp(block + at, name, length) == 0 && block[at + length] == '=')
            return block + at + length + 1;
    }
    return NULL;
}

const char *procfs_status_field(const char *status, const char *key)
{
    size_t length = strlen(key);
    const char *line = status;

    while (line != NULL && *line != '\0') {
        if (strncmp(line, key, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, "\t ");
        line = strchr(line, '\n');
        if (line != NULL)
            line++;
    }
    return NULL;
}

/* The number in the last column of a line, or otherwise. */
static pid_t last_number(const char *line, pid_t otherwise)
{
    char *end;
    long value = otherwise;

    while (line != NULL && *line != '\n' && *line != '\0') {
        value = strtol(line, &end, 10);
        if (end == line)
            break;
        line = end + strspn(end, "\t ");
    }
    return (pid_t)value;
}

static int facts_from_status(const char *status, struct process_facts *facts)
{
    const char *text;
    unsigned uid[4];

    text = procfs_status_field(status, "Tgid");
    facts->tgid = text ? (pid_t)strtol(text, NULL, 10) : facts->pid;
    text = procfs_status_field(status, "PPid");
    facts->ppid = text ? (pid_t)strtol(text, NULL, 10) : 0;
    facts->ns_pid = last_number(procfs_status_field(status, "NSpid"), facts->pid);
    text = procfs_status_field(status, "Seccomp");
    facts->seccomp = text ? atoi(text) : -1;
    text = procfs_status_field(status, "Uid");
    if (text == NULL || sscanf(text, "%u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]) != 4)
        return -EIO;
    for (int i = 0; i < 4; i++)
        facts->uid[i] = uid[i];
    return 0;
}

/* Fields are counted from the last parenthesis: the name before it may hold anything. */
static int facts_from_stat(const char *stat, struct process_facts *facts)
{
    const char *text = strrchr(stat, ')');
    unsigned long long start = 0;
    long threads = 0;

    if (text == NULL ||
        sscanf(text + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
               &facts->state, &threads, &start) != 3)
        return -EIO;
    facts->start_ticks = start;
    facts->n_threads = threads > 0 ? (uint32_t)threads : 0;
    return 0;
}

static uint64_t ticks_to_nanos(uint64_t ticks)
{
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);

    return ticks / hz * NANOS + ticks % hz * (NANOS / hz);
}

static uint64_t clock_nanos(clockid_t clock)
{
    struct timespec now = {0};

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NANOS + (uint64_t)now.tv_nsec;
}

uint64_t procfs_start_time(const struct process_facts *facts)
{
    return clock_nanos(CLOCK_REALTIME) - clock_nanos(CLOCK_BOOTTIME) + ticks_to_nanos(facts->start_ticks);
}

int procfs_facts(pid_t pid, struct process_facts *ret_facts)
{
    struct process_facts facts = {.pid = pid};
    char path[64], *text;
    uint64_t now, start;
    ssize_t n;
    int r;

    snprintf(path, sizeof(path), "%d/status", pid);
    n = procfs_read(path, &text);
    if (n < 0)
        return n == -ESRCH ? -ENOENT : (int)n;
    r = facts_from_status(text, &facts);
    free(text);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%d/stat", pid);
    n = procfs_read(path, &text);
    if (n < 0)
        return n == -ESRCH ? -ENOENT : (int)n;
    r = facts_from_stat(text, &facts);
    free(text);
    if (r < 0)
        return r;
    now = clock_nanos(CLOCK_BOOTTIME);
    start = ticks_to_nanos(facts.start_ticks);
    facts.up_nanos = now > start ? now - start : 0;
    *ret_facts = facts;
    return 0;
}

/* "libprobe", or "libprobe:N" when it was born with N seccomp filters (agent/thread.c); -2: another thread's
 * name. */
static int agent_filters(const char *comm)
{
    static const char name[] = "libprobe";
    const char *rest = comm + sizeof(name) - 1;

    if (strncmp(comm, name, sizeof(name) - 1) != 0)
        return -2;
    if (*rest == '\n' || *rest == '\0')
        return 0;
    if (*rest != ':')
        return -2;
    return rest[1] >= '0' && rest[1] <= '9' ? atoi(rest + 1) : -1;
}

pid_t procfs_agent_thread(pid_t pid, int *ret_filters)
{
    char path[64], *comm;
    pid_t *tids = NULL, found = 0;
    ssize_t n;

    snprintf(path, sizeof(path), "%d/task", pid);
    n = procfs_list(path, &tids);
    for (ssize_t i = 0; i < n && found == 0; i++) {
        int filters;

        snprintf(path, sizeof(path), "%d/task/%d/comm", pid, tids[i]);
        if (procfs_read(path, &comm) < 0)
            continue;
        filters = agent_filters(comm);
        free(comm);
        if (filters == -2)
            continue;
        found = tids[i];
        if (ret_filters != NULL)
            *ret_filters = filters;
    }
    free(tids);
    return found;
}

int procfs_seccomp_filters(pid_t pid, pid_t tid)
{
    char path[64], *text;
    const char *field;
    int filters = -1;

    snprintf(path, sizeof(path), "%d/task/%d/status", pid, tid);
    if (procfs_read(path, &text) < 0)
        return -1;
    field = procfs_status_field(text, "Seccomp_filters");
    if (field != NULL)
        filters = atoi(field);
    else if ((field = procfs_status_field(text, "Seccomp")) != NULL)
        filters = atoi(field) != 0; /* before Linux 5.9 they are not counted */
    free(text);
    return filters;
}

static int compare_ids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return x < y ? -1 : x > y;
}

ssize_t procfs_list(const char *path, pid_t **ret_ids)
{
    char full[128];
    struct dirent *entry;
    pid_t *ids = NULL, *bigger;
    size_t n = 0, room = 0;
    DIR *directory;

    snprintf(full, sizeof(full), "/proc/%s", path);
    directory = opendir(full);
    if (directory == NULL)
        return -errno;
    while ((entry = readdir(directory)) != NULL) {
        char *end;
        long id = strtol(entry->d_name, &end, 10);

        if (*end != '\0' || id <= 0)
            continue;
        if (n == room) {
            room = room ? room * 2 : 256;
            bigger = realloc(ids, room * sizeof(*ids));
            if (bigger == NULL)
                break; /* what there is: a shorter list */
            ids = bigger;
        }
        ids[n++] = (pid_t)id;
    }
    closedir(directory);
    if (n > 0)
        qsort(ids, n, sizeof(*ids), compare_ids);
    *ret_ids = ids;
    return (ssize_t)n;
}
