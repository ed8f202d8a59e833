"""The fenced blocks of the documents, and how each kind is tried.

A block that cannot run here has ``<!-- not run: REASON -->`` before it, one that runs only where a package is installed ``<!-- needs: MODULE -->``;
``<!-- setup: PYTHON -->`` is run before a block; readers see none of these.
A Python or YAML block whose first line is ``# name.py`` or ``# folder/name.yaml`` is also a file of that name for the other blocks of its page.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import typer.main
import yaml

from upsolve.archive.store import Archive
from upsolve.cli.main import app
from upsolve.config import Recipe, load_recipe
from upsolve.importers.ingest import ingest
from upsolve.languages import read as read_language

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README.pypi.md", *sorted((ROOT / "docs").rglob("*.md"))]
TYPED = ("gpus.md", "own.md", "submissions.md")
"""Pages whose commands need those before them: test_tutorials.py types them in order."""
FENCE = re.compile(r"(?P<before>(?:^<!--.*?-->\n+)*)^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!-- (not run|needs|setup): ?(.*?)-->", re.DOTALL)
PROGRAMS = {"accelerate", "curl", "docker", "git", "make", "openssl", "pip", "python", "torchrun", "upsolve", "uv", "vllm"}
FILES = {"json", "jsonl", "parquet", "pt", "py", "yaml", "zip"}
KEY = re.compile(r"`([a-z]+(?:\.[a-z_]+)+)(?:[:=][^`]*)?`")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str  # python, yaml, json, shell or text
    text: str
    not_run: str
    setup: str

    @property
    def place(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text, found = page.read_text(encoding="utf-8"), []
    for match in FENCE.finditer(text):
        said = {key: value.strip() for key, value in COMMENT.findall(match["before"])}
        line = text[: match.start("text")].count("\n")
        kind = kind_of(match["kind"], match["text"])
        not_run = said.get("not run", "")
        if "needs" in said and not find_spec(said["needs"]):
            not_run = f"{said['needs']} is not installed"
        found.append(Block(page, line, kind, match["text"], not_run, said.get("setup", "")))
    return found


def outputs(page: Path) -> list[str]:
    """Return the lines that a page shows as the output of its commands: those that are indented by four blanks, outside of fenced blocks."""
    return re.findall(r"^    (\S.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)


def kind_of(label: str, text: str) -> str:
    if label:
        return {"sh": "shell", "bash": "shell", "console": "shell", "jsonl": "json", "yml": "yaml"}.get(label, label)
    if text.startswith("{"):
        return "json"
    return "shell" if any(line.split(" ")[0] in PROGRAMS for line in text.splitlines()) else "text"


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows: blocks whose first line is ``# name.py`` or ``# folder/name.yaml``."""
    for block in blocks(page):
        if block.kind in ("python", "yaml") and (name := re.match(r"# ([\w/]+\.(?:py|yaml))\n", block.text)):
            (folder / name[1]).parent.mkdir(exist_ok=True)
            (folder / name[1]).write_text(block.text, encoding="utf-8")


def forget_modules(folder: Path) -> None:
    """Remove modules of a folder from Python's table, so that another page's file of the same name is imported anew."""
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", "")).startswith((str(folder), f"{name}.py")):
            del sys.modules[name]


def run_python(block: Block, namespace: dict) -> None:
    """Run a block in the namespace of its page; errors name the document's own lines."""
    exec(block.setup, namespace)
    exec(compile("\n" * block.line + block.text, str(block.page), "exec"), namespace)


def check_yaml(block: Block, folder: Path) -> None:
    """Read a block as what it is: a part of a recipe, or a language."""
    data = yaml.safe_load(block.text)
    file = folder / f"{block.page.stem}-{block.line}.yaml"
    file.write_text(block.text, encoding="utf-8")
    if isinstance(data, dict) and data.keys() <= {"base", *Recipe.model_fields}:
        load_recipe(file)
    else:
        read_language(file)


def check_json(block: Block, folder: Path) -> None:
    """Import the lines of a block; none may be rejected."""
    file = folder / f"{block.page.stem}-{block.line}.jsonl"
    file.write_text(block.text, encoding="utf-8")
    report = ingest(Archive.create(folder / file.stem), "jsonl", file)
    assert not report.rejected, (block.place, report)


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every command; of what starts upsolve in several processes those behind ``-m upsolve``."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        words = shlex.split(line, comments=True)
        if "|" in words:  # what reads the pipe is the command
            words = words[words.index("|") + 1 :]
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if not words or words[0] not in PROGRAMS:
            continue
        inner = " ".join(words).partition("-m upsolve ")[2]
        yield ["upsolve", *shlex.split(inner)] if inner else words


@cache
def whole_command():
    """Return the command line, which is built once."""
    return typer.main.get_command(app)


def check_command(words: list[str]) -> None:
    """Check that a command could be typed: targets of make, and options, recipes and settings of upsolve."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert [word for word in words[1:] if "=" not in word and word not in targets] == [], words
    if words[0] != "upsolve":
        return
    command, rest = whole_command(), words[1:]
    context = command.make_context("upsolve", [], resilient_parsing=True)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        assert command, f"No such command: {words}"
        group = hasattr(command, "commands")
        context = command.make_context(name, [] if group else list(rest), parent=context, resilient_parsing=group)
    given = context.params
    if "settings" in given and "recipe" in given:
        load_recipe(given["recipe"], given["settings"] or [])


def run_command(words: list[str]) -> None:
    """Run a command of upsolve in this process."""
    app(words[1:], standalone_mode=False)


def known_keys(page: Path) -> Iterator[str]:
    """Yield the keys of recipes that a page names: ``stage.key`` in backticks."""
    for key in dict.fromkeys(KEY.findall(page.read_text(encoding="utf-8"))):
        if key.partition(".")[0] in Recipe.model_fields and key.rpartition(".")[2] not in FILES:
            yield key


def resolves(key: str) -> bool:
    """Return whether a recipe has this key; what is inside of a free table is not known."""
    model = Recipe
    for name in key.split("."):
        fields = getattr(model, "model_fields", None)
        if fields is None:
            return True
        if name not in fields:
            return False
        model = fields[name].annotation
    return True
