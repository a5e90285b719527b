/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every blocking call but vfork, whose parent no debugger can attach to, under a stack of frames that are
 * hard to unwind without callee-saved registers. Built by tests/integration/test_recover.py with many
 * compilers and flags, as C and as C++, and with one SHAPE.
 *
 *   matrix all     a thread in each call, and main in pthread_join
 *   matrix NAME    main in that call
 *
 * There is nothing to check or release: it is ended by a signal.
 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLAIN 1
#define ALLOCA 2
#define ALIGNED 3
#define ALIGNED_ALLOCA 4
#define LITTER 5
#define PUSHED 6
#define COLD 7
#define SWITCH 8
#define TAIL 9
#define BYHAND 10
#define COROUTINE 11

#ifndef SHAPE
#define SHAPE PLAIN
#endif

#if defined(__clang__) || !defined(__GNUC__)
#define FRAME __attribute__((noinline, used))
#else
#define FRAME __attribute__((noinline, noclone, used))
#endif

struct job {
    volatile long dry; /* leaves stale frames behind, blocks nowhere */
    volatile long n;
    int fd[2];
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    pthread_barrier_t barrier;
    int word;
    int id;
    mqd_t queue;
    pthread_t other;
    char path[64];
};

#if SHAPE == COROUTINE
#include <coroutine>

struct task {
    struct promise_type {
        task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
};
#endif

static char *volatile sink;
static volatile long small = 24;

/* What the frame of every function looks like; buf is memory in it. */
#if SHAPE == ALLOCA
#define LAYOUT(j) char *buf = (char *)alloca((size_t)(small + (j)->n * 40))
#elif SHAPE == ALIGNED
#define LAYOUT(j)                                   \
    char aligned_[64] __attribute__((aligned(64))); \
    char *buf = aligned_
#elif SHAPE == ALIGNED_ALLOCA
#define LAYOUT(j)                                    \
    char aligned_[64] __attribute__((aligned(64)));  \
    char *buf = (char *)alloca((size_t)small + 100); \
    sink = aligned_
#elif SHAPE == LITTER
#define LAYOUT(j) char *buf = (char *)alloca((size_t)(small + 600 + (j)->n * 16))
#else
#define LAYOUT(j)    \
    char plain_[48]; \
    char *buf = plain_
#endif

#if SHAPE == COLD
#define WAIT_FRAME __attribute__((noinline, used, cold))
#else
#define WAIT_FRAME FRAME
#endif

#if SHAPE == PUSHED
#define MORE_PARAMETERS , long a, long b, long c, long d, long e, long f, long g
#define MORE_ARGUMENTS , j->n, 2, 3, j->n, 5, 6, j->n
#define USE_MORE (a + b + c + d + e + f + g)
#else
#define MORE_PARAMETERS
#define MORE_ARGUMENTS
#define USE_MORE 0
#endif

#ifdef __cplusplus
#define GUARDED(statement)       \
    try {                        \
        statement;               \
    } catch (const char *text) { \
        sink = (char *)text;     \
        throw;                   \
    }
#else
#define GUARDED(statement) statement;
#endif

#if SHAPE == SWITCH
#define STEP_DOWN(name)                      \
    switch (j->n) {                          \
    case 0:                                  \
        result = wait_##name(j) + 1;         \
        break;                               \
    case 1:                                  \
        sink = buf + 1;                      \
        break;                               \
    case 2:                                  \
        result = j->n * 3;                   \
        break;                               \
    case 3:                                  \
        result = 77;                         \
        sink = NULL;                         \
        break;                               \
    case 4:                                  \
        result = small;                      \
        break;                               \
    case 5:                                  \
        GUARDED(result = wait_##name(j) + 9) \
        break;                               \
    default:                                 \
        abort();                             \
    }
#elif SHAPE == COLD
#define STEP_DOWN(name)                   \
    if (__builtin_expect(j->n != 0, 0)) { \
        result = wait_##name(j);          \
        sink = buf;                       \
    }
#elif SHAPE == BYHAND
#define STEP_DOWN(name) GUARDED(result = by_hand_##name(j))
#elif SHAPE == COROUTINE
#define STEP_DOWN(name) GUARDED(result = resume_##name(j))
#else
#define STEP_DOWN(name) GUARDED(result = wait_##name(j MORE_ARGUMENTS))
#endif

#if SHAPE == LITTER
/* The same functions have run further down, so that what they left lies in the frames of those that wait. */
#define DRY_RUN(name)                    \
    if (!j->dry) {                       \
        j->dry = 1;                      \
        sink = (char *)middle_##name(j); \
        sink = (char *)wait_##name(j);   \
        j->dry = 0;                      \
    }
#define RETURN_IF_DRY      \
    if (j->dry) {          \
        sink = buf;        \
        return j->dry + 1; \
    }
#define RECURSE(name)               \
    if (j->dry > 0 && j->dry < 6) { \
        j->dry = j->dry + 1;        \
        result = middle_##name(j);  \
        j->dry = j->dry - 1;        \
    }
#else
#define DRY_RUN(name)
#define RETURN_IF_DRY
#define RECURSE(name)
#endif

#if SHAPE == TAIL
#define OUTER_BODY(name) return middle_##name(j);
#else
#define OUTER_BODY(name)       \
    LAYOUT(j);                 \
    long result;               \
    sink = buf;                \
    result = middle_##name(j); \
    sink = buf;                \
    return result + 1;
#endif

/* Between the two: nothing, or a frame that no compiler of C made. */
#if SHAPE == BYHAND
#define ASSEMBLED(name) __asm__(#name)
/* A frame of its own making, rounded down to 32 bytes, with pushes that no compiler would choose. */
#define BETWEEN(name)                                                                            \
    long by_hand_##name(struct job *j) ASSEMBLED(by_hand_##name);                                \
    __asm__(".text\n"                                                                            \
            ".type by_hand_" #name ", @function\n"                                               \
            "by_hand_" #name ":\n"                                                               \
            ".cfi_startproc\n"                                                                   \
            "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n"                            \
            "mov %rsp, %rbp\n.cfi_def_cfa_register 6\n"                                          \
            "push %r15\npush %rbx\nand $-32, %rsp\nsub $8, %rsp\npushq $7\npushq $5\npushq $3\n" \
            "call wait_" #name "\n"                                                              \
            "lea -16(%rbp), %rsp\npop %rbx\npop %r15\npop %rbp\n.cfi_def_cfa 7, 8\n"             \
            "ret\n"                                                                              \
            ".cfi_endproc\n"                                                                     \
            ".size by_hand_" #name ", . - by_hand_" #name "\n");
#elif SHAPE == COROUTINE
#define ASSEMBLED(name)
#define BETWEEN(name)                       \
    task coroutine_##name(struct job *j)    \
    {                                       \
        co_await std::suspend_always{};     \
        sink = (char *)wait_##name(j);      \
        co_return;                          \
    }                                       \
    FRAME long resume_##name(struct job *j) \
    {                                       \
        task body = coroutine_##name(j);    \
        body.handle.resume();               \
        return j->n;                        \
    }
#else
#define ASSEMBLED(name)
#define BETWEEN(name)
#endif

#define CALL(name, ...)                                                                               \
    long wait_##name(struct job *j MORE_PARAMETERS) ASSEMBLED(wait_##name);                           \
    BETWEEN(name)                                                                                     \
    long middle_##name(struct job *j);                                                                \
    long outer_##name(struct job *j);                                                                 \
    void *start_##name(void *j);                                                                      \
    WAIT_FRAME long wait_##name(struct job *j MORE_PARAMETERS)                                        \
    {                                                                                                 \
        DRY_RUN(name)                                                                                 \
        LAYOUT(j);                                                                                    \
        long result = USE_MORE;                                                                       \
        sink = buf;                                                                                   \
        RETURN_IF_DRY                                                                                 \
        __VA_ARGS__                                                                                   \
        sink = buf;                                                                                   \
        return result + USE_MORE;                                                                     \
    }                                                                                                 \
    FRAME long middle_##name(struct job *j)                                                           \
    {                                                                                                 \
        DRY_RUN(name)                                                                                 \
        LAYOUT(j);                                                                                    \
        long result = 0;                                                                              \
        sink = buf;                                                                                   \
        RECURSE(name)                                                                                 \
        STEP_DOWN(name)                                                                               \
        sink = buf;                                                                                   \
        return result + 1;                                                                            \
    }                                                                                                 \
    FRAME long outer_##name(struct job *j){OUTER_BODY(name)} FRAME void *start_##name(void *argument) \
    {                                                                                                 \
        struct job *j = (struct job *)argument;                                                       \
        LAYOUT(j);                                                                                    \
        sink = buf;                                                                                   \
        sink = (char *)outer_##name(j);                                                               \
        return buf == sink ? NULL : argument;                                                         \
    }

static const struct timespec hour = {3600, 0};

CALL(read, { result = read(j->fd[0], buf, 16); })
CALL(write, {
    while (write(j->fd[1], buf, 16) > 0)
        result++;
})
CALL(recv, { result = recv(j->fd[0], buf, 16, 0); })
CALL(recvmsg, {
    struct iovec vector = {buf, 16};
    struct msghdr message;
    memset(&message, 0, sizeof(message));
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    result = recvmsg(j->fd[0], &message, 0);
})
CALL(accept, { result = accept(j->fd[0], NULL, NULL); })
CALL(poll, {
    struct pollfd set = {j->fd[0], POLLIN, 0};
    result = poll(&set, 1, -1);
})
CALL(ppoll, {
    struct pollfd set = {j->fd[0], POLLIN, 0};
    result = ppoll(&set, 1, &hour, NULL);
})
CALL(epoll, {
    struct epoll_event event;
    result = epoll_wait(j->fd[0], &event, 1, -1);
})
CALL(select, {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(j->fd[0], &set);
    result = select(j->fd[0] + 1, &set, NULL, NULL, NULL);
})
CALL(nanosleep, { result = nanosleep(&hour, NULL); })
CALL(clock_nanosleep, {
    struct timespec span = hour;
    result = clock_nanosleep(CLOCK_MONOTONIC, 0, &span, &span);
})
CALL(sleep, { result = sleep(3600); })
CALL(pause, { result = pause(); })
CALL(sigwait, {
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    result = sigwait(&set, &number);
})
CALL(sigtimedwait, {
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    result = sigtimedwait(&set, &info, &hour);
})
CALL(futex, { result = syscall(SYS_futex, &j->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); })
CALL(mutex, { result = pthread_mutex_lock(&j->mutex); })
CALL(cond, {
    pthread_mutex_unlock(&j->mutex);
    pthread_mutex_lock(&j->mutex);
    result = pthread_cond_wait(&j->condition, &j->mutex);
})
CALL(sem, { result = sem_wait(&j->semaphore); })
CALL(barrier, { result = pthread_barrier_wait(&j->barrier); })
CALL(waitpid, { result = waitpid(j->id, NULL, 0); })
CALL(msgrcv, { result = msgrcv(j->id, buf, 8, 0, 0); })
CALL(semop, {
    struct sembuf operation = {0, -1, 0};
    result = semop(j->id, &operation, 1);
})
CALL(mq_receive, {
    char message[64];
    result = mq_receive(j->queue, message, sizeof(message), NULL);
})
CALL(flock, { result = flock(j->fd[1], LOCK_EX); })
CALL(open_fifo, { result = open(j->path, O_RDONLY); })
CALL(fcntl, {
    struct flock lock;
    memset(&lock, 0, sizeof(lock));
    lock.l_type = F_WRLCK;
    result = fcntl(j->fd[1], F_OFD_SETLKW, &lock);
})

static void prepare_pipe(struct job *j)
{
    if (pipe(j->fd) != 0)
        abort();
}

static void prepare_socket(struct job *j)
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, j->fd) != 0)
        abort();
}

static void prepare_accept(struct job *j)
{
    struct sockaddr_un address;
    memset(&address, 0, sizeof(address));
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "probe-matrix-%d", (int)getpid());
    j->fd[0] = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(j->fd[0], (struct sockaddr *)&address, sizeof(address)) != 0 || listen(j->fd[0], 1) != 0)
        abort();
}

static void prepare_epoll(struct job *j)
{
    j->fd[0] = epoll_create1(0);
}

static void prepare_nothing(struct job *j)
{
    (void)j;
}

static void prepare_locks(struct job *j)
{
    pthread_mutex_init(&j->mutex, NULL);
    pthread_mutex_lock(&j->mutex);
    pthread_cond_init(&j->condition, NULL);
    pthread_barrier_init(&j->barrier, NULL, 2);
    sem_init(&j->semaphore, 0, 0);
}

static void prepare_child(struct job *j)
{
    pid_t parent = getpid();
    j->id = fork();
    if (j->id == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            sleep(1);
        _exit(0);
    }
}

/* System V objects are marked for removal by the test. */
static void prepare_msg(struct job *j)
{
    j->id = msgget(IPC_PRIVATE, 0600);
    printf("msg %d\n", j->id);
}

static void prepare_sem(struct job *j)
{
    j->id = semget(IPC_PRIVATE, 1, 0600);
    printf("sem %d\n", j->id);
}

static void prepare_queue(struct job *j)
{
    struct mq_attr attributes;
    char name[64];
    memset(&attributes, 0, sizeof(attributes));
    attributes.mq_maxmsg = 1;
    attributes.mq_msgsize = 16;
    snprintf(name, sizeof(name), "/probe-matrix-%d", (int)getpid());
    j->queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
    mq_unlink(name);
}

static void prepare_file(struct job *j)
{
    snprintf(j->path, sizeof(j->path), "matrix-lock-%d-%p", (int)getpid(), (void *)j);
    j->fd[0] = open(j->path, O_RDWR | O_CREAT, 0600);
    j->fd[1] = open(j->path, O_RDWR);
    struct flock lock;
    memset(&lock, 0, sizeof(lock));
    lock.l_type = F_WRLCK;
    if (flock(j->fd[0], LOCK_EX) != 0 || fcntl(j->fd[0], F_OFD_SETLKW, &lock) != 0)
        abort();
}

static void prepare_fifo(struct job *j)
{
    snprintf(j->path, sizeof(j->path), "matrix-fifo-%d", (int)getpid());
    unlink(j->path); /* process ids come again */
    if (mkfifo(j->path, 0600) != 0)
        abort();
}

/* clang-format off */
#define ALL(X)                                                                                                \
    X(read, prepare_pipe) X(write, prepare_pipe) X(recv, prepare_socket) X(recvmsg, prepare_socket)            \
    X(accept, prepare_accept) X(poll, prepare_pipe) X(ppoll, prepare_pipe) X(epoll, prepare_epoll)             \
    X(select, prepare_pipe) X(nanosleep, prepare_nothing) X(clock_nanosleep, prepare_nothing)                  \
    X(sleep, prepare_nothing) X(pause, prepare_nothing) X(sigwait, prepare_nothing)                            \
    X(sigtimedwait, prepare_nothing) X(futex, prepare_nothing) X(mutex, prepare_locks) X(cond, prepare_locks)  \
    X(sem, prepare_locks) X(barrier, prepare_locks) X(waitpid, prepare_child) X(msgrcv, prepare_msg)           \
    X(semop, prepare_sem) X(mq_receive, prepare_queue) X(flock, prepare_file) X(open_fifo, prepare_fifo)       \
    X(fcntl, prepare_file)
/* clang-format on */

static const struct {
    const char *name;
    void (*prepare)(struct job *);
    void *(*start)(void *);
} calls[] = {
#define ROW(name, prepare) {#name, prepare, start_##name},
    ALL(ROW)};

enum { N_CALLS = sizeof(calls) / sizeof(calls[0]) };

static struct job jobs[N_CALLS];

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "all";
    pthread_t thread = 0;
    struct job *j = jobs;
    LAYOUT(j);

    sink = buf;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < N_CALLS; i++) {
        if (strcmp(only, "all") != 0 && strcmp(only, calls[i].name) != 0)
            continue;
        j = &jobs[i];
        j->n = SHAPE == SWITCH ? 5 * (i & 1) : SHAPE == COLD ? 1 : i % 5;
        calls[i].prepare(j);
    }
    printf("prepared\n");
    if (strcmp(only, "all") == 0) {
        for (int i = 0; i < N_CALLS; i++)
            pthread_create(&thread, NULL, calls[i].start, &jobs[i]);
        pthread_join(thread, NULL);
    }
#define MAIN(name, prepare)       \
    if (strcmp(only, #name) == 0) \
        sink = (char *)outer_##name(j);
    ALL(MAIN)
    return sink == buf;
}
