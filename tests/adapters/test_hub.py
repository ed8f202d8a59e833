"""What would be pushed, and the calls that a push makes; no test asks the Hub."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml
from huggingface_hub import ModelCard

import upsolve
from upsolve.adapters.hub import plan_upload, upload
from upsolve.archive.store import copy_archive
from upsolve.errors import ArchiveError, ConfigError
from upsolve.evaluate.runs import save_sweep
from upsolve.evaluate.scores import Evaluation, TaskScore, single
from upsolve.exports.exporting import export_archive
from upsolve.files import write_text
from upsolve.report.card import hidden, shown, write_card


def metadata(card):
    return yaml.safe_load(card.split("---\n")[1])


@pytest.fixture
def run(tmp_path, tiny_model):
    """The folder of a run."""
    from upsolve.policy.model import load_codec, load_model, save_model

    folder = tmp_path / "runs" / "rloo"
    save_model(load_model(tiny_model), load_codec(tiny_model), folder / "training" / "model")
    write_text(folder / "training" / "recipe.yaml", "name: rloo\nmodel: {name: owner/base}\noptim: {max_steps: 7}\n")
    write_text(folder / "training" / "model" / ".cache" / "x", "hidden")
    return folder


def test_a_run_is_pushed_as_a_model_with_its_recipe(run):
    planned = plan_upload(run, "me/model")
    assert planned.kind == "model" and {"config.json", "model.safetensors", "tokenizer.json"} <= {*planned.files}
    assert not any("cache" in name or name == "README.md" for name in planned.files)
    about = metadata(planned.card)
    assert about["base_model"] == "owner/base" and about["library_name"] == "transformers" and "# me/model" in planned.card
    assert {
        "license": "other",
        "license_link": "https://huggingface.co/owner/base",
        "base_model_relation": "finetune",
    }.items() <= about.items()
    assert about["datasets"] == ["embedded"] and about["tags"] == ["code", "upsolve", "reinforce"]
    for folder in (run / "training", run / "training" / "model"):  # of `upsolve train`, and the model alone
        alone = plan_upload(folder, "me/model")
        assert ({*alone.files}, alone.card) == ({*planned.files}, planned.card)
    settings = yaml.safe_load(planned.card.partition("```yaml\n")[2].partition("```")[0])
    assert settings["optim"] == {"max_steps": 7} and settings["model"] == {"name": "owner/base"}  # of `rloo`: lr is its own
    write_text(run / "training" / "recipe.yaml", f"model: {{name: {run}}}\n")
    assert "base_model" not in metadata(plan_upload(run, "me/model").card)  # a folder of this machine says nothing to others


def measure(folder, **passed):
    """Write the evaluations of a run: of 4 samples at each of 40 tasks, this many pass."""
    for name, count in passed.items():
        scores = tuple(
            TaskScore(f"t{i}", "", 4, count, {"passed": count, "failed": 4 - count}, mean_entropy=0.5) for i in range(40)
        )
        save_sweep(
            single(Evaluation(name, "m", f"{folder}/tasks:test", 1.0, 1.0, 0, 100, scores, 2.0)), folder / f"{name}.json"
        )


def test_the_card_says_what_the_run_measured(run):
    measure(run, base=1, trained=3)
    card = plan_upload(run, "me/model").card
    assert "## Measured" in card and "+50.0" in card and "No control run" in card
    parsed = ModelCard(card)
    (result,) = parsed.data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_name) == ("pass@1", 0.75, "tasks:test")
    assert result.metric_args["base_model"] == 0.25 and result.metric_args["tasks"] == 40
    low, high = result.metric_args["interval_95"]
    assert 0.6 < low < 0.75 < high < 0.85 and f"75.0 \\[{100 * low:.1f}, {100 * high:.1f}\\]" in card
    assert "<!--" not in card and str(run) not in card and "/tmp" not in card
    write_text(run / "trained.json", "{}")
    card = plan_upload(run, "me/model").card
    assert "The evaluations cannot be compared" in card and "/tmp" not in card
    write_text(run / "training" / "recipe.yaml", f"model: {{nme: {run}}}\n")
    assert "The recipe of its run cannot be read: recipe.yaml: model.nme: no such key" in plan_upload(run, "me/model").card


def test_a_card_names_no_path(run, tmp_path):
    write_text(
        run / "training" / "recipe.yaml",
        f"name: own\nmodel: {{name: {tmp_path}/base}}\ndata: {{archive: {tmp_path}/students}}\n"
        "select: {attempts: \"author = 'a b' OR 1 / 2 > 0\"}\n",
    )
    write_text(run / "training" / "model" / "adapter_config.json", json.dumps({"base_model_name_or_path": f"{tmp_path}/base"}))
    planned = plan_upload(run, "me/model")
    assert (
        str(tmp_path) not in planned.card
        and "base, post-trained" in planned.card
        and "base_model" not in metadata(planned.card)
    )
    assert metadata(planned.card)["datasets"] == ["students"] and "OR 1 / 2 > 0" in planned.card
    assert json.loads(planned.texts["adapter_config.json"]) == {"base_model_name_or_path": "base"}
    told = {
        "see /home/me/x/y.json:": "see y.json:",
        "runs/a/b and c/d": "b and c/d",
        "https://huggingface.co/a/b": "https://huggingface.co/a/b",
    }
    assert {text: hidden(text) for text in told} == told
    assert shown("hf://datasets/me/data/archive") == "me/data" and shown("postgresql://u:p@host/x") == "postgresql://..."


@pytest.mark.parametrize("template", ["", "{% for message in messages %}{{ message['content'] }}{% endfor %}"])
def test_the_code_of_a_card_runs(run, template, monkeypatch, capsys):
    from transformers import AutoTokenizer

    model = run / "training" / "model"
    tokenizer = AutoTokenizer.from_pretrained(model, chat_template=template or None)
    tokenizer.save_pretrained(model)
    write_text(run / "training" / "recipe.yaml", "name: rloo\nmodel: {prompt: {system: Be short.}}\nsample: {max_tokens: 4}\n")
    write_card(model, "rloo")
    code = (model / "README.md").read_text().partition("python\n")[2].partition("\n````")[0]
    assert ("apply_chat_template" in code) == bool(template) and "Be short." in code and "stop_strings" in code
    monkeypatch.chdir(model)
    names = {}
    exec(code, names)
    assert names["output"].shape[1] - names["inputs"]["input_ids"].shape[1] <= 4 and capsys.readouterr().out


def test_a_card_travels_with_the_weights(run, tmp_path):
    measure(run, base=1, trained=3)
    write_card(run / "training" / "model", "rloo")
    shutil.copytree(run / "training" / "model", tmp_path / "alone")
    card = plan_upload(tmp_path / "alone", "me/model").card
    assert "+50.0" in card and 'name = "me/model"' in card and 'name = "."' not in card


@pytest.mark.parametrize(("base", "said"), [("smollm2-135m", "apache-2.0"), ("{local}", "mit"), ("owner/base", "other")])
def test_the_licence_is_that_of_the_base_model(run, tmp_path, base, said):
    write_text(tmp_path / "base" / "README.md", "---\nlicense: mit\n---\n\nA model.\n")
    write_text(run / "training" / "recipe.yaml", f"model: {{name: {base.format(local=tmp_path / 'base')}}}\n")
    assert metadata(plan_upload(run, "me/model").card)["license"] == said


def test_an_archive_is_pushed_with_its_counts(tmp_path):
    copy_archive(upsolve.open_archive("embedded"), tmp_path / "a")
    (tmp_path / "a" / "lock").touch()
    planned = plan_upload(tmp_path / "a", "me/tasks")
    assert planned.kind == "dataset" and "archive.json" in planned.files and "lock" not in planned.files
    assert "259 tasks" in planned.card and 'snapshot_download("me/tasks", repo_type="dataset")' in planned.card
    files = [config["data_files"] for config in metadata(planned.card)["configs"]]
    assert all([*(tmp_path / "a").glob(file)] for file in files) and len(files) >= 2


def test_an_archive_of_the_package_is_pushed_by_its_name():
    planned = plan_upload("embedded", "me/archive")
    assert planned.kind == "dataset" and "archive.json" in planned.files and "# me/archive" in planned.card


def test_an_exported_data_set_keeps_its_card(tmp_path):
    export_archive(upsolve.open_archive("embedded"), tmp_path / "out", "verl")
    planned = plan_upload(tmp_path / "out", "me/verl")
    assert (planned.kind, [*planned.files]) == ("dataset", ["train.parquet"])
    assert planned.card == (tmp_path / "out" / "README.md").read_text()


def test_what_is_neither_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is not a run, a model, a .gguf file, an archive"):
        plan_upload(tmp_path, "me/x")
    with pytest.raises(ConfigError, match="none: no such file or folder"):
        plan_upload(tmp_path / "none", "me/x")


def test_a_push_is_one_commit(run, monkeypatch):
    calls = []

    class Api:
        def create_repo(self, repo, **options):
            calls.append((repo, options))

        def create_commit(self, repo, operations, **options):
            calls.append((repo, {one.path_in_repo: one.path_or_fileobj for one in operations}, options["repo_type"]))
            return type("Done", (), {"repo_url": f"https://huggingface.co/{repo}"})

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    planned = plan_upload(run, "me/model")
    assert upload(planned, "me/model", private=True) == "https://huggingface.co/me/model"
    (made, (repo, files, kind)) = calls
    assert made == ("me/model", {"repo_type": "model", "private": True, "exist_ok": True})
    assert (repo, kind, {*files}) == ("me/model", "model", {*planned.files, "README.md"}) and files[
        "README.md"
    ] == planned.card.encode()


def test_a_hub_that_cannot_be_reached_is_one_message(run, monkeypatch):
    monkeypatch.setattr(
        "huggingface_hub.HfApi.create_repo", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("no network"))
    )
    with pytest.raises(ArchiveError, match="me/model: cannot be pushed .ConnectionError: no network"):
        upload(plan_upload(run, "me/model"), "me/model")


@pytest.mark.slow
def test_the_commands(run, tmp_path):
    def cli(*words):
        done = subprocess.run([sys.executable, "-m", "upsolve", *map(str, words)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, out = cli("push", run, "me/model", "--dry-run", "--json")
    planned = json.loads(out)
    assert code == 0 and planned["pushed"] == "" and planned["files"]["model.safetensors"] > 0 and planned["kind"] == "model"
    code, out = cli("push", run, "me/model", "--dry-run")
    assert (
        code == 0
        and "model.safetensors" in out
        and "base_model: owner/base" in out
        and "nothing was pushed to the model me/model" in out
    )
    code, out = cli("export", run / "training" / "model", tmp_path / "whole")
    assert code == 0 and "MB" in out and (tmp_path / "whole" / "model.safetensors").is_file()
    code, out = cli("export", run / "training" / "model", tmp_path / "whole")
    assert code == 2 and "Traceback" not in out and "into a new folder" in out
