"""Importer for problem packages as Kattis, DOMjudge and ICPC contests use them (legacy and 2023-07): statement, tests, and the jury's submissions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from upsolve.checkers import CheckerProgram
from upsolve.errors import SourceError
from upsolve.importers.outcome import WORDS
from upsolve.importers.problems import extra_of, judged
from upsolve.importers.recogniser.asserts import names_in, parsed
from upsolve.importers.rows import Row, build_each, data_in
from upsolve.importers.source import Option, Source
from upsolve.languages.names import language_in, languages_in
from upsolve.types import Attempt, Status, Task, TestCase, TestKind

__all__ = ["BUILT", "MAX_MB", "PACKAGE_OPTIONS", "SOURCE", "TESTLIB", "built_checker"]

JUDGE = "recorded:problem_package"
STATEMENTS = ("statement", "problem_statement")
"""Folders of the statement: since 2023, and before."""
TEXTS = (".md", ".tex", ".txt", ".html")
"""Endings of statements that are text, the easiest to read first."""
VALIDATORS = ("output_validator", "output_validators")
HEADERS = (".h", ".hh", ".hpp")
EXPECTED = re.compile(r"@EXPECTED_RESULTS@:([^\n*]*)")
"""DOMjudge's comment with the outcomes that a submission may have."""
PRINT_STATEMENT = re.compile(r"^[ \t]*print[ \t]+[^ \t\n(=.]", re.MULTILINE)
ONLY_PYTHON_2 = ("raw_input", "xrange")
"""Functions that only Python 2 has."""
ASKS_VERSION = ("NameError", "version_info", "sys.version", "exec(", "globals()")
"""Words of programs that may run in both versions of Python."""
MAX_MB = 8
"""Default for the largest input or output of a test, megabytes."""


def read(path: Path, *, language: str = "", max_mb: int = MAX_MB) -> Iterator[Row]:
    """Yield a task for each package, and for each submission an attempt with the outcome that its folder states."""
    packages = [file.parent for file in sorted(path.rglob("problem.yaml"))]
    if not packages:
        raise SourceError(f"{path}: no problem.yaml in it or below; unpack packages (.zip, .kpp) first")
    languages = languages_in(language)
    for folder in packages:
        name = folder.relative_to(path).as_posix() if folder != path else folder.resolve().name
        task_id = f"problem_package/{name}"
        build = partial(tasks_of, folder=folder, task_id=task_id, max_mb=max_mb)
        yield from build_each(folder / "problem.yaml", [(0, {})], build)
        for file in sorted((folder / "submissions").glob("*/*")):
            build = partial(submission, folder=folder, file=file, task_id=task_id, languages=languages)
            yield from build_each(file, [(0, {})], build)


def tasks_of(_row: Mapping[str, Any], *, folder: Path, task_id: str, max_mb: int) -> list[Task]:
    """Return the task of a package."""
    settings = settings_in(folder / "problem.yaml")
    tests, large = tests_of(folder, max_mb << 20)
    without, checker = checker_of(folder, settings)
    letters = any(re.search("[a-zA-Z]", test.expected) for test in tests)
    compare = "checker" if checker and (checker != default_validator([]) or letters) else "tokens"
    limits = settings.get("limits") or {}
    left = [without, f"{large} larger than {max_mb} MB" if large else ""]
    known = {key: settings.get(key) for key in ("license", "source", "credits", "author", "keywords", "uuid")}
    return [
        Task(
            task_id,
            statement_of(folder, settings),
            () if without else tests,
            language="",
            source="problem_package",
            compare=compare,
            checker=checker if compare == "checker" else "",
            extra=extra_of(known | {"tests_left_out": "; ".join(filter(None, left))}),
            limit_seconds=seconds_of(folder, limits),
            limit_bytes=int(limits["memory"]) << 20 if limits.get("memory") else None,
        )
    ]


def settings_in(file: Path) -> dict[str, Any]:
    """Return a YAML object; an empty one if the file is empty or missing."""
    try:
        value = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else None
    except yaml.YAMLError as error:
        raise ValueError(f"{file}: {error}") from error
    if not isinstance(value or {}, dict):
        raise ValueError(f"{file}: must be a YAML mapping")
    return value or {}


def statement_of(folder: Path, settings: Mapping[str, Any]) -> str:
    """Return the name of a problem and its statement, in English or else in the first of its languages; only the name if no statement is text."""
    name = settings.get("name") or folder.name
    title = str(next(iter(name.values()), folder.name) if isinstance(name, dict) else name)
    files = [file for part in STATEMENTS for file in sorted((folder / part).glob("problem*")) if file.suffix in TEXTS]
    files.sort(key=lambda file: (".en." not in file.name and file.name.count(".") > 1, TEXTS.index(file.suffix)))
    return f"{title}\n\n{files[0].read_text(encoding='utf-8').strip() if files else ''}".strip()


def tests_of(folder: Path, most: int) -> tuple[tuple[TestCase, ...], int]:
    """Return the tests of a package, the samples first, and the number of tests left out as larger than ``most`` bytes."""
    tests: list[TestCase] = []
    large = 0
    for part in ("sample", "secret"):
        for given in sorted((folder / "data" / part).rglob("*.in")):
            answer = given.with_suffix(".ans")
            if max(given.stat().st_size, answer.stat().st_size if answer.exists() else 0) > most:
                large += 1
            elif answer.exists():
                texts = (file.read_text(encoding="utf-8") for file in (given, answer))
                tests.append(TestCase(TestKind.STDIO, *texts, hidden=part == "secret"))
            elif part == "secret":
                raise ValueError(f"{given}: the answer file {answer.name} is missing")
    return tuple(tests), large


def checker_of(folder: Path, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return why outputs cannot be judged ("" if they can), and the checker."""
    kinds = [*flags_in(settings.get("validation")), *flags_in(settings.get("type"))]
    if odd := {"interactive", "multi-pass", "submit-answer"}.intersection(kinds):
        return f"problem is {', '.join(sorted(odd))}", ""
    if any(file.is_file() for file in (folder / "include").rglob("*")):
        return "submissions are built with files of include/", ""
    given = {tuple(flags_in(settings.get("validator_flags")))}
    for file in sorted({*(folder / "data").rglob("testdata.yaml"), *(folder / "data").rglob("test_group.yaml")}):
        group = settings_in(file)
        given |= {tuple(flags_in(group[key])) for key in ("output_validator_flags", "output_validator_args") if key in group}
    given = {flags for flags in given if flags} or {()}
    if len(given) > 1:
        return "flags of the output validator differ between groups of tests", ""
    flags = [*given.pop()]
    files = [file for name in VALIDATORS for file in (folder / name).rglob("*") if file.is_file()]
    legacy = str(settings.get("problem_format_version", "legacy")) == "legacy"
    if not files or (legacy and "custom" not in kinds):
        return "", default_validator(flags)
    sources = [file for file in files if file.suffix not in HEADERS]
    if [file.suffix for file in sources] == [".py"]:
        return "", python_validator(sources[0].read_text(encoding="utf-8"), flags)
    if len(sources) != 1 or sources[0].suffix not in BUILT:
        return f"output validator is not one file in Python or C++ ({', '.join(sorted(file.name for file in files)[:3])})", ""
    return "", built_checker(sources[0], "icpc", flags).text


def flags_in(value: Any) -> list[str]:
    """Return flags that are given as text or as a list."""
    return [str(flag) for flag in value] if isinstance(value, list) else str(value or "").split()


def seconds_of(folder: Path, limits: Mapping[str, Any]) -> float | None:
    """Return the time limit that a package states: in problem.yaml since 2023, else in a file of Kattis or DOMjudge; None if there is none."""
    stated = [str(limits["time_limit"])] if limits.get("time_limit") else []
    for name, form in ((".timelimit", r"[\d.]+"), ("domjudge-problem.ini", r"timelimit\s*=\s*['\"]?([\d.]+)")):
        file = folder / name
        stated += re.findall(form, file.read_text(encoding="utf-8")) if file.exists() else []
    return float(stated[0]) if stated else None


def submission(_row: Mapping[str, Any], *, folder: Path, file: Path, task_id: str, languages: frozenset[str]) -> Iterator[Row]:
    """Yield the attempt of a submission, and its verdict if folder or comment state one outcome; nothing for a language that is not wanted.

    An accepted submission of a scoring problem may solve a part of the tests: its verdict is ``UNSCORED``.
    """
    sources = [file] if file.is_file() else [one for one in sorted(file.rglob("*")) if one.is_file()]
    if len(sources) != 1:
        raise ValueError(f"the submission has {len(sources)} files, but an attempt is one program in one file")
    code = sources[0].read_text(encoding="utf-8")
    language = language_in(sources[0].suffix[1:])
    if language == "python" and is_python_2(code):
        language = "python2"
    if languages and language not in languages:
        return
    given = stated[1].split(",") if (stated := EXPECTED.search(code)) else [file.parent.name]
    words = [re.sub("[-_]", " ", word).strip().lower() for word in given if word.strip()]
    attempt = Attempt(task_id, code, language, "human", extra=extra_of({"file": file.name, "expected": ", ".join(words)}))
    status = WORDS.get(words[0], Status.UNSCORED) if len(words) == 1 else Status.UNSCORED
    with suppress(ValueError):  # settings that cannot be read are refused with the task
        if status is Status.PASSED and "scoring" in flags_in(settings_in(folder / "problem.yaml").get("type")):
            status = Status.UNSCORED
    yield from judged(attempt, status, JUDGE)


def is_python_2(code: str) -> bool:
    """Return whether a program names Python 2 in its first line, or uses print statements or functions that only Python 2 has."""
    if code.startswith("#!") and "python2" in code.splitlines()[0]:
        return True
    if (tree := parsed(code)) is None:
        return PRINT_STATEMENT.search(code) is not None
    if any(word in code for word in ASKS_VERSION) or not any(name in code for name in ONLY_PYTHON_2):
        return False
    bound, read = names_in(tree)
    return "*" not in bound and bool(read.intersection(ONLY_PYTHON_2) - bound)


PACKAGE_OPTIONS = (
    Option("language", str, "languages of submissions to keep: python,cpp (default: all)"),
    Option("max_mb", int, f"largest input or output of a test, megabytes (default: {MAX_MB})"),
)
SOURCE = Source(
    read,
    "a problem package of Kattis, DOMjudge or an ICPC contest, or a folder with such",
    PACKAGE_OPTIONS,
    max_rejected=1.0,
    marks=("problem.yaml", "*/problem.yaml", "*/*/problem.yaml"),
)


BUILT = {".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp", ".c": "c"}
"""Suffix of a checker that must be built -> its language."""
INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

CHECKERS = data_in("programs.yaml")
TOLERANCES = {
    "float_tolerance": ("absolute", "relative"),
    "float_absolute_tolerance": ("absolute",),
    "float_relative_tolerance": ("relative",),
}
"""Flag of the default validator that takes a number -> the tolerance that it sets."""


def default_validator(flags: Sequence[str]) -> str:
    """Return a checker that compares as the default validator does with these flags."""
    values: dict[str, bool | float] = {"case": False, "space": False, "absolute": -1.0, "relative": -1.0}
    rest = iter(flags)
    for flag in rest:
        if flag in ("case_sensitive", "space_change_sensitive"):
            values[flag.split("_")[0]] = True
        elif flag in TOLERANCES:
            values |= dict.fromkeys(TOLERANCES[flag], float(next(rest, "")))
        else:
            raise ValueError(f"the default validator has no flag {flag!r}")
    return CHECKERS["default_validator"].format(**values)


def python_validator(source: str, arguments: Sequence[str]) -> str:
    """Return a checker that runs an output validator written in Python with these arguments."""
    return CHECKERS["python_validator"].format(source=source, arguments=[*arguments])


def built_checker(file: Path, call: str, arguments: Sequence[str] = ()) -> CheckerProgram:
    """Return a checker in C or C++ with the headers that it includes from its folder; ValueError if ``testlib.h`` is included but missing."""
    source = file.read_text(encoding="utf-8", errors="replace")
    files: dict[str, str] = {}
    todo = INCLUDED.findall(source)
    while todo:
        name = todo.pop()
        header = (file.parent / name).resolve()
        if name in files or not header.is_relative_to(file.parent.resolve()):
            continue
        if header.is_file():
            files[name] = header.read_text(encoding="utf-8", errors="replace")
            todo += INCLUDED.findall(files[name])
        elif name == "testlib.h":
            raise ValueError(f"checker {file.name} includes testlib.h, which is not beside it")
    return CheckerProgram(BUILT[file.suffix], source, call=call, files=files, arguments=tuple(arguments))


TESTLIB: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("hcmp", "icmp", "ncmp", "wcmp", "caseicmp", "casencmp", "casewcmp"), ("tokens", "")),
    **{name: (f"floats:{close}", "") for name, close in (("dcmp", 1e-6), ("rcmp4", 1e-4), ("rcmp6", 1e-6), ("rcmp9", 1e-9))},
    **dict.fromkeys(("yesno", "nyesno"), ("checker", default_validator([]))),
    **dict.fromkeys(("acmp", "rcmp"), ("checker", default_validator(["float_absolute_tolerance", "1.5e-6"]))),
    "rncmp": ("checker", default_validator(["float_absolute_tolerance", "1.5e-5"])),
    "fcmp": ("lines", ""),
    "lcmp": ("checker", CHECKERS["lcmp"]),
    "uncmp": ("checker", CHECKERS["uncmp"]),
}
"""Checker of testlib, such as ``wcmp`` -> ``Task.compare`` and ``Task.checker`` with the same effect."""
