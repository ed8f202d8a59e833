"""Programs that wrap, replace or reopen their standard streams read and write as in an interpreter of their own."""

# pyright: basic
import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits

DOUBLE = Task("t", "", tuple(TestCase(TestKind.STDIO, f"{n}\n", f"{2 * n}\n") for n in (21, 4, 5)))
REPLACED = (
    "sys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8')",
    "sys.stdin = io.TextIOWrapper(sys.stdin.detach(), encoding='utf-8')",
    "sys.stdin = codecs.getreader('utf-8')(sys.stdin.buffer)",
    "sys.stdin = sys.stdin.buffer",
    "sys.stdin = sys.stdin.buffer.raw",
    "sys.stdin = open(0)",
    "sys.stdin = os.fdopen(0)",
    "sys.stdin = os.fdopen(sys.stdin.fileno(), 'r', 1024)",
    "sys.stdin = io.BytesIO(sys.stdin.buffer.read())",
    "sys.stdin.reconfigure(encoding='utf-8')",
    "sys.stdin.close(); sys.stdin = open(0)",
    "kept = sys.stdin.buffer; sys.stdin = None; sys.stdin = io.TextIOWrapper(kept)",
    "sys.stdin = open('/dev/stdin')",
    "sys.stdin = os.fdopen(os.open('/dev/fd/0', os.O_RDONLY))",
    "sys.stdin = os.fdopen(os.open('/proc/self/fd/0', os.O_RDONLY))",
    "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8', line_buffering=True)",
    "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), write_through=True)",
    "sys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)",
    "sys.stdout = os.fdopen(1, 'w')",
    "sys.stdout = open(1, 'w', closefd=False)",
    "sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(s.buffer) for s in (sys.stdin, sys.stdout, sys.stderr))",
)


def test_programs_that_replace_their_streams():
    codes = [f"import codecs, io, os, sys\n{line}\nprint(int(sys.stdin.readline()) * 2)\n" for line in REPLACED]
    verdicts = judge_all([(DOUBLE, Attempt("t", code)) for code in codes])
    assert [(line, v.error_message) for line, v in zip(REPLACED, verdicts, strict=True) if v.passed != 3] == []


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("import sys\nprint(sys.stdin is sys.__stdin__)", "True"),
        ("import sys\nprint(sys.argv)", "['main.py']"),
        ("from pathlib import Path\nprint((Path.home() / 'x').write_text('ab'))", "2"),
        ("import os\nos.makedirs(os.path.expanduser('~/a'))\nprint(os.listdir('.'))", "['a']"),
    ],
)
def test_what_a_program_finds(code, output):
    verdict = judge(Task("t", "", (TestCase(TestKind.STDIO, "", output),)), Attempt("t", code))
    assert verdict.status is Status.PASSED, verdict


SHELL = (
    "{ echo b > /dev/stdout; }",
    "echo b > /dev/fd/1",
    "echo b > /proc/self/fd/1",
    "echo b | tee /dev/stderr > /dev/stdout",
    "echo x > /dev/stderr; echo b",
    "name=stdout; echo b > /dev/$name",
    "(sleep 30; echo late > /dev/stdout) & echo b",
    """awk 'BEGIN { print "b" > "/dev/stdout" }'""",
    """perl -e 'open(F, ">", "/dev/stdout"); print F "b\n"'""",
)


@pytest.mark.parametrize("line", SHELL)
def test_opening_the_output_by_name_empties_nothing(line):
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "a\nb\nc\n"),))
    assert judge(task, Attempt("t", f"echo a\n{line}\necho c\n", "bash")).status is Status.PASSED


@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        ("exit 3", Status.RUNTIME_ERROR, "ExitCode"),
        ("kill -SEGV $$", Status.RUNTIME_ERROR, "Signal11"),
        pytest.param("kill -KILL $$", Status.RUNTIME_ERROR, "Signal9", marks=pytest.mark.slow),
        ("kill -KILL $PPID", Status.RUNTIME_ERROR, "Signal9"),
        ("printf '%2000000d' 1", Status.OUTPUT_LIMIT, "OutputLimit"),
        pytest.param("while :; do :; done", Status.TIMEOUT, "Timeout", marks=pytest.mark.slow),
    ],
)
def test_a_program_whose_output_is_a_pipe_ends_as_itself(line, status, error):
    task = Task("t", "", (TestCase(TestKind.STDIO, "", "a\n"),))
    settings = JudgeSettings(Limits(wall_seconds=3, cpu_seconds=1))
    found = judge(task, Attempt("t", f"echo a > /dev/stdout\n{line}\n", "bash"), settings)
    assert (found.status, found.error_type) == (status, error)
