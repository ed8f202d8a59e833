"""Memory that a process returns to the system."""

import pytest

from upsolve.policy import machine
from upsolve.policy.machine import GrownMemory


def test_memory_is_returned_after_growth(monkeypatch: pytest.MonkeyPatch):
    """The size one step after memory was returned is the usual one; growth is compared with the largest usual size."""
    sizes = iter([100, 104, 120, 110, 125, 130, 90, 125])
    returned: list[int] = []
    now = 0

    def resident() -> int:
        nonlocal now
        now = next(sizes)
        return now

    monkeypatch.setattr(machine, "resident_bytes", resident)
    monkeypatch.setattr(machine, "release_memory", lambda: returned.append(now))
    memory = GrownMemory()
    for _ in range(8):
        memory.after_step()
    assert returned == [120, 130]


def test_nothing_is_returned_where_the_size_is_unknown(monkeypatch: pytest.MonkeyPatch):
    """Without /proc a size of 0 is never a growth."""
    monkeypatch.setattr(machine, "resident_bytes", lambda: 0)
    monkeypatch.setattr(machine, "release_memory", lambda: pytest.fail("returned memory"))
    memory = GrownMemory()
    for _ in range(3):
        memory.after_step()


def test_the_size_of_this_process_is_known_on_linux():
    """An allocation of 64 MiB is seen."""
    before = machine.resident_bytes()
    held = bytearray(b"x" * 2**26)
    assert not before or machine.resident_bytes() - before > 2**25, len(held)
