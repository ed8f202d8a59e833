"""Grades of tests by values worked by hand, and archives with the fewest tests."""

import json
from dataclasses import replace

import pytest

from upsolve.archive.store import Archive
from upsolve.clean.doctor import examine
from upsolve.cli.main import app
from upsolve.errors import ArchiveError
from upsolve.suites.grade import Totals, cover, failed_tests, grade_archive, grade_group, totals
from upsolve.suites.shrink import kept_tests, shrink, shrunk_verdict
from upsolve.types import Attempt, Finding, Group, Status, Task, TestCase, TestKind, Verdict, with_points, with_tests

LETTERS = {"p": Status.PASSED, "f": Status.FAILED, "r": Status.RUNTIME_ERROR, "u": Status.UNSCORED, "t": Status.TIMEOUT}


def task_of(marks, name="t"):
    """A task with a visible test for each v and a hidden one for each h."""
    return Task(
        name, "", tuple(TestCase(TestKind.CALL, f"f({i})", "0", hidden=mark == "h") for i, mark in enumerate(marks)), "f"
    )


def judged(task, outcomes, number=0, judge="upsolve-2", **fields):
    """An attempt and its verdict by outcomes such as ``ppf``."""
    attempt = Attempt(task.task_id, f"f = {number}")
    found = tuple(LETTERS[one] for one in outcomes)
    status = next((one for one in found if one is not Status.PASSED), Status.PASSED)
    return attempt, Verdict(attempt.attempt_id, status, outcomes.count("p"), len(found), found, judge, **fields)


def group_of(task, *outcomes):
    pairs = [judged(task, one, number) for number, one in enumerate(outcomes)]
    return Group(task, tuple(attempt for attempt, _ in pairs), tuple(verdict for _, verdict in pairs))


FOUR = group_of(task_of("vvhh"), "pppp", "ppfp", "ppff", "fpfp", "ruuu")
"""Test 1 fails nothing, test 2 fails three attempts, test 0 two; tests 0 and 2 fail all four wrong ones."""


def test_a_cover_is_greedy_and_takes_the_first_of_equal_tests():
    sets = [frozenset(one) for one in ((0, 1), (1, 2), (2, 3), (3,), ())]
    assert cover(sets) == [1, 3], "1, 2 and 3 are in two sets: 1 comes first; 3 is in the two that are left"
    assert cover(sets, [0]) == [0, 2, 3]
    assert cover([frozenset()]) == []


def test_a_task_is_graded_by_its_matrix():
    grade = grade_group(FOUR)
    assert (grade.redundant, grade.least, grade.discerning) == ((1,), (0, 2), True)
    assert grade.totals == Totals(
        tests=4,
        visible=2,
        attempts=5,
        failed=4,
        recorded=5,
        redundant=1,
        least=2,
        visible_passed=3,
        visible_false=2,
        visible_caught=2,
        wrong=4,
        caught=4,
    )


def test_a_visible_test_that_was_not_reached_is_neither_passed_nor_failed():
    """Hidden tests come first: a limit that ends the run there leaves the visible test without an outcome."""
    found = grade_group(group_of(task_of("hv"), "pp", "fp", "tu", "pf")).totals
    assert (found.recorded, found.visible_passed, found.visible_false, found.visible_caught) == (4, 2, 1, 1)


def test_outcomes_of_other_tests_and_unscored_verdicts_do_not_count():
    task = task_of("vh")
    _, other = judged(task, "ppf")
    _, unscored = judged(task, "uu")
    assert failed_tests(task, other) is None and failed_tests(task, unscored) is None and failed_tests(task, None) is None
    assert failed_tests(task, judged(task, "pf")[1]) == {1}
    assert grade_group(Group(task, (), ())).discerning is None


def test_judges_are_compared(tmp_path):
    """Passed here and failed there: one false pass; failed here and passed there: one false failure; of three wrong ones two are caught."""
    task, archive = task_of("vh"), Archive.create(tmp_path / "archive")
    here = [judged(task, one, number) for number, one in enumerate(("pp", "pp", "pf", "fp", "pf"))]
    there = [
        Verdict(here[index][0].attempt_id, one, judge="recorded:x") for index, one in enumerate([LETTERS[c] for c in "pfpf"])
    ]
    untried = task_of("v", "untried")
    archive.append(
        tasks=[task, untried], attempts=[one for one, _ in here], verdicts=[*there, *(verdict for _, verdict in here)]
    )
    grades = [*grade_archive(archive, "upsolve")]
    whole = totals(grades)
    assert [grade.task_id for grade in grades] == ["t", "untried"]
    assert (whole.compared, whole.false_passes, whole.false_failures, whole.wrong, whole.caught) == (4, 1, 1, 4, 3)
    assert (whole.tests, whole.attempts, whole.visible_passed, whole.visible_false) == (3, 5, 4, 2)


def stored(folder, *groups):
    archive = Archive.create(folder)
    for group in groups:
        archive.append(tasks=[group.task], attempts=group.attempts, verdicts=[one for one in group.verdicts if one])
    return archive


def test_the_doctor_reports_weak_and_superfluous_tests(tmp_path):
    archive = stored(
        tmp_path / "archive", FOUR, group_of(task_of("vh", "s"), "pp", "fp", "pf"), group_of(task_of("vh", "u"), "pp")
    )
    found = {row.kind: [one["record"] for one in row.examples] for row in examine(archive, ["tests"]).found}
    assert found == {"visible tests that pass wrong attempts": ["t", "s"], "tests that fail no attempt": ["t"]}


def test_the_command_prints_counts(tmp_path, capsys):
    stored(tmp_path / "archive", FOUR)
    app(["tests", "grade", str(tmp_path / "archive"), "--json"], standalone_mode=False)
    said = json.loads(capsys.readouterr().out)
    assert (said["totals"]["visible_false"], said["tasks"][0]["redundant"]) == (2, [1])
    app(["tests", "grade", str(tmp_path / "archive")], standalone_mode=False)
    assert "66.7% of 3" in capsys.readouterr().out


def test_recorded_outcomes_without_single_tests_name_the_judge_that_has_them(tmp_path, capsys):
    recorded = [replace(one, judge="recorded:x", outcomes=(), passed=0, total=0) for one in FOUR.verdicts if one]
    archive = stored(tmp_path / "archive", replace(FOUR, verdicts=tuple(recorded)))
    app(["tests", "grade", str(tmp_path / "archive")], standalone_mode=False)
    said = capsys.readouterr().out
    assert "known for 0 of 5 attempts: `upsolve verify` stores them" in said and "fail no attempt" not in said
    archive.append(verdicts=[one for one in FOUR.verdicts if one])
    app(["tests", "grade", str(tmp_path / "archive")], standalone_mode=False)
    assert "known for 0 of 5 attempts: `--judge upsolve` reads those of `upsolve verify`" in capsys.readouterr().out
    app(["tests", "grade", str(tmp_path / "archive"), "--judge", "upsolve"], standalone_mode=False)
    assert "known for" not in (said := capsys.readouterr().out) and "tests that fail no attempt" in said


@pytest.mark.parametrize(
    ("marks", "outcomes", "kept"),
    [
        ("vvhh", ("pppp", "ppfp", "ppff", "fpfp"), [0, 2]),  # test 2 fails all three; of the visible ones, test 0 fails one
        ("hhhh", ("pppp", "ppfp", "ppff", "fpfp"), [2]),
        ("vvhh", ("pppp", "fpfp"), [0]),
        ("hv", ("pp", "pp"), [1]),
        ("hh", ("pp",), [0]),
        ("vvv", ("ffp", "pff", "fpf"), [0, 1]),
        ("hhh", ("ftu", "ptf"), [0, 2]),  # test 1 fails both, but only by its time limit
        ("hhh", ("fpf", "tuu", "fpf"), [0]),  # a limit is all that fails the second attempt
        ("hh", ("ff", "ff", "tp", "pf"), [0, 1]),
        ("hhhhh", ("pptuu", "fpppp"), [0, 1, 2]),  # the limit may be one of all tests together
    ],
)
def test_shrink_selects_the_fewest_tests(marks, outcomes, kept):
    group = group_of(task_of(marks), *outcomes)
    assert kept_tests(group.task, [one for one in group.verdicts if one]) == (kept, "")


def test_a_failure_without_outcomes_keeps_all_tests():
    task = task_of("vh")
    verdicts = [judged(task, "pf")[1], Verdict("b", Status.FAILED, 1, 2)]
    assert kept_tests(task, verdicts) == ([0, 1], "a failed verdict does not name the failed test")
    assert kept_tests(task, [Verdict("b", Status.FAILED)]) == ([0, 1], "no scored attempt"), "of a judge with tests of its own"


def test_shrink_preserves_the_error_of_a_selected_test():
    task = task_of("vvh")
    finding = Finding("traceback", "ValueError", "test 2: x", 1)
    error = {"error_type": "ValueError", "error_message": "test 2: x", "error_line": 1, "findings": (finding,)}
    _, verdict = judged(task, "prf", **error)
    kept = shrunk_verdict(task, verdict, [1])
    assert (kept.status, kept.total, kept.passed, kept.error_message) == (Status.RUNTIME_ERROR, 1, 0, "test 1: x")
    assert kept.findings[0].message == "test 1: x"
    other = shrunk_verdict(task, verdict, [0, 2])
    assert (other.status, other.outcomes) == (Status.FAILED, (Status.PASSED, Status.FAILED))
    assert (other.error_type, other.error_message, other.error_line, other.findings) == ("", "", None, ())


def test_shrink_keeps_the_points_and_weights_of_the_kept_tests():
    task = replace(task_of("vvh"), extra='{"test_weights": [1, 2, 4]}')
    _, verdict = judged(task, "pff")
    kept = shrunk_verdict(task, with_points(verdict, (1.0, 0.5, 0.2), 0.3), [0, 2])
    assert (kept.points, kept.overall_points) == ((1.0, 0.2), 0.3)
    assert with_tests(task, [0, 2]).weights == (1.0, 4.0)


def test_a_shrunk_archive_keeps_verdicts_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("upsolve.suites.shrink.PORTION", 1)
    groups = [FOUR, group_of(task_of("vh", "s"), "pp", "pf"), Group(task_of("v", "untried"), (), ())]
    archive, out = stored(tmp_path / "archive", *groups), tmp_path / "out"

    def stop(_stage, done, _total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shrink(archive, out, progress=stop)
    assert [task.task_id for task in Archive(out).tasks()] == ["t"]
    rows = shrink(archive, out)
    assert [(row["task_id"], row["kept"], row["unchanged"]) for row in rows] == [
        ("t", [0, 2], ""),
        ("s", [0, 1], ""),
        ("untried", [0], "no scored attempt"),
    ]
    new = {task.task_id: task for task in Archive(out).tasks()}
    assert [test.hidden for test in new["t"].tests] == [False, True]
    assert len(Archive(out).attempts()) == len(archive.attempts())
    before = {one.attempt_id: one.status is Status.PASSED for one in archive.verdicts()}
    assert {one.attempt_id: one.status is Status.PASSED for one in Archive(out).verdicts()} == before
    with pytest.raises(ArchiveError, match="other settings or of another archive"):
        shrink(stored(tmp_path / "other", FOUR), out)
    assert shrink(archive, out) == rows, "nothing is written twice"
    assert len(Archive(out).tasks()) == 3
