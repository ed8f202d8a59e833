"""``upsolve tests``: grade, grow and shrink the tests of an archive; and the sanity check of tests after ``ingest`` and ``verify``."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from upsolve.cli.app import ArchivePath, AsJson, Seed, Settings, app, bars, print_json, show
from upsolve.cli.recipes import load
from upsolve.errors import IsolationError

if TYPE_CHECKING:
    from upsolve.archive.store import Archive
    from upsolve.suites.grade import Totals
    from upsolve.types import OnProgress
    from upsolve.verify.limits import JudgeSettings

__all__ = ["Checked", "OutFolder", "grade", "grow", "sanity_of", "shrink"]

MOST_TASKS, MOST_SECONDS = 2000, 30.0
"""Limits of the sanity check after another command: tasks that are judged, and seconds after which no further task is begun."""
Checked = Annotated[
    bool,
    typer.Option(
        "--check/--no-check",
        help="Check that tests fail an empty program and pass the reference, at up to 2,000 tasks and for about 30 s.",
    ),
]

tests_app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Grade, grow and shrink the tests of an archive.",
)
app.add_typer(tests_app, name="tests")


@tests_app.command("grade")
def grade(
    archive: ArchivePath,
    judge: Annotated[
        str, typer.Option(help="Judge whose tests are graded, such as upsolve; default: the preferred verdicts.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Say how strong tests are, by the stored outcomes: tests that fail no attempt, fewest tests that suffice, false passes and failures."""
    from upsolve.archive.preference import is_recorded
    from upsolve.archive.store import open_filled
    from upsolve.suites.grade import grade_archive, totals

    opened = open_filled(archive)
    grades = [*grade_archive(opened, judge)]
    whole = totals(grades)
    if as_json:
        rows = [
            {"task_id": one.task_id, **asdict(one.totals), "redundant": one.redundant, "least": one.least} for one in grades
        ]
        print_json({"archive": archive, "totals": asdict(whole), "tasks": rows})
        return
    show(f"{archive}: tests of {len(grades):,} tasks", ("", "count", "share"), total_rows(whole))
    if whole.recorded < whole.attempts:
        verified = not judge and not all(map(is_recorded, opened.column("verdicts", "judge")))
        fix = "`--judge upsolve` reads those of `upsolve verify`" if verified else "`upsolve verify` stores them"
        typer.echo(f"outcomes of single tests are known for {whole.recorded:,} of {whole.attempts:,} attempts: {fix}")


OutFolder = Annotated[str, typer.Argument(help="Folder of the new archive; the same command resumes an interrupted one.")]


@tests_app.command("shrink")
def shrink(archive: ArchivePath, out: OutFolder, as_json: AsJson = False) -> None:
    """Write an archive with the fewest tests by which every stored attempt passes or fails as before."""
    from upsolve.archive.store import open_filled
    from upsolve.suites.shrink import shrink as write_shrunk

    with bars() as progress:
        rows = write_shrunk(open_filled(archive), out, progress=progress)
    before, after = sum(row["tests"] for row in rows), sum(len(row["kept"]) for row in rows)
    if as_json:
        print_json({"archive": archive, "out": out, "tests": before, "kept": after, "tasks": rows})
        return
    typer.echo(f"{after:,} of {before:,} tests of {len(rows):,} tasks kept: {out}")
    for reason, count in Counter(row["unchanged"] for row in rows if row["unchanged"]).most_common():
        typer.echo(f"{count:,} tasks keep all tests: {reason}")


@tests_app.command("grow")
def grow(
    archive: ArchivePath,
    out: OutFolder,
    inputs: Annotated[int, typer.Option(min=1, help="Mutated inputs of a task that are tried.")] = 100,
    most: Annotated[int, typer.Option(min=1, help="Most new tests of a task.")] = 10,
    agree: Annotated[int, typer.Option(min=2, help="Number of attempts that must agree if a task has no reference.")] = 3,
    visible: Annotated[
        bool, typer.Option("--visible", help="Grow only from the visible tests, as if there were no hidden tests.")
    ] = False,
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write an archive with new tests: mutated inputs on which an attempt that passed every present test is wrong."""
    from upsolve.archive.store import open_filled
    from upsolve.suites.grow import GrowSettings
    from upsolve.suites.grow import grow as write_grown
    from upsolve.verify.limits import judge_settings

    how = GrowSettings(inputs, most, agree, visible, seed or 0)
    judging = judge_settings(load(None, settings, reads=("verify",)).verify)
    with bars() as progress:
        rows = write_grown(open_filled(archive), out, how, settings=judging, progress=progress)
    counts = {name: sum(len(row[name]) for row in rows) for name in ("new", "caught")}
    if as_json:
        print_json({"archive": archive, "out": out, **counts, "tasks": rows})
        return
    passed, grown = sum(row["passed"] for row in rows), sum(bool(row["new"]) for row in rows)
    typer.echo(f"{counts['new']:,} new tests of {grown:,} of {len(rows):,} tasks: {out}")
    typer.echo(
        f"they fail {counts['caught']:,} of {passed:,} programs that pass the present tests: {out}/suites.jsonl names them"
    )
    for reason, count in Counter(row["skipped"] for row in rows if row["skipped"]).most_common():
        typer.echo(f"{count:,} tasks are not grown: {reason}")
    reasons = sum((Counter(row["left_out"]) for row in rows), Counter[str]())
    for reason, count in reasons.most_common():
        typer.echo(f"{count:,} inputs are left out: {reason}")


def sanity_of(
    archive: "Archive", name: str, settings: "JudgeSettings", progress: "OnProgress"
) -> tuple[list[str], dict[str, Any]]:
    """Check the tasks without a sanity result. Returns the findings of this and of earlier checks, as lines and as plain data."""
    try:
        from upsolve.suites.sanity import check_sanity

        checked = check_sanity(archive, settings, most=MOST_TASKS, seconds=MOST_SECONDS, progress=progress)
    except ModuleNotFoundError as error:
        if not (error.name or "").endswith(".suites"):
            raise
        return [], {}  # an installation without the packages beside the pipeline
    except IsolationError as error:
        return [f"the tests were not checked: {error}"], {"missing": str(error)}
    return checked.lines(name), checked.facts()


def total_rows(totals: "Totals") -> list[tuple[str, str, str]]:
    """Return the rows of the summary: name, count, share."""
    named: Sequence[tuple[str, int, int]] = (
        ("tests", totals.tests, 0),
        ("tests that fail no attempt", totals.redundant, totals.tests),
        ("fewest tests that fail every wrong attempt", totals.least, totals.tests),
        ("scored attempts", totals.attempts, 0),
        ("attempts that fail", totals.failed, totals.attempts),
        (
            "attempts that fail a test, failed by a visible one",
            totals.visible_caught,
            totals.visible_caught + totals.visible_false,
        ),
        ("attempts that pass every visible test", totals.visible_passed, 0),
        ("false passes: of these, attempts that fail a hidden test", totals.visible_false, totals.visible_passed),
        ("attempts that another judge scored", totals.compared, 0),
        ("false passes: of these, passed here and failed there", totals.false_passes, totals.compared),
        ("false failures: of these, failed here and passed there", totals.false_failures, totals.compared),
        ("attempts wrong by any judge, caught here", totals.caught, totals.wrong),
    )
    unknown = () if totals.recorded else ("tests that fail no attempt", "fewest tests that fail every wrong attempt")
    shown = [row for row in named if (row[1] or row[2]) and row[0] not in unknown]
    return [(name, f"{count:,}", f"{count / of:.1%} of {of:,}" if of else "") for name, count, of in shown]
