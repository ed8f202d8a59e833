"""Commands that show and publish archives, runs and models: view, export, push."""

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from upsolve.cli.app import AsJson, answer, app, print_json
from upsolve.errors import ConfigError

if TYPE_CHECKING:
    from upsolve.view.address import Address
    from upsolve.view.answers import Answers
    from upsolve.view.runs import Runs

__all__ = ["export", "push", "view"]


class WithModel(TyperCommand):
    """A command whose option ``--model`` may stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give ``--model`` an empty value if another option or nothing follows."""
        alone = [
            at for at, word in enumerate(args) if word == "--model" and (at + 1 == len(args) or args[at + 1].startswith("-"))
        ]
        for at in reversed(alone):
            args = [*args[:at], "--model=", *args[at + 1 :]]
        return super().parse_args(ctx, args)


@app.command(cls=WithModel)
def view(
    path: Annotated[
        str,
        typer.Argument(
            help="Folder of an archive, of a run or of several runs, `embedded`, `embedded-sql`, or a log that `upsolve ingest` knows.",
            metavar="ARCHIVE|RUN|LOG",
        ),
    ],
    static: Annotated[
        Path | None,
        typer.Option("--static", help="Write one self-contained HTML page here instead of serving.", metavar="OUT.html"),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    archive: Annotated[str, typer.Option("--archive", "-a", help="RUN: where the archive of its attempts is now.")] = "",
    source: Annotated[str, typer.Option(help="LOG: the importer that reads it; default: the first that can.")] = "",
    logps: Annotated[
        bool, typer.Option("--logps", help="RUN: load its model, and show the log-probability that it gives to each token.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="[MODEL]", help="Ask a model on the page; without a name, the one that RUN trained."),
    ] = None,
) -> None:
    """Browse tasks, attempts and verdicts in the browser: only from this machine, and nothing is sent elsewhere.

    Of a run, also rewards and advantages of attempts and of their tokens, and the curves of training, live.
    """
    from upsolve.archive.places import SHIPPED

    if static and static.suffix not in (".html", ".htm"):
        raise ConfigError(f"--static {static}: the page is HTML; end the name with .html")
    if static and model is not None:
        raise ConfigError("--static excludes --model: a model can be asked only while the viewer runs")
    chosen = bool(archive or source or logps or model is not None)  # options that may be refused
    known = path in SHIPPED or "://" in path or Path(path).exists()
    address = announced(path, port) if known and not static and not chosen else None
    from upsolve.view.opening import open_path

    with closing(address.listener) if address else nullcontext():
        answers = open_path(path, archive=archive, source=source, logps=logps, model=model)
        address = address if address or static else announced(path, port)
        show(answers, address, path, static=static, browser=browser)


def announced(path: str, port: int) -> "Address":
    """Return an address at which the viewer will be served, and print it: a page that is opened before waits."""
    from upsolve.view.address import bind

    address = bind(port)
    typer.echo(f"{path}: {address.url}    (Ctrl-C stops)")
    return address


def show(answers: "Answers | Runs", address: "Address | None", path: str, *, static: Path | None, browser: bool) -> None:
    """Serve what was opened at an address, or write it as a page."""
    if address:
        from upsolve.view.server import serve

        serve(answers, address, browser=browser)
    elif static:
        from upsolve.view.runs import Runs
        from upsolve.view.static import write_page

        if isinstance(answers, Runs):
            raise ConfigError(f"--static: {path} holds several runs; name one of them")
        typer.echo(write_page(answers, static))


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="Model: a folder such as runs/rloo/training/model, a .gguf file or a hub name.")],
    out: Annotated[Path, typer.Argument(help="New folder, or a file *.gguf for llama.cpp.")],
    kind: Annotated[str, typer.Option(help="Precision of a .gguf file: f32, f16, bf16 or q8_0.")] = "f16",
    as_json: AsJson = False,
) -> None:
    """Write a model whole, with LoRA adapters merged into its weights: a folder for transformers and vLLM, or a GGUF file."""
    from upsolve.exports.model import export_model
    from upsolve.report.card import run_of, write_card

    path = export_model(model, out, kind=kind)
    if path.is_dir() and (run := run_of(Path(model))):
        write_card(path, path.name, run)
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    answer({"path": str(path), "bytes": size}, f"{path}: {size / 1e6:,.1f} MB", as_json=as_json)


@app.command()
def push(
    path: Annotated[Path, typer.Argument(help="Run, model, .gguf file, archive, or an exported data set.")],
    repo: Annotated[str, typer.Argument(help="Repository on the Hugging Face Hub: owner/name.")],
    private: Annotated[bool, typer.Option("--private", help="Create the repository as private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the files and the card without contacting the Hub.")] = False,
    as_json: AsJson = False,
) -> None:
    """Push a model or an archive with its card to the Hugging Face Hub."""
    from upsolve.adapters.hub import plan_upload, upload

    if not all(repo.partition("/")):
        raise ConfigError(f"{repo}: a repository of the Hub is owner/name, such as me/{repo.strip('/')}")
    planned = plan_upload(path, repo)
    if as_json:
        sizes = {name: file.stat().st_size for name, file in planned.files.items()}
        where = "" if dry_run else upload(planned, repo, private=private)
        print_json({"kind": planned.kind, "repo": repo, "files": sizes, "card": planned.card, "pushed": where})
        return
    for name, file in planned.files.items():
        typer.echo(f"{file.stat().st_size:>14,}  {name}")
    typer.echo(f"{len(planned.card.encode()):>14,}  README.md")
    if dry_run:
        typer.echo(f"\n{planned.card}\ndry run: nothing was pushed to the {planned.kind} {repo}")
    else:
        typer.echo(upload(planned, repo, private=private))
