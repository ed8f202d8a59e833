"""Online rounds: the real loop on a tiny random model, with the real judge."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import GaeConfig, KlConfig, MonitorConfig, ObjectiveConfig, Recipe, SourceConfig
from upsolve.errors import ConfigError, ModelError, TrainingError
from upsolve.policy.model import load_codec
from upsolve.policy.prompt import with_hint
from upsolve.reward.formula import reward
from upsolve.reward.judged import group_of
from upsolve.train.check import checked_rewarder
from upsolve.train.data import judging
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.judging import Rollouts
from upsolve.train.data.sources import OnlineSource, pass_rate, shares
from upsolve.train.loop import form_groups, train
from upsolve.train.run.monitor import read_steps, warn_of
from upsolve.train.run.processes import Processes
from upsolve.train.update.scores import with_gae
from upsolve.train.update.step import FrozenScores
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict, no_progress
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

SETTINGS = {
    "data": {"train": 0.1, "dev": 0.05, "group_size": 4},
    "source": {"rounds": 3, "groups": 4, "rollout": {"max_tokens": 24, "temperature": 1.0, "top_p": 1.0}},
    "reward": {"weights": {"length": 1.0}, "length": [0, 40]},  # nothing that this model writes passes: shorter is better
    "advantage": {"kind": "standardised"},
    "objective": {"kind": "ppo_clip", "reduce": "token_mean"},
    "optim": {"tokens_per_step": 1000, "tokens_per_batch": 1000, "lr": 1e-3, "schedule": "constant", "epochs": 2},
    "verify": {"cache": False, "workers": 1},
    "monitor": {"save_every": 2, "eval_every": 4, "heldout": 4, "keep": "last"},
}
UNTIMED = ("seconds", "tokens_per_second", "preparing_seconds")


def recipe_for(model, **stages):
    merged = {name: {**SETTINGS.get(name, {}), **stages.get(name, {})} for name in {*SETTINGS, *stages}}
    return Recipe.model_validate({**merged, "model": {"name": model, "bf16": False}})


def run(recipe, folder):
    split = split_archive(open_archive("embedded"), recipe.data, untried=recipe.source.rounds > 0)
    return train(recipe, split.groups["train"], split.groups["dev"], folder)


def curve(folder):
    rows = read_steps(Path(folder) / "metrics.jsonl")
    return [{name: value for name, value in row.items() if name not in UNTIMED} for row in rows]


GAE = {"advantage": {"kind": "gae"}, "objective": {"kl": {"coefficient": 0.05, "place": "reward"}}}


@pytest.mark.filterwarnings("ignore:step .* clipped")  # so small a model moves far at this rate
@pytest.mark.parametrize(
    "stages",
    [
        {},
        pytest.param({"objective": {"reduce": "sequence_mean", "clip": {"low": 0.2, "high": 0.28}}}, marks=pytest.mark.slow),
        pytest.param(
            {"advantage": {"kind": "centred"}, "objective": {"reduce": "constant_length", "length": 24}}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"objective": {"kind": "gspo", "reduce": "sequence_mean", "clip": {"low": 3e-4, "high": 4e-4}}},
            marks=pytest.mark.slow,
        ),
        pytest.param({"objective": {"kind": "cispo"}}, marks=pytest.mark.slow),
        pytest.param(
            {"advantage": {"kind": "leave_one_out"}, "objective": {"kind": "reinforce", "kl": {"coefficient": 0.01}}},
            marks=pytest.mark.slow,
        ),
        pytest.param(GAE, marks=pytest.mark.slow),
        {**GAE, "reward": {"preset": "dense", "weights": {"length": 1.0}}},
        pytest.param(
            {
                **GAE,
                "data": {"group_size": 1},
                "source": {"groups": 16},
                "optim": {"tokens_per_step": 4096, "attempts_per_step": 8},
            },
            marks=pytest.mark.slow,
        ),
        pytest.param({"source": {"hints": 1.0, "hints_passed": 0.5}, "reward": {"length": [0, 1000]}}, marks=pytest.mark.slow),
    ],
    ids=["grpo", "grpo-sequence", "dr-grpo", "gspo", "cispo", "rloo", "ppo", "ppo-dense", "ppo-single", "completion"],
)
def test_every_method_runs_from_the_policy_itself(tiny_model, tmp_path, stages):
    recipe = recipe_for(tiny_model, **{**stages, "source": {**stages.get("source", {}), "rounds": 2}})
    trained = run(recipe, tmp_path / "run")
    rows = curve(tmp_path / "run")
    assert trained.steps == len(rows) >= 4 and {row["round"] for row in rows} == {0.0, 1.0}
    assert rows[0]["ess"] > 0.99, "the first step is on policy: what was sampled is what is trained on"
    assert rows[0]["clipped"] == 0 and rows[0]["sampled"] == 16
    if not recipe.objective.kl.coefficient:  # with every ratio 1 and advantages around their mean, the loss is about their mean
        assert rows[-1]["ess"] < rows[0]["ess"]
    before = (Path(tiny_model) / "model.safetensors").read_bytes()
    assert (trained.folder / "model.safetensors").read_bytes() != before


@pytest.mark.slow
def test_the_value_head_has_a_rate_of_its_own(tiny_model, tmp_path):
    value = {"objective": {**GAE["objective"], "value": {"lr": 0.02}}, "optim": {"max_steps": 1, "warmup": 0.0}}
    value["monitor"] = {"keep_checkpoints": True}
    run(recipe_for(tiny_model, **{**GAE, **value}), tmp_path / "run")
    *_, weight, bias = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["weights"]
    first = pytest.approx(0.02, rel=1e-3)  # AdamW's first step is the rate
    assert weight.abs().max() == first and bias.abs() == first
    (row,) = curve(tmp_path / "run")
    assert row["lr"] == 1e-3
    assert row["value_mean"] == 0 and row["return_mean"] != 0 and row["value_explained"] == pytest.approx(0)


def test_what_is_rewarded_becomes_likelier(tiny_model, tmp_path):
    recipe = recipe_for(
        tiny_model,
        reward={"weights": {"length": 1.0, "outcome": 0.0}, "length": [0, 24]},
        source={"rounds": 8, "groups": 4},
        optim={"lr": 3e-2, "epochs": 1},
        monitor={"stop_on_collapse": False, "heldout": 0},
    )
    run(recipe, tmp_path / "run")
    tokens = [row["sampled_tokens"] / row["sampled"] for row in curve(tmp_path / "run") if "sampled" in row]
    assert np.mean(tokens[-2:]) < 0.7 * np.mean(tokens[:2]), tokens


MIXED = {**GAE, "source": {"rounds": 2, "mix": {"policy": 1, "replay": 1, "archive": 1}, "groups": 6}}


@pytest.fixture(scope="module")
def whole(tiny_model, tmp_path_factory):
    """A run that nothing stops."""
    folder = tmp_path_factory.mktemp("whole")
    return run(recipe_for(tiny_model, **MIXED), folder)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_a_killed_online_run_goes_on_bit_by_bit(tiny_model, tmp_path, whole, stop):
    recipe, place = recipe_for(tiny_model, **MIXED), whole.folder.parent
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    command = [sys.executable, "-m", "upsolve", "train", str(file), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log, parts = tmp_path / "killed" / "metrics.jsonl", tmp_path / "killed" / "rollouts" / "attempts"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (log.exists() and len(log.read_text().splitlines()) >= stop) if stop else (parts.exists() and any(parts.iterdir())):
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resumed = run(recipe, tmp_path / "killed")
    assert curve(tmp_path / "killed") == curve(place)
    assert (resumed.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()
    assert (resumed.groups, resumed.left_out) == (whole.groups, whole.left_out)
    kept = [sorted(Archive(f / "rollouts").column("attempts", "attempt_id")) for f in (place, tmp_path / "killed")]
    assert kept[0] == kept[1], "no sample is lost, none is there twice"


def test_samples_are_judged_and_stored_for_the_next_offline_run(tiny_model, tmp_path):
    run(recipe_for(tiny_model, source={"rounds": 2}, monitor={"snapshot_every": 3}), tmp_path / "online")
    snapshots = sorted((tmp_path / "online" / "snapshots").iterdir())
    assert snapshots[0].name == "000003" and (snapshots[0] / "model.safetensors").exists()
    archive = Archive(tmp_path / "online" / "rollouts")
    attempts = archive.attempts()
    assert sum(attempt.count for attempt in attempts) == 32
    assert all(a.behavior_logp < 0 and a.token_ids and len(a.token_ids) == a.tokens for a in attempts)
    assert all(None not in group.verdicts for group in archive.groups())


def test_a_judge_that_breaks_gives_no_reward_at_all(tiny_model, tmp_path, monkeypatch):
    def broken(pairs, _how):
        for index, (_, attempt) in enumerate(pairs):
            yield index, Verdict(attempt.attempt_id, Status.UNSCORED, error_message="the judge is stuck")

    monkeypatch.setattr(judging, "judged", broken)
    with pytest.raises(TrainingError, match="no reward for unscored"):
        run(recipe_for(tiny_model, source={"rounds": 1}), tmp_path / "run")


def test_what_samples_must_have_the_weights(tiny_model, tmp_path):
    with pytest.raises(
        ModelError,
        match=r"no server could load the policy's weights \(http://127.0.0.1:9/v1/completions: the server gave no answer",
    ):
        server = {"url": "http://127.0.0.1:9/v1", "retries": 0}
        run(recipe_for(tiny_model, source={"rollout": {"engine": "server", "server": server}}), tmp_path / "server")
    with pytest.raises(ModelError, match="pip install vllm"):
        run(recipe_for(tiny_model, source={"rollout": {"engine": "vllm"}}), tmp_path / "vllm")


def test_values_need_rounds(tiny_model, tmp_path):
    with pytest.raises(ConfigError, match=r"source\.rounds"):
        run(recipe_for(tiny_model, **GAE, source={"rounds": 0}), tmp_path / "run")


def test_an_unknown_policy_of_stored_attempts_is_a_warning(caplog):
    for rounds, is_warned in ((2, False), (0, True)):
        recipe = Recipe.model_validate({"objective": {"kind": "ppo_clip"}, "source": {"rounds": rounds}})
        checked_rewarder(recipe, judged_groups([5]), Processes())
        assert ("the policy that wrote stored attempts is unknown" in caplog.text) is is_warned


def test_shares_by_hand():
    config = SourceConfig(rounds=5, groups=10, mix={"archive": 1}, mix_end={"policy": 3, "replay": 1})
    assert shares(config, 0) == {"archive": 10, "policy": 0, "replay": 0}
    # half way: 5, 3.75, 1.25; the largest remainder is rounded up
    assert shares(config, 2) == {"archive": 5, "policy": 4, "replay": 1}
    # 7.5 and 2.5: a tie goes to the first
    assert shares(config, 4) == {"archive": 0, "policy": 8, "replay": 2}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"mix": {}}, "not all 0"),
        ({"mix": {"policy": -1}}, "must be >= 0"),
        ({"mix_end": {"policy": 0}}, "not all 0"),
        ({"solved": [0.9, 0.1]}, "rising"),
    ],
)
def test_bad_sources_are_refused(source, message):
    with pytest.raises(ValueError, match=message):
        SourceConfig.model_validate(source)


def test_a_hint_is_the_beginning_of_the_reference_and_never_all_of_it():
    task = Task("t", "Add.", reference="def f(a, b):\n    c = a + b\n    return c\n")
    assert with_hint(task, 0.0) == task and with_hint(task, 0.3) == task
    assert with_hint(task, 0.7).prompt.endswith("```python\ndef f(a, b):\n    c = a + b\n```")
    assert with_hint(task, 1.0).prompt == with_hint(task, 0.7).prompt
    assert with_hint(task, 0.7).task_id == "t#hint2"


def judged_groups(rates):
    """Tasks with ten attempts each, of which some pass."""
    made = []
    for number, rate in enumerate(rates):
        task = Task(f"t{number}", "")
        attempts = tuple(Attempt(task.task_id, f"{number} {k}") for k in range(10))
        states = [Status.PASSED] * rate + [Status.FAILED] * (10 - rate)
        made.append(Group(task, attempts, tuple(Verdict(a.attempt_id, s) for a, s in zip(attempts, states, strict=True))))
    return made


def source_of(folder, stored, recipe=None, **source):
    recipe = recipe or Recipe(source=SourceConfig(**source))
    return OnlineSource(stored, Archive.create(folder / "rollouts"), recipe.source, data=recipe.data)


@pytest.mark.parametrize(("order", "first"), [("easy_first", {"t1", "t3"}), ("hard_first", {"t0", "t2"})])
def test_tasks_come_by_their_pass_rate_and_in_the_end_all(tmp_path, order, first):
    source = source_of(tmp_path, judged_groups([0, 9, 2, 6]), rounds=2, groups=1, order=order)
    assert {task.task_id for task in source.candidates(0)} == first
    assert {task.task_id for task in source.candidates(1)} == {"t0", "t1", "t2", "t3"}
    some = source_of(tmp_path, judged_groups([0, 9, 2, 6]), rounds=2, solved=(0.1, 0.7))
    assert {task.task_id for task in some.candidates(0)} == {"t2", "t3"}


def test_too_few_tasks_raise_before_sampling(caplog):
    def check(**settings):
        recipe = Recipe.model_validate({"source": {"rounds": 2, **settings}})
        checked_rewarder(recipe, judged_groups([0, 9, 2, 6]), Processes())
        return caplog.text

    with pytest.raises(ConfigError, match=r"source\.solved \[0\.3, 0\.5\]: none of the 4 training tasks"):
        check(groups=1, solved=(0.3, 0.5))
    assert "source.groups" not in check(groups=4)
    assert "source.groups" not in check(groups=5, solved=(0.3, 0.5), mix={"archive": 1}), "nothing is sampled"
    assert "source.groups" not in check(groups=5, mix={"archive": 1, "policy": 4})
    assert "a round has 4 new groups, not 5; lower source.groups" in check(groups=5)
    assert "a round has 2 new groups, not 5; lower source.groups" in check(groups=5, solved=(0.1, 0.7))


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "in the training split .* has an attempt; sample some with `upsolve sample`"), (2, "is in the training split")],
)
def test_an_empty_training_split_raises_before_a_model_is_loaded(tmp_path, count, said):
    recipe = Recipe.model_validate(
        {"data": {"archive": "some-archive"}, "model": {"name": "nowhere"}, "source": {"rounds": count}}
    )
    with pytest.raises(TrainingError, match=f"no task of some-archive {said}"):
        train(recipe, [], [], tmp_path)


class Alone:
    """The only process."""

    is_main, index, count, per_node, disks = True, 0, 1, 1, ()

    def gather(self, mine):
        return mine


def by_code(good):
    """Return a replacement of the judge, which decides by the code alone."""

    def judged(pairs, _how):
        for index, (_, attempt) in enumerate(pairs):
            yield index, Verdict(attempt.attempt_id, Status.PASSED if good(attempt.code) else Status.FAILED)

    return judged


def rollouts_of(source, recipe):
    config = recipe.source.rollout.model_copy(update={"samples": 4})
    return Rollouts(
        Alone(), source.rollouts, config, JudgeSettings(), partial(reward, config=recipe.reward), "policy", no_progress
    )


def numbered(tasks, *, config, author):
    """Sample: the code says the task and the number of the attempt."""
    for task in tasks:
        for k in range(config.samples):
            yield Attempt(task.task_id, f"{task.task_id} {k}", author=author, token_ids=(k,))


def test_more_tasks_are_tried_until_enough_groups_tell_something(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "judged", by_code(lambda code: code == "t3 0"))  # only t3 has both kinds
    for most, tried in ((1.0, 1), (4.0, 4), (2.0, 2)):
        recipe = Recipe(source=SourceConfig(rounds=1, groups=1, oversample=most))
        groups = [Group(Task(f"t{k}", ""), (), ()) for k in range(4)]
        source = source_of(tmp_path / str(most), groups, recipe)
        last = [task.task_id for task in source.candidates(0)].index("t3") + 1
        sampled = rollouts_of(source, recipe).judge(source.groups(0), lambda: numbered).sampled
        assert len(sampled) == min(tried, last)
        again = source.groups(0)
        assert again.sampled == sampled and not again.tasks, "read back as it was, not sampled again"


@pytest.mark.parametrize("objective", ["dpo", "ppo_clip"])
def test_authors_choose_among_stored_attempts_and_not_among_new_ones(tmp_path, objective, monkeypatch):
    monkeypatch.setattr(judging, "judged", by_code(lambda code: code.endswith("0")))
    stages = {"objective": {"kind": objective}, "data": {"authors": ["nobody"]}}
    for mix, authors in {"policy": {"policy"}, "archive": set()}.items():
        recipe = Recipe.model_validate({**stages, "source": {"rounds": 1, "groups": 2, "mix": {mix: 1}}})
        source = source_of(tmp_path / mix, judged_groups([5]), recipe)
        taken = rollouts_of(source, recipe).judge(source.groups(0), lambda: numbered)
        fresh, stored = ([reward(group, recipe.reward) for group in groups] for groups in (taken.sampled, taken.stored))
        formed = form_groups(
            fresh, stored, taken, data=recipe.data, advantage=recipe.advantage, objective=recipe.objective, select=recipe.select
        )
        assert {attempt.author for one in formed.groups for attempt in one.group.attempts} == authors


def test_attempts_are_judged_while_others_are_sampled():
    """The sampler ends only after its first attempts have been judged; verdicts are those of judging all at once."""
    task = Task("t", "", tests=(TestCase(TestKind.CALL, "add(1, 2)", "3"),), entry_point="add")
    codes = [f"def add(a, b):\n    return a + b - {k} // 3" for k in range(40)]
    pairs = [(task, Attempt("t", code)) for code in codes]
    seen, settings = [], JudgeSettings(workers=1)

    def sampler():
        yield from pairs[:30]
        deadline = time.monotonic() + 60
        while not seen[-1] and time.monotonic() < deadline:
            time.sleep(0.01)
            yield pairs[0]  # equal to one before: judged once
        yield from pairs[30:]

    sampled = []
    found = judging.judge_while_sampling((sampled.append(pair) or pair for pair in sampler()), settings, on_judged=seen.append)
    assert seen[len(sampled) - 1] > 0, "some were judged before the last was sampled"
    expected = {v.attempt_id: v.status for v in verify(pairs, settings)}
    assert [v.status for v in found] == [expected[attempt.attempt_id] for _, attempt in sampled]
    assert [v.attempt_id for v in found] == [attempt.attempt_id for _, attempt in sampled]


def test_a_sampler_that_fails_stops_the_judge():
    def sampler():
        yield Task("t", ""), Attempt("t", "x = 1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judging.judge_while_sampling(sampler(), JudgeSettings(workers=1), on_judged=lambda _n: None)


def test_unscored_attempts_are_in_no_pass_rate():
    statuses = [Status.PASSED, Status.FAILED, Status.UNSCORED, Status.UNSCORED]
    attempts = tuple(Attempt("t", f"x = {n}", count=1 + n) for n in range(4))
    verdicts = tuple(Verdict(a.attempt_id, status) for a, status in zip(attempts, statuses, strict=True))
    group = Group(Task("t", ""), attempts, verdicts)
    assert pass_rate(group) == pytest.approx(1 / 3) and judging.sample_metrics([group])["sampled_passed"] == 0.5
    assert pass_rate(group_of(group, [2, 3])) is None
    assert "sampled_passed" not in judging.sample_metrics([group_of(group, [2, 3])])


def test_replay_takes_what_was_sampled_before_by_pass_rate(tmp_path):
    settings = {"rounds": 4, "groups": 2, "mix": {"replay": 1}, "replay_rounds": 2, "replay_solved": (0.1, 0.9)}
    source = source_of(tmp_path, judged_groups([5]), **settings)
    for number, rates in enumerate(([5, 0], [10, 3], [0, 0])):
        groups = [replace(g, task=replace(g.task, task_id=f"{number}/{g.task.task_id}")) for g in judged_groups(rates)]
        groups = [Group(g.task, tuple(replace(a, task_id=g.task.task_id) for a in g.attempts), g.verdicts) for g in groups]
        source.rollouts.append(
            tasks=[g.task for g in groups],
            attempts=[a for g in groups for a in g.attempts],
            verdicts=[replace(v, attempt_id=a.attempt_id) for g in groups for a, v in zip(g.attempts, g.verdicts, strict=True)],
            tag=f"{number:08x}",
        )
    assert [(age, g.task.task_id) for age, g in source.replayed(3, 2)] == [(2, "1/t1")], (
        "round 0 is too long ago, the others all pass or fail"
    )
    assert [(age, g.task.task_id) for age, g in source.replayed(1, 2)] == [(1, "0/t0")]


def test_advantages_of_values_by_hand():
    one = EncodedAttempt((1, 2), np.zeros(2, np.float32), rewards_R=np.array([0.0, 1.0], np.float32))
    other = replace(one, ids_R=(3,), advantages_R=np.zeros(1, np.float32), rewards_R=np.array([-1.0], np.float32))
    groups = [EncodedGroup((9,), (one, replace(other, mask_R=np.array([False]))))]
    keys = groups[0].attempt_keys()
    values = {keys[0]: np.array([0.5, 0.25], np.float32), keys[1]: np.array([0.0], np.float32)}
    config = GaeConfig(gamma=1.0, decay=0.5, whiten=False)
    weighed, returns = with_gae(groups, FrozenScores(old={}, values=values), config=config, kl=KlConfig())
    # d = (0 + 0.25 - 0.5, 1 - 0.25) = (-0.25, 0.75); A = (-0.25 + 0.5 * 0.75, 0.75); the other, -1 - 0, is masked
    assert weighed[0].attempts[0].advantages_R.tolist() == [0.125, 0.75]
    assert weighed[0].attempts[1].advantages_R.tolist() == [0.0]
    assert returns[keys[0]].tolist() == [0.625, 1.0] and returns[keys[1]].tolist() == [-1.0]


def test_sampled_ids_are_trained_on_as_they_were(tiny_model):
    codec = load_codec(tiny_model)
    one = codec.tokenizer.convert_tokens_to_ids
    # "é" is two bytes, two tokens; this tokenizer itself writes a fence as three tokens and never takes the one that it has for it
    plain = codec.completion("é = 1")
    letters = (*plain[:-3], one("```"))
    sampled = Attempt("t", "é = 1", token_ids=letters)
    assert codec.ids_of(sampled) == letters != plain
    assert codec.ids_of(replace(sampled, code="é = 2")) == codec.completion("é = 2"), "of another tokenizer, perhaps"
    assert codec.spans_of(sampled)[:4] == [(0, 0), (0, 1), (1, 2), (2, 3)]
    assert codec.spans_of(sampled)[-2:] == [(5, 6), (6, 9)]
    assert codec.spans_of(Attempt("t", "x = 1")) == codec.offsets("x = 1")


@pytest.mark.slow
def test_two_processes_do_what_one_does(tiny_model, tmp_path):
    recipe = recipe_for(tiny_model, **GAE, source={"rounds": 2})
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launch, "-m", "upsolve", "train", str(file), "--out", str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    run(recipe, tmp_path / "one")
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert [row["loss"] for row in one] == pytest.approx([row["loss"] for row in two], abs=1e-4)
    assert [row.get("sampled_tokens") for row in one] == [row.get("sampled_tokens") for row in two]
    kept = [Archive(tmp_path / name / "rollouts") for name in ("one", "two")]
    assert kept[0].column("attempts", "attempt_id") == kept[1].column("attempts", "attempt_id"), "in the same order"


def test_a_step_that_is_clipped_nearly_everywhere_is_warned_of():
    with pytest.warns(UserWarning, match="step 7: 95% of the tokens are clipped"):
        warn_of({"step": 7.0, "clipped": 0.95}, MonitorConfig(), ObjectiveConfig())
    warn_of({"step": 7.0, "clipped": 0.5}, MonitorConfig(), ObjectiveConfig())


@pytest.mark.slow
def test_a_round_that_tells_nothing_is_in_the_log(tiny_model, tmp_path):
    # by the outcome alone all that this model writes is worth the same in most rounds
    recipe = recipe_for(tiny_model, source={"rounds": 6, "groups": 1}, reward={"weights": {}}, monitor={"heldout": 0})
    try:
        run(recipe, tmp_path / "run")
    except TrainingError as error:
        assert "zero advantage" in str(error)
    rows = curve(tmp_path / "run")
    assert {row["round"] for row in rows} == set(map(float, range(6))) and all(
        row["sampled"] == 4 for row in rows if "loss" not in row
    )
    assert any("loss" not in row for row in rows)
