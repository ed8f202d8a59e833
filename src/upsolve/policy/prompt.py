"""Task -> chat messages, and code -> completion.

The assistant turn is prefilled with an opening code fence, and sampling stops at the closing one. So samples and stored programs have the
same format in training: the code, then ``CLOSE``.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from upsolve.config import PromptConfig
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Turn, Verdict, content_id

__all__ = [
    "CLOSE",
    "FAILURES",
    "MARK",
    "OUTCOMES",
    "PLAIN",
    "VERSION",
    "answer_text",
    "beginning",
    "completion_text",
    "feedback",
    "fenced_answer",
    "messages",
    "named_outcome",
    "opening",
    "plain_prompt",
    "prompts_id",
    "share_of",
    "starting_points",
    "with_hint",
]

VERSION = "upsolve-1"
"""Version of the prompts. It changes with the prompt of any task, so that evaluations with different prompts are not compared."""

CLOSE = "\n```"
"""Ends every completion."""

MARK = "```"
"""Stop string of the sampler."""

QUERIES = {"sql": "SQLite", "sqlite": "SQLite", "sqlite3": "SQLite", "duckdb": "DuckDB"}
"""Query language -> the database engine that runs it, as named in prompts."""

PLAIN = PromptConfig()
"""The prompt without anything before the task."""

MAX_SHOWN = 3
"""Most visible tests shown in a prompt."""
LONGEST_TEST = 1000
"""Longest failed test shown in feedback, characters."""


OUTCOMES = {
    Status.PASSED: "The program passes all tests",
    Status.FAILED: "The program gives a wrong answer",
    Status.TIMEOUT: "The program takes too long",
    Status.MEMORY_LIMIT: "The program needs too much memory",
    Status.OUTPUT_LIMIT: "The program writes too much output",
    Status.RUNTIME_ERROR: "The program raises an error",
    Status.COMPILE_ERROR: "The program does not compile",
    Status.UNSCORED: "The program was not tested",
}
"""Status -> sentence of the user's feedback."""
FAILURES = frozenset(Status) - {Status.PASSED, Status.UNSCORED}
"""Outcomes of an attempt that can be corrected."""


def opening(task: Task) -> str:
    """Return the prefilled start of the answer, the line before the code."""
    return f"```{'sql' if task.language in QUERIES else task.language or 'python'}\n"


def messages(task: Task, style: PromptConfig = PLAIN, turns: Sequence[Turn] = ()) -> list[dict[str, str]]:
    """Return the chat messages of a task: the statement, for queries the SQL dialect and form, and up to ``MAX_SHOWN`` visible tests.

    The system message and the solved examples of ``style`` come before it, each example a question and its answer, the code in a fence. The earlier
    attempts of ``turns`` come after it, each with the feedback of its verdict.
    """
    before = [{"role": "system", "content": style.system}] if style.system else []
    for shot in style.shots:
        before.append({"role": "user", "content": shot.prompt.strip()})
        before.append({"role": "assistant", "content": opening(task) + completion_text(shot.code)})
    asked = f"\n\n{named_outcome(style, Status.PASSED).outcome}" if style.outcome else ""
    chat = [*before, {"role": "user", "content": statement(task, dialect=style.dialect) + asked}]
    for turn in turns:
        chat.append({"role": "assistant", "content": opening(task) + completion_text(turn.attempt.code)})
        chat.append({"role": "user", "content": feedback(turn.verdict, task)})
    return chat


def named_outcome(style: PromptConfig, outcome: Status) -> PromptConfig:
    """Return a prompt format whose line ``outcome``, if any, has the outcome's name in place of ``{outcome}``."""
    return style.model_copy(update={"outcome": style.outcome.replace("{outcome}", outcome.value)})


def statement(task: Task, *, dialect: bool = True) -> str:
    """Return the statement of a task: its prompt, with ``dialect`` the SQL dialect and form of queries, and up to ``MAX_SHOWN`` visible tests."""
    text = task.prompt.strip()
    if dialect and task.language in QUERIES:
        text += f"\n\nAnswer with one query for {QUERIES[task.language]}."
    shown = [example(test) for test in task.tests if not test.hidden][:MAX_SHOWN]
    if shown:
        text += "\n\nExamples:\n" + "\n".join(shown)
    return text


def feedback(verdict: Verdict | None, task: Task | None = None) -> str:
    """Return the user's answer to an attempt: its outcome, the tests passed, the first error with its line, and the test if it is visible.

    A verdict of upsolve names neither input nor expected value of a hidden test.

    Args:
        verdict: of the attempt, on all tests of the task or on its visible tests; None if it was not judged.
        task: its first failed test is shown unless it is hidden, named in the error, or longer than ``LONGEST_TEST``.
    """
    status = verdict.status if verdict else Status.UNSCORED
    again = "improved" if status is Status.PASSED else "corrected"
    text = OUTCOMES[status]
    if verdict and status in FAILURES:
        text += f" in line {verdict.error_line}" if verdict.error_line else ""
        error = ": ".join(filter(None, (verdict.error_type if status is Status.RUNTIME_ERROR else "", verdict.error_message)))
        text += f": {error}" if error else ""
        text += f"\n{verdict.passed} of {verdict.total} tests pass" if verdict.total else ""
        failed = first_failed(verdict, task) if task else None
        if failed and failed.input not in error and len(shown := example(failed)) <= LONGEST_TEST:
            return f"{text}. The first test that fails:\n{shown}\n\nWrite the whole program again, {again}."
    return f"{text}.\n\nWrite the whole program again, {again}."


def first_failed(verdict: Verdict, task: Task) -> TestCase | None:
    """Return the first test that an attempt failed; None if it is hidden or unknown."""
    tests = [test for test in task.tests if len(verdict.outcomes) == len(task.tests) or not test.hidden]
    if len(tests) != len(verdict.outcomes):
        return None
    failed = next((test for test, outcome in zip(tests, verdict.outcomes, strict=True) if outcome in FAILURES), None)
    return failed if failed and not failed.hidden else None


def plain_prompt(
    task: Task, style: PromptConfig = PLAIN, turns: Sequence[Turn] = (), *, prefix: str = "", fence: bool = True
) -> str:
    """Return the prompt of a task as text for a model without a chat template, up to where the completion begins.

    The completion is the code after ``prefix`` or, without ``fence``, the whole answer after ``prefix``.
    """
    parts = [message["content"] for message in messages(task, style, turns)]
    return "\n\n".join([*parts, beginning(task, prefix, fence=fence)])


def beginning(task: Task, prefix: str = "", *, fence: bool = True) -> str:
    """Return the beginning of the answer that a prompt ends with: with ``fence`` the line before the code, and the prefix."""
    return (opening(task) if fence else "") + prefix


def prompts_id(tasks: Iterable[Task], style: PromptConfig = PLAIN) -> str:
    """Return the version of the prompt and a content id of the prompts of tasks: ``upsolve-1:5d2f...``; the chat template is the model's."""
    arguments = style.model_dump_json(include={"template", "date"}, exclude_defaults=True)
    texts = [text for task in tasks for text in (task.task_id, plain_prompt(task, style))]
    return f"{VERSION}:{content_id(*texts, *([] if arguments == '{}' else [arguments]))}"


def example(test: TestCase) -> str:
    """Return one visible test as text."""
    if test.kind is TestKind.CALL:
        return f"assert {test.input} == {test.expected}"
    if test.kind is TestKind.STDIO:
        return f"Input:\n{test.input.rstrip()}\nOutput:\n{test.expected.rstrip()}"
    return test.input.strip()


CONDITION = re.compile(r"\s*(?:\}\s*)?(?:if|elif|else|for|while|switch|match|case|unless|until)\b")
"""Beginning of a line with a conditional statement or a loop."""


def parts_of(program: str) -> list[str]:
    """Return the lines of a program with their ends; for one line, such as a query, the words with the blanks after them."""
    text = program.rstrip()
    return text.splitlines(keepends=True) if "\n" in text else re.findall(r"\S+\s*", text)


def first_parts(parts: Sequence[str], count: int) -> str:
    """Return the first lines of a program with their ends, or its first words without the blank behind them."""
    text = "".join(parts[:count])
    return text if text.endswith("\n") else text.rstrip()


def share_of(program: str, share: float) -> str:
    """Return the first floor(share * lines) lines of a program, but never all; for a single line, its first words."""
    parts = parts_of(program)
    return first_parts(parts, min(int(share * len(parts)), len(parts) - 1)) if parts else ""


def starting_points(program: str, share: float = 1.0) -> list[str]:
    """Return the beginnings of a program from which a policy completes it, the shortest first: up to each conditional statement or loop.

    These are the subtasks of StepCoder (2402.01391). Without such statements, a beginning ends at each line; in a program of a single line, at each
    word.

    Args:
        program: a right program.
        share: largest share of its lines or words in a beginning, in [0, 1].
    """
    parts = parts_of(program)
    counts = range(1, min(int(share * len(parts)) + 1, len(parts)))
    at_conditions = (
        [count for count in range(1, len(parts)) if CONDITION.match(parts[count])] if "\n" in program.rstrip() else []
    )
    return [first_parts(parts, count) for count in counts if count in at_conditions or not at_conditions]


def with_hint(task: Task, share: float, program: str = "") -> Task:
    """Return the task with the first floor(share * lines) lines of a program in the prompt, never all of its lines.

    The policy repeats the lines, so that a sample is a whole program also where the model thinks before it writes. For a program of one line, such as
    a query, the first words are shown instead.

    Args:
        task: the task; ``#hint`` and the number of lines or words shown are appended to its ``task_id``.
        share: share of the lines or words shown, in [0, 1].
        program: the program; empty: the task's reference.
    """
    text = (program or task.reference).rstrip()
    parts = parts_of(text)
    shown = min(int(share * len(parts)), len(parts) - 1)
    if shown < 1:
        return task
    begin, unit = first_parts(parts, shown).rstrip(), "lines" if "\n" in text else "words"
    prompt = f"{task.prompt.rstrip()}\n\nThe solution begins with these {unit}:\n{opening(task)}{begin}\n```"
    return replace(task, task_id=f"{task.task_id}#hint{shown}", prompt=prompt)


def fenced_answer(attempt: Attempt) -> str:
    """Return the whole answer of an attempt; if only the code is known, the code in a fence."""
    language = "sql" if attempt.language in QUERIES else attempt.language or "python"
    return attempt.answer or f"```{language}\n{completion_text(attempt.code)}"


def completion_text(code: str) -> str:
    """Return the completion that has this code: the code without trailing blanks, then ``CLOSE``."""
    return code.rstrip() + CLOSE


def answer_text(attempt: Attempt) -> str:
    """Return the completion of an attempt with its code; a truncated attempt has no closing fence."""
    return attempt.code if attempt.truncated else completion_text(attempt.code)
