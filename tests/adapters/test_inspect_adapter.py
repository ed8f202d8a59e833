"""inspect_ai runs whole evaluations with our scorer and sandbox, and a model that answers from a list. Skipped where it is not installed."""

import asyncio
import json
import math

import pytest

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.types import Task, TestCase, TestKind

inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")

from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import read_eval_log  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer  # noqa: E402
from inspect_ai.util import OutputLimitExceededError, sandbox  # noqa: E402

from upsolve.adapters.inspect import UpsolveSandbox, upsolve_scorer, upsolve_tasks  # noqa: E402

DOUBLE = Task("my/double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6")), "f")
RIGHT, HALF = "```python\ndef f(x):\n    return 2 * x\n```", "```python\ndef f(x):\n    return 4\n```"


def run(task, answers, folder):
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in answers]
    for output in outputs:
        output.usage = ModelUsage(
            input_tokens=1, output_tokens=1, total_tokens=2
        )  # else inspect downloads a tokenizer to count
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none", max_samples=1, max_connections=1)
    assert log.status == "success", log.error
    return log


def test_an_evaluation_with_an_unscored_sample_is_read_back(tmp_path):
    Archive.create(tmp_path / "a").append(
        tasks=[DOUBLE, Task("my/half", "H.", DOUBLE.tests, "f"), Task("my/none", "No tests.")]
    )
    log = run(upsolve_tasks(str(tmp_path / "a")), [RIGHT, HALF, "x"], tmp_path / "logs")
    scores = {sample.id: sample.scores["upsolve_scorer"] for sample in log.samples}
    assert scores["my/double"].value == CORRECT and scores["my/half"].value == INCORRECT
    assert scores["my/half"].metadata == {"status": "failed", "passed": 1, "total": 2, "reward": -0.1}
    assert math.isnan(scores["my/none"].value) and "no tests" in scores["my/none"].explanation
    (result,) = log.results.scores
    assert (result.scored_samples, result.unscored_samples) == (2, 1) and result.metrics["accuracy"].value == 0.5
    assert read_eval_log(log.location).eval.scorers[0].name.endswith("upsolve_scorer")
    archive = Archive.create(tmp_path / "back")
    assert not ingest(archive, "inspect", log.location, tasks=str(tmp_path / "a")).rejected
    found = archive.query("select task_id, status from verdicts join attempts using (attempt_id)").to_pylist()
    assert {(row["task_id"], row["status"]) for row in found} == {
        *(("my/double", "passed"), ("my/half", "failed"), ("my/none", "unscored")),
    }


def test_tests_may_be_in_the_metadata_or_found_by_the_id_of_the_sample(tmp_path):
    Archive.create(tmp_path / "a").append(tasks=[DOUBLE])
    samples = [Sample("a", id="mine", metadata={"tests": ["assert f(2) == 4"]}), Sample("b", id="my/double")]
    task = inspect_ai.Task(dataset=samples, scorer=upsolve_scorer(str(tmp_path / "a")))
    log = run(task, [RIGHT, HALF], tmp_path / "logs")
    assert [sample.scores["upsolve_scorer"].value for sample in log.samples] == [CORRECT, INCORRECT]


@scorer(metrics=[accuracy()])
def runs_in_sandbox():
    async def score(state, target):  # noqa: ARG001
        done = await sandbox().exec(["python", "-c", state.output.completion + "\nassert f(2) == 4"], timeout=5)
        return Score(value=CORRECT if done.success else INCORRECT, explanation=done.stderr)

    return score


def test_a_scorer_of_inspect_runs_programs_in_our_sandbox(tmp_path):
    samples = [Sample("Double x.", id=name, files={"note.txt": "a file"}) for name in "ab"]
    task = inspect_ai.Task(dataset=samples, scorer=runs_in_sandbox(), sandbox="upsolve")
    log = run(task, ["def f(x):\n    return 2 * x", "def f(x):\n    import os; os.listdir('/root/.ssh')"], tmp_path / "logs")
    assert [sample.scores["runs_in_sandbox"].value for sample in log.samples] == [CORRECT, INCORRECT]


def test_commands_see_the_files_of_the_sample_and_keep_their_own():
    async def play():
        box = UpsolveSandbox()
        await box.write_file("in/a.txt", "one\r\n")
        await box.write_file("main.py", b"print('mine')")
        done = await box.exec(["bash", "-c", 'cat; cat in/a.txt; echo "$WORD" > out.txt'], input="zero\n", env={"WORD": "it's"})
        assert (done.success, done.stdout) == (True, "zero\none\r\n"), done
        assert await box.read_file("out.txt") == "it's\n" and await box.read_file("main.py", text=False) == b"print('mine')"
        done = await box.exec(["cat", "a.txt"], cwd="in")
        assert done.stdout == "one\r\n"
        done = await box.exec(["bash", "-c", "echo no >&2; exit 3"])
        assert (done.success, done.returncode, done.stderr) == (False, 3, "no\n")
        done = await box.exec(["python3", "-c", "open('b.txt', 'w').write(open('in/a.txt').read())"])
        assert done.success and await box.read_file("b.txt") == "one\r\n".replace("\r\n", "\n")
        for error, call in (
            (FileNotFoundError, box.read_file("none.txt")),
            (IsADirectoryError, box.read_file("in")),
            (PermissionError, box.read_file("/etc/passwd")),
            (PermissionError, box.write_file("../x", "")),
            (PermissionError, box.exec(["id"], user="root")),
            (TimeoutError, box.exec(["sleep", "30"], timeout=1)),
            (OutputLimitExceededError, box.exec(["python3", "-c", "print('x' * 2_000_000)"])),
        ):
            with pytest.raises(error):
                await call
        assert json.dumps(sorted(box.files)) == '["b.txt", "in/a.txt", "main.py", "out.txt"]'

    asyncio.run(play())
