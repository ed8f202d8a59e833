"""Commands that are killed with SIGKILL in the middle go on, and end with what an uninterrupted one writes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow


def upsolve(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "upsolve", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def lines(place):
    return len(place.read_bytes().splitlines()) if place.is_file() else 0


def killed_after(place, count, words):
    """Kill a command and all of its processes once a file has some lines; it has to be at work then."""
    process, deadline = upsolve(*words), time.monotonic() + 120
    while lines(place) < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    assert process.poll() is None, f"the command ended before it was killed, with {lines(place)} lines"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert lines(place) >= count


def contents(place):
    """Return what a command wrote, without locks."""
    if place.is_file():
        return place.read_bytes()
    return {one.relative_to(place): one.read_bytes() for one in place.rglob("*") if one.is_file() and one.name != "lock"}


@pytest.mark.parametrize(
    ("words", "report", "count"),
    [
        pytest.param(("tests", "grow", "embedded", "OUT", "--inputs", 10), "suites.jsonl", 17, id="grow"),
        pytest.param(("tests", "shrink", "embedded", "OUT"), "suites.jsonl", 65, id="shrink"),
        pytest.param(("derive", "repair", "embedded", "OUT"), "suites.jsonl", 33, id="derive repair"),
        pytest.param(("derive", "test", "embedded", "OUT"), "suites.jsonl", 33, id="derive test"),
    ],
)
def test_a_killed_command_that_writes_an_archive(tmp_path, words, report, count):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    killed_after(killed / report, count, [killed if word == "OUT" else word for word in words])
    for out in (killed, whole):
        assert upsolve(*(out if word == "OUT" else word for word in words)).wait() == 0
    assert contents(killed) == contents(whole)


def test_a_killed_solve(tiny_model, tmp_path):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(
        "".join(
            json.dumps({"kind": "task", "task_id": f"t{number}", "prompt": f"Add {number}."}) + "\n" for number in range(150)
        )
    )
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    words = ["solve", tasks, "--model", tiny_model, "--samples", 3, "--set", "sample.max_tokens=24", "--out"]
    killed_after(killed, 66, [*words, killed])
    for out in (killed, whole):
        assert upsolve(*words, out).wait() == 0
    answers = [
        {row["task_id"]: row["code"] for row in map(json.loads, out.read_text().splitlines()[1:])} for out in (killed, whole)
    ]
    assert answers[0] == answers[1] and len(answers[0]) == 150
