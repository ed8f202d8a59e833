"""Judging in parallel: order, caches, lost workers, interrupts; the same over Ray."""

import os
import pickle
import resource
import signal
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from itertools import chain

import pytest

from upsolve.languages import languages
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool import cache as cache_module
from upsolve.verify.pool import pool
from upsolve.verify.pool.cache import key_of, open_cache, runtime
from upsolve.verify.pool.pool import judged, verify
from upsolve.verify.pool.rpc import LocalWorker
from upsolve.verify.sandbox.cgroup import find_parents, remove_abandoned

FAST = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2), workers=2)
TASK = Task("t", "", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
LOOP = Attempt("t", "def f(x):\n    while True: pass\n")


def attempts(n, start=0):
    return [(TASK, Attempt("t", f"def f(x):\n    return x * 2 if {k} % 3 else 0\n")) for k in range(start, start + n)]


def statuses(verdicts):
    return [verdict.status.value for verdict in verdicts]


EXPECTED = ["failed" if k % 3 == 0 else "passed" for k in range(40)]


def test_verdicts_come_in_the_order_of_the_pairs():
    pairs = attempts(40)
    verdicts = verify(pairs, FAST)
    assert statuses(verdicts) == EXPECTED
    assert [v.attempt_id for v in verdicts] == [a.attempt_id for _, a in pairs]
    assert statuses(verify(pairs, replace(FAST, workers=1))) == EXPECTED


def test_one_name_with_other_tests_is_another_task():
    other = replace(TASK, tests=(TestCase(TestKind.CALL, "f(2)", "5"),))
    double = Attempt("t", "def f(x):\n    return x * 2\n")
    assert statuses(verify([(TASK, double), (other, double), (TASK, double)], FAST)) == ["passed", "failed", "passed"]


def test_records_cross_processes_unchanged():
    records = [
        TASK,
        replace(LOOP, behavior_logp=-1.5, tokens=9, count=3),
        Finding("lint", "F401", "unused", 3, 2, 3, 9, 0.5),
        Verdict(LOOP.attempt_id, Status.TIMEOUT, 1, 2, (Status.PASSED, Status.TIMEOUT), executed_lines=(1, 2)),
    ]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(records, protocol)) == records


def test_a_stream_is_read_as_workers_become_free():
    read = []

    def stream():
        for pair in attempts(200):
            read.append(pair)
            yield pair

    verdicts = judged(stream(), FAST)
    next(verdicts)
    assert len(read) <= FAST.workers * pool.AHEAD * pool.CHUNK + pool.CHUNK
    verdicts.close()


def test_pieces_get_smaller_towards_the_end():
    def sizes(pairs, workers):
        found = [*pool.chunks_of(pairs, workers)]
        assert [*chain(*found)] == [*range(sum(map(len, found)))], "all of them, in order"
        return [*map(len, found)]

    assert sizes(range(41), 2) == [8, 8, 7, 5, 4, 3, 2, 1, 1, 1, 1]
    assert sizes(range(3), 2) == [1, 1, 1]
    assert sizes(range(0), 2) == []
    assert sizes(iter(range(9 * pool.CHUNK)), 2) == [pool.CHUNK] * 9  # nobody knows how many there are
    assert sizes(range(17), 1) == [pool.CHUNK, pool.CHUNK, 1]  # nobody waits for it


def test_a_stop_does_not_wait_for_what_hangs():
    def stop(*_):
        raise KeyboardInterrupt

    slow = replace(FAST, limits=Limits(wall_seconds=60, cpu_seconds=60))
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        verify([*attempts(8), (TASK, LOOP)], slow, on_done=stop)
    assert time.monotonic() - started < 50
    assert statuses(verify(attempts(3), FAST)) == EXPECTED[:3]


def groups_of(workers):
    """Return the control groups of some processes; others on this machine may make and remove theirs."""
    return {folder for parent in find_parents()[1].values() for pid in workers for folder in parent.glob(f"upsolve-{pid}-*")}


@pytest.mark.skipif(not find_parents()[0], reason="no control groups here")
@pytest.mark.parametrize("in_the_middle", [False, True])
def test_workers_leave_no_control_group(in_the_middle):
    def stop(*_):
        raise KeyboardInterrupt

    pool.dismiss()
    verify(attempts(8), FAST)
    workers = [worker.process.pid for worker in pool.idle["local"]]
    assert groups_of(workers)
    if in_the_middle:
        with pytest.raises(KeyboardInterrupt):
            verify([*attempts(8), (TASK, LOOP)], replace(FAST, limits=Limits(wall_seconds=60, cpu_seconds=60)), on_done=stop)
    pool.dismiss()
    assert groups_of(workers) == set()


def test_groups_of_judges_that_were_killed_are_removed():
    parents = tuple({*find_parents()[1].values()})
    if not parents:
        pytest.skip("no control groups here")
    old, young = ([parent / f"upsolve-{2**22 + k}-0" for parent in parents] for k in (1, 2))
    for folder in (*old, *young):
        folder.mkdir()
    for folder in old:
        os.utime(folder, (0, 0))
    remove_abandoned.__wrapped__(parents)
    assert [folder.exists() for folder in (*old, *young)] == [False] * len(old) + [True] * len(young)
    for folder in young:
        folder.rmdir()


def test_a_worker_is_heard_on_any_descriptor():
    """select() fails above 1023; what a program holds open is not the judge's fault."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("no more than 1,200 descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1030)]
    try:
        worker = LocalWorker()
        assert worker.unpack(worker.run(worker.pack(len, "abc"), 20)) == 3
        worker.close()
    finally:
        for handle in held:
            os.close(handle)


def kill_workers_of(batches):
    for worker in batches:
        os.kill(worker.process.pid, signal.SIGKILL)


def test_a_lost_worker_is_replaced_and_nothing_is_lost():
    verify(attempts(8), FAST)
    kill_workers_of(pool.idle["local"])
    assert statuses(verify(attempts(40), FAST)) == EXPECTED


def test_an_attempt_that_takes_its_worker_with_it_every_time_is_unscored(monkeypatch):
    class Doomed(LocalWorker):
        def __init__(self):
            pass

        def run(self, *_):
            raise pool.WorkerLostError("gone")

        def close(self):
            pass

    monkeypatch.setattr(pool, "LocalWorker", Doomed)
    monkeypatch.setitem(pool.idle, "local", [])
    verdicts = verify(attempts(3), FAST)
    assert statuses(verdicts) == ["unscored"] * 3 and "gone" in verdicts[0].error_message


def test_a_worker_without_an_answer_is_ended_and_its_attempts_are_unscored(monkeypatch):
    monkeypatch.setattr(pool, "deadline", lambda _chunk, _how: 0.5)
    slow = replace(FAST, limits=Limits(wall_seconds=60, cpu_seconds=60))
    verdicts = verify([(TASK, LOOP)], slow)
    assert statuses(verdicts) == ["unscored"] and "no answer within 0.5 s" in verdicts[0].error_message


def test_the_cache_knows_what_was_judged(tmp_path, monkeypatch):
    settings = replace(FAST, cache=tmp_path / "v.sqlite")
    first = verify(attempts(10), settings)
    monkeypatch.setattr(pool, "LocalWorker", None)  # nothing may be judged from here on
    monkeypatch.setitem(pool.idle, "local", [])
    assert verify(attempts(10), settings) == first
    renamed = replace(TASK, task_id="other")
    pairs = [(renamed, replace(attempt, task_id="other")) for _, attempt in attempts(10)]
    again = verify(pairs, settings)
    assert statuses(again) == EXPECTED[:10] and [v.attempt_id for v in again] == [a.attempt_id for _, a in pairs]


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        (replace(TASK, tests=(TestCase(TestKind.CALL, "f(2)", "5"),)), FAST),
        (replace(TASK, setup="import math"), FAST),
        (replace(TASK, tests=(replace(TASK.tests[0], hidden=True),)), FAST),  # else a message may show a hidden answer
        (TASK, replace(FAST, limits=Limits(wall_seconds=5, cpu_seconds=3))),
    ],
)
def test_the_cache_key_covers_all_inputs_of_a_verdict(tmp_path, task, settings):
    _, attempt = attempts(1)[0]
    with open_cache(tmp_path / "v.sqlite") as cache:
        cache.keep([(TASK, attempt, verify([(TASK, attempt)], FAST)[0])], FAST)
        assert cache.find(TASK, attempt, FAST) and not cache.find(task, attempt, settings)


def test_the_cache_keeps_neither_our_faults_nor_deadlines_of_a_busy_machine(tmp_path):
    _, attempt = attempts(1)[0]
    verdict = verify([(TASK, attempt)], FAST)[0]
    with open_cache(tmp_path / "v.sqlite") as cache:
        for status, label, cached in (
            (Status.UNSCORED, "", False),
            (Status.TIMEOUT, ",elapsed", False),
            (Status.TIMEOUT, "", True),
        ):
            cache.keep([(TASK, attempt, replace(verdict, status=status, isolation=verdict.isolation + label))], FAST)
            assert bool(cache.find(TASK, attempt, FAST)) is cached


def test_a_broken_row_is_judged_again(tmp_path):
    settings, (pair,) = replace(FAST, cache=tmp_path / "v.sqlite"), attempts(1)
    first = verify([pair], settings)
    for broken in ("{", "[]", '{"status": "nonsense"}', '"x"'):
        with closing(sqlite3.connect(settings.cache)) as base, base:
            base.execute("UPDATE verdicts SET verdict = ?", (broken,))
        assert statuses(verify([pair], settings)) == statuses(first)


def test_the_key_holds_what_runs_the_program(tmp_path, monkeypatch):
    bash = Attempt("t", "echo 1", "bash")
    task = replace(TASK, tests=(TestCase(TestKind.STDIO, "", "1"),))
    keys = {key_of(task, bash, FAST), key_of(task, replace(bash, language="python"), FAST)}
    (tmp_path / "bash.yaml").write_text("name: bash\nfile: main.sh\nrun: [bash, -u, main.sh]\n")
    monkeypatch.setenv("UPSOLVE_LANGUAGES", str(tmp_path))
    for remembered in (languages, runtime):
        remembered.cache_clear()
    keys.add(key_of(task, bash, FAST))
    monkeypatch.setattr(cache_module, "python_version", lambda: "3.99")
    runtime.cache_clear()
    keys.add(key_of(task, replace(bash, language="python"), FAST))
    assert len(keys) == 4
    for remembered in (languages, runtime):
        remembered.cache_clear()


def test_without_its_cache_judging_continues(tmp_path, caplog):
    (tmp_path / "v.sqlite").write_bytes(b"this is no database, it is only some text" * 20)
    assert statuses(verify(attempts(3), replace(FAST, cache=tmp_path / "v.sqlite"))) == EXPECTED[:3]
    assert "v.sqlite" in caplog.text and "UPSOLVE_CACHE" in caplog.text and len(caplog.records) == 1


def test_a_cache_that_breaks_in_the_middle_is_left_alone(tmp_path, caplog):
    (pair,) = attempts(1)
    with open_cache(tmp_path / "v.sqlite") as cache:
        cache.base.execute("DROP TABLE verdicts")
        assert cache.find(*pair, FAST) is None
        cache.keep([(*pair, verify([pair], FAST)[0])], FAST)
    assert len(caplog.records) == 1 and "v.sqlite" in caplog.text
