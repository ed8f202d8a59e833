"""Rounds sampled ahead of the trainer, by real servers around the tiny model that load the policy's weights."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier, Event

import pytest
import torch
import yaml
from test_online import by_code, curve, numbered, recipe_for, rollouts_of, source_of
from tiny_server import running

from upsolve.archive.split import split_archive
from upsolve.archive.store import Archive, open_archive
from upsolve.config import Recipe, SourceConfig, load_recipe
from upsolve.errors import ConfigError, ModelError
from upsolve.policy.model import load_codec, load_model
from upsolve.train.data import judging
from upsolve.train.data.ahead import MainAlone, RoundsAhead, read_weights, stoppable
from upsolve.train.data.sources import OnlineSource, round_tag
from upsolve.train.loop import train
from upsolve.train.run.nodes import find_disks, leave_disks
from upsolve.train.run.processes import Processes
from upsolve.types import Group, Task

STAGES = {
    "data": {"group_size": 4},
    "objective": {"correction": {"kind": "tis"}},
    "optim": {"lr": 3e-3, "epochs": 2},
    "monitor": {"heldout": 0, "keep_checkpoints": True, "max_drift": 9, "save_every": 1},
}


@contextmanager
def servers(tiny_model, count):
    """Servers that were started with the tiny model."""
    with ExitStack() as stack:
        yield [stack.enter_context(running(load_model(tiny_model).eval(), load_codec(tiny_model))) for _ in range(count)]


def served_recipe(model, places, ahead, **source):
    there = {"urls": [place.url for place in places], "retries": 1, "wait_seconds": 0.05}
    rollout = {"engine": "server", "server": there, "max_tokens": 12, "temperature": 1.0, "top_p": 1.0, "batch": 2}
    source = {"rounds": 4, "groups": 2, "ahead": ahead, **source, "rollout": rollout}
    return recipe_for(model, **STAGES, source=source)


def trained(recipe, folder, **options):
    """Train; return losses, and what was sampled in each round."""
    split = split_archive(open_archive("embedded"), recipe.data, untried=True)
    train(recipe, split.groups["train"], split.groups["dev"], folder, **options)
    return [row["loss"] for row in curve(folder) if "loss" in row], sampled(folder)


def sampled(folder):
    """Return the token ids and log-probabilities of each round's attempts."""
    archive = Archive(folder / "rollouts")
    return [[(a.task_id, a.token_ids, a.token_logps) for a in archive.tagged("attempts", round_tag(n))] for n in range(4)]


@pytest.fixture(scope="module")
def whole(tiny_model, tmp_path_factory):
    """A run of two servers, one round ahead, that nothing disturbs: its losses, samples, folder, and what the servers loaded."""
    folder = tmp_path_factory.mktemp("whole")
    with servers(tiny_model, 2) as places:
        recipe = served_recipe(tiny_model, places, 1, max_staleness=1).model_copy(deep=True)
        snapshots = recipe.monitor.model_copy(update={"snapshot_every": 1})
        losses, attempts = trained(recipe.model_copy(update={"monitor": snapshots}), folder)
        loaded = [place.loaded for place in places]
        assert all(place.drawn for place in places), "both sample"
    return losses, attempts, folder, loaded


@pytest.mark.slow
def test_each_round_is_sampled_by_the_weights_of_the_round_before(whole, tiny_model):
    """Log-probabilities of the stored attempts are those of the weights that the log names, and of no others."""
    _, attempts, folder, loaded = whole
    assert loaded == [["00000000", "00000000", "00000001", "00000002"]] * 2
    assert [row["staleness"] for row in curve(folder) if "staleness" in row] == [0, 1, 1, 1]
    codec, archive = load_codec(tiny_model), Archive(folder / "rollouts")
    tasks = {task.task_id: task for task in archive.tasks()}
    steps = {row["round"]: int(row["step"]) for row in curve(folder)}
    for number, weights in {0: 0, 1: 0, 2: 1, 3: 2}.items():
        after = {n: folder / "snapshots" / f"{steps[n - 1]:06d}" if n else Path(tiny_model) for n in (weights, number)}
        for task_id, ids, logps in attempts[number]:
            prompt = codec.prompt(tasks[task_id]).ids_P
            found = {}
            for n, place in after.items():
                with torch.inference_mode():
                    logits = load_model(str(place)).eval()(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
                found[n] = logits.log_softmax(-1)[range(len(ids)), ids].tolist()
            assert list(logps) == pytest.approx(found[weights], abs=1e-4)
            assert number == weights or list(logps) != pytest.approx(found[number], abs=1e-4)


@pytest.mark.slow
def test_the_correction_weighs_by_the_age_of_the_samples(whole):
    """The current weights are those that sampled round 0, not those that sampled later rounds."""
    rows = [row for row in curve(whole[2]) if "drift" in row]
    assert max(row["drift"] for row in rows if not row["round"]) < 1e-4
    assert min(row["drift"] for row in rows if row["round"]) > 1e-2
    assert all(row["sampler_known"] == 1 for row in rows)


@pytest.mark.slow
def test_without_a_step_that_changes_the_weights_ahead_and_in_turn_are_one_curve(tiny_model, tmp_path):
    found = []
    for ahead in (0, 2):
        with servers(tiny_model, 1) as places:
            recipe = served_recipe(tiny_model, places, ahead)
            still = recipe.model_copy(update={"optim": recipe.optim.model_copy(update={"lr": 1e-30})})
            found.append(trained(still, tmp_path / str(ahead)))
            assert len(places[0].loaded) == 4
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_work_of_a_server_that_dies_goes_to_the_others(tiny_model, tmp_path, whole, caplog):
    """It is used again after it has come back and loaded the policy's weights."""
    with servers(tiny_model, 2) as places:
        places[0].die(after=3)  # in round 1

        def revive(done, _total, _row):
            if done == 3:
                places[0].come_back()

        assert trained(served_recipe(tiny_model, places, 1, max_staleness=1), tmp_path, on_step=revive) == whole[:2]
        assert places[0].loaded[-1] == "00000002" and len(places[0].loaded) < 4
    assert "the other servers do its work" in caplog.text


@pytest.mark.slow
def test_a_server_that_was_restarted_gets_no_request_before_it_has_loaded_the_weights(tiny_model, tmp_path, whole):
    """In the middle of round 2, when the weights that it was started with are old; it answers again at once."""
    with servers(tiny_model, 2) as places:
        places[0].restarts = "00000001"
        assert trained(served_recipe(tiny_model, places, 1, max_staleness=1), tmp_path) == whole[:2]
        assert places[0].restarts is None and places[0].loaded[-1] == "00000002"


@pytest.mark.slow
def test_a_run_whose_servers_are_all_dead_resumes_later_at_other_addresses(tiny_model, tmp_path, whole):
    with servers(tiny_model, 2) as places:
        for place in places:
            place.die(after=3)
        with pytest.raises(ModelError, match=r"no server|requests failed.*run the same command again"):
            trained(served_recipe(tiny_model, places, 1, max_staleness=1), tmp_path)
        for place in places:
            place.come_back()
        with pytest.raises(ModelError, match="no server could load the policy's weights"):
            trained(served_recipe(tiny_model, [], 1, max_staleness=1), tmp_path)
        assert trained(served_recipe(tiny_model, places[:1], 1, max_staleness=1), tmp_path) == whole[:2]


@pytest.mark.slow
def test_a_run_stopped_while_a_round_is_sampled_ahead_samples_the_same_attempts(tiny_model, tmp_path, whole):
    with servers(tiny_model, 1) as places:
        (place,) = places
        place.holds = "00000001"  # the weights that sample round 2, while round 1 is trained on

        def stop(done, _total, _row):
            if done == 3:  # after the first of two steps: the weights are not those that sample round 2 any more
                assert place.held.wait(30)
                raise KeyboardInterrupt

        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            trained(served_recipe(tiny_model, places, 1, max_staleness=1), tmp_path, on_step=stop)
        assert time.monotonic() - started < 50, "it does not wait for the server"
        before = sampled(tmp_path)
        assert read_weights(tmp_path / "policy") == {0: 0, 1: 0, 2: 1} and before[2] == []
        place.holds = None
        place.let_go.set()
        assert trained(served_recipe(tiny_model, places, 1, max_staleness=1), tmp_path) == whole[:2]


@pytest.mark.slow
@pytest.mark.parametrize("draws", [5, 14])
def test_a_run_killed_while_a_round_is_sampled_ahead_loses_and_repeats_nothing(tiny_model, tmp_path, whole, draws):
    with servers(tiny_model, 1) as places:
        recipe, (place,) = served_recipe(tiny_model, places, 1, max_staleness=1), places
        file = tmp_path / "recipe.yaml"
        file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
        words = [sys.executable, "-m", "upsolve", "train", str(file), "--out", str(tmp_path / "run")]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None and place.drawn_now < draws:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert trained(recipe, tmp_path / "run") == whole[:2]
        stored = [sorted(Archive(f / "rollouts").column("attempts", "attempt_id")) for f in (whole[2], tmp_path / "run")]
        assert stored[0] == stored[1]


@pytest.mark.slow
def test_replay_takes_no_groups_above_the_limit_of_staleness(tiny_model, tmp_path):
    with servers(tiny_model, 1) as places:
        for limit, oldest in ((2, 2), (None, 3)):
            source = {"mix": {"policy": 1, "replay": 1}, "max_staleness": limit}
            recipe = served_recipe(tiny_model, places, 1, **source)
            trained(recipe, tmp_path / str(limit))
            ages = [row["staleness_max"] for row in curve(tmp_path / str(limit)) if "staleness_max" in row]
            assert max(ages) <= oldest and (limit or max(ages) == 3), "replay is up to four rounds old, and sampled one earlier"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["source.rollout.engine=transformers"], "transformers does not sample beside the trainer; use one of: server"),
        (["objective.correction.kind=none"], "set objective.correction.kind: tis"),
        (["source.max_staleness=1"], "up to 2 rounds old, and max_staleness is 1"),
        (["source.hints=1", "source.hints_passed=0.5"], "hints_passed reads the results of the round before"),
        (["source.rollout.server.url=http://a/v1", "source.rollout.server.urls=[http://b/v1]"], "url: http://a/v1 is not used"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, said):
    base = ["source.rounds=3", "source.ahead=2", "source.rollout.engine=server", "objective.kind=ppo_clip"]
    assert isinstance(load_recipe(None, [*base, "objective.correction.kind=tis"]), Recipe)
    with pytest.raises(ConfigError, match=said):
        load_recipe(None, [*base, "objective.correction.kind=tis", *settings])


def test_the_weights_of_each_round_are_written_down_and_kept_until_it_is_stored(tmp_path, monkeypatch):
    """Two rounds ahead: 0, 1 and 2 by the weights of 0, 3 by those of 1; a new process samples what an earlier one had begun."""
    monkeypatch.setattr(judging, "judged", by_code(lambda _code: True))
    recipe = Recipe(source=SourceConfig.model_validate({"rounds": 4, "groups": 1, "ahead": 2, "rollout": {"engine": "server"}}))
    source = source_of(tmp_path, [Group(Task(f"t{k}", ""), (), ()) for k in range(4)], recipe)
    written, used = [], []

    def publish(folder):
        folder.mkdir(parents=True)
        written.append(folder.name[-1])

    def sampler(folder):
        assert folder.exists()
        used.append(folder.name[-1])
        if used == ["0", "0"]:
            raise ModelError("no server")
        return numbered

    def rounds_ahead():
        rollouts = replace(rollouts_of(source, recipe), processes=MainAlone())
        return RoundsAhead(rollouts, source, tmp_path / "policy", publish=publish, sampler=sampler)

    first = rounds_ahead()
    first.reach(0)
    with pytest.raises(ModelError, match="no server"):
        first.reach(1)
    first.close()
    assert read_weights(tmp_path / "policy") == {0: 0, 1: 0, 2: 0, 3: 1}
    second = rounds_ahead()
    for number in range(1, 4):
        second.reach(number)
    second.close()
    assert (written, used) == (["0", "1"], ["0", "0", "0", "0", "1"])
    assert all(len(source.judged_samples(number)) == 1 for number in range(4))
    assert [path.name for path in (tmp_path / "policy").iterdir() if path.is_dir()] == ["00000001"]


class Rank(Processes):
    """A rank as a thread of this process; two ranks are on two nodes."""

    is_main, index, count, per_node, is_first_of_node = False, 0, 2, 1, True

    def __init__(self, index, gate, board):
        self.index, self.is_main, self.gate, self.board = index, index == 0, gate, board

    def gather(self, items):
        self.board[self.index] = items
        self.gate.wait(30)
        found = [*self.board[0], *self.board[1]]
        self.gate.wait(30)
        return found

    def from_rank(self, rank, compute):
        return self.gather([compute()] if self.index == rank else [])[0]

    def wait(self):
        self.gate.wait(30)


def test_a_node_with_a_disk_of_its_own_gets_the_rounds_that_rank_0_samples_ahead(tmp_path, monkeypatch):
    """New and replayed groups of both nodes are equal, and so is their staleness; weights stay where the servers read them."""
    monkeypatch.setattr(judging, "judged", by_code(lambda _code: True))
    mix = {"rounds": 4, "groups": 2, "ahead": 1, "mix": {"policy": 1, "replay": 1}, "rollout": {"engine": "server"}}
    recipe, tasks = Recipe(source=SourceConfig.model_validate(mix)), [Group(Task(f"t{k}", ""), (), ()) for k in range(4)]
    gate, board = Barrier(2), [[], []]

    def publish(folder):
        if folder.is_relative_to(tmp_path / "0"):
            folder.mkdir(parents=True)

    def node(index):
        home, rank = tmp_path / str(index), Rank(index, gate, board)
        archive = Archive.create(home / "rollouts")
        weights = partial(read_weights, home / "policy")
        source = OnlineSource(tasks, archive, recipe.source, data=recipe.data, weights=weights)
        find_disks(home, rank)
        rollouts = replace(rollouts_of(source, recipe), processes=rank)
        ahead = RoundsAhead(rollouts, source, home / "policy", publish=publish, sampler=lambda _folder: numbered)
        found = []
        for number in range(4):
            ahead.reach(number)
            found.append(source.groups(number))
        ahead.close()
        held = {path.name for path in (home / "policy").iterdir()}
        leave_disks(home, rank)
        return found, held

    with ThreadPoolExecutor(2) as nodes:
        (first, held), (second, other) = nodes.map(node, range(2))
    assert first == second
    assert [one.staleness[0] for one in first] == [0, 1, 1, 1] and [len(one.replayed) for one in first] == [0, 1, 1, 1]
    assert all(one.sampled and not one.tasks for one in second)
    assert (held, other) == ({"rounds.json", "00000002"}, {"rounds.json"})
    assert (tmp_path / "0" / "rollouts").exists() and not (tmp_path / "1").exists()


def test_a_sampler_that_hangs_can_be_stopped():
    stopped, asked = Event(), Event()

    def items():
        yield 1
        asked.set()
        Event().wait(60)

    found = stoppable(items(), stopped)
    assert next(found) == 1 and asked.wait(10)
    stopped.set()
    with pytest.raises(Exception, match="^$"):
        next(found)


@pytest.mark.slow
def test_two_processes_sample_ahead_as_one_does(tiny_model, tmp_path, whole):
    with servers(tiny_model, 2) as places:
        file = tmp_path / "recipe.yaml"
        file.write_text(yaml.safe_dump(served_recipe(tiny_model, places, 1, max_staleness=1).model_dump(mode="json")))
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        words = [*launch, "-m", "upsolve", "train", str(file), "--out", str(tmp_path / "two")]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert [row["loss"] for row in curve(tmp_path / "two") if "loss" in row] == pytest.approx(whole[0], abs=1e-4)
    for one, two in zip(whole[1], sampled(tmp_path / "two"), strict=True):
        assert {task_id for task_id, _, _ in one} == {task_id for task_id, _, _ in two} and len(one) == len(two)
