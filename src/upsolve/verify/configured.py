"""How a recipe wants attempts judged. Apart from limits.py, for the judge itself needs nothing but the standard library."""

from upsolve.config import VerifyConfig, cache_folder
from upsolve.verify.limits import Judging, Limits

__all__ = ["judging_of"]


def judging_of(config: VerifyConfig, *, lines: bool = False) -> Judging:
    """Return how a recipe wants attempts judged, and whether to note executed lines."""
    c = config
    limits = Limits(c.wall_seconds, c.cpu_seconds, c.memory_bytes, c.output_bytes, test_seconds=c.test_seconds or float("inf"))
    cache = cache_folder() / "verdicts.sqlite" if c.cache else None
    return Judging(limits, c.isolation, c.workers, c.executor, lines, c.repeats, c.analyses, cache)
