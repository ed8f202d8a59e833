"""The index of the viewer: what it lists is what the archive holds, whatever the judges said and however large it is."""

import random

import pytest
from archives import TEST, judged, plain_archive

from upsolve.archive.store import Archive, open_archive
from upsolve.types import Attempt, Finding, Status, Task
from upsolve.view.browse import PAGE_ROWS, Filters, count_attempts, facets, list_attempts, list_tasks, read_attempt, read_groups
from upsolve.view.index import Index

NONE = Filters()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """An archive of 250 attempts, which no test changes."""
    return plain_archive(tmp_path_factory.mktemp("plain") / "a")


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """A cache of these tests alone: the index of the archive that no test changes is built once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSOLVE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def nothing(_number):
    return False


def anything(_number):
    return True


def every(index, filters=NONE):
    """All rows, page by page."""
    after, rows = -1, []
    while after is not None:
        page = list_attempts(index, filters, after=after)
        rows += page["rows"]
        after = page["next"]
    return rows


def test_pages_hold_every_attempt_once_in_the_order_of_the_archive(plain):
    index = Index(plain)
    rows = every(index)
    assert len(rows) == 250 > 2 * PAGE_ROWS
    codes = [read_attempt(index, row["place"])["attempt"]["code"] for row in rows[95:105]]
    assert [code.split()[2] for code in codes] == [str(number) for number in range(95, 105)]
    assert [row["status"] for row in rows[:4]] == ["failed", "passed", "passed", "failed"]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (Filters(status="failed"), lambda n: n % 3 == 0),
        (Filters(difficulty="hard"), lambda n: n % 2 == 1),
        (Filters(author="author-3", status="passed"), lambda n: n % 5 == 3 and n % 3),
        (Filters(finding="lint:F401"), lambda n: n % 10 == 0),
        (Filters(finding="lint"), lambda n: n % 10 == 0),
        (Filters(finding="lin"), nothing),
        (Filters(task="a/even", text="NUMBER 1"), lambda n: n % 2 == 0 and str(n).startswith("1")),
        (Filters(text="' or 1=1 --"), nothing),
        (Filters(language="python"), anything),
    ],
)
def test_filters(plain, filters, kept):
    index = Index(plain)
    found = [read_attempt(index, row["place"])["attempt"]["code"].split()[2] for row in every(index, filters)[:4]]
    expected = [str(n) for n in range(250) if kept(n)]
    assert found == expected[:4] and count_attempts(index, filters) == len(expected)


def test_the_outcome_is_that_of_the_preferred_verdict_for_all_judges(tmp_path):
    rng, archive = random.Random(0), Archive.create(tmp_path / "a")
    tasks = [Task(f"t/{n}", "", (TEST,), official=bool(n % 2)) for n in range(2)]
    attempts = [Attempt(tasks[n % 2].task_id, f"n = {n}", count=1 + n % 3) for n in range(120)]
    archive.append(tasks=tasks, attempts=attempts)
    statuses = (Status.PASSED, Status.FAILED, Status.UNSCORED)
    for _ in range(4):
        verdicts = [
            judged(one, rng.choice(statuses), rng.choice(("upsolve-1", "upsolve-2", "recorded:a", "recorded:b")))
            for one in rng.sample(attempts, 80)
        ]
        archive.append(verdicts=verdicts, attempts=rng.sample(attempts, 10))
    index = Index(archive)
    expected = {
        attempt.attempt_id: (verdict.status if verdict else "unjudged", attempt.count)
        for group in archive.groups()
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
    }
    rows = index.query("select attempt_id, status, count from entries")
    assert len(rows) == 120 and {row["attempt_id"]: (row["status"], row["count"]) for row in rows} == expected


def test_the_groups_of_the_viewer_are_those_of_training():
    index, groups = Index(open_archive("embedded")), open_archive("embedded").groups()
    for group in groups[:3]:
        assert read_groups(index, [group.task.task_id])[group.task.task_id][0] == group
    counts = facets(index)
    assert counts["counts"] == {"attempts": sum(len(group.attempts) for group in groups), "tasks": 259}


def test_a_large_archive_shows_its_first_attempts_while_it_is_indexed(tmp_path, monkeypatch):
    monkeypatch.setattr("upsolve.view.index.SMALL_BYTES", 0)
    archive = plain_archive(tmp_path / "a")
    index = Index(archive)
    assert [row["status"] for row in index.preview[:3]] == ["failed", "passed", "passed"] and len(index.preview) == 100
    index.wait()
    assert len(every(index)) == 250
    again = Index(archive)  # from the cache
    assert again.ready and again.state == index.state


def test_tasks_have_their_numbers_of_attempts(plain):
    index = Index(plain)
    even, odd = list_tasks(index)["rows"]
    assert (even["task_id"], even["attempts"], even["scored"], odd["passed"]) == ("a/even", 125, 125, 83)
    assert [row["task_id"] for row in list_tasks(index, text="HALVE")["rows"]] == ["a/odd"]
    assert [row["task_id"] for row in list_tasks(index, sort="passed")["rows"]] == ["a/even", "a/odd"]  # equal: in their order
    assert [row["task_id"] for row in list_tasks(index, sort="-task")["rows"]] == ["a/odd", "a/even"]
    assert list_tasks(index, sort="-task", after=1) == {"rows": [even], "next": None}
    with pytest.raises(ValueError, match="sort: 'place' is not one of task, passed"):
        list_tasks(index, sort="place")


def test_an_empty_archive_has_pages_too(tmp_path):
    index = Index(Archive.create(tmp_path / "a"))
    assert list_attempts(index, Filters())["rows"] == [] and list_tasks(index)["rows"] == []
    assert facets(index)["counts"]["attempts"] == 0


def test_lists_leave_out_measurements_and_rules_on_how_a_file_ends(tmp_path):
    attempt = Attempt("a/b", "def f():\n    import os")
    found = [("complexity", "cyclomatic", 1), ("lint", "W292", 2), ("lint", "F401", 2), ("lint", "F401", 2)]
    findings = tuple(Finding(kind, rule, "", line) for kind, rule, line in found)
    archive = Archive.create(tmp_path / "a")
    task = Task("a/b", "Write f.", tests=(TEST,))
    archive.append(tasks=[task], attempts=[attempt], verdicts=[judged(attempt, Status.FAILED, findings=findings)])
    index = Index(archive)
    assert [row["rules"] for row in every(index)] == [["lint:F401"]]
    (place,) = [row["place"] for row in every(index)]
    assert len(read_attempt(index, place)["verdicts"][0]["findings"]) == 4
