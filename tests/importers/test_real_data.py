"""Every file of the folder of real data goes through an importer, with the counts that its README says.

EvalPlus's files and the reports of JUnit have tests of their own, which judge or read them: ``test_problem_sets``, ``test_ci_sources``.
"""

import tarfile
from collections import Counter
from dataclasses import replace

import pytest
from imports import imported

from upsolve.plugins import find
from upsolve.reward.hacks import DETECTORS, hacks
from upsolve.types import Attempt, Status
from upsolve.verify.judge.plans import judge_all

IMPORTS = [
    # source, path, tasks, attempts with repeated ones, recorded verdicts, rejected rows
    ("apps", "apps/selected150.jsonl", 127, 0, 0, 2),  # 150 rows, 21 of them repeated
    ("codet", "codet", 164, 16_400, 0, 0),
    ("cruxeval", "cruxeval", 1_600, 16_000, 16_000, 0),
    ("humaneval", "humaneval/HumanEval.jsonl.gz", 164, 0, 0, 0),
    ("humaneval", "ldb/humaneval/tests.jsonl", 164, 0, 0, 0),
    ("humaneval", "ldb/mbpp/tests.jsonl", 500, 0, 0, 0),
    ("ldb", "ldb/humaneval", 164, 492, 492, 0),
    ("ldb", "ldb/mbpp", 500, 3_903, 3_000, 0),
    ("mbpp", "mbpp/mbpp.jsonl", 974, 0, 0, 0),
    ("mbpp", "mbpp/sanitized-mbpp.json", 427, 0, 0, 0),
    ("mxeval", "mxeval/humaneval", 1_934, 0, 0, 0),
    ("mxeval", "mxeval/mbxp", 12_425, 0, 0, 0),
    ("refactory", "refactory/data.zip", 5, 4_388, 4_225, 0),  # 163 programs have no label
]
ELSEWHERE = ("README.md", "codenet/", "evalplus/", "junit/")


@pytest.mark.filterwarnings("ignore:outputs such as")  # of functions of APPS without a signature
@pytest.mark.parametrize(("source", "path", "tasks", "attempts", "verdicts", "bad"), IMPORTS)
@pytest.mark.slow
def test_a_data_set(real_data, tmp_path, source, path, tasks, attempts, verdicts, bad):
    archive, report = imported(tmp_path, source, real_data / path)
    assert report.bad == bad and report.read == sum(report.added.values()) + bad
    assert (len(archive.tasks()), sum(one.count for one in archive.attempts())) == (tasks, attempts)
    statuses = archive.table("verdicts", ["status"])["status"].to_pylist()
    assert len(statuses) == verdicts and {*statuses} <= {"passed", "failed"}
    assert all(task.tests for task in archive.tasks())


def test_every_file_is_imported(real_data):
    files = {str(file.relative_to(real_data)) for file in real_data.rglob("*") if file.is_file() and file.name != "LICENSE"}
    paths = (*(path for _, path, *_ in IMPORTS), *ELSEWHERE)
    assert not {file for file in files if not file.startswith(paths)}


def test_mbpp_has_the_split_of_its_authors(real_data, tmp_path):
    """The ten tasks for prompts are training tasks."""
    archive, _ = imported(tmp_path, "mbpp", real_data / "mbpp" / "mbpp.jsonl")
    table = archive.query("select extra->>'split' as split, count(*) as tasks from tasks group by split")
    assert dict(zip(*table.to_pydict().values(), strict=True)) == {"test": 500, "dev": 90, "train": 384}


@pytest.mark.slow
def test_statements_of_codenet(real_data, tmp_path):
    """The list of problems and all statements, in CodeNet's layout; the submissions are not there."""
    tree = tmp_path / "Project_CodeNet"
    (tree / "metadata").mkdir(parents=True)
    (tree / "data").mkdir()
    (tree / "metadata" / "problem_list.csv").symlink_to(real_data / "codenet" / "problem_list.csv")
    with tarfile.open(real_data / "codenet" / "problem_descriptions.tar.gz") as statements:
        statements.extractall(tree, filter="data")
    assert len([*(tree / "problem_descriptions").glob("*.html")]) == 3_999
    archive, report = imported(tmp_path, "codenet", tree)
    assert (report.added["tasks"], report.bad) == (4_053, 4_053)
    assert {row.reason for row in report.reasons} == {"the problem's metadata is missing"}
    assert sum(bool(task.tests) for task in archive.tasks()) == 3_387


@pytest.mark.slow
def test_predictions_of_cruxeval_are_judged_as_recorded(real_data, tmp_path):
    archive, _ = imported(tmp_path, "cruxeval", real_data / "cruxeval")
    tasks = {task.task_id: task for task in archive.tasks()}
    said = {one.attempt_id: one.status for one in archive.verdicts()}
    some = archive.attempts()[::50]
    found = judge_all([(tasks[one.task_id], one) for one in some])
    assert all((one.status is Status.PASSED) == (said[one.attempt_id] is Status.PASSED) for one in found)
    references = [(task, Attempt(task.task_id, task.reference)) for task in [*tasks.values()][::20]]
    assert {one.status for one in judge_all(references)} == {Status.PASSED}


def test_how_often_references_of_mbpp_are_caught(real_data):
    counts = Counter()
    for task in find("source", "mbpp").read(real_data / "mbpp" / "mbpp.jsonl"):
        counts.update(["references", *hacks(Attempt(task.task_id, task.reference), replace(task, reference=""), [*DETECTORS])])
    # mbpp/264 calls exit() for an age below zero; mbpp/336 asks whether a month is February, and so do its tests
    assert counts == {"references": 974, "early_exit": 1, "hard_coded": 1}
