/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * probectl ps: processes with a live agent; on the way, sockets of processes that are gone are removed.
 * Zone: client.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/report/snapshot.h"
#include "cli/commands.h"
#include "cli/endpoint.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "cli/outside.h"
#include "cli/say.h"
#include "cli/sweep.h"

const char ps_help[] =
    "usage: probectl ps\n"
    "\n"
    "Lists the processes with an agent that you may see: pid, age, threads, program.\n"
    "Sockets left behind by processes that are gone are removed from your own directories.\n"
    "\n"
    "exit code: 0, also when there is none; 64 usage.\n"
    "\n"
    "example:\n"
    "  probectl ps\n";

/* The program's own threads: the agent's is not counted, as in a dump. */
static uint32_t count_threads(const struct process_facts *facts)
{
    return facts->n_threads - (facts->n_threads > 0 && procfs_agent_thread(facts->pid, NULL) > 0);
}

static void print_row(const struct process_facts *facts)
{
    struct process_info process = {0};
    uint64_t seconds = facts->up_nanos / 1000000000;
    const char *name;

    outside_process(facts, false, &process);
    name = process.command != NULL && process.command[0] != '\0' ? process.command : process.exe;
    if (name == NULL)
        name = "?";
    printf("%7d  %4llud %02llu:%02llu:%02llu  %7u  ", facts->pid, (unsigned long long)(seconds / 86400),
           (unsigned long long)(seconds / 3600 % 24), (unsigned long long)(seconds / 60 % 60),
           (unsigned long long)(seconds % 60), count_threads(facts));
    say_stranger(stdout, name);
    putchar('\n');
    free((char *)process.exe);
    free((char *)process.command);
}

int command_ps(int argc, char **argv)
{
    pid_t *pids = NULL;
    ssize_t n;

    switch (options_parse(&argc, argv, NULL, 0, "probectl ps --help")) {
    case OPTIONS_HELP:
        fputs(ps_help, stdout);
        return EXIT_COMPLETE;
    case OPTIONS_USAGE:
        return EXIT_USAGE;
    case OPTIONS_OK:
        break;
    }
    if (argc > 1) {
        fprintf(stderr, "probectl: ps takes no arguments\nprobectl: see probectl ps --help\n");
        return EXIT_USAGE;
    }
    sweep_own_directories();
    printf("%7s  %14s  %7s  %s\n", "PID", "AGE", "THREADS", "PROGRAM");
    n = procfs_list(".", &pids);
    for (ssize_t i = 0; i < n; i++) {
        struct process_facts facts;

        if (procfs_facts(pids[i], &facts) == 0 && endpoint_listens(&facts))
            print_row(&facts);
    }
    free(pids);
    return EXIT_COMPLETE;
}
