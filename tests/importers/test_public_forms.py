"""Forms of public archives: a tiny archive of each comes in by a map of at most twelve lines, with the right tasks, tests and labels."""

import json
import sqlite3
import zipfile

import pytest

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.types import TestKind

ADD, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
C_ADD = '#include <stdio.h>\nint main(void) { int x; scanf("%d", &x); printf("%d\\n", x + 1); }\n'
C_WRONG = '#include <stdio.h>\nint main(void) { puts("2"); }\n'
PYTHON_ADD, PYTHON_WRONG = "print(int(input()) + 1)\n", "print(2)\n"
CALL, STDIO = TestKind.CALL, TestKind.STDIO
ASSERTS = "assert f(1) == 2\nassert f(2) == 3"
CALLS = [(CALL, "f(1)", "2"), (CALL, "f(2)", "3")]
FORMS = {}


def form(text, *, path="", tasks, attempts):
    """Register a form: its map, what is read of its folder, its tasks (id: prompt, tests) and attempts (task, author, code, status)."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    assert len(lines) <= 12

    def add(make):
        FORMS[make.__name__] = make, "\n".join(lines), path, tasks, attempts
        return make

    return add


def put(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def lines_of(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@form(
    """
rows: data.items
columns: {prompt: problem, entry_point: fn, tests: asserts, code: program, author: by, status: grade}
""",
    path="dump.json",
    tasks={"": ("Add one.", CALLS)},
    attempts=[("", "ann", ADD, "passed"), ("", "bob", WRONG, "failed")],
)
def one_object_with_a_list_inside(folder):
    row = {"problem": "Add one.", "fn": "f", "asserts": ASSERTS}
    items = [{**row, "program": ADD, "by": "ann", "grade": "Accepted"}, {**row, "program": WRONG, "by": "bob", "grade": "WA"}]
    put(folder, "dump.json", {"course": "A", "data": {"items": items, "pages": 1}})


@form(
    """
explode: ["*", grade-*]
columns: {task_id: id, prompt: question, code: "*", author: key}
status: {column: grade-*, words: {C: passed, I: failed}}
""",
    path="answers.jsonl",
    tasks={"1": ("Add one.", []), "2": ("Add one again.", [])},
    attempts=[
        ("1", "17", ADD, "passed"),
        ("1", "18", WRONG, "failed"),
        ("2", "17", WRONG, "failed"),
        ("2", "18", ADD, "passed"),
    ],
)
def several_attempts_in_a_row(folder):
    rows = [
        {"id": 1, "question": "Add one.", "17": ADD, "grade-17": "C", "18": WRONG, "grade-18": "I"},
        {"id": 2, "question": "Add one again.", "17": WRONG, "grade-17": "I", "18": ADD, "grade-18": "C"},
    ]
    put(folder, "answers.jsonl", lines_of(*rows))


@form(
    r"""
files: "{year}/{lab}/{exercise}/{student}/submission/*.c"
constants: {language: c}
texts: {report: "{year}/{lab}/{exercise}/{student}/report.md"}
columns: {task_id: "{lab}/{exercise}", prompt: null, code: text, author: student}
tests: {input: "tests/{lab}/{exercise}/*.in", expected: "*.out"}
status: {column: report, match: '^\*\*Outcome:\*\* (\w+)', words: {richtig: passed, falsch: failed}}
""",
    tasks={"lab1/ex2": ("", [(STDIO, "1\n", "2\n"), (STDIO, "5\n", "6\n")])},
    attempts=[("lab1/ex2", "s1", C_ADD, "passed"), ("lab1/ex2", "s2", C_WRONG, "failed")],
)
def a_tree_with_outcomes_in_markdown(folder):
    for student, code, outcome in (("s1", C_ADD, "richtig"), ("s2", C_WRONG, "falsch")):
        put(folder, f"2019/lab1/ex2/{student}/submission/main.c", code)
        put(folder, f"2019/lab1/ex2/{student}/report.md", f"# {student}\n\n**Outcome:** {outcome}\n\nTests: 2\n")
    for number, (given, wanted) in enumerate((("1\n", "2\n"), ("5\n", "6\n"))):
        put(folder, f"tests/lab1/ex2/{number}.in", given)
        put(folder, f"tests/lab1/ex2/{number}.out", wanted)


@form(
    """
files: "*.json"
explode: [codes, right]
columns: {task_id: "{stem}/{number}", prompt: text, code: codes, status: right}
constants: {author: davinci}
""",
    tasks={"a/1": ("Add one.", []), "b/1": ("Add 1.", [])},
    attempts=[
        ("a/1", "davinci", ADD, "passed"),
        ("a/1", "davinci", WRONG, "failed"),
        ("b/1", "davinci", WRONG, "failed"),
    ],
)
def arrays_with_code_in_a_list_and_boolean_outcomes(folder):
    put(folder, "a.json", [{"number": 1, "text": "Add one.", "codes": [ADD, WRONG], "right": [True, False]}])
    put(folder, "b.json", [{"number": 1, "text": "Add 1.", "codes": [WRONG], "right": [False]}])


@form(
    """
files: "*/{model}_t{temperature}.jsonl"
columns: {task_id: task, prompt: prompt, code: "{prompt}{completion}", author: model, status: passed}
""",
    tasks={"1": ("def f(x):\n", [])},
    attempts=[("1", "gpt-4", ADD, "passed"), ("1", "llama-7b", WRONG, "failed")],
)
def folders_by_model_whose_name_is_in_the_file_name(folder):
    for place, name, code, passed in (("openai", "gpt-4_t0.2", ADD, True), ("meta", "llama-7b_t0.8", WRONG, False)):
        head, _, body = code.partition("\n")
        put(folder, f"{place}/{name}.jsonl", lines_of({"task": 1, "prompt": head + "\n", "completion": body, "passed": passed}))


@form(
    """
files: "{kind}_{task}/*.py"
texts: {checks: "tests/{task}.json"}
columns: {task_id: task, prompt: null, code: text, author: stem, tests: checks}
status: {column: kind, words: {correct: passed, buggy: failed}}
""",
    tasks={"add": ("", [(STDIO, "1", "2"), (STDIO, "5", "6")])},
    attempts=[("add", "ann", PYTHON_ADD, "passed"), ("add", "bob", PYTHON_WRONG, "failed")],
)
def pairs_of_folders_correct_and_buggy(folder):
    put(folder, "correct_add/ann.py", PYTHON_ADD)
    put(folder, "buggy_add/bob.py", PYTHON_WRONG)
    put(folder, "tests/add.json", [{"input": "1", "output": "2"}, {"input": "5", "output": "6"}])


@form(
    r"""
files: "{task}/{run}/main.py"
texts: {meta: "{task}/{run}/metadata.json"}
constants:
  compare: checker
  checker: "import re\ndef check(input, expected, output): return re.fullmatch(expected, output.strip()) is not None"
columns: {task_id: task, prompt: null, code: text, author: meta.student, status: meta.verdict}
tests: {input: "{task}/tests/*.txt", expected: "*.regex"}
""",
    tasks={"add": ("", [(STDIO, "1\n", r"\s*2\.?0*")])},
    attempts=[("add", "ann", PYTHON_ADD, "passed"), ("add", "bob", "print(3)\n", "failed")],
)
def a_tree_with_metadata_and_tests_by_regular_expressions(folder):
    for run, student, code, verdict in (("r1", "ann", PYTHON_ADD, "ok"), ("r2", "bob", "print(3)\n", "wrong answer")):
        put(folder, f"add/{run}/main.py", code)
        put(folder, f"add/{run}/metadata.json", {"student": student, "verdict": verdict})
    put(folder, "add/tests/1.txt", "1\n")
    put(folder, "add/tests/1.regex", r"\s*2\.?0*")


@form(
    """
files: "hand-ins/{student}/{task}.py"
columns: {task_id: task, prompt: null, code: text, author: student}
""",
    path="hand-ins.zip",
    tasks={"add": ("", []), "same": ("", [])},
    attempts=[("add", "ann", ADD, None), ("add", "bob", WRONG, None), ("same", "ann", WRONG, None)],
)
def a_zip_of_student_programs(folder):
    with zipfile.ZipFile(folder / "hand-ins.zip", "w") as out:
        out.writestr("hand-ins/ann/add.py", ADD)
        out.writestr("hand-ins/ann/same.py", WRONG)
        out.writestr("hand-ins/bob/add.py", WRONG)
        out.writestr("__MACOSX/hand-ins/bob/._add.py", "\0\0")


@form(
    """
columns: {task_id: titleSlug, prompt: null, language: lang, code: code, author: user, status: statusDisplay}
""",
    path="submissions.jsonl",
    tasks={"add-one": ("", [])},
    attempts=[
        ("add-one", "ann", ADD, "passed"),
        ("add-one", "bob", WRONG, "failed"),
        ("add-one", "eve", "while 1: pass", "timeout"),
    ],
)
def verdicts_of_leetcode_with_slugs(folder):
    row = {"titleSlug": "add-one", "lang": "python3"}
    outcomes = (("ann", ADD, "Accepted"), ("bob", WRONG, "Wrong Answer"), ("eve", "while 1: pass", "Time Limit Exceeded"))
    put(
        folder,
        "submissions.jsonl",
        lines_of(*({**row, "user": user, "code": code, "statusDisplay": one} for user, code, one in outcomes)),
    )


@form(
    r"""
files: "{model}/{task}.md"
match: {text: ['^# Task\n+(?P<statement>[^#]+?)\s*$', '^Outcome: (?P<verdict>\w+)']}
columns: {task_id: task, prompt: statement, answer: text, author: model, status: verdict}
""",
    tasks={"t1": ("Add one.", [])},
    attempts=[("t1", "gpt-4", ADD.strip(), "passed"), ("t1", "llama", WRONG.strip(), "failed")],
)
def answers_in_markdown_with_an_outcome_line(folder):
    for model, code, outcome in (("gpt-4", ADD, "PASS"), ("llama", WRONG, "FAIL")):
        put(folder, f"{model}/t1.md", f"# Task\n\nAdd one.\n\n# Answer\n\nSo:\n\n```python\n{code}```\n\nOutcome: {outcome}\n")


PAIRED = """
explode: [Attempt *, Result *]
columns: {prompt: Question, code: Attempt *, author: "try {key}", status: Result *}
"""
PAIRS = {
    "tasks": {"": ("Add one.", [])},
    "attempts": [("", "try 1", WRONG, "failed"), ("", "try 2", ADD, "passed")],
}


@form(PAIRED, path="log.csv", **PAIRS)
def pairs_of_columns_in_csv(folder):
    put(folder, "log.csv", f'Question, Attempt 1 , Result 1,Attempt 2,Result 2\nAdd one.,"{WRONG}",wrong,"{ADD}",correct\n')


@form(PAIRED, path="log.xlsx", **PAIRS)
def pairs_of_columns_in_excel(folder):
    pytest.importorskip("python_calamine")
    rows = (("Question", "Attempt 1", "Result 1", "Attempt 2", "Result 2"), ("Add one.", WRONG, "wrong", ADD, "correct"))
    cells = "".join(
        f'<row r="{r}">'
        + "".join(
            f'<c r="{"ABCDE"[c]}{r}" t="inlineStr"><is><t xml:space="preserve">{one}</t></is></c>' for c, one in enumerate(row)
        )
        + "</row>"
        for r, row in enumerate(rows, 1)
    )
    head, main = '<?xml version="1.0" encoding="UTF-8"?>', "http://schemas.openxmlformats.org"
    office, kind = f"{main}/officeDocument/2006/relationships", "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{main}/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{main}/package/2006/relationships"><Relationship Id="rId1" Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}/spreadsheetml/2006/main" xmlns:r="{office}"><sheets><sheet name="log" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{main}/package/2006/relationships"><Relationship Id="rId1" Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}/spreadsheetml/2006/main"><sheetData>{cells}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(folder / "log.xlsx", "w") as out:
        for name, text in parts.items():
            out.writestr(name, head + text)


@form(
    """
parts:
- files: tasks.csv
  columns: {task_id: nr, prompt: statement, tests: unit_tests}
- files: chats.csv
  columns: {task_id: task, answer: reply, author: bot, status: ok}
""",
    tasks={"1": ("Add one.", CALLS)},
    attempts=[("1", "gpt-4", ADD.strip(), "passed"), ("1", "llama", WRONG.strip(), "failed")],
)
def two_csv_files_of_tasks_and_chats(folder):
    put(folder, "tasks.csv", f'nr,statement,unit_tests\n1,Add one.,"{ASSERTS}"\n')
    replies = [("gpt-4", ADD, "true"), ("llama", WRONG, "false")]
    rows = "".join(f'1,{bot},"Here:\n```python\n{code}```",{ok}\n' for bot, code, ok in replies)
    put(folder, "chats.csv", f"task,bot,reply,ok\n{rows}")


@form(
    r"""
files: "{task}/{run}/solution.py"
texts: {log: "{task}/{run}/run.log"}
columns: {task_id: task, prompt: null, code: text, author: run}
status: {column: log, match: 'RESULT=(\w+)', words: {RESOLVED: passed, UNRESOLVED: failed}}
""",
    tasks={"t1": ("", [])},
    attempts=[("t1", "r1", ADD, "passed"), ("t1", "r2", WRONG, "failed"), ("t1", "r3", "x", None)],
)
def a_run_folder_with_the_outcome_in_a_log(folder):
    for run, code, end in (("r1", ADD, "INFO RESULT=RESOLVED"), ("r2", WRONG, "INFO RESULT=UNRESOLVED"), ("r3", "x", "killed")):
        put(folder, f"t1/{run}/solution.py", code)
        put(folder, f"t1/{run}/run.log", f"12:00 start\n12:01 {end}\n")


@form(
    r"""
files: outcomes.csv
constants: {language: c}
texts: {code: "programs/{program}.c", xml: "tests/{task}.xml"}
columns: {task_id: task, prompt: null, author: program, outcomes: "[{t1}, {t2}]"}
tests: {column: xml, match: '<in>(?P<input>.*?)</in>\s*<out>(?P<expected>.*?)</out>'}
""",
    path="all.zip",
    tasks={"add": ("", [(STDIO, "1", "2"), (STDIO, "5 <", "6")])},
    attempts=[("add", "p1", C_ADD, "passed"), ("add", "p2", C_WRONG, "failed")],
)
def programs_in_a_zip_with_outcomes_of_tests_and_tests_in_xml(folder):
    with zipfile.ZipFile(folder / "all.zip", "w") as out:
        out.writestr("outcomes.csv", "program,task,t1,t2\np1,add,true,true\np2,add,true,false\n")
        out.writestr("programs/p1.c", C_ADD)
        out.writestr("programs/p2.c", C_WRONG)
        tests = "".join(f"<test><in>{one}</in><out>{one + 1}</out></test>" for one in (1, 5)).replace("5<", "5 &lt;<")
        out.writestr("tests/add.xml", f"<tests>{tests}</tests>")


@form(
    """
explode: predictions
constants: {language: sql}
columns: {prompt: question, reference: gold, code: predictions, author: key}
""",
    path="predictions.json",
    tasks={"": ("How many?", [])},
    attempts=[("", "gpt-4", "select count(*) from t", None), ("", "llama", "select x from t", None)],
)
def predictions_of_models_in_one_object_beside_gold_sql(folder):
    predictions = {"gpt-4": "select count(*) from t", "llama": "select x from t"}
    put(folder, "predictions.json", [{"question": "How many?", "gold": "select count(1) from t", "predictions": predictions}])


@form(
    """
query: select task, source, user, verdict from submissions
columns: {task_id: task, prompt: null, code: source, author: user, status: verdict}
""",
    path="judge.db",
    tasks={"add": ("", [])},
    attempts=[("add", "ann", ADD, "passed"), ("add", "bob", WRONG, "failed")],
)
def sqlite_with_a_write_ahead_log(folder):
    base = sqlite3.connect(folder / "judge.db", isolation_level=None)
    base.execute("pragma journal_mode=wal")
    base.execute("create table submissions (task, source, user, verdict)")
    base.executemany("insert into submissions values ('add', ?, ?, ?)", [(ADD, "ann", "AC"), (WRONG, "bob", "WA")])
    assert (folder / "judge.db-wal").stat().st_size > 0
    return base  # open: the rows are in the log alone


@form(
    r"""
files: results.json
rows: results
texts: {code: "{file}"}
match: {name: '^test_(?P<task>\w+)\[(?P<student>\w+)\]$'}
columns: {task_id: task, prompt: null, code: code, author: student, status: status}
""",
    tasks={"add": ("", [])},
    attempts=[("add", "ann", ADD, "passed"), ("add", "bob", WRONG, "failed")],
)
def results_of_a_test_runner(folder):
    results = [
        {"name": f"test_add[{name}]", "file": f"code/{name}.py", "status": status}
        for name, status in (("ann", "passed"), ("bob", "failed"))
    ]
    put(folder, "results.json", {"version": 1, "results": results})
    put(folder, "code/ann.py", ADD)
    put(folder, "code/bob.py", WRONG)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_form_comes_in_by_a_short_map(name, tmp_path):
    make, text, path, tasks, attempts = FORMS[name]
    (tmp_path / "data").mkdir()
    held = make(tmp_path / "data")
    (tmp_path / "my.yaml").write_text(text)
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, str(tmp_path / "my.yaml"), tmp_path / "data" / path)
    assert not report.bad, report.text()
    found = {task.task_id: task for task in archive.tasks()}
    names = {one: one if one in tasks else one.partition("/")[2] if {*tasks} != {""} else "" for one in found}
    shown = {
        names[task_id]: (task.prompt, [(one.kind, one.input, one.expected) for one in task.tests])
        for task_id, task in found.items()
    }
    assert shown == tasks
    labels = {verdict.attempt_id: verdict.status.value for verdict in archive.verdicts()}
    stored = [(names[one.task_id], one.author, one.code, labels.get(one.attempt_id)) for one in archive.attempts()]
    assert sorted(stored, key=str) == sorted(attempts, key=str)
    del held
