"""Runs log to W&B offline and to trackio. Skipped where they are not installed."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time

import pytest

import upsolve
from upsolve.errors import MissingExtraError


def train(tmp_path, model, tracker, *more):
    """Train two steps; return the rows of the log, that before the first step included."""
    settings = [
        f"model.name={model}",
        "optim.max_steps=2",
        "data.train=0.1",
        f"monitor.trackers=[{tracker}]",
        "data.dev=0.1",
        "monitor.heldout=2",
    ]
    recipe = upsolve.load_recipe("rloo", [*settings, *more])
    split = upsolve.split_archive(upsolve.open_archive("embedded"), recipe.data)
    upsolve.train_policy(recipe, split.groups["train"], split.groups["dev"], tmp_path / "mine" / "training")
    lines = (tmp_path / "mine" / "training" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.filterwarnings("ignore")
def test_trackio_has_every_step(tmp_path, tiny_model):
    pytest.importorskip("trackio", reason="trackio is not installed")
    code = f"import sys; from pathlib import Path; sys.path[:0] = {sys.path!r}; from test_trackers import train\n"
    code += f"train(Path({str(tmp_path)!r}), {tiny_model!r}, 'trackio', 'monitor.project=theirs')"
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")}  # read once, when trackio is imported
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == ""  # where `--json` prints
    rows = [json.loads(line) for line in (tmp_path / "mine" / "training" / "metrics.jsonl").read_text().splitlines()]
    with contextlib.closing(sqlite3.connect(tmp_path / "trackio" / "theirs.db")) as base:
        logged = base.execute("select run_name, step, metrics from metrics order by step").fetchall()
    assert [(name, step, json.loads(row).get("loss")) for name, step, row in logged] == [
        ("mine", n, rows[n].get("loss")) for n in (0, 1, 2)
    ]
    assert json.loads(logged[0][2])["heldout_margin"] == rows[0]["heldout_margin"]


@pytest.mark.filterwarnings("ignore")
def test_wandb_offline_has_every_step(tmp_path, tiny_model, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    rows = train(tmp_path, tiny_model, "wandb")
    (file,) = (tmp_path / "mine" / "training" / "wandb").glob("offline-run-*/run-*.wandb")
    data = file.read_bytes()
    assert len(rows) == 3 and json.dumps(rows[0]["heldout_margin"]).encode() in data
    for row in rows[1:]:
        assert b"loss" in data and json.dumps(row["loss"]).encode() in data and json.dumps(row["entropy"]).encode() in data
    assert b"rloo" in data  # the recipe


class Written:
    """A tracker that keeps its rows."""

    def __init__(self):
        self.rows, self.write, self.close = [], lambda row: self.rows.append(row), lambda: None


def test_every_log_begins_with_the_held_out_values_before_the_first_step(tmp_path, monkeypatch):
    """Once: a resumed run keeps the row of the file, and gives it to no tracker again."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from upsolve.config import MonitorConfig
    from upsolve.files import read_rows
    from upsolve.train.run.monitor import Log, read_steps

    tracker = Written()
    monkeypatch.setattr("upsolve.train.run.monitor.open_trackers", lambda *_: [tracker])
    start = {"heldout_margin": 0.25}
    log = Log(tmp_path, MonitorConfig(), start, keep_steps=0, keep_rounds=0)
    for step in (1.0, 2.0):
        log.write({"step": step, "round": 0.0, "loss": 1.0, "heldout_margin": step})
    log.close()
    time.sleep(1.1 - time.time() % 1)  # TensorBoard reads files in the order of their names, which begin with the second
    log = Log(tmp_path, MonitorConfig(), start, keep_steps=1, keep_rounds=0)
    log.write({"step": 2.0, "round": 0.0, "loss": 1.0, "heldout_margin": 3.0})
    log.close()
    assert [(row["step"], row["heldout_margin"]) for row in read_rows(tmp_path / "metrics.jsonl")] == [
        (0, 0.25),
        (1, 1),
        (2, 3),
    ]
    assert [row["step"] for row in read_steps(tmp_path / "metrics.jsonl")] == [1, 2]
    assert [row["step"] for row in tracker.rows] == [0, 1, 2, 2]
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(one.step, one.value) for one in board.Scalars("heldout_margin")] == [(0, 0.25), (1, 1.0), (2, 3.0)]


def test_a_tracker_that_is_not_installed_is_named(tmp_path, monkeypatch):
    from upsolve.train.run.monitor import open_trackers

    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'upsolve\[trackers\]'"):
        open_trackers(["wandb"], "upsolve", tmp_path)
