"""Languages by YAML. Those that `make test-languages` installs are under the mark `languages`; bash is everywhere."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from upsolve import languages
from upsolve.config import VerifyConfig
from upsolve.errors import ConfigError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.judge.programs import exception_in, shortened
from upsolve.verify.limits import JudgeSettings, Limits, judge_settings
from upsolve.verify.pool.pool import verify
from upsolve.verify.sandbox.runner import server

SETTINGS = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5))
SUM = Task("sum", "", tuple(TestCase(TestKind.STDIO, f"{a} {b}\n", f"{a + b}\n") for a, b in ((1, 2), (10, 20))))
CASES = json.loads((Path(__file__).parent / "languages.json").read_text())
"""By language: a right program, a wrong one, one that does not compile and its line, one that fails while it runs; ``honest``: further
right programs; ``full``: programs that need more memory than they may use; ``says``: one that speaks of memory and fails."""

WANTED = {
    "honest": (Status.PASSED, ""),
    "full": (Status.MEMORY_LIMIT, "OutOfMemory"),
    "says": (Status.RUNTIME_ERROR, "ExitCode"),
}


SMALL = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5, memory_bytes=128 << 20))


def run(name, code, task=SUM, settings=SETTINGS):
    return judge(task, Attempt(task.task_id, code, language=name), settings)


@pytest.mark.parametrize("name", ["bash", *(pytest.param(n, marks=pytest.mark.languages) for n in CASES if n != "bash")])
def test_a_language(name):
    case = CASES[name]
    right = run(name, case["right"])
    assert right.status is Status.PASSED, right
    assert run(name, case["wrong"]).status is Status.FAILED
    broken = run(name, case["broken"])
    assert (broken.status, broken.error_line) == (Status.COMPILE_ERROR, case["broken_line"]), broken
    assert broken.findings[0].kind == "syntax" and broken.error_message
    fails = run(name, case["fails"])
    assert fails.status is Status.RUNTIME_ERROR, fails
    assert (fails.error_line, fails.error_type) == (case.get("fails_line"), case["fails_type"]), fails
    assert run(name, case["endless"], settings=JudgeSettings(Limits(wall_seconds=5, cpu_seconds=0.4))).status is Status.TIMEOUT


@pytest.mark.parametrize("name", ["bash", *(pytest.param(n, marks=pytest.mark.languages) for n in CASES if n != "bash")])
def test_the_constant_program_of_a_language_prints_one(name):
    task = Task("one", "", (TestCase(TestKind.STDIO, "7\n", "1\n"), TestCase(TestKind.STDIO, "", "1\n")))
    verdict = run(name, languages.language(name).constant, task)
    assert verdict.status is Status.PASSED, verdict


def test_programs_judged_together_run_their_own_files_while_a_checker_decides():
    checker = "def check(input, expected, output):\n    return output == expected\n"
    task = replace(SUM, compare="checker", checker=checker)
    right, wrong = "read a b; echo $((a + b))", "echo wrong"
    codes = [right, wrong, f"{right} # again", f"{wrong} # again"]
    verdicts = judge_all([(task, Attempt("sum", code, language="bash")) for code in codes], SETTINGS)
    assert [verdict.passed for verdict in verdicts] == [2, 0, 2, 0]


@pytest.mark.parametrize(
    ("name", "key", "code"),
    [
        pytest.param(name, key, code, marks=[pytest.mark.languages] if name != "bash" else [], id=f"{name}-{key}-{number}")
        for name, case in CASES.items()
        for key in ("honest", "full", "says")
        for number, code in enumerate([case[key]] if key == "says" else case.get(key, []))
    ],
)
def test_honest_programs_pass_and_full_memory_is_memory_limit(name, key, code):
    verdict = run(name, code, settings=SMALL if (name, key) == ("bash", "full") else SETTINGS)
    assert (verdict.status, verdict.error_type) == WANTED[key], verdict


@pytest.mark.languages
@pytest.mark.parametrize("name", ["c", "cpp"])
def test_endless_recursion_is_no_full_heap(name):
    verdict = run(name, "int f(int n) { volatile int x[9] = {n}; return f(n + 1) + x[0]; }\nint main() { return f(0); }\n")
    assert (verdict.status, verdict.error_type) == (Status.RUNTIME_ERROR, "Signal11"), verdict


def test_a_long_standard_error_is_searched_at_its_ends():
    began, ended = b'Exception in thread "main" java.lang.Early\n', b'Exception in thread "main" a.Late'
    java = languages.languages()["java"]
    words = shortened(began + b"x" * 10**6 + b"\n" + ended)
    assert exception_in(java, words.decode()) == "Late" and words.startswith(began) and len(words) < 40_000
    assert shortened(began) == began and exception_in(java, "") == ""


def test_words_about_memory_make_no_wrong_answer_better():
    assert run("bash", "echo 4; echo 'cannot allocate 9 bytes' >&2").status is Status.FAILED


@pytest.mark.parametrize(
    ("name", "code", "test", "status", "line"),
    [
        ("bash", "a=1\nset -u; echo $undefined", "", "runtime_error", 2),
        ("bash", "a=1\nfi", "", "compile_error", 2),
        ("bash", "a=1", "\nfi", "compile_error", None),
        ("bash", "f() {\nset -u; echo $undefined\n}", "f", "runtime_error", 2),
        ("bash", "a=1", "set -u; echo $undefined", "runtime_error", None),
        ("bash", "a=1\nkill -6 $$", "", "runtime_error", None),
        pytest.param("javascript", "let a = 1;\nfoo();", "", "runtime_error", 2, marks=pytest.mark.languages),
        pytest.param("cpp", "int f() {\n  retur 1; }", "int main() {}", "compile_error", 2, marks=pytest.mark.languages),
        pytest.param("cpp", "int f();", "int main() { g(); }", "compile_error", None, marks=pytest.mark.languages),
        pytest.param("java", "package a.b;\nclass A {\n  int x = 1.5;\n}", "", "compile_error", 3, marks=pytest.mark.languages),
    ],
)
def test_lines_are_those_of_the_attempt(name, code, test, status, line):
    """The setup precedes the attempt in the program, and the test follows it."""
    setup = "" if name == "java" else "// one\n// two" if name != "bash" else "# one\n# two"
    verdict = run(name, code, Task("t", "", (TestCase(TestKind.CODE, test),), setup=setup))
    assert (verdict.status.value, verdict.error_line) == (status, line), verdict
    assert {finding.line for finding in verdict.findings} == ({line} if line else set())
    assert verdict.error_message


@pytest.mark.languages
@pytest.mark.parametrize(
    ("name", "code", "status", "line"),
    [
        (
            "cpp",
            "#include <algorithm>\nstruct S { int a; };\nint main() {\n  S v[2];\n  std::sort(v, v + 2);\n}",
            "compile_error",
            5,
        ),
        (
            "java",
            'package a.b;\npublic class Sol {\n  public static void main(String[] a) {\n    new java.util.Scanner("").next();\n  }\n}',
            "runtime_error",
            4,
        ),
        ("java", "public class A { }\npublic class B { }\n", "compile_error", 1),
    ],
)
def test_lines_that_a_library_reports(name, code, status, line):
    """An error in a template or a method of the library is at the line that uses it."""
    verdict = run(name, code)
    assert (verdict.status.value, verdict.error_line) == (status, line), verdict


def test_every_language_has_a_case():
    assert {one.name for one in languages.languages().values() if not one.engine} == {*CASES, "text"}


def test_a_text_is_its_output():
    task = Task("word", "", (TestCase(TestKind.STDIO, "", "pass"),), language="text")
    assert [run("text", code, task).status for code in ("pass", " pass", "fail")] == [
        Status.PASSED,
        Status.FAILED,
        Status.FAILED,
    ]


def test_code_behind_the_attempt_decides_by_its_exit():
    task = Task("code", "", (TestCase(TestKind.CODE, '[ "$(double 4)" = 8 ] || exit 1'),))
    good = run("bash", "double() { echo $(($1 * 2)); }", task)
    assert good.status is Status.PASSED and good.isolation.endswith(",in_process")
    assert run("bash", "double() { echo $1; }", task).status is Status.RUNTIME_ERROR


def test_code_and_programs_in_one_task():
    """Code behind the attempt runs separately from the program that reads standard input."""
    task = replace(SUM, tests=(SUM.tests[0], TestCase(TestKind.CODE, '[ "$x" = 1 ] || exit 1'), SUM.tests[1]))
    outcomes = [
        run("bash", f"x={x}\nread a b; echo $((a + b{more}))", task).outcomes for x, more in ((1, ""), (2, ""), (1, "- a"))
    ]
    right, wrong, failed = Status.PASSED, Status.FAILED, Status.RUNTIME_ERROR
    assert outcomes == [(right, right, right), (right, failed, right), (wrong, right, wrong)]


def test_programs_of_all_languages_in_one_batch_do_not_meet():
    codes = [("bash", f"echo {k} > left; read a b; echo $((a + b)); ls | wc -l >&2") for k in range(3)]
    codes += [("python", f"a, b = map(int, input().split())\nprint(a + b)  # {k}") for k in range(12)]
    codes += [("bash", "[ -e left ] && exit 3; read a b; echo $((a + b))")]
    verdicts = judge_all([(SUM, Attempt("sum", code, language=name)) for name, code in codes], SETTINGS)
    assert [v.status.value for v in verdicts] == ["passed"] * 16


def test_a_sandbox_for_any_program_holds_as_well():
    code = "ls /root /home /srv 2>/dev/null; cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' | grep -c HOME; (echo x > /dev/tcp/127.0.0.1/22) 2>/dev/null && echo net; touch /usr/x 2>/dev/null && echo wrote; echo 3 > /proc/sys/vm/drop_caches 2>/dev/null && echo sysctl; true"
    verdict = run("bash", code, Task("look", "", (TestCase(TestKind.STDIO, "", "0\n"),)))
    assert verdict.stdout_head.split() in (["0"], []), verdict


def test_missing_parts_are_named():
    assert "cobol" in run("cobol", "x").error_message
    call = Task("c", "", (TestCase(TestKind.CALL, "f(1)", "1"),))
    assert "CALL tests are for Python" in run("bash", "x", call).error_message


def test_a_package_that_is_missing_is_no_fault_of_the_attempt(tmp_path, monkeypatch):
    """Only packages of the task's own language are looked for: of a task for any language, they are those of Python."""
    (tmp_path / "shell.yaml").write_text(
        "name: shell\naliases: [sh]\nfile: x.sh\nrun: [bash, x.sh]\npackage: [bash, -c, 'command -v {package}']\n"
    )
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path))
    languages.languages.cache_clear()
    try:
        task = Task("u", "", (TestCase(TestKind.STDIO, "", "ABC"),), language="sh", requires=("cat", "no-such-tool"))
        verdict = run("shell", "printf ABC", task)
        assert verdict.status is Status.UNSCORED
        assert verdict.error_message == "task u requires no-such-tool, which shell cannot load: install it for all users"
        assert run("shell", "printf ABC", replace(task, requires=("cat",))).status is Status.PASSED
        assert run("shell", "printf AB", replace(task, requires=("cat",))).status is Status.FAILED
        assert run("shell", "printf ABC", replace(task, language="")).status is Status.PASSED
        other = run("bash", "printf ABC", replace(task, language="bash"))
        assert "requires cat: language bash has no key `package`" in other.error_message
    finally:
        languages.languages.cache_clear()


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A language that takes Python programs for scripts of sh, so that one sees what ran them."""
    (tmp_path / "shell.yaml").write_text("name: shell\nfile: main.py\ncompile: [sh, -n, main.py]\nrun: [sh, main.py]\n")
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path))
    languages.languages.cache_clear()
    yield judge_settings(VerifyConfig(python="shell", cache=False))
    languages.languages.cache_clear()


def test_programs_in_python_are_run_by_the_language_of_the_settings(shell, tmp_path):
    assert run("python", "read a b; echo $((a + b))", settings=shell).status is Status.PASSED
    assert run("python", "if", settings=shell).status is Status.COMPILE_ERROR
    right = "a, b = map(int, input().split())\nprint(a + b)\n"
    assert run("python", right, settings=shell).status is Status.COMPILE_ERROR
    assert run("python", right).status is Status.PASSED
    late = f"from __future__ import annotations\n{right}"
    assert run("python", late, replace(SUM, setup="x = 1"), shell).status is Status.PASSED, (
        "by a fork: the setup precedes the import"
    )
    call = Task("f", "", (TestCase(TestKind.CALL, "f()", "1"),), "f")
    assert run("python", "def f(): return 1", call, shell).status is Status.PASSED, (
        "only programs have an interpreter of their own"
    )
    cached = replace(shell, cache=tmp_path / "verdicts.sqlite")
    pair = (SUM, Attempt("sum", right))
    found = [verify([pair], settings)[0].status for settings in (replace(cached, python=""), cached, cached)]
    assert found == [Status.PASSED, Status.COMPILE_ERROR, Status.COMPILE_ERROR]


def test_a_language_that_is_to_run_python_programs_must_be_known():
    with pytest.raises(ConfigError, match="verify.python: unknown language 'nope'"):
        verify([(SUM, Attempt("sum", ""))], replace(SETTINGS, python="nope"))


@pytest.mark.parametrize(
    ("config", "lines", "words"),
    [
        ({"python": "bash"}, True, "bash excludes recording executed lines"),
        ({"python": "bash", "packages": ("math",), "executor": "ray"}, False, "bash excludes verify.packages"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(config, lines, words):
    with pytest.raises(ConfigError, match=words):
        judge_settings(VerifyConfig(**config), lines=lines)


def test_of_hidden_folders_only_the_list_of_haskell_packages_is_shown():
    verdict = run("bash", "ls /var/log /var/lib/dpkg; ls /var/lib/ghc; touch /var/lib/ghc/x && echo written")
    assert verdict.stdout_head.split() == (["package.conf.d"] if Path("/var/lib/ghc").is_dir() else []), verdict


@pytest.mark.parametrize("name", [n for n, tools in languages.languages().items() if tools.package and not tools.missing()])
def test_the_command_of_a_language_finds_no_package_that_is_not_there(name):
    task = replace(SUM, language=name, requires=("Nowhere",))
    assert "requires Nowhere, which" in run(name, CASES[languages.language(name).name]["right"], task).error_message


def test_a_new_language_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "upper.yaml").write_text("name: upper\nfile: x.txt\nrun: [bash, -c, 'tr a-z A-Z < x.txt']\n")
    (tmp_path / "gone.yaml").write_text("name: gone\nfile: x\nrun: [no-such-tool]\ninstall: some-package\n")
    monkeypatch.setenv("UPSOLVE_LANGUAGES", f"{tmp_path}{os.pathsep}")
    languages.languages.cache_clear()
    try:
        task = Task("u", "", (TestCase(TestKind.STDIO, "", "ABC"),))
        assert run("upper", "abc", task).status is Status.PASSED
        assert "apt install some-package" in run("gone", "abc", task).error_message
        for text, said in (("name: x\n", "file, run"), ("name: x\nfile: y\nrun: [z]\nspeed: 3\n", "speed"), ("a: [", "YAML")):
            (tmp_path / "bad.yaml").write_text(text)
            with pytest.raises(ConfigError, match=f"bad.yaml.*{said}"):
                languages.read(tmp_path / "bad.yaml")
    finally:
        languages.languages.cache_clear()


@pytest.mark.skipif("cgroup" not in server().layers, reason="no control groups here")
def test_address_space_is_not_limited_where_the_control_group_limits_memory():
    """A large array of which a program uses little is no error, and one that it fills is `memory_limit`, not a segmentation fault."""
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "unlimited\n"),))
    assert run("bash", "ulimit -v", task).status is Status.PASSED


@pytest.mark.skipif("cgroup" not in server().layers, reason="no control groups here")
def test_a_child_that_was_killed_for_memory_is_a_memory_limit_unless_the_answer_is_right():
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "done\n"),))
    settings = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5, memory_bytes=128 << 20))
    hungry = "perl -e '$x = \"a\" x 3e8'"
    codes = (f"{hungry} && echo done", f"{hungry} || exit 3", f"{hungry} && echo x; echo done", "echo no")
    found = judge_all([(task, Attempt("t", code, "bash")) for code in codes], settings)
    assert [verdict.status.value for verdict in found] == ["memory_limit", "memory_limit", "passed", "failed"]


@pytest.mark.skipif("cgroup" not in server().layers, reason="no control groups here")
def test_children_killed_for_memory_are_those_of_one_attempt_of_a_batch():
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "done\n"),))
    settings = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5, memory_bytes=128 << 20))
    child = "if not os.fork():\n    x = bytearray(b'a') * (70 << 20)\n    time.sleep(0.4)\n    os._exit(0)\n"
    hungry = f"import os, time\n{child * 4}print([os.wait()[1] for _ in range(4)])\n"
    found = judge_all([(task, Attempt("t", code)) for code in ("print('done')", hungry, "print('done')", "print(1)")], settings)
    assert [verdict.status.value for verdict in found] == ["passed", "memory_limit", "passed", "failed"]


@pytest.mark.parametrize(
    ("build", "run_by", "status"),
    [
        ("exit 1", "true", Status.PASSED),
        ("true", "echo 'AttributeError: pairwise' >&2; exit 1", Status.PASSED),
        ("true", "echo 'ValueError: no' >&2; exit 1", Status.RUNTIME_ERROR),
        ("true", "true", Status.FAILED),
    ],
)
def test_programs_that_an_older_python_may_lack_something_for_are_judged_by_this_one(
    build, run_by, status, tmp_path, monkeypatch
):
    commands = f"compile: {json.dumps(['sh', '-c', build])}\nrun: {json.dumps(['sh', '-c', run_by])}\n"
    record = f"name: older\nfile: main.py\n{commands}exception: '^(?P<type>\\w+Error)'\ngrammar: tree_sitter_python\n"
    (tmp_path / "older.yaml").write_text(record)
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path))
    languages.languages.cache_clear()
    try:
        right = "match input().split():\n    case [a, b]:\n        print(int(a) + int(b))\n"
        found = run("python", right, settings=judge_settings(VerifyConfig(python="older", cache=False)))
    finally:
        languages.languages.cache_clear()
    assert found.status is status


def test_an_unknown_language_names_the_folders_that_were_searched(monkeypatch):
    for folders in ("", "langages"):
        monkeypatch.setenv("UPSOLVE_LANGUAGES", folders)
        with pytest.raises(
            ValueError, match=rf"unknown language 'awk'; known: ada, .*UPSOLVE_LANGUAGES \({folders or 'not set'}\)"
        ):
            languages.language("awk")
