"""Shares of an import, imported in turn, by worker processes, or as tasks of a Ray cluster. The archive does not depend on the choice."""

import ctypes
import os
import signal
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from upsolve.errors import ArchiveError
from upsolve.importers.importing import Job, Journal, import_share
from upsolve.importers.source import SHARE_BYTES, Source, Unit
from upsolve.types import OnProgress
from upsolve.verify.pool.rpc import ray

__all__ = ["import_shares", "shares_of"]

SHARES = 256
"""Most shares into which an import is divided."""
LOST_NODES = 3
"""Number of nodes of a cluster that may be lost while they import the same share."""
PR_SET_PDEATHSIG = 1
job_of_worker: list[Job] = []
"""The import of a worker process."""


def shares_of(source: Source, path: Path, options: Mapping[str, Any]) -> list[list[Unit]]:
    """Return the units of a source in their order, in shares of about equal size, at least ``SHARE_BYTES``."""
    units = (source.split(path, **options) if source.split else ()) or [Unit(path)]
    sizes = [unit.bytes or unit.path.stat().st_size for unit in units]
    limit = max(SHARE_BYTES, sum(sizes) // SHARES)
    shares, filled = [list[Unit]()], 0
    for unit, size in zip(units, sizes, strict=True):
        if filled >= limit:
            shares.append([])
            filled = 0
        shares[-1].append(unit)
        filled += size
    return shares


def import_shares(
    job: Job, shares: Sequence[Sequence[Unit]], *, workers: int, executor: str, on_progress: OnProgress
) -> list[Journal]:
    """Import shares, each from where it was stopped; return their journals in order. ArchiveError if a worker process was killed.

    Args:
        job: the import.
        shares: units of each share.
        workers: processes that import shares at the same time; with 1, this process does.
        executor: ``local``, or ``ray`` for the free cores of a Ray cluster.
        on_progress: called with ``rows: <rows read>``, the shares that are done, and all of them.
    """
    journals: dict[int, Journal] = {}

    def report(read: int = 0) -> None:
        rows = sum(journal.read for journal in journals.values()) + read
        on_progress(f"rows: {rows:,}", len(journals), len(shares))

    if executor == "ray" or min(workers, len(shares)) > 1:
        done = by_ray(job, shares) if executor == "ray" else by_processes(job, shares, workers)
        for number, journal in done:
            journals[number] = journal
            report()
    else:
        for number, units in enumerate(shares):
            journals[number] = import_share(job, number, units, on_rows=report, on_progress=on_progress)
            report()
    return [journals[number] for number in range(len(shares))]


def by_processes(job: Job, shares: Sequence[Sequence[Unit]], workers: int) -> Iterator[tuple[int, Journal]]:
    """Yield the numbers and journals of shares as worker processes finish them."""
    context = get_context("spawn")  # a forked process would inherit locks of Arrow's threads
    pool = ProcessPoolExecutor(min(workers, len(shares)), context, start_worker, (job, warnings.formatwarning))
    try:
        with safe_path():
            found = {pool.submit(work, number, units): number for number, units in enumerate(shares)}
        for future in as_completed(found):
            yield found[future], future.result()
    except BrokenProcessPool as error:
        raise ArchiveError(
            f"{job.archive}: an importing process was killed, perhaps for memory; import again to resume"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def safe_path() -> Generator[None]:
    """Context manager: Python processes started within it do not import from the current folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def by_ray(job: Job, shares: Sequence[Sequence[Unit]]) -> Iterator[tuple[int, Journal]]:
    """Yield the numbers and journals of shares as a Ray cluster finishes them; a share of a lost node restarts on another node."""
    cluster = ray()
    task, given = cluster.remote(num_cpus=1, max_retries=LOST_NODES)(import_share), cluster.put(job)
    found = {task.remote(given, number, units): number for number, units in enumerate(shares)}
    left = [*found]
    try:
        while left:
            (done,), left = cluster.wait(left)
            yield found[done], cluster.get(done)
    except cluster.exceptions.RayTaskError as error:
        raise error.cause from error
    except cluster.exceptions.RayError as error:
        raise ArchiveError(f"{job.archive}: a process of the cluster ended ({error}); import again to resume") from error
    finally:
        for one in left:
            cluster.cancel(one)


def start_worker(job: Job, formatwarning: Callable[..., str]) -> None:
    """Prepare a worker process: it prints warnings as its parent does, and ends with its parent, so that it does not write beside a restarted import."""
    warnings.formatwarning = formatwarning
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = parent_process()
    if parent is None or os.getppid() != parent.pid:  # it had ended before
        os._exit(1)
    job_of_worker.append(job)


def work(number: int, units: Sequence[Unit]) -> Journal:
    """Import a share in a worker process."""
    return import_share(job_of_worker[0], number, units)
