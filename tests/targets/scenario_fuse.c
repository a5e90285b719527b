/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * S05: a read from a file system in user space. Every signal that reaches the reader, whatever its
 * handler does, becomes an INTERRUPT request, upon which network file systems give the read up. The smallest
 * such file system: a directory with one file, whose content comes when the scenario is released, served by
 * one thread over the kernel's own interface (linux/fuse.h).
 */
#include "tests/targets/target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NODE 2 /* 1 is the root */
#define CONTENT "done"
#define LENGTH (sizeof(CONTENT) - 1)

static char fuse_file[64];
static _Atomic bool fuse_go, fuse_end;
static _Atomic unsigned fuse_interrupts;
static _Atomic pid_t fuse_reader;

static void reply(int fd, uint64_t unique, int error, const void *body, size_t length)
{
    struct fuse_out_header header = {
        .len = (uint32_t)(sizeof(header) + length), .error = -error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)body, length}};

    t_must((int)writev(fd, parts, length ? 2 : 1));
}

static struct fuse_attr attributes(uint64_t node)
{
    return (struct fuse_attr){.ino = node,
                              .size = node == FILE_NODE ? LENGTH : 0,
                              .mode = node == FILE_NODE ? S_IFREG | 0444 : S_IFDIR | 0555,
                              .nlink = 1,
                              .blksize = 4096};
}

/* Answers one request; that of a read is kept, and answered when the scenario is released. */
static void serve_one(int fd, const struct fuse_in_header *request, uint64_t *ret_read)
{
    const struct fuse_init_in *init = (const void *)(request + 1);
    struct fuse_init_out hello = {
        .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
    struct fuse_entry_out entry = {.nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = 3600};
    struct fuse_attr_out attr = {.attr_valid = 3600};
    struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};

    switch (request->opcode) {
    case FUSE_INIT:
        hello.minor = init->minor < hello.minor ? init->minor : hello.minor;
        reply(fd, request->unique, 0, &hello, sizeof(hello));
        break;
    case FUSE_LOOKUP:
        entry.attr = attributes(FILE_NODE);
        reply(fd, request->unique, 0, &entry, sizeof(entry));
        break;
    case FUSE_GETATTR:
        attr.attr = attributes(request->nodeid);
        reply(fd, request->unique, 0, &attr, sizeof(attr));
        break;
    case FUSE_OPEN:
        reply(fd, request->unique, 0, &opened, sizeof(opened));
        break;
    case FUSE_READ:
        *ret_read = request->unique;
        break;
    case FUSE_INTERRUPT:
        atomic_fetch_add(&fuse_interrupts, 1);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        break; /* have no answer */
    case FUSE_RELEASE:
        reply(fd, request->unique, 0, NULL, 0);
        break;
    default:
        reply(fd, request->unique, ENOSYS, NULL, 0);
    }
}

static void *fuse_server(void *argument)
{
    static char request[FUSE_MIN_READ_BUFFER + 4096] __attribute__((aligned(8)));
    int fd = *(const int *)argument;
    uint64_t read_unique = 0;

    while (!atomic_load(&fuse_end)) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};

        if (t_must(poll(&ready, 1, 10)) == 1 && read(fd, request, sizeof(request)) > 0)
            serve_one(fd, (const void *)request, &read_unique);
        if (read_unique && atomic_load(&fuse_go)) {
            reply(fd, read_unique, 0, CONTENT, LENGTH);
            read_unique = 0;
        }
    }
    return argument;
}

T_FRAME long reads_fuse(void *argument);
T_FRAME long reads_fuse(void *argument)
{
    long n = read(*(const int *)argument, (char[16]){0}, 16);
    T_NO_TAIL_CALL();
    return n;
}

T_FRAME void *fuse_reader_thread(void *argument);
T_FRAME void *fuse_reader_thread(void *argument)
{
    int fd = t_must(open(fuse_file, O_RDONLY));

    t_publish(&fuse_reader);
    t_check(t_chain(3, reads_fuse, &fd) == LENGTH);
    close(fd);
    return argument;
}

static void mount_it(int fd)
{
    char directory[] = "/tmp/probe-fuse-XXXXXX", options[128];

    /* A namespace of its own: the mount ends with the process, however that ends. */
    t_must(unshare(CLONE_NEWNS));
    t_must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    t_check(mkdtemp(directory));
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    t_must(mount("probe-test", directory, "fuse", MS_NOSUID | MS_NODEV, options));
    snprintf(fuse_file, sizeof(fuse_file), "%s/file", directory);
}

static int run_fuse_read(void)
{
    int fd = t_must(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    pthread_t server, reader;

    mount_it(fd);
    server = t_thread(fuse_server, &fd, "server");
    reader = t_thread(fuse_reader_thread, NULL, "reader");
    t_await_blocked(t_await_tid(&fuse_reader), SYS_read);
    t_expect_chain(fuse_reader, "reads_fuse", 3, "t_chain fuse_reader_thread");
    t_ready();
    t_wait_release();
    atomic_store(&fuse_go, true);
    t_join(reader);
    atomic_store(&fuse_end, true);
    t_join(server);
    *strrchr(fuse_file, '/') = 0;
    t_must(umount2(fuse_file, MNT_DETACH));
    rmdir(fuse_file);
    if (fuse_interrupts)
        t_fail("the file system was told %u times that the read was interrupted", fuse_interrupts);
    return 0;
}

static const char *no_fuse(void)
{
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    pid_t child;
    int status = 1;

    if (fd < 0)
        return "needs /dev/fuse";
    close(fd);
    if ((child = fork()) == 0)
        _exit(unshare(CLONE_NEWNS) != 0);
    waitpid(child, &status, 0);
    return status ? "needs the right to mount" : NULL;
}

const struct t_scenario t_fuse_scenarios[] = {
    {"fuse_read", "S05", "a thread in a read from a file system in user space", no_fuse, run_fuse_read},
    {NULL, NULL, NULL, NULL, NULL},
};
