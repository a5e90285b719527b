/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* S33: io_uring workers: kernel threads that are listed among the program's, but run no code of it. */
#include "tests/targets/target.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *no_uring(void)
{
    struct io_uring ring;
    static char reason[128];
    int r = io_uring_queue_init(2, &ring, 0);
    if (r < 0) {
        snprintf(reason, sizeof(reason), "io_uring_setup: %s", strerror(-r));
        return reason;
    }
    io_uring_queue_exit(&ring);
    return NULL;
}

static int run_io_uring(void)
{
    struct io_uring ring;
    struct io_uring_cqe *done;
    int gate[2];
    static char byte;

    t_must(pipe2(gate, O_CLOEXEC));
    t_check(io_uring_queue_init(4, &ring, 0) == 0);
    struct io_uring_sqe *read_gate = io_uring_get_sqe(&ring);
    io_uring_prep_read(read_gate, gate[0], &byte, 1, 0);
    read_gate->flags |= IOSQE_ASYNC; /* on a worker thread, which then sleeps in the read */
    t_check(io_uring_submit(&ring) == 1);

    /* Until the worker exists. */
    pid_t worker = 0;
    for (uint64_t end = t_now_ns() + (uint64_t)T_DEADLINE_S * 1000000000u; !worker && t_now_ns() < end;) {
        for (pid_t tid = getpid() + 1; tid < getpid() + 1000 && !worker; tid++) {
            char comm[32];
            if (t_task_file(tid, "comm", comm, sizeof(comm)) && !strncmp(comm, "iou-wrk", 7))
                worker = tid;
        }
        t_sleep_ms(1);
    }
    t_check(worker);
    t_fact("worker", "%d", (int)worker);
    t_ready();
    t_wait_release();
    t_must(write(gate[1], "x", 1));
    t_check(io_uring_wait_cqe(&ring, &done) == 0 && done->res == 1);
    io_uring_queue_exit(&ring);
    return 0;
}

const struct t_scenario t_uring_scenarios[] = {
    {"io_uring", "S33", "a read on an io_uring worker thread", no_uring, run_io_uring},
    {NULL, NULL, NULL, NULL, NULL},
};
