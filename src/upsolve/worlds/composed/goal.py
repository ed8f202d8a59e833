"""Records and names of composed tasks: goals, requirements on worlds, required events. No name is a substring of another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

__all__ = [
    "MESSAGES",
    "PEOPLE",
    "ROOMS",
    "THINGS",
    "Event",
    "Goal",
    "Names",
    "Outcome",
    "Scene",
    "World",
    "placed",
    "question_event",
    "speech_event",
]

Event = Mapping[str, Any]
"""An event of ``upsolve.verify.judge.simulations``."""


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


def speech_event(words: str, room: str) -> Event:
    """Return the event of saying words in a room."""
    return {"say": [words], "when": {"location": room}}


def placed(thing: str, room: str) -> Event:
    """Return the event of putting a thing down in a room."""
    return {"place": [thing], "when": {"location": room}}


def question_event(person: str, word: str) -> Event:
    """Return the event of asking a person a question that contains a word."""
    return {"ask": [person, {"has": word}, None]}


T = TypeVar("T")


def listing(text: str) -> tuple[str, ...]:
    """Return the items of a text that are separated by commas."""
    return tuple(text.replace("\n", " ").split(", "))


ROOMS = listing(
    """kitchen, lobby, library, workshop, garage, attic, cellar, office, studio, gym, pantry, terrace, archive, canteen, laundry, nursery,
porch, lounge, greenhouse, boiler room, meeting room, mail room"""
)
PEOPLE = listing(
    """Ann, Bo, Cleo, Dina, Emil, Farah, Gus, Hana, Ivo, Jonas, Kim, Lea, Mara, Nils, Olga, Pia, Quinn, Rosa, Sven, Tara, Uma, Vito, Wanda,
Yusuf, Zoe"""
)
THINGS = listing(
    """cup, book, lamp, key, parcel, hammer, tablet, towel, plant, jacket, umbrella, camera, toolbox, vase, blanket, ladder, drill, basket,
bottle, folder, radio, helmet, charger, mirror, letter"""
)
MESSAGES = listing(
    """dinner is ready, the meeting starts now, please come down, the taxi is here, good morning, good night, all clear, the round is done,
please close the window, the guests have arrived, the lights are off, nothing to do, the bus leaves soon, please call home,
the parcel is gone, the room is free, the coffee is ready, see you later, the printer works again, please be quiet,
the doctor is waiting, the heating is on, lunch is late, thank you"""
)
"""Messages for the robot to say."""
CHOICES = (
    ("Tea or coffee?", "coffee", ("tea", "coffee")),
    ("Which colour do you like?", "colour", ("red", "blue", "green")),
    ("Which day suits you?", "day", ("Monday", "Friday")),
    ("Which size do you need?", "size", ("small", "medium", "large")),
    ("Window open or closed?", "window", ("open", "closed")),
    ("Music or silence?", "music", ("music", "silence")),
)
"""Question, a word of it, options; the robot reports the answer."""
OPINIONS = (
    ("Are you ready?", "ready"),
    ("Is the meeting over?", "meeting"),
    ("Do you need help?", "help"),
    ("Are you hungry?", "hungry"),
    ("Is it too cold here?", "cold"),
    ("Shall we start?", "start"),
    ("Is the order complete?", "order"),
    ("Do you have time?", "time"),
)
"""Yes/no question, and a word of it."""
WISHES = (("Which one do you want?", "want"), ("What shall I bring?", "bring"), ("Which one is broken?", "broken"))
"""Question with two things as options, and a word of it."""


class Names:
    """Names and sentences for one task, in random order, each used at most once."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.rooms, self.people, self.things = shuffled(ROOMS, rng), shuffled(PEOPLE, rng), shuffled(THINGS, rng)
        self.messages, self.opinions = shuffled(MESSAGES, rng), shuffled(OPINIONS, rng)
        self.choices, self.wishes = shuffled(CHOICES, rng), shuffled(WISHES, rng)

    def phrase(self, *ways: str) -> str:
        """Return a random one of several phrasings."""
        return self.rng.choice(ways)


def shuffled(items: Sequence[T], rng: Random) -> list[T]:
    """Return the items in random order."""
    return rng.sample(items, len(items))
