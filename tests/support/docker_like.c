/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a process in a default Docker container with --cap-drop=ALL --security-opt=no-new-privileges meets: no
 * capabilities, none to be had back, and the system call filter. There is no Docker where these tests run, so
 * the filter is written after the published profile (moby/profiles, seccomp/default.json, 2025): what is not
 * on the list gives EPERM, clone3 gives ENOSYS so that libc falls back to clone, namespaces cannot be made.
 *
 * Linux x86-64. The calls that the profile allows only with a capability are not on the list.
 */
#include "tests/support/docker_like.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* clang-format off */
#define ALLOWED \
    X(accept) X(accept4) X(access) X(adjtimex) X(alarm) X(bind) X(brk) X(capget) X(capset) X(chdir) X(chmod) \
    X(chown) X(clock_adjtime) X(clock_getres) X(clock_gettime) X(clock_nanosleep) X(close) X(close_range) \
    X(connect) X(copy_file_range) X(creat) X(dup) X(dup2) X(dup3) X(epoll_create) X(epoll_create1) \
    X(epoll_ctl) X(epoll_ctl_old) X(epoll_pwait) X(epoll_pwait2) X(epoll_wait) X(epoll_wait_old) X(eventfd) \
    X(eventfd2) X(execve) X(execveat) X(exit) X(exit_group) X(faccessat) X(faccessat2) X(fadvise64) \
    X(fallocate) X(fanotify_mark) X(fchdir) X(fchmod) X(fchmodat) X(fchown) X(fchownat) X(fcntl) \
    X(fdatasync) X(fgetxattr) X(flistxattr) X(flock) X(fork) X(fremovexattr) X(fsetxattr) X(fstat) \
    X(fstatfs) X(fsync) X(ftruncate) X(futex) X(futex_waitv) X(futimesat) X(getcpu) X(getcwd) X(getdents) \
    X(getdents64) X(getegid) X(geteuid) X(getgid) X(getgroups) X(getitimer) X(getpeername) X(getpgid) \
    X(getpgrp) X(getpid) X(getppid) X(getpriority) X(getrandom) X(getresgid) X(getresuid) X(getrlimit) \
    X(get_robust_list) X(getrusage) X(getsid) X(getsockname) X(getsockopt) X(get_thread_area) X(gettid) \
    X(gettimeofday) X(getuid) X(getxattr) X(inotify_add_watch) X(inotify_init) X(inotify_init1) \
    X(inotify_rm_watch) X(io_cancel) X(ioctl) X(io_destroy) X(io_getevents) X(io_pgetevents) X(ioprio_get) \
    X(ioprio_set) X(io_setup) X(io_submit) X(kill) X(landlock_add_rule) X(landlock_create_ruleset) \
    X(landlock_restrict_self) X(lchown) X(lgetxattr) X(link) X(linkat) X(listen) X(listxattr) X(llistxattr) \
    X(lremovexattr) X(lseek) X(lsetxattr) X(lstat) X(madvise) X(membarrier) X(memfd_create) X(memfd_secret) \
    X(mincore) X(mkdir) X(mkdirat) X(mknod) X(mknodat) X(mlock) X(mlock2) X(mlockall) X(mmap) X(mprotect) \
    X(mq_getsetattr) X(mq_notify) X(mq_open) X(mq_timedreceive) X(mq_timedsend) X(mq_unlink) X(mremap) \
    X(msgctl) X(msgget) X(msgrcv) X(msgsnd) X(msync) X(munlock) X(munlockall) X(munmap) X(name_to_handle_at) \
    X(nanosleep) X(newfstatat) X(open) X(openat) X(openat2) X(pause) X(pidfd_open) X(pidfd_send_signal) \
    X(pipe) X(pipe2) X(pkey_alloc) X(pkey_free) X(pkey_mprotect) X(poll) X(ppoll) X(prctl) X(pread64) \
    X(preadv) X(preadv2) X(prlimit64) X(process_mrelease) X(pselect6) X(pwrite64) X(pwritev) X(pwritev2) \
    X(read) X(readahead) X(readlink) X(readlinkat) X(readv) X(recvfrom) X(recvmmsg) X(recvmsg) \
    X(remap_file_pages) X(removexattr) X(rename) X(renameat) X(renameat2) X(restart_syscall) X(rmdir) \
    X(rseq) X(rt_sigaction) X(rt_sigpending) X(rt_sigprocmask) X(rt_sigqueueinfo) X(rt_sigreturn) \
    X(rt_sigsuspend) X(rt_sigtimedwait) X(rt_tgsigqueueinfo) X(sched_getaffinity) X(sched_getattr) \
    X(sched_getparam) X(sched_get_priority_max) X(sched_get_priority_min) X(sched_getscheduler) \
    X(sched_rr_get_interval) X(sched_setaffinity) X(sched_setattr) X(sched_setparam) X(sched_setscheduler) \
    X(sched_yield) X(seccomp) X(select) X(semctl) X(semget) X(semop) X(semtimedop) X(sendfile) X(sendmmsg) \
    X(sendmsg) X(sendto) X(setfsgid) X(setfsuid) X(setgid) X(setgroups) X(setitimer) X(setpgid) \
    X(setpriority) X(setregid) X(setresgid) X(setresuid) X(setreuid) X(setrlimit) X(set_robust_list) \
    X(setsid) X(setsockopt) X(set_thread_area) X(set_tid_address) X(setuid) X(setxattr) X(shmat) X(shmctl) \
    X(shmdt) X(shmget) X(shutdown) X(sigaltstack) X(signalfd) X(signalfd4) X(socketpair) X(splice) X(stat) \
    X(statfs) X(statx) X(symlink) X(symlinkat) X(sync) X(sync_file_range) X(syncfs) X(sysinfo) X(tee) \
    X(tgkill) X(time) X(timer_create) X(timer_delete) X(timer_getoverrun) X(timer_gettime) X(timer_settime) \
    X(timerfd_create) X(timerfd_gettime) X(timerfd_settime) X(times) X(tkill) X(truncate) X(umask) X(uname) \
    X(unlink) X(unlinkat) X(utime) X(utimensat) X(utimes) X(vfork) X(vmsplice) X(wait4) X(waitid) X(write) \
    X(writev) X(process_vm_readv) X(process_vm_writev) X(ptrace) X(arch_prctl) X(modify_ldt)

/* Newer than the oldest kernel headers this must build with. */
static const int allowed_new[] = {
    451 /* cachestat */, 452 /* fchmodat2 */, 453 /* map_shadow_stack */, 454 /* futex_wake */, 455 /*
    futex_wait */, 456 /* futex_requeue */, 457 /* statmount */, 458 /* listmount */, 462 /* mseal */, 463
    /* setxattrat */, 464 /* getxattrat */, 465 /* listxattrat */, 466 /* removexattrat */, 335 /* uretprobe
    */
};
/* clang-format on */

#define X(name) SYS_##name,
static const int allowed[] = {ALLOWED};
#undef X

enum {
    /* CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET, as in the profile */
    NEW_NAMESPACES = 0x7e020000,
    PERSONALITY_QUERY = -1,
};

static struct sock_filter program[4096];
static unsigned short length;

static void put(unsigned short code, unsigned jt, unsigned jf, unsigned k)
{
    program[length++] =
        (struct sock_filter){.code = code, .jt = (unsigned char)jt, .jf = (unsigned char)jf, .k = k};
}

static void put_load(size_t offset)
{
    put(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset);
}

static void put_return(unsigned action)
{
    put(BPF_RET | BPF_K, 0, 0, action);
}

/* If the loaded word equals k, end with action. */
static void put_case(unsigned k, unsigned action)
{
    put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, k);
    put_return(action);
}

/* The instructions put by body run only for this system call; its first argument's low word is loaded for
 * them. */
static void put_call(unsigned number, void (*body)(void))
{
    unsigned short jump = length;
    put(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, number);
    put_load(offsetof(struct seccomp_data, args[0]));
    body();
    put_return(SECCOMP_RET_ERRNO | EPERM);
    program[jump].jf = (unsigned char)(length - jump - 1);
}

static void socket_families(void)
{
    /* Below 12, and a list: the profile leaves out AF_VSOCK (40), AF_ALG (38) and some dead ones. */
    static const unsigned families[] = {13, 14, 15, 16, 17, 18, 21, 22, 24, 26, 27, 28, 29,
                                        30, 31, 32, 33, 35, 36, 39, 41, 42, 43, 44, 45};
    put(BPF_JMP | BPF_JGE | BPF_K, 1, 0, 12);
    put_return(SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        put_case(families[i], SECCOMP_RET_ALLOW);
}

static void personalities(void)
{
    static const unsigned values[] = {0, 8, 0x20000, 0x20008, (unsigned)PERSONALITY_QUERY};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        put_case(values[i], SECCOMP_RET_ALLOW);
}

static void clone_flags(void)
{
    put(BPF_JMP | BPF_JSET | BPF_K, 1, 0, NEW_NAMESPACES);
    put_return(SECCOMP_RET_ALLOW);
}

static int set_filter(void)
{
    put_load(offsetof(struct seccomp_data, arch));
    put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    put_return(SECCOMP_RET_ERRNO | EPERM);
    put_load(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
        put_case((unsigned)allowed[i], SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < sizeof(allowed_new) / sizeof(allowed_new[0]); i++)
        put_case((unsigned)allowed_new[i], SECCOMP_RET_ALLOW);
    put_case(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
    put_call(SYS_clone, clone_flags);
    put_call(SYS_socket, socket_families);
    put_call(SYS_personality, personalities);
    put_return(SECCOMP_RET_ERRNO | EPERM);

    struct sock_fprog filter = {.len = length, .filter = program};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2];

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno != EPERM)
            return -1; /* EPERM: nothing held, nothing to lose */
    memset(none, 0, sizeof(none));
    return (int)syscall(SYS_capset, &header, none);
}

int docker_like_apply(void)
{
    if (drop_capabilities() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return set_filter();
}
