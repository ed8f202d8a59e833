"""What a run cost: samples, tokens and time of each evaluation, and of training."""

from collections.abc import Iterator, Mapping, Sequence

from upsolve.evaluate.records import Evaluation
from upsolve.evaluate.sweep import Sweep
from upsolve.report.tables import Table

__all__ = ["cost_table"]


def cost_table(sweeps: Sequence[Sweep], training: Sequence[Mapping[str, float]]) -> Table:
    """Return samples or steps, tokens and minutes of every evaluation and of training, and the sum of the times."""
    rows: list[tuple[str, str, str, float]] = []
    for sweep in sweeps:
        parts = [*evaluations_of(sweep)]
        samples = sum(sum(score.statuses.values()) for one in parts for score in one.scores)
        rows.append(
            (f"evaluation of {sweep.name}", f"{samples:,} samples", tokens_of(parts), sum(p.wall_seconds for p in parts))
        )
    if training:
        tokens = sum(row.get("attempt_tokens", 0.0) for row in training)
        steps = sum("loss" in row for row in training)
        rows.append(("training", f"{steps:,} steps", f"{tokens:,.0f} trained", sum(time_of(row) for row in training)))
    shown = [(what, how_many, tokens, minutes(seconds)) for what, how_many, tokens, seconds in rows]
    total = ("sum", "", "", minutes(sum(row[3] for row in rows)))
    return Table("Cost", ("", "", "tokens of attempts", "time"), (*shown, total))


def time_of(row: Mapping[str, float]) -> float:
    """Return the seconds of a step, and of the preparation of a round before it: sampling, judging, scoring."""
    return row.get("seconds", 0.0) + row.get("preparing_seconds", 0.0)


def evaluations_of(sweep: Sweep) -> Iterator[Evaluation]:
    """Yield every evaluation of a sweep once, those of its further task sets too."""
    test = [one for each in (sweep, *sweep.others) for one in (each.best, each.greedy, each.hot, each.many) if one is not None]
    yield from {id(one): one for one in (*sweep.dev, *test)}.values()


def tokens_of(evaluations: Sequence[Evaluation]) -> str:
    """Return the number of sampled tokens; a dash if it was not recorded."""
    known = [score for one in evaluations for score in one.scores if score.mean_tokens is not None]
    sampled = sum((score.mean_tokens or 0.0) * sum(score.statuses.values()) for score in known)
    return f"{sampled:,.0f} sampled" if known else "–"


def minutes(seconds: float) -> str:
    """Return a time: seconds below two minutes, else minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
