"""The files of examples/, run with a random model of two layers."""

import json
import math
import sys
from pathlib import Path

import pytest

from upsolve.config import SampleConfig

EXAMPLES = Path(__file__).parents[1] / "examples"
FEW = SampleConfig(samples=1, temperature=1.0, top_p=1.0, max_tokens=8)
WORDS = 258
"""Vocabulary of the model: 256 bytes, the end of the text and the code fence."""


@pytest.fixture
def rl_loop(monkeypatch):
    """The module of examples/rl_loop.py, with few tasks in a step."""
    monkeypatch.syspath_prepend(EXAMPLES)
    import rl_loop

    monkeypatch.setattr(rl_loop, "TASKS_PER_STEP", 2)
    yield rl_loop
    del sys.modules["rl_loop"]


def test_the_loop_makes_held_out_passed_attempts_likelier(rl_loop, tiny_model):
    before, *steps, after = rl_loop.main(tiny_model, 3, lr=1e-2, test_tasks=6, sampling=FEW)
    assert before["passed_logp"] == pytest.approx(-math.log(WORDS), abs=0.05)  # a random model holds all tokens equally likely
    assert [row["step"] for row in steps] == [1, 2, 3] and all(0 < row["passed"] < 1 for row in steps)
    assert after["passed_logp"] > before["passed_logp"] + 0.5


def test_the_loop_can_be_read_in_ten_minutes():
    assert len((EXAMPLES / "rl_loop.py").read_text().splitlines()) <= 200


def test_the_notebook_runs_and_is_stored_without_outputs(rl_loop, tiny_model, monkeypatch):
    import matplotlib as mpl

    mpl.use("agg")
    monkeypatch.setattr(rl_loop, "SAMPLING", FEW)
    cells = [cell for cell in json.loads((EXAMPLES / "quickstart.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    settings, *rest = ["".join(cell["source"]) for cell in cells]
    names = {}
    exec(settings, names)
    assert {*names} - {"__builtins__"} == {"MODEL", "STEPS", "TEST_TASKS"}
    names |= {"MODEL": tiny_model, "STEPS": 1, "TEST_TASKS": 6}
    for source in rest:
        exec(source, names)
    assert len(names["losses"]) == 1 and len(names["figure"].axes) == 3
    mpl.pyplot.close("all")
