/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of system calls; see sys.h.
 * Zone: probe thread, load time.
 */
#include "agent/sys.h"

#include <asm/unistd.h>
#include <asm/errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/time.h>

#include "agent/backends/x86_64/syscall.h"
#include "agent/report/units.h"

#define SIGEV_THREAD_ID 4 /* include/uapi/asm-generic/siginfo.h, whose siginfo_t is not wanted here */
#define SIGNAL_SET_SIZE 8 /* bytes of the kernel's sigset_t: 64 signals */

#ifdef PROBE_TEST
bool (*sys_hook)(long number, const long args[6], long *ret_result);
#endif

static long call(long number, long a, long b, long c, long d, long e, long f)
{
#ifdef PROBE_TEST
    long result;

    if (sys_hook && sys_hook(number, (const long[6]){a, b, c, d, e, f}, &result))
        return result;
#endif
    return raw_syscall(number, a, b, c, d, e, f);
}

#define P(pointer) ((long)(uintptr_t)(pointer))

long sys_openat(int directory, const char *path, int flags, unsigned mode)
{
    return call(__NR_openat, directory, P(path), flags, mode, 0, 0);
}

long sys_open_below(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    long fd;

    if (root == AT_FDCWD)
        return sys_openat(AT_FDCWD, path, flags, 0);
    fd = call(__NR_openat2, root, P(path), P(&how), sizeof(how), 0, 0);
    if (fd != -ENOSYS && fd != -EPERM)
        return fd;
    /* Before Linux 5.6, or in a sandbox that does not know the call. */
    while (*path == '/')
        path++;
    return sys_openat(root, path, flags, 0);
}

long sys_close(int fd)
{
    return call(__NR_close, fd, 0, 0, 0, 0, 0);
}

long sys_read(int fd, void *to, size_t size)
{
    return call(__NR_read, fd, P(to), (long)size, 0, 0, 0);
}

long sys_pread(int fd, void *to, size_t size, uint64_t offset)
{
    return call(__NR_pread64, fd, P(to), (long)size, (long)offset, 0, 0);
}

long sys_getdents(int fd, void *to, size_t size)
{
    return call(__NR_getdents64, fd, P(to), (long)size, 0, 0, 0);
}

long sys_rewind(int fd)
{
    return call(__NR_lseek, fd, 0, 0 /* SEEK_SET */, 0, 0, 0);
}

long sys_readlinkat(int directory, const char *path, char *to, size_t size)
{
    return call(__NR_readlinkat, directory, P(path), P(to), (long)size, 0, 0);
}

long sys_fstat(int fd, void *ret_stat)
{
    return call(__NR_fstat, fd, P(ret_stat), 0, 0, 0, 0);
}

long sys_fstatat(int directory, const char *path, void *ret_stat, int flags)
{
    return call(__NR_newfstatat, directory, P(path), P(ret_stat), flags, 0, 0);
}

long sys_mkdirat(int directory, const char *path, unsigned mode)
{
    return call(__NR_mkdirat, directory, P(path), mode, 0, 0, 0);
}

long sys_renameat(int directory, const char *from, const char *to)
{
    return call(__NR_renameat, directory, P(from), directory, P(to), 0, 0);
}

long sys_unlinkat(int directory, const char *path, int flags)
{
    return call(__NR_unlinkat, directory, P(path), flags, 0, 0, 0);
}

long sys_fchmod(int fd, unsigned mode)
{
    return call(__NR_fchmod, fd, mode, 0, 0, 0, 0);
}

long sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return call(__NR_close_range, first, last, flags, 0, 0, 0);
}

long sys_socket(int domain, int type, int protocol)
{
    return call(__NR_socket, domain, type, protocol, 0, 0, 0);
}

long sys_bind(int fd, const void *address, unsigned size)
{
    return call(__NR_bind, fd, P(address), size, 0, 0, 0);
}

long sys_connect(int fd, const void *address, unsigned size)
{
    return call(__NR_connect, fd, P(address), size, 0, 0, 0);
}

long sys_listen(int fd, int backlog)
{
    return call(__NR_listen, fd, backlog, 0, 0, 0, 0);
}

long sys_accept(int fd, int flags)
{
    return call(__NR_accept4, fd, 0, 0, flags, 0, 0);
}

long sys_getsockopt(int fd, int level, int name, void *to, unsigned *size)
{
    return call(__NR_getsockopt, fd, level, name, P(to), P(size), 0);
}

long sys_send(int fd, const void *from, size_t size, int flags)
{
    return call(__NR_sendto, fd, P(from), (long)size, flags, 0, 0);
}

long sys_recv(int fd, void *to, size_t size, int flags)
{
    return call(__NR_recvfrom, fd, P(to), (long)size, flags, 0, 0);
}

static struct __kernel_timespec to_timespec(uint64_t nanos)
{
    return (struct __kernel_timespec){.tv_sec = (long)(nanos / NANOS_PER_SECOND),
                                      .tv_nsec = (long)(nanos % NANOS_PER_SECOND)};
}

long sys_poll(struct pollfd *fds, unsigned n, int64_t timeout_nanos)
{
    struct __kernel_timespec timeout = to_timespec(timeout_nanos < 0 ? 0 : (uint64_t)timeout_nanos);

    return call(__NR_ppoll, P(fds), n, timeout_nanos < 0 ? 0 : P(&timeout), 0, SIGNAL_SET_SIZE, 0);
}

void sys_sleep(uint64_t nanos)
{
    struct __kernel_timespec left = to_timespec(nanos);

    /*
     * All signals are blocked, but SIGSTOP and SIGCONT still interrupt the call; the
     * kernel restarts it by itself.
     */
    call(__NR_nanosleep, P(&left), P(&left), 0, 0, 0, 0);
}

long sys_mmap(size_t size, int protection, int flags)
{
    return call(__NR_mmap, 0, (long)size, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

long sys_mprotect(void *address, size_t size, int protection)
{
    return call(__NR_mprotect, P(address), (long)size, protection, 0, 0, 0);
}

long sys_munmap(void *address, size_t size)
{
    return call(__NR_munmap, P(address), (long)size, 0, 0, 0, 0);
}

long sys_madvise(void *address, size_t size, int advice)
{
    return call(__NR_madvise, P(address), (long)size, advice, 0, 0, 0);
}

long sys_mincore(void *address, size_t size, uint8_t *ret_resident)
{
    return call(__NR_mincore, P(address), (long)size, P(ret_resident), 0, 0, 0);
}

long sys_process_vm_readv(int pid, const struct iovec *local, unsigned n_local, const struct iovec *remote,
                          unsigned n_remote)
{
    return call(__NR_process_vm_readv, pid, P(local), n_local, P(remote), n_remote, 0);
}

static uint64_t soft_limit(unsigned resource)
{
    struct {
        uint64_t soft, hard; /* struct rlimit64, linux/resource.h */
    } limit;

    return call(__NR_prlimit64, 0, resource, 0, P(&limit), 0, 0) == 0 ? limit.soft : UINT64_MAX;
}

uint64_t sys_address_space_limit(void)
{
    return soft_limit(RLIMIT_AS);
}

uint64_t sys_open_files_limit(void)
{
    return soft_limit(RLIMIT_NOFILE);
}

long sys_setgroups(size_t n, const uint32_t *groups)
{
    return call(__NR_setgroups, (long)n, P(groups), 0, 0, 0, 0);
}

long sys_setresuid(uint32_t real, uint32_t effective, uint32_t saved)
{
    return call(__NR_setresuid, real, effective, saved, 0, 0, 0);
}

long sys_setresgid(uint32_t real, uint32_t effective, uint32_t saved)
{
    return call(__NR_setresgid, real, effective, saved, 0, 0, 0);
}

long sys_capget(void *header, void *data)
{
    return call(__NR_capget, P(header), P(data), 0, 0, 0, 0);
}

long sys_capset(void *header, const void *data)
{
    return call(__NR_capset, P(header), P(data), 0, 0, 0, 0);
}

long sys_get_dumpable(void)
{
    return call(__NR_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0, 0);
}

long sys_get_seccomp(void)
{
    long r = call(__NR_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0);

    return r == -EINVAL ? 0 : r; /* the kernel, or what plays it, has no filters */
}

long sys_set_no_new_privileges(void)
{
    return call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
}

long sys_keep_capabilities(bool keep)
{
    return call(__NR_prctl, PR_SET_KEEPCAPS, keep, 0, 0, 0, 0);
}

long sys_landlock_version(void)
{
    return call(__NR_landlock_create_ruleset, 0, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */, 0, 0, 0);
}

long sys_landlock_create_ruleset(const struct sys_landlock_ruleset *rights, size_t size)
{
    return call(__NR_landlock_create_ruleset, P(rights), (long)size, 0, 0, 0, 0);
}

long sys_landlock_add_path(int ruleset, int fd, uint64_t fs)
{
    struct __attribute__((packed)) { /* struct landlock_path_beneath_attr */
        uint64_t allowed;
        int32_t parent;
    } rule = {fs, fd};

    return call(__NR_landlock_add_rule, ruleset, 1 /* LANDLOCK_RULE_PATH_BENEATH */, P(&rule), 0, 0, 0);
}

long sys_landlock_restrict_self(int ruleset, unsigned flags)
{
    return call(__NR_landlock_restrict_self, ruleset, flags, 0, 0, 0, 0);
}

long sys_set_dumpable(unsigned long dumpable)
{
    return call(__NR_prctl, PR_SET_DUMPABLE, (long)dumpable, 0, 0, 0, 0);
}

int32_t sys_getpid(void)
{
    return (int32_t)call(__NR_getpid, 0, 0, 0, 0, 0, 0);
}

int32_t sys_gettid(void)
{
    return (int32_t)call(__NR_gettid, 0, 0, 0, 0, 0, 0);
}

uint32_t sys_getuid(void)
{
    return (uint32_t)call(__NR_getuid, 0, 0, 0, 0, 0, 0);
}

uint32_t sys_geteuid(void)
{
    return (uint32_t)call(__NR_geteuid, 0, 0, 0, 0, 0, 0);
}

static uint64_t clock_nanos(int clock)
{
    struct __kernel_timespec now = {0};

    call(__NR_clock_gettime, clock, P(&now), 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * NANOS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* A thread's processor time (include/linux/posix-timers_types.h: CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED) */
static int thread_cpu_clock(int32_t tid)
{
    return (int)(~(uint32_t)tid << 3 | 6);
}

uint64_t sys_thread_cpu_nanos(int32_t tid)
{
    return clock_nanos(thread_cpu_clock(tid));
}

uint64_t sys_monotonic_nanos(void)
{
    return clock_nanos(CLOCK_MONOTONIC);
}

uint64_t sys_realtime_nanos(void)
{
    return clock_nanos(CLOCK_REALTIME);
}

uint64_t sys_boottime_nanos(void)
{
    return clock_nanos(CLOCK_BOOTTIME);
}

long sys_clone(unsigned long flags, void *stack_top, void (*entry)(void *), void *argument)
{
    return raw_clone(flags, stack_top, entry, argument);
}

void sys_exit_thread(int status)
{
    for (;;)
        call(__NR_exit, status, 0, 0, 0, 0, 0);
}

long sys_sigprocmask(int how, const uint64_t *set, uint64_t *ret_old)
{
    return call(__NR_rt_sigprocmask, how, P(set), P(ret_old), SIGNAL_SET_SIZE, 0, 0);
}

long sys_sigaction(int signal, const struct sys_sigaction *action, struct sys_sigaction *ret_old)
{
    return call(__NR_rt_sigaction, signal, P(action), P(ret_old), SIGNAL_SET_SIZE, 0, 0);
}

long sys_tgsigqueueinfo(int32_t tgid, int32_t tid, int signal, const void *siginfo)
{
    return call(__NR_rt_tgsigqueueinfo, tgid, tid, signal, P(siginfo), 0, 0);
}

long sys_cpu_timer(int32_t tid, uint64_t nanos, int signal, uint64_t value, int32_t *ret_timer)
{
    struct { /* struct sigevent, include/uapi/asm-generic/siginfo.h */
        uint64_t value;
        int32_t signal, notify, tid;
        uint8_t rest[44];
    } event = {.value = value, .signal = signal, .notify = SIGEV_THREAD_ID, .tid = tid};
    struct __kernel_itimerspec when = {.it_value = {.tv_sec = (long long)(nanos / NANOS_PER_SECOND),
                                                    .tv_nsec = (long long)(nanos % NANOS_PER_SECOND)}};
    long result = call(__NR_timer_create, thread_cpu_clock(tid), P(&event), P(ret_timer), 0, 0, 0);

    if (result < 0)
        return result;
    result = call(__NR_timer_settime, *ret_timer, 0, P(&when), 0, 0, 0);
    if (result < 0)
        sys_timer_delete(*ret_timer);
    return result;
}

long sys_timer_delete(int32_t timer)
{
    return call(__NR_timer_delete, timer, 0, 0, 0, 0, 0);
}

long sys_pidfd_open(int32_t tid, unsigned flags)
{
    return call(__NR_pidfd_open, tid, flags, 0, 0, 0, 0);
}

long sys_get_robust_list(int32_t tid, uint64_t *ret_head, size_t *ret_size)
{
    return call(__NR_get_robust_list, tid, P(ret_head), P(ret_size), 0, 0, 0);
}

long sys_set_name(const char *name)
{
    return call(__NR_prctl, PR_SET_NAME, P(name), 0, 0, 0, 0);
}
