/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/subject.c: what kind of world the process is in, and what of it is said. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/subject.h"
#include "agent/sys.h"

TestSuite(subject, .timeout = 10);

enum { FAKE_FD = 9999 };

static const char *line; /* what our own syscall file says; NULL: it cannot be opened */
static const char *link; /* where /proc/thread-self leads; NULL: as it is */
static int dumpable = 1;

static bool play(long number, const long args[6], long *ret_result)
{
    if (number == SYS_openat && !strcmp((const char *)args[1], "syscall")) {
        *ret_result = line ? FAKE_FD : -EACCES;
        return true;
    }
    if (number == SYS_read && args[0] == FAKE_FD) {
        memcpy((void *)args[1], line, strlen(line));
        *ret_result = (long)strlen(line);
        return true;
    }
    if (number == SYS_readlinkat && link) {
        memcpy((void *)args[2], link, strlen(link));
        *ret_result = (long)strlen(link);
        return true;
    }
    if (number == SYS_prctl) {
        *ret_result = dumpable;
        return true;
    }
    *ret_result = number == SYS_geteuid ? 1000 : 0;
    return number == SYS_geteuid || (number == SYS_close && args[0] == FAKE_FD);
}

static struct subject open_played(void)
{
    struct subject subject;

    sys_hook = play;
    subject_open_own(&subject);
    sys_hook = NULL;
    return subject;
}

static bool says(const struct subject *subject, const char *word)
{
    for (unsigned i = 0; i < SUBJECT_LIMITS && subject->limits[i]; i++)
        if (strstr(subject->limits[i], word))
            return true;
    return false;
}

Test(subject, an_ordinary_process_has_no_limits)
{
    struct subject subject;

    subject_open_own(&subject);
    cr_expect(ge(int, subject.directory, 0));
    cr_expect(eq(int, subject.proc_pid, sys_getpid()));
    cr_expect(eq(int, subject.agent_tid, sys_gettid()));
    cr_expect(not(subject.foreign_proc));
    cr_expect(not(subject.foreign_registers), "our own read is on our own stack");
    cr_expect(subject.limits[0] == NULL, "%s", subject.limits[0]);
    subject_close(&subject);
    cr_expect(eq(int, subject.directory, -1));
}

/* Measured: qemu-user passes the host's file through; number, arguments and addresses are the host's. */
Test(subject, registers_of_an_emulator_are_recognised)
{
    struct subject subject;

    line = "0 0x7 0x7f3d5c7fd6b0 0x100 0x0 0x0 0x0 0x7ffc2f0e6f08 0x64a7d3\n";
    subject = open_played();
    cr_expect(subject.foreign_registers);
    cr_expect(says(&subject, "emulator"));
}

Test(subject, registers_that_cannot_be_read_say_nothing_about_emulators)
{
    struct subject subject;

    line = NULL;
    subject = open_played();
    cr_expect(not(subject.foreign_registers));
    line = "running\n";
    subject = open_played();
    cr_expect(not(subject.foreign_registers));
}

Test(subject, another_namespace_and_a_process_that_is_not_dumpable_are_said)
{
    struct subject subject;

    link = "70001/task/70002";
    dumpable = 0;
    subject = open_played();
    cr_expect(subject.foreign_proc);
    cr_expect(eq(int, subject.proc_pid, 70001));
    cr_expect(eq(int, subject.agent_tid, 70002));
    cr_expect(says(&subject, "another pid namespace"));
    cr_expect(says(&subject, "not dumpable"));
}
