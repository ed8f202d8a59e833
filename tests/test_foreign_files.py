"""Files of the current folder are data: modules there are imported only if the user names them."""

import json
import subprocess
import sys

import pytest

from upsolve import plugins

FOREIGN = [
    "anthropic",
    "click",
    "duckdb",
    "json",
    "logging",
    "multiprocessing",
    "numpy",
    "orjson",
    "pandas",
    "pip",
    "platform",
    "psutil",
    "pyarrow",
    "pydantic",
    "random",
    "ray",
    "rich",
    "ruff",
    "tokenizers",
    "torch",
    "transformers",
    "typer",
    "vllm",
    "yaml",
]
RECORDS = [
    {
        "kind": "task",
        "task_id": "double",
        "prompt": "Double.",
        "entry_point": "f",
        "tests": [{"kind": "call", "input": "f(2)", "expected": "4"}],
    },
    {"kind": "attempt", "task_id": "double", "code": "def f(x):\n    return 2 * x"},
    {"kind": "attempt", "task_id": "double", "code": "def f(x):\n    return x"},
]


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A folder of files that have the names of packages and leave a mark if they are executed."""
    for name in FOREIGN:
        (tmp_path / f"{name}.py").write_text(f"open('executed', 'a').write('{name} ')\nraise ImportError('foreign file')\n")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RECORDS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def executed_by(folder, *words):
    """Run a command of an interpreter with a safe path, as the installed script does; return the marks that files left."""
    done = subprocess.run([sys.executable, "-P", "-m", "upsolve", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    mark = folder / "executed"
    return mark.read_text() if mark.exists() else ""


def test_commands_execute_no_file_of_the_current_folder(foreign):
    for words in (["ingest", "jsonl", "rows.jsonl", "archive"], ["verify", "archive"]):
        assert not executed_by(foreign, *words), words


@pytest.mark.slow
def test_commands_that_load_models_execute_no_file_of_the_current_folder(foreign, tiny_model):
    executed_by(foreign, "ingest", "jsonl", "rows.jsonl", "archive")
    sampling = ["--set", "sample.samples=1", "--set", "sample.max_tokens=2"]
    for words in (
        ["memory", "rloo", "--archive", "archive", "--model", tiny_model],
        ["sample", "--archive", "archive", "--model", tiny_model, *sampling],
        ["packages"],
    ):
        assert not executed_by(foreign, *words), words


def test_worker_processes_execute_no_file_of_the_current_folder(foreign):
    from upsolve.importers.shares import safe_path

    work = "import multiprocessing as m\nif __name__ == '__main__':\n    from upsolve.importers.shares import safe_path\n"
    work += "    with safe_path():\n        p = m.get_context('spawn').Process(target=print, args=('done',))\n        p.start()\n    p.join()\n"
    script = foreign / "inner" / "script.py"
    script.parent.mkdir()
    script.write_text(work)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n" and not (foreign / "executed").exists(), done.stderr
    with safe_path():
        assert (
            subprocess.run(
                [sys.executable, "-c", "import sys; print('' in sys.path)"], capture_output=True, text=True, check=False
            ).stdout
            == "False\n"
        )


def test_a_named_file_is_imported_and_the_path_is_as_before(foreign):
    (foreign / "my_component.py").write_text(
        "import my_helper\nfrom upsolve.reward.components import COMPONENTS\nMINE = COMPONENTS['outcome']\n"
    )
    (foreign / "my_helper.py").write_text("")
    before = [*sys.path]
    try:
        assert plugins.find("component", "my_component:MINE") is plugins.find("component", "my_component.py:MINE")
        assert sys.path == before and not (foreign / "executed").exists()
    finally:
        for name in ("my_component", "my_helper"):
            sys.modules.pop(name, None)


def test_an_installed_module_precedes_a_file_of_its_name(foreign):
    (foreign / "colorsys.py").write_text("MINE = 1\n")
    with pytest.raises(ValueError, match=r"module colorsys has no MINE.*rename colorsys\.py"):
        plugins.find("component", "colorsys.py:MINE")


def test_python_m_upsolve_leaves_the_current_folder(foreign):
    for name in ("click", "duckdb", "pydantic", "typer"):
        (foreign / f"{name}.py").write_text("open('executed', 'a').write(__name__)\n")
    for name in ("json", "logging", "multiprocessing", "random", "platform"):  # Python's own start-up may import them
        (foreign / f"{name}.py").unlink()
    command = [sys.executable, "-m", "upsolve", "ingest", "--sources"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert not (foreign / "executed").exists()
