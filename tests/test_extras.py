"""What works without optional dependencies, and the errors that name missing ones."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from upsolve.config import load_recipe
from upsolve.errors import MissingExtraError
from upsolve.evaluate.runs import save_evaluation
from upsolve.evaluate.scores import Evaluation, TaskScore
from upsolve.experiment import run_recipe
from upsolve.extras import EXTRAS, missing, needs_extras, require

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
TASK = {"kind": "task", "task_id": "a", "prompt": "", "tests": [{"kind": "call", "input": "f(2)", "expected": "4"}]}
RIGHT = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return 2 * x"}
WRONG = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return x"}
CORE_ONLY = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(EXTRAS.keys() - {"pandas"})}))
class WithoutPandas:  # pyarrow, which asks for it, does not expect None
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
sys.meta_path.insert(0, WithoutPandas())
sys.argv[0] = 'upsolve'
"""


def with_core_alone(code, *words):
    """Run code where no optional dependency can be imported."""
    done = subprocess.run(
        [sys.executable, "-c", CORE_ONLY + code, *map(str, words)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def cli(*words):
    return with_core_alone("from upsolve.cli.main import main\nmain()", *words)


def test_every_module_of_the_table_names_an_extra_that_exists():
    assert {*EXTRAS.values()} <= {*PROJECT["optional-dependencies"]}


@pytest.mark.slow
def test_archive_and_judge_work_with_the_core_alone(tmp_path):
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, (TASK, RIGHT, WRONG))))
    for words, said in (
        (("ingest", "jsonl", tmp_path / "in.jsonl", tmp_path / "a"), "2 attempts"),
        (("verify", tmp_path / "a"), "2 attempts judged"),
        (("archive", "query", tmp_path / "a", "select status, passed from verdicts"), "passed"),
        (("archive", "info", tmp_path / "a"), "attempts"),
    ):
        code, out = cli(*words)
        assert code == 0 and said in out, out


def test_the_api_of_archive_judge_and_reward_works_with_the_core_alone():
    code, out = with_core_alone(
        "import upsolve\n"
        "task = upsolve.Task('t', '', tests=(upsolve.TestCase(upsolve.TestKind.CALL, 'f(2)', '4'),))\n"
        "attempts = [upsolve.Attempt('t', f'def f(x):\\n    return {body}') for body in ('2 * x', 'x')]\n"
        "verdicts = upsolve.verify_attempts([(task, attempt) for attempt in attempts])\n"
        "print(*[verdict.status for verdict in verdicts])\n"
        "from upsolve.reward.formula import reward\n"
        "print(*reward(upsolve.Group(task, tuple(attempts), tuple(verdicts)), upsolve.load_recipe(None).reward).rewards_G)\n"
        "print(len(upsolve.open_archive('embedded').tasks()))\n"
    )
    assert code == 0, out
    assert out.split() == ["passed", "failed", "1.0", "-0.1", "259"]


@pytest.mark.slow
def test_doctor_runs_the_checks_that_need_no_extra(tmp_path):
    code, out = cli("archive", "doctor", "embedded")
    assert code == 0 and "found nothing" in out and "not run: needs pip install 'upsolve[clean]'" in out, out
    for more in (("--check", "secrets"), ("--fix", tmp_path / "x")):  # asked for, or a cleaned archive with secrets in it
        code, out = cli("archive", "doctor", "embedded", *more)
        assert code == 2 and "pip install 'upsolve[clean]'" in out and not (tmp_path / "x").exists()


@pytest.mark.slow
def test_markdown_needs_no_extra(tmp_path):
    scores = tuple(TaskScore(f"t{number}", "", 1, 1, {"passed": 1}) for number in range(6))
    save_evaluation(Evaluation("base", "m", "x:test", 0.0, 1.0, 0, 100, scores), tmp_path / "base.json")
    code, out = cli("report", tmp_path / "base.json", "--markdown")
    assert code == 0 and "| all (6) | pass@1 |" in out, out
    code, out = with_core_alone("import upsolve.report.several, upsolve.report.run")
    assert code == 0, out


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("train", "rloo", "--out", "{}"), "train"),
        pytest.param(("eval", "rloo", "--out", "{}"), "train", marks=pytest.mark.slow),
        pytest.param(("report", "{}/x.json", "--out", "{}/r.html"), "report", marks=pytest.mark.slow),
        pytest.param(("verify", "--serve", "--port", "0"), "serve", marks=pytest.mark.slow),
        pytest.param(("archive", "doctor", "embedded", "--check", "duplicates"), "clean", marks=pytest.mark.slow),
    ],
)
def test_a_missing_extra_is_one_message(tmp_path, words, extra):
    code, out = cli(*(word.format(tmp_path) for word in words))
    assert code == 2 and f"pip install 'upsolve[{extra}]'" in out and "Traceback" not in out


def test_a_run_without_the_extra_of_its_report_ends_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("upsolve.extras.find_spec", lambda name: None if name == "matplotlib" else True)
    with pytest.raises(MissingExtraError, match=r"upsolve\[report\]"):
        run_recipe(load_recipe("rloo"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_a_gpu_the_smaller_build_of_torch_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "whl/cpu" in str(missing("torch")) and "whl/cpu" not in str(missing("jinja2"))
    (tmp_path / "nvidia-smi").touch(mode=0o755)
    assert "whl/cpu" not in str(missing("torch"))


def test_a_missing_analysis_raises_before_judging_and_the_parser_of_masks_names_its_extra():
    require("ruff", "tree-sitter")
    code, out = with_core_alone(
        "import upsolve\n"
        "from upsolve.extras import require\n"
        "from upsolve.verify.analysis.syntax import parse\n"
        "for ask, name in (require, 'tree-sitter'), (parse, 'x'):\n"
        "    try: ask(name)\n"
        "    except upsolve.UpsolveError as error: print(error)\n"
    )
    assert code == 0 and out.count("pip install 'upsolve[analysis]'") == 2, out


def test_a_missing_module_of_somebody_else_is_not_explained_away():
    with pytest.raises(ModuleNotFoundError) as raised, needs_extras():
        import no_such_module_of_anybody  # noqa: F401
    assert not isinstance(raised.value, MissingExtraError)
