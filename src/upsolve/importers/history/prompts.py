"""The statement of a task that is a commit."""

from collections.abc import Sequence

from upsolve.importers.history.changes import Change

__all__ = ["prompt_of"]

MOST_NAMES, MOST_ERROR = 10, 500


def prompt_of(change: Change, failing: Sequence[str], error: str) -> str:
    """Return the statement: what the commit's author wrote, which tests fail, the first error, and the file before.

    Args:
        change: the commit.
        failing: tests that the commit repairs; at most ten are named.
        error: message of the first failure; at most 500 characters are shown.
    """
    tests = "\n".join(f"- {name}" for name in failing[:MOST_NAMES])
    parts = [
        f"Repair {change.path} of the repository {change.repository}. Give the whole file.",
        change.commit.message,
        *([f"These tests fail:\n{tests}"] if failing else []),
        *([f"The first fails with: {error[:MOST_ERROR]}"] if error else []),
        f"{change.path}:",
        f"```python\n{change.before.rstrip()}\n```",
    ]
    return "\n\n".join(parts)
