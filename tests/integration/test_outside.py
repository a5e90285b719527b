#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The capture from outside: probectl dump --force of processes without an agent, or with one that cannot answer.

Nothing is attached, nothing is stopped, and what is shown is as true as from inside.
"""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import (Skip, check, equal, eu_stack, expect_chain, main, needs, program_threads,  # noqa: E402
                       read_text, task_status, test, wait_until)

OUTSIDE = "captured from outside"


def capture(t, program, *options, status=(0, 1)):
    dump = t.dump(program, "--force", *options, status=status)
    check(any(OUTSIDE in why for why in dump.process["why"]), f"why: {dump.process['why']}")
    equal((dump.stats["signals_sent"], dump.stats["pause_nanos"]), (0, 0), "signals and pauses")
    return dump


def await_asleep(program, n_threads):
    wait_until(lambda: len(program_threads(program.pid)) >= n_threads, f"{n_threads} threads")
    for tid in program_threads(program.pid):
        program.await_blocked(tid)


def switches(pid):
    """How often each thread was switched, in and out."""
    return {tid: (read_text(f"/proc/{pid}/task/{tid}/schedstat").split()[2],
                  task_status(pid, tid, "voluntary_ctxt_switches"),
                  task_status(pid, tid, "nonvoluntary_ctxt_switches")) for tid in program_threads(pid)}


def compare_with_eu_stack(t, program, wanted):
    """Threads that did not move between two dumps show what eu-stack saw in between, or an announced end."""
    equal_stacks = short = 0
    for _ in range(4):
        before = switches(program.pid)
        dump = capture(t, program)
        if switches(program.pid) != before:
            continue
        reference = eu_stack(program.pid)
        for tid, theirs in reference.items():
            ours = [int(frame["pc"], 16) for frame in dump.frames(tid)]
            # Between the two looks a thread may have gone elsewhere; a sleeper of a settled program has not.
            check(ours[:1] == theirs[:1], f"thread {tid} is elsewhere\n{dump.show(tid)}")
            if ours[: len(theirs)] == theirs:
                equal_stacks += 1
                continue
            check(ours == theirs[: len(ours)] and dump.end(tid) != "outermost",
                  f"thread {tid} differs from eu-stack {[hex(pc) for pc in theirs]}\n{dump.show(tid)}")
            short += 1
        break
    print(f"# against eu-stack: {equal_stacks} equal, {short} end early")
    check(equal_stacks + short >= wanted and equal_stacks > 0, f"{equal_stacks} stacks are equal, {short} end early")


def real_program(name, argv, n_threads):
    @test(f"{name} without an agent: the stacks that eu-stack sees", docker=False)
    def run(t):
        needs(argv[0], "eu-stack")
        program = t.program(argv, probe=False)
        await_asleep(program, n_threads)
        compare_with_eu_stack(t, program, n_threads)


PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
real_program("sleep", ["sleep", "1000"], 1)
real_program("python3", [PYTHON, "-c", "import threading, time\n"
                         "for i in range(3): threading.Thread(target=threading.Event().wait).start()\n"
                         "time.sleep(1000)"], 4)
real_program("perl", ["perl", "-e", "sleep 1000"], 1)


@test("redis-server without an agent: every thread is there, named from its files", docker=False)
def redis(t):
    needs("redis-server")
    program = t.program(["redis-server", "--port", "0", "--save", "", "--unixsocket", f"{t.work}/redis.sock"], probe=False)
    wait_until(lambda: len(program_threads(program.pid)) >= 4 and os.path.exists(f"{t.work}/redis.sock"), "redis")
    for _ in range(10):
        before = set(program_threads(program.pid))
        dump = capture(t, program)
        after = set(program_threads(program.pid))  # one of its libraries starts a thread some time later
        check(before <= set(dump.threads) <= after, f"{before} {set(dump.threads)} {after}")
    check("main" in dump.functions(program.pid) and "_start" in dump.functions(program.pid), dump.show(program.pid))


@test("node without an agent: every thread is there", docker=False)
def node(t):
    needs("node")
    program = t.program(["node", "-e", "setInterval(() => {}, 1e6)"], probe=False)
    wait_until(lambda: len(program_threads(program.pid)) >= 6, "threads")
    program.await_blocked()
    dump = capture(t, program)
    equal(sorted(dump.threads), program_threads(program.pid), "threads")
    check(dump.stats["threads_captured"] >= 6, f"stats {dump.stats}")


@test("every blocking call: the chain that the program knows, without an agent")
def blocked(t):
    target = t.spawn("blocked", probe=False)
    with t.undisturbed(target):
        dump = capture(t, target)
    t.expect_all_chains(target, dump, may_end_early=True)
    target.release()


@test("nobody is switched in or out, stopped or traced")
def undisturbed(t):
    target = t.spawn("threads", n=50, probe=False)
    await_asleep(target, 51)
    before = switches(target.pid)
    for _ in range(20):
        dump = capture(t, target, status=0)
        equal({tid: task_status(target.pid, tid, "TracerPid") for tid in target.tids},
              {tid: "0" for tid in target.tids}, "tracers")
    equal(switches(target.pid), before, "switch counters")
    t.expect_all_chains(target, dump)
    if shutil.which("eu-stack"):  # does the counter show somebody who does attach?
        eu_stack(target.pid)
        check(switches(target.pid) != before, "eu-stack left no trace: the counters prove nothing")
    target.release()


@test("running threads have the reason, sleeping ones their stack")
def running(t):
    target = t.spawn("spin", n=1, probe=False)
    dump = capture(t, target, status=1)
    reasons = sorted(thread.get("reason", "") for thread in dump.threads.values())
    equal(reasons, [""] * (len(reasons) - 1) + ["outside"], "reasons")
    target.release()


@test("a deadlock is seen and named from outside", docker=False)
def deadlock(t):
    target = t.spawn("deadlock2", probe=False)
    dump = capture(t, target)
    check(any(verdict["kind"] == "DEADLOCK" and verdict["confidence"] == "proven" for verdict in dump.process["verdicts"]),
          f"verdicts {dump.process['verdicts']}")
    text = t.ctl("dump", "--force", target.pid).stdout
    check(text.startswith("DEADLOCK"), text)


@test("a stopped process without an agent: where each thread stands, also those that ran")
def stopped(t):
    target = t.spawn("spin", n=1, sleepers=1, probe=False)
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: "T (stopped)" in read_text(f"/proc/{target.pid}/status"), "stopped")
    for tid in target.tids:
        wait_until(lambda tid=tid: "T (stopped)" in read_text(f"/proc/{target.pid}/task/{tid}/status"), "stopped")
    dump = capture(t, target)
    equal({thread["state"] for thread in dump.threads.values()}, {"stopped"}, "states")
    equal(dump.stats["threads_captured"], len(target.tids), "captured")
    check(any("SIGCONT" in why for why in dump.process["why"]), f"why: {dump.process['why']}")
    os.kill(target.pid, signal.SIGCONT)
    target.release()


@test("an agent that is stopped with its program: --force reads it from outside, and says what the agent does")
def stopped_agent(t):
    target = t.spawn("threads", n=4)
    t.await_socket(target.pid)
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: "T (stopped)" in read_text(f"/proc/{target.pid}/status"), "stopped")
    plain = t.dump(target, status=2)
    equal({thread["capture"] for thread in plain.threads.values()}, {"none"}, "without --force")
    dump = capture(t, target, status=0)
    t.expect_all_chains(target, dump)
    check(any("the agent's thread" in why for why in dump.process["why"]), f"why: {dump.process['why']}")
    check("not answered within a second" in dump.errors, dump.errors)
    os.kill(target.pid, signal.SIGCONT)
    dump = t.dump(target, "--force", status=0)
    check(not any(OUTSIDE in why for why in dump.process["why"]), "an agent that answers is asked")
    target.release()


@test("without --force a process without an agent is refused, and --force is named")
def not_forced(t):
    program = t.program(["sleep", "1000"], probe=False)
    result = t.ctl("dump", program.pid)
    equal((result.returncode, result.stdout), (4, ""), "status and output")
    check(f"dump --force {program.pid}" in result.stderr, result.stderr)


@test("main has left: its thread is a zombie, the others are whole", "S59")
def main_gone(t):
    target = t.spawn("main_exit", probe=False)
    dump = capture(t, target, status=None)
    equal(dump.threads[target.pid].get("reason"), "zombie", "the leader")
    for tid, chain in target.chains.items():
        if chain and tid != target.pid:
            expect_chain(dump, tid, chain, t.target_dir, may_end_early=True)


@test("a zombie: nothing is left to dump")
def zombie(t):
    child = os.fork()
    if child == 0:
        os._exit(0)
    wait_until(lambda: "Z (zombie)" in read_text(f"/proc/{child}/status"), "zombie")
    result = t.ctl("dump", "--force", child)
    os.waitpid(child, 0)
    equal(result.returncode, 3, result.stderr)
    check("has ended" in result.stderr, result.stderr)


def as_user(t, user, *arguments):
    if os.getuid() != 0:
        raise Skip("needs root to become somebody else")
    result = t.run([t.probectl, *arguments], probe=False, launch=["-u", str(user)])
    if result.returncode == 125:
        raise Skip(f"probectl cannot be run by user {user}: {result.stderr}")
    return result


@test("a process of another user is refused in words", docker=False)
def other_user(t):
    program = t.program(["sleep", "1000"], probe=False, launch=["-u", "65534"])
    program.await_blocked()
    result = as_user(t, 65533, "dump", "--force", str(program.pid))
    equal((result.returncode, result.stdout), (4, ""), result.stderr)
    check("belongs to another user (uid 65534)" in result.stderr and "as root" in result.stderr, result.stderr)


@test("a process of the same user needs no root", docker=False)
def same_user(t):
    yama = "/proc/sys/kernel/yama/ptrace_scope"
    if os.path.exists(yama) and read_text(yama).strip() != "0":
        raise Skip("Yama allows this for root only")
    program = t.program(["sleep", "1000"], probe=False, launch=["-u", "65534"])
    program.await_blocked()
    result = as_user(t, 65534, "dump", "--force", str(program.pid))
    equal(result.returncode, 0, result.stderr)
    check("clock_nanosleep" in result.stdout, result.stdout)


def compiled(t, name, source, *flags):
    path = os.path.join(str(t.work), name)
    with open(path + ".c", "w", encoding="utf-8") as file:
        file.write(source)
    if not shutil.which("cc"):
        raise Skip("no compiler")
    result = subprocess.run(["cc", "-o", path, path + ".c", *flags], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Skip(f"cannot be linked here: {result.stderr[:200]}")
    return path


def static_program(flags):
    @test(f"a static program ({' '.join(flags)}): to its start", "S90", docker=False)
    def run(t):
        path = compiled(t, "still", "#include <unistd.h>\n__attribute__((noinline)) int inner(void) { pause(); return 1; }\n"
                        "int main(void) { return inner() + 1; }\n", "-O1", *flags)
        program = t.program([path], probe=False)
        program.await_blocked()
        dump = capture(t, program, status=0)
        functions = dump.functions(program.pid)
        check([name for name in functions if name in ("inner", "main", "_start")] == ["inner", "main", "_start"],
              dump.show(program.pid))


static_program(["-static"])
static_program(["-static-pie"])


def starts_not(path):
    """Whether the kernel knows no such programs: 32-bit ones are an option, of its build and of its start."""
    try:
        process = subprocess.Popen([path])
    except OSError as reason:
        return reason.errno == errno.ENOEXEC
    process.kill()
    process.wait()
    return False


@test("a 32-bit program is refused in words", docker=False)
def other_class(t):
    path = compiled(t, "small", "void _start(void) { for (;;) __asm__ volatile(\"int $0x80\" :: \"a\"(29)); }\n", "-m32",
                    "-nostdlib", "-static", "-fno-pic", "-no-pie")
    if starts_not(path):
        raise Skip("this kernel runs no 32-bit programs")
    program = t.program([path], probe=False)
    wait_until(lambda: read_text(f"/proc/{program.pid}/comm").strip() == "small", "exec")
    result = t.ctl("dump", "--force", program.pid)
    equal((result.returncode, result.stdout), (4, ""), result.stderr)
    check("not 64-bit x86" in result.stderr, result.stderr)


@test("a process in a root of its own: its files are found", docker=False)
def other_root(t):
    if os.getuid() != 0:
        raise Skip("needs root to change the root directory")
    path = compiled(t, "rooted", "#include <unistd.h>\nint main(void) { pause(); return 0; }\n", "-O1", "-static")
    root = os.path.join(str(t.work), "root")
    os.mkdir(root)
    shutil.copy(path, os.path.join(root, "rooted"))
    os.unlink(path)
    needs("chroot")
    program = t.program(["chroot", root, "/rooted"], probe=False)
    wait_until(lambda: read_text(f"/proc/{program.pid}/comm").strip() == "rooted", "exec")
    program.await_blocked()
    dump = capture(t, program, status=0)
    check("main" in dump.functions(program.pid), dump.show(program.pid))


@test("a process with mounts of its own: files that only it sees are found", docker=False)
def other_mounts(t):
    needs("unshare", "mount")
    path = compiled(t, "mounted", "#include <unistd.h>\nint main(void) { pause(); return 0; }\n", "-O1", "-static")
    inside = os.path.join(str(t.work), "inside")
    os.mkdir(inside)
    script = f"mount -t tmpfs none {inside} && cp {path} {inside} && exec {inside}/mounted"
    program = t.program(["unshare", "-m", "sh", "-c", script], probe=False)
    wait_until(lambda: not program.alive() or read_text(f"/proc/{program.pid}/comm").strip() == "mounted", "exec")
    if not program.alive():
        raise Skip(f"no mounts of one's own here: {program.errors()}")
    os.unlink(path)
    program.await_blocked()
    dump = capture(t, program, status=0)
    check("main" in dump.functions(program.pid), dump.show(program.pid))


@test("the answer can be saved and shown again")
def saved(t):
    program = t.program(["sleep", "1000"], probe=False)
    program.await_blocked()
    path = os.path.join(str(t.work), "report.jsonl")
    result = t.ctl("dump", "--force", "-o", path, program.pid)
    equal(result.returncode, 0, result.stderr)
    shown = t.ctl("show", path)
    equal(shown.returncode, 0, shown.stderr)
    check("clock_nanosleep" in shown.stdout and OUTSIDE in shown.stdout, shown.stdout)
    check(re.search(r'"signals_sent":0\b', read_text(path)), "signals_sent")


if __name__ == "__main__":
    sys.exit(main())
