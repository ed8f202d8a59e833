"""Files in the layouts that trainers write; the layouts are from their sources."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from imports import imported, write_lines

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.door import reading_of
from upsolve.importers.registry import SOURCES
from upsolve.importers.rows import text_of
from upsolve.importers.tables.rollouts import filled, number_of, rollout, rollouts_of
from upsolve.policy.prompt import messages
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

ANSWER = "<think>Maybe:\n```python\nwrong\n```\n</think>Here:\n```python\ndef f(x):\n    return 2 * x\n```\nDone."
CODE = "def f(x):\n    return 2 * x"


def lines_of(file, *rows):
    return write_lines(file, rows)


def outcomes(archive):
    """Status of every attempt, in their order, with its record as it was imported."""
    statuses = {verdict.attempt_id: verdict.status.value for verdict in archive.verdicts()}
    return [statuses[attempt.attempt_id] for attempt in archive.attempts()]


def row_of(prompt, answer, score, *, extra=None, **fields):
    """A row of a rollout."""
    return rollout(extra or {}, {}, prompt=prompt, answer=answer, status=score, **fields)


def records(row, **options):
    """Task, attempt and verdict of a rollout."""
    return tuple(rollouts_of("trl", **options).records(row))


def test_a_rollout_becomes_a_task_an_attempt_and_a_verdict():
    row = row_of("Double x.", ANSWER, 0.75, author="m", created="2026-11-23T00:00:00+00:00", extra={"step": 3, "none": None})
    task, attempt, verdict = records(row)
    assert (task.prompt, task.source, task.language) == ("Double x.", "trl", "python") and task.task_id.startswith("trl/")
    assert (attempt.code, attempt.author, attempt.created) == (CODE, "m", "2026-11-23T00:00:00+00:00")
    assert json.loads(attempt.extra) == {"score": 0.75, "step": 3} and attempt.answer == ANSWER
    assert (verdict.status, verdict.judge) == (Status.FAILED, "recorded:trl")
    assert records(row, passed_at=0.75)[2].status is Status.PASSED
    assert records(row, author="other")[1].author == "other"


@pytest.mark.parametrize("score", [None, math.nan])
def test_a_missing_score_is_unscored_and_never_zero(score):
    verdict = records(row_of("p", "x", score), passed_at=-1)[2]
    assert (verdict.status, verdict.error_message) == (Status.UNSCORED, "no score is recorded")
    assert records(row_of("p", "x", score, error="the sandbox died"))[2].error_message == "the sandbox died"
    assert records(row_of("p", "x", 0.0))[2].status is Status.FAILED


@pytest.mark.parametrize(("options", "count"), [({}, 1), ({"passed_at": 100}, 0), ({"passed_at": 1}, 0)])
def test_scores_above_1_without_a_threshold_warn_once(tmp_path, recwarn, options, count):
    rows = [{"input": "p", "output": f"x{score}", "reward": score} for score in (0, 1, 50, 100)]
    imported(tmp_path, "openrlhf", lines_of(tmp_path / "a.jsonl", *rows), **options)
    said = [str(one.message) for one in recwarn if "scores above 1 occur, such as 50" in str(one.message)]
    assert len(said) == count and all("--passed-at SCORE" in one for one in said)


def test_tokens_are_stored_but_no_log_probability_of_answers_with_text():
    plain = records(row_of("p", CODE, 1.0, token_ids=[5, 6], token_logps=[-0.5, -1.0]))[1]
    assert (plain.token_ids, plain.token_logps, plain.behavior_logp, plain.tokens) == ((5, 6), (-0.5, -1.0), -1.5, 2)
    fenced = records(row_of("p", ANSWER, 1.0, token_ids=[5, 6], token_logps=[-0.5, -1.0], tokens=9))[1]
    assert (fenced.token_ids, fenced.token_logps, fenced.behavior_logp, fenced.tokens) == ((5, 6), (-0.5, -1.0), None, 9)
    uneven = records(row_of("p", CODE, 1.0, token_ids=[5, 6], token_logps=[-0.5]))[1]
    assert (uneven.token_ids, uneven.token_logps) == ((5, 6), None) and json.loads(uneven.extra)["logps"] == [-0.5]


def test_an_answer_may_continue_the_fence_that_its_prompt_opens():
    task = Task("a/1", "Double x.", (TestCase(TestKind.CALL, "f(1)", "2"),))
    _, attempt, _ = records(
        row_of(messages(task)[0]["content"] + "\n\n```python\n", CODE + "\n```", 1.0, token_ids=[1], token_logps=[-1.0])
    )
    assert attempt.code == CODE and attempt.behavior_logp == -1.0
    assert records(row_of("Like this:\n```\nx\n```", CODE, 1.0))[1].code == CODE


def test_rollouts_join_known_tasks_by_name_or_prompt(tmp_path):
    task = Task("mbpp/2", "Double x.", (TestCase(TestKind.CALL, "f(1)", "2"),))
    Archive.create(tmp_path / "known").append(tasks=[task])
    options = {"tasks": str(tmp_path / "known")}
    chat = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    assert records(row_of("?", "x", 1.0, task_id="Mbpp/2"), **options)[0] == task
    assert records(row_of(" Double x.\n", "x", 1.0), **options)[0] == task
    for shown in (task.prompt, messages(task)[0]["content"]):
        prompt = chat.format(shown)
        assert records(row_of(prompt, "x", 1.0), statement=r"user\n(.*?)<\|im_end\|>", **options)[0] == task
    assert records(row_of("Halve x.", "x", 1.0), **options)[0].source == "trl"
    known, other = (records(row_of(prompt, "x", 1.0), **options)[1] for prompt in (task.prompt, f"{task.prompt}\n"))
    assert (json.loads(known.extra), json.loads(other.extra)) == ({"score": 1.0}, {"score": 1.0, "prompt": "Double x.\n"})
    with pytest.raises(ValueError, match="is not found in the prompt"):
        records(row_of("Double x.", "x", 1.0), statement="user(.*)")
    with pytest.raises(SourceError, match="needs a group"):
        rollouts_of("trl", statement="user")
    with pytest.raises(SourceError, match="is not a regular expression"):
        rollouts_of("trl", statement="(")
    with pytest.raises(SourceError, match="pyton"):
        rollouts_of("trl", language="pyton")


def test_columns_are_stored_as_json_that_sql_can_read():
    row = {"a": math.nan, "b": [math.inf, 1], "c": None, "d": "", "e": 0, "f": {1: math.nan}, "g": []}
    assert filled(row) == {"a": None, "b": ["inf", 1], "e": 0, "f": {"1": None}}
    assert [number_of(value) for value in (None, math.nan, True, 2)] == [None, None, 1.0, 2.0]
    with pytest.raises(ValueError, match="'good' is not a number"):
        number_of("good")


def test_text_of_messages():
    parts = [{"type": "text", "text": "a"}, {"type": "image", "image": "x.png"}, "b"]
    assert text_of([{"role": "system", "content": ""}, {"role": "user", "content": parts}]) == "a\n\nb"
    with pytest.raises(ValueError, match="is neither text nor messages"):
        text_of(3)


def completions(folder, step, *rows):
    """A file as TRL's trainer writes it: pandas puts columns of floats, with null for NaN."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    real = {name: pa.float64() if isinstance(values[0], float) else None for name, values in columns.items()}
    arrays = {name: pa.array(values, real[name], from_pandas=True) for name, values in columns.items()}
    table = {"step": [step] * len(rows), **arrays}
    pq.write_table(pa.table(table), folder / f"completions_{step:05d}.parquet")


def test_completions_of_trl(tmp_path):
    folder = tmp_path / "out" / "completions"
    rows = [
        {"prompt": "p", "completion": ANSWER, "tests": 1.0, "note": "a", "advantage": 0.7},
        {"prompt": "p", "completion": "x", "tests": 0.0, "note": "b", "advantage": -0.7},
        {"prompt": "q", "completion": "y", "tests": math.nan, "note": "c", "advantage": 0.0},
    ]
    completions(folder, 1, *rows)
    completions(folder, 2, *rows)  # the same generation, logged again
    completions(folder, 10, {**rows[1], "completion": "z"})
    completions(folder, 11, {**rows[2], "completion": "none of this step has a score"})
    archive, report = imported(tmp_path, "trl", tmp_path / "out")
    assert report.bad == 0 and len(archive.tasks()) == 2
    assert [attempt.code for attempt in archive.attempts()] == [CODE, "x", "y", "z", "none of this step has a score"]
    assert outcomes(archive) == ["passed", "failed", "unscored", "failed", "unscored"]
    extras = [json.loads(attempt.extra) for attempt in archive.attempts()]
    assert extras[1] == {"score": 0.0, "step": 1, "tests": 0.0, "note": "b", "advantage": -0.7}
    assert extras[2] == {"step": 1, "note": "c", "advantage": 0.0} and extras[3]["step"] == 10
    assert archive.query("select count(*) n from attempts where extra->>'note' = 'b'").to_pylist() == [{"n": 2}]
    assert [len(group.attempts) for group in archive.groups()] == [3, 2]


def test_columns_of_rewards_are_named_if_there_are_several(tmp_path):
    rows = [
        {"prompt": "p", "completion": str(i), "tests": a, "form": b, "advantage": 0.0}
        for i, (a, b) in enumerate([(1.0, 0.5), (math.nan, 0.5), (math.nan, math.nan)])
    ]
    completions(tmp_path / "a", 1, *rows)
    with pytest.raises(SourceError, match="--reward must name the columns of the score, among tests, form"):
        imported(tmp_path, "trl", tmp_path / "a")
    with pytest.raises(SourceError, match="has no column test; its columns are step, prompt"):
        imported(tmp_path, "trl", tmp_path / "a", reward="test")
    archive, _ = imported(tmp_path, "trl", tmp_path / "a" / "completions_00001.parquet", reward="tests, form", passed_at=1.5)
    assert outcomes(archive) == ["passed", "failed", "unscored"]
    with pytest.raises(SourceError, match="log_completions=True"):
        imported(tmp_path, "trl", tmp_path)


def test_rollouts_of_verl(tmp_path):
    row = {"input": "user\nDouble x.\nassistant\n", "output": ANSWER, "gts": "f(1) == 2", "score": 1.0, "step": 9, "acc": True}
    lines_of(
        tmp_path / "run" / "10.jsonl",
        {**row, "step": 10, "output": "x", "score": 0.0},
        {**row, "step": 10, "output": "y", "score": None},
    )
    lines_of(tmp_path / "run" / "9.jsonl", row, {"output": "no input"}, {**row, "score": "high"})
    archive, report = imported(tmp_path, "verl", tmp_path / "run", statement=r"user\n(.*)\nassistant")
    assert [task.prompt for task in archive.tasks()] == ["Double x."]
    assert [attempt.code for attempt in archive.attempts()] == [CODE, "x", "y"]
    assert outcomes(archive) == ["passed", "failed", "unscored"]
    extra = json.loads(archive.attempts()[0].extra)
    rest = {"gts": "f(1) == 2", "step": 9, "acc": True}
    assert extra == {"score": 1.0, **rest, "prompt": "user\nDouble x.\nassistant\n"}
    assert [row.reason for row in report.reasons] == ["no field 'input'", "the score 'high' is not a number"]


def test_samples_of_openrlhf(tmp_path):
    file = lines_of(
        tmp_path / "samples.jsonl",
        {"input": "p", "output": "x", "reward": 1.25},
        {"input": "p", "output": "y"},
        {"prompt": "p", "chosen": "a", "chosen_reward": 1.0, "rejected": "b", "rejected_reward": 0.5, "id": 4},
    )
    archive, _ = imported(tmp_path, "openrlhf", file, passed_at=1)
    assert [attempt.code for attempt in archive.attempts()] == ["x", "y", "a", "b"]
    assert outcomes(archive) == ["passed", "unscored", "passed", "failed"]
    assert len(archive.tasks()) == 1 and json.loads(archive.attempts()[3].extra) == {
        "score": 0.5,
        "chosen": False,
        "id": 4,
    }


def test_pairs_keep_which_answer_was_chosen_and_the_score_of_each(tmp_path):
    user, said = {"role": "user", "content": "p"}, {"chosen": "a", "rejected": "b"}
    messages = {side: [{"role": "assistant", "content": text}] for side, text in said.items()}
    rows = [
        {"prompt": "p", **said, "chosen_score": 1, "rejected_score": 0, "score_chosen": 9},
        {"prompt": "p", **said, "source": "s"},
        {"prompt": [user], **messages},
        {side: [user, *answer] for side, answer in messages.items()},
        messages,
    ]
    archive, report = imported(tmp_path, "openrlhf", lines_of(tmp_path / "pairs.jsonl", *rows))
    assert [row.reason for row in report.reasons] == ["neither a prompt ('input or prompt') nor messages that begin with one"]
    assert {(task.prompt, task.source) for task in archive.tasks()} == {("p", "openrlhf")}
    stored = [(attempt.code, json.loads(attempt.extra), attempt.count) for attempt in archive.attempts()]
    assert stored == [
        ("a", {"score": 1.0, "chosen": True, "score_chosen": 9}, 1),
        ("b", {"score": 0.0, "chosen": False}, 1),
        ("a", {"chosen": True, "source": "s"}, 1),
        ("b", {"chosen": False, "source": "s"}, 1),
        ("a", {"chosen": True}, 2),
        ("b", {"chosen": False}, 2),
    ]


@pytest.mark.parametrize("source", ["atif", "inspect", "openrlhf", "trl", "verifiers", "verl"])
def test_every_source_has_the_options_of_rollouts(source):
    assert {"passed_at", "tasks", "statement", "language", "author"} <= {option.name for option in SOURCES[source].options}


def test_the_same_program_with_other_scores_keeps_each_score(tmp_path):
    file = lines_of(
        tmp_path / "1.jsonl",
        *({"input": "p", "output": f"{text}```python\nx\n```", "score": s} for text, s in (("a\n", 0.0), ("b\n", 1.0))),
    )
    archive, _ = imported(tmp_path, "verl", file)
    assert [json.loads(attempt.extra)["score"] for attempt in archive.attempts()] == [0.0, 1.0]
    assert {verdict.status for verdict in archive.verdicts()} == {Status.PASSED}
    assert isinstance(archive.attempts()[0], Attempt) and isinstance(archive.verdicts()[0], Verdict)


PAGE = (Path(__file__).parents[2] / "docs" / "maps.md").read_text(encoding="utf-8")
DOCUMENTED = PAGE.partition("## Rollouts")[2].split("```yaml\n")[1].partition("```")[0]


def test_the_documented_map_of_rollouts(tmp_path):
    (tmp_path / "my.yaml").write_text(f"name: mine\n{DOCUMENTED}")
    row = {"question": [{"role": "user", "content": "Double x."}], "chosen": ANSWER, "rejected": "", "model": "m", "week": 2}
    scored = {**row, "chosen_reward": 0.5, "score_chosen": 7, "rejected_reward": 0}
    pairs = [lines_of(tmp_path / "in" / name, {**scored, "step": at}) for at, name in enumerate(("1.jsonl", "2.jsonl"))]
    archive, _ = imported(tmp_path, str(tmp_path / "my.yaml"), pairs[0], passed_at=0.5)
    assert [task.prompt for task in archive.tasks()] == ["Double x."] and outcomes(archive) == ["passed", "failed"]
    assert [(one.code, one.author, json.loads(one.extra)) for one in archive.attempts()] == [
        (CODE, "m", {"score": 0.5, "chosen": True, "week": 2, "score_chosen": 7, "step": 0}),
        ("", "m", {"score": 0.0, "chosen": False, "week": 2, "step": 0}),
    ]
    named, _ = imported(tmp_path, str(tmp_path / "my.yaml"), pairs[1], reward="week,step", passed_at=3, author="x")
    assert outcomes(named) == ["passed", "passed"] and {one.author for one in named.attempts()} == {"x"}


def test_a_run_of_trl_is_recognised(tmp_path):
    completions(tmp_path / "out" / "completions", 1, {"prompt": "p", "completion": "x", "tests": 1.0})
    assert reading_of(tmp_path / "out", {}).source == "trl"


def test_a_table_has_tokens_and_log_probabilities(tmp_path):
    sampled = {"ids": [5, 6], "logps": [-0.5, -1.0], "why": "length"}
    rows = [{"prompt": "p", "code": CODE, **sampled}, {"prompt": "p", "code": "x", **sampled, "ids": [5]}]
    options = {"token_ids": "ids", "token_logps": "logps", "truncated": "why"}
    archive, _ = imported(tmp_path, "table", lines_of(tmp_path / "log.jsonl", *rows), **options)
    first, second = archive.attempts()
    assert (first.token_ids, first.token_logps, first.behavior_logp, first.tokens) == ((5, 6), (-0.5, -1.0), -1.5, 2)
    assert first.truncated and first.extra == ""
    assert (second.token_ids, second.token_logps, second.extra) == ((5,), None, '{"logps": [-0.5, -1.0]}')
