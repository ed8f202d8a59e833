"""Every folder of tests/attacks holds an attempt that cheats, escapes or exhausts, and the verdict it must get, as root and as nobody."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from attack_cases import ATTACKS, processes_of_the_sandbox, wrong

from upsolve.verify import sandbox

AS_NOBODY = """
import json, sys
from attack_cases import ATTACKS, wrong
from upsolve.verify import sandbox
print(json.dumps({"layers": sandbox.active_layers(), "wrong": {f.name: w for f in ATTACKS if (w := wrong(f))}, "attacks": len(ATTACKS)}))
"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.parametrize("folder", ATTACKS, ids=lambda path: path.name)
def test_attack(folder):
    assert wrong(folder) == []
    assert processes_of_the_sandbox() == 1


def test_there_are_enough_attacks():
    assert len(ATTACKS) >= 60


def python_for_nobody():
    """Return an interpreter that a plain user may run: ours may lie in root's home."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import os, sys; sys.exit(sys.version_info < (3, 11) or not os.access(sys._base_executable, os.X_OK))"
        if subprocess.run([*NOBODY, python, "-c", check], capture_output=True, check=False).returncode == 0:
            return python
    return pytest.skip("no Python 3.11 here that the user nobody may run")


def test_the_same_as_nobody():
    """A plain user has other layers: a user namespace instead of user ids of its own."""
    if os.getuid() != 0:
        return  # then the tests above have been just that
    python = python_for_nobody()
    with tempfile.TemporaryDirectory(prefix="upsolve-nobody-") as place:
        Path(place).chmod(0o755)
        for name, source in (("src", Path(sandbox.__file__).parents[2]), ("tests", Path(__file__).parents[1])):
            shutil.copytree(source, Path(place) / name, ignore=shutil.ignore_patterns("embedded", "__pycache__"))
        env = {"PYTHONPATH": f"{place}/src:{place}/tests/verify", "PATH": os.environ["PATH"], "HOME": place}
        command = [*NOBODY, python, "-c", AS_NOBODY]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=place, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["wrong"] == {}
    assert "userns" in said["layers"] and "own_uid" not in said["layers"] and said["attacks"] == len(ATTACKS)
