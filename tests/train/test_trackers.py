"""Runs log to W&B offline and to trackio. Skipped where they are not installed."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys

import pytest

import upsolve
from upsolve.errors import MissingExtraError


def train(tmp_path, model, tracker, *more):
    settings = [
        f"model.name={model}",
        "optim.max_steps=2",
        "data.train=0.1",
        f"monitor.trackers=[{tracker}]",
        "monitor.heldout=0",
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
    rows = [json.loads(line) for line in (tmp_path / "mine" / "training" / "metrics.jsonl").read_text().splitlines()]
    with contextlib.closing(sqlite3.connect(tmp_path / "trackio" / "theirs.db")) as base:
        logged = base.execute("select run_name, step, metrics from metrics order by step").fetchall()
    assert [(name, step, json.loads(row)["loss"]) for name, step, row in logged] == [
        ("mine", n, rows[n - 1]["loss"]) for n in (1, 2)
    ]


@pytest.mark.filterwarnings("ignore")
def test_wandb_offline_has_every_step(tmp_path, tiny_model, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    rows = train(tmp_path, tiny_model, "wandb")
    (file,) = (tmp_path / "mine" / "training" / "wandb").glob("offline-run-*/run-*.wandb")
    data = file.read_bytes()
    assert len(rows) == 2
    for row in rows:
        assert b"loss" in data and json.dumps(row["loss"]).encode() in data and json.dumps(row["entropy"]).encode() in data
    assert b"rloo" in data  # the recipe


def test_a_tracker_that_is_not_installed_is_named(tmp_path, monkeypatch):
    from upsolve.train.trackers import open_trackers

    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'upsolve\[trackers\]'"):
        open_trackers(["wandb"], "upsolve", tmp_path)
