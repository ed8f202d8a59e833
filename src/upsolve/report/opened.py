"""A run in a folder, for Python and notebooks."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from upsolve.config import Recipe
from upsolve.evaluate.capability import Capability, capability
from upsolve.evaluate.runs import load_run
from upsolve.evaluate.sweep import Sweep
from upsolve.extras import needs_extras
from upsolve.report.blocks import html_of
from upsolve.report.changes import pairings_of, task_changes
from upsolve.report.overview import overview_block
from upsolve.report.run import read_overview
from upsolve.train.run.folder import Trained, load_trained

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Run", "open_run"]

STYLE = Path(__file__).with_name("block.css")
"""The style of the overview."""
COLOURS = ":root { --card: #8881; --soft: #777; --line: #8885; --good: #00795a; --bad: #b34700; --plus: 0, 122, 90; --minus: 196, 72, 0; --s0: #0072b2 }"


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run."""

    folder: Path
    """Its folder."""
    recipe: Recipe
    """All settings."""
    before: Sweep
    """The base model at several temperatures."""
    after: Sweep
    """The trained model at the same temperatures."""
    trained: Trained | None
    """Steps, metrics and the folder of the weights; None for folds, whose trainings are in folders of their own."""

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.capability.sentence!r})"

    def _repr_html_(self) -> str:
        """Return the overview of the run, as its report begins, for a notebook."""
        content = read_overview(self.folder, lambda _names: {})
        return f"<style>{COLOURS}\n{STYLE.read_text(encoding='utf-8')}</style>{html_of(overview_block(content))}"

    @property
    def capability(self) -> Capability:
        """The comparison of both models."""
        return capability(self.before, self.after)

    def to_pandas(self) -> "DataFrame":
        """Return a data frame with a row for each task and each temperature: passed and scored samples of both models, and the change.

        Needs pandas (the extra ``hub``).
        """
        with needs_extras():
            from pandas import DataFrame

        return DataFrame(
            [
                {
                    "evaluation": pairing.label,
                    "task_id": row.task_id,
                    "difficulty": row.difficulty,
                    "passed_before": row.before[0],
                    "samples_before": row.before[1],
                    "passed_after": row.after[0],
                    "samples_after": row.after[1],
                    "change": row.change,
                }
                for pairing in pairings_of(self.before, self.after)
                for row in task_changes(pairing.before, pairing.after)
            ]
        )


def open_run(folder: str | Path) -> Run:
    """Open the folder of a finished `upsolve run`; ConfigError names a missing file."""
    path = Path(folder)
    return Run(path, *load_run(path), load_trained(path / "training"))
