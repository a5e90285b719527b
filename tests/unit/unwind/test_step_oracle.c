/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The single-step oracle: a child runs some ordinary code one instruction at a time; calls, returns and
 * signals are noted on a shadow stack; after every instruction uw_step() must say the same. Prologues,
 * epilogues, PLT entries, the lazy resolver and the signal trampoline are all met at each of their
 * instructions. Prints TAP. Zone: tests.
 */
#include <alloca.h>
#include <math.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/unwind/self.h"
#include "unwind/rule.h"

#define MAX_DEPTH 256
#define MAX_SHOWN 20
#define FULL_WALK_EVERY 64

/* Built without CFI but with frame pointers, which over-aligned frames do not keep in a simple chain. */
#ifndef WITHOUT_CFI
#define WITHOUT_CFI 0
#endif

/* ---- what the child does ---- */

static volatile int sink;

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void on_signal(int signal)
{
    char text[32];

    sink += snprintf(text, sizeof(text), "%d", signal);
}

static __attribute__((noinline)) int with_alloca(int n)
{
    char *p = alloca((size_t)n);

    memset(p, n, (size_t)n);
    return (int)strnlen(p, (size_t)n);
}

static __attribute__((noinline)) int with_alignment(int n)
{
    _Alignas(64) volatile char wide[128] = {(char)n};

    return with_alloca(n) + wide[n & 1];
}

static __attribute__((noinline)) void match(const char *pattern, const char *text)
{
    regex_t regex;

    if (regcomp(&regex, pattern, REG_EXTENDED) == 0) {
        sink += regexec(&regex, text, 0, NULL, 0);
        regfree(&regex);
    }
}

static __attribute__((noinline)) void read_a_line(const char *path)
{
    char line[256];
    FILE *file = fopen(path, "r");

    if (file) {
        sink += fgets(line, sizeof(line), file) != NULL;
        fclose(file);
    }
}

__attribute__((noinline)) static void scenario(void)
{
    int values[] = {5, 3, 1, 4, 2};
    char text[128];
    time_t then = 1000000000;
    struct tm tm;

    qsort(values, 5, sizeof(values[0]), compare);
    sink += snprintf(text, sizeof(text), "%s %d %f %p", "text", values[0], sqrt(values[1]), (void *)values);
    sink += (int)strtol("123", NULL, 0) + (int)strlen(text);
    sink += with_alloca(WITHOUT_CFI ? 100 : with_alignment(100));
    gmtime_r(&then, &tm);
    sink += (int)strftime(text, sizeof(text), "%F %T", &tm);
    free(realloc(malloc(100), 100000));
    match("^a[bc]+(d|e)*$", "abcbcde");
    read_a_line("/proc/self/stat");
    sink += (int)strtod("123.456e-7", NULL) + (int)pow(1.5, 2.5);
    raise(SIGUSR1);
    sink += (int)write(-1, text, 1) + (int)time(NULL);
}

/* ---- what the parent makes of it ---- */

/* One frame that is being run: where it will go on, and the stack pointer there. */
struct shadow {
    uint64_t pc, cfa;
    bool interrupted; /* by a signal, not by a call */
};

static struct shadow shadow[MAX_DEPTH];
static size_t depth;
static struct self self;
static struct uw_rule_cache cache;
static pid_t child;
static size_t n_steps, n_walks, n_wrong, n_unknown;

static uint64_t child_word(uint64_t address)
{
    uint64_t word = 0;

    self.space.read_stack(&self, address, &word, sizeof(word));
    return word;
}

static void push(uint64_t pc, uint64_t cfa, bool interrupted)
{
    if (depth == MAX_DEPTH)
        abort();
    shadow[depth++] = (struct shadow){pc, cfa, interrupted};
}

static struct user_regs_struct get_regs(void)
{
    struct user_regs_struct regs;

    ptrace(PTRACE_GETREGS, child, NULL, &regs);
    return regs;
}

enum flow { STRAIGHT, CALL, RETURN, SIGRETURN };

static enum flow classify(const struct user_regs_struct *regs)
{
    const uint8_t *code = (const uint8_t *)(uintptr_t)regs->rip;

    while (*code == 0xf2 || *code == 0xf3 || *code == 0x3e || (*code & 0xf0) == 0x40)
        code++;
    if (*code == 0xe8 || (*code == 0xff && (code[1] >> 3 & 7) == 2))
        return CALL;
    if (*code == 0xc3 || *code == 0xc2)
        return RETURN;
    if (code[0] == 0x0f && code[1] == 0x05 && regs->rax == 15)
        return SIGRETURN;
    return STRAIGHT;
}

static struct uw_cursor cursor_of(const struct user_regs_struct *r)
{
    const uint64_t values[16] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp,
                                 r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
    struct uw_cursor cursor = {.pc_kind = UW_PC_EXACT};

    for (unsigned reg = 0; reg < 16; reg++)
        uw_regs_set(&cursor.regs, reg, values[reg]);
    cursor.regs.pc = r->rip;
    return cursor;
}

static void complain(const struct user_regs_struct *regs, const struct uw_cursor *cursor, size_t level,
                     enum uw_status status)
{
    status == UW_OK ? n_wrong++ : n_unknown++;
    if (n_wrong + n_unknown > MAX_SHOWN)
        return;
    printf("# at %#llx, level %zu: %s, pc %#lx for %#lx, cfa %#lx for %#lx;", regs->rip, level,
           uw_status_text(status), (unsigned long)cursor->regs.pc,
           (unsigned long)shadow[depth - 1 - level].pc, (unsigned long)cursor->cfa,
           (unsigned long)shadow[depth - 1 - level].cfa);
    for (size_t i = 0; i < self.n_modules; i++) {
        if (regs->rip >= self.modules[i].image.start && regs->rip < self.modules[i].image.end)
            printf(" %s+%#llx", self.modules[i].name, regs->rip - self.modules[i].image.bias);
    }
    printf("\n");
}

static void check(const struct user_regs_struct *regs)
{
    struct uw_cursor cursor = cursor_of(regs);
    size_t levels = n_steps % FULL_WALK_EVERY == 0 ? depth : 2;

    for (size_t level = 0; level < levels && level < depth; level++) {
        const struct shadow *expected = &shadow[depth - 1 - level];
        enum uw_status status = uw_step(&self.space, &cursor);

        n_walks++;
        if (status == UW_OK && cursor.regs.pc == expected->pc && cursor.cfa == expected->cfa &&
            cursor.signal_frame == expected->interrupted)
            continue;
        complain(regs, &cursor, level, status);
        return;
    }
}

/* One instruction; false when the child has left scenario(). */
static bool step(int *signal)
{
    struct user_regs_struct before = get_regs(), after;
    enum flow flow = classify(&before);
    int status;

    ptrace(PTRACE_SINGLESTEP, child, NULL, *signal);
    if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status))
        return false;
    after = get_regs();
    if (*signal != 0) { /* now at the first instruction of the handler */
        push(before.rip, before.rsp, true);
        push(child_word(after.rsp), after.rsp + 8, false);
    } else if (WSTOPSIG(status) != SIGTRAP) { /* nothing was run */
        *signal = WSTOPSIG(status);
        return true;
    } else if (flow == CALL) {
        push(child_word(after.rsp), after.rsp + 8, false);
    } else if ((flow == RETURN || flow == SIGRETURN) && after.rip != before.rip) {
        if (shadow[--depth].pc != after.rip) {
            printf("# the shadow stack is wrong at %#llx\n", before.rip);
            n_wrong++;
        }
    }
    *signal = 0;
    n_steps++;
    if (depth > 0)
        check(&after);
    return depth > 0;
}

/* The call of scenario() itself: go on until it has been made. */
static void enter(void)
{
    struct user_regs_struct regs = get_regs();
    int status;

    while (regs.rip != (uint64_t)(uintptr_t)scenario) {
        ptrace(PTRACE_SINGLESTEP, child, NULL, 0);
        waitpid(child, &status, 0);
        regs = get_regs();
    }
    push(child_word(regs.rsp), regs.rsp + 8, false);
    check(&regs);
}

int main(void)
{
    int status, signal = 0;

    self_init(&self);
    self.direct = true;
    self.space.cache = &cache;
    uw_rule_cache_clear(&cache);
    child = fork();
    if (child == 0) {
        sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        scenario();
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
        printf("1..0 # SKIP ptrace is not permitted\n");
        return 0;
    }
    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL);
    self.stack_of = child;
    enter();
    while (step(&signal))
        ;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    printf("# %zu instructions, %zu steps of the unwinder, %zu wrong, %zu not known\n", n_steps, n_walks,
           n_wrong, n_unknown);
    printf("1..1\n%sok 1 - every instruction\n", n_steps < 5000 || n_wrong + n_unknown > 0 ? "not " : "");
    return n_steps < 5000 || n_wrong + n_unknown > 0;
}
