"""Importer for courses of nbgrader: exercises of notebooks, students' programs, and the outcomes of the cells that graded them."""

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.problems import extra_of, judged
from upsolve.importers.recogniser.asserts import imports_of, names_bound, names_read, packages_in, parsed
from upsolve.importers.recogniser.code import sound_tests
from upsolve.importers.recogniser.failing import About
from upsolve.importers.rows import Row, build_each, left_out
from upsolve.importers.source import Source
from upsolve.languages import missing_packages
from upsolve.types import Attempt, Status, Task, TestCase, TestKind

__all__ = ["SOURCE", "as_program"]

JUDGE = "recorded:nbgrader"
STAGES = ("autograded", "submitted")
"""Folders with students' notebooks; a graded notebook replaces its submitted copy."""
GIVEN = ("source", "release")
"""Folders with the instructor's notebooks: with solutions and hidden tests, and without."""
MAGIC = re.compile(r"^\s*[%!?]", re.MULTILINE)
SOLUTION = re.compile(r"^([ \t]*)### BEGIN SOLUTION\n.*?### END SOLUTION[^\n]*$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION[^\n]*\n", re.MULTILINE)
HIDDEN = "### BEGIN HIDDEN TESTS"
ORDER = (Status.FAILED, Status.RUNTIME_ERROR, Status.TIMEOUT, Status.MEMORY_LIMIT, Status.UNSCORED, Status.PASSED)
"""Outcomes of tests by priority: an attempt has the first of these that one of its tests has."""
ENDS = {"AssertionError": Status.FAILED, "MemoryError": Status.MEMORY_LIMIT}


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook."""

    code: bool
    """Whether it is a cell of code."""
    text: str
    """Text of the cell; lines that only IPython reads (``%``, ``!``) are comments."""
    grade_id: str
    """nbgrader's name of the cell; empty for a cell that it does not manage."""
    grade: bool
    """Whether the cell gives points."""
    solution: bool
    """Whether students write the cell."""
    ran: bool
    """Whether the cell was executed."""
    error: str
    """Name of the exception with which the cell ended; empty if there was none."""

    @property
    def is_test(self) -> bool:
        """Whether the cell grades other cells."""
        return self.code and self.grade and not self.solution

    @property
    def outcome(self) -> Status:
        """Outcome of a cell that grades."""
        late = Status.TIMEOUT if "Timeout" in self.error else Status.RUNTIME_ERROR
        return Status.UNSCORED if not self.ran else ENDS.get(self.error, late) if self.error else Status.PASSED


def read(path: Path) -> Iterator[Row]:
    """Yield a task for each code exercise of a course, and for each student an attempt with the outcome of its tests."""
    found: dict[tuple[str, str], dict[str, Path]] = {}
    for stage in reversed(STAGES):
        for file in sorted((path / stage).glob("*/*/*.ipynb")):
            student, assignment = file.parts[-3:-1]
            found.setdefault((assignment, file.name), {})[student] = file  # graded ones replace submitted ones
    if not found:
        raise SourceError(
            f"{path}: contains no {' or '.join(f'{stage}/STUDENT/ASSIGNMENT/NOTEBOOK.ipynb' for stage in STAGES)}"
        )
    for (assignment, name), files in sorted(found.items()):
        yield from notebook_rows(path, f"nbgrader/{assignment}/{name.removesuffix('.ipynb')}", files)


def notebook_rows(course: Path, prefix: str, files: Mapping[str, Path]) -> Iterator[Row]:
    """Yield the tasks of a notebook, and the attempts in each student's copy."""
    assignment, name = Path(prefix).parts[1:]
    given = {part: file for part in GIVEN if (file := course / part / assignment / f"{name}.ipynb").is_file()}
    graded = [file for file in files.values() if file.parts[-4] == STAGES[0]]
    # graded copies have hidden tests, and those that nbgrader wrote
    candidates = [*graded, *given.values(), *files.values()]
    model = next(filter(readable, candidates), candidates[0])
    dropped = set[str]()
    yield from build_each(model, [(0, {})], partial(tasks_of, model, given, prefix, [*files.values()], dropped))
    for student, file in files.items():
        yield from build_each(file, [(0, {})], partial(attempts_of, file, prefix, student, dropped))


def tasks_of(
    model: Path, given: Mapping[str, Path], prefix: str, copies: Sequence[Path], dropped: set[str], _row: Mapping[str, Any]
) -> Iterator[Row]:
    """Yield the task of each exercise of a notebook."""
    cells, known = cells_of(model), {part: readable(file) for part, file in given.items()}
    programs = (program for file in copies for program, _, _ in programs_of(readable(file)))
    imported = packages_in(imports_of(programs, top=True))
    installed = {*imported}.difference(missing_packages(imported))
    for at, name, graders in exercises_of(cells):
        places = {part: at for part, one in known.items() for at, cell in enumerate(one) if cell.grade_id == name}
        texts = {part: known[part][at].text for part, at in places.items()}
        part = next(iter(places), "")
        before = known[part][: places[part]] if part else cells[:at]
        solved = program_of(known["source"], places["source"], graders) if "source" in places else ""
        tests = tuple(TestCase(TestKind.CODE, test.text, hidden=HIDDEN in test.text) for test in graders)
        found = sound_tests(tests, About(lenient=True))
        dropped |= {cell.grade_id for cell, test in zip(graders, tests, strict=True) if test not in found.tests}
        yield from left_out(found.refused)
        packages = packages_in(imports_of([solved, *(test.text for test in graders)], top=True))
        source = texts.get("source", "")  # of the instructor; where no solution is marked, all of it is
        stub = SOLUTION.sub(r"\1# YOUR CODE HERE", source) if SOLUTION.search(source) or not source else "# YOUR CODE HERE"
        yield Task(
            f"{prefix}/{name}",
            statement(before, texts.get("release") or stub),
            found.tests,
            source="nbgrader",
            official=bool(found.tests),
            reference=MARK.sub("", solved),
            requires=tuple(sorted({*packages, *installed})),
        )


def statement(before: Sequence[Cell], stub: str) -> str:
    """Return the text before an exercise, and the cell as students received it."""
    text = "\n\n".join(cell.text.strip() for cell in before if not cell.code and not cell.solution)
    return f"{text}\n\nWrite the code of this cell, and what it needs:\n\n```python\n{stub.strip()}\n```" if stub else text


def attempts_of(file: Path, prefix: str, student: str, dropped: Collection[str], _row: Mapping[str, Any]) -> Iterator[Row]:
    """Yield an attempt at each exercise of a student's notebook, with a verdict; tests in ``dropped`` do not count."""
    graded = file.parts[-4] == STAGES[0]
    for program, exercise, tests in programs_of(cells_of(file)):
        attempt = Attempt(f"{prefix}/{exercise}", program, author=student, extra=extra_of({"stage": file.parts[-4]}))
        ends = [test.outcome for test in tests if test.grade_id not in dropped] if graded else []
        passed = ends.count(Status.PASSED)
        status = min(ends, key=ORDER.index, default=Status.UNSCORED)
        yield from judged(attempt, status, JUDGE, passed=passed, total=len(ends), outcomes=tuple(ends))


def programs_of(cells: Sequence[Cell]) -> list[tuple[str, str, tuple[Cell, ...]]]:
    """Return the program of each exercise of a notebook, nbgrader's name of the exercise, and its tests."""
    return [(program_of(cells, at, tests), name, tests) for at, name, tests in exercises_of(cells)]


def exercises_of(cells: Sequence[Cell]) -> list[tuple[int, str, tuple[Cell, ...]]]:
    """Return position and name of each code cell that students write, and the cells up to the next one that grade it, if any."""
    starts = [at for at, cell in enumerate(cells) if cell.solution]
    ends = [*starts[1:], len(cells)] if starts else []
    return [
        (at, cells[at].grade_id, tuple(cell for cell in cells[at:end] if cell.is_test))
        for at, end in zip(starts, ends, strict=True)
        if cells[at].code
    ]


def program_of(cells: Sequence[Cell], at: int, tests: Sequence[Cell]) -> str:
    """Return the code of an exercise: its cell, and the earlier cells that it or its tests need and that ended without an exception."""
    needed = {name for text in (cells[at].text, *(test.text for test in tests)) for name in names_read(text)}
    parts = [cells[at].text]
    for cell in reversed(cells[:at]):
        if cell.code and not cell.is_test and not cell.error and touches(cell.text, needed):
            parts.insert(0, cell.text)
            needed |= names_read(cell.text)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def touches(text: str, names: set[str]) -> bool:
    """Return whether code binds one of these names, or changes its object: ``x = 1``, ``x[0] = 1``, ``x.append(1)``, ``import *``."""
    if {"*", *names} & names_bound(text):
        return True
    body = tree.body if (tree := parsed(text)) else []
    parts = (part for node in body if not hasattr(node, "body") for part in ast.walk(node))
    changed = [part for part in parts if isinstance(part, ast.Attribute | ast.Subscript)]
    bases = [part.value for part in changed if isinstance(part.ctx, ast.Store) or isinstance(part, ast.Attribute)]
    return any(isinstance(base, ast.Name) and base.id in names for base in bases)


def readable(file: Path) -> list[Cell]:
    """Return the cells of a notebook; none if it cannot be read, which is reported with its attempts."""
    try:
        return cells_of(file)
    except ValueError:
        return []


def cells_of(file: Path) -> list[Cell]:
    """Return the cells of a notebook in a file."""
    return cells_in(file.read_text(encoding="utf-8"))


def as_program(name: str, text: str) -> str:
    """Return the program in a file: its text, or the code of a notebook without cells that ended with an exception."""
    if not name.endswith(".ipynb"):
        return text
    cells = (cell.text.strip("\n") for cell in cells_in(text) if cell.code and not cell.error)
    code = "\n\n".join(filter(None, cells))
    return f"{code}\n" if code.strip() else ""


def cells_in(text: str) -> list[Cell]:
    """Return the cells of a notebook; ValueError if it is not a notebook of format version 4 in Python 3."""
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("not a notebook of format version 4; save it with a current Jupyter")
    about = notebook.get("metadata", {})
    kernel, info = about.get("kernelspec", {}), about.get("language_info", {})
    language = kernel.get("language", "python")
    if language == "python" and (kernel.get("name") == "python2" or str(info.get("version", "")).startswith("2.")):
        language = "Python 2"
    if language != "python":
        raise ValueError(f"the notebook is in {language}, not in Python 3")
    return [cell_of(cell) for cell in notebook["cells"]]


def cell_of(cell: Mapping[str, Any]) -> Cell:
    """Return a cell from its JSON."""
    known = cell.get("metadata", {}).get("nbgrader", {})
    errors = [out.get("ename") or "Exception" for out in cell.get("outputs", ()) if out.get("output_type") == "error"]
    text, code = "".join(cell["source"]), cell.get("cell_type") == "code"
    if code:
        lines = re.compile("^", re.MULTILINE) if text.startswith("%%") else MAGIC
        text = lines.sub(lambda found: f"# {found[0]}", text)
    grade, solution = bool(known.get("grade")), bool(known.get("solution"))
    ran = bool(errors) or cell.get("execution_count") is not None
    return Cell(code, text, known.get("grade_id", ""), grade, solution, ran, errors[0] if errors else "")


SOURCE = Source(read, "the folder of a course", max_rejected=1.0, marks=("autograded/*/*/*.ipynb", "submitted/*/*/*.ipynb"))
