/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The capture from outside; see external.h.
 * Zone: client. With fill.c the only file here that knows the agent's own headers.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/dump.h"
#include "agent/reserve.h"
#include "agent/sys.h"
#include "cli/external.h"
#include "cli/outside.h"

#define ARENA_MOST ((size_t)256 * 1024 * 1024) /* untouched memory costs nothing */
#define ARENA_LEAST ((size_t)4 * 1024 * 1024)
#define LOOKS 5 /* at threads that are running; most sleep again a moment later */
#define MOMENT_NANOS UINT64_C(2000000)

/*
 * Nobody is asked to copy its own stack: a thread that runs is looked at a few times more, in case it sleeps.
 */
static void capture_running(struct capture_session *session, struct thread_sample **samples, uint32_t n)
{
    for (unsigned i = 0; n > 0 && i < LOOKS && sys_monotonic_nanos() < session->deadline; i++) {
        sys_sleep(MOMENT_NANOS);
        backend_passive.capture(session, samples, n);
    }
    for (uint32_t i = 0; i < n; i++)
        if (samples[i]->capture == CAPTURE_NONE && samples[i]->reason == REASON_NONE)
            samples[i]->reason = REASON_OUTSIDE;
}

static const struct capture_backend backend_running = {.name = "outside", .capture = capture_running};

static enum endpoint_result refuse(struct endpoint_failure *failure, enum endpoint_result result,
                                   const char *cause, const char *next_step)
{
    snprintf(failure->cause, sizeof(failure->cause), "%s", cause);
    snprintf(failure->next_step, sizeof(failure->next_step), "%s", next_step);
    return result;
}

/* A thread that has not ended: the directory of one that has shows neither memory nor files. */
static pid_t living_thread(pid_t pid)
{
    char path[64], *text;
    pid_t *tids = NULL, found = 0;
    const char *state;
    ssize_t n;

    snprintf(path, sizeof(path), "%d/task", pid);
    n = procfs_list(path, &tids);
    for (ssize_t i = 0; i < n && found == 0; i++) {
        snprintf(path, sizeof(path), "%d/task/%d/stat", pid, tids[i]);
        if (procfs_read(path, &text) < 0)
            continue;
        state = strrchr(text, ')');
        if (state != NULL && strncmp(state, ") Z", 3) != 0 && strncmp(state, ") X", 3) != 0)
            found = tids[i];
        free(text);
    }
    free(tids);
    return found;
}

/* /proc may be another pid namespace's than the one we are in. */
static bool proc_is_foreign(void)
{
    char link[32];
    ssize_t n = readlink("/proc/self", link, sizeof(link) - 1);

    link[n > 0 ? n : 0] = '\0';
    return atoi(link) != getpid();
}

/*
 * The registers of a sleeping thread are guarded as an attaching debugger is (fs/proc/base.c, lock_trace),
 * its memory too. The file is read: it can be opened where it cannot be read.
 */
static int try_registers(int directory)
{
    char text[256];
    int fd = openat(directory, "syscall", O_RDONLY | O_CLOEXEC), r;

    if (fd < 0)
        return -errno;
    r = read(fd, text, sizeof(text)) < 0 ? -errno : 0;
    close(fd);
    return r;
}

static bool yama_restricts(void)
{
    char *text;
    bool restricts;

    if (procfs_read("sys/kernel/yama/ptrace_scope", &text) < 0)
        return false;
    restricts = text[0] != '0';
    free(text);
    return restricts;
}

static enum endpoint_result not_permitted(const struct process_facts *facts, struct endpoint_failure *failure)
{
    if (facts->uid[0] != geteuid() && geteuid() != 0) {
        snprintf(failure->cause, sizeof(failure->cause),
                 "it belongs to another user (uid %u), and the kernel refuses to show its threads' registers",
                 facts->uid[0]);
        snprintf(failure->next_step, sizeof(failure->next_step), "run probectl as that user, or as root");
        return ENDPOINT_NOT_PERMITTED;
    }
    return refuse(
        failure, ENDPOINT_NOT_PERMITTED,
        yama_restricts() ? "the kernel refuses to show its threads' registers: "
                           "/proc/sys/kernel/yama/ptrace_scope allows that for root only"
                         : "the kernel refuses to show its threads' registers: the process is not dumpable "
                           "(it changed its user, or asked for that), or it is confined differently",
        geteuid() ? "run probectl as root" : "run probectl with CAP_SYS_PTRACE, in the process's container");
}

/* Registers and unwind tables are read as those of 64-bit code. False where that is known to be wrong. */
static bool is_our_architecture(int directory)
{
    Elf64_Ehdr header;
    int fd = openat(directory, "exe", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    bool ours = true;

    if (fd < 0)
        return true;
    if (pread(fd, &header, sizeof(header), 0) == sizeof(header))
        ours = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64;
    close(fd);
    return ours;
}

/*
 * maps shows paths as they are for the reader (fs/d_path.c): from our own root where we share the mounts,
 * whatever the process's root is, else from the root of its mounts. A file that is not the mapped one is
 * recognised.
 */
static int open_root(int directory)
{
    char ours[64] = "", theirs[64] = "";
    int root;

    if (readlink("/proc/self/ns/mnt", ours, sizeof(ours) - 1) > 0 &&
        readlinkat(directory, "ns/mnt", theirs, sizeof(theirs) - 1) > 0 && strcmp(ours, theirs) == 0)
        return AT_FDCWD;
    root = openat(directory, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root >= 0 ? root : AT_FDCWD;
}

static void close_subject(struct subject *subject)
{
    if (subject->directory >= 0)
        close(subject->directory);
    if (subject->root >= 0)
        close(subject->root);
}

static enum endpoint_result open_subject(const struct process_facts *facts, struct subject *ret,
                                         struct endpoint_failure *failure)
{
    pid_t tid = living_thread(facts->pid);
    bool foreign = proc_is_foreign();
    struct process_facts now;
    char path[64];
    int r;

    snprintf(path, sizeof(path), "/proc/%d/task/%d", facts->pid, tid);
    *ret =
        (struct subject){.directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                         .root = -1,
                         .pid = facts->pid,
                         .tid = foreign ? 0 : tid, /* 0: nobody, rather than a stranger */
                         .proc_pid = facts->pid,
                         .agent_tid = procfs_agent_thread(facts->pid, NULL),
                         .uid = facts->uid[0],
                         .foreign_proc = foreign,
                         .file_first = true, /* the directory names the process for good, a number does not */
                         .running = &backend_running,
                         .limits = {"captured from outside by probectl: running threads have no stack"}};
    if (tid == 0 || ret->directory < 0 || procfs_facts(facts->pid, &now) < 0 ||
        now.start_ticks != facts->start_ticks)
        return refuse(failure, ENDPOINT_NO_PROCESS, "the process ended", "nothing is left to dump");
    r = try_registers(ret->directory);
    if (r == -EACCES || r == -EPERM)
        return not_permitted(facts, failure);
    if (!is_our_architecture(ret->directory))
        return refuse(failure, ENDPOINT_NO_AGENT,
                      "its code is not 64-bit x86 code, and probectl knows no other",
                      "use a debugger that knows it");
    ret->root = open_root(ret->directory);
    return ENDPOINT_OK;
}

static void send_all(int fd, const char *bytes, size_t n)
{
    ssize_t sent;

    for (; n > 0; bytes += sent, n -= (size_t)sent) {
        sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            sent = 0;
        else if (sent <= 0)
            _exit(1); /* nobody listens any more */
    }
}

static bool flush(struct out *out)
{
    send_all(*(int *)out->context, out->buffer, out->used);
    out->used = 0;
    return true;
}

static void stage_done(void *context)
{
    flush(context);
}

/* One line without its line feed; false when it does not come whole. */
static bool receive_line(int fd, char line[REQUEST_MAX])
{
    size_t used = 0;
    ssize_t n;

    while (used < REQUEST_MAX) {
        n = recv(fd, line + used, REQUEST_MAX - used, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        used += (size_t)n;
        if (line[used - 1] == '\n') {
            line[used - 1] = '\0';
            return true;
        }
    }
    return false;
}

_Noreturn static void serve(int fd, const struct subject *subject)
{
    char *no_environment[] = {NULL}, line[REQUEST_MAX], buffer[16384];
    struct out out = {.buffer = buffer, .size = sizeof(buffer), .flush = flush, .context = &fd};
    struct dump_sink sink = {&out, stage_done, &out};
    struct request request;
    struct config config;
    struct arena arena = {0};

    config_read(&config, no_environment);
    arena.base = reserve_memory(ARENA_MOST, ARENA_LEAST, &arena.size);
    if (arena.base != NULL && receive_line(fd, line) && request_parse(&request, line, &config) == NULL)
        dump_run(&request, &config, subject, &arena, &sink);
    _exit(0);
}

enum endpoint_result external_connect(const struct process_facts *facts, struct external *ret,
                                      struct endpoint_failure *failure)
{
    char *remarks[OUTSIDE_REMARKS] = {NULL};
    enum endpoint_result result;
    struct subject subject;
    pid_t parent = getpid();
    int pair[2];

    result = open_subject(facts, &subject, failure);
    if (result == ENDPOINT_OK && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        result = refuse(failure, ENDPOINT_SILENT, strerror(errno), "try again");
    if (result != ENDPOINT_OK) {
        close_subject(&subject);
        return result;
    }
    outside_remarks(facts, remarks);
    memcpy(&subject.limits[1], remarks, sizeof(remarks));
    fflush(NULL);
    ret->child = fork();
    if (ret->child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
            serve(pair[1], &subject);
        _exit(1);
    }
    ret->fd = pair[0];
    close(pair[1]);
    close_subject(&subject);
    for (unsigned i = 0; i < OUTSIDE_REMARKS; i++)
        free(remarks[i]);
    fcntl(ret->fd, F_SETFL, O_NONBLOCK);
    if (ret->child < 0) {
        close(ret->fd);
        return refuse(failure, ENDPOINT_SILENT, strerror(errno), "try again");
    }
    return ENDPOINT_OK;
}

void external_close(struct external *external)
{
    close(external->fd);
    kill(external->child, SIGKILL); /* ours and not waited for: the number is still its */
    waitpid(external->child, NULL, WNOHANG);
}

bool external_at_work(const void *context)
{
    const struct external *external = context;
    struct process_facts facts;

    return procfs_facts(external->child, &facts) == 0 && facts.state != 'D' && facts.state != 'Z';
}
