/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The outside view; see outside.h.
 * Zone: client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/words.h"
#include "cli/outside.h"

static char *read_task(pid_t pid, pid_t tid, const char *file)
{
    char path[64], *text;

    snprintf(path, sizeof(path), "%d/task/%d/%s", pid, tid, file);
    if (procfs_read(path, &text) < 0)
        return NULL;
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* "NR ARG0 ... ARG5 SP PC", "-1 SP PC" (blocked outside a system call) or "running" */
static void parse_syscall(const char *text, struct thread_sample *thread)
{
    struct report_syscall *syscall = &thread->syscall;
    unsigned long long args[6], sp, pc;
    long long number;

    if (sscanf(text, "%lld %llx %llx %llx %llx %llx %llx %llx %llx", &number, &args[0], &args[1], &args[2],
               &args[3], &args[4], &args[5], &sp, &pc) == 9 &&
        number >= 0) {
        syscall->known = true;
        syscall->number = number;
        for (int i = 0; i < 6; i++)
            syscall->args[i] = args[i];
    } else if (sscanf(text, "%lld %llx %llx", &number, &sp, &pc) != 3 || number != -1) {
        return;
    }
    thread->has_registers = true;
    thread->registers.stack_pointer = sp;
    thread->registers.instruction_pointer = pc;
}

/* State, user and system time from a stat line. */
static void parse_stat(const char *text, struct thread_sample *thread)
{
    unsigned long long user = 0, system = 0;
    uint64_t tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    char state = '?';

    text = strrchr(text, ')');
    if (text != NULL)
        sscanf(text + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state, &user, &system);
    thread->state = state;
    thread->cpu_nanos = (user + system) * tick;
}

/* False when the thread has gone. */
static bool look_at(pid_t pid, pid_t tid, struct thread_sample *thread)
{
    char *text = read_task(pid, tid, "stat");

    *thread = (struct thread_sample){.os_tid = tid, .stack = -1, .reason = REASON_NO_AGENT};
    if (text == NULL)
        return false;
    parse_stat(text, thread);
    free(text);
    text = read_task(pid, tid, "comm");
    if (text != NULL)
        memcpy(thread->name, text, strnlen(text, sizeof(thread->name)));
    free(text);
    text = read_task(pid, tid, "syscall");
    if (text != NULL)
        parse_syscall(text, thread);
    free(text);
    text = read_task(pid, tid, "wchan");
    if (text != NULL && text[0] != '\0' && strcmp(text, "0") != 0)
        thread->wchan = text;
    else
        free(text);
    return true;
}

static void add_why(struct process_info *process, char *text)
{
    const char **bigger = realloc(process->why, (process->n_why + 1) * sizeof(*bigger));

    if (bigger == NULL || text == NULL) {
        free(text);
        return;
    }
    process->why = bigger;
    process->why[process->n_why++] = text;
}

void outside_process(const struct process_facts *facts, bool with_args, struct process_info *process)
{
    char path[64], link[4096], *command = NULL;
    ssize_t n, size;

    process->pid = facts->pid;
    process->ns_pid = facts->ns_pid;
    process->main_tid = facts->pid;
    process->ppid = facts->ppid;
    process->uid = facts->uid[0];
    process->start_ticks = facts->start_ticks;
    process->start_time = procfs_start_time(facts);
    process->up_nanos = facts->up_nanos;
    snprintf(path, sizeof(path), "/proc/%d/exe", facts->pid);
    n = readlink(path, link, sizeof(link) - 1);
    process->exe = n > 0 ? strndup(link, (size_t)n) : NULL;
    snprintf(path, sizeof(path), "%d/cmdline", facts->pid);
    size = procfs_read(path, &command);
    for (ssize_t i = 0; with_args && i + 1 < size; i++)
        if (command[i] == '\0')
            command[i] = ' ';
    process->command = size > 0 ? command : NULL;
    if (size <= 0)
        free(command);
}

/* What the agent itself is stuck in is the first thing to know. */
static char *explain_agent(pid_t pid, pid_t tid)
{
    struct thread_sample agent;
    const char *name;
    char *text = NULL;

    if (tid == 0 || !look_at(pid, tid, &agent))
        return NULL;
    name = agent.syscall.known ? word_syscall(agent.syscall.number) : NULL;
    if (asprintf(&text, "the agent's thread %d is %s%s%s%s%s", tid, word_state(agent.state),
                 agent.wchan ? " in kernel function " : "", agent.wchan ? agent.wchan : "",
                 name ? ", system call " : "", name ? name : "") < 0)
        text = NULL;
    free((char *)agent.wchan);
    return text;
}

void outside_remarks(const struct process_facts *facts, char *ret[OUTSIDE_REMARKS])
{
    unsigned n = 0;

    memset(ret, 0, OUTSIDE_REMARKS * sizeof(*ret));
    if (facts->state == 'T')
        ret[n] = strdup("the process is stopped by a signal; SIGCONT lets it run on");
    else if (facts->state == 't')
        ret[n] = strdup("the process is stopped by a debugger");
    n += ret[n] != NULL;
    ret[n] = explain_agent(facts->pid, procfs_agent_thread(facts->pid, NULL));
}

/* How often it was switched in: the third number of schedstat. 0: cannot be read. */
static unsigned long long switches(pid_t pid, pid_t tid)
{
    char *text = read_task(pid, tid, "schedstat");
    unsigned long long count = 0;

    if (text != NULL)
        sscanf(text, "%*u %*u %llu", &count);
    free(text);
    return count;
}

bool outside_agent_at_work(const struct process_facts *facts)
{
    const struct timespec moment = {.tv_nsec = 100000000};
    pid_t agent = procfs_agent_thread(facts->pid, NULL);
    unsigned long long before = switches(facts->pid, agent);
    struct thread_sample sample;

    if (agent == 0 || !look_at(facts->pid, agent, &sample))
        return false;
    free((char *)sample.wchan);
    if (sample.state == 'R')
        return true;
    nanosleep(&moment, NULL);
    return switches(facts->pid, agent) != before;
}

struct snapshot *outside_view(const struct process_facts *facts, bool with_args)
{
    struct snapshot *s = calloc(1, sizeof(*s));
    char path[64], *remarks[OUTSIDE_REMARKS];
    pid_t *tids = NULL, agent = procfs_agent_thread(facts->pid, NULL);
    ssize_t n;

    if (s == NULL)
        return NULL;
    snprintf(path, sizeof(path), "%d/task", facts->pid);
    n = procfs_list(path, &tids);
    s->threads = calloc(n > 0 ? (size_t)n : 1, sizeof(*s->threads));
    if (n < 0 || s->threads == NULL) {
        free(tids);
        free(s->threads);
        free(s);
        return NULL;
    }
    outside_process(facts, with_args, &s->process);
    outside_remarks(facts, remarks);
    for (unsigned i = 0; i < OUTSIDE_REMARKS && remarks[i] != NULL; i++)
        add_why(&s->process, remarks[i]);
    for (ssize_t i = 0; i < n; i++) {
        struct thread_sample *thread = &s->threads[s->n_threads];

        if (!look_at(facts->pid, tids[i], thread))
            continue;
        if (thread->os_tid == agent) {
            free((char *)thread->wchan); /* ours is never a sample */
            continue;
        }
        s->n_threads++;
    }
    free(tids);
    s->stats.threads_total = s->stats.threads_dropped = s->n_threads;
    return s;
}

void outside_free(struct snapshot *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->n_threads; i++)
        free((char *)s->threads[i].wchan);
    for (uint32_t i = 0; i < s->process.n_why; i++)
        free((char *)s->process.why[i]);
    free(s->process.why);
    free((char *)s->process.exe);
    free((char *)s->process.command);
    free(s->threads);
    free(s);
}
