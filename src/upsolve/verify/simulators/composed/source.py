"""Compositions -> tasks with attempts: ``upsolve ingest composed robot ARCHIVE``.

Of 24 tasks, 20 are joins of two goals, two are single goals, two are hard ones. A composition, such as ``if_here(fetch,relay)``, is in one
split: what is tested was not trained on. Hard tasks need calls that no other task's program has. The same seed gives the same tasks,
and more tasks leave the first ones as they are.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from random import Random

from upsolve.errors import SourceError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, content_id
from upsolve.verify.simulators.composed.goal import Goal
from upsolve.verify.simulators.composed.goals import GOALS, HELD_OUT_GOALS, SEARCHES
from upsolve.verify.simulators.composed.joins import HELD_OUT_JOINS, JOINS, capital
from upsolve.verify.simulators.composed.mutations import KINDS, mutated
from upsolve.verify.simulators.composed.names import Names
from upsolve.verify.simulators.composed.programs import calls_of, plain, restyled
from upsolve.verify.simulators.composed.rehearsal import rehearse
from upsolve.verify.simulators.composed.worlds import checks, start, worlds
from upsolve.verify.simulators.domain import ENTRY_POINT, Domain, domain_of

__all__ = ["Composition", "compositions", "read"]

MakeGoal = Callable[[Names], Goal]
MakeJoin = Callable[[Names, Goal, Goal], Goal]
RIGHT, WRONG = 3, 5
"""Most right and wrong attempts at a task."""
TEST, DEV = 0.25, 0.1
"""Shares of the joined compositions, in expectation."""
DOCS = ("none", "names", "full")
"""What the prompt says of the robot's methods: nothing, their names and parameters, or all."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What a task is made of."""

    goals: tuple[MakeGoal, ...]
    """One goal, or the two of a join."""
    join: MakeJoin | None = None
    """How two are joined."""
    hard: bool = False
    """Whether its programs need a call that other programs do not have."""

    @property
    def name(self) -> str:
        """Such as ``fetch`` or ``if_here(fetch,relay)``."""
        names = ",".join(goal.__name__ for goal in self.goals)
        return f"{self.join.__name__}({names})" if self.join else names

    @property
    def difficulty(self) -> str:
        """``easy``: a single goal; ``medium``: two; ``hard``: with a call that is not in the other programs."""
        return "hard" if self.hard else "medium" if self.join else "easy"

    def goal(self, names: Names) -> Goal:
        """Return the goal with its names drawn."""
        made = [goal(names) for goal in self.goals]
        return self.join(names, made[0], made[1]) if self.join else made[0]

    def split(self, seed: int) -> str:
        """Return ``train``, ``dev`` or ``test``: single goals are trained on, hard ones tested, joins by a hash of their name."""
        if self.hard or not self.join:
            return "test" if self.hard else "train"
        place = int(content_id(str(seed), self.name), 16) / 16**20
        return "test" if place < TEST else "dev" if place < TEST + DEV else "train"


def compositions(seed: int) -> Iterator[tuple[Composition, int]]:
    """Yield compositions without an end, each with the number of times that it came before."""
    single = [Composition((goal,)) for goal in GOALS]
    pairs = [Composition((a, b), join) for join, a, b in product(JOINS, GOALS, GOALS) if can_join(join, a, b)]
    hard = [Composition((a, b), join, hard=True) for join, a, b in product(JOINS[:3], GOALS, HELD_OUT_GOALS)]
    hard += [
        Composition((a, b), join, hard=True) for join, a, b in product(HELD_OUT_JOINS, GOALS, GOALS) if can_join(join, a, b)
    ]
    streams = [repeated(some, Random(f"{seed}/{number}")) for number, some in enumerate((single, hard, pairs))]
    while True:
        for number in (0, 1, *(2,) * 10):
            yield next(streams[number])


def repeated(some: Sequence[Composition], rng: Random) -> Iterator[tuple[Composition, int]]:
    """Yield compositions in random order, over and over, each with its round."""
    order = rng.sample(some, len(some))
    yield from ((one, number) for number in count() for one in order)


def can_join(join: MakeJoin, *goals: MakeGoal) -> bool:
    """Return whether goals can be in one building: a search visits all rooms, and stops at a closed door."""
    names = {join.__name__, *(goal.__name__ for goal in goals)}
    return not (names & {"if_closed", "detour"} and names & {*SEARCHES})


def read(path: Path, *, tasks: int = 480, seed: int = 0, docs: str = "none") -> Iterator[Task | Attempt]:
    """Yield tasks, each with its attempts; these have no verdicts yet.

    Args:
        path: the folder of the robot's domain.
        tasks: number of tasks, >= 1.
        seed: of everything random.
        docs: what prompts say of the robot's methods: ``none``, ``names`` or ``full``.

    Raises:
        SourceError: the domain is another one, or an option is out of its range.
    """
    if path.name != "robot" or tasks < 1 or docs not in DOCS:
        raise SourceError(
            f"composed: the domain must be robot, tasks >= 1, docs one of {', '.join(DOCS)}; got {path.name}, {tasks}, {docs}"
        )
    source = (path / "world.py").read_text(encoding="utf-8")
    about, made = described(domain_of(source), docs), compositions(seed)
    for _ in range(tasks):
        composition, number = next(made)
        rng = Random(f"{seed}/{composition.name}/{number}")
        task = task_of(composition.goal(Names(rng)), rng, source=source, about=about)
        extra = {"composition": composition.name, "calls": calls_of(task.reference), "split": composition.split(seed)}
        name = "-".join(composition.name.replace(")", "").replace("(", ",").split(","))
        task = replace(task, task_id=f"robot/{name}-{number}", difficulty=composition.difficulty, extra=json.dumps(extra))
        yield task
        yield from attempts(task, rng)


def described(domain: Domain, docs: str) -> str:
    """Return what prompts say of the robot."""
    if docs == "full":
        return domain.described("robot")
    if docs == "none":
        return "You program a service robot in a building."
    methods = ", ".join(f"{action.name}({', '.join(action.params)})" for action in domain.actions)
    return f"You program a service robot in a building. Methods of `robot`: {methods}. Failures: {', '.join(domain.failures)}."


def task_of(goal: Goal, rng: Random, *, source: str, about: str) -> Task:
    """Return the task of a goal, in worlds in which it goes every way that it can go."""
    tests = tuple(
        TestCase(TestKind.SIMULATION, json.dumps(start(world)), json.dumps(checks(goal.outcome(world), world)), hidden=True)
        for world in worlds(goal, rng)
    )
    text = goal.text if goal.text.endswith(".") else f"{capital(goal.text)}."
    prompt = f"{about}\n\nTask: {text}\n\nWrite a Python function `{ENTRY_POINT}(robot)` that does it."
    return Task("", prompt, tests, ENTRY_POINT, source="robot", reference=plain(goal), setup=source)


def attempts(task: Task, rng: Random) -> Iterator[Attempt]:
    """Yield right programs in several styles, then wrong ones of several kinds; each was played, and its ``extra`` says how it went.

    Raises:
        ValueError: a program that should be right is not.
    """
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
