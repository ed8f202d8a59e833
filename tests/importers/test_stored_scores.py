"""Scores of attempts: stored beside verdicts, and never in their place."""

import json
from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest

from upsolve.archive.info import archive_info
from upsolve.archive.preference import preferred, score_verdicts
from upsolve.archive.store import Archive
from upsolve.archive.unjudged import unjudged
from upsolve.config import RewardConfig
from upsolve.config.select import SelectConfig
from upsolve.errors import SourceError
from upsolve.exports.exporting import judges_of
from upsolve.exports.record import attempt_values
from upsolve.importers.ingest import ingest
from upsolve.reward.formula import reward
from upsolve.reward.selection import choose
from upsolve.types import Attempt, Finding, Group, Status, Task, Verdict
from upsolve.view.browse import Filters, list_attempts, read_attempt
from upsolve.view.index import Index

TASK = Task("t/1", "add one", entry_point="f", source="t")
GOOD = Attempt("t/1", "def f(x):\n    return x + 1\n", author="a")
BAD = Attempt("t/1", "def f(x):\n    return x\n", author="b")
PASSED = Verdict(GOOD.attempt_id, Status.PASSED, 1, 1, judge="upsolve-1", findings=(Finding("lint", "F401", "unused", 1),))


def scored(tmp_path):
    """An archive whose first attempt has a verdict and two scores, one of them given twice; the other attempt has one score alone."""
    archive = Archive.create(tmp_path / "archive")
    archive.append(
        tasks=[TASK], attempts=[GOOD, BAD], verdicts=[PASSED, *score_verdicts(GOOD.attempt_id, {"a": 0.25, "b": 3.0})]
    )
    archive.append(verdicts=[*score_verdicts(GOOD.attempt_id, {"a": 0.75}), *score_verdicts(BAD.attempt_id, {"a": 0.5})])
    return archive


def test_the_last_score_of_a_name_is_added_to_the_verdict(tmp_path):
    (group,) = scored(tmp_path).groups()
    first, second = group.verdicts
    assert (first.status, first.judge, first.scores) == (Status.PASSED, "upsolve-1", {"a": 0.75, "b": 3.0})
    assert [one.rule for one in first.findings] == ["F401", "a", "b"]
    assert second.is_score and second.status is Status.UNSCORED and second.scores == {"a": 0.5}


def test_a_score_is_no_verdict(tmp_path):
    archive = scored(tmp_path)
    info = archive_info(archive)
    assert (info.verdicts, info.scores, info.unjudged) == (1, 3, 1)
    assert info.judges == {"upsolve-1": 1} and info.statuses == {"passed": 1}
    with unjudged(archive, "upsolve-1") as programs:
        assert [attempt for _, attempt in programs] == [BAD]


def test_a_judge_that_is_named_keeps_the_scores():
    verdicts = [PASSED, *score_verdicts(GOOD.attempt_id, {"a": 1.0})]
    assert preferred(verdicts, TASK, "upsolve").scores == {"a": 1.0}
    assert preferred(verdicts, TASK, "recorded").is_score


def test_scores_are_a_view_of_queries(tmp_path):
    rows = scored(tmp_path).query("select name, value from scores order by all").to_pylist()
    assert rows == [{"name": "a", "value": 0.5}, {"name": "a", "value": 0.75}, {"name": "b", "value": 3.0}]


def test_the_viewer_shows_scores_and_no_outcome_of_them(tmp_path):
    index = Index(scored(tmp_path))
    rows = list_attempts(index, Filters())["rows"]
    assert [row["status"] for row in rows] == ["passed", "unjudged"]
    assert [row["rules"] for row in rows] == [["lint:F401"], []]
    (verdict,) = read_attempt(index, rows[0]["place"])["verdicts"]
    assert {one["rule"]: one["value"] for one in verdict["findings"]} == {"F401": None, "a": 0.75, "b": 3.0}


def verdicts_of(group):
    return {attempt.code: verdict for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)}


def test_scores_of_jsonl_and_of_an_export_are_imported(tmp_path):
    rows = [
        {"kind": "task", "task_id": "t/1", "prompt": "p"},
        {"kind": "attempt", "task_id": "t/1", "code": "a", "status": "passed", "scores": {"grader": 0.5, "none": None}},
        {"kind": "attempt", "task_id": "t/1", "code": "b", "scores": {"grader": -2}},
        {"kind": "attempt", "task_id": "t/1", "code": "c", "scores": {"grader": "good"}},
        {"kind": "attempt", "task_id": "t/1", "code": "d", "scores": [1]},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = Archive.create(tmp_path / "first")
    assert ingest(first, "jsonl", str(tmp_path / "in.jsonl"), max_rejected=1).bad == 2
    export_records(first, tmp_path / "out.jsonl")
    second = Archive.create(tmp_path / "second")
    ingest(second, "jsonl", str(tmp_path / "out.jsonl"))
    for archive in (first, second):
        found = verdicts_of(archive.groups()[0])
        assert (found["a"].status, found["a"].scores) == (Status.PASSED, {"grader": 0.5})
        assert found["b"].is_score and found["b"].scores == {"grader": -2.0}


def export_records(archive, file):
    from upsolve.records import to_row

    kinds = (("task", archive.tasks()), ("attempt", archive.attempts()), ("verdict", archive.verdicts()))
    file.write_text("".join(json.dumps({"kind": kind, **to_row(row)}) + "\n" for kind, rows in kinds for row in rows))


def test_columns_of_a_table_are_scores(tmp_path):
    table = tmp_path / "log.csv"
    table.write_text("prompt,code,status,mark,judge score\np,a,passed,3,0.5\np,b,failed,,0.25\np,c,failed,high,1\n")
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "table", str(table), score="mark=teacher,judge score", max_rejected=1)
    found = verdicts_of(archive.groups()[0])
    assert report.bad == 1 and {*found} == {"a", "b"}
    assert found["a"].scores == {"teacher": 3.0, "judge score": 0.5} and found["b"].scores == {"judge score": 0.25}
    assert {attempt.extra for attempt in archive.attempts()} == {""}


def test_a_column_of_scores_that_is_missing_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("prompt,code,status\np,a,passed\n")
    with pytest.raises(SourceError, match="no column mark for --score; its columns are prompt, code, status"):
        ingest(Archive.create(tmp_path / "archive"), "table", str(tmp_path / "log.csv"), score="mark")


def group(*scores):
    """A group of passed attempts with a score each, None for none."""
    attempts = tuple(Attempt("t/1", f"def f(x):\n    return x + {number}\n") for number in range(len(scores)))
    verdicts = [
        preferred(
            [Verdict(one.attempt_id, Status.PASSED, 1, 1), *score_verdicts(one.attempt_id, {} if s is None else {"a": s})], TASK
        )
        for one, s in zip(attempts, scores, strict=True)
    ]
    return Group(TASK, attempts, tuple(verdicts))


def test_a_score_is_a_reward_component():
    config = RewardConfig(weights={"outcome": 0, "score": 2.0}, score="a", score_center=4.0, score_scale=2.0)
    found = reward(group(5.0, None, 3.0), config)
    assert found.rewards_G.tolist() == [1.0, -1.0]  # 2 (5 - 4) / 2, 2 (3 - 4) / 2
    assert found.left_out == Counter(
        {"score: the attempt has no score of the name in reward.score (add scores: upsolve archive score)": 1}
    )


def test_the_component_and_the_name_of_the_score_need_each_other():
    for settings in ({"score": "a"}, {"weights": {"score": 1.0}}, {"score_scale": 2.0}):
        with pytest.raises(ValueError, match=r"reward\.weights"):
            RewardConfig(**settings)


def test_an_attempt_with_scores_alone_is_not_judged():
    only = preferred(score_verdicts(GOOD.attempt_id, {"a": 1.0}), TASK)
    assert reward(Group(TASK, (GOOD,), (only,)), RewardConfig()).left_out == Counter({"not judged": 1})


def test_a_score_is_a_column_of_selection():
    rewarded = [reward(group(0.9, None, 0.1), RewardConfig())]
    selected = choose(rewarded, SelectConfig(attempts="scores->>'a' > 0.5", weight="scores->>'a' + findings"))
    (left,) = selected.rewarded
    assert [verdict.scores for verdict in left.group.verdicts] == [{"a": 0.9}]
    assert np.allclose(left.weights_G, [0.9])  # a score is no finding of lint


def test_exports_have_scores_and_no_outcome_of_them(tmp_path):
    (group,) = scored(tmp_path).groups()
    first, second = (attempt_values(group, index) for index in range(2))
    assert (first["status"], json.loads(first["scores"])) == ("passed", {"a": 0.75, "b": 3.0})
    assert (second["status"], second["judge"], json.loads(second["scores"])) == (None, None, {"a": 0.5})
    assert judges_of([Mock(groups=[group])]) == Counter({"upsolve-1": 1, "(not judged)": 1})
