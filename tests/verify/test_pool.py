"""Many at once: order, caches, lost workers, stops; the same over Ray."""

import os
import pickle
import signal
import time
from dataclasses import replace
from itertools import chain

import pytest

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Finding, Status, Task, TestCase, TestKind, Verdict
from upsolve.verify.limits import Judging, Limits
from upsolve.verify.pool import pool
from upsolve.verify.pool.cache import VerdictCache
from upsolve.verify.pool.pool import judged, verify

FAST = Judging(Limits(wall_seconds=5, cpu_seconds=2), workers=2)
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
        found = [*pool.pieces(pairs, workers)]
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
    assert time.monotonic() - started < 20
    assert statuses(verify(attempts(3), FAST)) == EXPECTED[:3]


def kill_workers_of(batches):
    for worker in batches:
        os.kill(worker.process.pid, signal.SIGKILL)


def test_a_lost_worker_is_replaced_and_nothing_is_lost():
    verify(attempts(8), FAST)
    kill_workers_of(pool.idle["local"])
    assert statuses(verify(attempts(40), FAST)) == EXPECTED


def test_an_attempt_that_takes_its_worker_with_it_every_time_is_unscored(monkeypatch):
    class Doomed:
        def call(self, *_, **__):
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
    how = replace(FAST, cache=tmp_path / "v.sqlite")
    first = verify(attempts(10), how)
    monkeypatch.setattr(pool, "LocalWorker", None)  # nothing may be judged from here on
    monkeypatch.setitem(pool.idle, "local", [])
    assert verify(attempts(10), how) == first
    renamed = replace(TASK, task_id="other")
    pairs = [(renamed, replace(attempt, task_id="other")) for _, attempt in attempts(10)]
    again = verify(pairs, how)
    assert statuses(again) == EXPECTED[:10] and [v.attempt_id for v in again] == [a.attempt_id for _, a in pairs]


@pytest.mark.parametrize(
    ("task", "how"),
    [
        (replace(TASK, tests=(TestCase(TestKind.CALL, "f(2)", "5"),)), FAST),
        (replace(TASK, setup="import math"), FAST),
        (TASK, replace(FAST, limits=Limits(wall_seconds=5, cpu_seconds=3))),
    ],
)
def test_the_cache_tells_apart_what_decides(tmp_path, task, how):
    cache, (_, attempt) = VerdictCache(tmp_path / "v.sqlite"), attempts(1)[0]
    cache.keep([(TASK, attempt, verify([(TASK, attempt)], FAST)[0])], FAST)
    assert cache.find(TASK, attempt, FAST) and not cache.find(task, attempt, how)


def test_the_cache_keeps_neither_our_faults_nor_deadlines_of_a_busy_machine(tmp_path):
    cache, (_, attempt) = VerdictCache(tmp_path / "v.sqlite"), attempts(1)[0]
    verdict = verify([(TASK, attempt)], FAST)[0]
    for status, seconds, kept in ((Status.UNSCORED, 0.0, False), (Status.TIMEOUT, 0.5, False), (Status.TIMEOUT, 2.0, True)):
        cache.keep([(TASK, attempt, replace(verdict, status=status, cpu_seconds=seconds))], FAST)
        assert bool(cache.find(TASK, attempt, FAST)) is kept


def test_a_cache_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "v.sqlite").write_bytes(b"this is no database, it is only some text" * 20)
    with pytest.raises(JudgeError, match=r"v\.sqlite.*UPSOLVE_CACHE"):
        verify(attempts(1), replace(FAST, cache=tmp_path / "v.sqlite"))
