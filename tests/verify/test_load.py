"""Small versions of benchmarks/flips.py and benchmarks/soak.py."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
pytestmark = pytest.mark.slow


def test_no_verdict_depends_on_the_load():
    from flips import flips

    assert flips(120, 4)["differ"] == []


def test_nothing_builds_up_and_nothing_is_lost():
    from soak import soak

    found = soak(600)
    assert (found["wrong"], found["left_behind"], found["control_groups_left"]) == ({}, [], 0)
    first, *_, last = found["resident_mib_of_workers_after_each_part"]
    assert last < first + 30
