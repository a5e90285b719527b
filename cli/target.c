/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From TARGET to pids; see target.h.
 * Zone: client.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/exit.h"
#include "cli/endpoint.h"
#include "cli/procfs.h"
#include "cli/say.h"
#include "cli/target.h"

static bool append(struct targets *targets, pid_t pid)
{
    pid_t *bigger;

    for (size_t i = 0; i < targets->n; i++)
        if (targets->pids[i] == pid)
            return true; /* named twice, dumped once */
    bigger = realloc(targets->pids, (targets->n + 1) * sizeof(*bigger));
    if (bigger == NULL)
        return false;
    targets->pids = bigger;
    targets->pids[targets->n++] = pid;
    return true;
}

/* The program's file name, or its comm where the file may not be seen. */
static bool program_matches(pid_t pid, const char *glob)
{
    char path[64], link[4096], *comm;
    const char *slash;
    ssize_t n;
    bool matches;

    snprintf(path, sizeof(path), "/proc/%d/exe", pid);
    n = readlink(path, link, sizeof(link) - 1);
    if (n > 0) {
        link[n] = '\0';
        slash = strrchr(link, '/');
        if (fnmatch(glob, slash ? slash + 1 : link, 0) == 0)
            return true;
    }
    snprintf(path, sizeof(path), "%d/comm", pid);
    if (procfs_read(path, &comm) < 0)
        return false;
    comm[strcspn(comm, "\n")] = '\0';
    matches = fnmatch(glob, comm, 0) == 0;
    free(comm);
    return matches;
}

static void list_matches(const struct targets *found, const char *glob)
{
    fprintf(stderr, "probectl: name:%s matches %zu processes:\n", glob, found->n);
    for (size_t i = 0; i < found->n; i++) {
        char path[64], *command = NULL;

        snprintf(path, sizeof(path), "%d/cmdline", found->pids[i]);
        fprintf(stderr, "  %d  ", found->pids[i]);
        if (procfs_read(path, &command) > 0)
            say_stranger(stderr, command);
        fputc('\n', stderr);
        free(command);
    }
    fprintf(stderr, "probectl: name one pid, or use --all\n");
}

/* A shell and a pipe around the program may have its name, too: those with an agent are meant. */
static void keep_those_with_an_agent(struct targets *found)
{
    size_t kept = 0;
    pid_t *pids = found->pids;

    for (size_t i = 0; i < found->n; i++) {
        struct process_facts facts;
        pid_t pid = pids[i];

        if (procfs_facts(pid, &facts) == 0 && endpoint_listens(&facts)) {
            pids[i] = pids[kept];
            pids[kept++] = pid;
        }
    }
    if (kept > 0)
        found->n = kept;
}

static int add_glob(struct targets *targets, const char *glob, bool all)
{
    struct targets found = {0};
    pid_t *pids = NULL;
    ssize_t n = procfs_list(".", &pids);
    int r = 0;

    for (ssize_t i = 0; i < n; i++)
        if (pids[i] != getpid() && program_matches(pids[i], glob))
            append(&found, pids[i]);
    free(pids);
    if (found.n > 1)
        keep_those_with_an_agent(&found);
    if (found.n == 0) {
        fprintf(stderr, "probectl: no process is called '%s'\nprobectl: see probectl ps\n", glob);
        r = EXIT_NO_TARGET;
    } else if (found.n > 1 && !all) {
        list_matches(&found, glob);
        r = EXIT_NO_TARGET;
    }
    for (size_t i = 0; i < found.n && r == 0; i++)
        append(targets, found.pids[i]);
    free(found.pids);
    return r;
}

int targets_add(struct targets *targets, const char *text, bool all)
{
    char *end;
    long pid;

    if (strncmp(text, "name:", 5) == 0 && text[5] != '\0')
        return add_glob(targets, text + 5, all);
    pid = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || pid <= 0 || pid > 0x7fffffff) {
        fprintf(stderr, "probectl: '%s' is neither a pid nor name:GLOB\nprobectl: see probectl dump --help\n",
                text);
        return EXIT_USAGE;
    }
    return append(targets, (pid_t)pid) ? 0 : EXIT_NOTHING;
}
