"""Mutations of values by type; each is a small function of a value, the values seen at its position and a source of randomness."""

import string
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

__all__ = ["mutated"]

Mutation = Callable[[Any, Sequence[Any], Random], Any]
"""``mutation(value, seen, random) -> value``; ``seen`` are the values at the same position in the task's tests."""


def spliced(text: str, place: int, length: int, new: str) -> str:
    """Return a text in which ``length`` characters at a position are replaced."""
    return text[:place] + new + text[place + length :]


def place_in(value: Any, random: Random) -> int:
    """Return a random position in a text or list; 0 in an empty one."""
    return random.randrange(len(value)) if len(value) else 0


def swapped(value: Any, random: Random) -> Any:
    """Return a list or text with two members exchanged."""
    members = [*value]
    if members:
        a, b = place_in(members, random), place_in(members, random)
        members[a], members[b] = members[b], members[a]
    return "".join(members) if isinstance(value, str) else members


def large(seen: Sequence[Any], random: Random) -> Any:
    """Return a number above the seen ones."""
    return max(abs(one) for one in seen) * random.choice((2, 3, 9)) + random.randint(0, 9)


LETTERS, STRANGE = string.ascii_lowercase, "09 ,.!-_'AZ"
"""Characters that mutations insert."""
WHOLE: Mapping[str, Mutation] = {
    "plus 1": lambda n, _, __: n + 1,
    "minus 1": lambda n, _, __: n - 1,
    "zero": lambda n, _, __: n * 0,
    "one": lambda n, _, __: n * 0 + 1,
    "negated": lambda n, _, __: -n,
    "doubled": lambda n, _, __: n * 2,
    "large": lambda _, seen, random: large(seen, random),
    "between": lambda _, seen, random: random.randint(int(min(seen)) - 1, int(max(seen)) + 2),
}
REAL: Mapping[str, Mutation] = {
    **{name: WHOLE[name] for name in ("plus 1", "minus 1", "zero", "negated", "doubled")},
    "halved": lambda x, _, __: x / 2,
    "rounded": lambda x, _, __: float(round(x)),
    "between": lambda _, seen, random: round(random.uniform(min(seen), max(seen)), 2),
}
TEXT: Mapping[str, Mutation] = {
    "empty": lambda _, __, ___: "",
    "one character": lambda text, _, random: text[place_in(text, random) :][:1],
    "deleted": lambda text, _, random: spliced(text, place_in(text, random), 1, ""),
    "doubled": lambda text, _, random: spliced(text, (at := place_in(text, random)), 1, text[at : at + 1] * 2),
    "replaced": lambda text, _, random: spliced(text, place_in(text, random), 1, random.choice(text or " ")),
    "strange": lambda text, _, random: spliced(text, random.randint(0, len(text)), 0, random.choice(STRANGE)),
    "letter": lambda text, _, random: spliced(text, random.randint(0, len(text)), random.randint(0, 1), random.choice(LETTERS)),
    "inserted": lambda text, seen, random: spliced(text, place_in(text, random), 0, random.choice("".join(seen) or "a")),
    "swapped": lambda text, _, random: swapped(text, random),
    "reversed": lambda text, _, __: text[::-1],
    "other case": lambda text, _, random: spliced(text, (at := place_in(text, random)), 1, text[at : at + 1].swapcase()),
    "shortened": lambda text, _, random: text[: place_in(text, random)],
    "joined": lambda text, seen, random: text + random.choice(seen),
    "repeated": lambda text, _, __: text + text,
    "mirrored": lambda text, _, __: text + text[::-1],
}
LIST: Mapping[str, Mutation] = {
    "empty": lambda _, __, ___: [],
    "one member": lambda value, _, random: value[(at := place_in(value, random)) : at + 1],
    "deleted": lambda value, _, random: [*value[: (at := place_in(value, random))], *value[at + 1 :]],
    "duplicated": lambda value, _, random: [*value[: (at := place_in(value, random))], *value[at : at + 1], *value[at:]],
    "repeated": lambda value, _, random: [*value, *value[(at := place_in(value, random)) : at + 1]],
    "reversed": lambda value, _, __: value[::-1],
    "swapped": lambda value, _, random: swapped(value, random),
    "shuffled": lambda value, _, random: random.sample(value, len(value)),
    "inserted": lambda value, seen, random: inserted(value, seen, random),
    "overwritten": lambda value, _, random: overwritten(value, random),
    "joined": lambda value, seen, random: [*value, *random.choice(seen)],
    "sorted": lambda value, _, __: sorted(value, key=lambda one: (str(type(one)), repr(one))),
    "halved": lambda value, _, __: value[: len(value) // 2],
    "uniform": lambda value, _, random: [value[place_in(value, random)]] * len(value) if value else value,
}


def inserted(value: list[Any], seen: Sequence[Any], random: Random) -> list[Any]:
    """Return a list with an additional member from any of the seen lists."""
    members = [one for other in seen for one in other]
    at = random.randint(0, len(value))
    return [*value[:at], random.choice(members), *value[at:]] if members else value


def overwritten(value: list[Any], random: Random) -> list[Any]:
    """Return a list in which one member is replaced by another of its members."""
    if not value:
        return value
    at = place_in(value, random)
    return [*value[:at], random.choice(value), *value[at + 1 :]]


def mutated(value: Any, seen: Sequence[Any], random: Random) -> tuple[Any, str]:
    """Return a mutated value and the name of the mutation; the value itself, with an empty name, if its type has no mutation.

    Args:
        value: a literal: number, text, boolean, list, tuple, set or dict.
        seen: values at the same place in the task's tests, this one included.
        random: source of randomness.
    """
    if len(seen) > 1 and random.random() < 0.1:
        return random.choice(seen), "of another test"
    if isinstance(value, bool):
        return not value, "negated"
    if isinstance(value, int | float):
        table = WHOLE if isinstance(value, int) else REAL
        numbers = [one for one in seen if isinstance(one, int | float)]
        return drawn(table, value, numbers, random)
    if isinstance(value, str):
        return drawn(TEXT, value, [one for one in seen if isinstance(one, str)], random)
    if isinstance(value, dict):
        return mutated_dict(value, [one for one in seen if isinstance(one, dict)], random)
    if isinstance(value, list | tuple | set | frozenset):
        return mutated_members(value, [[*one] for one in seen if type(one) is type(value)], random)
    return value, ""


def drawn(table: Mapping[str, Mutation], value: Any, seen: Sequence[Any], random: Random) -> tuple[Any, str]:
    """Return a value changed by one mutation of a table, and the mutation's name."""
    name = random.choice([*table])
    return table[name](value, seen, random), name


def mutated_members(value: Any, seen: Sequence[list[Any]], random: Random) -> tuple[Any, str]:
    """Return a list, tuple or set with changed members, or with one member mutated by its own type."""
    members: list[Any] = [*value] if isinstance(value, list | tuple) else sorted(value, key=repr)
    if members and random.random() < 0.5:
        at = place_in(members, random)
        new, name = mutated(members[at], [one for other in seen for one in other if type(one) is type(members[at])], random)
        members[at] = new
        name = f"member {name}"
    else:
        members, name = drawn(LIST, members, seen, random)
    return type(value)(members), name


def mutated_dict(value: dict[Any, Any], seen: Sequence[dict[Any, Any]], random: Random) -> tuple[dict[Any, Any], str]:
    """Return a dict with one key removed, one key or value changed, or one item copied from another dict in ``seen``."""
    new, keys = {**value}, [*value]
    others = [(key, one) for other in seen for key, one in other.items()]
    how = random.choice(("empty", "deleted", "value", "value", "equal values", "key", "like", "inserted", "reversed"))
    if how == "reversed":
        return {key: value[key] for key in keys[::-1]}, how
    if how == "inserted" and others:
        key, one = random.choice(others)
        return new | {key: one}, how
    if how == "empty" or not keys:
        return {}, "empty"
    key = random.choice(keys)
    if how == "value":
        new[key], name = mutated(value[key], [one for _, one in others if type(one) is type(value[key])], random)
        return new, f"value {name}"
    if how == "equal values":
        new[key] = value[random.choice(keys)]
        return new, how
    one = new[key] if how == "like" else new.pop(key)
    if how in ("key", "like"):
        changed, name = mutated(key, [other for other, _ in others if type(other) is type(key)], random)
        return new | {changed: one}, f"key {name}" if how == "key" else f"key {name} added"
    return new, how
