/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See subject.h.
 * Zone: probe thread.
 */
#include "agent/subject.h"

#include <fcntl.h>

#include "agent/process.h"
#include "agent/sys.h"
#include "agent/nolibc.h"

static void limit(struct subject *subject, const char *sentence)
{
    for (unsigned i = 0; i < SUBJECT_LIMITS; i++)
        if (!subject->limits[i]) {
            subject->limits[i] = sentence;
            return;
        }
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
        .uid = sys_getuid(),
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
    if (sys_get_dumpable() != 1 && sys_geteuid() != 0)
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
