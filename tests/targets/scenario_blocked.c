/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scenarios of sleeping threads: every blocking call a program uses, and many threads with a known deep
 * chain. What they check is what the program would observe if somebody disturbed the sleep: an early return,
 * an error, a short count, a stolen signal.
 */
#include "tests/targets/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20, SEND_BYTES = 4 << 20, WAITALL_BYTES = 10, WAITALL_FIRST = 3 };

struct blocked;

struct row {
    const char *name;
    long numbers[2]; /* the system calls this may be, depending on the libc; 0: none */
    void (*prepare)(struct blocked *);
    t_leaf leaf;
    void (*release)(struct blocked *); /* NULL: ends by its own time-out */
    long want, want_errno;             /* result of leaf; errno where want is -1 */
};

struct blocked {
    const struct row *row;
    pthread_t thread;
    _Atomic pid_t tid;
    int depth;
    int fd[2];
    int id; /* System V object */
    mqd_t queue;
    pid_t child;
    char path[PATH_MAX];
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    pthread_t other;
    int word;
    bool flag;
    long result;
    int error;
    uint64_t begin, end;
};

static long timeout_ms;
static _Atomic uint64_t released_at;

static struct timespec timeout_from_now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += timeout_ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

static struct timespec timeout_span(void)
{
    return (struct timespec){.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000};
}

static struct timeval timeout_timeval(void)
{
    return (struct timeval){.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
}

/* One blocking call: wait_NAME is the innermost function of the program in that thread's stack. */
#define WAIT(name, ...)                                 \
    T_FRAME long wait_##name(void *argument);           \
    T_FRAME long wait_##name(void *argument)            \
    {                                                   \
        struct blocked *b = (struct blocked *)argument; \
        long result;                                    \
        (void)b;                                        \
        __VA_ARGS__                                     \
        T_NO_TAIL_CALL();                               \
        return result;                                  \
    }

static void prepare_pipe(struct blocked *b)
{
    t_must(pipe2(b->fd, O_CLOEXEC));
}

static void release_write(struct blocked *b)
{
    t_must(write(b->fd[1], "x", 1));
}

static void prepare_sockets(struct blocked *b)
{
    t_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b->fd));
}

static void prepare_timed_sockets(struct blocked *b)
{
    struct timeval t = timeout_timeval();
    prepare_sockets(b);
    t_must(setsockopt(b->fd[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
    t_must(setsockopt(b->fd[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)));
}

/* An abstract address: no file to clean up. */
static void prepare_listener(struct blocked *b)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "probe-target-%d-%s", (int)getpid(),
                     b->row->name);
    b->fd[0] = t_must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    t_must(bind(b->fd[0], (struct sockaddr *)&address, size));
    t_must(listen(b->fd[0], 1));
}

static void prepare_timed_listener(struct blocked *b)
{
    struct timeval t = timeout_timeval();
    prepare_listener(b);
    t_must(setsockopt(b->fd[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)));
}

static void release_connect(struct blocked *b)
{
    struct sockaddr_un address;
    socklen_t size = sizeof(address);
    t_must(getsockname(b->fd[0], (struct sockaddr *)&address, &size));
    b->fd[1] = t_must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    t_must(connect(b->fd[1], (struct sockaddr *)&address, size));
}

WAIT(read, {
    char byte;
    result = read(b->fd[0], &byte, 1);
})
WAIT(raw_read, {
    char byte;
    result = syscall(SYS_read, b->fd[0], &byte, 1);
})
WAIT(recv, {
    char byte;
    result = recv(b->fd[0], &byte, 1, 0);
})
WAIT(recv_timed, {
    char byte;
    result = recv(b->fd[0], &byte, 1, 0);
})
WAIT(recvmsg, {
    char byte;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    result = recvmsg(b->fd[0], &message, 0);
})
WAIT(accept, { result = accept(b->fd[0], NULL, NULL) >= 0; })
WAIT(accept_timed, { result = accept(b->fd[0], NULL, NULL); })

/* Short counts: no loop around the call, as in many programs. */
static char big[SEND_BYTES];

static void *drain(void *argument)
{
    const struct blocked *b = (struct blocked *)argument;
    static char buffer[65536]; /* one for all drainers: nobody looks at the bytes */
    for (long left = b->row->want; left > 0;) {
        ssize_t n = read(b->fd[0], buffer, sizeof(buffer));
        if (n <= 0)
            break; /* the count that the other side got is what is checked */
        left -= n;
    }
    return NULL;
}

static void release_drain(struct blocked *b)
{
    pthread_t drainer = t_thread(drain, b, "drain");
    pthread_detach(drainer);
}

WAIT(write, { result = write(b->fd[1], big, PIPE_BYTES); })
WAIT(send, { result = send(b->fd[1], big, SEND_BYTES, 0); })

static void prepare_waitall(struct blocked *b)
{
    prepare_sockets(b);
    t_must(send(b->fd[1], "abc", WAITALL_FIRST, 0));
}

static void release_waitall(struct blocked *b)
{
    t_must(send(b->fd[1], "defghij", WAITALL_BYTES - WAITALL_FIRST, 0));
}

WAIT(recv_waitall, {
    char bytes[WAITALL_BYTES];
    result = recv(b->fd[0], bytes, sizeof(bytes), MSG_WAITALL);
})

/* Readiness calls: never restarted by the kernel, whatever SA_RESTART says. */
T_FRAME long epoll_in_set(const struct blocked *b, int timeout);
T_FRAME long epoll_in_set(const struct blocked *b, int timeout)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = t_must(epoll_create1(EPOLL_CLOEXEC));
    t_must(epoll_ctl(set, EPOLL_CTL_ADD, b->fd[0], &event));
    long result = epoll_wait(set, &event, 1, timeout);
    int error = errno;
    close(set);
    errno = error;
    return result;
}

WAIT(epoll, { result = epoll_in_set(b, -1); })
WAIT(epoll_timed, { result = epoll_in_set(b, (int)timeout_ms); })
WAIT(poll, {
    struct pollfd in = {.fd = b->fd[0], .events = POLLIN};
    result = poll(&in, 1, -1);
})
WAIT(poll_timed, {
    struct pollfd in = {.fd = b->fd[0], .events = POLLIN};
    result = poll(&in, 1, (int)timeout_ms);
})
WAIT(ppoll_timed, {
    struct pollfd in = {.fd = b->fd[0], .events = POLLIN};
    struct timespec t = timeout_span();
    result = ppoll(&in, 1, &t, NULL);
})
WAIT(select, {
    fd_set in;
    FD_ZERO(&in);
    FD_SET(b->fd[0], &in);
    result = select(b->fd[0] + 1, &in, NULL, NULL, NULL);
})
WAIT(select_timed, {
    struct timeval t = timeout_timeval();
    result = select(0, NULL, NULL, NULL, &t);
})

/* Sleeps. */
WAIT(nanosleep, {
    struct timespec t = timeout_span();
    result = nanosleep(&t, &t);
})
WAIT(clock_nanosleep, {
    struct timespec t = timeout_from_now(CLOCK_MONOTONIC);
    result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
})
WAIT(usleep, { result = usleep((useconds_t)timeout_ms * 1000); })
/* sleep() reports the rest: a short sleep is not even an error. Whole seconds only. */
WAIT(sleep, { result = sleep((unsigned)(timeout_ms + 999) / 1000); })

/* Locks. */
static void prepare_sync(struct blocked *b)
{
    sem_init(&b->semaphore, 0, 0);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->condition, NULL);
    pthread_rwlock_init(&b->rwlock, NULL);
    pthread_barrier_init(&b->barrier, NULL, 2);
}

static void prepare_mutex(struct blocked *b)
{
    prepare_sync(b);
    pthread_mutex_lock(&b->mutex);
}

static void release_mutex(struct blocked *b)
{
    pthread_mutex_unlock(&b->mutex);
}

static void prepare_rwlock(struct blocked *b)
{
    prepare_sync(b);
    pthread_rwlock_wrlock(&b->rwlock);
}

static void release_rwlock(struct blocked *b)
{
    pthread_rwlock_unlock(&b->rwlock);
}

static void release_condition(struct blocked *b)
{
    pthread_mutex_lock(&b->mutex);
    b->flag = true;
    pthread_cond_signal(&b->condition);
    pthread_mutex_unlock(&b->mutex);
}

static void release_semaphore(struct blocked *b)
{
    sem_post(&b->semaphore);
}

static void release_barrier(struct blocked *b)
{
    pthread_barrier_wait(&b->barrier);
}

static void *sleep_until_posted(void *argument)
{
    struct blocked *b = (struct blocked *)argument;
    while (sem_wait(&b->semaphore) < 0)
        t_check(errno == EINTR);
    return NULL;
}

static void prepare_join(struct blocked *b)
{
    prepare_sync(b);
    b->other = t_thread(sleep_until_posted, b, "joined");
}

static void release_futex(struct blocked *b)
{
    __atomic_store_n(&b->word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &b->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Raw: an early return is seen at once, no libc loop hides it. */
WAIT(futex, { result = syscall(SYS_futex, &b->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); })
WAIT(futex_timed, {
    struct timespec t = timeout_span();
    result = syscall(SYS_futex, &b->word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
})
WAIT(mutex, {
    result = pthread_mutex_lock(&b->mutex);
    pthread_mutex_unlock(&b->mutex);
})
WAIT(rwlock, { result = pthread_rwlock_rdlock(&b->rwlock); })
WAIT(barrier, { result = pthread_barrier_wait(&b->barrier) > 0; })
WAIT(join, { result = pthread_join(b->other, NULL); })
WAIT(sem, { result = sem_wait(&b->semaphore); })
WAIT(sem_timed, {
    struct timespec t = timeout_from_now(CLOCK_REALTIME);
    result = sem_timedwait(&b->semaphore, &t);
})
WAIT(cond, {
    pthread_mutex_lock(&b->mutex);
    result = 0;
    while (!b->flag && !result)
        result = pthread_cond_wait(&b->condition, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
})
WAIT(cond_timed, {
    struct timespec t = timeout_from_now(CLOCK_REALTIME);
    pthread_mutex_lock(&b->mutex);
    result = 0;
    while (!b->flag && !result)
        result = pthread_cond_timedwait(&b->condition, &b->mutex, &t);
    pthread_mutex_unlock(&b->mutex);
    errno = (int)result;
    result = result ? -1 : 0;
})

/* Processes. */
static void prepare_child(struct blocked *b)
{
    prepare_pipe(b);
    b->child = t_must(fork());
    if (b->child == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        close(b->fd[1]);
        _exit(read(b->fd[0], &byte, 1) == 1 ? 7 : 8);
    }
}

WAIT(waitpid, {
    int status = 0;
    result = waitpid(b->child, &status, 0) == b->child ? WEXITSTATUS(status) : -1;
})

/* The parent sleeps uninterruptibly until the child, which shares its memory, ends. */
WAIT(vfork, {
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        /* It holds both ends of the pipe it reads: nobody else would end it when the parent is killed. */
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        _exit(read(b->fd[0], &byte, 1) == 1 ? 7 : 8);
    }
    int status = 0;
    result = child > 0 && waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
})

/* Signals. */
static void on_wake(int number)
{
    (void)number;
}

static void prepare_handler(struct blocked *b)
{
    struct sigaction action = {.sa_handler = on_wake};
    (void)b;
    t_must(sigaction(SIGUSR1, &action, NULL));
}

static void release_usr1(struct blocked *b)
{
    pthread_kill(b->thread, SIGUSR1);
}

static void release_usr2(struct blocked *b)
{
    pthread_kill(b->thread, SIGUSR2);
}

WAIT(pause, { result = pause(); })
/* The result is the number of the signal that came: a capture signal would show up here. */
WAIT(sigwait, {
    sigset_t all;
    int number = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    result = sigwait(&all, &number) ? -1 : number;
})
WAIT(sigtimedwait, {
    sigset_t one;
    struct timespec t = timeout_span();
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    result = sigtimedwait(&one, NULL, &t);
})

/* System V and POSIX queues. */
static void prepare_msg(struct blocked *b)
{
    b->id = t_must(msgget(IPC_PRIVATE, 0600));
}

static void release_msg(struct blocked *b)
{
    struct {
        long type;
        char byte;
    } message = {.type = 1};
    msgsnd(b->id, &message, 1,
           0); /* fails when the thread left early and removed the queue: check_row() tells */
}

static void prepare_semset(struct blocked *b)
{
    b->id = t_must(semget(IPC_PRIVATE, 1, 0600));
}

static void release_semset(struct blocked *b)
{
    struct sembuf up = {.sem_op = 1};
    semop(b->id, &up, 1); /* as above */
}

static void prepare_queue(struct blocked *b)
{
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    snprintf(name, sizeof(name), "/probe-target-%d", (int)getpid());
    b->queue = t_must(mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes));
    mq_unlink(name);
}

static void release_queue(struct blocked *b)
{
    t_must(mq_send(b->queue, "x", 1, 0));
}

WAIT(msgrcv, {
    struct {
        long type;
        char bytes[8];
    } message;
    result = msgrcv(b->id, &message, sizeof(message.bytes), 0, 0);
    int error = errno;
    msgctl(b->id, IPC_RMID, NULL);
    errno = error;
})
WAIT(semop, {
    struct sembuf down = {.sem_op = -1};
    result = semop(b->id, &down, 1);
    int error = errno;
    semctl(b->id, 0, IPC_RMID);
    errno = error;
})
WAIT(mq_receive, {
    char bytes[8];
    result = mq_receive(b->queue, bytes, sizeof(bytes), NULL);
})

/* Files. */
static void make_path(struct blocked *b)
{
    const char *directory = getenv("TMPDIR");
    snprintf(b->path, sizeof(b->path), "%.3000s/target-%d-%s", directory ? directory : "/tmp", (int)getpid(),
             b->row->name);
}

/* The main thread holds the lock through another open of the same file. */
static void prepare_lock_file(struct blocked *b)
{
    make_path(b);
    b->fd[0] = t_must(open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    b->fd[1] = t_must(open(b->path, O_RDWR | O_CLOEXEC));
    unlink(b->path);
    if (!strcmp(b->row->name, "flock")) {
        t_must(flock(b->fd[1], LOCK_EX));
    } else {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        t_must(fcntl(b->fd[1], F_OFD_SETLK, &whole));
    }
}

static void release_close(struct blocked *b)
{
    close(b->fd[1]);
}

WAIT(flock, { result = flock(b->fd[0], LOCK_EX); })
WAIT(fcntl, {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    result = fcntl(b->fd[0], F_OFD_SETLKW, &whole);
})

static void prepare_fifo(struct blocked *b)
{
    make_path(b);
    t_must(mkfifo(b->path, 0600));
}

static void release_fifo(struct blocked *b)
{
    b->fd[1] = t_must(open(b->path, O_WRONLY | O_CLOEXEC));
    unlink(b->path);
}

WAIT(open_fifo, { result = open(b->path, O_RDONLY | O_CLOEXEC) >= 0; })

/* Descriptors that are no files: a read of each sleeps in a function of its own in the kernel. */

static void prepare_eventfd(struct blocked *b)
{
    b->fd[0] = b->fd[1] = t_must(eventfd(0, EFD_CLOEXEC));
}

static void release_eventfd(struct blocked *b)
{
    uint64_t one = 1;
    t_must(write(b->fd[0], &one, sizeof(one)));
}

static void prepare_timerfd(struct blocked *b)
{
    b->fd[0] = t_must(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

static void prepare_inotify(struct blocked *b)
{
    make_path(b);
    b->fd[1] = t_must(open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    b->fd[0] = t_must(inotify_init1(IN_CLOEXEC));
    t_must(inotify_add_watch(b->fd[0], b->path, IN_MODIFY));
}

static void release_inotify(struct blocked *b)
{
    t_must(write(b->fd[1], "x", 1));
    unlink(b->path);
}

/* Nobody but the thread itself, which blocks it, gets this signal. */
#define SIGNALFD_SIGNAL (SIGRTMIN + 3)

static void release_signalfd(struct blocked *b)
{
    pthread_kill(b->thread, SIGNALFD_SIGNAL);
}

WAIT(read_eventfd, {
    uint64_t count;
    result = read(b->fd[0], &count, sizeof(count));
})
WAIT(read_timerfd, {
    struct itimerspec at = {.it_value = timeout_span()};
    uint64_t count;
    t_must(timerfd_settime(b->fd[0], 0, &at, NULL));
    result = read(b->fd[0], &count, sizeof(count));
})
WAIT(read_inotify, {
    char events[4096];
    result = read(b->fd[0], events, sizeof(events));
})
WAIT(read_signalfd, {
    struct signalfd_siginfo info;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGNALFD_SIGNAL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    b->fd[0] = t_must(signalfd(-1, &one, SFD_CLOEXEC));
    result = read(b->fd[0], &info, sizeof(info));
})

/* The other side reads nothing, and the buffers are full. */
static void prepare_full_sockets(struct blocked *b)
{
    prepare_timed_sockets(b);
    while (send(b->fd[0], big, sizeof(big), MSG_DONTWAIT) > 0)
        ;
}

WAIT(send_timed, { result = send(b->fd[0], big, 1, 0); })
WAIT(futex_absolute, {
    struct timespec at = timeout_from_now(CLOCK_MONOTONIC);
    result = syscall(SYS_futex, &b->word, FUTEX_WAIT_BITSET_PRIVATE, 0, &at, NULL, FUTEX_BITSET_MATCH_ANY);
})

static const struct row rows[] = {
    {"read", {SYS_read}, prepare_pipe, wait_read, release_write, 1, 0},
    {"raw_read", {SYS_read}, prepare_pipe, wait_raw_read, release_write, 1, 0},
    {"write", {SYS_write}, prepare_pipe, wait_write, release_drain, PIPE_BYTES, 0},
    {"send", {SYS_sendto}, prepare_sockets, wait_send, release_drain, SEND_BYTES, 0},
    {"recv", {SYS_recvfrom}, prepare_sockets, wait_recv, release_write, 1, 0},
    {"recvmsg", {SYS_recvmsg}, prepare_sockets, wait_recvmsg, release_write, 1, 0},
    {"recv_timed", {SYS_recvfrom}, prepare_timed_sockets, wait_recv_timed, NULL, -1, EAGAIN},
    {"recv_waitall", {SYS_recvfrom}, prepare_waitall, wait_recv_waitall, release_waitall, WAITALL_BYTES, 0},
    {"accept", {SYS_accept}, prepare_listener, wait_accept, release_connect, 1, 0},
    {"accept_timed", {SYS_accept}, prepare_timed_listener, wait_accept_timed, NULL, -1, EAGAIN},
    {"epoll", {SYS_epoll_wait, SYS_epoll_pwait}, prepare_pipe, wait_epoll, release_write, 1, 0},
    {"epoll_timed", {SYS_epoll_wait, SYS_epoll_pwait}, prepare_pipe, wait_epoll_timed, NULL, 0, 0},
    {"poll", {SYS_poll}, prepare_pipe, wait_poll, release_write, 1, 0},
    {"poll_timed", {SYS_poll}, prepare_pipe, wait_poll_timed, NULL, 0, 0},
    {"ppoll_timed", {SYS_ppoll}, prepare_pipe, wait_ppoll_timed, NULL, 0, 0},
    {"select", {SYS_select, SYS_pselect6}, prepare_pipe, wait_select, release_write, 1, 0},
    {"select_timed", {SYS_select, SYS_pselect6}, prepare_pipe, wait_select_timed, NULL, 0, 0},
    {"nanosleep", {SYS_nanosleep, SYS_clock_nanosleep}, prepare_pipe, wait_nanosleep, NULL, 0, 0},
    {"clock_nanosleep", {SYS_clock_nanosleep}, prepare_pipe, wait_clock_nanosleep, NULL, 0, 0},
    {"usleep", {SYS_nanosleep, SYS_clock_nanosleep}, prepare_pipe, wait_usleep, NULL, 0, 0},
    {"sleep", {SYS_nanosleep, SYS_clock_nanosleep}, prepare_pipe, wait_sleep, NULL, 0, 0},
    {"futex", {SYS_futex}, prepare_sync, wait_futex, release_futex, 0, 0},
    {"futex_timed", {SYS_futex}, prepare_sync, wait_futex_timed, NULL, -1, ETIMEDOUT},
    {"mutex", {SYS_futex}, prepare_mutex, wait_mutex, release_mutex, 0, 0},
    {"rwlock", {SYS_futex}, prepare_rwlock, wait_rwlock, release_rwlock, 0, 0},
    {"barrier", {SYS_futex}, prepare_sync, wait_barrier, release_barrier, 0, 0},
    {"join", {SYS_futex}, prepare_join, wait_join, release_semaphore, 0, 0},
    {"sem", {SYS_futex}, prepare_sync, wait_sem, release_semaphore, 0, 0},
    {"sem_timed", {SYS_futex}, prepare_sync, wait_sem_timed, NULL, -1, ETIMEDOUT},
    {"cond", {SYS_futex}, prepare_sync, wait_cond, release_condition, 0, 0},
    {"cond_timed", {SYS_futex}, prepare_sync, wait_cond_timed, NULL, -1, ETIMEDOUT},
    {"waitpid", {SYS_wait4}, prepare_child, wait_waitpid, release_write, 7, 0},
    {"vfork", {SYS_vfork}, prepare_pipe, wait_vfork, release_write, 7, 0},
    {"pause", {SYS_pause}, prepare_handler, wait_pause, release_usr1, -1, EINTR},
    {"sigwait", {SYS_rt_sigtimedwait}, prepare_pipe, wait_sigwait, release_usr2, SIGUSR2, 0},
    {"sigtimedwait", {SYS_rt_sigtimedwait}, prepare_pipe, wait_sigtimedwait, NULL, -1, EAGAIN},
    {"msgrcv", {SYS_msgrcv}, prepare_msg, wait_msgrcv, release_msg, 1, 0},
    {"semop", {SYS_semop, SYS_semtimedop}, prepare_semset, wait_semop, release_semset, 0, 0},
    {"mq_receive", {SYS_mq_timedreceive}, prepare_queue, wait_mq_receive, release_queue, 1, 0},
    {"flock", {SYS_flock}, prepare_lock_file, wait_flock, release_close, 0, 0},
    {"fcntl", {SYS_fcntl}, prepare_lock_file, wait_fcntl, release_close, 0, 0},
    {"open_fifo", {SYS_openat, SYS_open}, prepare_fifo, wait_open_fifo, release_fifo, 1, 0},
    {"read_eventfd", {SYS_read}, prepare_eventfd, wait_read_eventfd, release_eventfd, 8, 0},
    {"read_timerfd", {SYS_read}, prepare_timerfd, wait_read_timerfd, NULL, 8, 0},
    {"read_inotify",
     {SYS_read},
     prepare_inotify,
     wait_read_inotify,
     release_inotify,
     sizeof(struct inotify_event),
     0},
    {"read_signalfd",
     {SYS_read},
     prepare_pipe,
     wait_read_signalfd,
     release_signalfd,
     sizeof(struct signalfd_siginfo),
     0},
    {"send_timed", {SYS_sendto}, prepare_full_sockets, wait_send_timed, NULL, -1, EAGAIN},
    {"futex_absolute", {SYS_futex}, prepare_sync, wait_futex_absolute, NULL, -1, ETIMEDOUT},
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Handlers of a disturbance that have run, and calls that have returned: sigwait takes the signal itself. */
static _Atomic int noticed;

T_FRAME void *blocked_thread(void *argument);
T_FRAME void *blocked_thread(void *argument)
{
    struct blocked *b = (struct blocked *)argument;
    t_publish(&b->tid);
    b->begin = t_now_ns();
    b->result = t_chain(b->depth, b->row->leaf, b);
    b->error = errno;
    b->end = t_now_ns();
    atomic_fetch_add(&noticed, 1);
    return NULL;
}

static bool timed(const struct blocked *b)
{
    return !b->row->release;
}

/* Asleep in one of the system calls of its row. */
static void await_row(const struct blocked *b)
{
    /* libc decides between two numbers at run time; the first that is seen twice counts. */
    long number = b->row->numbers[0];
    if (b->row->numbers[1]) {
        char text[128], path[64];
        uint64_t end = t_now_ns() + (uint64_t)T_DEADLINE_S * 1000000000u;
        do {
            snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)b->tid);
            int fd = t_must(open(path, O_RDONLY | O_CLOEXEC));
            ssize_t n = t_must(read(fd, text, sizeof(text) - 1));
            close(fd);
            text[n] = '\0';
            number = atol(text);
        } while (number != b->row->numbers[0] && number != b->row->numbers[1] && t_now_ns() < end);
    }
    t_await_blocked(b->tid, number);
}

static void check_row(const struct blocked *b)
{
    const char *name = b->row->name;
    uint64_t elapsed_ms = (b->end - b->begin) / 1000000;

    if (b->result != b->row->want)
        t_fail("%s returned %ld (%s), wanted %ld", name, b->result,
               b->result < 0 ? strerror(b->error) : "no error", b->row->want);
    if (b->result == -1 && b->error != b->row->want_errno)
        t_fail("%s failed with %s, wanted %s", name, strerror(b->error), strerror((int)b->row->want_errno));
    if (!timed(b) && b->end < released_at)
        t_fail("%s returned before it was released", name);
    /* 2 s of slack for a busy machine: an interrupted and repeated sleep overshoots by more after many dumps.
     */
    if (timed(b) && (elapsed_ms < (uint64_t)timeout_ms || elapsed_ms > (uint64_t)timeout_ms + 1000 + 2000))
        t_fail("%s took %llu ms, time-out %ld ms", name, (unsigned long long)elapsed_ms, timeout_ms);
}

static void on_disturbance(int number)
{
    (void)number;
    atomic_fetch_add(&noticed, 1);
}

/* What a careless agent does: one signal to every thread, with the friendliest flags there are. */
static void disturb(const struct blocked *all, int n)
{
    struct sigaction action = {.sa_handler = on_disturbance, .sa_flags = SA_RESTART};
    t_must(sigaction(SIGURG, &action, NULL));
    for (int i = 0; i < n; i++)
        pthread_kill(all[i].thread, SIGURG);
    t_await(&noticed, n);
}

static int run_blocked(void)
{
    const char *call = t_param_text("call", "all");
    static struct blocked all[N_ROWS];
    int n = 0;
    int depth = (int)t_param("depth", 3);

    timeout_ms = t_param("timeout", 3000);
    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(call, "all") || !strcmp(call, rows[i].name))
            all[n++] = (struct blocked){.row = &rows[i], .depth = depth};
    if (!n)
        t_fail("no such call: %s", call);
    for (int i = 0; i < n; i++)
        all[i].row->prepare(&all[i]);
    for (int i = 0; i < n; i++)
        all[i].thread = t_thread(blocked_thread, &all[i], all[i].row->name);
    for (int i = 0; i < n; i++) {
        char innermost[64];
        pid_t tid = t_await_tid(&all[i].tid);
        await_row(&all[i]);
        snprintf(innermost, sizeof(innermost), "%swait_%s",
                 !strncmp(all[i].row->name, "epoll", 5) ? "epoll_in_set " : "", all[i].row->name);
        t_expect_chain(tid, innermost, depth, "t_chain blocked_thread");
        t_fact("row", "%d %s %s", (int)tid, all[i].row->name, timed(&all[i]) ? "timed" : "released");
    }
    bool careless = t_param("disturb", 0);
    t_ready();
    t_wait_release();
    if (careless)
        disturb(all, n);
    atomic_store(&released_at, t_now_ns());
    for (int i = 0; i < n; i++) {
        if (timed(&all[i]))
            continue;
        all[i].row->release(&all[i]);
        /* One after the other: the end of a child, in a later row, cuts a long transfer short all by itself.
         */
        t_join(all[i].thread);
    }
    for (int i = 0; i < n; i++)
        if (timed(&all[i]))
            t_join(all[i].thread);
    for (int i = 0; i < n; i++)
        check_row(&all[i]);
    return 0;
}

/* Many threads of one shape: a pool whose workers wait for work. */

static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pool_condition = PTHREAD_COND_INITIALIZER;
static bool pool_open;

T_FRAME long parked_here(void *argument);
T_FRAME long parked_here(void *argument)
{
    long woken = 0;
    (void)argument;
    pthread_mutex_lock(&pool_mutex);
    while (!pool_open) {
        pthread_cond_wait(&pool_condition, &pool_mutex);
        woken++;
    }
    pthread_mutex_unlock(&pool_mutex);
    return woken;
}

struct worker {
    pthread_t thread;
    _Atomic pid_t tid;
    int depth;
    long woken;
};

T_FRAME void *worker_thread(void *argument);
T_FRAME void *worker_thread(void *argument)
{
    struct worker *w = (struct worker *)argument;
    t_publish(&w->tid);
    w->woken = t_chain(w->depth, parked_here, NULL);
    return NULL;
}

static int run_threads(void)
{
    int n = (int)t_param("n", 200), depth = (int)t_param("depth", 20);
    /* 64 KiB: ten thousand of these have to fit. */
    size_t stack = (size_t)t_param("stack", 64 * 1024);
    bool quiet = t_param("quiet", 0); /* no chain lines: for benchmarks with thousands of threads */
    struct worker *all = (struct worker *)calloc((size_t)n, sizeof(*all));

    for (int i = 0; i < n; i++) {
        char name[16];
        all[i].depth = depth;
        snprintf(name, sizeof(name), "w-%d", i);
        all[i].thread = t_thread_on(stack, worker_thread, &all[i], name);
    }
    for (int i = 0; i < n; i++) {
        pid_t tid = t_await_tid(&all[i].tid);
        t_await_blocked(tid, SYS_futex);
        if (!quiet)
            t_expect_chain(tid, "parked_here", depth, "t_chain worker_thread");
    }
    t_ready();
    t_wait_release();
    for (int i = 0; i < n; i++)
        if (all[i].woken)
            t_fail("worker %d left its wait by itself", i);
    pthread_mutex_lock(&pool_mutex);
    pool_open = true;
    pthread_cond_broadcast(&pool_condition);
    pthread_mutex_unlock(&pool_mutex);
    for (int i = 0; i < n; i++)
        t_join(all[i].thread);
    for (int i = 0; i < n; i++)
        if (all[i].woken != 1)
            t_fail("worker %d woke %ld times", i, all[i].woken);
    free(all);
    return 0;
}

/* S10: a heartbeat that sleeps whole seconds and would beat early if a sleep were cut short. */

static _Atomic int beats;
static _Atomic uint64_t first_beat;

T_FRAME void *heart_thread(void *argument);
T_FRAME void *heart_thread(void *argument)
{
    _Atomic pid_t *tid = (_Atomic pid_t *)argument;
    t_publish(tid);
    sleep((unsigned)t_param("seconds", 3));
    atomic_store(&first_beat, t_now_ns());
    atomic_fetch_add(&beats, 1);
    return NULL;
}

static int run_heartbeat(void)
{
    static _Atomic pid_t tid;
    uint64_t begin = t_now_ns();
    unsigned seconds = (unsigned)t_param("seconds", 3);
    pthread_t thread = t_thread(heart_thread, &tid, "heart");

    t_await_tid(&tid);
    t_await_blocked(tid, SYS_clock_nanosleep);
    t_expect(tid, "heart_thread");
    t_ready();
    t_wait_release();
    t_join(thread);
    if (first_beat - begin < (uint64_t)seconds * 1000000000u)
        t_fail("the heart beat after %llu ms, wanted %u s",
               (unsigned long long)(first_beat - begin) / 1000000, seconds);
    return 0;
}

const struct t_scenario t_blocked_scenarios[] = {
    {"threads", "",
     "n=200 depth=20 stack=65536 quiet=0: a pool of threads in a condition wait under a known chain", NULL,
     run_threads},
    {"blocked", "S01 S02 S09 S34 S57",
     "call=all|NAME depth=3 timeout=3000 disturb=0: one thread in every blocking call", NULL, run_blocked},
    {"heartbeat", "S10", "seconds=3: a thread sleeps and beats once", NULL, run_heartbeat},
    {NULL, NULL, NULL, NULL, NULL},
};
