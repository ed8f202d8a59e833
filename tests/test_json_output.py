"""``--json`` of the commands that print figures: one JSON object on standard output, and nothing else."""

import json

import pytest

from upsolve.cli.main import main


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (["archive", "info", "embedded"], "attempts"),
        (["memory", "rloo", "--model", "{tiny}"], "peak_bytes"),
        (["power", "--tasks", "200"], "detectable"),
        (["plan", "embedded", "--no-model", "--judged", "2"], "advice"),
        (["doctor", "--quick"], "checks"),
    ],
)
def test_figures_are_printed_as_one_object(command, key, tiny_model, monkeypatch, capsys):
    arguments = [part.replace("{tiny}", str(tiny_model)) for part in command]
    monkeypatch.setattr("sys.argv", ["upsolve", *arguments, "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert key in json.loads(capsys.readouterr().out)
