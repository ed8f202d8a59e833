"""Attempts that cheat, escape, exhaust or interfere get the verdicts they must, whoever judges: this process, as root and as nobody,
several workers, a cluster. After each, honest attempts pass and nothing is left behind."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest
from nobody import as_nobody

from upsolve.types import Attempt, Status
from upsolve.verify import doctor
from upsolve.verify.attacks import HONEST_BASH, HONEST_PYTHON, LIMITS, TESTS, WANTS, Attack, Try, attacks, traces, tries
from upsolve.verify.doctor import Check, checks, run_attacks
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.sandbox.process import Server

SETTINGS = JudgeSettings(LIMITS)
AS_NOBODY = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from upsolve.verify.sandbox import runner as sandbox
from upsolve.verify.attacks import LIMITS, traces, tries
from upsolve.verify.judge.plans import judge_all
from upsolve.verify.limits import JudgeSettings
before, todo = traces(), [one for one in tries() if one.attack.language != "c" and one.attack.wants in sys.argv[1:]]
with ThreadPoolExecutor(3) as threads:
    found = [*threads.map(lambda one: one.wrong(judge_all(one.pairs(), JudgeSettings(LIMITS))), todo)]
    left = sorted(traces() - before)
wrong = {one.name: said for one, said in zip(todo, found) if said}
print(json.dumps({"layers": sandbox.server().layers, "wrong": wrong, "left": left, "tries": len(todo)}))
"""
IN_RAY = """
import json, sys, ray
from upsolve.verify.attacks import LIMITS, tries
from upsolve.verify.doctor import run_attacks, layers
from upsolve.verify.limits import JudgeSettings
ray.init(address="local", num_cpus=4, log_to_driver=False, include_dashboard=False)
settings, wanted = JudgeSettings(LIMITS, executor="ray"), sys.argv[1:]
found = layers(settings) + [*run_attacks([one for one in tries() if one.attack.wants in wanted], settings)]
print(json.dumps([[c.group, c.name, c.detail] for c in found if c.required and not c.ok or c.name == "left behind"]))
"""


LIKE_FASTER_ONES = {
    *("endless_loop", "slow_regex", "huge_power", "decompression_bomb"),  # as loop_in_c
    *("bash_sleep", "perl_signal_handlers"),  # as sleep and ignore_signals
    *("perl_allocate_in_children", "sql_group_concat"),  # as perl_allocate_all and sql_huge_blob
}
"""Attacks that take seconds and use up what a faster attack uses up, too."""


def marked(one):
    """Mark attacks in C, the kinds of tests after the first of an attack, and ``LIKE_FASTER_ONES``."""
    is_fast = one.kind == next(iter(one.attack.kinds)) and one.attack.name not in LIKE_FASTER_ONES
    marks = [pytest.mark.languages] if one.attack.language == "c" else [] if is_fast else [pytest.mark.slow]
    return pytest.param(one, marks=marks)


@pytest.mark.parametrize("one", [*map(marked, tries())], ids=lambda one: one.name)
def test_attack(one):
    if one.missing():
        pytest.skip(f"no {one.missing()} here")
    before = traces()
    assert one.wrong(judge_all(one.pairs(), SETTINGS)) == []
    assert traces() - before == set()


def test_there_are_enough_attacks():
    assert len(attacks()) >= 105
    for language, wanted in (("python", 75), ("bash", 18), ("perl", 8), ("c", 4), ("sql", 30)):
        assert sum(attack.language == language for attack in attacks()) >= wanted
    for wants in WANTS:
        assert sum(attack.wants == wants for attack in attacks()) >= 10
    assert {kind for attack in attacks() for kind in attack.kinds} == {*TESTS}


def test_no_attack_may_pass_or_stay_unscored():
    allowed = {one.name: {*one.attack.kinds[one.kind]} for one in tries()}
    assert [name for name, statuses in allowed.items() if "unscored" in statuses] == []
    assert [name for name, statuses in allowed.items() if "passed" in statuses] == [
        "locked_folders/call",
        "locked_folders/code",
    ]


MOST = ["fake pass", "escape", "interfere"]
"""Aims of the attacks that end quickly: the others use up time or memory."""


@pytest.mark.parametrize(("wanted", "least"), [(MOST, 90), pytest.param([*WANTS], 160, marks=pytest.mark.slow)])
def test_the_same_as_nobody(wanted, least):
    """A plain user has other layers: a user namespace instead of user ids of its own."""
    if os.getuid() != 0:
        pytest.skip("not root: the tests above have run as a plain user")
    said = as_nobody(AS_NOBODY, *wanted)
    assert (said["wrong"], said["left"]) == ({}, [])
    assert "userns" in said["layers"] and "own_uid" not in said["layers"] and said["tries"] >= least


@pytest.mark.slow
def test_the_same_by_several_workers():
    seen = []
    found = [*checks(JudgeSettings(workers=4), progress=lambda done, total: seen.append((done, total)))]
    assert [check for check in found if check.required and not check.ok] == []
    assert {check.name for check in found} >= {"pidns", "seccomp", "left behind", *(one.name for one in tries())}
    assert [check.group for check in found if check.name == "left behind"] == [*WANTS]
    total = sum(len(one.pairs()) for one in tries() if not one.missing())
    assert seen == [(done, total) for done in range(1, total + 1)]


@pytest.mark.skipif(find_spec("ray") is None, reason="no ray here")
@pytest.mark.slow
def test_the_same_in_a_cluster():
    done = subprocess.run([sys.executable, "-c", IN_RAY, *WANTS], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[wants, "left behind", "nothing"] for wants in WANTS]
    assert "Traceback" not in done.stderr


def test_the_doctor_says_which_attack_works_and_what_it_left(tmp_path, monkeypatch):
    """An honest program stands for an attack that works, a file in the current folder for what one leaves."""
    monkeypatch.chdir(tmp_path)
    honest, bad = ("def f(n):\n    return {20: 6765, 7: 13}[n]\n", "def f(n):\n    return 0\n")
    todo = [Try(Attack(name, "escape", code, {"call": ["failed"]}), "call") for name, code in (("a", honest), ("b", bad))]
    left = tmp_path / "upsolve-attack"
    found = [*run_attacks(todo, JudgeSettings(LIMITS, workers=1), lambda _done, _total: left.touch())]
    assert found == [
        Check("escape", "a/call", ok=False, required=True, detail="passed"),
        Check("escape", "b/call", ok=True, required=True, detail="failed"),
        Check("escape", "left behind", ok=False, required=True, detail=f"file {left}"),
    ]


def in_a_thread(function):
    """Return what a function yields in a thread of its own: a thread has servers of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: [*function()]).result()


@pytest.fixture
def without(monkeypatch):
    """Leave a layer out of the sandboxes that are started from now on."""
    setup = Server.setup

    def leave_out(layer):
        monkeypatch.setattr(Server, "setup", staticmethod(lambda profile="python": setup(profile) | {"off": [layer]}))

    return leave_out


def test_without_a_required_layer_no_attack_is_tried(monkeypatch, without):
    without("seccomp")
    monkeypatch.setattr(doctor, "verify", judge_all)
    found = in_a_thread(lambda: checks(quick=True))
    assert {check.group for check in found} == {"layers"}
    assert [check.name for check in found if check.required and not check.ok] == ["seccomp"]


def test_without_landlock_nothing_escapes(without):
    without("landlock")
    todo = [one for one in tries() if one.attack.wants == "escape" and one.attack.language != "c"]
    found = in_a_thread(lambda: ((one.name, one.wrong(judge_all(one.pairs(), SETTINGS))) for one in todo))
    assert [(name, wrong) for name, wrong in found if wrong] == []


def test_honest_attempts_find_what_was_left():
    """The watch that honest attempts keep sees files and processes, else it would prove nothing."""
    file = "open('/tmp/left', 'w').close()\n"
    process = "import os, time\nif os.fork() == 0: time.sleep(5)\n"
    one = next(one for one in tries() if one.attack.language == "bash")
    (task, _), (bash_task, _) = one.pairs()[-1], one.pairs()[0]
    for left in (file, process):
        assert judge(task, Attempt(task.task_id, left + HONEST_PYTHON), SETTINGS).error_message.startswith("found"), left
    for left in (": > left\n", "sleep 5 &\n"):
        verdict = judge(bash_task, Attempt(bash_task.task_id, left + HONEST_BASH, "bash"), SETTINGS)
        assert (verdict.status, verdict.stderr_head[:5]) == (Status.RUNTIME_ERROR, "found"), left


def test_traces_see_the_processes_of_an_attempt():
    (one,) = (one for one in tries() if one.name == "endless_loop/call")
    before = traces()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(judge_all, one.pairs(), SETTINGS)
        seen = set()
        while not (seen or running.done()):
            seen = {trace for trace in traces() - before if trace.startswith("process")}
            time.sleep(0.01)
        assert one.wrong(running.result()) == []
        assert seen and traces() - before == set()
