/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The unwinder on this very process: chains of calls with known return addresses, through libc callbacks,
 * signal handlers and odd frames. Compiled several times with other flags (meson.build). Zone: tests.
 */
#include <alloca.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <elf.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unwind/self.h"
#include "unwind/cfi.h"
#include "unwind/ehframe.h"
#include "unwind/rule.h"
#include "unwind/symbols.h"

TestSuite(step_live, .timeout = 20);

#define MAX 64

static struct self self;
static struct uw_rule_cache cache;

/* What each function of the chain expects: the address that it will return to, innermost first. */
static uint64_t expected[MAX];
static size_t n_expected;

static struct {
    uint64_t pcs[MAX];
    size_t n;
    size_t n_signal_frames;
    enum uw_status status;
    enum uw_trust worst;
} seen;

#define NOINLINE __attribute__((noinline))
#define NOTE_RETURN() (expected[n_expected++] = (uint64_t)(uintptr_t)__builtin_return_address(0))

static void walk(struct uw_cursor *cursor)
{
    memset(&seen, 0, sizeof(seen));
    while (seen.n < MAX) {
        seen.pcs[seen.n++] = cursor->regs.pc;
        seen.status = uw_step(&self.space, cursor);
        if (seen.status != UW_OK)
            break;
        seen.n_signal_frames += cursor->signal_frame;
        if (cursor->trust > seen.worst)
            seen.worst = cursor->trust;
    }
}

/* The noted return addresses appear in the walk in order; libc may have frames of its own in between. */
static void assert_expected(size_t signal_frames)
{
    size_t at = n_expected;

    for (size_t i = 0; i < seen.n && at > 0; i++) {
        if (seen.pcs[i] == expected[at - 1])
            at--;
    }
    cr_assert(zero(sz, at), "%zu of %zu return addresses were not met", at, n_expected);
    cr_assert(eq(int, seen.status, UW_END), "%s", uw_status_text(seen.status));
    cr_assert(eq(sz, seen.n_signal_frames, signal_frames));
    cr_assert(le(int, seen.worst, UW_TRUST_CFI));
}

static void start(void)
{
    self_init(&self);
    self.space.cache = &cache;
    uw_rule_cache_clear(&cache);
    n_expected = 0;
}

static NOINLINE int leaf(int a)
{
    struct uw_cursor cursor;

    NOTE_RETURN();
    SELF_CURSOR(&cursor);
    walk(&cursor);
    return a + 1;
}

static NOINLINE int middle(int a)
{
    volatile char space[100] = {0};

    NOTE_RETURN();
    return leaf(a) + space[a & 63];
}

static NOINLINE int outer(int a, int b, int c)
{
    int r;

    NOTE_RETURN();
    r = middle(a) * b;
    return r + c;
}

Test(step_live, nested_calls)
{
    start();
    outer(1, 2, 3);
    assert_expected(0);
}

/* Where the loader put us, three frames may share one set of the cache: then one of them is always cold. */
static bool cache_can_hold(void)
{
    for (size_t i = 0; i < seen.n; i++) {
        size_t n = 0;

        for (size_t k = 0; k < seen.n; k++)
            n += rule_cache_set(&cache, seen.pcs[k] - (k > 0)) ==
                 rule_cache_set(&cache, seen.pcs[i] - (i > 0));
        if (n > RULE_CACHE_WAYS)
            return false;
    }
    return true;
}

/* Called from one place, so that both walks see the same addresses. */
static NOINLINE size_t count_table_reads(void)
{
    size_t before = self.n_table_reads;

    n_expected = 0;
    outer(1, 2, 3);
    assert_expected(0);
    return self.n_table_reads - before;
}

Test(step_live, warm_walk_equals_the_cold_one_and_reads_no_table)
{
    uint64_t pcs[MAX];
    size_t n = 0, reads[2];

    start();
    for (volatile int i = 0; i < 2; i++) {
        reads[i] = count_table_reads();
        if (i == 0) {
            n = seen.n;
            memcpy(pcs, seen.pcs, sizeof(pcs));
        }
    }
    cr_assert(eq(sz, seen.n, n));
    cr_assert(zero(int, memcmp(pcs, seen.pcs, n * sizeof(pcs[0]))));
    cr_assert(gt(sz, reads[0], n));
    if (cache_can_hold())
        cr_assert(zero(sz, reads[1]));
}

static NOINLINE int with_alloca(int n)
{
    char *p;
    int r;

    NOTE_RETURN();
    p = alloca((size_t)n);
    memset(p, 1, (size_t)n);
    r = middle(n & 1);
    return r + p[n / 2];
}

Test(step_live, frames_of_variable_size)
{
    start();
    with_alloca(1000);
    assert_expected(0);
}

struct wide {
    _Alignas(64) char bytes[64];
};

static NOINLINE int realigned(int a, int b, int c, int d, int e, int f, int g, int h)
{
    volatile struct wide w = {{0}};
    char *p;

    NOTE_RETURN();
    p = alloca((size_t)(a + 10));
    p[0] = (char)middle(a);
    return w.bytes[a] + p[0] + b + c + d + e + f + g + h;
}

Test(step_live, over_aligned_frames)
{
    start();
    realigned(1, 2, 3, 4, 5, 6, 7, 8);
    assert_expected(0);
}

static NOINLINE int many_registers(int n)
{
    volatile int v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5];

    NOTE_RETURN();
    if (n > 0)
        a += many_registers(n - 1);
    else
        b += leaf(c);
    return a + b * c + d * e * f;
}

Test(step_live, recursion)
{
    start();
    many_registers(20);
    assert_expected(0);
}

static int walked;

static int compare(const void *a, const void *b)
{
    (void)a, (void)b;
    if (!walked++) {
        NOTE_RETURN();
        middle(1);
    }
    return *(const int *)a - *(const int *)b;
}

static NOINLINE int sort(void)
{
    int values[] = {3, 1, 2};

    NOTE_RETURN();
    walked = 0;
    qsort(values, 3, sizeof(values[0]), compare);
    return values[0];
}

Test(step_live, through_qsort)
{
    start();
    sort();
    assert_expected(0);
}

static void handler(int signal)
{
    if (signal == SIGUSR1)
        raise(SIGUSR2);
    else
        middle(signal);
}

static NOINLINE int raise_it(int signal)
{
    NOTE_RETURN();
    raise(signal);
    return signal;
}

static void install(int signal, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    cr_assert(zero(int, sigaction(signal, &action, NULL)));
}

Test(step_live, through_a_signal_handler)
{
    start();
    install(SIGUSR2, 0);
    raise_it(SIGUSR2);
    assert_expected(1);
}

Test(step_live, through_nested_handlers)
{
    start();
    install(SIGUSR1, 0);
    install(SIGUSR2, 0);
    raise_it(SIGUSR1);
    assert_expected(2);
}

/* The alternate stack lies above (heap would be below) the interrupted one, and below it. */
Test(step_live, through_a_handler_on_an_alternate_stack)
{
    static char below[65536];
    char above[65536];

    for (int i = 0; i < 2; i++) {
        stack_t stack = {.ss_sp = i ? above : below, .ss_size = sizeof(below)};

        start();
        cr_assert(zero(int, sigaltstack(&stack, NULL)));
        install(SIGUSR2, SA_ONSTACK);
        raise_it(SIGUSR2);
        assert_expected(1);
    }
}

/* A fault at a known instruction: the interrupted pc is exact, the walk goes on from it. */
static uint64_t fault_pc;
static char *volatile nowhere = (char *)8;

static void fault_handler(int signal, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;

    (void)signal, (void)info;
    fault_pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
    middle(0);
    nowhere = (char *)&walked;
    uc->uc_mcontext.gregs[REG_RAX] = (greg_t)(uintptr_t)nowhere;
}

static NOINLINE int fault(void)
{
    int r;

    NOTE_RETURN();
    __asm__ volatile("movsbl (%%rax), %0" : "=r"(r) : "a"(nowhere));
    return r;
}

Test(step_live, interrupted_at_a_fault)
{
    struct sigaction action = {.sa_sigaction = fault_handler, .sa_flags = SA_SIGINFO};
    bool met = false;

    start();
    cr_assert(zero(int, sigaction(SIGSEGV, &action, NULL)));
    fault();
    for (size_t i = 0; i < seen.n; i++)
        met |= seen.pcs[i] == fault_pc;
    cr_assert(met);
    assert_expected(1);
}

static void *thread(void *argument)
{
    (void)argument;
    outer(1, 2, 3);
    return NULL;
}

Test(step_live, thread_ends_at_clone)
{
    pthread_t t;

    start();
    cr_assert(zero(int, pthread_create(&t, NULL, thread, NULL)));
    pthread_join(t, NULL);
    assert_expected(0);
}

/* The jump that a null function pointer makes, in a handler of the fault. */
static int (*volatile null_function)(int);
static uint64_t null_return;

static void null_handler(int signal, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    uint64_t *sp = (uint64_t *)(uintptr_t)uc->uc_mcontext.gregs[REG_RSP];

    (void)signal, (void)info;
    middle(0);
    null_return = *sp;
    uc->uc_mcontext.gregs[REG_RIP] = (greg_t)*sp;
    uc->uc_mcontext.gregs[REG_RSP] += 8;
}

static NOINLINE int call_null(void)
{
    NOTE_RETURN();
    return null_function(1) + 1;
}

Test(step_live, call_through_a_null_pointer)
{
    struct sigaction action = {.sa_sigaction = null_handler, .sa_flags = SA_SIGINFO};
    bool met = false;

    start();
    cr_assert(zero(int, sigaction(SIGSEGV, &action, NULL)));
    call_null();
    for (size_t i = 0; i < seen.n; i++)
        met |= seen.pcs[i] == null_return;
    cr_assert(met);
    cr_assert(eq(int, seen.status, UW_END));
    cr_assert(eq(int, seen.worst, UW_TRUST_INFERRED));
}

struct vdso {
    uint64_t base;
};

static bool read_vdso(void *context, uint64_t offset, void *to, size_t size)
{
    const struct vdso *v = context;

    if (offset + size > 8192 || offset + size < offset)
        return false;
    memcpy(to, (const void *)(uintptr_t)(v->base + offset), size);
    return true;
}

/* Every function that the vDSO exports has a row at its first byte: CFA = rsp + 8. */
Test(step_live, vdso_has_rows)
{
    struct self_module *m = NULL;
    size_t n = 0;

    start();
    for (size_t i = 0; i < self.n_modules; i++) {
        if (strstr(self.modules[i].name, "vdso"))
            m = &self.modules[i];
    }
    cr_assert(ne(ptr, m, NULL));
    struct vdso v = {m->image.start};
    struct elf_reader reader = {&v, read_vdso};
    struct elf_file file;

    cr_assert(eq(int, elf_read_file(&reader, &file), ELF_OK));
    for (uint64_t i = 0; i < file.dynsym.count; i++) {
        Elf64_Sym symbol;
        struct eh_fde fde;
        struct cfi_row row;
        uint64_t pc;

        cr_assert(read_vdso(&v, file.dynsym.symbols + i * sizeof(symbol), &symbol, sizeof(symbol)));
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF)
            continue;
        pc = m->image.bias + symbol.st_value;
        cr_expect(eq(int, eh_find_fde(&self.space, &m->module, pc, &fde), UW_OK));
        cr_expect(eq(int, cfi_row_at(&self.space, &fde, pc, &row), UW_OK));
        cr_expect(eq(i64, row.cfa_value, 8));
        n++;
    }
    cr_assert(gt(sz, n, 3));
}
