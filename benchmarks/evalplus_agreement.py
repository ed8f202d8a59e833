"""Judge samples of MBPP+ by EvalPlus and by upsolve, and compare sample by sample.

    python benchmarks/evalplus_agreement.py DATA [OUT.json [SAMPLES]]

DATA is a folder with evalplus/MbppPlus.jsonl and ldb/mbpp as published by their authors. Needs the package evalplus. The samples are exported
by `upsolve archive export --as evalplus`, and read and run by EvalPlus's own code. The output lists every disagreement by kind. EvalPlus's
limits are of elapsed time, so on a busy machine it fails correct programs. SAMPLES of them, chosen at random, take less time than all.
"""

import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import evalplus.data.mbpp
import evalplus.evaluate
from evalplus.data import load_solutions
from evalplus.eval import PASS
from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
from machine import machine

from upsolve.archive.store import Archive
from upsolve.exports.exporting import export_archive
from upsolve.exports.formats import benchmark_id
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Status
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import verify

SETTINGS = JudgeSettings(Limits(wall_seconds=60, cpu_seconds=60, memory_bytes=4 << 30, test_seconds=1))
"""EvalPlus's limits: 4 GiB, a minute, and a second (or four times the reference) for each test."""


def evalplus_outcomes(problem_file, sample_file, folder, count=None):
    """Return EvalPlus's rows in the order of the samples: the id of the task, the program, whether it passed the base and all tests."""
    evalplus.data.mbpp.MBPP_OVERRIDE_PATH, evalplus.evaluate.CACHE_DIR = str(problem_file), str(folder)
    problems = evalplus.data.mbpp.get_mbpp_plus()
    samples = [sample for sample in load_solutions(str(sample_file)) if sample["task_id"] in problems]
    if count:
        samples = random.Random(0).sample(samples, count)
    chosen = {sample["task_id"]: problems[sample["task_id"]] for sample in samples}
    truth = evalplus.evaluate.get_groundtruth(chosen, "truth", MBPP_OUTPUT_NOT_NONE_TASKS)
    rows = []
    for number, sample in enumerate(samples):
        name, code = sample["task_id"], sample["solution"]
        result = evalplus.evaluate.check_correctness("mbpp", number, chosen[name], code, truth[name], fast_check=True)
        rows.append((name, code, result["base"][0] == PASS, result["base"][0] == result["plus"][0] == PASS))
    return rows


def upsolve_outcomes(tasks, samples):
    """Return the verdicts of upsolve on (id of the task, program) pairs, None where it has no such task."""
    by_name = {benchmark_id(task.task_id, ("mbpp",)): task for task in tasks}
    pairs = [(by_name[name], Attempt(by_name[name].task_id, code)) for name, code in samples if name in by_name]
    verdicts = iter(verify(pairs, SETTINGS))
    return [next(verdicts) if name in by_name else None for name, _ in samples]


def compare(data, folder, count=None):
    """Judge all samples by both, and return counts and disagreements."""
    attempts, plus = Archive.create(folder / "ldb"), Archive.create(folder / "plus")
    ingest(attempts, "ldb", data / "ldb" / "mbpp")
    report = ingest(plus, "evalplus", data / "evalplus" / "MbppPlus.jsonl")
    export_archive(attempts, folder / "samples.jsonl", "evalplus")
    theirs = evalplus_outcomes(data / "evalplus" / "MbppPlus.jsonl", folder / "samples.jsonl", folder, count)
    ours = upsolve_outcomes(plus.tasks(), [(name, code) for name, code, _, _ in theirs])
    kinds, disagreements = Counter(), defaultdict(list)
    for (name, _, _, passed), verdict in zip(theirs, ours, strict=True):
        if verdict is None or verdict.status is Status.UNSCORED:
            kinds["not judged by upsolve"] += 1
            continue
        agrees = passed == (verdict.status is Status.PASSED)
        kinds["agree" if agrees else "disagree"] += 1
        if not agrees:
            label = f"EvalPlus {'pass' if passed else 'fail'}, upsolve {verdict.status.value}"
            disagreements[label].append(f"{name}: {verdict.error_message[:120]}")
    judged = kinds["agree"] + kinds["disagree"]
    return {
        "tasks": report.added["tasks"],
        "tasks_set_aside": report.bad,
        "samples": len(theirs),
        "evalplus_passed": {"base": sum(base for _, _, base, _ in theirs), "plus": sum(both for *_, both in theirs)},
        **kinds,
        "agreement": round(kinds["agree"] / judged, 4) if judged else None,
        "disagreements": {label: {"count": len(found), "examples": found[:10]} for label, found in disagreements.items()},
    }


if __name__ == "__main__":
    count = int(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as temporary:
        results = {"machine": machine(), **compare(Path(sys.argv[1]), Path(temporary), count)}
    out = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent / "results" / "evalplus_agreement.json")
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in results.items() if key != "machine"}, indent=1))
