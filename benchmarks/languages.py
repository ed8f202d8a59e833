"""Reference programs of MBXP and multilingual HumanEval, judged: python benchmarks/languages.py DATA [COUNT] [OUT.json]

DATA holds mxeval/ as its authors publish it. Of every language that is installed here, COUNT (60) tasks evenly spaced: the reference with its tests behind it must exit with 0.
What does not pass is listed by kind: references that fail their own tests are known to be among them.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path

from machine import machine

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.languages import languages
from upsolve.verify.limits import Judging, Limits
from upsolve.verify.pool.pool import verify

HOW = Judging(Limits(wall_seconds=20, cpu_seconds=10))


def references(file, count):
    """Return tasks with their reference programs, evenly spaced, by the language's name in the rows."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row.get("canonical_solution")]
    for row in rows[:: max(1, len(rows) // count)][:count]:
        task = Task(row["task_id"], "", (TestCase(TestKind.CODE, row["test"]),), row["entry_point"], language=row["language"])
        yield task, Attempt(row["task_id"], row["prompt"] + row["canonical_solution"], language=row["language"].lower())


def kind(verdict):
    """Name a failure in a few words."""
    return f"{verdict.status.value}: {verdict.error_message.strip().splitlines()[0][:90] if verdict.error_message else ''}"


def main(data, count, out):
    """Judge every file and write the table."""
    rows = []
    for file in sorted(data.glob("mxeval/*/*.jsonl")):
        pairs = list(references(file, count))
        name = pairs[0][1].language if pairs else ""
        if name not in languages() or languages()[name].missing():
            continue
        started = time.monotonic()
        verdicts = verify(pairs, HOW)
        seconds = time.monotonic() - started
        failed = Counter(kind(v) for v in verdicts if v.status is not Status.PASSED)
        row = {"file": f"{file.parent.name}/{file.name}", "language": name, "judged": len(pairs)}
        row |= {"passed": len(pairs) - sum(failed.values()), "attempts_per_second": round(len(pairs) / seconds, 1)}
        rows.append(row | {"failed": dict(failed.most_common(12))})
        print(json.dumps(rows[-1]), flush=True)
    out.write_text(json.dumps({"machine": machine(), "files": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    place = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(__file__).parent / "results" / "languages.json"
    main(Path(sys.argv[1]), number, place)
