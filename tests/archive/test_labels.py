"""Probability that labels are right, on made archives whose truth is known."""

import math
import sys
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from upsolve.archive.labels import Accuracies, estimate, label_rows, missed_by, read_labels
from upsolve.archive.schema import TABLES
from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.config import SelectConfig, load_recipe
from upsolve.errors import ConfigError
from upsolve.reward.judged import group_of
from upsolve.reward.selection import choose
from upsolve.train.data.groups import rewards_of, with_advantages
from upsolve.train.run.monitor import read_steps
from upsolve.types import Attempt, Finding, Group, Status, Task, Verdict

P, F = Status.PASSED, Status.FAILED


def accuracies(right, wrong, tasks=1):
    nothing = np.zeros((len(right), tasks))
    return Accuracies(np.array(right), np.array(wrong), nothing, nothing)


def parts(archive):
    return {name: archive.parts(name) for name in TABLES}


def stored(folder, programs, verdicts):
    """An archive of tasks and programs; ``verdicts``: (program, status or outcomes of its tests, judge)."""
    archive, made = Archive.create(folder), []
    for attempt, outcome, judge in verdicts:
        outcomes = () if isinstance(outcome, Status) else tuple(outcome)
        status = (P if all(one is P for one in outcomes) else F) if outcomes else outcome
        made.append(Verdict(attempt.attempt_id, status, outcomes.count(P), len(outcomes), outcomes, judge))
    tasks = dict.fromkeys(attempt.task_id for attempt in programs)
    archive.append(tasks=[Task(name, "") for name in tasks], attempts=programs, verdicts=made)
    return archive


def test_one_judge_by_hand():
    """6 of 10 passed, a = 0.9, b = 0.8: pi = (0.6 - 0.2) / 0.7 = 4/7, so P(right | passed) = 4/7 * 0.9 / 0.6 = 6/7 (Rogan and Gladen)."""
    rights = estimate(np.array([[1.0], [0.0]]), np.array([6e6, 4e6]), np.zeros(2, np.int64), accuracies([0.9], [0.8]))
    assert rights == pytest.approx([6 / 7, 4 / 7 * 0.1 / 0.4], abs=1e-4)


def test_missed_programs_by_hand():
    """4 of the wrong programs fail one of 5 tests, 2 fail two: 4/5 * 4 * 3 / (2 * 3) = 1.6 were missed."""
    assert missed_by(5, 4, 2) == pytest.approx(1.6)


def made(random, tasks, each, *, tests, fails):
    """Programs with outcomes, and whether they are right: a wrong one fails each test with probability ``fails``."""
    programs, verdicts, truth = [], [], []
    for task in range(tasks):
        share = random.random()
        for number in range(each):
            right = random.random() < share
            outcomes = [F if not right and random.random() < fails else P for _ in range(tests)]
            programs.append(Attempt(f"t{task}", f"x = {number}"))
            verdicts.append((programs[-1], outcomes, "upsolve-1"))
            truth.append(right)
    return programs, verdicts, np.array(truth)


@pytest.mark.parametrize(
    ("tests", "fails", "seed"),
    [
        (8, 0.25, 0),
        (4, 0.4, 2),
        *(pytest.param(8, fails, seed, marks=pytest.mark.slow) for fails, seed in ((0.25, 1), (0.6, 3))),
    ],
)
def test_weak_tests_are_known_by_what_they_barely_catch(tmp_path, tests, fails, seed):
    """From 0.1 % to 13 % of wrong programs pass all tests; without an estimate every label would count as right."""
    programs, verdicts, truth = made(np.random.default_rng(seed), 40, 40, tests=tests, fails=fails)
    archive = stored(tmp_path, programs, verdicts)
    labels = read_labels(parts(archive))
    judged = {verdict.attempt_id: verdict for verdict in archive.verdicts()}
    passed = np.array([judged[program.attempt_id].status is P for program in programs])
    rights = np.array([labels.label_right(judged[program.attempt_id]) for program in programs])
    assert rights[passed].mean() == pytest.approx(truth[passed].mean(), abs=0.035)
    doubted = passed & (rights < 0.9)
    assert doubted.sum() < 50 or abs(rights[doubted].mean() - truth[doubted].mean()) < 0.1
    (row,) = label_rows(parts(archive))
    wrong = Counter(program.task_id for program, right in zip(programs, passed, strict=True) if not right)
    assert row.failed == len(programs) - row.passed == wrong.total()
    assert row.caught == sum(count for count in wrong.values() if count >= 3)
    assert (row.passed, row.passed_right) == (passed.sum(), pytest.approx(rights[passed].mean(), abs=1e-6))


def test_tests_written_against_the_only_wrong_program_show_nothing_of_others(tmp_path):
    """30 fixes, as commits have them: the program before fails one test of nine, the program after passes. No label is doubted because of that."""
    pairs = [(Attempt(f"t{n}", f"x = {n}"), Attempt(f"t{n}", f"y = {n}")) for n in range(30)]
    verdicts = [
        (one, outcomes, "recorded:git") for pair in pairs for one, outcomes in zip(pair, ([F] + [P] * 8, [P] * 9), strict=True)
    ]
    (row,) = label_rows(parts(stored(tmp_path, [one for pair in pairs for one in pair], verdicts)))
    assert (row.passed, row.caught) == (30, 0) and row.passed_right > 0.9


def test_accuracies_of_three_judges_are_learned_from_their_votes(tmp_path):
    """One judge passes 40 % of wrong programs: its pass against two others is worth little, and the bins are calibrated."""
    random = np.random.default_rng(5)
    programs = [Attempt("t", f"x = {number}") for number in range(3000)]
    truth = random.random(3000) < 0.4
    rates = {"good": (0.98, 0.97), "lenient": (0.98, 0.6), "strict": (0.8, 0.98)}
    verdicts = [
        (program, P if random.random() < (a if right else 1 - b) else F, judge)
        for judge, (a, b) in rates.items()
        for program, right in zip(programs, truth, strict=True)
    ]
    archive = stored(tmp_path, programs, verdicts)
    found = archive.query("select attempt_id, p_right, passes, fails from labels").to_pydict()
    p_right = dict(zip(found["attempt_id"], found["p_right"], strict=True))
    rights = np.array([p_right[program.attempt_id] for program in programs])
    for low, high in ((0, 0.1), (0.1, 0.9), (0.9, 1)):
        inside = (rights >= low) & (rights <= high)
        assert rights[inside].mean() == pytest.approx(truth[inside].mean(), abs=0.1)
    assert ((rights > 0.5) == truth).mean() > 0.96
    assert not any(row.caught for row in label_rows(parts(archive)))
    by_judge = {row.judge: row for row in label_rows(parts(archive))}
    assert by_judge["lenient"].passed_right == pytest.approx(0.4 * 0.98 / (0.4 * 0.98 + 0.6 * 0.4), abs=0.04)


def test_flips_lower_every_label_of_the_judge_and_a_contradiction_is_no_vote(tmp_path):
    """Each program judged twice, a tenth of the pairs differ: e = (1 - sqrt(0.8)) / 2 = 0.053."""
    programs = [Attempt("t", f"x = {number}") for number in range(200)]
    twice = [(program, status, "ours") for program in programs for status in (P, P if programs.index(program) % 10 else F)]
    twice += [(Attempt("t", f"y = {number}"), F, "ours") for number in range(200)]
    archive = stored(tmp_path / "flips", [*programs, *dict.fromkeys(pair[0] for pair in twice[400:])], twice)
    labels = read_labels(parts(archive))
    failed = Verdict(twice[-1][0].attempt_id, F)
    flips = (1 - math.sqrt(1 - 2 * (20 + 10 * 0.0198) / 210)) / 2  # shrunk to 1 % flips, as if 10 programs had shown it
    pi, b = 180 / 380, 1 - (0.05 + flips - 0.1 * flips)
    exact = (1 - pi) * b / ((1 - pi) * b + pi * flips)
    assert labels.label_right(failed) == pytest.approx(exact, abs=0.01)
    flipped = labels.label_right(Verdict(programs[0].attempt_id, F))
    assert 0.3 < flipped < 0.7 < labels.label_right(Verdict(programs[1].attempt_id, P))
    flaky = Verdict(programs[1].attempt_id, P, judge="ours", findings=(Finding("flaky", "outcome", "", 1),))
    archive.append(verdicts=[flaky])
    assert read_labels(parts(archive)).label_right(flaky) < 0.7


def test_what_has_no_label_has_no_probability(tmp_path):
    program, other = Attempt("t", "x"), Attempt("t", "y")
    archive = stored(tmp_path / "some", [program, other], [(program, P, "a")])
    archive.append(verdicts=[Verdict(other.attempt_id, Status.UNSCORED, judge="a")])
    (group,) = archive.groups(labels=True)
    assert group.label_right[0] > 0.9 and group.label_right[1] is None and not archive.groups()[0].label_right
    assert group_of(group, [1]).label_right == (None,)
    with pytest.raises(ValueError, match="2 attempts, 2 verdicts, 1 probabilities"):
        Group(group.task, group.attempts, group.verdicts, (0.5,))
    empty = Archive.create(tmp_path / "empty")
    assert label_rows(parts(empty)) == [] and empty.query("select * from labels").num_rows == 0


def judged_archive(folder):
    """Tasks with programs of which some pass by weak tests."""
    programs, verdicts, _ = made(np.random.default_rng(1), 12, 12, tests=6, fails=0.3)
    return stored(folder, programs, verdicts)


def test_selection_reads_it_and_weighs_advantages_by_it(tmp_path):
    archive, recipe = judged_archive(tmp_path), load_recipe("rloo")
    groups = archive.groups(labels=True)
    rewarded = rewards_of(groups, recipe.reward, recipe.verify)
    config = SelectConfig(attempts="label_right > 0.9", weight="label_right")
    chosen = choose(rewarded, config).rewarded
    assert all(p > 0.9 for item in chosen for p in item.group.label_right)
    assert [item.weights_G.tolist() for item in chosen] == [pytest.approx(item.group.label_right) for item in chosen]
    unweighted = choose(rewarded, SelectConfig(attempts="label_right > 0.9")).rewarded
    for item, other in zip(chosen, unweighted, strict=True):
        plain = with_advantages(other, recipe.advantage, seed=0).advantages_G
        weighted = with_advantages(item, recipe.advantage, seed=0).advantages_G
        assert weighted == pytest.approx(plain * item.group.label_right)
    with pytest.raises(ConfigError, match="select.weight: 'label_right' is None"):
        choose(rewards_of(archive.groups(), recipe.reward, recipe.verify), SelectConfig(weight="label_right"))


def test_exports_have_it(tmp_path):
    export_archive = pytest.importorskip("upsolve.exports.exporting").export_archive
    export_archive(judged_archive(tmp_path / "archive"), tmp_path / "kto", "kto")
    table = pq.read_table(tmp_path / "kto" / "train.parquet").to_pydict()
    assert all(0.3 < value <= 1 for value in table["label_right"]) and len(set(table["label_right"])) > 4


def test_a_run_trains_on_advantages_weighed_by_it(tmp_path, tiny_model, monkeypatch):
    archive, losses = judged_archive(tmp_path / "archive"), []
    given = ["rloo", "--archive", str(archive.path), "--model", tiny_model, "--set", "data.train=0.9", "--set", "data.dev=0.01"]
    given += ["--set", "optim.max_steps=2", "--set", "optim.epochs=2", "--set", "data.group_size=2"]
    for weight in ("label_right", "1"):
        out = tmp_path / f"run{weight}"
        monkeypatch.setattr(sys, "argv", ["upsolve", "train", *given, "--set", f"select.weight='{weight}'", "--out", str(out)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        losses.append([row.get("loss") for row in read_steps(out / "metrics.jsonl")])
    assert len(losses[0]) >= 2 and losses[0] != losses[1]
