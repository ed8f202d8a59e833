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
        f"gpu_{name}" for name in ("kinds", "curve", "resume", "step", "profile", "largest", "moments", "sampling", "vllm")
    }
    assert max(found["gpu_curve"].values()) < 1e-4
    assert all(kind["packed"] for kind in found["gpu_kinds"].values())
    assert {found["gpu_resume"][way][run] for way in ("default", "deterministic") for run in ("repeated", "resumed")} == {0.0}
    rows = found["gpu_step"]["rows"]
    assert [*rows] == [f"qwen2-tiny-random, {n} in a pass" for n in (1, 4)]
    assert all("not done" in row["beside TRL"] for row in rows.values())
    assert all(one["fits"] for one in found["gpu_largest"].values())
    assert "not done" in found["gpu_vllm"]
    assert "not done:\n  step, qwen2-tiny-random, 1 in a pass, beside TRL: not done" in done.stdout


@pytest.mark.slow
def test_a_part_that_takes_too_long_takes_its_measurement_along():
    """The output of the script ends with the last process that can write to it."""
    code = """
import time
from functools import partial
import gpu

gpu.LEAST_SECONDS = 0
print(gpu.forked(partial(gpu.forked, partial(time.sleep, 3000), 3000), 2))
"""
    given = {"cwd": ROOT / "benchmarks", "capture_output": True, "text": True, "timeout": 600}
    done = subprocess.run([sys.executable, "-c", code], check=True, **given)
    assert done.stdout == "(False, 'not done within 2 s')\n"


@pytest.mark.slow
def test_without_a_gpu_it_says_so():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "kinds"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no GPU here; --small" in done.stderr


def test_the_page_shows_what_was_measured():
    results = ROOT / "benchmarks" / "results"
    page = (ROOT / "docs" / "performance.md").read_text()
    rows = json.loads((results / "gpu_step.json").read_text())["result"]["rows"]
    shown = set()
    for name, ways in rows.items():
        model, together = name.removeprefix("qwen2-").replace("b-random, ", "B ").removesuffix(" in a pass").split()
        for recomputed, way in (("no", ""), ("yes", ", checkpointing")):
            ours, trl = ways[f"ours{way}"], ways[f"trl{way}"]
            ratio, figures = f"{trl['seconds'] / ours['seconds']:.2f}", [f"{ours['seconds']:.3f}", f"{trl['seconds']:.3f}"]
            memory = [f"{row['peak_mib'] / 1024:.1f}" for row in (ours, trl)]
            shown.add(f"|{'|'.join([model, ratio, together, recomputed, *figures, *memory])}|")
    rates = json.loads((results / "gpu_sampling.json").read_text())["result"]["tokens_per_second"]
    shown |= {f"|{n}|{rates[f'{n} sequences']:,.0f}|{rates[f'{n} sequences, without graphs']:,.0f}|" for n in (64, 256)}
    assert len(shown) == 10 and all(line in page.splitlines() for line in shown)
