#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whole processes: threads that come and go, forks, exits, descriptors, limits."""

import errno
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import (DOCKER, FULL, Failed, Skip, check, descriptors, equal, expect_chain, has_landlock, main, needs,  # noqa: E402
                       probe_threads, program_threads, read_text, start_ticks, task_status, test, wait_until)


@test("64 threads that create and join threads: every dump is consistent, nobody stops", "S62 S17", timeout=180)
def churn(t):
    target = t.spawn("churn", n=64)
    vanished = 0
    for _ in range(1000 if FULL else 100):
        dump = t.dump(target, "--symbols", "none", status=(0, 1))
        stats = dump.stats
        equal(stats["threads_total"], len(dump.threads), "threads_total")
        equal(stats["threads_captured"] + stats["threads_dropped"], stats["threads_total"], "counts add up")
        # A dead thread has no user stack, so nothing is missing of it.
        missing = [thread for thread in dump.threads.values()
                   if thread["capture"] == "none" and thread.get("reason") not in ("zombie", "kernel_worker")]
        equal(stats["threads_dropped"], len(missing), "threads_dropped")
        for tid, thread in dump.threads.items():
            if thread["capture"] == "none":
                check(thread.get("reason"), f"thread {tid} has neither a stack nor a reason")
            vanished += thread.get("reason") == "vanished"
        check(len(dump.threads) >= 65, f"only {len(dump.threads)} threads: the 65 that stay are always there")
    print(f"# {vanished} threads vanished while they were captured")
    target.release()


@test("forks in a loop under back-to-back dumps: every child ends as told", "S08 S67 S68", timeout=180)
def fork_loop(t):
    def forks(dumps):
        target = t.spawn("fork_loop", mib=64)
        time.sleep(0.2)
        begin = time.monotonic()
        n = 0
        while time.monotonic() - begin < 2:
            if dumps:
                # 2: its only thread was running and signalled a moment ago, so there is nothing to show.
                t.dump(target, "--symbols", "none", status=(0, 1, 2))
                n += 1
            else:
                time.sleep(0.05)
        elapsed = time.monotonic() - begin + 0.2
        target.send()
        line = target.line()
        target.wait()
        return int(line.split()[1]) / elapsed, n

    alone, _ = forks(False)
    looked_at, dumps = forks(True)
    check(dumps >= 10, f"only {dumps} dumps in 2 s")
    # Not a bar (that is scripts/bench): forks that start over and over would come near nothing.
    check(looked_at > alone / 20, f"{looked_at:.0f} forks per second under dumps, {alone:.0f} without")


@test("forked workers: each answers for itself, the parent's socket stays when one ends", "S69")
def prefork(t):
    target = t.spawn("prefork")
    children = [int(pid) for pid in target.facts["child"]]
    for pid in [target.pid, *children, target.pid]:
        if pid in children:
            wait_until(lambda pid=pid: os.path.exists(t.socket_path(pid)), f"the socket of child {pid}", 10)
        dump = t.dump(pid)
        equal(dump.process["pid"], pid, "pid in the report")
        equal(sorted(dump.threads), [pid], "threads")
        equal(dump.process["ppid"], os.getpid() if pid == target.pid else target.pid, "ppid")
    for pid in children:
        equal(len(probe_threads(pid)), 1, f"agent threads of child {pid}")
    target.release()


@test("main has left by pthread_exit: the workers are captured, and the process ends as without us", "S59 S60")
def main_exit(t):
    target = t.spawn("main_exit")
    dump = t.dump(target, status=(0, 1))
    worker = next(tid for tid, chain in target.chains.items() if chain)
    expect_chain(dump, worker, target.chains[worker], t.target_dir)
    equal(dump.threads[target.pid].get("reason"), "zombie", "the leader")
    target.send()
    equal(target.wait(), 0, "exit status")
    equal(target.rest_of_output(), "bufferedatexit ran\n", "output: stdio flushed, exit functions run")


def ended_as_without(t, target):
    target.send()
    equal(target.wait(), 0, "exit status")
    equal(target.rest_of_output(), "bufferedatexit ran\n", "output: stdio flushed, exit functions run")


@test("main has left by pthread_exit and nobody ever asked: ends as without us", "S60")
def main_exit_unasked(t):
    ended_as_without(t, t.spawn("main_exit"))


def has_ended(pid, tid):
    try:
        return task_status(pid, tid, "State")[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def ends_bare(what, status, **parameters):
    @test(f"{what}: the agent does not keep the process for ever, and its status is the program's", "S60")
    def run(t):
        target = t.spawn("bare_exit", status=7, **parameters)
        t.await_socket(target.pid)
        target.send()
        wait_until(lambda: not target.alive() or all(has_ended(target.pid, tid) for tid in program_threads(target.pid)),
                   "its threads have ended")
        # Linux 6.9 to 6.14 told the agent; else the next request does.
        if target.alive():
            check("threads have ended" in t.ctl("dump", target.pid).stderr, "probectl does not say so")
        equal(target.wait(check=False), status, "exit status")


ends_bare("main ends by the bare system call", 7)
ends_bare("four threads end by the bare system call", 7, n=3)
ends_bare("main is killed by its sandbox", 128 + signal.SIGSYS, killed=1)


@test("children of a program that has sandboxed itself are not killed for us", "S76", docker=False)
def fork_in_sandbox(t):
    t.spawn("fork_in_sandbox").release()


def closes_everything(daemon):
    @test(f"a program that closes all descriptors{' as a daemon' if daemon else ''}: its own get the numbers it expects",
          "S73 S74")
    def run(t):
        target = t.spawn("close_all", daemon=daemon)
        pid = target.ready_pid
        wait_until(lambda: 3 not in descriptors(pid), "the ready pipe is closed")
        before = descriptors(pid)
        for _ in range(20):
            dump = t.dump(pid)
            equal(sorted(dump.threads), [pid], "threads")
        equal(descriptors(pid), before, "descriptors of the program")
        target.release()


closes_everything(0)
closes_everything(1)


@test("static TLS: as many TLS-heavy libraries load as without us", "S83")
def tls_heavy(t):
    without = t.spawn("tls_heavy", probe=False)
    beside = t.spawn("tls_heavy")
    equal(beside.fact("loaded"), without.fact("loaded"), "libraries loaded")
    check(0 < int(without.fact("loaded")) < 16, "static TLS was not used up: the test says nothing")
    t.dump(beside)
    without.release()
    beside.release()


def limited(what, launch, root=False, **parameters):
    @test(f"{what}: the program runs as without us, silently", "S86", docker=not root)
    def run(t):
        if root and os.geteuid() != 0:
            raise Skip("needs root to become another user")
        if root:
            # The other user must be able to use the directories.
            os.chown(t.dir, 65534, 65534)
        t.spawn("limits", probe=False, launch=launch, **parameters).release()
        target = t.spawn("limits", launch=launch, **parameters)
        result = t.ctl("dump", "-f", "json", target.pid)
        check(result.returncode in (0, 1, 2, 4), f"probectl ended with {result.returncode}: {result.stderr}")
        said = " ".join(result.stderr.split())[:200]
        print(f"# probectl: exit {result.returncode} {said}")
        target.release()
        equal(target.errors(), "", "stderr of the program")


limited("RLIMIT_NPROC 1", ["-u", "65534", "-l", "nproc=1"], root=True)
limited("RLIMIT_AS 64 MiB", ["-l", f"as={64 << 20}"])
limited("mlockall with 1 MiB of lockable memory", ["-u", "65534", "-l", "memlock=1048576"], root=True)
limited("RLIMIT_NOFILE 6", ["-l", "nofile=6"])
limited("RLIMIT_SIGPENDING 0", ["-l", "sigpending=0"])


@test("a program with little address space left: its stacks are whole all the same", "S86")
def little_space(t):
    target = t.spawn("threads", n=4, depth=8)
    used = int(read_text(f"/proc/{target.pid}/statm").split()[0]) * 4096
    resource.prlimit(target.pid, resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
    t.expect_all_chains(target, t.dump(target))
    # Now nothing is left, and the dump says so.
    resource.prlimit(target.pid, resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))
    result = t.ctl("dump", "-f", "json", target.pid)
    equal(result.returncode, 2, "exit status")
    check("limits leave the agent no memory" in result.stderr, f"{result}")
    target.release()


@test("a program that may open no more files for a while: the agent says so, and answers as soon as it can", "S86",
      docker=False)
def no_descriptors(t):
    target = t.spawn("threads", n=2, depth=1)
    t.expect_all_chains(target, t.dump(target))
    _, hard = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
    for limit in range(10):
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (limit, hard))
        result = t.ctl("dump", "-f", "json", target.pid)
        if result.returncode != 0:
            check("the agent has not answered" in result.stderr or "RLIMIT_NOFILE" in result.stderr,
                  f"with {limit} descriptors: {result.stderr}")
    equal(result.returncode, 0, f"exit status with {limit} descriptors")
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (hard, hard))
    t.expect_all_chains(target, t.dump(target))
    target.release()


@test("stopped, continued, traced and let go: the agent still answers", "S12", docker=False)
def interrupted_agent(t):
    needs("strace")
    target = t.spawn("threads", n=2, depth=2)
    t.dump(target)
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: task_status(target.pid, target.pid, "State").startswith("T"), "stopped")
    os.kill(target.pid, signal.SIGCONT)
    target.await_settled()
    t.expect_all_chains(target, t.dump(target))
    tracer = subprocess.Popen(["strace", "-f", "-o", str(t.work / "strace"), "-p", str(target.pid)],
                              stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: task_status(target.pid, target.pid, "TracerPid") == str(tracer.pid), "traced")
        time.sleep(0.2)
        t.dump(target, status=(0, 1))
    finally:
        tracer.terminate()
        tracer.wait()
    target.await_settled()
    t.expect_all_chains(target, t.dump(target))
    target.release()


@test("a stopped target: probectl answers from outside after a second, and says why", "S77")
def stopped(t):
    target = t.spawn("threads", n=2, depth=2)
    t.await_socket(target.pid)
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: task_status(target.pid, target.pid, "State").startswith("T"), "stopped")
    begin = time.monotonic()
    result = t.ctl("dump", target.pid)
    elapsed = time.monotonic() - begin
    os.kill(target.pid, signal.SIGCONT)
    check(result.returncode in (1, 2), f"exit {result.returncode}: {result.stderr}")
    check("stopped" in (result.stdout + result.stderr).lower(), f"does not say stopped: {result.stdout} {result.stderr}")
    check(0.9 < elapsed < 15, f"took {elapsed:.1f} s")
    target.await_settled()
    t.expect_all_chains(target, t.dump(target))
    target.release()


@test("probectl on a process without an agent signals nobody and says so", "S77")
def without_agent(t):
    target = t.spawn("threads", probe=False, n=1, depth=1)
    result = t.ctl("dump", target.pid)
    equal(result.returncode, 4, "exit status")
    check(str(target.pid) in result.stderr, f"the message names the process: {result.stderr}")
    gone = t.spawn("threads", probe=False, n=1, depth=1)
    gone.release()
    equal(t.ctl("dump", gone.pid).returncode, 3, "exit status for a process that is gone")
    target.release()


@test("a program that gave up root: the agent's thread is nobody, and sees the program all the same", "S39 S54",
      docker=False)
def drop_root(t):
    os.chmod(t.dir, 0o711)
    if not has_landlock():
        raise Skip("needs Landlock (Linux 5.13)")
    target = t.spawn("drop_root", times=100)
    t.await_socket(target.pid)
    # Not dumpable any more: the kernel hides the registers from the program itself.
    dump = t.dump(target)
    equal(dump.process["why"], [], "why")
    equal(dump.process["uid"], int(task_status(target.pid, target.pid, "Uid").split()[0]), "the program's user")
    (tid,) = probe_threads(target.pid)
    for field in ("Uid", "Gid"):
        check(not {"0", "65534"} & set(task_status(target.pid, tid, field).split()),
              f"{field} of the agent's thread: {task_status(target.pid, tid, field)}")
    check(re.search(r"^Groups:\s*$", read_text(f"/proc/{target.pid}/task/{tid}/status"), re.MULTILINE), "groups")
    equal(int(task_status(target.pid, tid, "CapPrm"), 16) & ~0x6, 0, "capabilities of the agent's thread but for reading")
    target.release()


@test("an attacker in a program that gave up root gets nothing back through the agent's thread", "S39", docker=False)
def taken_over(t):
    if not has_landlock():
        raise Skip("needs Landlock (Linux 5.13)")
    os.chmod(t.dir, 0o711)
    secrets = os.path.join(t.dir, "secrets")
    os.mkdir(secrets, 0o755)
    secret, path = os.path.join(secrets, "secret"), os.path.join(secrets, "root.sock")
    with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write("secret")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        os.chmod(path, 0o600)
        server.listen()
        target = t.spawn("taken_over", secrets=secrets)
        t.await_socket(target.pid)
        equal(target.step(), "ready", "the scenario's answer")
        t.ctl("dump", "--timeout", "1s", target.pid)
        results = dict(item.rsplit(": ", 1) for item in target.step().split("; "))
    equal(len(results), 23, f"attempts: {results}")
    equal({what: result for what, result in results.items() if int(result) not in (-errno.EPERM, -errno.EACCES)}, {},
          "what the attacker could do, with results")
    equal(read_text(secret), "secret", "the secret")
    target.release()


@test("root's program loads a library later, where the agent's thread may not read: probectl finds the names",
      docker=False)
def names_filled(t):
    if os.geteuid() != 0 or not has_landlock():
        raise Skip("needs root and Landlock (Linux 5.13): else the agent reads the file itself")
    needs("gcc", "/usr/bin/python3")
    source, library = os.path.join(t._work, "late.c"), os.path.join(t._work, "late.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <unistd.h>\nint waits_in_library(void) { int r = pause(); return r + 1; }\n")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,--build-id", "-o", library, source], check=True)
    program = f"import ctypes; print('up', flush=True); input(); ctypes.CDLL({library!r}).waits_in_library()"
    target = t.program(["/usr/bin/python3", "-c", program])
    equal(target.line(), "up", "the program's answer")
    t.await_socket(target.pid)
    target.send()
    wait_until(lambda: read_text(f"/proc/{target.pid}/syscall").startswith("34 "), "the program in pause()")
    check("waits_in_library" not in [symbol["name"] for symbol in t.raw(target).of("symbol")], "the agent read the file")
    dump = t.dump(target, status=(0, 1))
    frames = dump.frames(target.pid)
    check("waits_in_library" in [frame.get("function") for frame in frames], f"frames: {frames}")
    target.kill()


@test("a program that root started as another user serves root and that user", "S54", docker=False)
def setuid_program(t):
    if os.geteuid() != 0:
        raise Skip("needs root")
    needs("setpriv", "sleep")
    os.chown(t.dir, 65534, 65534)
    target = t.program(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "1000"])
    wait_until(lambda: read_text(f"/proc/{target.pid}/comm").strip() == "sleep", "sleep is running")
    target.await_blocked()
    dump = t.dump(target, status=(0, 1))
    equal(sorted(dump.threads), [target.pid], "threads")
    for tid in probe_threads(target.pid):
        equal(task_status(target.pid, tid, "Uid").split()[1], "65534", "user of the agent's thread")
    check(target.alive(), "the program is alive")


if __name__ == "__main__":
    sys.exit(main())
