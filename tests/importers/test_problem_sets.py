"""Importers of published problem sets, on small files in the published layouts.

In each set the recorded solution passes its own tests under the real judge, and a wrong program fails them.
"""

import base64
import gzip
import json
import pickle
import zlib

import imports
import pyarrow as pa
import pytest
from imports import rejected_rows, write_lines, write_parquet

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.benchmarks.functions import balance, required
from upsolve.importers.ingest import ingest
from upsolve.importers.recogniser.calls import text_of_pickle
from upsolve.importers.recogniser.suites import pytest_tests, unittest_tests
from upsolve.importers.registry import SOURCES
from upsolve.languages import languages
from upsolve.types import Attempt, Status, Task, TestKind
from upsolve.verify.judge import references
from upsolve.verify.judge.references import expected_values
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify


def imported(tmp_path, source, path, **options):
    """The archive, its tasks by id, and the rejected rows."""
    archive, report = imports.imported(tmp_path, source, path, **options)
    return archive, {task.task_id: task for task in archive.tasks()}, rejected_rows(report)


def statuses(task, *codes, language="python"):
    """What the judge says of programs."""
    if language in languages() and (tool := languages()[language].missing()):
        pytest.skip(f"no {tool} here")
    attempts = [(task, Attempt(task.task_id, code, language)) for code in codes]
    return [verdict.status for verdict in verify(attempts, JudgeSettings(workers=1))]


def recorded(archive):
    """Code -> recorded status and judge."""
    codes = {attempt.attempt_id: attempt.code for attempt in archive.attempts()}
    return {codes[verdict.attempt_id]: (verdict.status, verdict.judge) for verdict in archive.verdicts()}


SUM = "a, b = map(int, input().split())\nprint(a + b)\n"
PAIRS = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
KATA = {"fn_name": "swap", "inputs": [[1, 2], [3, 4]], "outputs": [[[2, 1]], [[4, 3]]]}
SWAP = "def swap(a, b):\n    return b, a\n"
LEET = {"fn_name": "twice", "inputs": [[[1, 2]], [[3]]], "outputs": [[2, 4], [6]]}
TWICE = "class Solution:\n    def twice(self, nums: List[int]) -> List[int]:\n        return [2 * n for n in nums]\n"
STARTER = "class Solution:\n    def twice(self, nums: List[int]) -> List[int]:\n        "


def apps_rows():
    """Rows of the files on the Hub: standard input, a function of Codewars, a method of LeetCode, no tests, a broken one."""
    plain = {"starter_code": "", "url": "https://codeforces.com/problemset/problem/1/A", "difficulty": "introductory"}
    tests = [(PAIRS, [SUM]), (KATA, [SWAP]), (LEET, [TWICE])]
    rows = [
        {
            **plain,
            "id": number,
            "question": f"Problem {number}.",
            "solutions": json.dumps(codes),
            "input_output": json.dumps(pairs),
        }
        for number, (pairs, codes) in enumerate(tests)
    ]
    rows[2]["starter_code"] = STARTER
    bare = {**plain, "id": 3, "question": "No tests.", "solutions": json.dumps(["pass"]), "input_output": ""}
    return [
        *rows,
        bare,
        {**plain, "id": 4, "question": "x", "solutions": "", "input_output": '{"inputs": ["1"], "outputs": []}'},
    ]


def check_apps(tasks, split="train", name="apps"):
    programs, kata, leet = (tasks[f"{name}/{split}/{number}"] for number in range(3))
    assert [test.kind for test in programs.tests] == [TestKind.STDIO] * 2 and all(test.hidden for test in programs.tests)
    assert (kata.tests[0].input, kata.tests[0].expected) == ("as_lists(swap(1, 2))", "[2, 1]")
    assert (leet.tests[0].input, leet.entry_point) == ("as_lists(Solution().twice([1, 2]))", "Solution")
    assert STARTER.strip() in leet.prompt
    assert statuses(programs, SUM, SUM.replace("+", "-")) == [Status.PASSED, Status.FAILED]
    assert statuses(kata, SWAP, SWAP.replace("b, a", "a, b")) == [Status.PASSED, Status.FAILED]
    assert statuses(leet, TWICE, TWICE.replace("2 *", "3 *")) == [Status.PASSED, Status.FAILED]


def test_apps_from_the_hub(tmp_path):
    write_lines(tmp_path / "hub" / "train.jsonl", apps_rows())
    write_lines(tmp_path / "hub" / "test.jsonl", apps_rows()[:1])
    archive, tasks, rejected = imported(tmp_path, "apps", tmp_path / "hub")
    check_apps(tasks)
    assert set(tasks) == {"apps/test/0", "apps/train/0", "apps/train/1", "apps/train/2", "apps/train/3"}
    assert [(row["line"], row["reason"]) for row in rejected] == [(5, "tests: 1 inputs, but 0 outputs")]
    assert recorded(archive) == dict.fromkeys((SUM, SWAP, TWICE, "pass"), (Status.PASSED, "recorded:apps"))
    assert tasks["apps/train/3"].tests == ()
    extra = json.loads(tasks["apps/test/0"].extra)
    assert extra == {"split": "test", "url": "https://codeforces.com/problemset/problem/1/A"}
    assert tasks["apps/train/0"].difficulty == "introductory" and tasks["apps/train/0"].reference == SUM


def rows_of_graders(tmp_path):
    """A leading space, an empty line between, a list of one item, 5,000 digits; a permuted output, which the grader of APPS accepts."""
    programs = [
        ("for i in range(int(input())): print(' ' + str(i), end='')", "2\n", "0 1\n"),
        ("for i in range(2): print(i); print()", "", "0\n1\n"),
        ("print(2, 1)", "", "1 2\n"),
    ]
    pairs = [({"inputs": [given], "outputs": [expected]}, code) for code, given, expected in programs]
    pairs.append(({"fn_name": "f", "inputs": [[1], [2]], "outputs": [[1], [2]]}, "def f(x):\n    return [x]\n"))
    long = '{"fn_name": "g", "inputs": [[N], [1]], "outputs": [[N1], [2]]}'.replace("N1", "1" + "0" * 4999 + "1")
    pairs.append((long.replace("N", "1" + "0" * 5000), "def g(n):\n    return n + 1\n"))
    pairs.append(({"fn_name": "h", "inputs": [[1]], "outputs": [[1, 2]]}, "def h(x):\n    return x\n"))
    rows = [
        {
            "id": number,
            "question": f"Q{number}",
            "solutions": json.dumps([code]),
            "input_output": values if isinstance(values, str) else json.dumps(values),
        }
        for number, (values, code) in enumerate(pairs)
    ]
    return write_lines(tmp_path / "train.jsonl", rows)


@pytest.mark.parametrize(
    ("compare", "failing"),
    [("contest", {2, 5}), ("publisher", set()), ("exact", {0, 1, 2, 5})],
    ids=["contest", "publisher", "exact"],
)
def test_option_compare_of_apps(tmp_path, compare, failing):
    _, tasks, rejected = imported(tmp_path, "apps", rows_of_graders(tmp_path), compare=compare)
    found = {
        int(task.task_id.rpartition("/")[2]) for task in tasks.values() if statuses(task, task.reference) != [Status.PASSED]
    }
    assert found == failing and not rejected and len(tasks) == 6


def test_apps_from_its_folders(tmp_path):
    for row in apps_rows()[:3]:
        folder = tmp_path / "APPS" / "train" / f"{row['id']:04}"
        folder.mkdir(parents=True)
        (folder / "question.txt").write_text(row["question"])
        (folder / "solutions.json").write_text(row["solutions"])
        (folder / "input_output.json").write_text(row["input_output"])
        (folder / "metadata.json").write_text(json.dumps({"difficulty": "interview", "url": "u"}))
        if row["starter_code"]:
            (folder / "starter_code.py").write_text(row["starter_code"])
    (tmp_path / "APPS" / "train" / "0009").mkdir()
    (tmp_path / "APPS" / "train" / "0009" / "question.txt").write_text("Broken.")
    (tmp_path / "APPS" / "train" / "0009" / "metadata.json").write_text("{")
    _, tasks, rejected = imported(tmp_path, "apps", tmp_path / "APPS")
    check_apps(tasks)
    assert tasks["apps/train/0"].difficulty == "interview" and json.loads(tasks["apps/train/0"].extra) == {
        "url": "u",
        "split": "train",
    }
    assert [row["file"].split("/")[-2:] for row in rejected] == [["0009", "question.txt"]]


@pytest.mark.filterwarnings("ignore:outputs such as")
def test_apps_with_the_arguments_of_a_call_in_lines(tmp_path):
    starter = "\ndef pad(text, width=3):\n\t"
    row = {
        "name": "7",
        "id": 7,
        "description": "Pad.",
        "difficulty": "interview",
        "starter_code": starter,
        "sample_io": [{"input": "ab", "output": ["ab "]}],
        "test_list": [{"input": "ab", "output": ["ab "]}, {"input": "12\n4", "output": ["12  "]}],
    }
    wrong = {**row, "id": 8, "test_list": [{"input": "a\n1\n2", "output": [""]}]}
    _, tasks, rejected = imported(tmp_path, "apps", write_lines(tmp_path / "selected.jsonl", [row, wrong]))
    task = tasks["apps/all/7"]
    assert [(test.input, test.hidden) for test in task.tests] == [("pad('ab')", False), ("pad('12', 4)", True)]
    right = "def pad(text, width=3):\n    return text.ljust(width)\n"
    assert statuses(task, right, right.replace("ljust", "rjust")) == [Status.PASSED, Status.FAILED]
    assert rejected[0]["reason"] == "an input has 3 lines, the function takes 1 to 2 arguments"


@pytest.mark.filterwarnings("ignore:outputs such as")
def test_real_rows_of_apps(real_data, tmp_path):
    """150 rows, of which 21 are repeated; two have text of several lines as an argument."""
    _, tasks, rejected = imported(tmp_path, "apps", real_data / "apps" / "selected150.jsonl")
    assert len(tasks) == 127 and [row["line"] for row in rejected] == [63, 66]
    assert all("lines, the function takes" in row["reason"] for row in rejected)
    assert all(task.tests for task in tasks.values())


def test_apps_plus(tmp_path):
    rows = [
        {
            "id": 5,
            "question": "Swap.",
            "canonical_solution": SWAP,
            "fn_name": "swap",
            "inputs": [[1, 2]],
            "outputs": [[2, 1]],
            "starter_code": "def swap(a, b):",
            "difficulty": "interview",
        },
        {"question": "Nothing else."},
    ]
    (tmp_path / "data.json").write_text(json.dumps(rows))
    archive, tasks, rejected = imported(tmp_path, "apps_plus", tmp_path / "data.json")
    task = tasks["apps_plus/5"]
    assert statuses(task, SWAP, SWAP.replace("b, a", "a, b")) == [Status.PASSED, Status.FAILED]
    assert recorded(archive) == {SWAP: (Status.PASSED, "recorded:apps_plus")} and task.difficulty == "interview"
    assert not rejected and tasks["apps_plus/2"].tests == ()


def test_taco(tmp_path):
    about = {
        "difficulty": "MEDIUM_HARD",
        "raw_tags": "['math']",
        "name": "Sum",
        "source": "codeforces",
        "tags": "['Mathematics']",
        "skill_types": "[]",
        "url": "u",
        "Expected Auxiliary Space": None,
        "time_limit": "2.0 seconds",
        "date": "2019-12-31 00:00:00",
        "picture_num": "0",
        "memory_limit": "256.0 megabytes",
        "Expected Time Complexity": None,
    }
    rows = [
        {**about, **{name: row[name] for name in ("question", "solutions", "starter_code", "input_output")}}
        for row in apps_rows()[:3]
    ]
    floats = {"inputs": ["1\n"], "outputs": [["0.33333"]]}
    rows.append({**rows[0], "input_output": json.dumps(floats), "solutions": json.dumps(["print(1 / 3 + 2e-6)"])})
    rows.append({**rows[0], "input_output": "{broken"})
    table = pa.Table.from_pylist(rows)
    (tmp_path / "TACO" / "train").mkdir(parents=True)
    with pa.ipc.new_stream(tmp_path / "TACO" / "train" / "data-00000-of-00001.arrow", table.schema) as stream:
        stream.write_table(table)
    archive, tasks, rejected = imported(tmp_path, "taco", tmp_path / "TACO")
    check_apps(tasks, name="taco")
    first = tasks["taco/train/0"]
    assert first.difficulty == "medium_hard" and json.loads(first.extra) == {
        "name": "Sum",
        "raw_tags": ["math"],
        "source": "codeforces",
        "split": "train",
        "tags": ["Mathematics"],
        "url": "u",
        "time_limit": "2.0 seconds",
        "date": "2019-12-31 00:00:00",
        "picture_num": "0",
        "memory_limit": "256.0 megabytes",
    }
    assert tasks["taco/train/3"].compare == "floats:1e-6" and [row["line"] for row in rejected] == [5]
    assert statuses(tasks["taco/train/3"], "print(0.3333300001)", "print(0.3334)") == [Status.PASSED, Status.FAILED]
    assert recorded(archive)[SUM] == (Status.PASSED, "recorded:taco")


def test_a_set_whose_solutions_use_numpy_requires_it(tmp_path):
    """The graders provide numpy: without it, correct solutions would fail."""
    row = {**apps_rows()[0], "solutions": json.dumps([SUM, "  import sys, numpy as np\n"])}
    _, tasks, _ = imported(tmp_path, "apps", write_lines(tmp_path / "train.jsonl", [row, {**apps_rows()[0], "id": 9}]))
    assert [task.requires for task in tasks.values()] == [("numpy",), ()]


@pytest.mark.parametrize("name", ["product", "math"])
def test_a_function_may_have_the_name_of_an_import(tmp_path, name):
    """The setup binds ``product`` and ``math``: the tests must call the attempt's, not these."""
    pairs = {"fn_name": name, "inputs": [[[2, 3]], [[4]]], "outputs": [[[6, 0]], [[4, 0]]]}
    code = f"def {name}(values):\n    return (reduce(lambda a, b: a * b, values), 0)\n"
    row = {**apps_rows()[0], "input_output": json.dumps(pairs), "solutions": json.dumps([code])}
    _, tasks, _ = imported(tmp_path, "apps", write_lines(tmp_path / "train.jsonl", [row]))
    (task,) = tasks.values()
    assert statuses(task, code, code.replace("a * b", "a + b")) == [Status.PASSED, Status.FAILED]


def contests_row():
    """A row of the Hub: structs of lists, numbers for classes."""
    return {
        "name": "1_A. Sum",
        "description": "Add two numbers.",
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": {"input": ["3 4\n"], "output": ["7\n"]},
        "generated_tests": {"input": ["5 6\n"], "output": ["11\n"]},
        "source": 2,
        "difficulty": 7,
        "solutions": {
            "language": [3, 2, 1, 3],
            "solution": [SUM, "int main(){}", "print sum(map(int, raw_input().split()))", SUM + "#"],
        },
        "incorrect_solutions": {"language": [3, 4], "solution": [SUM.replace("+", "-"), "class Main {}"]},
        "cf_contest_id": 1,
        "cf_index": "A",
        "cf_points": 0.0,
        "cf_rating": 800,
        "cf_tags": ["math"],
        "is_description_translated": False,
        "untranslated_description": "",
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 256_000_000,
        "input_file": "",
        "output_file": "",
    }


def test_code_contests(tmp_path):
    files = {**contests_row(), "name": "2_B", "input_file": "in.txt", "output_file": "out.txt"}
    broken = {**contests_row(), "name": "3_C", "public_tests": {"input": ["1"], "output": []}}
    write_parquet(tmp_path / "data" / "train-00000-of-00039-e991a271dbfa9925.parquet", [contests_row(), files])
    write_lines(tmp_path / "data" / "valid.jsonl", [{**contests_row(), "name": "4_D"}, broken])
    archive, tasks, rejected = imported(tmp_path, "code_contests", tmp_path / "data")
    task = tasks["code_contests/codeforces/1_A. Sum"]
    assert [(test.expected, test.hidden) for test in task.tests] == [("3\n", False), ("7\n", True), ("11\n", True)]
    assert statuses(task, task.reference, SUM.replace("+", "-")) == [Status.PASSED, Status.FAILED]
    assert statuses(task, "print sum(1)", language="python2") == [Status.UNSCORED]
    assert (task.language, task.difficulty, task.compare) == ("", "A", "floats:1e-5")
    assert json.loads(task.extra) == {
        "cf_contest_id": 1,
        "cf_index": "A",
        "cf_rating": 800,
        "cf_tags": ["math"],
        "memory_limit_bytes": 256_000_000,
        "site": "codeforces",
        "split": "train",
        "time_limit": 1.5,
    }
    assert tasks["code_contests/codeforces/2_B"].tests == () and len(tasks) == 3
    assert json.loads(tasks["code_contests/codeforces/4_D"].extra)["split"] == "dev"
    outcomes = {(row["language"], row["status"]): row["n"] for row in outcomes_of(archive, task)}
    assert outcomes == {
        ("python", "passed"): 2,
        ("python", "failed"): 1,
        ("cpp", "passed"): 1,
        ("python2", "passed"): 1,
        ("java", "failed"): 1,
    }
    assert [(row["file"].rpartition("/")[2], row["line"]) for row in rejected] == [("valid.jsonl", 2)]


def outcomes_of(archive, task):
    """Number of attempts at a task by language and recorded status."""
    query = (
        "select language, status, count(*) n from attempts join verdicts using (attempt_id) where task_id = '{}' group by all"
    )
    return archive.query(query.format(task.task_id)).to_pylist()


def test_code_contests_of_some_languages_and_a_cap(tmp_path):
    write_parquet(tmp_path / "test.parquet", [contests_row()])
    archive, *_ = imported(tmp_path, "code_contests", tmp_path / "test.parquet", language="python, cpp", most=1)
    assert sorted(attempt.language for attempt in archive.attempts()) == ["cpp", "python", "python"]


def hidden_cases(cases):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases)))).decode()


def bench_row(number, when, public, private, **fields):
    return {
        "question_title": "T",
        "question_content": "Add.",
        "platform": "atcoder",
        "question_id": f"abc{number}",
        "contest_id": "abc",
        "contest_date": when,
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(public),
        "private_test_cases": hidden_cases(private),
        "metadata": "{}",
        **fields,
    }


def test_livecodebench(tmp_path):
    stdin = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}, {"input": "3 4\n", "output": "7\n", "testtype": "stdin"}]
    calls = [
        {"input": "[1, 2]", "output": "[2, 4]", "testtype": "functional"},
        {"input": "[3]", "output": "[6]", "testtype": "functional"},
    ]
    about = {"starter_code": STARTER, "metadata": json.dumps({"func_name": "twice"})}
    rows = [
        bench_row(1, "2023-08-21T00:00:00", stdin[:1], stdin[1:]),
        bench_row(2, "2024-03-01T00:00:00", calls[:1], calls[1:], **about),
    ]
    write_lines(tmp_path / "test.jsonl", rows)
    plain = {**bench_row(3, "2024-09-01T00:00:00", stdin[:1], []), "private_test_cases": json.dumps(stdin[1:])}
    write_lines(tmp_path / "test2.jsonl", [plain, {**plain, "private_test_cases": "eNpb"}])
    _, tasks, rejected = imported(tmp_path, "livecodebench", tmp_path)
    programs, method = tasks["livecodebench/abc1"], tasks["livecodebench/abc2"]
    for task in (programs, method, tasks["livecodebench/abc3"]):
        assert [test.hidden for test in task.tests] == [False, True]
    assert statuses(programs, SUM, SUM.replace("+", "-")) == [Status.PASSED, Status.FAILED]
    assert statuses(method, TWICE, TWICE.replace("2 *", "3 *")) == [Status.PASSED, Status.FAILED]
    extra = json.loads(method.extra)
    assert extra["contest_date"] == "2024-03-01T00:00:00" and extra["metadata"] == {"func_name": "twice"}
    assert programs.difficulty == "easy" and [row["line"] for row in rejected] == [2]
    assert programs.compare == method.compare == "livecodebench"
    by_contest = [task.compare for task in SOURCES["livecodebench"].read(tmp_path, compare="contest") if isinstance(task, Task)]
    assert by_contest == ["tokens", "lines", "tokens"]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"release": "release_v1"}, {1, 2}),
        ({"release": "release_v2"}, {1, 2, 3}),
        ({"release": "v2"}, {3}),
        ({"release": "v1_v2", "start": "2024-03-01"}, {2, 3}),
        ({"end": "2024-03-01"}, {1, 2}),
    ],
)
def test_livecodebench_of_a_release_or_a_window(tmp_path, options, numbers):
    rows = [bench_row(n, when, [], []) for n, when in enumerate(["2023-08-21T00:00:00", "2024-03-01", "2024-09-01"], start=1)]
    write_lines(tmp_path / "test.jsonl", rows[:2])
    write_lines(tmp_path / "test2.jsonl", rows[2:])
    _, tasks, _ = imported(tmp_path, "livecodebench", tmp_path, **options)
    assert set(tasks) == {f"livecodebench/abc{number}" for number in numbers}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"release": "latest"}, "release must be release_v1, .*, got 'latest'"),
        ({"release": "release_v3"}, "needs test3.jsonl"),
        ({"start": "March"}, "start: 'March' is not a date"),
    ],
)
def test_livecodebench_names_a_wrong_release_or_date(tmp_path, options, message):
    for name in ("test.jsonl", "test2.jsonl"):
        write_lines(tmp_path / name, [bench_row(1, "2023-08-21", [], [])])
    with pytest.raises(SourceError, match=message):
        imported(tmp_path, "livecodebench", tmp_path, **options)


class Evil:
    """Its pickle runs a command when it is loaded by ``pickle.loads``."""

    def __reduce__(self):
        return eval, ("open('/tmp/upsolve-was-here', 'w')",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pickle.dumps(Evil()), "names builtins.eval; only text is allowed"),
        (pickle.dumps(["text"]), "holds list, not text"),
        (pickle.dumps("text")[:-3], "packed in a pickle"),
        (b"", "packed in a pickle"),
    ],
)
def test_a_pickle_of_hidden_tests_runs_no_code(data, message):
    with pytest.raises(ValueError, match=message):
        text_of_pickle(data)
    assert text_of_pickle(pickle.dumps("text")) == "text"


def plus_row(**fields):
    """A row of MbppPlus.jsonl: JSON has lost that the argument is a tuple, which the assert shows."""
    return {
        "task_id": "Mbpp/2",
        "prompt": "'''\nWrite a function to count tuples.\n'''",
        "entry_point": "count",
        "canonical_solution": "\ndef count(pair, wanted):\n    return [sum(type(x) is tuple for x in pair), 0.5]\n",
        "base_input": [[[1, [2]], "1+2j"]],
        "plus_input": [[[], "3"], [[[3, [4]], 5], "nan"]],
        "atol": 0,
        "contract": "\n  assert True # $_CONTRACT_$\n",
        "assertion": "\nassert count((1, (2,)), 1j) == [1, 0.5]\n",
        **fields,
    }


def test_evalplus(tmp_path):
    """Values come from the reference, run in the sandbox; a value that it does not reach is left out and counted."""
    wrong = plus_row(task_id="Mbpp/3", canonical_solution="import nowhere\n")
    _, tasks, rejected = imported(tmp_path, "evalplus", write_lines(tmp_path / "MbppPlus.jsonl", [plus_row(), wrong]))
    task = tasks["evalplus/mbpp/2"]
    assert [(test.input, test.expected, test.hidden) for test in task.tests] == [
        ("count((1, (2,)), (1+2j))", "[1, 0.5]", False),
        ("count((), 3.0)", "[0, 0.5]", True),
    ]
    assert (task.prompt, task.compare) == ("Write a function to count tuples.", "floats:1e-06:1e-7")
    assert statuses(task, task.reference, task.reference.replace("0.5", "0.4")) == [Status.PASSED, Status.FAILED]
    assert json.loads(task.extra)["inputs_left_out"] == 1 and "contract" in json.loads(task.extra)
    assert "the reference fails: ModuleNotFoundError" in rejected[0]["reason"]


@pytest.mark.parametrize(
    ("name", "body", "right", "wrong"),
    [
        ("similar_elements", "return [b, a]", "return [a, b]", "return [a, a]"),
        ("text_match_three", "import re; return re.match('a', a)", "return a == 'a'", "return a"),
        ("sum_div", "return len(a)", "return 0", "return 7"),
    ],
)
def test_functions_with_several_correct_values(tmp_path, name, body, right, wrong):
    """Any order of a list, an object of which only the existence counts, or a second value that EvalPlus accepts."""
    heading = f"def {name}(a, b):\n    "
    row = plus_row(
        entry_point=name, canonical_solution=heading + body, base_input=[["a", "b"]], plus_input=[["x", "y"]], assertion=""
    )
    _, tasks, _ = imported(tmp_path, "evalplus", write_lines(tmp_path / "MbppPlus.jsonl", [row]))
    task = tasks["evalplus/mbpp/2"]
    assert statuses(task, heading + body, heading + right, heading + wrong) == [Status.PASSED, Status.PASSED, Status.FAILED]


def test_humaneval_plus_and_the_files_of_the_hub(tmp_path):
    """The Hub's rows have the values; those of HumanEval+ are in the body of ``check``."""
    prompt = 'def twice(x):\n    """Double x."""\n'
    row = {"task_id": "HumanEval/5", "prompt": prompt, "entry_point": "twice", "canonical_solution": "    return 2 * x\n"}
    body = "    inputs = [[1], [(2,)]]\n    results = [2, (2, 2)]\n    for inp, exp in zip(inputs, results):\n        assertion(candidate(*inp), exp, 0)\n"
    test = f"def assertion(out, exp, atol):\n    assert out == exp\n\ndef check(candidate):\n{body}"
    write_parquet(tmp_path / "data" / "humaneval.parquet", [{**row, "test": test}])
    mbpp = {
        "task_id": 7,
        "code": "def f(x):\n    return {x}\n",
        "prompt": "Make a set.",
        "test_imports": [],
        "test_list": ["assert f(1) == {1}"],
    }
    loop = "inputs = [[1], [2]]\nresults = [{1}, {2}]\nfor inp, exp in zip(inputs, results):\n    assertion(f(*inp), exp, 0)\n"
    write_parquet(tmp_path / "data" / "mbpp.parquet", [{**mbpp, "test": loop}])
    _, tasks, _ = imported(tmp_path, "evalplus", tmp_path / "data")
    human, other = tasks["evalplus/humaneval/5"], tasks["evalplus/mbpp/7"]
    assert [(test.input, test.expected, test.hidden) for test in human.tests] == [
        ("twice(1)", "2", True),
        ("twice((2,))", "(2, 2)", True),
    ]
    assert statuses(human, human.reference, human.reference.replace("2 *", "3 *")) == [Status.PASSED, Status.FAILED]
    assert [(test.input, test.expected, test.hidden) for test in other.tests] == [("f(1)", "{1}", False), ("f(2)", "{2}", True)]
    assert statuses(other, other.reference, "def f(x): return [x]") == [Status.PASSED, Status.FAILED]


def test_an_early_humaneval_plus_takes_its_prompts_from_humaneval(tmp_path):
    human = {"task_id": "HumanEval/0", "prompt": "def twice(x):\n", "entry_point": "twice"}
    write_lines(tmp_path / "HumanEval.jsonl", [human])
    row = {"contract": "", "reference": "\n    return 2 * x\n", "base_input": [[1]], "atol": 0}
    write_lines(tmp_path / "plus" / "HumanEvalPlus.jsonl", [row, row])
    write_lines(tmp_path / "plus" / "HumanEvalPlusInputs.jsonl", [{"task_id": "'HumanEval_0'", "inputs": [[5]]}])
    _, tasks, rejected = imported(tmp_path, "evalplus", tmp_path / "plus", prompts=str(tmp_path / "HumanEval.jsonl"))
    task = tasks["evalplus/humaneval/0"]
    assert [(test.input, test.expected) for test in task.tests] == [("twice(1)", "2"), ("twice(5)", "10")]
    assert [(row["line"], row["reason"]) for row in rejected] == [(2, "has no prompt; name HumanEval.jsonl with --prompts")]


@pytest.mark.slow
def test_real_rows_of_mbpp_plus(real_data, tmp_path):
    _, tasks, rejected = imported(tmp_path, "evalplus", real_data / "evalplus" / "MbppPlus.jsonl")
    assert len(tasks) == 399 and not rejected
    assert all(len(task.tests) >= 3 for task in tasks.values())
    verdicts = verify([(task, Attempt(task.task_id, task.reference)) for task in tasks.values()], JudgeSettings())
    assert {verdict.status for verdict in verdicts} == {Status.PASSED}


@pytest.mark.slow
def test_real_rows_of_humaneval_plus(real_data, tmp_path):
    human = str(real_data / "humaneval" / "HumanEval.jsonl.gz")
    _, tasks, rejected = imported(tmp_path, "evalplus", real_data / "evalplus" / "HumanEvalPlus.jsonl", prompts=human)
    assert len(tasks) == 164 and not rejected
    verdicts = verify([(task, Attempt(task.task_id, task.reference)) for task in tasks.values()], JudgeSettings())
    assert {verdict.status for verdict in verdicts} == {Status.PASSED}


def test_expected_values_of_a_reference(monkeypatch):
    code = "def f(x):\n    if x == 1:\n        return object()\n    return {'a': (x, {x})} if x else 1 / x\n"
    assert expected_values(code, ["f(1)", "f(0)", "f(2)"]) == ["...", None, "{'a': (2, {2})}"]
    assert expected_values("def f():\n    return float('inf')", ["f()"]) == ["inf"]
    monkeypatch.setattr(references, "REFERENCE_LIMITS", Limits(wall_seconds=10, cpu_seconds=0.4))
    assert expected_values("def f():\n    while True: pass\ndef g(): return 1", ["f()", "g()"]) == [None, "1"]
    for broken in ("def f(:", "1 / 0", "def f(): return 1 / 0"):
        with pytest.raises(ValueError, match="the reference fails: "):
            expected_values(broken, ["f()"])


def test_mxeval(tmp_path):
    """The attempt is prompt and completion; the tests are appended, those in Python unrolled."""
    about = {"description": "Double x.", "canonical_solution": None}
    rows = [
        {
            **about,
            "task_id": "MBJSP/1",
            "language": "javascript",
            "entry_point": "twice",
            "prompt": "/** Double x. */\nfunction twice(x) {\n",
            "canonical_solution": "    return 2 * x;\n}",
            "test": "\n\nif (twice(2) !== 4) {\n    throw 'Error at 1th assert statement.'\n}\n",
        },
        {
            **about,
            "task_id": "HumanEval/1",
            "language": "python",
            "entry_point": "twice",
            "prompt": "def twice(x):\n",
            "canonical_solution": "    return 2 * x\n",
            "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 6\n",
        },
        {
            **about,
            "task_id": "MBCSP/1",
            "language": "csharp",
            "entry_point": "Twice",
            "prompt": "namespace A {\n class B {\n  static int Twice(int x) {\n",
            "test": "\n  static void Main() {}\n }\n}\n",
        },
    ]
    _, tasks, _ = imported(tmp_path, "mxeval", write_lines(tmp_path / "mbxp" / "mixed_release_v1.jsonl", rows))
    script, python = tasks["mxeval/mbjsp/1"], tasks["mxeval/humaneval/1"]
    wrong = script.reference.replace("2 *", "3 *")
    assert statuses(script, script.reference, wrong, language="javascript") == [Status.PASSED, Status.RUNTIME_ERROR]
    assert statuses(python, python.reference, python.reference.replace("2 *", "3 *")) == [Status.PASSED, Status.FAILED]
    assert [test.input for test in python.tests] == ["twice(2)", "twice(3)"]
    sharp = tasks["mxeval/mbcsp/1"]
    assert sharp.language == "csharp" and sharp.prompt.startswith("Complete the last function of this csharp code.")
    assert script.prompt.startswith("Complete this javascript code and give all of it:\n\n/** Double")
    assert json.loads(script.extra) == {"description": "Double x.", "split": "test"}


@pytest.mark.parametrize(
    ("language", "test", "packages"),
    [
        ("javascript", "const _ = require('lodash');\nconst same = require(\"lodash\");", ("lodash",)),
        ("perl", "use strict;\nuse Data::Compare;\n    use Test::Deep;", ("Data::Compare", "Test::Deep")),
        ("lua", "lu = require('luaunit')", ("luaunit",)),
        ("ruby", "require 'test/unit'\nrequire_relative 'x'", ("test/unit",)),
        ("php", "require('x.php');", ()),
    ],
)
def test_packages_that_programs_load(language, test, packages):
    assert required(language, "", test) == packages


@pytest.mark.slow
def test_real_rows_of_mxeval(real_data, tmp_path):
    _, tasks, rejected = imported(tmp_path, "mxeval", real_data / "mxeval")
    assert len(tasks) == 14_359 and not rejected
    assert len({task.language for task in tasks.values()}) == 13


JAVA = "import java.util.*;\nimport org.javatuples.*;\nclass Problem {\n    public static long twice(long x) {\n"
GO = 'package twice_test\n\nimport (\n    "testing"\n    "fmt"\n)\n\nfunc twice(x int) int {\n'


def multiple_rows():
    rest = {"doctests": "transform", "prompt_terminology": "reworded", "stop_tokens": ["\n}"]}
    java = "    }\n    public static void main(String[] args) {\n    assert(twice((2l)) == (4l));\n    }\n\n}\n"
    loop = '\tif fmt.Sprintf("%v", twice(2)) != "4" {\n\t\tt.Errorf("}")\n\t}\n}\n'
    script = "const assert = require('node:assert');\n\nfunction test() {\n  assert.deepEqual(twice(2), 4);\n}\n\ntest();\n"
    rows = [
        {"name": "HumanEval_0_twice", "language": "java", "prompt": JAVA, "tests": java},
        {
            "name": "HumanEval_0_twice",
            "language": "go_test.go",
            "prompt": GO,
            "tests": f"func TestTwice(t *testing.T) {{\n{loop}",
        },
        {"name": "HumanEval_0_twice", "language": "js", "prompt": "function twice(x){\n", "tests": script},
        {"name": "HumanEval_1_pair", "language": "java", "prompt": JAVA.replace("long x", "Pair<Long> x"), "tests": java},
    ]
    return [{**row, **rest} for row in rows]


def test_multipl_e(tmp_path):
    """Tests that begin with the brace of the function lose it, since an attempt ends with it; those that close a class keep theirs."""
    _, tasks, rejected = imported(tmp_path, "multipl_e", write_lines(tmp_path / "humaneval" / "prompts.jsonl", multiple_rows()))
    java, go, script = (tasks[f"multipl_e/{name}/HumanEval_0_twice"] for name in ("java", "go", "javascript"))
    head = JAVA.replace("import org.javatuples.*;\n", "")
    assert head.strip() in java.prompt and java.prompt.startswith("Complete the last function")
    right = f"{head}        return 2 * x;\n    }}\n"
    assert statuses(java, right, right.replace("2 *", "3 *"), language="java") == [Status.PASSED, Status.RUNTIME_ERROR]
    assert go.prompt.startswith("Complete this go code and give all of it:\n\npackage main\n")
    right = GO.replace("twice_test", "main") + "    return 2 * x\n}\n"
    assert statuses(go, right, right.replace("2 *", "3 *"), language="go") == [Status.PASSED, Status.RUNTIME_ERROR]
    right = "function twice(x){\n  return 2 * x;\n}\n"
    assert statuses(script, right, right.replace("2 *", "3 *"), language="javascript") == [Status.PASSED, Status.RUNTIME_ERROR]
    extra = json.loads(script.extra)
    assert extra["stop_tokens"] == ["\n}"] and extra["data"] == "humaneval"
    assert [(row["line"], row["reason"]) for row in rejected] == [(4, "needs org.javatuples, which the judge lacks")]
    assert (balance('f("}}"); }'), balance("{}"), balance("}}")) == (1, 0, 2)


def test_results_of_multipl_e(tmp_path):
    row = multiple_rows()[2]
    tests = row["tests"]
    programs = [f"{row['prompt']}  return {factor} * x;\n}}\n{tests}" for factor in (2, 3)]
    results = [
        {"program": program, "timestamp": 7, "stdout": "", "stderr": "E" * 2000, "exit_code": code, "status": status}
        for program, code, status in zip(programs, (0, 1), ("OK", "Exception"), strict=True)
    ]
    file = tmp_path / "humaneval-js" / "HumanEval_0_twice.results.json.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress(json.dumps({**row, "results": results}).encode()))
    (tmp_path / "humaneval-js" / "broken.results.json").write_text("[")
    archive, tasks, rejected = imported(tmp_path, "multipl_e", tmp_path / "humaneval-js")
    (task,) = tasks.values()
    right, wrong = (f"function twice(x){{\n  return {factor} * x;\n}}\n" for factor in (2, 3))
    assert recorded(archive) == {
        right: (Status.PASSED, "recorded:multipl_e"),
        wrong: (Status.RUNTIME_ERROR, "recorded:multipl_e"),
    }
    assert statuses(task, right, wrong, language="javascript") == [Status.PASSED, Status.RUNTIME_ERROR]
    assert len(archive.verdicts()[1].stderr_head) == 1000 and len(rejected) == 1


UNITTEST = """import unittest
from unittest.mock import patch

class TestCases(unittest.TestCase):
    def setUp(self):
        self.number = 2
    @classmethod
    def setUpClass(cls):
        cls.factor = 2
    def test_even(self):
        self.assertEqual(task_func(self.number), self.factor * 2)
    def test_zero(self):
        self.assertEqual(task_func(0), 0)
    def test_error(self):
        with self.assertRaises(TypeError):
            task_func(None)
"""


def big_row(**fields):
    prompt = 'import math\n\ndef task_func(x):\n    """Double x."""\n'
    return {
        "task_id": "BigCodeBench/13",
        "complete_prompt": prompt,
        "instruct_prompt": "Double x. Start with:\n```\nimport math\ndef task_func(x):\n```",
        "canonical_solution": "    return 2 * x\n",
        "code_prompt": "import math\ndef task_func(x):\n",
        "test": UNITTEST,
        "entry_point": "task_func",
        "doc_struct": '{"description": ["Double x."]}',
        "libs": "['math']",
        **fields,
    }


def test_bigcodebench(tmp_path):
    """Every method is a test of its own; of several versions in a folder, the newest is read."""
    write_parquet(tmp_path / "data" / "v0.1.2-00000-of-00001.parquet", [big_row(libs="['math', 'pandas', 'sklearn.svm']")])
    write_parquet(
        tmp_path / "data" / "v0.1.10-00000-of-00001.parquet", [big_row(), big_row(task_id="BigCodeBench/14", test="x = 1")]
    )
    _, tasks, rejected = imported(tmp_path, "bigcodebench", tmp_path / "data")
    (task,) = tasks.values()
    assert (task.task_id, len(task.tests), task.requires) == ("bigcodebench/13", 3, ())
    assert task.prompt == big_row()["instruct_prompt"] and "TestCase" in rejected[0]["reason"]
    attempts = [(task, Attempt(task.task_id, code)) for code in (task.reference, "def task_func(x):\n    return x * 0\n")]
    right, wrong = verify(attempts, JudgeSettings(workers=1))
    assert (right.status, right.passed, wrong.status, wrong.passed) == (Status.PASSED, 3, Status.FAILED, 2)
    assert "in_process" not in right.isolation


def test_bigcodebench_of_a_version_and_variant(tmp_path):
    for version in ("v0.1.2", "v0.1.4"):
        write_parquet(tmp_path / "data" / f"{version}-0.parquet", [big_row(libs=f"['{version[-1]}', 'pandas', 'sklearn.svm']")])
    (tmp_path / "one").mkdir()
    _, tasks, _ = imported(tmp_path / "one", "bigcodebench", tmp_path / "data", version="v0.1.2", variant="complete")
    (task,) = tasks.values()
    assert task.requires == ("2", "pandas", "sklearn") and task.prompt.startswith("Complete this Python function")
    for options, message in (
        ({"version": "v9.9.9"}, "there are v0.1.2, v0.1.4"),
        ({"variant": "hard"}, "variant must be instruct"),
    ):
        with pytest.raises(SourceError, match=message):
            list(SOURCES["bigcodebench"].read(tmp_path / "data", **options))


PYTEST = """import pytest
import unittest
from solution import twice, Box

CASES = [(1, 2), (2, 4)]

@pytest.fixture
def box():
    return Box()

def helper(x):
    return 2 * x

def test_one():
    assert twice(1) == helper(1)

@pytest.mark.parametrize("x, expected", CASES)
def test_many(x, expected):
    assert twice(x) == expected

class TestBox:
    @pytest.mark.parametrize("x", [0])
    def test_zero(self, x):
        assert twice(x) == 0

class TestPrepared:
    def setup_method(self):
        self.x = 1
    def test_x(self):
        assert twice(self.x) == 2

def test_fixture(box):
    assert box

@pytest.mark.parametrize("a", [1])
@pytest.mark.parametrize("b", [1])
def test_product(a, b):
    assert twice(a) == twice(b)

async def test_later():
    assert twice(1) == 2

class TestOld(unittest.TestCase):
    def setUp(self):
        self.x = 1
    def test_old(self):
        self.assertEqual(twice(self.x), 2)

def test_error():
    with pytest.raises(TypeError):
        twice(None)

if __name__ == "__main__":
    pytest.main()
"""


def test_tests_in_the_style_of_pytest_become_code():
    suite = pytest_tests(PYTEST)
    assert suite.left_out == ("test_fixture", "test_product", "test_later")
    assert ["import pytest" in test.input for test in suite.tests] == [True] * 6  # the fixture uses it, in all of them
    plain = pytest_tests(PYTEST.replace("@pytest.fixture\n", "").replace("def box", "def _box"))
    assert ["import pytest" in test.input for test in plain.tests] == [False, False, False, False, False, True]
    task = Task("t", "", plain.tests[:5])
    right = "def twice(x):\n    return 2 * x\n\nclass Box:\n    pass\n"
    assert statuses(task, right, right.replace("2 *", "3 *")) == [Status.PASSED, Status.FAILED]
    assert all("solution" not in test.input and "__main__" not in test.input for test in suite.tests)
    assert suite.tests[1].input.endswith("for case in CASES:\n    test_many(**dict(zip(['x', 'expected'], case)))\n")
    with pytest.raises(ValueError, match="TestCase"):
        unittest_tests("import unittest")


def kod_row(**fields):
    return {
        "style": "instruct",
        "subset": "Leetcode",
        "question_id": "Leetcode_1_I",
        "question": "Double x.",
        "solution": "def twice(x):\n    return 2 * x\n",
        "test": "from solution import twice\n\ndef test_one():\n    assert twice(1) == 2\n\ndef test_two():\n    assert twice(0) == 0\n",
        "test_info": [
            {"function_name": "twice", "docstring": "", "function_declaration": "def twice(x):", "parameter_list": "(x)"}
        ],
        "gpt_pass_sequence": [1, 0],
        "gpt_pass_trial_num": 1,
        "gpt_difficulty": "easy",
        "gpt_pass_percentage": 0.5,
        "r1_correctness": "False",
        "r1_solution": "It doubles.\n```python\ndef twice(x):\n    return x\n```",
        **fields,
    }


def test_kodcode(tmp_path):
    never = kod_row(question_id="b", gpt_pass_trial_num=0, r1_solution=None, test=PYTEST)
    write_parquet(
        tmp_path / "data" / "train-0.parquet", [kod_row(), kod_row(question_id="c", r1_correctness="Not verified"), never]
    )
    archive, tasks, rejected = imported(tmp_path, "kodcode", tmp_path / "data")
    task = tasks["kodcode/Leetcode_1_I"]
    right, wrong = [attempt for attempt in archive.attempts() if attempt.task_id == task.task_id]
    assert statuses(task, right.code, wrong.code) == [Status.PASSED, Status.FAILED]
    assert (right.author, wrong.author) == ("gpt-4o-0513", "deepseek-r1")
    assert wrong.answer.startswith("It doubles.")
    by_id = {verdict.attempt_id: verdict for verdict in archive.verdicts()}
    assert (by_id[right.attempt_id].status, by_id[wrong.attempt_id].status) == (Status.PASSED, Status.FAILED)
    assert {verdict.judge for verdict in by_id.values()} == {"recorded:kodcode"} and len(by_id) == 4
    assert (task.difficulty, task.entry_point, task.requires, task.official) == ("easy", "twice", (), True)
    assert json.loads(task.extra)["gpt_pass_percentage"] == 0.5
    other = tasks["kodcode/b"]
    assert (other.requires, other.official, len(other.tests)) == ((), False, 7)
    assert len(json.loads(other.extra)["tests_left_out"]) == 2 and not rejected


def test_opencodeinstruct(tmp_path):
    row = {
        "id": "7",
        "input": "Double x.",
        "output": "```python\ndef twice(x):\n    return 2 * abs(x)\n```",
        "domain": "generic",
        "generation_algorithm": "self-instruct",
        "llm_judgement": json.dumps({"logical_correctness": {"score": 5}}),
        "unit_tests": json.dumps(["\nassert twice(1) == 2\n", "\nassert twice(-1) == -2\n", "\nassert twice(0) == 0\n"]),
        "tests_execution_status": json.dumps(["pass", "fail", "pass"]),
        "average_test_score": "0.6666666666666666",
    }
    shares = {**row, "id": "8", "tests_execution_status": None}
    broken = {**row, "id": "9", "unit_tests": "nothing"}
    archive, tasks, rejected = imported(
        tmp_path, "opencodeinstruct", write_parquet(tmp_path / "data" / "train-00000.parquet", [row, shares, broken])
    )
    task = tasks["opencodeinstruct/7"]
    (attempt, _), verdicts = archive.attempts(), archive.verdicts()
    right = "def twice(x):\n    return 2 * x\n"
    first, other = verify([(task, attempt), (task, Attempt(task.task_id, right))], JudgeSettings(workers=1))
    assert (first.outcomes, other.status) == ((Status.PASSED, Status.FAILED, Status.PASSED), Status.PASSED)
    for verdict in verdicts:
        assert (verdict.status, verdict.passed, verdict.total) == (Status.FAILED, 2, 3)
        assert verdict.judge == "recorded:opencodeinstruct"
    assert {verdict.outcomes for verdict in verdicts} == {first.outcomes, ()}
    extra = json.loads(task.extra)
    assert extra["llm_judgement"]["logical_correctness"]["score"] == 5 and extra["split"] == "train"
    assert [row["line"] for row in rejected] == [3] and task.entry_point == "twice"
    assert not task.reference, "an answer that failed a test is no reference"


def test_the_first_rows_of_opencodeinstruct_over_all_files(tmp_path):
    def row(number, outcome):
        code = "def twice(x):\n    return 2 * x"
        tests = {"unit_tests": json.dumps(["assert twice(1) == 2"]), "tests_execution_status": json.dumps([outcome])}
        return {
            "id": str(number),
            "input": "Double x.",
            "output": f"```python\n{code}\n```",
            "average_test_score": "1",
            **tests,
        }

    for file in range(2):
        write_parquet(
            tmp_path / "data" / f"train-0000{file}.parquet", [row(3 * file + n, "pass" if n else "fail") for n in range(3)]
        )
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "opencodeinstruct", tmp_path / "data", most="4", workers=2)
    found = {task.task_id.rpartition("/")[2]: task.reference for task in archive.tasks()}
    assert found == {"0": "", "1": "def twice(x):\n    return 2 * x", "2": "def twice(x):\n    return 2 * x", "3": ""}


CONTEXT = '''import copy
import tokenize, io


def generate_test_case(test_case_id):
    def generate_ans(data):
        numbers, k = data
        return [k * number for number in numbers]

    def define_test_input(test_case_id):
        if test_case_id == 1:
            numbers, k = [1, 2], 2
        elif test_case_id == 2:
            numbers, k = [3], 3
        return numbers, k

    test_input = define_test_input(test_case_id)
    expected_result = generate_ans(copy.deepcopy(test_input))
    return test_input, expected_result


def exec_test(result, ans):
    try:
        assert result == ans
        return 1
    except:
        return 0


exec_context = r"""
import math
from math import *
numbers, k = test_input
%s
"""


def test_execution(solution: str):
    code = exec_context.replace("[insert]", solution)
    for i in range(2):
        test_input, expected_result = generate_test_case(i + 1)
        test_env = {"test_input": test_input}
        exec(code, test_env)
        assert exec_test(test_env["result"], expected_result)
'''
OF_TEXT = "\n\ndef test_string(solution: str):\n    assert 'for' not in solution\n"


def ds_row(number, program, solution, context=CONTEXT):
    return {
        "prompt": "Problem:\nScale a list.\n\nA:\n<code>\nnumbers = ...\n</code>\nBEGIN SOLUTION\n<code>\n",
        "reference_code": solution,
        "metadata": {"problem_id": number, "library": "Numpy", "perturbation_type": "Origin"},
        "code_context": context % program,
    }


def test_ds1000(tmp_path):
    """A solution in a program, or in the body of a function of it: either way the task is a function, and a test case is a call."""
    body = "    return [k * n for n in numbers]"
    rows = [
        ds_row(0, "[insert]\nresult = scaled", "scaled = [k * n\n          for n in numbers]"),
        ds_row(1, "def f(numbers, k):\n[insert]\nresult = f(numbers, k)", body),
        ds_row(2, "[insert]", "import pandas as pd\nresult = [k * n for n in numbers]", CONTEXT + OF_TEXT),
        ds_row(3, "nothing", ""),
    ]
    _, tasks, rejected = imported(tmp_path, "ds1000", write_lines(tmp_path / "ds1000.jsonl", rows))
    for task in (tasks["ds1000/0"], tasks["ds1000/1"]):
        attempts = [(task, Attempt(task.task_id, task.reference.replace("k * n", by))) for by in ("k * n", "2 * n")]
        right, wrong = verify(attempts, JudgeSettings(workers=1))
        assert (right.status, wrong.status, wrong.outcomes[0]) == (Status.PASSED, Status.FAILED, Status.PASSED)
        assert (len(task.tests), task.requires, task.official, task.entry_point) == (2, (), True, "solve")
    assert tasks["ds1000/0"].prompt == (
        "Scale a list.\n\nComplete this function and give all of it, with the imports:\n\nimport math\nfrom math import *\n\n\n"
        "def solve(test_input):\n    numbers, k = test_input\n    # write this part\n    result = scaled\n    return result"
    )
    text = tasks["ds1000/2"]
    assert (text.requires, text.official) == (("pandas",), False)
    assert json.loads(text.extra) == {
        "problem_id": 2,
        "library": "Numpy",
        "perturbation_type": "Origin",
        "split": "test",
        "tests_left_out": ["test_string"],
    }
    assert rejected[0]["reason"] == "code_context has no exec_context with [insert]"
