"""Programs that are run and not judged: whatever they do to descriptors, processes and files is their own result."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from upsolve import languages
from upsolve.errors import JudgeError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.service.run_code import Program, run_program

SETTINGS = JudgeSettings(Limits(wall_seconds=2, cpu_seconds=2))
REPORT = 'import os\nos.write(3, b\'{{"{}": "x"}}\\n\')\n'
HOSTILE = {
    "report a broken sandbox": REPORT.format("broken") + "raise SystemExit(5)",
    "report a missing command": REPORT.format("unrunnable") + "raise SystemExit(5)",
    "report a broken setup": REPORT.format("setup") + "raise SystemExit(5)",
    "flood the reports": "import os\nfor _ in range(9): os.write(3, b'[' * 300_000)\nraise SystemExit(5)",
    "close all descriptors": "import os\nos.closerange(0, 100)\nos._exit(5)",
    "print reports as results": "import os\nos.dup2(1, 3)\nprint('{\"broken\": 1}')\nraise SystemExit(5)",
    "lower all limits": "import resource as r\nr.setrlimit(r.RLIMIT_NOFILE, (0, 0))\nr.setrlimit(r.RLIMIT_FSIZE, (0, 0))\nraise SystemExit(5)",
    "leave a folder main.py": "import os\nos.remove('main.py')\nos.mkdir('main.py')\nraise SystemExit(5)",
    "leave modules": "for name in ('json', 'os', 'sys'): open(name + '.py', 'w').write('raise SystemExit(7)')\nraise SystemExit(5)",
    "leave a secret": "import os\nopen('out', 'w').write('x')\nos.chmod('out', 0)\nraise SystemExit(5)",
    "leave a folder": "import os\nos.mkdir('out')\nraise SystemExit(5)",
    "leave a loop": "import os\nos.symlink('out', 'out')\nraise SystemExit(5)",
    "leave deep folders": "import os\nfor _ in range(1100):\n    os.mkdir('d')\n    os.chdir('d')\nraise SystemExit(5)",
    "leave a large file": "open('out', 'w').write('x' * 3_000_000)\nraise SystemExit(5)",
    "leave odd names": "open(b'\\xff\\n\"', 'w')\nraise SystemExit(5)",
    "fork and leave": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nraise SystemExit(5)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_program_decides_only_its_own_result(name):
    for fetch in (("out",), None):
        result = run_program(Program(HOSTILE[name], fetch=fetch), SETTINGS)
        assert result.ended.returncode == 5 and not {*result.files} & {"out"}
    assert run_program(Program("print(1)", fetch=None), SETTINGS).files == {"main.py": b"print(1)"}


def test_a_program_that_kills_all_it_can_is_a_failed_one():
    for code in ("os.kill(-1, 9)", "os.killpg(0, 9)", "os.kill(os.getppid(), 9)", "os.kill(1, 9)"):
        ended = run_program(Program(f"import os\n{code}\nraise SystemExit(5)"), SETTINGS).ended
        assert (ended.returncode, ended.signal) in ((None, 9), (1, 0), (5, 0)), code


def test_a_file_that_cannot_be_written_is_no_result_of_the_program():
    with pytest.raises(JudgeError, match="a/b cannot be written"):
        run_program(Program("", files={"a": b"", "a/b": b""}), SETTINGS)


def test_files_fill_the_room_that_there_is_and_the_rest_is_named():
    code = "for name in 'abc': open(name, 'w').write(name * 400_000)"
    result = run_program(Program(code, fetch=("a", "none", "b", "c", "main.py")), SETTINGS)
    assert {name: len(data) for name, data in result.files.items()} == {"a": 400_000, "b": 400_000, "main.py": len(code)}
    assert result.left_out == ("c",) and result.noted.stderr.endswith(b": c\n") and result.files["b"] == b"b" * 400_000
    small = replace(SETTINGS, limits=replace(SETTINGS.limits, output_bytes=100))
    assert run_program(Program("print(1)", fetch=None), small).files == {"main.py": b"print(1)"}


@pytest.fixture
def unseen(tmp_path, monkeypatch):
    """Add a language whose interpreter is found here and not in the sandbox, as a link to a home folder is."""
    (tmp_path / "zz").write_text("#!/bin/sh\necho 1\n")
    (tmp_path / "zz").chmod(0o755)
    record = "name: zz\nfile: main.zz\nrun: [{0}, main.zz]\nversion: [{0}]\ninstall: zz\n"
    (tmp_path / "zz.yaml").write_text(record.format(tmp_path / "zz"))
    (tmp_path / "built.yaml").write_text(record.replace("name: zz", "name: built\ncompile: [{0}]").format(tmp_path / "zz"))
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path))
    languages.languages.cache_clear()
    yield ("zz", "built")
    languages.languages.cache_clear()


def test_a_language_that_the_sandbox_does_not_show_leaves_attempts_unscored(unseen):
    for name in unseen:
        task = Task("t", "", (TestCase(TestKind.STDIO, "", "1"),), language=name)
        verdict = judge(task, Attempt("t", "x", name), SETTINGS)
        assert verdict.status is Status.UNSCORED and "cannot be run" in verdict.error_message, verdict
        with pytest.raises(JudgeError, match="cannot be run"):
            run_program(Program("x", name), SETTINGS)


@pytest.mark.skipif(not shutil.which("sh", path="/bin"), reason="no sh here")
def test_a_program_that_builds_to_nothing_has_failed(tmp_path, monkeypatch):
    """As a library in Rust does, which compiles without an executable."""
    (tmp_path / "nn.yaml").write_text(
        "name: nn\nfile: main.nn\ncompile: [sh, -c, 'true']\nrun: [./main]\nversion: [sh]\ninstall: sh\n"
    )
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path))
    languages.languages.cache_clear()
    try:
        result = run_program(Program("x", "nn"), SETTINGS)
        verdict = judge(Task("t", "", (TestCase(TestKind.STDIO, "", "1"),)), Attempt("t", "x", "nn"), SETTINGS)
    finally:
        languages.languages.cache_clear()
    assert result.ended.returncode == 127 and b"./main cannot be run" in result.ended.stderr
    assert verdict.status is Status.RUNTIME_ERROR and "./main cannot be run" in verdict.error_message


def test_files_of_programs_in_other_languages_are_fetched():
    if not Path("/bin/bash").exists():
        pytest.skip("no bash here")
    result = run_program(Program("mkdir d; echo 1 > d/x; exit 4", "bash", fetch=None), SETTINGS)
    assert result.ended.returncode == 4 and result.files["d/x"] == b"1\n"
