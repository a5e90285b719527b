/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * S36: a program built with ThreadSanitizer, which delays asynchronous handlers until its next intercepted
 * call: one thread spins, one waits for a mutex. Prints "ready PID", ends after a line on stdin.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool end_now;
static atomic_int up;

__attribute__((noinline)) static void tsan_spins(void)
{
    while (!atomic_load_explicit(&end_now, memory_order_relaxed))
        ;
}

static void *spinner(void *argument)
{
    atomic_fetch_add(&up, 1);
    tsan_spins();
    return argument;
}

__attribute__((noinline)) static void tsan_waits(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void *waiter(void *argument)
{
    atomic_fetch_add(&up, 1);
    tsan_waits();
    return argument;
}

int main(void)
{
    pthread_t threads[2];
    char byte;

    pthread_mutex_lock(&mutex);
    pthread_create(&threads[0], NULL, spinner, NULL);
    pthread_create(&threads[1], NULL, waiter, NULL);
    while (atomic_load(&up) < 2)
        usleep(1000);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (read(0, &byte, 1) != 1)
        return 1;
    pthread_mutex_unlock(&mutex);
    atomic_store(&end_now, 1);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
