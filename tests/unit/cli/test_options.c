/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Command lines, durations, and names as people write them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/procfs.h"

TestSuite(options, .timeout = 10);
TestSuite(names, .timeout = 10);
TestSuite(procfs, .timeout = 10);

static const char *const words[] = {"text", "json", NULL};
static bool flag;
static const char *output;
static int choice;
static uint64_t nanos;
static const struct option_row rows[] = {
    {"--format", 'f', .choice = &choice, .words = words},
    {"--output", 'o', .text = &output},
    {"--timeout", 0, .nanos = &nanos},
    {"--args", 0, .flag = &flag},
};

static enum options_outcome parse(int *argc, char **argv)
{
    flag = false;
    output = NULL;
    choice = -1;
    nanos = 0;
    if (freopen("/dev/null", "w", stderr) == NULL)
        cr_log_info("messages are shown");
    return options_parse(argc, argv, rows, 4, "help");
}

Test(options, every_way_to_write_a_value)
{
    char *argv[] = {"dump", "-fjson", "a", "-o", "x", "--timeout=500ms", "--args", "b", "--", "-f", NULL};
    int argc = 10;

    cr_assert(eq(int, parse(&argc, argv), OPTIONS_OK));
    cr_assert(eq(int, choice, 1));
    cr_assert(eq(str, (char *)output, "x"));
    cr_assert(eq(u64, nanos, 500000000));
    cr_assert(flag);
    cr_assert(eq(int, argc, 4));
    cr_assert(eq(str, argv[1], "a"));
    cr_assert(eq(str, argv[2], "b"));
    cr_assert(eq(str, argv[3], "-f"));
}

Test(options, mistakes)
{
    static const char *const lines[][2] = {
        {"--formt", "json"},
        {"-x", NULL},
        {"--format", NULL},
        {"--format", "yaml"},
        {"--timeout", "10x"},
        {"--timeout", "-1"},
        {"--args=1", NULL},
        {"--form", "json"},
        {"--timeout", ""},
        {"--timeout", "99999999999999999999"},
        {"--timeout", "99999999999h"},
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char *argv[] = {"dump", (char *)lines[i][0], (char *)lines[i][1], NULL};
        int argc = lines[i][1] ? 3 : 2;

        cr_expect(eq(int, parse(&argc, argv), OPTIONS_USAGE), "%s", lines[i][0]);
    }
}

Test(options, durations)
{
    static const struct {
        const char *text;
        uint64_t nanos;
    } good[] = {
        {"10", 10000000000}, {"10s", 10000000000}, {"2m", 120000000000}, {"1h", 3600000000000}, {"0", 0}};
    uint64_t got;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(options_duration(good[i].text, &got));
        cr_expect(eq(u64, got, good[i].nanos), "%s", good[i].text);
    }
}

Test(names, both_languages_and_no_mangling)
{
    static const struct {
        const char *in, *out;
    } names_rows[] = {
        {"main", "main"},
        {"_ZN3foo3barEv", "foo::bar()"},
        {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
        {"_RNvC7mycrate3foo", "mycrate::foo"},
        {"_start", "_start"},
        {"_Znonsense", "_Znonsense"},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof(names_rows) / sizeof(names_rows[0]); i++)
        cr_expect(eq(str, (char *)names_display(NULL, names_rows[i].in), (char *)names_rows[i].out));
}

/* Every level doubles the text: unbounded, this would be 2^200 characters. */
Test(names, a_name_that_explodes_is_left_as_it_is)
{
    char name[4000] = "_Z1fSt4pairIiiES_IS_S_E";
    size_t used;

    strcpy(name, "_Z1f1AIiiE");
    used = strlen(name);
    for (int i = 0; i < 30; i++)
        used += (size_t)snprintf(name + used, sizeof(name) - used, "1AIS%c_S%c_E",
                                 i < 2 ? '_' : "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 2],
                                 i < 2 ? '_' : "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 2]);
    cr_expect(strlen(names_display(NULL, name)) < 20000);
}

Test(names, a_name_nested_without_end_is_survived)
{
    char *name = malloc(1 << 20);

    memset(name, 'P', 1 << 20);
    memcpy(name, "_Z1f", 4);
    for (size_t n = 10; n < (1 << 20); n *= 3) {
        name[n] = '\0';
        cr_expect(names_display(NULL, name) != NULL);
        name[n] = 'P';
    }
}

Test(procfs, a_value_is_found_only_at_the_start_of_its_entry)
{
    static const char block[] = "XPROBE_DIR=/no\0PROBE_DIRX=/no\0PROBE_DIR=/yes\0PROBE_DIR=/late";

    cr_assert(eq(str, (char *)procfs_environ(block, sizeof(block), "PROBE_DIR"), "/yes"));
    cr_assert(procfs_environ(block, sizeof(block), "DIR") == NULL);
    cr_assert(procfs_environ(block, 3, "PROBE_DIR") == NULL);
    cr_assert(procfs_environ(block, 0, "PROBE_DIR") == NULL);
}

Test(procfs, own_facts)
{
    struct process_facts facts;

    cr_assert(eq(int, procfs_facts(getpid(), &facts), 0));
    cr_assert(eq(int, facts.tgid, getpid()));
    cr_assert(eq(int, facts.ppid, getppid()));
    cr_assert(facts.n_threads >= 1 && facts.start_ticks > 0);
    cr_assert(facts.up_nanos < UINT64_C(60000000000));
    cr_assert(facts.uid[0] == getuid());
    cr_assert(eq(int, procfs_facts(0x3fffffff, &facts), -2));
}
