/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See subject.h.
 * Zone: probe thread.
 */
#include "agent/subject.h"

#include <fcntl.h>

#include "agent/confine.h"
#include "agent/credentials.h"
#include "agent/process.h"
#include "agent/procfs.h"
#include "agent/sys.h"
#include "agent/nolibc.h"

#define NEAR 16384 /* bytes on our own stack: a few frames */

static void limit(struct subject *subject, const char *sentence)
{
    for (unsigned i = 0; i < SUBJECT_LIMITS; i++)
        if (!subject->limits[i]) {
            subject->limits[i] = sentence;
            return;
        }
}

/*
 * A thread that reads its own syscall file is inside that read, on this stack. An emulator (qemu-user) lets
 * the program see the file of the host, with the registers of the emulator.
 */
static bool registers_are_foreign(int directory)
{
    struct procfs_syscall line;
    char text[256];
    int64_t distance;
    long n, fd = sys_openat(directory, "syscall", O_RDONLY | O_CLOEXEC, 0);

    if (fd < 0)
        return false; /* hidden: every thread says so */
    n = sys_read((int)fd, text, sizeof text);
    sys_close((int)fd);
    if (n <= 0 || !procfs_parse_syscall(text, (size_t)n, &line) || line.kind != PROCFS_SYSCALL_INSIDE)
        return false;
    distance = (int64_t)(line.sp - (uintptr_t)text);
    return distance < -NEAR || distance > NEAR;
}

void subject_open_own(struct subject *ret)
{
    int32_t proc_tid = 0;

    *ret = (struct subject){
        .directory = (int)sys_openat(AT_FDCWD, "/proc/thread-self", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0),
        .root = AT_FDCWD,
        .pid = sys_getpid(),
        .tid = sys_gettid(),
        .agent_code = (uintptr_t)subject_open_own,
        .uid = credentials_real_user(),
        /* A filter may kill for a call that its author did not think of; every program reads files. */
        .file_first = sys_get_seccomp() != 0,
        .running = &backend_signal,
    };
    if (ret->directory < 0 || process_proc_ids(&ret->proc_pid, &proc_tid) < 0) {
        subject_close(ret);
        limit(ret, "/proc is not readable from inside the process: its threads cannot be listed");
        return;
    }
    ret->agent_tid = proc_tid;
    ret->foreign_proc = proc_tid != ret->tid;
    ret->foreign_registers = registers_are_foreign(ret->directory);
    if (ret->foreign_registers)
        limit(
            ret,
            "/proc shows the registers of the emulator that runs the program (qemu-user), not the program's: "
            "sleeping threads have no stack");
    if (sys_get_dumpable() != 1 && sys_geteuid() != 0 && !confine_is_final())
        limit(ret, "the program is not dumpable (it gave up its user, or asked for that): the kernel hides "
                   "the registers of sleeping threads even from the program itself");
    if (ret->foreign_proc)
        limit(ret, "/proc belongs to another pid namespace: running threads are not signalled");
}

void subject_close(struct subject *subject)
{
    if (subject->directory >= 0)
        sys_close(subject->directory);
    subject->directory = -1;
}
