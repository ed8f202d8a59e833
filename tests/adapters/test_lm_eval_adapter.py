"""lm-evaluation-harness evaluates our tasks with a model that answers from a list. Skipped where it is not installed."""

import json
from pathlib import Path

import pytest

import upsolve.adapters.lm_eval
from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.types import Task, TestCase, TestKind

pytest.importorskip("lm_eval", reason="lm_eval is not installed")

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

TESTS = (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6"))
DOUBLE, HALF, NONE = (
    Task("my/double", "Double x.", TESTS, "f"),
    Task("my/half", "Half.", TESTS, "f"),
    Task("my/none", "No tests."),
)


class Answers(LM):
    """Answers by the first words of a prompt."""

    def __init__(self):
        super().__init__()
        self.prompts = []

    def generate_until(self, requests, disable_tqdm=False):  # noqa: ARG002
        self.prompts += [request.args[0] for request in requests]
        return [
            "def f(x):\n    return 2 * x" if prompt.startswith("Double") else "def f(x):\n    return 4"
            for prompt in self.prompts
        ]

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


@pytest.mark.parametrize("name", ["upsolve", "upsolve_chat"])
def test_the_harness_leaves_out_what_could_not_be_judged(tmp_path, monkeypatch, name):
    Archive.create(tmp_path / "a").append(tasks=[DOUBLE, HALF, NONE])
    monkeypatch.setenv("UPSOLVE_TASKS", str(tmp_path / "a"))
    model, tracker = Answers(), EvaluationTracker(output_path=str(tmp_path / "out"))
    tasks = TaskManager(include_path=str(Path(upsolve.adapters.lm_eval.__file__).parent), include_defaults=False)
    found = simple_evaluate(
        model, tasks=[name], task_manager=tasks, bootstrap_iters=0, log_samples=True, evaluation_tracker=tracker
    )
    results = found["results"][name]
    assert (results["passed,none"], results["share,none"]) == (0.5, 0.75)
    assert results["unscored,none"] == pytest.approx(1 / 3)
    assert model.prompts[0].endswith("```python\n") == (name == "upsolve")

    tracker.save_results_aggregated(results=found, samples=found["samples"])
    tracker.save_results_samples(task_name=name, samples=found["samples"][name])
    (file,) = (tmp_path / "out").rglob("samples_*.jsonl")
    archive = Archive.create(tmp_path / "back")
    assert not ingest(archive, "samples", file, tasks=str(tmp_path / "a"), metric="passed").rejected
    rows = archive.query("select task_id, status from attempts join verdicts using (attempt_id)").to_pylist()
    assert {row["task_id"]: row["status"] for row in rows} == {
        "my/double": "passed",
        "my/half": "failed",
        "my/none": "unscored",
    }
    assert json.loads(file.read_text().splitlines()[0])["doc"]["task_id"] == "my/double"
