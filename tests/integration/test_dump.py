#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is in a dump is true and whole, and the sleeping or running threads did not notice."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import (FULL, Failed, Skip, check, ends_at_start, equal, expect_chain, main, own_functions,  # noqa: E402
                       program_threads, read_text, test, wait_until)

FLAVOURS = ("O2", "O0", "O2-fp")
# System call numbers of x86-64 for the rows of scenario `blocked`; None: libc may choose.
NUMBERS = {"read": 0, "raw_read": 0, "write": 1, "send": 44, "recv": 45, "recvmsg": 47, "recv_timed": 45,
           "recv_waitall": 45, "accept": 43, "accept_timed": 43, "poll": 7, "poll_timed": 7, "ppoll_timed": 271,
           "futex": 202, "mutex": 202, "join": 202, "sem": 202, "cond": 202, "waitpid": 61, "vfork": 58, "pause": 34,
           "sigwait": 128, "sigtimedwait": 128, "msgrcv": 70, "mq_receive": 243, "flock": 73, "fcntl": 72,
           "read_eventfd": 0, "read_timerfd": 0, "read_inotify": 0, "read_signalfd": 0, "send_timed": 44,
           "futex_absolute": 202}


@test("200 threads, 20 frames each, -O2: all there, in order, down to their start", "S80")
def two_hundred(t):
    target = t.spawn("threads", n=200, depth=20)
    with t.undisturbed(target):
        dump = t.dump(target)
    equal(len(dump.threads), 201, "threads in the dump")
    equal(dump.process["complete"], True, "complete")
    equal(dump.process["why"], [], "why")
    equal(t.expect_all_chains(target, dump), [], "threads whose stack ends early")
    wanted = {"threads_total": 201, "threads_captured": 201, "threads_dropped": 0, "signals_sent": 0, "pause_nanos": 0,
              "pause_nanos_max": 0, "frames_unattributed": 0}
    equal({key: dump.stats[key] for key in wanted}, wanted, "stats")
    for tid, thread in dump.threads.items():
        equal((thread["capture"], thread["state"], thread["stable"]), ("passive", "sleeping", True), f"thread {tid}")
        check(0 < thread["stack_bytes"] <= 256 * 1024, f"thread {tid}: stack_bytes {thread['stack_bytes']}")
    check(dump.stats["duration_nanos"] > 0, "duration is counted")
    target.release()


def switches(pid):
    """How often each thread of the program was switched in."""
    return {tid: read_text(f"/proc/{pid}/task/{tid}/schedstat").split()[2] for tid in program_threads(pid)}


@test("1,000 sleeping threads: not one is woken", "S01")
def nobody_wakes(t):
    target = t.spawn("threads", n=1000, depth=5)
    before = switches(target.pid)
    for _ in range(3):
        dump = t.dump(target)
        equal((len(dump.threads), dump.stats["signals_sent"]), (1001, 0), "threads, signals")
    equal(switches(target.pid), before, "how often each thread ran")
    target.release()


@test("a read from a file system in user space: that hears of no signal", "S05")
def fuse(t):
    target = t.spawn("fuse_read")
    for _ in range(5):
        dump = t.dump(target)
        equal(dump.stats["signals_sent"], 0, "signals sent")
        t.expect_all_chains(target, dump)
    target.release()


@test("under strace: no call ends early while dumps are taken, no signal comes", "S01 S34", docker=False)
def traced_calls(t):
    log = os.path.join(str(t.work), "strace")
    tracer = t.strace(log, [os.path.join(t.target_dir, "target-O2"), "blocked", "timeout=60000"])
    found = []

    def all_asleep():
        children = read_text(f"/proc/{tracer.pid}/task/{tracer.pid}/children").split()
        found[:] = [int(pid) for pid in children if "target-O2" in read_text(f"/proc/{pid}/comm")]
        if not found or len(program_threads(found[0])) < len(NUMBERS):
            return False
        before = switches(found[0])
        time.sleep(0.5)
        return switches(found[0]) == before

    wait_until(all_asleep, "every call asleep")
    agent = t.agent_thread(found[0])
    begin = len(read_text(log))
    for _ in range(20):
        t.dump(found[0], status=(0, 1))
    text = read_text(log)[begin:]
    check(text.count("accept4") >= 20, "the log does not show the agent at work")
    # The first line began before: a call that sleeps gets its "unfinished" when another thread makes one.
    lines = [line for line in text.splitlines()[1:] if not line.startswith(f"{agent} ")]
    equal(lines, [], "what threads of the program did meanwhile")


def two_paths(flavour):
    @test(f"two deep paths taken by turns, {flavour}: no stack mixes them", "S52", timeout=900)
    def run(t):
        target = t.spawn("two_paths", flavour=flavour)
        depth, seen = int(target.fact("depth")), {}
        for _ in range(10000 if FULL else 200):
            dump = t.dump(target, "--capture", "passive", status=(0, 1))
            (walker,) = [tid for tid in dump.threads if tid != target.pid]
            if not dump.frames(walker):
                reason = dump.threads[walker]["reason"]
                check(reason in ("unstable", "passive_only"), reason)
                seen[reason] = seen.get(reason, 0) + 1
                continue
            names = [name for name in own_functions(dump, walker, t.target_dir) if name]
            paths = {name for name in names if name.endswith("_path")}
            if paths:
                equal(len(paths), 1, f"paths in one stack\n{dump.show(walker)}")
                (path,) = paths
                equal(names, ["sleeps_a_moment"] + [path] * depth + ["walks_both_paths"], "stack")
                check(ends_at_start(dump, walker), dump.show(walker))
                seen[path] = seen.get(path, 0) + 1
        print(f"# {seen}")
        check(seen.get("first_path") and seen.get("second_path"), f"not both were seen: {seen}")
        target.release()


for flavour_name in FLAVOURS:
    two_paths(flavour_name)


def deep_flavour(flavour):
    @test(f"50 threads, 20 frames each, {flavour}: true, or an announced end")
    def run(t):
        target = t.spawn("threads", flavour=flavour, n=50, depth=20)
        with t.undisturbed(target):
            dump = t.dump(target, status=(0, 1))
        short = t.expect_all_chains(target, dump, may_end_early=True)
        equal(dump.process["complete"], not short, "complete says whether every stack is whole")
        print(f"# {flavour}: {len(short)} of {len(dump.threads)} stacks end early, with the reason")
        target.release()


for flavour_name in FLAVOURS[1:]:
    deep_flavour(flavour_name)


# Seconds until the timed calls end by themselves. On a crowded machine that may be before 20 dumps are through, and
# what they show then is another matter: the next one is tried.
CALL_TIMEOUTS = (4, 16, 64)


def dump_calls(t, target):
    """20 dumps of scenario `blocked`; call -> why its stack ends early."""
    rows = {int(row.split()[0]): row.split()[1] for row in target.facts["row"]}
    short = {}
    with t.undisturbed(target):
        for _ in range(20):
            dump = t.dump(target, status=(0, 1))
            equal(dump.stats["signals_sent"], 0, "signals sent to a program that sleeps")
            for tid in t.expect_all_chains(target, dump, may_end_early=True):
                short[rows.get(tid, "main")] = dump.end(tid) or dump.threads[tid].get("reason")
            for tid, row in rows.items():
                thread = dump.threads[tid]
                equal(thread["capture"], "passive", f"capture of the thread in {row}")
                if row in NUMBERS:
                    equal(thread["syscall"]["number"], NUMBERS[row], f"system call of the thread in {row}")
    return short


def every_call(flavour):
    @test(f"every blocking call, {flavour}, dumped 20 times: true stacks, and nothing returned early",
          "S01 S02 S09 S34 S57 S53", timeout=240)
    def run(t):
        for seconds in CALL_TIMEOUTS:
            begin = time.monotonic()
            target = t.spawn("blocked", flavour=flavour, timeout=seconds * 1000)
            try:
                short = dump_calls(t, target)
                break
            except (Failed, OSError) as failure:
                elapsed = time.monotonic() - begin
                if elapsed < seconds or seconds == CALL_TIMEOUTS[-1]:
                    raise
                print(f"# {elapsed:.1f} s, time-out {seconds} s, once more: {str(failure).splitlines()[0][:100]}")
                target.kill()
        # -O2 code keeps no frame pointer, so nothing may be missing there. The vfork parent has a test of its own.
        if flavour == "O2":
            equal([row for row in short if row != "vfork"], [], "calls whose stack ends early")
        else:
            print(f"# {flavour}: stacks of {len(short)} of {len(target.facts['row'])} calls end early, with the reason: {short}")
        target.release()


for flavour_name in FLAVOURS:
    every_call(flavour_name)


@test("a thread that waits for its vfork child is captured at once, whole", "S57")
def vfork_parent(t):
    target = t.spawn("blocked", call="vfork")
    tid = int(target.fact("row").split()[0])
    with t.undisturbed(target):
        dump = t.dump(target)
    equal((dump.threads[tid]["capture"], dump.threads[tid]["syscall"]["number"]), ("passive", 58), "the parent")
    t.expect_all_chains(target, dump)
    target.release()


@test("a sleep is not cut short by 20 dumps", "S10")
def heartbeat(t):
    target = t.spawn("heartbeat", seconds=3)
    for _ in range(20):
        t.dump(target)
    target.release()


@test("symbols=none: a raw capture is not a resolved one")
def raw_stage(t):
    target = t.spawn("threads", n=2, depth=3)
    raw = t.raw(target, "dump symbols=none")
    equal([record["type"] for record in raw.records if record["type"] in ("symbol", "name")], [], "names sent")
    check(raw.of("frame") and raw.of("stack"), "frames are sent all the same")
    dump = t.dump(target, "--symbols", "none", status=(0, 1))
    equal(dump.process["resolved"], False, "resolved")
    for tid in dump.threads:
        check(dump.frames(tid), f"thread {tid} has frames")
        check(not any(name for name in dump.functions(tid)), f"thread {tid} has names: {dump.functions(tid)}")
    equal(t.dump(target).process["resolved"], True, "resolved when names are asked for")
    target.release()


@test("raw facts are sent before any name is looked up", "S26")
def raw_first(t):
    target = t.spawn("threads", n=20, depth=5)
    kinds = [record["type"] for record in t.raw(target).records]
    equal(kinds[0], "hello", "first record")
    equal(kinds[-1], "end", "last record")
    captured = kinds.index("captured")
    for kind in ("process", "module", "frame", "stack", "thread"):
        check(kinds.index(kind) < captured, f"{kind} comes before captured")
        check(kind not in kinds[captured:], f"{kind} comes after captured")
    for kind in ("symbols", "symbol", "name", "verdict"):
        check(kind not in kinds[:captured], f"{kind} comes before captured")
    target.release()


@test("running threads are captured by one signal each, and run on")
def spinning(t):
    target = t.spawn("spin", n=2)
    with t.undisturbed(target):
        dump = t.dump(target)
    t.expect_all_chains(target, dump)
    for tid, chain in target.chains.items():
        equal(dump.threads[tid]["capture"], "signal" if "spinning_here" in chain else "passive", f"capture of {tid}")
    equal(dump.stats["signals_sent"], 2, "signals_sent")
    pause, longest = dump.stats["pause_nanos"], dump.stats["pause_nanos_max"]
    check(0 < longest <= pause <= 2 * longest, f"pause of two threads: sum {pause}, longest {longest}")
    check(longest < 1_000_000_000, f"a pause of {longest} ns is not a handler's")
    target.release()


@test("a running thread is not signalled twice within a second", "S07 S08")
def min_gap(t):
    target = t.spawn("spin", n=1)
    tid = next(tid for tid, chain in target.chains.items() if "spinning_here" in chain)
    begin = time.monotonic()
    first = t.dump(target)
    second = t.dump(target, status=1)
    if time.monotonic() - begin > 0.9:
        raise Skip("this machine is too slow for two dumps within a second")
    equal(first.threads[tid]["capture"], "signal", "first dump")
    equal((second.threads[tid]["capture"], second.threads[tid].get("reason"), second.stats["signals_sent"]),
          ("none", "signalled_recently", 0), "second dump")
    equal(second.stats["threads_dropped"], 1, "threads_dropped")
    equal(second.process["complete"], False, "a dropped thread makes the snapshot partial")
    time.sleep(1.1)
    equal(t.dump(target).threads[tid]["capture"], "signal", "a second later")
    target.release()


@test("PROBE_CAPTURE=passive and --capture passive signal nobody, and say so")
def passive_only(t):
    for env, option in (({"PROBE_CAPTURE": "passive"}, []), ({}, ["--capture", "passive"])):
        target = t.spawn("spin", n=1, env=env)
        tid = next(tid for tid, chain in target.chains.items() if "spinning_here" in chain)
        dump = t.dump(target, *option, status=1)
        equal((dump.threads[tid]["capture"], dump.threads[tid].get("reason")), ("none", "passive_only"), "the thread")
        equal((dump.stats["signals_sent"], dump.stats["threads_dropped"], dump.stats["threads_total"]), (0, 1, 2), "stats")
        equal(dump.process["complete"], False, "complete")
        target.release()


@test("a stack longer than the cap keeps both ends and marks the gap; the default cap is 256 KiB", "S88")
def deep(t):
    cap = 256 * 1024
    target = t.spawn("deep", depth=4000)
    tid = int(target.fact("deep"))
    dump = t.dump(target, status=1)
    thread = dump.threads[tid]
    check(thread["stack_bytes"] <= cap, f"{thread['stack_bytes']} bytes copied, cap {cap}")
    check(thread["stack_bytes"] > cap // 2, f"only {thread['stack_bytes']} bytes copied of a long stack, cap {cap}")
    equal(thread["truncated"], True, "truncated")
    equal(dump.process["complete"], False, "complete")
    own = own_functions(dump, tid, t.target_dir)
    equal(own[:3], ["sleeps_here", "chain_1", "t_chain"], "innermost functions")
    check(set(own[3:]) <= {"sinks", "deep_thread"}, f"functions further out: {sorted(set(own[3:]))}")
    target.release()


@test("PROBE_MAX_STACK sets the cap")
def max_stack(t):
    target = t.spawn("deep", depth=2000, env={"PROBE_MAX_STACK": "16384"})
    tid = int(target.fact("deep"))
    thread = t.dump(target, status=1).threads[tid]
    check(0 < thread["stack_bytes"] <= 16384, f"{thread['stack_bytes']} bytes copied, cap 16384")
    equal(thread["truncated"], True, "truncated")
    target.release()


@test("label and bad values of variables are in the report, not on the program's stderr")
def variables(t):
    target = t.spawn("threads", n=1, depth=1, env={"PROBE_LABEL": "unit test 7", "PROBE_MAX_STACK": "lots",
                                                   "PROBE_CAPTURE": "psychic"})
    dump = t.dump(target, status=(0, 1))
    equal(dump.process.get("label"), "unit test 7", "label")
    for name in ("PROBE_MAX_STACK", "PROBE_CAPTURE"):
        check(any(name in text for text in dump.process["why"]), f"{name} is not in why: {dump.process['why']}")
    check("unit test 7" in t.ctl("dump", target.pid).stdout.splitlines()[0], "the label is in line 1 of the text")
    target.release()
    equal(target.errors(), "", "stderr of the program")


@test("arguments are not in the report unless asked for")
def arguments(t):
    target = t.spawn("threads", n=1, depth=1)
    check("depth=1" not in t.ctl("dump", "-f", "json", target.pid).stdout, "an argument is in the report")
    check("depth=1" in t.dump(target, "--args").process["command"], "--args shows them")
    target.release()


def odd_stack(scenario, story, may_end_early, **parameters):
    @test(f"{scenario}: true frames, or an announced end", story)
    def run(t):
        target = t.spawn(scenario, **parameters)
        with t.undisturbed(target):
            for _ in range(10):
                dump = t.dump(target, status=(0, 1))
                short = t.expect_all_chains(target, dump, may_end_early)
        if short:
            print(f"# ends early: {[(target.chains[tid], dump.end(tid)) for tid in short]}")
        target.release()


odd_stack("hostile_stack", "S50", True)
odd_stack("debug_frame", "S90", True)
odd_stack("no_eh_frame_hdr", "S90", False)
odd_stack("raw_trampoline", "S90", False)


@test("a coroutine's frames are those of the coroutine", "S48")
def coroutine(t):
    target = t.spawn("coroutine")
    tid = next(tid for tid, chain in target.chains.items() if chain[0] == "sleeps_here")
    with t.undisturbed(target):
        dump = t.dump(target, status=(0, 1))
    own = own_functions(dump, tid, t.target_dir)
    wanted = target.chains[tid]
    check(own in ([], wanted) or own == wanted[: len(own)], f"seen {own}, wanted {wanted} or its beginning")
    if own != wanted:
        check(dump.end(tid) != "outermost" or dump.threads[tid].get("reason"), f"ends without a word: {dump.show(tid)}")
    target.release()


@test("generated code: its frames have no name and no module, and are not hidden", "S49")
def generated(t):
    target = t.spawn("generated")
    sleeper, spinner, page = int(target.fact("sleeper")), int(target.fact("spinner")), int(target.fact("generated"), 16)
    with t.undisturbed(target):
        dump = t.dump(target, status=(0, 1))
    for tid in (sleeper, spinner):
        inside = [frame for frame in dump.frames(tid) if page <= int(frame["pc"], 16) < page + 4096]
        equal(len(inside), 1, f"frames of thread {tid} in generated code: {dump.show(tid)}")
        equal((inside[0]["module"], inside[0].get("function")), (None, None), "module and function of that frame")
    equal(own_functions(dump, sleeper, t.target_dir)[:1], ["sleeps_here"], "innermost function")
    check(dump.stats["frames_unattributed"] >= 2, f"frames_unattributed {dump.stats['frames_unattributed']}")
    own = own_functions(dump, spinner, t.target_dir)
    check(own in ([], ["runs_generated"]), f"callers of generated code: {own}")
    target.release()


@test("two threads deadlocked over two mutexes: the verdict, the locks, the cycle")
def deadlock(t):
    target = t.spawn("deadlock2")
    target.await_blocked()
    flusher, compactor, writer = (int(target.fact(name)) for name in ("flusher", "compactor", "writer"))
    with t.undisturbed(target):
        dump = t.dump(target)
        text = t.ctl("dump", target.pid)
    t.expect_all_chains(target, dump)
    equal([sorted(cycle) for cycle in dump.process["cycles"]], [sorted([flusher, compactor])], "cycles")
    equal(dump.process["verdicts"][0]["kind"], "DEADLOCK", "verdict")
    locks = {lock["owner_tid"]: lock for lock in dump.process["locks"]}
    equal(sorted(locks), sorted([flusher, compactor]), "lock owners")
    equal(sorted(locks[flusher]["waiters"]), sorted([compactor, writer]), "waiters for the flusher's lock")
    equal(sorted(locks[compactor]["waiters"]), [flusher], "waiters for the compactor's lock")
    check(locks[flusher]["name"].endswith("mutex_a"), f"name of the lock: {locks[flusher]['name']}")
    waits = dump.threads[flusher]["wait"]
    equal((waits["kind"], waits["owner_tid"], waits["owner_status"]), ("mutex", compactor, "live"), "flusher waits")
    lines = text.stdout.strip().splitlines()
    equal(text.returncode, 0, "exit code")
    check(lines[0].startswith("DEADLOCK") and lines[-1].startswith("DEADLOCK"), f"first and last line: {lines[0]!r}")
    target.kill()


@test("without a deadlock there is no cycle and no verdict of one")
def no_deadlock(t):
    target = t.spawn("blocked", call="mutex")
    dump = t.dump(target)
    equal(dump.process["cycles"], [], "cycles")
    check(all(verdict["kind"] != "DEADLOCK" for verdict in dump.process["verdicts"]), "no deadlock is claimed")
    target.release()


@test("a stopped target is seen, and works on after it is continued", "S12")
def stop_and_continue(t):
    import signal
    target = t.spawn("threads", n=3, depth=3)
    os.kill(target.pid, signal.SIGSTOP)
    os.kill(target.pid, signal.SIGCONT)
    target.await_settled()
    t.expect_all_chains(target, t.dump(target))
    target.release()


if __name__ == "__main__":
    sys.exit(main())
