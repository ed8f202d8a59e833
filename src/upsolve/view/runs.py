"""A folder of runs: the gain of each run, the curves of several runs together, and their results task by task."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upsolve import __version__
from upsolve.errors import ArchiveError, ConfigError, UpsolveError
from upsolve.evaluate.capability import capability
from upsolve.evaluate.comparison import interval_text
from upsolve.evaluate.scores import Evaluation
from upsolve.files import read_rows
from upsolve.report.blocks import Points, curve, el
from upsolve.report.overview import curve_name, logged
from upsolve.report.run import gain_beyond, without_verdicts
from upsolve.report.several import RunResult, gains, run_result
from upsolve.train.run.folder import load_trained
from upsolve.view.answers import Answers, Query

__all__ = ["MOST_COMPARED", "Runs"]

MOST_COMPARED = 4
"""Largest number of runs that are compared at once."""


@dataclass
class Runs:
    """Answers the viewer's requests about a folder of runs, and opens each run when it is first asked for."""

    title: str
    """Headline."""
    folders: Mapping[str, Path]
    """Folder of each run by its name."""
    open_run: Callable[[Path], Answers]
    """Opens a run."""
    opened: dict[str, Answers] = field(default_factory=dict[str, Answers])
    """Runs opened so far."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def routes(self) -> Mapping[str, Callable[[Query], Any]]:
        """The functions that answer requests, by path."""
        return {
            "info": self.info,
            "runs": lambda _query: {"rows": self.rows()},
            "compare": self.compare,
        }

    @property
    def actions(self) -> Mapping[str, Callable[[Query], Any]]:
        """Empty: a folder of runs has no model that can be asked."""
        return {}

    def about(self, _what: str) -> "Runs":
        """Return this object, since a folder of runs has no samples of its own."""
        return self

    def member(self, name: str) -> Answers:
        """Return the answers about a run; ArchiveError if the name is unknown, or the run cannot be opened."""
        if name not in self.folders:
            raise ArchiveError(f"no run {name!r} in this folder")
        with self.lock:
            if name not in self.opened:
                self.opened[name] = self.open_run(self.folders[name])
                self.opened[name].home = self.title
        return self.opened[name]

    def close(self) -> None:
        """Close the runs that were opened."""
        for answers in self.opened.values():
            answers.close()

    def info(self, _query: Query) -> dict[str, Any]:
        """Return the title, and that this is a folder of runs."""
        return {"title": self.title, "note": "", "version": __version__, "ready": True, "runs": True, "filters": ()}

    def rows(self) -> list[dict[str, Any]]:
        """Return the gain of each run, also beyond its controls in this folder, or its progress."""
        results = {name: self.result(name) for name in self.folders}
        finished = {name: one for name, one in results.items() if isinstance(one, RunResult)}
        controls: dict[str, list[RunResult]] = {}
        for name, one in finished.items():
            if one.verdicts != "as_judged":
                controls.setdefault(without_verdicts(self.folders[name]), []).append(one)
        rows = [self.row(name, one) for name, one in results.items()]
        for row in rows if controls else ():
            if run := finished.get(row["name"]):
                found = filter(
                    None, (gain_beyond(run, one) for one in controls.get(without_verdicts(self.folders[row["name"]]), ()))
                )
                row["beyond"] = "; ".join(interval_text(one.beyond) for one in found)
        return rows

    def result(self, name: str) -> RunResult | str:
        """Return the evaluations of a run, or why it has none."""
        try:
            return run_result(self.folders[name])
        except ConfigError:  # not finished, or trained alone
            return "not finished"
        except UpsolveError as error:
            return f"cannot be read: {error}"

    def row(self, name: str, result: RunResult | str) -> dict[str, Any]:
        """Return the gain of a run, or its progress."""
        steps = self.steps(name)
        if isinstance(result, str):
            return {"name": name, "steps": steps, "conclusion": result}
        about = capability(result.before, result.after)
        before, after = about.best.means
        means = {"before": before, "after": after, "change": about.best.change}
        return {
            "name": name,
            "steps": steps,
            "recipe": result.recipe,
            "verdicts": result.verdicts.replace("_", " "),
            **means,
            "conclusion": about.conclusion,
        }

    def compare(self, query: Query) -> dict[str, Any]:
        """Return the curves of two to four runs, one figure per metric, and the tasks, largest differences first.

        Raises:
            ValueError: the number of runs is not two to four.
        """
        names = query.get("names", "").split("|")
        if not 2 <= len(names) <= MOST_COMPARED or any(name not in self.folders for name in names):
            raise ValueError(f"choose 2 to {MOST_COMPARED} runs of this folder for the comparison")
        results: dict[str, RunResult] = {}
        for name in names:
            try:
                results[name] = run_result(self.folders[name])
            except UpsolveError:  # its curves are compared all the same
                continue
        metrics = {name: self.metrics(name) for name in names}
        figures = [
            curve(curve_name(key), lines_of(metrics, key)) for key in logged([row for rows in metrics.values() for row in rows])
        ]
        lack = [name for name in names if name not in results]
        note = el("p", f"Not evaluated, so not in the table: {', '.join(lack)}.", class_="soft") if lack else ""
        return {
            "curves": el("div", *figures, class_="curves"),
            "note": note,
            "runs": [*results],
            "rows": task_rows([*results.values()]),
        }

    def steps(self, name: str) -> int | None:
        """Return the steps of a run's training from its log, else from its summary; None without both."""
        logged = [int(row["step"]) for row in self.metrics(name) if "step" in row]
        with suppress(UpsolveError):  # a damaged summary
            trained = None if logged else load_trained(self.training(name))
            return max(logged, default=trained.steps if trained else None)
        return None

    def training(self, name: str) -> Path:
        """Return the folder of a run's training."""
        folder = self.folders[name]
        return folder / "training" if (folder / "training").is_dir() else folder

    def metrics(self, name: str) -> Sequence[Mapping[str, float]]:
        """Return the rows of the log of a run's training."""
        return read_rows(self.training(name) / "metrics.jsonl")


def lines_of(metrics: Mapping[str, Sequence[Mapping[str, float]]], key: str) -> dict[str, Points]:
    """Return a metric over the steps of each run."""
    return {
        name: [(row["step"], row[key]) for row in rows if row.get(key) is not None and "step" in row]
        for name, rows in metrics.items()
    }


def task_rows(results: Sequence[RunResult]) -> list[dict[str, Any]]:
    """Return for each task the passed samples of every run's trained model, and the change to its base, the largest differences first."""
    changes = [gains(result) for result in results]
    names = dict.fromkeys(score.task_id for result in results for score in result.after.best.scores)
    counts = [passed_counts(result.after.best) for result in results]
    rows: list[dict[str, Any]] = []
    for name in names:
        passed = [count.get(name) for count in counts]
        shares = [one[0] / one[1] for one in passed if one and one[1]]
        spread = max(shares) - min(shares) if shares else 0.0
        rows.append({"task_id": name, "passed": passed, "change": [change.get(name) for change in changes], "spread": spread})
    return sorted(rows, key=lambda row: -row["spread"])


def passed_counts(evaluation: Evaluation) -> dict[str, tuple[int, int]]:
    """Return passed and scored samples of each task."""
    return {score.task_id: (score.passed, score.samples) for score in evaluation.scores}
