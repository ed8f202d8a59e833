"""The wheel and the sdist: what is in them, and that the judge works where the core alone is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import tomllib
import venv
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

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
            "quantize",
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
    assert "2 attempts judged" in run("upsolve", "verify", "archive")
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


def dockerfile():
    """The instructions of the Dockerfile, continued lines joined: (word, rest)."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line]


def test_a_change_in_src_keeps_the_layer_with_the_dependencies():
    steps = dockerfile()
    sources = steps.index(("COPY", "src /src/src"))
    (dependencies,) = [at for at, (word, rest) in enumerate(steps) if word == "RUN" and "${EXTRAS}" in rest]
    (metadata,) = [at for at, (word, rest) in enumerate(steps) if word == "COPY" and "pyproject.toml" in rest]
    assert metadata < dependencies < sources
    assert steps[dependencies][1].endswith("rm -rf /src/build /src/src"), "files of the empty package would be newer than ours"
    later = [rest for word, rest in steps[sources:] if word == "RUN" and "pip install" in rest]
    assert len(later) == 1 and "--no-deps" in later[0], "what follows the sources installs nothing else"


def test_the_image_knows_whether_its_service_answers_and_keeps_its_cache(tmp_path):
    steps = dict(dockerfile())
    assert json.loads(steps["VOLUME"]) == [steps["ENV"].removeprefix("UPSOLVE_CACHE=")]
    program, option, code = json.loads(steps["HEALTHCHECK"].partition("CMD ")[2])
    assert (program, option) == ("python", "-c") and "/health" in code
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Healthy", (BaseHTTPRequestHandler,), {"do_GET": answer_health}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = code.replace("/proc/1/cmdline", str(tmp_path / "command")).replace("8000", str(server.server_port))
    (tmp_path / "command").write_bytes(b"upsolve\0verify\0--serve\0")
    exec(code, {})
    server.shutdown()
    server.server_close()
    with pytest.raises(OSError, match="refused"):
        exec(code, {})
    (tmp_path / "command").write_bytes(b"upsolve\0verify\0my-archive\0")
    exec(code, {})


def answer_health(handler):
    """Answer as the service does where it is asked for its health, else with 404."""
    handler.send_response(200 if handler.path == "/health" else 404)
    handler.end_headers()


def test_a_release_is_of_the_tagged_version_and_names_its_repository(tmp_path):
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    same, address = (
        step["run"] for step in jobs["build"]["steps"] if "run" in step and "name" in step and "GITHUB_" in step["run"]
    )
    for name in ("pyproject.toml", "CHANGELOG.md", "src/upsolve/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(script, **env):
        return subprocess.run(["bash", "-ec", script], cwd=tmp_path, env={**os.environ, **env}, check=False).returncode

    assert run(same, GITHUB_REF_NAME=f"v{upsolve.__version__}") == 0 and run(same, GITHUB_REF_NAME="v9.9.9") != 0
    assert run(address, GITHUB_SERVER_URL="https://github.com", GITHUB_REPOSITORY="me/own") == 0
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert len(urls) == 4 and all(url.startswith("https://github.com/me/own") for url in urls.values())
    assert jobs["publish"]["permissions"] == {"id-token": "write"} and jobs["publish"]["needs"] == "build"


def test_the_readme_names_the_test_command():
    *_, command = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert f"`{command.removeprefix('exec ')}`" in (ROOT / "README.md").read_text(encoding="utf-8")
