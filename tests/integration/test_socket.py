#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The socket: who may use it, what else may lie there, and clients that behave badly."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import (Raw, Skip, check, equal, main, read_text, start_ticks,  # noqa: E402
                       test, wait_until)


def read_until_closed(connection):
    """All that comes; the other side may close while part of a too long request is still unread."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while True:
            part = connection.recv(1 << 16)
            if not part:
                break
            data += part
    return data


def whole(raw, threads):
    """The answer is one whole report of so many threads."""
    equal(raw.records[0]["type"], "hello", "first record")
    equal(raw.records[-1]["type"], "end", "last record")
    equal(len(raw.of("thread")), threads, "threads")
    equal(raw.one("captured")["stats"]["threads_total"], threads, "threads_total")


@test("8 clients at once: each gets a whole report", "S65")
def eight_clients(t):
    target = t.spawn("threads", n=50, depth=10)
    t.await_socket(target.pid)
    answers, errors = [], []

    def client():
        try:
            answers.append(t.raw(target))
        except Exception as error:  # reported below, in the main thread
            errors.append(error)

    with t.undisturbed(target):
        clients = [threading.Thread(target=client) for _ in range(8)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
    equal(errors, [], "errors of clients")
    equal(len(answers), 8, "answers")
    for raw in answers:
        whole(raw, 51)
    target.release()


@test("a silent client blocks nobody", "S65")
def silent_client(t):
    target = t.spawn("threads", n=5, depth=5)
    silent = [t.connect(target) for _ in range(4)]
    half = t.connect(target)
    half.sendall(b"du")
    begin = time.monotonic()
    whole(t.raw(target), 6)
    # One after the other, each would have 2 s to send its line.
    check(time.monotonic() - begin < 8, "the answer waited for a silent client")
    t.dump(target)
    for client in [*silent, half]:
        client.close()
    t.dump(target)
    target.release()


@test("a client killed in the middle of its answer harms nobody", "S65")
def killed_client(t):
    target = t.spawn("threads", n=500, depth=20)
    path = t.await_socket(target.pid)
    for _ in range(10):
        # A process of its own, so that it can be killed; it reads a little and then nothing.
        script = ("import socket,sys,time; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
                  "s.sendall(b'dump\\n'); s.recv(100); print('got',flush=True); time.sleep(100)")
        client = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE)
        equal(client.stdout.readline(), b"got\n", "the client's sign of life")
        client.kill()
        client.wait()
        client.stdout.close()
    with t.undisturbed(target):
        whole(t.raw(target), 501)
    target.release()


@test("a client that never reads its answer costs others nothing", "S65")
def slow_client(t):
    target = t.spawn("threads", n=500, depth=20)
    slow = [t.connect(target) for _ in range(3)]
    for client in slow:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"dump\n")
    begin = time.monotonic()
    whole(t.raw(target), 501)
    # One after the other, each would have 5 s for its next bytes.
    check(time.monotonic() - begin < 12, "the answer waited for slow clients")
    for client in slow:
        client.close()
    target.release()


@test("requests that are none are refused in words, and the next one is served")
def bad_requests(t):
    target = t.spawn("threads", n=1, depth=1)
    for request in ("frobnicate", "dump color=blue", "dump capture=psychic", "dump " + "x" * 2000, "", "dump timeout=-1",
                    "dump\0\0", "\x80\xff dump"):
        with t.connect(target) as connection:
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(request.encode("latin-1") + b"\n")
            raw = Raw(read_until_closed(connection))
        equal(len(raw.of("error")), 1, f"error records for {request[:30]!r}: {raw.data[:300]!r}")
        equal(raw.of("thread"), [], f"threads for {request[:30]!r}")
        check(raw.one("error")["text"], "the error has a text")
    hello = t.raw(target, "hello")
    equal([record["type"] for record in hello.records], ["hello", "end"], "answer to hello")
    equal(hello.one("hello")["protocol"], 1, "protocol")
    whole(t.raw(target), 2)
    target.release()


@test("the directory is 0700, the socket is private, the name has pid and start time", "S76")
def permissions(t):
    directory = os.path.join(os.fspath(t.work), "fresh")
    target = t.spawn("threads", n=1, depth=1, env={"PROBE_DIR": directory})
    path = os.path.join(directory, f"{target.pid}-{start_ticks(target.pid)}.sock")
    wait_until(lambda: os.path.exists(path), f"the socket {path}")
    equal(stat.S_IMODE(os.stat(directory).st_mode), 0o700, "mode of the directory")
    mode = os.stat(path)
    check(stat.S_ISSOCK(mode.st_mode), "it is a socket")
    equal(stat.S_IMODE(mode.st_mode) & 0o077, 0, "mode of the socket for others")
    equal(mode.st_uid, os.geteuid(), "owner")
    equal(os.listdir(directory), [os.path.basename(path)], "what is in the directory")
    t.dump(target)
    target.release()


@test("another user is refused by the kernel's word, not by the file mode alone", "S76", docker=False)
def other_user(t):
    if os.geteuid() != 0:
        raise Skip("needs root to become another user")
    os.chown(t.dir, 65534, 65534)
    target = t.spawn("threads", n=1, depth=1, launch=["-u", "65534"])
    path = t.await_socket(target.pid)
    os.chmod(t.dir, 0o777)
    os.chmod(path, 0o777)
    script = ("import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1]);"
              "s.sendall(b'dump\\n'); d=b''\n"
              "while True:\n x=s.recv(65536)\n if not x: break\n d+=x\n"
              "sys.stdout.buffer.write(d)")
    python = os.path.realpath(sys.executable)
    try:
        answer = t.run(["/usr/bin/python3" if os.path.exists("/usr/bin/python3") else python, "-c", script, path],
                       probe=False, launch=["-u", "65533"])
    finally:
        os.chmod(t.dir, 0o700)
    check('"thread"' not in answer.stdout, f"another user got threads: {answer.stdout[:300]}")
    check("Permission" not in answer.stderr, f"the test itself could not connect: {answer.stderr}")
    whole(t.raw(target), 2)  # root may
    target.release()


def squatted(what, place):
    @test(f"{what} in the socket's place: replaced or refused, never followed, nothing said", "S76")
    def run(t):
        precious = os.path.join(os.fspath(t.work), "precious")
        with open(precious, "w", encoding="utf-8") as file:
            file.write("precious")
        # The pid is not known before; every name that could be it is taken.
        script = ("import os,sys\nplace=sys.argv[1]; d=os.environ['PROBE_TEST_SQUAT']\n"
                  "ticks=open('/proc/self/stat').read().rsplit(')',1)[1].split()[19]\n"
                  "name=f'{d}/{os.getpid()}-{ticks}.sock'\n"
                  "if place=='symlink': os.symlink(sys.argv[2],name)\n"
                  "if place=='file': open(name,'w').write('squat')\n"
                  "if place=='directory': os.mkdir(name)\n"
                  "os.environ.update(LD_PRELOAD=os.environ['PROBE_TEST_SO'],PROBE_DIR=d)\n"
                  "os.execvp(sys.argv[3],sys.argv[3:])")
        target = t.program([sys.executable, "-c", script, place, precious, "sleep", "1000"], probe=False,
                           env={"PROBE_TEST_SQUAT": t.dir, "PROBE_TEST_SO": t.so})
        wait_until(lambda: read_text(f"/proc/{target.pid}/comm").strip() == "sleep", "sleep is running")
        target.await_blocked()
        result = t.ctl("dump", "-f", "json", target.pid)
        check(result.returncode in (0, 4), f"exit {result.returncode}: {result.stderr}")
        said = " ".join(result.stderr.split())[:150]
        print(f"# {what}: probectl exit {result.returncode} {said}")
        equal(read_text(precious), "precious", "the file that the link points to")
        check(target.alive(), "the program is alive")
        target.kill()
        equal(target.errors(), "", "stderr of the program")


squatted("a symbolic link", "symlink")
squatted("a regular file", "file")
squatted("a directory", "directory")


def unsafe_directory(what, prepare, root=False):
    @test(f"{what} as PROBE_DIR: not used, nothing said, the program runs", "S76", docker=not root)
    def run(t):
        if root and os.geteuid() != 0:
            raise Skip("needs root")
        directory = os.path.join(os.fspath(t.work), "odd")
        prepare(t, directory)
        target = t.spawn("threads", n=1, depth=1, env={"PROBE_DIR": directory})
        result = t.ctl("dump", target.pid)
        equal(result.returncode, 4, "exit status of probectl")
        check(os.fspath(directory) in result.stderr, f"probectl does not name the directory: {result.stderr}")
        target.release()
        equal(target.errors(), "", "stderr of the program")
        with contextlib.suppress(NotADirectoryError, FileNotFoundError):
            equal([name for name in os.listdir(directory) if name.endswith(".sock")], [], "sockets in it")


def make_link(t, directory):
    os.symlink(t.dir, directory)


def make_loose(t, directory):
    os.mkdir(directory)
    os.chmod(directory, 0o777)


def make_file(t, directory):
    with open(directory, "w", encoding="utf-8"):
        pass


def make_foreign(t, directory):
    os.mkdir(directory, 0o700)
    os.chown(directory, 65533, 65533)


unsafe_directory("a symbolic link", make_link)
unsafe_directory("a directory that others can write", make_loose)
unsafe_directory("a regular file", make_file)
unsafe_directory("somebody else's directory", make_foreign, root=True)


@test("a directory that cannot be made: the program runs, silently", "S76")
def no_directory(t):
    target = t.spawn("threads", n=1, depth=1, env={"PROBE_DIR": "/proc/nowhere/at/all"})
    equal(t.ctl("dump", target.pid).returncode, 4, "exit status of probectl")
    target.release()
    equal(target.errors(), "", "stderr of the program")


@test("a path of more than 108 characters works for both sides", "S76")
def long_path(t):
    directory = os.path.join(os.fspath(t.work), "x" * 100, "y" * 60)
    os.makedirs(directory, 0o700)
    target = t.spawn("threads", n=1, depth=1, env={"PROBE_DIR": directory})
    equal(len(t.dump(target).threads), 2, "threads")
    target.release()


@test("sockets of dead processes are swept by the next agent, other files are left alone", "S76")
def stale(t):
    dead = os.path.join(t.dir, "999999999-1.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(dead)
    listener.listen(1)
    listener.close()
    alive = os.path.join(t.dir, "999999998-1.sock")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(alive)
    listening.listen(1)
    other = os.path.join(t.dir, "notes.txt")
    with open(other, "w", encoding="utf-8") as file:
        file.write("mine")
    killed = t.spawn("threads", n=1, depth=1)
    left = t.await_socket(killed.pid)
    killed.kill()
    target = t.spawn("threads", n=1, depth=1)
    t.await_socket(target.pid)
    wait_until(lambda: not os.path.exists(dead) and not os.path.exists(left), "dead sockets swept", 10)
    check(os.path.exists(alive), "a socket that somebody listens on was removed")
    check(os.path.exists(other), "a file that is no socket was removed")
    listening.close()
    t.dump(target)
    target.release()


@test("what a program leaves when it ends is swept by the next probectl", "S76 S78")
def swept_by_probectl(t):
    # At exit the agent does nothing: a program in a sandbox of its own would be killed for one more system call.
    target = t.spawn("threads", n=1, depth=1)
    left = t.await_socket(target.pid)
    alive = os.path.join(t.dir, "999999998-1.sock")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(alive)
    listening.listen(1)
    target.release()
    check(os.path.exists(left), "nothing was left, so that this test shows nothing")
    equal(t.ctl("ps").returncode, 0, "exit status of probectl ps")
    check(not os.path.exists(left), "the socket of a dead process is still there")
    check(os.path.exists(alive), "a socket that somebody listens on was removed")
    listening.close()


@test("the socket deleted while running: probectl says what happened, and the program is unharmed", "S76")
def deleted(t):
    target = t.spawn("threads", n=1, depth=1)
    os.unlink(t.await_socket(target.pid))
    result = t.ctl("dump", target.pid)
    check(result.returncode in (0, 4), f"exit {result.returncode}: {result.stderr}")
    check(result.returncode == 0 or result.stderr.strip(), "no word about it")
    target.release()


@test("without PROBE_DIR: XDG_RUNTIME_DIR/probe, and probectl finds it there", "S76")
def runtime_directory(t):
    runtime = os.path.join(os.fspath(t.work), "run")
    os.mkdir(runtime, 0o700)
    target = t.program(["sleep", "1000"], probe=False, env={"LD_PRELOAD": t.so, "XDG_RUNTIME_DIR": runtime})
    wait_until(lambda: os.path.isdir(os.path.join(runtime, "probe")) and os.listdir(os.path.join(runtime, "probe")),
               "a socket in XDG_RUNTIME_DIR/probe")
    equal(stat.S_IMODE(os.stat(os.path.join(runtime, "probe")).st_mode), 0o700, "mode of the directory")
    result = subprocess.run([t.probectl, "dump", str(target.pid)], capture_output=True, text=True, timeout=20,
                            env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": runtime})
    equal(result.returncode, 0, f"exit status: {result.stderr}")
    target.kill()


@test("root's directory in /tmp, closed to others, does not hide from a user what is the matter", "S76", docker=False)
def closed_directory(t):
    if os.geteuid() != 0:
        raise Skip("needs root to become another user")
    directory = "/tmp/probe-0"
    made = not os.path.exists(directory)
    if made:
        os.mkdir(directory, 0o700)
    os.chown(t.dir, 65534, 65534)
    user = {"probe": False, "launch": ["-u", "65534"], "env": {"PROBE_DIR": t.dir}}
    try:
        bare = t.program(["sleep", "1000"], probe=False, launch=["-u", "65534"])
        result = t.run([t.probectl, "dump", str(bare.pid)], **user)
        equal(result.returncode, 4, "exit status without an agent")
        check("is not loaded" in result.stderr, f"probectl does not say that there is no agent: {result.stderr}")
        # Younger than its socket: probectl waits for it.
        young = t.program(["sleep", "1000"], launch=["-u", "65534"])
        result = t.run([t.probectl, "dump", str(young.pid)], **user)
        equal(result.returncode, 0, f"exit status with an agent: {result.stderr}")
    finally:
        if made:
            with contextlib.suppress(OSError):
                os.rmdir(directory)


@test("many programs in one directory: each dump is of the one that was asked for")
def many(t):
    targets = [t.spawn("threads", n=n, depth=1) for n in range(1, 6)]
    for target, n in zip(targets, range(1, 6)):
        dump = t.dump(target)
        equal((dump.process["pid"], len(dump.threads)), (target.pid, n + 1), "pid and threads")
    for target in targets:
        target.release()


if __name__ == "__main__":
    sys.exit(main())
