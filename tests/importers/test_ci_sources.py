"""The sources of CI's reports, on files in their documented layouts, about a repository written here."""

import json
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from repositories import commit, git

from upsolve.archive.preference import preferred
from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.history.ci import Report, is_same_test, merged, name_of
from upsolve.importers.ingest import ingest
from upsolve.importers.logs.ci_reports import SARIF, parse_junit, parse_log, parse_pytest
from upsolve.types import Status
from upsolve.verify.judge.plans import judge_all

ADD = "def add(a, b):\n    return a {} b\n"
TEST = "from kit.text import add\n\ndef test_add():\n    assert add(2, 2) == 4\n\ndef test_more():\n    assert add(1, 2) == 3\n"
GOOD, BAD = {"test_add": "", "test_more": ""}, {"test_add": "", "test_more": "assert 2 == 3"}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "kit"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    return place


@pytest.fixture
def pair(folder):
    """Hashes of the commit before a fix and of the fix."""
    files = {"kit/text.py": ADD.format("*"), "tests/test_text.py": TEST}
    return commit(folder, "Start", files), commit(folder, "Add, do not multiply", {"kit/text.py": ADD.format("+")})


def xml(cases, head=""):
    """JUnit XML: name -> message of its failure, or an element."""
    rows = []
    for name, said in cases.items():
        inner = said if said.startswith("<") else f"<failure message={quoteattr(said)}>text</failure>" if said else ""
        rows.append(f'<testcase classname="tests.test_text" name="{name}">{inner}</testcase>')
    return f'<?xml version="1.0" encoding="utf-8"?>{head}<testsuites><testsuite name="pytest">{"".join(rows)}</testsuite></testsuites>'


def import_reports(tmp_path, folder, source, files, **options):
    """Import reports (name -> text); return the archive and the rejected rows."""
    reports, count = tmp_path / "reports", len([*tmp_path.glob("archive*")])
    for name, text in files.items():
        (reports / name).parent.mkdir(parents=True, exist_ok=True)
        (reports / name).write_text(text)
    archive = Archive.create(tmp_path / f"archive{count}")
    report = ingest(archive, source, reports, repository=str(folder), **options)
    return archive, [json.loads(line) for line in report.rejected.read_text().splitlines()] if report.rejected else []


def test_two_reports_on_a_commit_and_its_parent_make_a_task(tmp_path, folder, pair):
    first, fix = pair
    archive, bad = import_reports(
        tmp_path, folder, "junit", {f"{first}.xml": xml(BAD), f"run-7/{fix[:10]}/junit.xml": xml(GOOD)}
    )
    (group,) = archive.groups()
    place = f"{folder}@{first[:12]}:kit/text.py"
    assert bad == [{"file": place, "line": 0, "reason": bad[0]["reason"], "text": "Start"}]
    assert group.task.task_id == f"ci/kit/{fix[:12]}" and not group.task.official
    assert [attempt.code for attempt in group.attempts] == [ADD.format("*"), ADD.format("+")]
    before, after = group.verdicts
    assert before.outcomes == (Status.FAILED, Status.PASSED) and before.error_message == "assert 2 == 3"
    assert (after.status, after.passed, after.total, after.judge) == (Status.PASSED, 2, 2, "recorded:junit")
    assert "- tests.test_text::test_more" in group.task.prompt and "The first fails with: assert 2 == 3" in group.task.prompt
    judged = judge_all([(group.task, attempt) for attempt in group.attempts])
    assert [verdict.outcomes for verdict in judged] == [before.outcomes, after.outcomes]


def test_tests_that_only_ci_can_run_leave_the_recorded_outcomes(tmp_path, folder, pair):
    first, fix = pair
    text = {**BAD, "test_more": "", "test_database": "no row"}
    files = {f"{first}.xml": xml(text), f"{fix}.xml": xml({**GOOD, "test_database": ""})}
    (group,) = import_reports(tmp_path, folder, "junit", files)[0].groups()
    assert group.task.tests == () and json.loads(group.task.extra)["repaired"] == ["tests.test_text::test_database"]
    assert [verdict.status for verdict in group.verdicts] == [Status.FAILED, Status.PASSED]


def test_of_the_repaired_tests_those_become_tests_of_the_task_that_give_the_same_in_the_sandbox(tmp_path, folder):
    file = "\ndef test_file():\n    assert open('data.txt').read() == str(add(1, 2))\n"
    first = commit(folder, "Start", {"kit/text.py": ADD.format("*"), "tests/test_text.py": TEST + file, "data.txt": "3"})
    fix = commit(folder, "Fix", {"kit/text.py": ADD.format("+")})
    files = {f"{first}.xml": xml({**BAD, "test_file": "2"}), f"{fix}.xml": xml({**GOOD, "test_file": ""})}
    (group,) = import_reports(tmp_path, folder, "junit", files)[0].groups()
    assert [verdict.outcomes for verdict in group.verdicts] == [(Status.FAILED, Status.PASSED), (Status.PASSED, Status.PASSED)]
    assert len(group.task.tests) == 2 and not any("data.txt" in test.input for test in group.task.tests)


def test_a_test_that_passed_and_failed_on_one_commit_judges_nothing(tmp_path, folder, pair):
    first, fix = pair
    cases = {**BAD, "test_coin": "tails"}
    files = {
        f"{first}.xml": xml(cases),
        f"1/{fix}.xml": xml({**GOOD, "test_coin": ""}),
        f"2/{fix}.xml": xml({**GOOD, "test_coin": "tails"}),
    }
    (group,) = import_reports(tmp_path, folder, "junit", files)[0].groups()
    facts = json.loads(group.task.extra)
    assert facts["repaired"] == ["tests.test_text::test_more"] and facts["flaky"] == ["tests.test_text::test_coin"]
    assert group.verdicts[1].status is Status.PASSED and group.verdicts[1].total == 2
    assert [(one.kind, one.message.partition(":")[0]) for one in group.verdicts[1].findings] == [("flaky", "tests.test_text")]
    assert flaky_before(tmp_path, folder, pair) == ["tests.test_text::test_coin"]
    maven = '<flakyFailure message="once">trace</flakyFailure>'
    again = {f"{first}.xml": xml(cases), f"1/{fix}.xml": xml({**GOOD, "test_coin": maven}), f"2/{fix}.xml": xml(GOOD)}
    (group,) = import_reports(tmp_path, folder, "junit", again)[0].groups()
    assert json.loads(group.task.extra)["flaky"] == ["tests.test_text::test_coin"]


def flaky_before(tmp_path, folder, pair):
    """Flaky tests where one passed and failed before the fix and passes after it; it repairs one other."""
    cases, (first, fix) = {**BAD, "test_coin": ""}, pair
    both = {f"1/{first}.xml": xml(cases), f"2/{first}.xml": xml({**cases, "test_coin": "tails"})}
    reports = {**both, f"{fix}.xml": xml({**GOOD, "test_coin": ""})}
    (group,) = import_reports(tmp_path / "before", folder, "junit", reports)[0].groups()
    facts = json.loads(group.task.extra)
    assert facts["repaired"] == ["tests.test_text::test_more"]
    return facts["flaky"]


LAUGHS = (
    '<!DOCTYPE lolz [<!ENTITY lol "lol">'
    + "".join(f'<!ENTITY l{n} "{f"&l{n - 1 or str()};" * 10}">' for n in range(1, 10))
    + "]>"
)


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (xml({"test_add": "&l9;"}, LAUGHS), "a document type (<!DOCTYPE>) is refused", 0),
        (xml({}, '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>'), "a document type (<!DOCTYPE>) is refused", 0),
        (xml(GOOD).replace(" name", "\n\n name", 1)[:-90], "not XML: ", 3),
        ("<html/>", "the root element is <html>, not <testsuites>", 0),
        ("", "no element found", 1),
        ("\0\1", "not XML: ", 1),
    ],
)
def test_a_report_that_cannot_be_read_is_named_and_rejected(tmp_path, folder, pair, text, reason, line):
    first, fix = pair
    files = {f"{first}.xml": xml(BAD), f"{fix}.xml": xml(GOOD), "bad.xml": text}
    archive, bad = import_reports(tmp_path, folder, "junit", files)
    (row,) = [row for row in bad if row["file"].endswith("bad.xml")]
    assert reason in row["reason"] and row["line"] == line
    assert len(archive.groups()) == 1


@pytest.mark.parametrize(
    ("source", "name", "text", "line"),
    [
        ("pytest_json", "a.jsonl", '{"$report_type": "SessionStart"}\n{broken\n', 2),
        ("pytest_json", "a.json", '{"tests": [\n{]}', 2),
        ("sarif", "a.sarif", '{"runs": [\n\n', 3),
        ("github_log", "a.log", "no test here\n", 0),
    ],
)
@pytest.mark.usefixtures("pair")
def test_a_report_in_json_that_cannot_be_read_is_rejected_with_its_line(tmp_path, folder, source, name, text, line):
    (row,) = import_reports(tmp_path, folder, source, {name: text})[1]
    assert (Path(row["file"]).name, row["line"]) == (name, line) and "Error: " not in row["reason"]


def test_what_names_no_known_commit_is_rejected_and_what_has_no_repository_refused(tmp_path, folder, pair):
    first, fix = pair
    archive, bad = import_reports(
        tmp_path, folder, "junit", {"a.xml": xml(GOOD), f"{'1' * 40}.xml": xml(GOOD), f"{fix}.xml": xml(GOOD)}
    )
    assert len(bad) == 3 and {Path(row["file"]).name: row["reason"] for row in bad} == {
        "a.xml": "it names no commit (--commit)",
        f"{'1' * 40}.xml": f"commit {'1' * 40} is not in the repository",
        f"{fix}.xml": f"commit {fix[:12]}: its parent commit {first[:12]} has no report; add one",
    }
    assert not archive.tasks()
    with pytest.raises(SourceError, match="--repository is needed"):
        ingest(archive, "junit", tmp_path / "reports")
    with pytest.raises(SourceError, match=r"contains no report: \*.json, \*.jsonl"):
        ingest(archive, "pytest_json", tmp_path / "reports", repository=str(folder))


def test_reports_of_which_none_can_be_used_are_not_taken_as_imported(tmp_path, folder, pair):
    _, fix = pair
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / f"{fix}.xml").write_text(xml(GOOD))
    archive = Archive.create(tmp_path / "archive")
    for _ in range(2):
        done = ingest(archive, "junit", tmp_path / "reports", repository=str(folder))
        assert done.too_many and done.bad == 1 and "nothing was stored: fix the file" in done.text()
    assert not ingest(archive, "junit", tmp_path / "reports", repository=str(folder), max_rejected=1).too_many


def test_the_commit_may_be_an_option_or_a_property(tmp_path, folder, pair):
    first, fix = pair
    file = tmp_path / "one.xml"
    file.write_text(
        xml(GOOD).replace(
            "<testsuite ",
            f'<testsuite><properties><property name="git.commit" value="{fix}"/></properties></testsuite><testsuite ',
        )
    )
    assert parse_junit(file).commits == (fix,)
    archive = Archive.create(tmp_path / "archive")
    report = ingest(archive, "junit", file, repository=str(folder), commit=first[:8])
    assert report.bad == 1 and "adds or removes" in report.reasons[0].reason
    file.write_text(file.read_text().replace(fix, "HEAD\n"))  # what the commit is called today
    assert "names no commit" in ingest(archive, "junit", file, repository=str(folder)).reasons[0].reason


def phases(name, message, outcome="failed"):
    call = {
        "outcome": outcome if message else "passed",
        **({"crash": {"message": message}, "longrepr": "E " + message} if message else {}),
    }
    return {"nodeid": f"tests/test_text.py::{name}", "outcome": call["outcome"], "setup": {"outcome": "passed"}, "call": call}


def as_object(cases, exit_code=1):
    return json.dumps(
        {"exitcode": exit_code, "environment": {}, "collectors": [], "tests": [phases(*case) for case in cases.items()]}
    )


def as_lines(cases, last=True):
    rows = [{"pytest_version": "9", "$report_type": "SessionStart"}]
    for name, said in cases.items():
        node = {"nodeid": f"tests/test_text.py::{name}", "$report_type": "TestReport"}
        rows += [{**node, "when": "setup", "outcome": "passed", "longrepr": None}]
        longrepr = {"reprcrash": {"path": "x", "lineno": 1, "message": said}} if said else None
        rows += [{**node, "when": "call", "outcome": "failed" if said else "passed", "longrepr": longrepr}]
        rows += [{**node, "when": "teardown", "outcome": "passed", "longrepr": None}]
    return "\n".join(map(json.dumps, [*rows, *([{"exitstatus": 1, "$report_type": "SessionFinish"}] if last else [])]))


def as_log(cases, end=""):
    lines = ["2026-01-02T03:04:05.1234567Z ##[group]Run pytest -v"]
    lines += [
        f"2026-01-02T03:04:05.1234567Z tests/test_text.py::{name} {'FAILED' if said else 'PASSED'}   [ 50%]"
        for name, said in cases.items()
    ]
    lines += [
        f"2026-01-02T03:04:06.1234567Z FAILED tests/test_text.py::{name} - {said}" for name, said in cases.items() if said
    ]
    return "\n".join([*lines, f"2026-01-02T03:04:07.1234567Z {end}"])


@pytest.mark.parametrize(
    ("source", "write", "suffix"),
    [
        ("junit", xml, "xml"),
        ("pytest_json", as_object, "json"),
        ("pytest_json", as_lines, "jsonl"),
        ("github_log", as_log, "txt"),
        ("gitlab_log", as_log, "log"),
    ],
)
def test_every_format_gives_the_same_records(tmp_path, folder, pair, source, write, suffix):
    first, fix = pair
    archive, _ = import_reports(tmp_path, folder, source, {f"{first}.{suffix}": write(BAD), f"{fix}.{suffix}": write(GOOD)})
    (group,) = archive.groups()
    assert [verdict.outcomes for verdict in group.verdicts] == [(Status.FAILED, Status.PASSED), (Status.PASSED, Status.PASSED)]
    assert group.verdicts[0].error_message == "assert 2 == 3" and group.verdicts[0].judge == f"recorded:{source}"
    assert len(group.task.tests) == 2


@pytest.mark.parametrize(
    ("source", "name", "text", "reason"),
    [
        (
            "junit",
            "a.xml",
            xml({**BAD, "tests.test_other": '<error message="collection failure">x</error>'}),
            "tests.test_other could not be collected",
        ),
        ("pytest_json", "a.json", as_object(BAD, 3), "pytest had an internal error"),
        ("pytest_json", "a.jsonl", as_lines(BAD, last=False), "pytest was interrupted"),
        (
            "github_log",
            "a.txt",
            as_log(BAD, "##[error]The runner has received a shutdown signal."),
            "The runner has received a shutdown signal.",
        ),
        pytest.param(
            "github_log",
            "a.txt",
            as_log(BAD, "##[error]The operation was canceled."),
            "The operation was canceled.",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "github_log",
            "a.txt",
            as_log(BAD, "ERROR tests/test_other.py - ImportError: x"),
            "tests/test_other.py could not be collected",
            marks=pytest.mark.slow,
        ),
        (
            "gitlab_log",
            "a.log",
            as_log(BAD, "\x1b[31;1mERROR: Job failed (system failure): pod lost\x1b[0;m"),
            "Job failed (system failure): pod lost",
        ),
        pytest.param(
            "gitlab_log",
            "a.log",
            as_log(BAD, "ERROR: Job failed: execution took longer than 1h0m0s seconds"),
            "Job failed: execution took longer than 1h0m0s seconds",
            marks=pytest.mark.slow,
        ),
        (
            "gitlab_log",
            "a.log",
            "fatal: unable to access 'https://x/': Could not resolve host: x",
            "fatal: unable to access 'https://x/': Could not resolve host: x",
        ),
    ],
)
def test_a_run_that_broke_is_unscored(tmp_path, folder, pair, source, name, text, reason):
    first, fix = pair
    good = {"junit": xml, "pytest_json": as_lines, "github_log": as_log, "gitlab_log": as_log}[source](GOOD)
    suffix = name.rpartition(".")[2] if source != "pytest_json" else "jsonl"
    (group,) = import_reports(tmp_path, folder, source, {f"{first}/{name}": text, f"{fix}.{suffix}": good})[0].groups()
    assert {verdict.status for verdict in group.verdicts} == {Status.UNSCORED}
    assert {verdict.error_message for verdict in group.verdicts} == {f"the run broke: {reason}"}
    again = {f"{first}/2/{name}": {"xml": xml, "json": as_object, "jsonl": as_lines}.get(name.rpartition(".")[2], as_log)(BAD)}
    (group,) = import_reports(tmp_path, folder, source, again)[0].groups()
    assert [verdict.status for verdict in group.verdicts] == [Status.FAILED, Status.PASSED]  # a run that did not break counts


@pytest.mark.parametrize(
    "message", ["OSError: [Errno 28] No space left on device", "ConnectionError: Connection refused", "Read timed out."]
)
def test_a_fault_of_the_machine_is_no_outcome_of_a_test(tmp_path, message):
    for parse, name, text in (
        (parse_junit, "a.xml", xml({**BAD, "test_add": message})),
        (parse_pytest, "a.json", as_object({**BAD, "test_add": message})),
        (parse_pytest, "a.jsonl", as_lines({**BAD, "test_add": message})),
        (parse_log, "a.log", as_log({**BAD, "test_add": message})),
    ):
        (tmp_path / name).write_text(text)
        assert parse(tmp_path / name).outcomes == {"tests.test_text::test_more": {Status.FAILED}}


def test_the_last_word_of_a_log_is_not_the_outcome(tmp_path, folder, pair):
    first, fix = pair
    logs = {
        f"{first}.txt": as_log(BAD, "Job succeeded"),
        f"{fix}.txt": as_log(GOOD, "##[error]Process completed with exit code 1."),
    }
    (group,) = import_reports(tmp_path, folder, "github_log", logs)[0].groups()
    assert [verdict.status for verdict in group.verdicts] == [Status.FAILED, Status.PASSED]
    (tmp_path / "none.txt").write_text(
        "====== 3 failed, 2 passed in 1.2s ======\n##[error]Process completed with exit code 1.\n"
    )
    with pytest.raises(ValueError, match="no line about a single test"):
        parse_log(tmp_path / "none.txt")


def test_lines_of_logs(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(
        "\ufeff2026-01-02T03:04:05.1234567Z HEAD is now at 1a2b3c4 Merge 0123456789abcdef0123456789abcdef01234567 into fedcba9876543210\n"
        "section_start:1560896352:step\r\x1b[0KChecking out 5d6e7f8a as detached HEAD (ref is main)...\n"
        "[gw1] [ 50%] \x1b[32mPASSED\x1b[0m tests/a/test_x.py::TestX::test_one[a b::c] \n"
        "test_two (tests.test_y.TestY.test_two) ... ok\n"
        "test_three (tests.test_y.TestY)\nA docstring ... FAIL\n"
        "test_four (tests.test_y.TestY) ... ERROR\n"
        "tests/test_z.py::test_five RERUN [ 10%]\ntests/test_z.py::test_five PASSED [ 10%]\n"
        "my own print: tests/test_z.py::test_six PASSED?\nPASSED\n"
    )
    report = parse_log(log)
    assert report.commits == ("0123456789abcdef0123456789abcdef01234567", "1a2b3c4", "5d6e7f8a")
    assert {name: {*map(str, found)} for name, found in report.outcomes.items()} == {
        "tests.a.test_x.TestX::test_one[a b::c]": {"passed"},
        "tests.test_y.TestY::test_two": {"passed"},
        "tests.test_y.TestY::test_four": {"runtime_error"},
        "tests.test_z::test_five": {"failed", "passed"},
    }


def test_names_of_tests_and_their_parameters():
    assert name_of("tests/test_x.py::TestX::test_y[a/b.py::c]") == "tests.test_x.TestX::test_y[a/b.py::c]"
    assert name_of("tests.test_x.TestX::test_y") == "tests.test_x.TestX::test_y"
    assert is_same_test("test_x::test_y", "tests.test_x::test_y") and not is_same_test("x::test_y", "tests.test_x::test_y")
    passed, failed = frozenset({Status.PASSED}), frozenset({Status.FAILED})
    results = merged([Report("a", outcomes={"m::t[1]": passed, "m::t[2]": failed, "m::t[3]": passed, "m::u": passed})])
    assert results.outcomes == {"m::t": Status.FAILED, "m::u": Status.PASSED} and not results.flaky
    again = merged(
        [Report("a", outcomes={"m::t[1]": passed}), Report("b", outcomes={"m::t[1]": failed}), Report("c", broken="x")]
    )
    assert again.flaky == {"m::t"} and not again.broken


def sarif_text(commit_name, *results):
    rules = [{"id": "py/sql", "properties": {"tags": ["security"]}}, {"id": "py/unused"}]
    driver = {"name": "CodeQL", "semanticVersion": "2.1", "rules": rules}
    return json.dumps(
        {
            "version": "2.1.0",
            "runs": [
                {"tool": {"driver": driver}, "results": results, "versionControlProvenance": [{"revisionId": commit_name}]}
            ],
        }
    )


def result(rule, uri, line, **more):
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line, "startColumn": 5, "endColumn": 9}}
    return {
        "ruleId": rule,
        "ruleIndex": ["py/sql", "py/unused"].index(rule),
        "message": {"text": "so\n so"},
        "locations": [{"physicalLocation": place}],
        **more,
    }


def test_findings_are_added_to_the_attempts_and_decide_nothing(tmp_path, folder, pair):
    first, _ = pair
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, "git", folder)
    file = tmp_path / "a.sarif"
    hidden = result("py/unused", "kit/text.py", 1, suppressions=[{"kind": "inSource"}])
    wanted = result("py/sql", "./kit/text.py", 2)
    file.write_text(
        sarif_text(first, wanted, hidden, result("py/unused", "kit/other.py", 1), result("py/unused", "kit/text.py", 99))
    )
    report = ingest(archive, "sarif", file, repository=str(folder))
    assert report.added["verdicts"] == 1 and not report.bad and not any(report.orphans.values())
    (group,) = archive.groups()
    before, after = group.verdicts
    assert (before.status, after.status) == (Status.FAILED, Status.PASSED) and not after.findings
    assert before.analyses == ("sarif: CodeQL 2.1",)
    (finding,) = before.findings
    assert (finding.kind, finding.rule, finding.message, finding.line, finding.column, finding.end_column) == (
        "security",
        "py/sql",
        "so so",
        2,
        5,
        9,
    )
    judged = replace(before, judge="upsolve-2", analyses=(), findings=())
    assert preferred([judged, *archive.verdicts()], group.task).findings == (finding,)
    said = next(verdict for verdict in archive.verdicts() if verdict.judge == "recorded:sarif")
    assert preferred([judged, said], group.task).findings == (finding,)
    file.write_text("{}")
    assert "no field 'runs'" in next(iter(SARIF.read(file, repository=str(folder)))).reason


def test_real_reports(real_data):
    counts = {}
    for file in sorted((real_data / "junit").glob("*.xml")):
        try:
            outcomes = parse_junit(file).outcomes.values()
            counts[file.name] = len(outcomes), sum(found == {Status.PASSED} for found in outcomes)
        except Exception as error:
            counts[file.name] = f"{type(error).__name__}: line {error.lineno}"
    assert counts == {
        "corrupt-xml.xml": "ExpatError: line 11",
        "junit.fail.xml": (4, 3),
        "junit.gloo.elastic.xml": (10, 10),
        "junit.mpi.static.xml": (24, 24),
        "junit.spark.integration.2.xml": (33, 33),
    }
