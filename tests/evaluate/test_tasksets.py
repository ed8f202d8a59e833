"""Measuring on other archives and benchmarks: names, places, splits, leaks, prompts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import DataConfig, EvalConfig, dump_recipe, load_recipe
from upsolve.errors import ConfigError, SourceError
from upsolve.evaluate.benchmarks import HeldOut, held_out, sweep_model
from upsolve.evaluate.comparison import compare
from upsolve.evaluate.runs import load_sweep, save_sweep
from upsolve.evaluate.scores import by_task_set
from upsolve.evaluate.tasksets import BENCHMARKS, TaskSet, report_trained, task_sets
from upsolve.policy.prompt import VERSION, plain_prompt, prompts_id
from upsolve.report.html import ReportContent, write_report
from upsolve.train.data.drawn import DrawnGroups
from upsolve.train.data.groups import TrainGroup
from upsolve.types import Attempt, Group, Task, TestCase, TestKind

MBPP = [
    {
        "task_id": number,
        "text": f"Add {number}.",
        "code": f"def f(x):\n    return x + {number}",
        "test_list": [f"assert f(1) == {1 + number}"],
    }
    for number in (11, 12, 511, 601)
]
HUMANEVAL = [
    {
        "task_id": f"HumanEval/{number}",
        "prompt": f'def g{number}(x):\n    """Times {number}."""\n',
        "canonical_solution": f"    return x * {number}\n",
        "entry_point": f"g{number}",
        "test": f"def check(candidate):\n    assert candidate(2) == {2 * number}\n",
    }
    for number in range(3)
]


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of benchmarks, and an archive beside it, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPSOLVE_BENCHMARKS", str(tmp_path / "benchmarks"))
    write_lines(tmp_path / "benchmarks" / "mbpp" / "mbpp.jsonl", MBPP)
    write_lines(tmp_path / "benchmarks" / "HumanEval.jsonl", HUMANEVAL)
    archive = Archive.create(tmp_path / "mine")
    tests = (TestCase(TestKind.CALL, "h(1)", "1"),)
    archive.append(tasks=[Task(f"mine/{n}", f"Return the number {n} in words of {n} letters.", tests, "h") for n in range(60)])
    Archive.create(tmp_path / "benchmarks" / "ours").append(tasks=archive.tasks()[:3])
    return tmp_path


def ids(*names, data=None, training=(), **config):
    found = task_sets(EvalConfig(archives=names, **config), data or DataConfig(), training)
    assert [one.name for one in found] == [*names]
    return [[task.task_id for task in one.tasks] for one in found]


@pytest.mark.usefixtures("importers")
@pytest.mark.usefixtures("place")
def test_benchmarks_are_found_by_name_and_have_their_official_splits():
    assert ids("mbpp:test", "mbpp", "mbpp:train", "mbpp:dev") == [
        ["mbpp/11", "mbpp/12"],
        ["mbpp/11", "mbpp/12", "mbpp/511", "mbpp/601"],
        ["mbpp/601"],
        ["mbpp/511"],
    ]
    every = [f"humaneval/{n}" for n in range(3)]
    assert ids("humaneval", "humaneval:test") == [every, every] and ids("humaneval", tasks=2) == [every[:2]]
    with pytest.raises(ConfigError, match="humaneval:train: humaneval has test tasks only"):
        ids("humaneval:train")


@pytest.mark.usefixtures("importers")
def test_evalplus_is_found_by_its_file_or_as_an_archive(place):
    row = {
        "task_id": "Mbpp/2",
        "prompt": '"""Add one."""',
        "entry_point": "f",
        "canonical_solution": "def f(x):\n    return x + 1\n",
    }
    tests = {"base_input": [[1]], "plus_input": [[2], [-5]], "atol": 0, "assertion": "assert f(1) == 2"}
    write_lines(place / "benchmarks" / "evalplus" / "MbppPlus-v0.2.0.jsonl", [row | tests])
    assert ids("mbpp+", "mbpp+:test") == [["evalplus/mbpp/2"]] * 2
    (tasks,) = task_sets(EvalConfig(archives=("mbpp+",)), DataConfig(), ())
    assert [(test.input, test.expected) for test in tasks.tasks[0].tests] == [("f(1)", "2"), ("f(2)", "3"), ("f(-5)", "-4")]
    Archive.create(place / "benchmarks" / "mbpp+").append(tasks=[replace(tasks.tasks[0], task_id="evalplus/mbpp/3")])
    assert ids("mbpp+") == [["evalplus/mbpp/3"]], "an archive of this name comes first"
    with pytest.raises(ConfigError, match=r"humaneval\+: HumanEvalPlus.jsonl.gz or .* is not in the folder"):
        ids("humaneval+")


@pytest.mark.usefixtures("importers")
def test_a_benchmark_is_the_file_that_the_recipe_names(place):
    other = write_lines(place / "other.jsonl", MBPP[:1])
    assert ids("mbpp", benchmarks={"mbpp": str(other)}) == [["mbpp/11"]]
    assert ids("small", benchmarks={"small": f"mbpp:{other}"}) == [["mbpp/11"]]
    assert len(ids("anything", benchmarks={"anything": str(place / "mine")})[0]) == 60
    with pytest.raises(SourceError, match="evaluate.archives: small: is not an archive"):
        ids("small", benchmarks={"small": str(other)})


def test_archives_are_split_like_the_training_archive_unless_they_record_a_split(place):
    data = DataConfig(train=0.5, dev=0.2, split_seed=3)
    tasks = split_archive(Archive(place / "mine"), data).tasks
    assert ids("mine:test", "mine:dev", data=data) == [[task.task_id for task in tasks[name]] for name in ("test", "dev")]
    assert ids("ours") == [["mine/0", "mine/1", "mine/2"]]
    embedded = split_archive(open_archive("embedded"), DataConfig()).tasks["test"]
    assert ids("embedded:test", data=DataConfig(split_by="schema")) == [[task.task_id for task in embedded]]
    with pytest.raises(ConfigError, match="ours:train: none of the 3 tasks"):
        ids("ours:train", data=DataConfig(train=0.01, dev=0.01))


def test_tasks_of_any_language_ask_for_that_of_the_recipe(place):
    archive = Archive(place / "benchmarks" / "ours")
    archive.append(tasks=[replace(archive.tasks()[0], task_id=f"mine/any-{n}", language="") for n in range(2)])
    (found,) = task_sets(EvalConfig(archives=("ours",)), DataConfig(language="C++17"), ())
    assert [task.language for task in found.tasks] == ["python"] * 3 + ["cpp"] * 2


def test_tasks_without_tests_are_left_out_with_a_warning(place):
    archive = Archive(place / "benchmarks" / "ours")
    archive.append(tasks=[Task("mine/none", "Say which words of this sentence are verbs.")])
    with pytest.warns(UserWarning, match="1 of 4 tasks of ours have no tests and are left out, because samples"):
        assert ids("ours") == [["mine/0", "mine/1", "mine/2"]]
    archive = Archive.create(place / "untested")
    archive.append(tasks=[Task(f"untested/{n}", f"{'x' * n} {n}") for n in range(40)])
    data = DataConfig(archive="untested")
    with (
        pytest.warns(UserWarning, match="tasks of untested:test have no tests"),
        pytest.warns(UserWarning, match="1 of 4 tasks of ours"),
    ):
        held = held_out(split_archive(archive, data), "untested", EvalConfig(archives=("ours",)), data)
    assert (held.dev, held.test, len(held.others)) == ((), (), 1)
    with (
        pytest.warns(UserWarning, match="40 of 40 tasks"),
        pytest.raises(ConfigError, match="evaluate.archives: untested: none of its tasks has tests"),
    ):
        ids("untested")


@pytest.mark.usefixtures("place")
def test_what_cannot_be_found_says_where_it_was_looked_for(monkeypatch):
    with pytest.raises(
        ConfigError, match="humanevl: no archive of this name here or in the folder .*benchmarks; did you mean humaneval"
    ):
        ids("humanevl")
    with pytest.raises(
        ConfigError, match="mbpp-sanitized: sanitized-mbpp.json is not in the folder .*; name the file: evaluate.bench"
    ):
        ids("mbpp-sanitized")
    monkeypatch.delenv("UPSOLVE_BENCHMARKS")
    with pytest.raises(
        ConfigError, match=r"\$UPSOLVE_BENCHMARKS is not set; name the file: evaluate.benchmarks=\{mbpp: PATH\}"
    ):
        ids("mbpp")
    with pytest.raises(ValueError, match="mbpp is named twice"):
        EvalConfig(archives=("mbpp", "mbpp"))
    with pytest.raises(ConfigError, match="evaluate.archives: every fold would measure another model"):
        load_recipe("rloo", ["evaluate.archives=[mbpp]", "data.folds=3"])


@pytest.mark.usefixtures("importers")
def test_rows_that_cannot_be_used_are_counted(place):
    write_lines(place / "benchmarks" / "mbpp" / "mbpp.jsonl", [*MBPP, {"task_id": 5}])
    with pytest.warns(UserWarning, match="evaluate.archives: mbpp: 1 rows are left out, such as line 5"):
        assert len(ids("mbpp")[0]) == 4


@pytest.mark.usefixtures("importers")
def test_leaks_are_reported_or_refused(place):
    twin = Task("mine/x", "Something else.", reference=MBPP[0]["code"])
    with pytest.warns(
        UserWarning,
        match=r"1 of 2 tasks of mbpp:test are nearly equal to training tasks: mbpp/11 and mine/x \(same reference\)",
    ):
        (found,) = task_sets(EvalConfig(archives=("mbpp:test",)), DataConfig(), [twin])
    assert found.leaked == ("mbpp/11",)
    with pytest.raises(ConfigError, match="leave them out of training, or set evaluate.leaks: report"):
        ids("mbpp:test", training=[twin], leaks="refuse")
    data = DataConfig(archive="mine")
    with pytest.raises(ConfigError, match="tasks of mine are nearly equal to training tasks"):
        held_out(split_archive(Archive(place / "mine"), data), "mine", EvalConfig(archives=("mine",), leaks="refuse"), data)
    assert not held_out(split_archive(Archive(place / "mine"), data), "mine", EvalConfig(), data).others


@pytest.fixture
def stages(tiny_model):
    recipe = load_recipe(None, ["sample.samples=2", "sample.max_tokens=8", "model.bf16=false", "verify.workers=1"])
    model = recipe.model.at(tiny_model)
    return {"model": model, "sample": recipe.sample, "verify": recipe.verify, "evaluate": EvalConfig(dev_samples=2)}


@pytest.mark.usefixtures("importers")
@pytest.mark.usefixtures("place")
def test_every_task_set_is_measured_at_the_temperatures_chosen_on_dev_tasks(stages, tmp_path):
    tasks = open_archive("embedded").tasks()
    (mbpp,) = task_sets(EvalConfig(archives=("mbpp:test",)), DataConfig(), ())
    held = HeldOut("embedded", "test", tuple(tasks[:2]), tuple(tasks[2:4]), others=(mbpp,))
    keep = tmp_path / "base.samples.jsonl"
    sweep = sweep_model(held, **stages, name="base", keep=keep)
    (other,) = sweep.others
    assert (
        other.best.tasks == "mbpp:test"
        and other.dev == sweep.dev
        and [s.task_id for s in other.hot.scores] == ["mbpp/11", "mbpp/12"]
    )
    assert [getattr(other, part).temperature for part in ("best", "many", "hot", "greedy")] == [
        getattr(sweep, part).temperature for part in ("best", "many", "hot", "greedy")
    ]
    assert other.best.prompts == prompts_id(mbpp.tasks) != sweep.best.prompts
    rows = [json.loads(line) for line in keep.read_text().splitlines()]
    greedy = [row for row in rows if row["task_set"] == "mbpp:test" and row["temperature"] == 0]
    assert [row["task_id"] for row in greedy] == ["mbpp/11", "mbpp/12"]
    save_sweep(sweep, tmp_path / "base.json")
    assert load_sweep(tmp_path / "base.json") == sweep
    both = [sweep, replace(sweep, name="trained")]
    assert {name: [*found] for name, found in by_task_set(both).items()} == {"mbpp:test": [other, other]}
    assert by_task_set([sweep, replace(sweep, others=())]) == {}
    write_report(tmp_path / "report.html", ReportContent("r", tuple(both), (1,)))
    page = (tmp_path / "report.html").read_text()
    assert "<b>mbpp:test: Too few tasks" in page and page.count('where temperatures are chosen"><table') == 1


@pytest.mark.parametrize("model", ["runs/a/model", "runs/a/snapshots/000020", "runs/b/model"])
def test_tasks_that_the_model_was_trained_on_are_named(tmp_path, monkeypatch, model):
    """Run a was trained on the tasks 1 and 2 of the archive, and run b continues with its model on others."""
    monkeypatch.chdir(tmp_path)
    tasks = [Task(str(number), f"Task {number}.") for number in range(4)]
    for name, base, trained in (("a", "base", tasks[1:3]), ("b", "runs/a/model", ())):
        recipe = load_recipe("rloo", [f"model.name={base}", "data.archive=tasks"])
        dump_recipe(recipe, Path("runs", name, "recipe.yaml"))
        groups = [Group(task, (Attempt(task.task_id, "x"),), (None,)) for task in trained]
        drawn = [TrainGroup(group, np.ones(1), np.ones(1, bool), np.ones(1)) for group in groups]
        DrawnGroups(Path("runs", name, "groups"), by_token=False).record(0, drawn)
    with pytest.warns(UserWarning, match=r"trained on 1 of the 3 tasks .*: upsolve eval runs/a/recipe.yaml --model runs/"):
        report_trained([tasks[0], *tasks[2:]], str(tmp_path / "tasks"), model)
    report_trained(tasks[3:], "tasks", model)  # no warning, which would be an error
    report_trained(tasks, "others", model)
    report_trained(tasks, "tasks", "HuggingFaceTB/SmolLM2-135M")


def test_evaluations_with_other_prompts_are_not_compared(stages):
    evaluation = sweep_model(
        HeldOut("e", "test", (), tuple(open_archive("embedded").tasks()[:2])),
        **stages | {"evaluate": EvalConfig(temperatures=(0,))},
    ).best
    assert evaluation.prompts.startswith(f"{VERSION}:") and compare(evaluation, replace(evaluation, prompts=""))
    with pytest.raises(ValueError, match="model and model had different prompts"):
        compare(evaluation, replace(evaluation, prompts="upsolve-0:x"))


def test_the_prompt_of_this_version_is_this_text():
    """Whoever changes the prompt of any task has to change ``VERSION``, and this text with it."""
    task = Task("t", "Add one.\n", (TestCase(TestKind.CALL, "f(1)", "2"), TestCase(TestKind.CALL, "f(2)", "3", True)))
    query = Task("q", "All names?", language="sql")
    program = Task("p", "Sum.", (TestCase(TestKind.STDIO, "1 2\n", "3\n"),), language="cpp")
    assert VERSION == "upsolve-1"
    assert plain_prompt(task) == "Add one.\n\nExamples:\nassert f(1) == 2\n\n```python\n"
    assert plain_prompt(query) == "All names?\n\nAnswer with one query for SQLite.\n\n```sql\n"
    assert plain_prompt(program) == "Sum.\n\nExamples:\nInput:\n1 2\nOutput:\n3\n\n```cpp\n"
    assert prompts_id([task]) == prompts_id([replace(task, reference="x")]) != prompts_id([replace(task, prompt="Add 1.")])


@pytest.mark.usefixtures("importers")
def test_real_benchmarks(real_data, monkeypatch):
    monkeypatch.setenv("UPSOLVE_BENCHMARKS", str(real_data))
    names = [f"{name}:test" for name, benchmark in BENCHMARKS.items() if benchmark.source != "evalplus"]  # runs its references
    found = {one.name: len(one.tasks) for one in task_sets(EvalConfig(archives=tuple(names)), DataConfig(), ())}
    assert (found["mbpp:test"], found["humaneval:test"], found["mbpp-sanitized:test"]) == (500, 164, 257)
    assert isinstance(task_sets(EvalConfig(archives=("mbpp:dev",)), DataConfig(), ())[0], TaskSet)
