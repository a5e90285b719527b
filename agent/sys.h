/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The system calls of the agent, raw: an interposed open() or memcpy() may belong to a sanitizer, a fake root
 * or a proxy, and errno is the program's. Every function returns the kernel's result, -errno on failure.
 *
 * Zone: probe thread and load time; not the handler. sys.c is the only file that makes system calls, so a
 * test can stand between the agent and the kernel at one place (sys_hook in test builds).
 */
#ifndef AGENT_SYS_H
#define AGENT_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;
struct pollfd;
struct iovec;
struct msghdr;

#ifdef PROBE_TEST
/* Test builds only: answers instead of the kernel when it returns true. */
extern bool (*sys_hook)(long number, const long args[6], long *ret_result);
#endif

/* Files */
long sys_openat(int directory, const char *path, int flags, unsigned mode);
/*
 * The file at an absolute path in the tree that begins at root; no link leads out of it. AT_FDCWD: our own
 * tree.
 */
long sys_open_below(int root, const char *path, int flags);
long sys_close(int fd);
long sys_read(int fd, void *to, size_t size);
long sys_pread(int fd, void *to, size_t size, uint64_t offset);
struct sys_dirent { /* struct linux_dirent64, include/linux/dirent.h */
    uint64_t inode;
    int64_t offset;
    uint16_t length; /* of this entry, to the next */
    uint8_t type;
    char name[];
};
long sys_getdents(int fd, void *to, size_t size);
long sys_rewind(int fd); /* a directory: the next sys_getdents() starts over */
long sys_readlinkat(int directory, const char *path, char *to, size_t size);
long sys_fstat(int fd, void *ret_stat /* struct stat */);
long sys_fstatat(int directory, const char *path, void *ret_stat, int flags);
long sys_mkdirat(int directory, const char *path, unsigned mode);
long sys_renameat(int directory, const char *from, const char *to); /* both in the one directory */
long sys_unlinkat(int directory, const char *path, int flags);
long sys_fchmod(int fd, unsigned mode);
long sys_close_range(unsigned first, unsigned last, unsigned flags);

/* Sockets and waiting */
long sys_socket(int domain, int type, int protocol);
long sys_bind(int fd, const void *address, unsigned size);
long sys_connect(int fd, const void *address, unsigned size);
long sys_listen(int fd, int backlog);
long sys_accept(int fd, int flags);
long sys_getsockopt(int fd, int level, int name, void *to, unsigned *size);
long sys_send(int fd, const void *from, size_t size, int flags);
long sys_recv(int fd, void *to, size_t size, int flags);
/* timeout_nanos < 0: for ever */
long sys_poll(struct pollfd *fds, unsigned n, int64_t timeout_nanos);
void sys_sleep(uint64_t nanos);

/* Memory */
long sys_mmap(size_t size, int protection, int flags); /* anonymous, private */
long sys_mprotect(void *address, size_t size, int protection);
long sys_munmap(void *address, size_t size);
long sys_madvise(void *address, size_t size, int advice);
long sys_mincore(void *address, size_t size, uint8_t *ret_resident);
long sys_process_vm_readv(int pid, const struct iovec *local, unsigned n_local, const struct iovec *remote,
                          unsigned n_remote);

/* The process's soft limits; UINT64_MAX: none, or not known */
uint64_t sys_address_space_limit(void); /* bytes */
uint64_t sys_open_files_limit(void);

/* Credentials of the calling thread only: the kernel knows no others. The structures are
 * linux/capability.h's. */
long sys_setgroups(size_t n, const uint32_t *groups);
long sys_setresuid(uint32_t real, uint32_t effective, uint32_t saved);
long sys_setresgid(uint32_t real, uint32_t effective, uint32_t saved);
long sys_capget(void *header, void *data);
long sys_capset(void *header, const void *data);
long sys_get_dumpable(void);
long sys_set_no_new_privileges(void);
long sys_keep_capabilities(bool keep); /* when the user ids change */
long sys_get_seccomp(void);            /* 0: no filter, as far as a filter lets us know */
long sys_set_dumpable(unsigned long dumpable);

/* Landlock, of the calling thread only */
struct sys_landlock_ruleset { /* struct landlock_ruleset_attr: what is refused unless a rule allows it */
    uint64_t fs, net, scoped;
};
long sys_landlock_version(void);
long sys_landlock_create_ruleset(const struct sys_landlock_ruleset *rights, size_t size);
long sys_landlock_add_path(int ruleset, int fd, uint64_t fs); /* and, if a directory, everything below */
long sys_landlock_restrict_self(int ruleset, unsigned flags);

/* Identity, time */
int32_t sys_getpid(void);
int32_t sys_gettid(void);
uint32_t sys_getuid(void);
uint32_t sys_geteuid(void);
uint64_t
sys_thread_cpu_nanos(int32_t tid); /* of a thread of this process, exact to now; 0 when it has ended */
uint64_t sys_monotonic_nanos(void);
uint64_t sys_realtime_nanos(void);
uint64_t sys_boottime_nanos(void);

/* Threads and signals; masks and actions have the kernel's layout, not libc's */
struct sys_sigaction {
    void *handler;
    uint64_t flags;
    void *restorer;
    uint64_t mask;
};
long sys_clone(unsigned long flags, void *stack_top, void (*entry)(void *), void *argument);
__attribute__((noreturn)) void sys_exit_thread(int status);
long sys_sigprocmask(int how, const uint64_t *set, uint64_t *ret_old);
long sys_sigaction(int signal, const struct sys_sigaction *action, struct sys_sigaction *ret_old);
long sys_tgsigqueueinfo(int32_t tgid, int32_t tid, int signal, const void *siginfo);
/* Sends a signal with this value to a thread of this process once it has run for nanos; to be deleted. */
long sys_cpu_timer(int32_t tid, uint64_t nanos, int signal, uint64_t value, int32_t *ret_timer);
long sys_timer_delete(int32_t timer);
long sys_pidfd_open(int32_t tid, unsigned flags);
long sys_get_robust_list(int32_t tid, uint64_t *ret_head, size_t *ret_size);
long sys_set_name(const char *name);

#endif
