/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/backends/passive.c on real sleeping threads of this process. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(passive, .timeout = 10);

#define MARKER UINT64_C(0x6d61726b6d61726b)

static uint32_t futex_word = 5;
static long arguments[6];
static long number;

/* Blocks in one call whose instruction and stack pointer are known exactly. */
static __attribute__((noinline)) void sleep_in_call(struct worker *worker)
{
    long result;
    register long r10 __asm__("r10") = arguments[3];
    register long r8 __asm__("r8") = arguments[4];
    register long r9 __asm__("r9") = arguments[5];

    __asm__ volatile("lea 1f(%%rip), %%rcx\n\t"
                     "mov %%rcx, %[pc]\n\t"
                     "mov %%rsp, %[sp]\n\t"
                     "syscall\n"
                     "1:"
                     : "=a"(result), [pc] "=m"(worker->pc), [sp] "=m"(worker->sp)
                     : "0"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10),
                       "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    worker->result = result;
}

/* A leaf keeps its locals below the stack pointer, so the marker is in its caller. */
static void mark_and_sleep(struct worker *worker)
{
    volatile uint64_t marker[4] = {MARKER, 1, 2, 3};

    sleep_in_call(worker);
    (void)marker[0];
}

static int pipe_ends[2], sockets[2], epoll_fd, queue, semaphores;
static struct pollfd poll_fd;
static struct timespec forever = {.tv_sec = 1000};
static struct epoll_event event;
static struct sembuf take_one = {.sem_op = -1};
static char buffer[64];
static uint64_t all_signals = ~UINT64_C(0), one_signal = 1 << (SIGUSR1 - 1);

#define P(pointer) (long)(uintptr_t)(pointer)

static const struct {
    const char *what;
    long number;
} calls[] = {
    {"read", SYS_read},
    {"poll", SYS_poll},
    {"nanosleep", SYS_nanosleep},
    {"epoll_wait", SYS_epoll_wait},
    {"futex", SYS_futex},
    {"recvfrom", SYS_recvfrom},
    {"rt_sigtimedwait", SYS_rt_sigtimedwait},
    {"pause", SYS_pause},
    {"msgrcv", SYS_msgrcv},
    {"semop", SYS_semop},
    {"wait4", SYS_wait4},
};

static void set_arguments(long nr)
{
    const long table[][7] = {
        {SYS_read, pipe_ends[0], P(buffer), 1, 0x1111, 0x2222, 0x3333},
        {SYS_poll, P(&poll_fd), 1, -1, 4, 5, 6},
        {SYS_nanosleep, P(&forever), 0, 3, 4, 5, 6},
        {SYS_epoll_wait, epoll_fd, P(&event), 1, -1, 5, 6},
        {SYS_futex, P(&futex_word), FUTEX_WAIT, 5, 0, 5, 6},
        {SYS_recvfrom, sockets[0], P(buffer), 8, 0, 0, 0},
        {SYS_rt_sigtimedwait, P(&one_signal), 0, 0, 8, 5, 6},
        {SYS_pause, 1, 2, 3, 4, 5, 6},
        {SYS_msgrcv, queue, P(buffer), 8, 0, 0, 6},
        {SYS_semop, semaphores, P(&take_one), 1, 4, 5, 6},
        {SYS_wait4, -1, 0, 0, 0, 5, 6},
    };

    for (size_t i = 0; i < N_ELEMENTS(table); i++)
        if (table[i][0] == nr)
            memcpy(arguments, table[i] + 1, sizeof(arguments));
    number = nr;
}

static void set_up(void)
{
    cr_assert(pipe(pipe_ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    poll_fd = (struct pollfd){.fd = pipe_ends[0], .events = POLLIN};
    epoll_fd = epoll_create1(0);
    queue = msgget(IPC_PRIVATE, 0600);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
}

static void tear_down(void)
{
    msgctl(queue, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
}

static bool window_holds(const struct taken *taken, uint64_t value)
{
    for (uint64_t at = 0; at + 8 <= taken->raw.window[0].size; at += 8)
        if (!memcmp(taken->bytes[0] + at, &value, 8))
            return true;
    return false;
}

Test(passive, blocked_calls_exactly, .init = set_up, .fini = tear_down)
{
    static const unsigned dwarf[6] = {5, 4, 1, 10, 8, 9};

    static struct worker workers[N_ELEMENTS(calls)];

    for (size_t i = 0; i < N_ELEMENTS(calls); i++) {
        struct worker *worker = &workers[i];
        struct fixture *fixture;
        struct thread_sample *sample;
        struct taken *taken;
        uint64_t head;
        size_t size;
        pid_t child = calls[i].number == SYS_wait4 ? fork() : 0;

        if (calls[i].number == SYS_wait4 && child == 0) {
            for (;;)
                pause();
        }
        set_arguments(calls[i].number);
        worker->body = mark_and_sleep;
        worker_start(worker);
        worker_wait_asleep(worker);
        fixture = fixture_new();
        fixture_capture(fixture);
        sample = fixture_sample(fixture, worker->tid);
        taken = fixture_taken(fixture, worker->tid);

        cr_expect(eq(int, sample->capture, CAPTURE_PASSIVE), "%s: reason %d", calls[i].what, sample->reason);
        cr_expect(eq(int, sample->reason, REASON_NONE), "%s", calls[i].what);
        cr_expect(sample->stable && !sample->truncated, "%s", calls[i].what);
        cr_expect(eq(chr, sample->state, 'S'), "%s", calls[i].what);
        cr_expect(sample->cpu_nanos > 0 && sample->switches > 0, "%s", calls[i].what);
        cr_expect(sample->syscall.known && sample->syscall.number == calls[i].number, "%s: %ld",
                  calls[i].what, (long)sample->syscall.number);
        cr_expect(eq(u64, taken->raw.regs.pc, worker->pc), "%s", calls[i].what);
        cr_expect(eq(u64, taken->raw.regs.value[UW_X86_64_RSP], worker->sp), "%s", calls[i].what);
        cr_expect(eq(u64, sample->registers.stack_pointer, worker->sp), "%s", calls[i].what);
        cr_expect(eq(u64, sample->registers.instruction_pointer, worker->pc), "%s", calls[i].what);
        for (unsigned j = 0; j < 6; j++) {
            cr_expect(eq(u64, sample->syscall.args[j], (uint64_t)arguments[j]), "%s %u", calls[i].what, j);
            cr_expect(eq(u64, taken->raw.regs.value[dwarf[j]], (uint64_t)arguments[j]), "%s %u",
                      calls[i].what, j);
        }
        cr_expect(eq(u64, taken->raw.regs.valid,
                     1u << 1 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 8 | 1u << 9 | 1u << 10),
                  "%s: nothing that is not known", calls[i].what);
        cr_expect(taken->raw.live && !taken->raw.exact && !taken->raw.truncated, "%s", calls[i].what);

        /* from the stack pointer to the thread's control block, and not into the next mapping */
        cr_assert(sys_get_robust_list(worker->tid, &head, &size) == 0);
        cr_expect(eq(u64, taken->raw.window[0].base, worker->sp), "%s", calls[i].what);
        cr_expect(eq(u64, taken->raw.window[0].base + taken->raw.window[0].size, head), "%s", calls[i].what);
        cr_expect(eq(sz, taken->raw.window[1].size, 0ul), "%s", calls[i].what);
        cr_expect(eq(u64, sample->stack_bytes, head - worker->sp), "%s", calls[i].what);
        cr_expect(window_holds(taken, MARKER), "%s", calls[i].what);
        cr_expect(eq(u32, fixture->stats.signals_sent, 0));
        cr_expect(capture_is_still(&fixture->session, sample), "%s", calls[i].what);
        cr_expect(not(worker->returned), "%s", calls[i].what);
        if (child)
            kill(child, SIGKILL);
    }
}

static void sleep_with_all_blocked(struct worker *worker)
{
    sys_sigprocmask(SIG_BLOCK, &all_signals, NULL);
    sleep_in_call(worker);
}

/* Case S32 a */
Test(passive, blocked_signals_do_not_matter, .init = set_up, .fini = tear_down)
{
    struct worker worker = {.body = sleep_with_all_blocked};
    struct fixture *fixture;

    set_arguments(SYS_read);
    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture_capture(fixture);

    cr_expect(eq(u64, fixture_taken(fixture, worker.tid)->raw.regs.pc, worker.pc));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock_mutex(struct worker *worker)
{
    pthread_mutex_lock(worker->data);
}

Test(passive, lock_word_of_a_mutex)
{
    struct worker worker = {.body = lock_mutex, .data = &mutex};
    struct fixture *fixture;
    struct thread_sample *sample;

    pthread_mutex_lock(&mutex);
    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture_capture(fixture);
    sample = fixture_sample(fixture, worker.tid);

    cr_expect(sample->lock_word.known);
    cr_expect(eq(u32, sample->lock_word.word, 2));
    cr_expect(eq(i32, sample->lock_word.owner, (int32_t)gettid()));
    cr_expect(eq(u32, sample->lock_word.users, 1));
    cr_expect(eq(i32, sample->lock_word.kind, 0));
    cr_expect(eq(u64, sample->syscall.args[0], (uint64_t)(uintptr_t)&mutex));
    cr_expect(capture_is_still(&fixture->session, sample));
    /* Whoever owns it now is not the one that was captured. */
    mutex.__data.__owner = 1;
    cr_expect(not(capture_is_still(&fixture->session, sample)));
    mutex.__data.__owner = (int)gettid();
    pthread_mutex_unlock(&mutex);
    pthread_join(worker.thread, NULL);
    cr_expect(not(capture_is_still(&fixture->session, sample)), "it is gone");
}

static void wait_often(struct worker *worker)
{
    struct timespec little = {.tv_nsec = 50000};

    while (!worker->stop)
        nanosleep(&little, NULL);
}

Test(passive, still_notices_a_run)
{
    struct worker worker = {.body = wait_often};
    struct fixture *fixture;
    struct thread_sample *sample;

    worker_start(&worker);
    fixture = fixture_new();
    fixture->session.mode = CAPTURE_MODE_PASSIVE;
    do {
        size_t mark = fixture->arena.used;

        fixture_forget(fixture);
        fixture_capture(fixture);
        sample = fixture_sample(fixture, worker.tid);
        fixture->arena.used = mark;
    } while (sample->capture == CAPTURE_NONE);
    cr_assert(eq(int, sample->capture, CAPTURE_PASSIVE));

    /* the same call at the same place: only the switch count tells; a machine under load may take a while */
    for (unsigned i = 0; i < 1000 && capture_is_still(&fixture->session, sample); i++)
        usleep(2000);
    cr_expect(not(capture_is_still(&fixture->session, sample)));
    worker_stop(&worker);
}

/* Writes its two words only while it runs, never while it sleeps: a torn copy shows them different. */
static void count_up(struct worker *worker)
{
    struct timespec little = {.tv_nsec = 20000};
    volatile struct {
        uint64_t marker, first, gap[64], second;
    } words = {.marker = MARKER};

    while (!worker->stop) {
        words.first++;
        for (unsigned i = 0; i < 64; i++)
            words.gap[i] = i;
        words.second++;
        nanosleep(&little, NULL);
    }
}

Test(passive, a_moving_thread_is_whole_or_unstable)
{
    struct worker worker = {.body = count_up};
    unsigned captured = 0, refused = 0;
    struct fixture *fixture;

    worker_start(&worker);
    fixture = fixture_new();
    for (unsigned round = 0; round < 1500; round++) {
        size_t mark = fixture->arena.used;
        struct thread_sample *sample;

        fixture_forget(fixture);
        fixture->session.mode = CAPTURE_MODE_PASSIVE;
        fixture->session.deadline = sys_monotonic_nanos() + UINT64_C(1000000000);
        fixture_capture(fixture);
        sample = fixture_sample(fixture, worker.tid);
        if (sample->capture == CAPTURE_PASSIVE) {
            struct taken *taken = fixture_taken(fixture, worker.tid);
            uint64_t words[67];

            for (uint64_t at = 0; at + sizeof(words) <= taken->raw.window[0].size; at += 8) {
                memcpy(words, taken->bytes[0] + at, sizeof(words));
                if (words[0] == MARKER)
                    cr_assert(eq(u64, words[1], words[66]), "round %u", round);
            }
            captured++;
        } else {
            cr_assert(sample->reason == REASON_UNSTABLE || sample->reason == REASON_PASSIVE_ONLY, "%d",
                      sample->reason);
            cr_assert(eq(i32, sample->stack, -1));
            refused++;
        }
        fixture->arena.used = mark;
    }
    cr_log_info("%u captured, %u refused", captured, refused);
    cr_expect(captured > 0);
    worker_stop(&worker);
}

static __attribute__((noinline)) void descend(struct worker *worker, unsigned n)
{
    volatile char room[1024];

    room[0] = (char)n;
    if (n)
        descend(worker, n - 1);
    else
        sleep_in_call(worker);
    room[1] = room[0]; /* no tail call */
}

static void sleep_deep(struct worker *worker)
{
    descend(worker, 100);
}

Test(passive, long_stacks_keep_both_ends, .init = set_up, .fini = tear_down)
{
    struct worker worker = {.body = sleep_deep};
    struct fixture *fixture;
    struct thread_sample *sample;
    struct taken *taken;
    uint64_t head;
    size_t size;

    set_arguments(SYS_read);
    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture->session.max_stack = 16384;
    fixture_capture(fixture);
    sample = fixture_sample(fixture, worker.tid);
    taken = fixture_taken(fixture, worker.tid);
    sys_get_robust_list(worker.tid, &head, &size);

    cr_expect(sample->truncated && taken->raw.truncated && sample->stable);
    cr_expect(eq(u64, sample->stack_bytes, 16384));
    cr_expect(eq(u64, taken->raw.window[0].base, worker.sp));
    cr_expect(eq(sz, taken->raw.window[0].size, 12288ul));
    cr_expect(eq(u64, taken->raw.window[1].base + taken->raw.window[1].size, head));
    cr_expect(eq(sz, taken->raw.window[1].size, 4096ul));
    cr_expect(same_as_memory(taken->bytes[0], taken->raw.window[0].base, 12288));
    cr_expect(same_as_memory(taken->bytes[1], taken->raw.window[1].base, 4096));
}

static void sleep_on_other_stack(struct worker *worker)
{
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "mov %[stack], %%rsp\n\t"
                     "mov %%rsp, %[sp]\n\t"
                     "xor %%edi, %%edi\n\t"
                     "mov $34, %%eax\n\t" /* pause */
                     "syscall\n\t"
                     "mov %%rbx, %%rsp"
                     : [sp] "=m"(worker->sp)
                     : [stack] "r"(worker->data)
                     : "rax", "rbx", "rcx", "rdi", "r11", "memory");
}

/* Story: coroutines and alternate stacks; there is no telling where they end but their mapping. */
Test(passive, other_stacks_up_to_64_kib)
{
    static const struct {
        size_t above, copied;
        int guard;
    } rows[] = {{4096, 4096, 1}, {65536, 65536, 0}, {1 << 20, 65536, 0}};

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        size_t size = rows[i].above + 8192;
        uint8_t *stack = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct worker worker = {.body = sleep_on_other_stack, .data = stack + size - rows[i].above};
        struct fixture *fixture;
        struct taken *taken;

        mprotect(stack + size, 4096, PROT_NONE);
        worker_start(&worker);
        worker_wait_asleep(&worker);
        fixture = fixture_new();
        fixture_capture(fixture);
        taken = fixture_taken(fixture, worker.tid);
        cr_expect(eq(u64, taken->raw.window[0].base, worker.sp));
        cr_expect(eq(sz, taken->raw.window[0].size, rows[i].copied), "row %zu", i);
        cr_expect(taken->raw.live);
    }
}

static void *capture_main(void *argument)
{
    uint64_t *sp_of_main = argument;
    struct worker main_thread = {.tid = getpid()};
    struct fixture *fixture;
    struct thread_sample *sample;
    struct taken *taken;

    worker_wait_asleep(&main_thread);
    fixture = fixture_new();
    fixture_capture(fixture);
    sample = fixture_sample(fixture, getpid());
    taken = fixture_taken(fixture, getpid());
    cr_expect(eq(int, sample->capture, CAPTURE_PASSIVE));
    cr_expect(taken->raw.window[0].base < *sp_of_main && *sp_of_main - taken->raw.window[0].base < 4096);
    cr_expect(fixture->modules.main_stack_top > *sp_of_main);
    cr_expect(
        eq(u64, taken->raw.window[0].base + taken->raw.window[0].size, fixture->modules.main_stack_top));
    cr_expect(window_holds(taken, MARKER));
    return NULL;
}

Test(passive, main_thread_up_to_the_end_of_its_stack)
{
    volatile uint64_t *marker = __builtin_alloca(64); /* on the real stack, also under a sanitizer */
    uint64_t sp = (uintptr_t)__builtin_frame_address(0);
    pthread_t other;

    if (getpid() != gettid())
        cr_skip_test("the test runs in another thread");
    *marker = MARKER;
    pthread_create(&other, NULL, capture_main, &sp);
    pthread_join(other, NULL);
}

static void touch(struct worker *worker)
{
    __asm__ volatile("mov %%rsp, %[sp]\n\t"
                     "lea 1f(%%rip), %%rax\n\t"
                     "mov %%rax, %[pc]\n"
                     "1: mov (%[page]), %%al"
                     : [sp] "=m"(worker->sp), [pc] "=m"(worker->pc)
                     : [page] "r"(worker->data)
                     : "rax", "memory");
}

Test(passive, page_fault_is_an_interrupted_instruction)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct worker worker = {.body = touch, .data = page};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct fixture *fixture;
    struct thread_sample *sample;
    struct taken *taken;

    area.range.start = (uintptr_t)page;
    area.range.len = 4096;
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &area) < 0)
        cr_skip_test("no userfaultfd here");
    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture_capture(fixture);
    sample = fixture_sample(fixture, worker.tid);
    taken = fixture_taken(fixture, worker.tid);

    cr_expect(eq(int, sample->capture, CAPTURE_PASSIVE));
    cr_expect(taken->raw.exact);
    cr_expect(not(sample->syscall.known));
    cr_expect(eq(u64, taken->raw.regs.pc, worker.pc));
    cr_expect(eq(u64, taken->raw.regs.value[UW_X86_64_RSP], worker.sp));
    cr_expect(eq(u64, taken->raw.regs.valid, 1u << 7));
    close(fd); /* lets it go */
    pthread_join(worker.thread, NULL);
}

/* What the kernel is made to say: schedstat or status of every thread, and how often it was asked. */
static enum {
    SAY_NOTHING,
    SAY_UNCOUNTED,
    SAY_MISSING,
    SAY_MOVING,
    SAY_STATUS_MOVING,
    SAY_GARBLED,
    SAY_REFUSED
} say;
static int schedstat_fd = -1, status_fd = -1, syscall_fd = -1;
static unsigned asked, looked;
static int32_t told; /* only this thread's files: Criterion has a thread of its own */

static bool is_file_of_told(long path, const char *file)
{
    return path_ends(path, file) && strtol((const char *)path, NULL, 10) == told;
}

static bool answer(long number_, const long args[6], long *ret_result)
{
    char line[64];

    if (number_ == SYS_openat) {
        if (is_file_of_told(args[1], "/schedstat") && say == SAY_MISSING) {
            *ret_result = -ENOENT;
            return true;
        }
        if (is_file_of_told(args[1], "/syscall") && say == SAY_REFUSED) {
            *ret_result = -EACCES;
            return true;
        }
        *ret_result = syscall(SYS_openat, args[0], args[1], args[2], args[3]);
        if (*ret_result < 0)
            *ret_result = -errno;
        if (is_file_of_told(args[1], "/schedstat"))
            schedstat_fd = (int)*ret_result;
        if (is_file_of_told(args[1], "/status"))
            status_fd = (int)*ret_result;
        if (is_file_of_told(args[1], "/syscall"))
            syscall_fd = (int)*ret_result;
        return true;
    }
    if (number_ != SYS_pread64)
        return false;
    if ((int)args[0] == syscall_fd) {
        looked++;
        if (say == SAY_GARBLED) {
            memcpy((char *)args[1], "17 0x", 5);
            *ret_result = 5;
            return true;
        }
        return false;
    }
    if ((int)args[0] == schedstat_fd &&
        (say == SAY_UNCOUNTED || say == SAY_MOVING || say == SAY_STATUS_MOVING)) {
        *ret_result =
            snprintf(line, sizeof(line), "%u 0 %u\n", say == SAY_MOVING, say == SAY_MOVING ? ++asked : 0);
        memcpy((char *)args[1], line, (size_t)*ret_result);
        return true;
    }
    if ((int)args[0] == status_fd && say == SAY_STATUS_MOVING) {
        *ret_result = sprintf((char *)args[1],
                              "SigPnd:\t0\nSigBlk:\t0\nSigCgt:\t0\nvoluntary_ctxt_switches:\t%u\n"
                              "nonvoluntary_ctxt_switches:\t0\n",
                              ++asked);
        return true;
    }
    return false;
}

static struct thread_sample *capture_told(int what)
{
    static struct worker worker;
    static struct fixture *fixture;

    if (!fixture) {
        worker = (struct worker){.body = sleep_in_call};
        set_up();
        set_arguments(SYS_read);
        worker_start(&worker);
        worker_wait_asleep(&worker);
        fixture = fixture_new();
        fixture->session.mode = CAPTURE_MODE_PASSIVE;
        tear_down();
    }
    fixture_forget(fixture);
    told = worker.tid;
    asked = looked = 0;
    schedstat_fd = status_fd = syscall_fd = -1;
    say = what;
    sys_hook = answer;
    fixture_capture(fixture);
    sys_hook = NULL;
    return fixture_sample(fixture, worker.tid);
}

Test(passive, one_look_where_switches_are_counted)
{
    struct thread_sample *sample = capture_told(SAY_NOTHING);

    cr_expect(eq(int, sample->capture, CAPTURE_PASSIVE));
    cr_expect(eq(u32, looked, 1));
}

Test(passive, uncounted_switches_fall_back_to_status_and_a_second_look)
{
    static const int ways[] = {SAY_UNCOUNTED, SAY_MISSING};

    for (unsigned i = 0; i < 2; i++) {
        struct thread_sample *sample = capture_told(ways[i]);

        cr_expect(eq(int, sample->capture, CAPTURE_PASSIVE), "reason %d", sample->reason);
        cr_expect(sample->stable && sample->switches > 0);
        cr_expect(eq(u32, looked, 2));
    }
}

static void expect_nothing_of_where_it_was(const struct thread_sample *sample)
{
    cr_expect(sample->name[0] && sample->state == 'S', "who it is stays");
    cr_expect(not(sample->lock_word.known));
    cr_expect(not(sample->syscall.known));
    cr_expect(not(sample->has_registers));
    cr_expect(not(sample->stable));
    cr_expect(eq(u64, sample->stack_bytes, 0));
}

Test(passive, a_count_that_moves_is_unstable)
{
    static const int ways[] = {SAY_MOVING, SAY_STATUS_MOVING};

    for (unsigned i = 0; i < 2; i++) {
        struct thread_sample *sample = capture_told(ways[i]);

        cr_expect(eq(int, sample->capture, CAPTURE_NONE));
        cr_expect(eq(int, sample->reason, REASON_UNSTABLE));
        cr_expect(eq(i32, sample->stack, -1));
        cr_expect(eq(u32, asked, 6), "three attempts of two reads");
        expect_nothing_of_where_it_was(sample);
    }
}

/* Facts 4: dumpable 0 refuses to open, other kernels refuse to read or print what we do not know. */
Test(passive, unreadable_registers_are_said)
{
    struct thread_sample *sample = capture_told(SAY_REFUSED);

    cr_expect(eq(int, sample->reason, REASON_SYSCALL_UNREADABLE));
    cr_expect(sample->name[0] && sample->state == 'S', "what can be read is there");
    sample = capture_told(SAY_GARBLED);
    cr_expect(eq(int, sample->reason, REASON_SYSCALL_UNREADABLE));
}

static unsigned live_reads;

static void use_live_memory(struct fixture *fixture, const struct raw_context *raw)
{
    if (fixture->taken[fixture->n_taken - 1].tid != told)
        return;
    live_reads++;
    if (raw->ret_read_live)
        *raw->ret_read_live = true;
    /* and meanwhile the thread moves: from here on every count is another */
    asked = 1000;
    say = SAY_MOVING;
}

/* A walk that read live memory counts only if the thread has not moved until its end. */
Test(passive, live_reads_are_proven_afterwards)
{
    struct worker worker = {.body = sleep_in_call};
    struct fixture *fixture;
    struct thread_sample *sample;

    set_up();
    set_arguments(SYS_read);
    tear_down();
    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture->session.mode = CAPTURE_MODE_PASSIVE;
    fixture->on_take = use_live_memory;
    told = worker.tid;
    sys_hook = answer;
    fixture_capture(fixture);
    sys_hook = NULL;
    sample = fixture_sample(fixture, worker.tid);

    cr_expect(live_reads > 0);
    cr_expect(eq(int, sample->capture, CAPTURE_NONE));
    cr_expect(eq(int, sample->reason, REASON_UNSTABLE));
    cr_expect(eq(i32, sample->stack, -1));
    expect_nothing_of_where_it_was(sample);
}

/* A lock word that was read before the thread moved may belong to another lock by now. */
Test(passive, a_waiter_that_moves_leaves_no_lock_word)
{
    struct worker worker = {.body = lock_mutex, .data = &mutex};
    struct fixture *fixture;

    pthread_mutex_lock(&mutex);
    worker_start(&worker);
    worker_wait_asleep(&worker);
    fixture = fixture_new();
    fixture->session.mode = CAPTURE_MODE_PASSIVE;
    told = worker.tid;
    say = SAY_MOVING;
    sys_hook = answer;
    fixture_capture(fixture);
    sys_hook = NULL;
    cr_expect(eq(int, fixture_sample(fixture, worker.tid)->reason, REASON_UNSTABLE));
    expect_nothing_of_where_it_was(fixture_sample(fixture, worker.tid));
    pthread_mutex_unlock(&mutex);
    pthread_join(worker.thread, NULL);
}
