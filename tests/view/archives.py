"""Small archives for the tests of the viewer."""

from upsolve.archive.store import Archive
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
