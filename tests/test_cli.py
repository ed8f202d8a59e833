"""The command line, end to end."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from functools import partial

import pytest

from upsolve import __version__
from upsolve.archive.info import ArchiveInfo
from upsolve.archive.store import open_archive
from upsolve.cli.app import line_reporter
from upsolve.cli.archives import MEANINGS
from upsolve.cli.judging import show_outcomes
from upsolve.cli.main import main, stop_message
from upsolve.cli.recipes import load, load_evaluated
from upsolve.config.recipe import RECIPES, dump_recipe, load_recipe, recipe_names
from upsolve.errors import ConfigError
from upsolve.evaluate.runs import save_evaluation
from upsolve.evaluate.scores import Evaluation, TaskScore

TASK = {
    "kind": "task",
    "task_id": "a",
    "prompt": "double",
    "entry_point": "f",
    "tests": [{"kind": "call", "input": "f(2)", "expected": "4"}],
}
RIGHT = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return 2 * x"}
WRONG = {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return x"}


def upsolve(*words, code=0):
    done = subprocess.run([sys.executable, "-m", "upsolve", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def plain(table):
    """Return a printed table with single blanks."""
    return re.sub(r"[ ]+", " ", table)


def row(*cells):
    """Return a row of a printed table."""
    return "│ " + " │ ".join(cells) + " │"


WITH_ARCHIVE = [
    ["run", "rloo", "--archive", "mistyped", "--out", "out"],
    ["train", "rloo", "--archive", "mistyped", "--out", "out"],
    ["eval", "--archive", "mistyped", "--out", "out"],
    ["sample", "--archive", "mistyped"],
    ["memory", "rloo", "--archive", "mistyped"],
    ["plan", "mistyped"],
]


def test_a_mistyped_archive_is_refused_before_torch_is_imported_and_no_folder_is_made(tmp_path):
    script = f"""
import sys
from collections import Counter
sys.modules.update(torch=None, transformers=None)
from upsolve.cli.judging import show_outcomes
from upsolve.cli.main import main
for words in {WITH_ARCHIVE}:
    sys.argv = ["upsolve", *words]
    try:
        main()
    except SystemExit as stop:
        print(words[0], stop.code)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [word for words in WITH_ARCHIVE for word in (words[0], "2")], done.stderr
    assert done.stderr.count("mistyped: not an archive") == len(WITH_ARCHIVE) and not [*tmp_path.iterdir()]


def test_an_unusable_folder_recipe_or_archive_is_refused_before_torch_is_imported(tmp_path, archive):
    (tmp_path / "file").touch()
    run = tmp_path / "run"
    for folder, file in ((run, "base.json"), (run / "training", "checkpoint.pt")):
        dump_recipe(load_recipe("rloo", [f"data.archive={archive}"]), folder / "recipe.yaml")
        (folder / file).touch()
    base = ["rloo", "--archive", str(archive)]
    refused = {
        ("run", *base, "--out", "file"): "Not a directory; choose another path",
        ("train", *base, "--out", "file/run"): "Not a directory; choose another path",
        ("run", *base, "--out", "run", "--set", "data.split_seed=5"): "run: holds results of another recipe (data.split_seed",
        ("run", *base, "--out", "run", "--set", "seed=5"): "run/training: holds results of another recipe",
        ("train", *base, "--out", "run/training", "--seed", "5"): "run/training: holds results of another recipe",
        ("train", *base, "--out", "new", "--set", "data.authors=[nobody]"): "data.authors: no attempt of nobody",
    }
    script = f"""
import sys
from collections import Counter
sys.modules.update(torch=None, transformers=None)
from upsolve.cli.judging import show_outcomes
from upsolve.cli.main import main
for words in {[*refused]}:
    sys.argv = ["upsolve", *words]
    try:
        main()
    except SystemExit as stop:
        print(stop.code)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2"] * len(refused), done.stderr
    for line, message in zip(done.stderr.splitlines(), refused.values(), strict=True):
        assert message in line
    assert not (tmp_path / "new").exists()


@pytest.fixture
def here(monkeypatch, capfd):
    """The same in this process, which has imported what models need already."""

    before = signal.getsignal(signal.SIGTERM)

    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["upsolve", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        said = "".join(capfd.readouterr())
        assert (done.value.code or 0) == code, said
        return said

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def archive(here, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, (TASK, RIGHT, WRONG))))
    said = here("ingest", "jsonl", file, tmp_path / "archive")
    assert "1 tasks, 2 attempts" in said
    return tmp_path / "archive"


def test_memory_is_a_table_and_says_what_does_not_fit(here, tiny_model, monkeypatch):
    said = here("memory", "demo", "--model", tiny_model)
    assert all(word in said for word in ("weights", "optimiser", "gradients", "activations", "peak"))
    monkeypatch.setattr("upsolve.policy.machine.available_bytes", lambda: 1000)
    assert "does not fit: needs" in here("memory", "demo", "--model", tiny_model, code=1)


def test_ingest_verify_look_and_export(archive, here, tmp_path):
    assert "2 attempts judged, 0 judged before, 0 left out" in here("verify", archive)
    assert "0 attempts judged, 2 judged before" in here("verify", archive)
    assert "2 attempts judged, 0 judged before" in here("verify", archive, "--analysis", "syntax")
    assert "0 attempts judged, 2 judged before" in here("verify", archive, "--analysis", "syntax")
    assert "verify.analyses.0: Input should be 'complexity'" in here("verify", archive, "--analysis", "style", code=2)
    info = here("archive", "info", archive)
    assert row("mixed tasks", "1", "tasks with a passed and a failed attempt") in plain(info) and "assumptions alone" in info
    assert row("stale", "0", MEANINGS["stale"]) in plain(info)
    assert {*MEANINGS} <= {one.name.replace("_", " ") for one in fields(ArchiveInfo)} | {"stale"}
    said = here("archive", "query", archive, "select status, passed from verdicts order by status")
    assert "failed" in said and "passed" in said
    twice = "select a.code, b.code, 1 as code_1 from attempts a join attempts b using (attempt_id)"
    assert {*json.loads(here("archive", "query", archive, twice, "--json"))["rows"][0]} == {"code", "code_1", "code_2"}
    assert "7 rows" in here("archive", "export", archive, tmp_path / "out.jsonl")  # every verdict of both runs
    how = ["--recipe", "sft", "--set", "data.train=0.98", "--set", "data.dev=0.01", "--form", "plain"]
    assert "1 row of train" in here("archive", "export", archive, tmp_path / "sft", "--as", "sft", *how)
    card = (tmp_path / "sft" / "README.md").read_text()
    assert f"upsolve archive export {archive} {tmp_path / 'sft'} --as sft --recipe sft --set data.train=0.98" in card
    assert "--option form=plain" in card and "human-eval" in plain(here("archive", "export", "--formats"))
    assert "export needs ARCHIVE OUT" in here("archive", "export", code=2)
    assert "no export 'sf'; did you mean sft" in here("archive", "export", archive, "x", "--as", "sf", code=2)
    assert "already" in here("ingest", "jsonl", tmp_path / "in.jsonl", archive)


@pytest.mark.slow
def test_sampling_measuring_and_reporting(tiny_model, archive, tmp_path, here):
    settings = ["--set", "sample.samples=2", "--set", "sample.max_tokens=8"]
    upsolve("sample", "--archive", archive, "--model", tiny_model, *settings)
    assert row("attempts", "4", MEANINGS["attempts"]) in plain(here("archive", "info", archive))
    assert "0 attempts added" in here("sample", "--archive", archive, "--model", tiny_model, *settings)
    assert "1 attempts added" in here(
        "sample", "--archive", archive, "--model", tiny_model, *settings, "--set", "sample.samples=3"
    )
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"evaluate: {{tasks: 2, ks: [1, 2], archives: ['{archive}', embedded:test]}}\n")
    for name in ("one", "two"):
        said = here("eval", recipe, "--model", tiny_model, "--name", name, "--out", tmp_path, *settings)
        assert "pass@2" in said and f"\n{archive}\n" in said and "\nembedded:test\n" in said
    said = here("report", tmp_path / "one.json", tmp_path / "two.json", "--out", tmp_path / "r.html")
    assert "Too few tasks to tell" in said and "Only 2 tasks" in said
    assert "<svg" in (tmp_path / "r.html").read_text() and said.count("Too few tasks to tell") == 3
    assert "<b>embedded:test: Too few tasks" in (tmp_path / "r.html").read_text()
    for folder in (tmp_path, tmp_path / "reports"):
        said = here("report", tmp_path / "one.json", tmp_path / "two.json", "--out", folder)
        assert f"report: {folder / 'report.html'}" in said


def test_runs_are_compared_with_their_controls(here, tmp_path):
    scores = [tuple(TaskScore(f"t{i}", "", 8, c, {"passed": c}) for i in range(40)) for c in (2, 6, 4)]
    for name, trained in (("rloo", scores[1]), ("placebo", scores[2])):
        for file, some in (("base", scores[0]), ("trained", trained)):
            save_evaluation(Evaluation(file, "m", "x:test", 1.0, 1.0, 0, 8, some), tmp_path / name / f"{file}.json")
        dump_recipe(load_recipe(name), tmp_path / name / "recipe.yaml")
    data = json.loads(here("compare", tmp_path / "rloo", tmp_path / "placebo", "--json"))
    assert len(data["runs"]) == 2 and data["worth"][0]["control"] == "placebo"
    said = plain(here("compare", tmp_path / "rloo", tmp_path / "placebo"))
    assert re.search(r"rloo │ placebo │ \+25\.0 \[\+\d\d\.\d, \+\d\d\.\d\] │ 0\.0001", said) and "pass@1 on 40 tasks" in said
    page = tmp_path / "compare.html"
    assert f"report: {page}" in here("compare", tmp_path / "rloo", tmp_path / "placebo", "--out", tmp_path)
    text = page.read_text()
    assert "<h1>2 runs compared</h1>" in text and "<svg" in text and "placebo (control)" in text and "verdicts shuffled" in text
    markdown = here("compare", tmp_path / "placebo", tmp_path / "rloo", "--markdown")
    assert markdown.startswith("## 2 runs compared\n\n**rloo: ") and "| rloo | placebo | +25.0" in markdown
    here("compare", tmp_path / "rloo", tmp_path / "placebo", "-o", tmp_path / "pull.md")
    assert "| rloo | placebo | +25.0" in (tmp_path / "pull.md").read_text()
    assert "so the deviation is unknown; give --rate" in here("power", "--run", tmp_path / "rloo", code=2)
    mixed = tuple(replace(one, passed=2 + 2 * (i % 2)) for i, one in enumerate(scores[0]))
    save_evaluation(Evaluation("trained", "m", "x:test", 1.0, 1.0, 0, 8, mixed), tmp_path / "rloo" / "trained.json")
    # half of 40 changes are 1/4: sd 1/8 * sqrt(40 / 39), so margin(100, 0.1266) + 0.84 * 0.1266 / sqrt(100) = 4.1 + 1.1 points
    assert "show a difference of 5.2 points" in here("power", "--run", tmp_path / "rloo")
    assert "base.json is missing; name the folder of a finished" in here("compare", tmp_path, code=2)


def test_runs_on_different_tasks_are_not_shown_as_if_on_the_same(here, tmp_path):
    for name, tasks, temperature in (("rloo", 40, 1.0), ("sft", 10, 0.0)):
        for file, passed in (("base", tasks // 10), ("trained", 6)):
            scores = tuple(TaskScore(f"t{i}", "", 8, passed, {"passed": passed}) for i in range(tasks))
            save_evaluation(Evaluation(file, "m", "x:test", temperature, 1.0, 0, 8, scores), tmp_path / name / f"{file}.json")
        dump_recipe(load_recipe(name), tmp_path / name / "recipe.yaml")
    said = here("compare", tmp_path / "rloo", tmp_path / "sft", "--markdown")
    assert (
        "pass@1, %, on different tasks, of which all runs share 10" in said
        and "| run | best temperature | greedy | highest" in said
    )
    assert "| base of rloo, 40 tasks | 50.0 (T 1) | – | 50.0 (T 1) |" in said
    assert "| base of sft, 10 tasks | 12.5 (greedy) | 12.5 | 12.5 (greedy) |" in said


def test_a_run_is_reported_from_its_folder(here, tmp_path):
    scores = [tuple(TaskScore(f"t{i}", "", 8, c, {"passed": c}) for i in range(40)) for c in (2, 6)]
    for file, some in zip(("base", "trained"), scores, strict=True):
        save_evaluation(Evaluation(file, "m", "x:test", 1.0, 1.0, 0, 8, some), tmp_path / "run" / f"{file}.json")
    dump_recipe(load_recipe("rloo"), tmp_path / "run" / "recipe.yaml")
    said = here("report", tmp_path / "run", "--markdown")
    assert said.startswith("## rloo: before and after training\n\n**") and "<summary>Recipe</summary>" in said
    assert not (tmp_path / "run" / "report.html").exists(), "it is printed"
    assert f"report: {tmp_path / 'run' / 'report.html'}" in here("report", tmp_path / "run")
    for words in (["--markdown"], []):  # a file that ends with .md is Markdown
        assert f"report: {tmp_path / 'r.md'}" in here("report", tmp_path / "run", *words, "--out", tmp_path / "r.md")
        assert (tmp_path / "r.md").read_text() == said
        (tmp_path / "r.md").unlink()
    for command, folders in (("report", ["run"]), ("compare", ["run"])):  # JSON is printed, and --out written all the same
        words = [*(tmp_path / folder for folder in folders), "--json"]
        json.loads(here(command, *words, "--out", tmp_path / "r.html"))
        assert "<html" in (tmp_path / "r.html").read_text()
        (tmp_path / "r.html").unlink()
        assert "--json and --markdown both print" in here(command, *words, "--markdown", code=2)
    (tmp_path / "run" / "training").mkdir()
    (tmp_path / "run" / "trained.json").unlink()
    said = here("report", tmp_path / "run", code=2)
    assert "trained.json is missing" in said and f"`upsolve view {tmp_path / 'run'}` shows its training" in said
    assert "`upsolve compare` compares several runs" in here("report", tmp_path / "run", tmp_path / "run", code=2)


WITHOUT_TORCH = """
import sys
from collections import Counter
sys.modules.update(torch=None, transformers=None)
from upsolve.cli.judging import show_outcomes
from upsolve.cli.main import main
main()
"""


@pytest.mark.parametrize(
    "command",
    ["report", *(pytest.param(one, marks=pytest.mark.slow) for one in ("compare", "power --run", "view --static page.html"))],
)
def test_runs_are_looked_at_without_torch(tmp_path, archive, command):
    run = tmp_path / "run"
    for file, passed in (("base", 2), ("trained", 6)):
        scores = tuple(TaskScore(f"t{i}", "", 8, passed + i % 2 * (passed // 6), {"passed": passed}) for i in range(40))
        save_evaluation(Evaluation(file, "m", "x:test", 1.0, 1.0, 0, 8, scores), run / f"{file}.json")
    for folder in (run, run / "training"):
        dump_recipe(load_recipe("rloo", [f"data.archive={archive}"]), folder / "recipe.yaml")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *command.split(), run], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert command[:4] != "view" or "heat maps are missing: torch is not installed" in said


def test_power_says_how_many_tasks_a_difference_needs(here):
    said = here("power", "--tasks", 104, "--rate", 0.298)
    # sd = sqrt(2 * 0.298 * 0.702 * 0.35) = 0.383; interval by t over tasks and three more at the bounds, and 0.84 sd / sqrt(104)
    assert (
        said.startswith("104 tasks, one greedy answer each, show a difference of 11.1 points")
        and "   5 points need    472 tasks" in said
    )
    assert "--rate, --correlation: the pass rate must be in (0, 1)" in here("power", "--rate", 1, code=2)


def test_a_temperature_that_evaluations_do_not_read_is_refused(here):
    assert "set evaluate.temperatures=[0.2]" in here("eval", "--set", "sample.temperature=0.2", code=2)


def test_recipes_with_such_a_temperature_warn_and_no_shipped_recipe_has_one(tmp_path, capsys):
    (tmp_path / "r.yaml").write_text("sample: {temperature: 0.2}\nevaluate: {temperatures: [0, 1]}\n")
    load_evaluated(str(tmp_path / "r.yaml"), [])
    assert "evaluations ignore sample.temperature and use evaluate.temperatures: 0, 1" in capsys.readouterr().err
    for name in recipe_names():
        load_evaluated(name, [])
    assert not capsys.readouterr().err


def test_errors_are_one_message_and_no_traceback(here, tmp_path):
    for start, words in (
        (upsolve, ["archive", "info", tmp_path / "none"]),
        (here, ["train", tmp_path / "none.yaml"]),
        (here, ["ingest", "mbpp", tmp_path / "none.jsonl", tmp_path / "archive"]),
        (here, ["report", tmp_path / "none.json"]),
    ):
        said = start(*words, code=2)
        assert said.strip().startswith("upsolve: ") and "Traceback" not in said and "none" in said


def test_the_program_has_one_name_however_it_is_started():
    """Messages and shell completion name it; these commands start it as ``python -m upsolve``."""
    assert (
        upsolve("trian", code=2)
        == "upsolve: No such command 'trian'. Did you mean 'train'? `upsolve -h` lists arguments and options\n"
    )


def test_verify_wants_an_archive_or_serve(here):
    assert "an archive to judge or --serve" in here("verify", code=2)


def clear_library_settings(monkeypatch):
    """Remove what PyTorch's libraries read, until the test ends."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        monkeypatch.setenv(name, "")  # restored after the test even if it was not set
        monkeypatch.delenv(name)


@pytest.mark.parametrize("given", ["", "1024"])
def test_onednn_caches_few_programs_by_default(given, monkeypatch):
    clear_library_settings(monkeypatch)
    if given:
        monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", given)
    monkeypatch.setattr(sys, "argv", ["upsolve", "version"])
    with pytest.raises(SystemExit):
        main()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == (given or "128")


@pytest.mark.parametrize(
    ("given", "count"), [({}, "100000"), ({"OMP_WAIT_POLICY": "active"}, None), ({"GOMP_SPINCOUNT": "7"}, "7")]
)
def test_idle_threads_of_torch_sleep(given, count, monkeypatch):
    """Threads that spin take the cores from other processes; settings of the user take precedence."""
    clear_library_settings(monkeypatch)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["upsolve", "version"])
    with pytest.raises(SystemExit):
        main()
    assert os.environ.get("GOMP_SPINCOUNT") == count


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("upsolve archive co", ["copy", "compact"]),
        ("upsolve train rloo_", ["rloo_online"]),
        ("upsolve train rloo --set monitor.keep", ["monitor.keep_checkpoints=", "monitor.keep="]),
        ("upsolve explain objective.va", ["objective.value", "objective.value.coefficient"]),
        ("upsolve ingest op", ["opencodeinstruct", "openrlhf"]),
        pytest.param("upsolve archive export embedded out --as gr", ["groups"], marks=pytest.mark.slow),
    ],
)
def test_the_shell_completes_names_and_keys(typed, completed, here, monkeypatch):
    words = {"_UPSOLVE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    said = (upsolve if "--set" in typed else here)().split()
    assert not {*completed} - {*said}, said
    assert all(name.startswith(typed.split()[-1]) for name in said), "and nothing else, such as a warning"


def test_help_names_the_commands(here):
    names = (
        "ingest",
        "verify",
        "train",
        "sample",
        "eval",
        "report",
        "run",
        "doctor",
        "recipes",
        "explain",
        "--install-completion",
    )
    for option in ("-h", "--help"):
        said = here(option)
        assert all(name in said for name in names)
    assert here("--version").strip() == __version__ == here("version").strip()
    assert "Print statistics of an archive" in here("archive", "info", "-h")


def test_recipes_are_listed_and_keys_explained(here):
    lines = [line for line in here("recipes").splitlines() if line.startswith("  ")]
    assert len(lines) == len([*RECIPES.rglob("*.yaml")])
    assert next(line for line in lines if line.startswith("  dr_grpo")).split()[1:4] == ["Dr.", "GRPO:", "GRPO"]
    assert all(len(line.split()) > 3 for line in lines)
    said = here("explain", "optim.lr")
    assert "default: 1.0e-05" in said and "(`objective.value.lr`)" in said and "``" not in said
    assert "optim.lr" in here("explain", "optim.learning_rate", code=2)


def test_options_of_models_are_the_same_everywhere(tmp_path):
    loaded = load("rloo", ["optim.lr=1"], model="m", archive="a", seed=7)
    assert (loaded.model.name, loaded.data.archive, loaded.optim.lr) == ("m", "a", 1.0)
    rollout = loaded.source.rollout
    assert (loaded.seed, loaded.data.seed, loaded.sample.seed, rollout.seed) == (7, 7, 7, 7)
    assert (rollout.temperature, rollout.top_p) == (1.0, 1.0), "a seed changes nothing else"
    with pytest.raises(ConfigError, match="--archive"):
        load(str(tmp_path), [])


def test_embedded_is_not_sampled_into(here):
    assert "`embedded` is read-only" in here("sample", code=2)


def test_evaluations_of_different_tasks_are_refused(here, tmp_path):
    for name, task in (("one", "a"), ("two", "b")):
        scores = (TaskScore(task, "", 1, 0, {"failed": 1}),)
        save_evaluation(Evaluation(name, "m", "x:test", 1.0, 1.0, 0, 8, scores), tmp_path / f"{name}.json")
    said = here("report", tmp_path / "one.json", tmp_path / "two.json", "--out", tmp_path / "r.html", code=2)
    assert (
        all(part in said for part in ("one and two", "different tasks", "a, b", "evaluate both"))
        and not (tmp_path / "r.html").exists()
    )


def test_a_full_disk_is_one_message_and_leaves_no_temporary_file(here, tmp_path, monkeypatch):
    save_evaluation(
        Evaluation("one", "m", "x:test", 1.0, 1.0, 0, 8, (TaskScore("a", "", 1, 0, {"failed": 1}),)), tmp_path / "e.json"
    )

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert "upsolve: cannot write: No space left on device" in here(
        "report", tmp_path / "e.json", "--out", tmp_path / "r.html", code=2
    )
    assert [file.name for file in tmp_path.iterdir()] == ["e.json"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_keeps_the_verdicts_there_are(tmp_path, number):
    rows = [{**RIGHT, "code": f"import time\ntime.sleep(0.1)\ndef f(x):\n    return 2 * x + {i} - {i}"} for i in range(60)]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, (TASK, *rows))))
    upsolve("ingest", "jsonl", tmp_path / "in.jsonl", tmp_path / "archive")
    command = [sys.executable, "-m", "upsolve", "verify", str(tmp_path / "archive"), "--no-cache", "--workers", "1"]
    heard = partial(signal.signal, number, signal.SIG_DFL)  # a shell lets what it starts in the background ignore SIGINT
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=heard, **pipes) as process:  # noqa: PLW1509  this process has no other threads
        assert " of 60, " in process.stderr.readline()
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 130 and "the same command resumes" in said and "Traceback" not in said
    kept = len(open_archive(tmp_path / "archive").verdicts())
    assert 0 < kept < 60
    assert f"{kept} judged before" in upsolve("verify", tmp_path / "archive")


def test_an_interrupt_says_how_far_the_run_is(here, monkeypatch):
    def stop(_recipe, _groups, **_options):
        raise KeyboardInterrupt("stopped after step 3; run the same command to resume")

    monkeypatch.setattr("upsolve.train.run.memory.memory_of", stop)
    assert here("memory", "rloo", code=130) == "upsolve: stopped after step 3; run the same command to resume\n"


@pytest.mark.parametrize(
    ("words", "resumes"),
    [
        ("plan a --no-model", False),
        ("archive doctor a", False),
        ("solve tasks.jsonl --model m", False),
        ("solve tasks.jsonl --model m --out=a.jsonl", True),
        ("archive score a --likelihood m", True),
        ("ingest log.csv a", True),
        ("verify a", True),
        ("tests grow a b", True),
        ("tests grade a", False),
    ],
)
def test_only_commands_that_resume_say_so_when_they_are_stopped(monkeypatch, words, resumes):
    monkeypatch.setattr("sys.argv", ["upsolve", *words.split()])
    assert ("resumes it" in stop_message(KeyboardInterrupt())) == resumes


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal():
    said, now = [], [0.0]
    report = line_reporter(said.append, lambda: now[0])
    for done in range(1, 101):
        report("sample", done, 100)
        now[0] += 1.0
    report("train: entropy 0.80", 1, 2)
    report("train: entropy 0.70", 2, 2)
    report("checks: secrets", 0, 14)
    now[0] += 9.0
    report("checks: sanity", 13, 14)
    assert said == [
        "sample: 3 of 100, 2 s, about 97 s left",
        "sample: 33 of 100, 32 s, about 67 s left",
        "sample: 63 of 100, 62 s, about 37 s left",
        "sample: 93 of 100, 92 s, about 7 s left",
        "sample: 100 of 100, 99 s",
        "train: entropy 0.70: 2 of 2, 0 s",
        "checks: sanity: 13 of 14, 9 s",
    ]


def test_the_doctor_tries_an_attack_of_each_group(here):
    said = here("doctor", "--quick")
    assert [line for line in said.splitlines() if line in ("layers", "fake pass", "escape", "exhaust", "interfere")] == [
        "layers",
        "fake pass",
        "escape",
        "exhaust",
        "interfere",
    ]
    assert "ok  pidns" in said and "answers_in_advance/call" in said and "20 checks, 0 failed" in said


def test_unscored_attempts_of_a_faulty_task_have_the_remedy_of_the_task(capsys):
    """A field of a task that the judge cannot use is no fault of the sandbox."""
    reason = "task q: compare must be rows or rows_in_order for a query, got exact"
    show_outcomes(Counter(unscored=5), Counter({reason: 3, "task r has no tests": 1, "task s has no tests": 1}))
    printed = " ".join(capsys.readouterr().out.split())
    assert "│ the task has no tests" in printed and "recorded outcomes" in printed and "task r has" not in printed
    assert "3 attempts are at tasks that cannot be judged" in printed and "2 attempts are at tasks without tests" in printed
    assert "upsolve doctor" not in printed
    show_outcomes(Counter(unscored=1), Counter({"task r: unknown language 'awk'; known: c": 1}))
    assert "folder of your own language in UPSOLVE_LANGUAGES and rerun" in capsys.readouterr().out.replace("\n", " ")
    show_outcomes(Counter(unscored=1), Counter({"the sandbox did not start": 1}))
    assert "run `upsolve doctor`" in capsys.readouterr().out
