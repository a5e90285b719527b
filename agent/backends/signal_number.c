/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See signal_number.h.
 * Zone: probe thread; signal_number_init() at load time.
 */
#include "agent/backends/signal_number.h"

#include <asm/signal.h>

#include "agent/backends/signal_handler.h"
#include "agent/backends/x86_64/restorer.h"
#include "agent/sys.h"

#include "agent/nolibc.h"

#define SIGNALS 64
/*
 * Whoever took nine in ten of all signals is a runtime like Go's, not a program that wants this very number.
 */
#define RUNTIME_SHARE(n) ((n)*9 / 10)

/* Of the process. */
static struct {
    int number;    /* 0: none was free */
    int requested; /* by the user; 0: the agent chooses */
} chosen;

static void *const handler = (void *)libprobe_capture_signal;

static bool usable_number(int number)
{
    /* 32 and 33 are glibc's and musl's own; KILL and STOP cannot be handled. */
    return number >= 1 && number <= SIGNALS && number != SIGKILL && number != SIGSTOP && number != 32 &&
           number != 33;
}

static void *disposition(int number)
{
    struct sys_sigaction action = {.handler = (void *)SIG_ERR};

    return sys_sigaction(number, NULL, &action) < 0 ? (void *)SIG_ERR : action.handler;
}

/*
 * The highest real-time signal nobody handles: programs count up from SIGRTMIN. What has our handler is ours
 * already: a fork child inherits it, and would take one more number in every generation.
 */
static int pick_number(int highest)
{
    for (int number = highest; number > 33; number--) {
        const void *current = disposition(number);

        if (current == (void *)SIG_DFL || current == handler)
            return number;
    }
    return 0;
}

void signal_number_init(int requested)
{
    chosen.requested = usable_number(requested) ? requested : 0;
}

void signal_number_choose(void)
{
    chosen.number = chosen.requested ? chosen.requested : pick_number(SIGNALS);
}

int signal_number(void)
{
    return chosen.number;
}

static bool runtime_took_all(const void *foreign)
{
    int n = 0, same = 0;

    for (int number = 1; number <= SIGNALS; number++) {
        if (!usable_number(number))
            continue;
        n++;
        same += disposition(number) == foreign;
    }
    return same >= RUNTIME_SHARE(n);
}

static bool may_take(const void *current)
{
    return current == (void *)SIG_DFL || current == handler || runtime_took_all(current);
}

static enum capture_reason install(void)
{
    const struct sys_sigaction ours = {.handler = handler,
                                       .flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_RESTORER,
                                       .restorer = (void *)libprobe_signal_return,
                                       .mask = ~UINT64_C(0)};
    struct sys_sigaction old;

    if (sys_sigaction(chosen.number, &ours, &old) < 0) {
        /* Emulators refuse some numbers: another one for the next thread. */
        chosen.number = pick_number(chosen.number - 1);
        return REASON_NO_SIGNAL;
    }
    if (may_take(old.handler))
        return REASON_NONE;
    /* The program was faster with its own handler than we between question and answer. */
    sys_sigaction(chosen.number, &old, NULL);
    return REASON_SIGNAL_TAKEN;
}

enum capture_reason signal_number_settle(void)
{
    const void *current = (void *)SIG_ERR;

    if (chosen.number) {
        current = disposition(chosen.number);
        if (may_take(current))
            return REASON_NONE;
        if (chosen.requested)
            return REASON_SIGNAL_TAKEN;
    }
    chosen.number = pick_number(SIGNALS);
    if (chosen.number)
        return REASON_NONE;
    return current == (void *)SIG_ERR ? REASON_NO_SIGNAL : REASON_SIGNAL_TAKEN;
}

enum capture_reason signal_number_own(void)
{
    const void *current = disposition(chosen.number);

    if (current == handler)
        return REASON_NONE;
    return may_take(current) ? install() : REASON_SIGNAL_TAKEN;
}
