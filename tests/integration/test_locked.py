#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that hang inside the runtime, or keep using it: the first dump is complete, and nobody stops."""

import contextlib
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import FULL, check, equal, expect_chain, main, program_threads, test  # noqa: E402

PRELOAD = ("lib_lockmalloc.so",)
# Idle, it is about 0.01 s; a dump that waits for one of these locks would never come.
FIRST_DUMP = 5


def hung(scenario, story, where, preload=()):
    @test(f"hung {where}: the very first dump is complete, at once", story)
    def run(t):
        target = t.spawn(scenario, preload=preload)
        with t.undisturbed(target):
            begin = time.monotonic()
            dump = t.dump(target)
            elapsed = time.monotonic() - begin
        check(elapsed < FIRST_DUMP, f"the dump took {elapsed:.2f} s")
        equal(t.expect_all_chains(target, dump), [], "stacks that end early")
        equal(dump.process["complete"], True, "complete")
        equal(dump.stats["signals_sent"], 0, "signals sent")
        target.release()


hung("malloc_locked", "S19 S20", "inside malloc with the lock held", PRELOAD)
hung("dlopen_ctor", "S21", "in a constructor inside dlopen")
hung("stdio_locked", "", "inside stdio")
hung("fork_handler", "S24", "in a fork handler")


@test("hung in malloc inside a SIGSEGV handler: handler frames and faulting frames", "S46")
def crash_malloc(t):
    target = t.spawn("crash_malloc", preload=PRELOAD)
    tid = int(target.fact("faulting"))
    with t.undisturbed(target):
        begin = time.monotonic()
        dump = t.dump(target)
        elapsed = time.monotonic() - begin
    check(elapsed < FIRST_DUMP, f"the dump took {elapsed:.2f} s")
    expect_chain(dump, tid, target.chains[tid], t.target_dir)
    t.expect_all_chains(target, dump)
    target.release()


def busy(scenario, story, what, dumps=100, own_files=False):
    """own_files: the program itself opens and closes files meanwhile, so its descriptors are not compared.

    On a crowded machine a tenth of the dumps must do: what lasts longer than a minute is cut short there.
    """

    @test(f"{what}: every one of many dumps answers, and nobody stops", story, timeout=120)
    def run(t):
        target = t.spawn(scenario)
        with contextlib.nullcontext() if own_files else t.undisturbed(target):
            wanted, end = dumps * (10 if FULL else 1), time.monotonic() + (600 if FULL else 60)
            for i in range(wanted):
                if i >= wanted // 10 and time.monotonic() > end:
                    print(f"# cut short after {i} of {wanted} dumps")
                    break
                dump = t.dump(target, "--symbols", "none", status=(0, 1))
                equal(sorted(dump.threads), program_threads(target.pid), "threads in the dump")
                equal(len(dump.threads), dump.stats["threads_captured"] + dump.stats["threads_dropped"], "counts add up")
        target.release()


busy("dl_iterate", "S14", "8 threads in dl_iterate_phdr")
busy("throw", "S15 S49", "C++ throw and catch recursion", dumps=200)
busy("malloc_dlopen", "S16 S49", "malloc/free beside dlopen/dlclose", own_files=True)
busy("self_backtrace", "S22", "backtrace() in all threads")
busy("swapcontext", "S48", "swapcontext and longjmp", dumps=200)
busy("recurse", "S66", "threads that recurse and return quickly", dumps=200)

if __name__ == "__main__":
    sys.exit(main())
