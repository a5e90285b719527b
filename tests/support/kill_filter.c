/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a service meets whose author listed the calls it makes: one more kills the whole process. systemd's
 * SystemCallFilter=@system-service (252) is the model: mincore, ptrace, Landlock and the like are not on its
 * list, and it kills unless told otherwise; older lists lack close_range. The calls that read another process
 * are on its list, but on few others.
 *
 * Linux x86-64.
 */
#include "tests/support/kill_filter.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int kill_filter_apply(void)
{
    static const unsigned killers[] = {
        SYS_mincore,
        SYS_ptrace,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_kcmp,
        SYS_pidfd_getfd,
        SYS_perf_event_open,
        SYS_bpf,
        SYS_unshare,
        SYS_setns,
        SYS_userfaultfd,
        SYS_close_range,
        SYS_landlock_create_ruleset,
        SYS_landlock_add_rule,
        SYS_landlock_restrict_self,
    };
    struct sock_filter program[2 * sizeof(killers) / sizeof(killers[0]) + 2];
    struct sock_fprog filter = {.filter = program};

    program[filter.len++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof(killers) / sizeof(killers[0]); i++) {
        program[filter.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, killers[i], 0, 1);
        program[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    program[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int refuse_memory_apply(int error)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
