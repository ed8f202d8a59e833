"""The source of repositories, on histories written here."""

import json
import subprocess
import sys

import pytest
from documents import ROOT, blocks, commands, outputs, run_command
from repositories import commit, git

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.history.git import Runs, read, recorded
from upsolve.importers.history.repository import Repository, closure
from upsolve.importers.ingest import ingest
from upsolve.importers.recogniser.suites import module_name, read_tests
from upsolve.types import Status, Verdict
from upsolve.verify.judge.plans import judge_all


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "kit"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    return place


ADD = "def add(a, b):\n    return a {} b\n"
TEST_ADD = "from kit.text import add\n\ndef test_add():\n    assert add(2, 2) == 4\n"
TEST_MORE = TEST_ADD + "\ndef test_more():\n    assert add(1, 2) == 3\n"


def test_the_file_before_a_fix_failed_and_the_file_after_it_passed(folder, tmp_path):
    first = commit(folder, "Start", {"kit/text.py": ADD.format("*"), "tests/test_text.py": TEST_ADD})
    fix = commit(folder, "Add, do not multiply", {"kit/text.py": ADD.format("+"), "tests/test_text.py": TEST_MORE})
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "git", folder).bad == 1  # the first commit adds its files
    (group,) = archive.groups()
    assert group.task.task_id == f"git/kit/{fix[:12]}" and group.task.reference == ADD.format("+")
    before, after = group.attempts
    assert (before.code, after.code) == (ADD.format("*"), ADD.format("+"))
    assert after.parent_id == before.attempt_id and after.author == "Ann"
    facts = json.loads(group.task.extra)
    assert (facts["path"], facts["commit"], facts["parent"]) == ("kit/text.py", fix, first)
    assert facts["repaired"] == ["tests/test_text.py::test_more"]
    assert [(one.status, one.passed, one.total) for one in group.verdicts] == [(Status.FAILED, 1, 2), (Status.PASSED, 2, 2)]
    assert all(one.judge == "recorded:git" and "across" in one.isolation for one in group.verdicts)
    assert "Add, do not multiply" in group.task.prompt and ADD.format("*").strip() in group.task.prompt
    assert "- tests/test_text.py::test_more" in group.task.prompt and all(test.hidden for test in group.task.tests)
    again = judge_all([(group.task, one) for one in group.attempts])
    assert [one.status for one in again] == [Status.FAILED, Status.PASSED]


def test_an_import_reports_its_commits(folder, tmp_path):
    """Commits that change no source count, too; the last report says that all are done."""
    commit(folder, "Start", {"kit/text.py": ADD.format("*"), "tests/test_text.py": TEST_ADD})
    commit(folder, "Say more", {"README.md": "Adds."})
    commit(folder, "Add, do not multiply", {"kit/text.py": ADD.format("+"), "tests/test_text.py": TEST_MORE})
    commit(folder, "Say less", {"README.md": "Adds"})
    reports = []
    ingest(Archive.create(tmp_path / "archive"), "git", folder, on_progress=lambda *report: reports.append(report))
    assert [report for report in reports if report[0] == "commits"] == [("commits", done, 4) for done in (0, 2, 4)]


def test_a_stopped_import_judges_only_the_commits_that_are_missing(folder, tmp_path, monkeypatch):
    """Units of commits are shares of the import, with any number of workers."""
    commit(folder, "Start", {"kit/text.py": ADD.format("*"), "tests/test_text.py": TEST_ADD})
    for sign, test in (("-", 0), ("+", 4), ("*", 6), ("-", -2)):
        commit(
            folder, f"Use {sign}", {"kit/text.py": ADD.format(sign), "tests/test_text.py": TEST_MORE.replace("3", str(test))}
        )
    monkeypatch.setattr("upsolve.importers.history.repository.COMMITS", 2)
    judged, reports = [], []

    def counted(_repository, change, **_options):
        judged.append(change.commit.message)
        return [change.task(_repository)]

    def stop(stage, done, total):
        reports.append((stage, done, total))
        if (stage, done) == ("commits", 3):
            raise KeyboardInterrupt

    monkeypatch.setattr("upsolve.importers.history.git.rows_of", counted)
    archive = Archive.create(tmp_path / "archive")
    with pytest.raises(KeyboardInterrupt):
        ingest(archive, "git", folder, on_progress=stop)
    assert judged == ["Use -", "Use +"] and reports[-1] == ("commits", 3, 5)
    report = ingest(archive, "git", folder, on_progress=lambda *one: reports.append(one))
    assert judged == ["Use -", "Use +", "Use +", "Use *", "Use -"] and len(archive.tasks()) == 4
    assert (report.read, report.bad) == (5, 1) and ("commits", 5, 5) in reports


def test_modules_around_the_attempt_can_be_imported(folder):
    package = '"""Kit."""\nfrom . import names\nfrom .text import Greeter, greet\nVERSION = names.VERSION\n'
    text = (
        "from . import VERSION, names\nfrom kit.deep.one import MARK\n\n\nclass Greeter:\n    def hello(self):\n        return greet('you')\n\n\n"
        "def greet(who):\n    return f'{names.HELLO}{MARK} {who}{}'\n"
    ).replace("VERSION, names", "names")
    tests = (
        "import unittest\nimport kit\nfrom kit import Greeter\nfrom .helpers import WANTED\n\n\nclass TestGreeting(unittest.TestCase):\n"
        "    def setUp(self):\n        self.one = Greeter()\n\n    def test_hello(self):\n"
        "        self.assertEqual(self.one.hello(), WANTED)\n        self.assertEqual(kit.VERSION, 3)\n"
    )
    rest = {
        "src/kit/names.py": "HELLO, VERSION = 'Hello', 3\n",
        "src/kit/__init__.py": package,
        "tests/helpers.py": "WANTED = 'Hello, you!'\n",
    }
    rest |= {
        "src/kit/deep/one.py": "from ..names import VERSION\nMARK = ',' if VERSION else ''\n",
        "tests/test_kit.py": tests,
    }
    commit(folder, "Start", {"src/kit/text.py": text.replace("{}", ""), **rest})
    commit(folder, "Greet louder", {"src/kit/text.py": text.replace("{}", "!")})
    rows = [*read(folder)]
    task, before, first, after, last = rows[1:]
    assert (first.status, last.status) == (Status.FAILED, Status.PASSED)
    assert "in_process" in last.isolation  # the test makes an object of the attempt's class
    assert [one.status for one in judge_all([(task, before), (task, after)])] == [Status.FAILED, Status.PASSED]


def test_packages_that_nothing_imports_are_found_with_what_they_import():
    texts = {"kit/__init__.py": "from kit import base", "kit/base.py": "", "kit/text.py": ""}
    modules = {module_name(path): path for path in texts}
    found = closure([("kit/text.py", "x = 1"), ("tests/test_text.py", "import json")], modules, "kit.text", texts.get)
    assert {name: path for name, (path, _) in found.items()} == {"kit": "kit/__init__.py", "kit.base": "kit/base.py"}


IN_PLACE = """import pickle
import sys

from kit.text import Pair

class Triple(Pair):
    pass

def test_place():
    assert sys.modules[__name__].Triple is Triple and __file__ == "tests/test_text.py"
    assert pickle.loads(pickle.dumps(Triple())).size() == 2
    assert sys.modules["kit.text"].__file__ == "kit/text.py"
"""


def test_a_module_of_tests_can_be_looked_up_as_pickle_and_others_do(folder):
    text = "class Pair:\n    def size(self):\n        return {}\n"
    commit(folder, "Start", {"kit/text.py": text.format(3), "tests/test_text.py": IN_PLACE})
    commit(folder, "Count two", {"kit/text.py": text.format(2)})
    _, _, _, before, _, after = [*read(folder)]
    assert (before.status, after.status) == (Status.FAILED, Status.PASSED) and "in_process" in after.isolation


def test_what_a_build_and_an_installation_would_write_is_there(folder):
    package = "from importlib.metadata import version\nfrom ._version import __version__\nVERSION = version('kit')\nfrom .text import add\n"
    test = "import kit\n\ndef test_version():\n    assert kit.VERSION == kit.__version__ and kit.add(1, 2) == 3\n"
    commit(folder, "Start", {"kit/text.py": ADD.format("-"), "kit/__init__.py": package, "tests/test_kit.py": test})
    commit(folder, "Fix", {"kit/text.py": ADD.format("+")})
    first, last = (row for row in read(folder) if isinstance(row, Verdict))
    assert (first.status, last.status) == (Status.FAILED, Status.PASSED)


def test_a_package_that_cannot_be_imported_fails_every_test(folder):
    package = "from .text import Adder\nimport kit.absent_module\n"
    text = "class Adder:\n    def add(self, a, b):\n        return a {} b\n"
    tests = "import kit\n" + "".join(f"\ndef test_{n}():\n    assert kit.Adder().add(1, 2) == 3\n" for n in range(3))
    commit(folder, "Start", {"kit/text.py": text.format("-"), "kit/__init__.py": package, "tests/test_kit.py": tests})
    commit(folder, "Fix", {"kit/text.py": text.format("+")})
    assert "no test passes after it: ModuleNotFoundError: No module named 'kit.absent_module'" in [*read(folder)][-1].reason


@pytest.mark.parametrize(
    "imports",
    [
        "from kit.text import add",
        "from kit.text import add as plus",
        "import kit.text",
        "import kit.text as t",
        "from kit import text",
        "import kit",
    ],
)
def test_functions_of_the_attempt_are_called_across_processes(folder, imports):
    call = {"plus": "plus", "t": "t.add", "text": "text.add", "kit.text": "kit.text.add", "kit": "kit.add"}
    test = f"{imports}\n\ndef test_add():\n    assert {call.get(imports.split()[-1], 'add')}(1, 2) == 3\n"
    commit(
        folder,
        "Start",
        {"kit/text.py": ADD.format("-"), "kit/__init__.py": "from kit.text import add\n", "tests/test_text.py": test},
    )
    commit(folder, "Fix", {"kit/text.py": ADD.format("+")})
    task, _, first, _, last = [*read(folder)][1:]
    assert (first.status, last.status) == (Status.FAILED, Status.PASSED)
    assert "across" in last.isolation and "import" not in task.tests[0].input


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"kit/text.py": ADD.format("+"), "kit/other.py": "x = 1\n"}, "it changes 2 files of Python"),
        ({"kit/new.py": "x = 1\n"}, "it adds or removes kit/new.py"),
        ({"kit/text.py": "# why\n" + ADD.format("*")}, "no test that failed before it passes after it"),
        ({"kit/text.py": ADD.format("-")}, "no test passes after it: assertion failed"),
        ({"kit/text.py": "import absent_package\n" + ADD.format("+")}, "run `upsolve packages absent_package`"),
        ({"kit/text.py": ADD.format("+") + "#" * 3000}, "kit/text.py is larger than 2 kB"),
        ({"kit/text.py": "x = 1\n", "tests/test_text.py": "import kit.text\n"}, "no test file names its module"),
        ({"kit/text.py": "x = 1\n"}, "no test passes after it: "),
        (
            {"kit/text.py": ADD.format("+"), "tests/test_text.py": "def test_add(tmp_path):\n    pass\n"},
            "no test can be run: tests/test_text.py::test_add: it needs the fixture tmp_path",
        ),
    ],
)
def test_commits_that_are_no_fix_are_rejected_with_the_reason(folder, files, reason):
    commit(folder, "Start", {"kit/text.py": ADD.format("*"), "tests/test_text.py": TEST_ADD.replace("2, 2) == 4", "1, 1) > 0")})
    name = commit(folder, "Second", files)
    rows = [*read(folder, max_kb=2)]
    assert len(rows) == 2 and reason in rows[1].reason
    assert rows[1].file.startswith(f"{folder}@{name[:12]}:kit/") and rows[1].text == "Second"


def test_a_test_whose_outcomes_differ_between_runs_is_marked_and_judges_nothing(folder):
    coins = "import os\n" + "".join(f"\ndef test_coin_{n}():\n    assert add(os.urandom(1)[0] % 2, 0)\n" for n in range(20))
    test = "from kit.text import add\n" + coins + "\ndef test_add():\n    assert add(1, 2) == 3\n"
    commit(folder, "Start", {"kit/text.py": ADD.format("-"), "tests/test_text.py": test})
    commit(folder, "Fix", {"kit/text.py": ADD.format("+")})
    task, _, first, _, last = [*read(folder, repeats=12)][1:]  # in 12 runs a coin of 20 seems steady once in 400,000 times
    assert (first.status, last.status) == (Status.FAILED, Status.PASSED)
    flaky = json.loads(task.extra)["flaky"]
    assert flaky and {finding.kind for finding in last.findings} == {"flaky"} and len(last.findings) == len(flaky)
    assert not any(name.rpartition("::")[2] + "()" in test.input for name in flaky for test in task.tests)


def test_what_a_test_is_good_for():
    def verdict(*outcomes):
        return Verdict("a", Status.FAILED, outcomes=tuple(map(Status, outcomes)), total=5)

    before = verdict("failed", "passed", "passed", "unscored", "failed")
    again = verdict("failed", "passed", "failed", "unscored", "failed")
    after = verdict("passed", "passed", "passed", "passed", "timeout")
    runs = Runs((before, again), (after, after))
    assert [runs.kind(index) for index in range(5)] == ["flipped", "kept", "flaky", "", ""]
    assert recorded(after, ["a::b"]).findings[0].message.startswith("a::b: ")


def test_nothing_that_a_repository_names_is_run_and_nothing_in_it_changes(folder, tmp_path):
    commit(folder, "Start", {"kit/text.py": ADD.format("*"), "tests/test_text.py": TEST_ADD})
    commit(folder, "Fix", {"kit/text.py": ADD.format("+"), "tests/test_text.py": TEST_MORE})
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    for key in (
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.x.textconv",
        "gpg.program",
        "core.sshCommand",
        "filter.x.smudge",
    ):
        git(folder, "config", key, str(trap))
    git(folder, "config", "log.showSignature", "true")
    (folder / ".git/info/attributes").write_text("*.py diff=x filter=x\n")
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (folder / ".git/hooks").mkdir(exist_ok=True)
        (folder / ".git/hooks" / hook).symlink_to(trap)
    (folder / "kit/text.py").write_text("half done")
    state = sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))
    assert len([*read(folder)]) == 6
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*")) == state
    assert not (tmp_path / "sprung").exists()


def test_what_is_no_repository_or_no_revision_is_refused(folder, tmp_path):
    commit(folder, "Start", {"kit/text.py": "x = 1\n"})
    with pytest.raises(SourceError, match="not a git repository"):
        [*read(tmp_path)]
    for revision in ("nowhere", "--output=/tmp/x"):
        with pytest.raises(SourceError, match="git rev-list"):
            [*read(folder, revision=revision)]


def test_odd_names_texts_and_links_are_read(folder, tmp_path):
    (folder / "a\nb.py").write_text("x")
    (folder / "latin.py").write_bytes(b"# \xff\n")
    (folder / "broken").symlink_to("nowhere")
    name = commit(folder, "Ümläut\n\n\tand \x1e more", {"kit/text.py": "x = 1\r\n"})
    with Repository(folder) as repository:
        (only,) = repository.commits("HEAD")
        assert only.message == "Ümläut\n\n\tand \x1e more" and "A a\nb.py" in only.changes and not only.parent
        assert repository.read(name, "latin.py") is None and repository.read(name, "a\nb.py") is None
        assert repository.read(name, "kit/text.py") == "x = 1\n" and repository.read(name, "none.py") is None
        assert repository.names([name[:9], "0" * 40]) == [name, ""]
    assert ingest(Archive.create(tmp_path / "archive"), "git", folder).bad == 1


def test_modules_are_named_as_they_are_imported():
    paths = ("src/kit/text.py", "kit/__init__.py", "lib/one.py", "tools/a/b.py", "src.py", "src/__init__.py")
    assert [*map(module_name, paths)] == ["kit.text", "kit", "one", "tools.a.b", "src", "__init__"]


TESTS = """
import pytest
from .helpers import make
UNUSED = 1
LIMIT = 3
CASES = [(1, 2), (2, 3)]

@pytest.fixture
def thing():
    return 1

def limited(n):
    return n < LIMIT

def test_plain():
    assert limited(2)

@pytest.mark.slow
@pytest.mark.parametrize("a, b", [(1, 2), pytest.param(2, 3, id="two")])
@pytest.mark.parametrize("c", (5,))
def test_many(a, b, c):
    assert make(a) == b and c == 5

@pytest.mark.parametrize(("a", "b"), CASES)
def test_named(a, b): pass

@pytest.mark.parametrize("a", [pytest.param(1, marks=pytest.mark.xfail)])
def test_marked(a): pass

@pytest.mark.skip
def test_skipped(): pass

def test_fixture(thing): pass

async def test_later(): pass

class TestGroup:
    def helper(self): return limited(1)
    def test_a(self): assert self.helper()
    def test_b(self): pass

class TestReady:
    def setup_class(cls): cls.limit = 3
    def setup_method(self, method): self.given = method.__name__
    def test_c(self): assert (self.limit, self.given) == (3, "test_c")

class TestClosed:
    def teardown_method(self): pass
    def test_d(self): pass

if __name__ == "__main__":
    pytest.main()
"""


def test_test_functions_become_statements():
    found = {test.name.partition("::")[2]: test for test in read_tests("pkg/tests/test_x.py", TESTS)}
    assert {name: test.problem for name, test in found.items() if test.problem} == {
        "test_marked": "its parameters are not written in its file",
        "test_skipped": "it has the mark skip",
        "test_fixture": "it needs the fixture thing",
        "test_later": "it is asynchronous",
        "TestClosed::test_d": "its class has teardown_method",
    }
    assert found["test_plain"].code == (
        "LIMIT = 3\n\ndef limited(n):\n    return n < LIMIT\n\ndef test_plain():\n    assert limited(2)\ntest_plain()"
    )
    assert found["test_many"].code.startswith("from pkg.tests.helpers import make\n\ndef test_many(a, b, c):")
    calls = []
    exec(
        found["test_many"].code.partition("\n")[2].replace("make(a)", "note(a, b, c)"),
        {"note": lambda *a: calls.append(a) or a[1]},
    )
    assert calls == [(1, 2, 5), (2, 3, 5)]
    assert "CASES = " in found["test_named"].code and "pytest" not in found["test_named"].code
    assert "test_b" not in found["TestGroup::test_a"].code
    for name in ("TestGroup::test_a", "TestReady::test_c"):
        exec(found[name].code, {})


MARKED = """import sys
import pytest

@pytest.mark.slow
class TestSlow:
    def test_a(self): pass

@pytest.mark.skip
class TestSkipped:
    def test_b(self): pass

@pytest.mark.skipif(sys.platform == "win32", reason="paths")
def test_c(): pass
"""


def test_marks_that_only_select_tests_do_not_hinder_them():
    found = {test.name.partition("::")[2]: test for test in read_tests("tests/test_x.py", MARKED)}
    assert {name: test.problem for name, test in found.items() if test.problem} == {
        "TestSkipped::test_b": "its class has marks of pytest"
    }
    assert found["TestSlow::test_a"].code == "class TestSlow:\n\n    def test_a(self):\n        pass\nTestSlow().test_a()"


def test_commits_are_read_whatever_their_messages_and_files_are_named(folder):
    first = commit(folder, "\x1e", {"a b.py": "1", "\x1e": ""})
    git(folder, "commit", "-q", "--allow-empty", "-m", "Nothing\n\nM\ta.py")
    last = commit(folder, "Last", {"a b.py": "2"})
    with Repository(folder) as repository:
        one, empty, other = repository.commits("HEAD")
    assert (one.name, one.parent, one.message, one.author) == (first, "", "\x1e".strip(), "Ann")
    assert (empty.parent, empty.changes, empty.message) == (first, (), "Nothing\n\nM\ta.py")
    assert ({*one.changes}, other.changes, other.name) == ({"A a b.py", "A \x1e"}, ("M a b.py",), last)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from tiny import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("long"), positions=8192)


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(tmp_path, monkeypatch, model, capsys):
    page, said = ROOT / "docs/tutorials/ci.md", ""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        for words in commands(block.text) if block.kind == "shell" and not block.not_run else ():
            if words[:2] == ["upsolve", "train"]:
                words += ["--model", model, "--set", "data.max_tokens=8000", "--set", "monitor.heldout=2"]
            if words[0] == "upsolve":
                run_command(words)
            else:
                found = {"python": [sys.executable, str(ROOT / words[-2]), words[-1]]}.get(words[0], words)
                subprocess.run(found, check=True, stdout=subprocess.DEVNULL)
            said += capsys.readouterr().out
    shown = outputs(page)
    assert len(shown) == 3 and [line for line in shown if line not in said] == []
    archive = Archive.create(tmp_path / "my-archive")
    judges = ("recorded", "upsolve")
    statuses = [{v.attempt_id: v.status for v in archive.verdicts() if v.judge.startswith(judge)} for judge in judges]
    assert statuses[0] == statuses[1] and [*statuses[1].values()].count(Status.PASSED) == 30
    assert not any(finding.kind == "flaky" for verdict in archive.verdicts() for finding in verdict.findings)
    summary = json.loads((tmp_path / "runs/ci/summary.json").read_text())
    assert summary["steps"] == 4, summary


@pytest.mark.slow
def test_equal_seeds_write_equal_histories(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from make_repository import make

    assert make(tmp_path / "a", 3) == make(tmp_path / "b", 3) == make(tmp_path / "c", 4) == 35
    heads = [git(tmp_path / name, "rev-parse", "HEAD") for name in "abc"]
    assert heads[0] == heads[1] != heads[2]
