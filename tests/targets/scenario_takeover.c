/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program that gave up root falls to an attacker, who has all of its memory, the stack of the agent's
 * thread included. He makes that thread run his own code: nothing that was given up may come back.
 */
#include "tests/targets/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define USER 65533
#define N_ATTACKS 24

static struct {
    const char *what;
    long result;
} attacks[N_ATTACKS];
static _Atomic int n_attacks;
static _Atomic bool attacked;
static __attribute__((used, aligned(64))) char stack_of_attack[65536];
static char secret_file[128], secret_socket[128], secret_environment[64];
static pid_t victim; /* root's */

/* libc's errno is another thread's here. */
static long raw(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

static void attempt(const char *what, long result)
{
    attacks[n_attacks].what = what;
    attacks[n_attacks].result = result;
    n_attacks++;
}

static long open_file(const char *path, int flags)
{
    return raw(SYS_openat, AT_FDCWD, (long)path, flags, 0600);
}

static long raise_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    return raw(SYS_capset, (long)&header, (long)all, 0, 0);
}

static long connect_to_root(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    long fd = raw(SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0);
    strcpy(address.sun_path, secret_socket);
    return fd < 0 ? fd : raw(SYS_connect, fd, (long)&address, sizeof(address), 0);
}

static long bind_low_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(81)};
    long fd = raw(SYS_socket, AF_INET, SOCK_STREAM, 0, 0);
    return fd < 0 ? fd : raw(SYS_bind, fd, (long)&address, sizeof(address), 0);
}

static __attribute__((used)) void attack(void)
{
    static const char *const command[] = {"/bin/true", NULL};
    const gid_t root_group = 0;

    attempt("setresuid", raw(SYS_setresuid, 0, 0, 0, 0));
    attempt("setresgid", raw(SYS_setresgid, 0, 0, 0, 0));
    attempt("setgroups", raw(SYS_setgroups, 1, (long)&root_group, 0, 0));
    attempt("setfsuid",
            raw(SYS_setfsuid, 0, 0, 0, 0) == 0 || raw(SYS_setfsuid, -1, 0, 0, 0) == 0 ? 0 : -EPERM);
    attempt("capset", raise_capabilities());
    attempt("unshare", raw(SYS_unshare, CLONE_NEWNS, 0, 0, 0));
    attempt("chroot", raw(SYS_chroot, (long)"/tmp", 0, 0, 0));
    attempt("read /etc/shadow", open_file("/etc/shadow", O_RDONLY));
    attempt("read /root", open_file("/root", O_RDONLY | O_DIRECTORY));
    attempt("read a secret", open_file(secret_file, O_RDONLY));
    attempt("write a secret", open_file(secret_file, O_WRONLY));
    attempt("truncate a secret", raw(SYS_truncate, (long)secret_file, 0, 0, 0));
    attempt("unlink a secret", raw(SYS_unlink, (long)secret_file, 0, 0, 0));
    attempt("write to /etc", open_file("/etc/probe-attack", O_WRONLY | O_CREAT));
    attempt("write to /tmp", open_file("/tmp/probe-attack", O_WRONLY | O_CREAT));
    attempt("write to /usr", open_file("/usr/bin/probe-attack", O_WRONLY | O_CREAT));
    attempt("change a system setting", open_file("/proc/sys/kernel/panic", O_WRONLY));
    attempt("connect to root's socket", connect_to_root());
    attempt("bind a low port", bind_low_port());
    attempt("signal root's process", raw(SYS_kill, victim, 0, 0, 0));
    attempt("trace root's process", raw(SYS_ptrace, PTRACE_SEIZE, victim, 0, 0));
    attempt("read root's environment", open_file(secret_environment, O_RDONLY));
    attempt("run a program", raw(SYS_execve, (long)command[0], (long)command, 0, 0));
    attacked = true;
    raw(SYS_exit, 0, 0, 0, 0);
}

__attribute__((naked, used)) static void taken_over(void)
{
    __asm__ volatile("lea stack_of_attack+65536(%rip), %rsp\n\t"
                     "call attack\n\t"
                     "hlt");
}

/* The stack pointer of a thread that soon sleeps, while the program can still ask; 0: it never did. */
static uint64_t sleeping_stack(const char *tid)
{
    char path[320], text[256];
    unsigned long sp = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", tid);
    for (int tries = 0; tries < 1000; tries++) {
        t_check((file = fopen(path, "r")) && fgets(text, sizeof(text), file));
        fclose(file);
        /* A thread on a processor has the one word "running" here: it is between two sleeps. */
        if (sscanf(text, "%*d %*x %*x %*x %*x %*x %*x %lx", &sp) == 1)
            return sp;
        t_sleep_ms(10);
    }
    return 0;
}

static uint64_t find_agent_stack(void)
{
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    char path[320], text[256];
    uint64_t sp = 0;

    while ((entry = readdir(tasks))) {
        FILE *file;
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        if (!(file = fopen(path, "r")))
            continue;
        if (fgets(text, sizeof(text), file) && !strncmp(text, "libprobe", 8))
            t_check((sp = sleeping_stack(entry->d_name)));
        fclose(file);
    }
    closedir(tasks);
    return sp;
}

/* Every return address into the agent's code becomes the attacker's. */
static void take_over(uint64_t sp)
{
    unsigned long low = 0, high = 0, end = 0, from, to;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");

    while (fgets(line, sizeof(line), maps)) {
        t_check(sscanf(line, "%lx-%lx", &from, &to) == 2);
        if (strstr(line, "libprobe.so")) {
            low = low ? low : from;
            high = to;
        }
        if (from <= sp && sp < to)
            end = to;
    }
    fclose(maps);
    t_check(low && end);
    for (uint64_t at = sp; at + 8 <= end; at += 8)
        if (*(uint64_t *)at >= low && *(uint64_t *)at < high)
            *(uint64_t *)at = (uint64_t)taken_over;
}

static const char *not_root(void)
{
    char effective[64];
    return geteuid() != 0 || !t_status_field(t_gettid(), "CapEff", effective, sizeof(effective)) ||
                   (strtoull(effective, NULL, 16) & 0xc6) !=
                       0xc6 /* DAC_OVERRIDE, READ_SEARCH, SETGID, SETUID */
               ? "needs root with its capabilities"
               : NULL;
}

static int run_taken_over(void)
{
    const char *directory = t_param_text("secrets", NULL);
    uint64_t sp;

    t_check(directory && strlen(directory) < 100);
    sprintf(secret_file, "%s/secret", directory);
    sprintf(secret_socket, "%s/root.sock", directory);
    victim = getppid();
    sprintf(secret_environment, "/proc/%d/environ", victim);
    t_ready();
    t_wait_step(); /* the agent has its socket */
    sp = find_agent_stack();
    t_check(sp);
    t_must(setgroups(0, NULL));
    t_must(setresgid(USER, USER, USER));
    t_must(setresuid(USER, USER, USER));
    take_over(sp);
    t_must(write(1, "ready\n", 6));
    t_wait_step(); /* somebody has asked the agent */
    for (int i = 0; !attacked && i < 1000; i++)
        t_sleep_ms(10);
    t_check(attacked);
    for (int i = 0; i < n_attacks; i++)
        printf("%s: %ld%s", attacks[i].what, attacks[i].result, i + 1 < n_attacks ? "; " : "\n");
    fflush(stdout);
    t_wait_release();
    return 0;
}

const struct t_scenario t_takeover_scenarios[] = {
    {"taken_over", "S39",
     "secrets=DIR: gives up root, then runs an attacker's code in the agent's thread; prints what it could "
     "do",
     not_root, run_taken_over},
    {NULL, NULL, NULL, NULL, NULL},
};
