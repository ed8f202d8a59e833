"""The worlds of a composed task, and the checks of each."""

import itertools
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from upsolve.worlds.composed.goal import Event, Goal, Outcome, World
from upsolve.worlds.composed.names import PEOPLE, ROOMS, THINGS

__all__ = ["WORLDS", "checks", "start", "worlds"]

WORLDS = 4
"""Number of worlds per task, unless another is given."""


def worlds(goal: Goal, rng: Random, count: int = WORLDS) -> list[World]:
    """Return the worlds of a task, ``count`` of them: they cover every branch of the goal, and no two are equal."""
    while True:
        candidates = [world(goal, number, rng) for number in range(count)]
        ways = {goal.outcome(candidate).branch for candidate in candidates}
        if len(ways) == goal.branches and all(a != b for a, b in itertools.combinations(candidates, 2)):
            return candidates


def world(goal: Goal, number: int, rng: Random) -> World:
    """Return one world of a task: the goal's scene, and one or two rooms, a person and a thing as distractors.

    Each variable of the scene cycles through its options with the number of the world; every second variable changes at
    half the frequency, so that combinations differ.
    """
    scene = goal.scene
    rooms = [*scene.rooms, *rng.sample([room for room in ROOMS if room not in scene.rooms], rng.randint(1, 2))]
    rng.shuffle(rooms)
    people = {**scene.people, other(PEOPLE, scene.people, rng): ()}
    things = {**scene.things, other(THINGS, scene.things, rng): ()}
    pace = itertools.count()

    def turn(options: Sequence[str]) -> str:
        return options[(number >> next(pace) % 2) % len(options)] if len(options) > 1 else (*options, *rng.sample(rooms, 1))[0]

    return World(
        robot=rng.choice([room for room in rooms if room not in scene.closed]),
        rooms=rooms,
        people={name: turn(where) for name, where in people.items()},
        things={name: turn(where) for name, where in things.items()},
        answers={name: {word: turn(options)} for name, (word, options) in scene.answers.items()},
        closed=[room for room in scene.closed if turn((room, ""))],
        heavy=[thing for thing in scene.heavy if turn((thing, ""))],
    )


def other(names: Sequence[str], used: Any, rng: Random) -> str:
    """Return a random name that the task does not use."""
    return rng.choice([name for name in names if name not in used])


def start(world: World) -> dict[str, Any]:
    """Return a world as the argument of the robot's ``World``."""
    people = {name: {"room": room, "answers": world.answers.get(name, {})} for name, room in world.people.items()}
    plain = {"robot": world.robot, "rooms": world.rooms, "people": people, "things": world.things}
    return plain | ({"closed": world.closed} if world.closed else {}) | ({"heavy": world.heavy} if world.heavy else {})


def checks(outcome: Outcome, world: World) -> list[dict[str, Any]]:
    """Return the checks of a world: number of each message, required questions, order of stages, final rooms of things."""
    events = [event for stage in outcome.stages for event in stage]
    messages = [event for event in events if "say" in event]
    result: list[dict[str, Any]] = [{"count": [{"say": None}, len(messages)]} if messages else {"never": {"say": None}}]
    result += [{"count": [event, times]} for event, times in counted(messages)]
    result += [{"exists": event} for event in events if "ask" in event]
    for early, late in itertools.pairwise(outcome.stages):
        result += [{"before": [first, second]} for first in unique(early) for second in unique(late) if first != second]
    return [*result, {"terminal": {"holding": "", "at": {**world.things, **outcome.moved}}}]


def counted(events: Sequence[Event]) -> list[tuple[Event, int]]:
    """Return each distinct event with its count."""
    times = Counter(map(str, events))
    return [(event, times[str(event)]) for event in unique(events)]


def unique(events: Sequence[Event]) -> list[Event]:
    """Return the distinct events."""
    return [*{str(event): event for event in events}.values()]
