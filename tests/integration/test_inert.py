#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the agent costs programs that nobody asks about, and programs it must keep out of."""

import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import (FULL, Skip, check, equal, main, needs, probe_threads, read_text, test,  # noqa: E402
                       wait_until)


def silent(t, what, argv, **how):
    """With the agent the program does exactly what it does without."""
    without = t.run(argv, probe=False, **how)
    beside = t.run(argv, **how)
    equal((beside.returncode, beside.stdout, beside.stderr), (without.returncode, without.stdout, without.stderr), what)
    return beside


def asleep(t, argv, env=None, **how):
    target = t.program(argv, env=env, **how)
    wait_until(lambda: read_text(f"/proc/{target.pid}/comm").strip() == os.path.basename(argv[0])[:15], "started")
    target.await_blocked()
    return target


def no_trace(t, target):
    """Loaded, perhaps, but without thread, socket or voice. 0.3 s: longer than the agent waits with its socket."""
    time.sleep(0.3)
    equal(probe_threads(target.pid), [], "threads of the agent")
    equal(os.listdir(t.dir), [], "sockets")
    target.kill()
    equal(target.errors(), "", "stderr")


@test("the agent is there without any switch: the tests of its absence mean something")
def present(t):
    target = asleep(t, ["sleep", "1000"])
    wait_until(lambda: len(probe_threads(target.pid)) == 1, "one thread of the agent")
    t.await_socket(target.pid)
    target.kill()


@test("PROBE_DISABLE=1: nothing happens")
def disabled(t):
    no_trace(t, asleep(t, ["sleep", "1000"], {"PROBE_DISABLE": "1"}))


@test("PROBE_MATCH: only programs with a matching name")
def match(t):
    no_trace(t, asleep(t, ["sleep", "1000"], {"PROBE_MATCH": "*server*"}))
    target = asleep(t, ["sleep", "1000"], {"PROBE_MATCH": "sl??p"})
    t.await_socket(target.pid)
    equal(t.dump(target).process["pid"], target.pid, "pid")
    target.kill()


@test("a zygote (argv has --type=zygote) must stay single-threaded: nothing happens")
def zygote(t):
    needs("python3")
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    argv = [python, "-c", "import time; time.sleep(1000)", "--type=zygote", "--no-sandbox"]
    target = t.program(argv)
    target.await_blocked()
    no_trace(t, target)


@test("a set-user-id program: nothing happens", docker=False)
def secure(t):
    if os.geteuid() != 0:
        raise Skip("needs root to make a set-user-id program")
    program = os.path.join(os.fspath(t.work), "sleep-setuid")
    shutil.copy(shutil.which("sleep"), program)
    os.chmod(program, 0o4755)
    os.chown(t.dir, 65534, 65534)
    # The loader drops a preload path with slashes by itself in such a program; through /etc it would be loaded. What
    # can be seen from here is that nothing of ours appears either way.
    target = t.program([program, "1000"], launch=["-u", "65534"])
    wait_until(lambda: read_text(f"/proc/{target.pid}/comm").strip() == "sleep-setuid", "started")
    wait_until(lambda: "nanosleep" in read_text(f"/proc/{target.pid}/wchan"), "asleep")
    equal(read_text(f"/proc/{target.pid}/status").split("Uid:")[1].split()[:2], ["65534", "0"], "it is set-user-id")
    no_trace(t, target)


@test("programs without any libc, static or with a loader, run as without us", "S72")
def no_libc(t):
    for name in ("nolibc-dynamic", "nolibc-static"):
        equal(silent(t, name, [os.path.join(t.target_dir, name)]).returncode, 42, f"exit status of {name}")


@test("32-bit programs: the loader's complaint is documented", "S85")
def thirty_two_bits(t):
    raise Skip("no 32-bit loader and libc (multilib) on the machines these tests run on; see README, Limits")


@test("a musl program with the same file: captured, named, forks, ends", "S84 S17")
def musl(t):
    binary = os.path.join(t.target_dir, "target-musl")
    if not os.path.exists(binary):
        raise Skip("musl-gcc is not installed")
    target = t.program([binary])
    target.line()
    target.await_blocked()
    with t.undisturbed(target):
        dump = t.dump(target, status=(0, 1))
    equal(len(dump.threads), 2, "threads")
    names = {name for tid in dump.threads for name in dump.functions(tid)}
    # Debian's musl has no unwind tables (facts.md 8), so the frames above the system call may be missing, with a word.
    if "musl_waits_here" not in names:
        for tid in dump.threads:
            check(dump.frames(tid), f"no frame at all: {dump.show(tid)}")
            check(dump.end(tid) != "outermost", f"ends early without a word: {dump.show(tid)}")
        print(f"# stacks end early: {[dump.end(tid) for tid in dump.threads]}")
    target.send()
    equal(target.line(), "joined", "the program's own end")
    target.wait()


@test("vfork, posix_spawn, system and pipes of a shell: as without us", "S70")
def children(t):
    needs("bash")
    script = ("echo one | tr o O; (exit 3); echo $?; x=$(echo two); echo $x; { bash -c 'kill -9 $$'; } 2>/dev/null; echo $?; "
              "for i in 1 2 3; do /bin/true & done; wait; ls /proc/self/fd; echo err >&2; exit 5")
    result = silent(t, "a shell script", ["bash", "-c", script])
    equal(result.returncode, 5, "exit status")


@test("a shell that runs a build: same output, nothing on stderr, and one look sweeps what long processes left", timeout=240)
def build(t):
    needs("bash", "gcc", "make")
    directory = os.path.join(os.fspath(t.work), "src")
    os.mkdir(directory)
    names = [f"part{i}" for i in range(8)]
    for name in names:
        with open(os.path.join(directory, f"{name}.c"), "w", encoding="utf-8") as file:
            file.write(f"#include <stdio.h>\nint {name}(void) {{ return printf(\"{name}\\n\"); }}\n")
    with open(os.path.join(directory, "main.c"), "w", encoding="utf-8") as file:
        file.write("".join(f"int {name}(void);\n" for name in names))
        file.write("int main(void) { return " + " + ".join(f"{name}()" for name in names) + " - 48; }\n")
    objects = " ".join(f"{name}.o" for name in [*names, "main"])
    makefile = f"all: app\napp: {objects}\n\tgcc -o app {objects}\n%.o: %.c\n\tgcc -c -o $@ $<\nclean:\n\trm -f app *.o\n"
    with open(os.path.join(directory, "Makefile"), "w", encoding="utf-8") as file:
        file.write(makefile)
    script = "make -s clean && make -j2 -s && ./app && echo built"
    result = silent(t, "the build", ["bash", "-c", script], cwd=directory, deadline=120)
    equal(result.returncode, 0, "exit status")
    check(result.stdout.endswith("built\n"), "the build did its work")
    equal(result.stderr, "", "stderr")
    # A process that lives under 100 ms never has a socket. The others leave theirs to whoever looks next.
    print(f"# {len(os.listdir(t.dir))} sockets left by processes that lived longer than 100 ms")
    equal(t.ctl("ps").returncode, 0, "exit status of probectl ps")
    equal(os.listdir(t.dir), [], "sockets left")


@test("an idle agent never wakes up")
def idle(t):
    target = t.spawn("threads", n=3, depth=3)
    t.dump(target)
    (tid,) = probe_threads(target.pid)

    def switches():
        text = read_text(f"/proc/{target.pid}/task/{tid}/status")
        return (tuple(re.findall(r"ctxt_switches:\s+(\d+)", text)),
                read_text(f"/proc/{target.pid}/task/{tid}/schedstat").split()[2])

    time.sleep(1)  # what follows a dump may take a moment
    before = switches()
    time.sleep(10 if FULL else 4)
    equal(switches(), before, "context switches of the agent's thread")
    target.release()


@test("before anybody asks: one thread, asleep, no signal handler, no descriptor, little memory")
def footprint(t):
    def look(probe):
        target = asleep(t, ["sleep", "1000"], probe=probe)
        if probe:
            t.await_socket(target.pid)
        status = read_text(f"/proc/{target.pid}/status")
        rollup = read_text(f"/proc/{target.pid}/smaps_rollup")
        result = {
            "fds": sorted(os.listdir(f"/proc/{target.pid}/fd")),
            "caught": re.search(r"SigCgt:\s*(\w+)", status).group(1),
            "private": sum(int(n) for n in re.findall(r"Private_(?:Dirty|Clean):\s+(\d+)", rollup)),
            "threads": int(re.search(r"Threads:\s*(\d+)", status).group(1)),
        }
        target.kill()
        return result

    without, beside = look(False), look(True)
    equal(beside["fds"], without["fds"], "descriptors")
    equal(beside["caught"], without["caught"], "signals with a handler")
    equal(beside["threads"], without["threads"] + 1, "threads")
    print(f"# private memory: {without['private']} KiB without, {beside['private']} KiB with the agent")


@test("a dump gives its memory back")
def memory(t):
    target = t.spawn("threads", n=200, depth=20)
    t.dump(target)

    def resident():
        return int(re.search(r"VmRSS:\s*(\d+)", read_text(f"/proc/{target.pid}/status")).group(1))

    def mapped():
        return int(re.search(r"VmSize:\s*(\d+)", read_text(f"/proc/{target.pid}/status")).group(1))

    first = resident(), mapped()
    for _ in range(50):
        t.dump(target, "--symbols", "none")
    last = resident(), mapped()
    check(last[0] <= first[0] + 1024, f"resident grew from {first[0]} to {last[0]} KiB in 50 dumps")
    check(last[1] <= first[1] + 1024, f"address space grew from {first[1]} to {last[1]} KiB in 50 dumps")
    target.release()


@test("the modes of files that a program makes are its own: umask is not touched", "S76")
def umask(t):
    needs("bash")
    script = "umask 027; for i in 1 2 3 4 5 6 7 8 9; do : > f$i; done; stat -c %a f? | sort -u; rm f?; umask"
    result = silent(t, "file modes", ["bash", "-c", script], cwd=os.fspath(t.work))
    equal(result.stdout, "640\n0027\n", "file modes and umask")


if __name__ == "__main__":
    sys.exit(main())
