"""What is known of the task of some tests, and what is found in them."""

from dataclasses import dataclass
from functools import lru_cache

from upsolve.importers.benchmarks.asserts import Names, names_bound
from upsolve.importers.recogniser.failing import names_in
from upsolve.types import TestCase

__all__ = ["About", "Found"]


@dataclass(frozen=True, slots=True)
class About:
    """What is known of the task of some tests."""

    entry_point: str = ""
    """Function that the tests call, or an expression such as ``Solution().add``; empty if unknown."""
    setup: str = ""
    """The task's setup."""
    language: str = "python"
    """Language of the attempts."""
    codes: tuple[str, ...] = ()
    """Code to start from, and programs: the first that is not empty shows whether the function is a method of ``Solution``."""
    hidden: bool = False
    """Whether a prompt may not show asserts."""
    lenient: bool = False
    """Whether a call that only must not raise is a test, as in upsolve's own files, where each test says its kind."""

    @property
    def own(self) -> frozenset[str]:
        """Names that the attempt must define."""
        return names_of(self.entry_point, "").own

    @property
    def names(self) -> Names:
        """Names that tests may use."""
        return names_of(self.entry_point, self.setup)


@lru_cache(maxsize=64)
def names_of(entry_point: str, setup: str) -> Names:
    """Return the names in the entry point, which the attempt defines, and those that the setup binds."""
    try:
        own = names_in(entry_point)[1]
    except (SyntaxError, ValueError, RecursionError):
        own = frozenset({entry_point})
    return Names(own, names_bound(setup))


@dataclass(frozen=True, slots=True)
class Found:
    """Tests that were found, and those that cannot fail."""

    tests: tuple[TestCase, ...]
    entry_point: str = ""
    """Function that they call, if they say so and it was not known."""
    refused: tuple[tuple[str, str], ...] = ()
    """Reason and text of each test that is left out."""
    kept: tuple[bool, ...] = ()
    """Whether each test is kept, of all in their order; empty if none was left out, or the places of those are unknown."""
    setup: str = ""
    """Code that they need before the attempt."""
    compare: str = ""
    """How their values are compared; empty: as usual."""
    by_code: bool = False
    """Whether the form of a program decided what they call."""
