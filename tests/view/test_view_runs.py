"""The viewer on runs and logs: rewards and advantages are those of training, and every mistake is one message."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from archives import TEST, judged, plain_archive

from upsolve.archive.store import Archive
from upsolve.config import load_recipe
from upsolve.errors import ArchiveError, ConfigError
from upsolve.evaluate.samples import sample_rows
from upsolve.policy.model import load_codec
from upsolve.reward.formula import reward
from upsolve.reward.judged import group_of
from upsolve.train.data.drawn import DrawnGroups
from upsolve.train.data.encode import Encoding, draw_pairs, encode_groups, tokenize_groups
from upsolve.train.data.groups import with_advantages
from upsolve.train.data.sources import round_tag
from upsolve.types import Attempt, Finding, Group, Status, Task
from upsolve.view.answers import Answers, read_metrics
from upsolve.view.opening import open_path
from upsolve.view.static import first_entries, write_page

CODES = ("a = 1\n", "b = 22\n", "c = 333\nd = c / 0\n", "e = 5\n")
STATUSES = (Status.PASSED, Status.FAILED, Status.RUNTIME_ERROR, Status.FAILED)
RECIPE = """
model: {{name: {model}}}
data: {{archive: '{archive}'}}
reward: {{outcomes: {{failed: 0.0, runtime_error: 0.0}}}}
advantage: {{kind: leave_one_out, blame: 0.5}}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))


def write_run(folder, model, archive, text=RECIPE):
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(text.format(model=model, archive=archive))
    (folder / "metrics.jsonl").write_text('{"step": 1.0, "loss": NaN}\n{"step": 2.0')
    return folder


def one_task(folder, **tag):
    """An archive of one task with one passed attempt of four."""
    archive, task = Archive.create(folder), Task("t/1", "Do it.", (TEST,), "f")
    attempts = [Attempt("t/1", code, author="x") for code in CODES]
    traceback = Finding("traceback", "ZeroDivisionError", "division by zero", 2, 5)
    verdicts = [
        judged(
            attempt,
            status,
            findings=(traceback,) if status is Status.RUNTIME_ERROR else (),
            error_line=2 if status is Status.RUNTIME_ERROR else None,
        )
        for attempt, status in zip(attempts, STATUSES, strict=True)
    ]
    archive.append(tasks=[task], attempts=attempts, verdicts=verdicts, **tag)
    return archive


def test_rewards_and_advantages_of_a_run_are_those_of_training(tmp_path, tiny_model):
    archive = one_task(tmp_path / "a")
    answers = open_path(str(write_run(tmp_path / "run", tiny_model, archive.path)))
    group = answers.group({"id": "t/1"})
    assert [row["reward"] for row in group["rows"]] == [1.0, 0.0, 0.0, 0.0]
    # leave one out: 1 - 0 for the passed attempt, 0 - 1/3 for each other
    assert [row["advantage"] for row in group["rows"]] == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert group["kind"] == "leave_one_out" and "has recorded no groups" in group["note"]


@pytest.mark.slow
def test_the_verdicts_of_a_run_are_those_of_the_judge_that_its_recipe_names(tmp_path, tiny_model):
    archive = one_task(tmp_path / "a")
    archive.append(verdicts=[judged(one, Status.PASSED, "recorded:site") for one in archive.attempts()])
    found = {}
    for name in ("", "upsolve", "recorded"):
        text = RECIPE.replace("'{archive}'", f"'{{archive}}', judge: '{name}'")
        answers = open_path(str(write_run(tmp_path / f"run{name}", tiny_model, archive.path, text)))
        write_page(answers, tmp_path / "page.html")
        shown = [answers.routes["attempt"]({"place": str(place)})["verdicts"] for place in range(4)]
        listed = [row["status"] for row in answers.routes["attempts"]({})["rows"]]
        assert listed == [verdicts[0]["status"] for verdicts in shown] and {len(verdicts) for verdicts in shown} == {2}
        rewards = [row["reward"] for row in answers.group({"id": "t/1"})["rows"]]
        assert [reward == 1 for reward in rewards] == [status == "passed" for status in listed]
        found[name] = listed.count("passed")
    assert found == {"": 1, "upsolve": 1, "recorded": 4}  # TEST is the recorded judge's number of tests, too


def test_tokens_have_the_advantages_that_training_gives_them(tmp_path, tiny_model):
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "run", tiny_model, archive.path)
    answers, recipe = open_path(str(run)), load_recipe(run / "recipe.yaml")
    encoding = Encoding(load_codec(tiny_model), recipe.data.max_tokens, recipe.reward, recipe.advantage, recipe.objective)
    (encoded,), *_ = encode_groups(tokenize_groups([answers_reward(archive, recipe)], encoding), encoding)
    for place, attempt in enumerate(encoded.attempts):
        shown = answers.tokens({"place": str(place)})
        assert len(shown["spans"]) == len(attempt.ids_R) and sum(shown["rewards"]) == pytest.approx(shown["reward"])
        np.testing.assert_allclose(shown["advantages"], attempt.advantages_R, rtol=1e-6)
    blamed = answers.tokens({"place": "2"})["advantages"]
    assert min(blamed) < max(blamed) < 0 and np.mean(blamed) == pytest.approx(-1 / 3)


def answers_reward(archive, recipe):
    (group,) = archive.groups()
    return reward(group, recipe.reward)


def test_the_groups_of_a_run_are_those_that_it_recorded(tmp_path, tiny_model):
    """Rounds 0 and 10 of an online run: equal samples of a round are several attempts of its group; one attempt is in no archive."""
    run = write_run(tmp_path / "run", tiny_model, tmp_path / "elsewhere")
    archive, recipe = one_task(run / "rollouts", tag=round_tag(0)), load_recipe(run / "recipe.yaml")
    twice, other, gone = (Attempt("t/1", code, author="x") for code in (CODES[0], CODES[1], "gone = 1\n"))
    verdicts = (judged(twice), judged(twice), judged(other, Status.FAILED), judged(gone, Status.FAILED))
    late = Group(Task("t/1", ""), (twice, twice, other, gone), verdicts)
    drawn = DrawnGroups(run / "groups", by_token=False)
    for number, group in ((0, next(iter(archive.groups()))), (10, late)):
        drawn.record(number, [with_advantages(reward(group, recipe.reward), recipe.advantage, seed=0)])
    answers = open_path(str(run))
    shown = answers.group({"id": "t/1"})
    first, second = shown["drawn"]
    assert "as in training" in shown["note"] and [row["advantage"] for row in shown["rows"]] == [None] * 4
    assert (first["round"], second["round"], first["missing"], second["missing"]) == (0, 10, 0, 1)
    # leave one out of 1, 0, 0, 0; and of 1, 1, 0, 0, of which the last is not in the archive: 1 - 1/3, 1 - 1/3, 0 - 2/3
    assert [row["advantage"] for row in first["attempts"]] == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert [row["advantage"] for row in second["attempts"]] == pytest.approx([2 / 3, 2 / 3, -2 / 3])
    assert [row["place"] for row in second["attempts"]] == [0, 0, 1]
    tokens = answers.tokens({"place": "0"})
    assert tokens["advantage"] == 1.0 and tokens["note"] == "as trained on in round 0"


def test_an_attempt_that_was_not_drawn_has_rewards_but_no_advantage(tmp_path, tiny_model):
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "run", tiny_model, archive.path)
    recipe, (group,) = load_recipe(run / "recipe.yaml"), archive.groups()
    few = [with_advantages(reward(group_of(group, [0, 1]), recipe.reward), recipe.advantage, seed=0)]
    DrawnGroups(run / "groups", by_token=False).record(0, few)
    answers = open_path(str(run))
    assert [len(each["attempts"]) for each in answers.group({"id": "t/1"})["drawn"]] == [2]
    tokens = answers.tokens({"place": "3"})
    assert tokens["rewards"] and "advantages" not in tokens and "in no recorded group" in tokens["note"]


def test_the_tokens_of_a_pair_are_weighted_as_in_training(tmp_path, tiny_model):
    text = (
        RECIPE.replace("kind: leave_one_out, blame: 0.5", "kind: leave_one_out")
        + "objective: {{kind: dpo, preference: {{focal: true}}}}\n"
    )
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "run", tiny_model, archive.path, text)
    recipe = load_recipe(run / "recipe.yaml")
    (pair,) = draw_pairs([answers_reward(archive, recipe)], recipe.data, "outcome", epoch=0).groups
    DrawnGroups(run / "groups", by_token=False).record(0, [with_advantages(pair, recipe.advantage, seed=0, pair=True)])
    encoding = Encoding(load_codec(tiny_model), recipe.data.max_tokens, recipe.reward, recipe.advantage, recipe.objective)
    (encoded,), *_ = encode_groups(tokenize_groups([pair], encoding), encoding)
    answers = open_path(str(run))
    (drawn,) = answers.group({"id": "t/1"})["drawn"]
    for row, attempt in zip(drawn["attempts"], encoded.attempts, strict=True):
        np.testing.assert_allclose(answers.tokens({"place": row["place"]})["advantages"], attempt.advantages_R)


def test_log_probabilities_are_computed_on_request(tmp_path, tiny_model):
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "run", tiny_model, archive.path)
    assert "logps" not in open_path(str(run)).tokens({"place": "0"})
    shown = open_path(str(run), logps=True).tokens({"place": "0"})
    assert len(shown["logps"]) == len(shown["spans"]) and max(shown["logps"]) < 0 and shown["logps_of"] == "the run's model"


def test_log_probabilities_are_those_after_the_prompts_of_the_run(tmp_path, tiny_model):
    """A system message and the attempt's parent come before it: each changes the log-probabilities."""
    archive = Archive.create(tmp_path / "a")
    first = Attempt("t/1", CODES[1])
    second = Attempt("t/1", CODES[0], parent_id=first.attempt_id)
    archive.append(
        tasks=[Task("t/1", "Add.")], attempts=[first, second], verdicts=[judged(first, Status.FAILED), judged(second)]
    )
    shown = {}
    texts = {"plain": RECIPE, "turns": RECIPE.replace("data: {{", "data: {{turns: 1, ")}
    texts["system"] = RECIPE.replace("model: {{", "model: {{prompt: {{system: Be brief.}}, ")
    for name, text in texts.items():
        run = write_run(tmp_path / name, tiny_model, archive.path, text)
        shown[name] = [open_path(str(run), logps=True).tokens({"place": place})["logps"] for place in ("0", "1")]
    assert shown["turns"][0] == shown["plain"][0] and shown["turns"][1] != shown["plain"][1]
    assert shown["system"][0] != shown["plain"][0]


def test_metrics_are_read_from_where_the_last_look_ended(tmp_path, tiny_model):
    run = write_run(tmp_path / "run", tiny_model, "embedded")
    first = read_metrics(run, 0)
    assert len(first["rows"]) == 1 and not first["finished"]  # the second line is still being written
    with (run / "metrics.jsonl").open("a") as log:
        log.write(', "loss": 1.0}\n')
    assert read_metrics(run, first["next"])["rows"] == [{"step": 2.0, "loss": 1.0}]
    (run / "metrics.jsonl").write_text('{"step": 1.0}\n')  # the run was started afresh
    assert read_metrics(run, first["next"])["rows"] == [{"step": 1.0}]


def test_a_growing_archive_is_indexed_again(tmp_path, monkeypatch):
    monkeypatch.setattr("upsolve.view.answers.CHECK_SECONDS", 0)
    archive = plain_archive(tmp_path / "a", 10)
    answers = Answers(archive, title="a")
    before = answers.info({})["counts"]["attempts"]
    archive.append(attempts=[Attempt("a/even", "new = 1")])
    assert (before, answers.info({})["counts"]["attempts"]) == (10, 11)


def test_samples_of_an_evaluation_are_shown_with_their_tasks_and_outcomes(tmp_path, tiny_model):
    """The file is written by the functions of an evaluation."""
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "out" / "training", tiny_model, archive.path)
    shutil.copy(run / "recipe.yaml", tmp_path / "out" / "recipe.yaml")
    (group,) = archive.groups()
    lacks = judged(group.attempts[3], Status.UNSCORED, error_type="Missing", error_message="no compiler")
    verdicts = [*group.verdicts[:3], lacks]
    rows = sample_rows(group.attempts, verdicts, task_set="a:test", temperature=0.5)
    file = tmp_path / "out" / "trained.samples.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = open_path(str(file))
    shown = [answers.routes["attempt"]({"place": row["place"]}) for row in answers.routes["attempts"]({})["rows"]]
    assert [one["verdicts"][0]["status"] for one in shown] == ["passed", "failed", "runtime_error", "unscored"]
    assert [one["attempt"]["code"] for one in shown] == [*CODES] and shown[0]["task"]["prompt"] == "Do it."
    assert json.loads(shown[3]["attempt"]["extra"]) == {"task_set": "a:test", "temperature": 0.5, "model": "x"}
    assert {one["attempt"]["author"] for one in shown} == {"trained"}, "not the folder of the model"
    found = shown[3]["verdicts"][0]
    assert (found["error_type"], found["error_message"]) == ("Missing", "no compiler")
    file.write_text(file.read_text() + '{"task_id": "t/1"}\n')
    with pytest.raises(ArchiveError, match="line 5 is not a sample of an evaluation"):
        open_path(str(file))


def test_a_run_shows_the_samples_of_its_evaluations_beside_its_attempts(tmp_path, monkeypatch, tiny_model):
    folder = evaluated_run(tmp_path, tiny_model)
    answers = open_path(str(folder))
    assert answers.info({})["samples"] and answers.info({})["counts"]["attempts"] == 4
    samples = answers.about("samples")
    assert samples is answers.about("samples") and samples.info({})["counts"] == {"attempts": 8, "tasks": 1}
    rows = samples.routes["attempts"]({"sampled": "a:test, T 0.5", "author": "trained"})["rows"]
    assert [row["status"] for row in rows] == ["passed"] * 4
    assert len(samples.routes["attempts"]({"status": "failed"})["rows"]) == 4
    (task,) = samples.routes["tasks"]({})["rows"]
    assert task["evaluations"] == [
        {"name": "base, a:test, T 0.5", "passed": 0, "scored": 4},
        {"name": "trained, a:test, T 0.5", "passed": 4, "scored": 4},
    ]
    assert answers.routes["tasks"]({})["rows"][0]["evaluations"] == [], "its attempts are no samples of evaluations"
    assert answers.about("") is answers
    monkeypatch.chdir(folder)
    assert open_path(".").title == f"run {folder.name}: run" and open_path("base.samples.jsonl").title.startswith(folder.name)
    (folder / "base.samples.jsonl").unlink()
    (folder / "trained.samples.jsonl").unlink()
    with pytest.raises(ArchiveError, match="the run has no samples"):
        open_path(str(folder)).about("samples")


def evaluated_run(tmp_path, model):
    """A run whose untrained model failed with four samples, and whose trained model passed with all."""
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "out" / "training", model, archive.path)
    shutil.copy(run / "recipe.yaml", tmp_path / "out" / "recipe.yaml")
    (group,) = archive.groups()
    for name, status in (("base", Status.FAILED), ("trained", Status.PASSED)):
        attempts = [replace(attempt, author=name, code=f"# {name}\n{attempt.code}") for attempt in group.attempts]
        rows = sample_rows(attempts, [judged(attempt, status) for attempt in attempts], task_set="a:test", temperature=0.5)
        (tmp_path / "out" / f"{name}.samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "out"


def test_logs_are_read_by_the_importer_that_can(tmp_path):
    rows = [
        {"input": "Double x.", "output": f"```python\nx = {n}\n```", "gts": "4", "score": n % 2, "step": 1} for n in range(3)
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for source in ("", "verl"):
        answers = open_path(str(tmp_path / "1.jsonl"), source=source)
        assert answers.title == "1.jsonl (verl)" and len(answers.routes["attempts"]({})["rows"]) == 3


@pytest.mark.parametrize(
    ("path", "options", "error", "said"),
    [
        ("none", {}, ArchiveError, "no such file or folder; name an archive, the folder of a run, or a log"),
        ("odd.jsonl", {}, ArchiveError, "name its importer with --source"),
        ("odd.jsonl", {"logps": True}, ConfigError, "--logps: has no effect on a log"),
        ("a", {"source": "trl"}, ConfigError, "--source: has no effect on an archive"),
        ("run", {"source": "trl"}, ConfigError, "--source: has no effect on a run"),
        ("run", {}, ArchiveError, "say where it is with --archive"),
        ("several", {}, ArchiveError, "name one of them: several/a"),
        ("t.csv", {}, ArchiveError, "--prompt COLUMN"),
        (
            "t.csv",
            {},
            ArchiveError,
            "its columns are question, code; perhaps --task_id question; `upsolve ingest table` has options: import it so, and view the archive",
        ),
        ("run", {"archive": "none"}, ArchiveError, "none: not an archive"),
    ],
)
def test_a_mistake_is_one_message_that_says_what_to_do(tmp_path, monkeypatch, path, options, error, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.jsonl").write_text('{"hello": 1}\n')
    (tmp_path / "t.csv").write_text("question,code\nTwo.,2\n")
    for folder in (tmp_path / "a", tmp_path / "several" / "a"):
        plain_archive(folder, 2)
    write_run(tmp_path / "run", "none", "gone")
    with pytest.raises(error, match=said.replace("--", "-+")) as raised:
        open_path(path, **options)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.slow
def test_a_page_of_many_attempts_stays_below_its_limit_and_says_what_it_leaves_out(tmp_path, monkeypatch):
    archive = plain_archive(tmp_path / "a", 600)
    monkeypatch.setattr("upsolve.view.static.MOST_ATTEMPTS", 500)
    said = write_page(Answers(archive, title="a"), tmp_path / "page.html")
    assert "500 of 600 attempts, the first ones" in said
    size = (tmp_path / "page.html").stat().st_size
    monkeypatch.setattr("upsolve.view.static.MOST_BYTES", size - 3000)
    monkeypatch.setattr("upsolve.view.static.CHUNK", 50)
    write_page(Answers(archive, title="a"), tmp_path / "small.html")
    assert (tmp_path / "small.html").stat().st_size <= size - 3000
    text = (tmp_path / "small.html").read_text()
    assert "src=" not in text.replace("src=x", "") and "import " not in text.partition("<script>")[2][:4000]


def test_a_page_of_a_run_has_the_tasks_that_were_trained_on_and_the_samples_of_both_models(tmp_path, monkeypatch, tiny_model):
    """Of two tasks the run trained on the second; a page that has room for half of the attempts shows that one."""
    folder = evaluated_run(tmp_path, tiny_model)
    archive, recipe = plain_archive(tmp_path / "two", 8), load_recipe(folder / "recipe.yaml")
    group = next(group for group in archive.groups() if group.task.task_id == "a/odd")
    drawn = [with_advantages(reward(group, recipe.reward), recipe.advantage, seed=0)]
    DrawnGroups(folder / "training" / "groups", by_token=False).record(0, drawn)
    answers = open_path(str(folder), archive=str(archive.path))
    assert "8 attempts, 8 samples of evaluations" in write_page(answers, tmp_path / "page.html")
    monkeypatch.setattr("upsolve.view.static.MOST_ATTEMPTS", 4)
    said = write_page(answers, tmp_path / "page.html")
    assert "4 of 8 attempts, those at tasks that were trained on first, 4 samples of evaluations" in said
    assert [row["place"] for row in first_entries(answers, 4)] == [1, 3, 5, 7]


def test_heat_maps_without_room_on_a_page_are_omitted_with_a_note(tmp_path, monkeypatch, tiny_model):
    archive = one_task(tmp_path / "a")
    run = write_run(tmp_path / "run", tiny_model, archive.path)
    monkeypatch.setattr("upsolve.view.static.CHUNK", 2)
    assert "heat maps" not in write_page(open_path(str(run)), tmp_path / "page.html")
    monkeypatch.setattr("upsolve.view.static.SLACK", 300)
    monkeypatch.setattr("upsolve.view.static.MOST_BYTES", (tmp_path / "page.html").stat().st_size)  # 300 bytes short
    said = write_page(open_path(str(run)), tmp_path / "page.html")
    assert said.endswith("heat maps are those of the first 2 attempts: use `upsolve view RUN` for the others")
    (run / "recipe.yaml").write_text(RECIPE.format(model="nowhere/none", archive=archive.path))
    said = write_page(open_path(str(run)), tmp_path / "page.html")
    assert "4 attempts" in said and "heat maps are missing: " in said


def test_the_index_is_rebuilt_where_the_cache_was_removed(tmp_path):
    archive = plain_archive(tmp_path / "a", 10)
    assert Answers(archive, title="a").index.ready
    shutil.rmtree(tmp_path / "cache")
    assert len(Answers(archive, title="a").routes["attempts"]({})["rows"]) == 10
