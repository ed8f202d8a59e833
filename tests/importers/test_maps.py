"""Maps of tables, trees and logs (``docs/maps.md``)."""

import json
import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from imports import imported, write_lines

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.plugins import find, names
from upsolve.types import Status

ADD = "Add one."
CODE = "def f(x):\n    return x + 1\n"


def read_in(folder, text, rows, source="", **options):
    """Import rows of JSON by a map; the archive and the report."""
    (folder / "my.yaml").write_text(text)
    if isinstance(rows, str):
        (folder / "log.jsonl").write_text(rows)
    else:
        (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    archive = Archive.create(folder / "archive")
    report = ingest(archive, source or str(folder / "my.yaml"), folder / "log.jsonl", **options)
    return archive, report


def outcomes(archive):
    """Code, author and outcome of each attempt."""
    found = {verdict.attempt_id: verdict.status for verdict in archive.verdicts()}
    return [(one.code, one.author, found.get(one.attempt_id)) for one in archive.attempts()]


def test_templates_constants_and_first_of_several_columns(tmp_path):
    text = """
columns:
  prompt: "{title}{hint?\\n\\nHint: }"
  code: "{head}{tail}"
  task_id: "t/{number}"
  difficulty: [level, grade]
constants: {language: cpp, author: gpt-4, year: 2019}
"""
    row = {"title": "Add.", "head": "int f()", "tail": "{}", "number": 7.0, "grade": "easy"}
    archive, _ = read_in(tmp_path, text, [row, {**row, "number": 8, "hint": "none", "level": "hard"}])
    first, second = archive.tasks()
    assert (first.task_id, first.prompt, first.difficulty, first.language) == ("t/7", "Add.", "easy", "cpp")
    assert (second.task_id, second.prompt, second.difficulty) == ("t/8", "Add.\n\nHint: none", "hard")
    assert {(one.code, one.author, one.language) for one in archive.attempts()} == {("int f(){}", "gpt-4", "cpp")}
    extras = {one.task_id: json.loads(one.extra) for one in archive.attempts()}
    assert extras == {"t/7": {"year": 2019}, "t/8": {"year": 2019, "grade": "easy"}}  # the alternative that was not used


def test_explode_parallel_lists_keeps_columns_of_the_task_with_the_task(tmp_path):
    text = "explode: [codes, marks]\ncolumns: {prompt: question, code: codes, status: marks}"
    rows = [{"question": ADD, "codes": [CODE, "pass"], "marks": [True, False], "url": "u"}]
    archive, report = read_in(tmp_path, text, [*rows, {"question": "B", "codes": ["a"], "marks": []}], max_rejected=1)
    assert outcomes(archive) == [(CODE, "", Status.PASSED), ("pass", "", Status.FAILED)]
    assert json.loads(archive.tasks()[0].extra) == {"url": "u"} and {one.extra for one in archive.attempts()} == {""}
    assert report.reasons[0].reason == "lists that the map explodes differ in length: codes has 1, marks has 0"


def test_explode_items_that_are_objects_and_lists_in_json(tmp_path):
    text = "explode: tries\ncolumns: {prompt: question, code: source, status: ok, author: key}"
    tries = {"ann": {"source": CODE, "ok": 1, "ms": 3}, "bob": {"source": "x", "ok": 0}}
    archive, _ = read_in(tmp_path, text, [{"question": ADD, "tries": json.dumps(tries)}])
    assert outcomes(archive) == [(CODE, "ann", Status.PASSED), ("x", "bob", Status.FAILED)]
    assert json.loads(archive.attempts()[0].extra) == {"ms": 3}


def test_names_of_rows_and_of_their_items_are_two_columns(tmp_path):
    text = "rows: '*'\nexplode: tries\ncolumns: {task_id: row_key, prompt: question, code: source, status: ok, author: key}"
    items = {name: {"question": ADD, "tries": {"ann": {"source": f"{name} = 1", "ok": True}}} for name in "ab"}
    (tmp_path / "my.yaml").write_text(text)
    (tmp_path / "log.json").write_text(json.dumps(items))
    archive, _ = imported(tmp_path, str(tmp_path / "my.yaml"), tmp_path / "log.json")
    found = [(one.task_id, one.code, one.author) for one in archive.attempts()]
    assert found == [("log/a", "a = 1", "ann"), ("log/b", "b = 1", "ann")]


def test_explode_on_no_list_is_an_error(tmp_path):
    rows = [{"question": ADD, "codes": 3}]
    _, report = read_in(tmp_path, "explode: codes\ncolumns: {prompt: question, code: codes}", rows, max_rejected=1)
    assert report.reasons[0].reason == "codes is not a list, but the map explodes it: '3'"
    (tmp_path / "other").mkdir()
    with pytest.raises(
        SourceError, match="no column tries, which .*my.yaml explodes or searches; its columns are question, codes"
    ):
        read_in(tmp_path / "other", "explode: tries\ncolumns: {prompt: question, code: tries}", rows)


def test_match_takes_columns_from_text(tmp_path):
    text = r"""
match:
  log: ['^verdict: (?P<verdict>\w+)', '^by (?P<who>\w+)']
columns: {prompt: question, code: code, author: who}
status: {column: verdict, words: {gut: passed}}
"""
    rows = [
        {"question": ADD, "code": "a", "log": "x\nby ann\nverdict: gut"},
        {"question": ADD, "code": "b", "log": "verdict: WA"},
    ]
    archive, _ = read_in(tmp_path, text, rows)
    assert outcomes(archive) == [("a", "ann", Status.PASSED), ("b", "", Status.FAILED)]


def test_match_every_gives_rows(tmp_path):
    text = r"""
match: {log: {regex: '^(?P<who>\w+): (?P<code>.*) -> (?P<status>\w+)$', every: true}}
columns: {prompt: question, author: who}
"""
    archive, report = read_in(
        tmp_path, text, [{"question": ADD, "log": "ann: a -> ok\nbob: b -> fail"}, {"question": ADD, "log": ""}], max_rejected=1
    )
    assert outcomes(archive) == [("a", "ann", Status.PASSED), ("b", "bob", Status.FAILED)]
    assert report.bad == 1 and "log has no match of" in report.reasons[0].reason


@pytest.mark.parametrize(
    ("status", "values", "expected"),
    [
        ("{column: is_buggy, negate: true}", [True, False, "yes"], ["failed", "passed", "failed"]),
        ("{column: exit_code, negate: true}", [0, 137, "0"], ["passed", "failed", "passed"]),
        ("{column: exit_code, negate: true, words: {124: timeout}}", [0, 124, 1], ["passed", "timeout", "failed"]),
        ("{column: score, passed_at: 0.5}", [0.5, 0.4, 1], ["passed", "failed", "passed"]),
        ("{column: log, match: 'Verdict=(.*)$'}", ["a\nVerdict=AC\nb", "Verdict=WA", "none"], ["passed", "failed", None]),
        ("verdict", ["AC", "tle", "CE"], ["passed", "timeout", "compile_error"]),
    ],
)
def test_status(tmp_path, status, values, expected):
    column = status.partition("column: ")[2].partition(",")[0] or status
    rows = [{"question": ADD, "code": f"{at}", column: value} for at, value in enumerate(values)]
    archive, _ = read_in(tmp_path, f"columns: {{prompt: question}}\nstatus: {status}", rows)
    assert [status and status.value for _, _, status in outcomes(archive)] == expected


def test_only_and_options_choose_rows(tmp_path):
    text = """
columns: {prompt: question, language: lang, author: who}
only: {kind: [a, b], day: {from: 2020-01-02}}
constants: {who: nobody}
options:
  language: {column: lang, help: languages to keep}
  until: {to: day, help: last day}
  author: {constant: who, help: author of all}
"""
    row = {"question": ADD, "code": "1", "lang": "C++17", "kind": "a", "day": "2020-01-02"}
    more = [
        {"code": "2", "kind": "c"},
        {"code": "3", "day": "2020-01-01"},
        {"code": "4", "lang": "Python 3"},
        {"code": "5", "day": "2021-01-01"},
    ]
    with pytest.warns(UserWarning, match="4 rows are skipped"):
        archive, report = read_in(
            tmp_path, text, [row, *({**row, **one} for one in more)], language="cpp,java", until="2020", author="x"
        )
    assert outcomes(archive) == [("1", "x", None)] and report.read == 2
    assert [option.name for option in find("source", str(tmp_path / "my.yaml")).options] == ["language", "until", "author"]


def test_tasks_without_a_statement(tmp_path):
    text = "columns: {prompt: null, task_id: exercise, tests: checks}"
    archive, _ = read_in(tmp_path, text, [{"exercise": "e1", "checks": "assert f(1) == 2", "code": CODE, "prompt": "other"}])
    (task,) = archive.tasks()
    assert (task.task_id, task.prompt, len(task.tests)) == ("log/e1", "", 1)
    assert json.loads(archive.attempts()[0].extra) == {"prompt": "other"}


def test_tests_of_several_columns(tmp_path):
    text = "columns: {prompt: question}\ntests: {inputs: given, outputs: wanted}"
    archive, _ = read_in(tmp_path, text, [{"question": ADD, "code": CODE, "given": ["1\n", "2\n"], "wanted": ["2\n", "3\n"]}])
    assert [(test.input, test.expected) for test in archive.tasks()[0].tests] == [("1\n", "2\n"), ("2\n", "3\n")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("column: {}", "unknown column; keys are about, name"),
        ("columns: {promt: a}", "unknown promt; columns can be task_id"),
        ("columns: {code: '{a'}", "columns.code: '{a' has an unmatched brace"),
        ("columns: {code: }\nexplode: 3", "explode: must be a name, or a list of names"),
        ("match: {a: '(x)'}", "match.a: the expression names no column"),
        ("match: {a: '(?P<x>'}", "match.a: is not a regular expression"),
        ("tests: {column: a, match: '(?P<input>x)'}", "tests.match: must have two groups"),
        ("status: {match: x}", "status.match: must have one group"),
        ("status: {colum: x}", "status: unknown colum"),
        ("status: {words: {a: good}}", "status.words: 'good' is not a valid Status; known statuses are passed"),
        ("columns: {code: a}\nconstants: {code: b}", "constants.code: is also in `columns`"),
        ("columns: {status: a}\nstatus: b", "status: is also in `columns`"),
        ("constants: {imports: all}", "constants.imports: must be one of none, contest"),
        ("options: {x: {help: y}}", "options.x: needs one of column"),
        ("attempts: [{prompt: a}]", "attempts, attempt 1: unknown prompt; keys are explode, columns"),
        ("extra: {with: a}", "extra: unknown with; keys are task, attempt, without"),
        ("parts: {}", "parts: must be a list of maps"),
        ("[]", "a map has keys"),
    ],
)
def test_mistakes_in_a_map_name_file_key_and_fix(tmp_path, text, message):
    with pytest.raises(SourceError) as caught:
        read_in(tmp_path, text, [{"prompt": "a"}])
    assert f"{tmp_path}/my.yaml: {message}" in str(caught.value)


def test_a_map_of_the_user_is_a_source_with_a_name(tmp_path, monkeypatch):
    folder = tmp_path / "upsolve" / "maps"
    folder.mkdir(parents=True)
    (folder / "our_judge.yaml").write_text("about: our judge\ndetect: [frage, '!antwort']\ncolumns: {prompt: frage}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert "our_judge" in names("source") and find("source", "our_judge").path == "our judge"
    archive, _ = read_in(tmp_path, "{}", [{"frage": ADD, "code": CODE}], source="our_judge")
    assert outcomes(archive) == [(CODE, "", None)]
    assert find("source", "our_judge").detect == ("frage", "!antwort")


def test_a_path_is_a_map_of_a_plug_in(tmp_path):
    (tmp_path / "theirs.yaml").write_text("columns: {prompt: frage}")
    assert [option.name for option in find("source", tmp_path / "theirs.yaml").options][:2] == ["name", "encoding"]


def tree(folder, **files):
    """Write files of a tree."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


TREE = {
    "2019/lab1/ann/main.c": "int main() { return 0; }",
    "2019/lab1/ann/result.md": "# Result\n\nverdict: ok\n",
    "2019/lab1/bob/main.c": "int main() { return 1; }",
    "tests/lab1/2.in": "2\n",
    "tests/lab1/2.out": "4\n",
    "tests/lab1/10.in": "10\n",
    "tests/lab1/10.out": "20\n",
    "tasks/lab1.txt": "Double it.",
}
LABS = r"""
files: "{year}/{task}/{author}/*.c"
texts: {result: "{folder}/result.md"}
match: {result: '^verdict: (?P<verdict>\w+)'}
columns: {task_id: task, prompt_file: "tasks/{task}.txt", code: text, author: author, status: verdict}
constants: {language: cpp}
tests: {input: "tests/{task}/*.in", expected: "*.out"}
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_tree_of_files_with_tests_and_outcomes_beside(tmp_path, packed):
    folder = tree(tmp_path / "in", **TREE)
    (tmp_path / "my.yaml").write_text(LABS)
    path = Path(shutil.make_archive(str(tmp_path / "in"), "zip", folder)) if packed else folder
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, str(tmp_path / "my.yaml"), path).bad == 0
    (task,) = archive.tasks()
    assert (task.prompt, task.language) == ("Double it.", "cpp")
    assert [(test.input, test.expected) for test in task.tests] == [("2\n", "4\n"), ("10\n", "20\n")]
    ann, bob = TREE["2019/lab1/ann/main.c"], TREE["2019/lab1/bob/main.c"]
    assert outcomes(archive) == [(ann, "ann", Status.PASSED), (bob, "bob", None)]
    assert json.loads(archive.attempts()[1].extra) == {"year": "2019", "file": "2019/lab1/bob/main.c"}


def test_rows_of_many_files_name_the_file_of_a_rejected_row(tmp_path):
    files = {
        "gpt/a.jsonl": '{"q": "Add."}\n',
        "opus/a.jsonl": '{"q": "Add.", "c": "1"}\n[]\n',
        "opus/b.json": "{",
        "c.txt": "c",
    }
    folder = tree(tmp_path / "in", **files)
    (tmp_path / "my.yaml").write_text(
        "files: ['{model}/*.jsonl', '{model}/*.json']\ncolumns: {prompt: q, code: c, author: model}"
    )
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, str(tmp_path / "my.yaml"), folder, max_rejected=1)
    assert outcomes(archive) == [("1", "opus", None)]
    assert [(row.file, row.line) for row in report.reasons] == [
        (str(folder / "opus/a.jsonl"), 2),
        (str(folder / "opus/b.json"), 0),
    ]


def test_two_tables_in_parts_and_files_that_match_nothing(tmp_path):
    folder = tree(tmp_path / "in", **{"tasks.csv": "id,text\n1,Add.\n", "sent/x.csv": "task,code\n1,a\n2,b\n"})
    parts = "name: log\nparts:\n- {files: tasks.csv, columns: {task_id: id, prompt: text}}\n- {files: 'sent/{who}.csv', columns: {task_id: task, author: who}}"
    (tmp_path / "my.yaml").write_text(parts)
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, str(tmp_path / "my.yaml"), folder)
    assert [task.task_id for task in archive.tasks()] == ["log/1"] and report.missing == "log/2"
    assert outcomes(archive) == [("a", "x", None), ("b", "x", None)]
    (tmp_path / "my.yaml").write_text("files: '*.txt'")
    with pytest.raises(
        SourceError, match=r"no file matches `files` of .*my.yaml, \*.txt; there are 2, such as sent/x.csv, tasks.csv"
    ):
        ingest(Archive.create(tmp_path / "other"), str(tmp_path / "my.yaml"), folder)


def test_cases_and_columns_that_are_stored_with_the_task(tmp_path):
    text = """
columns: {prompt: q, code: c}
constants: {level: low}
cases:
- {only: {n: {from: 10}}, constants: {level: high}}
- {only: {other: {given: true}}, columns: {code: other}}
extra: {task: [level], attempt: [n]}
"""
    rows = [{"q": "A", "c": "1", "n": 9, "x": 1}, {"q": "B", "c": "2", "n": 10}, {"q": "C", "other": "3", "n": 1}]
    archive, _ = read_in(tmp_path, text, rows)
    assert [(one.code, json.loads(one.extra)) for one in archive.attempts()] == [
        ("1", {"n": 9}),
        ("2", {"n": 10}),
        ("3", {"n": 1}),
    ]
    assert [json.loads(task.extra) for task in archive.tasks()] == [{"level": "low"}, {"level": "high"}, {"level": "low"}]


PAGE = (Path(__file__).parents[2] / "docs" / "maps.md").read_text(encoding="utf-8")
WHOLE, TREE_MAP, LOG_MAP, TASKS_MAP = (part.partition("```")[0] for part in PAGE.split("```yaml\n")[1:5])


def test_the_documented_map_with_all_keys(tmp_path):
    item = {
        "question": "Add.",
        "exercise": "e1",
        "codes": ["a", "b"],
        "marks": ["x=gut", "x=schlecht"],
        "log": "by ann",
        "week": 9,
    }
    data = json.dumps({"data": {"items": [item, {**item, "week": 1}]}})
    files = {"gpt/r.json": data, "other/r.json": data, "hints/e1.txt": "Sum.", "tests/e1/1.in": "1\n", "tests/e1/1.out": "2\n"}
    folder = tree(tmp_path / "in", **files)
    (tmp_path / "my.yaml").write_text(WHOLE)
    archive = Archive.create(tmp_path / "archive")
    with pytest.warns(UserWarning, match="6 rows are skipped"):
        assert ingest(archive, str(tmp_path / "my.yaml"), folder).bad == 0
    (task,) = archive.tasks()
    assert (task.task_id, task.prompt, task.language, task.difficulty) == ("lab/e1", "Add.\n\nHint: Sum.", "cpp", "hard")
    assert [(test.input, test.expected) for test in task.tests] == [("1\n", "2\n")] and json.loads(task.extra) == {"week": 9}
    assert outcomes(archive) == [("a", "ann", Status.PASSED), ("b", "ann", Status.FAILED)]
    assert {one.extra for one in archive.attempts()} == {'{"set": "gpt"}'}


def test_the_documented_maps_of_a_tree_and_a_log(tmp_path):
    folder = tree(
        tmp_path / "in",
        **{"t/ann/a.c": "x", "t/ann/result.md": "# R\nverdict: AC\n", "run.log": "ann sent 1 for t: ok\nbob sent 2 for t: WA"},
    )
    for number, (text, expected) in enumerate(
        ((TREE_MAP, [("x", "ann", Status.PASSED)]), (LOG_MAP, [("1", "ann", Status.PASSED), ("2", "bob", Status.FAILED)]))
    ):
        (tmp_path / f"{number}.yaml").write_text(text)
        archive = Archive.create(tmp_path / f"archive{number}")
        ingest(archive, str(tmp_path / f"{number}.yaml"), folder)
        assert outcomes(archive) == expected


def tasks_of(folder, **options):
    """Import a folder by the documented map of tasks with attempts; the archive and the report."""
    (folder / "my.yaml").write_text(TASKS_MAP)
    archive = Archive.create(folder / f"archive {options}")
    return archive, ingest(archive, str(folder / "my.yaml"), folder / "in", max_rejected=1, **options)


def test_the_documented_map_of_tasks_with_their_attempts(tmp_path):
    row = {
        "id": 7,
        "question": ADD,
        "skeleton": "def f(x):",
        "io": {"fn_name": "f", "inputs": [[1]], "outputs": [2]},
        "level": 1,
        "solutions": str([{"source": "int f;", "lang": "C++", "ms": 3}, {"source": CODE, "lang": "python"}]),
        "response": f"So:\n```\n{CODE}```",
        "verdict": "wrong",
        "day": "2020-01-02",
    }
    more = {**row, "id": 8, "level": 0, "solutions": {"source": [" ", "x"], "lang": ["c", "c"]}, "verdict": None}
    files = {"a.jsonl": f"{json.dumps(row)}\n{json.dumps(more)}\n", "b.jsonl": json.dumps({**row, "id": 9, "level": 3})}
    folder = tree(tmp_path, **{f"in/{name}": text for name, text in files.items()})
    tree(folder, **{"in/x/statement.txt": "Say x.", "in/x/meta.json": '{"id": "x", "url": "u"}'})
    archive, report = tasks_of(folder)
    assert [one.reason for one in report.reasons] == ["level is 3, which `values` of the map lacks"]
    tasks = {task.task_id: task for task in archive.tasks()}
    seven, eight, text = tasks["in/7"], tasks["in/8"], tasks["in/x"]
    assert (seven.reference, seven.language, seven.difficulty, seven.compare) == (CODE, "", "easy", "lines")
    assert seven.prompt.endswith("give all of it:\n\ndef f(x):") and seven.tests[0].input == "f(1)"
    assert json.loads(seven.extra) == {"skeleton": "def f(x):", "level": "easy", "verdict": "wrong", "day": "2020-01-02"}
    assert eight.difficulty == "" and (text.prompt, json.loads(text.extra)) == ("Say x.", {"url": "u"})
    found = [(one.task_id, one.code.strip(), one.language, one.author, one.extra) for one in archive.attempts()]
    assert sorted(found) == [
        ("in/7", CODE.strip(), "python", "", ""),
        ("in/7", CODE.strip(), "python", "model", ""),
        ("in/7", "int f;", "cpp", "", '{"ms": 3, "language": "C++"}'),
        ("in/8", "x", "c", "", ""),
    ]


@pytest.mark.filterwarnings("ignore:.* rows are skipped", "ignore:.* no row has a value")
@pytest.mark.parametrize(
    ("options", "ids", "codes"),
    [
        ({"language": "cpp"}, {"7", "8", "x"}, 4),
        ({"release": "v1", "since": "2021-01-01"}, set(), 0),
        ({"release": "v1", "most": 1}, {"7", "8"}, 3),
    ],
)
def test_options_of_tasks_with_attempts(tmp_path, options, ids, codes):
    row = {
        "id": 7,
        "question": ADD,
        "day": "2020-01-02",
        "response": "1",
        "verdict": "ok",
        "solutions": {"source": ["a", "b"], "lang": ["cpp", "cpp"]},
    }
    folder = tree(
        tmp_path, **{"in/a.jsonl": f"{json.dumps(row)}\n{json.dumps({**row, 'id': 8, 'verdict': None})}", "in/b.jsonl": "[]"}
    )
    tree(folder, **{"in/x/statement.txt": "Say x.", "in/x/meta.json": '{"id": "x"}'})
    archive, _ = tasks_of(folder, **options)
    assert {task.task_id.rpartition("/")[2] for task in archive.tasks()} == ids and len(archive.attempts()) == codes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compare": "lax"}, "compare must be contest or strict, got 'lax'"),
        ({"since": "May"}, "since: 'May' is not a date such as 2024-08-01"),
        ({"release": "v2"}, "needs b.jsonl"),
        ({"language": "klingon"}, "--language klingon: no language has this name"),
    ],
)
def test_options_that_cannot_be(tmp_path, options, message):
    tree(tmp_path, **{"in/a.jsonl": "{}"})
    with pytest.raises(SourceError, match=message):
        tasks_of(tmp_path, **options)


def test_rows_of_another_table_are_joined(tmp_path):
    text = """
joins: {more: {file: "tests/{id|0000}.*", where: {task: id}, order: [number]}}
columns: {task_id: id, prompt: question, limit_bytes: "{memory|mib}", language: "{lang|language}", code: c}
tests: {examples: shown, secret: "{more|unix}"}
options: {tests: {first: more}}
"""
    rows = [{"id": 7, "question": ADD, "memory": 0.5, "lang": "PyPy 3", "c": CODE, "shown": [{"input": "0", "output": "1"}]}]
    others = [{"task": task, "input": f"{n}\r\n", "output": "x", "number": n} for task, n in ((7, 10), (8, 1), (7, 9), (7, 2))]
    tree(tmp_path, **{"tests/0007.jsonl": "".join(f"{json.dumps(one)}\n" for one in others)})
    archive, _ = read_in(tmp_path, text, rows, tests=2)
    (task,) = archive.tasks()
    assert [(one.input, one.hidden) for one in task.tests] == [("0", False), ("2\n", True), ("9\n", True)]
    assert (task.limit_bytes, archive.attempts()[0].language) == (2**19, "python")
    with pytest.raises(SourceError, match="joins.more: needs `file`, a path, and `where`"):
        read_in(tmp_path, "joins: {more: {file: a}}", rows)


@pytest.mark.filterwarnings("ignore:.* rows are skipped")
def test_cells_of_notebooks_are_programs(tmp_path):
    sources = ("markdown", ["# Add"]), ("code", CODE.splitlines(keepends=True)), ("code", ["x = 1", "print(x)"])
    cells = [{"cell_type": kind, "source": source} for kind, source in sources]
    text = """
files: "{exercise}/*.ipynb"
rows: cells
only: {cell_type: [code]}
columns: {task_id: exercise, prompt: null, code: "{source|lines}", author: stem}
"""
    tree(tmp_path, **{"in/ex1/ann.ipynb": json.dumps({"cells": cells, "nbformat": 4})})
    (tmp_path / "my.yaml").write_text(text)
    archive, _ = imported(tmp_path, str(tmp_path / "my.yaml"), tmp_path / "in")
    found = [(one.task_id, one.code.strip(), one.author) for one in archive.attempts()]
    assert found == [("in/ex1", CODE.strip(), "ann"), ("in/ex1", "x = 1\nprint(x)", "ann")]


def test_escaped_line_ends_of_databases(tmp_path):
    code = 'x = "a\\\\n"\\n\\tprint(x)'
    archive, _ = read_in(tmp_path, "columns: {task_id: t, code: '{c|escapes}'}", [{"t": 1, "c": code}], max_rejected=1)
    assert [one.code for one in archive.attempts()] == ['x = "a\\n"\n\tprint(x)']


@pytest.mark.parametrize(
    ("codes", "change"),
    [
        ([r"print(1)\nprint(2)", r"int a;\nint b;"], "escapes"),
        ([r"print(1)\nprint(2)", "x"], ""),
        ([r'print("a\nb")', r"print('a\nb')"], ""),
        ([r"print(1)\nprint(2)", "x\ny"], ""),
        (["if a &lt; b:\n  x", "y"], "html"),
        (["print(&quot;x&quot;)", "y < 1"], "html"),
        (["if a < b:\n  print('&lt;')", "y"], ""),
        (["print('&lt;')", "y"], ""),
        ([["if x:", "  y"], ["y", " z"]], "lines"),
        ([["x", "y"], ["y", "z"]], ""),
    ],
)
def test_programs_with_escapes_are_refused_and_read_by_a_filter(tmp_path, codes, change):
    rows = [{"prompt": ADD, "code": code, "status": "AC"} for code in codes]
    file = write_lines(tmp_path / "log.jsonl", rows)
    with pytest.raises(SourceError, match=f"--code '{{code\\|{change}}}'") if change else nullcontext():
        imported(tmp_path, "table", file, language="python")
    if change:
        archive, report = imported(tmp_path, "table", file, language="python", code=f"{{code|{change}}}")
        assert report.bad == 0 and not any(re.search(r"&lt;|&quot;|\\n|\[", one.code) for one in archive.attempts())
        archive, report = imported(tmp_path, "table", file, language="python", code="{code}")
        assert report.bad == (2 if change == "lines" else 0), "as they are, if somebody says so"
