/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The subcommands: one function, one file and one help text each.
 * Zone: client.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

extern const char dump_help[], ps_help[], show_help[];

/* argv[0] is the command's name. Return an exit code. */
int command_dump(int argc, char **argv);
int command_ps(int argc, char **argv);
int command_show(int argc, char **argv);

#endif
