"""Every example of a document, tried from the document's own text."""

import doctest
import importlib
import re
import shutil
import sys
import tomllib

import pytest
from documents import (
    PAGES,
    ROOT,
    TYPED,
    blocks,
    check_command,
    check_json,
    check_yaml,
    commands,
    forget_modules,
    known_keys,
    resolves,
    run_command,
    run_python,
    write_files,
)

import upsolve
from upsolve.archive.store import Archive, open_archive
from upsolve.plugins import KINDS

EVERY = [block for page in PAGES for block in blocks(page)]
RUN = {("init",), ("archive", "info"), ("archive", "query"), ("archive", "export"), ("version",), ("recipes",), ("explain",)}
"""Commands that are run; the others are checked as far as they can be without a model or a sandbox."""


def of(*kinds):
    return [pytest.param(one, id=one.place) for one in EVERY if one.kind in kinds and not one.not_run]


def by_page(kind):
    return [pytest.param(page, id=page.name) for page in PAGES if any(b.kind == kind and not b.not_run for b in blocks(page))]


@pytest.fixture(scope="module")
def small_archive(tmp_path_factory):
    """The folder of an archive of four tasks."""
    groups = [group for group, _ in zip(open_archive("embedded").groups(), range(4), strict=False)]
    verdicts = [verdict for group in groups for verdict in group.verdicts if verdict]
    archive = Archive.create(tmp_path_factory.mktemp("small") / "archive")
    attempts = [one for group in groups for one in group.attempts]
    archive.append(tasks=[group.task for group in groups], attempts=attempts, verdicts=verdicts)
    return archive.path


@pytest.fixture
def workplace(tmp_path, monkeypatch, tiny_model, small_archive):
    """An empty folder in which `my-archive` is a small archive and every recipe takes two steps with a tiny model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # as for a script in this folder
    load = upsolve.load_recipe
    small = [f"model.name={tiny_model}", "optim.max_steps=2", "sample.samples=2", "sample.max_tokens=8", "data.train=0.05"]
    small += ["data.dev=0.05", "monitor.heldout=2", "optim.tokens_per_step=2000"]
    monkeypatch.setattr(upsolve, "load_recipe", lambda path, settings=(): load(path, [*settings, *small]))
    for name in ("my-archive", "ARCHIVE"):
        shutil.copytree(small_archive, tmp_path / name)
    yield tmp_path
    forget_modules(tmp_path)


@pytest.mark.parametrize("page", by_page("python"))
def test_python_runs_in_the_order_of_the_page(page, workplace, tiny_model):
    write_files(page, workplace)
    namespace = {"__name__": "__main__", "ROOT": ROOT, "tiny_model": tiny_model}
    for block in blocks(page):
        if block.kind == "python" and not block.not_run:
            run_python(block, namespace)


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_is_read(block, workplace):
    write_files(block.page, workplace)
    check_yaml(block, workplace)


@pytest.mark.parametrize("block", of("sql"))
def test_a_query_of_an_archive_has_rows(block, small_archive):
    assert open_archive(small_archive).query(block.text).num_rows > 0


@pytest.mark.parametrize("block", of("json"))
def test_json_is_imported(block, tmp_path):
    check_json(block, tmp_path)


@pytest.mark.parametrize("block", [one for one in of("shell") if one.values[0].page.name not in TYPED])
def test_commands_could_be_typed(block, workplace):
    write_files(block.page, workplace)
    found = [*commands(block.text)]
    assert found, f"{block.place}: no command"
    for words in found:
        check_command(words)
        if tuple(words[1:2]) in RUN or tuple(words[1:3]) in RUN:
            run_command(words)


@pytest.mark.parametrize("block", of("toml"))
def test_toml_is_read(block):
    groups = tomllib.loads(block.text).get("project", {}).get("entry-points", {})
    assert {*groups} <= {kind.group for kind in KINDS.values()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_keys_of_recipes_are_known(page):
    assert [key for key in known_keys(page) if not resolves(key)] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent != ROOT and page.name != "comparison.md"], ids=lambda page: page.name
)
def test_pages_name_each_other_by_links(page):
    """A reader of the site cannot follow `docs/judge.md`; in comparison.md these are files of other projects."""
    assert re.findall(r"`docs/[\w/-]+\.md`|\(docs/[\w-]+\.md\)", page.read_text(encoding="utf-8")) == []


def test_examples_in_docstrings_hold():
    for file in sorted((ROOT / "src").rglob("*.py")):
        if ">>> " in file.read_text(encoding="utf-8"):
            name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
            assert not doctest.testmod(importlib.import_module(name)).failed, name


def test_what_is_not_run_says_why(record_property):
    skipped = {block.place: block.not_run for block in EVERY if block.not_run}
    for place, reason in skipped.items():
        print(f"not run: {place}: {reason}")
    record_property("not_run", len(skipped))
    assert all(len(reason) > 10 for reason in skipped.values()), skipped
    assert len(skipped) * 3 <= len(EVERY), "most examples run"
    assert {block.kind for block in EVERY} <= {"python", "yaml", "json", "shell", "sql", "text", "toml"}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("upsolve train rlo", "no such recipe"),
        ("upsolve train rloo --set optim.learning_rate=1", "optim.learning_rate"),
        ("upsolve train rloo --nothing 3", "No such option"),
        ("upsolve trian rloo", "No such command"),
        ("make everything", "everything"),
        ("torchrun --nproc_per_node 2 -m upsolve train nothing", "no such recipe"),
    ],
)
def test_a_wrong_command_is_found(line, word):
    (words,) = commands(line)
    with pytest.raises(Exception, match=word):
        check_command(words)


def test_a_wrong_block_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('<!-- setup: x = 1 -->\n```python\nassert x == 2\n```\n\n```\n{"kind": "verdict", "status": "odd"}\n```\n')
    wrong, rows = blocks(page)
    with pytest.raises(AssertionError) as raised:
        run_python(wrong, {})
    assert raised.traceback[-1].lineno == 2  # the document's third line
    with pytest.raises(AssertionError):
        check_json(rows, tmp_path)
