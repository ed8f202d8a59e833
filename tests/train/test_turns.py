"""Attempts with a parent as conversations: the parent, the feedback of its verdict, and the attempt, which alone is trained on."""

import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from upsolve.archive.groups import earlier_turns
from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.config import AdvantageConfig, ObjectiveConfig, RewardConfig, check_recipe, load_recipe
from upsolve.errors import ConfigError, ModelError
from upsolve.policy.prompt import feedback, messages
from upsolve.policy.tokens import Codec
from upsolve.reward.formula import Rewarded
from upsolve.train.data.encode import Encoding, encode_groups, tokenize_groups
from upsolve.train.data.pack import pack
from upsolve.train.run.monitor import read_steps
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Turn, Verdict

TASK = Task("t", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
FIRST = Attempt("t", "def f(x):\n    return x\n")
SECOND = Attempt("t", "def f(x):\n    return x + 1\n", parent_id=FIRST.attempt_id)
THIRD = Attempt("t", "def f(x):\n    return 2 * x\n", parent_id=SECOND.attempt_id)
OTHER = Attempt("t", "def f(x):\n    return x << 1\n", parent_id=FIRST.attempt_id)
ATTEMPTS = (FIRST, SECOND, THIRD, OTHER)
WRONG = "test 1: f(2) gave 2, expected 4"


def verdict(attempt, *, passed=False):
    if passed:
        return Verdict(attempt.attempt_id, Status.PASSED, 1, 1, judge="a")
    return Verdict(attempt.attempt_id, Status.FAILED, 0, 1, judge="a", error_message=WRONG)


VERDICTS = (verdict(FIRST), verdict(SECOND), verdict(THIRD, passed=True), verdict(OTHER, passed=True))


def chains(most, attempts=ATTEMPTS):
    found = earlier_turns(attempts, [None] * len(attempts), most)
    return [[attempts.index(turn.attempt) for turn in turns] for turns in found]


def test_turns_are_the_last_ancestors_oldest_first():
    assert chains(1) == [[], [0], [1], [0]] and chains(5) == [[], [0], [0, 1], [0]]
    assert chains(3, (FIRST, replace(FIRST, author="b"))) == []  # no attempt has a parent
    assert chains(3, (SECOND, THIRD)) == [[], [0]]  # a parent that is not there ends the chain
    first, second = replace(FIRST, parent_id=SECOND.attempt_id), SECOND
    assert chains(9, (first, second)) == [[1], [0]]  # each the other's parent


def test_groups_of_an_archive_have_no_turns_unless_asked_for(tmp_path):
    archive = Archive.create(tmp_path / "a")
    archive.append(tasks=[TASK], attempts=ATTEMPTS, verdicts=VERDICTS)
    assert [len(turns) for turns in archive.groups(turns=1)[0].turns] == [0, 1, 1, 1]
    assert not any(archive.groups()[0].turns)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            Verdict("", Status.FAILED, 1, 3, error_message=WRONG),
            f"The program gives a wrong answer: {WRONG}\n1 of 3 tests pass.",
        ),
        (
            Verdict("", Status.RUNTIME_ERROR, error_type="ValueError", error_message="bad", error_line=2),
            "The program raises an error in line 2: ValueError: bad.",
        ),
        (
            Verdict("", Status.COMPILE_ERROR, error_type="SyntaxError", error_message="invalid syntax", error_line=4),
            "The program does not compile in line 4: invalid syntax.",
        ),
        (Verdict("", Status.TIMEOUT, 0, 2), "The program takes too long\n0 of 2 tests pass."),
        (Verdict("", Status.UNSCORED, error_message="the sandbox broke"), "The program was not tested."),
        (None, "The program was not tested."),
    ],
)
def test_feedback(made, words):
    assert feedback(made) == f"{words}\n\nWrite the whole program again, corrected."
    assert feedback(verdict(FIRST, passed=True)).endswith("passes all tests.\n\nWrite the whole program again, improved.")


def test_a_conversation():
    chat = messages(TASK, turns=(Turn(FIRST, VERDICTS[0]),))
    assert [message["role"] for message in chat] == ["user", "assistant", "user"]
    assert chat[0]["content"] == "Double x.\n\nExamples:\nassert f(2) == 4"
    assert chat[1]["content"] == "```python\ndef f(x):\n    return x\n```"
    assert chat[2]["content"] == feedback(VERDICTS[0])


def codec_of(tiny_model, template=""):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = template or None
    return Codec(tokenizer)


def rewarded(group, rewards):
    return Rewarded(group, rewards, ((),) * len(rewards), Counter(), Counter())


TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


@pytest.mark.parametrize("template", ["", TEMPLATE])
def test_only_the_tokens_of_the_attempt_are_trained_on(tiny_model, template):
    """Attempts of one group with three prompts: three packed groups; the targets are the attempts and nothing of the conversations."""
    codec = codec_of(tiny_model, template)
    group = Group(TASK, ATTEMPTS, VERDICTS, turns=earlier_turns(ATTEMPTS, VERDICTS, 2))
    rewards = np.array([0.0, 0.0, 1.0, 1.0])
    config = Encoding(codec, 1000, RewardConfig(), AdvantageConfig(kind="centred"), ObjectiveConfig())
    encoded, left_out, _ = encode_groups(tokenize_groups([rewarded(group, rewards)], config), config)
    assert not left_out and [len(one.attempts) for one in encoded] == [1, 2, 1]
    texts = [codec.tokenizer.decode(one.prompt_P) for one in encoded]
    assert [text.count("return x\n```") for text in texts] == [0, 1, 1] and [WRONG in text for text in texts] == [
        False,
        True,
        True,
    ]
    batch = pack([encoded])
    assert "".join(codec.tokenizer.decode(batch.target_T[batch.attempt_T == i]) for i in range(4)) == "".join(
        f"{attempt.code.rstrip()}\n```" for attempt in (FIRST, SECOND, OTHER, THIRD)
    )
    assert [float(batch.advantages_T[batch.attempt_T == i][0]) for i in range(4)] == [-0.5, -0.5, 0.5, 0.5]


def test_attempts_with_advantage_zero_are_counted_once(tiny_model):
    group = Group(TASK, ATTEMPTS, VERDICTS, turns=earlier_turns(ATTEMPTS, VERDICTS, 2))
    config = Encoding(codec_of(tiny_model), 1000, RewardConfig(), AdvantageConfig(kind="centred"), ObjectiveConfig())
    tokenized = tokenize_groups([rewarded(group, np.array([0.0, 0.5, 1.0, 0.5]))], config)
    encoded = encode_groups(tokenized, config).groups
    assert [one.zero_attempts for one in encoded] == [2, 0]


def test_a_template_that_hides_earlier_turns_is_refused(tiny_model):
    codec = codec_of(tiny_model, "<user>{{ messages[-1].content }}<assistant>")
    with pytest.raises(
        ModelError, match=r"data.turns, solve --rounds: the chat template of .* leaves out 1 of 1 earlier attempts"
    ):
        codec.prompt(TASK, (Turn(FIRST, VERDICTS[0]),))


def test_what_compares_attempts_at_one_prompt_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"data.turns: objective.kind dpo compares attempts at one prompt"):
        check_recipe(load_recipe("dpo", ["data.turns=1"]))
    export_archive = pytest.importorskip("upsolve.exports.exporting").export_archive
    with pytest.raises(ConfigError, match="data.turns: a pair has one prompt"):
        export_archive(stored(tmp_path / "a"), tmp_path / "out", "pairs", recipe=load_recipe("rloo", ["data.turns=1"]))


def stored(folder, tasks=1):
    archive = Archive.create(folder)
    for number in range(tasks):
        ids: dict[str, str] = {}
        for attempt, judged in zip(ATTEMPTS, VERDICTS, strict=True):
            copy = replace(attempt, task_id=f"t{number}", parent_id=ids.get(attempt.parent_id, ""))
            ids[attempt.attempt_id] = copy.attempt_id
            archive.append(attempts=[copy], verdicts=[replace(judged, attempt_id=copy.attempt_id)])
    archive.append(tasks=[replace(TASK, task_id=f"t{number}") for number in range(tasks)])
    return archive


def test_exports_write_the_conversation(tmp_path):
    export_archive = pytest.importorskip("upsolve.exports.exporting").export_archive
    recipe = load_recipe("sft", ["data.turns=2", "data.train=0.98", "data.dev=0.01"])
    archive = stored(tmp_path / "archive", 3)
    export_archive(archive, tmp_path / "sft", "sft", recipe=recipe, options={"form": "messages"})
    rows = pq.read_table(tmp_path / "sft" / "train.parquet").to_pylist()
    by_code = {row["messages"][-1]["content"]: [message["role"] for message in row["messages"]] for row in rows}
    assert by_code[f"```python\n{THIRD.code.rstrip()}\n```"] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert by_code[f"```python\n{OTHER.code.rstrip()}\n```"] == ["user", "assistant", "user", "assistant"]
    groups = load_recipe("rloo", ["data.turns=2", "data.train=0.98", "data.dev=0.01"])
    export_archive(archive, tmp_path / "groups", "groups", recipe=groups)
    rows = pq.read_table(tmp_path / "groups" / "train.parquet").to_pylist()
    assert sorted(len(row["completions"]) for row in rows[:3]) == [1, 1, 2]


@pytest.mark.parametrize("recipe", ["rloo", pytest.param("sft", marks=pytest.mark.slow)])
def test_a_run_trains_on_conversations(tmp_path, tiny_model, monkeypatch, recipe):
    archive, losses = stored(tmp_path / "archive", 12), []
    settings = ["data.train=0.8", "data.dev=0.1", "optim.max_steps=2", "optim.epochs=2"]
    for turns in (0, 1):
        out = tmp_path / f"run{turns}"
        words = [word for setting in (*settings, f"data.turns={turns}") for word in ("--set", setting)]
        given = ["train", recipe, "--archive", str(archive.path), "--model", tiny_model, "--out", str(out), *words]
        monkeypatch.setattr(sys, "argv", ["upsolve", *given])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        losses.append([row.get("loss") for row in read_steps(out / "metrics.jsonl")])
    assert len(losses[1]) == 2 and losses[0] != losses[1]
