import gzip
import json
import time

import pytest

from upsolve.archive.store import Archive
from upsolve.checkers import CheckerProgram, program_of
from upsolve.errors import SourceError
from upsolve.exports.exporting import export_archive
from upsolve.importers.benchmarks.functions import read_cruxeval
from upsolve.importers.ingest import ingest
from upsolve.importers.problems import codenet
from upsolve.importers.recogniser.asserts import call_test, parsed
from upsolve.importers.recogniser.code import check_tests, sound_tests
from upsolve.importers.recogniser.failing import About
from upsolve.importers.tables import jsonl
from upsolve.types import Attempt, Status, TestCase, TestKind
from upsolve.verify.judge.plans import judge_all
from upsolve.verify.pool.pool import verify

STATEMENT = """<h1>A  B</h1>
<p>x<sup>2</sup> &le; <var>n</var>
 and
 more</p><ul> <li>one</li><li> two </li></ul><pre>
  *
 ***
</pre><script>evil()</script>
<h3>Sample Input 1</h3><pre>1 2
</pre><H2>Output for the Sample Input 1</H2>

<pre>
3
</pre>"""


def parse_assert(source, *names):
    """A CALL test where a statement can be one, else a CODE test."""
    body = tree.body if (tree := parsed(source)) else []
    return (call_test(body[0], *names) if len(body) == 1 else None) or TestCase(TestKind.CODE, source)


@pytest.mark.parametrize(
    ("source", "call", "expected"),
    [
        ("assert f(1) == 2", "f(1)", "2"),
        ("assert (2, 3) == f('a')", "f('a')", "(2, 3)"),
        ("assert f([1]) == set([1])", "f([1])", "{1}"),
        ("assert f(x=-1) == -2.5 * 2", "f(x=-1)", "-5.0"),
        ("assert f(1) is None", "f(1)", "None"),
        ("assert f([0] * 3) == list(range(3))", "f([0] * 3)", "[0, 1, 2]"),
        ("assert Solution().f(2) == 4", "Solution().f(2)", "4"),
    ],
)
def test_asserts_become_calls_with_the_answer_outside(source, call, expected):
    test = parse_assert(source)
    assert (test.kind, test.input, test.expected) == (TestKind.CALL, call, expected)


@pytest.mark.parametrize(
    "source",
    [
        "assert abs(f(1) - 2) < 1e-9",
        "x = 1",
        "assert f(1) == g(1)",
        "assert f(1) == 1, 'no' ; f(2)",
        "assert (",
        "assert f(1)",
        "assert not f(1)",
        "assert all(f(1))",
        "assert bool(f(1)) == True",
        "assert isclose(f(1), 2)",
        "assert same(f(1), 2) == True",
        "assert f(g(1)) == 2",
        "assert f(1)[0] == 2",
        "assert sum(f(1)) == 2",
    ],
)
def test_only_a_call_of_the_attempts_own_function_is_evaluated_beside_it(source):
    assert parse_assert(source).kind is TestKind.CODE


def test_names_of_the_task_decide_what_is_its_own():
    names = frozenset({"sum"}), frozenset({"days", "root"})
    assert parse_assert("assert sum(1, 2) == 3", *names).kind is TestKind.CALL
    assert parse_assert("assert f(days) == 3", *names).kind is TestKind.CALL
    assert parse_assert("assert f(nights) == 3", *names).kind is TestKind.CODE
    assert parse_assert("assert root(1) == 3", *names).kind is TestKind.CODE


@pytest.mark.parametrize(
    "answer", ["'a' * 10**10", "'a' * 10000000000", "list(range(10**10))", "list(range(9999999999))", "[[0] * 99999] * 99999"]
)
def test_an_expected_value_costs_an_import_neither_time_nor_memory(answer):
    started = time.process_time()
    assert parse_assert(f"assert f(1) == {answer}").kind is TestKind.CODE
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{'d', 'b', 'c', 'a', 'f', 'e'}", "{'a', 'b', 'c', 'd', 'e', 'f'}"),
        ("[({'b', 'a', None, 2, 'd', 'c'},)]", "[({'a', 'b', 'c', 'd', 2, None},)]"),
        ("{1: {'b', 'c', 'a', 'e', 'd'}, 'x': set()}", "{1: {'a', 'b', 'c', 'd', 'e'}, 'x': set()}"),
        ("{16, 3, 1}", "{16, 1, 3}"),
        ("{}", "{}"),
        ("('{',)", "('{',)"),
    ],
)
def test_sets_are_written_in_the_same_order_by_every_process(value, text):
    assert parse_assert(f"assert f(1) == {value}").expected == text


def test_humaneval_checks_are_unrolled():
    plain = "METADATA = {}\ndef check(candidate):\n    assert candidate(1) == 2\n    assert True, 'x'\n    assert candidate(2) == 3\n"
    found = sound_tests(check_tests(plain, "f"), About("f"))
    assert [(t.input, t.expected) for t in found.tests] == [("f(1)", "2"), ("f(2)", "3")]
    loop = "def check(candidate):\n    for i in range(3):\n        assert candidate(i) == i\n"
    assert [(t.kind, t.input[-8:]) for t in check_tests(loop, "f")] == [(TestKind.CODE, "check(f)")]


def test_mbpp_and_bad_rows(tmp_path):
    rows = [
        {
            "task_id": 11,
            "text": "Add one.",
            "code": "def f(x):\r\n    return x+1",
            "test_list": ["assert f(1) == 2"],
            "test_setup_code": "",
        },
        {"task_id": 12, "text": "No tests."},
        {"task_id": 13, "text": 7, "code": "", "test_list": "x"},
    ]
    file = tmp_path / "mbpp.jsonl"
    file.write_text("\n".join([*map(json.dumps, rows), "{broken", "[]"]))
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "mbpp", file, max_rejected=1)
    assert (report.added["tasks"], report.bad) == (1, 4)
    kept = [json.loads(line) for line in report.rejected.read_text().splitlines()]
    assert (kept[0]["line"], kept[0]["reason"]) == (2, "no field 'test_list'")
    assert {row["line"] for row in kept} == {2, 3, 4, 5}
    assert ingest(archive, "mbpp", file).known
    assert archive.tasks()[0].extra == '{"split": "test"}'
    assert archive.tasks()[0].entry_point == "f" and "\r" not in archive.tasks()[0].reference
    solved = Archive.create(tmp_path / "solved")
    ingest(solved, "mbpp", file, max_rejected=1, references="1")
    (attempt,) = solved.attempts()
    assert (attempt.task_id, attempt.code, attempt.author) == ("mbpp/11", "def f(x):\n    return x+1", "reference")
    assert not solved.verdicts(), "the judge decides whether it is right"


def test_mbpp_setup_of_objects_of_the_attempts_own_class(tmp_path):
    """A setup that reads a class of the program runs after the program; any other setup before it, where the program cannot change it."""
    code = "class Node:\n    def __init__(self, data): self.data = data\ndef value(node): return node.data"
    made = {
        "task_id": 20,
        "text": "Read.",
        "code": code,
        "test_list": ["assert value(root) == 3"],
        "test_setup_code": "root = Node(3)",
    }
    given = {
        **made,
        "task_id": 21,
        "code": "def value(node): return node[0]",
        "test_setup_code": "import math\nroot = [3, math.pi]",
    }
    file = tmp_path / "mbpp.jsonl"
    file.write_text("\n".join(map(json.dumps, (made, given))))
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "mbpp", file, references="1")
    first, second = archive.tasks()
    assert (first.setup, second.setup) == ("", "import math\nroot = [3, math.pi]")
    assert [test.kind for task in (first, second) for test in task.tests] == [TestKind.CODE, TestKind.CALL]
    other = Attempt("mbpp/20", "def value(node): return node.data", author="ann")
    pairs = [*zip((first, second), archive.attempts(), strict=True), (first, other)]
    assert [verdict.status for verdict in verify(pairs)] == [Status.PASSED, Status.PASSED, Status.RUNTIME_ERROR]


def test_humaneval_gz(tmp_path):
    row = {
        "task_id": "HumanEval/7",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x\n",
        "test": "def check(candidate):\n    assert candidate(1) == 1\n",
    }
    file = tmp_path / "h.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(row).encode()))
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "humaneval", file).added["tasks"] == 1
    assert archive.tasks()[0].task_id == "humaneval/7"
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(SourceError, match="cannot be read"):
        ingest(archive, "humaneval", file)


def test_statements_become_readable_text():
    assert codenet.readable(STATEMENT).startswith(
        "# A B\n\nx^2 ≤ n and more\n\n- one\n\n- two\n\n  *\n ***\n\n### Sample Input 1\n\n1 2\n"
    )
    assert "evil" not in codenet.readable(STATEMENT)
    assert [(t.input, t.expected, t.hidden) for t in codenet.samples(STATEMENT)] == [("1 2\n", "3\n", False)]


COLUMNS = (
    "submission_id,problem_id,user_id,date,language,original_language,filename_ext,status,cpu_time,memory,code_size,accuracy"
)


def codenet_tree(root, rows):
    """The layout of Project_CodeNet with one problem."""
    (root / "metadata").mkdir(parents=True)
    (root / "problem_descriptions").mkdir()
    head = "id,name,dataset,time_limit,memory_limit,rating,tags,complexity\n"
    (root / "metadata" / "problem_list.csv").write_text(head + "p00001,Hills,AIZU,1000,131072,,,\n")
    (root / "problem_descriptions" / "p00001.html").write_text(STATEMENT)
    lines = [COLUMNS]
    for number, (language, extension, status, code) in enumerate(rows):
        name, original = f"s{number:09d}", "Python3" if language == "Python" else language
        lines.append(f"{name},p00001,u{number:09d},1300000000,{language},{original},{extension},{status},20,5000,10,4/5")
        folder = root / "data" / "p00001" / language
        folder.mkdir(parents=True, exist_ok=True)
        if code is not None:
            (folder / f"{name}.{extension}").write_text(code)
    (root / "metadata" / "p00001.csv").write_text("\n".join(lines) + "\n")
    return root


CODENET = (
    *("Time Limit Exceeded", "Memory Limit Exceeded", "Output Limit Exceeded", "Accepted", "Wrong Answer", "Runtime Error"),
    *("Compile Error", "WA: Presentation Error", "Judge Not Available", "Waiting for Judging", "Waiting for Re-judging"),
    *("Internal Error", "Judge System Error"),
)
"""All statuses of CodeNet."""


def test_codenet_statuses_languages_and_the_cap(tmp_path):
    rows = [("Python", "py", status, f"print({i})") for i, status in enumerate(CODENET)]
    rows += [("Python", "py", "Accepted", f"print('{i}')") for i in range(60)]
    rows += [("C++", "cpp", "Accepted", "int main(){}"), ("Python", "py", "Odd", "x"), ("Python", "py", "Wrong Answer", None)]
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "codenet", codenet_tree(tmp_path / "Project_CodeNet", rows), most_correct=50)
    assert report.added["tasks"] == 1 and report.bad == 2
    by_status = archive.query("select status, count(*) n from verdicts group by status").to_pylist()
    assert {row["status"]: row["n"] for row in by_status} == {
        "passed": 50,
        "failed": 2,
        "timeout": 1,
        "memory_limit": 1,
        "output_limit": 1,
        "runtime_error": 1,
        "compile_error": 1,
        "unscored": 5,
    }
    first = archive.attempts()[0]
    assert first.created == "2011-03-13T07:06:40+00:00" and first.author == "u000000000"
    verdict = archive.verdicts()[0]
    assert (verdict.cpu_seconds, verdict.memory_bytes) == (0.02, 5_120_000)
    task = archive.tasks()[0]
    assert task.tests[0].kind is TestKind.STDIO and task.language == "python"
    assert json.loads(task.extra) == {"name": "Hills", "dataset": "AIZU", "time_limit": "1000", "memory_limit": "131072"}
    assert (verdict.passed, verdict.total) == (0, 0)  # else a verdict on the samples could replace that on the hidden tests
    assert json.loads(first.extra) == {"submission_id": "s000000000", "original_language": "Python3", "accuracy": "4/5"}


def test_a_row_of_codenet_that_is_cut_off_is_rejected_with_its_line(tmp_path):
    tree = codenet_tree(tmp_path / "tree", [("Python", "py", "Accepted", "1")])
    (table,) = (tree / "metadata").glob("p0*.csv")
    table.write_text(table.read_text() + "s000000009,p0\n")
    (reason,) = ingest(Archive.create(tmp_path / "archive"), "codenet", tree, max_rejected=1).reasons
    assert (reason.file, reason.line, reason.reason) == (str(table), 3, "unknown status None")


@pytest.mark.parametrize(
    ("original", "language"),
    [
        ("Python", "python2"),
        ("Python (2.7.6)", "python2"),
        ("PyPy2 (5.6.0)", "python2"),
        ("Python3", "python"),
        ("Python (3.8.2)", "python"),
        ("Python3 (3.4.3)", "python"),
        ("PyPy3 (2.4.0)", "python"),
    ],
)
def test_codenet_tells_python_2_from_python_3(original, language):
    """Aizu writes Python and Python3, AtCoder the name and version of the interpreter; PyPy3 2.4.0 is Python 3."""
    assert codenet.language_of({"language": "Python", "original_language": original}) == language


def test_codenet_of_all_languages_at_once(tmp_path):
    tree = codenet_tree(tmp_path / "tree", [("C++", "cpp", "Accepted", "int x;"), ("Python", "py", "Accepted", "1")])
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "codenet", tree, language="all")
    assert {attempt.language for attempt in archive.attempts()} == {"cpp", "python"} and archive.tasks()[0].language == ""


def test_a_wrong_folder_says_what_is_missing(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    with pytest.raises(SourceError, match="problem_list.csv"):
        ingest(archive, "codenet", tmp_path)
    with pytest.raises(SourceError, match="no such file"):
        ingest(archive, "codenet", tmp_path / "nowhere")
    with pytest.raises(SourceError, match="no source 'codenets'; did you mean codenet"):
        ingest(archive, "codenets", tmp_path)


def test_an_export_comes_back_as_it_was(tmp_path):
    archive = Archive.create(tmp_path / "one")
    ingest(
        archive,
        "codenet",
        codenet_tree(tmp_path / "tree", [("Python", "py", "Accepted", "print(3)"), ("Python", "py", "Runtime Error", "1/0")]),
    )
    task = archive.tasks()[0].task_id
    archive.append(attempts=[Attempt(task, "x", behavior_logp=-3.5, token_ids=(4, 7), token_logps=(-1.25, -2.25))])
    assert export_archive(archive, tmp_path / "out.jsonl").rows == {"": 6}
    other = Archive.create(tmp_path / "two")
    assert ingest(other, "jsonl", tmp_path / "out.jsonl").bad == 0
    assert (other.tasks(), other.attempts(), other.verdicts()) == (archive.tasks(), archive.attempts(), archive.verdicts())


def test_short_jsonl_records_and_wrong_ones(tmp_path):
    lines = [
        {"kind": "task", "task_id": "a", "prompt": "p", "tests": [{"kind": "call", "input": "f()", "expected": "1"}]},
        {"kind": "attempt", "task_id": "a", "code": "x"},
        {"kind": "attempt", "task_id": "a", "code": "x", "colour": "red"},
        {"kind": "verdict", "attempt_id": "z", "status": "great"},
        {"kind": "song"},
    ]
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "jsonl", file)
    assert (report.added["tasks"], report.added["attempts"], report.bad) == (1, 1, 2)
    assert report.added["repeated"] == 1
    assert [json.loads(attempt.extra or "{}") for attempt in archive.attempts()] == [{}, {"colour": "red"}]


def test_an_import_that_was_stopped_leaves_nothing_double(tmp_path, monkeypatch):
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(json.dumps({"kind": "attempt", "task_id": "a", "code": f"x = {i}"}) for i in range(10)))
    archive = Archive.create(tmp_path / "archive")
    monkeypatch.setattr("upsolve.importers.importing.BATCH", 3)
    read = []

    def stop(stage, *_):
        read.append(stage)
        if stage == "rows: 6":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(archive, "jsonl", file, on_progress=stop)
    assert read == ["rows: 3", "rows: 6"] and len(archive.attempts()) == 6
    assert ingest(archive, "jsonl", file).added["attempts"] == 10
    assert [attempt.count for attempt in archive.attempts()] == [1] * 10


def test_codenet_takes_a_language_and_a_cap(tmp_path):
    rows = [("C++", "cpp", "Accepted", f"int x{i};") for i in range(5)] + [("Python", "py", "Accepted", "1")]
    tree = codenet_tree(tmp_path / "tree", rows)
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "codenet", tree, language="C++", most_correct=3).added["attempts"] == 3
    assert ingest(Archive.create(tmp_path / "whole"), "codenet", tree, language="C++").added["attempts"] == 5
    assert {attempt.language for attempt in archive.attempts()} == {"cpp"}
    with pytest.raises(SourceError, match="no option language"):
        ingest(archive, "mbpp", tree, language="C++")


def test_predictions_of_inputs_and_outputs_of_cruxeval(tmp_path):
    lines = [
        {"id": "sample_0", "code": "def f(a, b=1):\n    a.append(b)\n    return a", "input": "[1], 2", "output": "[1, 2]"},
        {"id": "sample_1", "code": "def f(a):\n    return a * 2", "input": "'x'", "output": "'xx'"},
    ]
    (tmp_path / "cruxeval.jsonl").write_text("\n".join(map(json.dumps, lines)))
    inputs = {"sample_0": ["f([1], 2)", "f([1])", "f(a=[1], b=2)"], "sample_1": ["f('x')", " f('y') ", "'xx'"]}
    outputs = {"sample_0": ["[1, 2]", "f([1], 2)"], "sample_1": ["'xx'", "'xx"]}
    scored = {"raw_generations": inputs, "raw_scored_generations": {name: [True, False, False] for name in inputs}}
    (tmp_path / "sample_scored_small_temp0.2_input.json").write_text(json.dumps(scored))
    for mode, rows in (("input", inputs), ("output", outputs)):
        (tmp_path / f"sample_small_temp0.2_{mode}").mkdir()
        (tmp_path / f"sample_small_temp0.2_{mode}" / "generations.json").write_text(json.dumps(rows))
    (tmp_path / "sample_scored_small.json").write_text("{}")
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "cruxeval", tmp_path, max_rejected=1)
    assert [row.reason for row in report.reasons] == ["its name ends in neither _input nor _output"]
    assert (len(archive.tasks()), len(archive.attempts()), len(archive.verdicts())) == (4, 10, 6)
    tasks = {task.task_id: task for task in archive.tasks()}
    assert "`f('x')`" in tasks["cruxeval/output/1"].prompt and "returns `'xx'`" in tasks["cruxeval/input/1"].prompt
    assert {one.author for one in archive.attempts()} == {"small_temp0.2"}
    codes = {one.code: one for one in archive.attempts()}
    assert "def answer():\n    return ([1], 2)\n" in codes and "def answer():\n    return ('y',)\n" in codes
    found = {
        one.code: verdict.status
        for one, verdict in zip(codes.values(), judge_all([(tasks[one.task_id], one) for one in codes.values()]), strict=True)
    }
    right = {code for code, status in found.items() if status is Status.PASSED}
    assert right == {f"def answer():\n    return {text}\n" for text in ("([1], 2)", "('x',)", "[1, 2]", "'xx'")}
    with pytest.raises(SourceError, match=r"contains no cruxeval\.jsonl"):
        next(read_cruxeval(tmp_path / "archive"))


def test_json_lines_hold_a_checker_as_an_object(tmp_path):
    program = "read a; echo $a"
    fields = {"kind": "task", "task_id": "sum", "prompt": "", "checker": {"language": "bash", "source": program}}
    rows = [fields, {**fields, "task_id": "other", "checker": {"main": program}}]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task, bad = jsonl.SOURCE.read(tmp_path / "tasks.jsonl")
    assert program_of(task.checker) == CheckerProgram("bash", program) and "'main'" in bad.reason
