import json
import re
from math import nan
from pathlib import Path

import pytest
from pytest import approx

from upsolve.config import RewardConfig, load_recipe
from upsolve.evaluate.capability import capability
from upsolve.evaluate.intervals import Estimate
from upsolve.evaluate.scores import Evaluation, Sweep, TaskScore, single
from upsolve.report.blocks import bars, curve, html_of
from upsolve.report.content import Example, Gain, ReportContent, fenced, markdown_of, pick_examples
from upsolve.report.html import write_report
from upsolve.report.overview import CURVES, curve_name, curves_of, failures, large, logged, stopped_at
from upsolve.report.plots import CONTROL, SERIES, change_by_task, pass_by_difficulty, pass_by_temperature
from upsolve.report.programs import (
    Sample,
)
from upsolve.report.run import chosen_attempts, finder, rewarded_of
from upsolve.report.tables import (
    capability_table,
    change_table,
    cost_table,
    failure_table,
    pass_table,
    profile_table,
    reward_tables,
    temperature_table,
)
from upsolve.reward.formula import reward
from upsolve.reward.judged import group_of
from upsolve.train.data.drawn import DrawnGroups, recorded_keys
from upsolve.train.data.groups import TrainGroup, rewards_of
from upsolve.types import Attempt, Group, Status, Task, Verdict


def evaluation(name, passed, temperature=0.8, samples=8):
    scores = tuple(
        TaskScore(f"t{i}", "easy" if i < 10 else "hard", samples, c, {"passed": c, "failed": samples - c}, 20.0, 0.4)
        for i, c in enumerate(passed)
    )
    return Evaluation(name, "model", "x:test", temperature, 0.95, 1, 100, scores, 12.0)


BASE, BETTER = evaluation("base", [2] * 10 + [0] * 10), evaluation("trained", [6] * 10 + [0] * 9 + [8])


def test_tables_by_hand():
    table = pass_table((BASE, BETTER), (1, 8, 16))
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    # 10 tasks at 0.25 and three at bounds: m' = 4 / 13, S' = 0.625 + 1.5 - 13 m'^2 = 0.894231, t(12) = 2.17881
    assert rows["easy (10)", "pass@1"] == ("25.0 [14.3, 47.3]", "75.0 [52.7, 85.7]")
    # C(6, 2) / C(8, 2); pass^k of k = 1 is pass@1 and no row
    assert pass_table((BETTER,), (1, 2)).rows[2][1:] == ("pass^2", "31.8 [19.1, 49.3]")
    assert ("all (20)", "pass^1") not in rows and rows["all (20)", "pass^8"][1].startswith("5.0 [")
    assert rows["all (20)", "pass@1"][0].startswith("12.5 [") and rows["all (20)", "pass@1"][1].startswith("42.5 [")
    assert rows["hard (10)", "pass@8"][1].startswith("10.0 [")
    assert rows["all (20)", "pass@16"] == ("undefined (n < k)",) * 2
    profile = {row[0]: row[1:] for row in profile_table((BASE, BETTER)).rows}
    assert profile["passed, %"] == ("12.5", "42.5") and profile["samples"] == ("160", "160")
    assert not any(name.startswith("lint") for name in profile), "nothing was linted"


def test_errors_and_lint_are_compared_where_one_has_none():
    names = [f"E{n}" for n in range(9)]
    many = TaskScore("t", "easy", 90, 0, {"runtime_error": 90}, errors={name: 10 - n for n, name in enumerate(names)})
    one = TaskScore(
        "t", "easy", 90, 89, {"passed": 89, "runtime_error": 1}, errors={"E8": 1}, linted=90, findings={"lint:F821": 9}
    )
    runs = [Evaluation(name, "m", "x:test", 1, 1, 1, 100, (score,)) for name, score in (("many", many), ("one", one))]
    profile = {row[0]: row[1:] for row in profile_table(runs).rows}
    assert profile["E0, %"] == ("11.1", "0.0")
    assert profile["E8, %"] == ("2.2", "1.1"), "not among the first of one run, but of the other"
    samples = {
        "E8": Sample("f(\n  x)", "runtime_error", "test 2: no x", "E8"),
        "runtime_error": Sample("y" * 99, "runtime_error", "z"),
    }
    reasons = failure_table(runs, samples)
    assert reasons.header == ("", "many, T 1", "one, T 1", "meaning", "for example")
    stopped = ("runtime error", "100.0", "1.1", "stopped by an error while it ran", f"{'y' * 59}… → z")
    assert reasons.rows[:3] == (stopped, ("\u2003E8", "2.2", "1.1", "", "f( x) → no x"), ("error E0", "11.1", "0.0", "", ""))
    assert len(reasons.rows) == 1 + 9 and failure_table(runs, {}).rows[1] == ("error E0", "11.1", "0.0", "")
    assert failures((many,)) == "most failures: runtime error, 100.0 %; error: E0, 11.1 %"
    refused = TaskScore("t", "easy", 2, 1, {"passed": 1, "runtime_error": 1}, errors={"Refused": 1})
    assert failures((refused,)).endswith("; error: Refused, 50.0 % (not a read-only query, or one with random())")
    assert failures((TaskScore("t", "easy", 1, 1, {"passed": 1}),)) == ""
    assert profile["lint: error, findings a sample that parses"] == ("–", "0.10")
    assert "passed, %" in profile and len([name for name in profile if re.match(r"E\d", name)]) == 9


def test_the_breakdown_of_rewards_by_hand():
    task = Task("t", "")
    attempts = tuple(Attempt("t", "x" * n, truncated=n == 30) for n in (10, 30, 20, 5))
    verdicts = tuple(
        Verdict("a", s, passed, 4)
        for s, passed in ((Status.FAILED, 1), (Status.FAILED, 3), (Status.PASSED, 4), (Status.UNSCORED, 0))
    )
    config = RewardConfig(preset="tests", weights={"length": 2}, length=(10, 30))
    means, counts = reward_tables([reward(Group(task, attempts, verdicts), config)])
    assert means.header == ("status", "attempts", "reward", "fraction", "length")
    # failed: fractions 0.25, 0.75, lengths 0, -1, so rewards 0.25, -1.25; passed: 1 - 2 * 0.5
    assert means.rows == (("passed", "1", "0.000", "1.000", "-0.500"), ("failed", "2", "-0.500", "0.500", "-0.500"))
    assert counts.rows == (("left out: no reward for unscored", "1"), ("flagged: truncated", "1"))


def test_the_page_is_one_file_and_escapes_what_models_write(tmp_path):
    evil = "</pre><script>alert(1)</script>"
    content = ReportContent(
        "a <title>",
        (single(BASE), single(BETTER)),
        (1, 8),
        training=({"step": 1.0, "loss": 2.0, "entropy": 0.5}, {"step": 2.0, "loss": 1.0, "entropy": 0.4}),
        recipe_yaml="name: x",
        facts={"model": evil},
        rewarded=(reward(Group(Task("t", ""), (Attempt("t", ""),), (Verdict("a", Status.PASSED),)), RewardConfig()),),
        examples=(Example("t0", evil, evil, "failed", "ok", "passed"),),
    )
    write_report(tmp_path / "r.html", content)
    page = (tmp_path / "r.html").read_text()
    assert page.count("<script") == 1 and page.count("&lt;script&gt;") == 3, (
        "the buttons' own script alone, which the policy names"
    )
    assert page.count("<svg") == 1 + 3 + 2 + 2 + 2 and "Rewards of the attempts trained on" in page
    (icon,) = re.findall(r"""(?:src|href)=["']([^"'#]+)""", page)
    assert icon.startswith("data:image/svg+xml,") and "@import" not in page and "url(http" not in page


def test_only_attempts_that_were_trained_on_count(tmp_path):
    def group(name):
        attempts = tuple(Attempt(name, f"x = {number}") for number in range(3))
        statuses = (Status.PASSED, Status.FAILED, Status.UNSCORED)
        return Group(Task(name, ""), attempts, tuple(Verdict(a.attempt_id, s) for a, s in zip(attempts, statuses, strict=True)))

    recipe, groups = load_recipe("rloo"), [group("a"), group("b")]
    (fitted,) = rewards_of(groups[:1], recipe.reward, recipe.verify)
    chosen = TrainGroup(group_of(fitted.group, [0]), fitted.rewards_G[:1], fitted.passed[:1], fitted.rewards_G[:1])
    DrawnGroups(tmp_path, by_token=False).record(0, [chosen])
    everything = rewards_of(groups, recipe.reward, recipe.verify)
    found = rewarded_of(everything, recorded_keys(tmp_path))
    rewards, counts = reward_tables(found)
    assert [row[:2] for row in rewards.rows] == [("passed", "1")]
    assert counts.rows == (("left out: no reward for unscored", "2"),)
    (rewards, _) = reward_tables(rewarded_of(everything, {}))
    assert [row[:2] for row in rewards.rows] == [("passed", "2"), ("failed", "2")], "a run that recorded no groups"


def test_tasks_that_got_worse_are_shown_first():
    before, after = evaluation("base", [8, 2, 4, 4]), evaluation("trained", [1, 8, 4, 3])
    table = change_table(before, after)
    assert table.title == "Tasks that changed: 2 worse, 1 better"
    assert table.rows == (
        ("t0", "easy", "8 of 8", "1 of 8", "-87.5"),
        ("t3", "easy", "4 of 8", "3 of 8", "-12.5"),
        ("t1", "easy", "2 of 8", "8 of 8", "+75"),
    )


def test_examples_show_what_changed(tmp_path):
    def write(name, rows):
        file = tmp_path / name
        file.write_text("\n".join(json.dumps({"task_id": t, "code": c, "status": s}) for t, c, s in rows))
        return file

    before = write(
        "a",
        [
            ("t0", "bad", "failed"),
            ("t0", "good", "passed"),
            ("t1", "no", "failed"),
            ("t2", "same", "passed"),
            ("t3", "fine", "passed"),
        ],
    )
    after = write(
        "b",
        [
            ("t0", "worse", "failed"),
            ("t1", "lost", "unscored"),
            ("t1", "yes", "passed"),
            ("t2", "same", "passed"),
            ("t3", "lost", "unscored"),
        ],
    )
    before.rename(tmp_path / "base.samples.jsonl")
    after.rename(tmp_path / "trained.samples.jsonl")
    sweeps = (single(BASE), single(BETTER))
    found = pick_examples(tmp_path, sweeps, finder([Task(f"t{i}", "") for i in range(4)]))
    assert [(one.task_id, one.before, one.after) for one in found] == [("t0", "good", "worse"), ("t1", "no", "yes")]
    assert found[1].counts == ("0 of 1", "1 of 1"), "an unscored sample has not failed"
    assert pick_examples(tmp_path / "none", sweeps, finder([Task("t0", "")])) == ()
    rows = [
        {"task_id": "t0", "code": f"{t}", "status": status, "task_set": "x:test", "temperature": t}
        for t, status in ((1.0, "passed"), (0.8, "failed"))
    ]
    (tmp_path / "base.samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "trained.samples.jsonl").write_text(json.dumps({**rows[1], "status": "passed"}))
    (one,) = pick_examples(tmp_path, sweeps, finder([Task("t0", "")]))
    assert (one.before, one.before_status, one.after_status) == ("0.8", "failed", "passed"), (
        "samples of the best temperature alone"
    )


def page_of(tmp_path, *runs, ks=(1,)):
    write_report(tmp_path / "r.html", ReportContent("t", tuple(map(single, runs)), ks))
    return (tmp_path / "r.html").read_text()


def chosen(name, best, hot):
    """A sweep of greedy decoding, which is the best, and temperature 1."""
    dev = (evaluation(name, [1], 0.0, 1), evaluation(name, [2], 1.0))
    first, last = evaluation(name, best, 0.0, 1), evaluation(name, hot, 1.0)
    return Sweep(name, dev, first, last, last, first, -0.5 if name == "base" else -0.25, 7)


FEW, MANY, COLD, WARM = [1] * 5 + [0] * 15, [1] * 15 + [0] * 5, [2] * 20, [5] * 20


def test_the_colour_is_that_of_the_conclusion(tmp_path, monkeypatch):
    monkeypatch.setattr("upsolve.report.plots.svg", lambda _figure: "<svg></svg>")  # drawing takes half a second a page

    def first_box(best, hot):
        content = ReportContent("t", (chosen("base", FEW, COLD), chosen("trained", best, hot)), (1, 8))
        write_report(tmp_path / "r.html", content)
        return re.search(r'class="verdict ([a-z-]+)"><b>([A-Z][a-z]+)', (tmp_path / "r.html").read_text()).groups()

    assert first_box(MANY, WARM) == ("more-capable", "More")
    assert first_box([0] * 20, WARM) == ("sharper-only", "Sharper"), "five tasks down are not enough of a loss"
    assert first_box(FEW, WARM) == ("sharper-only", "Sharper") and first_box(FEW, COLD) == ("no-change", "No")
    content = ReportContent("t", (chosen("base", MANY, WARM), chosen("trained", [0] * 20, WARM)))
    write_report(tmp_path / "r.html", content)
    page = (tmp_path / "r.html").read_text()
    assert 'class="verdict worse"' in page and re.findall(r"border-color: var\(--good\)", page) == ["border-color: var(--good)"]
    assert 'class="verdict one-temperature"' in page_of(tmp_path, BASE, BETTER)


def test_the_picture_by_temperature_has_a_line_a_model(tmp_path):
    content = ReportContent("t", (chosen("base", FEW, COLD), chosen("trained", FEW, WARM)))
    write_report(tmp_path / "r.html", content)
    page = (tmp_path / "r.html").read_text()
    assert page.index("<h3>pass@1 by temperature</h3>") < page.index("<h3>pass@1 by difficulty")
    picture = pass_by_temperature(content.sweeps)
    assert all(
        f"<!-- {text} -->" in picture for text in ("base (1 dev task)", "trained (1 dev task)", "temperature (0: greedy)")
    )
    assert "pass@1 by temperature" not in page_of(tmp_path, BASE, BETTER), "one temperature"


def test_pictures_of_a_model_that_passes_nothing_have_the_size_of_others():
    none = evaluation("base", [0] * 20, temperature=1.0)
    sweep = Sweep("base", (none,), best=none, many=none, hot=none)

    def height(picture):
        return float(re.search(r'<svg [^>]*height="([0-9.]+)pt"', picture)[1])

    assert height(pass_by_difficulty([none, none])) == approx(height(pass_by_difficulty([BASE, BETTER])), abs=20)
    assert height(change_by_task(none, none)) == approx(height(change_by_task(BASE, BETTER)), abs=20)
    assert height(pass_by_temperature([sweep])) == approx(200, abs=40)


def test_capability_stands_beside_temperature():
    table = capability_table(capability(chosen("base", FEW, COLD), chosen("trained", FEW, WARM), 8))
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["pass@1, each at its own best temperature"] == ("25.0 (greedy)", "25.0 (greedy)", "+0.0 [-16.0, +16.0]")
    assert rows["pass@1, greedy"] == ("25.0", "25.0", "+0.0 [-16.0, +16.0]")
    assert rows["pass@1, T 1"] == ("25.0", "62.5", "+37.5 [+15.7, +49.5]")
    assert rows["pass@8, each at its own best temperature"] == ("100.0 (T 1)", "100.0 (T 1)", "+0.0 [-16.0, +16.0]")
    assert rows["tasks solved in 8 samples"] == ("20", "20", "0 gained, 0 lost; McNemar p = 1.000")
    assert rows["log-probability of held-out passed programs, nats per token"] == ("-0.500", "-0.250", "+0.250")
    assert rows["entropy of the samples, T 1, nats"] == ("0.400", "0.400", "+0.000")
    assert not any("smallest difference" in label for label in rows), "no task differs"
    apart = capability_table(capability(chosen("base", [0] * 20, [0] * 20), chosen("trained", [1] * 20, WARM), 8))
    solved = {row[0]: row[3] for row in apart.rows}["tasks solved in 8 samples"]
    assert solved == "20 gained, 0 lost; McNemar p < 0.001"  # 2 / 2^20
    # 10 of 20 change by 1: t(22) sqrt((5 + 3) / 23 / 22) + 0.84 * 0.5 / sqrt(19) = 26.1 + 9.7 points
    last = capability_table(capability(chosen("base", FEW, COLD), chosen("trained", MANY, WARM))).rows[-1]
    assert last == ("smallest difference that 20 tasks show in 80 % of cases", "", "", "35.7; 5 points need 832 tasks")
    by_temperature = temperature_table([chosen("base", FEW, COLD), single(BETTER)])
    assert by_temperature.rows == (("greedy", "100.0 (no interval)", "–"), ("T 1", "25.0 (no interval)", "–"))


def test_a_page_is_written_whatever_is_undefined(tmp_path):
    gone = TaskScore("t3", "easy", 0, 0, {"unscored": 8})
    holed = Evaluation("holed", "m", "x:test", 0.2, 1.0, 0, 100, (*BASE.scores[:3], gone, *BASE.scores[4:]))
    assert "1 task left out" in page_of(tmp_path, BASE, holed)
    assert "pass@16" not in page_of(tmp_path, BASE, BETTER, ks=(16,)), "there are 8 samples a task"
    assert "pass@1" in page_of(tmp_path, BASE, BETTER, ks=())
    few = page_of(tmp_path, evaluation("a", [0] * 5), evaluation("b", [0] * 5))
    assert "Only 5 tasks" in few and "[0.0, 0.0]" not in few


def test_a_fall_of_pass_at_8_on_hard_tasks_is_called_out(tmp_path):
    before, after = evaluation("base", [8] * 10 + [1] * 10), evaluation("trained", [8] * 10 + [0] * 10)
    assert "pass@8 on hard tasks falls from 100.0 to 0.0 % (10 tasks)" in page_of(tmp_path, before, after, ks=(1, 8))
    assert "falls" not in page_of(tmp_path, after, before, ks=(1, 8))


def test_pictures_take_the_colour_of_the_page():
    picture = pass_by_difficulty([BASE, BETTER])
    assert "currentColor" in picture and "#010203" not in picture and "prefers-color-scheme: dark" in picture


def test_the_cost_of_a_run_by_hand():
    # each sweep: dev 1 * 1 and 1 * 8 samples, then greedy 20 * 1 and T 1 20 * 8, all of 20 tokens; four evaluations of 12 s
    steps = ({"step": 1.0, "loss": 1.0, "attempt_tokens": 1000.0, "seconds": 90.0, "preparing_seconds": 60.0},)
    table = cost_table((chosen("base", FEW, COLD),), ({"step": 0.0, "round": 0.0}, *steps))
    assert table.rows == (
        ("training", "1 step", "1,000 tokens trained", "2 min"),
        ("evaluation of base", "189 samples", "3,780 tokens sampled", "48 s"),
        ("sum", "", "", "3 min"),
    )
    untimed = cost_table((chosen("base", FEW, COLD),), ({"step": 1.0, "loss": 1.0, "attempt_tokens": 1000.0},)).rows
    assert [row[0] + ": " + row[3] for row in untimed] == [
        "training: –",
        "evaluation of base: 48 s",
        "sum without training: 48 s",
    ]


def test_curves_mark_where_a_run_was_stopped_and_the_limit():
    collapsed = "step 3: entropy 0.0100 nats is below monitor.min_entropy 0.02"
    assert stopped_at(collapsed) == 3 and stopped_at("") is None
    rows = tuple({"step": float(n), "loss": 1.0, "entropy": 0.1 / n} for n in (1, 2, 3))
    content = ReportContent("t", (), training=rows, limits={"entropy": 0.02}, collapsed=collapsed, kept_step=2)
    loss, entropy = map(html_of, curves_of(content, ["loss", "entropy", "ess"]))
    assert "0.1 to 0.03333; limit 0.02; kept at step 2; stopped at step 3, steps 1 to 3" in entropy
    assert entropy.count('class="mark"') == 2 and entropy.count('class="limit"') == 1 and 'class="limit"' not in loss
    assert "kept" not in html_of(curves_of(ReportContent("t", (), training=rows, kept_step=3), ["loss"])[0])


def test_a_curve_by_hand():
    """Steps 1 to 3 are 0 to 300, values 2 to 4 are 98 to 2; what is not finite is left out."""
    drawn = html_of(curve("<x>", {"": [(1, 2.0), (2, float("nan")), (2, 3.0), (3, 4.0)]}))
    assert '<polyline class="curve s0" points="0.0,98.0 150.0,50.0 300.0,2.0"/>' in drawn and "<b>&lt;x&gt;</b>" in drawn
    assert re.sub("<[^>]+>", " ", drawn).split()[-5:] == ["4", "2", "step", "1", "3"], "the ends of both axes"
    flat = html_of(curve("x", {"": [(1, 0.25), (9, 0.25)]}))
    assert flat == '<figure class="flat"><figcaption><b>x</b><span class="soft"> 0.25 throughout</span></figcaption></figure>'
    far, once = html_of(curve("x", {"": [(1, 1), (2, 1)]}, limit=2)), html_of(curve("x", {"": [(3, 0.25)]}, limit=2))
    assert "> 1 throughout; limit 2<" in far and "> 0.25 at step 3; limit 2<" in once and "<svg" not in far + once
    spike = [(step, 9.0 if step == 777 else 0.0) for step in range(5000)]
    points = re.search('points="([^"]*)"', html_of(curve("x", {"": spike})))[1].split()
    assert len(points) <= 1000 and sum(point.endswith(",2.0") for point in points) == 1, "a spike is not lost"


@pytest.mark.parametrize(
    ("gain", "beyond", "said"),
    [
        (0.5, (0.2, 0.1, 0.3), "reaches +50.0 [+40.0, +60.0] of the 70.0 points; 20.0 need the true verdicts."),
        (-0.1, (0.2, 0.1, 0.3), "reaches -10.0 [-20.0, +0.0] of the 10.0 points; 10.0 need the true verdicts."),
        (0.5, (0.1, -0.1, 0.3), "reaches +50.0 [+40.0, +60.0] of the 60.0 points; no part is shown to need the true verdicts."),
        (0.5, (-0.6, -0.7, -0.5), "gains +50.0 [+40.0, +60.0]."),
    ],
)
def test_the_share_of_a_control_in_a_gain_by_hand(gain, beyond, said):
    control = Gain("shuffled verdicts", Estimate(gain, gain - 0.1, gain + 0.1, 200), Estimate(*beyond, 200))
    assert control.share == f"Training with shuffled verdicts {said}"


@pytest.mark.parametrize(("low", "is_open"), [(-0.1, True), (0.0, True), (0.1, False)])
def test_a_large_number_is_pale_if_its_interval_contains_0(low, is_open):
    shown = html_of(large(Estimate(0.2, low, 0.4, 40), "change"))
    assert ("the interval contains 0" in shown, 'class="large soft"' in shown) == (is_open, is_open)


def test_bars_by_hand():
    """Shares are percent of the width; an interval ends where the axis ends."""
    rows = [
        ("base", "base <0>", (0.25, 0.125, 0.5), "<why>"),
        ("trained", "all", (1.0, 0.9, 1.2), ""),
        ("control", "few", (0.5, nan, nan), ""),
    ]
    drawn = html_of(bars("pass@1", rows))
    shares = re.findall(r'class="(\w+)" x="0" y="2" width="([\d.]+)"', drawn)
    assert shares == [("base", "25.0"), ("trained", "100.0"), ("control", "50.0")]
    assert re.findall(r'class="interval" x1="([\d.]+)" x2="([\d.]+)"', drawn) == [("12.5", "50.0"), ("90.0", "100.0")]
    assert 'aria-label="base &lt;0&gt;: 25.0 % [12.5, 50.0]"' in drawn and "<b>base &lt;0&gt;</b>" in drawn
    assert re.findall("<span>([^<]+)</span>", drawn) == ["0", "25", "50", "75", "100 %"], "labels of the axis"
    assert '<span class="note">&lt;why&gt;</span>' in drawn and drawn.count("note") == 1 and ">50.0 % (no interval)<" in drawn


def test_the_markdown_begins_with_the_sentence_and_escapes_what_models_write():
    content = ReportContent(
        "run_1: <before> and after",
        (chosen("base", FEW, COLD), chosen("trained", MANY, WARM)),
        (1, 8),
        collapsed="step 3: entropy is low",
        recipe_yaml="name: x",
        facts={"model": "a|b"},
        examples=(Example("t0", "say ```hi```", "a\n```\n</details>", "failed", "b", "passed"),),
    )
    lines = markdown_of(content).splitlines()
    assert lines[0] == r"## run\_1: \<before\> and after" and lines[2].startswith("**More capable: pass@1 at each model")
    text = "\n".join(lines)
    assert "**Training was stopped:** step 3" in text and r"| model | a\|b |" in text
    assert "````diff\n-a\n-```\n-</details>\n+b\n````" in text and "````text\nsay ```hi```\n````" in text
    assert text.count("<details>") == text.count("\n\n</details>") == 4
    assert fenced("yaml", "a: 1\n") == "```yaml\na: 1\n```"


def test_a_report_says_which_attempts_are_imitated():
    def fact(name, *settings):
        recipe = load_recipe(name, settings)
        return chosen_attempts(recipe.select.attempts, recipe.advantage)

    assert fact("demo") == {"attempts": "imitated where passed AND author = 'right:plain'"}
    assert fact("rloo", "select.attempts=NOT truncated") == {"attempts": "where NOT truncated"}
    assert fact("sft") == {}


def test_every_metric_of_the_documents_has_a_plain_name():
    """Reports, the viewer and comparisons name curves alike; a metric of a plug-in comes last, without underscores."""
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    names = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|(`[^|]*)\|", text, re.MULTILINE)))
    assert len(names) > 25 and {*names} <= {*CURVES} and not [label for label in CURVES.values() if "_" in label]
    assert logged([{"step": 1, "lr": 1, "loss": 2, "my_metric": 3}]) == ["loss", "lr", "my_metric"]
    assert curve_name("my_metric") == "my metric"


def test_a_report_has_no_heading_without_content(tmp_path):
    """All samples passed: no reason of failure is to be shown; a page of a conclusion alone has no contents."""
    passed = single(Evaluation("a", "m", "x:test", 1, 1, 1, 100, (TaskScore("t", "", 1, 1, {"passed": 1}),)))
    write_report(tmp_path / "r.html", ReportContent("t", (passed,)))
    page = (tmp_path / "r.html").read_text()
    assert "Why answers fail" not in page and 'aria-label="Contents"' in page
    write_report(tmp_path / "r.html", ReportContent("t", ()))
    assert 'aria-label="Contents"' not in (tmp_path / "r.html").read_text()


ROOT = Path(__file__).parents[2]
THEMES = (
    r":root \{ (?:color-scheme: light dark; )?(--ink[^}]*)",
    r"(?:prefers-color-scheme: dark\) \{ :root|data-theme=\"dark\"\]) \{ (--ink[^}]*)",
)


def test_report_viewer_and_site_have_the_same_colours_and_logo():
    """Also the bars and the plots: base, trained, control."""
    texts = [(ROOT / "src/upsolve" / name).read_text() for name in ("report/report.html.j2", "view/web/style.css")]
    for theme in THEMES:
        report, viewer = (dict(re.findall(r"(--[\w-]+): ([^;]+);", re.search(theme, text)[1])) for text in texts)
        assert report == {name: value for name, value in viewer.items() if name in report}
        assert report["--link"] in (ROOT / "docs/site.css").read_text()
    drawn = re.search(r'<path d="([^"]+)"', (ROOT / "docs/logo.svg").read_text())[1]
    assert drawn in texts[0] and drawn in (ROOT / "src/upsolve/view/web/index.html").read_text()
    style = (ROOT / "src/upsolve/report/block.css").read_text() + (ROOT / "docs/gain.svg").read_text()
    for colour in (SERIES[0], SERIES[1], CONTROL):
        assert style.count(colour) == 2, colour
