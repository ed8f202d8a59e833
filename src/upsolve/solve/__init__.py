"""From samples to an answer: outputs of candidates, evidence about them, and the choice among them.

``upsolve.solve(tasks, model)`` calls ``upsolve.solve.solving.solve``.
"""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upsolve.solve.solving import Answer

__all__ = ["SolvePackage"]


class SolvePackage(ModuleType):
    """Makes this package callable, because ``upsolve.solve`` is also the name of a function."""

    @property
    def __wrapped__(self) -> "Callable[..., Iterator[Answer]]":
        """Return the function; tools show its signature and docstring."""
        from upsolve.solve.solving import solve

        return solve

    def __call__(self, *args: Any, **kwargs: Any) -> "Iterator[Answer]":
        """Yield an answer to each task: see ``upsolve.solve.solving.solve``."""
        return self.__wrapped__(*args, **kwargs)


sys.modules[__name__].__class__ = SolvePackage
