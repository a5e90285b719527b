#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The harness itself: what it is there to notice, it notices."""

import copy
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from probetest import Dump, Failed, check, equal, expect_chain, main, test, wait_until  # noqa: E402

SUMMARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "test-summary")


def refused(what, words, action):
    try:
        action()
    except Failed as reason:
        check(words in str(reason), f"{what}: refused for another reason: {reason}")
        return
    raise Failed(f"{what}: not noticed")


def changed(dump, change):
    report = copy.deepcopy(dump.report)
    change(report["processes"][0])
    return Dump(json.dumps(report), dump.status, dump.errors)


@test("a stack with a frame too few, too many, renamed or out of order is refused, and so is one that ends early")
def false_stacks(t):
    target = t.spawn("threads", n=1, depth=4)
    dump = t.dump(target)
    tid, chain = next((tid, chain) for tid, chain in target.chains.items() if chain[0] == "parked_here")
    stack = dump.threads[tid]["stack"]
    at = next(i for i, name in enumerate(dump.functions(tid)) if name == "chain_3")
    check(expect_chain(dump, tid, chain, t.target_dir), "the true stack is accepted")

    def edit(change):
        return lambda: expect_chain(changed(dump, lambda p: change(p["stacks"][stack])), tid, chain, t.target_dir, True)

    refused("a frame is missing", "wanted", edit(lambda frames: frames.pop(at)))
    refused("a frame is there twice", "wanted", edit(lambda frames: frames.insert(at, frames[at])))
    refused("a frame has another name", "wanted", edit(lambda frames: frames[at].update(function="main")))
    refused("a frame has no name", "wanted", edit(lambda frames: frames[at].pop("function")))
    refused("two frames are exchanged", "wanted",
            edit(lambda frames: frames.__setitem__(slice(at, at + 2), [frames[at + 1], frames[at]])))
    refused("the outer half is missing without a word", "wanted", edit(lambda frames: frames.__delitem__(slice(at, None))))
    refused("the thread is missing", "missing from the dump",
            lambda: expect_chain(changed(dump, lambda p: p["threads"].clear()), tid, chain, t.target_dir))

    def cut(process):
        del process["stacks"][stack][at:]
        process["stack_ends"][stack]["end"] = "register_unknown"

    early = changed(dump, cut)
    check(not expect_chain(early, tid, chain, t.target_dir, may_end_early=True), "an announced end is told apart")
    refused("an announced end where none is allowed", "wanted", lambda: expect_chain(early, tid, chain, t.target_dir))
    target.release()


@test("a thread too few or too many in the dump is refused")
def false_threads(t):
    target = t.spawn("threads", n=2, depth=1)
    dump = t.dump(target)
    refused("a thread is missing", "threads in the dump",
            lambda: t.expect_all_chains(target, changed(dump, lambda p: p["threads"].pop())))
    refused("a thread is invented", "threads in the dump",
            lambda: t.expect_all_chains(target, changed(dump, lambda p: p["threads"].append({**p["threads"][0], "tid": 1}))))
    target.release()


@test("a descriptor that appears, a mask that changes, a death: noticed")
def disturbances(t):
    shell = t.program(["bash", "-c", "read x; exec 9</dev/null; echo opened; read x; trap '' USR2; echo trapped; read x"],
                      probe=False)
    shell.await_blocked()

    def provoke(answer):
        with t.undisturbed(shell):
            shell.send()
            equal(shell.line(), answer, "the shell's answer")

    refused("a new descriptor", "descriptors of the program", lambda: provoke("opened"))
    refused("an ignored signal", "signal masks", lambda: provoke("trapped"))

    def kill():
        with t.undisturbed(shell):
            shell.kill()

    refused("a death", "died", kill)


@test("a target that fails its check, or hangs, is not called released")
def bad_targets(t):
    disturbed = t.spawn("blocked", probe=False, call="epoll", disturb=1)
    refused("a disturbed target", "epoll returned", disturbed.release)
    hung = t.spawn("deadlock2", probe=False)
    refused("a target that does not end", "did not end within", lambda: hung.release(deadline=1))


@test("what a test leaves running is killed with it")
def left_over(t):
    script = ("import os,sys; sys.path.insert(0, os.path.join(os.path.dirname(sys.argv[1]), '..', 'support'))\n"
              "import probetest as p\n"
              "t = p.Context('x'); g = t.program(['sleep','1000'], probe=False); print(g.pid, t.work, flush=True)\n"
              "sys.stdin.readline(); os._exit(1)")
    outer = subprocess.Popen([sys.executable, "-c", script, os.path.abspath(__file__)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    pid, work = outer.stdout.readline().split()
    outer.communicate("\n")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split(")")[1][:3],
               "the left-over program ends with its test", 10)
    subprocess.run(["rm", "-rf", work], check=True)


def summary(t, tests, status=0):
    path = os.path.join(os.fspath(t.work), "log.json")
    with open(path, "w", encoding="utf-8") as file:
        for name, result, stdout in tests:
            file.write(json.dumps({"name": name, "result": result, "stdout": stdout, "stderr": "", "returncode": 0}) + "\n")
    result = subprocess.run([sys.executable, SUMMARY, path, str(status)], capture_output=True, text=True)
    return result.stdout.splitlines()[-1], result.returncode


@test("the last line of scripts/test counts cases, crashes, time-outs, missing cases, and nothing at all")
def last_line(t):
    good = ("a", "OK", "1..3\nok 1 - x\nok 2 - y # SKIP no z\nok - w\n")
    rows = [
        ([good], 0, ("2 passed, 0 failed, 1 skipped", 0)),
        ([good, ("b", "FAIL", "1..2\nok 1 - x\nnot ok 2 - y\n# why\n")], 1, ("3 passed, 1 failed, 1 skipped", 1)),
        ([good, ("b", "ERROR", "1..5\nok 1 - x\n")], 1, ("3 passed, 1 failed, 1 skipped", 1)),
        ([good, ("b", "TIMEOUT", "")], 1, ("2 passed, 1 failed, 1 skipped", 1)),
        ([good, ("b", "OK", "1..3\nok 1 - x\n")], 0, ("3 passed, 1 failed, 1 skipped", 1)),
        ([good, ("plain", "OK", "hello\n"), ("plain2", "FAIL", "oh\n"), ("plain3", "SKIP", "")], 1,
         ("3 passed, 1 failed, 2 skipped", 1)),
        ([good], 1, ("2 passed, 1 failed, 1 skipped", 1)),
        ([("s", "SKIP", "1..1\nok 1 - x # SKIP no\n")], 0, ("0 passed, 0 failed, 1 skipped", 1)),
        ([], 0, ("0 passed, 0 failed, 0 skipped", 1)),
    ]
    for tests, status, wanted in rows:
        equal(summary(t, tests, status), wanted, f"summary of {tests}")


if __name__ == "__main__":
    sys.exit(main())
