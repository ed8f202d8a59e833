"""Small archives for the tests of the viewer."""

import json

from upsolve.archive.store import Archive
from upsolve.evaluate.runs import save_sweep
from upsolve.evaluate.samples import sample_rows
from upsolve.evaluate.scores import Evaluation, Sweep, TaskScore
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict

EVIL = '</script><img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'
TEST = TestCase(TestKind.CALL, "f(2)", "4")


def judged(attempt, status=Status.PASSED, judge="upsolve-1", **fields):
    passed = int(status is Status.PASSED)
    return Verdict(attempt.attempt_id, status, passed, 1, (status,), judge=judge, **fields)


def evil_archive(folder):
    """An archive in which every text tries to run as a script."""
    task = Task(f"evil/{EVIL}", EVIL, (TestCase(TestKind.CALL, EVIL, EVIL),), difficulty=EVIL, reference=EVIL)
    attempt = Attempt(task.task_id, f"x = 1\n{EVIL}\n", author=EVIL, answer=EVIL, extra='{"a": "<b>"}')
    finding = Finding("lint", "<b>", EVIL, 2, 1, 2, 5)
    verdict = judged(attempt, Status.FAILED, findings=(finding,), error_message=EVIL, stdout_head=EVIL)
    archive = Archive.create(folder)
    archive.append(tasks=[task], attempts=[attempt], verdicts=[verdict])
    return archive


def plain_archive(folder, count=250):
    """An archive of two tasks: `a/even` with the even numbers, `a/odd` with the odd ones; every third attempt fails."""
    archive = Archive.create(folder)
    tasks = [Task("a/even", "double", (TEST,), "f", difficulty="easy"), Task("a/odd", "halve", (TEST,), "f", difficulty="hard")]
    attempts = [
        Attempt(
            tasks[number % 2].task_id, f"# number {number}\ndef f(x):\n    return x * {number}\n", author=f"author-{number % 5}"
        )
        for number in range(count)
    ]
    finding = Finding("lint", "F401", "unused", 1)
    verdicts = [
        judged(attempt, Status.PASSED if number % 3 else Status.FAILED, findings=(finding,) if number % 10 == 0 else ())
        for number, attempt in enumerate(attempts)
    ]
    archive.append(tasks=tasks)
    for first in range(0, count, 100):
        archive.append(attempts=attempts[first : first + 100], verdicts=verdicts[first : first + 100])
    return archive


RECIPE = "name: {name}\nmodel: {{name: none}}\ndata: {{archive: '{archive}'}}\nreward: {{verdicts: {verdicts}}}\n"
PASSES = {"base": (4, 0, 0, 0, 0, 0, 0, 0), "trained": (1, 4, 4, 4, 4, 4, 0, 0)}
"""Of four samples at each of eight tasks, how many pass."""
RIGHT, WRONG = "def f(x):\n    return 2 * x\n", "def f(x):\n    return 3 + x\n"


def eight_tasks(folder):
    """An archive of eight tasks to double a number, each with a right and a wrong attempt."""
    archive = Archive.create(folder)
    tasks = [Task(f"d/{n}", f"Double, {n}.", (TEST, TEST), "f", difficulty="easy" if n % 2 else "hard") for n in range(8)]
    attempts = [Attempt(task.task_id, code, author="people") for task in tasks for code in (RIGHT, WRONG)]
    verdicts = [judged(one, Status.PASSED if one.code == RIGHT else Status.FAILED) for one in attempts]
    archive.append(tasks=tasks, attempts=attempts, verdicts=verdicts)
    return archive


def finished_run(folder, archive, *, verdicts="as_judged", passes=PASSES, text=""):
    """The folder of a finished run on an archive of ``eight_tasks``, measured greedily and at temperature 0.5."""
    training = folder / "training"
    training.mkdir(parents=True)
    for file in (folder / "recipe.yaml", training / "recipe.yaml"):
        file.write_text(RECIPE.format(name=folder.name, archive=archive.path, verdicts=verdicts))
    rows = [{"step": 0.0, "heldout_passed_logp": -3.0}] + [{"step": float(n), "round": 0.0, "loss": 2 / n} for n in (1, 2, 3)]
    (training / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = {
        "steps": 3,
        "kept_step": 3,
        "collapsed": "",
        "groups": 4,
        "left_out": {},
        "flagged": {},
        "start": {"heldout_passed_logp": -3.0},
    }
    (training / "summary.json").write_text(json.dumps(summary))
    tasks = [*archive.tasks()]
    for name, counts in passes.items():
        lines, measured = [], []
        for temperature, samples in ((0.0, 1), (0.5, 4)):
            scores = []
            for task, count in zip(tasks, counts, strict=True):
                passed = count if samples == 4 else int(count > 2)
                attempts = [Attempt(task.task_id, (RIGHT if n < passed else WRONG) + text, author=name) for n in range(samples)]
                found = [
                    judged(one) if n < passed else judged(one, Status.FAILED, error_message="test 1: f(2) gave 5, expected 4")
                    for n, one in enumerate(attempts)
                ]
                lines += sample_rows(attempts, found, task_set="a:test", temperature=temperature)
                statuses = {"passed": passed, "failed": samples - passed}
                scores.append(TaskScore(task.task_id, task.difficulty, samples, passed, statuses, 10.0))
            measured.append(Evaluation(name, name, "a:test", temperature, 1.0, 0, 64, tuple(scores), 6.0))
        (folder / f"{name}.samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        greedy, hot = measured
        save_sweep(Sweep(name, (greedy, hot), hot, hot, hot, greedy), folder / f"{name}.json")
    return folder
