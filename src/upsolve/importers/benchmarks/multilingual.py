"""Importers for functions in many languages: MBXP and multilingual HumanEval (2210.14868), and MultiPL-E (2208.08227).

Both run prompt + completion + tests as one program. An attempt is the prompt and its completion, up to the end of the function.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import data_files, json_value, rows_of_file
from upsolve.importers.problems import extra_of, rest_of, with_sound_tests
from upsolve.importers.recogniser.code import check_tests
from upsolve.importers.rows import BadRow, Row, build_each
from upsolve.importers.source import Source
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

__all__ = ["MULTIPLE", "SOURCE"]

LANGUAGES = {
    "adb": "ada",
    "clj": "clojure",
    "cs": "csharp",
    "go_test.go": "go",
    "hs": "haskell",
    "jl": "julia",
    "js": "javascript",
    "ml": "ocaml",
    "pl": "perl",
    "py": "python",
    "rb": "ruby",
    "rkt": "racket",
    "rs": "rust",
    "sh": "bash",
    "ts": "typescript",
}
"""MultiPL-E's name of a language -> ours, where they differ."""
STATUSES = {
    "OK": Status.PASSED,
    "Exception": Status.RUNTIME_ERROR,
    "SyntaxError": Status.COMPILE_ERROR,
    "Timeout": Status.TIMEOUT,
}
"""Status in the results of MultiPL-E -> ours."""
TUPLES = re.compile(r"\b(Unit|Pair|Triplet|Quartet|Quintet|Sextet)\b")
TEXT = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'")
PACKAGES = {
    "javascript": re.compile(r"""\brequire\(['"]([\w@./-]+)['"]\)"""),
    "lua": re.compile(r"""\brequire\s*\(?\s*['"]([\w.]+)['"]"""),
    "perl": re.compile(r"^\s*use\s+([A-Z]\w*(?:::\w+)*)", re.MULTILINE),
    "ruby": re.compile(r"""^\s*require\s*\(?\s*['"]([\w/-]+)['"]""", re.MULTILINE),
}
"""Language -> what loads a package."""
RESULTS = (".results.json", ".results.json.gz")
TAKEN = {
    *("task_id", "name", "language", "prompt", "test", "tests"),
    *("canonical_solution", "entry_point", "results", "completions"),
}


def read(path: Path) -> Iterator[Row]:
    """Yield the tasks of MBXP and multilingual HumanEval; the reference is the canonical solution, where there is one."""

    def records(row: Mapping[str, Any]) -> Iterator[Row]:
        solution, name = row.get("canonical_solution"), f"mxeval/{str(row['task_id']).lower()}"
        reference = f"{row['prompt']}{solution}" if solution else ""
        yield from with_sound_tests(task_of(row, name, "mxeval", tests=str(row["test"]), reference=reference))

    for file in data_files(path):
        yield from build_each(file, rows_of_file(file), records)


def read_multiple(path: Path) -> Iterator[Row]:
    """Yield the tasks of MultiPL-E's prompts and, from files of results, the completions with their outcome."""
    results = [file for file in sorted(path.rglob("*")) if file.name.endswith(RESULTS)] if path.is_dir() else []
    results = [path] if path.name.endswith(RESULTS) else results
    for file in results:
        yield from build_each(file, one_object(file), results_of)
    for file in [] if results else data_files(path):
        prefix = f"{file.parent.name}-{file.name}" if file.parent != path else file.name
        data = next((name for name in ("humaneval", "mbpp") if name in prefix.lower()), "")
        rows = rows_of_file(file)
        yield from build_each(file, rows, lambda row, data=data: with_sound_tests(multiple_task({"data": data, **row})))


def one_object(file: Path) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    """Yield the object of a file of results."""
    try:
        row = json_value(file)
    except SourceError as error:
        row = str(error)
    yield 1, row if isinstance(row, dict) else BadRow(str(file), 1, f"is not a JSON object: {str(row)[:200]}", "")


def multiple_task(row: Mapping[str, Any]) -> Task:
    """Return the task of a prompt of MultiPL-E."""
    language, prompt, tests = str(row["language"]), str(row["prompt"]), str(row["tests"])
    if language == "java":
        if TUPLES.search(prompt + tests):
            raise ValueError("needs org.javatuples, which the judge lacks")
        prompt = prompt.replace("import org.javatuples.*;\n", "")
        tests += "\nclass Main {\n    public static void main(String[] args) throws Exception {\n        Problem.main(args);\n    }\n}\n"
    if language == "go_test.go":
        prompt = re.sub(r"^package \w+", "package main", prompt)
        name = re.search(r"^func (Test\w+)\(", tests, re.MULTILINE)
        listed = f'{{"{name[1]}", {name[1]}}}' if name else ""
        always = "func(_, _ string) (bool, error) { return true, nil }"
        main = f"testing.Main({always}, []testing.InternalTest{{{listed}}}, nil, nil)"
        tests += f"\nfunc main() {{\n\ttesting.Init()\n\t{main}\n}}\n"
    name = f"multipl_e/{LANGUAGES.get(language, language)}/{row['name']}"
    return task_of({**row, "prompt": prompt}, name, "multipl_e", tests=re.sub(r"^\s*\}", "", tests))


def task_of(row: Mapping[str, Any], name: str, source: str, *, tests: str, reference: str = "") -> Task:
    """Return a task: tests in Python are unrolled, others are appended to the attempt as one program."""
    language = LANGUAGES.get(str(row["language"]), str(row["language"]).lower())
    prompt, whole = str(row["prompt"]).strip("\n"), balance(tests) == 0
    entry_point = str(row.get("entry_point") or "")
    cases = (TestCase(TestKind.CODE, tests, "", True),)
    if language == "python":
        called = re.search(r"^\s*check\((\w+)\)", tests, re.MULTILINE)
        entry_point = entry_point or (called[1] if called else "")
        cases = check_tests(tests, entry_point)
    rest = "Complete the last function of this {} code. Give all code up to its end"
    wanted = "Complete this {} code and give all of it" if whole else rest
    return Task(
        task_id=name,
        prompt=f"{wanted.format('Python' if language == 'python' else language)}:\n\n{prompt}",
        tests=cases,
        entry_point=entry_point,
        language=language,
        source=source,
        reference=reference,
        official=True,
        requires=required(language, prompt, tests),
        extra=rest_of(row, TAKEN, split="test"),
    )


def required(language: str, *texts: str) -> tuple[str, ...]:
    """Return the packages that programs load, each once."""
    pattern = PACKAGES.get(language)
    return tuple(dict.fromkeys(name for text in texts for name in pattern.findall(text))) if pattern else ()


def balance(code: str) -> int:
    """Return by how many braces the tests close more than they open: those of a class around the function."""
    bare = TEXT.sub("", code)
    return max(0, bare.count("}") - bare.count("{"))


def results_of(row: dict[str, Any]) -> Iterator[Row]:
    """Yield the task of a file of results, and its completions with their outcome."""
    task = multiple_task(row)
    yield from with_sound_tests(task)
    tests = str(row["tests"])
    closing = re.match(r"\s*\}", tests)
    for result in row["results"]:
        program = str(result["program"]).removesuffix(tests).rstrip("\n") + (f"\n{closing[0]}" if closing else "") + "\n"
        if task.language == "java":
            program = program.replace("import org.javatuples.*;\n", "")
        status = STATUSES.get(str(result.get("status")))
        if status is None:
            raise ValueError(f"unknown status {result.get('status')!r}; known are {', '.join(STATUSES)}")
        if task.language == "go":
            program = re.sub(r"^package \w+", "package main", program)
        extra = extra_of({key: result.get(key) for key in ("exit_code", "timestamp")})
        attempt = Attempt(task.task_id, program, task.language, author=str(row.get("model") or ""), extra=extra)
        yield attempt
        out, errors = (str(result.get(key) or "")[:1000] for key in ("stdout", "stderr"))
        yield Verdict(attempt.attempt_id, status, judge="recorded:multipl_e", stdout_head=out, stderr_head=errors)


SOURCE = Source(
    read,
    "a folder or file of MBXP or multilingual HumanEval (.jsonl)",
    detect=("task_id", "language", "prompt", "test", "entry_point", "!base_input"),
)
MULTIPLE = Source(
    read_multiple,
    "MultiPL-E's prompts (.jsonl, .parquet), or a folder of *.results.json.gz",
    detect=("name", "language", "prompt", "tests", "stop_tokens"),
)
