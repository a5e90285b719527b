/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See endpoint.h. Every path is opened relative to a directory descriptor that was checked before, so nothing
 * can be exchanged in between. The descriptors are in the probe thread's private table.
 * Zone: probe thread.
 */
#include "agent/endpoint.h"

#include <fcntl.h>
#include <linux/errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/process.h"
#include "agent/report/out.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/nolibc.h"

/* Picked at random: bounds the work that a crowded directory makes; `probectl ps` sweeps without a bound. */
#define MAX_SWEPT 64

#define BACKLOG 16
#define SUFFIX ".sock"
#define NAME_SIZE 64 /* two numbers of up to 20 digits */
#define ATTEMPTS 3   /* somebody swept our socket away before it listened */

/* Opens the socket directory, or -errno: -EPERM when it exists and is not safely ours. */
static int open_directory(const char *path)
{
    struct stat status;
    long fd;

    sys_mkdirat(AT_FDCWD, path, 0700);
    fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return (int)fd;
    if (sys_fstat((int)fd, &status) < 0 || status.st_uid != sys_geteuid() ||
        (status.st_mode & (S_IWGRP | S_IWOTH))) {
        sys_close((int)fd);
        return -EPERM;
    }
    return (int)fd;
}

/* A socket address inside the open directory, whatever the length of the directory's path. */
static unsigned address_in(int directory, const char *name, struct sockaddr_un *ret_address)
{
    struct out path = {.buffer = ret_address->sun_path, .size = sizeof ret_address->sun_path - 1};

    __builtin_memset(ret_address, 0, sizeof *ret_address);
    ret_address->sun_family = AF_UNIX;
    out_text(&path, "/proc/thread-self/fd/");
    out_unsigned(&path, (uint64_t)directory);
    out_char(&path, '/');
    out_text(&path, name);
    return sizeof *ret_address;
}

/*
 * The owner's pid may belong to another pid namespace that shares the directory, so a pid that is not there
 * proves nothing. Only a socket that nobody listens on refuses a connection.
 */
static bool is_dead_socket(int directory, const char *name)
{
    struct sockaddr_un address;
    unsigned size = address_in(directory, name, &address);
    long fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    long r;

    if (fd < 0)
        return false;
    r = sys_connect((int)fd, &address, size);
    sys_close((int)fd);
    return r == -ECONNREFUSED;
}

/*
 * "<pid>-<starttime>.sock" of a process that is not there any more, or that name with a dot before it: a
 * socket that its owner had not got ready. Nobody listens there yet, so it is dead for us even while its
 * owner in another pid namespace is at it; that owner tries again.
 */
static bool is_left_over(int directory, const char *name)
{
    const char *cursor = name[0] == '.' ? name + 1 : name;
    uint64_t pid, start, start_now;

    if (!text_take_decimal(&cursor, &pid) || *cursor++ != '-' || !text_take_decimal(&cursor, &start) ||
        !text_equal(cursor, SUFFIX) || pid > INT32_MAX)
        return false;
    if (process_start_ticks((int32_t)pid, &start_now) == 0 && start_now == start)
        return false;
    return is_dead_socket(directory, name);
}

static void sweep(int directory)
{
    _Alignas(struct sys_dirent) char buffer[2048];
    unsigned looked_at = 0;
    long n;

    while (looked_at < MAX_SWEPT && (n = sys_getdents(directory, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n && looked_at < MAX_SWEPT; looked_at++) {
            const struct sys_dirent *entry = (const void *)(buffer + at);

            if (is_left_over(directory, entry->name))
                sys_unlinkat(directory, entry->name, 0);
            at += entry->length;
        }
}

/*
 * Binds the name, whatever lies there: only the program that this one was before exec
 * has the same pid and start.
 */
static long bind_anew(int fd, int directory, const char *name)
{
    struct sockaddr_un address;
    unsigned size = address_in(directory, name, &address);
    long r = sys_bind(fd, &address, size);

    if (r != -EADDRINUSE)
        return r;
    sys_unlinkat(directory, name, 0);
    return sys_bind(fd, &address, size);
}

/*
 * A socket that is bound and does not listen refuses connections: a client would take it for dead, and
 * somebody sweeping for left over. So it gets its name when it listens, which also replaces the one of a
 * program before exec.
 */
static long listen_as(int fd, int directory, const char *name)
{
    char hidden[NAME_SIZE + 1];
    struct out out = {.buffer = hidden, .size = sizeof hidden - 1};
    long r;

    out_char(&out, '.');
    out_text(&out, name);
    hidden[out.used] = 0;
    r = bind_anew(fd, directory, hidden);
    if (r == 0)
        r = sys_listen(fd, BACKLOG);
    if (r == 0)
        r = sys_renameat(directory, hidden, name);
    if (r < 0)
        sys_unlinkat(directory, hidden, 0);
    return r;
}

static int open_socket(int directory, const char *name)
{
    long fd, r = -ENOENT;

    for (unsigned i = 0; r == -ENOENT && i < ATTEMPTS; i++) {
        fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return (int)fd;
        /* bind(2) creates the file with the mode of the socket's own inode (net/unix/af_unix.c,
         * unix_bind_bsd). */
        r = sys_fchmod((int)fd, 0600);
        if (r == 0)
            r = listen_as((int)fd, directory, name);
        if (r == 0)
            return (int)fd;
        sys_close((int)fd);
    }
    return (int)r;
}

static int open_in(const char *path)
{
    char name[NAME_SIZE];
    struct out out = {.buffer = name, .size = sizeof name - 1};
    uint64_t start_ticks;
    int directory, fd, r;

    r = process_start_ticks(0, &start_ticks);
    if (r < 0)
        return r;
    out_unsigned(&out, (uint64_t)sys_getpid());
    out_char(&out, '-');
    out_unsigned(&out, start_ticks);
    out_text(&out, SUFFIX);
    name[out.used] = 0;

    directory = open_directory(path);
    if (directory < 0)
        return directory;
    sweep(directory);
    fd = open_socket(directory, name);
    sys_close(directory);
    return fd;
}

bool endpoint_directory(const struct config *config, unsigned n, char ret_path[ENDPOINT_PATH])
{
    struct out out = {.buffer = ret_path, .size = ENDPOINT_PATH - 1};
    unsigned set = config->directory[0] != 0;

    if (n < set) {
        out_text(&out, config->directory);
    } else if (n == set && !config->directory_explicit) {
        out_text(&out, "/tmp/probe-");
        out_unsigned(&out, sys_geteuid());
    } else {
        return false;
    }
    ret_path[out.used] = 0;
    return true;
}

int endpoint_open(const struct config *config)
{
    char path[ENDPOINT_PATH];
    int fd = -ENOENT;

    for (unsigned i = 0; fd < 0 && endpoint_directory(config, i, path); i++)
        fd = open_in(path);
    return fd;
}

bool endpoint_peer_allowed(int fd, uint32_t uid)
{
    struct ucred peer;
    unsigned size = sizeof peer;

    return sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && size == sizeof peer &&
           (peer.uid == 0 || peer.uid == uid);
}
