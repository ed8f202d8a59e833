"""Compositions -> tasks with attempts: ``upsolve ingest composed robot ARCHIVE``.

Of 24 tasks, 20 are joins of two goals, two are single goals, two are hard. Each composition, such as ``if_here(fetch,relay)``,
is in one split only, so no tested composition was trained on. Hard tasks need calls that no other task needs. The same seed
gives the same tasks, and a larger number of tasks extends the same sequence.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from random import Random

from upsolve.errors import SourceError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, content_id
from upsolve.verify.judge.domains import ENTRY_POINT, Domain, domain_of
from upsolve.worlds.composed.goal import Goal, Names
from upsolve.worlds.composed.goals import GOALS, HELD_OUT_GOALS, HELD_OUT_JOINS, JOINS, SEARCHES, capital
from upsolve.worlds.composed.programs import KINDS, calls_of, mutated, plain, restyled
from upsolve.worlds.composed.worlds import WORLDS, checks, rehearse, start
from upsolve.worlds.composed.worlds import worlds as worlds_of

__all__ = ["compositions", "read"]

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
    """Whether its programs need a call that no other programs have."""

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
            raise ValueError(f"{task.task_id}: a right program is {status} {error}:\n{code}")
        extra = json.dumps({"made": made, "rehearsed": status, "error": error})
        yield Attempt(task.task_id, code, author="robot grammar", extra=extra)
