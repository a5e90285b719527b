/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The scenario program: command line, ready protocol, and the helpers of target.h.
 *
 *   target SCENARIO [key=value...]   run it
 *   target --list                    name, stories and description of every scenario
 *   target --describe SCENARIO       one description
 *   target --available SCENARIO      exit 0, or 77 with the reason on stdout
 *
 * In an expected chain "?name" is a function that a running thread may or may not be in just then.
 * Facts, expected chains and the ready line go to descriptor 3 if it is open, else to stdout.
 */
#include "tests/targets/target.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

volatile unsigned t_sink;

static const struct t_scenario *const tables[] = {
    t_blocked_scenarios, t_lock_scenarios,   t_signal_scenarios,   t_stack_scenarios,
    t_process_scenarios, t_loader_scenarios, t_takeover_scenarios, t_fuse_scenarios,
#ifdef TARGET_CXX
    t_cxx_scenarios,
#endif
#ifdef TARGET_URING
    t_uring_scenarios,
#endif
};
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

static const struct t_scenario *find_scenario(const char *name)
{
    for (int t = 0; t < N_TABLES; t++)
        for (const struct t_scenario *s = tables[t]; s->name; s++)
            if (!strcmp(s->name, name))
                return s;
    return NULL;
}

/* Parameters */

enum { MAX_PARAMS = 16 };
static struct {
    const char *key;
    const char *value;
    bool used;
} params[MAX_PARAMS];
static int n_params;

const char *t_param_text(const char *key, const char *otherwise)
{
    for (int i = 0; i < n_params; i++) {
        if (strcmp(params[i].key, key))
            continue;
        params[i].used = true;
        return params[i].value;
    }
    return otherwise;
}

long t_param(const char *key, long otherwise)
{
    const char *text = t_param_text(key, NULL);
    char *end;

    if (!text)
        return otherwise;
    long value = strtol(text, &end, 10);
    if (end == text || *end)
        t_fail("parameter %s: not a number: %s", key, text);
    return value;
}

static void parse_params(int n, char **words)
{
    for (int i = 0; i < n; i++) {
        static char copies[MAX_PARAMS]
                          [128]; /* the words themselves are the process's command line: unchanged */
        char *equals = strchr(words[i], '=');
        if (!equals || n_params == MAX_PARAMS || strlen(words[i]) >= sizeof(copies[0]))
            t_fail("not a key=value word, too long, or too many: %s", words[i]);
        strcpy(copies[n_params], words[i]);
        equals = strchr(copies[n_params], '=');
        *equals = '\0';
        params[n_params].key = copies[n_params];
        params[n_params++].value = equals + 1;
    }
}

/* Report to the test */

static char report[512 * 1024];
static size_t report_length;
static const struct t_scenario *current;
static bool main_expected;

/* One buffer, one write: a scenario whose stdio or malloc is broken on purpose must still be able to report.
 */
static void report_add(const char *format, va_list arguments)
{
    int n = vsnprintf(report + report_length, sizeof(report) - report_length, format, arguments);
    if (n < 0 || (size_t)n >= sizeof(report) - report_length)
        t_fail("report buffer too small");
    report_length += (size_t)n;
}

__attribute__((format(printf, 1, 2))) static void report_text(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report_add(format, arguments);
    va_end(arguments);
}

void t_fact(const char *key, const char *format, ...)
{
    va_list arguments;
    report_text("fact %s ", key);
    va_start(arguments, format);
    report_add(format, arguments);
    va_end(arguments);
    report_text("\n");
}

void t_expect(pid_t tid, const char *chain)
{
    main_expected |= tid == getpid();
    report_text("chain %d %s\n", (int)tid, chain);
}

void t_expect_chain(pid_t tid, const char *innermost, int depth, const char *outermost)
{
    report_text("chain %d %s", (int)tid, innermost);
    for (int i = depth; i >= 1; i--)
        report_text(" chain_%d", i);
    report_text(" %s\n", outermost);
}

/* Raw: opendir() allocates, and some scenarios hold the allocator's lock. */
static void report_threads(void)
{
    struct entry {
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
    };
    static char buffer[64 * 1024] __attribute__((aligned(8)));
    int task = t_must(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    for (;;) {
        long n = t_must(syscall(SYS_getdents64, task, buffer, sizeof(buffer)));
        if (n == 0)
            break;
        for (long at = 0; at < n;) {
            const struct entry *entry = (const struct entry *)(const void *)(buffer + at);
            at += entry->length;
            /* The agent's own thread is not one of the program's; the test counts on that. */
            char comm[32] = "";
            if (entry->name[0] == '.' || !t_task_file(atoi(entry->name), "comm", comm, sizeof(comm)))
                continue; /* not a thread, or ended meanwhile */
            if (strcmp(comm, "libprobe\n"))
                report_text(" %s", entry->name);
        }
    }
    close(task);
}

void t_ready(void)
{
    for (int i = 0; i < n_params; i++)
        if (!params[i].used)
            t_fail("unknown parameter: %s", params[i].key);
    /* Unless a scenario says otherwise, its main thread waits for the test; the run function of NAME is
     * run_NAME. */
    if (!main_expected)
        report_text("chain %d t_wait_release run_%s main\n", (int)getpid(), current->name);
    report_text("ready %d", (int)getpid());
    report_threads();
    report_text("\n");

    int fd = fcntl(3, F_GETFD) >= 0 ? 3 : 1;
    for (size_t done = 0; done < report_length;) {
        ssize_t n = write(fd, report + done, report_length - done);
        if (n < 0 && errno != EINTR)
            t_fail("ready line: %m");
        if (n > 0)
            done += (size_t)n;
    }
    if (fd == 3)
        close(3);
}

static bool got_release;

bool t_released(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    if (!got_release && poll(&in, 1, 0) > 0)
        t_wait_release();
    return got_release;
}

T_FRAME void t_wait_release(void)
{
    char byte;
    if (got_release)
        return;
    for (;;) {
        ssize_t n = read(0, &byte, 1);
        if (n == 0)
            t_fail("the test went away before it released the target");
        if (n < 0)
            t_fail("waiting for the test: %m"); /* EINTR here is a finding: nobody may interrupt this read */
        if (byte == '\n')
            break;
    }
    got_release = true;
}

void t_wait_step(void)
{
    t_wait_release();
    got_release = false;
}

void t_fail(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    int saved = errno;
    int n = snprintf(text, sizeof(text), "target: ");

    va_start(arguments, format);
    errno = saved; /* for %m */
    n += vsnprintf(text + n, sizeof(text) - (size_t)n - 1, format, arguments);
    va_end(arguments);
    if (n > (int)sizeof(text) - 2)
        n = (int)sizeof(text) - 2;
    text[n++] = '\n';
    if (write(2, text, (size_t)n) < 0)
        _exit(2);
    _exit(1);
}

/* Time and threads */

uint64_t t_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void t_sleep_ms(long ms)
{
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&wait, &wait) < 0 && errno == EINTR)
        ;
}

static uint64_t deadline_ns(void)
{
    return t_now_ns() + (uint64_t)T_DEADLINE_S * 1000000000u;
}

pthread_t t_thread_on(size_t stack_size, void *(*start)(void *), void *argument, const char *name)
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    if (stack_size && pthread_attr_setstacksize(&attributes, stack_size))
        t_fail("stack size %zu refused", stack_size);
    int r = pthread_create(&thread, &attributes, start, argument);
    if (r)
        t_fail("pthread_create: %s", strerror(r));
    pthread_attr_destroy(&attributes);
    if (name)
        pthread_setname_np(thread, name);
    return thread;
}

pthread_t t_thread(void *(*start)(void *), void *argument, const char *name)
{
    /* 256 KiB: a thousand of them must fit into any address space limit a CI machine has. */
    return t_thread_on(256 * 1024, start, argument, name);
}

void t_join(pthread_t thread)
{
    int r = pthread_join(thread, NULL);
    if (r)
        t_fail("pthread_join: %s", strerror(r));
}

pid_t t_gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

void t_forbid(unsigned number, unsigned action, unsigned flags)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

    t_must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    t_must((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter));
}

void t_publish(_Atomic pid_t *to)
{
    atomic_store(to, t_gettid());
}

pid_t t_await_tid(_Atomic pid_t *from)
{
    uint64_t end = deadline_ns();
    pid_t tid;
    while (!(tid = atomic_load(from))) {
        if (t_now_ns() > end)
            t_fail("a thread did not start in time");
        t_sleep_ms(1);
    }
    return tid;
}

void t_await(_Atomic int *value, int at_least)
{
    uint64_t end = deadline_ns();
    while (atomic_load(value) < at_least) {
        if (t_now_ns() > end)
            t_fail("a counter stayed at %d, wanted %d", atomic_load(value), at_least);
        t_sleep_ms(1);
    }
}

bool t_task_file(pid_t tid, const char *name, char *to, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, to, size - 1);
    close(fd);
    if (n < 0)
        return false;
    to[n] = '\0';
    return true;
}

bool t_status_field(pid_t tid, const char *field, char *value, size_t size)
{
    char text[4096];
    char key[64];

    if (!t_task_file(tid, "status", text, sizeof(text)))
        return false;
    snprintf(key, sizeof(key), "\n%s:\t", field);
    const char *at = strstr(text, key);
    if (!at)
        return false;
    at += strlen(key);
    snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
    return true;
}

/* How often the thread was switched in: third field of schedstat. */
static bool switches(pid_t tid, unsigned long long *count)
{
    char text[128];
    return t_task_file(tid, "schedstat", text, sizeof(text)) && sscanf(text, "%*u %*u %llu", count) == 1;
}

void t_await_blocked(pid_t tid, long number)
{
    uint64_t end = deadline_ns();
    char text[256] = "";

    while (t_now_ns() < end) {
        unsigned long long before, after;
        char again[256];
        long seen;
        if (switches(tid, &before) && t_task_file(tid, "syscall", text, sizeof(text)) &&
            sscanf(text, "%ld", &seen) == 1 &&
            (number == -1   ? seen >= 0
             : number == -2 ? seen == -1
                            : seen == number)) {
            t_sleep_ms(1);
            if (t_task_file(tid, "syscall", again, sizeof(again)) && !strcmp(text, again) &&
                switches(tid, &after) && before == after)
                return;
        }
        t_sleep_ms(1);
    }
    t_fail("thread %d is not blocked in system call %ld: %s", (int)tid, number, text);
}

void t_await_running(pid_t tid)
{
    uint64_t end = deadline_ns();
    char text[512];

    while (t_now_ns() < end) {
        char state;
        if (t_task_file(tid, "stat", text, sizeof(text)) && strrchr(text, ')') &&
            sscanf(strrchr(text, ')'), ") %c", &state) == 1 && state == 'R' &&
            t_task_file(tid, "syscall", text, sizeof(text)) && !strncmp(text, "running", 7))
            return;
        t_sleep_ms(1);
    }
    t_fail("thread %d is not running", (int)tid);
}

/* The known chain */

struct chain {
    int depth;
    t_leaf leaf;
    void *argument;
};

#define CHAIN_FUNCTION(n, next)                                                      \
    T_FRAME long chain_##n(const struct chain *chain);                               \
    T_FRAME long chain_##n(const struct chain *chain)                                \
    {                                                                                \
        long result = chain->depth > n ? next(chain) : chain->leaf(chain->argument); \
        T_NO_TAIL_CALL();                                                            \
        return result;                                                               \
    }                                                                                \
    struct chain /* so that a use ends in a semicolon like any declaration */

static long chain_end(const struct chain *chain)
{
    t_fail("chain of depth %d is too deep", chain->depth);
}

CHAIN_FUNCTION(32, chain_end);
CHAIN_FUNCTION(31, chain_32);
CHAIN_FUNCTION(30, chain_31);
CHAIN_FUNCTION(29, chain_30);
CHAIN_FUNCTION(28, chain_29);
CHAIN_FUNCTION(27, chain_28);
CHAIN_FUNCTION(26, chain_27);
CHAIN_FUNCTION(25, chain_26);
CHAIN_FUNCTION(24, chain_25);
CHAIN_FUNCTION(23, chain_24);
CHAIN_FUNCTION(22, chain_23);

CHAIN_FUNCTION(21, chain_22);
CHAIN_FUNCTION(20, chain_21);
CHAIN_FUNCTION(19, chain_20);

CHAIN_FUNCTION(18, chain_19);
CHAIN_FUNCTION(17, chain_18);
CHAIN_FUNCTION(16, chain_17);

CHAIN_FUNCTION(15, chain_16);
CHAIN_FUNCTION(14, chain_15);
CHAIN_FUNCTION(13, chain_14);

CHAIN_FUNCTION(12, chain_13);
CHAIN_FUNCTION(11, chain_12);
CHAIN_FUNCTION(10, chain_11);

CHAIN_FUNCTION(9, chain_10);
CHAIN_FUNCTION(8, chain_9);
CHAIN_FUNCTION(7, chain_8);

CHAIN_FUNCTION(6, chain_7);
CHAIN_FUNCTION(5, chain_6);
CHAIN_FUNCTION(4, chain_5);

CHAIN_FUNCTION(3, chain_4);
CHAIN_FUNCTION(2, chain_3);
CHAIN_FUNCTION(1, chain_2);

/* Not a frame of the chain: it disappears into its caller. */
static inline __attribute__((always_inline)) long chain_start(const struct chain *chain)
{
    return chain->depth > 0 ? chain_1(chain) : chain->leaf(chain->argument);
}

T_FRAME long t_chain(int depth, t_leaf leaf, void *argument)
{
    const struct chain chain = {.depth = depth, .leaf = leaf, .argument = argument};
    if (depth > T_CHAIN_MAX)
        t_fail("chain depth %d is over %d", depth, T_CHAIN_MAX);
    long result = chain_start(&chain);
    T_NO_TAIL_CALL();
    return result;
}

/* Plug-in libraries */

const char *t_directory(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        t_fail("/proc/self/exe: %m");
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    return path;
}

void *t_dlopen(const char *name)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", t_directory(), name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        t_fail("%s", dlerror());
    return library;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "--list")) {
        for (int t = 0; t < N_TABLES; t++)
            for (const struct t_scenario *s = tables[t]; s->name; s++)
                printf("%-16s %-16s %s\n", s->name, s->story, s->describe);
        return 0;
    }
    bool query = argc >= 3 && !strncmp(argv[1], "--", 2);
    const struct t_scenario *scenario = argc >= 2 ? find_scenario(argv[query ? 2 : 1]) : NULL;
    if (!scenario) {
        fprintf(
            stderr,
            "usage: target SCENARIO [key=value...] | --list | --describe SCENARIO | --available SCENARIO\n");
        return 64;
    }
    if (query && !strcmp(argv[1], "--describe")) {
        printf("%s\n", scenario->describe);
        return 0;
    }
    const char *reason = scenario->unavailable ? scenario->unavailable() : NULL;
    if (reason) {
        printf("%s\n", reason);
        return 77;
    }
    if (query)
        return strcmp(argv[1], "--available") ? 64 : 0;
    parse_params(argc - 2, argv + 2);
    current = scenario;
    int result = scenario->run();
    T_NO_TAIL_CALL();
    return result;
}
