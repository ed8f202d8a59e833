"""Whole answers: thinking and prose around the code (``model.completion: answer``)."""

from dataclasses import replace

import numpy as np
import pytest

from upsolve.archive.store import Archive
from upsolve.config import Recipe, SampleConfig
from upsolve.policy.answers import program_in
from upsolve.policy.decoding.sample import sample
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.prompt import fenced_answer
from upsolve.reward.code import in_code
from upsolve.reward.credit import token_rewards
from upsolve.reward.judged import Judged, Part
from upsolve.types import Attempt, Finding, Status, Task, Verdict

TASK = Task("t", "Double a number.", entry_point="f")
CODE = "def f(x):\n    y = 1\n    return 2 * x"
ANSWER = f"<think>\nMaybe\n```python\n{CODE}\n# no, longer\n```\n</think>\n\nHere it is:\n\n```python\n{CODE}\n```\nDone."


def test_prompts_and_completions_of_whole_answers(tiny_model):
    codec, plain = load_codec(tiny_model, answers=True), load_codec(tiny_model)
    assert plain.prompt_text(TASK).startswith(codec.prompt_text(TASK)) and not codec.prompt_text(TASK).endswith("```python\n")
    attempt = Attempt("t", CODE, answer=ANSWER)
    ids = codec.ids_of(attempt)
    assert codec.decode(list(ids)) == ANSWER and ids[-1] == codec.tokenizer.eos_token_id
    assert codec.ids_of(replace(attempt, truncated=True)) == ids[:-1]
    assert codec.code_and_answer(ids, TASK) == (CODE, ANSWER)
    sampled = replace(attempt, token_ids=ids)
    assert codec.ids_of(sampled) is sampled.token_ids
    bare = Attempt("t", CODE)
    assert fenced_answer(bare) == f"```python\n{CODE}\n```" == codec.decode(list(codec.ids_of(bare)))
    assert plain.ids_of(attempt) == plain.ids_of(bare), "without the setting, the code alone is the completion"


@pytest.mark.parametrize("answer", [ANSWER, "", f"```python\n{CODE}\n```"])
def test_spans_count_from_the_start_of_the_code(tiny_model, answer):
    codec, attempt = load_codec(tiny_model, answers=True), Attempt("t", CODE, answer=answer)
    text, spans = fenced_answer(attempt), codec.spans_of(attempt)
    begin = text.rindex(CODE)
    assert len(spans) == len(codec.ids_of(attempt)) and spans[0][0] == -begin
    inside = in_code(CODE, spans)
    parts = [text[start + begin : end + begin] for (start, end), yes in zip(spans, inside, strict=True) if yes]
    assert CODE in "".join(parts) and len("".join(parts)) <= len(CODE) + 8


def test_credit_lands_on_the_code(tiny_model):
    """A lint finding on line 2 of the code: only tokens of that line are rewarded, none of the thinking that repeats it."""
    codec, attempt = load_codec(tiny_model, answers=True), Attempt("t", CODE, answer=ANSWER)
    verdict = Verdict(attempt.attempt_id, Status.PASSED, findings=(Finding("lint", "F841", "unused", 2, 5, 2, 10),))
    spans = codec.spans_of(attempt)
    rewards = token_rewards(Judged(TASK, attempt, verdict), [Part("lint", -1.0, 1.0)], spans, Recipe().reward).rewards_R
    line = (CODE.index("y = 1"), CODE.index("y = 1") + 5)
    hit = [index for index, (start, end) in enumerate(spans) if start < line[1] and end > line[0]]
    assert rewards.sum() == pytest.approx(-1.0)
    assert {*np.flatnonzero(rewards)} <= {*hit} and len(hit) < len(spans) / 4


def test_an_answer_that_does_not_contain_its_code_has_no_code_tokens(tiny_model):
    codec = load_codec(tiny_model, answers=True)
    spans = codec.spans_of(Attempt("t", CODE, answer="  ```python\n  def f(x):\n      return 3 * x\n  ```"))
    assert not in_code(CODE, spans).any()


@pytest.mark.parametrize(("before", "end"), [("  ", "\n"), ("", "\r\n")])
def test_lines_of_the_code_are_found_where_the_answer_indents_or_ends_them_otherwise(tiny_model, before, end):
    """A token of line 2 of the code is one of line 2 in the answer, although the answer does not contain the code as it is."""
    codec = load_codec(tiny_model, answers=True)
    answer = "".join(f"{before}{line}{end}" for line in ["```python", *CODE.split("\n"), "```"])
    attempt = Attempt("t", CODE, answer=answer)
    assert codec.code_and_answer(codec.ids_of(attempt), TASK) == (CODE, answer)
    spans, pieces = codec.spans_of(attempt), codec.decoded_spans(codec.ids_of(attempt))
    line = range(CODE.index("    y = 1"), CODE.index("    y = 1") + len("    y = 1"))
    hit = [
        answer[start:stop]
        for (first, last), (start, stop) in zip(spans, pieces, strict=True)
        if first < line.stop and last > line.start
    ]
    assert "y = 1" in "".join(hit) and len("".join(hit)) < len(line) + 8


def test_samples_keep_their_answers_and_an_archive_stores_them(tiny_model, tmp_path):
    model, codec = load_model(tiny_model), load_codec(tiny_model, answers=True)
    attempts = [*sample(model, codec, [TASK], config=SampleConfig(samples=3, max_tokens=24, temperature=1.0))]
    assert all(codec.ids_of(attempt) == attempt.token_ids for attempt in attempts)
    assert all(attempt.code == program_in(attempt.answer, names=("f",)) for attempt in attempts)
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[TASK], attempts=attempts)
    assert archive.groups()[0].attempts == tuple(archive.attempts()) and {a.answer for a in archive.attempts()} == {
        a.answer for a in attempts
    }
