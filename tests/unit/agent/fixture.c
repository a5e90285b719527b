/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/procfs.h"

static struct fixture *fixtures;

static void take(void *context, struct thread_sample *sample, const struct raw_context *raw)
{
    struct fixture *fixture = context;
    struct taken *taken = &fixture->taken[fixture->n_taken++ % N_ELEMENTS(fixture->taken)];

    taken->tid = sample->os_tid;
    taken->raw = *raw;
    for (unsigned i = 0; i < 2; i++) {
        free(taken->bytes[i]);
        taken->bytes[i] = malloc(raw->window[i].size + 1);
        memcpy(taken->bytes[i], raw->window[i].bytes ? raw->window[i].bytes : (const uint8_t *)"",
               raw->window[i].size);
    }
    sample->stack = 0;
    if (fixture->on_take)
        fixture->on_take(fixture, raw);
}

struct fixture *fixture_new(void)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    fixture->next = fixtures;
    fixtures = fixture;
    fixture->arena.size = 32 << 20;
    fixture->arena.base = mmap(NULL, fixture->arena.size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(fixture->arena.base != MAP_FAILED);
    fixture->memory = (struct memory){.pid = (int32_t)gettid(),
                                      .directory = open("/proc/thread-self", O_RDONLY | O_DIRECTORY),
                                      .mem_fd = -1};
    cr_assert(modules_load(&fixture->modules, &fixture->memory, &fixture->arena) == 0);
    fixture->session = (struct capture_session){.task_fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY),
                                                .pid = getpid(),
                                                .self_tid = (int32_t)gettid(),
                                                .main_tid = getpid(),
                                                .max_stack = SNAPSHOT_MAX_STACK,
                                                .running = &backend_signal,
                                                .memory = &fixture->memory,
                                                .modules = &fixture->modules,
                                                .arena = &fixture->arena,
                                                .stats = &fixture->stats,
                                                .take = take,
                                                .take_context = fixture};
    cr_assert(fixture->session.task_fd >= 0);
    fixture->session.deadline = sys_monotonic_nanos() + UINT64_C(4000000000);
    return fixture;
}

void fixture_capture(struct fixture *fixture)
{
    cr_assert(eq(int, capture_list(&fixture->session, &fixture->threads, &fixture->n_threads), 0));
    capture_threads(&fixture->session, fixture->threads, fixture->n_threads);
}

void fixture_forget(struct fixture *fixture)
{
    fixture->n_taken = 0;
    fixture->stats = (struct snapshot_stats){0};
}

struct thread_sample *fixture_sample(struct fixture *fixture, int32_t tid)
{
    for (uint32_t i = 0; i < fixture->n_threads; i++)
        if (fixture->threads[i].os_tid == tid)
            return &fixture->threads[i];
    cr_assert(false, "thread %d is not listed", tid);
    abort();
}

struct taken *fixture_taken(struct fixture *fixture, int32_t tid)
{
    for (unsigned i = fixture->n_taken; i-- > 0;)
        if (fixture->taken[i].tid == tid)
            return &fixture->taken[i];
    cr_assert(false, "thread %d has no context", tid);
    abort();
}

__attribute__((no_sanitize("address"))) bool same_as_memory(const uint8_t *bytes, uint64_t address,
                                                            size_t size)
{
    const volatile uint8_t *memory = (const volatile uint8_t *)address;

    for (size_t i = 0; i < size; i++)
        if (bytes[i] != memory[i])
            return false;
    return true;
}

static void *run(void *argument)
{
    struct worker *worker = argument;

    worker->tid = (int32_t)gettid();
    worker->body(worker);
    worker->returned = true;
    return NULL;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

void worker_start(struct worker *worker)
{
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    if (worker->stack)
        pthread_attr_setstack(&attr, worker->stack, worker->stack_size);
    else
        pthread_attr_setstacksize(&attr, worker->stack_size ? worker->stack_size : 256 * 1024);
    cr_assert(pthread_create(&worker->thread, &attr, run, worker) == 0);
    while (!worker->tid)
        nap();
}

void worker_stop(struct worker *worker)
{
    worker->stop = true;
    pthread_join(worker->thread, NULL);
}

int64_t worker_syscall_number(const struct worker *worker)
{
    char path[64], text[256];
    struct procfs_syscall line;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", worker->tid);
    fd = open(path, O_RDONLY);
    cr_assert(fd >= 0);
    n = read(fd, text, sizeof(text));
    close(fd);
    cr_assert(n > 0 && procfs_parse_syscall(text, (size_t)n, &line), "%.*s", (int)n, text);
    return line.kind == PROCFS_SYSCALL_RUNNING ? -2 : line.number;
}

void worker_wait_asleep(const struct worker *worker)
{
    unsigned quiet = 0;

    /* twice, so that a short wait on the way is not taken for the long one */
    while (quiet < 3) {
        quiet = worker_syscall_number(worker) == -2 ? 0 : quiet + 1;
        nap();
    }
}

void worker_wait_running(const struct worker *worker)
{
    while (worker_syscall_number(worker) != -2)
        nap();
}

void worker_spin(struct worker *worker)
{
    while (!worker->stop)
        __asm__ volatile("pause");
}

bool path_ends(long path, const char *end)
{
    const char *text = (const char *)path;
    size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}
