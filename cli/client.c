/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Talking to an agent; see client.h.
 * Zone: client.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "cli/client.h"

#define NANOS UINT64_C(1000000000)
/* An agent that says nothing for this long is stuck or stopped (DESIGN: after one second, the outside view).
 */
#define HELLO_NANOS NANOS
#define PROGRESS_NANOS (2 * NANOS)

static uint64_t program_start;

uint64_t client_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NANOS + (uint64_t)now.tv_nsec;
}

/* Before main, so that time spent anywhere in this program counts. */
__attribute__((constructor)) static void note_start(void)
{
    program_start = client_now();
}

void client_progress(const char *what)
{
    static bool told;

    if (told || client_now() - program_start < PROGRESS_NANOS)
        return;
    told = true;
    fprintf(stderr, "probectl: %s\n", what);
}

static bool keep_raw(struct client *client, const char *bytes, size_t n)
{
    size_t size = client->raw_size ? client->raw_size : (size_t)64 * 1024;
    char *bigger;

    if (!client->keep_raw)
        return true;
    while (size - client->raw_used < n)
        size *= 2;
    if (size != client->raw_size) {
        bigger = realloc(client->raw, size);
        if (bigger == NULL)
            return false;
        client->raw = bigger;
        client->raw_size = size;
    }
    memcpy(client->raw + client->raw_used, bytes, n);
    client->raw_used += n;
    return true;
}

/* Until data, hang-up or the given time; wakes up once to tell about progress. */
static bool wait_readable(int fd, uint64_t until)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    uint64_t now;
    int r, ms;

    for (;;) {
        client_progress("waiting for the agent's answer");
        now = client_now();
        if (now >= until)
            return false;
        ms = (int)((until - now) / 1000000 + 1);
        r = poll(&poll_fd, 1, ms < 250 ? ms : 250);
        if (r > 0)
            return true;
        if (r < 0 && errno != EINTR)
            return false;
    }
}

/* True while more is to come. */
static bool take_bytes(struct client *client, const char *bytes, size_t n, enum client_result *ret_result)
{
    if (!keep_raw(client, bytes, n)) {
        *ret_result = CLIENT_MEMORY;
        return false;
    }
    return decoder_feed(client->decoder, bytes, n) && !decoder_ended(client->decoder);
}

enum client_result client_request(struct client *client, int fd, const char *request, uint64_t deadline)
{
    uint64_t hello = client_now() + HELLO_NANOS;
    enum client_result result = CLIENT_ENDED;
    char buffer[65536];
    ssize_t n;

    /* A request is far smaller than a socket buffer, so it goes out whole or not at all. */
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        return errno == EAGAIN ? CLIENT_SILENT : CLIENT_ENDED;
    for (;;) {
        bool quiet = decoder_progress(client->decoder) == DECODE_NOTHING;
        uint64_t until = quiet && hello < deadline ? hello : deadline;

        if (!wait_readable(fd, until)) {
            if (!quiet || until != hello)
                return CLIENT_DEADLINE;
            if (!client->at_work || !client->at_work(client->context))
                return CLIENT_SILENT;
            hello = client_now() + HELLO_NANOS;
            continue;
        }
        n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return CLIENT_ENDED;
        if (!take_bytes(client, buffer, (size_t)n, &result))
            return result;
    }
}
