#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The scenario program by itself: every scenario gets ready and finds nothing wrong when nobody looks.

Without this, a broken scenario would look like a disturbed one. And the other way round: disturbed by a signal, the
scenarios that watch for it must fail.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import Failed, check, equal, main, probe_threads, test  # noqa: E402

PRELOAD = {"malloc_locked": ["lib_lockmalloc.so"], "crash_malloc": ["lib_lockmalloc.so"]}
# No ready line, no end by themselves, or (taken_over) an attack on the agent, which is not there.
OTHER = {"inherit", "single", "deadlock2", "sigterm", "sigdfl", "starved", "taken_over"}


def scenarios():
    target = os.path.join(os.environ["PROBE_TARGET_DIR"], "target-O2")
    listed = subprocess.run([target, "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


def undisturbed(name):
    @test(f"{name}: undisturbed, its check passes")
    def run(t):
        # Its timed calls must not end before it is ready, on a crowded machine either.
        longer = {"timeout": 10000} if name == "blocked" else {}
        target = t.spawn(name, probe=False, preload=PRELOAD.get(name, []), **longer)
        equal(probe_threads(target.pid), [], "threads named like the agent's in a program without it")
        for tid in target.chains:
            check(tid in target.tids or name == "main_exit", f"chain of thread {tid}, which is not listed")
        target.release()


for scenario in scenarios():
    if scenario not in OTHER:
        undisturbed(scenario)


def disturbed(call):
    @test(f"blocked call={call}: one signal with a handler makes its check fail")
    def run(t):
        target = t.spawn("blocked", probe=False, call=call, timeout=1500, disturb=1)
        try:
            target.release()
        except Failed as reason:
            check("target: " + call in str(reason), f"failed for another reason: {reason}")
            return
        raise Failed("the scenario did not notice")


# Facts 1: what SA_RESTART does not hide.
for blocked_call in ("epoll", "epoll_timed", "poll", "poll_timed", "ppoll_timed", "select", "nanosleep",
                     "clock_nanosleep", "usleep", "sleep", "recv_timed", "accept_timed", "futex_timed", "sem_timed",
                     "sigtimedwait", "sigwait", "pause", "msgrcv", "semop", "write", "send", "recv_waitall"):
    disturbed(blocked_call)

if __name__ == "__main__":
    sys.exit(main())
