"""Print the score of `make test-mutants` for each group of files in [tool.mutmut], and exit with 1 if one is below 85 %.

Mutants that no test reaches count as surviving; those that the tests cannot finish count as killed.
"""

import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

from mutmut.stats import status_by_exit_code

GOAL = 0.85
KILLED = ("killed", "timeout", "segfault")


def outcomes(pattern: str) -> Counter[str]:
    """Return the number of mutants with each outcome, of the files that a pattern names."""
    counts: Counter[str] = Counter()
    for path in Path("mutants").glob(f"{pattern}.meta"):
        codes = json.loads(path.read_text())["exit_code_by_key"].values()
        counts.update(status_by_exit_code[code] for code in codes if code is not None)
    return counts


def main() -> int:
    patterns = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutmut"]["only_mutate"]
    rows = {pattern: counts for pattern in patterns if (counts := outcomes(pattern))}
    rows["all"] = sum(rows.values(), Counter())
    scores = {name: sum(counts[status] for status in KILLED) / counts.total() for name, counts in rows.items()}
    for name, counts in rows.items():
        print(f"{name:45} {counts.total():5} mutants, {scores[name]:6.1%} killed  {dict(counts)}")
    return int(min(scores.values()) < GOAL)


if __name__ == "__main__":
    sys.exit(main())
