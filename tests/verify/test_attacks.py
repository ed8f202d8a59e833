"""Every folder of tests/attacks holds an attempt that cheats, escapes or exhausts, and the verdict it must get."""

import tomllib
from pathlib import Path

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge import judge
from upsolve.verify.limits import Limits

ATTACKS = sorted(path for path in (Path(__file__).parents[1] / "attacks").iterdir() if path.is_dir())
TASK = Task("attack", "", (TestCase(TestKind.CALL, "f(20)", "6765"), TestCase(TestKind.CALL, "f(7)", "13")), "f")


@pytest.mark.parametrize("folder", ATTACKS, ids=lambda path: path.name)
def test_attack(folder):
    case = tomllib.loads((folder / "case.toml").read_text())
    before = set(Path("/tmp").iterdir())
    verdict = judge(TASK, Attempt("attack", (folder / "attempt.py").read_text()), Limits(wall_seconds=4, cpu_seconds=1))
    assert verdict.status.value in case["status"], (verdict.status, verdict.error_type, verdict.error_message)
    assert verdict.status is not Status.UNSCORED
    left = [path for path in set(Path("/tmp").iterdir()) - before if "attack" in path.name]
    assert left == []


def test_there_are_enough_attacks():
    assert len(ATTACKS) >= 25
