"""Runs generated programs in this process, without a sandbox; attempts of any other origin are judged in the sandbox."""

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import lru_cache
from types import CodeType
from typing import Any

from upsolve.types import Status, Task
from upsolve.verify.judge.domains import ENTRY_POINT, domain_of
from upsolve.verify.judge.simulations import parsed
from upsolve.verify.judge.traces import Check, Step, Trace

__all__ = ["Rehearsal", "rehearse"]

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
    """Return the status of a program, and the exception name in the first world in which it does not pass.

    Args:
        code: source of the program.
        task: task of a built-in domain; its tests are the worlds.
    """
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
