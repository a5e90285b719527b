/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parsers for the files of /proc/<pid>/task/<tid>; see procfs.h.
 * Zone: probe thread (pure).
 */
#include "agent/procfs.h"

#include "agent/report/out.h"
#include "agent/text.h"
#include "agent/nolibc.h"

/* A place in a text. After the first mismatch ok is false and stays so; the caller checks once. */
struct cursor {
    const char *at, *end;
    bool ok;
};

static char peek(const struct cursor *cursor)
{
    return cursor->at < cursor->end ? *cursor->at : '\0';
}

static void expect(struct cursor *cursor, char c)
{
    if (!cursor->ok || cursor->at == cursor->end || *cursor->at != c)
        cursor->ok = false;
    else
        cursor->at++;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return 16;
}

/* At least one digit; a value beyond 64 bits is a mismatch. */
static uint64_t number(struct cursor *cursor, unsigned base)
{
    uint64_t value = 0;
    const char *start = cursor->at;

    while (cursor->at < cursor->end && (unsigned)digit_value(*cursor->at) < base) {
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit_value(*cursor->at), &value))
            cursor->ok = false;
        cursor->at++;
    }
    if (cursor->at == start)
        cursor->ok = false;
    return value;
}

static uint64_t prefixed_hex(struct cursor *cursor)
{
    expect(cursor, ' ');
    expect(cursor, '0');
    expect(cursor, 'x');
    return number(cursor, 16);
}

static int64_t signed_number(struct cursor *cursor)
{
    bool negative = peek(cursor) == '-';
    uint64_t value;

    if (negative)
        cursor->at++;
    value = number(cursor, 10);
    if (value > INT64_MAX)
        cursor->ok = false;
    return negative ? -(int64_t)value : (int64_t)value;
}

/*
 * "pid (comm) S ppid pgrp session tty tpgid flags ..." (proc_pid_stat(5)). comm may hold spaces, newlines and
 * parentheses, but nothing behind it can hold a ')': the last one ends it.
 */
bool procfs_parse_stat(const char *text, size_t size, struct procfs_stat *ret)
{
    struct cursor cursor = {text, text + size, true};
    struct procfs_stat stat_line = {0};
    const char *close = NULL;
    size_t length;

    number(&cursor, 10);
    expect(&cursor, ' ');
    expect(&cursor, '(');
    if (!cursor.ok)
        return false;
    for (const char *p = cursor.at; p < cursor.end; p++)
        if (*p == ')')
            close = p;
    if (!close)
        return false;
    length = (size_t)(close - cursor.at);
    if (length > sizeof(stat_line.name) - 1) /* workers print more than comm holds */
        length = sizeof(stat_line.name) - 1;
    for (size_t i = 0; i < length; i++)
        stat_line.name[i] = cursor.at[i];

    cursor.at = close + 1;
    expect(&cursor, ' ');
    stat_line.state = peek(&cursor);
    if (stat_line.state < 'A' || stat_line.state > 'z')
        return false;
    cursor.at++;
    for (unsigned field = 4; field <= 22; field++) {
        int64_t value;

        expect(&cursor, ' ');
        value = signed_number(&cursor);
        if (field == 4)
            stat_line.ppid = (int32_t)value;
        else if (field == 9)
            stat_line.flags = (uint64_t)value;
        else if (field == 14 || field == 15)
            stat_line.cpu_ticks += (uint64_t)value;
        else if (field == 20)
            stat_line.n_threads = (uint32_t)value;
        else if (field == 22)
            stat_line.start_ticks = (uint64_t)value;
    }
    expect(&cursor, ' '); /* field 22 is whole only if something follows */
    if (!cursor.ok)
        return false;
    *ret = stat_line;
    return true;
}

/* "running", "-1 SP PC", or "NR A0 A1 A2 A3 A4 A5 SP PC" (fs/proc/base.c, proc_pid_syscall). */
bool procfs_parse_syscall(const char *text, size_t size, struct procfs_syscall *ret)
{
    struct cursor cursor = {text, text + size, true};
    struct procfs_syscall line = {.number = -1};

    if (peek(&cursor) == 'r') {
        for (const char *word = "running"; *word; word++)
            expect(&cursor, *word);
        line.kind = PROCFS_SYSCALL_RUNNING;
    } else {
        line.number = signed_number(&cursor);
        line.kind = line.number < 0 ? PROCFS_SYSCALL_OUTSIDE : PROCFS_SYSCALL_INSIDE;
        for (unsigned i = 0; line.number >= 0 && i < 6; i++)
            line.args[i] = prefixed_hex(&cursor);
        line.sp = prefixed_hex(&cursor);
        line.pc = prefixed_hex(&cursor);
    }
    expect(&cursor, '\n'); /* without it the last number may be cut */
    if (!cursor.ok)
        return false;
    *ret = line;
    return true;
}

/* "run-time wait-time switched-in" (fs/proc/base.c, proc_pid_schedstat; "0 0 0" where it does not count). */
bool procfs_parse_schedstat(const char *text, size_t size, struct procfs_schedstat *ret)
{
    struct cursor cursor = {text, text + size, true};
    struct procfs_schedstat line;

    line.cpu_nanos = number(&cursor, 10);
    expect(&cursor, ' ');
    number(&cursor, 10);
    expect(&cursor, ' ');
    line.switches = number(&cursor, 10);
    expect(&cursor, '\n');
    if (!cursor.ok)
        return false;
    *ret = line;
    return true;
}

static bool skip_prefix(struct cursor *cursor, const char *prefix)
{
    const char *at = cursor->at;

    for (; *prefix; prefix++, at++)
        if (at == cursor->end || *at != *prefix)
            return false;
    cursor->at = at;
    return true;
}

static void skip_line(struct cursor *cursor)
{
    while (cursor->at < cursor->end && *cursor->at != '\n')
        cursor->at++;
    if (cursor->at < cursor->end)
        cursor->at++;
}

/* "Key:\tvalue" lines (fs/proc/array.c); a newline in the thread's name is escaped there. */
bool procfs_parse_status(const char *text, size_t size, struct procfs_status *ret)
{
    struct cursor cursor = {text, text + size, true};
    struct procfs_status status = {0};
    unsigned found = 0;

    while (cursor.at < cursor.end && cursor.ok && found != 31) {
        if (skip_prefix(&cursor, "SigPnd:\t")) {
            status.pending = number(&cursor, 16);
            found |= 16;
        } else if (skip_prefix(&cursor, "SigBlk:\t")) {
            status.blocked = number(&cursor, 16);
            found |= 1;
        } else if (skip_prefix(&cursor, "SigCgt:\t")) {
            status.caught = number(&cursor, 16);
            found |= 2;
        } else if (skip_prefix(&cursor, "ShdPnd:\t")) {
            status.shared_pending = number(&cursor, 16);
        } else if (skip_prefix(&cursor, "Seccomp:\t")) {
            status.seccomp = number(&cursor, 10);
        } else if (skip_prefix(&cursor, "Seccomp_filters:\t")) {
            status.seccomp_filters = number(&cursor, 10);
        } else if (skip_prefix(&cursor, "voluntary_ctxt_switches:\t")) {
            status.sleeps = number(&cursor, 10);
            status.switches += status.sleeps;
            found |= 4;
        } else if (skip_prefix(&cursor, "nonvoluntary_ctxt_switches:\t")) {
            status.switches += number(&cursor, 10);
            found |= 8;
        } else {
            skip_line(&cursor);
            continue;
        }
        expect(&cursor, '\n');
    }
    if (!cursor.ok || found != 31)
        return false;
    *ret = status;
    return true;
}

void procfs_task_path(char path[PROCFS_PATH_MAX], int32_t tid, const char *file)
{
    struct out out = {.buffer = path, .size = PROCFS_PATH_MAX - 1};

    out_unsigned(&out, (uint64_t)tid);
    out_char(&out, '/');
    out_text(&out, file);
    path[out.used] = '\0';
}

int32_t procfs_parse_tid(const char *name)
{
    uint64_t tid;

    return text_decimal(name, &tid) && tid <= INT32_MAX ? (int32_t)tid : 0;
}
