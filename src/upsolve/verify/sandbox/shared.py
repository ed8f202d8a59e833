"""Identity of containers that the tester and the attempt both hold: each has its copy, and a table of numbers says which belong together.

A message has the content of containers that are new or have changed, and the number alone of the others. So a change on one side arrives at
the other, and two names of one list stay names of one list. Standard library only.
"""

from __future__ import annotations

import sys
from collections import Counter
from gc import get_referents
from operator import is_

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from upsolve.verify.sandbox import values
else:
    import values

__all__ = ["Shared", "json_numbers"]

MOST = 4096
"""Most items of the containers that remain shared between calls. Others become copies, since every call compares all items."""
FRAMES = 6
"""Frames on the stack for one level of a value that is encoded or decoded."""
EXAMPLE: dict[int, Any] = {0: []}
ONLY_HERE = sys.getrefcount(EXAMPLE[0])
"""What ``sys.getrefcount`` returns for a container to which only a table refers."""
ATOMS = frozenset((int, str, float, bool, type(None), bytes, complex))
"""Types of values that contain nothing."""
COPIED = (list, dict, set, bytearray)
"""Bases of types that are sent as copies: subclasses."""


class Shared:
    """Values in messages between the two processes, and the containers that both processes hold.

    Args:
        first: 0 in the tester, 1 in the attempt's process: one numbers its containers with even numbers, the other with odd ones.
        keep: encodes a value that is not plain data.
        held: decodes what the other side's ``keep`` has encoded.
    """

    def __init__(self, first: int, keep: Callable[[Any], str], held: Callable[..., Any]) -> None:
        self.next, self.keep, self.held = first, keep, held
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.known: dict[int, Any] = {}
        """Items of each container as the other side has them."""
        self.nested: set[int] = set()
        """Containers whose items are not all numbers, text and the like."""
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

    def container_text(self, value: Any, content: Callable[[], str]) -> str:
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

    def value_held(self, tag: str, number: Any, content: Any = None) -> Any:
        """Decode a container, or another value that is not plain data."""
        if tag != "@":
            return self.held(tag, number, content)
        self.read.add(number)
        if content is None:
            return self.objects[number]
        own = self.objects.get(number)
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
        self.size += len(value)

    def note(self, number: int, value: Any) -> None:
        """Note the items of a container, which the other side now has."""
        self.known[number] = items = items_of(value)
        flat = type(items) is bytes or ATOMS.issuperset(map(type, items))
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
            isinstance(item, COPIED) and not self.numbers.get(id(item)) for item in parts_of(value)
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

    def in_use(self, *given: Any, limited: bool = False) -> set[int] | None:
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
                size += sum(len(self.objects[one]) for one in more)
                if size > MOST and limited:
                    size -= sum(len(self.objects[one]) for one in more)
                else:
                    used |= more
        return used

    def settle(self, numbers: Iterable[int] | None) -> None:
        """Forget all containers but these; with None, none."""
        if numbers is None or not self.objects:
            return
        kept = {number: self.objects[number] for number in numbers if number in self.objects}
        self.known = {number: self.known[number] for number in kept if number in self.known}
        self.nested.intersection_update(kept)
        self.objects, self.numbers, self.size = {}, {}, 0
        for number, value in kept.items():
            self.put(number, value)

    def request(self, args: Iterable[Any], named: dict[str, Any]) -> str:
        """Return the fields of a request with these arguments."""
        changes, used = self.changes(), self.in_use()
        self.settle(used)
        texts = [*map(self.text, args)], [self.text([*pair]) for pair in named.items()]
        return f'"changed":{changes},"used":{json_numbers(used)},"args":[{",".join(texts[0])}],"named":[{",".join(texts[1])}]'

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
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + FRAMES * values.DEEPEST)
    try:
        return function(*args)
    finally:
        sys.setrecursionlimit(limit)


def json_numbers(numbers: Iterable[int] | None) -> str:
    """Return numbers in JSON."""
    return "null" if numbers is None else f"[{','.join(map(str, numbers))}]"


def items_of(value: Any) -> Any:
    """Return the items of a container, as a tuple or bytes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return (*value.keys(), *value.values())  # pyright: ignore[reportUnknownVariableType]
    return value.tobytes() if type(value).__name__ == "ndarray" else tuple(value)


def parts_of(value: Any) -> list[Any]:
    """Return the items of a container that may contain something, also those in its tuples and frozen sets."""
    parts: list[Any] = []
    waiting = [value]
    while waiting:
        items = [item for item in items_of(waiting.pop()) if type(item) not in ATOMS]
        parts += items
        waiting += [item for item in items if isinstance(item, tuple | frozenset)]
    return parts


def references(holders: list[Any]) -> list[Any]:
    """Return what these objects, and tuples and frozen sets in them, refer to: once for each reference."""
    found: list[Any] = []
    seen: set[int] = set()
    while holders:
        items = [item for item in get_referents(holders.pop()) if type(item) not in ATOMS]
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
    """Give a container the items of another of its type; ValueError if the types differ."""
    if type(own) is not type(value):
        raise ValueError(f"a {type(own).__name__} has become a {type(value).__name__}")
    if isinstance(own, list | bytearray):
        own[:] = value
    elif type(own).__name__ == "ndarray":
        own[...] = value
    else:
        own.clear()
        own.extend(value) if type(own).__name__ == "deque" else own.update(value)
