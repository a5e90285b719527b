#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""probectl against agents that answer well, badly, slowly or not at all; and its command line.

The well-behaved answer is the example of agent/report/PROTOCOL.md, so that the example is tested, too.
"""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from probetest import Skip, check, equal, main, read_text, start_ticks, test, wait_until  # noqa: E402

REPORT = os.path.join(ROOT, "agent", "report")
CAPTURED = 9  # index of the record "captured" in the example


def example():
    text = read_text(os.path.join(REPORT, "PROTOCOL.md"))
    return text.split("## Example")[1].split("```")[1].strip() + "\n"


def validator(name):
    try:
        import jsonschema
    except ImportError:
        raise Skip("python3-jsonschema is not installed") from None
    schema = json.loads(read_text(os.path.join(REPORT, name)))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def fake(t, *mode, env=None, wait=True):
    stream = os.path.join(str(t.work), "stream.jsonl")
    with open(stream, "w", encoding="utf-8") as file:
        file.write(example())
    program = t.program([sys.executable, os.path.join(HERE, "fake_agent.py"), *[str(word) for word in mode]],
                        probe=False, env={"PROBE_DIR": t.dir, "FAKE_STREAM": stream, **(env or {})})
    if wait:
        equal(program.line(), "ready", "first line of the fake agent")
    return program


def stream_of(t, *records):
    path = os.path.join(str(t.work), "own.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(record + "\n" for record in records))
    return path


def dump(t, program, *options, status, deadline=20.0):
    result = t.ctl("dump", *options, program if isinstance(program, (int, str)) else program.pid, deadline=deadline)
    equal(result.returncode, status, f"exit status; stderr: {result.stderr.strip()}; stdout: {result.stdout[:500]}")
    return result


def ctl_in(t, directory, *arguments):
    """probectl with another PROBE_DIR than the test's."""
    return subprocess.run([t.probectl, *[str(word) for word in arguments]], capture_output=True, text=True, timeout=20,
                          check=False, env={**os.environ, "PROBE_DIR": directory})


def quiet(result):
    equal(result.stderr, "", "stderr")
    return result


# The answer


@test("the example of the protocol satisfies the schema of the wire, line by line")
def wire_schema(t):
    wire = validator("wire.schema.json")
    lines = example().splitlines()
    for line in lines:
        wire.validate(json.loads(line))
    equal(json.loads(lines[CAPTURED - 1])["type"], "captured", "CAPTURED")


@test("a whole answer is printed, exit 0, nothing on stderr")
def whole(t):
    agent = fake(t, "whole")
    text = quiet(dump(t, agent, status=0)).stdout
    equal(agent.line(), "dump symbols=table args=0 timeout=9000", "request")
    check(text.startswith("UNKNOWN  "), text)
    check(f"pid {agent.pid}" in text and "pthread_mutex_lock" in text and "1 thread: 1 captured" in text, text)
    check(all(c == "\n" or " " <= c <= "~" for c in text), "the text is not ASCII")


@test("a whole answer as JSON satisfies the schema, and holds both pids and the names")
def whole_json(t):
    agent = fake(t, "whole")
    report = json.loads(quiet(dump(t, agent, "-f", "json", status=0)).stdout)
    validator("probe-report.schema.json").validate(report)
    process = report["processes"][0]
    equal(process["pid"], agent.pid, "pid")
    frame = process["stacks"][process["threads"][0]["stack"]][0]
    equal((frame["function"], frame["symbol"], frame["function_offset"]), ("pthread_mutex_lock",) * 2 + (8,), "frame")
    check("function" not in process["stacks"][0][1], "a frame without symbol has a function")


@test("options reach the agent")
def request(t):
    agent = fake(t, "whole")
    dump(t, agent, "--capture", "passive", "--symbols=none", "--args", "--timeout", "2s", status=0)
    equal(agent.line(), "dump capture=passive symbols=none args=1 timeout=1800", "request")


@test("an agent that keeps the connection open after its end does not hold us up")
def keep(t):
    begin = time.monotonic()
    dump(t, fake(t, "keep"), status=0)
    check(time.monotonic() - begin < 5, "waited for the connection to close")


def cut(mode, count):
    @test(f"{mode} after {count} records")
    def run(t):
        whole_capture = count >= CAPTURED
        result = dump(t, fake(t, mode, count), "-f", "json", status=1 if whole_capture else 2)
        if count < 8:  # no thread came: what can be seen from outside is printed
            check("view from outside" in result.stderr, result.stderr)
        process = json.loads(result.stdout)["processes"][0]
        equal(process["complete"], False, "complete")
        validator("probe-report.schema.json").validate(json.loads(result.stdout))
        if count >= 8:
            check(any("ended before" in why for why in process["why"]), process["why"])


for number in (0, 1, 2, 4, 8, 9, 10, 13, 14):
    cut("cut", number)
for number in (0, 1, 8, 9, 14):
    cut("torn", number)


@test("an agent that dies in the middle of its answer")
def die(t):
    for count in (8, 9):
        dump(t, fake(t, "die", count), status=2 if count < CAPTURED else 1)


@test("an answer that is no JSON is refused, what came before is kept")
def garbage(t):
    for mode in ("garbage", "http"):
        result = dump(t, fake(t, mode), status=2)
        check("not JSON" in result.stderr, result.stderr)
        check("\033" not in result.stdout + result.stderr, "garbage reached the terminal")


@test("a line of 100 MB is refused in bounded memory")
def long_line(t):
    agent = fake(t, "long")
    process = subprocess.Popen([t.probectl, "dump", str(agent.pid)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               text=True, env={**os.environ, "PROBE_DIR": t.dir})
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    equal(process.returncode, 2, f"exit status: {errors}")
    check(usage.ru_maxrss < 60000, f"{usage.ru_maxrss} KiB")
    check("too long" in errors, errors)


@test("an agent that refuses is quoted")
def refuse(t):
    result = dump(t, fake(t, "refuse"), status=2)
    check("too many clients (busy)" in result.stderr and result.stdout == "", result.stderr)


# Time


@test("a slow agent is waited for, with one progress line after two seconds")
def slow(t):
    result = dump(t, fake(t, "slow", 170), status=0)
    equal(len(result.stderr.splitlines()), 1, "lines on stderr")
    check("waiting" in result.stderr, result.stderr)


@test("the time-out prints what came: exit 124")
def deadline(t):
    begin = time.monotonic()
    result = dump(t, fake(t, "hang", 9), "--timeout", "1500ms", status=124)
    check(1.4 < time.monotonic() - begin < 4, "not at its time")
    check("1 thread: 1 captured" in result.stdout and "INCOMPLETE" in result.stdout, result.stdout)
    check("WARN  the time-out of probectl ended the answer" in result.stdout, result.stdout)


@test("an agent that drips is ended by the time-out, too")
def drip(t):
    dump(t, fake(t, "drip"), "--timeout", "2s", status=124)


@test("a silent agent: the view from outside after one second, exit 2")
def silent(t):
    agent = fake(t, "silent")
    begin = time.monotonic()
    result = dump(t, agent, "-f", "json", status=2)
    check(0.9 < time.monotonic() - begin < 4, "not after one second")
    report = json.loads(result.stdout)
    validator("probe-report.schema.json").validate(report)
    thread = report["processes"][0]["threads"][0]
    equal((thread["tid"], thread["capture"], thread["reason"], thread["state"]),
          (agent.pid, "none", "no_agent", "sleeping"), "thread")
    check(thread["syscall"]["name"] in ("clock_nanosleep", "select", "pselect6"), thread)


@test("an agent that takes no connection: the view from outside")
def deaf(t):
    agent = fake(t, "deaf")
    time.sleep(0.2)
    text = dump(t, agent, status=2).stdout
    check(f"1 thread: 0 captured (0 passive), 1 missing" in text, text)


@test("a stopped program: the view from outside says so", docker=False)
def stopped(t):
    program = t.program(["sleep", "1000"])
    t.await_socket(program.pid)
    os.kill(program.pid, signal.SIGSTOP)
    wait_until(lambda: "T (stopped)" in read_text(f"/proc/{program.pid}/status"), "stopped")
    result = dump(t, program, status=2)
    check("WARN  the process is stopped by a signal" in result.stdout, result.stdout)
    check("the agent's thread" in result.stdout and "stopped, cpu" in result.stdout, result.stdout)
    os.kill(program.pid, signal.SIGCONT)
    dump(t, program, status=0)


@test("a process younger than its agent is waited for")
def young(t):
    dump(t, fake(t, "late", 300, wait=False), status=0)


@test("an answer without threads: what the agent says about it is not lost")
def no_threads(t):
    hello, process = [line for line in example().splitlines() if '"hello"' in line or '"type":"process"' in line]
    end = '{"type":"end","complete":false,"why":["no /proc\\u001b[2J here"],"lost":0}'
    result = dump(t, fake(t, "whole", env={"FAKE_STREAM": stream_of(t, hello, process, end)}), status=2)
    check("the agent says: no /proc?[2J here" in result.stderr, repr(result.stderr))
    check("could capture no thread" in result.stderr, result.stderr)


@test("a refusal cannot speak to the terminal")
def hostile_refusal(t):
    error = '{"type":"error","code":"x\\u001b[31m","text":"\\u001b]0;owned\\u0007"}'
    end = '{"type":"end","complete":false,"why":[],"lost":0}'
    hello = example().splitlines()[0]
    result = dump(t, fake(t, "whole", env={"FAKE_STREAM": stream_of(t, hello, error, end)}), status=2)
    check("refused: ?]0;owned? (x?[31m)" in result.stderr, repr(result.stderr))


@test("there is no answer of a stopped program to save: said, no file", docker=False)
def stopped_raw(t):
    program = t.program(["sleep", "1000"])
    t.await_socket(program.pid)
    os.kill(program.pid, signal.SIGSTOP)
    wait_until(lambda: "T (stopped)" in read_text(f"/proc/{program.pid}/status"), "stopped")
    file = os.path.join(str(t.work), "stopped.jsonl")
    check("no answer to save" in dump(t, program, "-o", file, status=2).stderr, "not said")
    check(not os.path.exists(file), "a file")
    text = os.path.join(str(t.work), "stopped.txt")
    dump(t, program, "-o", text, status=2)
    check("stopped" in read_text(text), read_text(text))


# Whom to ask


@test("after exec without the agent the process is not listed, and has none")
def exec_away(t):
    program = t.program(["sh", "-c", "read x; unset LD_PRELOAD; exec sleep 1000"])
    t.await_socket(program.pid)
    check(f" {program.pid} " in t.ctl("ps").stdout, "not listed before")
    program.send()
    wait_until(lambda: os.path.basename(os.readlink(f"/proc/{program.pid}/exe")) == "sleep", "exec")
    check(f" {program.pid} " not in t.ctl("ps").stdout, "still listed")
    check("libprobe.so is not loaded" in dump(t, program, status=4).stderr, "cause")


@test("after exec with the agent a dump waits for the new agent's socket")
def exec_again(t):
    program = t.program(["sh", "-c", "read x; exec sleep 1000"])
    t.await_socket(program.pid)
    time.sleep(1.1)  # no young process any more
    program.send()
    wait_until(lambda: os.path.basename(os.readlink(f"/proc/{program.pid}/exe")) == "sleep" and
               any(read_text(f"/proc/{program.pid}/task/{tid}/comm").startswith("libprobe")
                   for tid in os.listdir(f"/proc/{program.pid}/task")), "exec")
    dump(t, program, status=0)


@test("the socket's file was removed: said, with what to do")
def removed_socket(t):
    program = t.program(["sleep", "1000"])
    os.unlink(t.await_socket(program.pid))
    result = dump(t, program, status=4)
    check("the socket's file is gone" in result.stderr and "PROBE_DIR" in result.stderr, result.stderr)


@test("a PROBE_DIR that cannot be used is named")
def bad_directory(t):
    program = t.program(["sleep", "1000"], env={"PROBE_DIR": "/nonexistent/deep"})
    wait_until(lambda: "libprobe" in read_text(f"/proc/{program.pid}/maps"), "loaded")
    time.sleep(1.1)
    result = dump(t, program, status=4)
    check("PROBE_DIR /nonexistent/deep cannot be used: No such file" in result.stderr, result.stderr)


@test("name:GLOB means those with an agent, if there are any")
def glob_prefers_agents(t):
    copy = os.path.join(str(t.work), f"unique{os.getpid()}")
    shutil.copy(shutil.which("sleep"), copy)
    without = t.program([copy, "1000"], probe=False)
    program = t.program([copy, "1000"])
    t.await_socket(program.pid)
    report = json.loads(dump(t, f"name:{os.path.basename(copy)}", "-f", "json", status=0).stdout)
    equal([process["pid"] for process in report["processes"]], [program.pid], "pids")
    check(without.alive(), "the other ended")


@test("a program that changed its root is found by its agent's", docker=False)
def changed_root(t):
    if os.geteuid() != 0:
        raise Skip("needs root for chroot")
    empty = os.path.join(str(t.work), "empty")
    os.mkdir(empty)
    program = t.program([sys.executable, "-c", "import os,sys; os.chroot(sys.argv[1]); os.chdir('/'); print('in');"
                         "sys.stdout.flush(); sys.stdin.read()", empty])
    equal(program.line(), "in", "first line")
    dump(t, program, status=0)


@test("a program that has sandboxed all its threads since: not woken, unless forced", "S76")
def tightened(t):
    target = t.spawn("tsync", sandbox=1)
    dump(t, target, status=0)
    equal(target.step(), "sandboxed", "the scenario's answer")
    result = dump(t, target, status=4)
    check("has sandboxed itself since" in result.stderr and "--force" in result.stderr, result.stderr)
    check("t_wait_release" not in result.stdout and "sleeping" in result.stdout, result.stdout)
    time.sleep(0.2)
    check(target.alive(), "the program was killed")
    t.ctl("dump", "--force", target.pid)
    equal(target.wait(check=False), -signal.SIGSYS, "--force asked the agent, and the filter kills for that")


@test("a process that is sandboxed when it loads the agent is dumped")
def sandboxed_before(t):
    target = t.spawn("threads", launch=["-s"], n=2, depth=2)
    check(":" in read_text(f"/proc/{target.pid}/task/{t.agent_thread(target.pid)}/comm"), "the agent's name")
    dump(t, target, status=0)
    target.release()


@test("no such process: exit 3")
def no_process(t):
    result = dump(t, 0x3ffffff, status=3)
    check("there is no process" in result.stderr and result.stdout == "", result.stderr)


@test("a thread is no target, and its process is named", docker=False)
def thread_target(t):
    program = t.program(["sleep", "1000"])
    t.await_socket(program.pid)
    agent = wait_until(lambda: [tid for tid in os.listdir(f"/proc/{program.pid}/task") if int(tid) != program.pid], "agent")
    result = dump(t, int(agent[0]), status=3)
    check(f"is a thread of process {program.pid}" in result.stderr, result.stderr)


@test("no agent: exit 4, with cause and next step")
def no_agent(t):
    program = t.program(["sleep", "1000"], probe=False)
    result = dump(t, program, status=4)
    check("libprobe.so is not loaded" in result.stderr and "LD_PRELOAD=" in result.stderr, result.stderr)


def inert(variable, setting, word):
    @test(f"an agent made inert by {variable} is explained", docker=False)
    def run(t):
        program = t.program(["sleep", "1000"], env={variable: setting})
        time.sleep(1)
        result = dump(t, program, status=4)
        check("libprobe.so is loaded" in result.stderr and word in result.stderr, result.stderr)


inert("PROBE_DISABLE", "1", "PROBE_DISABLE")
inert("PROBE_MATCH", "other", "PROBE_MATCH")


@test("a static program is explained")
def static_program(t):
    source = os.path.join(str(t.work), "s.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <unistd.h>\nint main(void) { return pause(); }\n")
    if not shutil.which("cc") or subprocess.run(["cc", "-static", "-o", source[:-2], source], check=False,
                                                capture_output=True).returncode != 0:
        raise Skip("cannot link a static program")
    program = t.program([source[:-2]], probe=False)
    check("statically linked" in dump(t, program, status=4).stderr, "cause")


@test("another process behind the socket is not believed")
def wrong_peer(t):
    program = t.program(["sleep", "1000"], probe=False, env={"PROBE_DIR": t.dir})
    wait_until(lambda: "sleep" in read_text(f"/proc/{program.pid}/comm"), "exec")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(os.path.join(t.dir, f"{program.pid}-{start_ticks(program.pid)}.sock"))
    server.listen(1)
    result = dump(t, program, status=4)
    check("served by another process" in result.stderr, result.stderr)


@test("a directory of somebody else is not believed")
def squatted(t):
    if os.getuid() != 0:
        raise Skip("needs root to give a directory away")
    agent = fake(t, "whole")
    os.chown(t.dir, 4242, -1)
    result = dump(t, agent, status=4)
    check("belongs to user 4242" in result.stderr, result.stderr)


@test("a link in place of the directory is not followed")
def linked_directory(t):
    link = os.path.join(str(t.work), "link")
    os.symlink(t.dir, link)
    agent = fake(t, "whole", env={"PROBE_DIR": link})
    result = ctl_in(t, link, "dump", agent.pid)
    equal(result.returncode, 4, "exit status")
    check("symbolic link is not followed" in result.stderr, result.stderr)


@test("a link or a file in place of the socket is refused")
def linked_socket(t):
    for kind in ("link", "file"):
        agent = fake(t, "whole")
        path = t.socket_path(agent.pid)
        os.rename(path, path + ".moved")
        if kind == "link":
            os.symlink(path + ".moved", path)
        else:
            open(path, "w", encoding="utf-8").close()
        result = dump(t, agent, status=4)
        check("is not a socket" in result.stderr, result.stderr)


@test("a socket that nobody listens on is no agent")
def stale(t):
    program = t.program(["sleep", "1000"], probe=False, env={"PROBE_DIR": t.dir})
    wait_until(lambda: "sleep" in read_text(f"/proc/{program.pid}/comm"), "exec")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(os.path.join(t.dir, f"{program.pid}-{start_ticks(program.pid)}.sock"))
    server.listen(1)
    server.close()
    check("not loaded" in dump(t, program, status=4).stderr, "cause")


@test("a directory name of 300 bytes is no obstacle")
def long_path(t):
    directory = os.path.join(str(t.work), "x" * 200)
    os.mkdir(directory, 0o700)
    agent = fake(t, "late", 600, wait=False, env={"PROBE_DIR": t.dir})
    agent.line()
    path = t.socket_path(agent.pid)
    os.rename(path, os.path.join(directory, os.path.basename(path)))
    result = ctl_in(t, directory, "dump", agent.pid)
    equal(result.returncode, 0, f"exit status: {result.stderr}")


@test("name:GLOB finds one, lists several, and takes all when told to")
def globs(t):
    copy = os.path.join(str(t.work), f"unique{os.getpid()}")
    shutil.copy(shutil.which("sleep"), copy)
    first = t.program([copy, "1000"])
    t.await_socket(first.pid)
    dump(t, f"name:{os.path.basename(copy)}", status=0)
    second = t.program([copy, "1000"])
    t.await_socket(second.pid)
    result = dump(t, "name:unique*", status=3)
    check(str(first.pid) in result.stderr and str(second.pid) in result.stderr and result.stdout == "", result.stderr)
    report = json.loads(dump(t, "name:unique*", "--all", "-f", "json", status=0).stdout)
    equal(sorted(process["pid"] for process in report["processes"]), sorted([first.pid, second.pid]), "pids")
    check("no process is called" in dump(t, "name:nothing-like-this", status=3).stderr, "no match")


@test("of several targets the worst exit code counts, and the good reports are printed")
def several(t):
    good = fake(t, "whole")
    bad = t.program(["sleep", "1000"], probe=False)
    result = t.ctl("dump", "-f", "json", good.pid, bad.pid)
    equal(result.returncode, 4, "exit status")
    equal([process["pid"] for process in json.loads(result.stdout)["processes"]], [good.pid], "pids")
    equal(t.ctl("dump", bad.pid, good.pid).returncode, 4, "exit status in the other order")
    text = t.ctl("dump", good.pid, good.pid)
    equal(text.stdout.count("1 thread:"), 1, "a target named twice is dumped once")


# Files


@test("-o writes a private file by its extension, and show reads it back")
def files(t):
    agent = fake(t, "whole")
    base = os.path.join(str(t.work), "report")
    for extension in (".txt", ".json", ".jsonl"):
        result = quiet(dump(t, agent, "-o", base + extension, status=0))
        equal(result.stdout, "", "stdout")
        equal(stat.S_IMODE(os.stat(base + extension).st_mode), 0o600, "mode")
    equal(read_text(base + ".jsonl"), example(), "the stream as it came")
    json.loads(read_text(base + ".json"))
    shown = t.ctl("show", base + ".jsonl")
    equal(shown.returncode, 0, "exit status of show")
    check("pthread_mutex_lock" in shown.stdout, shown.stdout)
    equal(os.listdir(str(t.work)).count("report.txt"), 1, "file")
    check(not [name for name in os.listdir(str(t.work)) if name.startswith("report.") and name.count(".") > 1],
          "a temporary file is left")


@test("-o writes through to a FIFO or device, and leaves it what it is")
def special_files(t):
    agent = fake(t, "whole")
    dump(t, agent, "-f", "text", "-o", "/dev/null", status=0)
    check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null was replaced")
    fifo = os.path.join(str(t.work), "fifo.json")
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True)
    dump(t, agent, "-o", fifo, status=0)
    equal(json.loads(reader.communicate(timeout=20)[0])["schema"], "probe-report/1", "schema")
    check(stat.S_ISFIFO(os.stat(fifo).st_mode), "the FIFO was replaced")


@test("-o replaces a link and does not write through it")
def through_link(t):
    agent = fake(t, "whole")
    victim, link = os.path.join(str(t.work), "victim"), os.path.join(str(t.work), "link.txt")
    with open(victim, "w", encoding="utf-8") as file:
        file.write("precious")
    os.symlink(victim, link)
    dump(t, agent, "-o", link, status=0)
    equal(read_text(victim), "precious", "the link's target")
    check(not os.path.islink(link), "still a link")


@test("-o: no report, no file; an unknown extension, a bad directory")
def file_failures(t):
    path = os.path.join(str(t.work), "none.txt")
    dump(t, 0x3ffffff, "-o", path, status=3)
    check(not os.path.exists(path), "a file without a report")
    agent = fake(t, "whole")
    check("which format?" in dump(t, agent, "-o", path[:-4], status=64).stderr, "extension")
    check("cannot write" in dump(t, agent, "-o", "/nonexistent/x.txt", status=2).stderr, "directory")
    check("cannot write" in t.ctl("dump", "-o", "/dev/full/x.txt", agent.pid).stderr, "not a directory")


@test("a full disk is told, not ignored")
def full_disk(t):
    agent = fake(t, "whole")
    for form in ("text", "json"):
        result = subprocess.run(["sh", "-c", f"{t.probectl} dump -f {form} {agent.pid} >/dev/full"], text=True,
                                capture_output=True, timeout=20, check=False, env={**os.environ, "PROBE_DIR": t.dir})
        equal(result.returncode, 2, f"exit status: {result.stderr}")
        check("cannot write" in result.stderr, result.stderr)


@test("show reads standard input, several streams, cuts and nonsense")
def show(t):
    def run(text, *options):
        return subprocess.run([t.probectl, "show", *options, "-"], input=text, text=True, capture_output=True,
                              timeout=20, check=False)

    equal(run(example()).returncode, 0, "whole")
    both = run(example() * 2, "-f", "json")
    equal(len(json.loads(both.stdout)["processes"]), 2, "processes")
    lines = example().splitlines(keepends=True)
    equal(run("".join(lines[:-1])).returncode, 1, "cut after captured")
    equal(run("".join(lines[:8])).returncode, 2, "cut before captured")
    equal(run("").returncode, 2, "empty")
    equal(run("nonsense\n").returncode, 2, "nonsense")
    equal(run("x" * 3000000).returncode, 2, "a long line")
    equal(t.ctl("show", "/nonexistent").returncode, 2, "no file")


@test("a JSON report of any size is shown")
def show_large_json(t):
    report = os.path.join(str(t.work), "large.json")
    dump(t, fake(t, "whole"), "-o", report, status=0)
    document = json.loads(read_text(report))
    process = document["processes"][0]
    process["stacks"] *= 50000  # far beyond the longest line of the wire
    process["stack_ends"] *= 50000
    text = json.dumps(document)
    check(len(text) > 2 << 20, "not large")
    shown = subprocess.run([t.probectl, "show", "-"], input=text, text=True, capture_output=True, timeout=60, check=False)
    equal((shown.returncode, shown.stderr), (0, ""), "show")
    equal(shown.stdout, t.ctl("show", report).stdout, "text")


@test("a JSON report shows as the stream it was made from")
def show_json(t):
    base = os.path.join(t.target_dir, "target-O2")
    program = t.program([base, "deadlock2"])
    t.await_socket(program.pid)
    wait_until(lambda: "DEADLOCK" in t.ctl("dump", program.pid).stdout, "a deadlock")
    stream, report = os.path.join(str(t.work), "d.jsonl"), os.path.join(str(t.work), "d.json")
    t.ctl("dump", "-o", stream, program.pid)
    made = t.ctl("show", "-f", "json", "-o", report, stream)
    check(made.returncode in (0, 1), made.stderr)
    equal(t.ctl("show", report).stdout, t.ctl("show", stream).stdout, "text")
    other = os.path.join(str(t.work), "other.jsonl")
    refused = t.ctl("show", "-o", other, report)
    check("writes no .jsonl" in refused.stderr and "-f" in refused.stderr, refused.stderr)
    equal((refused.returncode, os.path.exists(other)), (64, False), "show to a .jsonl")
    again = json.loads(t.ctl("show", "-f", "json", report).stdout)["processes"]
    once = json.loads(read_text(report))["processes"]
    for process in again + once:
        process.pop("ns_pid")
    equal(again, once, "JSON")
    pretty = subprocess.run([t.probectl, "show", "-"], input=json.dumps(json.loads(read_text(report)), indent=2),
                            text=True, capture_output=True, timeout=20, check=False)
    check(pretty.stdout.startswith("DEADLOCK"), pretty.stdout + pretty.stderr)
    for broken in ('{"schema":"probe-report/1","processes":[{}]}', '{"schema":"probe-report/1","processes":[1]}',
                   '{"schema":"probe-report/1"}', '{"schema":"probe-report/2","processes":[]}', "{}", "[]"):
        equal(subprocess.run([t.probectl, "show", "-"], input=broken, text=True, capture_output=True, timeout=20,
                             check=False).returncode, 2, broken)


# The command line


@test("help of every command has examples; version; usage errors are 64 with a hint")
def command_line(t):
    for words in ([], ["dump"], ["show"], ["ps"]):
        result = quiet(t.ctl(*words, "--help"))
        equal(result.returncode, 0, "exit status")
        check("usage: probectl" in result.stdout and "example" in result.stdout, result.stdout)
        if words:
            equal(t.ctl("help", *words).stdout, result.stdout, "help COMMAND")
    check(t.ctl("--version").stdout.startswith("probectl 0."), "version")
    for words, hint in ((["dmup"], "did you mean 'dump'"), (["dump", "--fromat", "json", "1"], "did you mean '--format'"),
                        (["dump"], "dump which process"), (["dump", "abc"], "neither a pid nor name:GLOB"),
                        (["dump", "-f", "xml", "1"], "wants one of text, json"), (["dump", "--timeout"], "wants a value"),
                        (["dump", "--timeout", "soon", "1"], "a duration such as"), (["ps", "x"], "no arguments"),
                        (["show"], "one file"), ([], "which command"), (["dump", "0"], "neither"),
                        (["dump", "-1"], "unknown option"), (["run"], "unknown command")):
        result = t.ctl(*words)
        equal(result.returncode, 64, f"exit status of {words}")
        check(hint in result.stderr and result.stdout == "", f"{words}: {result.stderr}")


@test("colour only when asked for")
def colour(t):
    agent = fake(t, "whole")
    check("\033" not in dump(t, agent, status=0).stdout, "colour in a pipe")
    check("\033" in dump(t, agent, "--color", "always", status=0).stdout, "no colour")


@test("ps lists live agents and sweeps sockets of the dead, nothing else")
def ps(t):
    agent = fake(t, "whole")
    real = t.program(["sleep", "1000"])
    t.await_socket(real.pid)
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    dead = os.path.join(t.dir, f"{gone}-123.sock")
    reused = os.path.join(t.dir, f"{os.getpid()}-1.sock")
    kept = [os.path.join(t.dir, name) for name in ("other.sock", "12-34.sock.bak", f"{gone}-5.sock")]
    for path in (dead, reused, kept[0], kept[1]):
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(path)
        server.close()
    open(kept[2], "w", encoding="utf-8").close()  # not a socket
    result = quiet(t.ctl("ps"))
    equal(result.returncode, 0, "exit status")
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    check(str(agent.pid) in rows, result.stdout)
    equal(rows[str(real.pid)][2:], ["1", "sleep"], "threads, without the agent's own, and program")
    check(not os.path.lexists(dead) and not os.path.lexists(reused), "a dead socket is left")
    check(all(os.path.lexists(path) for path in kept), "something else was removed")
    check(os.path.lexists(t.socket_path(agent.pid)), "a live socket was removed")


if __name__ == "__main__":
    sys.exit(main())
