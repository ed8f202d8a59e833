"""Published tasks and attempts at the functions of HumanEval (2107.03374), MBPP (2108.07732) and other sets.

CodeT (2207.10397)      samples of CodeGen-16B on HumanEval, without outcomes
LDB (2402.16906)        repairs by three model families on HumanEval and MBPP, with outcomes
DS-1000 (2211.11501)    programs around a solution, read as functions with a test per test case
MBXP (2210.14868)       and multilingual HumanEval: functions in many languages, with canonical solutions
MultiPL-E (2208.08227)  HumanEval and MBPP in many languages: prompts, or completions with outcomes

The sets in many languages run prompt + completion + tests as one program. An attempt is the prompt and its completion, up to the end of the function.
"""

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.formats import data_files, json_lines, json_object, rows_of_file
from upsolve.importers.outcome import status_of
from upsolve.importers.problems import extra_of, judged, rest_of, with_sound_tests
from upsolve.importers.recogniser.asserts import imports_of, packages_in, parsed
from upsolve.importers.recogniser.code import check_tests
from upsolve.importers.rows import ODD, BadRow, Numbered, Row, build_each
from upsolve.importers.source import Source
from upsolve.importers.tables.table import records_of
from upsolve.languages.names import language_in
from upsolve.types import Attempt, Status, Task, TestCase, TestKind

__all__ = ["CODET", "CRUXEVAL", "DS1000", "INSTRUCTION", "LDB", "MULTIPLE", "MXEVAL"]

INSTRUCTION = "Complete this Python function and give all of it:\n\n"
"""Text that precedes the signature with its docstring in a prompt."""


def read_codet(path: Path) -> Iterator[Row]:
    """Yield tasks and attempts of CodeT's folder; samples are matched to tasks by their prompt."""
    tasks_file = path / "HumanEval_for_code_generation.jsonl"
    sample_files = sorted(set(path.glob("*_code_solution.jsonl")) - {tasks_file})
    if not sample_files:
        raise SourceError(f"{path}: contains no *_code_solution.jsonl")
    by_prompt: dict[str, Task] = {}

    def task_of(row: dict[str, Any]) -> Iterator[Row]:
        for record in records_of("humaneval", row):
            if isinstance(record, Task):
                by_prompt[row["prompt"].strip()] = record
            yield record

    def samples_of(row: dict[str, Any]) -> list[Row]:
        task = by_prompt.get(str(row.get("prompt", "")).strip())
        if task is None:
            raise ValueError("no task has the prompt of this sample")
        return [Attempt(task.task_id, row["prompt"] + sample, author="codegen-16b") for sample in row.get("samples", [])]

    yield from build_each(tasks_file, json_lines(tasks_file), task_of)
    for file in sample_files:
        yield from build_each(file, json_lines(file), samples_of)


def read_ldb(path: Path) -> Iterator[Row]:
    """Yield tasks, attempts and verdicts of LDB's folder with seed_*.jsonl and debug_*.jsonl."""
    files = [file for kind in ("seed", "debug") for file in sorted(path.glob(f"{kind}_*.jsonl"))]
    if not files:
        raise SourceError(f"{path}: contains no seed_*.jsonl or debug_*.jsonl")
    seen: set[str] = set()
    for file in files:
        author = file.stem.partition("_")[2]
        yield from build_each(file, json_lines(file), lambda row, author=author: [*ldb_records(row, author, seen)])


def ldb_records(row: dict[str, Any], author: str, seen: set[str]) -> Iterator[Row]:
    """Yield the task of a row unless ``seen`` has its id, then the chain of repairs, and the outcome of the last attempt.

    The ids of tasks start with ``ldb/``, because prompts and tests differ from those of MBPP and HumanEval.
    """
    name, entry = str(row["task_id"]).lower(), row["entry_point"]
    task_id, tests = f"ldb/{name}", check_tests(row["test"].replace(f"check({entry})\n", ""), entry)
    if task_id not in seen:
        before = row["prompt"] if name.startswith("humaneval") else ""
        prompt, reference = INSTRUCTION + row["prompt"].rstrip(), before + row["canonical_solution"]
        yield from with_sound_tests(Task(task_id, prompt, tests, entry, source="ldb", official=True, reference=reference))
    parent = ""
    for code in row.get("implementations", []):
        if isinstance(code, str) and code != row["solution"]:
            yield (attempt := Attempt(task_id, code, author=author, parent_id=parent))
            parent = attempt.attempt_id
    last = Attempt(task_id, row["solution"], author=author, parent_id=parent)
    yield from judged(last, Status.PASSED if row["is_solved"] else Status.FAILED, "recorded:ldb")
    seen.add(task_id)


CODET = Source(read_codet, "a folder with *_code_solution.jsonl", marks=("*_code_solution.jsonl",))
LDB = Source(read_ldb, "a folder with seed_*.jsonl and debug_*.jsonl", marks=("seed_*.jsonl", "debug_*.jsonl"))


CRUXEVAL_MODES = ("input", "output")
QUESTIONS = {
    "input": "Find arguments for which this function returns `{output}`. Define `answer()`, which returns them as a tuple:\n\n{code}",
    "output": "What does this function return as `f({input})`? Define `answer()`, which returns this value, without calling `f`:\n\n{code}",
}


def read_cruxeval(path: Path) -> Iterator[Row]:
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
    yield from build_each(file, json_lines(file), lambda row: [task_of(row, mode) for mode in CRUXEVAL_MODES])
    for name, samples in (sample_files(path) if path.is_dir() else {}).items():
        author, _, mode = name.rpartition("_")
        odd = BadRow(str(samples), 0, "its name ends in neither _input nor _output", name)
        rows = sample_rows(samples) if mode in CRUXEVAL_MODES else [(0, odd)]
        yield from build_each(samples, rows, partial(predicted, author=author, mode=mode))


def task_of(row: dict[str, Any], mode: str) -> Task:
    """Return the task about the input or the output of a function."""
    code, output = row["code"], row["output"]
    call = TestCase(TestKind.CALL, "answer()", output, True)
    return Task(
        task_id=f"cruxeval/{mode}/{row['id'].removeprefix('sample_')}",
        prompt=QUESTIONS[mode].format(**row),
        tests=(call if mode == "output" else TestCase(TestKind.CODE, f"{code}\n\nassert f(*answer()) == {output}", "", True),),
        entry_point="answer",
        source="cruxeval",
        reference=program(f"f({row['input']})" if mode == "input" else output, mode),
        official=True,
        extra=json.dumps({"function": row["id"], "mode": mode}),
    )


def program(prediction: str, mode: str) -> str:
    """Return a predicted call or value as a program; a text other than a call of ``f`` with arguments in order is returned unchanged."""
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
    """Return name -> file of each set of samples; of two files, the one with outcomes."""
    plain = {file.parent.name.removeprefix("sample_"): file for file in sorted(folder.rglob("sample_*/generations.json"))}
    scored = {file.stem.removeprefix("sample_scored_"): file for file in sorted(folder.rglob("sample_scored_*.json"))}
    return plain | scored


def sample_rows(file: Path) -> Iterator[Numbered]:
    """Yield the predictions on each function, with their outcomes if the file has them."""
    try:
        data = json.loads(file.read_bytes())
        texts = data.get("raw_generations", data)
        scores = data["raw_scored_generations"] if "raw_generations" in data else {}
        rows = [{"id": name, "predictions": found, "outcomes": scores.get(name)} for name, found in texts.items()]
    except ODD as error:
        rows = [BadRow(str(file), 1, f"{type(error).__name__}: {error}", "")]
    yield from enumerate(rows, start=1)


def predicted(row: dict[str, Any], *, author: str, mode: str) -> list[Row]:
    """Return the predictions on a function as attempts, each with its outcome."""
    task, texts = f"cruxeval/{mode}/{row['id'].removeprefix('sample_')}", row["predictions"]
    outcomes = [None] * len(texts) if row["outcomes"] is None else row["outcomes"]
    records: list[Row] = []
    for text, passed in zip(texts, outcomes, strict=True):
        attempt = Attempt(task, program(text, mode), author=author, extra=json.dumps({"prediction": text}))
        status = Status.PASSED if passed else Status.FAILED
        records += [attempt] if passed is None else judged(attempt, status, "recorded:cruxeval")
    return records


CRUXEVAL = Source(
    read_cruxeval,
    "the folder of CRUXEval with cruxeval.jsonl and files of samples, or cruxeval.jsonl alone",
    detect=("code", "input", "output", "id"),
    marks=("cruxeval.jsonl",),
)


ENTRY = "solve"
HOLE = "[insert]"
RUNNERS = ("test_execution", "test_string")
"""Functions of ``code_context`` that take the text of a solution; the tests call the task's function instead."""
CASES = re.compile(r"\brange\((\d+)\)")
IMPORT = re.compile(r"(?:import|from)\s", re.ASCII)


def read_ds1000(path: Path) -> Iterator[Row]:
    """Yield the tasks of a folder or file; a test per test case, without the tests of a solution's text."""
    for file in data_files(path):
        yield from build_each(file, rows_of_file(file), lambda row: with_sound_tests(ds1000_task(row)))


def context_of(source: str) -> tuple[str, str, int, bool]:
    """Return the program around a solution, the other code, the number of test cases, and whether other tests check the solution's text."""
    nodes = ast.parse(source).body
    defined = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    if missing := [name for name in ("generate_test_case", "exec_test", "test_execution") if name not in defined]:
        raise ValueError(f"code_context of the row has no {', '.join(missing)}")
    programs = [node for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "exec_context"]
    program = ast.literal_eval(programs[0].value) if programs else ""
    if HOLE not in program:
        raise ValueError(f"code_context has no exec_context with {HOLE}")
    left_out = [*programs, *(defined[name] for name in RUNNERS if name in defined)]
    cases = CASES.search(ast.unparse(defined["test_execution"]))
    helpers = ast.unparse(ast.Module([node for node in nodes if node not in left_out], []))
    return program, helpers, int(cases[1]) if cases else 1, "test_string" in defined


def ds1000_task(row: Mapping[str, Any]) -> Task:
    """Return the task of a row."""
    metadata = row.get("metadata") or {}
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    program, helpers, cases, of_text = context_of(str(row["code_context"]))
    reference = function_of(program, str(row["reference_code"]))
    call = "test_input, expected_result = generate_test_case({})\nassert exec_test({}(test_input), expected_result)\n"
    tests = [f"{helpers}\n\n{call.format(number, ENTRY)}" for number in range(1, cases + 1)]
    statement = str(row["prompt"]).partition("\nA:\n")[0].removeprefix("Problem:").strip()
    skeleton = function_of(program, "# write this part")
    return Task(
        task_id=f"ds1000/{metadata['problem_id']}",
        prompt=f"{statement}\n\nComplete this function and give all of it, with the imports:\n\n{skeleton.strip()}",
        tests=tuple(TestCase(TestKind.CODE, test, "", True) for test in tests),
        entry_point=ENTRY,
        source="ds1000",
        reference=reference,
        official=not of_text,
        requires=packages_in(imports_of([helpers, reference])),
        extra=extra_of({**metadata, "split": "test", "tests_left_out": ["test_string"] if of_text else []}),
    )


def function_of(program: str, solution: str) -> str:
    """Return a program with a solution in it as a function; imports at the beginning of a line are placed before the function."""
    before, _, after = program.partition(HOLE)
    imports = [line for line in before.splitlines() if IMPORT.match(line)]
    rest = "\n".join(line for line in before.splitlines() if not IMPORT.match(line)).strip("\n")
    opens = rest.rstrip().endswith(":") and not solution.startswith((" ", "\t"))
    inside = textwrap.indent(solution, "    ") if opens else solution
    parts = (part for part in (rest, inside, after.strip("\n"), "return result") if part.strip())
    body = textwrap.indent("\n".join(parts), "    ")
    return "\n".join([*imports, "", "", f"def {ENTRY}(test_input):", body]).lstrip("\n") + "\n"


DS1000 = Source(
    read_ds1000,
    "ds1000.jsonl.gz, or a folder or file of its rows (.jsonl, .parquet)",
    detect=("code_context", "reference_code"),
)


LANGUAGES = {"clj": "clojure", "cs": "csharp", "csharp": "csharp", "jl": "julia"}
"""Language in these sets -> its name in tasks, if it differs from the usual name."""
TUPLES = re.compile(r"\b(Unit|Pair|Triplet|Quartet|Quintet|Sextet)\b")
TEXT = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'")
PACKAGES = {
    "javascript": re.compile(r"""\brequire\(['"]([\w@./-]+)['"]\)"""),
    "lua": re.compile(r"""\brequire\s*\(?\s*['"]([\w.]+)['"]"""),
    "perl": re.compile(r"^\s*use\s+([A-Z]\w*(?:::\w+)*)", re.MULTILINE),
    "ruby": re.compile(r"""^\s*require\s*\(?\s*['"]([\w/-]+)['"]""", re.MULTILINE),
}
"""Language -> regular expression for statements that load a package."""
RESULTS = (".results.json", ".results.json.gz")
TAKEN = {
    *("task_id", "name", "language", "prompt", "test", "tests"),
    *("canonical_solution", "entry_point", "results", "completions"),
}


def read_mxeval(path: Path) -> Iterator[Row]:
    """Yield the tasks of MBXP and multilingual HumanEval; the reference is the canonical solution, if there is one."""

    def records(row: Mapping[str, Any]) -> Iterator[Row]:
        solution, name = row.get("canonical_solution"), f"mxeval/{str(row['task_id']).lower()}"
        reference = f"{row['prompt']}{solution}" if solution else ""
        yield from with_sound_tests(translated_task(row, name, "mxeval", tests=str(row["test"]), reference=reference))

    for file in data_files(path):
        yield from build_each(file, rows_of_file(file), records)


def read_multiple(path: Path) -> Iterator[Row]:
    """Yield the tasks of MultiPL-E's prompts and, from files of results, the completions with their outcome."""
    results = [file for file in sorted(path.rglob("*")) if file.name.endswith(RESULTS)] if path.is_dir() else []
    results = [path] if path.name.endswith(RESULTS) else results
    for file in results:
        yield from build_each(file, json_object(file), results_of)
    for file in [] if results else data_files(path):
        prefix = f"{file.parent.name}-{file.name}" if file.parent != path else file.name
        data = next((name for name in ("humaneval", "mbpp") if name in prefix.lower()), "")
        rows = rows_of_file(file)
        yield from build_each(file, rows, lambda row, data=data: with_sound_tests(multiple_task({"data": data, **row})))


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
    name = f"multipl_e/{LANGUAGES.get(language) or language_in(language)}/{row['name']}"
    return translated_task({**row, "prompt": prompt}, name, "multipl_e", tests=re.sub(r"^\s*\}", "", tests))


def translated_task(row: Mapping[str, Any], name: str, source: str, *, tests: str, reference: str = "") -> Task:
    """Return a task: tests in Python are unrolled, others are appended to the attempt as one program."""
    language = LANGUAGES.get(str(row["language"])) or language_in(str(row["language"]))
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
    """Return the number of braces that the tests close but do not open: the braces of a class around the function."""
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
        status = status_of(result.get("status"))
        if task.language == "go":
            program = re.sub(r"^package \w+", "package main", program)
        extra = extra_of({key: result.get(key) for key in ("exit_code", "timestamp")})
        attempt = Attempt(task.task_id, program, task.language, author=str(row.get("model") or ""), extra=extra)
        out, errors = (str(result.get(key) or "")[:1000] for key in ("stdout", "stderr"))
        yield from judged(attempt, status, "recorded:multipl_e", stdout_head=out, stderr_head=errors)


MXEVAL = Source(
    read_mxeval,
    "a folder or file of MBXP or multilingual HumanEval (.jsonl)",
    detect=("task_id", "language", "prompt", "test", "entry_point", "!base_input"),
)
MULTIPLE = Source(
    read_multiple,
    "MultiPL-E's prompts (.jsonl, .parquet), or a folder of *.results.json.gz",
    detect=("name", "language", "prompt", "tests", "stop_tokens"),
)
