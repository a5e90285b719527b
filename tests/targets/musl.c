/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * S17, S84: a program of another libc under the same preload file: threads blocked in a mutex and a read, a
 * fork. Prints "ready PID", ends after a line on stdin. Uses only POSIX.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned sink;

__attribute__((noinline)) void musl_waits_here(void);
__attribute__((noinline)) void musl_waits_here(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    sink++;
}

__attribute__((noinline)) void *musl_thread(void *argument);
__attribute__((noinline)) void *musl_thread(void *argument)
{
    musl_waits_here();
    sink++;
    return argument;
}

int main(void)
{
    pthread_t thread;
    int status;
    char byte;

    pthread_mutex_lock(&mutex);
    if (pthread_create(&thread, NULL, musl_thread, NULL))
        return 2;
    pid_t child = fork();
    if (child == 0)
        _exit(13);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 13)
        return 3;
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (read(0, &byte, 1) != 1)
        return 1;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    printf("joined\n");
    return 0;
}
