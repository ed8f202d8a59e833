"""Which sentence opens a report, worked by hand."""

from dataclasses import replace

import pytest

from upsolve.evaluate.capability import capability, conclude, solved
from upsolve.evaluate.comparison import compare
from upsolve.evaluate.scores import Evaluation, Sweep, TaskScore, best_temperature, defined_ks, pooled, single


def evaluation(passed, *, samples=8, temperature=1.0, name="m", first=0):
    scores = tuple(
        TaskScore(f"t{first + i}", "", samples, c, {"passed": c, "failed": samples - c}, mean_entropy=0.5)
        for i, c in enumerate(passed)
    )
    return Evaluation(name, "model", "x:test", temperature, 1.0, 0, 100, scores, 2.0)


def sweep(name, *, greedy, hot, dev=(0.0, 1.0)):
    """Greedy and temperature 1 on 40 tasks; greedy is the best."""
    first, last = (evaluation(x, samples=n, temperature=t, name=name) for x, n, t in ((greedy, 1, 0.0), (hot, 8, 1.0)))
    chosen = tuple(evaluation([1], samples=1, temperature=t) for t in dev)
    return Sweep(name, chosen, first, last, last, first)


HALF, MORE, LESS = [1] * 20 + [0] * 20, [1] * 32 + [0] * 8, [1] * 8 + [0] * 32
COLD, WARM = [2] * 40, [5] * 40
BASE = sweep("base", greedy=HALF, hot=COLD)


@pytest.mark.parametrize(
    ("greedy", "hot", "conclusion"),
    [
        (MORE, WARM, "more capable"),
        (MORE, COLD, "more capable"),
        (HALF, WARM, "sharper only"),
        (HALF, COLD, "no change"),
        (LESS, WARM, "worse"),
    ],
)
def test_the_conclusion_is_about_each_models_best_temperature(greedy, hot, conclusion):
    assert capability(BASE, sweep("trained", greedy=greedy, hot=hot)).conclusion == conclusion


def test_a_gain_is_vetoed_by_a_fall_of_greedy_decoding_alone():
    up, down, same = (compare(evaluation(HALF, samples=1), evaluation(x, samples=1)) for x in (MORE, LESS, HALF))
    assert conclude(up, same, same) == conclude(up, None, down) == "more capable"
    assert conclude(up, down, up) == "no change", "neither more capable nor sharper alone"
    assert conclude(same, down, up) == "sharper only" and conclude(same, up, down) == "no change"
    assert conclude(down, up, up) == "worse"
    few = compare(evaluation([0] * 5), evaluation([8] * 5))
    assert conclude(few, up, up) == "too few tasks"


def test_a_badly_chosen_temperature_of_the_baseline_is_no_gain_of_the_other_model():
    """Its dev tasks chose temperature 1, but it passes twice as many test tasks greedily, as many as the other model."""
    unlucky = replace(BASE, best=BASE.hot)
    same = capability(unlucky, sweep("trained", greedy=HALF, hot=COLD))
    assert (same.best.outcome, same.strongest.outcome, same.conclusion) == ("gain", "undecided", "no change")
    own = "; base alone reaches 50.0 % at another temperature (greedy), and compared with that value the change is +0.0 [-8.2, +8.2]"
    assert own in same.sentence
    sharper = capability(unlucky, sweep("trained", greedy=HALF, hot=WARM))
    assert sharper.conclusion == "sharper only" and "compared with that value the change is +0.0" in sharper.sentence
    warm = sweep("trained", greedy=HALF, hot=WARM)
    once = capability(unlucky, replace(warm, best=warm.hot))
    assert once.conclusion == "sharper only" and once.sentence.count("25.0") == 1, "equal comparisons are named once"
    better = capability(unlucky, sweep("trained", greedy=MORE, hot=COLD))
    assert better.conclusion == "more capable" and better.strongest.temperatures == (0.0, 0.0)
    assert "compared with that value" not in capability(BASE, sweep("trained", greedy=MORE, hot=COLD)).sentence


def test_the_temperature_for_pass_at_k_is_a_candidate_for_the_strongest():
    """The baseline passes most at T 0.6, which was chosen for its pass@k alone."""
    base = replace(BASE, best=BASE.hot, many=replace(BASE.hot, temperature=0.6, scores=evaluation([8] * 40).scores))
    found = capability(base, sweep("trained", greedy=MORE, hot=WARM))
    assert found.strongest.temperatures[0] == 0.6 and found.conclusion != "more capable"


def test_results_have_a_short_repr():
    found = capability(BASE, sweep("trained", greedy=MORE, hot=WARM))
    assert repr(found).startswith("Capability('base', 'trained', ") and found.sentence in repr(found) and len(repr(found)) < 500
    assert repr(BASE.best).endswith("temperature=0, 40 scores)") and len(repr(BASE)) < 2_000


def test_the_sentence_has_the_figures_that_decide():
    better = capability(BASE, sweep("trained", greedy=MORE, hot=WARM))
    # 12 of 40 tasks up, none down: +30 points
    assert better.sentence.startswith(
        "More capable: pass@1 at each model's own best temperature goes from 50.0 % (greedy) to 80.0 % (greedy), +30.0 [+"
    )
    sharper = capability(BASE, sweep("trained", greedy=HALF, hot=WARM)).sentence
    assert sharper.startswith(
        "Sharper only, not more capable: at T 1 pass@1 goes from 25.0 to 62.5 %, +37.5 [+26.1, +43.6] points, but"
    )
    assert sharper.endswith("goes from 50.0 % (greedy) to 50.0 % (greedy), +0.0 [-8.2, +8.2] points.")
    # one task up, one down: so t(42) sqrt((2 + 3) / 43 / 42) + 0.84 sqrt(2 / 39 / 40) = 10.6 + 3.0 points
    swapped = [1] * 19 + [0] + [1] + [0] * 19
    none = capability(BASE, sweep("trained", greedy=swapped, hot=COLD)).sentence
    assert none.startswith("No change in capability shown: ") and none.endswith(
        "40 tasks show a difference of 13.6 points in 80 % of cases."
    )
    assert capability(BASE, BASE).sentence.endswith("; no task differs.")
    few = Sweep("few", BASE.dev, *[evaluation([1] * 5)] * 3)
    assert capability(few, few).sentence == "Too few tasks to tell: pass@1 of both is known for 5 tasks, 6 are needed."


def test_an_evaluation_without_tasks_gives_no_number():
    """Where the tasks of an archive have no tests, further task sets alone are measured; the headline was "from nan to nan %"."""
    empty = replace(sweep("base", greedy=[], hot=[]), dev=())
    assert capability(empty, empty).sentence == "Too few tasks to tell: pass@1 of both is known for 0 tasks, 6 are needed."


def test_one_temperature_says_that_it_cannot_tell():
    old = [single(evaluation(passed, name=name)) for name, passed in (("base", COLD), ("trained", WARM))]
    assert capability(*old).conclusion == "one temperature"
    assert capability(*old).sentence.startswith(
        "At one temperature only, so a gain in capability cannot be told from a sharper distribution: at T 1"
    )
    assert single(evaluation(HALF, samples=1, temperature=0.0)).greedy is not None


def test_tasks_solved_by_one_and_not_by_the_other():
    found = solved(evaluation([0, 0, 3, 8, 1, 0]), evaluation([1, 8, 0, 8, 1, 0]))
    assert (found.before, found.after, found.gained, found.lost, found.samples) == (3, 4, 2, 1, 8)
    assert found.p_value == 1.0, "2 * (1 + 3) / 8"


def test_tasks_solved_are_compared_in_equally_many_samples():
    """One sample in 64 solves 30 of 40 tasks in 64 samples, and about one in 64 of them in a single sample."""
    one, many = evaluation([1] * 4 + [0] * 36, samples=1), evaluation([1] * 30 + [0] * 10, samples=64)
    found = solved(one, many)
    assert (found.before, found.samples) == (4, 1) and found.after <= 3 and found.p_value > 0.05
    assert solved(many, one).before == found.after, "the draw is the same in each call"
    assert solved(one, evaluation([64] * 40, samples=64)).after == 40


def test_other_settings_of_sampling_are_a_warning():
    trained = sweep("trained", greedy=MORE, hot=WARM)
    assert capability(BASE, trained).warnings == ()
    other = {name: replace(getattr(trained, name), max_tokens=4096, top_p=0.5) for name in ("best", "many", "hot", "greedy")}
    (warning,) = capability(BASE, replace(trained, **other)).warnings
    assert "max_tokens (100 and 4096) and top_p (1 and 0.5)" in warning


def test_a_fall_of_pass_at_k_is_a_warning():
    before, after = sweep("base", greedy=HALF, hot=[1] * 40), sweep("trained", greedy=MORE, hot=[8] * 20 + [0] * 20)
    (warning,) = capability(before, after, 8).warnings
    assert warning.startswith("pass@8 falls: ") and "100.0 % (T 1) to 50.0 % (T 1)" in warning


def test_the_best_temperature_is_that_of_the_highest_mean():
    runs = [
        evaluation([1, 0], samples=1, temperature=0.0),
        evaluation([4, 0], samples=8, temperature=0.2),
        evaluation([3, 2], samples=8, temperature=1.0),
    ]
    assert best_temperature(runs) == 0.0
    assert best_temperature(runs[1:]) == 1.0, "5 of 16 beat 4 of 16"
    assert best_temperature(runs, 8) == 1.0, "both tasks are solved; greedy decoding has no pass@8"
    assert best_temperature([runs[1], replace(runs[1], temperature=0.1)]) == 0.1, "the lowest of equals"
    assert best_temperature(runs[:1], 8) == 0.0


def test_folds_are_pooled_over_their_tasks():
    one, two = (
        Sweep("trained", (evaluation([1]),), best, many, many, None, logp, tasks)
        for best, many, logp, tasks in (
            (evaluation([8, 0], temperature=0.2), evaluation([8, 0]), -1.0, 1),
            (evaluation([4], temperature=0.6, first=2), evaluation([2], first=2), -0.5, 3),
        )
    )
    found = pooled([one, two])
    assert [score.passed for score in found.best.scores] == [8, 0, 4] and found.best.temperature is None
    assert found.hot.temperature == 1.0 and found.greedy is None and found.best.wall_seconds == 4.0
    assert (found.heldout_logp, found.heldout_tasks) == (pytest.approx(-0.625), 4)
    with pytest.raises(ValueError, match="a test task is in two folds"):
        pooled([one, one])
    with pytest.raises(ValueError, match="different temperatures"):
        pooled([one, single(evaluation([4], first=9))])
    with pytest.raises(ValueError, match="no folds"):
        pooled([])
    assert "(each fold's own T)" in capability(found, found).sentence or capability(found, found).conclusion == "too few tasks"


def test_ks_above_the_samples_are_left_out():
    assert defined_ks([BASE], (1, 4, 8, 16)) == (1, 4, 8)
    assert defined_ks([single(evaluation(HALF, samples=1))], (4, 8)) == (1,)
