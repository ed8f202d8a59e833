"""Languages by YAML. Those that `make test-languages` installs are under the mark `languages`; bash is everywhere."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from upsolve.errors import ConfigError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify import languages
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits

SETTINGS = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5))
SUM = Task("sum", "", tuple(TestCase(TestKind.STDIO, f"{a} {b}\n", f"{a + b}\n") for a, b in ((1, 2), (10, 20))))
CASES = json.loads((Path(__file__).parent / "languages.json").read_text())
"""By language: a right program, a wrong one, one that does not compile and its line, one that fails while it runs."""


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
    assert fails.error_line == case.get("fails_line"), fails
    assert run(name, case["endless"], settings=JudgeSettings(Limits(wall_seconds=5, cpu_seconds=1))).status is Status.TIMEOUT


def test_every_language_has_a_case():
    assert {one.name for one in languages.languages().values() if not one.engine} == set(CASES)


def test_code_behind_the_attempt_decides_by_its_exit():
    task = Task("code", "", (TestCase(TestKind.CODE, '[ "$(double 4)" = 8 ] || exit 1'),))
    good = run("bash", "double() { echo $(($1 * 2)); }", task)
    assert good.status is Status.PASSED and good.isolation.endswith(",in_process")
    assert run("bash", "double() { echo $1; }", task).status is Status.RUNTIME_ERROR


def test_code_and_programs_in_one_task():
    """Code behind the attempt runs apart from the program that reads standard input."""
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


def test_what_is_missing_is_said():
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
