"""The archive ``embedded-sql`` and the tool that makes it."""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from upsolve.archive.info import archive_info
from upsolve.archive.split import find_leaks, split_archive
from upsolve.archive.store import create_archive, open_archive
from upsolve.config import DataConfig
from upsolve.errors import ArchiveError
from upsolve.types import Attempt, Status, TestKind
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def archive():
    return open_archive("embedded-sql")


@pytest.fixture(scope="module")
def groups(archive):
    return archive.groups()


@pytest.fixture(scope="module")
def tool():
    """The module that makes the archive."""
    sys.path.insert(0, str(TOOLS))
    import make_sql

    yield make_sql
    sys.path.remove(str(TOOLS))


def about(task):
    return json.loads(task.extra)


@pytest.mark.slow
def test_it_is_as_large_and_as_varied_as_promised(archive, groups):
    info = archive_info(archive)
    assert info.tasks == len(groups) >= 1500 and info.unjudged == 0 and info.bytes <= 3_000_000
    tasks = [group.task for group in groups]
    assert len({about(task)["schema"] for task in tasks}) >= 40
    splits = {name: [task for task in tasks if about(task)["split"] == name] for name in ("train", "dev", "test")}
    assert len(splits["train"]) >= 1100 and len(splits["dev"]) >= 100 and len(splits["test"]) >= 300
    kinds = {name: {about(task)["kind"] for task in members} for name, members in splits.items()}
    assert len(kinds["train"]) >= 20 and kinds["train"] == kinds["dev"] == kinds["test"]
    for members in splits.values():
        assert Counter(task.difficulty for task in members).keys() == {"easy", "medium", "hard"}


def test_every_task_has_right_and_wrong_queries_and_three_hidden_databases(groups):
    for group in groups:
        name = group.task.task_id
        assert len(group.task.tests) == 3 and all(test.kind is TestKind.STDIO and test.hidden for test in group.task.tests), (
            name
        )
        assert len({test.input for test in group.task.tests}) == 3, name
        by_author = dict(zip((attempt.author for attempt in group.attempts), group.verdicts, strict=True))
        right = {author for author, verdict in by_author.items() if author.startswith("right:")}
        assert len(right) == 2 and all(by_author[author].status is Status.PASSED for author in right), name
        assert sum(verdict.status is not Status.PASSED for verdict in by_author.values()) >= 2, name
        assert group.attempts[0].code == group.task.reference and group.attempts[0].author == "right:plain", name


def test_wrong_queries_err_in_many_ways_and_few_are_right_by_luck(groups):
    wrong = [
        (attempt.author, verdict.status)
        for group in groups
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
        if attempt.author.startswith("mutation:")
    ]
    authors, statuses = Counter(author for author, _ in wrong), Counter(status for _, status in wrong)
    assert len(authors) >= 40 and authors.most_common(1)[0][1] < 0.12 * len(wrong)
    assert 0 < statuses[Status.PASSED] < 0.02 * len(wrong)
    assert min(statuses[status] for status in (Status.FAILED, Status.RUNTIME_ERROR, Status.COMPILE_ERROR)) > 0.15 * len(wrong)


def test_the_prompt_requests_an_order_if_order_counts(groups):
    words = re.compile(r"\bfirst\b|\bordered\b|\bsorted\b")
    for group in groups:
        one_row = all(test.expected.count("\n") == 1 for test in group.task.tests)
        ordered = group.task.compare == "rows_in_order"
        assert ordered == bool(words.search(group.task.prompt.splitlines()[-1])), group.task.task_id
        assert ("ORDER BY" in group.task.reference) == (ordered or (one_row and "LIMIT 1" in group.task.reference))


def test_no_table_of_a_test_schema_is_in_a_training_schema(archive):
    tables = {"train": set(), "dev": set(), "test": set()}
    for task in archive.tasks():
        tables[about(task)["split"]] |= set(re.findall(r"^CREATE TABLE (\w+)", task.prompt, re.MULTILINE))
    assert not tables["train"] & tables["test"] and not tables["train"] & tables["dev"] and not tables["dev"] & tables["test"]
    assert len(tables["test"]) > 25


@pytest.mark.parametrize("field", ["split", pytest.param("schema", marks=pytest.mark.slow)])
def test_both_splits_separate_schemas_and_leak_nothing(archive, field):
    tasks = split_archive(archive, DataConfig(archive="embedded-sql", split_by=field)).tasks
    schemas = {name: {about(task)["schema"] for task in members} for name, members in tasks.items()}
    assert not schemas["train"] & schemas["test"] and not schemas["dev"] & schemas["test"]
    assert not find_leaks(tasks["dev"], tasks["test"])


def test_prompts_are_short(archive):
    lengths = sorted(len(task.prompt) for task in archive.tasks())
    assert lengths[len(lengths) // 2] < 500 and lengths[-1] < 900
    assert all(task.prompt.splitlines()[-1].endswith((".", "?")) for task in archive.tasks())


@pytest.mark.slow
def test_the_tool_makes_the_rows_that_are_shipped(archive, tool):
    """Two schemas out of order, twice: what one gives depends on the seed alone."""
    made = tool.make(schemas=("parks", "library"))
    assert made == tool.make(schemas=("library", "parks"))
    wanted = [task for task in archive.tasks() if about(task)["schema"] in ("library", "parks")]
    assert sorted(made.tasks, key=lambda task: task.task_id) == sorted(wanted, key=lambda task: task.task_id)
    attempts, verdicts = set(archive.attempts()), set(archive.verdicts())
    assert set(made.attempts) <= attempts and set(made.verdicts) <= verdicts
    assert tool.make(1, ("parks",)).tasks != [task for task in made.tasks if about(task)["schema"] == "parks"]


def test_it_is_read_only(archive):
    with pytest.raises(ArchiveError, match="read-only.*`upsolve archive copy embedded-sql DIR`"):
        archive.append(attempts=[Attempt("sql/library/01-filter", "SELECT 1", "sql")])
    with pytest.raises(ArchiveError, match="embedded-sql is part of the package"):
        create_archive("embedded-sql")


def disagreements(groups, share):
    """Attempts whose recorded outcomes the judge does not confirm, of a share of the tasks; references are among the attempts."""
    chosen = groups[:: round(1 / share)]
    pairs = [(group.task, attempt) for group in chosen for attempt in group.attempts]
    recorded = [verdict for group in chosen for verdict in group.verdicts]
    found = verify(pairs, JudgeSettings(workers=2))
    return [
        (attempt.author, attempt.code, theirs.outcomes, ours.outcomes, ours.error_message)
        for (_, attempt), theirs, ours in zip(pairs, recorded, found, strict=True)
        if (theirs.status, theirs.passed) != (ours.status, ours.passed)
    ]


@pytest.mark.slow
def test_the_judge_confirms_a_sample_of_the_recorded_verdicts(groups):
    assert not disagreements(groups, 0.02)


@pytest.mark.slow
def test_the_judge_confirms_all_recorded_verdicts(groups):
    assert not disagreements(groups, 1)


@pytest.mark.slow
def test_the_tool_makes_the_whole_archive(archive, tool):
    made = tool.make()
    assert (made.tasks, made.attempts, made.verdicts) == (archive.tasks(), archive.attempts(), archive.verdicts())
