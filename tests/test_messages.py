"""What the command line says about mistakes: one to three lines that name the file or key, and what to do; never a traceback."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from upsolve.archive.places import EMBEDDED
from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.config.recipe import dump_recipe, load_recipe
from upsolve.errors import ConfigError, one_line, several
from upsolve.evaluate.runs import save_evaluation
from upsolve.evaluate.scores import Evaluation, TaskScore
from upsolve.importers.ingest import ingest
from upsolve.types import Status, Verdict
from upsolve.verify.doctor import layers
from upsolve.verify.limits import JudgeSettings

PROGRESS = re.compile(r".*: [\d,]+ of [\d,]+, \d+ s$")
"""A line of progress, which is not part of a message."""
TESTS = [{"kind": "call", "input": "f(2)", "expected": "4"}]
ROWS = (
    {"kind": "task", "task_id": "a", "prompt": "double", "entry_point": "f", "tests": TESTS},
    {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return 2 * x"},
    {"kind": "attempt", "task_id": "a", "code": "def f(x):\n    return x"},
)
FILES = {
    "text.txt": "hello\n",
    "broken.jsonl": '{"kind": "task"\n{nothing}\n',
    "rows.jsonl": "\n".join(map(json.dumps, ROWS)),
    "rows.csv": "question,program,outcome\nDouble x.,def f(x): return 2*x,passed\n",
    "quote.csv": 'prompt,code,status\n"Double x,def f(x): return 2*x,passed\n',
    "long.csv": "prompt,code\nDouble x, and y,def f(x): return 2*x,passed\n",
    "no_table.parquet": "PAR1 is not enough PAR1",
    "map.yaml": "columns: {prompt: questoin, code: program}\n",
    "field.yaml": "columns: {promt: question}\n",
    "status.yaml": "columns: {prompt: question, code: program, status: outcome}\nstatuses: {passed: good}\n",
    "broken.yaml": "optim: {lr: 1\n",
    "list.yaml": "- a\n",
    "many.yaml": "optim: {a: 1, b: 2, c: 3, d: 4}",
    "lr.yaml": "optim: {learning_rate: 1}",
    "own/mine.yaml": "{}",
    "stage.yaml": "optimizer: {lr: 1}",
    "base.yaml": "base: rlooo",
    "self.yaml": "base: self.yaml",
    "language.yaml": "name: cobol\nfile: a.cob\n",
    "damaged/archive.json": "{",
    "future/archive.json": '{"schema": 99}',
    "modelless/config.json": "{}",
    "list.json": "[]",
    "empty.json": "{}",
    "text.json": "no",
    "token": "",
    "full/file": "",
    "started/checkpoint.pt": "",
}


@dataclass(frozen=True)
class Mistake:
    """A command that is wrong, and words that its message must have: what is wrong, and what to do."""

    line: str
    words: tuple[str, ...]


def mistake(line, *words):
    return pytest.param(Mistake(line, words), id=line)


WORDS = [
    mistake("trian rloo", "trian", "did you mean 'train'"),
    mistake("train", "recipe", "upsolve train -h"),
    mistake("archive doctor unjudged --fix", "--fix", "requires an argument", "upsolve archive doctor -h"),
    mistake("archive info", "archive", "upsolve archive info -h"),
    mistake("train rloo --nothing", "--nothing", "upsolve train -h"),
    mistake("train rloo --seed x", "--seed", "integer"),
    mistake("ingest", "source path archive", "upsolve ingest -h"),
    mistake("ingest jsonl rows.jsonl new --executor slurm", "--executor", "'local', 'ray'"),
    mistake("ingest jsonl rows.jsonl new loose", "loose", "upsolve ingest -h"),
    mistake("ingest jsonl rows.jsonl new --name", "--name", "needs a value"),
    mistake("sample --archive unjudged --hint 2", "--hint", "0.99"),
    mistake("power --tasks 0", "--tasks", "greater than or equal to 1"),
    mistake("power --rate 2", "--rate", "(0, 1)"),
    mistake("plan embedded --no-model --judged -3", "--judged", "greater than or equal to 0"),
    mistake("verify --serve --port 99999", "--port", "65535"),
    mistake("view unjudged --port 99999", "--port", "65535"),
    mistake("verify", "--serve", "archive", "neither is given"),
    mistake("verify unjudged --serve", "--serve", "not both"),
    mistake("archive export unjudged", "archive out", "upsolve archive export -h"),
    mistake("doctor --quick --isolation none", "isolation", "required, best_effort, gvisor"),
    mistake("doctor --quick --executor slurm", "executor", "local or ray"),
    mistake("archive query unjudged ''", "sql", "select"),
]
RECIPES = [
    mistake("train none.yaml", "none.yaml", "no such recipe; name a file, or a recipe that `upsolve recipes` lists"),
    mistake("train own/mine.yml", "own/mine.yml", "did you mean own/mine.yaml?"),
    mistake("train own/mien", "own/mien", "did you mean own/mine.yaml?"),
    mistake("train rlooo", "rlooo", "did you mean rloo"),
    mistake("train folder", "folder", "--archive folder"),
    mistake("train lr.yaml", "lr.yaml", "did you mean optim.lr?"),
    mistake("train stage.yaml", "stage.yaml: optimizer", "did you mean optim?"),
    mistake("train many.yaml", "many.yaml: optim.a", "and 2 more"),
    mistake("train base.yaml", "base.yaml", "base: rlooo", "did you mean rloo"),
    mistake("train self.yaml", "self.yaml", "base", "not based on this one"),
    mistake("train broken.yaml", "broken.yaml", "line 2, column 1", "expected ',' or '}'"),
    mistake("train list.yaml", "list.yaml", "mapping of stages, not a list"),
    mistake("train binary", "binary", "cannot be read", "utf-8"),
    mistake("train rloo -s optim.lr", "optim.lr", "stage.key=value"),
    mistake("train rloo -s optim.lr=fast", "optim.lr", "valid number", "'fast'"),
    mistake("train rloo -s optim.lr=-1", "optim.lr", "greater than 0", "-1"),
    mistake("train rloo -s optim=3", "optim", "mapping of keys"),
    mistake("train rloo -s optim.lr.x=3", "optim.lr.x", "leave out what follows"),
    mistake("train rloo -s 'optim.lr=['", "optim.lr", "line 1"),
    mistake("train rloo -s lr=3", "lr", "did you mean optim.lr?"),
    mistake("train -s objective.kind=ppoo rloo", "objective.kind", "known", "ppo_clip"),
    mistake("train -s objective.kind=mine:LOSS rloo", "mine", "must be in this folder or installed"),
    mistake("train -s objective.kind=json:dumps rloo", "json:dumps", "upsolve.objective.table:objective"),
    mistake("train -s objective.options.beta=1 rloo", "objective", "beta", "it has none"),
    mistake("train -s advantage.kind=rlooo rloo", "advantage.kind", "leave_one_out"),
    mistake("train -s reward.weights.passd=1 rloo", "reward.weights.passd", "known"),
    mistake("train -s sample.engine=vlm rloo", "sample.engine", "did you mean vllm"),
    mistake("train -s advantage.kind=gae rloo", "advantage.kind gae", "set source.rounds"),
    mistake("train -s data.train=0.9 -s data.dev=0.2 rloo", "data", "below 1"),
    mistake("train rloo --seed -1", "--seed", "`upsolve train -h` lists arguments"),
    mistake("eval --name ../other --archive embedded", "--name '../other'", "without a slash"),
    mistake("train -s monitor.heldout=0 -s monitor.keep=best rloo", "monitor.keep", "set monitor.heldout"),
    mistake("eval -s evaluate.temperatures=[-1]", "evaluate.temperatures.0", "greater than or equal to 0"),
    mistake("eval -s evaluate.temperatures=[]", "temperatures", "such as [0]"),
    mistake("eval -s evaluate.ks=[]", "evaluate.ks", "at least 1 item"),
    mistake("eval -s sample.temperature=0.2", "sample.temperature", "set evaluate.temperatures"),
    mistake("eval -s evaluate.archives=[humaneval:test]", "humaneval", "evaluate.benchmarks={humaneval: path}"),
    mistake("eval -s evaluate.archives=[none:test]", "none", "benchmarks with known files"),
    mistake("verify unjudged --isolation none", "verify.isolation", "'required'"),
    mistake("verify unjudged --analysis style", "verify.analyses.0", "'lint'"),
    mistake("verify unjudged --repeats 0", "verify.repeats", "greater than or equal to 1"),
    mistake("explain optim.learning_rate", "optim.learning_rate", "did you mean optim.lr?"),
]
ARCHIVES = [
    mistake("archive info none", "none", "upsolve ingest"),
    mistake("archive info folder", "folder: not an archive", "upsolve ingest"),
    mistake("archive info text.txt", "text.txt: a file, not an archive", "upsolve ingest source text.txt archive"),
    mistake("ingest text.txt new", "text.txt", "is text", "convert it, or read it by a map"),
    mistake("archive info damaged", "damaged/archive.json", "damaged"),
    mistake("archive info future", "future/archive.json", "schema version 99", "upgrade"),
    mistake("init empty", "empty", "no tasks", "upsolve ingest"),
    mistake("view empty", "empty", "no tasks", "upsolve ingest"),
    mistake("sample --archive empty --model none", "empty", "no tasks", "upsolve ingest"),
    mistake("plan empty --no-model", "empty", "no tasks", "upsolve ingest"),
    mistake("eval --archive empty", "empty", "no tasks", "upsolve ingest"),
    mistake("init unjudged --out text.txt", "text.txt", "--force"),
    mistake("verify embedded", "embedded", "upsolve archive copy embedded"),
    mistake("archive compact embedded", "embedded", "upsolve archive copy embedded"),
    mistake("sample", "embedded", "--archive folder"),
    mistake("archive query unjudged 'select * frm tasks'", "query", "line 1", "syntax error"),
    mistake("archive query unjudged 'select prmpt from tasks'", "prmpt", "candidate bindings", "prompt"),
    mistake("archive query unjudged 'select 1 as a; select 2'", "query", "cannot be shown", "run it alone: select 1 as a;"),
    mistake("archive query unjudged 'select * from task'", "task", "did you mean"),
    mistake("archive copy unjudged full", "full", "not empty", "new folder"),
    mistake("archive copy unjudged text.txt", "text.txt", "choose another path"),
    mistake("archive fill-expected unjudged full", "full", "new folder"),
    mistake("archive export unjudged new --as jsnol", "jsnol", "did you mean jsonl"),
    mistake("archive export unjudged full --as groups", "full", "new folder"),
    mistake("archive export unjudged new --as groups", "new", "2 attempts: not judged"),
    mistake("archive export unjudged new --as sft --split tran", "--split tran", "train, dev, test"),
    mistake("archive export unjudged new --as sft --nothing 1", "nothing", "its options are"),
    mistake("archive doctor", "archive", "upsolve archive doctor -h"),
    mistake("archive doctor unjudged --check nothing", "--check nothing", "known"),
    mistake("archive doctor unjudged --set secrets.nothing=1", "secrets.nothing", "its options"),
    mistake("archive doctor unjudged --fix full", "full", "new one"),
    mistake("archive doctor unjudged --against none", "--against none", "name an archive"),
    mistake("tests grade empty", "empty", "no tasks", "upsolve ingest"),
    mistake("derive repair empty new", "empty", "no tasks", "upsolve ingest"),
    mistake("derive repiar unjudged new", "repiar", "did you mean repair"),
    mistake("derive repair unjudged full", "full", "not empty", "new folder"),
    mistake("derive repair unjudged new --mots 1", "mots", "did you mean most"),
    mistake("derive", "kind archive out", "--kinds"),
    mistake("derive faster unjudged new --ratio 0.5", "option ratio: must be at least 1, got 0.5"),
    mistake("derive repair unjudged new --set optim.lr=1", "--set optim.lr=1: has no effect", "reads verify", "leave it out"),
    mistake("tests grow unjudged new --set sample.samples=3", "--set sample.samples=3: has no effect", "reads verify"),
    mistake("tests grade unjudged --judge nobody", "--judge nobody", "no verdict", "its judges: none"),
    mistake("verify unjudged --set data.authors=[a]", "--set data.authors=[a]: has no effect", "reads verify"),
    mistake(
        "eval --archive unjudged --set optim.lr=1",
        "--set optim.lr=1: has no effect",
        "reads data, evaluate, model, sample, verify",
    ),
    mistake(
        "sample --archive unjudged --set data.authors=[a]",
        "--set data.authors=[a]: has no effect",
        "reads model, sample, data.archive",
    ),
    mistake("sample --archive unjudged --repair --set sample.samples=2", "sample.samples has no effect with --repair"),
    mistake("solve rows.jsonl --set data.seed=1", "--set data.seed=1: has no effect", "reads model, sample, verify"),
    mistake("solve rows.jsonl --choose ,", "--choose: the list is empty"),
    mistake("solve rows.jsonl --choose tests,tests", "--choose: tests is named twice"),
    mistake("solve rows.jsonl --budget ,", "--budget ,", "tokens=n"),
    mistake("solve none", "none: no such archive, file or folder", "humaneval:none"),
    mistake("solve rows.jsonl --choose score --score none", "none: not found"),
    mistake("solve rows.jsonl --choose score --score likelihood:./none", "model ./none: no such folder"),
    mistake("solve - --language sql --database none.db", "--database none.db: no such file"),
    mistake("solve - --tests none.jsonl", "--tests none.jsonl: cannot be read: no such file or directory"),
    mistake("solve rows.jsonl --budget tokens=0.5", "--budget tokens=0.5", "tokens=2000"),
    mistake("solve rows.jsonl --budget seconds=1,seconds=2", "--budget seconds=2", "seconds=n"),
    mistake("solve rows.jsonl --choose score --score '\"'", "score command", "no closing quotation"),
    mistake("archive score unjudged --command '\"'", "score command", "no closing quotation"),
    mistake("solve - --language klingon", "--language: unknown language 'klingon'", "known: ada"),
    mistake("solve - --language sql --schema text.txt", "--schema text.txt: holds no create table statement"),
    mistake("solve - --tests full/file", "--tests full/file: holds no test"),
    mistake("tests shrink unjudged full", "full", "not empty", "new folder"),
    mistake("tests grow unjudged full", "full", "not empty", "new folder"),
    mistake("plan embedded --no-model --against text.txt", "--against text.txt", "line 1"),
]
IMPORTS = [
    mistake("ingest jsnol rows.jsonl new", "jsnol", "did you mean jsonl"),
    mistake("ingest jsonl none.jsonl new", "none.jsonl", "no such file or folder"),
    mistake("ingest jsonl folder new", "folder", "no file *.jsonl"),
    mistake("ingest jsonl broken.jsonl new", "broken.jsonl, line 1", "fix the file", "nothing was stored", "new/rejected"),
    mistake("ingest jsonl binary new", "binary, line 1", "fix the file"),
    mistake("ingest mbpp rows.jsonl new", "rows.jsonl, line 1", "'test_list'", "--sources"),
    mistake("ingest jsonl rows.jsonl embedded", "embedded", "copy"),
    mistake("ingest jsonl rows.jsonl text.txt", "text.txt", "choose another path"),
    mistake("ingest table rows.csv new", "rows.csv", "--prompt column", "question, program, outcome"),
    mistake("ingest table rows.csv new --prompt questoin", "rows.csv", "prompt=questoin", "question, program, outcome"),
    mistake("ingest table rows.csv new --map map.yaml", "map.yaml", "prompt=questoin", "question, program, outcome"),
    mistake("ingest table rows.csv new --map field.yaml", "field.yaml", "promt", "columns can be"),
    mistake("ingest table rows.csv new --map status.yaml", "status.yaml", "statuses", "known statuses are"),
    mistake("ingest table rows.csv new --map list.yaml", "list.yaml", "`columns`"),
    mistake("ingest table rows.csv new --map broken.yaml", "broken.yaml", "line 2, column 1"),
    mistake("ingest table rows.csv new --map none.yaml", "none.yaml", "no such file"),
    mistake(
        "ingest table quote.csv new", "quote.csv", "begins in line 2", "begins with a quote must end with one", "--quotes none"
    ),
    mistake("ingest table long.csv new", "long.csv, line 2", "4 cells, and the header has 2", "comma"),
    mistake("ingest table no_table.parquet new", "no_table.parquet", "parquet"),
    mistake("ingest codenet folder new", "folder", "metadata/problem_list.csv"),
    mistake("ingest git folder new", "folder", "not a git repository"),
    mistake("ingest mine.py:SOURCE rows.jsonl new", "mine", "must be in this folder or installed"),
    mistake("view none", "none", "name an archive, the folder of a run, or a log"),
    mistake("view text.txt", "text.txt", "--source"),
    mistake("ingest tabel --sources", "'tabel'", "did you mean table"),
    mistake("ingest csv data.csv new", "'csv'", "upsolve ingest table"),
    mistake("view rows.jsonl --source jsnol", "--source jsnol", "upsolve ingest --sources"),
    mistake("view unjudged --static page.txt", "page.txt", ".html"),
    mistake("view unjudged --logps", "--logps", "leave it out"),
    mistake("view unjudged --port {port} --no-browser", "{port}", "choose another"),
    mistake("verify --serve --port {port}", "{port}", "choose another"),
    mistake("verify --serve --host 0.0.0.0", "0.0.0.0", "--token-file"),
    mistake("verify --serve --token-file none", "none", "no such file"),
    mistake("verify --serve --token-file token", "token", "create a token"),
]
RESULTS = [
    mistake("report", "evaluations", "upsolve report -h"),
    mistake("report none.json", "none.json", "upsolve eval"),
    mistake("report empty.json", "empty.json", "upsolve eval"),
    mistake("report list.json", "list.json", "upsolve eval"),
    mistake("report text.json", "text.json", "upsolve eval"),
    mistake("report folder", "folder", "upsolve run"),
    mistake("report one/base.json two/base.json", "different tasks"),
    mistake("report one --out page.pdf", "page.pdf", ".html"),
    mistake("compare none", "none", "upsolve run"),
    mistake("compare one folder", "folder", "base.json is missing", "upsolve run"),
    mistake("compare one two", "one", "two", "share no task", "the same tasks"),
    mistake("power --run folder", "folder", "upsolve run"),
    mistake("push folder me/model", "folder", "not a run, a model"),
    mistake("push unjudged model", "model", "owner/name"),
]
MODELS = [
    mistake("run rloo --folds 1", "--folds", "at least 2"),
    mistake("train rloo --archive unjudged", "2 attempts", "upsolve verify"),
    mistake("run rloo --archive empty --out new", "empty", "no tasks"),
    mistake("train rloo --model none/such", "none/such", "no such folder"),
    mistake("train rloo --model folder", "folder", "config.json"),
    mistake("train rloo --model modelless", "modelless", "tokenizer"),
    mistake("train rloo --model none.gguf", "none.gguf", "no such file"),
    mistake("train rloo --out text.txt", "text.txt", "choose another path"),
    mistake("train rloo --out started", "started", "optim.lr", "--fresh"),
    mistake("memory rloo --model none", "none", "no such folder"),
    mistake("export modelless exported", "modelless", "model_type"),
]


@pytest.fixture(scope="module")
def port():
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with everything that the mistakes are made on."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(b"name: \xff\xfe")
    ingest(Archive.create(folder / "unjudged"), "jsonl", folder / "rows.jsonl")
    Archive.create(folder / "empty")
    for run in ("one", "two"):
        scores = (TaskScore(f"{run} alone", "", 1, 0, {"failed": 1}),)
        for part in ("base", "trained"):
            save_evaluation(Evaluation(part, "m", "x:test", 1.0, 1.0, 0, 8, scores), folder / run / f"{part}.json")
        dump_recipe(load_recipe("rloo"), folder / run / "recipe.yaml")
    dump_recipe(load_recipe("rloo", ["optim.lr=1.0e-3"]), folder / "started" / "recipe.yaml")
    return folder


@pytest.fixture
def said(place, port, monkeypatch, capfd):
    """Run a command of one line; return its message without progress, and the exit code."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.chdir(place)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("UPSOLVE_BENCHMARKS", raising=False)

    def run(line):
        monkeypatch.setattr(sys, "argv", ["upsolve", *shlex.split(line.replace("{port}", str(port)))])
        with pytest.raises(SystemExit) as stop:
            main()
        text = "".join(capfd.readouterr())
        return "\n".join(row for row in text.splitlines() if row and not PROGRESS.match(row)), stop.value.code

    yield run
    signal.signal(signal.SIGTERM, before)


def test_a_missing_model_is_refused_before_torch_is_imported(place):
    code = (
        "import sys; from upsolve.cli.main import main; sys.argv = ['upsolve', *sys.argv[1:]]\n"
        "try: main()\nexcept SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    )
    words = ("--archive", "embedded", "--model", "none/such", "--out", "new")
    for command in (["run", "rloo"], ["train", "rloo"], ["eval"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *command, *words],
            cwd=place,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == ["2", "False"] and "none/such" in done.stderr, done.stderr


def test_eval_and_sample_begin_with_the_work_ahead(said, monkeypatch, tiny_model):
    from upsolve.evaluate import benchmarks
    from upsolve.policy import collect

    def stop(*_arguments, **_options):
        raise ConfigError("stopped")

    monkeypatch.setattr(benchmarks, "sweep_model", stop)
    monkeypatch.setattr(collect, "sample_attempts", stop)
    tasks = {
        "eval --archive embedded -s sample.samples=3": "of embedded:test, 3 samples a task",
        "sample --archive unjudged -s sample.samples=1": "of unjudged, 1 sample a task",
    }
    for line, words in tasks.items():
        first, last = said(f"{line} --model {tiny_model}")[0].splitlines()
        assert first.startswith(f"{tiny_model}: ") and words in first and "stopped" in last


@pytest.mark.parametrize("mistake", [*WORDS, *RECIPES, *ARCHIVES, *IMPORTS, *RESULTS, *MODELS])
def test_a_mistake_is_named_with_its_fix_in_three_lines(mistake, said, port):
    message, code = said(mistake.line)
    assert code in (1, 2), message
    reasons = sum(line.startswith("  ") for line in message.splitlines())  # of an import: up to three rows, one a line
    assert "Traceback" not in message and 1 <= len(message.splitlines()) - max(0, reasons - 1) <= 3, message
    missing = [word for word in mistake.words if word.replace("{port}", str(port)) not in message.lower()]
    assert not missing, message


def test_a_refusal_leaves_nothing_in_an_archive_of_the_package(said):
    files = sorted(EMBEDDED.rglob("*"))
    said("archive compact embedded")
    assert sorted(EMBEDDED.rglob("*")) == files


def test_the_doctor_names_missing_layers_not_what_attempts_see_without_them(monkeypatch):
    """In a container without its own namespaces: not reproducible here, where they are available."""
    seen = Verdict("a", Status.RUNTIME_ERROR, isolation="no_new_privs,rlimits,seccomp", error_message="found ['x']")
    monkeypatch.setattr("upsolve.verify.doctor.verify", lambda *_: [seen])
    found = {check.name: check for check in layers(JudgeSettings(workers=1))}
    assert "sandbox" not in found and not found["pidns"].ok and "docs/install.md" in found["pidns"].detail
    assert found["seccomp"].ok


def test_a_missing_extra_is_named(said, monkeypatch):
    monkeypatch.delitem(sys.modules, "upsolve.report.html", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as where it is not installed
    message, code = said("report one/base.json")
    assert code == 2 and message.endswith("it comes with the extra `report`: pip install 'upsolve[report]'")
    assert said("report one/base.json --markdown")[1] == 0


def test_problems_are_folded_into_three_lines():
    assert several(["a", "b"]) == "a\nb"
    assert several(["a", "b", "c", "d"]) == "a\nb\nand 2 more; correct these first"
    assert one_line(ConfigError("first,\n  then  second")) == "first, then second"


def test_every_page_that_code_names_exists():
    root = Path(__file__).parents[1]
    named = {
        (file.name, page)
        for file in (root / "src").rglob("*")
        if file.suffix in (".py", ".yaml", ".j2")
        for page in re.findall(r"(?:docs/[\w/-]+|benchmarks/[\w-]+)\.md", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 50 and not {(file, page) for file, page in named if not (root / page).is_file()}
