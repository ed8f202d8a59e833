from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upsolve.config import Recipe
from upsolve.config.recipe import load_recipe
from upsolve.config.select import edit_distance
from upsolve.errors import ConfigError
from upsolve.policy.model import load_codec
from upsolve.reward.formula import reward
from upsolve.train.data.encode import (
    Encoding,
    build_pairs,
    draw_pairs,
    encode_groups,
    focal_weights,
    ranked_pairs,
    tokenize_groups,
)
from upsolve.types import Attempt, Group, Status, Task, Verdict

PASSED, FAILED, UNSCORED = Status.PASSED, Status.FAILED, Status.UNSCORED


def group(*rows):
    """A group from (code, status, cpu_seconds); status None: not judged."""
    attempts = tuple(Attempt("t", code) for code, _, _ in rows)
    verdicts = tuple(
        None if status is None else Verdict(a.attempt_id, status, cpu_seconds=seconds)
        for a, (_, status, seconds) in zip(attempts, rows, strict=True)
    )
    return Group(Task("t", "say"), attempts, verdicts)


MIXED = group(
    ("return a + b", PASSED, 0.5),
    ("return a - b", FAILED, 0.1),
    ("return sum([a, b])", PASSED, 0.2),
    ("return sum([a])", FAILED, 0.1),
    ("return 7", UNSCORED, None),
    ("return 8", None, None),
)


def ranked(group, *kinds):
    return ranked_pairs(reward(group, Recipe().reward), kinds)


def pairs_by(group, kind):
    return [pair for _, pair in ranked(group, kind)[0]]


def build(group, *kinds, seed=0, max_pairs=9):
    return build_pairs(ranked(group, *kinds), np.random.default_rng(seed), max_pairs=max_pairs)


def test_outcome_pairs_are_passed_before_failed():
    assert pairs_by(MIXED, "outcome") == [(0, 1), (0, 3), (2, 1), (2, 3)]
    assert pairs_by(group(("x", PASSED, 0.1), ("x", FAILED, 0.1)), "outcome") == []


def test_efficiency_pairs_are_the_clearly_faster_among_passed():
    assert pairs_by(MIXED, "efficiency") == [(2, 0)]  # 0.2 s is at most half of 0.5 s
    assert pairs_by(group(("x", PASSED, 0.3), ("y", PASSED, 0.5), ("z", PASSED, None)), "efficiency") == []
    assert pairs_by(group(("x", PASSED, 0.0), ("y", PASSED, 0.0)), "efficiency") == []
    made = group(("x", PASSED, 0.001), ("y", PASSED, 0.003), ("z", PASSED, 0.05))  # the last with the start of its process
    costs = [replace(verdict, isolation="cost") for verdict in made.verdicts[:2]]
    assert pairs_by(replace(made, verdicts=(*costs, made.verdicts[2])), "efficiency") == [(0, 1)]


def test_edit_pairs_prefer_the_smallest_edit():
    # + to -: 1; "sum([a, b])" to "sum([a])": 3 removed; so many more between the others that they come last
    ranks = {pair: rank for rank, pair in ranked(MIXED, "edit")[0]}
    assert ranks[0, 1] == 1 and ranks[2, 3] == 2 and min(ranks[0, 3], ranks[2, 1]) > 2
    assert build(MIXED, "edit", max_pairs=1) == [(0, 1)]
    assert build(MIXED, "edit") == [(0, 1), (2, 3)]


def test_reward_pairs_prefer_the_largest_difference():
    # outcomes: passed 1, failed -0.1, timeout -0.5
    attempts = group(("a", PASSED, 0.1), ("b", FAILED, 0.1), ("c", Status.TIMEOUT, 0.1))
    assert ranked(attempts, "reward") == [[(2, (0, 1)), (1, (0, 2)), (3, (1, 2))]]


def test_conditions_read_columns_of_both_attempts():
    near = "chosen.passed and not rejected.passed and edit_distance(chosen.code, rejected.code) < 3"
    assert pairs_by(MIXED, near) == [(0, 1)]
    assert pairs_by(MIXED, "chosen.passed OR rejected.passed AND 0") == [(0, 1), (0, 2), (0, 3), (2, 0), (2, 1), (2, 3)]
    by_two = "chosen.passed AND rejected.status = 'failed' ORDER BY rejected.length, chosen.length DESC"
    # lengths 12, 12, 18 and 15
    assert ranked(MIXED, by_two) == [[(2, (0, 1)), (4, (0, 3)), (1, (2, 1)), (3, (2, 3))]]
    assert pairs_by(MIXED, "chosen.code LIKE '%order by (%' AND chosen.pass_rate = 0.5") == []
    assert len(pairs_by(MIXED, "chosen.pass_rate = 0.5")) == 12


def test_kinds_of_pairs_take_turns():
    # efficiency has the pair (2, 0) alone, which leaves no passed attempt for outcome
    assert build(MIXED, "efficiency", "outcome") == [(2, 0)]
    assert build(MIXED, "edit", "efficiency", max_pairs=2) == [(0, 1), (2, 3)]  # efficiency has no pair left at its turn
    more = group(("p", PASSED, 0.4), ("q", PASSED, 0.1), ("r", PASSED, 0.3), ("s", FAILED, 0.1), ("t", FAILED, 0.1))
    first, second, *rest = build(more, "efficiency", "outcome")
    assert first in {(1, 0), (1, 2)} and second[0] == 2 - first[1] and second[1] in {3, 4} and not rest


def old_outcome(group):
    passed = [v is not None and v.status is PASSED for v in group.verdicts]
    failed = [v is not None and v.status not in (PASSED, UNSCORED) for v in group.verdicts]
    pairs = [(i, j) for i in range(len(passed)) for j in range(len(passed)) if passed[i] and failed[j]]
    return [(0.0, (i, j)) for i, j in pairs if group.attempts[i].code != group.attempts[j].code]


def old_edit(group):
    codes = [attempt.code for attempt in group.attempts]
    return [(float(edit_distance(codes[i], codes[j])), (i, j)) for _, (i, j) in old_outcome(group)]


def old_efficiency(group):
    times = [(i, v.cpu_seconds) for i, v in enumerate(group.verdicts) if v.status is PASSED and v.cpu_seconds is not None]
    return [(0.0, (i, j)) for i, fast in times for j, slow in times if fast < slow and fast <= 0.5 * slow]


ROW = st.tuples(st.text("ab", max_size=4), st.sampled_from([PASSED, FAILED]), st.sampled_from([None, 0.0, 0.1, 0.2, 0.3]))


@given(st.lists(ROW, min_size=1, max_size=6, unique_by=lambda row: row[0]), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_stored_queries_give_the_pairs_of_their_definitions(rows, seed):
    made = group(*rows)
    for kind, old in (("outcome", old_outcome), ("edit", old_edit), ("efficiency", old_efficiency)):
        assert build(made, kind, seed=seed) == build_pairs([old(made)], np.random.default_rng(seed), max_pairs=9)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ("chosen.pased AND rejected.passed", "no such column: chosen.pased; a pair is one of"),
        ("efficency", "no such column: efficency; a pair is one of edit, efficiency, outcome, reward"),
        ("passed", "ambiguous column name: passed"),
        ("chosen.start_logp > -1", "start_logp: available only in the keys of select"),
        ("random() > 0", "not authorized"),
        ([], "at least one kind"),
        (["edit", "edit"], "each only once"),
    ],
)
def test_a_kind_of_pairs_that_cannot_be_read_is_one_error(kinds, said):
    with pytest.raises(ConfigError) as error:
        load_recipe(
            "dpo",
            [f"objective.preference.pairs={kinds!r}" if isinstance(kinds, list) else f"objective.preference.pairs={kinds}"],
        )
    assert "objective.preference.pairs" in str(error.value) and said in str(error.value)
    if "no such column" in said:
        assert "cpu_seconds, created, difficulty" in str(error.value)


def test_the_generator_decides_and_no_attempt_is_paired_twice():
    seen = set()
    for seed in range(20):
        pairs = build(MIXED, "outcome", seed=seed)
        assert pairs == build(MIXED, "outcome", seed=seed)
        seen.add(tuple(sorted(pairs)))
    assert seen == {((0, 1), (2, 3)), ((0, 3), (2, 1))}


def test_edit_distance_by_hand():
    # kitten: k to s, e to i, g appended
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3 and edit_distance("abc", "") == 3


def slow_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return slow_distance(a[1:], b[1:])
    return 1 + min(slow_distance(a[1:], b), slow_distance(a, b[1:]), slow_distance(a[1:], b[1:]))


@given(st.text("ab", max_size=5), st.text("abc", max_size=5))
def test_edit_distance_is_the_definition(a, b):
    assert edit_distance(a, b) == slow_distance(a, b)


def test_focal_weights_by_hand():
    code, other = "a = 1\nb = 2\nc = 3", "a = 1\nb = 9\nc = 3"
    # tokens "a = 1\n", "b", " = 2", "\nc", " = 3", "\n```": the second line is characters 6 to 12, with its line end
    offsets = [(0, 6), (6, 7), (7, 11), (11, 13), (13, 17), (17, 21)]
    assert focal_weights(code, other, offsets).tolist() == [0, 1, 1, 1, 0, 0]
    assert focal_weights(code, other, offsets, inside=2.0, outside=1.0).tolist() == [1, 2, 2, 2, 1, 1]


def test_what_only_the_other_has_leaves_no_token_to_weigh():
    offsets = [(0, 5), (5, 9)]
    assert focal_weights("a = 1", "a = 1", offsets).tolist() == [0, 0]
    assert focal_weights("a = 1\nb = 2", "b = 2", [(0, 6), (6, 11), (11, 15)]).tolist() == [1, 0, 0]
    assert focal_weights("b = 2", "a = 1\nb = 2", offsets).tolist() == [0, 0]
    assert focal_weights("b = 2", "b = 2\na = 1", offsets).tolist() == [0, 0]  # a line end more is no edit


@pytest.mark.slow
def test_focal_weights_on_a_real_tokenizer():
    codec = load_codec("smollm2-135m")
    code, other = "s = 'é→日'\nreturn s[0]\nprint(s)", "s = 'é→日'\nreturn s[1]\nprint(s)"
    weights = focal_weights(code, other, codec.offsets(code))
    ids = codec.completion(code)
    edited = codec.tokenizer.decode([token for token, weight in zip(ids, weights, strict=True) if weight])
    assert edited.strip() == "return s[0]"


@pytest.mark.parametrize("kind", ["outcome", "efficiency", "edit"])
def test_a_group_without_a_difference_gives_no_pair(kind):
    assert build(group(("x", PASSED, 0.1), ("y", PASSED, 0.1)), kind) == []


def pairs_of(groups, recipe):
    rewarded = [reward(each, recipe.reward) for each in groups]
    return draw_pairs(rewarded, recipe.data, recipe.objective.preference.pairs, epoch=0)


def encoded(groups, codec, recipe):
    config = Encoding(codec, recipe.data.max_tokens, recipe.reward, recipe.advantage, recipe.objective)
    return encode_groups(tokenize_groups(pairs_of(groups, recipe).groups, config), config)[:2]


def test_pairs_are_drawn_from_every_task_and_counted():
    recipe = Recipe.model_validate({"objective": {"kind": "dpo"}, "data": {"groups_per_task": 4}})
    made = pairs_of([MIXED, group(("x", PASSED, 0.1), ("y", PASSED, 0.1))], recipe)
    assert len(made.groups) == 2
    assert all([v.status for v in one.group.verdicts] == [PASSED, FAILED] for one in made.groups)
    assert made.left_out == {
        "attempts: no reward for unscored": 1,
        "attempts: not judged": 1,
        "tasks: no pair by outcome": 1,
    }


def test_focal_pairs_weigh_their_edited_lines(tiny_model):
    codec = load_codec(tiny_model)
    pair = group(("a = 1\nb = 2", PASSED, 0.1), ("a = 1\nb = 3", FAILED, 0.1))
    recipe = Recipe.model_validate({"objective": {"kind": "dpo", "preference": {"focal": True}}})
    chosen, rejected = encoded([pair], codec, recipe)[0][0].attempts
    # every letter is a token: 6 of the first line, 5 of the second, then the fence
    assert chosen.advantages_R.tolist() == [0.0] * 6 + [1.0] * 5 + [0.0] * 4
    assert rejected.advantages_R.tolist() == [0.0] * 6 + [-1.0] * 5 + [0.0] * 4


@pytest.mark.parametrize("focal", [False, True])
@pytest.mark.parametrize("overlong", [0, 1])
def test_a_pair_that_loses_one_side_is_left_out(tiny_model, focal, overlong):
    codec = load_codec(tiny_model)
    codes = [code * (50 if side == overlong else 1) for side, code in enumerate(("a = 1", "a = 2"))]
    pair = group((codes[0], PASSED, 0.1), (codes[1], FAILED, 0.1))
    size = len(codec.prompt(Task("t", "say")).ids_P) + 30
    recipe = Recipe.model_validate({"objective": {"kind": "dpo", "preference": {"focal": focal}}, "data": {"max_tokens": size}})
    kept, left_out = encoded([pair], codec, recipe)
    assert not kept and left_out == {"attempts: over max_tokens": 1, "attempts: no other attempt to compare with": 1}
