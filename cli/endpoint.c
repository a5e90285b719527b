/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finding and connecting to an agent; see endpoint.h.
 *
 * The path comes from the target, so it is resolved inside the target's root, its last part is never followed
 * as a link, the directory must belong to the target's user or to root, and whoever answers must be the
 * target itself. Zone: client.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli/endpoint.h"

#define YOUNG_NANOS UINT64_C(1000000000)
#define BUSY_NANOS UINT64_C(1000000000) /* how long a full queue of connections is tried again */
#define RETRY_NANOS 20000000L
#define N_DIRECTORIES 8

static bool own_uid(const struct process_facts *facts, uid_t uid)
{
    int i;

    for (i = 0; i < 4; i++)
        if (facts->uid[i] == uid)
            return true;
    return false;
}

static bool target_uid(const struct process_facts *facts, uid_t uid)
{
    return uid == 0 || own_uid(facts, uid);
}

static void add_directory(char **list, size_t *n, const char *prefix, const char *suffix)
{
    char *text;

    if (prefix == NULL || prefix[0] != '/' || *n + 1 >= N_DIRECTORIES ||
        asprintf(&text, "%s%s", prefix, suffix) < 0)
        return;
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i], text) == 0) {
            free(text);
            return;
        }
    list[(*n)++] = text;
}

char **endpoint_directories(const struct process_facts *facts)
{
    char **list = calloc(N_DIRECTORIES, sizeof(*list));
    char path[64], text[64], *block = NULL;
    ssize_t size;
    size_t n = 0;

    if (list == NULL)
        return NULL;
    snprintf(path, sizeof(path), "%d/environ", facts->pid);
    size = procfs_read(path, &block);
    if (size > 0) {
        add_directory(list, &n, procfs_environ(block, (size_t)size, "PROBE_DIR"), "");
        add_directory(list, &n, procfs_environ(block, (size_t)size, "XDG_RUNTIME_DIR"), "/probe");
    }
    free(block);
    /* The environment may be unreadable, or overwritten by a program that sets its title there. */
    add_directory(list, &n, getenv("PROBE_DIR"), "");
    add_directory(list, &n, getenv("XDG_RUNTIME_DIR"), "/probe");
    /*
     * Equal ones are listed once. Root's last: a program that root started and that gave up being root still
     * listens where it began; who answers there is checked all the same.
     */
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "/tmp/probe-%u", i < 2 ? facts->uid[i] : 0);
        add_directory(list, &n, text, "");
    }
    return list;
}

void endpoint_free_directories(char **directories)
{
    for (size_t i = 0; directories != NULL && directories[i] != NULL; i++)
        free(directories[i]);
    free(directories);
}

/* Absolute links in the path stay inside root, as they do for the target. */
static int open_in_root(int root, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS) { /* before Linux 5.6: right unless a link in the path is absolute */
        while (*path == '/')
            path++;
        fd = openat(root, *path ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return fd < 0 ? -errno : (int)fd;
}

int endpoint_open_directory(int root, const char *directory)
{
    char *copy = strdup(directory), *slash;
    size_t length;
    int parent, fd;

    if (copy == NULL)
        return -ENOMEM;
    for (length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--)
        copy[length - 1] = '\0';
    slash = strrchr(copy, '/');
    *slash = '\0';
    parent = open_in_root(root, slash == copy ? "/" : copy);
    if (parent < 0) {
        free(copy);
        return parent;
    }
    fd = openat(parent, slash[1] ? slash + 1 : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        fd = -errno;
    close(parent);
    free(copy);
    return fd;
}

static void fail(struct endpoint_failure *failure, const char *cause, const char *next_step)
{
    snprintf(failure->cause, sizeof(failure->cause), "%s", cause);
    snprintf(failure->next_step, sizeof(failure->next_step), "%s", next_step);
}

/* Is it the target that listens? A pid of 0 means that its pid namespace is not visible from ours. */
static bool peer_is_target(int fd, const struct process_facts *facts)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return false;
    return (peer.pid == 0 || peer.pid == facts->pid) && target_uid(facts, peer.uid);
}

static int connect_in(int directory, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    int fd;

    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -ENOTSOCK;
    /* A path in sun_path holds 108 bytes; this one is always short enough. */
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%.60s", directory, name);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int r = -errno;

        close(fd);
        return r;
    }
    return fd;
}

/* The name of a socket: <pid in its own namespace>-<starttime>.sock */
static void socket_name(const struct process_facts *facts, char *name, size_t size)
{
    snprintf(name, size, "%d-%llu.sock", facts->ns_pid, (unsigned long long)facts->start_ticks);
}

/* One look into one directory. ENDPOINT_NO_AGENT without a cause: nothing there, look on. */
static enum endpoint_result try_directory(int root, const char *path, const struct process_facts *facts,
                                          int *ret_fd, struct endpoint_failure *failure)
{
    int fd, directory = endpoint_open_directory(root, path);
    char name[64], cause[512];
    struct stat st;

    if (directory < 0) {
        if (directory == -ELOOP || directory == -ENOTDIR) {
            snprintf(cause, sizeof(cause), "%.300s is not a directory (a symbolic link is not followed)",
                     path);
            fail(failure, cause, "remove it, or start the program with another PROBE_DIR");
        }
        return ENDPOINT_NO_AGENT;
    }
    if (fstat(directory, &st) < 0 || !target_uid(facts, st.st_uid)) {
        snprintf(cause, sizeof(cause),
                 "%.300s belongs to user %u, who is neither the program's user nor root", path, st.st_uid);
        fail(failure, cause, "start the program with a PROBE_DIR of its own");
        close(directory);
        return ENDPOINT_NO_AGENT;
    }
    socket_name(facts, name, sizeof(name));
    fd = connect_in(directory, name);
    close(directory);
    if (fd == -EAGAIN) {
        fail(failure, "the agent does not take the connection", "look at what its process is doing");
        return ENDPOINT_SILENT;
    }
    /* Root's is tried for everybody's programs: closed, it says nothing about what is in it. */
    if ((fd == -EACCES || fd == -EPERM) && own_uid(facts, st.st_uid)) {
        fail(failure, "the agent's socket may not be opened",
             "run probectl as the program's user, or as root");
        return ENDPOINT_NOT_PERMITTED;
    }
    if (fd == -ENOTSOCK) {
        snprintf(cause, sizeof(cause), "%.300s/%s is not a socket", path, name);
        fail(failure, cause, "remove it, or start the program with another PROBE_DIR");
    }
    if (fd == -ENOENT && (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        snprintf(cause, sizeof(cause), "others may write to %.300s, so an agent does not use it", path);
        fail(failure, cause, "chmod go-w it, and start the program again");
    }
    if (fd < 0)
        return ENDPOINT_NO_AGENT; /* absent, or left behind by a process that is gone */
    if (!peer_is_target(fd, facts)) {
        close(fd);
        snprintf(cause, sizeof(cause), "the socket in %.300s is served by another process", path);
        fail(failure, cause,
             "do not trust what answers there; start the program with a PROBE_DIR of its own");
        return ENDPOINT_NOT_PERMITTED; /* waiting longer would not make it another */
    }
    *ret_fd = fd;
    return ENDPOINT_OK;
}

static int open_root(const struct process_facts *facts)
{
    pid_t agent = procfs_agent_thread(facts->pid, NULL);
    char path[64];
    int root;

    /* The agent's own: it does not go along when the program changes its root. */
    snprintf(path, sizeof(path), "/proc/%d/task/%d/root", facts->pid, agent > 0 ? agent : facts->pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        snprintf(path, sizeof(path), "/proc/%d/root", facts->pid);
        root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    /* Refused for another user's process and for one that is not dumpable; the directory may still be ours
     * too. */
    return root >= 0 ? root : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Does somebody listen under the target's name? The table shows the path by which the agent bound it, and
 * keeps that when the file is removed; a socket left by a program before exec is not in it. The columns are
 * address, reference count, protocol, flags (__SO_ACCEPTCON of linux/net.h: 0x10000), type, state, inode,
 * path (net/unix/af_unix.c).
 */
bool endpoint_listens(const struct process_facts *facts)
{
    char path[64], name[64], wanted[80], *table;
    bool found = false;
    ssize_t size;

    socket_name(facts, name, sizeof(name));
    snprintf(wanted, sizeof(wanted), "%s\n", name);
    snprintf(path, sizeof(path), "%d/net/unix", facts->pid);
    size = procfs_read(path, &table);
    if (size < 0)
        return false;
    for (const char *at = table; !found && (at = strstr(at, wanted)) != NULL; at++) {
        const char *line = at;
        unsigned flags = 0;

        while (line > table && line[-1] != '\n')
            line--;
        if (at == line || (at[-1] != '/' && strncmp(at - 2, "/.", 2) != 0))
            continue;
        found = sscanf(line, "%*s %*s %*s %x", &flags) == 1 && flags & 0x10000;
    }
    free(table);
    return found;
}

static enum endpoint_result try_all(const struct process_facts *facts, char **directories, int *ret_fd,
                                    struct endpoint_failure *failure)
{
    enum endpoint_result result = ENDPOINT_NO_AGENT, one;
    int root = open_root(facts);

    for (size_t i = 0; directories != NULL && directories[i] != NULL; i++) {
        one = try_directory(root, directories[i], facts, ret_fd, failure);
        if (one == ENDPOINT_OK) {
            result = one;
            break;
        }
        if (one != ENDPOINT_NO_AGENT)
            result = one;
    }
    close(root);
    return result;
}

static bool file_contains(pid_t pid, const char *file, const char *word)
{
    char path[64], *text;
    bool found;

    snprintf(path, sizeof(path), "%d/%s", pid, file);
    if (procfs_read(path, &text) < 0)
        return false;
    found = strstr(text, word) != NULL;
    free(text);
    return found;
}

/* What about the program's file keeps every preload out? NULL: nothing seen. */
static const char *unfit_program(const struct process_facts *facts)
{
    char path[64];
    unsigned char bytes[4096];
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)bytes;
    struct stat st;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/exe", facts->pid);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return NULL;
    n = fstat(fd, &st) == 0 ? pread(fd, bytes, sizeof(bytes), 0) : -1;
    close(fd);
    if (n < (ssize_t)sizeof(*header) || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (st.st_mode & (S_ISUID | S_ISGID))
        return "the program is set-user-ID or set-group-ID: the loader ignores LD_PRELOAD paths there";
    if (bytes[EI_CLASS] == ELFCLASS32)
        return "it is a 32-bit program, and the agent is 64-bit only";
    if (header->e_phoff > (size_t)n || header->e_phentsize != sizeof(Elf64_Phdr) ||
        header->e_phnum > ((size_t)n - header->e_phoff) / sizeof(Elf64_Phdr))
        return NULL;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;

        memcpy(&segment, bytes + header->e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_INTERP)
            return NULL;
    }
    return "it is statically linked: there is no loader that could preload the agent";
}

/* False: nothing is wrong with the directory that the program was told to use. */
static bool explain_directory(const struct process_facts *facts, const char *path,
                              struct endpoint_failure *failure)
{
    char cause[512];
    int root, fd;

    if (path[0] != '/')
        return false; /* the agent does not use it, and says so in its reports */
    root = open_root(facts);
    fd = endpoint_open_directory(root, path);
    close(root);
    if (fd >= 0) {
        close(fd);
        return false;
    }
    snprintf(cause, sizeof(cause), "libprobe.so is loaded, but its PROBE_DIR %.300s cannot be used: %s", path,
             strerror(-fd));
    fail(failure, cause,
         "make that directory (mode 0700, owned by the program's user), and start the program again");
    return true;
}

/* The agent is loaded but does not listen: what in the environment says so? */
static void explain_inert(const struct process_facts *facts, struct endpoint_failure *failure)
{
    char path[64], *block = NULL;
    ssize_t size;
    const char *directory, *cause = "libprobe.so is loaded, but its agent does not listen";

    if (endpoint_listens(facts)) {
        fail(failure, "its agent listens, but the socket's file is gone",
             "something removed it (a cleaner of /tmp?); start the program with a PROBE_DIR that is left "
             "alone");
        return;
    }
    snprintf(path, sizeof(path), "%d/environ", facts->pid);
    size = procfs_read(path, &block);
    directory = size > 0 ? procfs_environ(block, (size_t)size, "PROBE_DIR") : NULL;
    if (directory != NULL && explain_directory(facts, directory, failure)) {
        free(block);
        return;
    }
    if (size > 0 && procfs_environ(block, (size_t)size, "PROBE_DISABLE"))
        cause = "libprobe.so is loaded, but PROBE_DISABLE is set";
    else if (size > 0 && procfs_environ(block, (size_t)size, "PROBE_MATCH"))
        cause = "libprobe.so is loaded, but PROBE_MATCH may not match this program";
    else if (size > 0 && procfs_environ(block, (size_t)size, "PROBE_START"))
        cause = "libprobe.so is loaded, but PROBE_START=lazy leaves it without a thread";
    free(block);
    fail(failure, cause, "check the PROBE_ variables in the program's environment, and start it again");
}

static void explain_absent(const struct process_facts *facts, struct endpoint_failure *failure)
{
    char path[64], *maps;
    const char *unfit = unfit_program(facts);
    ssize_t size;

    if (failure->cause[0] != '\0')
        return; /* something was found, and refused */
    if (file_contains(facts->pid, "maps", "libprobe.so")) {
        explain_inert(facts, failure);
        return;
    }
    snprintf(path, sizeof(path), "%d/maps", facts->pid);
    size = procfs_read(path, &maps);
    if (size >= 0)
        free(maps);
    if (size == -EACCES || size == -EPERM)
        fail(failure, "no agent was found, and its memory map may not be read to see whether one is loaded",
             "run probectl as the program's user, or as root");
    else
        fail(failure, unfit ? unfit : "libprobe.so is not loaded in this process",
             unfit
                 ? "dump a dynamically linked 64-bit program that does not change its user"
                 : "start the program with LD_PRELOAD=/path/to/libprobe.so; a running one cannot be changed");
}

/*
 * An agent makes its socket a tenth of a second after the program begins. Exec leaves a process as old as it
 * was: then the thread is there before the socket is.
 */
static bool is_worth_waiting(enum endpoint_result result, const struct process_facts *first,
                             const struct process_facts *now)
{
    uint64_t waited = now->up_nanos - first->up_nanos;

    if (result == ENDPOINT_SILENT)
        return waited < BUSY_NANOS;
    return result == ENDPOINT_NO_AGENT &&
           (now->up_nanos < YOUNG_NANOS || (waited < YOUNG_NANOS && procfs_agent_thread(now->pid, NULL) > 0));
}

enum endpoint_result endpoint_connect(const struct process_facts *facts, int *ret_fd,
                                      struct endpoint_failure *failure)
{
    const struct timespec pause = {.tv_nsec = RETRY_NANOS};
    struct process_facts now = *facts;
    enum endpoint_result result;
    char **directories;

    memset(failure, 0, sizeof(*failure));
    for (;;) {
        /* Again each time: between fork and exec the environment is the parent's. */
        directories = endpoint_directories(&now);
        result = try_all(&now, directories, ret_fd, failure);
        endpoint_free_directories(directories);
        if (!is_worth_waiting(result, facts, &now))
            break;
        nanosleep(&pause, NULL);
        memset(failure, 0, sizeof(*failure));
        if (procfs_facts(facts->pid, &now) < 0 || now.start_ticks != facts->start_ticks) {
            fail(failure, "the process ended", "nothing is left to dump");
            return ENDPOINT_NO_PROCESS;
        }
    }
    if (result == ENDPOINT_NO_AGENT && now.state == 'Z' && now.n_threads <= 1) {
        fail(failure, "the process has ended and waits for its parent to notice", "nothing is left to dump");
        return ENDPOINT_NO_PROCESS;
    }
    if (result == ENDPOINT_NO_AGENT)
        explain_absent(&now, failure);
    return result;
}
