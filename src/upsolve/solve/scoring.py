"""Scores of attempts by a user's command or by the likelihood under a model, for archives and for the choice among candidates."""

import json
import math
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from upsolve.archive.preference import score_verdicts
from upsolve.archive.store import Archive
from upsolve.archive.unjudged import not_scored
from upsolve.config import ModelConfig, SampleConfig
from upsolve.errors import ConfigError
from upsolve.files import json_lines
from upsolve.policy.locate import locate
from upsolve.types import Attempt, OnProgress, Task, no_progress

__all__ = ["LIKELIHOOD", "ScoredArchive", "Scorer", "by_command", "by_likelihood", "read_scores", "score_archive", "scorer_of"]

Pairs = Sequence[tuple[Task, Attempt]]
"""Attempts with their tasks."""
Scorer = Callable[[Pairs], Sequence[Mapping[str, float]]]
"""Returns the scores of each attempt by name, finite; {} for an attempt without a score. The first name is that of the evidence ``score``."""
LIKELIHOOD = "likelihood"
LONGEST = 4096
"""Largest number of tokens of prompt and program together; longer ones have no likelihood."""


@dataclass(frozen=True, slots=True)
class ScoredArchive:
    """Counts of ``score_archive``."""

    scored: int
    """Programs that have a score now and had none before."""
    unscored: int
    """Programs to which the scorer gave no number."""
    before: int
    """Programs that had the score before."""
    orphans: int
    """Programs without a task."""


def scorer_of(text: str) -> Scorer:
    """Return the scorer that an option names: ``likelihood:MODEL``, or a command.

    Raises:
        ModelError: the model is not found.
        ConfigError: the program of the command is not found, or the command cannot be split.
    """
    kind, _, model = text.partition(":")
    if kind != LIKELIHOOD or not model:
        return by_command(text)
    locate(model)
    return by_likelihood(model)


def by_command(command: str, name: str = "score") -> Scorer:
    """Return a scorer that gives attempts to a command as JSON lines and reads a number a line (``read_scores``).

    The command is split as by a shell and run without one (ConfigError if it cannot be split, or its program is not found). The scorer raises
    ConfigError if the command cannot be run, fails, or writes another number of lines than attempts.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"score command {command!r}: {error}") from error
    if not words or not shutil.which(words[0]):
        raise ConfigError(f"score command {command!r}: {words[0] if words else 'it is empty'}: not found, or not executable")

    def scores(pairs: Pairs) -> list[dict[str, float]]:
        distinct = {attempt.attempt_id: (task, attempt) for task, attempt in pairs}
        lines = json_lines(row_of(task, attempt) for task, attempt in distinct.values())
        try:
            done = subprocess.run(words, input=lines, capture_output=True, text=True, check=False)
        except (OSError, IndexError, ValueError) as error:
            raise ConfigError(f"score command {command!r}: cannot be run: {error}") from error
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ConfigError(f"score command {command!r}: exit code {done.returncode}: {reason}")
        found = dict(zip(distinct, read_scores(done.stdout, [*distinct]), strict=True))
        known = (found[attempt.attempt_id] for _, attempt in pairs)
        return [{} if value is None else {name: value} for value in known]

    return scores


def row_of(task: Task, attempt: Attempt) -> dict[str, Any]:
    """Return the JSON object that a scoring command reads for an attempt; it holds no tests."""
    names = ("attempt_id", "task_id", "language", "author", "code", "answer")
    return {**{name: getattr(attempt, name) for name in names}, "prompt": task.prompt, "entry_point": task.entry_point}


def read_scores(text: str, ids: Sequence[str]) -> list[float | None]:
    """Return the score of each attempt from the lines of a command; None for nan, infinity, an empty line and words.

    A line is a number, in the order of the attempts, or an object with ``attempt_id`` and ``score``, in any order. ConfigError:
    another number of lines than attempts, or lines that do not name each attempt once.
    """
    lines = text.splitlines()
    if len(lines) != len(ids):
        raise ConfigError(
            f"the score command wrote {len(lines)} lines for {len(ids)} attempts: write one number a line, or an object with attempt_id "
            "and score; nan for an attempt without a score"
        )
    values = [*map(value_of, lines)]
    if not any(isinstance(value, dict) for value in values):
        return [*map(finite, values)]
    named = {str(row.get("attempt_id")): row.get("score") for row in values if isinstance(row, dict)}
    if named.keys() != {*ids}:
        other = next(iter({*ids} - named.keys()), "")
        raise ConfigError(f"the score command wrote no line for the attempt {other}: each attempt_id must occur once")
    return [finite(named[one]) for one in ids]


def value_of(line: str) -> Any:
    """Return the JSON value of a line; if the line is not JSON, its text."""
    try:
        return json.loads(line)
    except ValueError:
        return line


def finite(value: Any) -> float | None:
    """Return a finite number; None for any other value."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def by_likelihood(model: str, name: str = LIKELIHOOD) -> Scorer:
    """Return a scorer by the log-probability of the tokens of an attempt under a model, nats, given the prompt of its task.

    The scores are ``NAME_sum``, sum_t log pi(token_t), and ``NAME_mean``, divided by the number of tokens. The model is loaded at the first call.

    Raises:
        ModelError: the model cannot be loaded; raised by the scorer.
    """
    loaded: list[Any] = []

    def scores(pairs: Pairs) -> list[dict[str, float]]:
        if not loaded:
            from upsolve.policy.engines import sampler

            loaded.append(sampler(SampleConfig(engine="transformers"), ModelConfig(name=model)))
        found = token_logps(loaded[0], pairs)
        return [{f"{name}_sum": sum(one), f"{name}_mean": sum(one) / len(one)} if one else {} for one in found]

    return scores


def token_logps(local: Any, pairs: Pairs) -> list[list[float]]:
    """Return the log-probability of each token of attempts, nats; [] for an empty attempt and for one that is too long."""
    from upsolve.train.update.reference_scorer import logps_of

    codec = local.codec
    texts = [(codec.prompt(task, (), codec.prefix_of(attempt)).ids_P, codec.ids_of(attempt)) for task, attempt in pairs]
    fits = [0 < len(ids) <= LONGEST - len(prompt) for prompt, ids in texts]
    found = iter(logps_of(local.model.eval(), [text for text, fit in zip(texts, fits, strict=True) if fit], most=LONGEST))
    return [next(found) if fit else [] for fit in fits]


def score_archive(
    archive: Archive,
    scorer: Scorer,
    name: str,
    *,
    batch: int = 256,
    everything: bool = False,
    progress: OnProgress = no_progress,
) -> ScoredArchive:
    """Score the programs of an archive that lack the score ``name``, and store it beside their verdicts; a repeated call resumes.

    The scorer gets, and the archive stores, ``batch`` programs at once. ``everything``: also those that have the score.
    """
    scored = unscored = 0
    with not_scored(archive, name, everything=everything) as programs:
        for pairs in chunks(programs, batch):
            found = [*zip(pairs, scorer(pairs), strict=True)]
            archive.append(verdicts=[one for (_, attempt), given in found for one in score_verdicts(attempt.attempt_id, given)])
            scored, unscored = scored + sum(bool(given) for _, given in found), unscored + sum(not given for _, given in found)
            progress("score", scored + unscored, len(programs))
        return ScoredArchive(scored, unscored, programs.done, programs.orphans)


def chunks(programs: Any, size: int) -> Iterator[list[tuple[Task, Attempt]]]:
    """Yield lists of at most ``size`` programs."""
    rest = iter(programs)
    while part := list(islice(rest, size)):
        yield part
