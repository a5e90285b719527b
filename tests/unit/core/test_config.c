/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/config.c: what every variable does, and that a bad value costs one sentence and nothing else. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "agent/config.h"

TestSuite(config, .timeout = 5);

static struct config read_one(const char *variable)
{
    char *envp[] = {"HOME=/root", (char *)variable, "PATH=/bin", NULL};
    struct config config;

    config_read(&config, envp);
    return config;
}

Test(config, defaults_are_the_documented_ones)
{
    struct config config = read_one("X=y");

    cr_assert(eq(sz, config.max_stack, (size_t)262144));
    cr_assert(eq(int, config.mode, CAPTURE_MODE_AUTO));
    cr_assert(eq(int, config.signal, 0));
    cr_assert(not(config.disabled));
    cr_assert(not(config.lazy));
    cr_assert(eq(str, config.directory, ""));
    cr_assert(eq(uint, config.n_complaints, 0u));
}

Test(config, good_values_are_taken)
{
    cr_expect(read_one("PROBE_DISABLE=1").disabled);
    cr_expect(not(read_one("PROBE_DISABLE=0").disabled));
    cr_expect(not(read_one("PROBE_DISABLE=").disabled));
    cr_expect(read_one("PROBE_START=lazy").lazy);
    cr_expect(eq(int, read_one("PROBE_CAPTURE=passive").mode, CAPTURE_MODE_PASSIVE));
    cr_expect(eq(int, read_one("PROBE_CAPTURE=signal").mode, CAPTURE_MODE_SIGNAL));
    cr_expect(eq(int, read_one("PROBE_SIGNAL=40").signal, 40));
    cr_expect(eq(sz, read_one("PROBE_MAX_STACK=65536").max_stack, (size_t)65536));
    struct config config = read_one("PROBE_DIR=/run/x");
    cr_expect(eq(str, config.directory, "/run/x"));
    cr_expect(config.directory_explicit);
    config = read_one("PROBE_LABEL=suite/test 7");
    cr_expect(eq(str, config.label, "suite/test 7"));
}

Test(config, bad_values_leave_the_default_and_one_complaint)
{
    static const char *const rows[] = {
        "PROBE_CAPTURE=",     "PROBE_CAPTURE=fast",  "PROBE_SIGNAL=9",
        "PROBE_SIGNAL=32",    "PROBE_SIGNAL=65",     "PROBE_SIGNAL=x",
        "PROBE_MAX_STACK=0",  "PROBE_MAX_STACK=64k", "PROBE_MAX_STACK=999999999",
        "PROBE_DIR=relative", "PROBE_DIR=",          "PROBE_START=now",
        "PROBE_FIFO=/x",
    };
    struct config plain = read_one("X=y");

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config config = read_one(rows[i]);

        cr_expect(config.n_complaints == 1, "%s: %u complaints", rows[i], config.n_complaints);
        /* The complaint says which variable it is about. */
        cr_expect(strstr(config.complaints[0], "PROBE_") != NULL, "%s", rows[i]);
        config.n_complaints = 0;
        config.complaints[0] = NULL;
        cr_expect(memcmp(&config, &plain, sizeof config) == 0, "%s changed something", rows[i]);
    }
}

Test(config, a_value_that_is_too_long_is_refused_not_cut)
{
    char variable[2000] = "PROBE_LABEL=";

    memset(variable + strlen(variable), 'x', 1000);
    struct config config = read_one(variable);

    cr_assert(eq(str, config.label, ""));
    cr_assert(eq(uint, config.n_complaints, 1u));
}

Test(config, runtime_directory_is_second_to_an_explicit_one_in_either_order)
{
    char *first[] = {"PROBE_DIR=/a", "XDG_RUNTIME_DIR=/run/user/1", NULL};
    char *second[] = {"XDG_RUNTIME_DIR=/run/user/1", "PROBE_DIR=/a", NULL};
    char *alone[] = {"XDG_RUNTIME_DIR=/run/user/1", NULL};
    struct config config;

    config_read(&config, first);
    cr_expect(eq(str, config.directory, "/a"));
    config_read(&config, second);
    cr_expect(eq(str, config.directory, "/a"));
    config_read(&config, alone);
    cr_expect(eq(str, config.directory, "/run/user/1/probe"));
    cr_expect(not(config.directory_explicit));
}
