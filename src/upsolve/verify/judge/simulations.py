"""Plan for simulations: run a program in all worlds of a task in one job, then check the traces.

The attempt's process holds stubs that send an action and wait for its answer. The tester's process holds the worlds. The checks
are in neither.
"""

import json
import math
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Any

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Task, TestKind, Verdict
from upsolve.verify.judge.domains import ENTRY_POINT, domain_of
from upsolve.verify.judge.outcomes import function_outcomes, verdict
from upsolve.verify.judge.traces import Check, Step, Trace, all_checks
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import Job
from upsolve.verify.sandbox.runner import Exit, run_jobs

__all__ = ["parsed", "play", "run_simulation", "simulates"]


def simulates(task: Task) -> bool:
    """Return whether a task's tests are simulations; raise ValueError if only some are."""
    kinds = {test.kind for test in task.tests}
    if TestKind.SIMULATION in kinds and len(kinds) > 1:
        raise ValueError("worlds and other tests cannot be mixed")
    return TestKind.SIMULATION in kinds


@lru_cache(maxsize=16)  # small, since tasks can be large and attempts at the same task arrive together
def parsed(task: Task) -> tuple[list[Any], list[Check]]:
    """Return the worlds and the checks of a task; raise ValueError if they are invalid."""
    domain, worlds, checks = domain_of(task.setup), list[Any](), list[Check]()
    for number, test in enumerate(task.tests, start=1):
        try:
            worlds.append(json.loads(test.input))
            checks.append(all_checks(json.loads(test.expected), domain))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"world {number}: {error}") from None
    return worlds, checks


def simulation_job(task: Task, attempt: Attempt, settings: JudgeSettings) -> Job:
    """Return the job that runs a program in all worlds of a task."""
    domain, each = domain_of(task.setup), settings.limits.test_seconds
    program = {"kind": "worlds", "code": attempt.code, "setup": domain.stubs(), "lines": settings.lines}
    program["call"] = f"{ENTRY_POINT}(_Actions())"
    tester: dict[str, Any] = {
        "worlds": parsed(task)[0],
        "domain": domain.code,
        "actions": domain.types,
        "lines": settings.lines,
    }
    tester["test_seconds"] = 0 if math.isinf(each) else each
    return Job(program, tester, settings.limits.wall_seconds)


def run_simulation(task: Task, attempt: Attempt, settings: JudgeSettings) -> Generator[Job, Exit, Verdict]:
    """Judge a program in worlds: outcome ``RUNTIME_ERROR`` if it did not finish, ``FAILED`` if a check does not hold.

    Raises:
        JudgeError: the domain raised an unexpected exception.
    """
    end = yield simulation_job(task, attempt, settings)
    for record in end.records:
        if "world" in record:
            raise JudgeError(f"the world of task {task.task_id} broke: {': '.join(record['world'][:2])}")
    results = traces(task, end)
    reached = [trace is not None and check(trace) for check, trace in zip(parsed(task)[1], results, strict=True)]
    records = tuple({**record, "reached": reached[record["test"]]} if "final" in record else record for record in end.records)
    return verdict(task, attempt, function_outcomes(task, end, "", records), ends=[end], label="simulation")


def traces(task: Task, end: Exit) -> list[Trace | None]:
    """Return the trace of every world; None if the program did not finish in it."""
    ended = {record["test"]: record for record in end.records if "final" in record}
    return [
        Trace(tuple(Step(*step) for step in ended[index]["steps"]), ended[index]["final"]) if index in ended else None
        for index in range(len(task.tests))
    ]


def play(task: Task, code: str, settings: JudgeSettings) -> Sequence[Trace | None]:
    """Run a program in the worlds of a task and return the traces, without a verdict.

    Returns:
        One trace per world; None if the program did not finish in it.

    Raises:
        ValueError: a world or a check is invalid.
        IsolationError: a required layer is missing.
        JudgeError: the sandbox broke.
    """
    return traces(task, run_jobs([simulation_job(task, Attempt(task.task_id, code), settings)], settings)[0])
