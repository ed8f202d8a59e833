"""Memory of an archive of many tasks: python benchmarks/archive_tasks.py WORK [--tasks 300000] [--attempts 8] [--out FILE.json]

Writes a Parquet table of attempts at many tasks (prompts of about 250 characters, programs of about 300) to WORK, once. Each step then runs in a
separate process, in this order:

    import      upsolve ingest table
    build       open the groups for the first time, which builds their table, and read 200 at random
    read        open them again, and read 200 at random

Reported: seconds of processor time, and peak resident memory in MiB.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS = {"prompt": "statement", "code": "program", "status": "verdict", "author": "user"}


def make_table(file, tasks, each):
    """Write the table; an existing one is used again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in COLUMNS.values()])
    words = (HERE.parent / "src" / "upsolve" / "archive" / "store.py").read_text(encoding="utf-8").splitlines(keepends=True)
    drawn = random.Random(0)
    temporary = file.with_suffix(".tmp")
    with pq.ParquetWriter(temporary, schema, compression="zstd") as out:
        for first in range(0, tasks, 1000):
            rows = []
            for task in range(first, min(first + 1000, tasks)):
                statement = f"Problem {task}. " + "".join(words[drawn.randrange(200) :][:6])[:250]
                for number in range(each):
                    program = "".join(words[drawn.randrange(200) :][:8])[:300] + f"# {task} {number}\n"
                    rows.append((statement, program, "AC" if number % 4 == 0 else "WA", f"u{drawn.randrange(5000)}"))
            out.write_table(pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)), schema=schema))
    temporary.rename(file)


def run_here(step, work):
    """Run one step in this process; print its results."""
    from upsolve.archive.store import Archive
    from upsolve.importers.ingest import ingest

    result = {}
    if step == "import":
        shutil.rmtree(work / "archive", ignore_errors=True)
        report = ingest(Archive.create(work / "archive"), "table", work / "attempts.parquet", **COLUMNS)
        result = {"attempts": report.added["attempts"]}
    else:
        groups = Archive(work / "archive").groups()
        attempts = sum(len(groups[index].attempts) for index in random.Random(0).choices(range(len(groups)), k=200))
        result = {"tasks": len(groups), "attempts_read": attempts}
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps({**result, "processor_seconds": round(used.ru_utime + used.ru_stime, 1), "peak_mib": used.ru_maxrss >> 10})
    )


def main():
    """Run every step in a separate process, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--tasks", type=int, default=300_000)
    parser.add_argument("--attempts", type=int, default=8)
    parser.add_argument("--step", choices=["table", "import", "build", "read"])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "archive_tasks.json")
    options = parser.parse_args()
    if options.step == "table":
        make_table(options.work / "attempts.parquet", options.tasks, options.attempts)
        return
    if options.step:
        run_here(options.step, options.work)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ["UPSOLVE_CACHE"] = str(options.work / "cache")
    shutil.rmtree(options.work / "cache", ignore_errors=True)
    given = ["--tasks", str(options.tasks), "--attempts", str(options.attempts)]
    results = {"tasks": options.tasks, "attempts_per_task": options.attempts}
    for step in ("table", "import", "build", "read"):
        if step == "table" and (options.work / "attempts.parquet").exists():
            continue
        started = time.monotonic()
        command = [sys.executable, __file__, str(options.work), *given, "--step", step]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        if step != "table":
            results[step] = json.loads(done.stdout.splitlines()[-1]) | {"seconds": round(time.monotonic() - started, 1)}
            print(step, results[step], flush=True)
    from machine import machine, publish  # imports torch, whose memory the processes of the steps would inherit as their peak

    publish({"machine": machine(), **results}, options.out)


if __name__ == "__main__":
    main()
