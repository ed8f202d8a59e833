"""Commands around an archive: ingest, capture, archive info and query, and derive, which makes tasks from its attempts."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from upsolve.cli.app import (
    ArchivePath,
    AsJson,
    Seed,
    Settings,
    answer,
    app,
    bars,
    completed,
    next_step,
    print_json,
    printable,
    records,
    show,
    show_rows,
)
from upsolve.cli.recipes import load
from upsolve.cli.suites import Checked, OutFolder, sanity_of
from upsolve.errors import ConfigError, counted

if TYPE_CHECKING:
    from upsolve.archive.info import Agreement
    from upsolve.archive.labels import JudgeLabels

__all__ = [
    "archive_app",
    "capture",
    "derive",
    "info",
    "ingest",
    "list_records",
    "not_judged_again",
    "options_of",
    "query",
    "score",
]

TITLES = {
    "statuses": "attempts by outcome",
    "judges": "verdicts by judge",
    "sources": "tasks by source",
    "authors": "attempts by author, the ten most frequent",
    "contradictions": "programs whose labels contradict each other; `archive query` names them (view contradictions)",
}
MEANINGS = {
    "attempts": "equal code by another author is another attempt",
    "programs": "equal code at a task counts once",
    "seen": "attempts as imported, repeated ones included",
    "verdicts": "last outcome of each judge on each program",
    "scores": "numbers by scorers, beside outcomes",
    "unjudged": "attempts without a verdict (`upsolve verify`)",
    "contradicting": "programs that passed and failed",
    "mixed tasks": "tasks with a passed and a failed attempt",
    "bytes": "size on disk",
    "stale": "verdicts that a later fix of the judge may change",
}
"""Meaning of the counts of ``archive info``."""

archive_app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Inspect, query, copy and export archives.",
)
app.add_typer(archive_app, name="archive")


SourceName = Annotated[
    str,
    typer.Argument(
        help="Name of a source (`upsolve ingest --sources`), or my_reader.py:SOURCE.",
        autocompletion=completed(records("source")),
    ),
]
MaxRejected = Annotated[
    float | None,
    typer.Option(
        help="Largest share of rejected records, and of attempts without a task (default: 0.01 for most sources); above it, the exit code is 1."
    ),
]


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def ingest(
    context: typer.Context,
    source: SourceName = "",
    path: Annotated[
        str, typer.Argument(help="File or folder to read, its URL (s3://bucket/folder), or a data set: hf://ORG/NAME:SPLIT.")
    ] = "",
    archive: Annotated[str, typer.Argument(help="Archive to add to, a folder or URL; created if it does not exist.")] = "",
    option: Annotated[list[str] | None, typer.Option(help="Option of the source, key=value; --key value is the same.")] = None,
    max_rejected: MaxRejected = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that read sources of several files; 0: one per usable core.")
    ] = 0,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="Where the processes run: this machine, or a Ray cluster.")
    ] = "local",
    check: Checked = True,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Read all rows, show the first task and attempt, count the rows, and store nothing."),
    ] = False,
    write_map: Annotated[
        str, typer.Option(metavar="FILE", help="Write the map that was inferred, to be changed and given with --map.")
    ] = "",
    sources: Annotated[bool, typer.Option("--sources", help="List the sources; with SOURCE, its options.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import tasks, attempts and recorded verdicts. Repeat the command to resume an interrupted import; nothing is stored twice."""
    if sources:
        list_records("source", "path", source, as_json=as_json)
        return
    words, shown = [source, path, archive, *context.args], dict[str, Any]()
    source, path, archive, given = arguments(words, option, needs_archive=not (dry_run or write_map))
    if dry_run or write_map or not source:
        source, given, shown = look(
            source, path, given, write_map=write_map, whole=dry_run, max_rejected=max_rejected, as_json=as_json
        )
    if dry_run or not archive:
        if as_json:
            print_json({"reading": shown})
        return
    how = {"workers": workers, "executor": executor, "max_rejected": max_rejected}
    report, facts, text = stored(source, path, archive, {**how, **given}, check=check)
    if not report.too_many:
        text = f"{text}\n{after_import(archive)}"
    answer(facts | ({"reading": shown} if shown else {}), text, as_json=as_json)
    if report.too_many or report.orphaned:
        raise typer.Exit(1)


def after_import(archive: str) -> str:
    """Return the line with the command that comes after an import: sample if there are no attempts, judge if there are tests."""
    from upsolve.archive.store import Archive

    (found,) = (
        Archive(archive)
        .query(
            "select (select count(*) from attempts) as attempts, (select count(*) from tasks where len(tests) > 0) as tested"
        )
        .to_pylist()
    )
    if not found["attempts"]:
        return next_step("attempts of a model", "sample", "--archive", archive)
    if found["tested"]:
        return next_step("verdicts", "verify", archive)
    return next_step("contradicting labels, near duplicates, secrets", "archive", "doctor", archive)


def stored(source: str, path: str, archive: str, options: dict[str, Any], *, check: bool) -> tuple[Any, dict[str, Any], str]:
    """Import a path; return the report, and the facts and text of the report and of the tests' check."""
    from upsolve.archive.store import archive_for_import
    from upsolve.importers.ingest import ingest as read_in
    from upsolve.verify.limits import judge_settings
    from upsolve.verify.resources import usable_cores

    options["workers"] = options["workers"] or usable_cores()
    with bars() as progress:
        with archive_for_import(archive) as opened:
            report = read_in(opened, source, path, on_progress=progress, **options)
        facts, text = report.facts(), report.text()
        if check and not report.too_many:
            lines, facts["sanity"] = sanity_of(opened, archive, judge_settings(load(None, None).verify), progress)
            text = "\n".join([text, *lines])
    return report, facts, printable(text)


def arguments(words: Sequence[str], option: list[str] | None, *, needs_archive: bool) -> tuple[str, str, str, dict[str, str]]:
    """Return source (empty if none is named), path, archive and options of ``ingest``."""
    from upsolve.plugins import names

    places, given = words_of(words, option)
    if len(places) > 3:
        raise typer.BadParameter(f"unexpected argument {places[3]}")
    if len(places) == 2 and not needs_archive and not Path(places[0]).exists() and Path(places[1]).exists():
        places = [*places, ""]  # a source and a path, of which nothing is stored
    if len(places) == 2 and not Path(places[0]).exists() and places[0] in names("source"):
        raise typer.BadParameter(
            f"{places[0]} is a source, and the archive is missing: upsolve ingest {shlex.join(places)} ARCHIVE"
        )
    source, path, archive = places if len(places) == 3 else ["", *places, "", ""][:3]
    if not path or (needs_archive and not archive):
        raise typer.BadParameter("ingest needs PATH ARCHIVE, or SOURCE PATH ARCHIVE")
    return source, path, archive, given


def look(
    source: str, path: str, given: dict[str, str], *, write_map: str, whole: bool, max_rejected: float | None, as_json: bool
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Show how a path is read; if no source is named, recognise one. Returns the source, its options, and the shown facts."""
    from upsolve.archive.places import download, is_url
    from upsolve.importers.door import Reading, map_file, preview, reading_of
    from upsolve.importers.ingest import find_source

    local = download(path) if is_url(path) else Path(path)
    if source or "map" in given:
        rest = {name: value for name, value in given.items() if source or name != "map"}
        reading = Reading(source or given["map"], "named", rest)
    else:
        reading = reading_of(local, given)
    if write_map:
        file, text = Path(write_map), reading.as_map()
        if file.is_file() and file.read_bytes() not in (b"", text.encode()):
            raise ConfigError(f"--write-map {file}: exists with other content; name a new file, or remove this one")
        file.write_text(text, encoding="utf-8")
    name = str(map_file(reading)) if reading.tree else reading.source
    _, record, options = find_source(name, reading.options)
    facts: dict[str, Any] = {"source": name, "why": reading.why, "options": dict(reading.options)}
    if not as_json:
        answer({}, printable(f"{path}: read as {reading.source}: {reading.why}"), as_json=False)
    if whole or not (record.marks or record.reports):  # whose records take long to come
        seen = preview(record, local, options, whole=whole, max_rejected=max_rejected)
        facts["preview"] = seen.facts()
        if not as_json:
            answer({}, printable(seen.text()), as_json=False)
    return name, dict(reading.options), facts


def options_of(option: list[str] | None, context: typer.Context) -> dict[str, str]:
    """Return the options of a source or format, from ``--option key=value``, ``--key value`` and ``--key=value``."""
    places, options = words_of(context.args, option)
    if places:
        raise typer.BadParameter(f"unexpected argument {places[0]}")
    return options


def words_of(words: Sequence[str], option: list[str] | None) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the options among words; the parser takes unknown options for left-out arguments."""
    places, found, rest = list[str](), [*(option or [])], iter(words)
    if wrong := next((text for text in found if "=" not in text), ""):
        raise typer.BadParameter(f"--option {wrong}: must be key=value")
    for word in rest:
        if not word.startswith("--"):
            places += [word] if word else []
            continue
        value = "" if "=" in word else next(rest, None)
        if value is None:
            raise typer.BadParameter(f"{word} needs a value")
        found.append(word[2:] if "=" in word else f"{word[2:]}={value}")
    return places, {key.replace("-", "_"): value for key, _, value in (text.partition("=") for text in found)}


def list_records(kind: str, label: str, name: str = "", *, as_json: bool = False) -> None:
    """Print the sources or export formats, or the options of one; ``label``: attribute with the description of a record."""
    from upsolve.plugins import find, names

    try:
        records = {one: find(kind, one) for one in ([name] if name else names(kind))}
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        options = {one: {option.name: option.help for option in record.options} for one, record in records.items()}
        print_json(
            {f"{kind}s": [{"name": one, label: getattr(records[one], label), "options": options[one]} for one in records]}
        )
    elif name:
        rows = [(f"--{option.name.replace('_', '-')}", option.help) for option in records[name].options]
        show(f"{name}: {getattr(records[name], label)}", ("option", "value"), rows)
    else:
        show(f"{kind}s", (kind, label), [(one, getattr(record, label)) for one, record in records.items()])


def about_stale(archive: str, count: int, unscored: Counter[str]) -> str:
    """Return the advice about stale verdicts, given their number and the reasons why some could not be judged again."""
    from upsolve.archive.places import SHIPPED

    copied = f"upsolve archive copy {archive} DIR, then " if archive in SHIPPED else ""
    command = f"upsolve verify {'DIR' if copied else archive} --stale"
    text = f"{count:,} verdicts may be wrong, since a later fix of the judge concerns them: {copied}{command}"
    return f"{text}\n{not_judged_again(unscored, command)}" if unscored else text


def not_judged_again(unscored: Counter[str], command: str) -> str:
    """Return the advice about stale verdicts that could not be judged again, given counts by reason and the command that judges them."""
    (reason, count), *_ = unscored.most_common(1)
    return (
        f"{unscored.total():,} of them could not be judged again: their earlier verdicts stay, and stay stale. Fix the cause "
        f"({count:,}: {printable(reason) or 'no reason given'}; `upsolve doctor` checks the sandbox), then run: {command}"
    )


@archive_app.command("info")
def info(archive: ArchivePath, as_json: AsJson = False) -> None:
    """Print statistics of an archive."""
    from upsolve.archive.info import overview
    from upsolve.archive.store import open_archive
    from upsolve.evaluate.calibration import calibrations
    from upsolve.verify.changes import changes_since, may_be_stale

    opened = open_archive(archive)
    seen = overview(opened, changes_since, may_be_stale())
    statistics, pairs_of_judges, labels, outdated = seen.info, seen.agreements, seen.labels, seen.stale
    fits = calibrations(opened) if statistics.scores else []
    if as_json:
        more = {"agreement": [asdict(pair) for pair in pairs_of_judges], "labels": [asdict(row) for row in labels]}
        more["calibration"] = [asdict(one) for one in fits]
        print_json({**asdict(statistics), "stale": outdated, "stale_unscored": seen.stale_unscored, **more})
        return
    numbers = {**asdict(statistics), "stale": outdated}
    counts = [(name.replace("_", " "), value) for name, value in numbers.items() if isinstance(value, int)]
    show(archive, ("", "count", ""), [(name, f"{value:,}", MEANINGS.get(name, "")) for name, value in counts])
    if outdated:
        typer.echo(about_stale(archive, outdated, Counter(seen.stale_unscored)))
    for title in TITLES:
        parts: dict[str, int] = getattr(statistics, title)
        if parts:
            rows = [(name or "(none)", f"{count:,}") for name, count in parts.items()]
            show(TITLES[title], (title, "count"), rows)
    if labels:
        title = "programs by the label of each judge, and the estimated share of right labels (docs/archives.md)"
        show(title, ("judge", "passed", "right", "failed", "right", "estimated from"), map(label_row, labels))
    if pairs_of_judges:
        title = "programs scored by both judges: passed by both, by the first or second only, by none"
        header = ("judges", "both", "pass", "first", "second", "fail", "agree", "kappa")
        show(title, header, map(agreement_row, pairs_of_judges))
    if fits:
        from upsolve.report.tables import calibration_tables

        for table in calibration_tables(fits):
            show(table.title, table.header, table.rows)


def label_row(labels: "JudgeLabels") -> tuple[str, ...]:
    """Return the labels of a judge as a row of a table."""
    right, wrong = (
        f"{share:.1%}" if count else "–"
        for count, share in ((labels.passed, labels.passed_right), (labels.failed, labels.failed_wrong))
    )
    basis = f"{labels.caught:,} failed programs" if labels.caught else "assumptions alone"
    return (labels.judge or "(none)", f"{labels.passed:,}", right, f"{labels.failed:,}", wrong, basis)


def agreement_row(pair: "Agreement") -> tuple[str, ...]:
    """Return the agreement of two judges as a row of a table."""
    counts = (pair.programs, pair.both_passed, pair.first_only, pair.second_only, pair.both_failed)
    kappa = "–" if pair.kappa is None else f"{pair.kappa:.2f}"
    return (f"{pair.first}\n{pair.second}", *(f"{count:,}" for count in counts), f"{pair.share:.1%}", kappa)


@archive_app.command("query")
def query(
    archive: ArchivePath,
    sql: Annotated[str, typer.Argument(help="SQL over the views tasks, attempts, verdicts.")],
    rows: Annotated[int, typer.Option(min=0, help="Most rows to print; 0: all. With --json, all are printed.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Query an archive in SQL. Rows that are too wide for the terminal are printed as lists of their values."""
    if not sql.strip():
        raise typer.BadParameter("SQL: empty; such as 'select * from tasks limit 5'")
    from upsolve.archive.store import open_archive

    answer = open_archive(archive).query(sql)
    answer = answer.rename_columns(distinct_names(answer.column_names))
    if as_json:
        print_json({"rows": answer.to_pylist()})
        return
    shown = answer.slice(0, rows or None)
    cells = [[str(value) for value in row.values()] for row in shown.to_pylist()]
    show_rows(counted(answer.num_rows, "row"), answer.column_names, cells)
    if len(cells) < answer.num_rows:
        typer.echo(f"the first {len(cells):,} of {counted(answer.num_rows, 'row')}; --rows 0 prints all")


@archive_app.command("score")
def score(
    archive: Annotated[str, typer.Argument(help="Folder or URL of the archive.")],
    command: Annotated[
        str, typer.Option(help="Program that reads attempts as JSON lines and writes a number a line (docs/scores.md).")
    ] = "",
    likelihood: Annotated[
        str, typer.Option(metavar="MODEL", help="Model whose log-probabilities of each attempt, sum and mean, are the scores.")
    ] = "",
    name: Annotated[str, typer.Option(help="Name of the score; default: score, or likelihood.")] = "",
    batch: Annotated[int, typer.Option(min=1, help="Attempts that are sent to the program at once.")] = 256,
    everything: Annotated[bool, typer.Option("--all", help="Score all attempts again, also those with the score.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score attempts by a command or a model, and store the numbers beside the verdicts. Repeat the command to resume."""
    from upsolve.archive.places import refuse_shipped
    from upsolve.archive.store import Archive
    from upsolve.solve.scoring import by_command, by_likelihood, score_archive

    if bool(command) == bool(likelihood):
        raise typer.BadParameter("score needs either --command or --likelihood, such as --command 'python grade.py'")
    refuse_shipped(archive)
    called = name or ("score" if command else "likelihood")
    scorer = by_command(command, called) if command else by_likelihood(likelihood, called)
    first = called if command else f"{called}_sum"
    with bars() as progress:
        done = score_archive(Archive(archive), scorer, first, batch=batch, everything=everything, progress=progress)
    text = f"{done.scored:,} attempts scored, {done.unscored:,} without a number, {done.before:,} scored before, {done.orphans:,} without a task"
    answer(asdict(done), text, as_json=as_json)


def distinct_names(names: list[str]) -> list[str]:
    """Return distinct names of columns; of two columns ``code``, the second becomes ``code_1``."""
    distinct: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in range(1, 2 + len(names)))
        distinct.append(name if name not in distinct else next(other for other in others if other not in (*distinct, *names)))
    return distinct


@app.command()
def capture(
    archive: Annotated[str, typer.Argument(help="Folder of an archive to add to; created if it does not exist.")],
    upstream: Annotated[str, typer.Option(help="URL of the server, such as http://server:8000/v1.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: a free one.")] = 8001,
) -> None:
    """Forward requests of any client to an OpenAI-compatible server, and store its completions as attempts; judge these with `verify`."""
    from upsolve.archive.store import create_archive
    from upsolve.extras import require
    from upsolve.importers.capture import serve

    require("fastapi", "uvicorn")
    stored = serve(upstream, create_archive(archive), port, say=partial(typer.echo, err=True))
    typer.echo(f"{stored} attempts added; judge them with: upsolve verify {archive}")


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def derive(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            help="Kind of derived task: repair, test, verdict, output, input, complete, faster, translate, or module:attribute.",
            autocompletion=completed(records("derivation")),
        ),
    ] = "",
    archive: ArchivePath = "",
    out: OutFolder = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Most derived tasks; without it, all.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Option of the kind, key=value; also as --key value.")] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="List the kinds; with KIND its options.")] = False,
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write an archive of tasks made from attempts: to repair, test or complete an attempt, to predict its verdict or output, to make it faster."""
    if kinds:
        list_records("derivation", "help", kind, as_json=as_json)
        return
    if not out:
        raise typer.BadParameter("derive needs KIND ARCHIVE OUT; `upsolve derive --kinds` lists the kinds")
    from upsolve.archive.store import open_filled
    from upsolve.derive.deriving import DeriveSettings
    from upsolve.derive.deriving import derive as write_derived
    from upsolve.verify.limits import judge_settings

    how = DeriveSettings(kind, options_of(option, context), limit or 0, seed or 0)
    judging = judge_settings(load(None, settings, reads=("verify",)).verify)
    with bars() as progress:
        rows = write_derived(open_filled(archive), out, how, settings=judging, progress=progress)
    made, used = sum(row["derived"] for row in rows), sum(bool(row["derived"]) for row in rows)
    left_out = sum((Counter(row["left_out"]) for row in rows), Counter[str]())
    if as_json:
        print_json({"archive": archive, "out": out, "kind": kind, "derived": made, "left_out": left_out, "tasks": rows})
        return
    typer.echo(f"{made:,} tasks derived from {used:,} of {len(rows):,} tasks: {out}")
    for reason, count in left_out.most_common():
        typer.echo(f"{count:,} left out: {reason}")
