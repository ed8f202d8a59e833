"""Questions to a model on the page of the viewer: sampled in the background, judged, chosen, shown side by side."""

import os
import re
import shutil
import threading
import time
from dataclasses import replace

import pytest
from archives import RIGHT, TEST, WRONG, eight_tasks, finished_run
from browser import broken_rules, open_page
from test_view_server import Viewer

from upsolve.cli.main import main
from upsolve.config import ModelConfig, SampleConfig, VerifyConfig
from upsolve.errors import ArchiveError, ConfigError, ModelError
from upsolve.types import Attempt, Task
from upsolve.view.answers import Answers
from upsolve.view.ask import Model
from upsolve.view.opening import open_path

TASK = Task("d", "Double.", (TEST,), "f")
OTHER = TASK.tests[0].__class__(TEST.kind, "f(3)", "6", hidden=True)


def sampler_of(*programs, logps=(-3.0, -2.0, -1.0, -4.0)):
    """A sampler that gives these programs one after the other, and begins again for each question."""
    rest = []

    def draw(tasks, *, config):
        if config.temperature == 0:
            rest[:] = list(zip(programs, logps, strict=False))
        (task,) = tasks
        found = [rest.pop(0) for _ in range(config.samples)]
        return [Attempt(task.task_id, code, task.language, behavior_logp=logp, tokens=2) for code, logp in found]

    return draw


def model_of(draw):
    model = Model(ModelConfig(name="fake"), SampleConfig(), VerifyConfig(), load=lambda _sample, _model: draw)
    wait(lambda: model.state != "loading")
    return model


def wait(is_done, seconds=60):
    end = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.01)


def answered(model, question, task=None):
    number = model.ask(question, task)["number"]
    wait(lambda: model.result(number)["state"] != "running")
    return model.result(number)


def test_candidates_of_a_task_are_judged_and_one_is_chosen_with_its_reason():
    found = answered(model_of(sampler_of(WRONG, WRONG, RIGHT, WRONG)), {"samples": 4, "temperature": 0.5}, TASK)["answer"]
    assert [(one["status"], one["passed"], one["total"]) for one in found["candidates"]] == [
        *[("failed", 0, 1)] * 2,
        ("passed", 1, 1),
        ("failed", 0, 1),
    ]
    assert [one["chosen"] for one in found["candidates"]] == [False, False, True, False]
    assert found["why"] == "Chosen by tests (share of visible tests passed): 1, where the lowest candidate has 0."
    assert found["note"] == "" and found["candidates"][0]["greedy"] and not found["candidates"][1]["greedy"]
    assert (found["candidates"][2]["logp"], found["candidates"][2]["logp_per_token"]) == (-1.0, -0.5)
    assert "expected 4" in found["candidates"][0]["error"] and found["candidates"][2]["evidence"]["tests"] == 1.0


def test_hidden_tests_judge_and_do_not_choose():
    """4 and 2 * x pass f(2) == 4; the likelier one is chosen although it fails the hidden f(3) == 6."""
    task = replace(TASK, tests=(TEST, OTHER))
    draw = sampler_of(RIGHT, "def f(x):\n    return 4\n", logps=(-3.0, -2.0))
    found = answered(model_of(draw), {"samples": 2, "temperature": 1}, task)["answer"]
    assert [(one["status"], one["chosen"], one["evidence"]["tests"]) for one in found["candidates"]] == [
        ("passed", False, 1.0),
        ("failed", True, 1.0),
    ]
    assert found["why"].startswith("Chosen by likelihood")


def test_a_prompt_without_tests_is_not_judged():
    model = model_of(sampler_of(WRONG, RIGHT, WRONG))
    found = answered(model, {"samples": 3, "temperature": 1, "prompt": "Double x.", "language": "Python 3"})["answer"]
    assert found["note"] == "Nothing was judged: the question has no tests." and found["language"] == "python"
    assert all(one["status"] is None and [*one["evidence"]] == ["likelihood"] for one in found["candidates"])
    assert [one["chosen"] for one in found["candidates"]] == [False, False, True]
    assert found["why"].startswith("Chosen by likelihood") and found["why"].endswith("there is no input to run them on.")


def test_queries_without_tests_agree_on_databases_made_from_the_schema():
    draw = sampler_of("SELECT 1", "SELECT count(*) FROM t", "SELECT count(a) FROM t", logps=(-1.0, -1.1, -1.1))
    question = {"prompt": "How many?", "language": "sql", "schema": "CREATE TABLE t (a INTEGER NOT NULL)"}
    found = answered(model_of(draw), {"samples": 3, "temperature": 1, **question})["answer"]
    assert found["note"] and [one["chosen"] for one in found["candidates"]] == [False, True, False]
    assert found["why"].startswith("Chosen by agreement") and all(one["evidence"]["runs"] == 1 for one in found["candidates"])


def test_one_question_at_a_time_and_other_pages_answer_meanwhile(tmp_path):
    begun, go_on = threading.Event(), threading.Event()

    def draw(tasks, *, config):
        begun.set()
        assert go_on.wait(60)
        return sampler_of(RIGHT)(tasks, config=config)

    model = model_of(draw)
    answers = Answers(eight_tasks(tmp_path / "a"), title="a")
    answers.model = model
    with pytest.raises(ArchiveError, match="no task 'none'"):
        answers.ask({"id": "none"})
    number = answers.ask({"id": "d/1", "samples": 1})["number"]
    assert begun.wait(60)
    assert answers.routes["asked"]({"number": str(number)}) == {"state": "running"}
    assert answers.info({})["model"] and answers.routes["model"]({})["state"] == "ready"
    with pytest.raises(ConfigError, match="another question"):
        answers.ask({"id": "d/2", "samples": 1})
    go_on.set()
    wait(lambda: model.result(number)["state"] == "done")
    assert model.result(number)["answer"]["candidates"][0]["status"] == "passed"
    assert model.result(number)["answer"]["why"] == "There is one candidate."
    with pytest.raises(ConfigError, match="another question was asked"):
        model.result(number + 1)
    answers.close()


def test_what_goes_wrong_is_one_sentence():
    def broken(_sample, _model):
        raise ModelError("none: no such model\nand more")

    model = Model(ModelConfig(name="none"), SampleConfig(), VerifyConfig(), load=broken)
    wait(lambda: model.state != "loading")
    assert (model.state, model.error) == ("failed", "The model cannot be loaded: none: no such model and more")
    with pytest.raises(ConfigError, match="The model cannot be loaded"):
        model.ask({"prompt": "x"}, None)

    def failing(_tasks, *, config):
        raise ValueError(f"{config.samples} is\nwrong")

    model = model_of(failing)
    assert answered(model, {}, TASK) == {"state": "failed", "error": "The question cannot be answered: 1 is wrong"}
    for question, said in (
        ({"samples": 17}, "1 to 16"),
        ({"temperature": "hot"}, "numbers"),
        ({"prompt": " "}, "Write a question"),
    ):
        with pytest.raises(ConfigError, match=said):
            model.ask(question, None)


def test_a_model_is_named_where_there_is_none(tmp_path):
    archive = eight_tasks(tmp_path / "a")
    run = finished_run(tmp_path / "runs" / "run", archive)
    for place, said in (
        (archive.path, "name one: --model PATH"),
        (run, "no trained model yet"),
        (run.parent, "has no effect on a folder of runs"),
    ):
        with pytest.raises(ConfigError, match=said):
            open_path(str(place), model="")


@pytest.mark.parametrize("options", [["--model"], ["--logps"], ["--source", "jsonl"]])
def test_options_are_refused_before_an_address_is_shown(tmp_path, monkeypatch, capsys, options):
    archive = eight_tasks(tmp_path / "a")
    monkeypatch.setattr("sys.argv", ["upsolve", "view", str(archive.path), "--no-browser", *options])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and "http" not in printed.out and options[0] in printed.err


PATIENT = """
import builtins, pathlib, time

def patient(name, *others, known=builtins.__import__, **named):
    end = time.monotonic() + 120
    while name == "torch" and not pathlib.Path("{}").exists():
        assert time.monotonic() < end, "torch is imported before the address is printed"
        time.sleep(0.05)
    return known(name, *others, **named)

builtins.__import__ = patient
"""


@pytest.mark.slow
def test_a_tiny_model_is_asked_in_the_browser(chromium, tmp_path, tiny_model, monkeypatch):
    archive = eight_tasks(tmp_path / "archive")
    run = finished_run(tmp_path / "run", archive)
    shutil.copytree(tiny_model, run / "training" / "model")
    recipe = run / "training" / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "sample: {max_tokens: 16, samples: 3}\n")
    (tmp_path / "sitecustomize.py").write_text(PATIENT.format(tmp_path / "printed"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    viewer = Viewer(tmp_path, run, "--model")
    (tmp_path / "printed").touch()
    with open_page(chromium, viewport={"width": 1400, "height": 900}) as (page, faults):
        page.goto(viewer.address)
        page.wait_for_selector("html[data-loaded]")
        first = {"name": "tiny", "state": "loading", "error": "", "samples": 3, "most": 16, "temperature": 0.8}
        page.route("**/api/model*", lambda route: route.fulfill(json=first), times=1)
        page.keyboard.press("m")
        page.get_by_text("The model tiny is loading").wait_for()
        page.locator("button:enabled", has_text="Sample").wait_for()
        page.get_by_label("Task of the archive").select_option("d/3")
        page.get_by_label("Samples").fill("3")
        page.get_by_role("button", name="Sample").click()
        page.locator(".candidate").nth(2).wait_for()
        assert page.locator(".candidate").count() == 3 and page.locator(".candidate.chosen").count() == 1
        assert (
            "not judged" not in page.locator(".answer").inner_text()
            and "log-probability" in page.locator(".answer").inner_text()
        )
        for scheme, width in (("dark", 390), ("light", 1400)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            assert broken_rules(page) == {}, (scheme, width)
        assert re.search(r"Candidate \d(, greedy)? chosen", page.locator(".chosen").inner_text())
        assert "runs: share of inputs on which the program runs to its end" in page.locator(".answer").inner_text()
        page.get_by_label("Task of the archive").select_option("")
        page.get_by_label("Question").fill("Double x.")
        page.get_by_role("button", name="Sample").click()
        page.get_by_text("Nothing was judged: the question has no tests.").wait_for()
        assert page.locator(".candidate.chosen").count() == 1
        page.get_by_label("Question").fill("")
        page.get_by_role("button", name="Sample").click()
        page.get_by_text("Write a question, or choose a task.").wait_for()
        page.set_viewport_size({"width": 390, "height": 900})
        assert broken_rules(page) == {}, "the form of a prompt of one's own, and an error"
        assert [one for one in faults if "400" not in one] == []
    assert viewer.stop() == 0
