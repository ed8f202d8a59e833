"""Records of composed tasks: goals, requirements on worlds, required events."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Event", "Goal", "Outcome", "Scene", "World", "asked", "placed", "said"]

Event = Mapping[str, Any]
"""An event of ``upsolve.verify.judge.traces``."""


@dataclass(slots=True)
class World:
    """Initial state of a world."""

    robot: str
    """Initial room of the robot."""
    rooms: list[str]
    """All rooms, in the order that the robot's methods return."""
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
    """Requirements on every world of a task."""

    rooms: tuple[str, ...] = ()
    """Rooms named in the task."""
    people: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Person -> candidate rooms; (): any room."""
    things: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Thing -> candidate rooms; (): any room."""
    answers: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict[str, tuple[str, tuple[str, ...]]])
    """Person -> word of the question, and candidate answers."""
    closed: tuple[str, ...] = ()
    """Rooms whose door is closed in some worlds."""
    heavy: tuple[str, ...] = ()
    """Things that are too heavy in some worlds."""

    def __add__(self, other: "Scene") -> "Scene":
        """Return the union of two scenes, which have disjoint names."""
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
    """Required events and final state in one world."""

    stages: Sequence[Sequence[Event]]
    """Required events in stages: any order within a stage, all before the next stage."""
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    """Moved thing -> its final room."""
    branch: int = 0
    """Index of the branch that a conditional goal takes in this world, from 0."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of the robot."""

    name: str
    """Name, such as ``fetch``, or ``if_here(fetch,relay)`` for joined goals."""
    text: str
    """Prompt: an imperative without capital and full stop; whole sentences for joined goals."""
    code: str
    """Plain reference program: the body of ``run(robot)``."""
    scene: Scene
    """Requirements on the worlds."""
    outcome: Callable[[World], Outcome]
    """World -> required outcome."""
    first: str = ""
    """Lines at the beginning of the program."""
    branches: int = 1
    """Number of branches, >= 1; each is taken in some world."""


def said(words: str, room: str) -> Event:
    """Return the event of saying words in a room."""
    return {"say": [words], "when": {"location": room}}


def placed(thing: str, room: str) -> Event:
    """Return the event of putting a thing down in a room."""
    return {"place": [thing], "when": {"location": room}}


def asked(person: str, word: str) -> Event:
    """Return the event of asking a person a question that contains a word."""
    return {"ask": [person, {"has": word}, None]}
