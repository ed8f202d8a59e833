"""Speed of the static analyses: python benchmarks/analysis.py [OUT.json] [CHECKERS_BIN]

1,000 attempts of the embedded archive, one process: every analysis in runs of 8 (as the workers call it) and of 100. CHECKERS_BIN, the
bin folder of an environment with other type checkers (pip install mypy pyrefly), adds these and Pyright, from this environment, on the same
100 programs in one run, for comparison.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import machine
from ty import find_ty_bin

from upsolve.archive.store import open_archive
from upsolve.verify.analysis import Source
from upsolve.verify.analysis.analyst import ANALYSES, analyst, tools


def rate(name, sources, size):
    """Return attempts per second, after a warm-up."""
    analyst().findings(name, sources[:8])
    started = time.monotonic()
    for start in range(0, len(sources), size):
        analyst().findings(name, sources[start : start + size])
    return round(len(sources) / (time.monotonic() - started), 1)


def seconds(command, folder):
    """Return the median time of three runs of a checker."""
    times = []
    for _ in range(3):
        started = time.monotonic()
        done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
        times.append(time.monotonic() - started)
        assert done.returncode in (0, 1), done.stderr
    return round(statistics.median(times), 3)


def checkers(sources, others):
    """Return the seconds that each checker takes for 100 programs."""
    own = Path(sys.executable).parent
    commands = {
        "ty": [find_ty_bin(), "check"],
        "pyright": [own / "pyright"],
        "mypy": [others / "mypy", "--no-incremental", "--ignore-missing-imports"],
        "pyrefly": [others / "pyrefly", "check"],
    }
    with tempfile.TemporaryDirectory() as folder:
        for number, source in enumerate(sources[:100]):
            (Path(folder) / f"m{number}.py").write_text(source.code, encoding="utf-8")
        return {name: seconds([str(word) for word in command], folder) for name, command in commands.items()}


def main(out, others=None):
    """Measure and write the results."""
    sources = [Source(attempt.code, names=frozenset({"f"})) for attempt in open_archive("embedded").attempts()[:1000]]
    rates = {name: {f"runs of {size}": rate(name, sources, size) for size in (8, 100)} for name in ANALYSES}
    result = {"machine": machine(), "attempts": len(sources), "tools": tools(tuple(ANALYSES)), "attempts a second": rates}
    if others:
        result["checkers of types, seconds for 100 programs"] = checkers(sources, Path(others))
    print(json.dumps(result, indent=1))
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results" / "analysis.json", *sys.argv[2:3])
