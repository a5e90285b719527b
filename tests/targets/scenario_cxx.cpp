/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* S15, S49: threads that throw and catch through a recursion all the time. */
#include "tests/targets/target.h"

#include <stdexcept>

namespace {

std::atomic<bool> end_now{false};
std::atomic<int> caught[4];

} // namespace

extern "C" {

T_FRAME int throws_at_depth(int depth)
{
    if (depth == 0)
        throw std::runtime_error("bottom");
    int result = throws_at_depth(depth - 1);
    T_NO_TAIL_CALL();
    return result + 1;
}

T_FRAME void *throwing_thread(void *argument)
{
    std::atomic<int> *count = static_cast<std::atomic<int> *>(argument);
    while (!end_now) {
        try {
            throws_at_depth(20);
        } catch (const std::exception &) {
            (*count)++;
        }
    }
    return nullptr;
}

static void await_more(int n)
{
    for (int i = 0; i < n; i++) {
        int before = caught[i];
        uint64_t end = t_now_ns() + static_cast<uint64_t>(T_DEADLINE_S) * 1000000000u;
        while (caught[i] < before + 3) {
            if (t_now_ns() > end)
                t_fail("thread %d stopped throwing", i);
            t_sleep_ms(1);
        }
    }
}

static int run_throw()
{
    enum { N = 4 };
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        threads[i] = t_thread(throwing_thread, &caught[i], "throwing");
    await_more(N);
    t_ready();
    t_wait_release();
    await_more(N);
    end_now = true;
    for (int i = 0; i < N; i++)
        t_join(threads[i]);
    return 0;
}

extern const struct t_scenario t_cxx_scenarios[] = {
    {"throw", "S15 S49", "4 threads in C++ throw/catch recursion", nullptr, run_throw},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

} // extern "C"
