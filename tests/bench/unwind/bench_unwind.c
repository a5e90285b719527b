/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Nanoseconds per frame over one stack of this process, in one run: uw_step() with a warm cache and without a
 * cache, libunwind's unw_step() with its per-thread cache, and libdwfl reading the same memory. Prints one
 * line of JSON. Zone: tests.
 */
#define UNW_LOCAL_ONLY
#include <elfutils/libdwfl.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/unwind/self.h"
#include "unwind/rule.h"

#define DEPTH 20
#define ROUNDS 41

static struct self self;
static struct uw_rule_cache cache;
static struct uw_cursor start;
static unw_context_t unw_start;
static Dwfl *dwfl;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Each walk returns how many frames it saw. */
static size_t walk_probe(void)
{
    struct uw_cursor cursor = start;
    size_t n = 1;

    while (uw_step(&self.space, &cursor) == UW_OK)
        n++;
    return n;
}

static size_t walk_probe_warm(void)
{
    self.space.cache = &cache;
    return walk_probe();
}

static size_t walk_probe_uncached(void)
{
    self.space.cache = NULL;
    return walk_probe();
}

static size_t walk_libunwind(void)
{
    unw_cursor_t cursor;
    size_t n = 1;

    unw_init_local(&cursor, &unw_start);
    while (unw_step(&cursor) > 0)
        n++;
    return n;
}

/* Its fastest path, which keeps pc, sp and rbp only, has its own cache and takes no lock. From here, not from
 * start. */
static size_t walk_libunwind_backtrace(void)
{
    void *pcs[64];

    return (size_t)unw_backtrace(pcs, 64);
}

static pid_t next_thread(Dwfl *d, void *arg, void **thread_arg)
{
    (void)d;
    if (*thread_arg)
        return 0;
    *thread_arg = arg;
    return getpid();
}

static bool get_thread(Dwfl *d, pid_t tid, void *arg, void **thread_arg)
{
    (void)d, (void)tid;
    *thread_arg = arg;
    return true;
}

static bool memory_read(Dwfl *d, Dwarf_Addr address, Dwarf_Word *result, void *arg)
{
    (void)d, (void)arg;
    memcpy(result, (const void *)(uintptr_t)address, sizeof(*result));
    return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    Dwarf_Word words[17];

    (void)arg;
    for (unsigned i = 0; i < 16; i++)
        words[i] = start.regs.value[i];
    words[16] = start.regs.pc;
    return dwfl_thread_state_registers(thread, 0, 17, words);
}

static int count_frame(Dwfl_Frame *frame, void *arg)
{
    (void)frame;
    ++*(size_t *)arg;
    return DWARF_CB_OK;
}

static size_t walk_libdwfl(void)
{
    size_t n = 0;

    dwfl_getthread_frames(dwfl, getpid(), count_frame, &n);
    return n;
}

static bool open_libdwfl(void)
{
    static char *debuginfo_path;
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .debuginfo_path = &debuginfo_path};
    static const Dwfl_Thread_Callbacks threads = {.next_thread = next_thread,
                                                  .get_thread = get_thread,
                                                  .memory_read = memory_read,
                                                  .set_initial_registers = set_registers};

    dwfl = dwfl_begin(&callbacks);
    return dwfl && dwfl_linux_proc_report(dwfl, getpid()) == 0 && dwfl_report_end(dwfl, NULL, NULL) == 0 &&
           dwfl_attach_state(dwfl, NULL, getpid(), &threads, &self);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const char *name, size_t (*walk)(void), size_t walks, const char *separator)
{
    double samples[ROUNDS];
    size_t frames = walk();

    for (int round = 0; round < ROUNDS; round++) {
        double begin = now();

        for (size_t i = 0; i < walks; i++)
            frames = walk();
        samples[round] = (now() - begin) / (double)(walks * frames);
    }
    qsort(samples, ROUNDS, sizeof(samples[0]), by_value);
    printf(
        "\"%s\": {\"frames\": %zu, \"n\": %zu, \"min\": %.1f, \"p50\": %.1f, \"p95\": %.1f, \"max\": %.1f}%s",
        name, frames, walks * ROUNDS, samples[0], samples[ROUNDS / 2], samples[ROUNDS * 95 / 100],
        samples[ROUNDS - 1], separator);
}

static void run(void)
{
    struct utsname machine;

    uname(&machine);
    printf("{\"name\": \"unwind_step\", \"unit\": \"ns/frame\", \"kernel\": \"%s\", \"machine\": \"%s\", ",
           machine.release, machine.machine);
    measure("probe_warm", walk_probe_warm, 2000, ", ");
    measure("libunwind_warm", walk_libunwind, 2000, ", ");
    measure("libunwind_backtrace", walk_libunwind_backtrace, 2000, ", ");
    measure("probe_uncached", walk_probe_uncached, 50, ", ");
    measure("libdwfl", walk_libdwfl, 20, "}\n");
}

/* Two functions call each other, so that return addresses and frame sizes differ; +1 defeats the tail call.
 */
static int down_small(int depth);

static __attribute__((noinline)) int down_large(int depth)
{
    volatile char space[200] = {0};

    return down_small(depth - 1) + 1 + space[depth];
}

static __attribute__((noinline)) int down_small(int depth)
{
    if (depth > 0)
        return down_large(depth - 1) + 1;
    SELF_CURSOR(&start);
    unw_getcontext(&unw_start);
    run();
    return 1;
}

int main(void)
{
    self_init(&self);
    self.direct = true;
    uw_rule_cache_clear(&cache);
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
    if (!open_libdwfl()) {
        fprintf(stderr, "libdwfl: %s\n", dwfl_errmsg(-1));
        return 1;
    }
    return down_small(DEPTH - 4) > 0 ? 0 : 1;
}
