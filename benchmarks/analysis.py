"""How fast attempts are analysed: python benchmarks/analysis.py [OUT.json]

1,000 attempts of the embedded archive: Ruff in runs of 8 (as the workers call it) and of 100, on one process.
"""

import json
import sys
import time
from pathlib import Path

from machine import machine

from upsolve.archive.store import open_archive
from upsolve.verify.analysis.lint import lint


def rate(codes, size):
    """Return attempts a second."""
    started = time.monotonic()
    for start in range(0, len(codes), size):
        lint(codes[start : start + size])
    return round(len(codes) / (time.monotonic() - started), 1)


def main(out):
    """Measure and write down."""
    codes = [attempt.code for attempt in open_archive("embedded").attempts()[:1000]]
    result = {"machine": machine(), "attempts": len(codes)}
    result |= {"ruff, attempts a second": {f"runs of {size}": rate(codes, size) for size in (8, 100)}}
    print(result)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results" / "analysis.json")
