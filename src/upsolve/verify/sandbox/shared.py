"""Identity of containers that the tester and the attempt both hold: each has its copy, and a table of numbers says which belong together.

A message has the content of containers that are new or have changed, and the number alone of the others. So a change on one side arrives at
the other, and two names of one list stay names of one list. Standard library only.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from sys import getrecursionlimit, setrecursionlimit  # of this process alone (tester.mirror)

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from upsolve.verify.sandbox import made, setups, stand_ins, values
    from upsolve.verify.sandbox.containers import (
        ATOMS,
        COPIED,
        is_extended,
        items_of,
        overridden,
        parts_of,
        references,
        replace,
        same,
    )
else:
    import made
    import setups
    import stand_ins
    import values
    from containers import ATOMS, COPIED, is_extended, items_of, overridden, parts_of, references, replace, same

__all__ = ["Shared"]

MOST = 4096
"""Most items of the containers that remain shared between calls. Others become copies, since every call compares all items."""
FRAMES = 6
"""Frames on the stack for one level of a value that is encoded or decoded."""
EXAMPLE: dict[int, Any] = {0: []}
ONLY_HERE = sys.getrefcount(EXAMPLE[0])
"""What ``sys.getrefcount`` returns for a container to which only a table refers."""


class Shared:
    """Values in messages between the two processes, and the containers that both processes hold.

    Args:
        first: 0 in the tester, 1 in the attempt's process: one numbers its containers with even numbers, the other with odd ones.
        keep: encodes a value that is not plain data.
        held: decodes what the other side's ``keep`` has encoded.
    """

    def __init__(self, first: int, keep: Callable[[Any], str], held: Callable[..., Any]) -> None:
        self.next, self.held = first, held
        self.keep: Callable[[Any], str] = lambda value: made.written(value) or setups.written(value) or keep(value)
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.known: dict[int, Any] = {}
        """Items of each container as the other side has them."""
        self.nested: set[int] = set()
        """Containers whose items are not all numbers, text and the like."""
        self.likes: dict[int, Any] = {}
        """Stand-ins for instances of subclasses of immutable types, by number: an object stays itself."""
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
            if stand_ins.is_like(value):
                if id(value) not in self.numbers:
                    return f'["kept",{stand_ins.number_of(value)}]'
            elif not self.next % 2:  # of the tests: sent as a copy
                return ""
            else:
                described = json.dumps([kind.__name__, overridden(kind), setups.class_name(kind)])
                plain, kept = content, self.keep
                content = lambda: f'["sub",{kept(value)},{described},{plain()}]'  # noqa: E731
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
            remote, value = self.value_held(*number), values.value_of(data, held=self.value_held)
            if isinstance(value, COPIED):
                return stand_ins.like(remote, value, about)
            number = stand_ins.number_of(remote)
            if number not in self.likes:
                self.likes[number] = stand_ins.like(remote, value, about)
            return self.likes[number]
        if tag == "made":
            return made.made(number, *more)
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
        kept = {number: self.objects[number] for number in numbers if number in self.objects}
        self.known = {number: self.known[number] for number in kept}
        self.nested.intersection_update(kept)
        self.objects, self.numbers = kept, {id(value): number for number, value in kept.items()}
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
