"""The groups of a run as they were trained on, recorded in its folder: ``groups/NNNNNNNN.parquet``, one file a round (offline: an epoch).

A row is an attempt of a group, in the order of training, with the reward and the advantage that training used. Programs stay in the
archive; a row names its attempt by ``attempt_key`` and has about 20 bytes.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from upsolve.files import replaced
from upsolve.train.data.groups import TrainGroup
from upsolve.types import Attempt, content_id

__all__ = ["FOLDER", "MOST_ROWS", "DrawnGroups", "attempt_key", "recorded_groups", "recorded_keys", "recorded_rows"]

FOLDER = "groups"
"""Name of the folder in that of a run."""
MOST_ROWS = 1_000_000
"""Most attempts that are recorded per round, about 20 MB; a larger round records its first groups."""
PART = 65_536
"""Number of rows that are in memory at once as Python objects."""
ROW = pa.schema(
    [
        ("round", pa.int32()),
        ("number", pa.int32()),  # of the group in its round, from 0
        ("task_id", pa.string()),
        ("attempt", pa.string()),  # attempt_key
        ("reward", pa.float64()),
        ("advantage", pa.float64()),  # null where the estimator gives each token its own
    ]
)


def attempt_key(attempt: Attempt) -> str:
    """Return a name for an attempt; equal programs of two authors, or two samples of one program, have different names."""
    return content_id(attempt.attempt_id, attempt.author, attempt.created, attempt.parent_id, repr(attempt.behavior_logp))[:16]


def recorded_keys(folder: Path, *, zero: bool = True) -> dict[str, set[str]]:
    """Return the ``attempt_key`` of every recorded attempt of a run, by task id; {} if the run recorded none. ``zero``: see ``recorded_rows``."""
    keys: dict[str, set[str]] = {}
    for task_id, key in recorded_rows(folder, zero=zero):
        keys.setdefault(task_id, set()).add(key)
    return keys


def recorded_groups(folder: Path) -> int:
    """Return the number of groups that were drawn for a run, over all rounds; 0 if it recorded none."""
    return sum(int(pq.read_metadata(file).metadata[b"groups"]) for file in folder.glob("*.parquet"))


def recorded_rows(folder: Path, *, zero: bool = True) -> list[tuple[str, str]]:
    """Return (task id, ``attempt_key``) of every recorded attempt of a run; [] if the run recorded none.

    ``zero=False`` leaves out attempts with advantage 0.
    """
    rows: list[tuple[str, str]] = []
    for file in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(columns=["task_id", "attempt", "advantage"]):
            columns = (column.to_pylist() for column in batch.columns)
            rows += [(task, key) for task, key, advantage in zip(*columns, strict=True) if zero or advantage != 0]
    return rows


@dataclass(frozen=True, slots=True)
class DrawnGroups:
    """Records the groups of a run."""

    folder: Path
    """Folder of the files."""
    by_token: bool
    """Whether the estimator gives each token its own advantage; the column ``advantage`` is then null."""
    writes: bool = True
    """Whether this process writes the records; False: another process does."""

    def record(self, number: int, groups: Sequence[TrainGroup]) -> None:
        """Write the groups of a round, in the order of training, atomically. Round 0 removes the groups of an earlier run without a training step."""
        if not self.writes:
            return
        if number == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        recorded = groups[: sum(end <= MOST_ROWS for end in accumulate(len(group.rewards_G) for group in groups))]
        schema = ROW.with_metadata({"groups": str(len(groups)), "recorded": str(len(recorded))})
        rows = self.rows(number, recorded)
        file = self.folder / f"{number:08x}.parquet"
        with replaced(file) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as out:
            while part := [*islice(rows, PART)]:
                out.write_table(pa.Table.from_pylist(part, schema=schema))

    def rows(self, number: int, groups: Sequence[TrainGroup]) -> Iterator[dict[str, object]]:
        """Yield the row of each attempt of a round."""
        for at, one in enumerate(groups):
            for attempt, reward, advantage in zip(one.group.attempts, one.rewards_G, one.advantages_G, strict=True):
                yield {
                    "round": number,
                    "number": at,
                    "task_id": one.group.task.task_id,
                    "attempt": attempt_key(attempt),
                    "reward": float(reward),
                    "advantage": None if self.by_token else float(advantage),
                }
