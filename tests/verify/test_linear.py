"""What the trusted process reads of an attempt, an answer or an output takes time in proportion to its length."""

import math
import re
import time
from importlib.util import find_spec

import pytest

from upsolve.config import RewardConfig
from upsolve.languages import languages
from upsolve.policy.answers import code_spans, program_in
from upsolve.policy.served import before_fence
from upsolve.reward.code import line_starts
from upsolve.reward.components import COMPONENTS
from upsolve.reward.hacks import DETECTORS, hacks
from upsolve.reward.judged import Judged
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.analysis import column_of, source_of
from upsolve.verify.judge.outputs import difference, output_matches

UNITS = (
    *"\n \t\r`'\"([{}]\\1<>~#:=a.,-_@/*;|$é\f\u2028",
    *(
        "\r\n",
        "a ",
        "a.",
        "a@",
        "# ",
        "f ",
        "```\n",
        "```py\n",
        "```py\nx=1\n",
        "'''\n```\n",
        "``` ",
        '"""\n',
        "\\\n",
        "<think>\n",
        "</think>",
        "```</think>",
    ),
    *(
        "<|im_end|>",
        "</s>",
        ": SELECT\n",
        "SELECT ",
        "WITH a(",
        "def f(",
        "f = ",
        "class a ",
        "function ",
        "raise ",
        "except ",
        "import a\n",
    ),
    *(
        "/*",
        "<!--",
        "-----BEGIN PRIVATE KEY-----",
        '  File "main.py", line 1\n',
        "main.c:1:1: ",
        "noqa",
        "not ",
        "f(",
        "x[",
        "lambda:",
        "1,",
    ),
)
CALLS = Task("t", "p", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "5")), "f")
INPUTS = Task("t", "p", (TestCase(TestKind.STDIO, "2", "4"), TestCase(TestKind.STDIO, "3", "5")))
WAYS = ("lines", "tokens", "exact", "floats:1e-6")
PATTERNS = [
    getattr(record, key)
    for record in {id(record): record for record in languages().values()}.values()
    for key in ("error", "reason", "trace", "exception", "out_of_memory")
]


def verdict_on(attempt):
    return Verdict(attempt.attempt_id, Status.FAILED, outcomes=(Status.FAILED,) * 2, total=2)


def rewarded(text):
    attempt = Attempt("t", text)
    judged = Judged(CALLS, attempt, verdict_on(attempt))
    return COMPONENTS["format"].value(judged, RewardConfig())


def compared(text):
    return [
        (output_matches(text, other, way), difference(text, other, way)) for way in WAYS for other in ("1 2\n3", text + "1")
    ]


PARSERS = {
    "program of Python": lambda text: program_in(text, "python", ("f",)),
    "program of Python without names": program_in,
    "query": lambda text: program_in(text, "sql"),
    "program of C++": lambda text: program_in(text, "cpp", ("f",)),
    "program of JavaScript": lambda text: program_in(text, "js"),
    "completion of an opened fence": lambda text: (program_in(text, prompt="```python\n"), before_fence(text, truncated=True)),
    "tokens of an answer": lambda text: code_spans(text, "x = 1", [(0, 1), (5, 9)], "python"),
    "rewards": rewarded,
    "detectors": lambda text: [hacks(Attempt("t", text), task, [*DETECTORS]) for task in (CALLS, INPUTS)],
    "lines": line_starts,
    "source of an analysis": lambda text: source_of(CALLS, Attempt("t", text), verdict_on(Attempt("t", text))),
    "columns of findings": lambda text: [column_of(text, line, 3) for line in range(1, text.count("\n"), 8)],
    "outputs": compared,
    "errors of languages": lambda text: [sum(1 for _ in re.finditer(one, text, re.MULTILINE)) for one in PATTERNS if one],
}
if find_spec("upsolve.clean"):
    from upsolve.clean import language, secrets

    PARSERS |= {
        "other languages": lambda text: [form.search(text) for form in (language.HINTS_OF_PYTHON_2, *language.MARKS.values())],
        "secrets": lambda text: [
            sum(1 for _ in form.finditer(text)) for form in (secrets.EMAIL, secrets.PRIVATE_KEY, secrets.FOUR_NUMBERS)
        ],
    }


def slowest(parser, size, forms=("{}x",)):
    """Return the processor time, seconds, and the text of the unit that takes longest."""
    found = (0.0, "")
    for unit in UNITS:
        text = unit * (size // len(unit))
        for form in forms:
            whole = form.replace("{}", text)
            found = max(found, (processor_seconds(parser, whole), unit))
    return found


def processor_seconds(parser, text):
    """Return the least processor time of up to three runs: garbage collection, or a cache that is filled, is no cost of the text."""
    least = math.inf
    for _ in range(3):
        start = time.process_time()
        PARSERS[parser](text)
        least = min(least, time.process_time() - start)
        if least < 0.1:
            break
    return least


@pytest.mark.parametrize("parser", PARSERS)
def test_parsers_are_linear(parser):
    """16 kB: what is quadratic takes more than a second of some unit, what is linear a twentieth."""
    seconds, unit = slowest(parser, 1 << 14)
    assert seconds < 0.5, unit


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS)
def test_parsers_read_a_megabyte(parser):
    seconds, unit = slowest(parser, 1 << 20, ("{}", "{}x", "```python\n{}x"))
    assert seconds < 20, unit


def test_strings_of_a_program_are_found_in_one_pass():
    """Each string's place was counted from the start of the program: 2 s for 30,000."""
    start = time.process_time()
    quoted_spans = pytest.importorskip("upsolve.clean.secrets").quoted_spans
    spans = sorted(quoted_spans("x = 'é';\n" * 30_000, "javascript"), key=lambda span: span.start)
    assert [*spans[:2]] == [range(4, 7), range(13, 16)] and len(spans) == 30_000
    assert time.process_time() - start < 10
