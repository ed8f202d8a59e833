"""SWE-bench: instances, predictions, and outcomes by the reports of its harness and of public experiments."""

import json

import pytest

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.benchmarks.swe_bench import read
from upsolve.importers.ingest import ingest
from upsolve.importers.rows import BadRow
from upsolve.types import Attempt, Status, Task, Verdict

NAMES = ("django__django-1", "sympy__sympy-2", "astropy__astropy-3")
PATCH = "diff --git a/{0}.py b/{0}.py\n--- a/{0}.py\n+++ b/{0}.py\n@@ -1 +1 @@\n-a\n+b\n"
TESTS = {"FAIL_TO_PASS": '["test_a"]', "PASS_TO_PASS": '["test_b", "test_c"]'}


def write(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in content) if name.endswith("l") else json.dumps(content)
    file.write_text(lines, encoding="utf-8")


def instances(folder):
    rows = [
        {
            "instance_id": name,
            "repo": name.split("__")[0],
            "base_commit": "abc",
            "problem_statement": f"{name} fails.",
            "patch": PATCH.format("gold"),
            **TESTS,
        }
        for name in NAMES
    ]
    write(folder, "test.jsonl", rows)


def predictions(model, names=NAMES):
    return [{"instance_id": name, "model_name_or_path": model, "model_patch": PATCH.format(model[-1])} for name in names]


def report(resolved, passed):
    parts = {"success": ["t"] * passed, "failure": ["t"] * (3 - passed)}
    return {
        "patch_is_None": False,
        "patch_successfully_applied": True,
        "resolved": resolved,
        "tests_status": {"FAIL_TO_PASS": parts, "PASS_TO_PASS": {}},
    }


def outcomes(path):
    """(author, instance) -> status, passed and total of the recorded verdict."""
    rows = [*read(path)]
    attempts = {row.attempt_id: row for row in rows if isinstance(row, Attempt)}
    return {
        (attempts[row.attempt_id].author, attempts[row.attempt_id].task_id.partition("/")[2]): (
            row.status,
            row.passed,
            row.total,
        )
        for row in rows
        if isinstance(row, Verdict)
    }


def test_an_instance_is_a_task_with_the_patch_of_its_maintainers(tmp_path):
    instances(tmp_path)
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "swe_bench", tmp_path / "test.jsonl").bad == 0
    task, attempt, verdict = [*read(tmp_path / "test.jsonl")][:3]
    assert isinstance(task, Task) and (task.task_id, task.language, task.tests) == ("swe_bench/django__django-1", "diff", ())
    assert (
        task.prompt
        == "Write a patch in unified diff format for django at commit abc that resolves this issue:\n\ndjango__django-1 fails."
    )
    assert json.loads(task.extra) == {"repo": "django", "base_commit": "abc", **TESTS}
    assert (attempt.author, attempt.code, attempt.language) == ("human", PATCH.format("gold"), "diff")
    assert (verdict.status, verdict.passed, verdict.total) == (Status.PASSED, 3, 3)


@pytest.mark.filterwarnings("ignore:.*no report names others.json")
def test_predictions_have_the_outcomes_of_the_harness(tmp_path):
    instances(tmp_path / "data")
    write(tmp_path, "preds.jsonl", predictions("org/new-1.5"))
    write(tmp_path, "others.json", {row.pop("instance_id"): row for row in predictions("old")})
    write(
        tmp_path,
        "org__new-1.5.run.json",
        {"resolved_ids": [NAMES[0]], "unresolved_ids": [NAMES[1]], "error_ids": [NAMES[2]], "completed_ids": [*NAMES[:2]]},
    )
    write(
        tmp_path, f"logs/run_evaluation/run/org__new-1.5/{NAMES[1]}/report.json", {NAMES[1]: report(resolved=False, passed=2)}
    )
    found = outcomes(tmp_path)
    assert [found["org/new-1.5", name] for name in NAMES] == [
        (Status.PASSED, 0, 0), (Status.FAILED, 2, 3), (Status.UNSCORED, 0, 0),
    ]  # fmt: skip
    assert {found["old", name] for name in NAMES} == {(Status.UNSCORED, 0, 0)}, "reports of another model say nothing of it"
    write(tmp_path, "org__new-1.5.again.json", {"resolved_ids": [*NAMES[:2]]})
    found = outcomes(tmp_path)
    assert [found["org/new-1.5", name][0] for name in NAMES[:2]] == [Status.PASSED, Status.UNSCORED], "reports differ"
    write(
        tmp_path,
        "org__new-1.5.again.json",
        {"resolved_ids": [], "unresolved_ids": [*NAMES[1:]], "infra_failure_ids": [NAMES[2]]},
    )
    write(
        tmp_path, f"logs/run_evaluation/again/org__new-1.5/{NAMES[2]}/report.json", {NAMES[2]: report(resolved=False, passed=0)}
    )
    found = outcomes(tmp_path)
    assert [found["org/new-1.5", name][0] for name in NAMES[1:]] == [Status.FAILED, Status.UNSCORED], "the environment failed"


def test_predictions_have_the_outcomes_of_a_public_experiment(tmp_path):
    for run, resolved in (("one", NAMES[:1]), ("two", NAMES[1:])):
        write(tmp_path, f"{run}/all_preds.jsonl", predictions("same"))
        write(tmp_path, f"{run}/results/results.json", {"resolved": [*resolved], "applied": [*NAMES], "no_generation": []})
        write(tmp_path, f"{run}/results/resolved_by_time.json", {"2024": {"resolved": 1, "total": 3}})
        write(
            tmp_path,
            f"{run}/logs/{NAMES[0]}/report.json",
            {NAMES[0]: report(resolved=run == "one", passed=3 if run == "one" else 0)},
        )
        write(tmp_path, f"{run}/trajs/{NAMES[0]}.json", [{"role": "user"}])
    for run, statuses in (("one", "pff"), ("two", "fpp")):
        found = outcomes(tmp_path / run)
        assert "".join(found["same", name][0].value[0] for name in NAMES) == statuses
        assert found["same", NAMES[0]][1:] == ((3, 3) if run == "one" else (0, 3))


def test_empty_patches_and_other_rows_are_rejected_with_the_reason(tmp_path):
    empty, none = predictions("a", NAMES[:2])
    write(tmp_path, "preds.jsonl", [empty | {"model_patch": ""}, none | {"model_patch": None}, {"instance_id": "x"}, {"id": 1}])
    write(tmp_path, "a.run.json", {"resolved_ids": [], "unresolved_ids": [NAMES[0]]})
    assert [row.reason for row in read(tmp_path) if isinstance(row, BadRow)] == [
        "the patch is empty (failed)",
        "the patch is empty (unscored)",
        "has neither a problem_statement nor a model_patch",
        "no field 'instance_id'",
    ]
    (tmp_path / "preds.jsonl").unlink()
    with pytest.raises(SourceError, match="no instances"):
        [*read(tmp_path)]


def test_predictions_without_a_report_are_refused_unless_they_say_their_outcome(tmp_path):
    row = {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": "diff --git a/x b/x"}
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps(row))
    with pytest.raises(SourceError, match="resolved_ids"):
        ingest(Archive.create(tmp_path / "a"), "swe_bench", file)
    file.write_text(json.dumps({**row, "resolved": True}))
    archive = Archive.create(tmp_path / "b")
    ingest(archive, "swe_bench", file)
    assert [verdict.status for verdict in archive.verdicts()] == [Status.PASSED]


def test_a_report_of_another_model_is_no_report(tmp_path):
    write(tmp_path, "preds.jsonl", predictions("mine"))
    write(tmp_path, "theirs.run.json", {"resolved_ids": [*NAMES], "unresolved_ids": []})
    with pytest.raises(SourceError, match=r"preds\.jsonl \(mine\)"):
        [*read(tmp_path)]
    write(tmp_path, "others.jsonl", predictions("theirs"))
    with pytest.warns(UserWarning, match=r"no report names preds\.jsonl \(mine\)"):
        found = outcomes(tmp_path)
    assert {status.value for (model, _), (status, *_) in found.items() if model == "theirs"} == {"passed"}
    assert {status.value for (model, _), (status, *_) in found.items() if model == "mine"} == {"unscored"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("my_results.json", {"resolved_ids": [NAMES[0]], "unresolved_ids": [NAMES[1]], "error_ids": [NAMES[2]]}),
        ("eval.jsonl", [{"instance_id": NAMES[0], "resolved": True}, {"instance_id": NAMES[1], "resolved": False}]),
        ("all.json", [{"instance_id": NAMES[0], "resolved": True}, {"instance_id": NAMES[1], "resolved": False}]),
        ("out/all.json", {NAMES[0]: {"resolved": True}, NAMES[1]: {"resolved": False}}),
    ],
)
def test_reports_of_any_name_count_for_the_only_model_of_their_folder(tmp_path, name, content):
    write(tmp_path, f"{name.rpartition('/')[0]}/preds.jsonl".strip("/"), predictions("mine"))
    write(tmp_path, name, content)
    statuses = {task: status.value for (_, task), (status, *_) in outcomes(tmp_path).items()}
    assert statuses == dict(zip(NAMES, ("passed", "failed", "unscored"), strict=True))


def test_a_report_of_any_name_is_of_no_model_if_there_are_several(tmp_path):
    for model in ("mine", "theirs"):
        write(tmp_path, f"{model}.jsonl", predictions(model))
    write(tmp_path, "my_results.json", {"resolved_ids": [*NAMES]})
    with pytest.raises(SourceError, match="all would be unscored"):
        [*read(tmp_path)]


def test_a_report_of_one_instance_may_have_its_name_inside(tmp_path):
    write(tmp_path, "preds.jsonl", predictions("mine", NAMES[:1]))
    write(tmp_path, "any.json", {"instance_id": NAMES[0], **report(True, 3)})
    assert outcomes(tmp_path) == {("mine", NAMES[0]): (Status.PASSED, 3, 3)}
