/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sockets whose owner is gone; see sweep.h.
 * Zone: client.
 */
#include "cli/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/endpoint.h"

/* <pid>-<starttime>.sock, or that after a dot: a socket that its owner had not got ready. */
static bool parse_socket_name(const char *name, long *ret_pid, unsigned long long *ret_start)
{
    char *end;

    name += name[0] == '.';
    if (name[0] < '1' || name[0] > '9')
        return false;
    *ret_pid = strtol(name, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9' || *ret_pid > 0x7fffffff)
        return false;
    *ret_start = strtoull(end + 1, &end, 10);
    return strcmp(end, ".sock") == 0;
}

/*
 * Only where the name's pid means the same to us as to the owner: a directory shared with a container holds
 * sockets of pids that we would not find.
 */
static bool own_pid_namespace(void)
{
    struct process_facts facts;

    return procfs_facts(getpid(), &facts) == 0 && facts.ns_pid == getpid();
}

/* A container that shares the directory may own a pid that we do not see. Its agent takes the connection. */
static bool nobody_listens(int directory, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused;
    int length = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", directory, name);

    refused = fd >= 0 && length < (int)sizeof(address.sun_path) &&
              connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static void sweep(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), probe;
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    struct stat st;

    if (directory == NULL || fstat(fd, &st) < 0 || st.st_uid != getuid()) {
        if (directory != NULL)
            closedir(directory);
        else if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        struct process_facts facts;
        unsigned long long start;
        long pid;

        if (!parse_socket_name(entry->d_name, &pid, &start))
            continue;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode) ||
            st.st_uid != getuid())
            continue;
        probe = procfs_facts((pid_t)pid, &facts);
        if ((probe == -ENOENT || (probe == 0 && facts.start_ticks != start)) &&
            nobody_listens(fd, entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    }
    closedir(directory);
}

void sweep_own_directories(void)
{
    struct process_facts self;
    char **directories;

    if (!own_pid_namespace() || procfs_facts(getpid(), &self) < 0)
        return;
    directories = endpoint_directories(&self);
    for (size_t i = 0; directories != NULL && directories[i] != NULL; i++)
        sweep(directories[i]);
    endpoint_free_directories(directories);
}
