"""What a run changed, task by task: the counts of both models at each temperature, and two programs with the reason of failure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from upsolve.errors import ArchiveError
from upsolve.evaluate.comparison import Pairing, pairings_of, task_changes
from upsolve.evaluate.runs import load_sweep
from upsolve.evaluate.scores import Evaluation
from upsolve.report.blocks import Node
from upsolve.report.content import Sample, example, samples_of
from upsolve.report.overview import example_block, overview_block
from upsolve.report.run import read_overview
from upsolve.types import Task

__all__ = ["Measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """The evaluations of a run."""

    home: Path
    """Folder of the run."""
    find: Callable[[Sequence[str]], Mapping[str, Task]]
    """Returns tasks by id."""

    def overview(self) -> Node:
        """Return the overview of the run, as its report begins."""
        return overview_block(read_overview(self.home, self.find))

    def pairings(self) -> list[Pairing]:
        """Return the evaluations of both models, side by side; [] until both are measured."""
        files = self.files()
        return pairings_of(*(load_sweep(file) for file in files)) if all(file.is_file() for file in files) else []

    def files(self) -> tuple[Path, Path]:
        """Return the evaluations of the base and of the trained model."""
        return self.home / "base.json", self.home / "trained.json"

    def table(self) -> dict[str, Any]:
        """Return the tasks of every pairing: passed and scored samples of both models, and the change."""
        return {
            "sets": [
                {
                    "label": one.label,
                    "before": where_of(one.before),
                    "after": where_of(one.after),
                    "rows": [asdict(row) for row in task_changes(one.before, one.after)],
                }
                for one in self.pairings()
            ]
        }

    def pair(self, task_id: str, number: int) -> dict[str, Any]:
        """Return two programs at a task, of the pairing with this number; ArchiveError without samples."""
        pairings = self.pairings()
        if not 0 <= number < len(pairings):
            raise ArchiveError(f"the run has no pair of evaluations {number}")
        one, (first, second) = pairings[number], self.files()
        before, after = (
            stored(file.with_suffix(".samples.jsonl"), measured).get(task_id, [])
            for file, measured in ((first, one.before), (second, one.after))
        )
        if not before or not after:
            raise ArchiveError(f"the run has no samples of both models at task {task_id!r}, {one.label}")
        task = self.find([task_id]).get(task_id) or Task(task_id, "")
        return {"block": example_block(example(task, before, after))}


def where_of(evaluation: Evaluation) -> dict[str, str]:
    """Return the author of the samples of an evaluation, and the value of the filter ``sampled`` that finds them."""
    temperature = evaluation.temperature
    return {
        "name": evaluation.name,
        "author": evaluation.model,
        "sampled": "" if temperature is None else f"{evaluation.tasks} at {round(float(temperature), 3)}",
    }


def stored(file: Path, evaluation: Evaluation) -> Mapping[str, list[Sample]]:
    """Return the samples of an evaluation by task; the last files read are remembered until they change."""
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    return remembered(file, changed, evaluation.tasks, evaluation.temperature)


@lru_cache(maxsize=4)
def remembered(file: Path, _changed: int, tasks: str, temperature: float | None) -> Mapping[str, list[Sample]]:
    """Return the samples of a file by task."""
    return samples_of(file, tasks, temperature)
