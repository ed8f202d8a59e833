"""Fixes of the judge that changed verdicts, and the version of the judge; ``upsolve verify --stale`` finds the verdicts to repeat with both."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from upsolve.languages import PYTHON, languages
from upsolve.types import Attempt, Status, Task, TestKind, Verdict
from upsolve.verify.judge.tested import called_names, rebinds
from upsolve.verify.sandbox.inside.values import QUESTIONS

__all__ = ["CHANGES", "JUDGE_VERSION", "OF_OLDER", "Change", "changes_since", "has_tests", "is_in", "may_be_stale"]

Concerns = Callable[[Task, Attempt, Verdict], bool]
"""Predicate that is True if a fix may change an earlier verdict, or if this is unknown; never raises."""

BY_ADDRESS = ("ada", "bash", "c", "cpp", "fortran", "lua", "pascal", "perl", "php")
"""Languages whose memory was limited by address space before the fix."""
OF_OLDER = ("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "TypeError")
"""Exception names of programs that need a newer Python."""
OF_INTERPRETER = ("stdin", "home", "expanduser", "argv", "/dev/", "/self/fd")
"""Words in Python programs that use streams, folders or arguments; these differed from a new interpreter before the fix."""
OF_SOURCE = ("argv[0]", "main.py", "traceback", "linecache", "stdin.name", "stdin.mode", "stdin.buffer.name")
"""Words in Python programs that ask for their own source, or for the name of their standard input."""
OF_LIBRARY = (
    "array",
    "timezone",
    "re.",
    "datetime",
    "decimal",
    "fractions",
    "deque",
    "User",
    "Enum",
    "frozen",
    "__hash__",
    "sorted",
    "sympy",
)
"""Words in Python programs whose values did not reach tests as data before the fix."""
EXTENDS = re.compile(
    r"^ *class \w+\([^)]*\b(?:list|dict|set|tuple|str|int|float|OrderedDict|defaultdict|Counter)\b", re.MULTILINE
)
"""Class of a Python program that extends a builtin type."""
NAMED = re.compile(r"\b(?:name|value|number|operation|self)\s*=|\*\*")
"""A call with a keyword argument that functions of the judge also use, or with arguments from a dict."""


@dataclass(frozen=True, slots=True)
class Change:
    """A fix that changed verdicts."""

    summary: str
    """Wrong behaviour, one sentence."""
    concerns: Concerns
    """Whether the fix may change a scored verdict."""
    among: str = "true"
    """SQL condition on the columns of ``verdicts`` (it may also read ``tasks``) that is true for every verdict concerned."""
    code: str = "true"
    """Further condition of this kind, which also reads ``code`` of the attempt; only verdicts that ``among`` selects are compared with it."""


def has_tests(task: Task, *kinds: TestKind) -> bool:
    """Return whether a task has a test of one of these kinds."""
    return any(test.kind in kinds for test in task.tests)


def is_in(attempt: Attempt, *names: str) -> bool:
    """Return whether an attempt is in one of these languages, also by an alias."""
    given = attempt.language
    if given in PYTHON or given in names:
        return given in names or "python" in names
    known = languages()
    return given in known and known[given] in map(known.get, names)


def calls_of(task: Task) -> list[str]:
    """Return the CALL tests of a task."""
    return [test.input for test in task.tests if test.kind is TestKind.CALL]


def failed(verdict: Verdict, attempt: Attempt, *names: str) -> bool:
    """Return whether an attempt in one of these languages did not pass."""
    return verdict.status is not Status.PASSED and is_in(attempt, *names)


def mentions(attempt: Attempt, *words: str) -> bool:
    """Return whether the code of an attempt contains one of these words."""
    return any(word in attempt.code for word in words)


def meets_objects(task: Task, attempt: Attempt, verdict: Verdict) -> bool:
    """Return whether tests in the tester's process may have met an object that is not plain data, or a class or variable of the setup."""
    return "across" in verdict.isolation and (bool(task.setup) or mentions(attempt, "class ", "Mock", "type("))


def names_arguments(task: Task, attempt: Attempt) -> bool:
    """Return whether a call in the tests or in the attempt uses, or may use, a keyword argument that the judge's own functions also have."""
    return any(NAMED.search(source) for source in (attempt.code, *(test.input for test in task.tests)))


def has_word(*words: str) -> str:
    """Return the SQL condition that the code of an attempt contains one of these words (``mentions``)."""
    found = [f"contains(code, '{word}')" for word in words]
    return f"({' or '.join(found)})"


VALUES, COMPARED = (
    ("UserList", "UserDict", "UserString", "ChainMap", "MappingProxy", "memoryview"),
    ("__contains__", "__eq__", "collections"),
)
"""Words in Python programs whose values equal builtin ones, or that compare values by methods of their own."""
UNREAD, WRITES = ("Refused", "ImportError", "ModuleNotFoundError"), ("open", "write", "ragma", "RAGMA")
"""Errors of programs that could not import or read what they had written, and words in such programs."""
ELLIPSIS = """exists (from (select requires, unnest(tests) as test from tasks) where len(requires) > 0 or contains(test.expected, '...'))
and exists (from (select unnest(tests) as test from tasks) where test.kind = 'call')"""
"""SQL condition that some task requires packages or shows ``...`` in an expected value, and some task has calls."""


# fmt: off
CHANGES: tuple[Change, ...] = (
    Change("Tasks with more than ten tests and no time limit of their own timed out.",
           lambda task, _, verdict: verdict.status is Status.TIMEOUT and len(task.tests) > 10 and task.limit_seconds is None),
    Change("No program could pass tests whose expected output is longer than the output limit.",
           lambda task, _, verdict: verdict.status is not Status.PASSED
           and sum(len(test.expected.encode("utf-8", "surrogatepass")) for test in task.tests) > 2**19),
    Change("Programs that are built or checked first ran each other's files at tasks with a checker.",
           lambda task, attempt, _: bool(task.checker) and not is_in(attempt, "python")),
    Change("Equal function calls of a task shared their arguments.",
           lambda task, attempt, _: is_in(attempt, "python") and len({*calls_of(task)}) < len(calls_of(task))),
    Change("Programs that wrapped or replaced sys.stdin, or used their home folder, failed.",
           lambda _, attempt, verdict: failed(verdict, attempt, "python") and mentions(attempt, *OF_INTERPRETER)),
    Change("Large arrays and allocations of compiled programs and of shells were limited by address space: segmentation faults.",
           lambda _, attempt, verdict: failed(verdict, attempt, *BY_ADDRESS) and verdict.status is not Status.FAILED),
    Change("A function under test that setup, Python or a scope of the tests also name was not looked up in the attempt.",
           lambda task, attempt, _: is_in(attempt, "python") and rebinds(task)),
    Change("Attempts judged beside others that wrote long outputs could exceed the memory limit.",
           lambda _, _attempt, verdict: verdict.status is Status.MEMORY_LIMIT),
    Change("Programs failed if the compiler or interpreter of their language could not be started in the sandbox.",
           lambda _, attempt, verdict: verdict.error_type == "Forgery" and not is_in(attempt, "python")),
    Change("PHP had no extensions (ctype, iconv, mbstring, readline), 64 threads and recursion to the limit failed, and so did long standard errors.",
           lambda _, attempt, verdict: failed(verdict, attempt, "php") or verdict.status is Status.OUTPUT_LIMIT
           or verdict.error_type == "RecursionError" or "thread" in verdict.error_message),
    Change("Objects of the attempt answered for data by methods of their own; numbers, copies, identity, and names of the setup did not reach tests.",
           lambda task, attempt, verdict: is_in(attempt, "python") and (meets_objects(task, attempt, verdict)
           or any(f".{name}(" in call for name in QUESTIONS for call in calls_of(task)))),
    Change("Programs of other languages that opened their standard output by name emptied what they had written.",
           lambda _, attempt, verdict: verdict.status is Status.FAILED and not is_in(attempt, "python") and mentions(attempt, "/dev/", "/fd")),
    Change("Functions that the attempt returned, or was given, could not be called with arguments named name, value, number, operation or self.",
           lambda task, attempt, verdict: failed(verdict, attempt, "python") and "across" in verdict.isolation and names_arguments(task, attempt)),
    Change("Programs of which the kernel had killed a child process for lack of memory were wrong or failed instead of exceeding their memory.",
           lambda _, attempt, verdict: verdict.status is Status.RUNTIME_ERROR or (verdict.status is Status.FAILED and (is_in(attempt, "bash")
           or mentions(attempt, "fork", "exec", "spawn", "system", "popen", "rocess", "subprocess")))),
    Change("Python programs that an older Python, such as PyPy, could not compile or lacked names for failed.",
           lambda _, attempt, verdict: failed(verdict, attempt, "python") and verdict.error_type in ("CompileError", *OF_OLDER)),
    Change("An attempt could replace a method or property of a class of the setup that answers true or false, such as valid(), without a label.",
           lambda task, _, verdict: verdict.status is Status.PASSED and "across" in verdict.isolation and "class " in task.setup),
    Change("Tests that create Solution(), give functions other names, or call capitalised functions were run in the attempt's process.",
           lambda task, attempt, verdict: is_in(attempt, "python") and "in_process" in verdict.isolation and called_names(task) is not None,
           "contains(isolation, 'in_process')"),
    Change("Outputs for which a checker of testlib gives points counted as wrong.",
           lambda task, _, verdict: verdict.status is Status.FAILED and "quitp" in task.checker,
           "status = 'failed' and exists (from tasks where contains(checker, 'quitp'))"),
    Change("Errors with methods, in groups, returned, or of queue and subprocess, and __contains__ without items failed in tests.",
           lambda _, attempt, verdict: failed(verdict, attempt, "python") and "across" in verdict.isolation
           and mentions(attempt, "raise", "Err", "Exc", "Interrupt", "queue", "subprocess", "import ", "slice", "dataclass", "__contains__"),
           "status <> 'passed' and contains(isolation, 'across')"),
    Change("__contains__ that differs from the items, errors with an __eq__ of their own, abstract bases, and values of Python that are equal to "
           "builtin ones, such as UserList, failed in tests.",
           lambda _, attempt, verdict: failed(verdict, attempt, "python")
           and (mentions(attempt, *VALUES) or ("across" in verdict.isolation and mentions(attempt, *COMPARED))),
           "status <> 'passed'", f"{has_word(*VALUES)} or (contains(isolation, 'across') and {has_word(*COMPARED)})"),
    Change("Python programs that imported modules they had written, or read their own source, and pragmas that describe tables in queries failed.",
           lambda _, attempt, verdict: failed(verdict, attempt, "python", "sql") and (mentions(attempt, *OF_SOURCE)
           or (verdict.error_type in UNREAD and mentions(attempt, *WRITES))),
           "status <> 'passed'", f"{has_word(*OF_SOURCE)} or (error_type in {UNREAD} and {has_word(*WRITES)})"),
    Change("Arrays, time zones, patterns, numbers of packages, subclasses of dates, decimals and the like, and dicts and sets of objects failed in tests.",
           lambda task, attempt, verdict: is_in(attempt, "python") and verdict.status is not Status.PASSED and (("across" in verdict.isolation
           and mentions(attempt, *OF_LIBRARY)) or (has_tests(task, TestKind.CALL) and (bool(task.requires) or any("..." in test.expected for test in task.tests)))),
           f"status <> 'passed' and (contains(isolation, 'across') or ({ELLIPSIS}))"),
    Change("Methods of builtin types that a subclass overrides were the builtin ones in tests, and the order of an OrderedDict was that of insertion.",
           lambda _, attempt, verdict: is_in(attempt, "python") and "across" in verdict.isolation
           and (bool(EXTENDS.search(attempt.code)) or (verdict.status is not Status.PASSED and "OrderedDict" in attempt.code)),
           "contains(isolation, 'across')"),
    Change("Setups with annotations as text were broken; own operators with values of tests, scalars of numpy, objects of pandas and sympy, values of more "
           "than 300 levels, and the recursion limit as a number failed; an object's length could differ from its items.",
           lambda task, attempt, verdict: is_in(attempt, "python") and ((verdict.status is not Status.PASSED and mentions(attempt, "getrecursionlimit")) or ("across" in verdict.isolation
           and (bool(task.requires) or mentions(attempt, "class ") or verdict.error_type == "EarlyExit" or any(word in verdict.error_message for word in ("Opaque", "'tests'"))))),
           "(status <> 'passed' or contains(isolation, 'across'))", f"contains(isolation, 'across') or {has_word('getrecursionlimit')}"),
    Change("Tests that limit the time of coroutines, or take them in the order in which they end, ran each to its end.",
           lambda task, attempt, verdict: failed(verdict, attempt, "python") and "across" in verdict.isolation and mentions(attempt, "async ")
           and any("asyncio" in test.input for test in task.tests), "status <> 'passed' and contains(isolation, 'across')"),
    Change("Comparisons and differences of own objects with values of tests, +=, closed generators, copies of named tuples, names of own time zones, arrays "
           "of objects, numbers of over 10,000 digits, full-text search and random() in queries failed; results that were too long ended early.",
           lambda _, attempt, verdict: (failed(verdict, attempt, "python") and (verdict.error_type == "EarlyExit" or ("across" in verdict.isolation
           and mentions(attempt, "class ", "yield", "namedtuple", "tzinfo", "numpy", "decimal", "fractions"))))
           or (failed(verdict, attempt, "sql") and verdict.error_type == "Refused"), "status <> 'passed'"),
)
# fmt: on
"""Changes, oldest first, append-only: the number of a change is its position, counted from 1."""

JUDGE_VERSION = len(CHANGES)
"""Version of the judge, ``Verdict.judge_version``: the number of the newest change."""


def changes_since(task: Task, attempt: Attempt, verdict: Verdict) -> tuple[int, ...]:
    """Return the numbers of the changes that concern a verdict and are newer than its judge; () if the verdict is still valid."""
    newer = enumerate(CHANGES[verdict.judge_version :], start=verdict.judge_version + 1)
    return tuple(number for number, change in newer if change.concerns(task, attempt, verdict))


def may_be_stale() -> tuple[str, str]:
    """Return two SQL conditions that are true for all verdicts that a change concerns: one on the columns of ``verdicts`` and ``tasks``, and one that
    also reads the attempt's ``code``."""
    since = [
        (f"coalesce(judge_version, 0) < {number} and {change.among}", change.code) for number, change in enumerate(CHANGES, 1)
    ]
    return " or ".join(f"({among})" for among, _ in since), " or ".join(f"({among} and ({code}))" for among, code in since)
