"""Rows of a table -> tasks, attempts and recorded outcomes. ``task_id`` or the prompt identifies a task."""

import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.archive.preference import score_verdicts
from upsolve.checkers import checker_in
from upsolve.importers import outcome, tables
from upsolve.importers.benchmarks.nbgrader import as_program
from upsolve.importers.formats.files import is_file
from upsolve.importers.problems import prompt_of
from upsolve.importers.recogniser.asserts import called_first, imports_of, names_bound, names_read, packages_in
from upsolve.importers.recogniser.calls import graded
from upsolve.importers.recogniser.code import sound_suite
from upsolve.importers.recogniser.failing import About, Found
from upsolve.importers.recogniser.values import recognise
from upsolve.importers.rows import (
    Row,
    answered_in,
    as_json,
    decoded,
    language_of_task,
    left_out,
    moment,
    nested_value,
    odd_fields,
    without,
)
from upsolve.importers.tables.plans import TESTS
from upsolve.importers.tables.templates import loaded
from upsolve.importers.tables.trees import Files
from upsolve.languages.names import comparison_of, is_language, language_in, language_looked_like
from upsolve.policy.answers import is_only_code, names_of, program_in
from upsolve.records import from_row
from upsolve.types import Attempt, Status, Task, Verdict, content_id
from upsolve.verify.limits import with_imports

__all__ = ["Reader"]

FIELDS = (*tables.ATTEMPT_FIELDS, *tables.SAMPLE_FIELDS, *outcome.OUTCOME_FIELDS, *outcome.POINTS)
ABOUT_ATTEMPT = tuple(name for name in FIELDS if name not in ("code", "answer", "language"))
"""Fields about an attempt, besides its program."""
ABOUT_TASK = tuple(name for name in tables.TASK_FIELDS if name not in ("task_id", "prompt"))
"""Fields about a task, besides its name and prompt."""
BUILT = 1 << 21
"""Approximate limit of the characters of task cells that are held."""
OF_TASKS = frozenset((*tables.TASK_FIELDS, *tables.TEST_FIELDS, "language"))
"""Fields from which the task of a row is built."""
REFERENCES = ("task_id", "id", "parent", "author")
"""Fields whose values are often numbers; pandas turns 1 into 1.0 in a column with gaps."""
OUTCOMES = (*outcome.OUTCOME_FIELDS, *outcome.POINTS)
"""Fields of a recorded outcome."""
FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#]+)", re.MULTILINE)
"""The language at the beginning of a block of an answer."""
KNOWN = 1000
"""Largest number of words of outcomes whose verdicts are held."""


@dataclass
class Reader:
    """Builds records from rows; yields each task once."""

    columns: Mapping[str, str]
    """Field -> column."""
    name: str
    """Prefix of task ids, and the tasks' source."""
    words: Mapping[str, Status]
    """Word of a status -> status."""
    languages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Word of a language, in lower case -> language."""
    root: Path | None = None
    """Folder of the files that rows name."""
    files: Files | None = None
    """The files that rows name, if a map reads many files."""
    encoding: str = ""
    """Encoding of files that are not UTF-8."""
    passed_at: float | None = None
    """Lowest score that passes, if numbers in ``status`` are scores."""
    full_points: float = 1.0
    """Points of a full answer in ``points``, > 0."""
    decimal_commas: bool = False
    """Whether ``1,5`` in ``points`` is one number instead of the points of two tests."""
    scores: Mapping[str, str] = field(default_factory=dict[str, str])
    """Column of a score -> name of the score."""
    default: str = "python"
    """Language of programs whose row and task name no language."""
    constant: str = ""
    """Language of all programs, if the user names it."""
    detects: bool = False
    """Whether the language is detected in each program, because no column names it."""
    has_prompts: bool = True
    """Whether tasks have statements. If not, a row with ``task_id`` describes its task."""
    any_language: bool = False
    """Whether attempts at a task are in several languages, so that tasks accept any language."""
    tasks: dict[str, tuple[bytes, str, int]] = field(default_factory=dict[str, tuple[bytes, str, int]])
    """Task id -> hashes (``hashes_of``), language and hash of ``extra`` of the tasks yielded so far. Hashes, since a table may have more tasks than
    fit in memory."""
    built: dict[Any, Task] = field(default_factory=dict[Any, Task])
    """Tasks of earlier rows by their cells, for the last ``BUILT`` characters of cells."""
    size: int = 0
    """Number of characters of these cells."""
    contested: set[str] = field(default_factory=set[str])
    """Ids of tasks whose rows have different prompts."""
    attempts: dict[str, str] = field(default_factory=dict[str, str])
    """Name of an attempt in the table (``id``) -> ``attempt_id``."""
    outcomes: dict[str, Status] = field(default_factory=dict[str, Status])
    """Outcomes of attempts by their names in the table (``refuse_outcome``)."""
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Reasons and texts of the last row's tests that cannot fail."""
    lost: tuple[str, ...] = ()
    """Names of the last row's tests that only pytest can run."""
    kept: dict[str, tuple[bool, ...]] = field(default_factory=dict[str, tuple[bool, ...]])
    """Id of a task with left-out tests -> whether each of its tests is kept."""
    forms: dict[str, str] = field(default_factory=dict[str, str])
    """Id of a task -> code of its first row, if that code decided which function the tests call."""
    same: dict[Any, Callable[..., Verdict] | None] = field(default_factory=dict[Any, Callable[..., Verdict] | None])
    """Outcome words of a row -> function that returns the verdict of an ``attempt_id``; None for words without an outcome."""
    used: set[str] = field(default_factory=set[str])
    """Fields that had a value in a row."""

    def __post_init__(self) -> None:
        self.fields: dict[str, list[str]] = {}
        self.factors = {name: factor for name, one in self.columns.items() if (factor := outcome.unit_of(name, one)[0]) != 1}
        for name, column in self.columns.items():
            self.fields.setdefault(column, []).append(name)
        self.tests_in_files = self.columns.get("tests") == TESTS
        self.names_files = not self.columns.keys().isdisjoint(tables.FILE_FIELDS)
        self.nested = {column: tuple(column.split(".")) for column in (*self.fields, *self.scores) if "." in column}

    def value(self, row: Mapping[str, Any], column: str) -> Any:
        """Return the value of a column, whose name may be a path into objects."""
        return nested_value(row, self.nested[column]) if column in self.nested and column not in row else row.get(column)

    def records(self, row: dict[str, Any]) -> Iterator[Row]:
        """Yield the records of a row: its task if it is new, the attempt, and its recorded verdict, if any."""
        if tables.ATTEMPTS in row:
            yield from self.several(row, *row.pop(tables.ATTEMPTS))
            return
        cells, rest = self.cells(row)
        cells = outcome.with_points_for_commas(self.with_language(cells))
        cells, odd = outcome.without_odd(outcome.in_units(cells, self.factors))
        rest |= {self.columns[name]: value for name, value in odd.items()}
        yield from odd_fields(odd, "is not a valid number or time")
        described = self.describes(cells)
        attempted = "code" in cells or "answer" in cells
        if not described and not attempted:
            raise ValueError("neither a program nor a prompt")
        self.refuse_lost(cells, row)
        scores = dict[str, Any]()
        if self.scores and attempted:
            scores = {name: self.value(row, column) for column, name in self.scores.items()}
            rest = {column: value for column, value in rest.items() if column not in self.scores}
        of_task = rest.pop(tables.OF_TASK, {}) if attempted and described else {}
        others = ABOUT_TASK if attempted and not described else () if attempted else ABOUT_ATTEMPT
        rest |= {self.columns[key]: cells[key] for key in others if key in cells}
        rest |= rest.pop(tables.OF_TASK, {})
        extra = as_json(of_task if attempted else rest) if of_task or (rest and not attempted) else ""
        given = ((name, value) for name, value in cells.items() if name in OF_TASKS)
        about = (attempted, *[(name, value) if type(value) is str else (name, "is", repr(value)) for name, value in given])
        self.refused = []
        task = self.built.get(about) or self.task(cells)
        is_new = described and task.task_id not in self.tasks
        if is_new:
            yield from left_out(self.refused)
            yield replace(task, extra=extra) if extra else task
        elif described:
            old = self.tasks[task.task_id]
            if attempted and "reference" in cells and old[0][tables.SPANS["reference"]] != tables.hash_of(task, "reference"):
                rest |= {self.columns["reference"]: cells["reference"]}  # a correct program that an earlier row does not have
            if of_task and old[2] != hash(extra):
                rest, extra = {**of_task, **rest}, ""
            known = () if about in self.built else cells.keys() - ({"reference"} if attempted else set())
            self.refuse_other(task, known, extra, rest)
        if attempted:
            for record in self.attempt(cells, rest, task):
                yield record
                if scores and isinstance(record, Attempt):
                    yield from score_verdicts(record.attempt_id, outcome.scores_in(scores))
        if is_new:  # last: if the attempt cannot be used, the row is rejected as a whole
            self.tasks[task.task_id] = tables.hashes_of(task), sys.intern(task.language), hash(extra)
        if described and about not in self.built:
            self.built, self.size = (self.built, self.size) if self.size < BUILT else ({}, 0)
            self.built[about], self.size = task, self.size + len(repr(about))

    def several(
        self, row: dict[str, Any], attempts: Sequence[tuple[dict[str, Any], dict[str, Any]]], kept: Mapping[str, Any]
    ) -> Iterator[Row]:
        """Yield the task of a row, even if an earlier row has it, and its attempts; ``kept`` are columns that are stored if they have a value."""
        cells, rest = self.cells(row)
        cells, odd = outcome.without_odd(cells)
        yield from odd_fields(odd, "is not a valid number or time")
        if lacking := [name for name in ("task_id", "prompt") if name not in cells]:
            raise ValueError(f"no field {self.columns[lacking[0]]!r}")
        self.refused, self.lost = [], tuple[str, ...]()
        first = next(({name: one[name] for name in ("code", "answer") if name in one} for one, _ in attempts), {})
        task = self.task({**first, **cells})
        task = with_imports(task) if cells.get("provided") and not task.setup else task
        if "\r" in (reference := str(cells.get("reference", ""))) and "```" not in reference:
            task = replace(task, reference=reference)
        shown = {"starter": cells["starter"]} if "starter" in cells else {}
        rest = {name: value for name, value in rest.items() if name in kept} | kept.get(tables.OF_TASK, {})
        rest |= {self.columns[name]: value for name, value in {**odd, **shown}.items()} | {"tests_left_out": [*self.lost]}
        rest = {name: value for name, value in rest.items() if value not in ([], {})}
        yield from left_out(self.refused)
        yield replace(task, official=task.official and not self.lost, extra=as_json(rest) if rest else "")
        for one, others in attempts:
            if "code" in one:
                one["code"] = str(one["code"]).replace("\r\n", "\n")
            for record in self.attempt(one, others, task):
                is_bare = isinstance(record, Attempt) and is_only_code(record.answer, record.code)
                yield replace(record, answer="") if is_bare else record

    def cells(self, row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of a row by field, and the values of other columns; null, empty text and NaN are missing."""
        cells: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        fields, given, nested = self.fields, row, dict[str, tuple[str, ...]]()
        if self.nested:
            nested = {column: path for column, path in self.nested.items() if column not in row}
            given = {**row, **{column: nested_value(row, path) for column, path in nested.items()}}
        for column, value in given.items():
            if value is None or value == "" or value != value:
                continue
            if column not in fields:
                rest[column] = value
            else:
                for name in fields[column]:
                    cells[name] = outcome.whole(value) if name in REFERENCES else value
        self.used |= cells.keys()
        if self.names_files:
            cells |= {key.removesuffix("_file"): self.text(cells[key]) for key in tables.FILE_FIELDS if key in cells}
        for path in nested.values():
            rest = without(rest, path)
        prompt, answer = cells.get("prompt"), cells.get("answer")
        if holds_chat(prompt) or holds_chat(answer):
            cells = {name: value for name, value in (cells | answered_in(prompt, answer)).items() if value != ""}
        return cells, rest

    def refuse_other(self, task: Task, given: Container[str], extra: str, rest: dict[str, Any]) -> None:
        """Raise ValueError for a row whose values would be lost, because an earlier row defines its task differently.

        ``given``: fields that the row has; missing fields are taken from the earlier row. ``extra``: other columns of a row without an attempt, as
        JSON; ``rest``: the names of these columns.
        """
        old, _, other = self.tasks[task.task_id]
        new = tables.hashes_of(task) if given else old
        if new != old and (
            differs := [name for name, span in tables.SPANS.items() if name in given and old[span] != new[span]]
        ):
            self.contested |= {task.task_id} if "prompt" in differs else set()
            raise ValueError(f"task {task.task_id} has different content in an earlier row: {', '.join(differs)}")
        if extra and other != hash(extra):
            raise ValueError(
                f"the row has no program, and an earlier row has the task {task.task_id}: {', '.join(rest)} would be lost"
            )

    def with_language(self, cells: dict[str, Any]) -> dict[str, Any]:
        """Return the cells of a row with the language that the fences of its answer name, if nothing else does."""
        is_open = "answer" in cells and cells.keys().isdisjoint(("code", "language", "tests")) and not self.constant
        return {**cells, **language_of_fences(str(cells["answer"]))} if is_open else cells

    def refuse_lost(self, cells: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Raise ValueError for a row with an empty program and other fields of an attempt, which would be lost."""
        if not cells.keys().isdisjoint(tables.PROGRAMS):
            return
        empty = [self.columns[name] for name in tables.PROGRAMS if self.columns.get(name, "").split(".")[0] in row]
        lost = [name for name in ABOUT_ATTEMPT if name in cells]
        if empty and lost:
            raise ValueError(f"{empty[0]} is empty, but the row has {', '.join(lost)}: an attempt needs a program")

    def text(self, name: Any) -> str:
        """Return the text of a file that a row names; ValueError if it is outside of the table's folder, cannot be read, or is not UTF-8."""
        if self.files is not None:
            if (found := self.files.text(str(name))) is None:
                raise ValueError(f"file {name}: no such file below {self.files.root}")
            return found
        if self.root is None:
            raise ValueError(f"file {name}: the table is not a file in a folder, so its rows cannot name files")
        given = str(name) if "\\" not in str(name) or (self.root / str(name)).exists() else str(name).replace("\\", "/")
        file = Path(os.path.realpath(self.root / given))  # also of a path of Windows
        if not file.is_relative_to(self.root):
            raise ValueError(f"file {name}: the file is outside of {self.root}, the folder of the table")
        if not is_file(file):
            there = os.path.lexists(file)
            raise ValueError(f"file {name}: {'is a folder, a pipe or a device, and not a' if there else 'no such'} file")
        try:
            return as_program(file.name, decoded(file.read_bytes(), self.encoding))
        except OSError as error:
            raise ValueError(f"file {name}: {error.strerror}") from error
        except UnicodeError as error:
            raise ValueError(f"file {name}: {error}; name the encoding, such as --encoding latin-1") from error

    def describes(self, cells: Mapping[str, Any]) -> bool:
        """Return whether a row describes its task: the row has a statement, the table has no statements, or the task has files of tests."""
        if "prompt" in cells or "task_id" not in cells:
            return "prompt" in cells
        return not self.has_prompts or (self.tests_in_files and "tests" in cells)

    def task(self, cells: Mapping[str, Any]) -> Task:
        """Return the task of a row. If it has an id and no prompt: its id, and its language if an earlier row names it.

        Another file or import may define the task, for example if problems and submissions are two tables.
        """
        name = str(cells.get("task_id", ""))
        full = name if "/" in name else f"{self.name}/{name or content_id(str(cells.get('prompt')))[:12]}"
        if not self.describes(cells):
            if not name:
                raise ValueError(
                    f"neither a prompt ({self.columns['prompt']!r}) nor the id of a task ({self.columns['task_id']!r})"
                )
            if full in self.contested:
                raise ValueError(
                    f"the row has no prompt, and earlier rows have different prompts of the task {full}; give one of the two tasks a new id"
                )
            return Task(full, "", language="" if self.language(cells) else self.language_of(full))
        fields = {"prompt": "", **{key: cells[key] for key in tables.TASK_FIELDS if key in cells and key != "tests"}}
        fields |= {"setup": text_in(cells["setup"])} if "setup" in cells else {}
        fields |= {"reference": cells["reference"].replace("\r\n", "\n")} if isinstance(cells.get("reference"), str) else {}
        fields |= {"checker": checker_in(cells["checker"])} if "checker" in cells else {}
        fields |= {"difficulty": str(cells["difficulty"])} if "difficulty" in cells else {}  # often a number
        attempted = any(key in cells for key in tables.PROGRAMS)
        language = ""
        if not self.any_language:
            language = self.language(cells) or self.language_of(full) or (self.default if attempted else "")
        if "```" in (answer := str(fields.get("reference", ""))):
            cells = {**cells, "reference": program_in(answer, language or "python")}
            fields["reference"] = cells["reference"]
        about = {"task_id": full, "source": self.name, "language": language}
        fields |= self.fields_of_tests(full, cells, language)
        if "starter" in cells:
            fields["prompt"] = prompt_of(str(fields["prompt"]), str(cells["starter"]))
        if isinstance(needs := cells.get("requires"), str):
            fields["requires"] = loaded(needs) if needs.startswith("[") else [needs]
        if cells.get("imported"):
            sources = [*(test.input for test in fields.get("tests", ())), str(fields.get("reference", ""))]
            fields["requires"] = packages_in([*map(str, fields.get("requires", ())), *imports_of(sources)])
        return from_row(Task, {"compare": comparison_of(language), **fields, **about})

    def fields_of_tests(self, full: str, cells: Mapping[str, Any], language: str) -> dict[str, Any]:
        """Return the fields of a task that its tests determine: tests, function, setup and comparison; ValueError if no test can fail."""
        if "tests" not in cells:
            return {"compare": graded((), "", str(cells["grader"]))[1]} if "grader" in cells else {}
        entry, setup, tests = str(cells.get("entry_point", "")), text_in(cells.get("setup", "")), cells["tests"]
        answer = program_in(str(cells["answer"]), language or "python") if "answer" in cells and "code" not in cells else ""
        program = str(cells.get("code", answer))
        shown = str(cells.get("starter", "")) or (
            prompt if "class Solution" in (prompt := str(cells.get("prompt", ""))) or f"def {entry}(" in prompt else ""
        )
        codes = (str(cells.get("reference", "")), shown, self.forms.get(full, program))
        fields: dict[str, Any] = {}
        grader, hidden, published = str(cells.get("grader", "")), bool(cells.get("hidden")), bool(cells.get("official"))
        code = codes[0] or (program if hidden else "")
        if code and isinstance(tests, list | tuple) and all(isinstance(test, str) for test in tests):
            defined = names_bound(code)
            entry = entry or called_first(tests, defined)
            if names_read(setup) & defined:  # objects of a class that the attempt defines: they are made after the attempt
                tests, setup = [f"{setup.strip()}\n{test}" for test in tests], ""
                fields["setup"] = ""
        about = About(
            entry, setup, language, codes, graded((), "", grader)[0], hidden=hidden, published=published and not grader
        )
        is_suite = grader == "unittest"
        found: Found = sound_suite(str(tests), about) if is_suite else recognise(tests, about)
        if not codes[0] and not shown and about.asked:
            self.forms.setdefault(full, program)
        self.refused, self.lost = [*found.refused], found.left_out
        if found.refused:
            self.kept.setdefault(full, found.kept)
        fields["tests"] = tuple(replace(test, hidden=True) for test in found.tests) if self.tests_in_files else found.tests
        if found.entry_point or entry:
            fields["entry_point"] = found.entry_point or re.split(r"\W", entry)[0]
        if found.setup:
            fields["setup"] = f"{found.setup}\n{setup}" if setup else found.setup
        if (grader and not is_suite) or (found.compare and "compare" not in cells):
            fields["compare"] = graded(found.tests, found.compare, grader)[1] if grader else found.compare
        return fields

    def language(self, cells: Mapping[str, Any]) -> str:
        """Return upsolve's name of a row's language, empty if unknown; ValueError if the language cannot be detected in the program."""
        word = str(cells.get("language", "")).strip()
        if self.constant:
            return self.constant
        if self.detects and not word and outcome.is_given(cells.get("code")):
            if found := language_looked_like(str(cells["code"])):
                return found
            raise ValueError(
                "no column names the language of the program, and it is not recognised: --language COLUMN or LANGUAGE"
            )
        return self.languages.get(outcome.number_in(word) or word.lower()) or language_in(word)

    def language_of(self, task_id: str) -> str:
        """Return the language of a task in an earlier row, another file or another import; empty if unknown, or if the task accepts any."""
        return self.tasks[task_id][1] if task_id in self.tasks else language_of_task(task_id)

    def mixed(self, rows: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether a task has rows in several languages."""
        found: dict[str, set[str]] = {}
        columns = {name: self.columns.get(name, name) for name in (*tables.NAMES, "language", "code")}
        for row in rows:
            word, code = (self.value(row, columns[name]) for name in ("language", "code"))
            shown = (
                language_looked_like(str(code))
                if self.detects and not outcome.is_given(word) and outcome.is_given(code)
                else ""
            )
            if shown or outcome.is_given(word):
                names = [self.value(row, columns[name]) for name in tables.NAMES]
                found.setdefault(repr(names), set()).add(shown or self.language({"language": word}))
        return any(len(languages) > 1 for languages in found.values())

    def attempt(self, cells: Mapping[str, Any], rest: Mapping[str, Any], task: Task) -> list[Attempt | Verdict]:
        """Return the attempt of a row and its recorded verdict."""
        fields = {key: cells[key] for key in ("code", "answer", "language", "author", "created") if key in cells}
        fields["language"] = self.language(cells) or task.language or self.default
        if "language" in cells and str(cells["language"]).lower() not in ("", fields["language"]):
            rest = {**rest, self.columns.get("language", "language"): cells["language"]}  # with the version
        fields = self.with_program(fields, cells, task)
        fields |= {key: text(fields[key]) for key, text in (("author", str), ("created", moment)) if key in fields}
        if "share" in cells and not outcome.is_given(cells.get("outcomes")):
            total, share = len(self.kept.get(task.task_id, task.tests)), float(cells["share"])
            cells = {**cells, "status": "passed" if share == 1 else "failed", "passed": round(share * total), "total": total}
        if "points" in cells:
            given = outcome.with_point(cells["points"]) if self.decimal_commas else cells["points"]
            shares, overall = outcome.points_in(given, self.full_points)
            cells = {**cells, "points": shares or overall}
        if self.passed_at is not None or "total" in cells:
            cells, points = outcome.scored(cells, self.passed_at)
            rest = {**rest, **{self.columns.get(name, name): value for name, value in points.items()}}
        if "id" in cells:
            rest = {**rest, self.columns.get("id", "id"): cells["id"]}
        if "token_logps" in cells and fields["token_logps"] is None:
            rest = {**rest, "logps": cells["token_logps"]}
        extra = as_json(rest) if rest else ""
        if "official" in cells:
            fields["code"] = str(fields["code"]).replace("\r\n", "\n")
        columns: dict[str, Any] = {**fields, "task_id": task.task_id, "parent_id": self.parent(cells), "extra": extra}
        attempt = Attempt(**columns) if {*map(type, columns.values())} == {str} else from_row(Attempt, columns)
        judge, name = f"recorded:{self.name}", str(cells.get("id", ""))
        if "id" in cells:  # also if its outcome cannot be read: other rows may name it as their parent
            outcome.name_attempt(self.attempts, name, attempt.attempt_id)
        verdict = self.verdict(attempt.attempt_id, cells, judge)
        verdict = verdict and outcome.without_left_out(verdict, self.kept.get(task.task_id, ()))
        if "id" in cells and verdict and self.attempts[name]:
            outcome.refuse_outcome(self.outcomes, name, verdict, judge=judge)
        return [attempt, verdict] if verdict else [attempt]

    def with_program(self, fields: Mapping[str, Any], cells: Mapping[str, Any], task: Task) -> dict[str, Any]:
        """Return the fields of an attempt, with the program in its answer and the fields about its tokens."""
        if "code" not in fields:
            fields = {**fields, "code": program_in(str(fields["answer"]), fields["language"], names_of(task))}
        return {**fields, **tables.sampled(cells, str(fields.get("answer", fields["code"])), str(fields["code"]))}

    def verdict(self, attempt_id: str, cells: Mapping[str, Any], judge: str) -> Verdict | None:
        """Return the verdict that a row records; an earlier row's verdict with the same words is copied."""
        given = [(name, cells[name]) for name in OUTCOMES if name in cells]
        if len(given) > 2 or not all(type(value) is str for _, value in given):
            return outcome.recorded_verdict(attempt_id, cells, judge, self.words)
        key = tuple(given)
        if key not in self.same:
            if len(self.same) >= KNOWN:
                self.same.clear()
            found = outcome.recorded_verdict(attempt_id, cells, judge, self.words)
            names = [name for name in Verdict.__slots__ if name != "attempt_id"]
            self.same[key] = found and partial(Verdict, **{name: getattr(found, name) for name in names})
        make = self.same[key]
        return make and make(attempt_id=attempt_id)

    def parent(self, cells: Mapping[str, Any]) -> str:
        """Return the ``attempt_id`` of the attempt that a row repairs, empty if it names none; ValueError if the name is unknown or ambiguous."""
        name = str(cells.get("parent", ""))
        if not name:
            return ""
        names = (name, name.removesuffix(".0"))  # as pandas writes CSV
        found = next(filter(None, (outcome.named_attempt(self.attempts, one) for one in names)), None)
        if name and not found:
            raise ValueError(f"no row has the attempt {name!r}, which this row names as its parent")
        return found or ""


def holds_chat(value: Any) -> bool:
    """Return whether a prompt or an answer is a list of messages, or the JSON of one."""
    return isinstance(value, list) or (isinstance(value, str) and value.startswith("[{"))


def language_of_fences(answer: str) -> dict[str, str]:
    """Return ``language`` -> the only language that fences of an answer name, besides Python and those of commands and texts; {} without one."""
    found = {language_in(word) for word in FENCE.findall(answer) if is_language(word)} - {"bash", "text"}
    return {"language": found.pop()} if len(found) == 1 and found != {"python"} else {}


def text_in(value: Any) -> Any:
    """Return code that is given as a list of lines as text; other values unchanged."""
    return "\n".join(value) if isinstance(value, list) and all(isinstance(line, str) for line in value) else value
