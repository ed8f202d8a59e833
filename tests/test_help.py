"""The help of the command line: chapters, and examples that can be typed."""

import json
from collections import Counter

import pytest
from documents import check_command, commands, whole_command

from upsolve.cli.chapters import CHAPTERS, FIRST_STEPS
from upsolve.cli.main import app
from upsolve.cli.recipes import LISTED, grouped
from upsolve.config.recipe import recipe_names
from upsolve.errors import ConfigError

COMMAND = whole_command()
EXAMPLES = [(name, line) for names in CHAPTERS.values() for name, lines in names.items() for line in lines]


def all_commands(command, path=""):
    """Yield each command and group with its name, such as `archive info`."""
    for name, one in command.commands.items():
        yield f"{path}{name}", one
        if hasattr(one, "commands"):
            yield from all_commands(one, f"{path}{name} ")


def test_each_command_is_in_one_chapter_and_its_help_ends_with_its_examples():
    listed = Counter(name for names in CHAPTERS.values() for name in names)
    assert listed == Counter(name for name, _ in all_commands(COMMAND))  # none is missing, none is listed twice
    for name, command in all_commands(COMMAND):
        chapter, examples = next((chapter, names[name]) for chapter, names in CHAPTERS.items() if name in names)
        assert 1 <= len(examples) <= 2 and command.epilog.splitlines()[1:] == [*examples], name
        assert " " in name or command.rich_help_panel == chapter


def test_the_help_shows_chapters_in_order_and_examples_that_fit_a_terminal(capsys):
    app(["--help"], standalone_mode=False)
    said = capsys.readouterr().out
    places = [said.index(f"─ {chapter} ─") for chapter in CHAPTERS]
    assert places == sorted(places) and "─ Commands ─" not in said
    assert [line.strip() for line in said.splitlines() if line.startswith(" upsolve")] == [*FIRST_STEPS]


@pytest.mark.parametrize(("name", "line"), [*EXAMPLES, *(("", line) for line in FIRST_STEPS)])
def test_examples_can_be_typed(name, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("base: sft\n")
    (words,) = commands(line)
    assert " ".join(words[1:]).startswith(name.partition(" ")[0] if name in ("archive", "tests") else name)
    check_command(words)


def test_recipes_are_listed_in_groups_in_one_line_each_and_one_is_printed(capsys):
    app(["recipes"], standalone_mode=False)
    said = capsys.readouterr().out
    listed = [line.split()[0] for line in said.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(recipe_names()) and max(map(len, said.splitlines())) <= LISTED
    assert said.startswith("Start here\n  demo ")
    assert all(name.startswith("papers/") for name in [*grouped().values()][-1])  # every other recipe is in a group
    app(["recipes", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out) == grouped()
    app(["recipes", "dpo_focal"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("# DPO on the lines in which a pair differs")


@pytest.mark.parametrize(
    ("name", "near"),
    [("rlo", "rloo"), ("7b_exp", "papers/2605.28409_7b_exp or papers/"), ("2605.28409_sft", "papers/2605.28409_sft")],
)
def test_an_unknown_recipe_is_answered_with_the_nearest_names(name, near):
    with pytest.raises(ConfigError, match=f"{name}: no such recipe; did you mean {near}"):
        app(["recipes", name], standalone_mode=False)
