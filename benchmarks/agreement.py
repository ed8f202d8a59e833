"""Judge archives with recorded outcomes again, and compare: python benchmarks/agreement.py DATA [OUT.json]

DATA is a folder with ldb/, refactory/ and codet/ as published by their authors. The output lists every disagreement by kind.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from machine import machine

from upsolve.archive.store import Archive
from upsolve.importers.ingest import ingest
from upsolve.types import Status
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

SETS = (
    ("ldb/mbpp", "ldb", "ldb/mbpp"),
    ("ldb/humaneval", "ldb", "ldb/humaneval"),
    ("refactory", "refactory", "refactory/data.zip"),
    ("codet", "codet", "codet"),
)
SETTINGS = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=5))


def kind(recorded, verdict):
    """Return a short description of a disagreement."""
    ours = verdict.error_type or verdict.status.value
    return f"recorded {recorded.status.value}, ours {verdict.status.value}" + (
        f" ({ours})" if ours != verdict.status.value else ""
    )


def judge_set(name, source, path):
    """Import one data set, judge all of its attempts, and compare with the recorded outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive.create(folder)
        report = ingest(archive, source, path)
        tasks = {task.task_id: task for task in archive.tasks()}
        attempts = archive.attempts()
        started = time.monotonic()
        verdicts = verify([(tasks[a.task_id], a) for a in attempts], SETTINGS)
        seconds = time.monotonic() - started
        recorded = {v.attempt_id: v for v in archive.verdicts()}
    ours = {v.attempt_id: v for v in verdicts}
    by_id = {a.attempt_id: a for a in attempts}
    different = [(r, ours[i]) for i, r in recorded.items() if (r.status is Status.PASSED) != (ours[i].status is Status.PASSED)]
    examples = {}
    for r, v in different:
        examples.setdefault(kind(r, v), []).append(f"{by_id[v.attempt_id].task_id} {v.attempt_id}: {v.error_message[:120]}")
    return {
        "set": name,
        "added": dict(report.added),
        "bad_rows": report.bad,
        "judged": len(verdicts),
        "seconds": round(seconds, 1),
        "attempts_per_second": round(len(verdicts) / seconds, 1),
        "statuses": dict(Counter(v.status.value for v in verdicts).most_common()),
        "with_recorded_outcome": len(recorded),
        "agree": len(recorded) - len(different),
        "agreement": round(1 - len(different) / len(recorded), 4) if recorded else None,
        "disagreements": {
            name: {"count": len(e), "examples": e[:5]} for name, e in sorted(examples.items(), key=lambda x: -len(x[1]))
        },
    }


if __name__ == "__main__":
    data = Path(sys.argv[1])
    results = {"machine": machine(), "limits": {"wall_seconds": 10, "cpu_seconds": 5}, "sets": []}
    for name, source, path in SETS:
        results["sets"].append(judge_set(name, source, data / path))
        print(json.dumps(results["sets"][-1], indent=1), flush=True)
    out = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent / "results" / "agreement.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
