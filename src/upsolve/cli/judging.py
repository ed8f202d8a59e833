"""Commands around the judge: verify (also over HTTP), doctor, packages."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from upsolve.cli.app import AsJson, Settings, app, bars, next_step, print_json, printable, show, text_of
from upsolve.cli.archives import not_judged_again
from upsolve.cli.recipes import load
from upsolve.cli.suites import Checked, sanity_of
from upsolve.errors import ConfigError
from upsolve.languages import install_command, is_prepared, packages_folder, preparable, prepare
from upsolve.types import Status, Verdict
from upsolve.verify.limits import ANALYSES, ISOLATIONS, Imports, JudgeSettings, judge_settings

if TYPE_CHECKING:
    from upsolve.archive.store import Archive
    from upsolve.archive.unjudged import Programs
    from upsolve.config import RewardConfig

__all__ = ["doctor", "packages", "verify"]

BATCH = 1000
"""Number of verdicts per write."""
Stale = Annotated[
    bool,
    typer.Option("--stale", help="Judge again the attempts whose verdicts a later fix of the judge may change."),
]
Provided = Annotated[
    Imports | None, typer.Option(help="Modules imported before each Python attempt; contest: List, deque, math, ...")
]
Packages = Annotated[
    str | None,
    typer.Option(help="Packages that Python attempts may import, such as numpy,scipy; `upsolve packages` installs them."),
]
Executor = Annotated[
    str | None,
    typer.Option(help="Where attempts are judged: local, ray (the cluster at $RAY_ADDRESS), or URLs of judges, with commas."),
]
Interpreter = Annotated[str | None, typer.Option(help="Language that runs Python programs which read standard input: pypy.")]
Serve = Annotated[bool, typer.Option("--serve", help="Serve the judge over HTTP instead of judging an archive.")]
Host = Annotated[str, typer.Option(help="--serve: address to listen on; an address other than localhost needs a token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="--serve: port to listen on; 0: any free port.")]
TokenFile = Annotated[
    Path | None, typer.Option(help="--serve: file with the token that requests must send; default: $UPSOLVE_TOKEN.")
]


@app.command()
def verify(
    archive: Annotated[str, typer.Argument(help="Folder or URL of the archive to judge.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Judge all attempts, including those that already have a verdict of this judge.")
    ] = False,
    stale: Stale = False,
    recipe: Annotated[
        str | None, typer.Option(help="Recipe whose `verify` section holds the limits; default: its defaults.")
    ] = None,
    settings: Settings = None,
    workers: Annotated[int | None, typer.Option(help="Number of attempts judged in parallel; 0: one per core.")] = None,
    isolation: Annotated[str | None, typer.Option(help=f"Isolation of attempts: {', '.join(ISOLATIONS)}.")] = None,
    executor: Executor = None,
    cache: Annotated[bool | None, typer.Option(help="Cache verdicts by the content of attempt and task.")] = None,
    imports: Provided = None,
    packages: Packages = None,
    python: Interpreter = None,
    repeats: Annotated[int | None, typer.Option(help="Number of times each attempt is judged, to find flaky attempts.")] = None,
    analysis: Annotated[
        list[str] | None, typer.Option(help=f"Static analysis to run: {', '.join(sorted(ANALYSES))} or all; can be repeated.")
    ] = None,
    lines: Annotated[bool, typer.Option(help="Record which lines of each attempt were executed.")] = False,
    check: Checked = True,
    serve: Serve = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Judge the attempts of an archive that this judge has not judged or analysed yet, or serve the judge (--serve). An interrupt loses nothing."""
    options = {"workers": workers, "isolation": isolation, "executor": executor, "cache": cache, "repeats": repeats}
    options |= {
        "imports": imports,
        "python": python,
        "packages": None if packages is None else packages.replace(",", " ").split(),
    }
    options |= {"analyses": sorted(ANALYSES if "all" in (analysis or ()) else {*(analysis or ())}) or None}
    given = [f"verify.{key}={json.dumps(value)}" for key, value in options.items() if value is not None]
    loaded = load(recipe, [*(settings or []), *given], reads=("verify", "reward") if serve else ("verify",))
    judging = judge_settings(loaded.verify, lines=lines)
    if serve == bool(archive):
        raise ConfigError(f"verify takes an archive to judge or --serve, {'not both' if serve else 'and neither is given'}")
    if stale and (everything or serve):
        raise ConfigError(f"--stale excludes {'--all' if everything else '--serve'}")
    if stale:
        judge_stale(archive, judging, as_json=as_json)
    elif archive:
        judge_archive(archive, judging, everything=everything, check=check, as_json=as_json)
    else:
        start(judging, host, port, token_file, rewards=loaded.reward)


def judge_archive(archive: str, settings: JudgeSettings, *, everything: bool, check: bool, as_json: bool) -> None:
    """Judge the programs of an archive that this judge has not judged, or all, check the tests, and print the outcomes."""
    from upsolve.archive.unjudged import unjudged
    from upsolve.verify.analysis.analyst import tools
    from upsolve.verify.judge.outcomes import JUDGE

    store = to_judge(archive)
    with unjudged(store, JUDGE, tools(settings.analyses), everything=everything) as programs:
        judged = judge_programs(store, programs, settings)
    lines, facts = list[str](), dict[str, Any]()
    if check:
        with bars() as progress:
            lines, facts = sanity_of(store, archive, settings, progress)
    if as_json:
        print_json(judged.counts(programs) | ({"sanity": facts} if check else {}))
        return
    typer.echo(
        f"{len(programs)} attempts judged, {programs.done} judged before, {programs.orphans} left out because their task is not in the archive"
    )
    judged.show(settings)
    if lines:
        typer.echo(printable("\n".join(lines)))
    typer.echo(next_step("contradicting labels, near duplicates, secrets", "archive", "doctor", archive))


def judge_stale(archive: str, settings: JudgeSettings, *, as_json: bool) -> None:
    """Judge the programs of an archive again whose verdicts a later fix of the judge concerns, and print fixes and outcomes."""
    from upsolve.archive.unjudged import stale
    from upsolve.verify.changes import CHANGES, changes_since, may_be_stale

    store = to_judge(archive)
    with stale(store, changes_since, may_be_stale()) as programs:
        if programs.reasons and not as_json:
            rows = [(str(fix), CHANGES[fix - 1].summary, f"{count:,}") for fix, count in sorted(programs.reasons.items())]
            show("stale verdicts by the fix of the judge that concerns them", ("fix", "what was wrong", "verdicts"), rows)
        lines = settings.lines or (programs.lines and not settings.python)
        settings = replace(settings.with_analyses(programs.analyses), lines=lines)  # nothing stored is lost
        judged = judge_programs(store, programs, settings)
    unscored = judged.statuses[Status.UNSCORED]
    if as_json:
        by_change = {str(number): count for number, count in programs.reasons.items()}
        print_json({**judged.counts(programs), "changes": by_change, "still_stale": unscored})
        return
    typer.echo(f"{len(programs)} attempts judged again, {programs.done} verdicts are still valid")
    judged.show(settings)
    if unscored:
        typer.echo(not_judged_again(judged.reasons, f"upsolve verify {archive} --stale"))


def to_judge(archive: str) -> "Archive":
    """Open an archive that verdicts can be added to."""
    from upsolve.archive.places import refuse_shipped
    from upsolve.archive.store import Archive

    refuse_shipped(archive)
    return Archive(archive)


@dataclass(frozen=True)
class Judged:
    """Result of a run of the judge over an archive."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    """Verdicts by status."""
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Unscored verdicts by reason."""
    lacking: Counter[str] = field(default_factory=Counter[str])
    """Attempts by the package that they failed to import."""

    def add(self, verdict: Verdict) -> None:
        """Count a verdict."""
        from upsolve.verify.judge.outcomes import NO_MODULE

        self.statuses[verdict.status] += 1
        if verdict.status is Status.UNSCORED:
            self.reasons[(verdict.error_message.splitlines() or [""])[0]] += 1
        lacks = re.search(rf"No module named '(\w+)[\w.]*'{re.escape(NO_MODULE)}", verdict.error_message)
        if lacks and verdict.error_type == "ModuleNotFoundError":
            self.lacking[lacks[1]] += 1

    def counts(self, programs: "Programs") -> dict[str, Any]:
        """Return the counts of the JSON output."""
        counts = {"judged": len(programs), "judged_before": programs.done, "without_task": programs.orphans}
        details = {"statuses": self.statuses, "unscored": self.reasons, "packages_lacked": self.lacking}
        return counts | {name: dict(value) for name, value in details.items()}

    def show(self, settings: JudgeSettings) -> None:
        """Print the outcomes, and the packages that attempts lacked."""
        if self.statuses:
            show_outcomes(self.statuses, self.reasons)
        if self.lacking:
            most = dict(self.lacking.most_common(5))
            names, counts = [*most], ", ".join(f"{name} ({count:,})" for name, count in most.items())
            typer.echo(
                f"packages that attempts failed to import: {counts}. If their own judge has these packages: `upsolve packages "
                f"{' '.join(names)}`, and judge them again with `--packages {','.join((*settings.packages, *names))} --all`"
            )


def judge_programs(store: "Archive", programs: "Programs", settings: JudgeSettings) -> Judged:
    """Judge programs and store their verdicts, batch by batch; an interrupt loses none."""
    from upsolve.verify.pool.pool import judged

    verdicts, result = list[Verdict](), Judged()
    with bars() as progress:
        try:
            for _, verdict in judged(programs, settings):
                verdicts.append(verdict)
                result.add(verdict)
                progress("verify", result.statuses.total(), len(programs))
                if len(verdicts) == BATCH:
                    store.append(verdicts=verdicts)
                    verdicts.clear()
        finally:
            store.append(verdicts=verdicts)
    return result


def show_outcomes(statuses: Counter[str], reasons: Counter[str]) -> None:
    """Print the number of verdicts by outcome and, for unscored ones, by reason, with a remedy for each reason."""
    rows = [(status, f"{count:,}", f"{count / statuses.total():.1%}") for status, count in statuses.most_common()]
    show("outcomes", ("status", "attempts", "share"), rows)
    if reasons:
        untested = sum(count for reason, count in reasons.items() if reason.endswith("has no tests"))
        kinds = Counter({reason: count for reason, count in reasons.items() if not reason.endswith("has no tests")})
        kinds += Counter({"the task has no tests": untested})
        lines = [(reason or "no reason given", f"{count:,}") for reason, count in kinds.most_common(5)]
        show("unscored: a fault of the judge or of the task; no attempt counts as failed for it", ("reason", "attempts"), lines)
        if untested:
            remedy = "training reads recorded outcomes, if there are any; judging and measuring a model need tests"
            typer.echo(f"{untested:,} attempts are at tasks without tests: {remedy}")
        wrong = sum(count for reason, count in reasons.items() if reason.startswith("task ")) - untested
        if wrong > 0:
            remedy = "correct the field that the reason names, ingest the tasks into a new archive, and judge it"
            if any("unknown language" in reason for reason in reasons):
                remedy = f"name the folder of your own language in UPSOLVE_LANGUAGES and rerun this command, or {remedy}"
            typer.echo(f"{wrong:,} attempts are at tasks that cannot be judged: {remedy}")
        if untested + max(wrong, 0) < reasons.total():
            remedy = "once the cause is fixed, rerun this command to judge these attempts again"
            typer.echo(f"run `upsolve doctor` to check the sandbox; {remedy}")


@app.command()
def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Try only one attack of each group.")] = False,
    workers: Annotated[int, typer.Option(min=0, help="Number of attempts judged in parallel; 0: one per core.")] = 0,
    executor: Annotated[
        str, typer.Option(help="Where attempts are judged: local, or ray (the cluster at $RAY_ADDRESS).")
    ] = "local",
    isolation: Annotated[str, typer.Option(help="Isolation to check: required, or gvisor.")] = "required",
    as_json: AsJson = False,
) -> None:
    """Check the layers of the sandbox and try all attacks; the exit code is 1 if a required layer is missing or an attack succeeds."""
    from upsolve.verify.doctor import Check, checks

    try:
        if executor not in ("local", "ray"):
            raise ValueError(f"executor must be local or ray, got {executor!r}; to check another machine, run doctor there")
        settings = JudgeSettings(workers=workers, executor=executor, isolation=isolation)
    except ValueError as error:
        raise ConfigError(f"doctor: {error}") from error
    done, group = list[Check](), ""
    with bars() as progress:
        for check in checks(settings, quick=quick, progress=lambda tried, total: progress("attacks", tried, total)):
            done.append(check)
            if check.group != group and not as_json:
                typer.echo(f"\n{check.group}")
            group = check.group
            if not as_json:
                typer.echo(f"{'ok ' if check.ok else 'NO '} {check.name:<36} {check.detail}")
    failed = sum(check.required and not check.ok for check in done)
    if as_json:
        print_json({"checks": [asdict(check) for check in done], "failed": failed})
    else:
        typer.echo(f"\n{len(done)} checks, {failed} failed" + (", no attack was tried" if group == "layers" else ""))
    if failed:
        raise typer.Exit(code=1)


NAMES = typer.Argument(help="Packages to install, as for pip: numpy, scikit-learn==1.7.")
PREPARE = typer.Option(
    "--prepare", "--headers", help="Build precompiled headers, class data and similar files, which speed up compilation."
)


@app.command()
def packages(names: Annotated[list[str] | None, NAMES] = None, prepared: Annotated[bool, PREPARE] = False) -> None:
    """Install packages that tasks name in ``requires``, for attempts alone; without a name, list what is installed and prepared."""
    folder, failed = packages_folder(), list[str]()
    for language in preparable() if prepared else ():
        try:
            typer.echo(str(prepare(language)))
        except ConfigError as error:  # the others are prepared, too
            failed.append(str(error))
    if failed:
        raise ConfigError("\n".join(failed))
    if names and subprocess.run(install_command(names), check=False).returncode:
        raise ConfigError(f"pip could not install {' '.join(names)} into {folder}; see its output above")
    if not names and not prepared:
        typer.echo(str(folder))
        subprocess.run([sys.executable, "-P", "-m", "pip", "list", "--path", str(folder)], check=False)
        for language in preparable():
            state = "prepared" if is_prepared(language) else "slow, run `upsolve packages --prepare`"
            typer.echo(f"language {language.name}: {state}")


def start(settings: JudgeSettings, host: str, port: int, token_file: Path | None, *, rewards: "RewardConfig") -> None:
    """Serve until stopped; the command's options are the defaults of requests, ``rewards`` those of trainers."""
    from upsolve.reward.formula import analyses_needed
    from upsolve.verify.service.app import serve
    from upsolve.verify.service.scheduler import Service

    if settings.executor not in ("local", "ray"):
        raise ConfigError(f"verify.executor: {settings.executor}: a judge that serves judges by local or ray")
    service = Service(settings.with_analyses(analyses_needed(rewards)), token=token_of(token_file))
    serve(service, host, port, routes=trainer_routes(rewards), say=typer.echo)


def trainer_routes(rewards: "RewardConfig") -> dict[str, Any]:
    """Return the routes of the service for trainers; none in an installation without ``upsolve.adapters``."""
    try:
        from upsolve.adapters.openrlhf import reward_route
    except ModuleNotFoundError as error:
        if not (error.name or "").endswith(".adapters"):
            raise
        return {}
    return {"/openrlhf": reward_route(rewards)}


def token_of(file: Path | None) -> str:
    """Return the token of a file, else of $UPSOLVE_TOKEN; empty without one."""
    if file is None:
        return os.environ.get("UPSOLVE_TOKEN", "").strip()
    token = text_of(file, "--token-file").strip()
    if not token:
        raise ConfigError(f"--token-file {file}: the file is empty; create a token, for example with `openssl rand -hex 32`")
    return token
