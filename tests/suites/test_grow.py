"""New tests by mutation, from small archives worked by hand; the sandbox is real."""

import json
from dataclasses import replace
from random import Random

import pytest

from upsolve.archive.store import Archive
from upsolve.cli.main import app
from upsolve.suites.domain import EDGES, FOREIGN, domain_of
from upsolve.suites.grade import grade_archive, totals
from upsolve.suites.grow import GrowSettings, grow, grow_groups
from upsolve.suites.inputs import call_inputs, candidates, program_inputs
from upsolve.suites.rows import database_inputs, limits_of, read_database, reversed_rows
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import JudgeSettings

CALL, STDIO = TestKind.CALL, TestKind.STDIO
FAST = JudgeSettings(workers=1)
RIGHT, SET = "def total(xs):\n    return sum(xs)\n", "def total(xs):\n    return sum(set(xs))\n"
TOTAL = Task(
    "total",
    "The sum of a list.",
    (TestCase(CALL, "total([1, 2, 3])", "6"), TestCase(CALL, "total([])", "0"), TestCase(CALL, "total([5, 1, 4])", "10")),
    "total",
    reference=RIGHT,
)


def group(task, *codes, hidden=()):
    """Attempts that pass all tests but those of the numbers in ``hidden``."""
    attempts = tuple(Attempt(task.task_id, code, task.language) for code in codes)
    outcomes = tuple(Status.FAILED if number in hidden else Status.PASSED for number in range(len(task.tests)))
    verdicts = [Verdict(one.attempt_id, Status.PASSED, len(outcomes), len(outcomes), outcomes, "upsolve-2") for one in attempts]
    return Group(task, attempts, tuple(verdicts))


def grown(one, **settings):
    return grow_groups([one], GrowSettings(**{"inputs": 30, **settings}), FAST)[0]


@pytest.mark.parametrize(
    ("inputs", "value", "outside"),
    [
        ([[3], [7]], 70, set()),
        ([[3], [7]], 71, {FOREIGN}),  # ten times the largest
        ([[3], [7]], 2, {FOREIGN}),
        ([[-3], [7]], -70, set()),
        ([["abc"], ["de"]], "xyz", set()),
        ([["abc"], ["de"]], "a1", {"characters"}),
        ([["abc"], ["de"]], "", {"length"}),
        ([["12"], ["7"]], "07", {FOREIGN}),
        ([[[1, 2, 3]], [[5, 1]]], [3, 3], set()),  # distinct by chance
        ([[[1, 2, 3]], [[1, 3, 4]], [[2, 3, 4]], [[1, 2, 4]]], [3, 3], {FOREIGN}),  # of four values: distinct and sorted
        ([[[1, 2, 3]], [[5, 1]]], [], {FOREIGN}),
        ([[[1, 2, 3]], [[]]], [2], set()),
        ([[(1, 2)], [(4, 3)]], (1, 2, 3), {FOREIGN}),
        ([[{"a": 1}], [{"b": 2, "c": 3}]], {"a": 20}, set()),
        ([[True], [False]], 1, {FOREIGN}),
    ],
)
def test_a_domain_is_what_the_inputs_have_in_common(inputs, value, outside):
    assert domain_of(inputs).outside([value]) == outside and outside <= {*EDGES, FOREIGN}


def test_a_relation_of_all_inputs_holds_in_new_ones():
    domain = domain_of([["abc", 1], ["abcd", 3], ["ab", 0]])
    assert domain.outside(["abc", 2]) == set() and domain.outside(["ab", 3]) == {FOREIGN}, "an index of the text"


def test_calls_are_mutated_at_their_literals():
    inputs = call_inputs(TOTAL)
    assert [values for _, values in inputs.bases] == [[[1, 2, 3]], [[]], [[5, 1, 4]]]
    new = [*candidates(inputs, TOTAL.tests, 20, Random(0))]
    assert len({one.test.input for one in new}) == 20 and all(one.test.input.startswith("total([") for one in new)
    assert new == [*candidates(call_inputs(TOTAL), TOTAL.tests, 20, Random(0))], "the seed decides"
    nested = replace(TOTAL, tests=(TestCase(CALL, "sorted(f({2: 'b'}, key={1}))", "[]"),))
    (_, values), *_ = call_inputs(nested).bases
    assert values == [{2: "b"}, {1}] and call_inputs(nested).render([{3: "c"}, set()]) == "sorted(f({3: 'c'}, key=set()))"
    assert call_inputs(replace(TOTAL, tests=(TestCase(CALL, "f(x)", "1"), TestCase(CALL, "f(", "1")))) is None


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["3\n1 2 3\n", "2\n5 6\n"], [[1, 2, 3]]),  # the first line counts the second
        (["2\n1 a\n2 b\n", "1\n4 c\n"], [[(1, "a"), (2, "b")]]),  # the first line counts the rows
        (["5 7\n", "1 2\n"], [5, 7]),
        (["hello world\n", "a b c\n"], ["hello world"]),
        (["2 9\n3 4\n8 1\n", "1 9\n3 1\n"], [9, [(3, 4), (8, 1)]]),
    ],
)
def test_standard_input_is_read_with_its_counts(texts, values):
    inputs = program_inputs(Task("t", "", tuple(TestCase(STDIO, text, "") for text in texts)))
    assert inputs.bases[0][1] == values and inputs.render(values) == texts[0]
    for one in candidates(inputs, [TestCase(STDIO, text) for text in texts], 10, Random(1)):
        lines = [line.split() for line in one.test.input.splitlines()]
        if values == [[1, 2, 3]]:
            assert lines[0] == [str(len(lines[1]) if len(lines) > 1 else 0)]


def test_a_new_test_fails_the_attempt_that_all_present_tests_pass():
    result = grown(group(TOTAL, RIGHT, SET, "total = sum"))
    assert result.oracle == "reference" and result.caught == {Attempt("total", SET).attempt_id}
    assert all(test.hidden and test.expected == str(sum(eval(test.input[6:-1]))) for test in result.tests)


def test_without_a_reference_attempts_have_to_agree():
    task = replace(TOTAL, reference="")
    agreed = grown(group(task, RIGHT, "total = sum", "def total(xs): return sum(list(xs))", SET))
    assert agreed.oracle == "agreement" and agreed.caught == {Attempt("total", SET).attempt_id}
    assert grown(group(task, RIGHT, SET)).skipped == "no reference, and too few attempts to agree on expected values"
    halves = grown(group(task, RIGHT, "total = sum", SET, "def total(xs): return sum({*xs})"))
    assert halves.kept == [] and "the attempts that passed do not agree" in halves.left_out


def test_attempts_do_not_agree_on_objects():
    """Of a value that is no plain data nothing is known, so it is no expected value."""
    task = Task("f", "", tuple(TestCase(CALL, f"f({n})", str(n)) for n in (5, 8, 2, 4)), "f")
    result = grown(group(task, *(f"def f(n):\n    return n if n != 6 else iter([{n}])" for n in range(4))))
    assert not result.kept and result.left_out["the attempts that passed do not agree"] == ["f(6)"]


def test_a_wrong_reference_is_no_oracle():
    task = replace(TOTAL, reference="def total(xs): return 0")
    assert grown(group(task, RIGHT)).skipped.startswith("the reference fails the present tests")


@pytest.mark.slow
def test_inputs_on_which_the_reference_raises_or_an_attempt_hangs_are_left_out():
    reference = "def f(n):\n    return 12 // (n - 6)\n"
    task = Task("f", "", tuple(TestCase(CALL, f"f({n})", str(12 // (n - 6))) for n in (5, 7, 8)), "f", reference=reference)
    result = grown(group(task, "def f(n):\n    return 12 // (n - 6) if n < 60 else 1\n"))
    assert "f(6)" in result.left_out["the reference raises or has no plain value"]
    slow = "def f(n):\n    while n > 40: pass\n    return 12 // (n - 6)\n"
    fast = JudgeSettings(replace(FAST.limits, wall_seconds=1, cpu_seconds=1), workers=1)
    late = grow_groups([group(task, slow)], GrowSettings(inputs=12, most=2), fast)[0]
    assert not late.kept and late.left_out.get("an attempt does not finish")


def test_programs_are_grown_by_their_standard_input():
    right, wrong = (
        "n = int(input())\nprint(sum(map(int, input().split())))",
        "n = int(input())\nprint(sum({*map(int, input().split())}))",
    )
    tests = (TestCase(STDIO, "3\n1 2 3\n", "6\n"), TestCase(STDIO, "2\n5 9\n", "14\n"))
    result = grown(group(Task("p", "", tests, reference=right), right, wrong))
    assert result.caught == {Attempt("p", wrong).attempt_id}


SCHEMA = "CREATE TABLE shop (id INTEGER PRIMARY KEY, town TEXT);\nCREATE TABLE sale (id INTEGER PRIMARY KEY, shop_id INTEGER REFERENCES shop(id), paid INTEGER);\n"
SHOPS = "INSERT INTO shop VALUES (1, 'Oslo'), (2, 'Graz'), (3, 'Brno');\n"
SALES = "INSERT INTO sale VALUES (1, 1, 5), (2, 1, 9), (3, 2, 30), (4, 3, 12), (5, 3, NULL);\n"
MORE = "INSERT INTO sale VALUES (1, 2, 7), (2, 3, 40), (3, 3, 11), (4, 1, 3), (5, 2, 25);\n"
COUNT = "SELECT count(*) FROM sale WHERE paid > 10"
PAID = Task(
    "paid",
    "How many sales above 10?",
    (TestCase(STDIO, SCHEMA + SHOPS + SALES, "[2]", hidden=True), TestCase(STDIO, SCHEMA + SHOPS + MORE, "[3]", hidden=True)),
    language="sql",
    reference=COUNT,
    compare="rows",
)


def test_databases_keep_keys_and_references():
    inputs = database_inputs(PAID, [COUNT])
    assert inputs.limits == {("sale", 2): (10,)} and inputs.columns["sale", 1].parent == "shop"
    assert inputs.columns["sale", 2].has_null and not inputs.columns["shop", 1].has_null
    new = [*candidates(inputs, PAID.tests, 40, Random(0))]
    assert len(new) == 40
    for one in new:
        tables = read_database("", one.test.input).tables
        keys = [row[0] for row in tables["shop"].rows]
        assert len({*keys}) == len(keys) and {row[1] for row in tables["sale"].rows} <= {*keys}
        assert all(row[1] is not None for row in tables["shop"].rows)
    assert read_database("", "ATTACH DATABASE '/tmp/x.db' AS x") is None, "scripts reach no file"
    assert read_database("CREATE TABLE a (x);", "INSERT INTO a VALUES (1);").schema == ""


def test_limits_are_the_literals_of_comparisons():
    database = read_database("", SCHEMA)
    queries = ["SELECT 1 FROM shop WHERE town LIKE 'Os%'", "SELECT 1 FROM sale WHERE sale.paid BETWEEN 3 AND 4.5 AND id = 3"]
    found = limits_of(database, queries)
    assert found["sale", 2] == (3, 4.5) and "Ray Os" in found["shop", 1] and ("sale", 0) not in found


def test_a_query_that_is_off_by_one_fails_a_new_database():
    off = "SELECT count(*) FROM sale WHERE paid >= 10"
    result = grown(group(PAID, COUNT, off))
    assert result.caught == {Attempt("paid", off, "sql").attempt_id}
    first = replace(PAID, reference="SELECT town FROM shop LIMIT 1", tests=(replace(PAID.tests[0], expected='["Oslo"]'),))
    assert reversed_rows(first, SCHEMA + SHOPS).index("'Brno'") < reversed_rows(first, SCHEMA + SHOPS).index("'Oslo'")
    ordered = grown(group(first, "SELECT town FROM shop WHERE id < 9 LIMIT 1"))
    assert not ordered.kept and ordered.left_out["the answer depends on the order of rows"]


def test_a_grown_archive_is_written_in_portions(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("upsolve.suites.grow.PORTION", 1)
    archive, out, failing = Archive.create(tmp_path / "archive"), tmp_path / "out", "def total(xs): return 1"
    one, other = group(TOTAL, RIGHT, SET), group(replace(TOTAL, task_id="other", reference=""), RIGHT)
    failed = Attempt("total", failing)
    outcomes = (Status.FAILED, Status.FAILED, Status.FAILED)
    archive.append(tasks=[one.task, other.task], attempts=[*one.attempts, failed, *other.attempts])
    archive.append(
        verdicts=[*one.verdicts, Verdict(failed.attempt_id, Status.FAILED, 0, 3, outcomes, "upsolve-2"), *other.verdicts]
    )

    def stop(_stage, _done, _total):
        raise KeyboardInterrupt

    how = GrowSettings(inputs=20, most=2)
    with pytest.raises(KeyboardInterrupt):
        grow(archive, out, how, settings=FAST, progress=stop)
    rows = grow(archive, out, how, settings=FAST)
    assert [(row["task_id"], bool(row["new"]), row["skipped"]) for row in rows] == [
        ("total", True, ""),
        ("other", False, "no reference, and too few attempts to agree on expected values"),
    ]
    new = {task.task_id: task for task in Archive(out).tasks()}
    count = len(rows[0]["new"])
    assert len(new["total"].tests) == 3 + count and len(new["other"].tests) == 3
    grown_from = json.loads(new["total"].extra)["grown"]
    assert [entry["test"] for entry in grown_from] == [3 + number for number in range(count)]
    assert {entry["expected_from"] for entry in grown_from} == {"reference"} and all(
        entry["origin"] in (0, 1, 2) for entry in grown_from
    )
    verdicts = {verdict.attempt_id: verdict for verdict in Archive(out).verdicts()}
    statuses = {
        attempt.code: verdicts[attempt.attempt_id].status for attempt in Archive(out).attempts() if attempt.task_id == "total"
    }
    assert statuses == {RIGHT: Status.PASSED, SET: Status.FAILED, failing: Status.FAILED}
    assert verdicts[failed.attempt_id].outcomes == (*outcomes, *([Status.UNSCORED] * count))
    assert totals(grade_archive(Archive(out))).recorded == 4
    app(["tests", "grow", str(tmp_path / "archive"), str(tmp_path / "again"), "--inputs", "5"], standalone_mode=False)
    assert "1 tasks are not grown: no reference" in capsys.readouterr().out
