"""Derivations whose answers are texts: the outcome of a program, its output, an input of it, or a test.

Their checkers read literals, or run stored programs on an answer; they run in the sandbox, as all checkers do.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from upsolve.derive.derivation import Derivation, Origin, fenced, judged_as, literal_arguments, most
from upsolve.importers.source import Option
from upsolve.languages import PYTHON
from upsolve.policy.prompt import example, statement
from upsolve.suites.grade import failed_tests
from upsolve.types import Attempt, Group, Status, TestCase, TestKind

__all__ = ["CHECK_INPUT", "CHECK_TEST", "EQUAL", "INPUT", "OUTPUT", "TEST", "VERDICT", "held_checker"]

EQUAL = """
import ast

def check(input, expected, output):
    try:
        got = ast.literal_eval(output.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return False
    want = ast.literal_eval(expected)
    return type(got) is type(want) and got == want
"""
"""Python source of a checker that compares literals."""
HELD = '''
import ast, io, os, signal, sys

SECONDS = 1.0

class Late(BaseException):
    pass

def late(*_):
    raise Late

def literal(text):
    return ast.literal_eval(text.strip())

def call_in(text):
    """Return the arguments of a call of NAME, and the value that it is compared with, if any; None for another text."""
    try:
        body = ast.parse(text.strip()).body if len(text) < 20000 else []
        node = body[0] if len(body) == 1 else None
        node = node.test if isinstance(node, ast.Assert) else node.value if isinstance(node, ast.Expr) else None
        value = None
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            value, node = [ast.literal_eval(node.comparators[0])], node.left
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == NAME and not node.keywords:
            return [repr(ast.literal_eval(part)) for part in node.args], value
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        pass
    return None

def streams_in(text):
    """Return the input and the output of a test in the form of examples; None for another text."""
    if not text.startswith("Input:\\n") or "\\nOutput:\\n" not in text:
        return None
    given, _, output = text[len("Input:\\n"):].rpartition("\\nOutput:\\n")
    return given + "\\n", output

def run(code, given):
    """Return the value of a call in a list, or the output of a program; None if it raises or takes longer than SECONDS."""
    kept = sys.stdin, sys.stdout
    text = given if NAME == "" else ""
    sys.stdin, sys.stdout = (io.TextIOWrapper(io.BytesIO(part.encode())) for part in (text, ""))
    scope, out = {"__name__": "__main__"}, sys.stdout
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, 0.1)
    try:
        exec(SETUP, scope)
        try:
            exec(compile(code, "program", "exec"), scope)
        except SystemExit:
            if NAME:
                return None
        if NAME:
            return [scope[NAME](*map(literal, given))]
        out.flush()
        return out.buffer.getvalue().decode()
    except BaseException:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdin, sys.stdout = kept

def same(got, want):
    if got is None:
        return False
    if NAME == "":
        rows = [[line.split() if WORDS else line.rstrip() for line in text.rstrip().split("\\n")] for text in (got, want)]
        return rows[0] == rows[1] if not WORDS else sum(rows[0], []) == sum(rows[1], [])
    a, b = got[0], want[0]
    if type(a) is float and type(b) in (int, float):
        return abs(a - b) <= 1e-6 * max(1.0, abs(b))
    return type(a) is type(b) and a == b
'''
"""Python source with which checkers run stored programs on an answer. It reads NAME (of the function; empty: programs), SETUP and WORDS."""
CHECK_INPUT = """
def check(input, expected, output):
    if NAME == "":
        return same(run(PROGRAM, output), VALUE)
    found = call_in(output)
    return found is not None and found[1] is None and same(run(PROGRAM, found[0]), VALUE)
"""
CHECK_TEST = """
def check(input, expected, output):
    found = call_in(output) if NAME else streams_in(output)
    if found is None or found[1] is None or found[0] in SHOWN:
        return False
    if not all(same(run(code, found[0]), found[1]) for code in RIGHT):
        return False
    return sum(not same(run(code, found[0]), found[1]) for code in WRONG) >= FAILS
"""


def held_checker(check: str, values: Mapping[str, Any]) -> str:
    """Return the text of a checker: its constants, the functions that run programs, and ``check``."""
    return "".join([*(f"{name} = {value!r}\n" for name, value in values.items()), HELD, check])


WORDS = {True: "pass", False: "fail"}
"""Whether a program passes -> the answer of ``verdict``."""
ANSWERS = 8
"""Largest number of stored tests that serve as answers of ``test``."""


def verdicts(origin: Origin, most: int = 4) -> Iterator[Group]:
    """Yield tasks that ask whether a program passes: as many passing as failing programs, if possible."""
    passed, failed = (origin.chosen(each, (most + 1) // 2) for each in (origin.passed, origin.failed))
    if not passed and not failed:
        origin.leave("no attempt is judged")
    for attempt in [*passed, *failed][:most] if most > 1 else origin.chosen([*passed, *failed], 1):
        asked = (
            f"{statement(origin.task, dialect=False)}\n\nDoes this program pass all tests?\n{fenced(origin.task, attempt.code)}"
        )
        right = WORDS[origin.judged[attempt].status is Status.PASSED]
        task = origin.asked(
            attempt.attempt_id[:8], f"{asked}\n\nAnswer `pass` or `fail`.", TestCase(TestKind.STDIO, "", right, True)
        )
        other = next(word for word in WORDS.values() if word != right)
        yield judged_as(task, [(right, Status.PASSED), (other, Status.FAILED)])


def readable(origin: Origin) -> dict[int, TestCase]:
    """Return the tests, by index, that a checker can read and run on a stored program; counts the reason if there are none."""
    task = origin.task
    calls = dict(literal_arguments(task))
    streams = {place: test for place, test in enumerate(task.tests) if test.kind is TestKind.STDIO and test.expected.strip()}
    if not origin.is_python:
        origin.leave("programs are not Python of the standard library alone")
    elif task.tests and len(calls) == len(task.tests):
        return calls
    elif task.tests and len(streams) == len(task.tests) and task.compare in ("lines", "tokens"):
        return streams
    else:
        origin.leave("tests are neither literal calls of the function nor lines of standard input")
    return {}


def in_python(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts in Python; a task that accepts any language also has others."""
    return [one for one in attempts if one.language in PYTHON]


def shown_tests(origin: Origin) -> list[TestCase]:
    """Return the tests that a prompt may show, with distinct expected values first; counts the reason if there are none."""
    tests = readable(origin)
    shown = [test for test in tests.values() if not test.hidden]
    if tests and not shown:
        origin.leave("all tests are hidden")
    return shown


def held_values(origin: Origin) -> dict[str, Any]:
    """Return the constants of a checker that runs stored programs."""
    return {"NAME": origin.task.entry_point, "SETUP": origin.task.setup, "WORDS": origin.task.compare == "tokens"}


def questions(origin: Origin, most: int) -> Iterator[tuple[str, str, TestCase, TestCase | None]]:
    """Yield questions about passed programs chosen by the seed: key, program, visible test, and a visible test with another expected value (or None)."""
    tests = shown_tests(origin)
    passed = origin.chosen(in_python(origin.passed), most) if tests else []
    if tests and not passed:
        origin.leave("no attempt passed")
    for attempt in passed:
        test = origin.random.choice(tests)
        other = next((one for one in tests if one.expected.strip() != test.expected.strip()), None)
        yield attempt.attempt_id[:8], attempt.code, test, other


def outputs(origin: Origin, most: int = 2) -> Iterator[Group]:
    """Yield tasks that ask what a passed program returns or prints for the input of a visible test."""
    for key, code, test, other in questions(origin, most):
        program = fenced(origin.task, code)
        if test.kind is TestKind.CALL:
            prompt = f"What does `{test.input.strip()}` return?\n{program}\n\nAnswer with the value alone, a Python literal."
            how = {"compare": "checker", "checker": EQUAL}
        else:
            prompt = f"What does this program write?\n{program}\nInput:\n{test.input.rstrip()}\n\nAnswer with its output alone."
            how = {"compare": origin.task.compare}
        task = origin.asked(key, prompt, TestCase(TestKind.STDIO, "", test.expected, True), **how)
        yield judged_as(task, [(one.expected, None) for one in (test, other) if one])


def inputs(origin: Origin, most: int = 2) -> Iterator[Group]:
    """Yield tasks that ask for an input for which a passed program has the output of a visible test."""
    for key, code, test, other in questions(origin, most):
        program, values = fenced(origin.task, code), held_values(origin)
        if test.kind is TestKind.CALL:
            values |= {"PROGRAM": code, "VALUE": [ast.literal_eval(test.expected.strip())]}
            prompt = f"Which call returns `{test.expected.strip()}`?\n{program}\n\nAnswer with a call of `{origin.task.entry_point}`."
        else:
            values |= {"PROGRAM": code, "VALUE": test.expected}
            prompt = (
                f"With which input does this program write\n{test.expected.rstrip()}\n{program}\n\nAnswer with the input alone."
            )
        checker = held_checker(CHECK_INPUT, values)
        task = origin.asked(key, prompt, TestCase(TestKind.STDIO, "", test.input, True), compare="checker", checker=checker)
        yield judged_as(task, [(one.input, None) for one in (test, other) if one])


def tests(origin: Origin, held: int = 8, shown: int = 1, fails: int = 1) -> Iterator[Group]:
    """Yield a task that asks for a test that right programs pass and wrong programs fail; the checker decides by running stored programs.

    The prompt shows at most half of the wrong programs; the checker runs others.
    """
    readable_tests = readable(origin)
    wrong = [one for one in in_python(origin.failed) if origin.judged[one].status in (Status.FAILED, Status.RUNTIME_ERROR)]
    passed = in_python(origin.passed)
    if not readable_tests or not passed or len(wrong) < fails:
        if readable_tests:
            origin.leave("no attempt passed" if not passed else "too few attempts give wrong answers")
        return
    origin.random.shuffle(wrong)
    half = max((len(wrong) + 1) // 2, fails)
    secret, open_ones = wrong[:half][:held], wrong[half:][:shown]
    right = origin.chosen(passed, held)
    example_test = next((test for test in readable_tests.values() if not test.hidden), None)
    caught = {place: 0 for place, test in readable_tests.items() if example_test is None or test.input != example_test.input}
    for one in secret:
        for place in (failed_tests(origin.task, origin.judged[one]) or frozenset()) & caught.keys():
            caught[place] += 1
    answers = sorted(caught, key=lambda place: (-caught[place], place))
    if not answers or caught[answers[0]] < fails:
        origin.leave("no stored test, besides the shown one, fails enough of the checker's wrong programs")
        return
    references = [readable_tests[place] for place in answers if caught[place] >= fails][:ANSWERS]
    values = held_values(origin) | {"RIGHT": [one.code for one in right], "WRONG": [one.code for one in secret], "FAILS": fails}
    values["SHOWN"] = [shown_form(example_test)] if example_test else []
    checker = held_checker(CHECK_TEST, values)
    prompt = test_prompt(origin, example_test, [one.code for one in open_ones], fails)
    known = [example(one) for one in references]
    task = origin.asked("0", prompt, TestCase(TestKind.STDIO, "", known[0], True), compare="checker", checker=checker)
    yield judged_as(task, [(text, None) for text in (*known, *wrong_values(references[0], readable_tests))])


def shown_form(test: TestCase) -> Any:
    """Return the input of a test in the form that a checker reads: the arguments of a call as texts, or the lines of an input."""
    if test.kind is TestKind.CALL:
        node = ast.parse(test.input.strip(), mode="eval").body
        return [repr(ast.literal_eval(part)) for part in node.args] if isinstance(node, ast.Call) else []
    return test.input.rstrip() + "\n"


def test_prompt(origin: Origin, shown: TestCase | None, wrong: list[str], fails: int) -> str:
    """Return the prompt of a task to write a test."""
    parts = [f"{origin.task.prompt.strip()}\n\nWrite one test that right programs pass and wrong ones fail"]
    parts[0] += "." if fails == 1 else f", {fails} of them at least."
    if shown:
        parts.append(f"It has the form of this test, and another input:\n{example(shown)}")
    elif origin.task.entry_point:
        parts.append(f"It has the form\nassert {origin.task.entry_point}(...) == ...")
    else:
        parts.append("It has the form\nInput:\n...\nOutput:\n...")
    parts += [f"A wrong program:\n{fenced(origin.task, code)}" for code in wrong]
    return "\n\n".join(parts)


def wrong_values(test: TestCase, tests: Mapping[int, TestCase]) -> Iterator[str]:
    """Yield the test with the expected value of another test, which right programs fail."""
    others = (one.expected for one in tests.values() if one.expected.strip() != test.expected.strip())
    if (value := next(others, None)) is not None:
        yield example(TestCase(test.kind, test.input, value))


VERDICT = Derivation(verdicts, "say whether a program passes all tests", (most(4, "programs"),))
OUTPUT = Derivation(outputs, "say what a right program returns or writes", (most(2, "programs"),))
INPUT = Derivation(inputs, "give an input for which a right program has an output", (most(2, "programs"),))
TEST = Derivation(
    tests,
    "write a test that right programs pass and wrong ones fail",
    (
        Option("held", int, "most right programs, and most wrong programs, that the checker runs (default: 8)"),
        Option("shown", int, "most wrong programs in the prompt, which the checker does not run (default: 1)"),
        Option("fails", int, "number of wrong programs that the test must fail (default: 1)"),
    ),
)
