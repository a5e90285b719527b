/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Scenarios around the loader: hung inside dlopen(), static TLS used up. */
#include "tests/targets/target.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>

/* Seen by lib_ctor.so; the executable exports its symbols for that. */
extern sem_t ctor_may_end;
sem_t ctor_may_end;

static _Atomic pid_t loading, looking;

T_FRAME void *loading_thread(void *argument);
T_FRAME void *loading_thread(void *argument)
{
    t_publish(&loading);
    t_dlopen("lib_ctor.so");
    T_NO_TAIL_CALL();
    return argument;
}

/* Proof that the loader is really stuck: a second dlopen() hangs too. */
T_FRAME void *second_dlopen(void *argument);
T_FRAME void *second_dlopen(void *argument)
{
    t_publish(&looking);
    t_dlopen("lib_plugin.so");
    T_NO_TAIL_CALL();
    return argument;
}

static int run_dlopen_ctor(void)
{
    sem_init(&ctor_may_end, 0, 0);
    pthread_t first = t_thread(loading_thread, NULL, "loading");
    t_await_blocked(t_await_tid(&loading), SYS_futex);
    pthread_t second = t_thread(second_dlopen, NULL, "second");
    t_await_blocked(t_await_tid(&looking), SYS_futex);
    t_expect(loading, "blocks_in_constructor library_constructor t_dlopen loading_thread");
    t_expect(looking, "t_dlopen second_dlopen");
    t_ready();
    t_wait_release();
    sem_post(&ctor_may_end);
    t_join(first);
    t_join(second);
    return 0;
}

/* How many libraries with 256 bytes of static TLS can still be loaded: must not depend on the agent. */
static int run_tls_heavy(void)
{
    int loaded = 0;
    for (int i = 0; i < 16; i++) {
        char path[4200];
        snprintf(path, sizeof(path), "%s/lib_tls_%d.so", t_directory(), i);
        void *library = dlopen(path, RTLD_NOW);
        if (!library)
            break;
        char *(*block)(void) = (char *(*)(void))dlsym(library, "tls_block");
        *block() = 1;
        loaded++;
    }
    t_fact("loaded", "%d", loaded);
    t_ready();
    t_wait_release();
    return loaded > 0 ? 0 : 1;
}

const struct t_scenario t_loader_scenarios[] = {
    {"dlopen_ctor", "S21", "a library constructor that blocks inside dlopen()", NULL, run_dlopen_ctor},
    {"tls_heavy", "S83", "loads libraries with static TLS until that is used up", NULL, run_tls_heavy},
    {NULL, NULL, NULL, NULL, NULL},
};
