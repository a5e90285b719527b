/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures and unwinds its own threads and prints what it cost: the capture stage alone, without server and
 * wire. own_threads [threads [frames [spinning]]]
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture.h"
#include "agent/sys.h"
#include "agent/walk.h"

static pthread_barrier_t ready;
static int idle_pipe[2];

static __attribute__((noinline, noclone, optimize("no-inline"))) int deep(int depth, bool spin)
{
    char c;

    if (depth > 0) {
        int result = deep(depth - 1, spin);

        __asm__ volatile("" : "+r"(result)); /* not a tail call, and not a loop */
        return result;
    }
    pthread_barrier_wait(&ready);
    while (spin)
        __asm__ volatile("pause");
    return (int)read(idle_pipe[0], &c, 1);
}

static int frames = 20;

static void *sleeper(void *spin)
{
    deep(frames, spin != NULL);
    return NULL;
}

static void take(void *context, struct thread_sample *sample, const struct raw_context *raw)
{
    sample->stack = walk_unwind(context, raw);
}

static uint64_t own_cpu_nanos(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void dump(struct arena *arena, struct modules *modules, struct memory *memory, bool print)
{
    struct snapshot snapshot = {0};
    struct walk walk;
    struct capture_session session = {.task_fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY),
                                      .pid = getpid(),
                                      .self_tid = (int32_t)gettid(),
                                      .main_tid = getpid(),
                                      .max_stack = SNAPSHOT_MAX_STACK,
                                      .deadline = sys_monotonic_nanos() + 5000000000u,
                                      .running = &backend_signal,
                                      .memory = memory,
                                      .modules = modules,
                                      .arena = arena,
                                      .stats = &snapshot.stats,
                                      .take = take,
                                      .take_context = &walk};
    uint64_t start = sys_monotonic_nanos(), cpu = own_cpu_nanos(), listed, done;
    uint32_t ends[UW_STATUS_N] = {0}, reasons[REASON_N] = {0};
    size_t mark = arena->used;

    if (capture_list(&session, &snapshot.threads, &snapshot.n_threads) < 0)
        exit(1);
    listed = sys_monotonic_nanos();
    if (walk_init(&walk, &snapshot, modules, memory, arena, snapshot.n_threads) < 0)
        exit(1);
    capture_threads(&session, snapshot.threads, snapshot.n_threads);
    done = sys_monotonic_nanos();
    cpu = own_cpu_nanos() - cpu; /* what it costs when the machine is busy with others */
    for (uint32_t i = 0; i < snapshot.n_threads; i++) {
        reasons[snapshot.threads[i].reason]++;
        if (snapshot.threads[i].stack >= 0)
            ends[snapshot.stacks[snapshot.threads[i].stack].end]++;
    }
    if (print) {
        printf("{\"threads\": %u, \"captured\": %u, \"dropped\": %u, \"signals\": %u, \"list_us\": %.1f, "
               "\"capture_us\": %.1f, \"us_per_thread\": %.2f, \"cpu_us_per_thread\": %.2f, \"pause_us\": "
               "%.1f, \"pause_max_us\": %.1f, "
               "\"stacks\": %u, \"frames\": %u, \"arena_kib\": %zu",
               snapshot.stats.threads_total, snapshot.stats.threads_captured, snapshot.stats.threads_dropped,
               snapshot.stats.signals_sent, (listed - start) / 1e3, (done - listed) / 1e3,
               (done - start) / 1e3 / snapshot.n_threads, cpu / 1e3 / snapshot.n_threads,
               snapshot.stats.pause_nanos / 1e3, snapshot.stats.pause_nanos_max / 1e3, snapshot.n_stacks,
               snapshot.n_frames, arena->used / 1024);
        for (unsigned i = 0; i < UW_STATUS_N; i++)
            if (ends[i])
                printf(", \"%s\": %u", uw_status_text(i), ends[i]);
        for (unsigned i = 1; i < REASON_N; i++)
            if (reasons[i])
                printf(", \"reason %u\": %u", i, reasons[i]);
        printf("}\n");
    }
    close(session.task_fd);
    arena->used = mark;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1000, spinning = argc > 3 ? atoi(argv[3]) : 0;
    struct arena arena = {.size = 64 << 20};
    struct memory memory = {.pid = (int32_t)gettid(),
                            .directory = open("/proc/thread-self", O_RDONLY | O_DIRECTORY),
                            .mem_fd = -1};
    struct modules modules;
    pthread_attr_t attr;

    if (argc > 2)
        frames = atoi(argv[2]);
    arena.base =
        mmap(NULL, arena.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory.pages = arena_array(&arena, MEMORY_CACHED_PAGES, sizeof(*memory.pages));
    memory_forget(&memory);
    if (pipe(idle_pipe) < 0)
        return 1;
    pthread_barrier_init(&ready, NULL, (unsigned)(threads + spinning + 1));
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    for (int i = 0; i < threads + spinning; i++) {
        pthread_t thread;

        if (pthread_create(&thread, &attr, sleeper, i < threads ? NULL : argv))
            return 1;
    }
    pthread_barrier_wait(&ready);
    usleep(50000);
    if (unshare(CLONE_FILES) < 0) /* as the agent does: a table of one's own also makes every call cheaper */
        return 1;
    if (modules_load(&modules, &memory, &arena) < 0)
        return 1;
    signal_backend_init(0);
    for (int i = 0; i < (getenv("DUMPS") ? atoi(getenv("DUMPS")) : 5); i++)
        dump(&arena, &modules, &memory, true);
    return 0;
}
