/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * probectl: the command table, --help and --version.
 * Zone: client.
 */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "cli/version.h"

static const struct {
    const char *name, *summary, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"dump", "stacks of every thread of a process", dump_help, command_dump},
    {"show", "print a saved report", show_help, command_show},
    {"ps", "list processes with an agent", ps_help, command_ps},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int print_help(void)
{
    printf("usage: probectl COMMAND [OPTION...] [ARGUMENT...]\n"
           "\n"
           "Shows what every thread of a hung program is doing. The program must have been started\n"
           "with LD_PRELOAD=/path/to/libprobe.so.\n"
           "\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-6s %s\n", commands[i].name, commands[i].summary);
    printf("\n"
           "  probectl COMMAND --help   options and examples of a command\n"
           "  probectl --version\n"
           "\n"
           "examples:\n"
           "  LD_PRELOAD=$PWD/libprobe.so ./app &\n"
           "  probectl dump $!\n"
           "  probectl dump -o report.jsonl 4711 && probectl show report.jsonl\n");
    return EXIT_COMPLETE;
}

static int print_command_help(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            fputs(commands[i].help, stdout);
            return EXIT_COMPLETE;
        }
    }
    return -1;
}

static int unknown_command(const char *name)
{
    const char *known[N_COMMANDS + 2] = {"help"};

    for (size_t i = 0; i < N_COMMANDS; i++)
        known[i + 1] = commands[i].name;
    return options_unknown(name[0] == '-' ? "option" : "command", name, known, "probectl --help");
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";

    if (argc < 2) {
        fputs("probectl: which command? See probectl --help\n", stderr);
        return EXIT_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (strcmp(word, "help") == 0 && argc == 2))
        return print_help();
    if (strcmp(word, "--version") == 0) {
        printf("probectl %s\n", PROBE_VERSION);
        return EXIT_COMPLETE;
    }
    if (strcmp(word, "help") == 0)
        return print_command_help(argv[2]) == EXIT_COMPLETE ? EXIT_COMPLETE : unknown_command(argv[2]);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(word, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return unknown_command(word);
}
