"""What languages prepare is used inside the sandbox, no attempt can change it, and its absence changes nothing but the time."""

import hashlib
import time

import pytest

from upsolve import languages
from upsolve.errors import ConfigError
from upsolve.languages import is_prepared, preparable, prepare, prepared_folder
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.attacks import tries
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox.runner import forget_server

NOTED = """name: noted
file: main.sh
files: {extra: hello}
compile: [bash, -n, main.sh]
run: [bash, main.sh, first, '{prepared}/note']
environment: {NOTE: '{prepared}/note', OTHER: plain}
prepare: cat "$HOME/extra" > note; mkdir deep; echo data > deep/file
version: [bash, --version]
"""
SHOW = 'echo "$#"; cat "$2" 2> /dev/null; cat "$NOTE" 2> /dev/null; echo "$OTHER"; true'
LONG = JudgeSettings(Limits(wall_seconds=60, cpu_seconds=30))


@pytest.fixture
def noted(tmp_path, monkeypatch):
    """A language that is bash with something to prepare, and an empty folder for what is prepared."""
    (tmp_path / "languages").mkdir()
    (tmp_path / "languages" / "noted.yaml").write_text(NOTED)
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path / "languages"))
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path / "packages"))
    languages.languages.cache_clear()
    forget_server("any")
    yield languages.languages()["noted"]
    languages.languages.cache_clear()
    forget_server("any")


@pytest.fixture
def prepared_here(tmp_path, monkeypatch):
    """Prepare installed languages in a folder of this test's own."""
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path))
    forget_server("any")

    def run(name):
        one = languages.languages()[name]
        if one.missing():
            pytest.skip(f"no {one.missing()} here")
        folder = prepare(one)
        forget_server("any")
        return folder

    yield run
    forget_server("any")


def shown(code=SHOW, language="noted"):
    verdict = judge(Task("t", "", (TestCase(TestKind.STDIO, "", "?"),)), Attempt("t", code, language))
    return verdict.stdout_head.split()


def digest(folder):
    files = sorted(path for path in folder.rglob("*"))
    return [
        (str(p), p.stat().st_mode, p.stat().st_mtime_ns, p.is_file() and hashlib.sha256(p.read_bytes()).hexdigest())
        for p in files
    ]


def test_what_names_the_prepared_folder_is_left_out_until_it_is_there(noted):
    assert not is_prepared(noted) and noted.name in [one.name for one in preparable()]
    assert shown() == ["1", "plain"]
    assert prepare(noted) == prepared_folder() / noted.prepared_name and is_prepared(noted)
    forget_server("any")
    assert shown() == ["2", "hellohelloplain"]


def test_what_other_versions_of_a_language_have_made_is_not_used_and_is_removed(noted, tmp_path):
    old = prepare(noted)
    (tmp_path / "languages" / "noted.yaml").write_text(NOTED.replace("> note;", "> note; echo new >> note;"))
    languages.languages.cache_clear()
    new = languages.languages()["noted"]
    assert not is_prepared(new) and shown() == ["1", "plain"]
    assert prepare(new).is_dir() and not old.exists()
    assert prepare(new).is_dir(), "made again in its place"
    assert [path.name for path in prepared_folder().iterdir()] == [new.prepared_name]


def test_a_script_that_fails_leaves_what_was_there(noted, tmp_path):
    prepare(noted)
    (tmp_path / "languages" / "noted.yaml").write_text(NOTED.replace("mkdir deep", "no-such-tool"))
    languages.languages.cache_clear()
    with pytest.raises(ConfigError, match=r"language noted: prepare: .*no-such-tool"):
        prepare(languages.languages()["noted"])
    assert [path.name for path in prepared_folder().iterdir()] == [noted.prepared_name]


def test_the_key_of_old_names_the_new_one(tmp_path):
    (tmp_path / "old.yaml").write_text("name: x\nfile: y\nrun: [z]\nheaders: {a: [b]}\n")
    with pytest.raises(ConfigError, match=r"old.yaml: headers: is now `prepare`"):
        languages.read(tmp_path / "old.yaml")


@pytest.mark.parametrize("name", ["bash_poison_prepared", pytest.param("c_poison_prepared", marks=pytest.mark.languages)])
def test_no_attempt_changes_what_is_prepared(noted, name):
    folder = prepare(noted)
    before = digest(folder)
    (one,) = [one for one in tries() if one.attack.name == name]
    assert not one.wrong(judge_all(one.pairs(), JudgeSettings()))
    assert digest(folder) == before
    assert shown() == ["2", "hellohelloplain"]


@pytest.mark.slow
def test_a_compiler_takes_the_headers_that_were_made(prepared_here):
    folder = prepared_here("cpp")
    for standard in ("23", "17", "14"):
        (folder / standard / "mine.h").write_text(f"#define MINE {standard}\n", encoding="utf-8")
    code = '#include <{}>\n#include <cstdio>\n{}\nint main() {{ std::printf("%d", 3); }}\n'
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "3"),), language="cpp")
    for header in ("bits/stdc++.h", "iostream", "mine.h"):  # the last shows that the folder is searched
        assert judge(task, Attempt("t", code.format(header, ""), "cpp"), LONG).status is Status.PASSED
    old = "using namespace std; int data[3]; void f() throw(int) { data[0] = 1; }"  # not in the newest standard
    assert judge(task, Attempt("t", code.format("bits/stdc++.h", old), "cpp"), LONG).status is Status.PASSED
    # a header brings no more names than it does from its source
    assert judge(task, Attempt("t", code.format("cstdio", "std::vector<int> x;"), "cpp"), LONG).status is Status.COMPILE_ERROR


@pytest.mark.languages
def test_go_takes_the_compiled_library_and_keeps_what_is_new_to_itself(prepared_here):
    folder = prepared_here("go")
    before = digest(folder)
    code = 'package main\n\nimport (\n\t"fmt"\n\t"net/http"\n)\n\nfunc main() { fmt.Println(http.StatusOK) }\n'
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "200"),), language="go")
    started = time.monotonic()
    verdict = judge(task, Attempt("t", code, "go"), LONG)
    assert verdict.status is Status.PASSED, verdict
    assert time.monotonic() - started < 8, "compiling net/http took as long"
    assert digest(folder) == before


MERGES = "interface Node { children: string }\nconsole.log(1);\n"  # DOM's Element extends Node: the error is in the library
TYPESCRIPT = {
    "const xs: number[] = [1];\nconsole.log(xs.length);\n": Status.PASSED,
    "interface Node { mine: string }\nconsole.log(1);\n": Status.PASSED,
    MERGES: Status.COMPILE_ERROR,
    "export {};\ndeclare global { interface Node { children: string } }\nconsole.log(1);\n": Status.COMPILE_ERROR,
    "export {};\ninterface Node { children: string }\nconsole.log(1);\n": Status.PASSED,
    "let name = 1;\nconsole.log(name);\n": Status.COMPILE_ERROR,
    "class Node {}\nconsole.log(1);\n": Status.COMPILE_ERROR,
    "const x: number = 'a';\n": Status.COMPILE_ERROR,
}
"""Programs and what ``tsc`` says of them: the quick check must say the same, also where only the library has the error."""


@pytest.mark.languages
@pytest.mark.parametrize("prepared", [False, True])
def test_typescript_is_checked_as_tsc_does(prepared_here, prepared):
    if prepared:
        prepared_here("typescript")
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "1"),), language="typescript")
    verdicts = judge_all([(task, Attempt("t", code, "typescript")) for code in TYPESCRIPT], LONG)
    assert {code: v.status for code, v in zip(TYPESCRIPT, verdicts, strict=True)} == TYPESCRIPT


@pytest.mark.languages
def test_javac_takes_the_class_data(prepared_here):
    folder = prepared_here("java")
    assert (folder / "javac.jsa").stat().st_size > 2**20
    code = "class Main { public static void main(String[] args) { System.out.println(3); } }"
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "3"),), language="java")
    assert judge(task, Attempt("t", code, "java"), LONG).status is Status.PASSED
    (folder / "javac.jsa").write_bytes(b"damaged")
    assert judge(task, Attempt("t", code, "java"), LONG).status is Status.PASSED, "an archive that cannot be read is not used"
