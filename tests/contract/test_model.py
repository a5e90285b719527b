#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The slot protocol, every interleaving of it: agent/backends/slot.pml under the model checker spin.

A model that cannot fail shows nothing, so each -DMUTATION_n puts one error in, and spin must find every one.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from probetest import FULL, Failed, check, equal, main, needs, read_text, test  # noqa: E402

MODEL = os.path.join(ROOT, "agent", "backends", "slot.pml")

# Slots, threads, dumps, forks: together they hold every kind of meeting. With more of each the states are too many.
SMALL = [(1, 1, 3, 1), (2, 2, 1, 1), (2, 2, 2, 0)]
LARGE = [(1, 2, 2, 1), (1, 3, 2, 0)]


def states(t, slots, threads, dumps, forks, mutation=None):
    """Searches all states; (how many there are, what is wrong or None)."""
    needs("spin", "gcc")
    work = os.path.join(str(t.work), f"{slots}-{threads}-{dumps}-{forks}-{mutation}")
    os.mkdir(work)
    options = [f"-DSLOT_COUNT={slots}", f"-DTHREADS={threads}", f"-DDUMPS={dumps}", f"-DFORKS={forks}"]
    options += [f"-DMUTATION_{mutation}"] if mutation else []
    for argv in (["spin", "-a", *options, MODEL],
                 ["gcc", "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=4096", "-o", "pan", "pan.c"],
                 ["./pan", "-m100000"]):
        done = subprocess.run(argv, cwd=work, capture_output=True, text=True, timeout=600, check=False)
        equal(done.returncode, 0, f"{' '.join(argv)}: {done.stdout[-500:]}{done.stderr[-500:]}")
    check("max search depth too small" not in done.stdout, "too deep")
    errors = re.search(r"errors: (\d+)", done.stdout)
    if not errors:
        raise Failed(done.stdout[-500:])
    found = re.search(r"^pan:1: (.*)", done.stdout, re.M)
    count = re.search(r"(\d+) states, stored", done.stdout)
    return int(count.group(1)) if count else 0, found.group(1) if int(errors.group(1)) else None


@test("no interleaving of probe thread, handlers and fork breaks the slot protocol", timeout=1200)
def model(t):
    total = 0
    for size in SMALL + (LARGE if FULL else []):
        count, wrong = states(t, *size)
        equal(wrong, None, f"slots, threads, dumps, forks {size}")
        check(count > 10000, f"{size}: {count} states are too few to be all")
        total += count
    print(f"# {total} states")


def mutations():
    return sorted({int(number) for number in re.findall(r"MUTATION_(\d+)", read_text(MODEL))})


@test("every error put into the model is found", timeout=1200)
def mutants(t):
    numbers = mutations()
    check(len(numbers) >= 10, f"only {numbers}")
    for number in numbers:
        wrong = None
        for size in [(1, 2, 2, 0), (1, 1, 2, 1), (2, 2, 2, 0), (1, 2, 2, 1)]:
            wrong = wrong or states(t, *size, number)[1]
        print(f"# mutation {number}: {wrong}")
        check(wrong, f"mutation {number} is not found")


if __name__ == "__main__":
    sys.exit(main())
