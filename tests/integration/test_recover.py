#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The matrix of recovered frame pointers: blocking calls, threads, compilers, flags and shapes of frames.

A sleeping thread's callee-saved registers are not known to the agent. Every stack is compared, address by address, with
eu-stack's, which stops the threads and has all registers: what differs is wrong, what is missing must be announced. The
default run takes one shape of frame for each compiler and set of flags; --full takes all of them.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import FULL, Failed, Skip, check, equal, main, needs, probe_threads, read_text, test, wait_until  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "targets", "matrix.c")
CALLS = re.findall(r"\bX\((\w+),", read_text(SOURCE))
SHAPES = ("PLAIN", "ALLOCA", "ALIGNED", "ALIGNED_ALLOCA", "LITTER", "PUSHED", "COLD", "SWITCH", "TAIL")
# Which shapes are hard on purpose: stale frames of the same functions, and distances that are no constants.
HARD = ("ALLOCA", "ALIGNED_ALLOCA", "LITTER")
FP = "-fno-omit-frame-pointer"
FLAGS = {
    "gcc": ["-O0", f"-O0 {FP} -fcf-protection", "-O0 -no-pie -fno-pie", "-O0 -fno-plt", "-Og", "-O1", f"-O1 {FP}", "-O2",
            f"-O2 {FP}", f"-O2 {FP} -fcf-protection -z now", "-O3", f"-O3 {FP} -fstack-clash-protection", "-Os",
            f"-Os {FP}", "-O2 -flto", f"-O2 {FP} -flto", f"-O2 {FP} -mno-red-zone -fstack-protector-all",
            "-O0 -Wl,-z,lazy"],
    "clang": ["-O0", f"-O0 {FP} -fcf-protection", "-O0 -fno-plt", "-Og", "-O1", f"-O1 {FP}", "-O2", f"-O2 {FP}", "-O3",
              f"-O3 {FP}", "-Os", f"-Os {FP}", f"-Oz {FP}", f"-O2 {FP} -mno-red-zone", "-O2 -fuse-ld=lld",
              f"-O2 {FP} -flto -fuse-ld=lld"],
    "g++": ["-O0", "-Og", "-O2", f"-O2 {FP}", "-O3", f"-Os {FP}"],
    "clang++": ["-O0", "-O2", f"-O2 {FP}", f"-Os {FP}"],
}
# What the rules were not made with in mind.
UNTUNED = [
    *(("gcc", flags, shape) for shape in ("PLAIN", "ALLOCA", "TAIL") for flags in
      (f"-O2 {FP} -mindirect-branch=thunk", "-O1 -fno-split-stack", f"-O0 -mindirect-branch=thunk-inline {FP}",
       f"-O2 {FP} -fno-shrink-wrap -mno-push-args")),
    ("gcc", f"-O1 {FP} -mpreferred-stack-boundary=3", "PLAIN"),
    *(("clang", f"-O1 {FP} -mretpoline", shape) for shape in ("PLAIN", "ALLOCA", "TAIL")),
    *((compiler, flags, "BYHAND") for compiler, flags in
      (("gcc", "-O0"), ("gcc", "-O2"), ("gcc", f"-O2 {FP}"), ("gcc", "-Os -fcf-protection"), ("clang", "-O0"),
       ("clang", f"-Os {FP}"), ("g++", "-O2"))),
    *((compiler, f"-std=c++20 {flags}", "COROUTINE") for compiler, flags in
      (("g++", "-O0"), ("g++", "-O1"), ("g++", "-O2"), ("g++", f"-O2 {FP}"), ("g++", "-Os -flto"), ("clang++", "-O0"),
       ("clang++", "-O1"), ("clang++", f"-O2 {FP}"))),
]


def builds():
    every = [(compiler, flags) for compiler, sets in FLAGS.items() for flags in sets]
    if FULL:
        return [(compiler, flags, shape) for compiler, flags in every for shape in SHAPES] + UNTUNED
    return [(compiler, flags, SHAPES[i % len(SHAPES)]) for i, (compiler, flags) in enumerate(every)] + UNTUNED


def compile_one(t, number, compiler, flags, shape):
    program = os.path.join(t._work, f"matrix-{number}")
    # LTO would make one frame of the three.
    words = [compiler, *flags.split(), "-w", "-D_GNU_SOURCE", f"-DSHAPE={shape}", "-pthread", "-o", program,
             *(["-x", "c++"] if "++" in compiler else []), SOURCE, "-lrt"]
    result = subprocess.run(words, capture_output=True, text=True)
    return (program, None) if result.returncode == 0 else (None, result.stderr[:300])


def task_calls(pid):
    agent = set(probe_threads(pid))
    return {tid: read_text(f"/proc/{pid}/task/{tid}/syscall") for tid in os.listdir(f"/proc/{pid}/task") if int(tid) not in agent}


def settled(pid, n):
    first = task_calls(pid)
    if len(first) != n or any(line.startswith("running") for line in first.values()):
        return False
    return task_calls(pid) == first


def start(t, program):
    """Main in every call, and a program with a thread in every call."""
    targets = []
    for call in [*CALLS, "all"]:
        target = t.program([program, call], cwd=t._work)
        target.objects = []
        targets.append((call, target))
    for call, target in targets:
        while (line := target.line()) != "prepared":
            target.objects += ["-q" if line.startswith("msg") else "-s", line.split()[1]]
        t.await_socket(target.pid)
        wait_until(lambda: settled(target.pid, 1 + len(CALLS) if call == "all" else 1), f"{call} blocked")
    return [target for _, target in targets]


def referee(pid):
    """Thread id -> addresses of its frames, by a debugger that has all registers."""
    result = subprocess.run(["eu-stack", "-q", "-n", "0", "-p", str(pid)], capture_output=True, text=True, timeout=60)
    stacks = {}
    for line in result.stdout.splitlines():
        if match := re.match(r"TID (\d+):", line):
            frames = stacks.setdefault(int(match.group(1)), [])
        elif match := re.match(r"#\d+\s+0x([0-9a-f]+)", line):
            frames.append(int(match.group(1), 16))
    return stacks


class Tally:
    def __init__(self):
        self.stacks = self.whole = self.frames = self.inferred = 0
        self.wrong, self.short = [], []

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self):
        return (f"{self.whole} of {self.stacks} stacks whole ({100 * self.whole / max(1, self.stacks):.1f} %), "
                f"{self.frames} frames, {self.inferred} inferred, {len(self.wrong)} wrong")


def compare(tally, process, truth, what):
    stacks = process["stacks"]
    for thread in process["threads"]:
        tid = thread["tid"]
        check(thread.get("stack") is not None, f"{what}: no stack of {tid}: {thread}")
        frames = stacks[thread["stack"]]
        ours = [int(frame["pc"], 16) for frame in frames]
        theirs = truth.get(tid)
        check(theirs, f"{what}: the referee has no stack of {tid}; is the program alive?")
        end = process["stack_ends"][thread["stack"]]["end"]
        tally.stacks += 1
        tally.frames += len(ours)
        tally.inferred += sum(frame["trust"] == "inferred" for frame in frames)
        if ours != theirs[:len(ours)] or (end == "outermost" and len(ours) != len(theirs)):
            tally.wrong.append(f"{what} thread {tid}, system call {thread['syscall'].get('name')}, end {end}:\n  ours   "
                               + " ".join(map(hex, ours)) + "\n  theirs " + " ".join(map(hex, theirs)))
        elif end == "outermost":
            tally.whole += 1
        else:
            tally.short.append(f"{thread['syscall'].get('name')}: {end} after {len(ours)} of {len(theirs)}")


def run_build(t, program, what):
    tally = Tally()
    targets = start(t, program)
    try:
        for i in range(0, len(targets), 14):
            pids = [target.pid for target in targets[i:i + 14]]
            answer = t.ctl("dump", "-f", "json", "--symbols", "none", *pids, deadline=60)
            report = json.loads(answer.stdout)
            equal(len(report["processes"]), len(pids), f"{what}: processes in the report: {answer.stderr[:300]}")
            for process in report["processes"]:
                compare(tally, process, referee(process["pid"]), what)
    finally:
        objects = [word for target in targets for word in target.objects]
        for target in targets:
            target.kill()
            target.process.stdin.close()
            target.process.stdout.close()
            t._programs.remove(target)
        subprocess.run(["ipcrm", *objects], check=False, capture_output=True)
    return tally


@test("no wrong frame in any blocking call under any frame that compilers make; what is missing is announced", "S53",
      timeout=7200 if FULL else 280, docker=False)
def matrix(t):
    needs("gcc", "eu-stack", "ipcrm")
    equal(len(CALLS), 27, "calls")
    only = os.environ.get("PROBE_TEST_BUILDS", "")
    wanted = [build for build in builds() if only in " ".join(build)]
    totals = {"ordinary": Tally(), "hard": Tally(), "untuned": Tally()}
    n_built = 0
    pool = concurrent.futures.ThreadPoolExecutor(2)
    try:
        jobs = [pool.submit(compile_one, t, number, *build) for number, build in enumerate(wanted)]
        for build, job in zip(wanted, jobs):
            program, error = job.result()
            what = " ".join(build)
            if program is None:
                print(f"# {what}: does not build here: {error.splitlines()[0] if error else ''}")
                continue
            n_built += 1
            try:
                tally = run_build(t, program, what)
            except Failed as failure:
                raise Failed(f"{what}: {failure}") from failure
            os.unlink(program)
            totals["untuned" if build in UNTUNED else "hard" if build[2] in HARD else "ordinary"].add(tally)
            print(f"# {what}: {tally}" + (f"; {'; '.join(sorted(set(tally.short))[:4])}" if tally.short else ""), flush=True)
            if tally.wrong:
                print("# " + tally.wrong[0].replace("\n", "\n# "))
    finally:
        pool.shutdown(cancel_futures=True)
    for kind, tally in totals.items():
        print(f"# {kind}: {tally}")
    if not n_built:
        raise Skip("no compiler")
    equal([wrong for tally in totals.values() for wrong in tally.wrong][:3], [], "wrong frames")
    check(totals["ordinary"].whole >= 0.95 * totals["ordinary"].stacks, "fewer ordinary stacks are recovered than were")


RUST_SOURCE = os.path.join(os.path.dirname(SOURCE), "blocked.rs")
RUST_FLAGS = ("-C opt-level=0", "-C opt-level=2", "-C opt-level=2 -C force-frame-pointers=yes -C panic=abort",
              "-C opt-level=s -C force-frame-pointers=yes", "-C opt-level=3 -C lto=fat")


@test("Rust: no wrong frame in what its library blocks in", "S53", timeout=600, docker=False)
def rust(t):
    needs("rustc", "eu-stack")
    total = Tally()
    for flags in RUST_FLAGS:
        program = os.path.join(t._work, "blocked")
        subprocess.run(["rustc", "--edition", "2021", "-A", "warnings", *flags.split(), "-o", program, RUST_SOURCE],
                       check=True, capture_output=True, timeout=300)
        target = t.program([program], cwd=t._work)
        n = int(target.line())
        t.await_socket(target.pid)
        wait_until(lambda: settled(target.pid, n), "all threads blocked")
        report = json.loads(t.ctl("dump", "-f", "json", "--symbols", "none", target.pid).stdout)
        tally = Tally()
        compare(tally, report["processes"][0], referee(target.pid), flags)
        equal(tally.stacks, n, "stacks")
        print(f"# rustc {flags}: {tally}" + (f"; {'; '.join(sorted(set(tally.short)))}" if tally.short else ""))
        total.add(tally)
        target.kill()
    equal(total.wrong[:3], [], "wrong frames")
    check(total.whole >= 0.9 * total.stacks, "fewer stacks are recovered than were")


if __name__ == "__main__":
    main()
