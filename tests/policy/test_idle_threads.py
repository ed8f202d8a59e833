"""Idle threads of OpenMP: short spinning while others need the cores, long spinning otherwise."""

import os
import subprocess
import sys

import pytest
import torch

from upsolve.policy.machine import CALM_SECONDS, CONTENDED_SECONDS, SpinWatch, use_allowed_cores
from upsolve.verify import resources

LOOP = """
import os, subprocess, sys, time
from pathlib import Path
import torch
from upsolve.policy.machine import SpinWatch

torch.set_num_threads(2)
watch, numbers = SpinWatch(), torch.ones(2**16)
watch.threads = 2


def sleeps():
    # how often the threads but this one have gone to sleep
    others = [task for task in Path("/proc/self/task").iterdir() if int(task.name) != os.getpid()]
    return sum(int((task / "status").read_text().partition("\\nvoluntary_ctxt_switches:")[2].split()[0]) for task in others)


def busy():
    # how often they do so within 300 operations with breaks
    before = sleeps()
    for _ in range(300):
        numbers.add_(1)
        time.sleep(0.001)
    return sleeps() - before


busy()
"""


def run(code):
    """Return what a program prints whose idle threads spin for seconds."""
    environment = {"GOMP_SPINCOUNT": "100000000", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", LOOP + code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.slow
def test_a_contended_process_spins_shortly_until_it_is_calm():
    """Each operation of two threads is followed by 1 ms in which the idle one spins, or sleeps."""
    free, short, again = map(
        int,
        run(
            "print(busy())\nwatch.decide(contended=True, seconds=1)\ntime.sleep(0.1)\nprint(busy())\n"
            f"watch.decide(contended=False, seconds={CALM_SECONDS})\ntime.sleep(0.1)\nprint(busy())\n"
        ),
    )
    assert max(free, again) < 100 < short, (free, short, again)


@pytest.mark.slow
def test_contention_is_what_threads_wait_for_cores():
    """With more busy processes than cores, this process waits for cores."""
    busy = "import itertools, time; any(time.process_time() > 10 for _ in itertools.count())"  # ends, whatever becomes of this test
    others = f"others = [subprocess.Popen([sys.executable, '-c', '{busy}']) for _ in range(8)]\n"
    code = f"{others}time.sleep(0.5)\nwatch.look(1)\nbusy()\nwatch.look(0.5)\nprint(watch.short)\n[p.kill() for p in others]"
    assert run(code) == ["True"]


@pytest.mark.parametrize("calm", [CALM_SECONDS - 1, CALM_SECONDS])
def test_spinning_returns_after_calm_seconds(calm):
    """A short break of another process does not count, nor a moment of contention."""
    watch = SpinWatch()
    watch.threads = 2
    watch.decide(contended=True, seconds=CONTENDED_SECONDS / 2)
    watch.decide(contended=False, seconds=1)
    watch.decide(contended=True, seconds=CONTENDED_SECONDS / 2)
    assert not watch.short
    watch.decide(contended=True, seconds=1)
    assert watch.short
    for _ in range(calm):
        watch.decide(contended=False, seconds=1)
    assert watch.short is (calm < CALM_SECONDS)
    watch.decide(contended=True, seconds=1)
    watch.decide(contended=False, seconds=1)
    assert watch.short


@pytest.mark.parametrize(("quota", "threads"), [("100000 100000", 1), ("150000 100000", 2), ("max 100000", 3)])
def test_threads_of_torch_keep_to_the_quota_of_the_control_group(quota, threads, tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(resources, "control_groups", lambda _name: [tmp_path])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2})
    before = torch.get_num_threads()
    try:
        for given, found in (("", threads), ("3", 3)):
            monkeypatch.setenv("OMP_NUM_THREADS", given) if given else monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
            torch.set_num_threads(3)
            use_allowed_cores()
            assert torch.get_num_threads() == found
    finally:
        torch.set_num_threads(before)
