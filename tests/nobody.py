"""Runs code as the user nobody, for tests in several folders."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from upsolve.verify.sandbox import runner as sandbox

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def python_for_nobody():
    """Return an interpreter that a plain user may run, with what the files of languages need: ours may lie in root's home."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import os, sys, yaml; sys.exit(sys.version_info < (3, 11) or not os.access(sys._base_executable, os.X_OK))"
        if subprocess.run([*NOBODY, python, "-c", check], capture_output=True, check=False).returncode == 0:
            return python
    return pytest.skip("no Python 3.11 with PyYAML here that the user nobody may run")


def as_nobody(code, *arguments):
    """Run code as the user nobody, with a copy of the package; return what it prints."""
    python = python_for_nobody()
    with tempfile.TemporaryDirectory(prefix="upsolve-nobody-") as place:
        Path(place).chmod(0o755)
        source = Path(sandbox.__file__).parents[3]
        shutil.copytree(source, Path(place) / "src", ignore=shutil.ignore_patterns("embedded", "__pycache__"))
        env = {"PYTHONPATH": f"{place}/src", "PATH": os.environ["PATH"], "HOME": place}
        command = [*NOBODY, python, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=place, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
