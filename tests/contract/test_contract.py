#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Promises that can be read off the built objects and the sources. Each check is also shown something bad."""

import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from probetest import Failed, Skip, check, equal, main, needs, test  # noqa: E402

MAX_GLIBC = (2, 17)
MAX_TEXT, MAX_STACK = 1024, 128


def output(*argv):
    result = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    if result.returncode:
        raise Failed(f"{' '.join(argv)}: {result.stderr.strip()}")
    return result.stdout


def allowed_imports():
    with open(os.path.join(HERE, "libprobe.imports"), encoding="utf-8") as file:
        return {line.strip() for line in file if line.strip() and not line.startswith("#")}


def library_problems(path):
    """Everything that is wrong with a library that is to be injected; words that a test can look for."""
    problems = []
    dynamic, segments = output("readelf", "-dW", path), output("readelf", "-lW", path)
    for line in output("nm", "-D", path).splitlines():
        kind, name = line.split()[-2:]
        plain = name.split("@")[0]
        version = re.search(r"@GLIBC_([0-9.]+)", name)
        if kind in "Uwv" and plain not in allowed_imports():
            problems.append(f"import: {name}")
        elif kind == "U":
            problems.append(f"import is not weak: {name}")
        elif kind not in "Uwv":
            problems.append(f"export: {name}")
        if version and tuple(int(n) for n in version.group(1).split(".")) > MAX_GLIBC:
            problems.append(f"too new: {name}")
    problems += [f"needed: {line.strip()}" for line in dynamic.splitlines() if "(NEEDED)" in line]
    problems += [f"run path: {line.strip()}" for line in dynamic.splitlines() if re.search(r"R(UN)?PATH", line)]
    if "TEXTREL" in dynamic:
        problems.append("text relocations")
    if not re.search(r"FLAGS.*(BIND_NOW|NOW)", dynamic):
        problems.append("not bound at load")
    if "NODELETE" not in dynamic:
        problems.append("can be unloaded under its own thread")
    if "GNU_RELRO" not in segments:
        problems.append("no RELRO")
    stack = re.search(r"GNU_STACK.*", segments)
    if not stack or re.search(r"\bR?WE\b", stack.group(0)):
        problems.append("executable stack")
    if re.search(r"^\s+TLS\s", segments, re.M):
        problems.append("thread-local segment")
    if re.search(r"DTPMOD|TLSDESC|TPOFF|DTPOFF", output("readelf", "-rW", path)):
        problems.append("thread-local relocation")
    if re.search(r"^\s+LOAD.*RWE", segments, re.M):
        problems.append("writable code")
    if "(FINI)" in dynamic or "(INIT)" in dynamic:
        problems.append("start files are linked in")
    constructors = re.search(r"INIT_ARRAYSZ\)\s+(\d+)", dynamic)
    if not constructors or int(constructors.group(1)) != 8:
        problems.append(f"constructors: {constructors.group(1) if constructors else 0} bytes of them, not one")
    if re.search(r"%fs:", output("objdump", "-d", path)):
        problems.append("uses %fs")
    return problems


def handler_problems(path, stack_usage=None, optimised=True):
    problems = []
    disassembly = output("objdump", "-dr", "--no-show-raw-insn", path)
    for line in output("nm", "-u", path).splitlines():
        name = line.split()[-1]
        if name not in ("libprobe_slots", "_GLOBAL_OFFSET_TABLE_"):
            problems.append(f"undefined symbol: {name}")
    for word, what in ((r"\bcall", "call"), (r"\b(syscall|sysenter|int)\b", "system call"), (r"%[fg]s\b", "segment"),
                       (r"%[xyz]mm", "vector register"), (r"\bf(ld|st|add|mul)", "x87")):
        lines = [line for line in disassembly.splitlines() if re.search(word, line.split("#")[0]) and "\t" in line]
        if lines:
            problems.append(f"{what}: {lines[0].strip()}")
    sizes = [int(line.split()[2], 16) for line in output("readelf", "-SW", path).replace("[ ", "[").splitlines()
             for line in [re.sub(r"^\s*\[\d+\]\s+(\S+)\s+\S+\s+\S+\s+\S+\s+(\S+).*", r"\1 text \2", line)]
             if line.startswith(".text")]
    if not sizes or (optimised and sum(sizes) > MAX_TEXT):
        problems.append(f"text: {sum(sizes)} bytes, at most {MAX_TEXT}")
    if stack_usage is not None:
        with open(stack_usage, encoding="utf-8") as file:
            for line in file:
                name, size, kind = line.rstrip("\n").split("\t")
                if int(size) > MAX_STACK or kind != "static":
                    problems.append(f"stack: {name} {size} {kind}")
    return problems


@test("libprobe.so: imports, exports, segments and relocations are those of a guest", "S18 S83 S84")
def library(t):
    equal(library_problems(t.so), [], "problems")


@test("the check of libprobe.so sees what is wrong with other libraries")
def library_negative(t):
    found = "\n".join(library_problems(os.path.join(t.target_dir, "lib_tls_0.so")) +
                      library_problems(os.path.join(t.target_dir, "lib_lockmalloc.so")))
    for words in ("thread-local segment", "thread-local relocation", "needed:", "import:", "export:", "not bound at load",
                  "can be unloaded", "start files"):
        check(words in found, f"not seen: {words}\n{found}")


def compile_handler(t, compiler, level, source, name):
    needs(compiler)
    built = os.path.join(os.fspath(t.work), name + ".o")
    flags = os.environ["PROBE_HANDLER_ARGS"].split()
    supported = [flag for flag in flags if subprocess.run(
        [compiler, "-Werror", flag, "-x", "c", "-c", "/dev/null", "-o", "/dev/null"], capture_output=True).returncode == 0]
    supported = [flag for flag in supported if not flag.startswith(("-Wframe", "-O"))]
    result = subprocess.run([compiler, "-std=gnu17", "-fPIC", *supported, level, "-fstack-usage", "-I", ROOT, "-c", source,
                             "-o", built], capture_output=True, text=True)
    if result.returncode:
        raise Failed(f"{compiler} {level}: {result.stderr}")
    return built, built[:-2] + ".su"


def handler_test(compiler, level):
    @test(f"the handler, {compiler} {level}: no call, no system call, no %fs, no vectors, one undefined symbol", "S23 S42")
    def run(t):
        source = os.path.join(ROOT, "agent", "backends", "signal_handler.c")
        built, usage = compile_handler(t, compiler, level, source, "handler")
        # -O0 keeps every local in the frame; the build never uses it (agent/backends/meson.build), so sizes do not count.
        optimised = level != "-O0"
        equal(handler_problems(built, usage if optimised else None, optimised), [], "problems")


for c in ("gcc", "clang"):
    for optimisation in ("-O0", "-O2"):
        handler_test(c, optimisation)


@test("the handler as it was built into libprobe.so", "S23 S42")
def built_handler(t):
    directory = os.fspath(t.work)
    subprocess.run(["ar", "x", os.environ["PROBE_HANDLER_LIB"]], cwd=directory, check=False, capture_output=True)
    objects = [name for name in os.listdir(directory) if name.endswith(".o")]
    if not objects:  # a thin archive: its members stay where they were built
        listed = output("ar", "t", os.environ["PROBE_HANDLER_LIB"]).split()
        base = os.path.dirname(os.environ["PROBE_HANDLER_LIB"])
        objects = [name if os.path.isabs(name) else os.path.join(base, name) for name in listed]
    equal(len(objects), 1, f"objects in the handler's library: {objects}")
    equal(handler_problems(os.path.join(directory, objects[0])), [], "problems")


@test("the check of the handler sees every fault of a bad one")
def handler_negative(t):
    built, usage = compile_handler(t, "gcc", "-O2", os.path.join(HERE, "fixtures", "bad_handler.c"), "bad")
    found = "\n".join(handler_problems(built, usage))
    for words in ("undefined symbol: somewhere_else", "call:", "system call:", "segment:", "stack:"):
        check(words in found, f"not seen: {words}\n{found}")
    other = os.path.join(os.fspath(t.work), "vectors.o")
    subprocess.run(["gcc", "-O2", "-DVECTORS", "-c", os.path.join(HERE, "fixtures", "bad_handler.c"), "-o", other], check=True)
    check("vector register" in "\n".join(handler_problems(other)), "vector registers are not seen")


def has_handler_name(path):
    return " libprobe_capture_signal" in output("nm", path)


@test("whoever meets the signal handler in a stack is told whose it is", "S58")
def handler_name(t):
    check(has_handler_name(t.so), "libprobe.so does not name it")
    stripped = os.path.join(os.fspath(t.work), "stripped.so")
    subprocess.run(["strip", "-o", stripped, t.so], check=True)
    check(not has_handler_name(stripped), "its absence is not seen")


def stories_of_tests():
    """Test file -> the stories that its tests name."""
    result = {}
    for path in tracked():
        match = re.match(r"tests/(?:integration|contract)/(?:cli/)?test_(\w+)\.py$", path)
        if match:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                quoted = re.findall(r'"((?:S\d\d ?)+)"', file.read())
            result[match.group(1)] = {story for stories in quoted for story in stories.split()}
    return result


def table_problems(text, tested):
    """Stories that tests/README.md places where no test names them, and the other way round."""
    rows = re.findall(r"^\| ((?:S\d\d ?)+)[^|]*\| ([^|]*)\|", text, re.M)
    placed = {(story, name) for stories, where in rows for story in stories.split()
              for name in re.findall(r"`(\w+)`", where) if name in tested}
    named = {(story, name) for name, stories in tested.items() for story in stories}
    return sorted(f"{story} is not in {name}" for story, name in placed - named) + sorted(
        f"{story} in {name} is not listed" for story, name in named - placed)


@test("the table of stories in tests/README.md says where each is tested")
def story_table(t):
    tested = stories_of_tests()
    check(len(tested) > 8, f"only {sorted(tested)} found")
    with open(os.path.join(ROOT, "tests", "README.md"), encoding="utf-8") as file:
        equal(table_problems(file.read(), tested), [], "differences")
    equal(table_problems("| S01 S02 | `a` | |\n", {"a": set("S02,S03".split(","))}), ["S01 is not in a", "S03 in a is not listed"],
          "a wrong table")


def layers(root):
    return subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "check-layers"), root], capture_output=True,
                          text=True)


@test("folders include only what their layer may")
def layer_check(t):
    result = layers(ROOT)
    equal((result.returncode, result.stdout), (0, ""), "check-layers")


@test("the layer check sees each forbidden include, and an empty tree")
def layer_negative(t):
    result = layers(os.path.join(HERE, "fixtures", "layers"))
    equal(result.returncode, 1, "exit status")
    for words in ("unwind/bad.c:3: may not include stdio.h", "unwind/bad.c:5: may not include agent/sys.h",
                  "unwind/bad.c:6: may not include bare.h", "agent/backends/bad.c:3: may not include agent/capture.h",
                  "cli/bad.c:3: may not include agent/server.h"):
        check(words in result.stdout, f"not seen: {words}\n{result.stdout}")
    equal(layers(os.fspath(t.work)).returncode, 2, "exit status for a tree without sources")


ARRAYS = {"captures": "capture", "reasons": "reason", "trusts": "trust", "ends": "end", "module_symbol_words": "symbols"}


def words_of(source):
    """Every enumeration of the wire with its words, as words.c has them."""
    words = {}
    for name, field in ARRAYS.items():
        table = re.search(rf"\b{name}\[\w+\] = {{(.*?)\n}};", source, re.S).group(1)
        words[field] = {w for w in re.findall(r'\[\w+\] = {?"(\w*)"', table) if w}
    return words


def enums_of(schema, found=None):
    """The enumerations of a JSON Schema by the name of their property, merged."""
    found = {} if found is None else found
    if isinstance(schema, dict):
        for name, value in schema.get("properties", {}).items():
            if "enum" in value:
                found.setdefault(name, set()).update(value["enum"])
        for value in schema.values():
            enums_of(value, found)
    elif isinstance(schema, list):
        for value in schema:
            enums_of(value, found)
    return found


def word_problems(words, schema, protocol):
    documented = set(re.findall(r"`(\w+)`", protocol))
    enums = enums_of(schema)
    return [f"{field}: {sorted(words[field] ^ (enums.get(field, set()) - {'unknown'}))}" for field in words
            if words[field] ^ (enums.get(field, set()) - {"unknown"})] + \
        [f"not documented: {sorted(words[field] - documented)}" for field in words if words[field] - documented]


def report_file(name):
    with open(os.path.join(ROOT, "agent", "report", name), encoding="utf-8") as file:
        return file.read()


@test("code, schemas and PROTOCOL.md have the same words")
def words(t):
    in_code, protocol = words_of(report_file("words.c")), report_file("PROTOCOL.md")
    check(all(in_code.values()), f"no words found: {in_code}")
    for name in ("wire.schema.json", "probe-report.schema.json"):
        equal(word_problems(in_code, json.loads(report_file(name)), protocol), [], name)


@test("the check of the words sees one that is missing")
def words_negative(t):
    in_code, protocol = words_of(report_file("words.c")), report_file("PROTOCOL.md")
    schema = json.loads(report_file("wire.schema.json"))
    in_code["reason"].add("new_reason")
    check(len(word_problems(in_code, schema, protocol)) == 2, "a new word was accepted")


@test("every error code that the agent sends is documented")
def error_codes(t):
    with open(os.path.join(ROOT, "agent", "server.c"), encoding="utf-8") as file:
        codes = set(re.findall(r'refuse\(\w+, \w+, "(\w+)"', file.read()))
    check(len(codes) >= 3, f"found only {codes}")
    equal(sorted(c for c in codes if f"| `{c}` |" not in report_file("PROTOCOL.md")), [], "codes")


def tracked():
    """The files of the repository; of an export without .git: all but build directories."""
    result = subprocess.run(["git", "-C", ROOT, "-c", "safe.directory=*", "ls-files", "-z"], capture_output=True)
    if result.returncode == 0 and result.stdout:
        names = [name.decode() for name in result.stdout.split(b"\0") if name]
    else:
        names = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [name for name in folders if not name.startswith((".git", "build")) and name != "__pycache__"]
            names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return [name for name in names if os.path.isfile(os.path.join(ROOT, name))]


def head(path, size=4096):
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read(size)


SOURCE = (".c", ".h", ".cpp", ".S", ".py", ".sh", ".build")


@test("every source file names its licence in its first three lines")
def licences(t):
    missing, seen = [], 0
    for path in tracked():
        text = head(path)
        if not path.endswith(SOURCE) and not text.startswith(b"#!"):
            continue
        if path.endswith("meson.build"):
            continue  # build descriptions carry none; COPYING covers them
        seen += 1
        if b"SPDX-License-Identifier: LGPL-2.1-or-later" not in b"\n".join(text.splitlines()[:3]):
            missing.append(path)
    check(seen > 50, f"only {seen} source files found")
    equal(missing, [], "files without the line")


@test("no path of somebody's machine is in the tree")
def machine_paths(t):
    # Assembled here so that this file does not find itself.
    pattern = re.compile("|".join(("/ho" + r"me/[a-z0-9_-]+/", "/Us" + r"ers/[A-Za-z]", "/ro" + "ot/", "/tmp/w" + "t/",
                                   "/wo" + "rk/[a-z]")).encode())
    found = []
    for path in tracked():
        for number, line in enumerate(head(path, 1 << 22).splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path}:{number}: {line[:100].decode(errors='replace')}")
    equal(found, [], "lines with such a path")


@test("C sources have the format of .clang-format")
def formatting(t):
    result = subprocess.run([os.path.join(ROOT, "scripts", "check-format")], capture_output=True, text=True)
    if result.returncode == 77:
        raise Skip(result.stdout.strip())
    equal((result.returncode, result.stdout), (0, ""), "check-format")


@test("shell scripts pass shellcheck")
def shell(t):
    needs("shellcheck")
    scripts = [path for path in tracked() if re.match(rb"#!.*\b(ba)?sh\b", head(path, 100)) or path.endswith(".sh")]
    check(len(scripts) >= 3, f"only {len(scripts)} shell scripts found")
    # SC2119: a function with optional arguments that is called without.
    result = subprocess.run(["shellcheck", "-x", "-P", "SCRIPTDIR", "-e", "SC2119", *scripts], capture_output=True, text=True, cwd=ROOT)
    equal(result.stdout, "", "shellcheck")


if __name__ == "__main__":
    sys.exit(main())
