"""Records of samples that name their tasks as an evaluation harness does."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upsolve.importers.known import KnownTasks
from upsolve.importers.outcome import recorded_verdict
from upsolve.importers.rows import Row
from upsolve.types import Attempt, Task

__all__ = ["Samples"]


@dataclass
class Samples:
    """Builds the records of samples; yields each task once."""

    known: KnownTasks | None
    """Tasks that the ids belong to; None if not given."""
    author: str
    """Author of the attempts."""
    options: Mapping[str, Any]
    """``first``, ``filter`` and ``metric`` of ``read``."""
    seen: set[str] = field(default_factory=set[str])
    """Ids of the tasks yielded."""

    def task(self, name: str) -> Task | None:
        """Return the known task of a name; None if there is none, or no tasks are known."""
        return self.known.named(name) if self.known else None

    def records(
        self,
        name: str,
        code: str,
        outcomes: Iterable[Mapping[str, Any]] = (),
        *,
        extra: Mapping[str, Any] | None = None,
        task: Task | None = None,
    ) -> Iterator[Row]:
        """Yield the task if it is known and new, the attempt, and a verdict for each outcome.

        Args:
            name: the harness's name of the task; the task of an unknown name is missing in the archive until it is imported.
            code: the whole program.
            outcomes: values by the names of ``OUTCOME_FIELDS``.
            extra: other fields of the sample; ``answer`` is the whole response that the code was taken from.
            task: the task if the file describes it; a known task has priority.
        """
        task = self.task(name) or task
        if task and task.task_id not in self.seen:
            self.seen.add(task.task_id)
            yield task
        rest = {key: value for key, value in (extra or {}).items() if value not in (None, "", [], {})}
        answer = str(rest.pop("answer", ""))
        attempt = Attempt(
            task.task_id if task else name.lower(),
            code,
            (task and task.language) or "python",
            self.author,
            extra=json.dumps(rest, default=str) if rest else "",
            answer=answer,
        )
        yield attempt
        for outcome in outcomes:
            if verdict := recorded_verdict(attempt.attempt_id, outcome, "recorded:samples"):
                yield verdict
