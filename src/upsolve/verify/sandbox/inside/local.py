"""Local functions, iterators and files of the tests that the attempt may use: they stay in the tester, which executes operations on request.

Standard library only. A request of the attempt names the number of an object, one of the few operations that its kind allows, and
arguments that are decoded as data. The attempt never gets an attribute of such an object. The attempt's process looks up objects of the standard library
that have a name, such as ``len`` or ``str.upper``, by that name.
"""

from __future__ import annotations

import builtins
import json
import sys
import types

import operations
from shared import ERROR_NUMBER, MALFORMED

TYPE_CHECKING = False  # the module typing is not imported
if TYPE_CHECKING:
    from typing import Any

    from shared import Shared

__all__ = ["LocalObjects"]

MOST_OBJECTS, MOST_ERRORS = 10_000, 100
"""Maximum numbers of exposed objects and of remembered exceptions; the oldest exceptions are forgotten first."""
MOST_NESTED = 80
"""Maximum depth of calls between functions of the tests and functions of the attempt."""
NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
METHODS = (types.BuiltinMethodType, types.MethodWrapperType)
CONTAINERS = ("list", "dict", "set", "frozenset", "tuple", "str", "bytes", "deque", "Counter", "OrderedDict", "defaultdict")
"""Types of the standard library whose methods can be exposed."""
ITERATORS = ("builtins", "itertools")
"""Modules whose iterators are exposed; an iterator class of the tests may have more methods than an iterator needs."""
GETTERS = ("itemgetter", "attrgetter", "methodcaller")
"""Types of module operator that the attempt's process creates itself, from the same arguments."""
FILES = ("StringIO", "BytesIO", "TextIOWrapper")
FILE_METHODS = "read readline readlines write writelines seek tell getvalue truncate flush close readable writable seekable"
PLAIN = frozenset(
    "abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float frozenset "  # noqa: SIM905
    "hash hex id int isinstance issubclass iter len list map max min next object oct ord pow print property range repr reversed "
    "round set slice sorted staticmethod str sum super tuple type zip exit __name__ __build_class__".split()
)
"""Builtins that an exposed function may use, besides exceptions. None of them gives an argument of the attempt access to the tests or the results, as
``eval``, ``getattr``, ``open`` or ``globals`` would."""
MODULES = frozenset(
    "array bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq itertools json keyword "  # noqa: SIM905
    "math numbers operator random re statistics string textwrap time typing unicodedata abc builtins tests".split()
)
"""Modules whose names an exposed function may use."""
REFLECTIVE = frozenset(
    "attrgetter methodcaller format format_map Formatter __globals__ __subclasses__ __dict__ __builtins__ __getattribute__ "  # noqa: SIM905
    "__code__ __closure__ __class__ __bases__ __mro__ __self__ __func__ __reduce__ patch sys".split()
)
"""Names that an exposed function may not use, not even as attributes."""


class LocalObjects:
    """Objects of the tests that are exposed to the attempt, and exceptions that their functions raised."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.space, self.depth = space, 0
        self.objects: list[tuple[Any, tuple[str, ...]]] = []
        self.numbers: dict[int, int] = {}
        self.errors: dict[int, BaseException] = {}
        self.raised = 0

    def encode(self, value: Any) -> str:
        """Encode an object by its number and description; return an empty string if it cannot be exposed."""
        if (found := self.described(value)) is None or len(self.objects) >= MOST_OBJECTS:
            return ""
        about, allowed = found
        number = self.numbers.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append((value, allowed))  # the reference also keeps the id in use
        return f'["exposed",{number},{json.dumps(about)}]'

    def described(self, value: Any) -> tuple[list[Any], tuple[str, ...]] | None:
        """Return the description of an object, and the operations on it that the attempt may request; None if it cannot be exposed."""
        if name := name_of(value):
            return ["name", *name], ()
        if self.callable_by_attempt(value):
            return ["function", *signature(value)], ("call",)
        kind = type(value)
        if kind.__module__ == "operator" and kind.__name__ in GETTERS and getter_parts(value):
            return ["getter", kind.__name__, getter_parts(value)], ()
        if hasattr(kind, "__next__") and kind.__module__ in ITERATORS:
            return ["iterator", kind.__name__], ("next",)
        if kind.__module__ == "_io" and kind.__name__ in FILES:
            methods = [name for name in FILE_METHODS.split() if hasattr(kind, name)]
            return ["file", kind.__name__, methods], tuple(methods)
        return None

    def callable_by_attempt(self, value: Any) -> bool:
        """Return whether a callable is a method of a container, or a function of the tests that uses nothing in REFLECTIVE."""
        if type(value) in METHODS:
            whole = not value.__name__.startswith("__") or value.__name__ in ("__contains__", "__getitem__", "__setitem__")
            return whole and type(value.__self__).__name__ in CONTAINERS and type(value.__self__).__module__ != "tests"
        if type(value).__name__ == "partial" and type(value).__module__ == "functools":
            return self.callable_by_attempt(value.func) and type(value.func) not in METHODS
        function = value.__func__ if type(value) is types.MethodType else value
        if type(function) is not types.FunctionType or function.__globals__ is not self.space:
            return False
        asynchronous = function.__code__.co_flags & (0x80 | 0x200)  # CO_COROUTINE, CO_ASYNC_GENERATOR
        return not asynchronous and not self.reflective(function, set())

    def reflective(self, function: Any, seen: set[int]) -> bool:
        """Return whether a function of the tests, directly or by a callee, could give the attempt access to tests or results.

        Names that the tests do not define are builtins, imported modules or attributes; in unclear cases the function is not exposed.
        """
        if id(function) in seen:
            return False
        seen.add(id(function))
        names = names_in(function.__code__)
        used = [self.space[name] for name in names if name in self.space]
        used += [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
        imported = names & (sys.stdlib_module_names - MODULES) if imports(function.__code__) else ()
        if imported or any(is_power(name) for name in names - self.space.keys()) or any(is_powerful(value) for value in used):
            return True
        classes = [vars(value).values() for value in used if isinstance(value, type) and value.__module__ == "tests"]
        reached = [*used, *(member for members in classes for member in members)]
        inner = [value for value in reached if type(value) is types.FunctionType and value.__globals__ is self.space]
        return any(self.reflective(function, seen) for function in inner)

    def answer(self, request: dict[str, Any], shared: Shared) -> str:
        """Execute an operation that the attempt requests, and return the encoded answer."""
        self.depth += 1
        try:
            args, named, scope = shared.arguments(request)
            value, allowed = self.objects[int(request["ask"])]
            if request["do"] not in allowed:
                raise TypeError(f"not an operation of a {type(value).__name__}")
            if self.depth > MOST_NESTED:
                raise RecursionError("maximum depth of calls between tests and attempt exceeded")
            kind, outcome = operations.outcome_of(lambda: use(value, request["do"], args, named))
            return operations.answer(kind, outcome, shared, args, named, scope=scope, number_of=self.number_of)
        except MALFORMED as error:
            return operations.failure(error, shared)
        finally:
            self.depth -= 1

    def number_of(self, error: BaseException) -> int | None:
        """Register an exception of the tests that the attempt may raise again, and return its number; None if not permitted."""
        if not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration):
            return None
        self.raised += 1
        self.errors[self.raised] = error.with_traceback(None)
        self.errors.pop(self.raised - MOST_ERRORS, None)
        return self.raised

    def passed_on(self, error: BaseException) -> BaseException:
        """Return the tests' own exception if the attempt passes that on, else the attempt's exception."""
        number = vars(error).get(ERROR_NUMBER)
        return self.errors.get(number, error) if type(number) is int else error


def use(value: Any, operation: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Execute an operation on an object of the tests."""
    if operation == "next":
        return operations.step(value)
    return (value if operation == "call" else getattr(value, operation))(*args, **named)


def name_of(value: Any) -> tuple[str, str] | None:
    """Return module and qualified name under which another process finds an object; None if there is no such name."""
    if not isinstance(value, NAMED):
        return None
    owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    module = getattr(value, "__module__", None) or (getattr(owner, "__module__", None) if isinstance(owner, type) else None)
    named_value = sys.modules.get(module) if isinstance(module, str) and module != "tests" else None
    for part in value.__qualname__.split("."):
        named_value = getattr(named_value, part, None)
    return (str(module), value.__qualname__) if named_value is not None and named_value == value else None


def getter_parts(value: Any) -> list[Any]:
    """Return the arguments that created one of GETTERS; empty if they are not plain names and numbers."""
    kind, args = value.__reduce__()[:2]
    return [*args] if kind is type(value) and all(type(argument) in (str, int) for argument in args) else []


def is_power(name: str) -> bool:
    """Return whether a name that the tests do not define gives more access than an exposed function may have."""
    builtin = getattr(builtins, name, None)
    if isinstance(builtin, type) and issubclass(builtin, BaseException):
        return False
    return (builtin is not None and name not in PLAIN) or name in REFLECTIVE


def is_powerful(value: Any) -> bool:
    """Return whether an object is a module, function or class that an exposed function of the tests must not use."""
    if type(value) is types.ModuleType:
        return value.__name__ not in MODULES
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(name, str) or not callable(value) or module == "tests":
        return False
    exception = isinstance(value, type) and issubclass(value, BaseException)
    top = str(module or "builtins").partition(".")[0].lstrip("_")
    return top not in MODULES or name in REFLECTIVE or (top == "builtins" and not exception and is_power(name))


def imports(code: types.CodeType) -> bool:
    """Return whether code or a function defined in it imports anything."""
    import opcode  # seldom needed

    inner = any(imports(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return inner or opcode.opmap["IMPORT_NAME"] in code.co_code[::2]


def names_in(code: types.CodeType) -> set[str]:
    """Return the global names and attributes that code and the functions defined in it use."""
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {*code.co_names}.union(*inner)


def signature(value: Any) -> list[Any]:
    """Return name, documentation and parameters of a callable: parameter names, then the number of each kind; None: any arguments."""
    description = [getattr(value, "__name__", "partial"), value.__doc__ if type(value) is types.FunctionType else None]
    function = getattr(value, "__func__", value)
    if type(function) is not types.FunctionType:
        return [*description, None]
    code, skipped = function.__code__, int(function is not value)
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    if skipped > code.co_argcount:
        return [*description, None]
    kinds = [max(0, code.co_posonlyargcount - skipped), code.co_argcount - skipped, code.co_kwonlyargcount]
    optional = [len(function.__defaults__ or ()), sorted(function.__kwdefaults__ or ())]
    return [
        *description,
        [[*code.co_varnames[skipped:count]], *kinds, bool(code.co_flags & 4), bool(code.co_flags & 8), *optional],
    ]
