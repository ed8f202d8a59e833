"""verifiers: its own scoring and replay, with our taskset. Skipped where verifiers is not installed."""

import asyncio
import sys

import pytest

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict

vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed")

from upsolve.adapters.verifiers import UpsolveTaskConfig, UpsolveTaskset, UpsolveTasksetConfig, trace_of, write_traces  # noqa: E402

DOUBLE = Task("my/double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6")), "f")
NONE = Task("my/none", "No tests.")
RIGHT, WRONG = (Attempt("my/double", f"def f(x):\n    return {body}", author="ann") for body in ("2 * x", "4"))
OTHER = Attempt("my/none", "1")


def groups():
    verdicts = (Verdict(RIGHT.attempt_id, Status.PASSED), None)
    return [Group(DOUBLE, (RIGHT, WRONG), verdicts), Group(NONE, (OTHER,), (Verdict(OTHER.attempt_id, Status.UNSCORED),))]


def taskset(folder, **task):
    Archive.create(folder / "a").append(tasks=[DOUBLE, NONE])
    config = UpsolveTasksetConfig(tasks=str(folder / "a"), task=UpsolveTaskConfig(**task))
    return UpsolveTaskset(config)


def test_tasks_are_loaded_and_scored_by_verifiers(tmp_path):
    (tmp_path / "recipe.yaml").write_text("reward: {preset: tests}\n")
    double, none = taskset(tmp_path, recipe=str(tmp_path / "recipe.yaml"))
    assert (double.key, double.data.idx) == ("my/double", 0)
    assert double.data.prompt == "Double x.\n\nExamples:\nassert f(2) == 4\nassert f(3) == 6"
    for attempt, score in ((RIGHT, 1.0), (WRONG, 0.5)):
        trace = trace_of(double, attempt, None)
        asyncio.run(double.score(trace))
        assert trace.rewards["upsolve"].score == score
    assert trace.info["upsolve"] == {"status": "failed", "passed": 1, "total": 2}
    trace = trace_of(none, OTHER, None)
    with pytest.raises(Exception, match="my/none: the attempt has no reward"):
        asyncio.run(none.score(trace))
    assert trace.rewards["upsolve"] is None


def test_stored_attempts_become_a_run_that_verifiers_replays_and_we_read_back(tmp_path, monkeypatch):
    from verifiers.v1.cli import replay

    (tmp_path / "upsolve_taskset.py").write_text(
        "from upsolve.adapters.verifiers import UpsolveTaskset\n\n__all__ = ['UpsolveTaskset']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert write_traces(groups(), tmp_path / "run") == 3
    archive = Archive.create(tmp_path / "back")
    assert not ingest(archive, "verifiers", tmp_path / "run").rejected
    assert statuses(archive) == {
        ("def f(x):\n    return 2 * x", "passed"),
        ("def f(x):\n    return 4", "unscored"),
        ("1", "unscored"),
    }

    replay.main([str(tmp_path / "run"), "--no-rich", "--output-dir", str(tmp_path / "again")])
    again = Archive.create(tmp_path / "judged")
    assert not ingest(again, "verifiers", tmp_path / "again", reward="upsolve").rejected
    assert statuses(again) == {
        ("def f(x):\n    return 2 * x", "passed"),
        ("def f(x):\n    return 4", "failed"),
        ("1", "unscored"),
    }
    sys.modules.pop("upsolve_taskset", None)


def statuses(archive):
    found = archive.query("select code, status from attempts join verdicts using (attempt_id)").to_pylist()
    return {(row["code"], row["status"]) for row in found}
