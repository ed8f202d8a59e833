"""The worlds of a composed task, their checks, and runs of programs of this package in them, in this process."""

import io
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import lru_cache
from random import Random
from types import CodeType
from typing import Any

from upsolve.types import Status, Task
from upsolve.verify.judge.domains import ENTRY_POINT, domain_of
from upsolve.verify.judge.simulations import Check, Step, Trace, parsed
from upsolve.worlds.composed.goal import PEOPLE, ROOMS, THINGS, Event, Goal, Outcome, World

__all__ = ["WORLDS", "checks", "rehearse", "start", "worlds"]

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
    """Return a world: the scene with random distractors; its variables cycle with the number, every second at half the pace."""
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
    times = Counter(map(str, messages))
    result += [{"count": [event, times[str(event)]]} for event in unique(messages)]
    result += [{"exists": event} for event in events if "ask" in event]
    for early, late in itertools.pairwise(outcome.stages):
        result += [{"before": [first, second]} for first in unique(early) for second in unique(late) if first != second]
    return [*result, {"terminal": {"holding": "", "at": {**world.things, **outcome.moved}}}]


def unique(events: Sequence[Event]) -> list[Event]:
    """Return the distinct events."""
    return [*{str(event): event for event in events}.values()]


MOST_ACTIONS = 1000
"""Maximum number of actions, as in the sandbox."""
TYPES: Mapping[str, type] = {"str": str, "list[str]": list}
"""Types of the robot's arguments."""


class ActionLimitError(BaseException):
    """The program exceeded MOST_ACTIONS; a BaseException, so that ``except Exception`` does not catch it."""


@lru_cache(maxsize=4)
def loaded(source: str) -> tuple[dict[str, Any], CodeType]:
    """Return the namespace of a built-in domain, and the compiled stubs that programs use."""
    domain, space = domain_of(source), dict[str, Any](__name__="world")
    exec(domain.code, space)  # noqa: S102
    return space, compile(domain.stubs(), "<stubs>", "exec")


class Rehearsal:
    """A world, and the steps of a program in it."""

    def __init__(self, source: str, initial: Mapping[str, Any]) -> None:
        space, self.stubs = loaded(source)
        self.failures, self.types = space, domain_of(source).types
        self.world, self.steps = space["World"](initial), list[Step]()

    def act(self, action: str, *args: Any) -> tuple[str, Any]:
        """Execute an action as the sandbox does; return the name of its failure (empty: none) and its answer."""
        kinds = self.types[action]
        if len(args) != len(kinds) or not all(type(value) is TYPES[kind] for value, kind in zip(args, kinds, strict=True)):
            return "TypeError", f"{action} takes {', '.join(kinds) or 'nothing'}"
        failure, answer = "", None
        try:
            answer = getattr(self.world, action)(*args)
        except Exception as error:
            failure, message = type(error).__name__, str(error)
            if self.failures.get(failure) is not type(error):
                raise
            self.steps.append(Step(action, [*args], None, failure, self.world.state()))
            return failure, message
        self.steps.append(Step(action, [*args], answer, failure, self.world.state()))
        if len(self.steps) > MOST_ACTIONS:
            raise ActionLimitError
        return failure, answer


def rehearse(code: str, task: Task) -> tuple[Status, str]:
    """Return the status of a program, and the exception name in the first world in which it does not pass."""
    try:
        program = compile(code, "<attempt>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return Status.COMPILE_ERROR, type(error).__name__
    for initial, check in zip(*parsed(task), strict=True):
        status, error = one_world(program, Rehearsal(task.setup, initial), check)
        if status is not Status.PASSED:
            return status, error
    return Status.PASSED, ""


def one_world(program: CodeType, rehearsal: Rehearsal, check: Check) -> tuple[Status, str]:
    """Return status and exception name of a program in one world."""
    space: dict[str, Any] = {"__name__": "attempt", "_act": rehearsal.act}
    exec(rehearsal.stubs, space)  # noqa: S102
    try:
        with redirect_stdout(io.StringIO()):
            exec(program, space)  # noqa: S102  written by this package
            space[ENTRY_POINT](space["_Actions"]())
    except ActionLimitError:
        return Status.TIMEOUT, ""
    except Exception as error:
        return Status.RUNTIME_ERROR, type(error).__name__
    return (Status.PASSED if check(Trace(tuple(rehearsal.steps), rehearsal.world.state())) else Status.FAILED), ""
