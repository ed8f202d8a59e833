"""Courses of nbgrader: exercises with their tests, students' programs, and the outcomes of the cells that graded them."""

import json

import pytest

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.benchmarks.nbgrader import read
from upsolve.importers.door import map_file, reading_of
from upsolve.importers.ingest import ingest
from upsolve.importers.rows import BadRow
from upsolve.types import Attempt, Status, Task, Verdict
from upsolve.verify.pool.pool import verify

DOUBLE = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n"
STUB = "def double(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()\n"
TEST = "assert double(2) == 4\n### BEGIN HIDDEN TESTS\nassert double(5) == 10\n### END HIDDEN TESTS\n"


def cell(text, grade_id="", *, kind="code", solution=False, grade=False, error="", ran=True):
    known = {"nbgrader": {"grade_id": grade_id, "solution": solution, "grade": grade, "locked": grade}} if grade_id else {}
    one = {"cell_type": kind, "source": text.splitlines(keepends=True), "metadata": known}
    outputs = [{"output_type": "error", "ename": error, "evalue": "", "traceback": []}] if error else []
    return {**one, "outputs": outputs, "execution_count": 1 if ran else None} if kind == "code" else one


def exercise(code, *, error="", ran=True, test=TEST):
    return [cell(code, "double", solution=True), cell(test, "check", grade=True, error=error, ran=ran)]


def course(folder, notebooks):
    for name, cells in notebooks.items():
        file = folder / f"{name}.ipynb"
        file.parent.mkdir(parents=True, exist_ok=True)
        notebook = {"cells": cells, "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4, "nbformat_minor": 5}
        file.write_text(json.dumps(notebook))
    return folder


TEXT = cell("Double a number.", kind="markdown")
GIVEN = {"source/ps1/one": [TEXT, *exercise(DOUBLE)], "release/ps1/one": [TEXT, *exercise(STUB, test="assert double(2) == 4")]}


def parts(folder):
    rows = [*read(folder)]
    attempts = {row.author: row for row in rows if isinstance(row, Attempt)}
    verdicts = {row.attempt_id: row for row in rows if isinstance(row, Verdict)}
    outcomes = {name: verdicts[attempt.attempt_id] for name, attempt in attempts.items()}
    return [row for row in rows if isinstance(row, Task)], attempts, outcomes, [row for row in rows if isinstance(row, BadRow)]


def test_exercises_are_tasks_and_students_cells_attempts_with_their_outcomes(tmp_path):
    copies = {
        "autograded/ann/ps1/one": [TEXT, *exercise("def double(x):\n    return x + x\n")],
        "submitted/ann/ps1/one": [TEXT, *exercise("def double(x):\n    return x + x\n", ran=False)],
        "autograded/bob/ps1/one": [TEXT, *exercise("def double(x):\n    return x + 2\n", error="AssertionError")],
        "autograded/cleo/ps1/one": [TEXT, *exercise(STUB, error="NotImplementedError")],
        "autograded/dan/ps1/one": [TEXT, *exercise("def double(x):\n    while True: pass\n", error="CellTimeoutError")],
        "autograded/eve/ps1/one": [TEXT, *exercise("def double(x): return x * 2\n", ran=False)],
        "submitted/finn/ps1/one": [TEXT, *exercise("def double(x): return x*2\n")],
    }
    (task,), attempts, outcomes, bad = parts(course(tmp_path, GIVEN | copies))
    assert (task.task_id, task.official, task.reference) == (
        "nbgrader/ps1/one/double",
        True,
        "def double(x):\n    return 2 * x\n",
    )
    assert task.prompt == f"Double a number.\n\nWrite the code of this cell, and what it needs:\n\n```python\n{STUB}```"
    assert [(test.input, test.hidden) for test in task.tests] == [(TEST, True)]
    assert {name: verdict.status for name, verdict in outcomes.items()} == {
        "ann": Status.PASSED, "bob": Status.FAILED, "cleo": Status.RUNTIME_ERROR, "dan": Status.TIMEOUT, "eve": Status.UNSCORED, "finn": Status.UNSCORED,
    }  # fmt: skip
    assert (outcomes["bob"].passed, outcomes["bob"].total, outcomes["ann"].passed) == (0, 1, 1)
    assert json.loads(attempts["finn"].extra) == {"stage": "submitted"} and not bad
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "nbgrader", tmp_path).bad == 0
    known = [name for name in attempts if name not in ("dan", "eve", "finn")]
    judged = verify([(task, attempts[name]) for name in known])
    assert [verdict.status for verdict in judged] == [outcomes[name].status for name in known]


def test_a_program_has_the_earlier_cells_that_it_needs(tmp_path):
    cells = [
        cell('NAME = "Ann"'),
        cell("%matplotlib inline\nimport math\n!pip install x\nlimits = {}"),
        cell("limits['top'] = 3"),
        cell("unused = 1\nprint(unused)"),
        cell("broken = limits['none']", error="KeyError"),
        cell("%%bash\nls"),
        cell("def half(x):\n    return math.floor(x / 2)", "half", solution=True),
        cell("assert half(2) == 1", "check_half", grade=True),
        cell("half(2)"),
        cell("if True:\n    scale = 2"),
        *exercise("def double(x):\n    return min(half(4 * x * scale) // 2, limits['top'] + 99)"),
        cell("limits.clear()"),
    ]
    tasks, attempts, _, _ = parts(course(tmp_path, {"autograded/ann/ps1/one": cells}))
    assert [task.task_id for task in tasks] == ["nbgrader/ps1/one/half", "nbgrader/ps1/one/double"]
    assert attempts["ann"].code == (
        "# %matplotlib inline\nimport math\n# !pip install x\nlimits = {}\n\nlimits['top'] = 3\n\n"
        "def half(x):\n    return math.floor(x / 2)\n\nif True:\n    scale = 2\n\n"
        "def double(x):\n    return min(half(4 * x * scale) // 2, limits['top'] + 99)\n"
    )
    assert verify([(tasks[1], attempts["ann"])])[0].status is Status.PASSED


def test_packages_of_programs_and_tests_are_required(tmp_path, monkeypatch):
    missing = "upsolve.importers.benchmarks.nbgrader.missing_packages"
    monkeypatch.setattr(missing, lambda names: [name for name in names if name != "numpy"])
    numbers = [cell("import numpy as np"), *exercise("def double(x):\n    return int(np.add(x, x))")]
    odd = [cell("import not_a_package as p"), *exercise("def double(x):\n    return p.add(x, x)")]
    copies = {"autograded/ann/ps1/one": numbers, "autograded/bob/ps1/one": odd}
    (task,), _, _, _ = parts(course(tmp_path / "a", GIVEN | copies))
    assert task.requires == ("numpy",)
    tested = {name: [*exercise("def double(x): return 2 * x", test="import not_a_package")] for name in copies}
    (task,), _, _, _ = parts(course(tmp_path / "b", tested))
    assert task.requires == ("not_a_package",)


def test_cells_graded_by_hand_are_tasks_without_tests_that_do_not_show_the_solution(tmp_path):
    def by_hand(code):
        return [TEXT, cell(code, "own", solution=True, grade=True), cell("An essay.", "essay", kind="markdown", solution=True)]

    notebooks = {"source/ps1/one": by_hand("print(42)"), "autograded/ann/ps1/one": by_hand("print(6 * 7)")}
    (task,), attempts, outcomes, _ = parts(course(tmp_path, notebooks))
    assert (task.tests, task.official, task.reference) == ((), False, "print(42)\n")
    assert "42" not in task.prompt and task.prompt.endswith("```python\n# YOUR CODE HERE\n```")
    assert attempts["ann"].code == "print(6 * 7)\n" and outcomes["ann"].status is Status.UNSCORED


def test_what_cannot_be_read_is_rejected(tmp_path):
    with pytest.raises(SourceError, match=r"no autograded/STUDENT/ASSIGNMENT/NOTEBOOK.ipynb or submitted/"):
        [*read(tmp_path)]
    folder = course(tmp_path, GIVEN | {"autograded/ann/ps1/one": [TEXT, *exercise("def double(x): return x + x")]})
    for student, text in (
        ("aaron", "[]"),
        ("cleo", '{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}'),
        ("dan", "no"),
    ):
        file = folder / "autograded" / student / "ps1" / "one.ipynb"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    tasks, attempts, _, bad = parts(folder)
    assert len(tasks) == 1 and [*attempts] == ["ann"] and tasks[0].tests  # though the first copy cannot be read
    assert [row.reason.partition(":")[0] for row in bad] == [
        "not a notebook of format version 4; save it with a current Jupyter", "the notebook is in R, not in Python 3", "JSONDecodeError",
    ]  # fmt: skip


def test_notebooks_without_nbgrader_are_programs_of_a_tree(tmp_path):
    own = [
        TEXT,
        cell("%time x = 1"),
        cell("def double(x):\n    return 2 * x"),
        cell("double()", error="TypeError"),
        cell("print(double(2))"),
    ]
    folder = course(tmp_path / "course", {"ann/hw1": own, "ann/hw2": own[:3], "bob/hw1": own[:3], "bob/hw2": own[:2]})
    course(folder, {"ida/hw1": [TEXT, cell("")]})
    (folder / "eve").mkdir()
    (folder / "eve" / "hw1.ipynb").write_text('{"cells": []')
    (folder / "eve" / "hw2.ipynb").write_text(json.dumps({"cells": own, "metadata": {"kernelspec": {"language": "R"}}}))
    archive = Archive.create(tmp_path / "a")
    report = ingest(archive, str(map_file(reading_of(folder, {}))), folder, max_rejected=1)
    assert {(one.task_id, one.author, one.language) for one in archive.attempts()} == {
        (f"course/{task}", author, "python") for task in ("hw1", "hw2") for author in ("ann", "bob")
    }
    code = "# %time x = 1\n\ndef double(x):\n    return 2 * x\n\nprint(double(2))\n"
    assert code in [one.code for one in archive.attempts()] and not archive.verdicts()
    reasons = [json.loads(line)["reason"] for line in report.rejected.read_text().splitlines()]
    assert len(reasons) == 3 and "the notebook is in R, not in Python 3" in reasons
