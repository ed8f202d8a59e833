"""Importer for CRUXEval (2401.03065): small functions, and what models predicted of their inputs or outputs.

Each function is two tasks, whose attempts are programs, so that they can be judged and trained on: find arguments for an output, tell the
output for arguments. Tests hold the function itself, so a call of it in an answer about the output fails, as in CRUXEval's own judge.
"""

import ast
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.recogniser.asserts import parsed
from upsolve.importers.rows import BadRow, Row, build_each, json_lines
from upsolve.importers.source import Source
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

__all__ = ["SOURCE", "read"]

JUDGE = "recorded:cruxeval"
MODES = ("input", "output")
QUESTIONS = {
    "input": "Find arguments for which this function returns `{output}`. Define `answer()`, which returns them as a tuple:\n\n{code}",
    "output": "What does this function return as `f({input})`? Define `answer()`, which returns this value, without calling `f`:\n\n{code}",
}


def read(path: Path) -> Iterator[Row]:
    """Yield the tasks of cruxeval.jsonl, and the predictions and outcomes in the files of samples.

    Args:
        path: the file, or a folder with it and, at any depth, ``sample_scored_<name>_<mode>.json`` or
            ``sample_<name>_<mode>/generations.json``, which counts only without the former.

    Raises:
        SourceError: there is no cruxeval.jsonl.
    """
    file = path / "cruxeval.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise SourceError(f"{path}: contains no cruxeval.jsonl")
    yield from build_each(file, json_lines(file), lambda row: [task_of(row, mode) for mode in MODES])
    for name, samples in (sample_files(path) if path.is_dir() else {}).items():
        author, _, mode = name.rpartition("_")
        rows = (
            sample_rows(samples)
            if mode in MODES
            else iter([(0, BadRow(str(samples), 0, "its name ends in neither _input nor _output", name))])
        )
        yield from build_each(samples, rows, partial(records_of, author=author, mode=mode))


def task_of(row: dict[str, Any], mode: str) -> Task:
    """Return the task about the input or the output of a function."""
    code, output = row["code"], row["output"]
    call = TestCase(TestKind.CALL, "answer()", output, True)
    return Task(
        task_id=task_id(row["id"], mode),
        prompt=QUESTIONS[mode].format(**row),
        tests=(call if mode == "output" else TestCase(TestKind.CODE, f"{code}\n\nassert f(*answer()) == {output}", "", True),),
        entry_point="answer",
        source="cruxeval",
        reference=program(f"f({row['input']})" if mode == "input" else output, mode),
        official=True,
        extra=json.dumps({"function": row["id"], "mode": mode}),
    )


def task_id(name: str, mode: str) -> str:
    """Return ``cruxeval/input/7`` for ``sample_7``."""
    return f"cruxeval/{mode}/{name.removeprefix('sample_')}"


def program(prediction: str, mode: str) -> str:
    """Return a predicted call or value as a program; a text that is no call of ``f`` with arguments in order is returned as it is."""
    return f"def answer():\n    return {arguments(prediction) if mode == 'input' else prediction.strip()}\n"


def arguments(call: str) -> str:
    """Return the arguments of a call of ``f`` as a tuple: ``(1, 2)`` for ``f(1, 2)``."""
    tree = parsed(call.strip())
    node = tree.body[0].value if tree and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) else None
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "f" or node.keywords:
        return call.strip()
    values = [ast.unparse(value) for value in node.args]
    return f"({', '.join(values)}{',' if len(values) == 1 else ''})"


def sample_files(folder: Path) -> dict[str, Path]:
    """Return name -> file of each set of samples; the one with outcomes, if there are two."""
    plain = {file.parent.name.removeprefix("sample_"): file for file in sorted(folder.rglob("sample_*/generations.json"))}
    scored = {file.stem.removeprefix("sample_scored_"): file for file in sorted(folder.rglob("sample_scored_*.json"))}
    return plain | scored


def sample_rows(file: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the predictions on each function, with their outcomes if the file has them."""
    try:
        data = json.loads(file.read_bytes())
        generations, scores = (
            (data["raw_generations"], data["raw_scored_generations"]) if "raw_generations" in data else (data, {})
        )
        rows = [{"id": name, "predictions": texts, "outcomes": scores.get(name)} for name, texts in generations.items()]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        yield 1, BadRow(str(file), 1, f"{type(error).__name__}: {error}", "")
        return
    yield from enumerate(rows, start=1)


def records_of(row: dict[str, Any], *, author: str, mode: str) -> list[Row]:
    """Return the predictions on a function as attempts, each with its outcome."""
    task, texts = task_id(row["id"], mode), row["predictions"]
    outcomes = [None] * len(texts) if row["outcomes"] is None else row["outcomes"]
    records: list[Row] = []
    for text, passed in zip(texts, outcomes, strict=True):
        attempt = Attempt(task, program(text, mode), author=author, extra=json.dumps({"prediction": text}))
        records.append(attempt)
        if passed is not None:
            records.append(Verdict(attempt.attempt_id, Status.PASSED if passed else Status.FAILED, judge=JUDGE))
    return records


SOURCE = Source(read, "the folder of CRUXEval with cruxeval.jsonl and files of samples, or cruxeval.jsonl alone")
