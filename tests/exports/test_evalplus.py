"""The same samples judged by EvalPlus's own code and by upsolve, sample by sample; skipped where evalplus is not installed."""

import json
import sys
from pathlib import Path

import pytest

from upsolve.archive.store import Archive
from upsolve.exports.exporting import export_archive
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Status, Task

PROBLEMS = [  # EvalPlus turns the lists of Mbpp/2 into tuples, by its number
    {"task_id": "Mbpp/3", "entry_point": "f", "canonical_solution": "def f(x):\n    return x + 1\n", "atol": 0},
    {"task_id": "Mbpp/6", "entry_point": "half", "canonical_solution": "def half(x):\n    return x / 3\n", "atol": 0},
    {"task_id": "Mbpp/2", "entry_point": "pair", "canonical_solution": "def pair(t):\n    return (t[1], t[0])\n", "atol": 0},
]
INPUTS = {
    "Mbpp/3": ([[1], [2]], [[-7], [10**20]], "assert f(1) == 2"),
    "Mbpp/6": ([[1]], [[2], [10]], "assert half(1) == 1 / 3"),
    "Mbpp/2": ([[[1, 2]]], [[[3, 4]], [["a", None]]], "assert pair((1, 2)) == (2, 1)"),
}
SAMPLES = {
    "Mbpp/3": [
        "def f(x):\n    return x + 1",
        "def f(x):\n    return abs(x) + 1",
        "def f(x):\n    return 2",
        "def g(x): pass",
        "def f(x",
    ],
    "Mbpp/6": [
        "def half(x):\n    return x * (1 / 3)",
        "def half(x):\n    return round(x / 3, 3)",
        "def half(x):\n    while x: pass",
    ],
    "Mbpp/2": [
        "def pair(t):\n    return t[::-1]",
        "def pair(t):\n    return [t[1], t[0]]",
        "import os\ndef pair(t):\n    os._exit(0)",
    ],
}
PASS = {"Mbpp/3": [True, False, False, False, False], "Mbpp/6": [True, False, False], "Mbpp/2": [True, False, False]}


@pytest.fixture
def agreement(monkeypatch):
    pytest.importorskip("evalplus.evaluate")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import evalplus_agreement

    yield evalplus_agreement
    sys.modules.pop("evalplus_agreement")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_sample_has_the_outcome_that_evalplus_gives_it(agreement, tmp_path):
    rows = [
        row | {"prompt": '"""Do it."""\n', "contract": "", "base_input": base, "plus_input": plus, "assertion": shown}
        for row in PROBLEMS
        for base, plus, shown in [INPUTS[row["task_id"]]]
    ]
    (tmp_path / "MbppPlus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    archive, plus = Archive.create(tmp_path / "samples"), Archive.create(tmp_path / "plus")
    tasks = [Task(f"mbpp/{name[5:]}", "Do it.", source="mbpp") for name in SAMPLES]
    archive.append(
        tasks=tasks, attempts=[Attempt(task.task_id, code) for task in tasks for code in SAMPLES[f"Mbpp/{task.task_id[5:]}"]]
    )
    ingest(plus, "evalplus", tmp_path / "MbppPlus.jsonl")
    export_archive(archive, tmp_path / "samples.jsonl", "evalplus")
    theirs = agreement.evalplus_outcomes(tmp_path / "MbppPlus.jsonl", tmp_path / "samples.jsonl", tmp_path)
    ours = agreement.upsolve_outcomes(plus.tasks(), [(name, code) for name, code, _, _ in theirs])
    assert [code for _, code, _, _ in theirs] == [code for codes in SAMPLES.values() for code in codes]
    assert [passed for *_, passed in theirs] == [passed for outcomes in PASS.values() for passed in outcomes]
    assert [verdict.status is Status.PASSED for verdict in ours] == [passed for *_, passed in theirs]
    base = {(name, code) for name, code, passed, _ in theirs if passed}
    assert ("Mbpp/3", SAMPLES["Mbpp/3"][1]) in base, "passes the tests of MBPP, and not those of MBPP+"
