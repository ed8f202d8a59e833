"""The worlds of a composed task, and the checks of what must happen in each."""

import itertools
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from upsolve.verify.simulators.composed.goal import Event, Goal, Outcome, World
from upsolve.verify.simulators.composed.names import PEOPLE, ROOMS, THINGS

__all__ = ["WORLDS", "checks", "start", "worlds"]

WORLDS = 4
"""Worlds of a task."""


def worlds(goal: Goal, rng: Random) -> list[World]:
    """Return the worlds of a task: every way that the goal can go is there, and no two worlds are the same."""
    while True:
        made = [world(goal, number, rng) for number in range(WORLDS)]
        ways = {goal.outcome(one).branch for one in made}
        if len(ways) == goal.branches and all(a != b for a, b in itertools.combinations(made, 2)):
            return made


def world(goal: Goal, number: int, rng: Random) -> World:
    """Return one world of a task: what the goal needs, and some rooms, a person and a thing that nobody asked for.

    What can be so or so takes turns from world to world, at another pace each, so that their combinations differ.
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
    """Return a name that the task does not use."""
    return rng.choice([name for name in names if name not in used])


def start(world: World) -> dict[str, Any]:
    """Return a world as the robot's ``World`` is given it."""
    people = {name: {"room": room, "answers": world.answers.get(name, {})} for name, room in world.people.items()}
    plain = {"robot": world.robot, "rooms": world.rooms, "people": people, "things": world.things}
    return plain | ({"closed": world.closed} if world.closed else {}) | ({"heavy": world.heavy} if world.heavy else {})


def checks(outcome: Outcome, world: World) -> list[dict[str, Any]]:
    """Return what must hold in a world: what is said, where and how often, what is asked; the order of stages; where things are in the end."""
    events = [event for stage in outcome.stages for event in stage]
    said = [event for event in events if "say" in event]
    found: list[dict[str, Any]] = [{"count": [{"say": None}, len(said)]} if said else {"never": {"say": None}}]
    found += [{"count": [event, times]} for event, times in counted(said)]
    found += [{"exists": event} for event in events if "ask" in event]
    for early, late in itertools.pairwise(outcome.stages):
        found += [{"before": [one, two]} for one in unique(early) for two in unique(late) if one != two]
    return [*found, {"terminal": {"holding": "", "at": {**world.things, **outcome.moved}}}]


def counted(events: Sequence[Event]) -> list[tuple[Event, int]]:
    """Return each event once with its number."""
    times = Counter(map(str, events))
    return [(event, times[str(event)]) for event in unique(events)]


def unique(events: Sequence[Event]) -> list[Event]:
    """Return each event once."""
    return [*{str(event): event for event in events}.values()]
