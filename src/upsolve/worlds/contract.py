"""Contract of a domain's tasks, checked in the sandbox: for authors of domains, and for tests of the built-in domain."""

from collections.abc import Iterable, Iterator

from upsolve.types import Attempt, Status, Task
from upsolve.verify.judge.domains import ENTRY_POINT, Domain, domain_of
from upsolve.verify.judge.plans import judge_all
from upsolve.verify.judge.simulations import Trace, play
from upsolve.verify.limits import JudgeSettings

__all__ = ["broken", "replayed"]


def broken(tasks: Iterable[Task], settings: JudgeSettings | None = None) -> Iterator[str]:
    """Yield one sentence per violation of the contract; nothing if all tasks keep it.

    The reference passes in every world. An empty program, one that does nothing and one that raises pass in no world. Replaying the reference's
    actions of one world does not pass in all worlds, so that a program must observe the world. Unusual arguments do not break a world: otherwise an
    attempt could stay unscored.

    Raises:
        ValueError: a world or a check is invalid.
        IsolationError: a required layer is missing.
        JudgeError: the sandbox broke.
    """
    settings = settings or JudgeSettings()
    for task in tasks:
        codes = (task.reference, unusual_calls(domain_of(task.setup)), *IDLE)
        good, odd, *bad = judge_all([(task, Attempt(task.task_id, code)) for code in codes], settings)
        if good.status is not Status.PASSED:
            yield f"{task.task_id}: the reference: {good.status} {good.error_type} {good.error_message}"
            continue
        if odd.status is Status.UNSCORED:
            yield f"{task.task_id}: unusual arguments break its world: {odd.error_message}"
        yield from (f"{task.task_id}: this passes in a world: {code!r}" for code, v in zip(IDLE, bad, strict=True) if v.passed)
        lists = [replayed(trace) for trace in play(task, task.reference, settings) if trace]
        for number, same in enumerate(judge_all([(task, Attempt(task.task_id, code)) for code in lists], settings), start=1):
            if same.status is Status.PASSED:
                yield f"{task.task_id}: the reference's actions in world {number} pass in every world"


IDLE = ("", f"def {ENTRY_POINT}(world):\n    pass\n", f"def {ENTRY_POINT}(world):\n    raise ValueError\n")
"""Programs that must pass in no world: an empty one, one that does nothing, and one that raises."""
ODD = {
    "str": ("", "\0", "\ud800", "x" * 1000),
    "int": (0, -1, 10**18, -(10**18)),
    "float": (-0.0, 1e308, -1e308, 5e-324),
    "bool": (False, True, False, True),
}
"""Type -> unusual arguments."""


def unusual_calls(domain: Domain) -> str:
    """Return a program that calls every action with unusual arguments and ignores failures."""
    lines = [f"def {ENTRY_POINT}(world):"]
    for action in domain.actions:
        for number in range(4):
            args = [[ODD[kind[5:-1]][number]] * number if "[" in kind else ODD[kind][number] for kind in action.params.values()]
            lines += [f"    try: world.{action.name}(*{args!r})", "    except Exception: pass"]
    return "\n".join([*lines, ""])


def replayed(trace: Trace) -> str:
    """Return a program that replays the successful actions of a trace and ignores failures."""
    done = [f"    world.{step.action}(*{step.args!r})\n" for step in trace.steps if not step.failure]
    return f"def {ENTRY_POINT}(world):\n    pass\n{''.join(done)}"
