"""Trees of programs as people have them: every file is read, or counted and named."""

import zipfile
from collections import Counter

import pytest

from upsolve.archive.store import Archive, open_archive
from upsolve.cli.main import main
from upsolve.errors import SourceError
from upsolve.importers.door import map_file, reading_of
from upsolve.importers.ingest import ingest

ADD = "def f(x):\n    return x + 1\n"
CPP = '#include <cstdio>\nint main() { puts("2"); }\n'
JAVA = "class Main { }\n"
NOISE = {".DS_Store": "x", ".idea/a.py": "x", "__pycache__/a.pyc": "x", "t1/__pycache__/a.pyc": "x", "__MACOSX/t1/._a.py": "x"}


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def numbered(form, count, text=ADD):
    """Files of ``count`` students, each with a program of its own."""
    return {form.format(k): f"{text}# {k}\n" if form.endswith(".py") else f"{text}// {k}\n" for k in range(count)}


def read_in(tree, archive):
    """What a tree is read as: (task, author, language) of each attempt, and what is not read."""
    reading = reading_of(tree, {})
    report = ingest(archive, str(map_file(reading)), tree, max_rejected=0)
    assert not report.bad, report.reasons
    found = [(one.task_id.rpartition("/")[2], one.author, one.language) for one in archive.attempts()]
    return sorted(found), report.unread.rpartition("read: ")[2]


READ = {
    "languages beside one another": (
        {"hw1/ann.py": ADD, "hw1/bob.cpp": CPP, "hw1/eve.java": JAVA, "hw2/ann.cc": CPP, "hw2/bob.py": ADD},
        [("hw1", "ann", "python"), ("hw1", "bob", "cpp"), ("hw1", "eve", "java"), ("hw2", "ann", "cpp"), ("hw2", "bob", "python")],
        "",
    ),
    "names of programs that follow from the language": (
        {"hw1/ann/main.py": ADD, "hw1/bob/Main.java": JAVA, "hw2/ann/main.py": ADD, "hw2/bob/Main.java": JAVA},
        [("hw1", "ann", "python"), ("hw1", "bob", "java"), ("hw2", "ann", "python"), ("hw2", "bob", "java")],
        "",
    ),
    "a folder of each language": (
        {"p1/python/a.py": ADD, "p1/python/b.py": ADD + "#", "p1/cpp/c.cpp": CPP, "p2/cpp/a.cpp": CPP},
        [("p1", "a", "python"), ("p1", "b", "python"), ("p1", "c", "cpp"), ("p2", "a", "cpp")],
        "",
    ),
    "one more folder": (
        {**numbered("student{}/add.py", 3), **numbered("student{}/sub.py", 3), "student3/submission/add.py": ADD, "student3/submission/sub.py": ADD},
        [(task, f"student{k}", "python") for task in ("add", "sub") for k in range(4)],
        "",
    ),
    "one more folder above": (
        {**numbered("hw1/student{}/main.py", 3), **numbered("hw2/student{}/main.py", 3), "late/hw1/student3/main.py": ADD},
        [(task, f"student{k}", "python") for task, count in (("hw1", 4), ("hw2", 3)) for k in range(count)],
        "",
    ),
    "one folder less": (
        {**numbered("hw1/student{}/main.py", 3), **numbered("hw2/student{}/main.py", 2), "hw1/student7.py": ADD},
        sorted([*[("hw1", f"student{k}", "python") for k in (0, 1, 2, 7)], *[("hw2", f"student{k}", "python") for k in (0, 1)]]),
        "",
    ),
    "notes, builds and tools beside": (
        {**numbered("hw1/student{}.py", 3), "hw1/Makefile": "x", "README.md": "x", "hw1/notes.txt": "x", "hw2/student0.py": ADD, "hw2/notes.txt": "x", "hw1/run.sh": "x", "grade.py": ADD, **NOISE},
        [("hw1", f"student{k}", "python") for k in range(3)] + [("hw2", "student0", "python")],
        "2 `.txt`, hw1/Makefile, README.md, grade.py, hw1/run.sh",
    ),
    "tests of programs beside them": (
        {**numbered("hw1/student{}.py", 3), **numbered("hw2/student{}.py", 3), "hw1/test_hw1.py": "x", "hw2/test_hw2.py": "x", "hw2/conftest.py": "x", "hw1/tests/check.py": "x"},
        [(task, f"student{k}", "python") for task in ("hw1", "hw2") for k in range(3)],
        "4 `*.py`",
    ),
    "packages beside": (
        {**numbered("student{}/main.js", 4, JAVA), **{f"student0/node_modules/a/{k}.js": JAVA for k in range(40)}},
        [("tree", f"student{k}", "javascript") for k in range(4)],
        "40 `*.js`",
    ),
    "modules of a program below it": (
        {**numbered("hw1/student{}/main.py", 3), **numbered("hw2/student{}/main.py", 3), "hw1/student0/lib/util.py": ADD},
        [(task, f"student{k}", "python") for task in ("hw1", "hw2") for k in range(3)],
        "hw1/student0/lib/util.py",
    ),
    "names with signs of patterns": (
        {"hw1/a{b}.py": ADD, "hw1/c*.py": ADD + "#", "hw2/[x].py": ADD, "hw2/!e.py": ADD + "#"},
        [("hw1", "a{b}", "python"), ("hw1", "c*", "python"), ("hw2", "!e", "python"), ("hw2", "[x]", "python")],
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("case", READ)
def test_every_program_of_a_tree_is_read_or_named(tmp_path, case, packed):
    files, attempts, left = READ[case]
    tree = put(tmp_path / "tree", files)
    if packed:
        tree = tmp_path / "tree.zip"
        with zipfile.ZipFile(tree, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
    found, unread = read_in(tree, Archive.create(tmp_path / "archive"))
    assert found == sorted(attempts)
    assert sorted(unread.split(", ")) == sorted(left.replace("`.", "`*.").split(", "))


TWO = {
    "one level of names that say nothing": ({"ann.py": ADD, "bob.py": ADD}, ("'{task}.py'", "'{author}.py'")),
    "numbers below outcomes that say nothing": (
        {"add/correct/1.py": ADD, "add/wrong/2.py": ADD + "#"},
        ("add/{verdict}/{task}.py", "add/{verdict}/{author}.py"),
    ),
    "two exercises in a path": ({"hw1/p1.py": ADD, "hw1/p2.py": ADD, "hw2/p1.py": ADD}, ("'{task}/{author}.py'", "'{author}/{task}.py'")),
    "two depths with nothing in common": (
        {"a/x.py": ADD, "b/x.py": ADD, "c/x.py": ADD, "d/k/main.py": ADD, "d/l/main.py": ADD},
        ("'{task}/x.py'", "d/{task}/main.py", "(3 of 5 programs)", "(2 of 5 programs)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TWO)
def test_of_two_layouts_none_is_taken_and_the_maps_of_both_are_shown(tmp_path, case):
    files, shown = TWO[case]
    with pytest.raises(SourceError, match=r"can be read in \d ways") as error:
        reading_of(put(tmp_path, files), {})
    assert all(text in str(error.value) for text in shown)


def test_what_is_not_read_is_named_before_and_after_the_import(tmp_path, capsys, monkeypatch):
    tree = put(
        tmp_path / "tree", {**numbered("hw1/student{}.py", 3), **numbered("hw2/{}.txt", 12, "x"), "hw2/student0.py": ADD}
    )
    monkeypatch.setattr("sys.argv", ["upsolve", "ingest", str(tree), str(tmp_path / "archive"), "--no-check"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert Counter(shown.splitlines())[f"{tree}: 12 files are not read: 12 `*.txt`"] == 2
    assert len(open_archive(tmp_path / "archive").attempts()) == 4


@pytest.mark.slow
def test_the_shares_of_a_tree_are_read_as_the_whole_is(tmp_path, monkeypatch):
    files = {
        **numbered("t{}/ann.py", 30),
        **numbered("t{}/bob.cpp", 30, CPP),
        **{f"t{k}/statement.md": f"Add {k}." for k in range(30)},
    }
    files |= {f"t{k}/tests/{n}.{end}": f"{n}\n" for k in range(30) for n in range(3) for end in ("in", "out")}
    tree = put(tmp_path / "tree", files)
    source = str(map_file(reading_of(tree, {})))
    found = []
    for name, size, workers in (("one", 1 << 20, 1), ("two", 2000, 1), ("three", 2000, 2)):
        monkeypatch.setattr("upsolve.importers.tables.table.SHARE_BYTES", size)
        monkeypatch.setattr("upsolve.importers.shares.SHARE_BYTES", size)
        archive = Archive.create(tmp_path / name)
        report = ingest(archive, source, tree, workers=workers)
        assert (report.added["tasks"], report.added["attempts"], report.bad) == (30, 60, 0)
        parts = {
            f"{one}/{part.name.partition('-')[2]}": part.read_bytes()
            for one in ("tasks", "attempts")
            for part in archive.parts(one)
        }
        found.append(([*archive.tasks()], [*archive.attempts()], parts))
    assert found[0][:2] == found[1][:2] and len(found[1][2]) > 10 and found[1] == found[2]
    assert {len(task.tests) for task in found[0][0]} == {3} and {task.language for task in found[0][0]} == {""}


def test_a_task_whose_statement_is_missing_keeps_its_tests(tmp_path):
    files = {f"{task}/{author}/sol.py": ADD for task in "abc" for author in ("ann", "bob")}
    files |= {f"{task}/statement.md": f"Task {task}." for task in "ab"}
    files |= {f"{task}/tests/1.{end}": f"{end}\n" for task in "abc" for end in ("in", "out")}
    tree = put(tmp_path / "tree", files)
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, str(map_file(reading_of(tree, {}))), tree)
    assert {task.task_id[-1]: (task.prompt, len(task.tests)) for task in archive.tasks()} == {
        "a": ("Task a.", 1),
        "b": ("Task b.", 1),
        "c": ("", 1),
    }
    assert len(archive.attempts()) == 6


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_a_table_that_names_the_programs_of_a_tree_is_read(tmp_path, packed):
    index = "file,problem,verdict\ncode/1.py,sum,OK\n./code/2.py,sum,WRONG_ANSWER\n"
    tree = put(tmp_path / "in", {"subs/index.csv": index, "subs/code/1.py": ADD, "subs/code/2.py": CPP})
    if packed:
        with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
            for file in tree.rglob("*.*"):
                archive.write(file, file.relative_to(tree))
        tree = tmp_path / "in.zip"
    reading = reading_of(tree, {})
    assert reading.options["code_file"] == "file"
    archive = Archive.create(tmp_path / "archive")
    ingest(archive, reading.source, tree, **reading.options)
    outcomes = {verdict.attempt_id: verdict.status.value for verdict in archive.verdicts()}
    assert {one.code: outcomes[one.attempt_id] for one in archive.attempts()} == {ADD: "passed", CPP: "failed"}
    if not packed:
        (tree / "subs/index.csv").unlink()
        with pytest.raises(SourceError, match="2 ways"):
            reading_of(tree, {})
