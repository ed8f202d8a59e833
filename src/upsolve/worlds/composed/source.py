"""Compositions -> tasks with attempts: ``upsolve ingest composed robot ARCHIVE``.

Of 24 tasks, 20 are joins of two goals, two are single goals, two are hard. Each composition, such as ``if_here(fetch,relay)``,
is in one split only, so no tested composition was trained on. Hard tasks need calls that no other task needs. The same seed
gives the same tasks, and a larger number of tasks extends the same sequence. Worlds of a task, their checks, and runs of programs of this
package in them, in this process, come first.
"""

import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, product
from pathlib import Path
from random import Random
from types import CodeType
from typing import Any

from upsolve.errors import SourceError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, content_id
from upsolve.verify.judge.domains import ENTRY_POINT, Domain, domain_of
from upsolve.verify.judge.simulations import Check, Step, Trace, parsed
from upsolve.worlds.composed.goal import PEOPLE, ROOMS, THINGS, Event, Goal, Names, Outcome, World
from upsolve.worlds.composed.goals import GOALS, HELD_OUT_GOALS, HELD_OUT_JOINS, JOINS, SEARCHES, capital
from upsolve.worlds.composed.programs import KINDS, calls_of, mutated, plain, restyled

__all__ = ["WORLDS", "checks", "compositions", "read", "rehearse", "start", "worlds_of"]

WORLDS = 4
"""Number of worlds per task, unless another is given."""


def worlds_of(goal: Goal, rng: Random, count: int = WORLDS) -> list[World]:
    """Return ``count`` worlds of a task: all are different, and they cover every branch of the goal."""
    while True:
        candidates = [world(goal, number, rng) for number in range(count)]
        ways = {goal.outcome(candidate).branch for candidate in candidates}
        if len(ways) == goal.branches and all(a != b for a, b in itertools.combinations(candidates, 2)):
            return candidates


def world(goal: Goal, number: int, rng: Random) -> World:
    """Return a world: the scene with random distractors. Its variables cycle with the world's number, every second one at half the pace."""
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


MakeGoal = Callable[[Names], Goal]
MakeJoin = Callable[[Names, Goal, Goal], Goal]
RIGHT, WRONG = 3, 5
"""Maximum number of correct and of incorrect attempts per task."""
TEST, DEV = 0.25, 0.1
"""Expected fractions of the joined compositions in the splits."""
DOCS = ("none", "names", "full")
"""Description of the robot's methods in prompts: nothing, names and parameters, or full documentation."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The goals of a task and their join."""

    goals: tuple[MakeGoal, ...]
    """One goal, or the two goals of a join."""
    join: MakeJoin | None = None
    """Join of two goals; None for a single goal."""
    hard: bool = False
    """Whether the programs need a call that no other programs have."""

    @property
    def name(self) -> str:
        """Name of the composition, such as ``fetch`` or ``if_here(fetch,relay)``."""
        names = ",".join(goal.__name__ for goal in self.goals)
        return f"{self.join.__name__}({names})" if self.join else names

    @property
    def difficulty(self) -> str:
        """``easy``: a single goal; ``medium``: two goals; ``hard``: see ``hard``."""
        return "hard" if self.hard else "medium" if self.join else "easy"

    def goal(self, names: Names) -> Goal:
        """Return the goal with names sampled from ``names``."""
        goals = [goal(names) for goal in self.goals]
        return self.join(names, goals[0], goals[1]) if self.join else goals[0]

    def split(self, seed: int) -> str:
        """Return the split: ``train`` for single goals, ``test`` for hard ones, else by a hash of seed and name."""
        if self.hard or not self.join:
            return "test" if self.hard else "train"
        position = int(content_id(str(seed), self.name), 16) / 16**20
        return "test" if position < TEST else "dev" if position < TEST + DEV else "train"


def compositions(seed: int) -> Iterator[tuple[Composition, int]]:
    """Yield compositions endlessly, each with the number of its previous occurrences."""
    single = [Composition((goal,)) for goal in GOALS]
    pairs = [Composition((a, b), join) for join, a, b in product(JOINS, GOALS, GOALS) if can_join(join, a, b)]
    hard = [Composition((a, b), join, hard=True) for join, a, b in product(JOINS[:3], GOALS, HELD_OUT_GOALS)]
    hard += [
        Composition((a, b), join, hard=True) for join, a, b in product(HELD_OUT_JOINS, GOALS, GOALS) if can_join(join, a, b)
    ]
    streams = [repeated(group, Random(f"{seed}/{number}")) for number, group in enumerate((single, hard, pairs))]
    while True:
        for number in (0, 1, *(2,) * 10):
            yield next(streams[number])


def repeated(items: Sequence[Composition], rng: Random) -> Iterator[tuple[Composition, int]]:
    """Yield compositions in a random order, endlessly, each with the number of the pass, from 0."""
    order = rng.sample(items, len(items))
    yield from ((item, number) for number in count() for item in order)


def can_join(join: MakeJoin, *goals: MakeGoal) -> bool:
    """Return whether goals are compatible: a search visits all rooms, so it cannot be joined with closed doors."""
    names = {join.__name__, *(goal.__name__ for goal in goals)}
    return not (names & {"if_closed", "detour"} and names & {*SEARCHES})


def read(path: Path, *, tasks: int = 480, seed: int = 0, docs: str = "none", worlds: int = WORLDS) -> Iterator[Task | Attempt]:
    """Yield tasks, each followed by its attempts, without verdicts; SourceError if an option is out of range."""
    if path.name != "robot" or tasks < 1 or docs not in DOCS or worlds < WORLDS:
        raise SourceError(
            f"composed: the domain must be robot, tasks >= 1, docs one of {', '.join(DOCS)}, worlds >= {WORLDS}; got {path.name}, {tasks}, "
            f"{docs}, {worlds}"
        )
    source = (path / "world.py").read_text(encoding="utf-8")
    description, sequence = described(domain_of(source), docs), compositions(seed)
    for _ in range(tasks):
        composition, number = next(sequence)
        rng = Random(f"{seed}/{composition.name}/{number}")
        task = task_of(composition.goal(Names(rng)), rng, source=source, description=description, count=worlds)
        extra = {"composition": composition.name, "calls": calls_of(task.reference), "split": composition.split(seed)}
        name = "-".join(composition.name.replace(")", "").replace("(", ",").split(","))
        task = replace(task, task_id=f"robot/{name}-{number}", difficulty=composition.difficulty, extra=json.dumps(extra))
        yield task
        yield from attempts(task, rng)


def described(domain: Domain, docs: str) -> str:
    """Return the description of the robot for prompts."""
    if docs == "full":
        return domain.described("robot")
    if docs == "none":
        return "You program a service robot in a building."
    methods = ", ".join(f"{action.name}({', '.join(action.params)})" for action in domain.actions)
    return f"You program a service robot in a building. Methods of `robot`: {methods}. Failures: {', '.join(domain.failures)}."


def task_of(goal: Goal, rng: Random, *, source: str, description: str, count: int = WORLDS) -> Task:
    """Return the task of a goal; its worlds cover every branch of the goal."""
    tests = tuple(
        TestCase(TestKind.SIMULATION, json.dumps(start(world)), json.dumps(checks(goal.outcome(world), world)), hidden=True)
        for world in worlds_of(goal, rng, count)
    )
    text = goal.text if goal.text.endswith(".") else f"{capital(goal.text)}."
    prompt = f"{description}\n\nTask: {text}\n\nWrite a Python function `{ENTRY_POINT}(robot)` that does it."
    return Task("", prompt, tests, ENTRY_POINT, source="robot", reference=plain(goal), setup=source)


def attempts(task: Task, rng: Random) -> Iterator[Attempt]:
    """Yield correct programs in several styles, then incorrect ones; ValueError if a correct one does not pass."""
    right = {task.reference: "plain"}
    for _ in range(2 * RIGHT):
        if len(right) < RIGHT:
            right.setdefault(restyled(task.reference, rng), "restyled")
    wrong: dict[str, str] = {}
    for kind in rng.sample(KINDS, len(KINDS)):
        code = mutated(rng.choice([*right]), kind, rng)
        if len(wrong) < WRONG and code and rehearse(code, task)[0] is not Status.PASSED:
            wrong.setdefault(code, kind)
    for code, made in (right | wrong).items():
        status, error = rehearse(code, task)
        if made in ("plain", "restyled") and status is not Status.PASSED:
            raise ValueError(f"{task.task_id}: a correct program got {status} {error}:\n{code}")
        extra = json.dumps({"made": made, "rehearsed": status, "error": error})
        yield Attempt(task.task_id, code, author="robot grammar", extra=extra)
