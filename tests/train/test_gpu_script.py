"""The script of ``make gpu``, with tiny models on whatever this machine has."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_part_runs_or_says_why_not(tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / "gpu.py", "--small", "--out", tmp_path]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {file.stem: json.loads(file.read_text())["result"] for file in tmp_path.glob("gpu_*.json")}
    assert {*found} == {
        f"gpu_{name}" for name in ("kinds", "curve", "resume", "step", "profile", "largest", "sampling", "vllm")
    }
    assert max(found["gpu_curve"].values()) < 1e-4
    assert all(kind["packed"] for kind in found["gpu_kinds"].values())
    assert {found["gpu_resume"][way][run] for way in ("default", "deterministic") for run in ("repeated", "resumed")} == {0.0}
    assert "not done" in found["gpu_step"]["rows"]["qwen2-tiny-random"]["beside TRL"]
    assert all(one["fits"] for one in found["gpu_largest"].values())
    assert "not done" in found["gpu_vllm"] and "not done:\n  step, qwen2-tiny-random, beside TRL: not done" in done.stdout


def test_without_a_gpu_it_says_so():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "kinds"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no GPU here; --small" in done.stderr
