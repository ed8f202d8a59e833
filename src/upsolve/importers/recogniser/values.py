"""Tests in any form that people store (code, JSON, literals, packed texts, objects and lists of these) -> test cases.

Inputs and expected outputs have many names. Whether a test calls a function or feeds a program follows from its type, from the name of a function, or
from the task's entry point.
"""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from upsolve.importers.recogniser import calls
from upsolve.importers.recogniser.asserts import UNREADABLE, names_in, names_read, parsed
from upsolve.importers.recogniser.code import FENCE, functions_of, plain, tests_in_code
from upsolve.importers.recogniser.failing import About, Found
from upsolve.importers.rows import known_words
from upsolve.types import TestCase, TestKind

__all__ = ["recognise"]

FORMS = "a test is an assert, a pair [input, output], a test function, or an object such as {input, output}; all together may be {inputs, outputs}"
"""Forms of tests, as error messages list them."""


NAMES = known_words()["tests"]
INPUTS, OUTPUTS, FUNCTIONS, AROUND, SHOWN = (NAMES[key] for key in ("inputs", "outputs", "functions", "around", "shown"))
IN_LISTS = INPUTS[:5], OUTPUTS[:9]
"""Names that may hold the lists of all inputs and all outputs."""
STDIO = re.compile(r"std|stdio|io$|program|script", re.IGNORECASE)
CALLS = re.compile(r"func|call|method|fn", re.IGNORECASE)
Json = Mapping[str, Any]


def recognise(value: Any, about: About) -> Found:
    """Return the tests in a value (Python source, JSON, a literal, a list or an object of tests), and those that cannot fail.

    Raises:
        ValueError: no test is found, or a test has an unknown form; the message shows which.
    """
    found = of_value(value, about)
    if not found.tests and (
        (found.refused and not about.hidden) or (isinstance(value, str) and calls.value_in(value) is None and not found.refused)
    ):
        reason, text = found.refused[0] if found.refused else ("is empty", str(value))
        problem = f"tests: {text[:60]!r} {reason} and tests nothing: {FORMS}"
        raise ValueError(f"{problem}; if the column does not hold tests, rename it")
    return found if found.compare or about.published else in_both_forms(found, about)


def of_value(value: Any, about: About) -> Found:
    """Return the tests in a value."""
    value = as_value(value)
    if isinstance(value, str):
        return of_text(value, about)
    if isinstance(value, Mapping):
        return of_object(value, about)
    if isinstance(value, list | tuple):
        return of_items([*value], about)
    raise ValueError(f"tests: {str(value)[:60]}: {FORMS}")


def of_text(text: str, about: About) -> Found:
    """Return the tests in a text: labelled inputs and outputs, or code in the task's language."""
    tree = parsed(text)
    asserted = tree is not None and any(isinstance(node, ast.Assert) for node in tree.body)
    if not asserted and (pairs := labelled(text)):
        end = "" if about.entry_point else "\n"
        return of_items([{"input": given + end, "output": expected + end} for given, expected in pairs], about)
    if about.language not in ("", "python"):
        return Found((TestCase(TestKind.CODE, text.strip("\n"), "", about.hidden),) if text.strip() else ())
    return tests_in_code(text, about)


def of_object(value: Json, about: About) -> Found:
    """Return the tests of an object: lists of inputs and of outputs, shown and hidden tests, tests by name, or one test."""
    lower = {str(key).lower(): one for key, one in value.items()}
    given, expected = (next((name for name in names if name in lower), "") for names in IN_LISTS)
    if "inputs" in lower and "outputs" in lower:
        given, expected = "inputs", "outputs"
    lists = [as_value(lower[name]) for name in (given, expected) if name]
    if len(lists) == 2 and all(isinstance(one, list | tuple) for one in lists):
        if len(lists[0]) != len(lists[1]):
            raise ValueError(f"tests: {len(lists[0])} inputs, but {len(lists[1])} outputs")
        shared = {key: one for key, one in value.items() if not isinstance(one, list)}
        return of_items([{**shared, "input": one, "output": other} for one, other in zip(*lists, strict=True)], about)
    shared = {name: lower[name] for name in (*FUNCTIONS, "metadata") if lower.get(name)}
    if not lower.keys().isdisjoint((*SHOWN, *NAMES["hidden"])):
        return of_items(of_parts(lower, shared), about)
    keyed, inside = [*value.values()], next((name for name in AROUND if lower.get(name)), "")
    if (
        not given
        and keyed
        and not (inside and len(keyed) == 1)
        and all(isinstance(one, Mapping) and field_of(one, INPUTS)[0] for one in keyed)
    ):
        return of_items(keyed, about)
    if not given and inside:
        return around(lower, lower[inside], replace(about, entry_point=about.entry_point or function_named(shared)))
    return of_items([value], about)


def of_parts(fields: Json, shared: Json) -> list[Any]:
    """Return the tests of shown and hidden parts, and of other parts unless they repeat shown tests, with the fields that they share."""
    parts = [(name, item) for name in (*SHOWN, *NAMES["hidden"], *AROUND) for item in as_items(fields.get(name))]
    shown = {repr(item) for name, item in parts if name in SHOWN}
    parts = [(name, item) for name, item in parts if name not in (*AROUND, "official_tests") or repr(item) not in shown]
    return [{"hidden": name not in SHOWN, **shared, **item} if isinstance(item, Mapping) else item for name, item in parts]


def around(fields: Json, tests: Any, about: About) -> Found:
    """Return the tests in an object that also has code before them: this is setup if it does not use the attempt, else a part of the tests."""
    codes = [as_value(fields[name]) for name in NAMES["setups"] if fields.get(name)]
    setup = "\n".join(line for code in codes for line in (code if isinstance(code, list | tuple) else [str(code)])).strip()
    if setup and names_read(setup) and (isinstance(tests, str) or (isinstance(tests, list) and all(map(code_of, tests)))):
        return of_value(f"{setup}\n{tests}" if isinstance(tests, str) else [setup, *tests], about)
    found = of_value(tests, replace(about, setup=f"{setup}\n{about.setup}" if setup else about.setup))
    return replace(found, setup=f"{setup}\n{found.setup}") if setup else found


def as_value(value: Any) -> Any:
    """Return the list or object in a text; any other value unchanged."""
    return value if not isinstance(value, str) or (inner := calls.value_in(value)) is None else inner


def as_items(value: Any) -> list[Any]:
    """Return tests as a list, from a list, from columns of inputs and outputs, or from a single test."""
    inner = as_value(value)
    if isinstance(inner, str) and calls.PACKED.fullmatch(inner):
        raise ValueError(f"tests: {inner[:60]!r} are neither tests nor packed tests")
    if isinstance(inner, Mapping) and isinstance(inner.get("input"), list) and isinstance(inner.get("output"), list):
        inner = [*zip(inner["input"], inner["output"], strict=True)]
    items = [*inner] if isinstance(inner, list | tuple) else [] if inner in (None, "", {}) else [inner]
    return [{"input": one[0], "output": one[1]} if isinstance(one, list | tuple) and len(one) == 2 else one for one in items]


def of_items(items: Sequence[Any], about: About) -> Found:
    """Return the tests of a list."""
    items = [inner if isinstance(item, str) and isinstance(inner := calls.value_in(item), Mapping) else item for item in items]
    texts = [code_of(item) for item in items]
    if texts and all(texts) and (about.language not in ("", "python") or (depend(texts) and not about.hidden)):
        return of_text("\n".join(texts), about)
    tests, kept = list[tuple[TestCase, ...]](), list[bool]()
    refused: list[tuple[str, str]] = []
    by_function: dict[str, dict[int, Json]] = {}
    entry = ""
    for at, (item, text) in enumerate(zip(items, texts, strict=True)):
        tests.append(())
        if text:
            found = tests_in_code(text, about, whole=True)
            entry = entry or found.entry_point
            empty = [] if found.tests or found.refused else [("asserts nothing", text)]
            tests[at], refused = found.tests, [*refused, *found.refused, *empty]
        elif name := function_in(item, about):
            by_function.setdefault(name, {})[at] = as_object(item)
        else:
            tests[at] = (as_test(item),)
        kept += [bool(tests[at])] * max(1, len(tests[at])) if text else [True]
    found = Found((), entry, tuple(refused), kept=tuple(kept))
    for name, group in by_function.items():
        found, made = called(name, [*group.values()], found, about)
        for at, test in zip(group, made, strict=True):
            tests[at] = (test,)
    return replace(found, tests=tuple(test for some in tests for test in some))


def code_of(item: Any) -> str:
    """Return the source of a test given as code; empty for other tests."""
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping) and "kind" not in item and not {str(key).lower() for key in item} & {*INPUTS}:
        return next((str(item[name]) for name in NAMES["code"] if isinstance(item.get(name), str)), "")
    return ""


def depend(texts: Sequence[str]) -> bool:
    """Return whether a text binds names that another one reads, or is not Python on its own."""
    try:
        names = [names_in(plain(text)) for text in texts]
    except UNREADABLE:
        return True
    bound = frozenset[str]().union(*(binds for binds, _ in names))
    return any((reads - binds) & bound for binds, reads in names)


def field_of(item: Json, names: Iterable[str]) -> tuple[str, Any]:
    """Return lower-case name and value of the first of some fields that an object has; empty if it has none."""
    lower = {str(key).lower(): key for key in item}
    return next(((name, item[lower[name]]) for name in names if name in lower), ("", None))


def as_object(item: Any) -> Json:
    """Return a test as an object with ``input`` and ``output``."""
    if isinstance(item, list | tuple) and len(item) == 2:
        return {"input": item[0], "output": item[1]}
    if not isinstance(item, Mapping):
        raise ValueError(f"tests: {str(item)[:60]}: {FORMS}")
    (given, value), (expected, output) = field_of(item, INPUTS), field_of(item, OUTPUTS)
    if not given or not expected:
        raise ValueError(f"tests: {str(item)[:60]!r} has no {'input' if not given else 'output'}: {FORMS}")
    return {**item, "input": value, "output": output}


def function_named(fields: Json) -> str:
    """Return the function that fields, or their metadata, name; empty if there is none."""
    metadata = as_value(fields.get("metadata"))
    return str(
        field_of(fields, FUNCTIONS)[1] or field_of(metadata if isinstance(metadata, Mapping) else {}, FUNCTIONS)[1] or ""
    )


def kind_of(item: Any) -> str:
    """Return the type that a test states; empty if it states none."""
    fields: Json = item if isinstance(item, Mapping) else {}
    return next((str(fields[name]) for name in ("type", "testtype", "test_type", "kind") if fields.get(name)), "")


def function_in(item: Any, about: About) -> str:
    """Return the function that a test calls; empty for a test of standard input and output, and for upsolve's own."""
    fields: Json = item if isinstance(item, Mapping) else {}
    kind = kind_of(item)
    if STDIO.match(kind) or is_own(item):
        return ""
    named = function_named(fields) or calls.called_in(field_of(fields, ("call", "expression"))[1])
    given = field_of(fields, INPUTS)[1] if fields else item[0] if isinstance(item, list | tuple) and item else None
    fed = about.language not in ("", "python") or (isinstance(given, str) and given.endswith("\n"))
    entry = named or ("" if fed and not CALLS.match(kind) else about.entry_point)
    if CALLS.match(kind) and not entry:
        defined = [name for code in about.programs() for name in functions_of(code, methods=True)]
        if len({*defined}) != 1:
            raise ValueError(f"tests: a test of type {kind} names no function; add fn_name, or --entry_point COLUMN")
        entry = defined[0]
    return entry


def called(name: str, items: Sequence[Json], found: Found, about: About) -> tuple[Found, tuple[TestCase, ...]]:
    """Return the tests that call a function, and the facts about their task, completed from these tests."""
    codes = [code for code in about.programs() if "class Solution" in code or functions_of(code)]
    is_method = name.startswith("Solution().")
    callee = calls.Callee(name.rpartition(".")[2], in_class=True) if is_method else calls.callee_of(name, *codes)
    if not any(codes) and any(str(item.get("testtype")) == "functional" for item in items):
        callee = calls.Callee(name, in_class=True)  # LiveCodeBench's word for its functions, which are methods
    wrapped = any(function_named(item) or CALLS.match(kind_of(item)) for item in items)
    tests, setup, compare = calls.calls_of(callee, items, about, wrapped=wrapped)
    return replace(found, entry_point=callee.entry_point, setup=setup, compare=compare), tests


def in_both_forms(found: Found, about: About) -> Found:
    """Return tests as text; if all are direct calls of one function, with the setup for programs of either form (``other_form``)."""
    names = {calls.called_in(test.input) if test.kind is TestKind.CALL else "" for test in found.tests}
    name = names.pop() if len(names) == 1 else ""
    callee = calls.Callee(name.rpartition(".")[2], in_class=name.startswith("Solution()."))
    own = re.split(r"\W+", found.entry_point or about.entry_point)[-1]
    if name not in (callee.name, f"Solution().{callee.name}") or own not in ("", callee.name, "Solution"):
        return found
    given = f"{about.setup}\n{found.setup}"
    setup = "" if name == "Solution" or "__future__" in given else calls.other_form(callee, found.tests, given)
    return replace(found, entry_point=callee.entry_point, setup=f"{found.setup}{setup}") if setup else found


def is_own(item: Any) -> bool:
    """Return whether a test is upsolve's own."""
    return isinstance(item, Mapping) and str(item.get("kind")) in [*TestKind]


def as_test(item: Any) -> TestCase:
    """Return a test of standard input and output, or upsolve's own; ValueError for an unknown field or a value of another type."""
    if not is_own(item):
        fields = as_object(item)
        given, expected = calls.text_of(fields["input"]), calls.text_of(fields["output"])
        return TestCase(TestKind.STDIO, given, expected, calls.is_hidden(fields))
    unknown = {*item} - {"kind", "input", "expected", "hidden"}
    odd = [name for name in ("input", "expected") if not isinstance(item.get(name, ""), str)]
    if unknown or odd or "input" not in item:
        raise ValueError(
            f"tests: {str(item)[:60]!r}: field {', '.join([*sorted(map(str, unknown)), *odd]) or 'input'} is unknown, missing or not text"
        )
    return TestCase(TestKind(str(item["kind"])), item["input"], item.get("expected", ""), bool(item.get("hidden", False)))


LABEL = re.compile(
    r"^[ \t#*]*+(?:(?:sample|example|test|expected|case)[ \t]*+\d*+[ \t]*+)*+(input|output)[ \t]*+#?\d*+[ \t]*+\**+[ \t]*+(?:[:=]\**+[ \t]*+|$)",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a line ``Input: 1``, ``### Sample Input 1`` or ``**Output:**``."""
HEAD = r"[ \t#*]*+(?:(?:sample|example|test|case)s?+[ \t]*+)++#?\d*+[ \t]*+[:.)]?\**+[ \t]*+"
"""Matches a line ``Example 1:`` before an input."""
BEFORE, BETWEEN = re.compile(rf"(?:\s*+(?:{HEAD})?)*+", re.IGNORECASE), re.compile(rf"\n(?:{HEAD}|\s)*+\Z", re.IGNORECASE)
REMARK = re.compile(r"^[ \t#*]*+explanation\**+[ \t]*+:", re.IGNORECASE | re.MULTILINE)


def labelled(text: str) -> list[tuple[str, str]]:
    """Return the inputs and outputs of a text with lines such as ``Input: 1`` and ``Output: 2``, without explanations; none for other text."""
    head, *parts = LABEL.split(text.strip())
    kinds, bodies = [one.lower() for one in parts[::2]], parts[1::2]
    if not kinds or kinds != ["input", "output"] * (len(kinds) // 2) or not BEFORE.fullmatch(head):
        return []
    texts = [
        REMARK.split(one)[0] if at == len(bodies) - 1 else BETWEEN.sub("", REMARK.split(one)[0])
        for at, one in enumerate(bodies)
    ]
    texts = [fenced[1] if (fenced := FENCE.fullmatch(one.strip("\n"))) else one.strip("\n") for one in texts]
    return [*zip(texts[::2], texts[1::2], strict=True)]
