"""Answers of the attempt's objects to what tests ask them, which have to agree: those of data do.

Standard library only. An object could show one content to one assertion and another to the next.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["CHANGING", "Looks"]

MOST = 4096
"""Most answers that are remembered."""
CHANGING = ("__call__", "__setitem__", "__delitem__", "__enter__", "__exit__", "setattr", "delattr", "await")
"""Operations after which an object may answer differently."""
SCALARS = (str, int, float, bool, type(None), bytes, complex)


class Looks:
    """Answers since the last operation that may have changed something."""

    def __init__(self) -> None:
        self.answers: dict[tuple[Any, ...], Any] = {}
        self.changes = 0
        self.agree = True

    def changed(self) -> None:
        """Forget the answers."""
        self.answers.clear()
        self.changes += 1

    def note(self, number: int, name: str, args: tuple[Any, ...], answer: Any) -> None:
        """Note the answer to an operation on the object of a number."""
        for at, item in parts(name, args, answer):
            if type(item) in SCALARS and all(type(part) in SCALARS for part in at):
                self.compare((number, *at), item)

    def compare(self, key: tuple[Any, ...], answer: Any) -> None:
        """Compare an answer with an earlier one."""
        if len(self.answers) < MOST:
            known = self.answers.setdefault(key, answer)
            self.agree &= known is answer or (type(known) is type(answer) and (known == answer or known != known))

    def items(self, number: int, iterator: Any) -> Iterator[Any]:
        """Yield the items of an iterator over the object of a number, and compare them."""
        count, changes = 0, self.changes
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                break
            if changes == self.changes:
                self.note(number, "__getitem__", (count,), item)
            count += 1
            yield item
        if changes == self.changes:
            self.note(number, "__len__", (), count)


def parts(name: str, args: tuple[Any, ...], answer: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Return what an answer says of single items: a slice from the beginning or from a place on says it of several."""
    place = args[0] if args else None
    if type(place) is slice and place.step in (None, 1) and type(answer) in (list, tuple):
        first = place.start or 0
        return [((name, first + index), item) for index, item in enumerate(answer)] if type(first) is int and first >= 0 else []
    return [((name, *args), answer)]
