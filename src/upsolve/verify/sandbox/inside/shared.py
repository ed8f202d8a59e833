"""Messages between the tester and the attempt, and containers that both hold. Each side has a copy; a table of numbers says which copies belong
together.

A message has the content of new or changed containers, and only the number of all others. So a change on one side arrives at the other, and two names
of one list stay names of one list. Standard library only.
"""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from gc import get_referents
from operator import is_
from sys import getrecursionlimit, setrecursionlimit  # of this process alone (tester.mirror)

import copies
import operations
import proxies
import setups
import texts
import values

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["ERROR_NUMBER", "MALFORMED", "Shared", "deeper", "exception_in"]

MALFORMED = (ValueError, TypeError, LookupError, RecursionError, ArithmeticError, AttributeError)
"""Exceptions of decoding an answer; the value is then opaque."""
ERROR_NUMBER = "_tests_error"
"""Attribute of an exception in the attempt's process that a function of the tests raised: its number in the tester."""

MOST = 4096
"""Most items of the containers that stay shared between calls. Larger containers become copies, since every call compares all items."""
FRAMES = 6
"""Frames on the stack for one level of a value that is encoded or decoded."""
EXAMPLE: dict[int, Any] = {0: []}
ONLY_HERE = sys.getrefcount(EXAMPLE[0])
"""Result of ``sys.getrefcount`` for a container that only a table refers to."""


class Shared:
    """Values in messages between the two processes, and the containers that both processes hold.

    Args:
        first: 0 in the tester, which gives its containers even numbers; 1 in the attempt's process, which uses odd numbers.
        keep: encodes a value that is not plain data.
        held: decodes texts of the other side's ``keep``.
    """

    def __init__(self, first: int, keep: Callable[[Any], str], held: Callable[..., Any]) -> None:
        self.next, self.held = first, held
        self.keep: Callable[[Any], str] = lambda value: texts.encode_copied(value) or setups.written(value) or keep(value)
        self.keep_error: Callable[[Any], str] | None = None
        """Encodes an exception of the attempt, with which it stays in the attempt's process; None in the tester."""
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.known: dict[int, Any] = {}
        """Items of each container as the other side has them."""
        self.nested: set[int] = set()
        """Containers whose items are not all numbers, text and the like."""
        self.copied_proxies: dict[int, Any] = {}
        """Proxies for instances of subclasses of immutable types, by number: an object stays itself."""
        self.size = 0
        self.written: set[int] = set()
        """Containers of the message that is being written whose content the other side has or has been sent."""
        self.read: set[int] = set()
        """Containers that occurred since this was emptied."""
        self.reading = 0
        """Values that are being decoded: meanwhile nothing can be asked of the other side."""

    def text(self, value: Any) -> str:
        """Encode a value."""
        return deeper(values.plain, value, 0, self.keep, self.container_text)

    def value(self, data: Any) -> Any:
        """Decode a value; raises on malformed data."""
        self.reading += 1
        try:
            return deeper(values.value_of, data, None, None, self.value_held)
        finally:
            self.reading -= 1

    def container_text(self, value: Any, kind: type, content: Callable[[], str]) -> str:
        """Encode a container or an instance of a subclass by its number, with its content if the other process lacks the content.

        Return an empty string for other values.
        """
        if not values.can_change(value, kind):
            if not is_extended(value, kind):
                return ""
            if named := setups.written(value):
                return named
            if copies.is_copied_proxy(value):
                if id(value) not in self.numbers:
                    return f'["kept",{proxies.number_of(value)}]'
            elif not self.next % 2:  # of the tests: sent as a copy
                return ""
            else:
                described = json.dumps([kind.__name__, overridden(kind), setups.class_name(kind)])
                plain, keep = content, self.keep
                content = lambda: f'["sub",{keep(value)},{described},{plain()}]'  # noqa: E731
                if not isinstance(value, COPIED):
                    return content()
        return self.numbered(value, content)

    def numbered(self, value: Any, content: Callable[[], str]) -> str:
        """Encode a container by its number, with its content if the other side lacks the content."""
        number = self.numbers.get(id(value))
        if number is None:
            number, self.next = self.next, self.next + 2
            self.put(number, value)
        if number in self.written:
            return f'["@",{number}]'
        self.written.add(number)
        self.note(number, value)
        return f'["@",{number},{content()}]'

    def value_held(self, tag: str, number: Any, *more: Any) -> Any:
        """Decode a container, or another value that is not plain data."""
        if tag == "sub":
            about, data = more
            proxy, value = self.value_held(*number), values.value_of(data, held=self.value_held)
            if isinstance(value, COPIED):
                return copies.copied_proxy(proxy, value, about)
            number = proxies.number_of(proxy)
            if number not in self.copied_proxies:
                self.copied_proxies[number] = copies.copied_proxy(proxy, value, about)
            return self.copied_proxies[number]
        if tag == "made":
            return texts.decode_copied(number, *more)
        if tag != "@":
            return self.held(tag, number, *more)
        content = more[0] if more else None
        self.read.add(number)
        if content is None:
            return self.objects[number]
        own = self.objects.get(number)
        if own is None and number % 2 == self.next % 2:
            raise ValueError(f"container {number} does not belong to the other side")
        if own is None and content[0] in ("list", "dict"):  # may contain itself
            own = [] if content[0] == "list" else {}
            self.put(number, own)
        value = values.value_of(content, held=self.value_held)
        if own is None:
            own = value
            self.put(number, own)
        elif own is not value:
            replace(own, value)
        self.note(number, own)
        return own

    def put(self, number: int, value: Any) -> None:
        """Add a container to those that both processes hold."""
        self.objects[number], self.numbers[id(value)] = value, number

    def note(self, number: int, value: Any) -> None:
        """Record the items of a container that the other side now has."""
        before = len(self.known.get(number, ()))
        self.known[number] = items = items_of(value)
        self.size += len(items) - before
        flat = type(items) is bytes or values.SCALARS.issuperset(map(type, items))
        (self.nested.discard if flat else self.nested.add)(number)

    def changes(self, numbers: Iterable[int] = ()) -> str:
        """Begin a message: return the encoded containers that differ from the other side's copies.

        All containers are compared, unless they have many items. Then only those in ``numbers`` are compared, and others are written with their
        content where they occur.
        """
        compared = {*self.objects} if self.size <= MOST else self.reached(numbers)
        changed = [*filter(self.changed, sorted(compared))]
        self.written = compared.difference(changed)
        return f"[{','.join(self.text(self.objects[number]) for number in changed)}]"

    def changed(self, number: int) -> bool:
        """Return whether the other side may lack items of a container. Containers of other types are copies, which may have changed."""
        value, known = self.objects[number], self.known[number]
        items = items_of(value)  # the same objects, since comparing them may run code of the attempt
        if items != known if type(items) is bytes else len(items) != len(known) or not all(map(is_, items, known)):
            return True
        return number in self.nested and any(
            isinstance(item, COPIED) and id(item) not in self.numbers for item in parts_of(value)
        )

    def reached(self, numbers: Iterable[int]) -> set[int]:
        """Return the given containers and all containers within them."""
        found = {number for number in numbers if number in self.objects}
        waiting = [*found & self.nested]
        while waiting:
            items = map(id, parts_of(self.objects[waiting.pop()]))
            inner = {self.numbers[item] for item in items if item in self.numbers} - found
            found |= inner
            waiting += inner & self.nested
        return found

    def in_use(self, *given: Any, limited: bool = False) -> list[int] | None:
        """Return the containers that code of this process can reach; None if there are too many items to search.

        Args:
            given: objects whose items do not count as references.
            limited: search in any case, and leave out containers with too many items to stay shared.
        """
        if self.size > MOST and not limited:
            return None
        nested = [table[number] for number in self.nested for table in (self.objects, self.known)]
        inside = Counter(map(id, references([*given, *nested])))
        del nested
        used: set[int] = set()
        size = 0
        for number in self.objects:
            if number not in used and sys.getrefcount(self.objects[number]) > ONLY_HERE + inside[id(self.objects[number])]:
                more = self.reached((number,)) - used
                items = sum(len(self.known[one]) for one in more)
                if size + items <= MOST or not limited:
                    used |= more
                    size += items
        return [*used]

    def settle(self, numbers: Iterable[int] | None) -> None:
        """Forget all containers except these; None: forget nothing."""
        if numbers is None or not self.objects:
            return
        left = {number: self.objects[number] for number in numbers if number in self.objects}
        self.known = {number: self.known[number] for number in left}
        self.nested.intersection_update(left)
        self.objects, self.numbers = left, {id(value): number for number, value in left.items()}
        self.size = sum(map(len, self.known.values()))

    def request(self, args: Iterable[Any], named: dict[str, Any]) -> str:
        """Return the fields of a request with these arguments."""
        changes, used = self.changes(), self.in_use()
        self.settle(used)
        texts = [*map(self.text, args)], [*map(self.text, named.items())]
        return f'"changed":{changes},"used":{json.dumps(used)},"args":[{",".join(texts[0])}],"named":[{",".join(texts[1])}]'

    def arguments(self, message: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], set[int]]:
        """Return the arguments of a request of the other side, and the containers in them."""
        self.accept(message)
        self.settle(message["used"])
        self.read = set()
        return tuple(map(self.value, message["args"])), dict(map(self.value, message["named"])), self.read

    def accept(self, message: dict[str, Any]) -> None:
        """Apply the changes that the other side reports."""
        for changed in message.get("changed", ()):
            self.value(changed)

    def result(self, reply: dict[str, Any], *, own: bool = False) -> Any:
        """Apply the changes that an answer reports; return its value or raise its exception.

        With ``own`` the answer is of the trusted tester: a StopIteration stays one, and an exception keeps its number.
        """
        value, error = None, None
        try:
            self.accept(reply)
            if "value" in reply:
                value = self.value(reply["value"])
            else:
                error = proxies.EndedError(self.value(reply["end"])) if "end" in reply else exception_in(reply, self.value, own)
            self.settle(reply.get("used", ()))
        except MALFORMED:
            self.settle(())
            return values.Opaque()
        if error:
            raise error
        return value


def deeper(function: Any, *args: Any) -> Any:
    """Call a recursive function, which uses ``FRAMES`` frames at each level of a value, with as much more room on the stack."""
    limit = getrecursionlimit()
    setrecursionlimit(limit + FRAMES * values.DEEPEST_SHARED)
    try:
        return function(*args)
    finally:
        setrecursionlimit(limit)


COPIED = (list, dict, set, bytearray)
"""Mutable builtin types that have subclasses."""
BASES = (*COPIED, int, float, complex, str, bytes, tuple, frozenset)
"""Builtin types whose subclasses are sent as copies. Copies sent by the attempt can also ask for the instance's own attributes."""


def is_extended(value: Any, kind: type) -> bool:
    """Return whether a value is an instance of a subclass of a builtin type with more than the builtin's members; not a number of numpy or a plain
    named tuple."""
    if kind.__module__ in ("builtins", "numpy") or not isinstance(value, BASES):
        return False
    fields = getattr(kind, "_fields", None)
    return fields is None or kind.__mro__[1] is not tuple or any(name[0] != "_" and name not in fields for name in vars(kind))


overriding: dict[type, list[str]] = {}
"""Subclass of a builtin type -> its methods that ``overridden`` returned."""


def overridden(kind: type) -> list[str]:
    """Return the methods of a subclass that override those of its builtin type: text methods, and other methods of the attempt's classes except
    comparisons."""
    if kind not in overriding:
        base = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        own = {name for one in kind.__mro__ if one.__module__ in values.OWN for name in vars(one)}
        found = {name for name in own if name in copies.OVERRIDABLE or (name[0] != "_" and hasattr(base, name))}
        found.update(name for name in copies.TEXTS if getattr(kind, name, None) is not getattr(base, name, None))
        overriding[kind] = sorted(found)
    return overriding[kind]


def items_of(value: Any) -> Any:
    """Return the items of a container, as a tuple or bytes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return tuple(part for pair in zip(*values.pairs_of(value), strict=True) for part in pair)
    for base in values.SEQUENCES:
        if isinstance(value, base):
            return tuple(base.__iter__(value))
    if type(value).__name__ in values.BYTES:
        return tuple(value.flat) if values.has_objects(value) else value.tobytes()
    return tuple(value)


def parts_of(value: Any) -> list[Any]:
    """Return the items of a container that may contain something, also those in its tuples and frozen sets."""
    parts: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        items = {
            id(item): item for item in items_of(waiting.pop()) if type(item) not in values.SCALARS and id(item) not in parts
        }
        parts |= items
        waiting += [item for item in items.values() if isinstance(item, tuple | frozenset)]
    return [*parts.values()]


def references(holders: list[Any]) -> list[Any]:
    """Return the objects that the holders, and the tuples and frozen sets in them, refer to; one entry for each reference."""
    found: list[Any] = []
    seen: set[int] = set()
    while holders:
        items = [item for item in get_referents(holders.pop()) if type(item) not in values.SCALARS]
        found += items
        inner = [item for item in items if isinstance(item, tuple | frozenset) and id(item) not in seen]
        seen.update(map(id, inner))
        holders += {id(item): item for item in inner}.values()
    return found


def replace(own: Any, value: Any) -> None:
    """Replace the items of a container by those of another container of its type or base type; ValueError if the types differ."""
    if not isinstance(own, type(value)):
        raise ValueError(f"a {type(own).__name__} has become a {type(value).__name__}")
    if type(own).__name__ in values.BYTES:
        own[... if type(own).__name__ == "ndarray" else slice(None)] = value
    elif type(own).__name__ == "deque":
        own.clear()
        own.extend(value)
    elif isinstance(own, dict):
        base: Any = next(one for one in type(own).__mro__ if one.__module__ in ("builtins", "collections"))  # pyright: ignore[reportUnknownVariableType]
        base.clear(own)
        for key, item in values.pairs_of(value):
            base.__setitem__(own, key, item)
    elif isinstance(own, set):
        set.clear(own)  # pyright: ignore[reportUnknownMemberType]
        set.update(own, value)  # pyright: ignore[reportUnknownMemberType]
    else:
        base = list if isinstance(own, list) else bytearray
        base.__setitem__(own, slice(None), value)


def exception_in(reply: dict[str, Any], value: Callable[[Any], Any], own: bool) -> BaseException:
    """Return the exception that an answer describes."""
    name, message, line = str(reply["error"][0]), str(reply["error"][1]), reply["error"][2]
    args, attributes = value(reply.get("with", ["tuple", ["list", message], ["dict"]]))
    named = attributes.items() if isinstance(attributes, dict) else ()
    own_attributes = {key: value for key, value in named if isinstance(key, str)}
    slots, shown = reply.get("slots", ({}, None))
    members: dict[str, Any] = {"__repr__": lambda _error: shown} if isinstance(shown, str) else {}  # pyright: ignore[reportUnknownLambdaType]
    if "held" in reply:
        proxy = value(reply["held"])
        members["__getattr__"] = lambda _error, key: getattr(proxy, key)  # pyright: ignore[reportUnknownLambdaType]
        members |= proxies.comparison(proxy)
    every = {**own_attributes, **{key: slots[key] for key in operations.SLOTS if key in slots}}
    error = rebuilt(name, message, reply.get("classes", ()), tuple(args), attributes=every, members=members, stops=own)
    error.__dict__.update(own_attributes)
    if own and "number" in reply:
        setattr(error, ERROR_NUMBER, reply["number"])
    error.attempt_line = line  # type: ignore[attr-defined]
    return error


def rebuilt(
    name: str,
    message: str,
    classes: Any,
    args: tuple[Any, ...],
    *,
    attributes: dict[str, Any],
    members: dict[str, Any],
    stops: bool,
) -> BaseException:
    """Return an exception of this name with the bases that are known here (``KNOWN``), by module and name in order of resolution.

    An exception of an unknown class gets the given ``members``.

    Unless it ``stops``, as exceptions of the tests, StopIteration becomes RuntimeError (PEP 479): it would end a test early, without an error.
    """
    known_classes = [kind for module, kind_name in classes if (kind := known(str(module), str(kind_name)))] or [Exception]
    if not stops and any(issubclass(kind, StopIteration | StopAsyncIteration) for kind in known_classes):
        return RuntimeError(f"the attempt raised {name}")
    if known_classes[0].__name__ == name:
        for make in (known_classes[0], functools.partial(known_classes[0].__new__, known_classes[0])):
            try:
                error = with_attributes(make(*args), args, attributes)
                if str(error) == message:
                    return error
            except Exception:
                pass
    own = [kind for kind in known_classes if not any(other is not kind and issubclass(other, kind) for other in known_classes)]
    for bases in (tuple(own), (own[0],), (Exception,)):
        try:
            kind = type(name, bases, {"__str__": lambda _error: message, **members})  # pyright: ignore[reportUnknownLambdaType]
            return with_attributes(kind.__new__(kind, *args), args, attributes)
        except Exception:  # bases of different layouts, arguments that they do not take
            continue
    return Exception(message)


def with_attributes(error: BaseException, args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    """Return an exception with these arguments and attributes; attributes in ``SLOTS`` are set through its type."""
    error.args = args
    for name, value in attributes.items():
        if name in operations.SLOTS and "descriptor" in type(getattr(type(error), name, None)).__name__:
            setattr(error, name, value)
        else:
            error.__dict__[name] = value
    return error


KNOWN = frozenset(
    "_csv _pickle _queue argparse binascii builtins configparser dataclasses decimal enum graphlib ipaddress json.decoder "  # noqa: SIM905
    "pickle re sqlite3 statistics struct subprocess tomllib zlib".split()
)
"""Modules whose exception classes are used if the tests imported them. Not all modules, since raising some exceptions would skip a test."""


OUTSIDE = (BaseException, BaseExceptionGroup, KeyboardInterrupt, SystemExit)
"""Known classes that do not extend Exception. GeneratorExit is missing, because ``close`` of a generator would suppress it."""


def known(module: str, name: str) -> Any:
    """Return an exception class of this name that may be raised here, or None."""
    kind: Any
    if module in setups.MODULES:
        kind, modules = setups.objects.get(name), (*KNOWN, *setups.MODULES)
        fits = isinstance(kind, type) and issubclass(kind, Exception)
        return kind if fits and all(base.__module__ in modules for base in kind.__mro__[:-1]) else None
    kind = getattr(sys.modules.get(module), name, None) if module in KNOWN else None
    fits = isinstance(kind, type) and (issubclass(kind, Exception) or kind in OUTSIDE)
    return kind if fits else None
