"""The recipes of papers: data by the commands of docs/papers.md from small files in the published layouts, then two steps with a tiny model."""

import json
import os
import warnings
from pathlib import Path

import pytest
from documents import ROOT, blocks, commands, run_command

from upsolve.archive.split import split_archive
from upsolve.archive.store import open_archive
from upsolve.config import load_recipe, recipe_names
from upsolve.train.loop import train

PAPERS = [name for name in recipe_names() if name.startswith("papers/")]
QUICK = {"papers/2605.21180_code", "papers/2605.28409_exp", "papers/2605.30478_qwen_grpo_both"}
"""One of each paper; the others are run by make test-all."""
PAGE = ROOT / "docs" / "papers.md"
STATUSES = (
    "Accepted",
    "Wrong Answer",
    "Runtime Error",
    "Accepted",
    "Time Limit Exceeded",
    "Wrong Answer",
    "Accepted",
    "Compile Error",
)
COLUMNS = (
    "submission_id,problem_id,user_id,date,language,original_language,filename_ext,status,cpu_time,memory,code_size,accuracy"
)


def write_codenet(root, problems=14):
    (root / "metadata").mkdir(parents=True)
    (root / "problem_descriptions").mkdir()
    names = [f"p{number:05d}" for number in range(problems)]
    head = "id,name,dataset,time_limit,memory_limit,rating,tags,complexity\n"
    (root / "metadata" / "problem_list.csv").write_text(head + "".join(f"{name},Sum,AIZU,1000,131072,,,\n" for name in names))
    for name in names:
        (root / "problem_descriptions" / f"{name}.html").write_text(f"<p>Add, task {name}.</p>")
        (folder := root / "data" / name / "Python").mkdir(parents=True)
        lines = [COLUMNS]
        for number, status in enumerate(STATUSES):
            (folder / f"s{number}.py").write_text(f"print({number})")
            lines.append(f"s{number},{name},u{number},1300000000,Python,Python3,py,{status},20,5000,10,4/5")
        (root / "metadata" / f"{name}.csv").write_text("\n".join(lines) + "\n")


def write_mbpp(file):
    numbers = (11, 12, 511, 512, *range(601, 609))
    rows = [
        {
            "task_id": number,
            "text": f"Add {number}.",
            "code": f"def f(x):\n    return x + {number}",
            "test_list": [f"assert f(1) == {number + 1}"],
        }
        for number in numbers
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_instructions(folder):
    folder.mkdir()
    rows = [
        {
            "id": str(number),
            "input": f"Add {number}.",
            "output": f"```python\ndef f(x):\n    y = x + {number}\n    return y\n```",
            "unit_tests": json.dumps([f"assert f(1) == {number + 1}"]),
            "tests_execution_status": json.dumps(["pass"]),
            "average_test_score": "1.0",
        }
        for number in range(20)
    ]
    (folder / "train-00000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_apps_plus(file):
    row = {"name": "1", "prompt": "Add.", "fn_name": "f", "inputs": [[1, 2]], "outputs": [3], "starter_code": "def f(a, b):"}
    file.write_text(json.dumps([{**row, "canonical_solution": "def f(a, b):\n    return a + b", "difficulty": "interview"}]))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder in which the imports of the page have been run, on small files."""
    folder, before = tmp_path_factory.mktemp("papers"), Path.cwd()
    (folder / "data").mkdir()
    write_codenet(folder / "data" / "Project_CodeNet")
    write_mbpp(folder / "data" / "mbpp.jsonl")
    write_instructions(folder / "data" / "OpenCodeInstruct")
    write_apps_plus(folder / "data" / "apps_plus.json")
    os.chdir(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSOLVE_BENCHMARKS", str(folder / "benchmarks"))
        patch.setenv("UPSOLVE_CACHE", str(folder / "cache"))
        for words in (words for block in blocks(PAGE) if block.kind == "shell" for words in commands(block.text)):
            if words[1] in ("ingest", "verify"):
                run_command([os.path.expandvars(word).replace("6000", "24") for word in words])
        yield folder
    os.chdir(before)


def settings(name, tiny_model):
    """Return what makes a recipe small; the rest is as it is shipped."""
    few = [f"model.name={tiny_model}", "model.bf16=false", "optim.max_steps=2", "monitor.heldout=2", "verify.workers=1"]
    recipe = load_recipe(name)
    if recipe.model.lora_rank:
        few.append("model.lora_rank=2")
    if recipe.source.rounds:
        few += ["source.groups=4", "source.rollout.max_tokens=16", "monitor.stop_on_collapse=false"]
    if (
        "grpo" in name or "gspo" in name
    ):  # what the tiny model babbles fails in one and the same way: let the shorter be the better
        few += ["reward.weights.length=1", "reward.length=[0, 40]", "data.group_size=4"]
    return few


def test_the_page_names_every_recipe():
    text = PAGE.read_text(encoding="utf-8")
    for name in PAPERS:
        arm = name.rpartition("_")[2]
        assert f"`{name}`" in text or f"_{arm}`" in text, name
    assert len(PAPERS) == 30


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_what_the_importers_make_is_what_the_recipes_need():
    codenet, mbpp, instructions, robot = (
        open_archive(f"archives/{name}") for name in ("codenet", "mbpp", "opencodeinstruct", "robot-worlds")
    )
    assert len(codenet.attempts()) == 14 * len(STATUSES) and len(mbpp.attempts()) == 12
    assert {verdict.status.value for verdict in mbpp.verdicts()} == {"passed"}
    assert all(task.reference for task in instructions.tasks())
    assert {len(task.tests) for task in robot.tasks()} == {5}
    assert [task.difficulty for task in open_archive("benchmarks/apps_plus").tasks()] == ["interview"]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PAPERS])
def test_two_steps(name, tiny_model, tmp_path):
    recipe = load_recipe(name, settings(name, tiny_model))
    split = split_archive(open_archive(recipe.data.archive), recipe.data, untried=recipe.source.rounds > 0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="source.groups: a round samples each task once")
        trained = train(recipe, split.groups["train"], split.groups["dev"], tmp_path / "run")
    assert trained.steps == 2 and not trained.collapsed
    assert trained.metrics[0]["grad_norm"] > 0
    if recipe.data.group_size == 1 and recipe.source.rounds:
        assert trained.metrics[0]["sampled"] == 4, "one sample a prompt"
