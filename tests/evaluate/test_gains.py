"""Gains over the base and beyond controls, by hand."""

import pytest

from upsolve.cli.recipes import seeded
from upsolve.config import load_recipe
from upsolve.evaluate.capability import capability
from upsolve.evaluate.scores import Evaluation, TaskScore, single
from upsolve.report.several import (
    RunResult,
    gains,
    runs_table,
    seeds_table,
    sentences_of_runs,
    without_seeds,
    worth_of_verdicts,
    worth_table,
)
from upsolve.report.tables import capability_table


def sweep(passed, first=0, temperature=1.0):
    scores = tuple(TaskScore(f"t{first + i}", "", 8, c, {"passed": c, "failed": 8 - c}) for i, c in enumerate(passed))
    return single(Evaluation("m", "m", "x:test", temperature, 1.0, 0, 100, scores))


BASE = sweep([2] * 40)
METHOD = RunResult("rloo", "as_judged", BASE, sweep([6] * 40))
PLACEBO = RunResult("placebo", "shuffled", BASE, sweep([4] * 40))


def test_the_gain_beyond_a_control():
    assert list(gains(METHOD).values()) == pytest.approx([0.5] * 40)
    (worth,) = worth_of_verdicts([METHOD, PLACEBO])
    assert (worth.method, worth.control) == ("rloo", "placebo") and worth.paired.difference.mean == pytest.approx(0.25)
    assert worth_of_verdicts([METHOD]) == worth_of_verdicts([PLACEBO]) == ()
    other = RunResult("inverted", "inverted", sweep([0], 90), sweep([0], 90))
    with pytest.raises(ValueError, match="rloo and inverted share no task"):
        worth_of_verdicts([METHOD, other])


def test_imitation_is_the_control_of_a_run_that_learns_from_failed_attempts():
    imitation = RunResult("sft", "as_judged", BASE, sweep([3] * 40), imitates=True)
    found = {(one.method, one.control): one.paired.difference.mean for one in worth_of_verdicts([METHOD, imitation, PLACEBO])}
    assert found == pytest.approx({("rloo", "placebo"): 0.25, ("sft", "placebo"): -0.125, ("rloo", "sft"): 0.375})


def test_sentences_say_what_a_gain_is_due_to():
    imitation = RunResult("sft", "as_judged", BASE, sweep([3] * 40), imitates=True)
    (shuffled, worse, failed) = sentences_of_runs([METHOD, imitation, PLACEBO])
    more = "points of pass@1 more than its control"
    assert shuffled == f"rloo: gains +25.0 [+14.8, +31.7] {more} placebo: this part of its gain is due to the verdicts."
    assert worse.startswith("sft: gains less than its control placebo (-12.5 [") and worse.endswith("the verdicts did harm.")
    assert failed.startswith("rloo: gains +37.5 [") and failed.endswith("due to the failed attempts.")
    (alike,) = sentences_of_runs([METHOD, RunResult("placebo", "shuffled", BASE, sweep([6] * 40))])
    assert "is not shown to differ from its control placebo (+0.0 [" in alike
    assert "--set reward.verdicts=shuffled" in sentences_of_runs([METHOD])[0]


def test_runs_that_differ_in_seeds_alone_count_as_one():
    """Gains of 4/8 and 2/8 for rloo, 2/8 and 0 for its control: 3/8 and 1/8 over seeds; a repeated run and another recipe stay apart."""
    rloo = [
        RunResult(f"rloo {seed}", "as_judged", BASE, sweep([6 - 2 * seed] * 40), settings="r", seeds=str(seed))
        for seed in (0, 1)
    ]
    placebo = [
        RunResult(f"p {seed}", "shuffled", BASE, sweep([4 - 2 * seed] * 40), settings="p", seeds=str(seed)) for seed in (0, 1)
    ]
    (worth,) = worth_of_verdicts([*rloo, *placebo])
    assert (worth.method, worth.control) == ("rloo 0, 2 seeds", "p 0, 2 seeds")
    assert worth.paired.difference.mean == pytest.approx(0.25)
    table = seeds_table([*rloo, *placebo])
    assert table.rows[0][:4] == ("rloo 0, 2 seeds", "+37.5 [+26.1, +43.6]", "+25.0", "+50.0") and len(table.rows) == 2
    assert seeds_table([rloo[0], rloo[0], METHOD, PLACEBO]) is None


def test_the_identity_of_a_recipe_leaves_out_its_seeds_but_not_that_of_the_split():
    def identity(name, *settings):
        return without_seeds(load_recipe(name, [*settings]).model_dump(mode="json"))

    assert identity("grpo") == without_seeds(seeded(load_recipe("grpo"), 1).model_dump(mode="json"))
    assert identity("rloo") == identity("rloo", "seed=1", "data.seed=1", "sample.seed=2")
    assert (
        len({identity("rloo"), identity("rloo", "data.split_seed=1"), identity("rloo", "optim.lr=1.0e-6"), identity("topr")})
        == 4
    )


def test_tables_of_runs():
    table = runs_table([METHOD, PLACEBO])
    assert table.title == "pass@1 on 40 tasks, %, with 95 % intervals over tasks"
    assert table.rows == (
        ("base", "25.0 (T 1)", "–", "25.0", "", ""),
        ("rloo", "75.0 (T 1)", "–", "75.0", "+50.0 [+37.4, +55.6]", "one temperature"),
        ("placebo", "50.0 (T 1)", "–", "50.0", "+25.0 [+14.8, +31.7]", "one temperature"),
    )
    assert worth_table([METHOD]) is None
    assert worth_table([METHOD, PLACEBO]).rows == (("rloo", "placebo", "+25.0 [+14.8, +31.7]", "0.0001"),)


def test_runs_that_are_measured_greedily_alone_have_one_column_of_it():
    cold = RunResult("rloo", "as_judged", sweep([2] * 40, temperature=0.0), sweep([6] * 40, temperature=0.0))
    table = runs_table([cold])
    assert table.header == ("run", "best temperature", "greedy", "change to its base, points", "conclusion")
    assert table.rows[1] == ("rloo", "75.0 (greedy)", "75.0", "+50.0 [+37.4, +55.6]", "one temperature")
    rows = [row[0] for row in capability_table(capability(cold.before, cold.after)).rows]
    assert rows.count("pass@1, greedy") == 1
