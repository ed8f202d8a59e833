"""Import, and drawing of groups, at the size of Project CodeNet: python benchmarks/archive_size.py WORK [--files 1000000] [--out FILE.json]

Creates a tree in CodeNet's layout in WORK (once): problems with 2,500 submissions each, one file per submission. Each arm runs in a separate
process. Five write Parquet or Arrow files:

    upsolve            upsolve ingest codenet: tasks, attempts, recorded verdicts, checks of every field
    upsolve_workers    the same with --workers 2
    upsolve_packed     upsolve ingest table, from the Parquet files of pandas
    pandas             a data frame per problem with the code of its submissions
    datasets           Dataset.from_generator over the same rows

Three then answer the same questions from what was written: the submissions by status, and for each problem the number of authors and of accepted
submissions. And three draw problems at random, and read all submissions of each: upsolve as ``Group`` records with verdicts, the others as
dictionaries; ``sample_upsolve`` draws groups of four, as training does, and reads these.

A run that was stopped goes on with the next arm (WORK/results.json); remove WORK to measure again.

Reported: rows per second (of time, and of processor time of all processes), peak resident memory of the largest process, bytes per row on disk,
seconds per question, milliseconds per group, microseconds per attempt. ``load`` is the load average (1 minute) before and after each arm: on
a busy machine, compare processor seconds.
"""

import argparse
import csv
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
EACH = 2500
SMALL = 50_000  # groups.SMALL_ROWS, not imported: the processes of the arms would inherit the memory as their peak
COLUMNS = (
    "submission_id,problem_id,user_id,date,language,original_language,filename_ext,status,cpu_time,memory,code_size,accuracy"
)
STATUSES = ("Accepted", "Wrong Answer", "Time Limit Exceeded", "Runtime Error")


def make_tree(folder, files):
    """Create the tree; a finished one is used again."""
    done = folder / f"{files}.done"
    if done.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "metadata").mkdir(parents=True)
    words = (HERE.parent / "src" / "upsolve" / "archive" / "store.py").read_text(encoding="utf-8").splitlines(keepends=True)
    random.seed(0)
    names = [f"p{number:05d}" for number in range(files // EACH)]
    with (folder / "metadata" / "problem_list.csv").open("w") as out:
        out.write("id,name,dataset,time_limit,memory_limit,rating,tags,complexity\n")
        out.writelines(f"{name},Problem {name},AIZU,1000,131072,,,\n" for name in names)
    for name in names:
        code = folder / "data" / name / "Python"
        code.mkdir(parents=True)
        with (folder / "metadata" / f"{name}.csv").open("w") as out:
            out.write(f"{COLUMNS}\n")
            for number in range(EACH):
                submission = f"s{name[1:]}{number:05d}"
                start = random.randrange(200)
                (code / f"{submission}.py").write_text("".join(words[start : start + 12]) + f"# {submission}\n")
                status = STATUSES[number % 4]
                out.write(
                    f"{submission},{name},u{number % 997},1400000000,Python,Python3,py,{status},{number % 900},9000,500,\n"
                )
    done.write_text("")


def rows_of(tree):
    """Yield a dictionary for each submission, as pandas and datasets read it."""
    for file in sorted((tree / "metadata").glob("p[0-9]*.csv")):
        with file.open(newline="") as text:
            for row in csv.DictReader(text):
                path = tree / "data" / row["problem_id"] / row["language"] / f"{row['submission_id']}.{row['filename_ext']}"
                yield {**row, "code": path.read_text()}


def with_upsolve(tree, out, workers=1):
    """Import by upsolve."""
    from upsolve.archive.store import Archive
    from upsolve.importers.ingest import ingest

    report = ingest(Archive.create(out), "codenet", tree, workers=workers)
    assert report.added["attempts"] == report.added["verdicts"], report.text()
    return report.added["attempts"]


def with_pandas(tree, out):
    """Import by pandas, problem by problem."""
    import pandas as pd

    out.mkdir()
    count = 0
    for file in sorted((tree / "metadata").glob("p[0-9]*.csv")):
        frame = pd.read_csv(file, dtype=str)
        paths = (
            tree.as_posix()
            + "/data/"
            + frame.problem_id
            + "/"
            + frame.language
            + "/"
            + frame.submission_id
            + "."
            + frame.filename_ext
        )
        frame["code"] = [Path(path).read_text() for path in paths]
        frame.to_parquet(out / f"{file.stem}.parquet", compression="zstd")
        count += len(frame)
    return count


def with_packed(tree, out):
    """Import by upsolve from the Parquet files that pandas wrote."""
    from upsolve.archive.store import Archive
    from upsolve.importers.ingest import ingest

    columns = {"prompt": "problem_id", "code": "code", "status": "status", "author": "user_id"}
    report = ingest(Archive.create(out), "table", tree.parent / "pandas", **columns)
    return report.added["attempts"]


def with_datasets(tree, out):
    """Import by Hugging Face datasets."""
    import datasets

    datasets.disable_progress_bars()
    data = datasets.Dataset.from_generator(lambda: rows_of(tree), cache_dir=str(out / "cache"))
    data.save_to_disk(str(out / "saved"))
    return len(data)


def timed(function):
    """Return the result of a function and its seconds."""
    started = time.monotonic()
    return function(), time.monotonic() - started


QUESTIONS = (
    "select status, count(*) as n from verdicts group by status order by status",
    """select task_id, count(distinct author) as authors, count(*) filter (status = 'passed') as accepted
    from attempts join verdicts using (attempt_id) group by task_id order by task_id""",
)


def ask_upsolve(work):
    """Ask by SQL."""
    from upsolve.archive.store import Archive

    archive = Archive(work / "upsolve")
    return [timed(lambda sql=sql: len(archive.query(sql)))[1] for sql in QUESTIONS]


def ask_frames(by_status, by_problem):
    """Ask data frames with the columns of each question."""
    first = timed(lambda: len(by_status().status.value_counts()))[1]

    def second():
        frame = by_problem()
        frame["accepted"] = frame.status == "Accepted"
        return len(frame.groupby("problem_id").agg(authors=("user_id", "nunique"), accepted=("accepted", "sum")))

    return [first, timed(second)[1]]


def ask_pandas(work):
    """Ask data frames of the columns of each question."""
    import pandas as pd

    return ask_frames(*(lambda c=c: pd.read_parquet(work / "pandas", columns=c) for c in (["status"], [*BY_PROBLEM])))


def ask_datasets(work):
    """Ask data frames of the columns of each question."""
    import datasets

    data = datasets.load_from_disk(str(work / "datasets" / "saved"))
    return ask_frames(*(lambda c=c: data.select_columns(c).to_pandas() for c in (["status"], [*BY_PROBLEM])))


BY_PROBLEM = ("problem_id", "user_id", "status")


def draw_upsolve(work):
    """Return a function that reads a group and returns its number of attempts, and the number of groups."""
    from upsolve.archive.store import Archive

    groups = Archive(work / "upsolve").groups()
    return lambda index: len(groups[index].attempts), len(groups)


def sample_upsolve(work):
    """Return a function that draws a group of four attempts at a problem and reads them, as training does."""
    import numpy as np

    from upsolve.archive.outline import outline_of
    from upsolve.archive.store import Archive
    from upsolve.config import DataConfig
    from upsolve.train.data.groups import sample_outline

    groups, data, random = Archive(work / "upsolve").groups(), DataConfig(group_size=4), np.random.default_rng(0)
    outline_of(groups, 0)  # computed when it is asked for first

    def read(index):
        outline = outline_of(groups, index)
        return len(outline.read(sample_outline(outline, data, random)[0]).attempts)

    return read, len(groups)


def draw_pandas(work):
    """Read the file of a problem."""
    import pandas as pd

    files = sorted((work / "pandas").glob("*.parquet"))
    return lambda index: len(pd.read_parquet(files[index]).to_dict("records")), len(files)


def draw_datasets(work):
    """Read the rows of a problem, which follow one another."""
    import datasets
    import numpy as np

    data = datasets.load_from_disk(str(work / "datasets" / "saved"))
    _, starts = np.unique(data["problem_id"], return_index=True)
    ends = [*sorted(starts), len(data)]
    return lambda index: len(data[int(ends[index]) : int(ends[index + 1])]["code"]), len(starts)


ARMS = {
    "upsolve": with_upsolve,
    "upsolve_workers": lambda tree, out: with_upsolve(tree, out, workers=2),
    "pandas": with_pandas,
    "upsolve_packed": with_packed,
    "datasets": with_datasets,
}
ASK = {"ask_upsolve": ask_upsolve, "ask_pandas": ask_pandas, "ask_datasets": ask_datasets}
DRAW = {
    "draw_upsolve": draw_upsolve,
    "sample_upsolve": sample_upsolve,
    "draw_pandas": draw_pandas,
    "draw_datasets": draw_datasets,
}


def write(arm, tree, out):
    """Write the rows of the tree."""
    shutil.rmtree(out, ignore_errors=True)
    count, seconds = timed(lambda: ARMS[arm](tree, out))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    worked = sum(one.ru_utime + one.ru_stime for one in used)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file() and "cache" not in file.parts)
    return {
        "rows": count,
        "seconds": round(seconds, 1),
        "rows_per_second": round(count / seconds),
        "rows_per_processor_second": round(count / worked),
        "bytes_per_row": round(size / count),
    }


def draw(arm, work):
    """Open what an arm has written twice, and read 200 problems at random."""
    _, first = timed(lambda: DRAW[arm](work))
    (read, groups), again = timed(lambda: DRAW[arm](work))
    chosen = random.Random(0).choices(range(groups), k=200)
    worked = time.process_time()
    attempts, seconds = timed(lambda: sum(read(index) for index in chosen))
    worked = time.process_time() - worked
    return {
        "groups": groups,
        "first_open_seconds": round(first, 1),
        "open_seconds": round(again, 3),
        "milliseconds_per_group": round(seconds / len(chosen) * 1000, 2),
        "microseconds_per_attempt": round(seconds / attempts * 1e6, 1),
        "processor_microseconds_per_attempt": round(worked / attempts * 1e6, 1),
    }


def run_here(arm, work):
    """Run one arm in this process; print its results."""
    before = os.getloadavg()[0]
    if arm in ARMS:
        result = write(arm, work / "tree", work / arm)
    elif arm in ASK:
        seconds = ASK[arm](work)
        result = {"question_seconds": [round(one, 2) for one in seconds]}
    else:
        result = draw(arm, work)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({**result, "peak_mib": peak >> 10, "load": [round(before, 1), round(os.getloadavg()[0], 1)]}))


def main():
    """Run every arm in a separate process, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--files", type=int, default=1_000_000, help="above 50,000: smaller archives are held in memory")
    parser.add_argument("--arm", choices=[*ARMS, *ASK, *DRAW])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "archive_size.json")
    options = parser.parse_args()
    if options.arm:
        run_here(options.arm, options.work)
        return
    if options.files <= SMALL:
        parser.error(f"--files: above {SMALL:,}; smaller archives are held in memory, and no groups are drawn from their table")
    make_tree(options.work / "tree", options.files)
    os.environ["UPSOLVE_CACHE"] = str(options.work / "cache")
    shutil.rmtree(options.work / "cache", ignore_errors=True)
    about = {"files": options.files, "submissions_per_problem": EACH}
    file = options.work / "results.json"
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    results = results if about.items() <= results.items() else about
    for arm in (arm for arm in (*ARMS, *ASK, *DRAW) if arm not in results):
        command = [sys.executable, __file__, str(options.work), "--arm", arm]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results[arm] = json.loads(done.stdout.splitlines()[-1])
        file.write_text(json.dumps(results), encoding="utf-8")
        print(arm, results[arm], flush=True)
    from machine import machine  # imports torch, whose memory the processes of the arms would inherit as their peak

    results = {"machine": machine(), **results}
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
