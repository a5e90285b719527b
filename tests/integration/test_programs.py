#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real programs that nobody here wrote, dumped 20 times while they work.

They must do what they do without the agent, and the frames of their sleeping threads must be those that eu-stack sees
right afterwards, or end with an announced reason.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import (DOCKER, Failed, Skip, check, equal, eu_stack, main, needs, probe_threads,  # noqa: E402
                       program_threads, read_text, test, wait_until)

DUMPS = 20


def pcs(dump, tid):
    return [int(frame["pc"], 16) for frame in dump.frames(tid)] if tid in dump.threads else None


def difference(dump, tid, theirs):
    """None: the same stack; "announced": ends early or is unverified from there on, and says so; else a text."""
    ours = pcs(dump, tid)
    if ours == theirs or (len(ours) > len(theirs) and ours[: len(theirs)] == theirs):
        return None  # or eu-stack gave up first
    where = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    thread = dump.threads[tid]
    if where == len(ours) and (dump.end(tid) != "outermost" or thread.get("reason") or thread["truncated"]):
        return "announced"
    if where < len(ours) and dump.frames(tid)[where]["trust"] == "frame_pointer":
        return "announced"
    return (f"thread {tid} differs from eu-stack at frame {where}\n{dump.show(tid)}\neu-stack:\n" +
            "\n".join(f"  {pc:#x}" for pc in theirs))


def ends_soon(alive):
    """Was it ending while we looked?"""
    for _ in range(100):
        if not alive():
            return True
        time.sleep(0.1)
    return False


def dump_or_end(t, pid, alive):
    """A dump; None when the program ended in the middle of it."""
    try:
        return t.dump(pid, status=(0, 1))
    except Failed:
        if ends_soon(alive):
            return None
        raise


def compare_with_eu_stack(t, pid, alive, rounds=4):
    """Sleeping threads show the same pcs as eu-stack sees right after, or an announced end.

    The two looks are not at the same moment. A thread is compared when a second dump after eu-stack shows it as the
    first did, and it is wrong when it differs in every such round: a thread that moves agrees sooner or later, an
    unwinder that errs does not. Returns (equal, ended early): comparisons, over all rounds.
    """
    if DOCKER or not shutil.which("eu-stack"):
        return 0, 0
    same = short = 0
    wrong, agreed = {}, set()
    for _ in range(rounds):
        dump = dump_or_end(t, pid, alive)
        reference = eu_stack(pid)
        again = dump_or_end(t, pid, alive)
        if not dump or not again:
            break
        for tid, thread in dump.threads.items():
            if thread["capture"] != "passive" or tid not in reference or pcs(again, tid) != pcs(dump, tid):
                continue
            text = difference(dump, tid, reference[tid])
            if text is None:
                same += 1
                agreed.add(tid)
            elif text == "announced":
                short += 1
                agreed.add(tid)
            else:
                wrong.setdefault(tid, []).append(text)
    for tid, texts in wrong.items():
        if tid not in agreed and len(texts) >= 2:
            raise Failed(f"in {len(texts)} rounds {texts[-1]}")
    return same, short


def dump_while(t, pid, alive, compare=True):
    """DUMPS dumps while the program works; returns what was seen."""
    captured = total = 0
    for _ in range(DUMPS):
        if not alive():
            break
        result = t.ctl("dump", "-f", "json", pid)
        if (result.returncode in (3, 4) or not result.stdout.strip()) and ends_soon(alive):
            break
        check(result.returncode in (0, 1, 2), f"probectl: exit {result.returncode}: {result.stderr}")
        stats = json.loads(result.stdout)["processes"][0]["stats"]
        captured += stats["threads_captured"]
        total += stats["threads_total"]
        time.sleep(0.02)
    same, short = compare_with_eu_stack(t, pid, alive) if compare and alive() else (0, 0)
    print(f"# {total} threads seen, {captured} captured; against eu-stack: {same} equal, {short} end early")
    return total


def finish_equal(t, argv, deadline=120, need_dumps=3, env=None, cwd=None, compare=False):
    """Run the program without and with the agent under dumps: same output, same status."""
    without = t.run(argv, probe=False, deadline=deadline, env=env, cwd=cwd)
    program = t.program(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL)
    t.await_socket(program.pid)
    total = dump_while(t, program.pid, program.alive, compare)
    check(total >= need_dumps, f"it ended after {total} thread samples: too short to say anything")
    output = program.rest_of_output()
    status = program.wait(deadline, check=False)
    equal((status, output, program.errors()), (without.returncode, without.stdout, without.stderr.strip()),
          "status, output and errors")


@test("python3: threads, locks, subprocess and a computation")
def python(t):
    needs("python3")
    interpreter = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    script = """
import threading, queue, subprocess, hashlib, time, signal
q, out = queue.Queue(), queue.Queue()
def worker():
    while True:
        item = q.get()
        if item is None: return
        out.put((item, hashlib.sha256(str(item).encode() * 20000).hexdigest()))
threads = [threading.Thread(target=worker) for _ in range(4)]
[t.start() for t in threads]
ticks = []
signal.signal(signal.SIGALRM, lambda *a: ticks.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
for i in range(400): q.put(i)
[q.put(None) for _ in threads]
[t.join() for t in threads]
signal.setitimer(signal.ITIMER_REAL, 0)
begin = time.monotonic(); time.sleep(1.0); slept = time.monotonic() - begin
results = sorted(out.queue)
print(len(results), hashlib.sha256(repr(results).encode()).hexdigest(), slept >= 1.0)
print(subprocess.run(["sh", "-c", "echo child; exit 7"], capture_output=True))
"""
    finish_equal(t, [interpreter, "-c", script], compare=True)


@test("python3 asleep in many ways: frames as eu-stack sees them")
def python_asleep(t):
    needs("python3", "eu-stack")
    interpreter = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    script = """
import threading, time, socket, select, sys
a, b = socket.socketpair()
lock = threading.Lock(); lock.acquire()
event = threading.Event()
for f in (lambda: time.sleep(100), lambda: a.recv(1), lambda: lock.acquire(), lambda: event.wait(100),
          lambda: select.select([b], [], [], 100), lambda: threading.Barrier(2).wait()):
    threading.Thread(target=f, daemon=True).start()
print('up', flush=True)
sys.stdin.readline()
import os; os._exit(0)
"""
    program = t.program([interpreter, "-c", script])
    program.line()
    wait_until(lambda: len(program_threads(program.pid)) == 7, "7 threads")
    for tid in program_threads(program.pid):
        program.await_blocked(tid)
    with t.undisturbed(program):
        for _ in range(DUMPS):
            equal(len(t.dump(program, status=(0, 1)).threads), 7, "threads")
    same, short = compare_with_eu_stack(t, program.pid, program.alive)
    print(f"# against eu-stack: {same} equal, {short} end early")
    if not DOCKER:
        check(same > 0, "not one stack was compared")
    program.send()
    program.wait()


def redis_cli(path, *words):
    return subprocess.run(["redis-cli", "-s", path, *words], capture_output=True, text=True, timeout=30).stdout


@test("redis-server: clients get every answer, a save in a forked child works", timeout=180)
def redis(t):
    needs("redis-server", "redis-cli", "redis-benchmark")
    path = os.path.join(os.fspath(t.work), "redis.sock")
    server = t.program(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", os.fspath(t.work),
                        "--appendonly", "yes"])

    cli = functools.partial(redis_cli, path)
    wait_until(lambda: os.path.exists(path) and cli("ping") == "PONG\n", "redis answers")
    load = subprocess.Popen(["redis-benchmark", "-s", path, "-n", "40000", "-c", "20", "-t", "set,get,incr", "-q"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        dump_while(t, server.pid, server.alive)
        equal(cli("bgsave"), "Background saving started\n", "bgsave")
        dump_while(t, server.pid, server.alive, compare=False)
        out, err = load.communicate(timeout=120)
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
    equal(load.returncode, 0, f"redis-benchmark: {err}")
    check("WARNING" not in err and "Error" not in out + err, f"redis-benchmark: {out} {err}")
    equal(cli("incr", "key-of-the-test"), "1\n", "incr")
    wait_until(lambda: "rdb_bgsave_in_progress:0" in cli("info", "persistence"), "the save ends", 30)
    check("rdb_last_bgsave_status:ok" in cli("info", "persistence"), "the save was a success")
    equal(int(re.search(r"total_error_replies:(\d+)", cli("info", "stats")).group(1)), 0, "error replies")
    cli("shutdown", "nosave")
    server.wait()
    equal(server.errors(), "", "stderr")


@test("redis-server under load, under strace: no call of it ends early", "S34", docker=False, timeout=180)
def redis_calls(t):
    needs("redis-server", "redis-cli", "redis-benchmark")
    path, log = (os.path.join(os.fspath(t.work), name) for name in ("redis.sock", "strace"))
    tracer = t.strace(log, ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir",
                            os.fspath(t.work), "--io-threads", "2"])

    cli = functools.partial(redis_cli, path)
    wait_until(lambda: os.path.exists(path) and cli("ping") == "PONG\n", "redis answers")
    server = int(read_text(f"/proc/{tracer.pid}/task/{tracer.pid}/children").split()[0])
    agent = t.agent_thread(server)
    load = subprocess.Popen(["redis-benchmark", "-s", path, "-n", "100000000", "-c", "20", "-t", "set", "-q"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: os.path.getsize(log) > 1 << 20, "the load is seen")
        begin = os.path.getsize(log)
        for _ in range(50):
            t.dump(server, status=(0, 1))
            time.sleep(0.05)
        end = os.path.getsize(log)
    finally:
        load.kill()
        load.wait()
    cli("shutdown", "nosave")
    tracer.wait()
    check(end - begin > 1 << 16, f"the load went on meanwhile: {end - begin} bytes of log")
    lines = [line for line in read_text(log).splitlines() if not line.startswith(f"{agent} ")]
    early = [line for line in lines if "EINTR" in line or "ERESTART" in line]
    print(f"# {len(lines)} lines, {sum('SI_TIMER' in line for line in lines)} signals")
    equal(early[:10], [], "calls that ended early")


@test("node: timers, promises, worker threads, a server and file system calls", timeout=180)
def node(t):
    needs("node")
    script = """
const { Worker, isMainThread } = require('worker_threads');
const http = require('http'), fs = require('fs'), crypto = require('crypto');
let done = 0;
const hash = x => crypto.createHash('sha256').update(x).digest('hex');
const server = http.createServer((q, r) => r.end('hello ' + q.url));
server.listen(0, '127.0.0.1', async () => {
  const port = server.address().port;
  const get = path => new Promise((ok, no) => http.get({ port, host: '127.0.0.1', path }, r => {
    let s = ''; r.on('data', d => s += d); r.on('end', () => ok(s)); }).on('error', no));
  const worker = new Worker("let x=0; for(let i=0;i<3e8;i++) x=(x*31+i)|0; require('worker_threads').parentPort.postMessage(x)", { eval: true });
  const answer = new Promise(ok => worker.on('message', ok));
  let all = '';
  for (let i = 0; i < 300; i++) { all += await get('/' + i); await fs.promises.readFile('/etc/passwd'); }
  const begin = Date.now();
  await new Promise(ok => setTimeout(ok, 700));
  const pbkdf = await new Promise(ok => crypto.pbkdf2('a', 'b', 200000, 32, 'sha256', (e, k) => ok(k.toString('hex'))));
  console.log(hash(all), await answer, pbkdf, Date.now() - begin >= 699);
  server.close(); worker.terminate();
});
"""
    finish_equal(t, ["node", "-e", script], compare=True)


@test("java: threads, sockets, garbage collection", timeout=240)
def java(t):
    needs("java")
    source = """
import java.util.*; import java.util.concurrent.*;
public class Work {
  public static void main(String[] a) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> all = new ArrayList<>();
    for (int i = 0; i < 40; i++) { final int n = i; all.add(pool.submit(() -> {
      long x = n; List<byte[]> junk = new ArrayList<>();
      for (int k = 0; k < 3000000; k++) { x = x * 31 + k; if (k % 1000 == 0) { junk.add(new byte[10000]); if (junk.size() > 50) junk.clear(); } }
      return x; })); }
    long sum = 0; for (Future<Long> f : all) sum += f.get();
    long begin = System.nanoTime(); Thread.sleep(1000);
    System.out.println(sum + " " + (System.nanoTime() - begin >= 1000000000L));
    pool.shutdown(); System.out.println(pool.awaitTermination(5, TimeUnit.SECONDS));
  }
}
"""
    path = os.path.join(os.fspath(t.work), "Work.java")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    # Compiled beforehand where a compiler is; else the launcher's source mode does it.
    finish_equal(t, ["java", "-Xmx128m", path], compare=True)


@test("sqlite3: a transaction with an index and a query", timeout=180)
def sqlite(t):
    needs("sqlite3")
    script = ("create table t(a integer, b text);"
              "with recursive n(i) as (select 1 union all select i+1 from n where i<400000) "
              "insert into t select i, hex(i*i) from n; create index x on t(b); "
              "select count(*), sum(a), max(b) from t; "
              "select count(*) from t a, t b where a.a = b.a and b.b like '%7%'; pragma integrity_check;")
    finish_equal(t, ["sqlite3", ":memory:", script])


@test("gcc: the object file is the same", timeout=180)
def gcc(t):
    needs("gcc", "sha256sum")
    source = os.path.join(os.fspath(t.work), "big.c")
    with open(source, "w", encoding="utf-8") as file:
        for i in range(400):
            file.write(f"int f{i}(int x) {{ int s = {i}; for (int i = 0; i < x; i++) s = s * 31 + (i ^ {i}); return s; }}\n")
    objects = []
    for probe in (False, True):
        output = os.path.join(os.fspath(t.work), f"big{probe}.o")
        program = t.program(["gcc", "-O2", "-frandom-seed=1", "-c", source, "-o", output], probe=probe,
                            stdin=subprocess.DEVNULL)
        if probe:
            # The driver only waits; the compiler proper is its child, and the one that works.
            seen = 0
            while program.alive() and seen < DUMPS:
                for pid in with_socket(t, [program.pid, *child_pids(program.pid)]):
                    result = t.ctl("dump", "-f", "json", pid)
                    seen += result.returncode in (0, 1)
            print(f"# {seen} dumps with a stack")
            check(seen >= 5, "the compiler ended before it was looked at")
        program.wait(120)
        equal(program.errors(), "", "stderr")
        with open(output, "rb") as file:
            objects.append(file.read())
    check(objects[0] == objects[1], "the object files differ")


def child_pids(pid):
    try:
        return [int(child) for child in read_text(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def with_socket(t, pids):
    """Those that have lived long enough to have one: probectl would wait a second for each of the others."""
    result = []
    for pid in pids:
        try:
            if os.path.exists(t.socket_path(pid)):
                result.append(pid)
        except OSError:
            pass  # ended
    return result


@test("sqlite3, git, and gcc with its compiler, asleep: frames as eu-stack sees them")
def tools_asleep(t):
    needs("sqlite3", "git", "gcc", "eu-stack")
    repository = os.path.join(os.fspath(t.work), "r")
    t.run(["git", "init", "-q", repository], probe=False)
    for argv, children in ((["sqlite3", ":memory:"], 0), (["git", "-C", repository, "cat-file", "--batch"], 0),
                           (["gcc", "-E", "-x", "c", "-"], 1)):
        program = t.program(argv)
        wait_until(lambda: len(child_pids(program.pid)) == children, f"{argv[0]} has its children")
        for pid in [program.pid, *child_pids(program.pid)]:
            t.await_socket(pid)
            program.await_blocked()
            for _ in range(DUMPS):
                equal(list(t.dump(pid, status=(0, 1)).threads), [pid], f"threads of {argv[0]}")
            same, short = compare_with_eu_stack(t, pid, program.alive)
            print(f"# {argv[0]} {pid}: against eu-stack: {same} equal, {short} end early")
            check(same + short > 0, "not one stack was compared")
        program.process.stdin.close()
        program.rest_of_output()
        program.wait()
        equal(program.errors(), "", f"stderr of {argv[0]}")


@test("git: clone, gc and fsck of a repository with history", timeout=180)
def git(t):
    needs("git", "bash")
    script = ("set -e; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=t "
              "GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org "
              "GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'; "
              "rm -rf r c; git init -q -b m r; cd r; for i in $(seq 1 40); do seq $i $((i * 500)) > f$i; git add .; "
              "git commit -q -m $i; done; git gc -q; git fsck --no-progress; cd ..; "
              "git clone -q --no-local r c; cd c; git rev-parse HEAD; git log --oneline | sha256sum; ls | wc -l")
    without_dir, beside_dir = os.path.join(os.fspath(t.work), "a"), os.path.join(os.fspath(t.work), "b")
    os.mkdir(without_dir)
    os.mkdir(beside_dir)
    without = t.run(["bash", "-c", script], probe=False, cwd=without_dir, deadline=120)
    equal(without.returncode, 0, f"without the agent: {without.stderr}")
    program = t.program(["bash", "-c", script], cwd=beside_dir, stdin=subprocess.DEVNULL)
    seen = 0
    while program.alive():
        for pid in with_socket(t, [program.pid, *child_pids(program.pid)]):
            if seen < 200:
                seen += t.ctl("dump", "-f", "json", pid, deadline=30).returncode in (0, 1)
        time.sleep(0.01)
    print(f"# {seen} dumps with a stack")
    check(seen >= DUMPS, f"only {seen} dumps")
    equal((program.wait(check=False), program.rest_of_output(), program.errors()),
          (without.returncode, without.stdout, without.stderr.strip()), "status, output and errors")


if __name__ == "__main__":
    sys.exit(main())
