"""Progress callbacks of long-running functions."""

from collections.abc import Callable

__all__ = ["OnProgress", "no_progress"]

OnProgress = Callable[[str, int, int], None]
"""Called as ``on_progress(stage, done, total)``: name of the stage, such as ``sample``; units done; units in all, 0 if unknown."""


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""
