"""Tests as values (JSON, JSON in JSON, Python literals) -> test cases.

Inputs and expected outputs go by many names; whether a test calls a function or feeds a program is said by its type, by a name of a function,
or by the task's entry point.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from upsolve.importers.problems.problems import Callee, by_numbers, call_tests, callee_of, literal, of_outputs, setup_of
from upsolve.importers.recogniser.asserts import BUILTINS, names_bound, parsed
from upsolve.importers.recogniser.code import FENCE, functions_of, plain, tests_in_code
from upsolve.importers.recogniser.failing import About, Found, names_in
from upsolve.types import TestCase, TestKind
from upsolve.verify.contest import PROVIDED

__all__ = ["recognise"]

FORMS = "a test is an assert, a pair [input, output], a test function, or an object such as {input, output}; all together may be {inputs, outputs}"
"""What an error says."""
INPUTS = tuple(
    "input inputs stdin in args arguments params parameters kwargs given test_input sample_input call expression".split()  # noqa: SIM905
)
OUTPUTS = tuple(
    "output outputs expected expected_output expectedoutput stdout out expect result answer return returns "  # noqa: SIM905
    "target ans test_output sample_output".split()
)
"""Names of what goes into a test, and of what must come out, in small letters; the likeliest first."""
FUNCTIONS = ("fn_name", "func_name", "function_name", "method", "entry_point", "function")
LISTS = tuple(
    "test_cases testcases tests cases unit_tests unittests assertions asserts test_list assert_case input_output".split()  # noqa: SIM905
)
"""Names of the tests in an object around them."""
SHOWN = ("public", "public_tests", "public_test_cases", "sample", "samples", "sample_tests", "examples", "example", "visible")
KEPT_BACK = tuple(
    "private private_tests private_test_cases hidden hidden_tests generated generated_tests secret".split()  # noqa: SIM905
)
CODE = ("code", "test", "assert", "assertion", "test_code", "assert_code", "statement")
STDIO = re.compile(r"std|stdio|io$|program|script", re.IGNORECASE)
CALLS = re.compile(r"func|call|method|fn", re.IGNORECASE)


def recognise(value: Any, about: About) -> Found:
    """Return the tests that a value (text of Python, JSON, a literal, a list or an object of tests) holds, and which cannot fail.

    Raises:
        ValueError: no test is found, or one has none of the known forms; says which.
    """
    found = of_value(value, about)
    if not found.tests and (found.refused or (isinstance(value, str) and value_in(value) is None)):
        reason, text = found.refused[0] if found.refused else ("is empty", str(value))
        problem = f"tests: {text[:60]!r} {reason} and tests nothing: {FORMS}"
        raise ValueError(f"{problem}; rename a column that does not hold tests")
    return found if found.setup or found.compare or about.published else in_both_forms(found, about)


def of_value(value: Any, about: About) -> Found:
    """Return the tests in a value."""
    if isinstance(value, str):
        return of_text(value, about) if (inner := value_in(value)) is None else of_value(inner, about)
    if isinstance(value, Mapping):
        return of_object(value, about)
    if isinstance(value, list | tuple):
        return of_items([*value], about)
    raise ValueError(f"tests: {str(value)[:60]}: {FORMS}")


def of_text(text: str, about: About) -> Found:
    """Return the tests in a text: labelled inputs and outputs, or code in the task's language."""
    if pairs := labelled(text):
        end = "" if about.entry_point else "\n"
        return of_items([{"input": given + end, "output": expected + end} for given, expected in pairs], about)
    if about.language not in ("", "python"):
        return Found((TestCase(TestKind.CODE, text.strip("\n"), "", about.hidden),) if text.strip() else ())
    return tests_in_code(text, about)


def of_object(value: Mapping[str, Any], about: About) -> Found:
    """Return the tests of an object: lists of inputs and of outputs, shown and hidden tests, tests by a name, or one test."""
    names = {str(key).lower(): key for key in value}
    given, expected = (next((name for name in known if name in names), "") for known in (INPUTS[:4], OUTPUTS[:7]))
    if "inputs" in names and "outputs" in names:
        given, expected = "inputs", "outputs"
    lists = [value[names[name]] for name in (given, expected) if name]
    lists = [value_in(one) if isinstance(one, str) else one for one in lists]
    if len(lists) == 2 and all(isinstance(one, list | tuple) for one in lists):
        return of_columns(value, lists[0], lists[1], about)
    parts = [(name, name in KEPT_BACK) for name in (*SHOWN, *KEPT_BACK) if name in names]
    if parts:
        items = [hidden_as(item, hidden=hidden) for name, hidden in parts for item in as_items(value[names[name]])]
        return of_items(items, about)
    keyed = [*value.values()]
    if not given and keyed and all(isinstance(one, Mapping) and field_of(one, INPUTS)[0] for one in keyed):
        return of_items(keyed, about)
    if not given and (inside := next((names[name] for name in LISTS if name in names), "")):
        function = next((str(value[names[name]]) for name in FUNCTIONS if value.get(names.get(name, ""))), "")
        return of_value(value[inside], replace(about, entry_point=about.entry_point or function) if function else about)
    return of_items([value], about)


def as_items(value: Any) -> list[Any]:
    """Return tests as a list, from a list, from columns of inputs and outputs, or from a single test."""
    value = value_in(value) if isinstance(value, str) else value
    if isinstance(value, Mapping) and isinstance(value.get("input"), list) and isinstance(value.get("output"), list):
        return [{"input": one, "output": other} for one, other in zip(value["input"], value["output"], strict=True)]
    return [*value] if isinstance(value, list | tuple) else [] if value is None else [value]


def hidden_as(item: Any, *, hidden: bool) -> Any:
    """Return a test that says whether it is hidden."""
    if isinstance(item, list | tuple) and len(item) == 2:
        item = {"input": item[0], "output": item[1]}
    return {"hidden": hidden, **item} if isinstance(item, Mapping) else item


def of_columns(value: Mapping[str, Any], inputs: Sequence[Any], outputs: Sequence[Any], about: About) -> Found:
    """Return the tests of a list of inputs and one of outputs; they call ``fn_name``, or the task's entry point."""
    if len(inputs) != len(outputs):
        raise ValueError(f"tests: {len(inputs)} inputs, but {len(outputs)} outputs")
    about_all = {key: one for key, one in value.items() if not isinstance(one, list)}
    items = [{**about_all, "input": given, "output": expected} for given, expected in zip(inputs, outputs, strict=True)]
    return of_items(items, about, wrapped=bool(value.get("fn_name")))


def of_items(items: Sequence[Any], about: About, *, wrapped: bool = False) -> Found:
    """Return the tests of a list."""
    items = [inner if isinstance(item, str) and isinstance(inner := value_in(item), Mapping) else item for item in items]
    texts = [code_of(item) for item in items]
    if texts and all(texts) and (about.language not in ("", "python") or depend(texts)):
        return of_text("\n".join(texts), about)
    tests, kept = list[tuple[TestCase, ...]](), list[bool]()
    refused: list[tuple[str, str]] = []
    calls: dict[str, dict[int, Mapping[str, Any]]] = {}
    entry = ""
    for at, (item, text) in enumerate(zip(items, texts, strict=True)):
        tests.append(())
        if text:
            found = tests_in_code(text, about, whole=True)
            entry = entry or found.entry_point
            empty = [] if found.tests or found.refused else [("asserts nothing", text)]
            tests[at], refused = found.tests, [*refused, *found.refused, *empty]
        elif name := function_in(item, about):
            calls.setdefault(name, {})[at] = as_object(item)
        else:
            tests[at] = (as_test(item),)
        kept += [bool(tests[at])] * max(1, len(tests[at])) if text else [True]
    found = Found((), entry, tuple(refused), kept=tuple(kept))
    for name, group in calls.items():
        found, made = called(name, [*group.values()], found, about, wrapped=wrapped)
        for at, test in zip(group, made, strict=True):
            tests[at] = (test,)
    return replace(found, tests=tuple(test for some in tests for test in some))


def code_of(item: Any) -> str:
    """Return the source of a test given as code; empty for other tests."""
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping) and "kind" not in item and not {str(key).lower() for key in item} & {*INPUTS}:
        return next((str(item[name]) for name in CODE if isinstance(item.get(name), str)), "")
    return ""


def depend(texts: Sequence[str]) -> bool:
    """Return whether a text binds names that another one reads, or is no Python by itself."""
    try:
        names = [names_in(plain(text)) for text in texts]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    bound = [binds for binds, _ in names]
    others = ({name for other, found in enumerate(bound) if other != at for name in found} for at in range(len(bound)))
    return any((reads - binds) & other for (binds, reads), other in zip(names, others, strict=True))


def field_of(item: Mapping[str, Any], names: Iterable[str]) -> tuple[str, Any]:
    """Return the name, in small letters, and the value of the first of some fields that an object has; empty without one."""
    lower = {str(key).lower(): key for key in item}
    return next(((name, item[lower[name]]) for name in names if name in lower), ("", None))


def as_object(item: Any) -> Mapping[str, Any]:
    """Return a test as an object with ``input`` and ``output``."""
    if isinstance(item, list | tuple) and len(item) == 2:
        return {"input": item[0], "output": item[1]}
    if not isinstance(item, Mapping):
        raise ValueError(f"tests: {str(item)[:60]}: {FORMS}")
    (given, value), (expected, output) = field_of(item, INPUTS), field_of(item, OUTPUTS)
    if not given or not expected:
        raise ValueError(f"tests: {str(item)[:60]!r} has no {'input' if not given else 'output'}: {FORMS}")
    return {**item, "input": value, "output": output}


def function_in(item: Any, about: About) -> str:
    """Return the function that a test calls; empty if it is one of standard input and output, or upsolve's own."""
    fields: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
    if "kind" in fields and str(fields["kind"]) in [*TestKind]:
        return ""
    metadata = fields.get("metadata")
    metadata = value_in(metadata) if isinstance(metadata, str) else metadata
    named = field_of(fields, FUNCTIONS)[1] or field_of(metadata if isinstance(metadata, Mapping) else {}, FUNCTIONS)[1]
    kind = next((str(fields[name]) for name in ("type", "testtype", "test_type", "kind") if fields.get(name)), "")
    if STDIO.match(kind):
        return ""
    named = named or called_in(field_of(fields, ("call", "expression"))[1])
    given = field_of(fields, INPUTS)[1] if fields else item[0] if isinstance(item, list | tuple) and item else None
    fed = about.language not in ("", "python") or (isinstance(given, str) and given.endswith("\n"))
    entry = str(named or ("" if fed and not CALLS.match(kind) else about.entry_point))
    if CALLS.match(kind) and not entry:
        raise ValueError(f"tests: a test of type {kind} names no function: fn_name, or --entry_point COLUMN")
    return entry


def called_in(text: Any) -> str:
    """Return the function that a text calls; empty for other values."""
    found = re.match(r"\s*([A-Za-z_]\w*(?:\(\)\.\w+)?)\s*\(", text, re.ASCII) if isinstance(text, str) else None
    return found[1] if found else ""


def called(
    name: str, items: Sequence[Mapping[str, Any]], found: Found, about: About, *, wrapped: bool
) -> tuple[Found, tuple[TestCase, ...]]:
    """Return the tests that call a function, and the facts about their task, completed by these tests.

    Their texts are read together: whether ``13`` is a number or text shows over all tests.
    """
    codes = [code for code in about.codes if "class Solution" in code or functions_of(code)]
    callee = Callee(name.rpartition(".")[2], in_class=True) if name.startswith("Solution().") else callee_of(name, *codes)
    if not any(codes) and any(str(item.get("testtype")) == "functional" for item in items):
        callee = Callee(name, in_class=True)  # LiveCodeBench's word for its functions, which are methods
    reference, statement, program, *_ = *about.codes, "", "", ""
    inputs = arguments_of([item["input"] for item in items], callee, (reference, statement), program)
    outputs, hidden = values_of([item["output"] for item in items]), [bool(item.get("hidden", True)) for item in items]
    if wrapped:
        form = "class Solution:" if callee.in_class else f"def {name}(): ..."
        fields = of_outputs(name, {"inputs": inputs, "outputs": outputs}, form)
        tests, setup, compare = fields["tests"], fields["setup"], fields["compare"]
    else:
        by_place = [one if isinstance(one, list) else [] for one in inputs]
        made = [*call_tests(callee, by_place, outputs, hidden=hidden)]
        for at, named in ((at, one) for at, one in enumerate(inputs) if not isinstance(one, list)):
            call = f"{callee.expression}({', '.join(f'{key}={literal(value)}' for key, value in named.items())})"
            made[at] = replace(made[at], input=made[at].input.replace(f"{callee.expression}()", call))
        tests = tuple(made)
        setup, compare = setup_of(tests, callee), by_numbers(tests)
    setup += "" if about.published else other_form(callee, tests, about.setup)
    return replace(found, entry_point=callee.entry_point, setup=setup, compare=compare, by_code=bool(any(codes))), tests


OTHER_FORM = {
    False: """
def {0}(*values, **named):
    try:
        made = Solution()
    except NameError:
        raise NameError("name '{0}' is not defined") from None
    return made.{0}(*values, **named)
""",
    True: """
class Solution:
    def {0}(self, *values, **named):
        return {0}(*values, **named)
""",
}
"""Whether tests call a method -> what calls the attempt's function or method in its place, where the attempt has the other form."""


def in_both_forms(found: Found, about: About) -> Found:
    """Return tests by text, of which all are direct calls of one function, with what lets a program of either form pass (``other_form``)."""
    names = {called_in(test.input) if test.kind is TestKind.CALL else "" for test in found.tests}
    name = names.pop() if len(names) == 1 else ""
    callee = Callee(name.rpartition(".")[2], in_class=name.startswith("Solution()."))
    own = re.split(r"\W+", found.entry_point or about.entry_point)[-1]
    if name not in (callee.name, f"Solution().{callee.name}") or own not in ("", callee.name, "Solution"):
        return found
    setup = "" if name == "Solution" or "__future__" in about.setup else other_form(callee, found.tests, about.setup)
    return replace(found, entry_point=callee.entry_point, setup=setup) if setup else found


def other_form(callee: Callee, tests: Sequence[TestCase], given: str) -> str:
    """Return setup with which a program passes that has a method in place of the function, or the reverse; the attempt's definitions win.

    Empty for a name that Python, the imports of contests or the ``given`` setup bind: these would answer in place of the attempt. Empty, too,
    if a test hands the value to a function, such as ``as_lists(f(1))``: a setup that names a class puts such tests into the attempt's process
    (``in_process``).
    """
    direct = tuple(f"{before}{callee.name}(" for before in ("", "Solution()."))
    usable = callee.name.isidentifier() and callee.name not in BUILTINS | PROVIDED | names_bound(given)
    usable = usable and all(test.input.startswith(direct) for test in tests)
    return OTHER_FORM[callee.in_class].format(callee.name) if usable else ""


def as_test(item: Any) -> TestCase:
    """Return a test of standard input and output, or upsolve's own."""
    if isinstance(item, Mapping) and "kind" in item and str(item["kind"]) in [*TestKind]:
        return own_test(item)
    fields = as_object(item)
    return TestCase(TestKind.STDIO, lines(fields["input"]), lines(fields["output"]), bool(fields.get("hidden", True)))


def own_test(item: Mapping[str, Any]) -> TestCase:
    """Return a test as upsolve writes it; ValueError for an unknown field or a value of another type."""
    unknown = {*item} - {"kind", "input", "expected", "hidden"}
    odd = [name for name in ("input", "expected") if not isinstance(item.get(name, ""), str)]
    if unknown or odd or "input" not in item:
        raise ValueError(
            f"tests: {str(item)[:60]!r}: field {', '.join([*sorted(map(str, unknown)), *odd]) or 'input'} is unknown, missing or not text"
        )
    return TestCase(TestKind(str(item["kind"])), item["input"], item.get("expected", ""), bool(item.get("hidden", False)))


def lines(value: Any) -> str:
    """Return the text of standard input or output, given as text, as a number, or as a list of lines."""
    if isinstance(value, bool | int | float):
        return f"{value}\n"
    if isinstance(value, Mapping) or value is None:
        raise ValueError(f"tests: {str(value)[:60]!r} is neither text nor lines")
    return value if isinstance(value, str) else "".join(f"{line}\n" for line in value)


def value_in(text: str) -> Any:
    """Return the list or object that a text is, as JSON, JSON in JSON or a Python literal; None for other text."""
    if not text.lstrip().startswith(("[", "{", "(", '"')):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(value, list | dict | tuple):
            return value
        if isinstance(value, str) and value != text:
            return value if value_in(value) is None else value_in(value)
    return None


def arguments_of(inputs: Sequence[Any], callee: Callee, texts: Sequence[str] = (), program: str = "") -> list[Any]:
    """Return the arguments of calls: a list, or an object of named ones.

    ``told`` are the reference and the statement, which may define the function; ``program`` is an attempt, which counts if
    neither these nor the tests show whether a list is one argument.
    """
    found = as_written(inputs, callee)
    names = next((names for code in texts if (names := parameters_in(code, callee)) is not None), None)
    lengths = {len(one) for one in found if isinstance(one, list)}
    if names is None and len(lengths) > 1 and all(isinstance(one, list) for one in inputs):
        names = ["values"]
    if names is None:
        names = parameters_in(program, callee)
    return found if names is None else fitted(found, inputs, names)


def fitted(found: list[Any], inputs: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return arguments that match the number of parameters: a list as the single argument, or the items of a single list or object."""
    if all(fits(one, names) for one in found):
        return found
    if len(names) == 1 and all(isinstance(one, list | tuple) for one in inputs):
        return [[[*one]] for one in inputs]
    if all(isinstance(one, list) and len(one) == 1 for one in found):
        inner = [[*one[0]] if isinstance(one[0], tuple) else one[0] for one in found]
        if all(isinstance(one, list | dict) and fits(one, names) for one in inner):
            return inner
    return found


def fits(arguments: Any, names: Sequence[str]) -> bool:
    """Return whether arguments are as many as parameters, or have their names."""
    return {*arguments} <= {*names} if isinstance(arguments, Mapping) else len(arguments) == len(names)


def parameters_in(code: str, callee: Callee) -> list[str] | None:
    """Return the names of the parameters of a function in a text; None if it does not define it, or they may be left out."""
    found = re.search(rf"^[ \t]*def[ \t]+{re.escape(callee.name)}[ \t]*\(", code, re.MULTILINE)
    if not found:
        return None
    end = found.end()
    for _ in range(20):  # one of the first closing parentheses ends the list of parameters
        if (end := code.find(")", end) + 1) == 0:
            return None
        if (tree := parsed(f"def f({code[found.end() : end - 1]}): ...")) is None:
            continue
        node = tree.body[0]
        if not isinstance(node, ast.FunctionDef):
            return None
        given = node.args
        if given.defaults or given.vararg or given.kwarg or given.kwonlyargs:
            return None
        names = [one.arg for one in (*given.posonlyargs, *given.args)]
        return names[1:] if names and names[0] == "self" else names
    return None


def as_written(inputs: Sequence[Any], callee: Callee) -> list[Any]:
    """Return the arguments of calls as inputs state them."""
    if not all(isinstance(one, str) for one in inputs):
        return [[*one] if isinstance(one, list | tuple) else one if isinstance(one, dict) else [one] for one in inputs]
    if all(found := [in_call(text, callee) for text in inputs]):
        return [one[0] for one in found]
    rows = [text.rstrip("\n").split("\n") for text in inputs]
    columns = [[row[index] for row in rows if index < len(row)] for index in range(max(map(len, rows)))]
    readers = [reader_of(column) for column in columns]
    return [[readers[index](line) for index, line in enumerate(row)] for row in rows]


def in_call(text: str, callee: Callee) -> list[Any]:
    """Return, in a list, the arguments in a text (a call of the function, or arguments between commas); an empty list for other texts."""
    text, start = text.strip(), rf"(?:Solution\(\)\.)?{re.escape(callee.name)}\s*\("
    source = text if re.match(start, text) else f"{callee.name}({text})"
    try:
        call = ast.parse(source, mode="eval").body
        if not isinstance(call, ast.Call) or "\n" in text or (call.args and call.keywords):
            return []
        if call.keywords:
            return [{str(one.arg): ast.literal_eval(one.value) for one in call.keywords}]
        return [[ast.literal_eval(one) for one in call.args]]
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return []


def reader_of(texts: Sequence[str]) -> Callable[[str], Any]:
    """Return what reads all of some texts: JSON, Python literals, or else the text itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            for text in texts:
                literal(read(text.strip()))
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        return lambda text, read=read: read(text.strip())
    return str


def values_of(outputs: Sequence[Any]) -> list[Any]:
    """Return expected values; parses all texts, or only lists and objects if some texts are plain text."""
    texts = [one for one in outputs if isinstance(one, str)]
    read = reader_of(texts)
    if read is str:
        return [one if not isinstance(one, str) or (inner := value_in(one)) is None else inner for one in outputs]
    return [read(one) if isinstance(one, str) else one for one in outputs]


LABEL = re.compile(
    r"[ \t#*]*(?:(?:sample|example|test|expected|case)[ \t]*\d*[ \t]*)*(input|output)[ \t]*#?\d*[ \t]*\**[ \t]*[:=]?\**[ \t]*(.*)",
    re.IGNORECASE,
)
"""A line ``Input: 1``, ``### Sample Input 1`` or ``**Output:**``."""
HEAD = re.compile(r"[ \t#*]*(?:(?:sample|example|test|case)s?[ \t]*)+#?\d*[ \t]*[:.)]?\**[ \t]*", re.IGNORECASE)
"""A line ``Example 1:`` before an input."""
REMARK = re.compile(r"[ \t#*]*explanation\**[ \t]*:", re.IGNORECASE)


def labelled(text: str) -> list[tuple[str, str]]:
    """Return the inputs and outputs of a text with lines such as ``Input: 1`` and ``Output: 2``, without explanations; none for other text."""
    parts: list[tuple[str, list[str]]] = []
    for line in text.strip().splitlines():
        match = LABEL.fullmatch(line[:200]) if len(line) < 200 or ":" in line[:40] else None
        if match and (match[2] == "" or ":" in line[: match.start(2)] or "=" in line[: match.start(2)]):
            if parts and match[1].lower() == "input":
                parts[-1] = parts[-1][0], without_head(parts[-1][1])
            parts.append((match[1].lower(), [line[match.start(2) :]] if line[match.start(2) :] else []))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip() and not HEAD.fullmatch(line[:200]):
            return []
    if [kind for kind, _ in parts] != ["input", "output"] * (len(parts) // 2) or not parts:
        return []
    texts = [body(lines) for _, lines in parts]
    return [*zip(texts[::2], texts[1::2], strict=True)]


def without_head(lines: list[str]) -> list[str]:
    """Return the lines before a heading such as ``Example 2:`` at their end."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or HEAD.fullmatch(lines[end - 1][:200])):
        end -= 1
    return lines[:end]


def body(lines: list[str]) -> str:
    """Return the text of an input or output: the content of its fence, if any, up to an explanation."""
    text = "\n".join(takewhile(lambda line: not REMARK.match(line[:200]), lines)).strip("\n")
    fenced = FENCE.fullmatch(text)
    return fenced[1] if fenced else text
