/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See server.h. One loop: wait, take connections, read requests, send what is ready, and start a report when
 * somebody waits for one.
 * Zone: probe thread.
 */
#include "agent/server.h"

#include <fcntl.h>
#include <linux/errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "agent/alive.h"
#include "agent/credentials.h"
#include "agent/dump.h"
#include "agent/endpoint.h"
#include "agent/report/encode.h"
#include "agent/report/units.h"
#include "agent/reserve.h"
#include "agent/sys.h"
#include "agent/text.h"
#include "agent/nolibc.h"

/* Picked at random; a silent client makes room for a new one, further ones wait in the backlog. */
#define MAX_CLIENTS 16
#define REQUEST_DEADLINE (2 * NANOS_PER_SECOND)  /* to send the request line */
#define PROGRESS_DEADLINE (5 * NANOS_PER_SECOND) /* to take the next bytes of a report */
#define TOTAL_DEADLINE (60 * NANOS_PER_SECOND)   /* to take a whole report, a byte now and then */

/*
 * Where connections cannot be taken (no descriptor left, a sandbox), the next
 * attempt waits, longer each time.
 */
#define SHORTEST_REST NANOS_PER_SECOND
#define LONGEST_REST (64 * NANOS_PER_SECOND)

/*
 * DESIGN: 64 MiB in all for 10,000 threads. Both are address space until touched, and given back after use.
 */
#define ARENA_SIZE ((size_t)32 * 1024 * 1024)
#define REPORT_SIZE ((size_t)16 * 1024 * 1024)
#define SMALLEST_SIZE ((size_t)1024 * 1024)

/* Two reports: the next one can be taken while a slow client still reads the last. */
#define MAX_REPORTS 2

/* A capture holds this many files open at a time (tried with the least limit that gives a whole dump). */
#define CAPTURE_DESCRIPTORS 6

enum client_state {
    CLIENT_FREE,
    CLIENT_READING, /* its request line is not whole */
    CLIENT_WAITING, /* for a report that has not begun */
    CLIENT_SENDING,
};

struct client {
    enum client_state state;
    int fd;
    uint64_t deadline;
    uint64_t last_deadline; /* of its report, whatever progress it makes */
    size_t used;            /* bytes of line */
    char line[REQUEST_MAX];
    struct request request;
    struct report *report;
    size_t sent;
};

struct report {
    struct out out; /* buffer NULL: free */
    bool whole;     /* nothing will be added */
};

struct server {
    const struct config *config;
    int listener;
    int watched;          /* see alive.h */
    uint64_t rest;        /* 0: connections can be taken */
    uint64_t rests_until; /* the listener is not looked at before */
    struct client clients[MAX_CLIENTS];
    struct report reports[MAX_REPORTS];
};

static void release_report(struct server *server, struct report *report)
{
    for (size_t i = 0; i < MAX_CLIENTS; i++)
        if (server->clients[i].report == report)
            return;
    if (report->out.buffer && report->whole) {
        sys_munmap(report->out.buffer, report->out.size);
        *report = (struct report){0};
    }
}

static void drop_client(struct server *server, struct client *client)
{
    struct report *report = client->report;

    sys_close(client->fd);
    __builtin_memset(client, 0, sizeof *client);
    if (report)
        release_report(server, report);
}

static void set_progress_deadline(struct client *client)
{
    uint64_t next = sys_monotonic_nanos() + PROGRESS_DEADLINE;

    client->deadline = next < client->last_deadline ? next : client->last_deadline;
}

/* Sends what the client's socket takes at once. A client that has everything, or is gone, is dropped. */
static void send_ready(struct server *server, struct client *client)
{
    struct report *report = client->report;

    while (client->sent < report->out.used) {
        long n = sys_send(client->fd, report->out.buffer + client->sent, report->out.used - client->sent,
                          MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n == -EINTR)
            continue;
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            drop_client(server, client);
            return;
        }
        client->sent += (size_t)n;
        set_progress_deadline(client);
    }
    if (report->whole)
        drop_client(server, client);
}

/* Refuses a request: the connection's buffer takes these few bytes, or the client is not reading at all. */
static void refuse(struct server *server, struct client *client, const char *code, const char *text)
{
    struct snapshot nothing = {0};
    char buffer[1024];
    struct out out = {.buffer = buffer, .size = sizeof buffer};

    encode_hello(&out, PROBE_VERSION);
    encode_error(&out, code, text);
    encode_end(&out, &nothing);
    sys_send(client->fd, buffer, out.used, MSG_DONTWAIT | MSG_NOSIGNAL);
    drop_client(server, client);
}

/* The line is whole. Credentials first: whom we serve depends on who the program is by now. */
static void take_request(struct server *server, struct client *client)
{
    const char *complaint;

    if (!alive_anybody()) {
        refuse(server, client, "ended",
               "the program's threads have ended; now the agent leaves, and the process is gone");
        server->watched = ALIVE_NOBODY;
        return;
    }
    if (sys_open_files_limit() < (uint64_t)client->fd + CAPTURE_DESCRIPTORS) {
        refuse(server, client, "descriptors",
               "the program may open too few files (RLIMIT_NOFILE) for the agent to look at it");
        return;
    }
    if (credentials_follow() < 0) {
        refuse(server, client, "credentials",
               "the program changed its user or groups, and the agent's thread cannot follow");
        return;
    }
    if (!endpoint_peer_allowed(client->fd, credentials_effective_user())) {
        drop_client(server, client);
        return;
    }
    complaint = request_parse(&client->request, client->line, server->config);
    if (complaint)
        refuse(server, client, "bad_request", complaint);
    else
        client->state = CLIENT_WAITING;
}

static void read_request(struct server *server, struct client *client)
{
    long n =
        sys_recv(client->fd, client->line + client->used, sizeof client->line - client->used, MSG_DONTWAIT);

    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) {
        drop_client(server, client);
        return;
    }
    for (size_t i = client->used; i < client->used + (size_t)n; i++) {
        if (client->line[i] == 0) {
            refuse(server, client, "bad_request", "the request has a NUL byte");
            return;
        }
        if (client->line[i] == '\n') {
            client->line[i] = 0;
            take_request(server, client);
            return;
        }
    }
    client->used += (size_t)n;
    if (client->used == sizeof client->line)
        refuse(server, client, "bad_request", "the request is longer than 512 bytes");
}

/* A free place, or that of the client that has been silent longest; NULL when all are being served. */
static struct client *find_place(struct server *server)
{
    struct client *silent = NULL;

    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        struct client *client = &server->clients[i];

        if (client->state == CLIENT_FREE)
            return client;
        if (client->state == CLIENT_READING && (!silent || client->deadline < silent->deadline))
            silent = client;
    }
    return silent;
}

/*
 * The connection stays in the backlog, and poll would report it at once again: for
 * ever, where a sandbox refuses.
 */
static void rest(struct server *server)
{
    server->rest = server->rest ? server->rest * 2 : SHORTEST_REST;
    if (server->rest > LONGEST_REST)
        server->rest = LONGEST_REST;
    server->rests_until = sys_monotonic_nanos() + server->rest;
}

static void accept_client(struct server *server)
{
    struct client *place = find_place(server);
    long fd;

    if (!place)
        return;
    fd = sys_accept(server->listener, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd == -EAGAIN || fd == -EINTR || fd == -ECONNABORTED)
        return;
    if (fd < 0) {
        rest(server);
        return;
    }
    server->rest = 0;
    if (place->state != CLIENT_FREE)
        drop_client(server, place);
    place->fd = (int)fd;
    place->state = CLIENT_READING;
    place->deadline = sys_monotonic_nanos() + REQUEST_DEADLINE;
}

struct stage {
    struct server *server;
    struct report *report;
};

static void send_stage(void *context)
{
    const struct stage *stage = context;

    for (size_t i = 0; i < MAX_CLIENTS; i++)
        if (stage->server->clients[i].report == stage->report)
            send_ready(stage->server, &stage->server->clients[i]);
}

/* All clients that wait for the same thing get the one report that begins now. */
static void assign(struct server *server, const struct request *request, struct report *report)
{
    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        struct client *client = &server->clients[i];

        if (client->state == CLIENT_WAITING && request_same(&client->request, request)) {
            client->state = CLIENT_SENDING;
            client->report = report;
            client->last_deadline = sys_monotonic_nanos() + TOTAL_DEADLINE;
            set_progress_deadline(client);
        }
    }
}

static void start_report(struct server *server, struct client *first, struct report *report)
{
    struct stage stage = {server, report};
    struct dump_sink sink = {&report->out, send_stage, &stage};
    struct request request = first->request;
    struct arena arena = {0};
    struct subject own;

    report->out = (struct out){0};
    report->out.buffer = reserve_memory(REPORT_SIZE, SMALLEST_SIZE, &report->out.size);
    arena.base = reserve_memory(ARENA_SIZE, SMALLEST_SIZE, &arena.size);
    if (!report->out.buffer || !arena.base) {
        if (report->out.buffer)
            sys_munmap(report->out.buffer, report->out.size);
        if (arena.base)
            sys_munmap(arena.base, arena.size);
        *report = (struct report){0};
        refuse(server, first, "no_memory", "the process's limits leave the agent no memory for a dump");
        return;
    }
    report->whole = false;
    assign(server, &request, report);
    subject_open_own(&own);
    dump_run(&request, server->config, &own, &arena, &sink);
    subject_close(&own);
    sys_munmap(arena.base, arena.size);
    report->whole = true;
    send_stage(&stage);
    release_report(server, report);
}

static void start_waiting_reports(struct server *server)
{
    for (size_t i = 0; i < MAX_CLIENTS; i++)
        for (size_t j = 0; j < MAX_REPORTS && server->clients[i].state == CLIENT_WAITING; j++)
            if (!server->reports[j].out.buffer)
                start_report(server, &server->clients[i], &server->reports[j]);
}

static void drop_late_clients(struct server *server, uint64_t now)
{
    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        struct client *client = &server->clients[i];

        if ((client->state == CLIENT_READING || client->state == CLIENT_SENDING) && now >= client->deadline)
            drop_client(server, client);
    }
}

static bool is_resting(const struct server *server, uint64_t now)
{
    return server->rest && now < server->rests_until;
}

/* Without clients: -1, for ever. The probe thread never wakes by itself. */
static int64_t time_to_wait(const struct server *server, uint64_t now)
{
    uint64_t next = is_resting(server, now) ? server->rests_until : UINT64_MAX;

    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        const struct client *client = &server->clients[i];

        if ((client->state == CLIENT_READING || client->state == CLIENT_SENDING) && client->deadline < next)
            next = client->deadline;
    }
    if (next == UINT64_MAX)
        return -1;
    return next > now ? (int64_t)(next - now) : 0;
}

/*
 * The program may allow few descriptors, and poll takes no more entries than that:
 * only those in use are there.
 */
struct poll_set {
    struct pollfd fds[MAX_CLIENTS + 2];
    struct client *clients[MAX_CLIENTS + 2]; /* NULL: the listener, or the watched thread */
    unsigned n;
};

static void add_to_set(struct poll_set *set, struct client *client, int fd, short events)
{
    set->clients[set->n] = client;
    set->fds[set->n++] = (struct pollfd){.fd = fd, .events = events};
}

static long wait_for_work(struct server *server, struct poll_set *set)
{
    uint64_t now = sys_monotonic_nanos();
    long r;

    set->n = 0;
    if (server->watched >= 0)
        add_to_set(set, NULL, server->watched, POLLIN);
    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        struct client *client = &server->clients[i];

        if (client->state == CLIENT_READING)
            add_to_set(set, client, client->fd, POLLIN);
        else if (client->state != CLIENT_FREE)
            add_to_set(set, client, client->fd, client->state == CLIENT_SENDING ? POLLOUT : 0);
    }
    /* Last: a new client may get the place of a silent one, which has been served by then. */
    if (!is_resting(server, now) && find_place(server))
        add_to_set(set, NULL, server->listener, POLLIN);
    r = sys_poll(set->fds, set->n, time_to_wait(server, now));
    if (r != -EINVAL)
        return r;
    /* The program may open fewer files than we have to look at, perhaps none: nobody can be served so. */
    rest(server);
    set->n = 0;
    return sys_poll(NULL, 0, (int64_t)server->rest);
}

static void serve_client(struct server *server, struct client *client, short events)
{
    if (events & (POLLERR | POLLNVAL) || (events & POLLHUP && client->state != CLIENT_READING))
        drop_client(server, client);
    else if (client->state == CLIENT_READING)
        read_request(server, client);
    else if (client->state == CLIENT_SENDING)
        send_ready(server, client);
}

static void serve(struct server *server, const struct poll_set *set, unsigned i)
{
    if (set->clients[i])
        serve_client(server, set->clients[i], set->fds[i].revents);
    else if (set->fds[i].fd == server->listener)
        accept_client(server);
    else
        server->watched = alive_watch_next(server->watched);
}

void server_run(int listener, const struct config *config)
{
    static struct server server; /* 9 KiB: not for our small stack; there is one probe thread in a process */
    struct poll_set set;
    long r;

    __builtin_memset(&server, 0, sizeof server); /* a fork child finds its parent's clients here */
    server.config = config;
    server.listener = listener;
    server.watched = alive_watch();
    while (server.watched != ALIVE_NOBODY && ((r = wait_for_work(&server, &set)) >= 0 || r == -EINTR)) {
        for (unsigned i = 0; r > 0 && i < set.n; i++)
            if (set.fds[i].revents)
                serve(&server, &set, i);
        drop_late_clients(&server, sys_monotonic_nanos());
        start_waiting_reports(&server);
    }
}
