"""Measure how much the processor time of a program differs between two measurements, as shares of programs of an archive.

    python benchmarks/cost.py [--archive embedded] [--programs 20] [--rounds 5]

Prints the ratio of the larger to the smaller time of each program (median, 95th percentile, largest): of one run, of the median of five runs,
of the cost (``verify.cost``) of programs judged again, and of equal programs judged together.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from upsolve.archive.store import open_archive
from upsolve.types import Attempt, Status, Task
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

Pairs = Sequence[tuple[Task, Attempt]]
Times = list[float | None]


def programs(archive: str, count: int) -> list[tuple[Task, Attempt]]:
    """Return programs that passed, one a task, spread over the archive."""
    found: list[tuple[Task, Attempt]] = []
    for group in open_archive(archive).groups():
        judged = zip(group.attempts, group.verdicts, strict=True)
        passed = [one for one, verdict in judged if verdict is not None and verdict.status is Status.PASSED]
        found += [(group.task, one) for one in passed[:1]]
    return found[:: max(1, len(found) // count)][:count]


def times(pairs: Pairs, cost: int) -> Times:
    """Return the processor time of each program, seconds."""
    return [verdict.cpu_seconds for verdict in verify(pairs, JudgeSettings(cost=cost))]


def median_of_five(pairs: Pairs) -> Times:
    """Return the median of five times of each program."""
    return [median(filter(None, row)) for row in zip(*(times(pairs, 0) for _ in range(5)), strict=True)]


def together(pairs: Pairs, cost: int) -> tuple[Times, Times]:
    """Return the times of each program and of its copy, judged in one batch as the attempts of a group are."""
    copies = [(task, replace(attempt, code=f"{attempt.code}\n#")) for task, attempt in pairs]
    both = times([one for pair in zip(pairs, copies, strict=True) for one in pair], cost)
    return both[::2], both[1::2]


def report(name: str, first: Times, second: Times) -> None:
    """Print how two measurements of the same programs differ."""
    ratios = [max(a, b) / min(a, b) for a, b in zip(first, second, strict=True) if a and b]
    known = f"{name}: {len(ratios)} of {len(first)} programs, ratio: median {np.median(ratios):.3f}"
    print(f"{known}, 95th percentile {np.quantile(ratios, 0.95):.3f}, largest {max(ratios):.3f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", default="embedded")
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    pairs = programs(given.archive, given.programs)
    report("one run", times(pairs, 0), times(pairs, 0))
    report("median of five runs", median_of_five(pairs), median_of_five(pairs))
    report("cost, judged again", times(pairs, given.rounds), times(pairs, given.rounds))
    report("cost, judged together", *together(pairs, given.rounds))


if __name__ == "__main__":
    main()
