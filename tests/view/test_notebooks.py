"""Public records in a notebook: one line as text, escaped HTML, data frames."""

from dataclasses import dataclass, replace

import pytest
from archives import EVIL, RIGHT, TEST, eight_tasks, evil_archive, finished_run, judged
from browser import open_page

import upsolve
from upsolve.evaluate.scores import Evaluation, TaskScore
from upsolve.types import Attempt, Group, Status, Task, content_id, full_repr


@pytest.fixture
def run(tmp_path):
    return upsolve.open_run(finished_run(tmp_path / "rloo", eight_tasks(tmp_path / "a"), text=f"# {EVIL}\n"))


def test_records_are_one_short_line():
    task, attempt = Task("a/b", "x" * 900, (TEST,)), Attempt("a/b", RIGHT, author="people")
    group = Group(task, (attempt, attempt), (judged(attempt), None))
    assert repr(task) == f"Task('a/b', '{'x' * 60}...', 1 tests)" and repr(group) == "Group('a/b', 2 attempts, 1 passed)"
    assert repr(attempt) == "Attempt('a/b', 'def f(x):\\n    return 2 * x\\n', language='python', author='people')"
    verdict = judged(attempt, Status.FAILED, error_message="test 1: f(2) gave 5, expected 4")
    assert repr(verdict) == "Verdict(failed, 0 of 1 tests, 'test 1: f(2) gave 5, expected 4', judge='upsolve-1')"


def test_content_ids_are_those_of_earlier_versions():
    """They are ids of the representation that dataclasses give by default."""

    @dataclass(frozen=True)
    class Pair:
        one: int
        other: str

    assert full_repr(Pair(1, "x'")) == repr(Pair(1, "x'"))
    call = replace(TEST, input="f(1)", expected="2")
    task = Task("a/b", "Say 'hi' \"now\"", (call,), "f", difficulty="easy")
    assert content_id(full_repr(task)) == "2db5852451f12f01eeda"


def test_pass_at_k_has_an_interval():
    scores = tuple(TaskScore(f"t{n}", "easy", 4, n % 3, {}) for n in range(12))
    evaluation = Evaluation("base", "m", "x:test", 1.0, 1.0, 0, 8, scores)
    one, four = evaluation.pass_at(1), evaluation.pass_at(4)
    assert (one.mean, four.mean, four.tasks) == (0.25, pytest.approx(2 / 3), 12) and one.low < 0.25 < one.high
    with pytest.raises(ValueError, match="no task has 5 scored samples, so pass@5 is unknown"):
        evaluation.pass_at(5)
    frame = evaluation.to_pandas()
    assert frame["pass_at_1"].mean() == 0.25 and list(frame["task_id"]) == [f"t{n}" for n in range(12)]


def test_a_run_is_a_record_with_a_data_frame(run):
    frame = run.to_pandas()
    worst = frame[frame["evaluation"] == "a:test, T 0.5"].iloc[0]
    assert (worst["task_id"], worst["passed_before"], worst["passed_after"], worst["change"]) == ("d/0", 4, 1, -0.75)
    assert set(frame["evaluation"]) == {"a:test, T 0.5", "a:test, greedy"} and len(frame) == 16
    assert (
        run.recipe.name == "rloo"
        and run.trained.steps == 3
        and repr(run) == f"Run({str(run.folder)!r}, {run.capability.sentence!r})"
    )


def test_html_of_records_runs_no_script(chromium, tmp_path, run):
    archive = evil_archive(tmp_path / "evil")
    (group,) = archive.groups()
    shown = [
        run,
        run.capability,
        run.after,
        run.after.best,
        run.capability.best,
        run.trained,
        archive,
        *group.attempts,
        group.task,
        group.verdicts[0],
    ]
    with open_page(chromium) as (page, faults):
        page.set_content("".join(f"<section>{record._repr_html_()}</section>" for record in shown))
        assert page.locator("section").count() == len(shown)
        assert page.evaluate("window.hacked === undefined && document.images.length === 0") and not faults, faults
        assert [text.split(" [")[0] for text in page.locator(".bars .value").all_inner_texts()[:2]] == ["12.5 %", "65.6 %"]
        texts = page.locator("section").all_inner_texts()
        assert "pass@1\t65.6 % [" in texts[3] and "attempts\t1 row" in texts[6] and EVIL in texts[7] and EVIL in texts[8]
