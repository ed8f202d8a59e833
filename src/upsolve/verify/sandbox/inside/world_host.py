"""The trusted side of a simulation, in the tester's process: holds the worlds, executes the attempt's actions, records steps.

Standard library only. The attempt's process gets the answers to its actions and nothing else; its messages can only be actions.
"""

from __future__ import annotations

import json
import marshal

TYPE_CHECKING = False  # the module typing is not imported
if TYPE_CHECKING:
    from typing import Any

    from upsolve.verify.sandbox.inside import child, messages, operations
else:
    import child
    import messages
    import operations

__all__ = ["MOST_ACTIONS", "play"]

MOST_ACTIONS = 1000
"""Maximum number of actions in one world."""
MESSAGE_BYTES = 1 << 14
"""Maximum size of a message of the attempt, bytes; after a longer one its messages are ignored."""
STEPS_BYTES = 4 << 20
"""Maximum size of the recorded steps of all worlds, bytes; results may be twice as large."""
TYPES: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}


class BrokenWorldError(Exception):
    """An action raised an exception that the domain does not declare."""


class ActionLimitError(Exception):
    """The attempt exceeded the number of actions."""


def play(job: dict[str, Any], channel: Any) -> None:
    """Run the attempt in every world of a job; report the steps of each."""
    space: dict[str, Any] = {"__name__": "world", "__builtins__": __builtins__}
    clock = child.alarm_clock() if job["test_seconds"] else lambda _seconds: None  # pyright: ignore[reportUnknownLambdaType]
    try:
        exec(job["domain"], space)
        for index, initial in enumerate(job["worlds"]):
            world = Watched(space, initial, job["actions"], STEPS_BYTES // len(job["worlds"]))
            try:
                clock(job["test_seconds"])
                continues = one_world(index, world, channel)
                clock(0)
            except child.TestTimeout:  # the attempt's process is still busy and cannot answer
                messages.report_error(test=index, timeout="exceeded the time limit of a world")
                return
            except ActionLimitError:
                messages.report_error(test=index, timeout=f"more than {MOST_ACTIONS} actions, or too long ones, in one world")
                return
            if not continues:
                return
    except Exception as error:
        messages.report_error(world=operations.describe(error))
        return
    if job["lines"]:
        channel.ask(marshal.dumps("lines"))
        messages.report_error(lines=channel.reply(STEPS_BYTES).get("lines"))


def one_world(index: int, world: Watched, channel: Any) -> bool:
    """Run the attempt in one world and report its steps; return False if the attempt cannot be started."""
    channel.ask(marshal.dumps("world"))
    while "action" in (message := channel.reply(MESSAGE_BYTES)):
        channel.ask(marshal.dumps(world.act(message["action"], message.get("args"))))
    if early := {key: message[key] for key in ("compile", "broken") if key in message}:
        messages.report_error(**early)
        return False
    if "ended" in message:
        messages.report(f'{{"test":{index},"steps":[{",".join(world.steps)}],"final":{json.dumps(world.state())}}}')
    else:
        messages.report_error(test=index, error=message.get("error", message.get("load")))
    return True


class Watched:
    """A world and the steps taken in it."""

    def __init__(self, space: dict[str, Any], initial: Any, actions: dict[str, list[str]], room: int) -> None:
        self.world = space["World"](initial)
        self.state = self.world.state
        self.failures, self.actions, self.room = space, actions, room
        self.steps: list[str] = []
        """One JSON object per step: action, arguments, answer, name of the failure, state afterwards."""

    def act(self, action: Any, args: Any) -> tuple[str, Any]:
        """Execute an action; return the name of its failure, empty if none, and its answer."""
        kinds = self.actions.get(action) if isinstance(action, str) else None
        if kinds is None or type(args) is not list:
            return "TypeError", "no such action"
        if len(args) != len(kinds) or not all(map(fits, args, kinds)):
            return "TypeError", f"{action} takes {', '.join(kinds) or 'nothing'}"
        failure, answer = "", None
        try:
            answer = getattr(self.world, action)(*args)
        except Exception as error:
            failure = type(error).__name__
            if self.failures.get(failure) is not type(error):
                raise BrokenWorldError(f"{action} raised {failure}: {error}, given {args}") from error
            answer = str(error)
        self.note([action, args, None if failure else answer, failure, self.state()])
        return failure, answer

    def note(self, step: list[Any]) -> None:
        """Record a step; ActionLimitError if there are too many."""
        self.steps.append(json.dumps(step))
        self.room -= len(self.steps[-1])
        if len(self.steps) > MOST_ACTIONS or self.room < 0:
            raise ActionLimitError


def fits(value: Any, kind: str) -> bool:
    """Return whether a value has the declared type of an argument: ``str``, ``int``, finite ``float``, ``bool``, a list of one of them."""
    if kind.startswith("list["):
        return type(value) is list and all(fits(item, kind[5:-1]) for item in value)
    return type(value) is TYPES[kind] and (kind != "float" or value - value == 0)
