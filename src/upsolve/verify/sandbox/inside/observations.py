"""Answers of the attempt's objects within one test; they must agree with each other, as answers of plain data do.

Standard library only.
"""

from __future__ import annotations

from values import SCALARS

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["MOST", "Observations"]

MOST = 4096
"""Most answers that are stored."""


class Observations:
    """Answers since the last operation that may have changed an object."""

    def __init__(self) -> None:
        self.answers: dict[tuple[Any, ...], Any] = {}
        self.bounds: dict[int, tuple[float, float]] = {}
        """Number of an object -> numbers between which its comparisons place it."""
        self.changes = 0
        self.consistent = True

    def changed(self) -> None:
        """Forget the answers."""
        self.answers.clear()
        self.bounds.clear()
        self.changes += 1

    def record(self, number: int, name: str, args: tuple[Any, ...], answer: Any) -> None:
        """Record the answer to an operation on the object of a number."""
        for at, item in parts(name, args, answer):
            if type(item) in SCALARS and all(type(part) in SCALARS for part in at):
                self.compare((number, *at), item)

    def ended(self, number: int, args: tuple[Any, ...]) -> None:
        """Record the length of an object, given by number: no item at this index, but one before it unless the length is 0."""
        at = args[0] if args else None
        if type(at) is int and (at == 0 or (number, "__getitem__", at - 1) in self.answers):
            self.compare((number, "__len__"), at)

    def compare(self, key: tuple[Any, ...], answer: Any) -> None:
        """Compare an answer with an earlier one."""
        if len(self.answers) < MOST:
            known = self.answers.setdefault(key, answer)
            self.consistent &= known is answer or (type(known) is type(answer) and (known == answer or known != known))

    def fits(self, number: int, value: Any, *, below: bool) -> bool:
        """Record that an object is below or above a value, or equal to it; return whether a number can be in all these places."""
        if type(value) not in (int, float):
            return True
        low, high = self.bounds.get(number, (float("-inf"), float("inf")))
        self.bounds[number] = low, high = (low, min(high, value)) if below else (max(low, value), high)
        return low <= high

    def items(self, number: int, iterator: Any) -> Iterator[Any]:
        """Yield the items of an iterator over an object, given by number, and compare them with earlier answers."""
        count, changes = 0, self.changes
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                break
            if changes == self.changes:
                self.record(number, "__getitem__", (count,), item)
            count += 1
            yield item
        if changes == self.changes:
            self.record(number, "__len__", (), count)


def parts(name: str, args: tuple[Any, ...], answer: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the facts about single items that an answer states; a slice states facts about several items."""
    place = args[0] if args else None
    if type(place) is slice and place.step in (None, 1) and type(answer) in (list, tuple):
        first = place.start or 0
        return [((name, first + index), item) for index, item in enumerate(answer)] if type(first) is int and first >= 0 else []
    return [((name, *args), answer)]
