"""Tasks that another tool's files name by their own ids or prompts: an archive, or the file or folder of any source."""

from collections.abc import Iterable
from dataclasses import dataclass

from upsolve.archive.store import read_tasks
from upsolve.policy.prompt import messages
from upsolve.types import Task

__all__ = ["TASKS_HELP", "KnownTasks", "known_tasks", "read_known"]

TASKS_HELP = "tasks of the attempts: an archive, or source:path, such as humaneval:HumanEval.jsonl.gz"


@dataclass(frozen=True, slots=True)
class KnownTasks:
    """Tasks by the names that other tools give them."""

    tasks: tuple[Task, ...]
    """All tasks, in their order."""
    by_name: dict[str, list[Task]]
    """Ids in lower case, and their ends after every ``/``: ``humaneval/0`` is found as ``HumanEval/0`` and as ``0``."""
    by_prompt: dict[str, Task]
    """Tasks by their prompt, alone and with examples as upsolve shows it to models, without white space around it."""

    def named(self, name: str) -> Task | None:
        """Return the task that a name denotes; None if there is none.

        Raises:
            ValueError: several tasks have this name; names two.
        """
        found = self.by_name.get(name.lower(), [])
        exact = [task for task in found if task.task_id.lower() == name.lower()]
        if exact:
            return exact[0]
        if len(found) > 1:
            raise ValueError(
                f"{name} may be the task {found[0].task_id} or {found[1].task_id}; give --tasks only one of the two sets"
            )
        return found[0] if found else None

    def prompted(self, prompt: str) -> Task | None:
        """Return the first task with a prompt; None if there is none."""
        return self.by_prompt.get(prompt.strip())


def known_tasks(tasks: Iterable[Task]) -> KnownTasks:
    """Index tasks by the names and prompts that other tools use."""
    by_name: dict[str, list[Task]] = {}
    by_prompt: dict[str, Task] = {}
    every = tuple(tasks)
    for task in every:
        words = task.task_id.lower().split("/")
        for name in ("/".join(words[start:]) for start in range(len(words))):
            by_name.setdefault(name, []).append(task)
        for prompt in (task.prompt, messages(task)[0]["content"]):
            by_prompt.setdefault(prompt.strip(), task)
    return KnownTasks(every, by_name, by_prompt)


def read_known(place: str) -> KnownTasks | None:
    """Return the tasks of an archive or of ``source:path``; None for an empty text.

    Raises:
        SourceError: it is neither, or a file cannot be read; says what is expected.
    """
    return known_tasks(read_tasks(place, f"--tasks {place}")) if place else None
