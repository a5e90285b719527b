/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/names.c: why a module's names are missing is said as it is; the file is blamed only for its own
 * faults. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/names.h"
#include "agent/sys.h"

TestSuite(names, .timeout = 20);

#define DEADLINE UINT64_C(1000000000)

static struct {
    struct arena arena;
    struct memory memory;
    struct modules modules;
    struct snapshot snapshot;
    struct frame frame;
} own;

static int reads, last_read; /* reads of the file so far; the one that the world ends with */
static enum { FAILS, ENDS, LATE } world;

/* The own program's file, from the last_read-th read on. */
static bool play(long number, const long args[6], long *ret_result)
{
    if (number == SYS_clock_gettime) {
        uint64_t now = world == LATE && reads >= last_read ? DEADLINE : 0;

        *(struct timespec *)args[1] = (struct timespec){.tv_sec = (time_t)(now / 1000000000)};
        *ret_result = 0;
        return true;
    }
    if (number != SYS_pread64)
        return false;
    *ret_result = world == FAILS ? -EIO : 0;
    return ++reads > last_read && world != LATE;
}

/* One frame of this program. */
static void prepare(void)
{
    uint64_t here = (uintptr_t)prepare;
    int32_t module;

    own.arena = (struct arena){.base = malloc(32 << 20), .size = 32 << 20};
    own.memory = (struct memory){
        .pid = sys_gettid(), .directory = open("/proc/thread-self", O_RDONLY | O_DIRECTORY), .mem_fd = -1};
    cr_assert(eq(int, modules_load(&own.modules, &own.memory, &own.arena), 0));
    module = modules_find(&own.modules, here);
    cr_assert(ge(i32, module, 0));
    own.frame = (struct frame){.pc = here,
                               .module = module,
                               .offset = here - own.modules.report[module].base,
                               .exact = true,
                               .symbol = -1};
    own.snapshot = (struct snapshot){.modules = own.modules.report,
                                     .n_modules = own.modules.n_modules,
                                     .frames = &own.frame,
                                     .n_frames = 1};
}

static bool resolve(void)
{
    return names_resolve(&own.snapshot, &own.modules, &own.memory, &own.arena, DEADLINE);
}

static enum module_symbols outcome(void)
{
    return own.snapshot.modules[own.frame.module].symbols;
}

/* How many reads does it take when nothing is wrong? Also shows that the frame has a name then. */
static int count_reads(void)
{
    prepare();
    reads = 0;
    last_read = INT32_MAX;
    sys_hook = play;
    cr_assert(resolve());
    sys_hook = NULL;
    cr_assert(ge(i32, own.frame.symbol, 0));
    cr_expect(eq(str, (char *)own.snapshot.symbols[own.frame.symbol].name, "prepare"));
    return reads;
}

static void break_at(int read, int what)
{
    prepare();
    reads = 0;
    last_read = read;
    world = what;
}

Test(names, a_file_that_cannot_be_read_is_not_called_malformed)
{
    int n = count_reads();

    for (int at = 0; at < n - 1; at++) {
        break_at(at, FAILS);
        sys_hook = play;
        cr_expect(resolve());
        sys_hook = NULL;
        cr_expect(eq(int, outcome(), SYMBOLS_UNREADABLE), "read %d of %d", at, n);
    }
}

Test(names, what_is_cut_off_by_the_deadline_is_not_called_malformed)
{
    int n = count_reads();

    for (int at = 1; at < n - 1; at++) {
        break_at(at, LATE);
        sys_hook = play;
        cr_expect(not(resolve()), "the caller must say that names are missing");
        sys_hook = NULL;
        cr_expect(eq(int, outcome(), SYMBOLS_NOT_LOOKED), "read %d of %d", at, n);
    }
}

Test(names, a_file_that_ends_in_its_tables_is_malformed)
{
    int n = count_reads();

    for (int at = 0; at < n - 1; at++) {
        break_at(at, ENDS);
        sys_hook = play;
        cr_expect(resolve());
        sys_hook = NULL;
        cr_expect(eq(int, outcome(), SYMBOLS_MALFORMED), "read %d of %d", at, n);
    }
}
