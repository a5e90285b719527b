/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/server.c against a kernel that is played here: clients, clock and poll are what a test says. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/config.h"
#include "agent/server.h"
#include "agent/sys.h"

TestSuite(server, .timeout = 20);

#define LISTENER 1000
#define CLIENT 1001
#define SECOND 1000000000

static struct {
    uint64_t now; /* ns */
    int polls, last_poll;
    bool listened[32]; /* was the listener in the n-th poll? */
    int64_t timeout[32];
    uint64_t step; /* by which the clock goes on in every poll; 0: by its time-out */
    long accepted; /* what accept4 gives; its sign is that of an error */
    bool taken;    /* a connection is there only once */
    const char *request;
    long takes; /* bytes that the client's socket takes at once */
    char answer[4096];
    size_t answered;
    uint64_t closed; /* when the client was dropped */
    bool proc_hidden;
    nfds_t limit; /* RLIMIT_NOFILE - 1, which poll heeds */
} world;

static long play_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout)
{
    int poll = world.polls++;
    long ready = 0;

    if (world.polls > world.last_poll)
        return -EFAULT;
    if (world.limit && n >= world.limit)
        return -EINVAL;
    world.timeout[poll % 32] = timeout ? timeout->tv_sec * SECOND + timeout->tv_nsec : -1;
    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = fds[i].fd == LISTENER && world.taken ? 0 : fds[i].events;
        ready += fds[i].revents != 0;
        world.listened[poll % 32] |= fds[i].fd == LISTENER;
    }
    world.now += world.step ? world.step : ready ? 0 : (uint64_t)world.timeout[poll % 32];
    return ready;
}

static long play_send(const void *from, size_t size)
{
    size_t n = world.takes && (size_t)world.takes < size ? (size_t)world.takes : size;

    if (world.answered + n < sizeof(world.answer))
        memcpy(world.answer + world.answered, from, n);
    world.answered += n;
    return (long)n;
}

static bool play(long number, const long args[6], long *ret_result)
{
    static bool sent;

    switch (number) {
    case SYS_ppoll:
        *ret_result = play_poll((struct pollfd *)args[0], (nfds_t)args[1], (const struct timespec *)args[2]);
        sent = false;
        return true;
    case SYS_clock_gettime:
        *(struct timespec *)args[1] =
            (struct timespec){(time_t)(world.now / SECOND), (long)(world.now % SECOND)};
        *ret_result = 0;
        return true;
    case SYS_accept4:
        *ret_result = world.accepted;
        world.taken = world.accepted >= 0;
        return true;
    case SYS_recvfrom:
        *ret_result = (long)strlen(world.request);
        memcpy((void *)args[1], world.request, strlen(world.request));
        return true;
    case SYS_sendto:
        *ret_result = sent ? -EAGAIN : play_send((const void *)args[1], (size_t)args[2]);
        sent = world.takes;
        return true;
    case SYS_getsockopt:
        *(struct ucred *)args[3] = (struct ucred){.pid = getpid(), .uid = geteuid()};
        *ret_result = 0;
        return true;
    case SYS_close:
        if (args[0] != CLIENT)
            return false;
        world.closed = world.now;
        *ret_result = 0;
        return true;
    case SYS_readlinkat:
        *ret_result = -EACCES;
        return world.proc_hidden;
    case SYS_pidfd_open:
        *ret_result = -EINVAL;
        return true;
    default:
        return false;
    }
}

static void run(int polls)
{
    static struct config config;

    world.now = 100 * (uint64_t)SECOND;
    world.last_poll = polls;
    config.max_stack = SNAPSHOT_MAX_STACK;
    sys_hook = play;
    server_run(LISTENER, &config);
    sys_hook = NULL;
}

/* The connection stays in the backlog; asking again at once would go on for ever. */
Test(server, a_connection_that_is_refused_to_us_is_left_alone_longer_each_time)
{
    static const int errors[] = {EPERM, ENFILE, EMFILE, ENOMEM};

    for (size_t e = 0; e < 4; e++) {
        memset(&world, 0, sizeof world);
        world.accepted = -errors[e];
        run(7);
        for (int poll = 0; poll < 7; poll++)
            cr_expect(eq(int, world.listened[poll], poll % 2 == 0));
        cr_expect(eq(i64, world.timeout[1], SECOND));
        cr_expect(eq(i64, world.timeout[3], 2l * SECOND));
        cr_expect(eq(i64, world.timeout[5], 4l * SECOND));
    }
}

Test(server, the_longest_pause_is_about_a_minute)
{
    world.accepted = -EPERM;
    run(31);
    cr_expect(eq(i64, world.timeout[29], 64l * SECOND));
}

Test(server, a_connection_that_went_away_costs_no_pause)
{
    static const int errors[] = {EAGAIN, EINTR, ECONNABORTED};

    for (size_t e = 0; e < 3; e++) {
        memset(&world, 0, sizeof world);
        world.accepted = -errors[e];
        run(4);
        for (int poll = 0; poll < 4; poll++)
            cr_expect(world.listened[poll]);
    }
}

Test(server, answers_a_request)
{
    world.accepted = CLIENT;
    world.request = "hello\n";
    run(3);
    cr_expect(strstr(world.answer, "\"type\":\"hello\"") && strstr(world.answer, "\"type\":\"end\""), "%s",
              world.answer);
    cr_expect(ne(u64, world.closed, 0));
}

Test(server, a_client_that_takes_a_byte_now_and_then_is_dropped_after_a_minute)
{
    world.accepted = CLIENT;
    world.request = "hello\n";
    world.takes = 1;
    world.step = 4l * SECOND; /* below the five seconds that may pass without progress */
    run(30);
    cr_expect(gt(u64, world.answered, 5));
    cr_expect(lt(u64, world.answered, 20));
    cr_expect(ge(u64, world.closed, 160l * SECOND));
    cr_expect(le(u64, world.closed, 180l * SECOND));
}

/* A program may lower the limit to nothing, as sandboxes do, and raise it again. */
Test(server, without_a_descriptor_to_look_at_it_waits_for_better_times)
{
    world.limit = 1;
    world.accepted = -EMFILE;
    run(9);
    cr_expect(eq(int, world.polls, 10), "it goes on until the end of the play");
    cr_expect(not(world.listened[0] || world.listened[1]));
    cr_expect(eq(i64, world.timeout[1], SECOND));
    cr_expect(eq(i64, world.timeout[3], 2l * SECOND));
}

/* Then ours may be more than the program's. */
Test(server, says_so_when_it_cannot_follow_the_program_s_credentials)
{
    world.accepted = CLIENT;
    world.request = "dump\n";
    world.proc_hidden = true;
    run(3);
    cr_expect(strstr(world.answer, "\"code\":\"credentials\"") != NULL, "%s", world.answer);
    cr_expect(strstr(world.answer, "\"type\":\"thread\"") == NULL);
    cr_expect(ne(u64, world.closed, 0));
}
