/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Scenarios about whole processes: running threads, thread creation, fork, exit, descriptors, limits. */
#include "tests/targets/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Running threads with a known chain. Each notes the longest gap between two looks at the clock. */

struct spin {
    pthread_t thread;
    _Atomic pid_t tid;
    _Atomic uint64_t turns, longest_ns;
};
static _Atomic bool spin_over;

T_FRAME long spinning_here(void *argument);
T_FRAME long spinning_here(void *argument)
{
    struct spin *s = (struct spin *)argument;
    uint64_t last = t_now_ns();
    while (!atomic_load_explicit(&spin_over, memory_order_relaxed)) {
        uint64_t now = t_now_ns();
        if (now - last > atomic_load_explicit(&s->longest_ns, memory_order_relaxed))
            atomic_store_explicit(&s->longest_ns, now - last, memory_order_relaxed);
        last = now;
        atomic_fetch_add_explicit(&s->turns, 1, memory_order_relaxed);
    }
    return 0;
}

T_FRAME void *spin_thread(void *argument);
T_FRAME void *spin_thread(void *argument)
{
    struct spin *s = (struct spin *)argument;
    t_publish(&s->tid);
    t_chain(4, spinning_here, s);
    return NULL;
}

/* Each line resets the longest gap and prints the one before it; the line "\n" after "steps" of them ends. */
static int run_spin(void)
{
    enum { MAX = 64 };
    static struct spin all[MAX];
    int n = (int)t_param("n", 2), steps = (int)t_param("steps", 0), sleepers = (int)t_param("sleepers", 0);

    t_check(n <= MAX);
    static sem_t never;
    sem_init(&never, 0, 0);
    for (int i = 0; i < n; i++) {
        all[i].thread = t_thread(spin_thread, &all[i], "spin");
        t_await_running(t_await_tid(&all[i].tid));
        t_expect_chain(all[i].tid, "?t_now_ns spinning_here", 4, "t_chain spin_thread");
    }
    pthread_t *others = (pthread_t *)calloc((size_t)sleepers + 1, sizeof(*others));
    for (int i = 0; i < sleepers; i++)
        others[i] = t_thread_on(64 * 1024, (void *(*)(void *))(void *)sem_wait, &never, "sleeper");
    t_ready();
    for (int i = 0; i < steps; i++) {
        char text[64];
        uint64_t longest = 0;
        t_wait_step();
        for (int k = 0; k < n; k++) {
            uint64_t gap = atomic_exchange(&all[k].longest_ns, 0);
            longest = gap > longest ? gap : longest;
        }
        int size = snprintf(text, sizeof(text), "gap %llu\n", (unsigned long long)longest);
        t_must(write(1, text, (size_t)size));
    }
    t_wait_release();
    for (int i = 0; i < n; i++) {
        uint64_t before = all[i].turns, end = t_now_ns() + (uint64_t)T_DEADLINE_S * 1000000000u;
        while (all[i].turns == before)
            if (t_now_ns() > end)
                t_fail("a running thread stopped");
    }
    atomic_store(&spin_over, true);
    for (int i = 0; i < sleepers; i++)
        sem_post(&never);
    for (int i = 0; i < sleepers; i++)
        t_join(others[i]);
    for (int i = 0; i < n; i++)
        t_join(all[i].thread);
    free(others);
    return 0;
}

/* S62: threads created and joined at full speed. */

static _Atomic bool churn_end;
static _Atomic int churned;

static void *short_life(void *argument)
{
    T_NO_TAIL_CALL();
    return argument;
}

static void *churn_thread(void *argument)
{
    while (!atomic_load(&churn_end)) {
        t_join(t_thread_on(64 * 1024, short_life, NULL, NULL));
        atomic_fetch_add(&churned, 1);
    }
    return argument;
}

static int run_churn(void)
{
    enum { MAX = 256 };
    pthread_t threads[MAX];
    int n = (int)t_param("n", 64);
    t_check(n <= MAX);
    for (int i = 0; i < n; i++)
        threads[i] = t_thread(churn_thread, NULL, "churn");
    t_await(&churned, 1000);
    t_ready();
    t_wait_release();
    t_await(&churned, atomic_load(&churned) + 1000);
    atomic_store(&churn_end, true);
    for (int i = 0; i < n; i++)
        t_join(threads[i]);
    return 0;
}

/* S08, S67, S68: fork in a loop with touched memory; every child must end as told. */

static int run_fork_loop(void)
{
    size_t bytes = (size_t)t_param("mib", 64) << 20;
    long forks = 0;
    char *memory =
        (char *)t_must(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    memset(memory, 1, bytes);
    t_expect(getpid(), "");
    t_ready();
    while (!t_released() || forks < 3) {
        int status;
        pid_t child = t_must(fork());
        if (child == 0)
            _exit(memory[bytes - 1] == 1 ? 11 : 12);
        t_must(waitpid(child, &status, 0));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 11)
            t_fail("a child ended with status 0x%x", (unsigned)status);
        forks++;
    }
    char text[32];
    int size = snprintf(text, sizeof(text), "forks %ld\n", forks);
    t_must(write(1, text, (size_t)size));
    return 0;
}

/* S69: a server that forks workers; one of them ends at once, by exit(). */

static int run_prefork(void)
{
    enum { N = 4 };
    pid_t children[N];
    int gate[2], status;
    char byte;

    t_must(pipe2(gate, O_CLOEXEC));
    for (int i = 0; i < N; i++) {
        children[i] = t_must(fork());
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            close(gate[1]);
            if (i == 0)
                exit(0);
            _exit(read(gate[0], &byte, 1) == 0 ? 20 + i : 1);
        }
    }
    t_must(waitpid(children[0], &status, 0));
    t_check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 1; i < N; i++)
        t_fact("child", "%d", (int)children[i]);
    t_ready();
    t_wait_release();
    close(gate[1]);
    for (int i = 1; i < N; i++) {
        t_must(waitpid(children[i], &status, 0));
        t_check(WIFEXITED(status) && WEXITSTATUS(status) == 20 + i);
    }
    return 0;
}

/* S59, S60: main leaves with pthread_exit, the workers hang for a while and then end. */

static _Atomic pid_t last_worker;

static void at_exit(void)
{
    printf("atexit ran\n");
}

T_FRAME void *remaining_thread(void *argument);
T_FRAME void *remaining_thread(void *argument)
{
    char text[512], state = '?';
    t_publish(&last_worker);
    /* Ready only when the leader is a zombie: that is the situation. */
    for (uint64_t end = t_now_ns() + (uint64_t)T_DEADLINE_S * 1000000000u; state != 'Z';) {
        if (!t_task_file(getpid(), "stat", text, sizeof(text)) ||
            sscanf(strrchr(text, ')'), ") %c", &state) != 1 || t_now_ns() > end)
            t_fail("the main thread did not end");
        t_sleep_ms(1);
    }
    t_expect(getpid(), "");
    t_expect(t_gettid(), "t_wait_release remaining_thread");
    t_ready();
    t_wait_release();
    return argument;
}

static int run_main_exit(void)
{
    atexit(at_exit);
    printf("buffered"); /* flushed by the normal end of the process only */
    t_thread(remaining_thread, NULL, "remaining");
    pthread_exit(NULL);
}

/* Every thread ends by itself, and no libc ends the process for them. */

static void *bare_thread(void *argument)
{
    while (!atomic_load((_Atomic bool *)argument))
        t_sleep_ms(1);
    syscall(SYS_exit, 3);
    return NULL;
}

/* SECCOMP_RET_KILL_THREAD, libseccomp's SCMP_ACT_KILL: ends the process only where the thread is the last
 * one. */
static void die_in_a_sandbox(void)
{
    t_forbid(SYS_getppid, SECCOMP_RET_KILL_THREAD, 0);
    syscall(SYS_getppid);
}

/* A sandbox of all threads, made when the program has started. */
static int run_tsync(void)
{
    bool sandbox = t_param("sandbox", 0);

    t_ready();
    if (sandbox) {
        t_wait_step();
        t_forbid(SYS_accept4, SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
        puts("sandboxed");
        fflush(stdout);
    }
    t_wait_release();
    return 0;
}

/* Children of a sandbox that did not think of what starting a thread takes. */
static int run_fork_in_sandbox(void)
{
    t_ready();
    t_forbid(SYS_close_range, SECCOMP_RET_KILL_PROCESS, 0);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = t_must(fork());

        if (child == 0)
            _exit(5);
        t_must(waitpid(child, &status, 0));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 5)
            t_fail("child %d ended with status %#x", i, status);
    }
    t_wait_release();
    return 0;
}

static int run_bare_exit(void)
{
    static _Atomic bool over;
    bool killed = t_param("killed", 0);
    long status = t_param("status", 0);

    for (long i = t_param("n", 0); i > 0; i--)
        t_thread(bare_thread, &over, "bare");
    t_ready();
    t_wait_release();
    atomic_store(&over, true);
    if (killed)
        die_in_a_sandbox();
    syscall(SYS_exit, status);
    t_fail("it goes on");
}

/* S73, S74: everything from 3 up is closed; the program's own sockets get the low numbers. */

static int run_close_all(void)
{
    int pair[2], extra;
    char got[6] = "";

    if (t_param("daemon", 0)) {
        pid_t child = t_must(fork());
        if (child > 0) {
            int status;
            t_must(waitpid(child, &status, 0));
            return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
        }
        setsid();
    }
    for (int fd = 4; fd < 1024; fd++)
        close(fd); /* 3 is the ready pipe, which t_ready() closes */
    t_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    extra = t_must(dup(pair[0]));
    if (pair[0] != 4 || pair[1] != 5 || extra != 6)
        t_fail("the sockets got numbers %d %d %d: something else is open", pair[0], pair[1], extra);
    t_must(write(pair[1], "hello", 5));
    t_ready();
    t_wait_release();
    t_check(read(pair[0], got, 5) == 5 && !strcmp(got, "hello"));
    t_check(write(extra, "x", 1) == 1 && read(pair[1], got, 1) == 1 && got[0] == 'x');
    t_must(fcntl(pair[0], F_GETFD));
    t_must(fcntl(pair[1], F_GETFD));
    t_check(open("/dev/null", O_RDONLY | O_CLOEXEC) == 3);
    return 0;
}

/* S86: limits that make a thread or memory impossible. Set before exec by the test, or here. */

static int run_limits(void)
{
    if (t_param("mlockall", 0) && mlockall(MCL_CURRENT | MCL_FUTURE))
        t_fail("mlockall: %m");
    t_ready();
    t_wait_release();
    return 0;
}

/* S39, S54: starts as root, with the agent's thread in it, and gives that up; times=1: again and again, and
 * back. */

static const char *not_root(void)
{
    char effective[64];
    const unsigned long long set_ids = 1ull << 6 | 1ull << 7; /* CAP_SETGID, CAP_SETUID */
    if (geteuid() != 0 || !t_status_field(t_gettid(), "CapEff", effective, sizeof(effective)) ||
        (strtoull(effective, NULL, 16) & set_ids) != set_ids)
        return "needs root with its capabilities";
    return NULL;
}

static int run_drop_root(void)
{
    const uid_t nobody = 65534;
    for (long i = t_param("times", 0); i > 0; i--) {
        /* glibc asks every thread it knows with a signal; one that cannot take it would block this for ever.
         */
        t_must(seteuid(nobody));
        t_must(seteuid(0));
    }
    t_must(setgroups(0, NULL));
    t_must(setresgid(nobody, nobody, nobody));
    t_must(setresuid(nobody, nobody, nobody));
    t_ready();
    t_wait_release();
    t_check(getuid() == nobody && geteuid() == nobody && seteuid(0) < 0);
    return 0;
}

/* S38: what a child inherits, as text: the test compares it with and without the agent. */

static void print_inherited(const char *who)
{
    static const char *const fields[] = {"SigBlk", "SigIgn",     "SigCgt", "ShdPnd",
                                         "CapEff", "NoNewPrivs", "Seccomp"};
    char value[128];
    mode_t mask = umask(0);
    umask(mask);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (t_status_field(t_gettid(), fields[i], value, sizeof(value)))
            printf("%s %s %s\n", who, fields[i], value);
    printf("%s umask %o\n", who, (unsigned)mask);
    DIR *fds = opendir("/proc/self/fd");
    const struct dirent *entry;
    while ((entry = readdir(fds)))
        if (entry->d_name[0] != '.')
            printf("%s fd %s\n", who, entry->d_name);
    closedir(fds);
    fflush(stdout);
}

static int run_inherit(void)
{
    int status;
    print_inherited("main");
    pid_t child = t_must(fork());
    if (child == 0) {
        print_inherited("child");
        _exit(0);
    }
    t_must(waitpid(child, &status, 0));
    t_check(status == 0);
    return system("grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd | sort -n");
}

/* 100 M putc and 20 M malloc at factor 100: libc's single-threaded paths, for the benchmark. */
static int run_single(void)
{
    long factor = t_param("factor", 10);
    FILE *null = fopen("/dev/null", "w");
    static void *volatile keep;
    uint64_t begin = t_now_ns();

    t_check(null);
    for (long i = 0; i < factor * 1000000; i++)
        putc('x', null);
    for (long i = 0; i < factor * 200000; i++) {
        keep = malloc(24);
        free(keep);
    }
    printf("nanos %llu\n", (unsigned long long)(t_now_ns() - begin));
    return 0;
}

const struct t_scenario t_process_scenarios[] = {
    {"spin", "",
     "n=2 steps=0 sleepers=0: running threads; each of `steps` lines prints the longest pause seen", NULL,
     run_spin},
    {"churn", "S62", "n=64: threads that create and join threads all the time", NULL, run_churn},
    {"fork_loop", "S08 S67 S68", "mib=64: forks in a loop with touched memory", NULL, run_fork_loop},
    {"prefork", "S69", "forks 4 workers, the first of which ends", NULL, run_prefork},
    {"main_exit", "S59 S60", "main leaves by pthread_exit, a worker stays", NULL, run_main_exit},
    {"bare_exit", "S60",
     "n=0 killed=0 status=0: threads and main end by the bare system call, or main in a sandbox", NULL,
     run_bare_exit},
    {"tsync", "S76", "sandbox=0: a first line makes a filter for all threads that kills for accept4", NULL,
     run_tsync},
    {"fork_in_sandbox", "S76", "forks children under a filter that kills for close_range", NULL,
     run_fork_in_sandbox},
    {"close_all", "S73 S74", "daemon=0: closes all descriptors, opens its own on the low numbers", NULL,
     run_close_all},
    {"limits", "S86", "mlockall=0: waits, for limits set by the test", NULL, run_limits},
    {"drop_root", "S39 S54", "times=0: gives up root, after as many detours", not_root, run_drop_root},
    {"inherit", "S38", "prints what children inherit; no ready line", NULL, run_inherit},
    {"single", "", "factor=10: a putc and malloc loop of a single-threaded program; no ready line", NULL,
     run_single},
    {NULL, NULL, NULL, NULL, NULL},
};
