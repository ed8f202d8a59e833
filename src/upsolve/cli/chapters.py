"""Chapters of the help, and the examples at the end of each command's help."""

from collections.abc import Iterable
from typing import Any

import typer

__all__ = ["CHAPTERS", "FIRST_STEPS", "arrange", "in_order"]

FIRST_STEPS = (
    "upsolve demo                            # measure, train, measure again",
    "upsolve ingest data.jsonl my-archive    # then verify, init, plan, run",
    "upsolve view runs/demo                  # attempts, rewards, curves",
)
"""Examples at the end of `upsolve --help`."""
CHAPTERS: dict[str, dict[str, tuple[str, ...]]] = {
    "Archive": {
        "ingest": ("upsolve ingest data.jsonl my-archive", "upsolve ingest table.csv my-archive --dry-run"),
        "archive": ("upsolve archive info my-archive", "upsolve archive doctor my-archive --fix clean-archive"),
        "archive info": ("upsolve archive info embedded",),
        "archive query": ('upsolve archive query embedded "select status, count(*) from verdicts group by status"',),
        "archive doctor": (
            "upsolve archive doctor my-archive",
            "upsolve archive doctor my-archive --check duplicates --fix clean-archive",
        ),
        "archive score": ("upsolve archive score my-archive --likelihood smollm2-135m",),
        "archive copy": ("upsolve archive copy embedded my-archive",),
        "archive compact": ("upsolve archive compact my-archive",),
        "archive fill-expected": ("upsolve archive fill-expected my-archive full-archive",),
        "archive export": (
            "upsolve archive export my-archive pairs --as trl-dpo",
            "upsolve archive export my-archive prompts --as verl",
        ),
        "tests": ("upsolve tests grade my-archive",),
        "tests grade": ("upsolve tests grade my-archive",),
        "tests shrink": ("upsolve tests shrink my-archive small-archive",),
        "tests grow": ("upsolve tests grow my-archive grown-archive",),
        "derive": ("upsolve derive repair my-archive repairs",),
        "capture": ("upsolve capture my-archive --upstream http://localhost:8000/v1",),
    },
    "Judge": {
        "verify": ("upsolve verify my-archive", "upsolve verify my-archive --stale"),
        "doctor": ("upsolve doctor --quick",),
        "packages": ("upsolve packages numpy", "upsolve packages --prepare"),
    },
    "Train": {
        "demo": ("upsolve demo",),
        "recipes": ("upsolve recipes", "upsolve recipes sft"),
        "explain": ("upsolve explain optim.lr", "upsolve explain optim"),
        "init": ("upsolve init my-archive --model smollm2-135m --out mine.yaml",),
        "plan": ("upsolve plan my-archive --recipe mine.yaml", "upsolve plan my-archive --no-model"),
        "memory": ("upsolve memory sft --archive my-archive",),
        "run": ("upsolve run mine.yaml --out runs/mine", "upsolve run sft --archive my-archive --set optim.lr=1e-4"),
        "train": ("upsolve train rloo --archive my-archive --out runs/rloo",),
        "eval": ("upsolve eval --archive my-archive --model runs/mine/training/model",),
    },
    "Solve": {
        "solve": (
            "upsolve solve tasks.jsonl --model runs/mine/training/model",
            'echo "Write f(x) that doubles x." | upsolve solve - --samples 4',
        ),
        "sample": ("upsolve sample --archive my-archive --model smollm2-135m", "upsolve sample --archive my-archive --repair"),
    },
    "Report and view": {
        "view": ("upsolve view runs/mine --model", "upsolve view runs/mine --static page.html"),
        "report": ("upsolve report runs/mine", "upsolve report runs/a/trained.json runs/b/trained.json"),
        "compare": ("upsolve compare runs/mine runs/control",),
        "power": ("upsolve power --tasks 200",),
    },
    "Publish": {
        "export": ("upsolve export runs/mine/training/model whole", "upsolve export runs/mine/training/model model.gguf"),
        "push": ("upsolve push runs/mine/training/model me/my-model --dry-run",),
        "version": ("upsolve version",),
    },
}
"""Chapter -> command -> examples, in the order of the help. Commands of a group (`archive info`) belong to the chapter of the group."""


def arrange(app: typer.Typer) -> None:
    """Sort the commands of an application into their chapters, and end the help of each with its examples."""
    place = {name: (chapter, examples) for chapter, names in CHAPTERS.items() for name, examples in names.items()}

    def settle(infos: list[Any], path: str = "") -> None:
        for info in infos:
            name = path + str(info.name or info.callback.__name__)
            chapter, examples = place[name]
            info.rich_help_panel = None if path else chapter
            info.epilog = epilog(examples)

    settle(app.registered_commands)
    settle(app.registered_groups)
    for group in app.registered_groups:
        if group.typer_instance:
            settle(group.typer_instance.registered_commands, f"{group.name} ")
    app.info.epilog = epilog(FIRST_STEPS)


def epilog(examples: tuple[str, ...]) -> str:
    """Return examples as the end of a help page, one per line."""
    return "\n".join(("Example:" if len(examples) == 1 else "Examples:", *examples))


def in_order(names: Iterable[str]) -> list[str]:
    """Return the names of commands in the order of the chapters."""
    order = [name for commands in CHAPTERS.values() for name in commands]
    return sorted(names, key=order.index)
