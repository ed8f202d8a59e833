"""Inputs and expected outputs as values -> tests that call a function or feed a program; and how their answers are compared."""

import ast
import base64
import io
import json
import math
import pickle
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from upsolve.errors import JudgeError
from upsolve.importers.recogniser.asserts import BUILTINS, UNREADABLE, names_bound, names_read, parsed
from upsolve.importers.recogniser.failing import About, Compare
from upsolve.importers.rows import data_in, known_words
from upsolve.types import TestCase, TestKind
from upsolve.verify.judge.compare import as_literal, integer
from upsolve.verify.judge.references import expected_values
from upsolve.verify.limits import PROVIDED, JudgeSettings, Limits, imports_without

__all__ = [
    "Callee",
    "by_numbers",
    "called_in",
    "callee_of",
    "calls_of",
    "graded",
    "is_hidden",
    "json_value",
    "literal",
    "other_form",
    "text_of",
    "text_of_pickle",
    "value_in",
]


SETUPS, FLAGS = data_in("programs.yaml"), known_words()["tests"]["flags"]
DECIMAL = re.compile(r"(?<![\w.])[+-]?\d*\.\d+(?![\w.])")
DEFINED = re.compile(r"\s*def\s+(\w+)\s*\(", re.ASCII)
PACKED = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}")
"""Matches a text in base64."""
MOST_BYTES = 1 << 30
"""Most bytes of packed tests, decompressed."""
PROBES = 3
"""Number of calls of a reference that are run to decide how to read inputs and outputs."""
PROBING = JudgeSettings(Limits(wall_seconds=5.0, cpu_seconds=1.0))


@dataclass(frozen=True, slots=True)
class Callee:
    """The function that the tests of a problem call."""

    name: str
    in_class: bool = False
    """True for a method of the class ``Solution``, as on LeetCode."""

    @property
    def expression(self) -> str:
        """The callee as Python."""
        return f"Solution().{self.name}" if self.in_class else self.name

    @property
    def entry_point(self) -> str:
        """The name that a program must define."""
        return "Solution" if self.in_class else self.name


def callee_of(name: str, *codes: str) -> Callee:
    """Return the callee: a method if the first non-empty code (starter code, a solution) defines ``class Solution``.

    Without a name, the callee is the first function of the code; ValueError if there is none.
    """
    code = next((code for code in codes if code.strip()), "")
    in_class = re.search(r"^class Solution\b", code, re.MULTILINE) is not None
    found = DEFINED.search(code)
    if not name and found is None:
        raise ValueError("the tests call a function, but neither a name nor code says which: --entry_point COLUMN")
    return Callee(name or (found[1] if found else ""), in_class)


def json_value(text: str) -> Any:
    """Return the value of JSON text, whose integers may have more digits than Python converts by default."""
    return json.loads(text, parse_int=integer)


def value_in(text: str) -> Any:
    """Return the list or object in a text: JSON, JSON in JSON, a Python literal, or such a text packed (``unpacked``); None for other text."""
    text = text.strip()
    if not text.startswith(("[", "{", "(", '"')):
        return value_in(inner) if (inner := unpacked(text)) else None
    for read in (json_value, ast.literal_eval):
        try:
            value = read(text)
        except UNREADABLE:
            continue
        if isinstance(value, list | dict | tuple):
            return value
        if isinstance(value, str) and value != text:
            return value if (inner := value_in(value)) is None else inner
    return None


def unpacked(text: str) -> str:
    """Return the text in base64, possibly of zlib or gzip, possibly of a pickle of text; empty for text that is not packed.

    Raises:
        ValueError: the packed data is damaged, holds more than ``MOST_BYTES`` bytes or a pickle of anything but text.
    """
    try:
        data = base64.b64decode(text, validate=True) if len(text) >= 8 and PACKED.fullmatch(text) else b""
    except ValueError:
        return ""
    if data[:2] == b"\x1f\x8b" or (data[:1] == b"x" and int.from_bytes(data[:2]) % 31 == 0):
        unpacker = zlib.decompressobj(wbits=47)
        try:
            data = unpacker.decompress(data, MOST_BYTES)
        except zlib.error as error:
            raise ValueError(f"tests: the text packed in base64 and zlib cannot be unpacked: {error}") from error
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ValueError(f"tests: packed in base64 and zlib, but cut off, or unpacked more than {MOST_BYTES} bytes")
        return text_of_pickle(data) if data[:1] == b"\x80" else data.decode()
    return data.decode() if data[:1] in (b"[", b"{") and data.isascii() else ""


class TextOnly(pickle.Unpickler):
    """An unpickler that imports nothing: a pickle that names a class or function is refused, and no code of it runs."""

    def find_class(self, module: str, name: str, /) -> Any:
        """Refuse every class or function."""
        raise pickle.UnpicklingError(f"the pickle names {module}.{name}; only text is allowed")


def text_of_pickle(data: bytes) -> str:
    """Return the text in a pickle without executing the pickle; ValueError for any other content."""
    try:
        value = TextOnly(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, MemoryError, OverflowError) as error:
        raise ValueError(f"tests: packed in a pickle: {error}") from error
    if not isinstance(value, str):
        raise ValueError(f"tests: the pickle holds {type(value).__name__}, not text")
    return value


def literal(value: Any) -> str:
    """Return a JSON value as a Python literal; ValueError for inf and nan, which have no literal."""
    text = as_literal(value)
    ast.literal_eval(text)
    return text


def with_integer_keys(value: Any) -> Any:
    """Return a dict with integer keys if all keys are integers as text: JSON only has text keys, and graders convert them back."""
    if isinstance(value, dict) and value and all(re.fullmatch(r"-?\d+", str(key)) for key in value):
        return {int(key): item for key, item in value.items()}
    return value


def text_of(value: Any) -> str:
    """Return the text of standard input or output, given as text, as a number, or as a list of lines; ValueError for other values."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return f"{value}\n"
    if isinstance(value, list | tuple) and all(isinstance(line, str | int | float) for line in value):
        return "".join(f"{line}\n" for line in value)
    raise ValueError(f"tests: an input or output is neither text nor lines: {str(value)[:60]!r}")


def by_numbers(tests: Iterable[TestCase], tolerance: str = "1e-6") -> str:
    """Return ``floats`` with a tolerance where an expected output has a decimal fraction, ``lines`` elsewhere."""
    return f"floats:{tolerance}" if any(DECIMAL.search(test.expected) for test in tests) else "lines"


def graded(tests: Sequence[TestCase], compare: str, grader: str) -> tuple[Compare, str]:
    """Return who compares values, and ``Task.compare``, by the name of a grader (``contest:1e-9``, ``apps``). ``compare``: default for tests that
    call a function."""
    way, _, tolerance = grader.partition(":")
    by = Compare(way) if way in ("contest", "exact") else Compare.PUBLISHER if way else Compare.CONTEST
    if compare:
        return by, way if compare == "apps" else compare.replace("1e-6", tolerance or "1e-6")
    numbers = by_numbers(tests, tolerance or "1e-6")
    return by, way if by is not Compare.CONTEST else "tokens" if numbers == "lines" else numbers


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, and the depth of its return value."""

    names: tuple[str, ...]
    """Names of the parameters."""
    least: int
    """Number of required parameters."""
    depth: int | None
    """Depth of lists in the return value, by its annotation; None without an annotation."""

    def takes(self, arguments: Any) -> bool:
        """Return whether arguments fit the parameters, by their number or by their names."""
        if isinstance(arguments, Mapping):
            return {*arguments} <= {*self.names}
        return self.least <= len(arguments) <= len(self.names)


def signature_in(code: str, callee: Callee) -> Signature | None:
    """Return the signature of a function in a text; None if the text does not define the function, or it takes any number of arguments."""
    found = re.search(rf"^[ \t]*def[ \t]+{re.escape(callee.name)}[ \t]*\(", code, re.MULTILINE)
    end = found.end() if found else 0
    for _ in range(20 if found else 0):  # one of the first closing parentheses ends the list of parameters
        if not found or (end := code.find(")", end) + 1) == 0:
            return None
        if (tree := parsed(f"def f({code[found.end() : end - 1]}): ...")) is None:
            continue
        given = tree.body[0].args  # type: ignore[attr-defined]
        if given.vararg or given.kwarg or given.kwonlyargs:
            return None
        names = [one.arg for one in (*given.posonlyargs, *given.args)]
        names = names[1:] if names[:1] == ["self"] else names
        returns = re.match(r"[ \t]*->[ \t]*([^:\n]+):", code[end : end + 200])
        typed = returns[1].lower() if returns else "dict"
        depth = None if "dict" in typed or "any" in typed else len(re.findall("list|tuple|sequence", typed))
        return Signature(tuple(names), len(names) - len(given.defaults), depth)
    return None


def calls_of(
    callee: Callee, items: Sequence[Mapping[str, Any]], about: About, *, wrapped: bool
) -> tuple[tuple[TestCase, ...], str, str]:
    """Return (tests, setup, comparison) for inputs and outputs of a function; the setup holds imports of contests and helpers.

    Inputs are read together, since only all of them show whether ``13`` is a number or text. If several readings fit, the reading counts with which
    the reference returns the expected values. ``wrapped``: an output ``[3]`` may be a list around the value, as in APPS: the reference decides, else
    the annotated types. Without both, the comparison is ``item``, which accepts the value and the list.
    """
    given, told = [item["input"] for item in items], [item["output"] for item in items]
    reference, statement, program, *_ = *about.codes, "", "", ""
    known = signature_in(reference, callee) or signature_in(statement, callee)
    readings, forms = readings_of(given, callee, known, program), forms_of(told)
    publisher, way = about.compare is Compare.PUBLISHER, ""
    run = not publisher and len(readings) * len(forms) > 1 and signature_in(reference, callee)
    sure = by_running(f"{about.setup}\n{reference}", callee, readings, forms) if run else None
    inputs, outputs = sure or (readings[0], forms["plain"])
    if not sure and wrapped and "item" in forms and not callee.in_class and not isinstance(told[0], str):
        found = max(map(depth_of, told))
        if publisher or not known or known.depth is None or not found - 1 <= known.depth <= found:
            outputs, way = forms["item"], "item"
            if not publisher:
                warnings.warn(
                    "outputs such as [3] of functions are lists or values in lists: nothing shows which, both pass",
                    stacklevel=2,
                )
        elif known.depth < found:
            outputs = forms["item"]
    tests = call_tests(callee, inputs, outputs, [is_hidden(item) for item in items])
    numbers, way = "lines" if publisher else by_numbers(tests), way or ("apps" if publisher else "")
    nested = any(test.input.startswith("as_lists(") for test in tests)
    other = "" if about.published else other_form(callee, tests, about.setup)
    setup = imports_without((callee.entry_point,)) + (SETUPS["as_lists"] if nested else "") + other
    return tests, setup, (way or "lines") if numbers == "lines" else numbers.replace("floats", way or "floats")


def depth_of(value: Any) -> int:
    """Return the depth of lists in a value, by their first items."""
    return 1 + (depth_of(value[0]) if value else 0) if isinstance(value, list | tuple) else 0


def call_of(callee: Callee, arguments: Any) -> str:
    """Return a call with arguments, a list or an object of named ones; ValueError if a value has no literal."""
    if isinstance(arguments, Mapping):
        texts = [f"{name}={literal(with_integer_keys(value))}" for name, value in arguments.items()]
    else:
        texts = [literal(with_integer_keys(value)) for value in arguments]
    return f"{callee.expression}({', '.join(texts)})"


def is_hidden(item: Mapping[str, Any]) -> bool:
    """Return whether a test is hidden by its fields: ``hidden``, or a true field that means shown; hidden without such a field."""
    said = {name: str(item[name]).strip().lower() for name in ("hidden", *FLAGS) if item.get(name) is not None}
    if "hidden" in said:
        return said["hidden"] not in ("0", "false", "no", "")
    return not any(word in ("1", "true", "yes", "t", "y") for word in said.values())


def call_tests(callee: Callee, inputs: Sequence[Any], outputs: Sequence[Any], hidden: Sequence[bool]) -> tuple[TestCase, ...]:
    """Return tests of calls. They see tuples as lists if expected values contain lists or dicts."""
    calls = [call_of(callee, arguments) for arguments in inputs]
    if any(isinstance(value, list | dict) for value in outputs):
        calls = [f"as_lists({call})" for call in calls]
    triples = zip(calls, map(with_integer_keys, outputs), hidden, strict=True)
    return tuple(TestCase(TestKind.CALL, call, literal(value), secret) for call, value, secret in triples)


def forms_of(told: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the possible readings of outputs: values (texts are parsed), items of lists of one item, and unchanged texts."""
    texts = [one for one in told if isinstance(one, str)]
    read = reader_of(texts)

    def value(text: str) -> Any:
        return read(text) if read is not str else text if (inner := value_in(text)) is None else inner

    values = [value(one) if isinstance(one, str) else one for one in told]
    forms = {"plain": values}
    if all(isinstance(one, list) and len(one) == 1 for one in values):
        forms["item"] = [one[0] for one in values]
    if len(texts) == len(told) and values != texts:
        forms["text"] = texts
    return forms


def by_running(
    code: str, callee: Callee, readings: Sequence[list[Any]], forms: Mapping[str, list[Any]]
) -> tuple[list[Any], list[Any]] | None:
    """Return the arguments and expected values that a reference confirms on its shortest inputs; None if it confirms none."""
    first = readings[0]
    probes = sorted(range(len(first)), key=lambda at: len(as_literal(first[at])))[:PROBES]
    try:
        calls = [call_of(callee, reading[at]) for reading in readings for at in probes]
    except UNREADABLE:
        return None
    needed = imports_without(PROVIDED - names_read(code) - {"sys"})  # all of them take longer than the calls
    values = values_by(f"{needed}{code}", tuple(calls))
    for start, reading in zip(range(0, len(calls), len(probes)), readings, strict=True):
        found = [(at, one) for at, one in zip(probes, values[start:], strict=False) if one is not ...]
        for form in forms.values():
            if found and all(is_same(one, form[at]) for at, one in found):
                return reading, form
    return None


@lru_cache(maxsize=256)
def values_by(code: str, calls: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the values of calls of a program, run in the sandbox; ``...`` for a call without a literal value; nothing if all fail."""
    try:
        texts = expected_values(code, calls, PROBING)
        return tuple(... if text is None else ast.literal_eval(text) for text in texts)
    except (*UNREADABLE, JudgeError):
        return ()


def is_same(got: Any, expected: Any) -> bool:
    """Return whether a value equals the expected one from JSON, in which tuples are lists and keys are text."""
    if isinstance(got, list | tuple) and isinstance(expected, list | tuple):
        return len(got) == len(expected) and all(map(is_same, got, expected))
    if isinstance(got, float) and isinstance(expected, int | float):
        return math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-6)
    return type(got) in (type(expected), int, float) and got == with_integer_keys(expected)


def readings_of(given: Sequence[Any], callee: Callee, known: Signature | None, program: str) -> list[list[Any]]:
    """Return the possible readings of inputs as arguments of calls, each a list or an object of named ones; the likeliest first.

    ``known`` is the function's signature in a reference or statement, ``program`` an attempt, which counts if neither ``known`` nor the inputs
    show whether a list is one argument. ValueError if no reading fits ``known``.
    """
    texts = bool(given) and all(isinstance(one, str) for one in given)
    shown = known or signature_in(program, callee)
    if texts:
        calls = [in_call(text, callee) for text in given]
        single = shown is not None and len(shown.names) == 1
        lines = in_lines([[text] if single else text.rstrip("\n").split("\n") for text in given])
        found = [[one[0] for one in calls], lines] if all(calls) else [lines]
        found = found[::-1] if all(map(is_json, given)) else found
    else:
        found = [[[*one] if isinstance(one, list | tuple) else one if isinstance(one, dict) else [one] for one in given]]
        if all(isinstance(one, list | tuple) for one in given):
            found.append([[[*one]] for one in given])
    for one in [*found]:
        inner: list[Any] = [part[0] if isinstance(part, list) and len(part) == 1 else None for part in one]
        if all(isinstance(part, list | tuple | dict) for part in inner):
            found.append([part if isinstance(part, dict) else [*part] for part in inner])
    fit = [one for one in found if shown and all(map(shown.takes, one))]
    if known and not fit:
        sizes = [len(one) for one in found[-1 if texts and len(found) > 1 else 0]]
        odd = next((size for size in sizes if not known.least <= size <= len(known.names)), sizes[0])
        what = f"{known.least} to {len(known.names)}" if known.least < len(known.names) else known.least
        raise ValueError(f"an input has {odd} {'lines' if texts else 'arguments'}, the function takes {what} arguments")
    if not known and len(found) > 1 and not texts and len({len(one) for one in found[0]}) > 1:
        return found[1:2]
    return fit or found[:1]


def is_json(text: str) -> bool:
    """Return whether each line of a text is a JSON value."""
    try:
        return [*map(json_value, text.rstrip("\n").split("\n"))] != []
    except UNREADABLE:
        return False


def in_call(text: str, callee: Callee) -> list[Any]:
    """Return a list with the arguments in a text (a call of the function, or arguments between commas); an empty list for other texts."""
    text, start = text.strip(), rf"(?:Solution\(\)\.)?{re.escape(callee.name)}\s*\("
    try:
        call = ast.parse(text if re.match(start, text) else f"{callee.name}({text})", mode="eval").body
        if not isinstance(call, ast.Call) or "\n" in text or (call.args and call.keywords):
            return []
        if call.keywords:
            return [{str(one.arg): ast.literal_eval(one.value) for one in call.keywords}]
        return [[ast.literal_eval(one) for one in call.args]]
    except UNREADABLE:
        return []


def in_lines(rows: Sequence[Sequence[str]]) -> list[Any]:
    """Return arguments that each stand on a line of their own; the lines of one parameter are read alike."""
    columns = [[row[index] for row in rows if index < len(row)] for index in range(max(map(len, rows)))]
    readers = [*map(reader_of, columns)]
    return [[readers[index](line) for index, line in enumerate(row)] for row in rows]


def reader_of(texts: Sequence[str]) -> Callable[[str], Any]:
    """Return a parser that reads all of the texts: as JSON, as Python literals, or else as plain text."""
    for read in (json_value, ast.literal_eval):
        try:
            for text in texts:
                literal(read(text.strip()))
        except UNREADABLE:
            continue
        return lambda text, read=read: read(text.strip())
    return str


def called_in(text: Any) -> str:
    """Return the function that a text calls; empty for other values."""
    found = re.match(r"\s*([A-Za-z_]\w*(?:\(\)\.\w+)?)\s*\(", text, re.ASCII) if isinstance(text, str) else None
    return found[1] if found else ""


def other_form(callee: Callee, tests: Sequence[TestCase], given: str) -> str:
    """Return setup with which a program with a method passes the tests of a function, or vice versa; the attempt's definitions take precedence.

    "" if Python, the imports of contests or the ``given`` setup bind the function's name: their function would answer in place of
    the attempt's. "" also if a test hands the value to a function, such as ``as_lists(f(1))``: a setup that names a class moves such
    tests into the attempt's process (``in_process``).
    """
    direct = tuple(f"{before}{callee.name}(" for before in ("", "Solution()."))
    usable = callee.name.isidentifier() and callee.name not in BUILTINS | PROVIDED | names_bound(given)
    usable = usable and all(test.input.startswith(direct) for test in tests)
    return SETUPS["method" if callee.in_class else "function"].format(callee.name) if usable else ""
