/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * probectl dump: ask the agents of the targets and print what they say, or what can be seen without them.
 * Zone: client.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/endpoint.h"
#include "cli/exit.h"
#include "cli/external.h"
#include "cli/fill.h"
#include "cli/options.h"
#include "cli/outside.h"
#include "cli/print.h"
#include "cli/say.h"
#include "cli/sweep.h"
#include "cli/target.h"

#define AGENT_TIMEOUT_MAX_MS 60000

const char dump_help[] =
    "usage: probectl dump [OPTION...] TARGET...\n"
    "\n"
    "Prints the stack of every thread of each TARGET: a pid, or name:GLOB for programs by name.\n"
    "\n"
    "  -f, --format text|json        what to print (default text)\n"
    "  -o, --output FILE             write to FILE, private and only when whole; FILE.txt, FILE.json, or\n"
    "                                FILE.jsonl: the agent's answer as it came, for probectl show;\n"
    "                                a symbolic link is replaced, a FIFO or device is written to\n"
    "      --capture auto|passive|signal\n"
    "                                how threads may be captured (default: the program's PROBE_CAPTURE)\n"
    "      --symbols none|table      names from symbol tables, or addresses only (default table)\n"
    "      --timeout DURATION        give up after this long, with what has come so far (default 10s)\n"
    "      --args                    the whole command line, not only its first word\n"
    "      --all                     every process that name:GLOB matches\n"
    "      --force                   without an agent, or with one that does not answer: sleeping threads "
    "from\n"
    "                                outside, through /proc; nothing is attached, nothing is stopped. Also: "
    "ask\n"
    "                                the agent of a program that has sandboxed itself since it was started, "
    "and\n"
    "                                might be killed for what a dump does\n"
    "      --color auto|always|never\n"
    "\n"
    "exit code: 0 complete, 1 printed but incomplete, 2 nothing captured, 3 no such target or ambiguous,\n"
    "4 no agent there or not permitted, 64 usage, 124 time-out. Of several targets the highest.\n"
    "\n"
    "examples:\n"
    "  probectl dump 4711\n"
    "  probectl dump -f json name:redis-server | jq '.processes[0].threads[].name'\n"
    "  probectl dump --all -o hang.jsonl 'name:test_*'\n";

struct dump {
    int format, color, capture, symbols;
    const char *output;
    uint64_t timeout;
    bool args, all, force;
    struct printer printer;
};

static const char *const capture_words[] = {"auto", "passive", "signal", NULL};
static const char *const symbols_words[] = {"none", "table", NULL};

static void make_request(const struct dump *dump, char *request, size_t size)
{
    uint64_t ms =
        dump->timeout / 1000000 * 9 / 10; /* the agent stops before we do, and still says what it has */
    char capture[32] = "";

    if (dump->capture >= 0)
        snprintf(capture, sizeof(capture), " capture=%s", capture_words[dump->capture]);
    snprintf(request, size, "dump%s symbols=%s args=%d timeout=%u\n", capture, symbols_words[dump->symbols],
             dump->args,
             (unsigned)(ms < 1                      ? 1
                        : ms > AGENT_TIMEOUT_MAX_MS ? AGENT_TIMEOUT_MAX_MS
                                                    : ms));
}

static enum exit_code tell(const struct process_facts *facts, const struct endpoint_failure *failure,
                           enum exit_code code)
{
    fprintf(stderr, "probectl: pid %d: %s\nprobectl: %s\n", facts->pid, failure->cause, failure->next_step);
    return code;
}

/* The agent does not answer: print what /proc shows. */
static enum exit_code view_outside(struct dump *dump, const struct process_facts *facts, const char *why)
{
    struct process_facts now = *facts;
    struct snapshot *snapshot;

    procfs_facts(facts->pid, &now); /* its state may have changed while we waited */
    snapshot = now.start_ticks == facts->start_ticks ? outside_view(&now, dump->args) : NULL;
    fprintf(stderr, "probectl: pid %d: %s\n", facts->pid, why);
    if (snapshot == NULL) {
        fprintf(stderr, "probectl: the process ended\n");
        return EXIT_NO_TARGET;
    }
    if (dump->printer.format == PRINT_RAW) {
        fprintf(
            stderr,
            "probectl: there is no answer to save; -o FILE.txt or FILE.json keeps the view from outside\n");
    } else {
        fprintf(stderr, "probectl: this is the view from outside: states and system calls, no stacks\n");
        printer_add(&dump->printer, snapshot, NULL, NULL, 0);
    }
    outside_free(snapshot);
    return EXIT_NOTHING;
}

/* Prints what came and says with its exit code how much that is. */
static enum exit_code print_answer(struct dump *dump, const struct process_facts *facts,
                                   struct client *client)
{
    struct decoder *decoder = client->decoder;
    struct snapshot *snapshot = decoder_finish(decoder);

    if (decoder_error_code(decoder) != NULL && snapshot->n_threads == 0) {
        fprintf(stderr, "probectl: pid %d: the agent refused: ", facts->pid);
        say_stranger(stderr, decoder_error_text(decoder));
        fputs(" (", stderr);
        say_stranger(stderr, decoder_error_code(decoder));
        fputs(")\n", stderr);
        return EXIT_NOTHING;
    }
    if (decoder_problem(decoder) != NULL)
        fprintf(stderr, "probectl: pid %d: %s\n", facts->pid, decoder_problem(decoder));
    if (snapshot->n_threads == 0) {
        for (uint32_t i = 0; decoder_ended(decoder) && i < snapshot->process.n_why; i++) {
            fprintf(stderr, "probectl: pid %d: the agent says: ", facts->pid);
            say_stranger(stderr, snapshot->process.why[i]);
            fputc('\n', stderr);
        }
        return view_outside(dump, facts,
                            decoder_ended(decoder) ? "the agent answered, and could capture no thread"
                                                   : "the agent's answer ended before any thread came");
    }
    fill_names(decoder, snapshot, facts->pid);
    snapshot->process.pid = facts->pid;
    snapshot->process.ns_pid = facts->ns_pid;
    snapshot->process.ppid = facts->ppid;
    printer_add(&dump->printer, snapshot, decoder_agent_version(decoder), client->raw, client->raw_used);
    if (!snapshot->captured || snapshot->stats.threads_captured == 0)
        return EXIT_NOTHING;
    return snapshot->complete ? EXIT_COMPLETE : EXIT_INCOMPLETE;
}

static bool at_work(const void *facts)
{
    return outside_agent_at_work(facts);
}

/* Who answers: the agent, or a child of ours that reads the process from outside. */
struct peer {
    int fd;
    bool (*at_work)(const void *context);
    const void *context;
    enum exit_code (*silent)(struct dump *dump, const struct process_facts *facts, uint64_t deadline);
};

static enum exit_code ask(struct dump *dump, const struct process_facts *facts, const struct peer *peer,
                          uint64_t deadline)
{
    struct client client = {.decoder = decoder_new(),
                            .keep_raw = dump->printer.format == PRINT_RAW,
                            .at_work = peer->at_work,
                            .context = peer->context};
    enum exit_code code = EXIT_NOTHING;
    char request[128];

    if (client.decoder == NULL)
        return EXIT_NOTHING;
    make_request(dump, request, sizeof(request));
    switch (client_request(&client, peer->fd, request, deadline)) {
    case CLIENT_SILENT:
        code = peer->silent(dump, facts, deadline);
        break;
    case CLIENT_DEADLINE:
        decoder_add_why(client.decoder, "the time-out of probectl ended the answer");
        print_answer(dump, facts, &client);
        fprintf(stderr, "probectl: pid %d: --timeout ended the answer\n", facts->pid);
        code = EXIT_DEADLINE;
        break;
    case CLIENT_ENDED:
        code = print_answer(dump, facts, &client);
        break;
    case CLIENT_MEMORY:
        fprintf(stderr, "probectl: out of memory\n");
        break;
    }
    decoder_free(client.decoder);
    free(client.raw);
    return code;
}

static enum exit_code external_silent(struct dump *dump, const struct process_facts *facts, uint64_t deadline)
{
    return view_outside(dump, facts, "its files in /proc cannot be read now");
}

/* --force: the whole passive capture, without the agent. */
static enum exit_code capture_outside(struct dump *dump, const struct process_facts *facts, const char *why,
                                      uint64_t deadline)
{
    struct process_facts now = *facts;
    struct endpoint_failure failure = {0};
    struct external external;
    struct peer peer = {.at_work = external_at_work, .context = &external, .silent = external_silent};
    enum exit_code code;

    procfs_facts(facts->pid, &now); /* its state may have changed while we waited */
    fprintf(stderr, "probectl: pid %d: %s; reading it from outside\n", facts->pid, why);
    switch (external_connect(&now, &external, &failure)) {
    case ENDPOINT_OK:
        peer.fd = external.fd;
        code = ask(dump, &now, &peer, deadline);
        external_close(&external);
        return code;
    case ENDPOINT_NO_PROCESS:
        return tell(facts, &failure, EXIT_NO_TARGET);
    case ENDPOINT_SILENT:
        return tell(facts, &failure, EXIT_NOTHING);
    case ENDPOINT_NOT_PERMITTED:
    case ENDPOINT_NO_AGENT:
        break;
    }
    return tell(facts, &failure, EXIT_NO_AGENT);
}

/* The agent does not answer. */
static enum exit_code without_agent(struct dump *dump, const struct process_facts *facts, const char *why,
                                    uint64_t deadline)
{
    return dump->force ? capture_outside(dump, facts, why, deadline) : view_outside(dump, facts, why);
}

static enum exit_code agent_silent(struct dump *dump, const struct process_facts *facts, uint64_t deadline)
{
    return without_agent(dump, facts, "the agent has not answered within a second", deadline);
}

/*
 * A program that laid a seccomp filter on all its threads since the agent was loaded could be killed by what
 * the agent does. That is seen before the connection wakes the agent.
 */
static bool is_tightened(const struct process_facts *facts)
{
    int born_with = -1;
    pid_t agent = procfs_agent_thread(facts->pid, &born_with);

    return agent > 0 && born_with >= 0 && procfs_seccomp_filters(facts->pid, agent) > born_with;
}

static enum exit_code dump_one(struct dump *dump, pid_t pid, uint64_t deadline)
{
    struct endpoint_failure failure;
    struct process_facts facts;
    enum endpoint_result result;
    enum exit_code code;
    int fd, r = procfs_facts(pid, &facts);

    if (r < 0) {
        fprintf(stderr, "probectl: %s %d%s%s\n",
                r == -ENOENT ? "there is no process" : "cannot look at process", pid,
                r == -ENOENT ? "" : ": ", r == -ENOENT ? "" : strerror(-r));
        return r == -EACCES || r == -EPERM ? EXIT_NO_AGENT : EXIT_NO_TARGET;
    }
    if (facts.tgid != facts.pid) {
        fprintf(stderr, "probectl: %d is a thread of process %d; dump that\n", pid, facts.tgid);
        return EXIT_NO_TARGET;
    }
    if (!dump->force && is_tightened(&facts)) {
        view_outside(dump, &facts, "the program has sandboxed itself since its agent was loaded (seccomp)");
        fprintf(
            stderr,
            "probectl: what a dump does might get it killed by its filter; --force dumps it all the same\n");
        return EXIT_NO_AGENT;
    }
    result = endpoint_connect(&facts, &fd, &failure);
    switch (result) {
    case ENDPOINT_OK:
        code = ask(dump, &facts, &(struct peer){fd, at_work, &facts, agent_silent}, deadline);
        close(fd);
        return code;
    case ENDPOINT_NO_PROCESS:
        return tell(&facts, &failure, EXIT_NO_TARGET);
    case ENDPOINT_SILENT:
        return without_agent(dump, &facts, failure.cause, deadline);
    case ENDPOINT_NOT_PERMITTED:
    case ENDPOINT_NO_AGENT:
        break;
    }
    if (dump->force)
        return capture_outside(dump, &facts, failure.cause, deadline);
    code = tell(&facts, &failure, EXIT_NO_AGENT);
    if (result == ENDPOINT_NO_AGENT)
        fprintf(stderr, "probectl: or read its sleeping threads without an agent: probectl dump --force %d\n",
                pid);
    return code;
}

static enum exit_code dump_all(struct dump *dump, const struct targets *targets)
{
    enum exit_code code = EXIT_COMPLETE;

    /* Each target has the whole time-out: one that hangs takes nothing from the next. */
    for (size_t i = 0; i < targets->n; i++)
        code = exit_worse(code, dump_one(dump, targets->pids[i], client_now() + dump->timeout));
    return code;
}

int command_dump(int argc, char **argv)
{
    struct dump dump = {.format = -1, .capture = -1, .symbols = 1, .timeout = UINT64_C(10000000000)};
    const struct option_row rows[] = {
        {"--format", 'f', .choice = &dump.format, .words = print_format_words},
        {"--output", 'o', .text = &dump.output},
        {"--capture", 0, .choice = &dump.capture, .words = capture_words},
        {"--symbols", 0, .choice = &dump.symbols, .words = symbols_words},
        {"--timeout", 0, .nanos = &dump.timeout},
        {"--args", 0, .flag = &dump.args},
        {"--all", 0, .flag = &dump.all},
        {"--force", 0, .flag = &dump.force},
        {"--color", 0, .choice = &dump.color, .words = print_color_words},
    };
    struct targets targets = {0};
    int code = 0;

    switch (options_parse(&argc, argv, rows, sizeof(rows) / sizeof(rows[0]), "probectl dump --help")) {
    case OPTIONS_HELP:
        fputs(dump_help, stdout);
        return EXIT_COMPLETE;
    case OPTIONS_USAGE:
        return EXIT_USAGE;
    case OPTIONS_OK:
        break;
    }
    if (argc < 2) {
        fprintf(stderr, "probectl: dump which process? See probectl dump --help\n");
        return EXIT_USAGE;
    }
    for (int i = 1; i < argc && code == 0; i++)
        code = targets_add(&targets, argv[i], dump.all);
    if (code == 0)
        code = printer_open(&dump.printer, dump.format, dump.output, dump.color);
    if (code == 0) {
        code = dump_all(&dump, &targets);
        if (!printer_close(&dump.printer))
            code = exit_worse(code, EXIT_NOTHING);
    }
    free(targets.pids);
    sweep_own_directories();
    return code;
}
