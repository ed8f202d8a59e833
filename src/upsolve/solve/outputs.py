"""Outputs of candidates on inputs without a known right answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from upsolve.errors import ConfigError
from upsolve.languages import PYTHON, language
from upsolve.types import Attempt, Task, TestCase, TestKind, content_id
from upsolve.verify.judge.compare import NUMBER, literal, text_or_none
from upsolve.verify.judge.outcomes import ClaimError, whole_program
from upsolve.verify.judge.outputs import rows_of
from upsolve.verify.judge.queries import query_job
from upsolve.verify.judge.references import OPAQUE, as_literal, run_calls
from upsolve.verify.limits import JudgeSettings, limits_for
from upsolve.verify.pool.pool import Batch, deadline
from upsolve.verify.sandbox.runner import run_jobs
from upsolve.verify.service.run_code import Program, run_program

__all__ = ["Outputs", "outputs_of", "run_inputs"]

LONGEST = 10_000
"""Longest output that is compared as a whole, characters; a longer output is compared by beginning, length and hash."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a candidate on some inputs."""

    texts: tuple[str | None, ...] = ()
    """Output on each input, a literal or text; None if the candidate fails on the input, or returns no plain data."""
    forms: tuple[str | None, ...] = field(default=(), compare=False)
    """Canonical form of each output (``form_of``), equal for outputs that the task's comparison accepts as equal; (): the texts."""

    @property
    def votes(self) -> tuple[str | None, ...]:
        """The forms of the outputs; candidates with equal forms agree."""
        return self.forms or self.texts

    @property
    def ran(self) -> int:
        """Number of inputs on which the candidate ran to its end."""
        return sum(text is not None for text in self.texts)


def outputs_of(
    tasks: Sequence[Task], attempts: Sequence[Attempt], inputs: Sequence[Sequence[TestCase]], settings: JudgeSettings
) -> list[Outputs]:
    """Run each attempt on the inputs of its task, in parallel; equal programs on equal inputs run once.

    Args:
        tasks: the task of each attempt.
        attempts: candidates.
        inputs: for each attempt the tests whose ``input`` is run; ``expected`` is never read.
        settings: limits, isolation and workers.

    Raises:
        ConfigError: a database cannot be built.
        JudgeError: the sandbox broke, or a layer is missing.
    """
    keys = [(task, one.language, one.code, tuple(tests)) for task, one, tests in zip(tasks, attempts, inputs, strict=True)]
    first = {key: index for index, key in reversed([*enumerate(keys)])}
    batch = Batch(settings)

    def work(index: int) -> Outputs:
        pair = (tasks[index], attempts[index])
        seconds = deadline([pair], settings) * max(1, len(inputs[index]))
        return batch.call(run_inputs, *pair, [*inputs[index]], settings, seconds=seconds)

    with ThreadPoolExecutor(batch.size) as threads:
        found = dict(zip(first, threads.map(work, first.values()), strict=True))
    return [found[key] for key in keys]


def run_inputs(task: Task, attempt: Attempt, tests: Sequence[TestCase], settings: JudgeSettings) -> Outputs:
    """Run an attempt on the inputs of tests; runs in a worker.

    Calls run in Python, programs with standard input in every language, queries against the database of each input. Inputs of other kinds
    (``CODE``, ``SIMULATION``) have no output and count as not run, and so do programs in a language that this machine cannot run.
    """
    name = (attempt.language or task.language or "python").lower()
    if not tests:
        return Outputs()
    try:
        is_query = name not in PYTHON and language(name).engine
    except ValueError:  # unknown, or without its tools: the verdict is unscored and says so
        return Outputs((None,) * len(tests))
    runs = run_queries if is_query else partial(run_code, python=name in PYTHON)
    texts = tuple(runs(task, attempt, tests, replace(settings, limits=limits_for(task, settings))))
    forms = (text and form_of(text, test.kind, task.compare) for text, test in zip(texts, tests, strict=True))
    return Outputs(texts, tuple(forms))


def form_of(text: str, kind: TestKind, compare: str) -> str:
    """Return the canonical form of an output: equal for outputs that ``compare`` accepts as equal.

    Values of calls compare as in Python: ``1 == 1.0 == True``, and the order of sets and dicts does not count. ``tokens`` ignores
    white space. Comparisons with a tolerance round numbers to nine digits.
    """
    is_near = compare.startswith(("floats", "item"))
    if kind is TestKind.CALL:
        try:
            value = literal(text)
        except ValueError:  # a shortened text
            return text
        return text_or_none(rounded(value) if is_near else value) or text
    if compare == "tokens" or is_near:
        return " ".join(rounded_token(token) if is_near else token for token in text.split())
    return text


def rounded_token(token: str) -> str:
    """Return the text of a token, a real number with nine digits."""
    is_real = NUMBER.fullmatch(token) and not token.lstrip("+-").isdecimal()
    return repr(rounded(float(token))) if is_real else token


def run_code(
    task: Task, attempt: Attempt, tests: Sequence[TestCase], settings: JudgeSettings, *, python: bool
) -> list[str | None]:
    """Return the outputs of a program and, in Python, the values of calls as literals; None for inputs of other kinds."""
    calls = [test.input for test in tests if python and test.kind is TestKind.CALL]
    values = iter(values_of(task, attempt, calls, settings) if calls else ())
    programs = iter(run_programs(attempt, [test for test in tests if test.kind is TestKind.STDIO], settings))
    sources = {TestKind.STDIO: programs} | ({TestKind.CALL: values} if python else {})
    return [next(sources[test.kind]) if test.kind in sources else None for test in tests]


def values_of(task: Task, attempt: Attempt, calls: Sequence[str], settings: JudgeSettings) -> list[str | None]:
    """Return the value of each call as a literal; None if the call raises, is not reached or returns no plain data."""
    end = run_calls(attempt.code, calls, settings, requires=task.requires, setup=task.setup)
    records = {record["test"]: record for record in end.records if type(record.get("test")) is int}
    texts = [as_literal(records[index]["value"]) if "value" in records.get(index, ()) else None for index in range(len(calls))]
    return [None if text in (None, OPAQUE) else shortened(text) for text in texts]


def run_programs(attempt: Attempt, tests: Sequence[TestCase], settings: JudgeSettings) -> list[str | None]:
    """Return the output of a program for each input, without white space at the ends of lines; None if the program fails."""
    texts: list[str | None] = []
    for test in tests:
        ended = run_program(Program(attempt.code, attempt.language, test.input.encode()), settings).ended
        failed = ended is None or ended.returncode != 0 or ended.timed_out or ended.output_exceeded
        text = "" if ended is None else ended.stdout.decode("utf-8", "replace")
        texts.append(None if failed else shortened("\n".join(line.rstrip() for line in text.rstrip().split("\n"))))
    return texts


def run_queries(task: Task, attempt: Attempt, tests: Sequence[TestCase], settings: JudgeSettings) -> list[str | None]:
    """Return the rows of a query on each database, sorted unless the task compares them in order; None if the query fails."""
    databases = [f"{task.setup}\n{test.input}" for test in tests]
    (end,) = run_jobs([query_job(attempt.code, databases, settings, language(attempt.language).engine)], settings)
    found: dict[int, str] = {}
    try:
        whole_program(end)
    except ClaimError as error:
        raise ConfigError(f"{task.task_id}: the database cannot be built: {error}") from error
    for record in end.records:
        if type(index := record.get("test")) is int and type(record.get("end")) is int and type(record.get("start", 0)) is int:
            text = end.stdout[record.get("start", 0) : record["end"]].decode("utf-8", "replace")
            found[index] = shortened(rows_text(text, in_order=task.compare == "rows_in_order"))
    return [found.get(index) for index in range(len(tests))]


def rows_text(text: str, *, in_order: bool) -> str:
    """Return rows in a form in which equal rows are equal texts: numbers with nine digits, in sorted order."""
    try:
        rows = [json.dumps([rounded(cell) for cell in row]) for row in rows_of(text)]
    except ValueError:
        return text
    return "\n".join(rows if in_order else sorted(rows))


def rounded(value: Any) -> Any:
    """Return a float with nine digits (below 1 with nine decimal places), also within lists, tuples, sets and values of dicts; other data unchanged."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(map(rounded, value))
    if type(value) is not float:
        return value
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    return round(value, 9) if abs(value) < 1 else float(f"{value:.9g}")


def shortened(text: str) -> str:
    """Return a text cut to about ``LONGEST`` characters, with its length and hash, so that different texts stay different."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... {len(text)} characters, hash {content_id(text)}"
