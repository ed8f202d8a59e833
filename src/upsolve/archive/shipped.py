"""The archives that come with the package."""

from collections.abc import Mapping
from pathlib import Path

from upsolve.errors import ArchiveError

__all__ = ["EMBEDDED", "SHIPPED", "refuse_shipped"]

EMBEDDED = Path(__file__).parent / "embedded"
"""The archive of Python tasks that comes with the package."""
SHIPPED: Mapping[str, Path] = {"embedded": EMBEDDED, "embedded-sql": EMBEDDED.with_name("embedded_sql")}
"""Archives that come with the package: name -> folder. All are read-only."""


def refuse_shipped(name: str | Path) -> None:
    """Raise ArchiveError if this is the name of an archive of the package, which is read-only."""
    if str(name) in SHIPPED:
        raise ArchiveError(
            f"{name} is part of the package and read-only: copy it (`upsolve archive copy {name} DIR`) and use the copy"
        )
