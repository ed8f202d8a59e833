"""Verdicts that a later fix of the judge concerns: found, judged again, and nothing else."""

import json
from collections import Counter
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from upsolve.archive.store import Archive, open_archive
from upsolve.archive.unjudged import stale
from upsolve.cli.archives import about_stale
from upsolve.cli.main import app
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify import changes
from upsolve.verify.changes import CHANGES, JUDGE_VERSION, Change, changes_since, has_tests, is_in
from upsolve.verify.judge.outcomes import JUDGE
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.cache import VerdictCache
from upsolve.verify.pool.pool import verify

CALL = Task("call", "p", (TestCase(TestKind.CALL, "f(1)", "1"),), entry_point="f", official=True)
STDIO = Task("stdio", "p", (TestCase(TestKind.STDIO, "", "1"),), official=True)
RIGHT, WRONG = Attempt("call", "def f(x):\n    return x"), Attempt("call", "def f(x):\n    return 2")
PRINTS, RECORDED = Attempt("stdio", "print(1)"), Attempt("call", "def f(x): return 3")


def add_change(monkeypatch, concerns):
    """Append a change as a contributor does; JUDGE_VERSION of the modules that hold it stays, as in a judge that is older."""
    monkeypatch.setattr(changes, "CHANGES", (*CHANGES, Change("Calls were judged wrongly.", concerns)))
    return len(CHANGES) + 1


def verdict(attempt, status=Status.PASSED, judge=JUDGE, version=JUDGE_VERSION):
    return Verdict(attempt.attempt_id, status, 1, 1, judge=judge, judge_version=version)


@pytest.fixture
def archive(tmp_path):
    """Return an archive in which every label is wrong, so that a test sees which were given anew."""
    made = Archive.create(tmp_path / "archive")
    labels = [verdict(RIGHT, Status.FAILED), verdict(WRONG), verdict(PRINTS, Status.FAILED)]
    made.append(tasks=[CALL, STDIO], attempts=[RIGHT, WRONG, PRINTS, RECORDED], verdicts=[*labels, RECORD])
    return made


RECORD = verdict(RECORDED, judge="recorded:ci", version=0)


def run(*words):
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def statuses(archive):
    """Return the last status of each attempt by judge."""
    return {(one.attempt_id, one.judge): (one.status, one.judge_version) for one in archive.verdicts()}


def test_verdicts_carry_the_version_of_their_judge():
    pairs = [(CALL, RIGHT), (CALL, WRONG), (STDIO, PRINTS), (replace(CALL, tests=()), RIGHT)]
    assert [one.judge_version for one in verify(pairs)] == [JUDGE_VERSION] * 4
    assert len(CHANGES) == JUDGE_VERSION and Verdict("a", Status.PASSED).judge_version == 0


def test_stale_verdicts_alone_are_judged_again(archive, monkeypatch):
    number = add_change(monkeypatch, lambda task, *_: has_tests(task, TestKind.CALL))
    assert run("archive", "info", archive.path)["stale"] == 2
    before = statuses(archive)
    told = run("verify", archive.path, "--stale", "--no-cache")
    assert (told["judged"], told["judged_before"], told["changes"]) == (2, 1, {str(number): 2})
    new = {(RIGHT.attempt_id, JUDGE): Status.PASSED, (WRONG.attempt_id, JUDGE): Status.FAILED}
    assert {key: status for key, (status, _) in statuses(archive).items()} == {key: s for key, (s, _) in before.items()} | new
    monkeypatch.setattr(changes, "CHANGES", CHANGES)
    assert run("verify", archive.path, "--stale", "--no-cache")["judged"] == 0


def test_what_was_judged_again_is_not_repeated(archive, monkeypatch):
    number = add_change(monkeypatch, lambda *_: True)
    archive.append(verdicts=[verdict(RIGHT, version=number)])
    with stale(archive, changes_since) as programs:
        assert {attempt.attempt_id for _, attempt in programs} == {WRONG.attempt_id, PRINTS.attempt_id}
    unscored = replace(verdict(WRONG, Status.UNSCORED), judge_version=number)
    archive.append(verdicts=[unscored])  # the sandbox broke: judged again the next time
    with stale(archive, changes_since) as programs:
        assert {attempt.attempt_id for _, attempt in programs} == {WRONG.attempt_id, PRINTS.attempt_id}


def test_a_stale_verdict_stays_stale_and_counted_while_it_cannot_be_judged_again(tmp_path, monkeypatch):
    """Its task requires a package that is not there: unscored is not zero, and the earlier label is neither lost nor trusted."""
    made = Archive.create(tmp_path / "archive")
    needy = replace(CALL, task_id="needy", requires=("absent_package",))
    one, two = (replace(attempt, task_id="needy") for attempt in (RIGHT, WRONG))
    made.append(tasks=[CALL, needy], attempts=[RIGHT, one, two], verdicts=[*map(verdict, (RIGHT, one, two))])
    number = add_change(monkeypatch, lambda task, *_: task.task_id == "needy")
    reason = "task needy requires absent_package: run `upsolve packages absent_package`"
    again = " ".join(CliRunner().invoke(app, ["verify", str(made.path), "--stale", "--no-cache"]).stdout.split())
    assert "2 attempts judged again, 1 verdicts are still valid" in again
    assert f"2 of them could not be judged again: {STAY} (2: task needy" in again
    assert again.endswith(f"then run: upsolve verify {made.path} --stale")
    told = run("archive", "info", made.path)
    assert (told["stale"], told["stale_unscored"], told["statuses"]) == (2, {reason: 2}, {"passed": 3})
    assert f"2 of them could not be judged again: {STAY} (2: {reason};" in about_stale("mine", 2, Counter({reason: 2}))
    made.append(verdicts=[verdict(one, version=number)])
    with stale(made, changes_since) as programs:
        assert (len(programs), programs.unscored) == (1, {reason: 1})


STAY = "their earlier verdicts stay, and stay stale. Fix the cause"


def test_stale_verdicts_of_a_shipped_archive_are_judged_in_a_copy():
    assert "upsolve archive copy embedded DIR, then upsolve verify DIR --stale" in about_stale("embedded", 1, Counter())
    assert about_stale("mine", 1, Counter()).endswith(": upsolve verify mine --stale")


def test_no_verdict_of_the_embedded_archive_is_stale():
    """A fix that concerns some of them needs ``python tools/embedded/judge.py``."""
    with stale(open_archive("embedded"), changes_since) as programs:
        assert (len(programs), programs.reasons) == (0, {})


def test_analyses_and_lines_of_stale_verdicts_are_made_again(archive, monkeypatch):
    add_change(monkeypatch, lambda *_: True)
    archive.append(verdicts=[replace(verdict(RIGHT), analyses=("syntax: 1",), executed_lines=(1, 2))])
    run("verify", archive.path, "--stale", "--no-cache")
    (again,) = (one for one in archive.verdicts() if one.attempt_id == RIGHT.attempt_id)
    assert again.executed_lines == (1, 2) and [name.partition(":")[0] for name in again.analyses] == ["syntax"]


def test_verdicts_of_earlier_archives_have_version_0(archive, monkeypatch):
    (part,) = archive.parts("verdicts")
    pq.write_table(pq.read_table(part).drop_columns(["judge_version"]), part)
    archive.append(verdicts=[verdict(PRINTS)])
    assert [version for _, version in statuses(archive).values()] == [0, 0, JUDGE_VERSION, 0]
    monkeypatch.setattr(changes, "CHANGES", (Change("All.", lambda *_: True),))
    with stale(archive, changes_since) as programs:
        assert {attempt for _, attempt in programs} == {RIGHT, WRONG} and programs.reasons == {1: 2}


def test_the_cache_gives_no_verdict_that_a_change_concerns(tmp_path, monkeypatch):
    cache, settings = VerdictCache(tmp_path / "cache.db"), JudgeSettings()
    cache.keep([(CALL, RIGHT, verdict(RIGHT)), (STDIO, PRINTS, verdict(PRINTS))], settings)
    add_change(monkeypatch, lambda task, *_: has_tests(task, TestKind.CALL))
    assert cache.find(CALL, RIGHT, settings) is None and cache.find(STDIO, PRINTS, settings) == verdict(PRINTS)
    cache.keep([(CALL, RIGHT, verdict(RIGHT, version=len(CHANGES) + 1))], settings)
    assert cache.find(CALL, RIGHT, settings) is not None


def test_each_change_is_a_sentence_and_takes_every_record():
    """A predicate that raises would end `archive info`."""
    for change in CHANGES:
        assert change.summary.endswith(".") and "\n" not in change.summary
        for task in (CALL, STDIO, Task("empty", "")):
            for status in Status:
                for language in ("python", "cpp", "", "klingon"):
                    assert change.concerns(task, Attempt("t", "", language=language), Verdict("a", status)) in (True, False)


def test_many_tests_that_timed_out_are_judged_again():
    many = replace(STDIO, tests=STDIO.tests * 11)
    late, failed = Verdict("a", Status.TIMEOUT), Verdict("a", Status.FAILED)
    assert changes_since(many, PRINTS, late) == (1,)
    assert changes_since(many, PRINTS, replace(late, judge_version=1)) == changes_since(many, PRINTS, failed) == ()
    assert changes_since(replace(many, limit_seconds=1.0), PRINTS, late) == changes_since(STDIO, PRINTS, late) == ()


@pytest.mark.parametrize(
    ("language", "names"), [("py", ["python"]), ("", ["python"]), ("c++", ["cpp"]), ("js", ["javascript"])]
)
def test_a_language_is_known_by_its_aliases(language, names):
    assert is_in(Attempt("t", "", language=language), *names) and not is_in(Attempt("t", "", language=language), "go")


def test_conditions_in_sql_hold_for_all_verdicts_that_changes_concern(tmp_path):
    """A verdict that a change concerns is found among those that its condition in SQL selects, and no other is read."""
    checked = replace(CALL, task_id="checked", checker='#include "testlib.h"\nint main() { quitp(0.5, ""); }')
    wrong, ours = replace(WRONG, task_id="checked"), replace(RIGHT, code=RIGHT.code + "\n")
    inside = replace(verdict(ours), isolation="in_process")
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[CALL, checked], attempts=[RIGHT, WRONG, wrong, ours])
    failed = replace(verdict(wrong, Status.FAILED), judge_version=17)
    archive.append(verdicts=[failed, inside, verdict(RIGHT, version=JUDGE_VERSION), replace(verdict(WRONG), judge_version=17)])
    with stale(archive, changes_since) as programs:
        everything = programs.reasons, {attempt for _, attempt in programs}
    with stale(archive, changes_since, changes.may_be_stale()) as programs:
        assert (programs.reasons, {attempt for _, attempt in programs}) == everything
    seen = list[Attempt]()
    with stale(archive, lambda _task, attempt, _verdict: seen.append(attempt) or (), changes.may_be_stale()):
        assert RIGHT not in seen and wrong in seen


def test_conditions_in_sql_hold_for_all_texts_that_changes_look_for(tmp_path):
    """Every word of a change, in programs with every outcome, isolation and error: the conditions leave no concerned verdict out."""
    words = ["x = 1", "class A(list): pass", "import collections", "async ", *changes.VALUES, *changes.COMPARED]
    words += [*changes.OF_SOURCE, *changes.WRITES, "getrecursionlimit", "raise"]
    tasks = [
        replace(CALL, task_id="packages", requires=("numpy",)),
        replace(CALL, task_id="plain"),
        replace(STDIO, task_id="printed"),
    ]
    kinds = [(status, isolation) for status in (Status.PASSED, Status.FAILED) for isolation in ("across", "")]
    archive = Archive.create(tmp_path / "archive")
    for task in tasks:
        made = list[tuple[Attempt, Verdict]]()
        for number, (status, isolation) in enumerate(kinds):
            for error in ("", "ImportError"):
                made += [
                    (one, replace(verdict(one, status), isolation=isolation, judge_version=17, error_type=error))
                    for one in (Attempt(task.task_id, f"{word} # {number} {error}") for word in words)
                ]
        archive.append(tasks=[task], attempts=[one for one, _ in made], verdicts=[one for _, one in made])
    with stale(archive, changes_since) as programs:
        everything = programs.reasons, {attempt.code for _, attempt in programs}
    with stale(archive, changes_since, changes.may_be_stale()) as programs:
        assert (programs.reasons, {attempt.code for _, attempt in programs}) == everything
    assert set(programs.reasons) >= {19, 20, 21, 22, 23, 24}
