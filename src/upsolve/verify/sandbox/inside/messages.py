"""Messages of the attempt's process: result lines or answers to the tester, and the tester's requests.

Standard library only.
"""

from __future__ import annotations

import json
import marshal
import os

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["STEADY", "next_request", "report", "report_error"]

RESULTS = 3
"""Descriptor of the results: one JSON line per test."""
REQUESTS = 4
"""Descriptor of a tester's requests."""
STEADY = 0.9
"""Share of a time limit: a run with so much processor time would exceed the limit on an idle machine, too."""


def report(text: str) -> None:
    """Write one line to the results."""
    data = text.encode() + b"\n"
    while data:
        data = data[os.write(RESULTS, data) :]


def report_error(**record: Any) -> None:
    """Write a record of JSON-serialisable fields."""
    report(json.dumps(record))


def next_request() -> Any:
    """Return the next request of the tester; None if it has exited."""
    header, data = os.read(REQUESTS, 8), b""
    if len(header) < 8:
        return None
    size = int.from_bytes(header, "little")
    while len(data) < size:
        data += os.read(REQUESTS, size - len(data))
    return marshal.loads(data)
