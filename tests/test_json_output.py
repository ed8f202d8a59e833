"""``--json`` of the commands that print figures: one JSON object on standard output, and nothing else."""

import json

import pytest

from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (["archive", "info", "embedded"], "attempts"),
        (["memory", "rloo", "--model", "{tiny}"], "peak_bytes"),
        (["power", "--tasks", "200"], "detectable"),
        pytest.param(["plan", "embedded", "--no-model", "--judged", "2"], "advice", marks=pytest.mark.slow),
        pytest.param(["tests", "grade", "embedded"], "totals", marks=pytest.mark.slow),
        (["doctor", "--quick"], "checks"),
        (["ingest", "table", "--sources"], "sources"),
        (["init", "embedded", "--out", "{tmp}/recipe.yaml"], "next"),
        (["archive", "export", "--as", "sft", "--formats"], "exports"),
        (["archive", "query", "embedded", "select count(*) as n, timestamp '2026-01-01' as t from tasks"], "rows"),
    ],
)
def test_figures_are_printed_as_one_object(command, key, tiny_model, tmp_path, monkeypatch, capsys):
    arguments = [part.replace("{tiny}", str(tiny_model)).replace("{tmp}", str(tmp_path)) for part in command]
    monkeypatch.setattr("sys.argv", ["upsolve", *arguments, "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert key in json.loads(capsys.readouterr().out)


def test_counts_by_reason_are_one_object(tmp_path, monkeypatch, capsys):
    task, right, wrong = (
        Task("a", "Print 1.", (TestCase(TestKind.STDIO, ""),)),
        Attempt("a", "print(1)"),
        Attempt("a", "print(2)"),
    )
    judged = [(right, Status.PASSED), (wrong, Status.FAILED)]
    verdicts = [Verdict(attempt.attempt_id, status, judge="recorded:a") for attempt, status in judged]
    Archive.create(tmp_path / "a").append(tasks=[task], attempts=[right, wrong], verdicts=verdicts)
    for command, field, counts in (
        (["export", tmp_path / "a", tmp_path / "out", "--as", "sft"], "left_out", {"attempts: not passed": 1}),
        (["fill-expected", tmp_path / "a", tmp_path / "filled"], "left", {"no Python reference": 1}),
    ):
        monkeypatch.setattr("sys.argv", ["upsolve", "archive", *map(str, command), "--json"])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0 and json.loads(capsys.readouterr().out)[field] == counts


@pytest.mark.slow
def test_a_run_from_an_import_to_its_report_is_read_by_a_program(tiny_model, tmp_path, monkeypatch, capsys):
    def said(*words):
        monkeypatch.setattr("sys.argv", ["upsolve", *map(str, words), "--json"])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
        return json.loads(capsys.readouterr().out)

    rows = [
        {
            "question": f"Print {number}.",
            "code": f"print({number + wrong})",
            "verdict": "WA" if wrong else "AC",
            "tests": [test],
        }
        for number in range(12)
        for test in [{"kind": "stdio", "input": "", "expected": f"{number}"}]
        for wrong in (0, 1)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "no JSON\n")
    names = ("--prompt", "question", "--code", "code", "--status", "verdict", "--max-rejected", "1")
    imported = said("ingest", "table", tmp_path / "rows.jsonl", tmp_path / "archive", *names)
    assert (imported["tasks"], imported["attempts"], imported["set_aside"]) == (12, 24, 1)
    assert imported["reasons"][0]["line"] == 25
    judged = said("verify", tmp_path / "archive")
    assert judged["judged"] == 24 and sum(judged["statuses"].values()) == 24
    rows = said("archive", "export", tmp_path / "archive", tmp_path / "data", "--as", "verl")["rows"]
    assert sum(rows.values()) == 12
    assert said("archive", "fill-expected", tmp_path / "archive", tmp_path / "filled")["tests"] == 0
    compacted = said("archive", "compact", tmp_path / "archive", "--keep-hours", "0")
    assert compacted["after"] <= compacted["before"] and compacted["waiting"] == 0
    model = ("--archive", tmp_path / "archive", "--model", tiny_model)
    sampling = ("--set", "sample.max_tokens=4", "--set", "sample.samples=1")
    sets = ("evaluate.temperatures=[0, 1]", "evaluate.dev_tasks=1", "data.train=0.6")
    options = (*model, *sampling, *(word for value in sets for word in ("--set", value)))
    trained = said(
        "train", "rloo", *options, "--set", "optim.max_steps=1", "--set", "data.group_size=2", "--out", tmp_path / "train"
    )
    assert trained["steps"] == 1 and trained["folder"].endswith("model")
    assert said("export", trained["folder"], tmp_path / "whole")["bytes"] > 1000
    assert said("sample", "rloo", *model, *sampling)["added"] == 12
    measured = said("eval", "rloo", *options, "--out", tmp_path / "eval")
    assert measured["models"][0]["greedy"]["pass@1"]["mean"] == 0 and measured["comparisons"] == []
    choices = measured["models"][0]["choices"]
    assert choices["any"]["mean"] == choices["chosen"]["mean"] == 0 and choices["samples"] == 2 * choices["any"]["tasks"]
    again = said("report", tmp_path / "eval" / "model.json", tmp_path / "eval" / "model.json")
    assert [model["greedy"] for model in again["models"]] == [measured["models"][0]["greedy"]] * 2
    change = again["comparisons"][0]
    assert change["gain"]["mean"] == change["greedy"]["difference"]["mean"] == 0 and change["many"]["temperatures"] == [1, 1]
    assert change["solved"] == {"before": 0, "after": 0, "gained": 0, "lost": 0, "samples": 1, "p_value": 1}
    assert change["detectable"] is None and [one["temperature"] for one in measured["models"][0]["dev"]] == [0, 1]
    assert again["models"][0]["entropy"] > 0 and again["models"][0]["heldout_tasks"] > 0
