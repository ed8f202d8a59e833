"""The pipeline without the packages beside it: ``upsolve.importers``, ``suites``, ``derive``, ``exports``, ``clean``, ``plan``, ``view``, ``adapters``, ``worlds``."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_architecture import BESIDE, PIPELINE, SOURCE

TESTS = Path(__file__).parent
SANDBOX = "verify/sandbox"
"""Some modules of it run in the attempt's interpreter, where they import each other by bare names."""
IMPORT_ALL = """
import importlib, sys, upsolve
folder, *modules = sys.argv[1].split()
assert upsolve.__file__.startswith(folder), upsolve.__file__
for module in modules:
    importlib.import_module(module)
del sys.argv[1]
importlib.import_module("upsolve.cli.main").main()
"""
RUN_EACH = """
import sys
from upsolve.cli.main import main
for command in sys.argv[1:]:
    sys.argv = ["upsolve", *command.split()]
    try:
        main()
    except SystemExit as stop:
        print(stop.code, flush=True)
"""
COMMANDS = {
    "ingest jsonl in.jsonl archive": "importers",
    "ingest --sources": "importers",
    "archive doctor embedded": "clean",
    "tests grade embedded": "suites",
    "derive repair embedded out": "derive",
    "archive export embedded out --as sft": "exports",
    "plan embedded": "clean",
    "init embedded": "plan",
    "view embedded": "view",
    "push model me/model": "adapters",
}
"""Command -> package beside the pipeline that it needs first."""


@pytest.fixture(scope="module")
def alone():
    """A folder, which every user may read, with a copy of upsolve that lacks the packages beside the pipeline."""
    with tempfile.TemporaryDirectory(prefix="upsolve-alone-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(
            SOURCE, folder / "upsolve", ignore=lambda at, _: ("__pycache__", *(BESIDE if Path(at) == SOURCE else ()))
        )
        yield folder


def run(alone, *words):
    """Run Python with the copy first on its path, and return what it prints."""
    environment, words = os.environ | {"PYTHONPATH": str(alone)}, [sys.executable, *map(str, words)]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=TESTS.parent, env=environment
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.mark.slow
def test_every_module_is_imported_and_a_model_trained_on_the_embedded_archive(alone, tiny_model, tmp_path):
    files = [file.relative_to(alone) for file in (alone / "upsolve").rglob("*.py") if "attacks" not in file.parts]
    here = [file for file in files if SANDBOX not in str(file) and file.name != "__main__.py"]
    modules = [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in here]
    assert {*PIPELINE, "cli"} <= {module.split(".")[1] for module in modules if "." in module}
    settings = ("optim.max_steps=2", "optim.attempts_per_step=8", "data.max_tokens=512")
    train = ("train", "rloo", "--archive", "embedded", "--model", tiny_model, "--out", tmp_path, "--json")
    said = run(alone, "-c", IMPORT_ALL, " ".join([str(alone), *modules]), *train, *(f"-s{setting}" for setting in settings))
    assert json.loads(said[said.index("{\n") :])["steps"] == 2


def test_a_command_whose_package_is_missing_names_it(alone):
    said = run(alone, "-c", RUN_EACH, *COMMANDS)
    assert "Traceback" not in said
    assert re.findall(r"upsolve: upsolve\.(\w+)[^\n]*pip install[^\n]*\n2\n", said) == [*COMMANDS.values()]


@pytest.mark.slow
def test_the_tests_of_the_pipeline_pass(alone):
    places = [place for name in PIPELINE for place in (TESTS / name, *TESTS.glob(f"test_{name}*.py")) if place.exists()]
    run(alone, "-m", "pytest", "-q", "-p", "no:cacheprovider", *places)
