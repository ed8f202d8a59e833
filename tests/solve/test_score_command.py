"""Scores by a command, by a model's likelihood, and as evidence for the choice among candidates."""

import json
import math
import sys

import pytest
from typer.testing import CliRunner

from upsolve.archive.preference import score_verdicts
from upsolve.archive.store import Archive
from upsolve.cli.main import app
from upsolve.errors import ConfigError
from upsolve.solve.choose import Candidates, choose
from upsolve.solve.outputs import Outputs
from upsolve.solve.scoring import by_command, by_likelihood, read_scores, score_archive
from upsolve.solve.solving import SolveSettings
from upsolve.types import Attempt, Task

TASK = Task("t/1", "add one")
ATTEMPTS = [Attempt("t/1", "x" * length) for length in (3, 1, 2)]


def command_in(folder, body):
    """A command that runs Python code with the attempts as ``rows``."""
    file = folder / "score.py"
    file.write_text(f"import json, sys\nrows = [json.loads(line) for line in sys.stdin]\n{body}\n")
    return f"{sys.executable} {file}"


def test_lines_are_numbers_or_objects():
    assert read_scores("1\n-2.5\nNaN\n\nnone\ntrue\n", list("abcdef")) == [1.0, -2.5, None, None, None, None]
    rows = [{"attempt_id": "b", "score": 2}, {"attempt_id": "a", "score": math.inf}]
    assert read_scores("\n".join(map(json.dumps, rows)), ["a", "b"]) == [None, 2.0]


def test_lines_that_do_not_fit_the_attempts_are_refused():
    with pytest.raises(ConfigError, match="wrote 1 lines for 2 attempts: write one number a line"):
        read_scores("1\n", ["a", "b"])
    with pytest.raises(ConfigError, match="no line for the attempt b"):
        read_scores('{"attempt_id": "a", "score": 1}\n{"attempt_id": "a", "score": 1}', ["a", "b"])


def test_a_command_scores_each_program_once(tmp_path):
    scorer = by_command(
        command_in(tmp_path, "print('\\n'.join(str(len(row['code']) + 10 * len(rows)) for row in rows))"), "size"
    )
    pairs = [(TASK, one) for one in (*ATTEMPTS, ATTEMPTS[0])]
    assert scorer(pairs) == [{"size": 33.0}, {"size": 31.0}, {"size": 32.0}, {"size": 33.0}]


def test_a_command_that_fails_is_named(tmp_path):
    with pytest.raises(ConfigError, match="exit code 3: no key"):
        by_command(command_in(tmp_path, "print('no key', file=sys.stderr); sys.exit(3)"))([(TASK, ATTEMPTS[0])])
    for command, reason in (("no-such-program-anywhere", "not found"), ("", "empty")):
        with pytest.raises(ConfigError, match=reason):
            by_command(command)


def stored(folder, verdicts=()):
    archive = Archive.create(folder)
    archive.append(tasks=[TASK], attempts=ATTEMPTS, verdicts=verdicts)
    return archive


def test_an_archive_is_scored_batch_by_batch_and_resumed(tmp_path):
    archive = stored(tmp_path, score_verdicts(ATTEMPTS[1].attempt_id, {"size": 9.0}))
    asked = []

    def scorer(pairs):
        asked.extend(attempt.code for _, attempt in pairs)
        if "xx" in [attempt.code for _, attempt in pairs]:
            raise KeyboardInterrupt
        return [{"size": float(len(attempt.code))} for _, attempt in pairs]

    with pytest.raises(KeyboardInterrupt):
        score_archive(archive, scorer, "size", batch=1)
    assert asked == ["xxx", "xx"]
    seen = []
    done = score_archive(archive, lambda pairs: [{} for _ in pairs], "size", progress=lambda *at: seen.append(at))
    assert (done.scored, done.unscored, done.before, done.orphans) == (0, 1, 2, 0) and seen == [("score", 1, 1)]
    assert sorted(archive.query("select value from scores").column("value").to_pylist()) == [3.0, 9.0]


def test_the_command_line_scores_an_archive(tmp_path):
    stored(tmp_path / "archive")
    command = command_in(tmp_path, "[print('nan' if row['code'] == 'x' else len(row['code'])) for row in rows]")
    done = CliRunner().invoke(app, ["archive", "score", str(tmp_path / "archive"), "--command", command, "--name", "size"])
    assert "2 attempts scored, 1 without a number, 0 scored before" in done.output
    found = Archive(tmp_path / "archive").groups()[0].verdicts
    assert [verdict and verdict.scores for verdict in found] == [{"size": 3.0}, None, {"size": 2.0}]


def test_likelihood_is_the_sum_and_the_mean_over_tokens(monkeypatch):
    """With logits that are all equal each of the V tokens has the probability 1 / V."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from upsolve.policy.decoding.sample import LocalModel
    from upsolve.policy.model import load_codec

    codec = load_codec("smollm2-135m")
    size = len(codec.tokenizer)
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=size, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    )
    torch.nn.init.zeros_(model.lm_head.weight)
    monkeypatch.setattr("upsolve.policy.engines.sampler", lambda *_: LocalModel(model, codec))
    attempt = Attempt("t/1", "def f(x):\n    return x\n")
    (found,) = by_likelihood("any", "m")([(TASK, attempt)])
    tokens = len(codec.ids_of(attempt))
    assert found == pytest.approx({"m_sum": -tokens * math.log(size), "m_mean": -math.log(size)}, rel=1e-5)


def test_likelihoods_are_computed_together(monkeypatch):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from upsolve.policy.decoding.sample import LocalModel
    from upsolve.policy.model import load_codec

    torch.manual_seed(0)
    codec = load_codec("smollm2-135m")
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(codec.tokenizer), initializer_range=1.0, **sizes))
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    monkeypatch.setattr("upsolve.policy.engines.sampler", lambda *_: LocalModel(model, codec))
    codes = ("def f(x):\n    return x\n", "def f(x):\n    return sum(x) + 1\n", "x = 1\n" * 5000, "f = abs\n")
    pairs = [(TASK, Attempt("t/1", code)) for code in codes]
    scorer = by_likelihood("any")
    together, count = scorer(pairs), len(calls)
    alone = [scorer([pair])[0] for pair in pairs]
    assert (count, len(calls) - count) == (1, 3) and [bool(one) for one in together] == [True, True, False, True]
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_a_score_decides_among_candidates():
    def chosen(*scores):
        return choose(Candidates(TASK, tuple(ATTEMPTS), (None,) * 3, (Outputs(),) * 3, scores=scores), ("score",))

    assert (chosen(0.5, 2.0, 1.0).index, chosen(0.5, 2.0, 1.0).decided_by) == (1, "score")
    assert chosen(None, -3.0, -2.0).scores["score"] == (-3.0, -3.0, -2.0)
    assert chosen().scores["score"] == (0.0, 0.0, 0.0)


def test_the_evidence_and_the_scorer_need_each_other():
    for kinds, scorer in ((("score",), None), (("tests",), by_command("cat"))):
        with pytest.raises(ConfigError, match="need each other"):
            SolveSettings(kinds, scorer=scorer)
