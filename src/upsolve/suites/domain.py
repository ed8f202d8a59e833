"""Properties that all inputs of a task share. Mutated inputs keep them, so that a right program has a defined answer.

A program need not be right on inputs that the statement excludes, and the statement is prose. So the domain is learned from the tests, as
invariants are (Ernst et al. 2001, IEEE TSE 27): types, signs, characters, lengths, order, distinctness, and relations of two arguments.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import Any

__all__ = ["EDGES", "FOREIGN", "Domain", "Shape", "domain_of", "shape_of"]

LONGER = 4
"""Members and characters that a mutated value may have more than the longest known value."""
WIDER = 10
"""Factor by which a mutated number may exceed the largest known one in magnitude."""
CHANCE = 0.05
"""Probability limit: a law only counts if the tests would obey it by chance with a smaller probability."""
EDGES = ("characters", "length")
"""Properties (its characters, its length) in which a new text may differ from all present texts, if attempts confirm the answer."""
FOREIGN = "foreign"
"""Property that excludes an input: another type, sign, length or order, or a broken relation. Task statements exclude such inputs: on numbers
of another sign, 26 of 967 right attempts at the embedded tasks differ from the reference."""
CONTAINERS = (list, tuple, set, frozenset)


@dataclass
class Shape:
    """Properties that all values at one position share."""

    kinds: set[type] = field(default_factory=set[type])
    """Types of the values."""
    numbers: list[float] = field(default_factory=list[float])
    """Numbers, without booleans."""
    texts: list[str] = field(default_factory=list[str])
    """Texts."""
    lengths: set[int] = field(default_factory=set[int])
    """Lengths of containers."""
    inner: "Shape | None" = None
    """Members of containers, or keys of dicts."""
    values: "Shape | None" = None
    """Values of dicts."""
    members: list[list[Any]] = field(default_factory=list[list[Any]])
    """Members of each container."""

    def add(self, value: Any) -> None:
        """Add a value to the shape."""
        self.kinds.add(type(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.numbers.append(value)
        elif isinstance(value, str):
            self.texts.append(value)
        elif isinstance(value, dict):
            items: Mapping[Any, Any] = value
            self.lengths.add(len(items))
            self.inner, self.values = self.inner or Shape(), self.values or Shape()
            for key, one in items.items():
                self.inner.add(key)
                self.values.add(one)
        elif isinstance(value, CONTAINERS):
            members: Sequence[Any] = [*value]
            self.lengths.add(len(members))
            self.members.append([*members])
            self.inner = self.inner or Shape()
            for one in members:
                self.inner.add(one)

    def outside(self, value: Any) -> set[str]:
        """Return the properties that a value has and no value of the shape has: names of ``EDGES``, or ``FOREIGN``."""
        if type(value) not in self.kinds:
            return {FOREIGN}
        if isinstance(value, bool) or value is None:
            return set()
        if isinstance(value, int | float):
            return set() if low_of(self.numbers) <= value <= high_of(self.numbers) else {FOREIGN}
        if isinstance(value, str):
            return outside_texts(value, self.texts)
        found = set[str]()
        if isinstance(value, dict):
            items: Mapping[Any, Any] = value
            members, inner = [*items], self.inner or Shape()
            found.update(*map((self.values or Shape()).outside, items.values()))
        elif isinstance(value, CONTAINERS):
            members, inner = [*value], self.inner or Shape()
            found.update({FOREIGN} if not all(LAWS[name](members) for name in self.laws()) else ())
        else:
            return found
        return found.union(self.outside_length(len(members)), *map(inner.outside, members))

    def laws(self) -> list[str]:
        """Return the names of the laws that all containers obey, unless by chance."""
        by_chance = {"sorted": order_chance, "falling": order_chance, "distinct": distinct_chance}
        return [
            name
            for name, holds in LAWS.items()
            if all(map(holds, self.members)) and (name not in by_chance or by_chance[name](self.members) < CHANCE)
        ]

    def outside_length(self, length: int) -> set[str]:
        """Return {``FOREIGN``} for a length outside the shape, else set().

        If all tuples have one length, only this length is inside; otherwise lengths up to ``LONGER`` above the longest.
        """
        if len(self.lengths) == 1 and tuple in self.kinds:
            return set() if length in self.lengths else {FOREIGN}
        return set() if min(self.lengths, default=0) <= length <= max(self.lengths, default=0) + LONGER else {FOREIGN}


def low_of(numbers: Sequence[float]) -> float:
    """Return the smallest allowed number: if negative numbers occur, ``WIDER`` times the largest of these in magnitude; else the smallest number seen."""
    low = min(numbers, default=0)
    return -WIDER * max(map(abs, numbers), default=0) if low < 0 else low


def high_of(numbers: Sequence[float]) -> float:
    """Return the largest allowed number: ``WIDER`` times the largest in magnitude; at most 0 if all known numbers are negative."""
    high = max(numbers, default=0)
    return high if high <= 0 else WIDER * max(map(abs, numbers))


CLASSES: tuple[Callable[[str], bool], ...] = (str.islower, str.isupper, str.isdigit, str.isspace)


def classes_of(text: str) -> set[Any]:
    """Return the classes of a text's characters: the class for letters, digits and spaces; any other character itself."""
    return {next((number for number, belongs in enumerate(CLASSES) if belongs(char)), char) for char in text}


def outside_texts(text: str, texts: Sequence[str]) -> set[str]:
    """Return the properties of a text that no text of ``texts`` has: characters, positions of spaces, a smaller or much larger length."""
    lengths, known = [*map(len, texts)], set[Any]().union(*map(classes_of, texts))
    found = {"length"} if not min(lengths) <= len(text) <= max(lengths) + LONGER else set[str]()
    if LEADING_ZERO.search(text) and not any(map(LEADING_ZERO.search, texts)):
        return {FOREIGN}
    strange = classes_of(text) - known or any(law(text) and not any(map(law, texts)) for law in TEXT_LAWS)
    return found | {"characters"} if strange else found


TEXT_LAWS: tuple[Callable[[str], bool], ...] = (
    lambda text: text != text.strip(),
    lambda text: "  " in text,
    lambda text: bool(text) and not text.strip(),
)
"""Properties that count as new characters if no other text has them: space at the ends, two spaces in a row, nothing but space."""
LEADING_ZERO = re.compile(r"\b0\d", re.ASCII)


def order_chance(containers: Sequence[Sequence[Any]]) -> float:
    """Return the probability that containers of these lengths are in order by chance: prod 1 / n!."""
    return math.prod(1 / math.factorial(min(len(members), 20)) for members in containers)


def distinct_chance(containers: Sequence[Sequence[Any]]) -> float:
    """Return the probability that no container holds a value twice by chance: exp(-c N), c the share of equal pairs among values of different
    containers, N the number of pairs within containers."""
    counts = Counter(repr(one) for members in containers for one in members)
    total = counts.total()
    equal = sum(n * (n - 1) for n in counts.values()) / max(1, total * (total - 1))
    return math.exp(-equal * sum(len(members) * (len(members) - 1) / 2 for members in containers))


def is_sorted(members: Sequence[Any]) -> bool:
    """Return whether members ascend."""
    try:
        return all(a <= b for a, b in pairwise(members))
    except TypeError:
        return False


def are_even(members: Sequence[Any]) -> bool:
    """Return whether all members that have a length have the same length, like the rows of a matrix."""
    lengths = {len(one) for one in members if isinstance(one, list | tuple)}
    return len(lengths) <= 1


LAWS: Mapping[str, Callable[[Sequence[Any]], bool]] = {
    "sorted": is_sorted,
    "falling": lambda members: is_sorted(members[::-1]),
    "distinct": lambda members: len({*map(repr, members)}) == len(members),
    "even": are_even,
    "one kind": lambda members: len({*map(type, members)}) <= 1,
}
"""Laws about the members of a container; a law that all containers at a position obey is part of their shape."""


def shape_of(values: Iterable[Any]) -> Shape:
    """Return the shape of values."""
    shape = Shape()
    for value in values:
        shape.add(value)
    return shape


def is_number(value: Any) -> bool:
    """Return whether a value is a number and no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "equal lengths": lambda a, b: hasattr(a, "__len__") and hasattr(b, "__len__") and len(a) == len(b),
    "index": lambda a, b: is_number(a) and hasattr(b, "__len__") and -len(b) <= a < len(b),
    "count": lambda a, b: is_number(a) and hasattr(b, "__len__") and 0 <= a <= len(b),
    "at most": lambda a, b: is_number(a) and is_number(b) and a <= b,
    "member": lambda a, b: isinstance(b, list | tuple | set | dict | str) and within(a, b),
}
"""Relations of two arguments; a relation that holds in all tests also holds in mutated inputs."""


def within(a: Any, b: Any) -> bool:
    """Return whether a value is a member of a container, or a part of a text."""
    try:
        return a in b
    except TypeError:
        return False


@dataclass(frozen=True, slots=True)
class Domain:
    """Properties that all inputs of a task share; an input is a list of values, one for each position."""

    shapes: Sequence[Shape]
    """Shape of the values of each position."""
    relations: Sequence[tuple[int, str, int]]
    """Relations of the values of two positions."""

    def outside(self, values: Sequence[Any]) -> set[str]:
        """Return the properties that an input has and no present input has: names of ``EDGES``, or ``FOREIGN``; empty within the domain."""
        found = set[str]().union(*(shape.outside(value) for shape, value in zip(self.shapes, values, strict=True)))
        related = all(RELATIONS[name](values[a], values[b]) for a, name, b in self.relations)
        return found if related else {*found, FOREIGN}


def domain_of(inputs: Sequence[Sequence[Any]]) -> Domain:
    """Return the domain of inputs with the same positions: the properties that they share."""
    places = range(len(inputs[0]))
    relations = [
        (a, name, b)
        for a, b in permutations(places, 2)
        for name, holds in RELATIONS.items()
        if all(holds(values[a], values[b]) for values in inputs)
    ]
    return Domain([shape_of(values[place] for values in inputs) for place in places], relations)
