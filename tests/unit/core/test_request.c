/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/request.c: the request line is hostile input. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "agent/request.h"

TestSuite(request, .timeout = 5);

static const struct config plain = {.mode = CAPTURE_MODE_AUTO};

static const char *parse(const char *text, struct request *ret)
{
    static char line[REQUEST_MAX];

    strncpy(line, text, sizeof line - 1);
    return request_parse(ret, line, &plain);
}

Test(request, good_lines)
{
    struct request request;

    cr_assert(parse("dump", &request) == NULL);
    cr_expect(eq(int, request.verb, REQUEST_DUMP));
    cr_expect(request.symbols);
    cr_expect(eq(u64, request.timeout_nanos, 5000 * UINT64_C(1000000)));
    cr_assert(parse("  dump   capture=passive symbols=none args=1  timeout=250 ", &request) == NULL);
    cr_expect(eq(int, request.mode, CAPTURE_MODE_PASSIVE));
    cr_expect(not(request.symbols));
    cr_expect(request.all_arguments);
    cr_expect(eq(u64, request.timeout_nanos, 250 * UINT64_C(1000000)));
    cr_assert(parse("hello", &request) == NULL);
    cr_expect(eq(int, request.verb, REQUEST_HELLO));
    cr_assert(parse("dump timeout=999999999999", &request) == NULL);
    cr_expect(eq(u64, request.timeout_nanos, 60000 * UINT64_C(1000000)), "the agent's own limit holds");
}

Test(request, bad_lines_are_refused_with_a_sentence)
{
    static const char *const rows[] = {
        "",
        " ",
        "DUMP",
        "dumpx",
        "dump x",
        "dump capture=",
        "dump capture=auto2",
        "dump symbols=all",
        "dump args=2",
        "dump timeout=0",
        "dump timeout=-5",
        "dump timeout=99999999999999999999",
        "hello=1",
        "dump \x01",
    };
    struct request request;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect(parse(rows[i], &request) != NULL, "'%s' was accepted", rows[i]);
}

Test(request, only_equal_requests_share_a_report)
{
    struct request a, b;

    parse("dump", &a);
    parse("dump timeout=100", &b);
    cr_expect(not(request_same(&a, &b)), "less time can mean less content");
    parse("dump capture=passive", &b);
    cr_expect(not(request_same(&a, &b)));
    parse("dump args=1", &b);
    cr_expect(not(request_same(&a, &b)), "arguments must not leak to who did not ask for them");
    parse("dump symbols=none", &b);
    cr_expect(not(request_same(&a, &b)));
    parse("hello", &b);
    cr_expect(not(request_same(&a, &b)));
}
