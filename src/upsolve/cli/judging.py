"""Commands around the judge: verify, doctor."""

from pathlib import Path
from typing import Annotated

import typer

from upsolve.cli.app import app
from upsolve.cli.progress import bars
from upsolve.cli.serving import Host, Port, Serve, TokenFile, start
from upsolve.errors import ConfigError
from upsolve.verify.limits import ANALYSES, Judging

__all__ = ["doctor", "verify"]

BATCH = 1000
"""Verdicts written at once."""


@app.command()
def verify(
    archive: Annotated[Path | None, typer.Argument(help="Archive to judge.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Judge again what this judge has judged.")] = False,
    workers: Annotated[int, typer.Option(help="Attempts at once; 0 means one a core.")] = 0,
    isolation: Annotated[str, typer.Option(help="required or best_effort.")] = "required",
    executor: Annotated[str, typer.Option(help="local, or ray for the cluster of $RAY_ADDRESS.")] = "local",
    cache: Annotated[bool, typer.Option(help="Take and keep verdicts by content.")] = True,
    repeats: Annotated[int, typer.Option(help="Judge so often, to find flaky attempts.")] = 1,
    analysis: Annotated[list[str] | None, typer.Option(help=f"{', '.join(sorted(ANALYSES))} or all; can be repeated.")] = None,
    lines: Annotated[bool, typer.Option(help="Note which lines were executed.")] = False,
    serve: Serve = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: TokenFile = None,
) -> None:
    """Judge the attempts of an archive that this judge has not judged, or analysed, yet. An interrupt loses nothing. Or --serve."""
    from upsolve.files import cache_folder

    try:
        how = Judging(
            isolation=isolation,
            workers=workers,
            executor=executor,
            lines=lines,
            repeats=repeats,
            analyses=tuple(sorted(ANALYSES if "all" in (analysis or ()) else set(analysis or ()))),
            cache=cache_folder() / "verdicts.sqlite" if cache else None,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if serve == bool(archive):
        raise ConfigError("verify takes an archive to judge, or --serve, and not both")
    if archive:
        judge_archive(archive, how, everything=everything)
    else:
        start(how, host, port, token_file)


def judge_archive(archive: Path, how: Judging, *, everything: bool) -> None:
    """Judge what an archive holds, batch by batch."""
    from upsolve.archive.store import Archive
    from upsolve.types import Status, Verdict
    from upsolve.verify.analysis.analyst import tools
    from upsolve.verify.judge.outcomes import JUDGE
    from upsolve.verify.pool.pool import judged

    store, wanted = Archive(archive), set(tools(how.analyses))
    earlier = (v for v in store.verdicts() if v.judge == JUDGE and v.status is not Status.UNSCORED)
    done = set[str]() if everything else {v.attempt_id for v in earlier if wanted <= {*v.analyses}}
    tasks = {task.task_id: task for task in store.tasks()}
    fresh = [attempt for attempt in store.attempts() if attempt.attempt_id not in done]
    todo = [attempt for attempt in fresh if attempt.task_id in tasks]
    verdicts: list[Verdict] = []
    with bars() as progress:
        try:
            for number, (_, verdict) in enumerate(judged([(tasks[attempt.task_id], attempt) for attempt in todo], how), 1):
                verdicts.append(verdict)
                progress("verify", number, len(todo))
                if number % BATCH == 0:
                    store.append(verdicts=verdicts)
                    verdicts.clear()
        finally:  # an interrupt loses no verdict
            store.append(verdicts=verdicts)
    typer.echo(f"judged {len(todo)}, {len(done)} were judged before, {len(fresh) - len(todo)} have no task here")


@app.command()
def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="One attack of each group.")] = False,
    workers: Annotated[int, typer.Option(help="Attempts at once; 0 means one a core.")] = 0,
    executor: Annotated[str, typer.Option(help="local, or ray for the cluster of $RAY_ADDRESS.")] = "local",
) -> None:
    """Say which layers of the sandbox work here, and try every attack; exit 1 when a required layer is missing or an attack works."""
    from upsolve.verify.doctor import checks

    failed, made, group = 0, 0, ""
    with bars() as progress:
        how = Judging(workers=workers, executor=executor)
        for check in checks(how, quick=quick, progress=lambda done, total: progress("attacks", done, total)):
            if check.group != group:
                group = check.group
                typer.echo(f"\n{group}")
            typer.echo(f"{'ok ' if check.ok else 'NO '} {check.name:<36} {check.detail}")
            made += 1
            failed += check.required and not check.ok
    typer.echo(f"\n{made} checks, {failed} failed" + (", no attack was tried" if group == "layers" else ""))
    if failed:
        raise typer.Exit(code=1)
