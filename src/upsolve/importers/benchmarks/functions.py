"""HumanEval (2107.03374) and MBPP (2108.07732), and published attempts at them and at other functions.

CodeT (2207.10397)      samples of CodeGen-16B on HumanEval, without outcomes
LDB (2402.16906)        repairs by three model families on HumanEval and MBPP, with outcomes
Refactory (ASE 2019)    programs of students for five exercises, with outcomes
"""

import json
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.problems.problems import with_sound_tests
from upsolve.importers.recogniser.asserts import Names, called_first, names_bound, names_read, parse_asserts
from upsolve.importers.recogniser.code import check_tests
from upsolve.importers.rows import BadRow, Row, build_each, json_lines, json_value
from upsolve.importers.source import Option, Source
from upsolve.types import Attempt, Status, Task, TestKind, Verdict

__all__ = ["CODET", "HUMANEVAL", "INSTRUCTION", "LDB", "MBPP", "REFACTORY", "humaneval_task", "mbpp_task", "read_mbpp"]

INSTRUCTION = "Complete this Python function and give all of it:\n\n"
"""Precedes the signature with its docstring in a prompt."""
LABELS = {"correct": Status.PASSED, "wrong": Status.FAILED, "fail": None}
"""Folder of Refactory's programs -> outcome; programs under ``fail`` have none."""


def read_humaneval(path: Path) -> Iterator[Row]:
    """Yield the tasks of HumanEval."""
    return build_each(path, json_lines(path), lambda row: with_sound_tests(humaneval_task(row)))


def humaneval_task(row: dict[str, Any]) -> Task:
    """Return the task of a row of HumanEval: the prompt is the signature with its docstring, an attempt is the complete function."""
    name = str(row["task_id"]).rpartition("/")[2]
    return function_task(row, f"humaneval/{name}", row["test"], row["prompt"] + row["canonical_solution"])


def function_task(row: dict[str, Any], task_id: str, test: str, reference: str) -> Task:
    """Return a task with the prompt of a row in HumanEval's format."""
    return Task(
        task_id=task_id,
        prompt=INSTRUCTION + row["prompt"].rstrip(),
        tests=check_tests(test, row["entry_point"]),
        entry_point=row["entry_point"],
        source=task_id.partition("/")[0],
        official=True,
        reference=reference,
    )


def mbpp_split(number: int) -> str:
    """Return the published split of a task: test (11-510), dev (511-600), train (601-974, and the ten meant for few-shot prompts)."""
    return "test" if 10 < number <= 510 else "dev" if 510 < number <= 600 else "train"


def read_mbpp(path: Path, *, references: int = 0) -> Iterator[Row]:
    """Yield the tasks of MBPP; with ``references`` 1 also the reference of each as an attempt, without a verdict."""
    rows = enumerate(json_value(path), start=1) if path.suffix == ".json" else json_lines(path)
    return build_each(path, rows, partial(mbpp_records, references=references > 0))


def mbpp_records(row: dict[str, Any], *, references: bool) -> Iterator[Row]:
    """Yield the records of a row of MBPP."""
    task = mbpp_task(row)
    yield from with_sound_tests(task)
    if references:
        yield Attempt(task.task_id, task.reference, author="reference")


def mbpp_task(row: dict[str, Any]) -> Task:
    """Return the task of a row of MBPP; the three asserts are visible tests, shown in the prompt as usual for MBPP."""
    asserts, prompt = row["test_list"], row.get("text") or row["prompt"]
    if not isinstance(prompt, str) or not isinstance(asserts, list):
        raise ValueError("text (or prompt) is not a text, or test_list not a list")
    asserts = [str(test) for test in asserts]
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports", []))
    defined = names_bound(str(row["code"]))
    if names_read(setup) & defined:  # objects of a class that the attempt defines: they are made after the attempt
        asserts, setup = [f"{setup.strip()}\n{test}" for test in asserts], ""
    entry_point = called_first(asserts, defined)
    tests = parse_asserts(asserts, names=Names(frozenset({entry_point}), names_bound(setup)))
    return Task(
        task_id=f"mbpp/{row['task_id']}",
        prompt=prompt,
        tests=tests,
        entry_point=entry_point,
        source="mbpp",
        official=True,
        reference=str(row["code"]).replace("\r\n", "\n"),
        setup=setup,
        extra=json.dumps({"split": mbpp_split(int(row["task_id"]))}),
    )


def read_codet(path: Path) -> Iterator[Row]:
    """Yield tasks and attempts of CodeT's folder; samples are matched to tasks by their prompt.

    Raises:
        SourceError: the folder has no file of samples.
    """
    tasks_file = path / "HumanEval_for_code_generation.jsonl"
    sample_files = sorted(set(path.glob("*_code_solution.jsonl")) - {tasks_file})
    if not sample_files:
        raise SourceError(f"{path}: contains no *_code_solution.jsonl")
    by_prompt: dict[str, Task] = {}
    yield from build_each(tasks_file, json_lines(tasks_file), partial(keep_task, by_prompt=by_prompt))
    for file in sample_files:
        yield from build_each(file, json_lines(file), partial(samples_of, by_prompt=by_prompt))


def keep_task(row: dict[str, Any], *, by_prompt: dict[str, Task]) -> Iterator[Row]:
    """Yield the task of a row, and add it to ``by_prompt``."""
    by_prompt[row["prompt"].strip()] = task = humaneval_task(row)
    yield from with_sound_tests(task)


def samples_of(row: dict[str, Any], *, by_prompt: dict[str, Task]) -> list[Row]:
    """Return the samples of a row as attempts."""
    task = by_prompt.get(str(row.get("prompt", "")).strip())
    if task is None:
        raise ValueError("no task has this prompt")
    return [Attempt(task.task_id, row["prompt"] + sample, author="codegen-16b") for sample in row.get("samples", [])]


def read_ldb(path: Path) -> Iterator[Row]:
    """Yield tasks, attempts and verdicts of LDB's folder with seed_*.jsonl and debug_*.jsonl.

    Raises:
        SourceError: the folder has no such file.
    """
    files = [file for kind in ("seed", "debug") for file in sorted(path.glob(f"{kind}_*.jsonl"))]
    if not files:
        raise SourceError(f"{path}: contains no seed_*.jsonl or debug_*.jsonl")
    seen: set[str] = set()
    for file in files:
        author = file.stem.partition("_")[2]
        yield from build_each(file, json_lines(file), lambda row, author=author: [*ldb_records(row, author, seen)])


def ldb_records(row: dict[str, Any], author: str, seen: set[str]) -> Iterator[Row]:
    """Yield the task of a row unless ``seen`` has its id, the chain of repairs, and the outcome of the last attempt.

    The ids of tasks start with ``ldb/``, because prompts and tests differ from those of MBPP and HumanEval.
    """
    name = str(row["task_id"]).lower()
    test = row["test"].replace(f"check({row['entry_point']})\n", "")
    task = function_task(
        row, f"ldb/{name}", test, (row["prompt"] if name.startswith("humaneval") else "") + row["canonical_solution"]
    )
    if task.task_id not in seen:
        yield from with_sound_tests(task)
    chain = [code for code in row.get("implementations", []) if isinstance(code, str) and code != row["solution"]]
    parent = ""
    for code in (*chain, row["solution"]):
        attempt = Attempt(task.task_id, code, author=author, parent_id=parent)
        parent = attempt.attempt_id
        yield attempt
    yield Verdict(parent, Status.PASSED if row["is_solved"] else Status.FAILED, judge="recorded:ldb")
    seen.add(task.task_id)


def read_refactory(path: Path) -> Iterator[Row]:
    """Yield tasks, attempts and recorded verdicts of Refactory's archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(archive.namelist())
            for question in sorted({name.split("/")[1] for name in names if name.startswith("data/question_")}):
                task = exercise(archive, names, question)
                yield from with_sound_tests(task)
                yield from programs(archive, names, task)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise SourceError(f"{path}: cannot be read: {error}") from error


def text_in(archive: zipfile.ZipFile, name: str) -> str:
    """Return the text of a file, with \\n as line end."""
    return archive.read(name).decode("utf-8", "replace").replace("\r\n", "\n")


def exercise(archive: zipfile.ZipFile, names: list[str], question: str) -> Task:
    """Return an exercise of Refactory; its inputs are calls and its outputs literals."""
    folder = f"data/{question}"
    pairs = [(n, n.replace("input_", "output_")) for n in names if n.startswith(f"{folder}/ans/input_")]
    sources = [f"assert ({text_in(archive, a).strip()}) == ({text_in(archive, b).strip()})" for a, b in pairs]
    shared = f"{folder}/code/global.py"
    setup = text_in(archive, shared) if shared in names else ""
    tests = parse_asserts(sources, hidden=True, names=Names(setup=names_bound(setup)))
    reference = next((n for n in names if n.startswith(f"{folder}/code/reference/") and n.endswith(".py")), "")
    return Task(
        task_id=f"refactory/{question}",
        prompt=text_in(archive, f"{folder}/description.txt").strip(),
        tests=tests,
        entry_point=next((test.input.partition("(")[0] for test in tests if test.kind is TestKind.CALL), ""),
        source="refactory",
        official=True,
        reference=text_in(archive, reference) if reference else "",
        setup=setup,
    )


def programs(archive: zipfile.ZipFile, names: list[str], task: Task) -> Iterator[Row]:
    """Yield the programs of an exercise."""
    folder = f"data/{task.task_id.partition('/')[2]}/code"
    for label, status in LABELS.items():
        for name in (n for n in names if n.startswith(f"{folder}/{label}/") and n.endswith(".py")):
            code = text_in(archive, name)
            if not code.strip():
                yield BadRow(f"{archive.filename}/{name}", 1, "empty program", "")
                continue
            attempt = Attempt(task.task_id, code, author=f"student:{Path(name).stem}")
            yield attempt
            if status:
                yield Verdict(attempt.attempt_id, status, judge="recorded:refactory")


HUMANEVAL = Source(read_humaneval, "HumanEval.jsonl or HumanEval.jsonl.gz")
MBPP = Source(
    read_mbpp,
    "mbpp.jsonl or sanitized-mbpp.json",
    (Option("references", int, "1: the reference of each task is an attempt, too, for `upsolve verify` (default: 0)"),),
)
CODET = Source(read_codet, "a folder with *_code_solution.jsonl")
LDB = Source(read_ldb, "a folder with seed_*.jsonl and debug_*.jsonl")
REFACTORY = Source(read_refactory, "data.zip")
