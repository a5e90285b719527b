/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/procfs.c: the lines of /proc/<pid>/task/<tid> as kernels print them, and as they never should. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/procfs.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

TestSuite(procfs, .timeout = 5);

#define NUMBERS "1 2 3 4 -1 4194368 10 11 12 13 700 30 16 17 20 0 5 0 99 1000"

static const struct {
    const char *what, *text, *name;
    char state;
    uint64_t flags, ticks;
    bool ok;
} stat_rows[] = {
    {"ordinary", "17 (bash) S " NUMBERS "\n", "bash", 'S', 4194368, 730, true},
    {"empty name", "17 () R " NUMBERS "\n", "", 'R', 4194368, 730, true},
    {"parenthesis in the name", "17 (a) S 1 2) D " NUMBERS "\n", "a) S 1 2", 'D', 4194368, 730, true},
    {"only parentheses", "17 ())))(() Z " NUMBERS "\n", "))))((", 'Z', 4194368, 730, true},
    {"newline in the name", "17 (a\nb c) t " NUMBERS "\n", "a\nb c", 't', 4194368, 730, true},
    {"a worker's long name", "17 (kworker/u8:2-events_unbound) I " NUMBERS "\n", "kworker/u8:2-ev", 'I',
     4194368, 730, true},
    {"io_uring worker", "17 (iou-wrk-99) S 1 2 3 4 -1 4194384 10 11 12 13 0 0 16 17 20 0 5 0 99 8192\n",
     "iou-wrk-99", 'S', 4194384, 0, true},
    {"no name", "17 bash S " NUMBERS "\n", "", 0, 0, 0, false},
    {"unclosed name", "17 (bash S " NUMBERS "\n", "", 0, 0, 0, false},
    {"no state", "17 (bash) 1 2 3\n", "", 0, 0, 0, false},
    {"a word for a number", "17 (bash) S 1 2 x 4 -1 6 7 8 9 10 11 12 13 14 15 16 17 18\n", "", 0, 0, 0,
     false},
    {"a number beyond 64 bits", "17 (bash) S 1 2 3 4 -1 99999999999999999999 1 1 1 1 1 1 1 1 1 1 1 1\n", "",
     0, 0, 0, false},
};

Test(procfs, stat_lines)
{
    for (size_t i = 0; i < N_ELEMENTS(stat_rows); i++) {
        struct procfs_stat stat_line = {.state = '!'};
        bool ok = procfs_parse_stat(stat_rows[i].text, strlen(stat_rows[i].text), &stat_line);

        cr_expect(eq(int, ok, stat_rows[i].ok), "%s", stat_rows[i].what);
        if (!ok) {
            cr_expect(stat_line.state == '!', "%s: untouched on failure", stat_rows[i].what);
            continue;
        }
        cr_expect(eq(str, stat_line.name, (char *)stat_rows[i].name), "%s", stat_rows[i].what);
        cr_expect(eq(chr, stat_line.state, stat_rows[i].state), "%s", stat_rows[i].what);
        cr_expect(eq(u64, stat_line.flags, stat_rows[i].flags), "%s", stat_rows[i].what);
        cr_expect(eq(u64, stat_line.cpu_ticks, stat_rows[i].ticks), "%s", stat_rows[i].what);
        cr_expect(eq(u32, stat_line.n_threads, 5), "%s", stat_rows[i].what);
        cr_expect(eq(i32, stat_line.ppid, 1), "%s", stat_rows[i].what);
        cr_expect(eq(u64, stat_line.start_ticks, 99), "%s", stat_rows[i].what);
    }
}

static const struct {
    const char *text;
    bool ok;
    struct procfs_syscall line;
} syscall_rows[] = {
    {"running\n", true, {.kind = PROCFS_SYSCALL_RUNNING, .number = -1}},
    {"-1 0x7ffe10 0x401000\n", true, {PROCFS_SYSCALL_OUTSIDE, -1, {0}, 0x7ffe10, 0x401000}},
    {"-1 0x0 0x0\n", true, {PROCFS_SYSCALL_OUTSIDE, -1, {0}, 0, 0}},
    {"202 0x1 0x2 0x3 0x4 0x5 0xffffffffffffffff 0x7fff 0x7f00\n",
     true,
     {PROCFS_SYSCALL_INSIDE, 202, {1, 2, 3, 4, 5, UINT64_MAX}, 0x7fff, 0x7f00}},
    {"0 0x0 0x0 0x0 0x0 0x0 0x0 0x8 0x9\n", true, {PROCFS_SYSCALL_INSIDE, 0, {0}, 8, 9}},
    {"running", false, {0}},
    {"runnin\n", false, {0}},
    {"-1 0x7ffe10\n", false, {0}},
    {"-1 7ffe10 401000\n", false, {0}},
    {"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7fff\n", false, {0}},
    {"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7fff 0x10000000000000000\n", false, {0}},
    {"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7fff 0x7f00", false, {0}},
    {"\n", false, {0}},
    {"", false, {0}},
};

Test(procfs, syscall_lines)
{
    for (size_t i = 0; i < N_ELEMENTS(syscall_rows); i++) {
        struct procfs_syscall line = {.number = 77};
        bool ok = procfs_parse_syscall(syscall_rows[i].text, strlen(syscall_rows[i].text), &line);

        cr_expect(eq(int, ok, syscall_rows[i].ok), "%s", syscall_rows[i].text);
        if (!ok) {
            cr_expect(line.number == 77, "untouched on failure");
            continue;
        }
        cr_expect(eq(int, line.kind, syscall_rows[i].line.kind));
        cr_expect(eq(i64, line.number, syscall_rows[i].line.number));
        cr_expect(eq(u64, line.sp, syscall_rows[i].line.sp));
        cr_expect(eq(u64, line.pc, syscall_rows[i].line.pc));
        for (unsigned j = 0; j < 6; j++)
            cr_expect(eq(u64, line.args[j], syscall_rows[i].line.args[j]));
    }
}

Test(procfs, schedstat_lines)
{
    struct procfs_schedstat line = {0};

    cr_expect(procfs_parse_schedstat("123456789 55 17\n", 16, &line));
    cr_expect(eq(u64, line.cpu_nanos, 123456789));
    cr_expect(eq(u64, line.switches, 17));
    cr_expect(procfs_parse_schedstat("0 0 0\n", 6, &line));
    cr_expect(eq(u64, line.switches, 0));
    cr_expect(not(procfs_parse_schedstat("1 2\n", 4, &line)));
    cr_expect(not(procfs_parse_schedstat("1 2 3", 5, &line)));
    cr_expect(not(procfs_parse_schedstat("-1 2 3\n", 7, &line)));
}

static const char status_text[] =
    "Name:\tSigBlk:\\n1\nUmask:\t0022\nState:\tS (sleeping)\nGroups:\t0 4 24 \n"
    "SigQ:\t0/15456\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"
    "SigBlk:\t0000000000000400\nSigIgn:\t0000000000000001\nSigCgt:\t8000000180014a03\n"
    "Cpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t150\n"
    "nonvoluntary_ctxt_switches:\t7\n";

Test(procfs, status_fields)
{
    struct procfs_status status = {0};

    cr_expect(procfs_parse_status(status_text, sizeof(status_text) - 1, &status));
    cr_expect(eq(u64, status.pending, 0x100));
    cr_expect(eq(u64, status.blocked, 0x400));
    cr_expect(eq(u64, status.caught, 0x8000000180014a03));
    cr_expect(eq(u64, status.switches, 157));
}

/* Every shorter text must be refused (or, where what is cut off does not matter, give the same answer). In
 * exactly sized heap blocks, so that a sanitizer sees a read beyond the end. */
#define SWEEP(parse, type, text, needed)                                                       \
    for (size_t n = 0; n < strlen(text); n++) {                                                \
        char *cut = malloc(n + !n);                                                            \
        type whole, part;                                                                      \
                                                                                               \
        memset(&whole, 0, sizeof(whole));                                                      \
        memset(&part, 0, sizeof(part));                                                        \
        memcpy(cut, text, n);                                                                  \
        cr_assert(parse(text, strlen(text), &whole));                                          \
        if (parse(cut, n, &part))                                                              \
            cr_expect(n >= (needed) && !memcmp(&part, &whole, sizeof(part)), "cut at %zu", n); \
        free(cut);                                                                             \
    }

Test(procfs, cut_lines_are_refused)
{
    const char *stat_text = "17 (a) b\n(c) S 1 2 3 4 -1 9 10 11 12 13 700 30 16 17 20 0 512 0 99 8192\n";
    const char *syscall_text = "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7fff 0x7f00\n";

    SWEEP(procfs_parse_stat, struct procfs_stat, stat_text, strlen(stat_text) - strlen("8192\n"))
    SWEEP(procfs_parse_syscall, struct procfs_syscall, syscall_text, strlen(syscall_text))
    SWEEP(procfs_parse_schedstat, struct procfs_schedstat, "1 22 333\n", strlen("1 22 333\n"))
    SWEEP(procfs_parse_status, struct procfs_status, status_text, strlen(status_text))
}

Test(procfs, paths_and_tids)
{
    char path[PROCFS_PATH_MAX];

    procfs_task_path(path, 1, "stat");
    cr_expect(eq(str, path, "1/stat"));
    procfs_task_path(path, INT32_MAX, "schedstat");
    cr_expect(eq(str, path, "2147483647/schedstat"));
    cr_expect(eq(int, procfs_parse_tid("2147483647"), INT32_MAX));
    cr_expect(eq(int, procfs_parse_tid("2147483648"), 0));
    cr_expect(eq(int, procfs_parse_tid("."), 0));
    cr_expect(eq(int, procfs_parse_tid(".."), 0));
    cr_expect(eq(int, procfs_parse_tid("12a"), 0));
    cr_expect(eq(int, procfs_parse_tid(""), 0));
}
