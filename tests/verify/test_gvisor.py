"""gVisor, a separate kernel for attempts: the container that gVisor is given, a clear refusal without it, and, where it is installed, the judge in it."""

import json
import os
import platform
import shutil

import pytest
from honest.programs import programs

from upsolve.errors import IsolationError
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.attacks import GVISOR_LIMITS, traces, tries
from upsolve.verify.doctor import own_kernel
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.sandbox.gvisor import command, configuration
from upsolve.verify.sandbox.process import PREFIX, Server
from upsolve.verify.sandbox.runner import forget_server

SETTINGS = JudgeSettings(Limits(wall_seconds=30, cpu_seconds=10), "gvisor")
TASK = Task("t", "", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
installed = pytest.mark.skipif(shutil.which("runsc") is None, reason="no runsc here")


@pytest.fixture
def without_runsc(monkeypatch):
    monkeypatch.setenv("PATH", "")


@pytest.fixture(scope="module", autouse=True)
def containers_end():
    yield
    for profile in ("python", "any"):
        forget_server(profile, gvisor=True)


@pytest.mark.usefixtures("without_runsc")
def test_without_the_program_it_is_refused_with_what_to_do():
    with pytest.raises(IsolationError, match=r"runsc.*apt install runsc.*gvisor\.dev"):
        judge(TASK, Attempt("t", "def f(x): return 2 * x"), SETTINGS)


@pytest.mark.usefixtures("without_runsc")
def test_the_doctor_says_that_it_is_missing():
    found = own_kernel(JudgeSettings())
    assert (found.name, found.ok, found.required) == ("gvisor", False, False) and "apt install runsc" in found.detail


def test_the_command_gives_no_network_and_no_rights_that_a_plain_user_lacks(tmp_path, monkeypatch):
    for uid, rootless in ((0, []), (1000, ["--rootless"])):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert command("/usr/bin/runsc", tmp_path) == [
            *("/usr/bin/runsc", "--root", f"{tmp_path}/state", "--network=none", "--ignore-cgroups", *rootless),
            *("run", "--bundle", str(tmp_path), tmp_path.name),
        ]


@pytest.mark.parametrize("profile", ["python", "any"])
def test_a_container_holds_the_system_read_only_and_folders_in_memory(tmp_path, profile):
    made = json.loads(json.dumps(configuration(tmp_path / "root", {**Server.setup(profile), "files": 40})))
    mounts = {mount["destination"]: mount for mount in made["mounts"]}
    bound = {path for path, mount in mounts.items() if mount["type"] == "bind"}
    assert (
        {"/usr", "/etc", PREFIX}
        <= bound
        <= {
            "/usr",
            "/bin",
            "/sbin",
            "/lib",
            "/lib32",
            "/lib64",
            "/etc",
            "/opt",
            "/nix",
            "/var/lib/ghc",
            PREFIX,
            "/mnt/packages",
        }
    )
    assert (
        all("ro" in mounts[path]["options"] for path in bound)
        and made["root"]["readonly"]
        and made["process"]["noNewPrivileges"]
    )
    assert {path for path, mount in mounts.items() if mount["type"] == "tmpfs"} >= {"/tmp", "/dev/shm", "/sys"}
    assert mounts["/proc"]["type"] == ("proc" if profile == "any" else "tmpfs")
    assert "CAP_SYS_ADMIN" not in made["process"]["capabilities"]["bounding"]
    assert all((tmp_path / "root" / path.lstrip("/")).is_dir() for path in mounts)


@installed
def test_attempts_are_judged_by_another_kernel():
    code = "import os\ndef f(x):\n    return [os.uname().release, os.getpid() > 1, os.path.exists('/proc/self'), os.listdir('/tmp')]\n"
    said = judge(TASK, Attempt("t", code), SETTINGS)
    assert platform.release() not in said.error_message and "True, False, []" in said.error_message, said.error_message
    right = judge_all([(TASK, Attempt("t", f"def f(x): return 2 * x  # {k}")) for k in range(20)], SETTINGS)
    assert {verdict.status for verdict in right} == {Status.PASSED}
    assert {"gvisor", "pidns", "seccomp", "own_uid", "no_new_privs"} <= {*right[0].isolation.split(",")}


@installed
@pytest.mark.parametrize(
    ("task", "attempt", "status"),
    [
        (TASK, Attempt("t", "def f(x): return 5"), "failed"),
        (TASK, Attempt("t", "def f(x):\n    while True: pass"), "timeout"),
        (TASK, Attempt("t", "def f(x): return bytearray(1 << 31)"), "memory_limit"),
        (Task("t", "", (TestCase(TestKind.CODE, "assert f([1]) == [1]"),)), Attempt("t", "def f(x): return x"), "passed"),
        (Task("t", "", (TestCase(TestKind.STDIO, "a\n", "a\n"),)), Attempt("t", "print(input())"), "passed"),
        (Task("t", "", (TestCase(TestKind.STDIO, "a\n", "a\n"),)), Attempt("t", "cat > x; cat x", "bash"), "passed"),
    ],
)
def test_verdicts_are_those_of_the_other_sandbox(task, attempt, status):
    settings = JudgeSettings(Limits(wall_seconds=10, cpu_seconds=1), "gvisor")
    assert judge(task, attempt, settings).status == status


@installed
def test_nothing_is_left_between_attempts_nor_afterwards():
    before = traces()
    names = ("flood_stdout/call", "forged_results/call", "kill_group/call", "inherited_descriptors/call")
    wrong = {
        one.name: one.wrong(judge_all(one.pairs(), JudgeSettings(GVISOR_LIMITS, "gvisor")))
        for one in tries()
        if one.name in names
    }
    assert wrong == {name: [] for name in wrong} and {*wrong} == {*names} and traces() == before


@installed
@pytest.mark.slow
def test_every_honest_program_passes():
    found = {(one.name, one.mode): judge(*one.pair, SETTINGS) for one in programs() if one.name != "stop_iteration_from_next"}
    assert {key: verdict.error_message for key, verdict in found.items() if verdict.status is not Status.PASSED} == {}


@installed
@pytest.mark.slow
@pytest.mark.parametrize("wants", ["fake pass", "escape", "exhaust", "interfere"])
def test_no_attack_works(wants):
    settings, todo = (
        JudgeSettings(GVISOR_LIMITS, "gvisor"),
        [one for one in tries() if one.attack.wants == wants and not one.missing()],
    )
    found = {one.name: one.wrong(judge_all(one.pairs(), settings)) for one in todo}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
