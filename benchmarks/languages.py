"""Speed of judging programs in each language: python benchmarks/languages.py [--before TREE] [--count 24] [--data DATA] [--out OUT.json]

For every installed language, COUNT different programs are built and run on two tests: as installed, after ``upsolve packages --prepare``
and, with --before, by an earlier source tree. These arms alternate, each in a separate process. For every language that has files to
prepare, the processor seconds of one build outside the sandbox are measured as well (minimum of three), which hardly depend on the load of
the machine.

With --data, which holds mxeval/ as its authors publish it, COUNT reference programs of each file of MBXP and multilingual HumanEval,
evenly spaced, are judged: the reference followed by its tests must exit with 0. Failures are listed by kind; some references are known to
fail their own tests.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from machine import machine

from upsolve.languages import SYSTEM_PATH, languages, preparable, prepare
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

HERE = Path(__file__).parent
SETTINGS = JudgeSettings(Limits(wall_seconds=60, cpu_seconds=10))
COMMENT = {"ada": "--", "fortran": "!", "haskell": "--", "lua": "--", "ocaml": "(* {} *)", "racket": ";"} | dict.fromkeys(
    ("bash", "perl", "python", "r", "ruby"), "#"
)
LARGE = "#include <bits/stdc++.h>\nusing namespace std;\nint main() { map<int, int> m; int a, b; cin >> a >> b; m[a] = b; cout << a + m[a]; }\n"
WEB = 'package main\n\nimport (\n\t"fmt"\n\t"net/http"\n)\n\nfunc main() {\n\tvar a, b int\n\tfmt.Scan(&a, &b)\n\tfmt.Println(a + b + http.StatusOK - 200)\n}\n'
CHILD = """
import json, sys, time
from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify import limits
from upsolve.verify.pool.pool import verify
name, codes = json.load(sys.stdin)
settings_type = getattr(limits, "JudgeSettings", None) or limits.Judging  # its name in earlier trees
settings = settings_type(limits.Limits(wall_seconds=60, cpu_seconds=10))
tests = tuple(TestCase(TestKind.STDIO, f"{a} {b}\\n", f"{a + b}\\n") for a, b in ((1, 2), (10, 20)))
pairs = [(Task("sum", "", tests), Attempt("sum", code, name)) for code in codes]
verify(pairs[:2], settings)
started = time.monotonic()
found = verify(pairs[2:], settings)
print(json.dumps([time.monotonic() - started, sum(v.status.value == "passed" for v in found)]))
"""


RECORD = """
import json, sys
from upsolve.languages import languages
one = languages()[sys.argv[1]]
print(json.dumps([one.file, dict(one.files), dict(one.environment), one.compile]))
"""


def programs():
    """Return a correct program by language, and two that import large libraries."""
    cases = json.loads((HERE.parent / "tests" / "verify" / "languages.json").read_text(encoding="utf-8"))
    programs_by_name = {name: (name, case["right"]) for name, case in cases.items()}
    return programs_by_name | {"cpp, bits/stdc++.h": ("cpp", LARGE), "go, net/http": ("go", WEB)}


def different(name, code, count):
    """Return copies of a program that differ in a comment."""
    sign = COMMENT.get(name, "//")
    after = [sign.format(k) if "{}" in sign else f"{sign} {k}" for k in range(count)]
    return [f"{code}\n{line}\n" for line in after]


def rate(name, codes, tree, packages):
    """Return attempts per second and the number that passed, judged by a source tree with a folder of prepared files."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "UPSOLVE_PACKAGES": str(packages)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps([name, codes]),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, passed = json.loads(done.stdout.splitlines()[-1])
    return round((len(codes) - 2) / seconds, 2), passed


def rates(count, before):
    """Return a row for each program: attempts per second in each arm."""
    rows = []
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as prepared:
        os.environ["UPSOLVE_PACKAGES"] = str(Path(prepared) / "python")
        for language in preparable():
            prepare(language)
        arms = {"before": (before, empty)} if before else {}
        arms |= {"now": (HERE.parent, empty), "now, prepared": (HERE.parent, os.environ["UPSOLVE_PACKAGES"])}
        for title, (name, code) in programs().items():
            if languages()[name].missing():
                continue
            codes = different(name, code, count + 2)
            part = codes if title not in ("go, net/http", "typescript") else codes[: max(6, count // 3)]
            rate_by_arm = {arm: rate(name, part, *where) for arm, where in arms.items()}
            assert all(passed == len(part) - 2 for _, passed in rate_by_arm.values()), (title, rate_by_arm)
            rows.append({"program": title, "judged": len(part) - 2} | {arm: speed for arm, (speed, _) in rate_by_arm.items()})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def build_seconds(name, code, tree, prepared):
    """Return the processor seconds of one build by a source tree's command, with a folder of prepared files or none."""
    record = subprocess.run(
        [sys.executable, "-c", RECORD, name],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    file, files, environment, words = json.loads(record.stdout)
    words = [word.replace("{prepared}", str(prepared)) for word in words if prepared or "{prepared}" not in word]
    seconds = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {**files, file: code}.items():
                (Path(folder) / path).write_text(text, encoding="utf-8")
            own = {key: value.replace("/tmp", folder) for key, value in environment.items()}
            before = os.times()
            subprocess.run(words, cwd=folder, env={"PATH": SYSTEM_PATH, "HOME": folder, **own}, check=True, capture_output=True)
            after = os.times()
            seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return round(min(seconds), 2)


def builds(before):
    """Return a row for each program of a language that has files to prepare: processor seconds of a build in each arm."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UPSOLVE_PACKAGES"] = folder
        ready = {language.name: prepare(language) for language in preparable()}
        for title, (name, code) in programs().items():
            if name not in ready:
                continue
            row = {"program": title} | ({"before": build_seconds(name, code, before, None)} if before else {})
            row |= {"now": build_seconds(name, code, HERE.parent, None)}
            rows.append(row | {"now, prepared": build_seconds(name, code, HERE.parent, ready[name])})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def references(file, count):
    """Return tasks with their reference programs, evenly spaced, by the language's name in the rows."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row.get("canonical_solution")]
    for row in rows[:: max(1, len(rows) // count)][:count]:
        task = Task(row["task_id"], "", (TestCase(TestKind.CODE, row["test"]),), row["entry_point"], language=row["language"])
        yield task, Attempt(row["task_id"], row["prompt"] + row["canonical_solution"], language=row["language"].lower())


def kind(verdict):
    """Return a short description of a failure."""
    return f"{verdict.status.value}: {verdict.error_message.strip().splitlines()[0][:90] if verdict.error_message else ''}"


def judged_references(data, count):
    """Judge the reference programs of every file."""
    rows = []
    for file in sorted(data.glob("mxeval/*/*.jsonl")):
        pairs = list(references(file, count))
        name = pairs[0][1].language if pairs else ""
        if name not in languages() or languages()[name].missing():
            continue
        started = time.monotonic()
        verdicts = verify(pairs, SETTINGS)
        seconds = time.monotonic() - started
        failed = Counter(kind(v) for v in verdicts if v.status is not Status.PASSED)
        row = {"file": f"{file.parent.name}/{file.name}", "language": name, "judged": len(pairs)}
        row |= {"passed": len(pairs) - sum(failed.values()), "attempts_per_second": round(len(pairs) / seconds, 1)}
        rows.append(row | {"failed": dict(failed.most_common(12))})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main():
    """Run the requested measurements and write the results; results of the other measurements in an earlier file are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "languages.json")
    options = parser.parse_args()
    results = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    results["machine"] = machine()
    if options.data:
        results["files"] = judged_references(options.data, options.count)
    else:
        results["build_seconds"] = builds(options.before)
        results["rates"] = rates(options.count, options.before) if options.count else results.get("rates", [])
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
