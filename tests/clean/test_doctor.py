"""Checks of archives: each finds its fault, finds nothing without it, and ``--fix`` loses no record."""

import json
import random
import time

import pytest

from upsolve.archive.compacting import compact
from upsolve.archive.info import archive_info
from upsolve.archive.store import Archive, open_archive
from upsolve.clean import fixing
from upsolve.clean.doctor import examine, parse_settings
from upsolve.clean.fixing import write_cleaned
from upsolve.cli.main import app
from upsolve.errors import ArchiveError, ConfigError
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict

RIGHT = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n"
WRONG = "def total(values):\n    if not values:\n        return None\n    return max(values) + min(values)\n"
TASKS = (Task("t", "Add the numbers of a list."),)
PASSED, FAILED = Status.PASSED, Status.FAILED


@pytest.fixture
def make(tmp_path):
    """Store tasks, and programs with their verdicts, each append as a part of its own."""

    def store(*judged, tasks=TASKS, name="archive"):
        archive = Archive.create(tmp_path / name)
        archive.append(tasks=tasks)
        for attempt, *verdicts in judged:
            archive.append(attempts=[attempt], verdicts=verdicts)
        return archive

    return store


def judged(code, *statuses, judge="upsolve-1", author="ann", task="t", **fields):
    """An attempt with verdicts of one judge."""
    attempt = Attempt(task, code, author=author, **fields)
    return (attempt, *(Verdict(attempt.attempt_id, status, judge=judge, total=3) for status in statuses))


def kinds(archive, *checks, **settings):
    """Kind -> number of records found."""
    return {row.kind: row.found for row in examine(archive, checks, settings).found if row.found}


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("twin", "kind"),
    [
        (RIGHT, "equal code, one judge"),
        ("# sums\n\n" + RIGHT.replace("+= value", "+=  value  # add"), "equal but for white space and comments"),
        (RIGHT.replace("    ", "\t"), "equal but for white space and comments"),
    ],
)
def test_equal_programs_with_different_outcomes_contradict(make, twin, kind):
    recorded = [judged(RIGHT, PASSED, judge="recorded:a"), judged(twin, FAILED, judge="recorded:a", author="ben")]
    assert kinds(make(*recorded), "contradictions") == {kind: 2}
    same = [judged(RIGHT, PASSED, judge="recorded:a"), judged(twin, PASSED, judge="recorded:a", author="ben")]
    assert kinds(make(*same, name="same"), "contradictions") == {}


def test_the_statistics_count_the_programs_that_the_doctor_finds(make):
    """One program failed twice and passed twice by one judge, one by two judges, one is right by both; one of upsolve was judged again."""
    codes = [RIGHT, WRONG, RIGHT + "#", WRONG + "#"]
    archive = make(
        judged(codes[0], PASSED, FAILED, PASSED, FAILED, judge="recorded:a"),
        (*judged(codes[1], PASSED, judge="recorded:a"), *judged(codes[1], FAILED, judge="recorded:b")[1:]),
        (*judged(codes[2], PASSED, judge="recorded:a"), *judged(codes[2], PASSED, judge="recorded:b")[1:]),
        judged(codes[3], PASSED, FAILED),
    )
    info = archive_info(archive)
    assert info.contradictions == {"equal code, one judge": 1, "equal code, two judges": 1} and info.contradicting == 2
    named = archive.query("select attempt_id, task_id, judges from contradictions order by len(judges)").to_pylist()
    assert [(row["task_id"], row["judges"]) for row in named] == [("t", ["recorded:a"]), ("t", ["recorded:a", "recorded:b"])]
    found = examine(archive, ["contradictions"]).found
    assert {row.kind: row.found for row in found if row.kind in info.contradictions} == info.contradictions


def test_programs_that_differ_in_a_token_or_in_their_indentation_do_not_contradict(make):
    moved = RIGHT.replace("    return", "        return")
    archive = make(judged(RIGHT, PASSED), judged(moved, FAILED), judged(RIGHT.replace("0", "1"), FAILED))
    assert kinds(archive, "contradictions") == {}


def test_other_languages_are_compared_by_their_tokens(make):
    code = "int f(int x) {\n  return x + 1; // next\n}\n"
    attempts = [judged(code, PASSED, language="c"), judged("int f(int x){return x+1;}", FAILED, language="c")]
    assert kinds(make(*attempts), "contradictions") == {"equal but for white space and comments": 2}
    queries = [judged("select a from t -- all", PASSED, language="sql"), judged("select a\nfrom t", FAILED, language="sql")]
    assert kinds(make(*queries, name="sql"), "contradictions") == {}  # no grammar: comments cannot be told from texts
    queries = [judged("select  a from t", PASSED, language="sql"), judged("select a\nfrom t", FAILED, language="sql")]
    assert kinds(make(*queries, name="space"), "contradictions") == {"equal but for white space and comments": 2}


def test_two_judges_contradict_only_if_the_one_that_passes_has_as_many_tests(make):
    attempt = Attempt("t", RIGHT)
    for official, total, found in ((True, 0, 1), (False, 3, 1), (False, 9, 0), (False, 0, 0)):
        verdicts = [
            Verdict(attempt.attempt_id, FAILED, judge="recorded:a", total=total),
            Verdict(attempt.attempt_id, PASSED, judge="upsolve-1", total=3),
        ]
        task = Task("t", "Add.", official=official)
        archive = make((attempt, *verdicts), tasks=[task], name=f"{official}{total}")
        assert kinds(archive, "contradictions") == ({"equal code, two judges": 1} if found else {})
        assert archive_info(archive).contradicting == found


def test_flaky_verdicts_are_found(make):
    flaky = Attempt("t", RIGHT)
    finding = Finding("flaky", "outcome", "passed, failed", 1)
    archive = make(
        (flaky, Verdict(flaky.attempt_id, PASSED, judge="upsolve-1", findings=(finding,))),
        judged(WRONG, FAILED, PASSED),
        judged("def total(values): return sum(values)", PASSED, Status.UNSCORED, PASSED),
    )
    done = examine(archive, ["flaky"])
    assert [row.examples[0]["record"] for row in done.found] == [flaky.attempt_id]
    assert kinds(archive, "flaky") == {"flaky verdicts": 2}
    assert kinds(make(judged(RIGHT, PASSED, PASSED), judged(WRONG, FAILED), name="calm"), "flaky") == {}


def test_near_duplicates_have_the_same_outcome_and_task(make):
    again = RIGHT + "# done\n"
    tasks = [Task("t", "Add."), Task("u", "Add them up.")]
    assert kinds(make(judged(RIGHT, PASSED), judged(again, PASSED)), "duplicates") == {"nearly equal attempts": 1}
    apart = make(judged(RIGHT, PASSED), judged(again, FAILED), judged(again, PASSED, task="u"), tasks=tasks, name="apart")
    assert kinds(apart, "duplicates") == {}
    assert kinds(make(judged(RIGHT, PASSED), judged(WRONG, PASSED), name="other"), "duplicates") == {}


def test_what_the_prompt_gives_does_not_make_attempts_alike(make):
    given = f'def f(values):\n    """{" ".join(f"word{n}" for n in range(300))}"""\n'
    attempts = [judged(f"{given}    return {body}\n", PASSED) for body in ("sum(values)", "values[0] + values[1]")]
    assert kinds(make(*attempts, tasks=[Task("t", f"Complete this.\n{given}")]), "duplicates") == {}
    assert kinds(make(*attempts, name="invented"), "duplicates") == {"nearly equal attempts": 1}


def test_copies_by_one_author_are_one_attempt_and_by_another_a_duplicate(make):
    copies = [judged(RIGHT, PASSED), judged(RIGHT, PASSED, author="ben"), judged(RIGHT, PASSED, author="ben")]
    assert kinds(make(*copies[:2], copies[0]), "duplicates") == {"equal attempts": 1}
    assert kinds(make(*copies, name="three"), "duplicates") == {"equal attempts": 2}


def test_the_threshold_of_duplicates_can_be_set(make):
    archive = make(judged(RIGHT, PASSED), judged(RIGHT + "# done\n", PASSED))
    assert kinds(archive, "duplicates", duplicates={"threshold": 0.99}) == {}


def test_tasks_with_nearly_the_same_prompt_and_reference_are_found(make):
    text = "Write a function that returns the sum of all numbers of a list, and zero if the list is empty."
    tasks = [
        Task("a", text, reference=RIGHT),
        Task("b", text.replace("empty", "void"), reference=RIGHT),
        Task("c", text, reference=WRONG),
        Task("d", "Write a function that reverses a word.", reference=RIGHT),
    ]
    assert kinds(make(tasks=tasks), "duplicate_tasks") == {"nearly equal tasks": 1}
    assert kinds(make(tasks=[tasks[0], tasks[2], tasks[3]], name="apart"), "duplicate_tasks") == {}


def test_a_later_check_does_not_see_what_an_earlier_one_removes(make):
    archive = make(judged(RIGHT, PASSED, judge="recorded:a"), judged(RIGHT, FAILED, judge="recorded:a", author="ben"))
    found = {row.check: (row.found, row.of) for row in examine(archive, ["duplicates", "contradictions"]).found}
    assert found == {"contradictions": (2, 2), "duplicates": (0, 0)}


@pytest.mark.parametrize("rows", [1, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_fixed_archive_has_the_rest_and_a_file_has_what_is_missing(make, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(fixing, "ROWS", rows)
    twin = judged(RIGHT + "# done\n", PASSED, author="ben")
    tasks = [Task("t", "Add."), Task("u", "Add all of these numbers up, please, and print the sum of them")]
    tasks += [Task("v", tasks[1].prompt)]
    archive = make(judged(RIGHT, PASSED), twin, judged(WRONG, FAILED), judged(WRONG, FAILED, task="v"), tasks=tasks)
    compact(archive, keep_hours=0)
    before = {file: file.read_bytes() for file in archive.path.rglob("*.parquet")}
    done = write_cleaned(archive, examine(archive), tmp_path / "out")
    assert before == {file: file.read_bytes() for file in archive.path.rglob("*.parquet")}
    out = Archive(tmp_path / "out")
    assert [task.task_id for task in out.tasks()] == ["t", "u"]
    assert [attempt.code for attempt in out.attempts()] == [RIGHT, WRONG]
    assert {verdict.attempt_id for verdict in out.verdicts()} == {attempt.attempt_id for attempt in out.attempts()}
    removed = {name: lines(tmp_path / "out" / "removed" / f"{name}.jsonl") for name in ("tasks", "attempts", "verdicts")}
    assert removed["tasks"][0]["task_id"] == "v"
    assert [row["code"] for row in removed["attempts"]] == [twin[0].code, WRONG]
    assert [row["reasons"] for row in removed["attempts"]] == [
        [f"duplicates: nearly equal to {Attempt('t', RIGHT).attempt_id} at t, with the same outcome"],
        ["its task was removed: duplicate_tasks: nearly the same prompt as u"],
    ]
    assert {name: len(rows) for name, rows in removed.items()} == dict(done.removed)
    for name, kept in (("tasks", 2), ("attempts", 2), ("verdicts", 2)):
        assert len(archive.column(name, "task_id" if name == "tasks" else "attempt_id")) == kept + len(removed[name])
    assert examine(out).changes == {"tasks": {}, "attempts": {}}


def test_a_program_that_keeps_one_row_keeps_its_verdicts(make, tmp_path):
    archive = make(judged(RIGHT, PASSED), judged(RIGHT, author="ben"))
    write_cleaned(archive, examine(archive), tmp_path / "out")
    (group,) = Archive(tmp_path / "out").groups()
    assert [attempt.author for attempt in group.attempts] == ["ann"] and group.verdicts[0].status is PASSED


def test_a_folder_that_is_not_empty_is_refused(make, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(ArchiveError, match="not empty"):
        write_cleaned(make(), examine(make()), tmp_path / "out")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("duplicates.treshold=0.9", "has no option treshold; its options: threshold"),
        ("duplicates.threshold=high", "'high' is not of type float"),
        ("duplicate.threshold=0.9", "did you mean duplicates"),
        ("threshold=0.9", "must be check.option=value"),
    ],
)
def test_a_wrong_setting_is_refused(word, message):
    with pytest.raises(ConfigError, match=message):
        parse_settings([word])


@pytest.mark.parametrize(
    ("out", "said"), [("full", "is not empty"), ("file", "file: cannot be written"), ("file/below", "below: cannot be written")]
)
def test_the_folder_of_a_cleaned_archive_is_tried_before_the_checks(make, tmp_path, monkeypatch, out, said):
    (tmp_path / "full").mkdir()
    for file in (tmp_path / "file", tmp_path / "full" / "x"):
        file.touch()
    monkeypatch.setattr("upsolve.clean.doctor.examine", None)
    with pytest.raises(ArchiveError, match=said):
        app(["archive", "doctor", str(make().path), "--fix", str(tmp_path / out)], standalone_mode=False)


def test_the_command_prints_what_it_found(make, tmp_path, capsys):
    archive = make(judged(RIGHT, PASSED), judged(RIGHT, PASSED, author="ben"))
    words = ["archive", "doctor", str(archive.path), "--check", "duplicates"]
    app([*words, "--json", "--fix", str(tmp_path / "out")], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    (row,) = printed["found"]
    assert (row["found"], row["share"], row["actions"]) == (1, 0.5, {"remove": 1})
    assert row["examples"][0]["record"] == Attempt("t", RIGHT).attempt_id
    assert printed["cleaned"]["removed"] == {"tasks": 0, "attempts": 1, "verdicts": 0}
    assert printed["cleaned"]["kept"] == {"tasks": 1, "attempts": 1, "verdicts": 2}
    app([*words, "--check", "secrets", "--check", "contamination"], standalone_mode=False)
    said = capsys.readouterr().out
    said = said[: said.rindex("\nnext: ") + 1]
    assert "1 of 2" in said and said.endswith(
        "found nothing: secrets\ncontamination: not run: needs --set contamination.against=...\n"
    )
    app(["archive", "doctor", "--list"], standalone_mode=False)
    assert "threshold" in capsys.readouterr().out


def test_a_check_that_stops_leaves_no_folder(make, tmp_path):
    archive = make(judged(RIGHT, PASSED))
    with pytest.raises(ConfigError, match="--check nonsense"):
        app(
            ["archive", "doctor", str(archive.path), "--check", "nonsense", "--fix", str(tmp_path / "new")],
            standalone_mode=False,
        )
    assert not (tmp_path / "new").exists()


def test_the_shipped_archive_is_examined_and_not_changed():
    found = {
        row.check: row.found for row in examine(open_archive("embedded"), ["contradictions", "flaky", "duplicate_tasks"]).found
    }
    assert found == {"contradictions": 0, "flaky": 0, "duplicate_tasks": 0}


KEY = "AKIA" + "IOSFODNN7EXAMPLE"
TOKEN = "ghp_" + "a1" * 18
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (KEY, "key"),
        (TOKEN, "key"),
        ("https://ann:s3cret@host/x", "key"),
        (PRIVATE.replace("\n", " "), "key"),
        ("ann.lee@mail.uni-bonn.de", "email"),
        ("call +49 228 7337-01 now", "phone"),
        ("8.8.4.4", "ip"),
    ],
)
def test_secrets_are_found_in_comments_and_texts(make, text, kind):
    programs = judged(f"# {text}\n{RIGHT}", PASSED), judged(f"{RIGHT}URL = '{text}'\n", PASSED), judged(RIGHT, PASSED)
    archive = make(*programs, tasks=[Task("t", f"Ask {text}.")])
    assert kinds(archive, "secrets") == {f"{kind} of the programs": 2, f"{kind} of the prompts": 1}
    others = {"kinds": tuple({"key", "email", "phone", "ip"} - {kind})}
    assert kinds(archive, "secrets", secrets=others) == {}


@pytest.mark.parametrize(
    "code",
    [
        "y = w@x.shape\n",
        "LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'\n",
        "password = 'hunter2'\n",
        "address = 'ann@example.com', 'ben@host.test'\n",
        "local = '192.168.0.1', '127.0.0.1', '10.0.0.1'\n",
        "very_long_name_of_a_variable_in_a_program = 1 +12345678\n",
        "def connect(host='postgres://user:password@host/db'): pass\n",
    ],
)
def test_programs_without_secrets_have_none(make, code):
    assert kinds(make(judged(code, PASSED)), "secrets") == {}


def redacted(archive, folder):
    write_cleaned(archive, examine(archive, ["secrets"]), folder)
    return Archive(folder)


def test_a_redacted_comment_keeps_its_verdicts_and_a_text_does_not(make, tmp_path):
    mail = "ann.lee@uni-bonn.de"
    comment = judged(f'def f():\n    """By {mail}."""\n    return 1  # {mail}\n', PASSED, token_ids=(1, 2), behavior_logp=-1.0)
    text = judged(f"def f():\n    return '{mail}'\n", PASSED)
    child = judged("def f():\n    return 2\n", FAILED, parent_id=comment[0].attempt_id)
    out = redacted(make(comment, text, child), tmp_path / "out")
    (group,) = out.groups()
    changed, other, last = group.attempts
    assert changed.code == 'def f():\n    """By EMAIL_1."""\n    return 1  # EMAIL_1\n'
    assert (changed.token_ids, changed.behavior_logp, changed.author) == (None, None, "ann")
    assert last.parent_id == changed.attempt_id != comment[0].attempt_id
    assert other.code == "def f():\n    return 'EMAIL_1'\n"
    assert [verdict and verdict.status for verdict in group.verdicts] == [PASSED, None, FAILED]
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or mail.encode() not in file.read_bytes(), file
    logged = {name: lines(tmp_path / "out" / "removed" / f"{name}.jsonl") for name in ("attempts", "verdicts")}
    assert [row["action"] for row in logged["attempts"]] == ["redacted", "redacted"]
    assert [row["action"] for row in logged["verdicts"]] == ["redacted", "removed"]
    assert logged["attempts"][0]["reasons"] == ["secrets: email in line 2 of the code, now EMAIL_1"]
    assert kinds(out, "secrets") == {}


@pytest.mark.parametrize("code", [f"def f(:\n    # {TOKEN}\n", f"x = {KEY}\n# 'a' {KEY}\nprint '1'"])
def test_a_secret_in_a_program_without_a_syntax_tree_removes_the_program(make, tmp_path, code):
    out = redacted(make(judged(code, FAILED), judged(RIGHT, PASSED)), tmp_path / "out")
    assert [attempt.code for attempt in out.attempts()] == [RIGHT]
    (row,) = lines(tmp_path / "out" / "removed" / "attempts.jsonl")
    assert "KEY_1" in row["code"] and TOKEN not in row["code"] and KEY not in row["code"]


def test_a_private_key_is_replaced_as_a_whole(make, tmp_path):
    out = redacted(make(judged(f'KEY = """{PRIVATE}"""\n{RIGHT}', PASSED)), tmp_path / "out")
    assert [attempt.code for attempt in out.attempts()] == [f'KEY = """KEY_1"""\n{RIGHT}']


def test_other_languages_are_redacted_with_their_grammar(make, tmp_path):
    code = "int f() { return 1; } // ann.lee@uni-bonn.de\n"
    out = redacted(make(judged(code, PASSED, language="c")), tmp_path / "out")
    (group,) = out.groups()
    assert group.attempts[0].code == "int f() { return 1; } // EMAIL_1\n" and group.verdicts[0].status is PASSED


def test_a_text_that_the_tests_have_is_part_of_the_problem(make, tmp_path):
    test = TestCase(TestKind.CALL, "valid('8.8.4.4')", "True")
    task = Task("t", "Is an address valid? '8.8.4.4' is; ask ann.lee@uni-bonn.de.", (test,))
    archive = make(judged("def valid(x):\n    return x == '8.8.4.4'\n", PASSED), tasks=[task])
    found = {row.kind: row.actions for row in examine(archive, ["secrets"]).found}
    assert found == {
        "ip of the prompts": {"report": 1},
        "email of the prompts": {"redact": 1},
        "ip of the programs": {"report": 1},
    }
    out = redacted(archive, tmp_path / "out")
    assert out.tasks()[0].prompt == "Is an address valid? '8.8.4.4' is; ask EMAIL_1." and len(out.verdicts()) == 1


def test_verdicts_do_not_give_a_secret_away(make, tmp_path):
    attempt = Attempt("t", f"# {TOKEN}\n{RIGHT}")
    verdict = Verdict(attempt.attempt_id, PASSED, judge="upsolve-1", stdout_head=f"I am {TOKEN}")
    out = redacted(make((attempt, verdict)), tmp_path / "out")
    assert [verdict.stdout_head for verdict in out.verdicts()] == ["I am KEY_1"]


def test_all_secrets_of_a_prompt_are_redacted_in_all_texts_of_its_task(make, tmp_path):
    mails = ("ann.lee@uni-bonn.de", "ben@uni-bonn.de")
    task = Task("t", f"Ask {mails[0]} or {mails[1]}.", reference=f"# {mails[1]}\n{RIGHT}", extra=json.dumps({"by": mails[0]}))
    (done,) = redacted(make(judged(RIGHT, PASSED), tasks=[task]), tmp_path / "out").tasks()
    assert done.prompt == "Ask EMAIL_1 or EMAIL_2."
    assert (done.reference, json.loads(done.extra)) == (f"# EMAIL_2\n{RIGHT}", {"by": "EMAIL_1"})
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or not any(mail.encode() in file.read_bytes() for mail in mails), file


def test_a_secret_in_an_answer_is_redacted_there_and_in_extra(make, tmp_path):
    code = f"def f():  # {TOKEN}\n    return w@x.shape\n"
    answer = f"Ask ben@uni-bonn.de; w@x.shape is a product.\n```python\n{code}```\n"
    extra = json.dumps({"messages": [answer], "key": PRIVATE})
    first = judged(code, PASSED, answer=answer, extra=extra)
    other = judged(RIGHT, PASSED, answer=f"{PRIVATE}\n```python\n{RIGHT}```", extra=extra)
    archive = make(first, other)
    assert kinds(archive, "secrets") == {
        "key of the programs": 1,
        "email of the answers": 1,
        "key of the answers": 1,
        "email in extra": 2,
        "key in extra": 2,
    }
    attempt, last = redacted(archive, tmp_path / "out").attempts()
    assert attempt.code == "def f():  # KEY_1\n    return w@x.shape\n"
    assert attempt.answer == f"Ask EMAIL_2; w@x.shape is a product.\n```python\n{attempt.code}```\n"
    assert json.loads(attempt.extra) == {"messages": [attempt.answer], "key": PRIVATE}
    assert (last.code, last.answer) == (RIGHT, f"KEY_3\n```python\n{RIGHT}```") and last.attempt_id == other[0].attempt_id
    assert json.loads(last.extra)["key"] == "KEY_3"
    assert len(Archive(tmp_path / "out").verdicts()) == 2


def test_an_author_that_is_an_address_is_reported(make, tmp_path):
    archive = make(judged(RIGHT, PASSED, author="ann.lee@uni-bonn.de"), judged(WRONG, FAILED))
    assert kinds(archive, "secrets") == {"email in author": 1}
    assert [attempt.author for attempt in redacted(archive, tmp_path / "out").attempts()] == ["ann.lee@uni-bonn.de", "ann"]


@pytest.mark.parametrize(
    ("code", "language", "found"),
    [
        ("for i in range(3): print i\n", "python", "python2"),
        ("try:\n    x = 1\nexcept ValueError, error:\n    pass\n", "python3", "python2"),
        ("def f(x):\n    raise ValueError, 'no'\n", "python", "python2"),
        ("def f((a, b)):\n    return a\n", "", "python2"),
        ("x = 0777\n", "python", "python2"),
        ("if x:\n\ty = 1\n        z = 2\n", "python", "python2"),
        ("int main() { return 0; }\n", "python", "c"),
        ("fn main() { let x = 1; }\n", "python", "rust"),
        ("function f(x) { return x; }\n", "python", "javascript"),
        ("const x: number = 1;\n", "javascript", "typescript"),
        ("#include <vector>\nint main() { std::vector<int> a; return 0; }\n", "c", "cpp"),
        (RIGHT, "sql", "python"),
        (RIGHT, "java", "python"),
    ],
)
def test_code_in_another_language_is_found(make, code, language, found):
    archive = make(judged(code, FAILED, judge="recorded:a", language=language), judged(RIGHT, PASSED))
    name = language or "no language"
    assert kinds(archive, "language") == {f"{found} code in {name}": 1}


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("def f(:\n    print the sum\n", "python"),
        ("def f(a=1, b):\n    '''\n    print the sum\n    '''\n", "python"),
        ("Here is the program you can use: it prints i.\n", "python"),
        ("def f(x):\n    return x\n```\nThis class adds {\n", "python"),
        ("int main() {\n  return\n", "c"),
        ("x\n", "java"),
        ("select a from t where\n", "sql"),
        ("class A { void f() {} }\n", "java"),
        ("", "java"),
    ],
)
def test_code_with_errors_of_its_own_is_in_its_language(make, code, language):
    assert kinds(make(judged(code, FAILED, judge="recorded:a", language=language)), "language") == {}


def test_licences_come_from_the_attempt_or_its_task_and_others_can_be_removed(make):
    tasks = [Task("t", "Add."), Task("u", "Sort.", extra='{"licence": "CC0-1.0"}')]
    archive = make(
        judged("a = 1", PASSED, extra='{"license": "MIT"}'),
        judged("b = 1", PASSED, extra='{"license": "GPL-3.0"}'),
        judged("c = 1", PASSED, extra='{"points": 3, "license": ""}'),
        judged("d = 1", PASSED, task="u"),
        tasks=tasks,
    )
    assert kinds(archive, "licences") == {"licence not stated": 1}
    done = examine(archive, ["licences"], parse_settings(["licences.keep=mit, cc0-1.0"]))
    assert {row.kind: row.actions for row in done.found} == {
        "licence GPL-3.0": {"remove": 1},
        "licence not stated": {"remove": 1},
    }
    assert kinds(archive, "licences", licences={"keep": ("MIT", "CC0-1.0", "GPL-3.0", "none")}) == {}


def test_authors_and_sources_are_looked_for(make):
    tasks = [Task("t", "Add."), Task("u", "Sort.", source="mbpp")]
    archive = make(
        judged("a = 1", PASSED, author="", extra='{"user_id": 7, "url": "here"}'),
        judged("b = 1", PASSED, author=""),
        judged("c = 1", PASSED, author="ann", task="u"),
        tasks=tasks,
    )
    assert kinds(archive, "provenance") == {"no author": 1, "no source": 1}
    assert kinds(make(judged("c = 1", author="ann", task="u"), tasks=tasks, name="stated"), "provenance") == {}


SORT = "Write a function that sorts the words of a sentence by their lengths, and equally long ones by the alphabet."
REFERENCE = (
    "def by_length(text):\n    words = text.split()\n    return sorted(words, key=lambda word: (len(word), word.lower()))\n"
)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (Task("t", SORT + " Return a list."), "nearly the same prompt as 3"),
        (
            Task("t", f"You are a careful programmer who explains every step. {SORT} Think first, then answer."),
            "contains the prompt of 3",
        ),
        (
            Task("t", "sorts the words of a sentence by their lengths, and equally long"),
            "its prompt is part of the prompt of 3",
        ),
        (Task("t", "Order words.", reference=REFERENCE), "same reference as 3"),
        (
            Task("t", "Order words.", reference=f"import re\n\n{REFERENCE}\n\nprint(by_length(input()))\n"),
            "contains the reference of 3",
        ),
        (Task("t", "Order words.", reference=REFERENCE.replace("):\n", "): \n")), "same reference as 3"),
    ],
)
def test_tasks_of_a_benchmark_are_found(make, tmp_path, task, reason):
    (tmp_path / "bench.jsonl").write_text(json.dumps({"task_id": 3, "text": SORT, "code": REFERENCE, "test_list": []}) + "\n")
    clean = Task(
        "u", "Write a function that sorts the words of a list by the alphabet.", reference="def f(x): return sorted(x)"
    )
    archive = make(tasks=[task, clean])
    for name in (str(tmp_path / "bench.jsonl"), f"mbpp:{tmp_path / 'bench.jsonl'}"):
        done = examine(archive, ["contamination"], {"contamination": {"against": (name,)}})
        assert [(row.kind, row.found) for row in done.found] == [(f"tasks of {name}", 1)]
        assert done.found[0].examples[0]["record"] == "t"
    other = make(tasks=[Task("3", SORT, reference=REFERENCE)], name="benchmark")
    done = examine(archive, ["contamination"], {"contamination": {"against": (str(other.path),)}})
    assert [row.examples for row in done.found] == [[{"record": "t", "reason": reason}]]


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("Be brief. Write a function to reverse a string, please.", 1),
        ("Write a function to reverse a list, please.", 0),
        ("Write a function to count the words of a string.", 0),
    ],
)
def test_short_prompts_are_looked_for_as_a_whole(make, tmp_path, prompt, found):
    (tmp_path / "bench.jsonl").write_text(json.dumps({"prompt": "Write a function to reverse a string."}) + "\n")
    archive = make(tasks=[Task("t", prompt)])
    assert len(kinds(archive, "contamination", contamination={"against": (str(tmp_path / "bench.jsonl"),)})) == found


CALLS = ("add_Up((1, 2), 3)", "add_Up((4,), 5)", "add_Up((), 0)")


@pytest.mark.parametrize(
    ("tests", "name", "reason"),
    [
        (CALLS, "add_Up", "contains the set of tests of 3"),
        (("add_up([1, 2], 3)", "accepts(add_up([4], 5), 9)", "add_up([], 0)"), "add_up", "contains the set of tests of 3"),
        ((*CALLS[:2], "add_Up((7,), 0)"), "add_Up", ""),
        (tuple(text.replace("add_Up", "other") for text in CALLS), "other", ""),
        (("add_Up(((",), "add_Up", ""),
    ],
    ids=["the same", "renamed, lists for tuples", "one of three differs", "another function", "not Python"],
)
def test_a_task_with_the_tests_of_a_benchmark_is_found_whatever_its_words(make, tests, name, reason):
    """MBPP+ rewrote the statements and references of a third of its tasks, and kept MBPP's tests."""
    benchmark = [Task("3", SORT, entry_point="add_Up", tests=tuple(TestCase(TestKind.CALL, text) for text in CALLS))]
    ours = Task("t", "Total.", entry_point=name, tests=tuple(TestCase(TestKind.CALL, text) for text in tests))
    given = make(tasks=benchmark, name="benchmark")
    done = examine(make(tasks=[ours]), ["contamination"], {"contamination": {"against": (str(given.path),)}})
    assert [row.examples[0]["reason"] for row in done.found if row.found] == [reason] * bool(reason)


def test_programs_with_the_same_inputs_and_outputs_are_found_and_two_of_them_are_too_few(make):
    tests = tuple(TestCase(TestKind.STDIO, f"{n}\n", f"{n * n}\n") for n in (3, 17, 29))
    given = make(tasks=[Task("3", SORT, tests=tests)], name="benchmark")
    archive = make(tasks=[Task("t", "Square a number.", tests=tests[::-1]), Task("u", "Square one.", tests=tests[:2])])
    done = examine(archive, ["contamination"], {"contamination": {"against": (str(given.path),)}})
    assert [row.examples for row in done.found] == [[{"record": "t", "reason": "contains the set of tests of 3"}]]


def test_tasks_of_real_benchmarks_are_found_and_others_are_not(real_data, tmp_path):
    archive = Archive.create(tmp_path / "mbpp")
    ingest(archive, "mbpp", real_data / "mbpp" / "mbpp.jsonl")
    for name, found in (("mbpp/mbpp.jsonl", [974]), ("humaneval/HumanEval.jsonl.gz", [])):
        source = name.partition("/")[0]
        settings = {"contamination": {"against": (f"{source}:{real_data / name}",)}}
        assert [*kinds(archive, "contamination", **settings).values()] == found, name


def test_contamination_is_not_looked_for_without_a_benchmark(make):
    (row,) = examine(make(), ["contamination"]).found
    assert (row.kind, row.found) == ("not run: needs --set contamination.against=...", 0)


def test_a_benchmark_that_cannot_be_read_is_an_error(make, tmp_path):
    (tmp_path / "odd.jsonl").write_text('{"id": 1}\n')
    for name, message in (
        (str(tmp_path / "odd.jsonl"), "line 1: has none of the fields"),
        ("nowhere", "no such archive or file"),
    ):
        with pytest.raises(ConfigError, match=f"--against .*{message}"):
            examine(make(), ["contamination"], {"contamination": {"against": (name,)}})


def test_tasks_without_both_outcomes_are_reported_by_reason(make, tmp_path):
    tasks = [Task(name, f"Task {name}.") for name in "abcdef"]
    archive = make(
        *(judged(f"x = {n}", PASSED, task="a") for n in range(3)),
        *(judged(f"x = {n}", FAILED, task="b") for n in range(3)),
        judged("x = 1", PASSED, task="c"),
        judged("x = 1", task="d"),
        *(judged("x = 1", PASSED, task="f"), judged("x = 2", FAILED, task="f")),
        tasks=tasks,
    )
    reasons = ("all passed", "all failed", "one attempt", "no scored attempt", "no attempt")
    assert kinds(archive, "signal") == {f"tasks: {reason}": 1 for reason in reasons}
    assert write_cleaned(archive, examine(archive, ["signal"]), tmp_path / "out").removed["tasks"] == 0


def test_caps_keep_both_outcomes(make, tmp_path):
    attempts = [judged(f"x = {n}", PASSED if n < 2 else FAILED, author=f"author {n % 2}") for n in range(10)]
    archive = make(*attempts)
    settings = parse_settings(["balance.per_task=4"])
    assert kinds(archive, "balance") == {}
    done = examine(archive, ["balance"], settings)
    assert {row.kind: row.actions for row in done.found} == {"attempts beyond 4 of one task": {"remove": 6}}
    write_cleaned(archive, done, tmp_path / "out")
    (group,) = Archive(tmp_path / "out").groups()
    assert sorted(verdict.status for verdict in group.verdicts) == [FAILED, FAILED, PASSED, PASSED]
    assert kinds(archive, "balance", balance={"per_author": 3}) == {"attempts beyond 3 of one author": 4}


def test_crowded_tasks_and_the_author_of_most_are_reported(make):
    tasks = [Task(name, f"Task {name}.") for name in "abc"]
    many = [judged(f"x = {n}", PASSED, task="a", author=f"author {n}") for n in range(11)]
    archive = make(*many, judged("y", PASSED, task="b", author="y"), judged("y", PASSED, task="c", author="z"), tasks=tasks)
    assert kinds(archive, "balance") == {"attempts at tasks with 10 times the median": 11}
    by_one = make(*(judged(f"x = {n}", PASSED, author="ann" if n < 6 else "") for n in range(10)), name="one")
    assert kinds(by_one, "balance") == {"attempts by the author of most of them": 6}


def test_attempts_in_other_languages_are_counted(make):
    archive = make(judged("a", PASSED), judged("b", PASSED, language="py"), judged("int a;", FAILED, language="c"))
    assert kinds(archive, "languages") == {"attempts in c": 1}
    assert kinds(make(judged("a", PASSED), name="one"), "languages") == {}


def test_the_command_takes_benchmarks(make, tmp_path, capsys):
    (tmp_path / "bench.jsonl").write_text(json.dumps({"prompt": SORT}) + "\n")
    archive = make(judged(RIGHT, PASSED), tasks=[Task("t", SORT)])
    words = ["archive", "doctor", str(archive.path), "--against", str(tmp_path / "bench.jsonl"), "--fix", str(tmp_path / "out")]
    app([*words, "--check", "contamination", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["cleaned"]["removed"] == {"tasks": 1, "attempts": 1, "verdicts": 1}


def test_an_empty_archive_has_no_faults(make):
    assert kinds(make(tasks=())) == {}


def test_a_damaged_part_is_named(make):
    archive = make(judged(RIGHT, PASSED))
    part = archive.parts("verdicts")[0]
    part.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ArchiveError, match=part.name):
        examine(archive)


def test_what_an_interrupt_leaves_is_no_archive(make, tmp_path, monkeypatch):
    archive = make(judged(RIGHT, PASSED))
    done = examine(archive, ["flaky"])
    monkeypatch.setattr(fixing.Fix, "write_part", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_cleaned(archive, done, tmp_path / "out")
    with pytest.raises(ArchiveError, match="not an archive"):
        Archive(tmp_path / "out")


def test_an_archive_of_the_package_is_no_folder_to_write_to(make):
    archive = make()
    with pytest.raises(ArchiveError, match="read-only"):
        write_cleaned(archive, examine(archive, ["flaky"]), "embedded-sql")


def test_a_pair_of_students_programs_contradicts(real_data, tmp_path):
    """Two programs of Refactory's question 4 differ in where a comment stands, and one is recorded as wrong."""
    archive = Archive.create(tmp_path / "refactory")
    ingest(archive, "refactory", real_data / "refactory" / "data.zip")
    assert kinds(archive, "contradictions", "flaky") == {"equal but for white space and comments": 2}


@pytest.mark.slow
def test_a_hundred_thousand_attempts_take_less_than_two_minutes_of_a_core(tmp_path):
    """Processor time, which other work on the machine changes little."""
    archive, choose = Archive.create(tmp_path / "large"), random.Random(0)
    groups = open_archive("embedded").groups()
    tasks = [Task(str(number), f"Task number {number} of {choose.random()}.") for number in range(1000)]
    archive.append(tasks=tasks)
    codes = [attempt.code for group in groups for attempt in group.attempts]
    attempts = [
        Attempt(task.task_id, f"{choose.choice(codes)}\n# {choose.random()}", author=f"author {n}")
        for task in tasks
        for n in range(100)
    ]
    statuses = [choose.choice((PASSED, FAILED)) for _ in attempts]
    verdicts = [
        Verdict(attempt.attempt_id, status, judge="recorded:a") for attempt, status in zip(attempts, statuses, strict=True)
    ]
    archive.append(attempts=attempts, verdicts=verdicts)
    started = time.process_time()
    write_cleaned(archive, examine(archive), tmp_path / "out")
    assert time.process_time() - started < 120
