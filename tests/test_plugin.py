"""A separate package provides one record of each kind, and the command line uses them by name, without a fork or registration."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from upsolve import languages, plugins
from upsolve.archive.store import Archive
from upsolve.cli.main import app
from upsolve.errors import ConfigError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import dismiss

PLUGIN = Path(__file__).parent / "plugin"
ADD = "a, b = map(int, input().split())\nprint(a + b)"
SHELL = "read a b\necho $((a + b))"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that the package is installed into, as pip does it."""
    place = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, place / "source")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", place / "site", place / "source"]
    subprocess.run(command, check=True, capture_output=True)
    return place / "site"


@pytest.fixture
def installed(site, monkeypatch, tmp_path):
    """The package can be imported in this process and in those that it starts."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    forget()
    yield tmp_path
    forget()
    for name in [name for name in sys.modules if name.startswith("upsolve_example")]:
        del sys.modules[name]


def forget():
    """Forget what is installed, here and in workers that were started before."""
    dismiss()
    for known in (plugins.entry_points_of, languages.languages):
        known.cache_clear()


def upsolve(*words):
    app([*map(str, words)], standalone_mode=False)


def write_sums(file):
    """Tasks to add two numbers, with right and wrong attempts."""
    codes = [(ADD, "python"), (f"# adds\n{ADD}", "python"), ("print(5)", "python"), ("PRINT()", "python"), (SHELL, "posix")]
    rows = [f"{n}|{n} 5|{n + 5}|{language}|{code}" for n in range(9) for code, language in codes]
    file.write_text("".join(row.replace("\n", "\\n") + "\n" for row in rows))


def test_all_of_a_package_is_used_by_name(installed, tiny_model):
    write_sums(installed / "sums.txt")
    upsolve("ingest", "sums", "sums.txt", "sums", "--author", "ann")
    archive = Archive(installed / "sums")
    assert {attempt.author for attempt in archive.attempts()} == {"ann"}
    upsolve(
        "sample",
        "--archive",
        "sums",
        "--set",
        "sample.engine=parrot",
        "--set",
        "sample.samples=1",
        "--set",
        "sample.options.comment=hi",
    )
    upsolve("verify", "sums", "--no-cache")
    by_language = {
        attempt.language: verdict.status
        for group in archive.groups()
        for attempt, verdict in zip(group.attempts, group.verdicts, strict=True)
    }
    assert by_language["posix"] is Status.PASSED
    assert sum(attempt.code == f"# hi\n{ADD}" for attempt in archive.attempts()) == 9
    upsolve("archive", "doctor", "sums", "--check", "anonymous", "--set", "anonymous.author=ann", "--fix", "others")
    assert len(Archive(installed / "others").attempts()) == 9
    settings = ["objective.kind=bounded", "objective.options.bound=9", "reward.weights.comments=0.5"]
    settings += ["reward.detectors=[shouting]", "reward.hacked=drop", "data.archive=sums", "data.group_size=2"]
    settings += [f"model.name={tiny_model}", "optim.max_steps=2", "monitor.heldout=2"]
    with pytest.warns(UserWarning, match="9 attempts are in another language than their task asks for, .* 9 in posix"):
        upsolve("train", "rloo", "--out", "run", *(word for one in settings for word in ("--set", one)))
    done = json.loads((installed / "run" / "summary.json").read_text())
    assert done["steps"] >= 1 and done["flagged"]["shouting"] > 0 and "attempts: hacked: shouting" in done["left_out"]
    recipe = (installed / "run" / "recipe.yaml").read_text()
    assert "kind: bounded" in recipe and "comments: 0.5" in recipe
    upsolve("archive", "export", "sums", "loud", "--as", "loud")
    assert pq.read_table("loud/train.parquet").to_pylist()[0] == {"program": ADD.upper()}


def test_names_of_a_package_stand_beside_the_built_in_ones(installed):
    del installed
    assert "comments" in plugins.names("component") and "bounded" in plugins.names("objective")
    with pytest.raises(ValueError, match="no component 'coments'; did you mean comments"):
        plugins.find("component", "coments")
    with pytest.raises(ValueError, match=r"no derivation 'nope'; known: complete, .*verdict, and package.module:attribute"):
        plugins.find("derivation", "nope")


def test_a_component_lays_its_value_where_it_says(installed):
    del installed
    from upsolve.config import RewardConfig
    from upsolve.reward.credit import token_rewards
    from upsolve.reward.formula import reward
    from upsolve.reward.judged import Judged
    from upsolve.types import Group

    config = RewardConfig(weights={"outcome": 0, "comments": 1})
    code = "x = 1\n# why\ny = 2"
    task, attempt, verdict = Task("t", ""), Attempt("t", code), Verdict("a", Status.FAILED)
    done = reward(Group(task, (attempt,), (verdict,)), config)
    assert done.rewards_G.tolist() == [pytest.approx(1 / 3)]
    offsets = [(n, n + 1) for n in range(len(code))]
    rewards_R = token_rewards(Judged(task, attempt, verdict), done.parts[0], offsets, config).rewards_R
    assert rewards_R[6:12] == pytest.approx(1 / 18) and rewards_R.sum() == pytest.approx(1 / 3)


def test_a_language_may_be_a_record_a_file_or_text(installed, monkeypatch):
    text = "{name: posix2, file: a.sh, run: [sh, a.sh]}"
    (installed / "mine.yaml").write_text(text)
    sums = Task("s", "", (TestCase(TestKind.STDIO, "1 2\n", "3\n"),), language="")

    class Point:
        value = "mine:VALUE"

        def __init__(self, made):
            self.load = lambda: made

    for made in (text, installed / "mine.yaml", languages.read_text(text, "here")):
        monkeypatch.setattr(languages, "entry_points", lambda made=made, **_: [Point(made)])
        languages.languages.cache_clear()
        assert judge(sums, Attempt("s", SHELL, "posix2"), JudgeSettings()).status is Status.PASSED
    for wrong, said in (
        (3, "not int"),
        ("{name: x}", "missing keys: file, run"),
        ("{name: x, name: y}", "line 1: name is in line 1, too"),
        (text.replace("}", ", memory: all}"), "memory"),
    ):
        monkeypatch.setattr(languages, "entry_points", lambda wrong=wrong, **_: [Point(wrong)])
        with pytest.raises(ConfigError, match=f"mine:VALUE.*{said}"):
            languages.from_entry_points()


def test_only_a_file_that_hides_a_package_is_to_be_renamed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("my_kinds", "json"):  # json of the standard library is imported
        Path(f"{name}.py").write_text("A = 1\n")
    with pytest.raises(ValueError, match="module my_kinds has no B$"):
        plugins.find("evidence", "my_kinds:B")
    with pytest.raises(ValueError, match=r"rename json.py"):
        plugins.find("evidence", "json:B")
