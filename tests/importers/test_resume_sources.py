"""Imports of sources that run programs while they read, killed: what was read before is neither run nor stored again."""

import json
import sqlite3
import subprocess

import pytest
from killing import import_words, stored
from repositories import commit, git

from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.importers.registry import SOURCES

ADD = "def add(a, b):\n    return a + b + {}\n"
TEST = "from kit.text import add\n\n\ndef test_add():\n    assert add(1, 2) == {}\n"


def evalplus(folder):
    """Six tasks whose references are run, the fourth of which fails."""
    rows = [
        {
            "task_id": f"Mbpp/{number}",
            "prompt": '"""Add."""',
            "entry_point": "add",
            "canonical_solution": f"def add(x):\n    return x + {number}\n" if number != 4 else "import nowhere\n",
            "base_input": [[1]],
            "plus_input": [[2]],
            "assertion": "assert add(1) == 2",
        }
        for number in range(1, 7)
    ]
    (folder / "MbppPlus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "MbppPlus.jsonl", {}, "upsolve.importers.benchmarks.evalplus.TASKS"


def spider(folder):
    """Four questions for training and two for tests, one of which has no answer."""
    (folder / "database/concert").mkdir(parents=True)
    connection = sqlite3.connect(folder / "database/concert/concert.sqlite")
    connection.executescript("CREATE TABLE singer (id INTEGER, age INTEGER); INSERT INTO singer VALUES (1, 20), (2, 30)")
    connection.close()
    rows = [{"db_id": "concert", "question": f"{n}?", "query": f"SELECT id FROM singer WHERE age > {n * 5}"} for n in range(6)]
    (folder / "train_spider.json").write_text(json.dumps(rows[:4]))
    (folder / "dev.json").write_text(json.dumps([{**rows[4], "query": "SELECT weight FROM singer"}, rows[5]]))
    return folder, {}, "upsolve.importers.benchmarks.spider.QUESTIONS"


def junit(folder):
    """Five commits with a report each: four repair a test; and a report that cannot be read."""
    place = folder / "kit"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    texts = [{"kit/text.py": ADD.format(n), "tests/test_text.py": TEST.format(3 + n)} for n in range(5)]
    commits = [commit(place, f"Add {number}", files) for number, files in enumerate(texts)]
    (folder / "reports").mkdir()
    (folder / "reports" / "bad.xml").write_text("<html/>")
    for number, hash_ in enumerate(commits):
        case = "" if number % 2 else "<failure message='no'/>"
        text = f'<testsuites><testsuite><testcase classname="tests.test_text" name="test_add">{case}</testcase></testsuite></testsuites>'
        (folder / "reports" / f"{hash_}.xml").write_text(text)
    return folder / "reports", {"repository": str(place)}, "upsolve.importers.history.repository.COMMITS"


def sarif(folder):
    """Eight commits to a file with a finding on each, and a file that cannot be read."""
    place, found = folder / "kit", folder / "reports"
    place.mkdir()
    found.mkdir()
    git(place, "init", "-q", "-b", "main")
    (found / "bad.sarif").write_text("{}")
    for number in range(8):
        name = commit(place, f"Add {number}", {"kit/text.py": ADD.format(number)})
        where = {"artifactLocation": {"uri": "kit/text.py"}, "region": {"startLine": 2}}
        result = {"ruleId": f"rule-{number}", "locations": [{"physicalLocation": where}]}
        text = json.dumps({"runs": [{"tool": {"driver": {"name": "lint"}}, "results": [result]}]})
        (found / f"{name}.sarif").write_text(text)
    return found, {"repository": str(place)}, "upsolve.importers.history.repository.COMMITS"


MADE = {"evalplus": (evalplus, 2), "spider": (spider, 2), "junit": (junit, 1), "sarif": (sarif, 1)}
"""Source -> what makes its files, and the size of a share."""


@pytest.fixture(params=[one if one == "junit" else pytest.param(one, marks=pytest.mark.slow) for one in MADE])
def made(request, tmp_path, monkeypatch):
    """Source, path, options, and the line that sets the size of its shares."""
    make, size = MADE[request.param]
    (tmp_path / "in").mkdir()
    path, options, name = make(tmp_path / "in")
    monkeypatch.setattr(name, size)
    module, _, attribute = name.rpartition(".")
    return request.param, path, options, f"import {module}\n{module}.{attribute} = {size}"


def test_the_units_of_a_source_yield_what_it_yields(made):
    name, path, options, _ = made
    source = SOURCES[name]
    units = source.split(path, **options)
    whole = [*source.read(path, **options)]
    assert len(units) >= 3 and whole == [row for unit in units for row in source.read(unit.path, **{**options, **unit.options})]


def parts_of(archive):
    return [part for table in TABLES for part in archive.parts(table)]


KILLED = """
import os
from upsolve.importers import importing
done, write = [], importing.write_text
def write_or_die(file, text):  # when the third share has stored records that its journal does not count
    if len(done) == 2:
        os.kill(os.getpid(), 9)
    write(file, text)
    if '"done": true' in text:
        done.append(file)
importing.write_text = write_or_die
"""


def test_a_killed_import_reads_only_the_shares_that_are_missing(made, tmp_path):
    name, path, options, setup = made
    words = import_words(tmp_path, name, path, tmp_path / "killed", setup=setup + KILLED, options=options)
    assert subprocess.run(words, check=False).returncode == -9
    killed, whole = Archive(tmp_path / "killed"), Archive.create(tmp_path / "whole")
    journals = [*killed.path.glob("imports/*/[0-9][0-9][0-9][0-9][0-9].json")]
    done = {journal.stem for journal in journals if json.loads(journal.read_text())["done"]}
    for folder in killed.path.glob("imports/*"):  # as if killed while journals were written
        for share in range(20):
            (folder / f"{share:05d}.json.1.tmp").write_text("{")
    before = {part: part.stat().st_mtime_ns for part in parts_of(killed) if part.stem[9:14] in done}
    report = ingest(killed, name, path, max_rejected=1, **options)
    again = ingest(whole, name, path, max_rejected=1, **options)
    assert stored(killed) == stored(whole) and killed.meta() == whole.meta()
    assert (report.read, report.added, report.bad) == (again.read, again.added, again.bad) and report.bad
    assert before and before.items() <= {part: part.stat().st_mtime_ns for part in parts_of(killed)}.items()
