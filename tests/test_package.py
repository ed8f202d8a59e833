"""The wheel and the sdist: what is in them, and that the judge works where the core alone is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import upsolve

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "upsolve"
TASK = {"kind": "task", "task_id": "a", "prompt": "", "tests": [{"kind": "call", "input": "f(2)", "expected": "4"}]}
RIGHT = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return 2 * x"}
WRONG = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return x"}


def files(folder):
    """Files of a folder as it would be checked out."""
    every = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return {str(file) for file in every if "__pycache__" not in file.parts and not file.parts[0].endswith(".egg-info")}


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "upsolve.__version__"}
    assert f"## {upsolve.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {upsolve.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_core_needs_no_torch_and_all_holds_what_needs_no_gpu():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {word.partition(">")[0] for word in project["dependencies"]}
    assert not core & {"torch", "transformers", "accelerate", "ruff", "matplotlib", "jinja2"}
    assert {*project["optional-dependencies"]} == {
        *(
            "all",
            "analysis",
            "clean",
            "deepspeed",
            "demo",
            "dev",
            "docs",
            "excel",
            "grammars",
            "hub",
            "int8",
            "ray",
            "remote",
            "report",
            "serve",
            "sql",
            "trackers",
            "train",
            "vllm",
        )
    }


def test_the_description_on_a_package_index_has_no_relative_links():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / project["readme"]).read_text()
    assert not [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith("https://")]
    assert "<img" not in text and project["description"].split(" on ")[0] in text


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with the wheel and the sdist, built from a copy of the source tree."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "src", folder / "tree" / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "README.pypi.md", "LICENSE", "CHANGELOG.md", "constraints.txt"):
        shutil.copy(ROOT / name, folder / "tree")
    shutil.copytree(ROOT / "docs", folder / "tree" / "docs")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "tree"], check=True, capture_output=True
    )
    return folder / "dist"


@pytest.mark.slow
def test_wheel_and_sdist_hold_every_file_of_the_package(built):
    wanted = {f"upsolve/{name}" for name in files(SOURCE)}
    (wheel,) = built.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert not wanted - packed
    assert not {
        name for name in packed if name.partition("/")[0] not in ("upsolve", f"upsolve-{upsolve.__version__}.dist-info")
    }
    for folder, ending in (
        ("recipes", "yaml"),
        ("languages", "yaml"),
        ("report", "j2"),
        ("archive/embedded", "parquet"),
        ("archive/embedded_sql", "parquet"),
    ):
        assert any(name.startswith(f"upsolve/{folder}/") and name.endswith(ending) for name in packed), folder
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert not {f"src/{name}" for name in wanted} - inside and {"CHANGELOG.md", "docs/api.md"} <= inside


@pytest.mark.slow
def test_the_judge_works_where_the_wheel_alone_is_installed(built, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    (wheel,) = built.glob("*.whl")
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(program, *words, code=0):
        done = subprocess.run(
            [tmp_path / "env" / "bin" / program, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            env={**clean, "UPSOLVE_CACHE": str(tmp_path / "cache")},
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt", wheel)
    assert "torch" not in run("python", "-m", "pip", "list")
    assert upsolve.__version__ in run("upsolve", "version")
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, (TASK, RIGHT, WRONG))))
    run("upsolve", "ingest", "jsonl", "in.jsonl", "archive")
    assert "judged 2" in run("upsolve", "verify", "archive")
    said = run("upsolve", "archive", "query", "archive", "select status, count(*) as n from verdicts group by status")
    assert "passed" in said and "failed" in said
    assert "pip install 'upsolve[train]'" in run("upsolve", "train", "rloo", code=2)
    assert "0 failed" in run("upsolve", "doctor", "--quick")


def test_the_dockerfile_copies_what_is_there_and_names_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "Dockerfile").read_text()
    extras = re.search(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE)[1].split(",")
    assert extras and set(extras) <= {*project["optional-dependencies"]}
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()]
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {*copied} == let_in and all((ROOT / name).exists() for name in copied)
    assert {project["readme"], *project["license-files"], "constraints.txt", "src"} <= let_in, "the build needs them"
