"""Commands around the judge: verify, doctor."""

from pathlib import Path
from typing import Annotated

import typer

from upsolve.cli.app import app, bars

__all__ = ["doctor", "verify"]


@app.command()
def verify(
    archive: Annotated[Path, typer.Argument(help="Archive to judge.")],
    everything: Annotated[bool, typer.Option("--all", help="Judge again what this judge has judged.")] = False,
    workers: Annotated[int, typer.Option(help="Attempts at once; 0 means one a core.")] = 0,
    isolation: Annotated[str, typer.Option(help="required or best_effort.")] = "required",
    executor: Annotated[str, typer.Option(help="local, or ray for the cluster of $RAY_ADDRESS.")] = "local",
    cache: Annotated[bool, typer.Option(help="Take and keep verdicts by content.")] = True,
    repeats: Annotated[int, typer.Option(help="Judge so often, to find flaky attempts.")] = 1,
    lint: Annotated[bool, typer.Option(help="Add Ruff's findings, its security rules too.")] = False,
    lines: Annotated[bool, typer.Option(help="Note which lines were executed.")] = False,
) -> None:
    """Judge the attempts of an archive that this judge has not judged yet; a stop loses at most one batch."""
    from upsolve.archive.store import Archive
    from upsolve.config import cache_folder
    from upsolve.types import Status
    from upsolve.verify.limits import Judging
    from upsolve.verify.outcomes import JUDGE
    from upsolve.verify.pool import verify as judge_all

    file = cache_folder() / "verdicts.sqlite" if cache else None
    how = Judging(
        isolation=isolation,
        workers=workers,
        executor=executor,
        lines=lines,
        repeats=repeats,
        analyses=("lint",) if lint else (),
        cache=file,
    )

    store = Archive(archive)
    judged = (v.attempt_id for v in store.verdicts() if v.judge == JUDGE and v.status is not Status.UNSCORED)
    done = set() if everything else set(judged)
    tasks = {task.task_id: task for task in store.tasks()}
    fresh = [attempt for attempt in store.attempts() if attempt.attempt_id not in done]
    todo = [attempt for attempt in fresh if attempt.task_id in tasks]
    with bars() as progress:
        for start in range(0, len(todo), 1000):
            part = todo[start : start + 1000]
            seen = iter(range(start + 1, start + len(part) + 1))
            verdicts = judge_all(
                [(tasks[attempt.task_id], attempt) for attempt in part],
                how,
                on_done=lambda _i, _v, seen=seen: progress("verify", next(seen), len(todo)),
            )
            store.append(verdicts=verdicts)
    typer.echo(f"judged {len(todo)}, {len(done)} were judged before, {len(fresh) - len(todo)} have no task here")


@app.command()
def doctor() -> None:
    """Say which layers of the sandbox work here, and try some threats; exit 1 when a required layer is missing."""
    from upsolve.verify.doctor import checks

    failed = 0
    for check in checks():
        typer.echo(f"{'ok ' if check.ok else 'NO '} {check.name:<24} {check.detail}")
        failed += check.required and not check.ok
    if failed:
        raise typer.Exit(code=1)
