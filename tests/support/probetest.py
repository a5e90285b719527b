# SPDX-License-Identifier: LGPL-2.1-or-later
"""Support for the integration tests: start targets, take dumps, compare stacks, report as TAP.

A test file defines functions marked @test("claim in words", story="S27") and ends with main(). Each function gets one
Context: everything started through it is killed (by pid) at its end, and its work directory is kept, with the command
to run that one test again, when it failed. Standard library only.

Environment, set by Meson (tests/integration/meson.build):
  PROBE_SO, PROBECTL   what is tested          PROBE_TARGET_DIR   the target programs   PROBE_LAUNCH   support/launch.c
  PROBE_TEST_DOCKER=1  start every target under the limits of an unprivileged container
  PROBE_TEST_FULL=1    full repetition counts  PROBE_TEST_ONLY    run only the tests whose name contains this text
"""

import contextlib
import ctypes
import glob
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

FULL = os.environ.get("PROBE_TEST_FULL") == "1"
DOCKER = os.environ.get("PROBE_TEST_DOCKER") == "1"
# Hang protection, nothing else. Nothing here measures speed.
DEADLINE = 60.0
# One dump, end to end. Generous: on two busy cores even a stat() can take a second.
DUMP_DEADLINE = 20.0

SETTINGS = ("PROBE_TARGET_DIR", "PROBE_SO", "PROBECTL", "PROBE_LAUNCH")

_tests = []
_given = dict(os.environ)


class Failed(Exception):
    """The thing under test is wrong."""


class Skip(Exception):
    """This machine cannot run the test; the text says why."""


def test(name, story="", timeout=120, docker=True):
    """Register a test. docker=False: says nothing new, or cannot run, under container limits."""

    def register(function):
        _tests.append((name, story, timeout, docker, function))
        return function

    return register


def check(condition, text):
    if not condition:
        raise Failed(text)


def equal(seen, wanted, what):
    if seen != wanted:
        raise Failed(f"{what}: wanted {wanted!r}, seen {seen!r}")


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def wait_until(condition, what, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise Failed(f"not within {deadline:.0f} s: {what}")
        time.sleep(0.002)


def read_text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def reachable(path):
    """May every user read this file or search this directory?"""
    bits = 0o005 if os.path.isdir(path) else 0o004
    while (os.stat(path).st_mode & bits) == bits:
        if path == "/":
            return True
        path, bits = os.path.dirname(path), 0o001
    return False


def start_ticks(pid):
    return int(read_text(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[19])


def descriptors(pid):
    """Number -> what it is, of a process's own table."""
    result = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            result[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    return result


def task_status(pid, tid, field):
    match = re.search(rf"^{field}:\s*(.*)$", read_text(f"/proc/{pid}/task/{tid}/status"), re.M)
    return match.group(1) if match else None


def probe_threads(pid):
    """Thread ids of the agent in a process."""
    result = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if re.fullmatch(r"libprobe(:\S+)?\n", read_text(f"/proc/{pid}/task/{tid}/comm")):
                result.append(int(tid))
    return result


def has_landlock():
    """Can a thread be kept from files (Linux 5.13, and not switched off)?"""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 1  # landlock_create_ruleset: its version


def program_threads(pid):
    agent = set(probe_threads(pid))
    return sorted(int(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) not in agent)


class Program:
    """A running program started by a test."""

    def __init__(self, context, process, name):
        self.context = context
        self.process = process
        self.pid = process.pid
        self.name = name
        self._out = b""

    def line(self, deadline=DEADLINE):
        """The next line of its standard output."""
        return self._line(self.process.stdout.fileno(), "_out", deadline)

    def _line(self, fd, buffer, deadline):
        end = time.monotonic() + deadline
        while b"\n" not in getattr(self, buffer):
            ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Failed(f"{self.name}: no line of output within {deadline:.0f} s; {self.state()}")
            data = os.read(fd, 65536)
            if not data:
                raise Failed(f"{self.name}: output ended; exit status {self.wait(check=False)}; {self.errors()}")
            setattr(self, buffer, getattr(self, buffer) + data)
        line, rest = getattr(self, buffer).split(b"\n", 1)
        setattr(self, buffer, rest)
        return line.decode(errors="replace")

    def rest_of_output(self):
        return (self._out + self.process.stdout.read()).decode(errors="replace")

    def send(self, text="\n"):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def errors(self):
        return read_text(self.context.work / f"{self.name}.stderr").strip()

    def state(self):
        try:
            return f"state {task_status(self.pid, self.pid, 'State')}"
        except OSError:
            return "gone"

    def alive(self):
        return self.process.poll() is None

    def wait(self, deadline=DEADLINE, check=True):
        try:
            status = self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within {deadline:.0f} s") from None
        if check and status != 0:
            raise Failed(f"{self.name} ended with status {status}: {self.errors()}")
        return status

    def await_blocked(self, tid=None, deadline=DEADLINE):
        """Until the thread sleeps in one system call and is not switched in for a moment."""
        path = f"/proc/{self.pid}/task/{tid or self.pid}"

        def blocked():
            call = read_text(f"{path}/syscall")
            if call.startswith("running"):
                return False
            before = read_text(f"{path}/schedstat").split()[2]
            time.sleep(0.02)
            return read_text(f"{path}/syscall") == call and read_text(f"{path}/schedstat").split()[2] == before

        wait_until(blocked, f"thread {tid or self.pid} of {self.name} asleep", deadline)

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait()


class Target(Program):
    """The scenario program, ready."""

    def __init__(self, context, process, name, ready_fd):
        super().__init__(context, process, name)
        self.facts, self.chains, self.tids = {}, {}, []
        self._ready = b""
        while True:
            fields = self._line(ready_fd, "_ready", DEADLINE).split()
            if fields[0] == "fact":
                self.facts.setdefault(fields[1], []).append(" ".join(fields[2:]))
            elif fields[0] == "chain":
                self.chains[int(fields[1])] = fields[2:]
            elif fields[0] == "ready":
                self.ready_pid = int(fields[1])
                self.tids = [int(tid) for tid in fields[2:]]
                break
        os.close(ready_fd)
        # The scenario says ready, then goes to where its chain says main is.
        if self.chains.get(self.pid, [])[:1] == ["t_wait_release"]:
            self.await_blocked()

    def await_settled(self):
        """All threads asleep again, after something (SIGCONT, a tracer) made them run."""
        for tid in program_threads(self.pid):
            self.await_blocked(tid)

    def fact(self, key):
        return self.facts[key][0]

    def step(self):
        """One line to the scenario, one line back."""
        self.send()
        return self.line()

    def release(self, deadline=DEADLINE):
        """Let it check what it observed, and require that it found nothing."""
        if not self.alive():
            raise Failed(f"{self.name} ended before it was released: status {self.process.returncode}: {self.errors()}")
        self.send()
        return self.wait(deadline)


class Dump:
    """One process of the report object of `probectl dump -f json`."""

    def __init__(self, text, status, errors):
        self.status, self.errors = status, errors
        self.report = json.loads(text)
        equal(self.report["schema"], "probe-report/1", "schema")
        self.process = self.report["processes"][0]
        self.stats = self.process["stats"]
        self.modules = self.process["modules"]
        self.threads = {thread["tid"]: thread for thread in self.process["threads"]}
        equal(len(self.threads), len(self.process["threads"]), "thread ids are listed once")

    def frames(self, tid, inlined=False):
        stack = self.threads[tid].get("stack")
        if stack is None:
            return []
        return [frame for frame in self.process["stacks"][stack] if inlined or not frame.get("inlined")]

    def end(self, tid):
        """Why the stack ends: "outermost", or the word for the reason; None without a stack."""
        stack = self.threads[tid].get("stack")
        return None if stack is None else self.process["stack_ends"][stack]["end"]

    def module(self, frame):
        return self.modules[frame["module"]] if frame.get("module") is not None else None

    def functions(self, tid):
        return [frame.get("function") for frame in self.frames(tid)]

    def show(self, tid):
        """One line per frame, for messages."""
        thread = self.threads.get(tid)
        if thread is None:
            return "  not in the dump"
        lines = [f"  capture {thread['capture']} reason {thread.get('reason')} state {thread['state']} "
                 f"truncated {thread.get('truncated')} end {self.end(tid)} syscall {thread.get('syscall')}"]
        for frame in self.frames(tid):
            module = self.module(frame)
            lines.append(f"  {frame['pc']} {frame.get('function')} {module['name'] if module else None} "
                         f"{frame.get('trust')}")
        return "\n".join(lines)


# Functions of libc in which a stack may begin. Debian's libc names them only in its debug file.
OUTERMOST = {"_start", "start_thread", "clone3", "__clone3", "clone", "__clone", "__libc_start_main",
             "__libc_start_main_impl", "__libc_start_call_main", "thread_start", "__start_context"}


def ends_at_start(dump, tid):
    """Is the last frame where a thread begins: _start or the first function of a pthread?"""
    frames = dump.frames(tid)
    if not frames:
        return False
    last, module = frames[-1], dump.module(frames[-1])
    if last.get("function") is not None:
        return last["function"] in OUTERMOST
    return module is not None and re.match(r"(libc|libpthread|ld)[-.]", module["name"]) is not None


def own_functions(dump, tid, directory):
    """The functions of the program and of its plug-ins, innermost first."""
    result = []
    for frame in dump.frames(tid):
        module = dump.module(frame)
        if module and module["path"].startswith(directory):
            result.append(frame.get("function"))
    # The start code that the linker adds belongs to the program's file, but not to its source.
    return [name for name in result if name not in ("_start", "__libc_csu_init")]


def expect_chain(dump, tid, chain, directory, may_end_early=False):
    """The program's functions of this thread are exactly the chain, and its stack reaches the thread's start.

    Functions of libc in between are not looked at. may_end_early: the stack may stop, if it says so, but what is
    there must still be true.
    """
    check(tid in dump.threads, f"thread {tid} is missing from the dump")
    own = own_functions(dump, tid, directory)
    # A running thread may be in a PLT stub, which no symbol contains.
    if own[:1] == [None] and dump.threads[tid]["capture"] == "signal" and not dump.frames(tid)[0].get("function"):
        own = own[1:]
    # "?name": a running thread may be in this function, or not.
    if chain[0].startswith("?"):
        chain = [chain[0][1:], *chain[1:]] if own[:1] == [chain[0][1:]] else chain[1:]
    thread = dump.threads[tid]
    whole = own == chain and ends_at_start(dump, tid) and dump.end(tid) == "outermost" and not thread["truncated"]
    if whole:
        return True
    announced = thread["truncated"] or thread.get("reason") or dump.end(tid) != "outermost"
    if may_end_early and announced and own == chain[: len(own)] and not (own == chain and ends_at_start(dump, tid)):
        return False
    raise Failed(f"thread {tid}: wanted {' '.join(chain)} and the thread's start\n"
                 f"seen {' '.join(str(name) for name in own)}\n{dump.show(tid)}")


class Raw:
    """The answer of the agent itself, record by record."""

    def __init__(self, data):
        self.data = data
        self.records = [json.loads(line) for line in data.decode(errors="replace").splitlines() if line.strip()]

    def of(self, kind):
        return [record for record in self.records if record.get("type") == kind]

    def one(self, kind):
        records = self.of(kind)
        equal(len(records), 1, f"number of {kind} records")
        return records[0]


class Context:
    def __init__(self, name):
        self.name = name
        self.target_dir, self.so, self.probectl, self.launch = (os.environ[name] for name in SETTINGS)
        # Short: a socket's path must fit into 108 bytes.
        self._work = tempfile.mkdtemp(prefix="probe-t-")
        os.chmod(self._work, 0o755)
        self.work = _Path(self._work)
        self.dir = os.path.join(self._work, "d")
        os.mkdir(self.dir, 0o700)
        # Nothing of the caller's set-up may reach a target.
        self._base = {key: value for key, value in os.environ.items()
                      if not key.startswith("PROBE_") and key not in ("LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_PERTURB_")}
        self._programs = []
        self._dumps = 0
        self._names = {}

    def close(self, keep):
        for program in self._programs:
            program.kill()
            for stream in (program.process.stdin, program.process.stdout):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()
        if not keep:
            shutil.rmtree(self._work, ignore_errors=True)

    def environment(self, probe, preload, env):
        """Words for launch: -e NAME=VALUE."""
        libraries = ([self.so] if probe else []) + [os.path.join(self.target_dir, name) for name in preload]
        values = {"TMPDIR": self._work}
        if probe:
            values["PROBE_DIR"] = self.dir
        if libraries:
            values["LD_PRELOAD"] = ":".join(libraries)
        values.update(env or {})
        result = []
        for key, value in values.items():
            result += ["-e", f"{key}={value}"]
        return result

    def _command(self, argv, probe, preload, env, launch):
        if "-u" in launch and os.geteuid() != 0:
            raise Skip("needs root to become another user")
        if "-u" in launch and not reachable(self._work):
            raise Skip(f"other users cannot reach {self._work}")
        docker = ["-d"] if DOCKER else []
        return [self.launch, "-p", str(os.getpid()), *docker, *launch, *self.environment(probe, preload, env), "--", *argv]

    def _name(self, base):
        self._names[base] = self._names.get(base, 0) + 1
        return base if self._names[base] == 1 else f"{base}.{self._names[base]}"

    def program(self, argv, probe=True, preload=(), env=None, launch=(), stdin=subprocess.PIPE, cwd=None):
        """Start any program; stdout is a pipe, stderr a file in the work directory."""
        name = self._name(os.path.basename(argv[0]))
        with open(self.work / f"{name}.stderr", "wb") as errors:
            process = subprocess.Popen(self._command(argv, probe, preload, env, list(launch)), stdin=stdin,
                                       stdout=subprocess.PIPE, stderr=errors, cwd=cwd, env=self._base)
        program = Program(self, process, name)
        self._programs.append(program)
        return program

    def strace(self, log, argv):
        """The program under strace from its start: to attach would itself end calls early (signal(7))."""
        needs("strace")
        return self.program(["sh", "-c", 'exec strace -f -qq -o "$0" "$@" 3>/dev/null', log, *argv])

    def spawn(self, scenario, flavour="O2", probe=True, preload=(), env=None, launch=(), **parameters):
        """Start a scenario and wait until it is ready."""
        binary = os.path.join(self.target_dir, f"target-{flavour}")
        asked = subprocess.run(self._command([binary, "--available", scenario], False, (), None, []),
                               capture_output=True, text=True, timeout=DEADLINE, env=self._base)
        if asked.returncode == 77:
            raise Skip(asked.stdout.strip())
        equal(asked.returncode, 0, f"target --available {scenario}: {asked.stderr}")
        name = self._name(scenario)
        argv = [binary, scenario] + [f"{key}={value}" for key, value in parameters.items()]
        read_end, write_end = os.pipe()
        with open(self.work / f"{name}.stderr", "wb") as errors:
            launch = ["-r", str(write_end), *launch] # becomes 3; launch closes all above
            process = subprocess.Popen(self._command(argv, probe, preload, env, launch), stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=errors, pass_fds=[write_end], env=self._base)
        os.close(write_end)
        self._programs.append(Program(self, process, name))
        target = Target(self, process, name, read_end)
        self._programs[-1] = target
        return target

    def run(self, argv, probe=True, preload=(), env=None, launch=(), deadline=DEADLINE, cwd=None, input=None):
        """Run to its end; CompletedProcess with text output. Never raises for its exit status."""
        process = subprocess.Popen(self._command(argv, probe, preload, env, list(launch)),
                                   stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=self._base)
        try:
            out, err = process.communicate(input.encode() if input is not None else None, timeout=deadline)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"{' '.join(argv)[:200]} did not end within {deadline:.0f} s") from None
        return subprocess.CompletedProcess(argv, process.returncode, out.decode(errors="replace"),
                                           err.decode(errors="replace"))

    # Dumps

    def ctl(self, *arguments, deadline=DUMP_DEADLINE, env=None):
        """probectl with these arguments; never raises for its exit status."""
        values = dict(self._base, PROBE_DIR=self.dir, **(env or {}))
        try:
            return subprocess.run([self.probectl, *[str(word) for word in arguments]], capture_output=True, text=True,
                                  errors="replace", timeout=deadline, env=values, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise Failed(f"probectl {' '.join(str(a) for a in arguments)} did not end within {deadline:.0f} s") from None

    def dump(self, target, *options, status=0, deadline=DUMP_DEADLINE):
        """`probectl dump -f json PID`. status: the exit code wanted; a tuple of allowed ones; None: any with a report."""
        pid = target if isinstance(target, int) else target.pid
        result = self.ctl("dump", "-f", "json", *options, pid, deadline=deadline)
        self._dumps += 1
        (self.work / f"dump.{self._dumps}.json").write_text(result.stdout)
        allowed = status if isinstance(status, tuple) else (status,)
        if status is not None and result.returncode not in allowed:
            raise Failed(f"probectl dump {pid}: exit status {result.returncode}, wanted {status}\n"
                         f"stderr: {result.stderr.strip()}\nstdout: {result.stdout[:2000]}")
        try:
            return Dump(result.stdout, result.returncode, result.stderr)
        except (ValueError, KeyError, IndexError) as error:
            raise Failed(f"probectl dump {pid}: not a report ({error!r}): {result.stdout[:500]} {result.stderr[:500]}") \
                from error

    def socket_path(self, pid):
        return os.path.join(self.dir, f"{pid}-{start_ticks(pid)}.sock")

    def agent_thread(self, pid):
        wait_until(lambda: probe_threads(pid), "the agent's thread")
        return probe_threads(pid)[0]

    def await_socket(self, pid):
        path = self.socket_path(pid)
        wait_until(lambda: os.path.exists(path), f"the socket {path}")
        return path

    def connect(self, target):
        pid = target if isinstance(target, int) else target.pid
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(DUMP_DEADLINE)
        connection.connect(self.await_socket(pid))
        return connection

    def raw(self, target, request="dump"):
        """The agent's own answer, without probectl."""
        with self.connect(target) as connection:
            connection.sendall(request.encode() + b"\n")
            return Raw(read_all(connection))

    # What must not change

    @contextlib.contextmanager
    def undisturbed(self, program):
        """The program's descriptors and its threads' signal masks are the same afterwards, and it is alive."""

        def look():
            masks = {tid: (task_status(program.pid, tid, "SigBlk"), task_status(program.pid, tid, "SigIgn"))
                     for tid in program_threads(program.pid)}
            return descriptors(program.pid), masks, read_text(f"/proc/{program.pid}/stat").rsplit(")", 1)[1].split()[1]

        before = look()
        yield
        check(program.alive(), f"{program.name} died: status {program.process.returncode}: {program.errors()}")
        after = look()
        for tid in probe_threads(program.pid):
            before[1].pop(tid, None)  # it had no name yet
        equal(after[0], before[0], "descriptors of the program")
        equal(after[1], before[1], "signal masks and ignored signals by thread")
        equal(after[2], before[2], "parent of the program")

    def expect_all_chains(self, target, dump, may_end_early=False):
        """All threads of the target are listed, and those with an expected chain show it. Returns the incomplete."""
        # A target that was ready before the agent's thread had its name has listed that one too.
        tids = sorted(set(target.tids) - set(probe_threads(target.pid)))
        equal(sorted(dump.threads), tids, "threads in the dump")
        equal(dump.stats["threads_total"], len(tids), "threads_total")
        short = []
        for tid, chain in target.chains.items():
            if chain and not expect_chain(dump, tid, chain, self.target_dir, may_end_early):
                short.append(tid)
        return short


class _Path(os.PathLike):
    """Just enough of pathlib for the work directory."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path

    def __str__(self):
        return self.path

    def __truediv__(self, name):
        return _Path(os.path.join(self.path, name))

    def write_text(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)


def read_all(connection):
    parts = []
    while True:
        data = connection.recv(1 << 16)
        if not data:
            return b"".join(parts)
        parts.append(data)


def eu_stack(pid):
    """tid -> function names, innermost first, by eu-stack; None for a frame without a name."""
    result = subprocess.run(["eu-stack", "-p", str(pid)], capture_output=True, text=True, errors="replace",
                            timeout=DEADLINE)
    threads, current = {}, None
    for line in result.stdout.splitlines():
        match = re.match(r"TID (\d+):", line)
        if match:
            current = threads.setdefault(int(match.group(1)), [])
            continue
        match = re.match(r"#\d+\s+0x([0-9a-f]+)(?:\s+-\s+\d+)?(?:\s+(.*))?$", line)
        if match and current is not None:
            current.append(int(match.group(1), 16))
    return threads


def _interrupted(number, frame):
    raise Failed("the test's own time limit was reached")


def _run(name, story, timeout, function):
    context = Context(name)
    signal.signal(signal.SIGALRM, _interrupted)
    signal.alarm(timeout)
    outcome, text = "ok", ""
    try:
        function(context)
    except Skip as reason:
        outcome, text = "skip", str(reason)
    except Failed as reason:
        outcome, text = "failed", str(reason)
    except Exception:  # a defect of the test itself is a failure too, with its place
        outcome, text = "failed", traceback.format_exc()
    finally:
        signal.alarm(0)
        context.close(keep=outcome == "failed")
    return outcome, text, context


@contextlib.contextmanager
def within_reach():
    """What is tested lies where other users and a root without capabilities can reach it; copied there if need be."""
    files, targets = ("PROBE_SO", "PROBECTL"), os.environ["PROBE_TARGET_DIR"]
    if os.geteuid() != 0 or all(reachable(path) for path in (targets, *(os.environ[name] for name in files))):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="probe-b-") as copy:
        os.chmod(copy, 0o755)
        for name in files:
            os.environ[name] = shutil.copy(os.environ[name], copy)
        os.environ["PROBE_TARGET_DIR"] = os.path.join(copy, "targets")
        shutil.copytree(targets, os.path.join(copy, "targets"), ignore=shutil.ignore_patterns("*.p"))
        subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
        yield


def main():
    with within_reach():
        return _main()


def _main():
    only = os.environ.get("PROBE_TEST_ONLY", "")
    chosen = [row for row in _tests if only in row[0] and (row[3] or not DOCKER)]
    if not chosen:
        print("Bail out! no test matches")
        return 1
    print(f"1..{len(chosen)}", flush=True)
    failures = 0
    for number, (name, story, timeout, _, function) in enumerate(chosen, 1):
        title = f"{name} [{story}]" if story else name
        begin = time.monotonic()
        outcome, text, context = _run(name, story, timeout * (10 if FULL else 1), function)
        if outcome == "skip":
            print(f"ok {number} - {title} # SKIP {text}", flush=True)
            continue
        print(f"{'ok' if outcome == 'ok' else 'not ok'} {number} - {title}")
        print(f"# {time.monotonic() - begin:.2f} s", flush=True)
        if outcome == "failed":
            failures += 1
            again = {key: value for key, value in _given.items()
                     if key in SETTINGS or key.startswith(("PROBE_TEST_", "PROBE_HANDLER_"))}
            again.pop("PROBE_TEST_ONLY", None)
            words = " ".join(f"{key}={shlex.quote(value)}" for key, value in again.items())
            for line in text.splitlines() + [f"files: {context.work}",
                                             f"again: {words} PROBE_TEST_ONLY={shlex.quote(name)} "
                                             f"python3 {shlex.quote(os.path.abspath(sys.argv[0]))}"]:
                print(f"# {line}")
            sys.stdout.flush()
    return 1 if failures else 0
