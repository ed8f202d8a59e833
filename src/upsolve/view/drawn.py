"""The groups that a run recorded as they were trained on (``train.drawn``), by task."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

__all__ = ["Drawn", "Recorded"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A group as it was trained on."""

    round: int
    """Its round, from 0; offline, an epoch."""
    number: int
    """Its place in the round, from 0."""
    keys: tuple[str, ...]
    """``attempt_key`` of each attempt, [G]."""
    rewards: tuple[float, ...]
    """Reward of each attempt, [G]."""
    advantages: tuple[float | None, ...]
    """Advantage of each attempt, [G]; None where the estimator gives each token its own."""


class Recorded:
    """The recorded groups of a run; read again when there are new files."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; it need not exist."""
        self.folder, self.lock = folder, threading.Lock()
        self.state: list[tuple[str, int]] = []
        self.rows: duckdb.DuckDBPyConnection | None = None
        self.dropped = 0

    def read(self) -> "duckdb.DuckDBPyConnection | None":
        """Return a database with all rows, sorted by task; None if the run recorded nothing."""
        with self.lock:
            files = sorted(self.folder.glob("*.parquet"))
            state = [(file.name, file.stat().st_mtime_ns) for file in files]
            if state != self.state:
                self.state, self.rows = state, load(files) if files else None
                whole = [pq.read_metadata(file).metadata for file in files]
                self.dropped = sum(int(each[b"groups"]) - int(each[b"recorded"]) for each in whole)
            return self.rows

    def tasks(self) -> list[str]:
        """Return the ids of the tasks that have a recorded group, sorted."""
        rows = self.read()
        if rows is None:
            return []
        with rows.cursor() as cursor:
            return [name for (name,) in cursor.execute("select distinct task_id from drawn order by task_id").fetchall()]

    def of_task(self, task_id: str) -> list[Drawn] | None:
        """Return the groups of a task in the order of training; None if the run recorded none of any task."""
        rows = self.read()
        if rows is None:
            return None
        columns = ", ".join(f"list({name} order by file_row_number)" for name in ("attempt", "reward", "advantage"))
        sql = f"select round, number, {columns} from drawn where task_id = ? group by all order by round, number"  # noqa: S608  ours
        with rows.cursor() as cursor:
            found = cursor.execute(sql, [task_id]).fetchall()
        return [Drawn(number, place, *map(tuple, lists)) for number, place, *lists in found]


def load(files: Sequence[Path]) -> "duckdb.DuckDBPyConnection":
    """Return a database with the rows of all files, sorted by task."""
    rows = duckdb.connect()
    sql = "create table drawn as select * from read_parquet(?, file_row_number = true) order by task_id, round, number"
    rows.execute(sql, [[str(file) for file in files]])
    return rows
