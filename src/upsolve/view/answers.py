"""Answers to the requests of the page: one method for each path under ``/api``."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upsolve import __version__
from upsolve.archive.preference import preferred
from upsolve.archive.store import Archive
from upsolve.errors import ArchiveError
from upsolve.report.content import got_of
from upsolve.report.overview import CURVES
from upsolve.types import Status, with_tests
from upsolve.view.browse import (
    CHOICES,
    Filters,
    count_attempts,
    entry_at,
    facets,
    list_attempts,
    list_tasks,
    previews,
    read_attempt,
    read_groups,
    read_tasks,
    records_of,
)
from upsolve.view.index import Index, archive_state, parts_of
from upsolve.view.scores import Measured, RunScores, TaskScores

if TYPE_CHECKING:
    from upsolve.view.ask import Model

__all__ = ["Answers", "Query", "outputs_of", "read_metrics"]

MOST_TESTS = 20
"""Largest number of failed tests of an attempt that are run again, from the first on."""


def outputs_of(index: Index, place: int) -> list[dict[str, Any]]:
    """Return number, outcome, input, actual and expected result of each test that an attempt does not pass.

    Raises:
        ArchiveError: no attempt is stored at this place.
        IsolationError: this machine lacks a layer of the sandbox.
    """
    from upsolve.verify.limits import JudgeSettings
    from upsolve.verify.pool.pool import verify

    ((attempt, judged),) = records_of(index, [entry_at(index, place)])
    task = read_tasks(index, [attempt.task_id]).get(attempt.task_id)
    if task is None or not task.tests:
        return []
    verdict = preferred(judged, task, index.judge)
    outcomes = verdict.outcomes if verdict and len(verdict.outcomes) == len(task.tests) else ()
    failed = [at for at in range(len(task.tests)) if not outcomes or outcomes[at] is not Status.PASSED][:MOST_TESTS]
    shown = replace(task, tests=tuple(replace(test, hidden=False) for test in task.tests))
    verdicts = verify([(with_tests(shown, [at]), attempt) for at in failed], JudgeSettings(workers=1))
    rows: list[dict[str, Any]] = []
    for at, found in zip(failed, verdicts, strict=True):
        test, is_wrong = shown.tests[at], found.status is Status.FAILED
        got = (is_wrong and got_of(found, test)) or (
            found.error_message if found.status is not Status.PASSED else "as expected"
        )
        rows.append({"test": at + 1, "status": found.status, "input": test.input, "got": got, "expected": test.expected})
    return rows


CHECK_SECONDS = 5.0
"""Seconds between two checks whether the archive has grown."""
Query = Mapping[str, str]


class Answers:
    """Answers the viewer's requests about one archive, and about its training run if a run was opened."""

    def __init__(
        self,
        archive: Archive,
        *,
        title: str,
        run: Path | None = None,
        scores: RunScores | None = None,
        note: str = "",
        open_samples: "Callable[[], Answers] | None" = None,
        judge: str = "",
        measured: Measured | None = None,
    ) -> None:
        """Open the index of the archive; ``note`` is a sentence below the headline, ``judge`` is as ``data.judge``."""
        self.model: Model | None = None
        """The model that can be asked."""
        self.archive, self.title, self.run, self.scores, self.note = archive, title, run, scores, note
        self.measured, self.home, self.open_samples, self.samples = measured, "", open_samples, None
        self.index, self.lock, self.checked = Index(archive, judge=judge), threading.Lock(), time.monotonic()
        self.routes: dict[str, Callable[[Query], Any]] = {
            "info": self.info,
            "attempts": lambda query: list_attempts(
                self.index, Filters.of(query), after=number(query, "after", -1), sort=query.get("sort", "")
            ),
            "previews": lambda query: previews(
                self.index, [int(place) for place in query.get("places", "").split(",") if place]
            ),
            "outputs": lambda query: {"rows": outputs_of(self.index, number(query, "place"))},
            "count": lambda query: {"attempts": count_attempts(self.index, Filters.of(query))} if self.index.ready else {},
            "tasks": lambda query: list_tasks(
                self.index,
                after=number(query, "after", -1),
                text=query.get("text", ""),
                difficulty=query.get("difficulty", ""),
                sort=query.get("sort", ""),
            ),
            "attempt": lambda query: read_attempt(self.index, number(query, "place")),
            "changes": lambda _query: self.measured.table() if self.measured else {"sets": []},
            "change": lambda query: self.evaluations().pair(query.get("id", ""), number(query, "set", 0)),
            "change_previews": lambda query: self.evaluations().previews(number(query, "set", 0)),
            "rewards": lambda _query: {"values": self.scores.recorded.rewards() if self.scores else []},
            "rewarded": self.rewarded,
            "overview": lambda _query: {"block": self.measured.overview() if self.measured else ""},
            "task": self.task,
            "group": self.group,
            "tokens": self.tokens,
            "metrics": lambda query: read_metrics(self.run, number(query, "after", 0)),
            "model": lambda _query: self.asked_model().about(),
            "asked": lambda query: self.asked_model().result(number(query, "number")),
        }
        self.actions: dict[str, Callable[[Query], Any]] = {"ask": self.ask}

    def close(self) -> None:
        """Close the indexes."""
        self.index.close()
        if self.samples is not None:
            self.samples.close()

    def about(self, what: str) -> "Answers":
        """Return the answers about ``samples``, opened at the first call; for any other word, this object. ArchiveError without samples."""
        if what != "samples":
            return self
        if self.open_samples is None:
            raise ArchiveError("the run has no samples of an evaluation yet")
        with self.lock:
            if self.samples is None:
                self.samples = self.open_samples()
        return self.samples

    def refresh(self) -> None:
        """Index the archive again if it has changed; checks at most every ``CHECK_SECONDS``."""
        with self.lock:
            now = time.monotonic()
            if now - self.checked < CHECK_SECONDS or not (self.index.ready or self.index.error):
                return
            judge = self.index.judge
            if archive_state(parts_of(self.archive), judge) != self.index.state:
                self.index = Index(self.archive, judge=judge)
            self.checked = time.monotonic()

    def info(self, _query: Query) -> dict[str, Any]:
        """Return title and version, whether the index is ready, the values of the filters, and the other pages that exist."""
        self.refresh()
        index = self.index
        return {
            "title": self.title,
            "note": self.note,
            "home": self.home,
            "version": __version__,
            "ready": index.ready,
            "state": index.state,
            "error": index.error,
            "run": self.run is not None,
            "overview": self.measured is not None,
            "changes": self.measured is not None and all(file.is_file() for file in self.measured.files()),
            "scores": self.scores is not None,
            "samples": self.open_samples is not None,
            "model": self.model is not None,
            "filters": CHOICES,
            "curves": CURVES,
            **(facets(index) if index.ready else {}),
        }

    def task(self, query: Query) -> dict[str, Any]:
        """Return a task; ArchiveError if the archive has no task with this id."""
        found = read_tasks(self.index, [query.get("id", "")]).get(query.get("id", ""))
        if found is None:
            raise ArchiveError(f"the archive has no task {query.get('id', '')!r}")
        return asdict(found)

    def asked_model(self) -> "Model":
        """Return the model that can be asked; ArchiveError if there is none."""
        if self.model is None:
            raise ArchiveError("no model was named: open the run with `upsolve view RUN --model`")
        return self.model

    def ask(self, query: Query) -> dict[str, Any]:
        """Start answering a question to the model, about the task ``id`` of the archive or a prompt; return the question's number."""
        named = query.get("id", "")
        task = read_tasks(self.index, [named]).get(named) if named else None
        if named and task is None:
            raise ArchiveError(f"the archive has no task {named!r}")
        return self.asked_model().ask(query, task)

    def evaluations(self) -> Measured:
        """Return the evaluations of a run; ArchiveError if this is no run."""
        if self.measured is None:
            raise ArchiveError("this run has no evaluations")
        return self.measured

    def rewarded(self, query: Query) -> dict[str, Any]:
        """Return the trained-on attempts whose reward is in the range ``low`` to ``high``, inclusive."""
        low, high = float(query.get("low", "-inf")), float(query.get("high", "inf"))
        return {"rows": self.scores.recorded.between(low, high) if self.scores else []}

    def scored(self, names: Sequence[str]) -> dict[str, TaskScores]:
        """Return rewards and advantages of the attempts at tasks, by task; {} if this is not a run, or its index is not ready."""
        if self.scores is None or not self.index.ready:
            return {}
        return {name: self.scores.of_task(*found) for name, found in read_groups(self.index, names).items()}

    def group(self, query: Query) -> dict[str, Any]:
        """Return rewards and advantages of the attempts at a task, and the groups of training that they were in."""
        scored = self.scored([query.get("id", "")]).values()
        if self.scores is None or not scored:
            return {"rows": [], "drawn": [], "left_out": {}}
        return self.scores.of_group(*scored)

    def tokens(self, query: Query) -> dict[str, Any]:
        """Return rewards, advantages and log-probabilities of the tokens of an attempt, for the first of its groups."""
        place = number(query, "place")
        if self.scores is None or not self.index.ready:
            return {"spans": []}
        (task,) = self.scored([entry_at(self.index, place)["task_id"]]).values()
        return self.scores.of_tokens(task, place)


def number(query: Query, name: str, default: int | None = None) -> int:
    """Return a parameter of a request as a whole number; ValueError for other text."""
    text = query.get(name, "" if default is None else str(default))
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{name}: {text!r} must be a whole number") from error


def read_metrics(run: Path | None, after: int) -> dict[str, Any]:
    """Return the rows of a run's ``metrics.jsonl`` from byte ``after`` on, the byte to continue from, and whether the run is finished."""
    if run is None or not (run / "metrics.jsonl").is_file():
        return {"rows": [], "next": 0, "finished": False}
    with (run / "metrics.jsonl").open("rb") as file:
        if after > file.seek(0, 2):  # the run was started afresh
            after = 0
        file.seek(after)
        whole = file.read().rpartition(b"\n")
    lines = whole[0].split(b"\n") if whole[1] else []
    rows = [json.loads(line) for line in lines if line.strip()]
    return {"rows": rows, "next": after + len(whole[0]) + len(whole[1]), "finished": (run / "summary.json").is_file()}
