/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Starts a program for a test: with a death signal, so that no failure of a test leaves it behind; without
 * stray descriptors; with its environment, limits and user set here, so that no preload touches the test's
 * own processes.
 *
 *   launch [-d] [-k] [-s] [-v ERRNO] [-p PID] [-r FD] [-u UID] [-l LIMIT=VALUE]... [-e NAME=VALUE]... --
 * program [argument...]
 *
 *   -d  under the limits of an unprivileged container (docker_like.c)
 *   -k  keep all descriptors
 *   -v  under a filter that refuses process_vm_readv with this errno
 *   -s  under a filter that kills for unusual system calls (kill_filter.c)
 *   -p  the parent: when it is already gone, nothing is started
 *   -r  this descriptor becomes 3
 *   -l  nproc, as, memlock, stack, nofile or sigpending; soft and hard
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/docker_like.h"
#include "tests/support/kill_filter.h"

static void die(const char *what)
{
    fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
    _exit(125);
}

static void set_limit(char *text)
{
    static const struct {
        const char *name;
        int resource;
    } limits[] = {{"nproc", RLIMIT_NPROC}, {"as", RLIMIT_AS},         {"memlock", RLIMIT_MEMLOCK},
                  {"stack", RLIMIT_STACK}, {"nofile", RLIMIT_NOFILE}, {"sigpending", RLIMIT_SIGPENDING}};
    char *equals = strchr(text, '=');
    errno = EINVAL;
    if (!equals)
        die(text);
    *equals = '\0';
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (strcmp(limits[i].name, text))
            continue;
        rlim_t value = strtoull(equals + 1, NULL, 10);
        struct rlimit both = {.rlim_cur = value, .rlim_max = value};
        if (setrlimit((__rlimit_resource_t)limits[i].resource, &both) < 0)
            die(text);
        return;
    }
    die(text);
}

int main(int argc, char **argv)
{
    int option, docker = 0, keep = 0, kills = 0, refusal = 0, ready = -1;
    pid_t parent = getppid();

    while ((option = getopt(argc, argv, "+dksp:r:u:l:e:v:")) != -1) {
        switch (option) {
        case 'd':
            docker = 1;
            break;
        case 'k':
            keep = 1;
            break;
        case 's':
            kills = 1;
            break;
        case 'v':
            refusal = atoi(optarg);
            break;
        case 'p':
            parent = (pid_t)atoi(optarg);
            break;
        case 'r':
            ready = atoi(optarg);
            break;
        case 'u': {
            uid_t user = (uid_t)atoi(optarg);
            if (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
                die("user");
            break;
        }
        case 'l':
            set_limit(optarg);
            break;
        case 'e':
            if (putenv(optarg) < 0)
                die("environment");
            break;
        default:
            return 125;
        }
    }
    if (optind >= argc)
        return 125;
    /* After the change of user, which clears it. The parent may have died before it was set. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        die("death signal");
    if (getppid() != parent)
        _exit(125);
    if (ready >= 0 && ready != 3 && dup2(ready, 3) < 0)
        die("ready pipe");
    unsigned first = ready >= 0 ? 4 : 3;
    if (!keep && syscall(SYS_close_range, first, ~0u, 0u) < 0)
        for (unsigned fd = first; fd < 1024; fd++)
            close((int)fd);
    if (docker && docker_like_apply() < 0)
        die("container limits");
    if (refusal && refuse_memory_apply(refusal) < 0)
        die("filter");
    if (kills && kill_filter_apply() < 0)
        die("filter");
    execvp(argv[optind], argv + optind);
    die(argv[optind]);
}
