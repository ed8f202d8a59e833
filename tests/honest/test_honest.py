# pyright: basic
"""Correct programs in many styles pass in every mode of the judge."""

import subprocess
import sys

import pytest
from honest.programs import MODES, programs

from upsolve.types import Status, TestKind
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

SETTINGS = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5), workers=2)
UNSUPPORTED = {
    (
        "stop_iteration_from_next",
        "across",
    ): "a StopIteration that leaves a function is a RuntimeError across processes, as PEP 479 has it",
}
"""Programs that do not pass, by name and mode; docs/threat-model.md says so."""
STACK = "ulimit -s 524288 2>/dev/null"
"""Deep recursion needs more than the 8 MB of most shells, as contest sites and the judge give it."""
ALL = programs()


@pytest.fixture(scope="module")
def verdicts():
    """Verdicts of all programs, judged in one batch, by name and mode."""
    return {
        (one.name, one.mode): verdict for one, verdict in zip(ALL, verify([one.pair for one in ALL], SETTINGS), strict=True)
    }


@pytest.mark.parametrize("mode", ["call", "across", "beside", "names", "stdio"])
def test_honest_programs_pass(verdicts, mode):
    failed = {
        name: f"{verdict.status} {verdict.error_type}: {verdict.error_message[:200]}"
        for (name, settings), verdict in verdicts.items()
        if settings == mode and verdict.status is not Status.PASSED and (name, settings) not in UNSUPPORTED
    }
    assert failed == {}
    assert all(verdict.status is not Status.PASSED for key, verdict in verdicts.items() if key in UNSUPPORTED)


def test_each_is_judged_as_its_mode_says(verdicts):
    wanted = {"across": "across", "beside": "in_process"}
    for one in ALL:
        if one.mode in wanted:
            label = verdicts[one.name, one.mode].isolation.rpartition(",")[2]
            assert label == wanted[one.mode], one.name


def test_other_names_and_methods_of_solution_need_not_the_attempts_process(verdicts):
    across = ("another_name_for_the_function", "another_name_in_a_loop", "methods_of_solution", "solution_that_keeps_a_state")
    assert {verdicts[name, "names"].isolation.rpartition(",")[2] for name in across} == {"across"}


def test_there_are_enough():
    assert len({one.name for one in ALL}) >= 300
    assert {one.mode for one in ALL} == {mode for modes in MODES.values() for mode in modes}


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in ALL if one.mode != "call"], ids=lambda one: f"{one.name}/{one.mode}")
def test_the_interpreter_itself_agrees(one, tmp_path):
    """A program on which the judge and ``python main.py`` differ would be no honest one."""
    script = tmp_path / "main.py"
    if one.mode == "stdio":
        script.write_text(one.code, encoding="utf-8")
        for test in one.tests:
            given = tmp_path / "input"  # a file: a few programs map or rewind their standard input
            given.write_text(test.input, encoding="utf-8")
            with given.open("rb") as stdin:
                done = subprocess.run(
                    ["sh", "-c", f'{STACK}; exec "$@"', "sh", sys.executable, "-W", "ignore", script],
                    stdin=stdin,
                    capture_output=True,
                    text=True,
                    cwd=tmp_path,
                    check=False,
                )
            assert (done.returncode, done.stdout.rstrip("\n")) == (0, test.expected.rstrip("\n")), done.stderr
        return
    tests = [test.input if test.kind is TestKind.CODE else f"assert {test.input} == {test.expected}" for test in one.tests]
    name = "__name__ = 'attempt'; import sys; sys.modules[__name__] = sys.modules['__main__']\n"
    code = one.code if "from __future__" in one.code else name + one.setup + "\n" + one.code
    script.write_text("\n".join([code, *tests]), encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
