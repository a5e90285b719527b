#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Worlds in which something is hidden or refused: every thread is listed with its state and, without a stack, what it
waits in; the report says why; and no signal reaches a stranger.
"""

import errno
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import (Skip, check, equal, main, needs, probe_threads, program_threads, read_text,  # noqa: E402
                       test, wait_until)

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
# main sleeps, one thread waits, one runs.
THREADS = """
import threading, time
def spin():
    while True: pass
threading.Thread(target=threading.Event().wait, daemon=True).start()
threading.Thread(target=spin, daemon=True).start()
time.sleep(1000)
"""


def why(dump):
    return " / ".join(dump.process["why"])


def child_of(program):
    """The one child, once it is what was asked for and its agent listens."""
    path = f"/proc/{program.pid}/task/{program.pid}/children"

    def child():
        if not program.alive():
            raise Skip(f"not possible here: {program.errors()}")
        children = read_text(path).split()
        return int(children[0]) if children and probe_threads(children[0]) else None

    return wait_until(child, "a child with an agent")


def expect_described(dump, tids):
    """Every thread is there with its state; one that sleeps without a stack shows what it waits in."""
    equal(sorted(dump.threads), tids, "threads")
    for tid, thread in dump.threads.items():
        check(thread["state"] in ("sleeping", "running"), f"state of {tid}: {thread['state']}")
        check(thread["capture"] != "none" or thread["reason"], f"no reason for {tid}")
        if thread["capture"] == "none" and thread["state"] == "sleeping":
            check(thread.get("wchan"), f"{tid} shows nothing of what it waits in: {thread}")


def hide_syscall_files(pid):
    """An empty file over every thread's file, as the process sees it."""
    for tid in program_threads(pid):
        command = ["nsenter", "-t", str(pid), "-m", "mount", "--bind", "/dev/null", f"/proc/{pid}/task/{tid}/syscall"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise Skip(f"cannot mount in the program's namespace: {result.stderr}")


@test("the registers' file is empty: state and kernel function, and the reason once for all", "S55")
def syscall_hidden(t):
    needs("unshare", "nsenter", "mount")
    target = t.program(["unshare", "-m", PYTHON, "-c", THREADS])
    t.await_socket(target.pid)
    wait_until(lambda: len(program_threads(target.pid)) == 3, "three threads")
    target.await_blocked()
    equal(t.dump(target, status=(0, 1)).threads[target.pid]["capture"], "passive", "before")
    hide_syscall_files(target.pid)
    dump = t.dump(target, status=(1, 2))
    expect_described(dump, program_threads(target.pid))
    equal(dump.threads[target.pid].get("reason"), "syscall_unreadable", "main")
    check("registers of sleeping threads cannot be read" in why(dump), why(dump))
    text = t.ctl("dump", target.pid).stdout
    check("in kernel function" in text, text)


@test("not dumpable: state and kernel function, and the reason", "S54")
def not_dumpable(t):
    # An ordinary user's program: in one that root started the agent's thread may read /proc all the same.
    program = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('not dumpable', flush=True); time.sleep(1000)"
    launch = []
    if os.getuid() == 0:
        os.chown(t.dir, 65534, 65534)
        launch = ["-u", "65534"]
    target = t.program(["/usr/bin/python3", "-c", program], launch=launch)
    equal(target.line(), "not dumpable", "the program's answer")
    wait_until(lambda: ") S " in read_text(f"/proc/{target.pid}/stat"), "the program sleeps")
    dump = t.dump(target, status=(0, 1, 2))
    expect_described(dump, program_threads(target.pid))
    check("not dumpable" in why(dump), why(dump))


@test("under qemu-user: every thread with its state and kernel function, and the reason", "S41", docker=False)
def emulated(t):
    needs("qemu-x86_64-static")
    target = t.program(["qemu-x86_64-static", "/bin/sleep", "1000"])
    t.await_socket(target.pid)
    dump = t.dump(target, status=(1, 2))
    equal(dump.stats["signals_sent"], 0, "signals")
    check(target.pid in dump.threads and not any(thread.get("stack") for thread in dump.threads.values()),
          f"threads: {dump.threads}")
    check("qemu-user" in why(dump), why(dump))
    check(target.alive(), "the program is alive")
    target.kill()


def refused_reads(error):
    @test(f"process_vm_readv refused with {errno.errorcode[error]}: whole stacks all the same")
    def run(t):
        target = t.spawn("threads", n=8, launch=["-v", str(error)])
        with t.undisturbed(target):
            dump = t.dump(target, status=0)
        t.expect_all_chains(target, dump)
        target.release()


refused_reads(errno.EPERM)
refused_reads(errno.ENOSYS)


@test("a pid namespace with the outer /proc: sleeping threads are read, nobody is signalled")
def outer_proc(t):
    needs("unshare")
    outer = t.program(["unshare", "--pid", "--fork", "--kill-child", PYTHON, "-c", THREADS])
    pid = child_of(outer)
    wait_until(lambda: len(program_threads(pid)) == 3, "three threads")
    wait_until(lambda: read_text(f"/proc/{pid}/wchan") not in ("", "0"), "asleep")
    caught = {tid: read_text(f"/proc/{pid}/task/{tid}/status").split("SigCgt:")[1].split()[0]
              for tid in program_threads(pid)}
    for _ in range(5):
        dump = t.dump(pid, status=(0, 1))
        expect_described(dump, program_threads(pid))
        equal(dump.threads[pid]["capture"], "passive", "main")
        equal([thread["reason"] for thread in dump.threads.values() if thread["capture"] == "none"], ["passive_only"],
              "the running thread")
        equal(dump.stats["signals_sent"], 0, "signals")
        check("another pid namespace" in why(dump), why(dump))
    equal({tid: read_text(f"/proc/{pid}/task/{tid}/status").split("SigCgt:")[1].split()[0]
           for tid in program_threads(pid)}, caught, "signal handlers")


@test("/proc with hidepid=2 and an ordinary user: the program sees itself, and that is enough")
def hidepid(t):
    needs("unshare", "mount", "setpriv")
    os.chown(t.dir, 65534, 65534)
    script = (f"mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups --pdeathsig KILL "
              f"{PYTHON} -c '{THREADS}'")
    outer = t.program(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script])
    pid = child_of(outer)
    wait_until(lambda: "python" in read_text(f"/proc/{pid}/comm") and len(program_threads(pid)) == 3, "three threads")
    wait_until(lambda: "nanosleep" in read_text(f"/proc/{pid}/wchan"), "asleep")
    dump = t.dump(pid, status=(0, 1))
    # Its /proc and the agent number threads as its own namespace does.
    expect_described(dump, sorted(int(read_text(f"/proc/{pid}/task/{tid}/status").split("NSpid:")[1].splitlines()[0]
                                      .split()[-1]) for tid in program_threads(pid)))
    equal(dump.threads[1]["capture"], "passive", "main")


if __name__ == "__main__":
    sys.exit(main())
