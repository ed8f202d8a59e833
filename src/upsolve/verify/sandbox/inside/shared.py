"""Identity of containers that the tester and the attempt both hold: each has its copy, and a table of numbers says which belong together.

A message has the content of containers that are new or have changed, and the number alone of the others. So a change on one side arrives at
the other, and two names of one list stay names of one list. Standard library only.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from gc import get_referents
from operator import is_
from sys import getrecursionlimit, setrecursionlimit  # of this process alone (tester.mirror)

import proxies
import setups
import values

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["Shared"]

MOST = 4096
"""Most items of the containers that remain shared between calls. Others become copies, since every call compares all items."""
FRAMES = 6
"""Frames on the stack for one level of a value that is encoded or decoded."""
EXAMPLE: dict[int, Any] = {0: []}
ONLY_HERE = sys.getrefcount(EXAMPLE[0])
"""Result of ``sys.getrefcount`` for a container to which only a table refers."""


class Shared:
    """Values in messages between the two processes, and the containers that both processes hold.

    Args:
        first: 0 in the tester, 1 in the attempt's process: one numbers its containers with even numbers, the other with odd ones.
        keep: encodes a value that is not plain data.
        held: decodes what the other side's ``keep`` has encoded.
    """

    def __init__(self, first: int, keep: Callable[[Any], str], held: Callable[..., Any]) -> None:
        self.next, self.held = first, held
        self.keep: Callable[[Any], str] = lambda value: values.encode_copied(value) or setups.written(value) or keep(value)
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

    def text(self, value: Any) -> str:
        """Encode a value."""
        return deeper(values.plain, value, 0, self.keep, self.container_text)

    def value(self, data: Any) -> Any:
        """Decode a value; raises on malformed data."""
        return deeper(values.value_of, data, None, None, self.value_held)

    def container_text(self, value: Any, kind: type, content: Callable[[], str]) -> str:
        """Encode a container by its number, with its content if the other side does not have that, or an instance of a subclass.

        Return an empty string for other values.
        """
        if not values.can_change(value, kind):
            if not is_extended(value, kind):
                return ""
            if named := setups.written(value):
                return named
            if proxies.is_copied_proxy(value):
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
        """Encode a container by its number, with its content if the other side does not have that."""
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
                return proxies.copied_proxy(proxy, value, about)
            number = proxies.number_of(proxy)
            if number not in self.copied_proxies:
                self.copied_proxies[number] = proxies.copied_proxy(proxy, value, about)
            return self.copied_proxies[number]
        if tag == "made":
            return values.decode_copied(number, *more)
        if tag != "@":
            return self.held(tag, number, *more)
        content = more[0] if more else None
        self.read.add(number)
        if content is None:
            return self.objects[number]
        own = self.objects.get(number)
        if own is None and number % 2 == self.next % 2:
            raise ValueError(f"container {number} is none of the other side's")
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
        """Note the items of a container, which the other side now has."""
        before = len(self.known.get(number, ()))
        self.known[number] = items = items_of(value)
        self.size += len(items) - before
        flat = type(items) is bytes or values.SCALARS.issuperset(map(type, items))
        (self.nested.discard if flat else self.nested.add)(number)

    def changes(self, numbers: Iterable[int] = ()) -> str:
        """Begin a message: return the containers that differ from what the other side has, encoded.

        All are compared unless they have many items; then only those in ``numbers``, and others are written with their content where they occur.
        """
        compared = {*self.objects} if self.size <= MOST else self.reached(numbers)
        changed = [*filter(self.changed, sorted(compared))]
        self.written = compared.difference(changed)
        return f"[{','.join(self.text(self.objects[number]) for number in changed)}]"

    def changed(self, number: int) -> bool:
        """Return whether the other side may lack items of a container; those of containers of other types are copies, which may have changed."""
        value = self.objects[number]
        if not same(items_of(value), self.known[number]):
            return True
        return number in self.nested and any(
            isinstance(item, COPIED) and id(item) not in self.numbers for item in parts_of(value)
        )

    def reached(self, numbers: Iterable[int]) -> set[int]:
        """Return containers and all that are in them."""
        found = {number for number in numbers if number in self.objects}
        waiting = [*found & self.nested]
        while waiting:
            items = map(id, parts_of(self.objects[waiting.pop()]))
            inner = {self.numbers[item] for item in items if item in self.numbers} - found
            found |= inner
            waiting += inner & self.nested
        return found

    def in_use(self, *given: Any, limited: bool = False) -> list[int] | None:
        """Return the containers that code of this process can reach; None if they have too many items to find out.

        Args:
            given: objects whose items do not count as references.
            limited: find out in any case, and leave out those that have too many items to remain shared.
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
        """Forget all containers but these; with None, none."""
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

    def arguments(self, said: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], set[int]]:
        """Return the arguments of a request of the other side, and the containers in them."""
        self.accept(said)
        self.settle(said["used"])
        self.read = set()
        return tuple(map(self.value, said["args"])), dict(map(self.value, said["named"])), self.read

    def accept(self, said: dict[str, Any]) -> None:
        """Apply the other side's changes."""
        for changed in said.get("changed", ()):
            self.value(changed)


def deeper(function: Any, *args: Any) -> Any:
    """Call a function that is recursive, ``FRAMES`` at each level of a value, with that much more room on the stack."""
    limit = getrecursionlimit()
    setrecursionlimit(limit + FRAMES * values.DEEPEST)
    try:
        return function(*args)
    finally:
        setrecursionlimit(limit)


COPIED = (list, dict, set, bytearray)
"""Builtin types whose subclasses can be changed."""
BASES = (*COPIED, int, float, complex, str, bytes, tuple, frozenset)
"""Builtin types whose subclasses are sent as copies by the tests, and with a way to their own attributes by the attempt."""


def is_extended(value: Any, kind: type) -> bool:
    """Return whether a value is an instance of a subclass of a builtin type that has more than the latter; no number of numpy, no mere named tuple."""
    if kind.__module__ in ("builtins", "numpy") or not isinstance(value, BASES):
        return False
    fields = getattr(kind, "_fields", None)
    return fields is None or kind.__mro__[1] is not tuple or any(name[0] != "_" and name not in fields for name in vars(kind))


def overridden(kind: type) -> list[str]:
    """Return the special methods with which a subclass changes what its builtin type shows."""
    base = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    return [
        name
        for name in ("__str__", "__repr__", "__missing__", "__call__")
        if getattr(kind, name, None) is not getattr(base, name, None)
    ]


def items_of(value: Any) -> Any:
    """Return the items of a container, as a tuple or bytes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return (*dict.keys(value), *dict.values(value))  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
    for base in values.SEQUENCES:
        if isinstance(value, base):
            return tuple(base.__iter__(value))
    return value.tobytes() if type(value).__name__ == "ndarray" else tuple(value)


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
    """Return what these objects, and tuples and frozen sets in them, refer to: once for each reference."""
    found: list[Any] = []
    seen: set[int] = set()
    while holders:
        items = [item for item in get_referents(holders.pop()) if type(item) not in values.SCALARS]
        found += items
        inner = [item for item in items if isinstance(item, tuple | frozenset) and id(item) not in seen]
        seen.update(map(id, inner))
        holders += {id(item): item for item in inner}.values()
    return found


def same(items: Any, known: Any) -> bool:
    """Return whether a container has the same items: the same objects, since comparing them may run code of the attempt."""
    if type(items) is bytes:
        return items == known
    return len(items) == len(known) and all(map(is_, items, known))


def replace(own: Any, value: Any) -> None:
    """Give a container the items of another of its type, or of that which its type extends; ValueError if the types differ."""
    if not isinstance(own, type(value)):
        raise ValueError(f"a {type(own).__name__} has become a {type(value).__name__}")
    if type(own).__name__ == "ndarray":
        own[...] = value
    elif type(own).__name__ == "deque":
        own.clear()
        own.extend(value)
    elif isinstance(own, dict):
        dict.clear(own)  # pyright: ignore[reportUnknownMemberType]
        dict.update(own, value)  # pyright: ignore[reportUnknownMemberType]
    elif isinstance(own, set):
        set.clear(own)  # pyright: ignore[reportUnknownMemberType]
        set.update(own, value)  # pyright: ignore[reportUnknownMemberType]
    else:
        base: Any = list if isinstance(own, list) else bytearray
        base.__setitem__(own, slice(None), value)
