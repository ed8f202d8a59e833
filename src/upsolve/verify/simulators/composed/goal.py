"""Records of composed tasks: a goal, the worlds it needs, what must happen in each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Event", "Goal", "Outcome", "Scene", "World", "asked", "placed", "said"]

Event = Mapping[str, Any]
"""An event of ``upsolve.verify.simulators.checks``."""


@dataclass(slots=True)
class World:
    """Where a robot begins."""

    robot: str
    """Room the robot is in."""
    rooms: list[str]
    """All rooms, in the order in which the robot is told of them."""
    people: dict[str, str]
    """Person -> room."""
    things: dict[str, str]
    """Thing -> room."""
    answers: dict[str, dict[str, str]]
    """Person -> word of a question -> answer."""
    closed: list[str]
    """Rooms whose door is closed."""
    heavy: list[str]
    """Things that cannot be lifted."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What every world of a task has."""

    rooms: tuple[str, ...] = ()
    """Rooms that the task names."""
    people: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Person -> rooms one of which the person is in; (): any room."""
    things: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Thing -> rooms one of which it is in; (): any room."""
    answers: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict[str, tuple[str, tuple[str, ...]]])
    """Person -> word of the question, and the options one of which is the answer."""
    closed: tuple[str, ...] = ()
    """Rooms whose door is closed in some worlds."""
    heavy: tuple[str, ...] = ()
    """Things that are too heavy in some worlds."""

    def __add__(self, other: "Scene") -> "Scene":
        """Return what both need; their names differ."""
        return Scene(
            self.rooms + other.rooms,
            {**self.people, **other.people},
            {**self.things, **other.things},
            {**self.answers, **other.answers},
            self.closed + other.closed,
            self.heavy + other.heavy,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What must happen in one world."""

    stages: Sequence[Sequence[Event]]
    """Events; those of a stage in any order, all of them before those of the next stage."""
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    """Things that are elsewhere in the end -> room."""
    branch: int = 0
    """Which way a goal with a condition goes in this world."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Something that the robot is to do."""

    name: str
    """Kind: ``fetch``; of joined goals ``if_here(fetch,relay)``."""
    text: str
    """Imperative, without a capital or a full stop; of joined goals whole sentences."""
    code: str
    """The plain program, lines of the body of ``run(robot)``."""
    scene: Scene
    """What its worlds have."""
    outcome: Callable[[World], Outcome]
    """What must happen in a world."""
    first: str = ""
    """Lines that the program begins with."""
    branches: int = 1
    """Number of ways it can go; there is a world for each."""


def said(words: str, room: str) -> Event:
    """Return the event of saying words in a room."""
    return {"say": [words], "when": {"location": room}}


def placed(thing: str, room: str) -> Event:
    """Return the event of putting a thing down in a room."""
    return {"place": [thing], "when": {"location": room}}


def asked(person: str, word: str) -> Event:
    """Return the event of asking a person a question that has a word."""
    return {"ask": [person, {"has": word}, None]}
