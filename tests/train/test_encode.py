"""Encoding of groups: attempts left out before the baseline, denominators, log-probabilities of the sampler."""

import warnings
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from upsolve.advantage.table import Advantage
from upsolve.config import AdvantageConfig, DataConfig, MonitorConfig, ObjectiveConfig, OptimConfig, RewardConfig, SelectConfig
from upsolve.policy.tokens import EncodedPrompt
from upsolve.reward.formula import Rewarded, reward
from upsolve.reward.judged import Part
from upsolve.train.data.drawn import DrawnGroups
from upsolve.train.data.encode import (
    EncodedAttempt,
    EncodedGroup,
    Encoding,
    encode_attempt,
    encode_groups,
    mean,
    prompts_of,
    tokenize_groups,
)
from upsolve.train.data.groups import TrainGroup, behavior_logps, group_seed
from upsolve.train.data.pack import pack
from upsolve.train.data.sources import RoundGroups
from upsolve.train.loop import form_groups
from upsolve.train.run.monitor import warn_of
from upsolve.train.run.steps import heldout_batches
from upsolve.train.update.step import Tally, denominators, drift_metrics
from upsolve.types import Attempt, Group, Status, Task, Turn, Verdict


class Letters:
    """A codec whose tokens are characters: the prompt has 2."""

    answers = False

    @property
    def failing(self):
        return self

    def prompts(self, asked):
        return [EncodedPrompt(task.task_id, (7, 7) + (8,) * len(turns)) for task, turns, _ in asked]

    def prefix_of(self, attempt):
        return attempt.prefix

    def ids_of_all(self, attempts):
        return [self.ids_of(attempt) for attempt in attempts]

    def ids_of(self, attempt):
        return attempt.token_ids or tuple(map(ord, attempt.code))

    def spans_of(self, attempt):
        return [(i, i + 1) for i in range(len(attempt.code))]


def group(codes, rewards, weights=None, **first):
    """A group in which attempts with a reward of 1 passed."""
    task = Task("t", "say")
    attempts = tuple(Attempt("t", code, **(first if i == 0 else {})) for i, code in enumerate(codes))
    statuses = [Status.PASSED if value == 1 else Status.FAILED for value in rewards]
    verdicts = tuple(Verdict(a.attempt_id, status) for a, status in zip(attempts, statuses, strict=True))
    weights_G = None if weights is None else np.array(weights)
    terms = ((),) * len(codes)
    return Rewarded(Group(task, attempts, verdicts), np.array(rewards), terms, Counter(), Counter(), weights_G)


def advantages(encoded):
    return [float(one.advantages_R[0]) for group in encoded for one in group.attempts]


def encode(*groups, kind="centred", objective="reinforce", max_tokens=10, kl=0.0, focal=False, advantage=None, **rewarding):
    loss = ObjectiveConfig(kind=objective, kl={"coefficient": kl}, preference={"focal": focal})
    config = Encoding(Letters(), max_tokens, RewardConfig(**rewarding), AdvantageConfig(kind=kind, **advantage or {}), loss)
    encoded, left_out, _ = encode_groups(tokenize_groups(groups, config), config)
    return encoded, left_out


def judged(one, *changes):
    """The group with fields of its verdicts changed."""
    verdicts = tuple(replace(v, **change) for v, change in zip(one.group.verdicts, changes, strict=True))
    return replace(one, group=replace(one.group, verdicts=verdicts))


def test_the_baseline_holds_only_attempts_that_are_trained_on():
    # mean of all four 0.5; without the one of 20 tokens 1/3
    encoded, left_out = encode(group(["aa", "bbb", "c" * 20, "d"], [1.0, 0.0, 1.0, 0.0]))
    assert advantages(encoded) == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert left_out == {"attempts: over max_tokens": 1}
    # only equal rewards are left: nothing to learn
    encoded, left_out = encode(group(["aa", "bbb", "c" * 20], [0.0, 0.0, 1.0]))
    assert encoded == [] and left_out == {"attempts: over max_tokens": 1, "attempts: zero advantage": 2}


def test_attempts_without_ids_are_left_out_with_the_reason(monkeypatch):
    monkeypatch.setattr(Letters, "ids_of", lambda _, attempt: () if "!" in attempt.code else tuple(map(ord, attempt.code)))
    encoded, left_out = encode(group(["aa", "b!", "", "d"], [1.0, 1.0, 0.0, 0.0]))
    assert left_out == {"attempts: the tokenizer cannot express it": 1, "attempts: empty": 1}
    assert advantages(encoded) == pytest.approx([1 / 2, -1 / 2])


def test_weights_of_a_group_with_an_overlong_attempt_do_not_change():
    # 1 - 1/3 times 0.5, 0 - 1/3 times 2 and 0.25
    encoded, _ = encode(group(["aa", "bbb", "c" * 20, "d"], [1.0, 0.0, 1.0, 0.0], [0.5, 2.0, 7.0, 0.25]))
    assert advantages(encoded) == pytest.approx([1 / 3, -2 / 3, -1 / 12])


@pytest.mark.parametrize("overlong", [False, True])
def test_advantages_are_those_of_the_round(tmp_path, overlong):
    """PKPO of one passed among four: k is 2 in the first epoch and 1 in the second, whether an attempt is too long or not."""
    one = group(["aa", "b", "c", "dd"] + ["e" * 20] * overlong, [1.0, 0.0, 0.0, 0.0] + [1.0] * overlong)
    annealed = AdvantageConfig(kind="pkpo", options={"k": 2}, options_end={"k": 1})
    config = Encoding(Letters(), 10, RewardConfig(), annealed, ObjectiveConfig())
    for number, wanted in enumerate(([2, -2 / 3, -2 / 3, -2 / 3], [1, -1 / 3, -1 / 3, -1 / 3])):
        encoded, _, trained = encode_groups(tokenize_groups([one], config), config.at(number, rounds=2))
        DrawnGroups(tmp_path, by_token=False).record(number, trained)
        assert advantages(encoded) == pytest.approx(wanted)
        assert pq.read_table(tmp_path / f"{number:08}.parquet")["advantage"].to_pylist() == pytest.approx(wanted)


def test_soft_values_are_of_the_same_attempts():
    encoded, _ = encode(group(["aa", "b", "c" * 20], [1.0, 0.0, 1.0]), objective="oapl")
    assert [one.value for one in encoded[0].attempts] == pytest.approx([0.3798855, -0.6201145])  # V = log((e + 1) / 2)


def test_a_group_in_which_nothing_fits_is_left_out():
    encoded, left_out = encode(group(["a" * 20, "b" * 20], [1.0, 0.0]))
    assert encoded == [] and left_out["attempts: over max_tokens"] == 2


def test_attempts_with_advantage_zero_count_in_the_denominators():
    encoded, left_out = encode(group(["aa", "bbb", "cccc"], [1.0, 0.5, 0.0]))
    assert left_out == {"attempts: zero advantage": 1} and len(encoded[0].attempts) == 2
    assert (encoded[0].zero_attempts, encoded[0].zero_tokens) == (1, 3)
    assert denominators([pack([encoded])]) == (3, 9)  # three attempts, 2 + 3 + 4 tokens
    assert denominators([pack([encoded]), pack([encoded])]) == (6, 18)


def test_imitation_averages_over_what_it_imitates():
    one = group(["aa", "bbb", "cccc"], [1.0, 0.0, 0.0])
    encoded, _ = encode(one, kind="passed")
    assert denominators([pack([encoded])]) == (1, 2)
    penalised, _ = encode(one, kind="passed", kl=1e-12)
    assert denominators([pack([penalised])]) == (1, 2), "a KL term, however small, adds no attempt to the data set"


def test_a_kl_term_is_over_attempts_with_advantage_zero_too():
    encoded, _ = encode(group(["aa", "bbb", "cccc"], [1.0, 0.5, 0.0]), kl=0.1)
    assert len(encoded[0].attempts) == 3 and denominators([pack([encoded])]) == (3, 9)


def test_log_probabilities_of_the_sampler_reach_the_tokens():
    one = group(["aa", "bbb"], [1.0, 0.0], token_ids=(97, 97), token_logps=(-0.5, -0.25), behavior_logp=-0.75)
    batch = pack([encode(one)[0]])
    assert batch.sampler_logp_T[:2].tolist() == [-0.5, -0.25] and np.isnan(batch.sampler_logp_T[2:]).all()


def test_copies_take_the_log_probabilities_of_the_one_that_has_them():
    one = group(["aa", "aa", "b"], [1.0, 1.0, 0.0])
    sampled = Attempt("t", "aa", token_ids=(97, 97), token_logps=(-0.5, -0.25))
    attempts = (one.group.attempts[0], sampled, one.group.attempts[2])
    one = replace(one, group=Group(one.group.task, attempts, one.group.verdicts))
    (first, _) = encode(one)[0][0].attempts
    assert first.count == 2 and first.sampler_logps_R.tolist() == [-0.5, -0.25]


def test_drift_is_a_mean_over_known_tokens_and_warned_of():
    from upsolve.objective.ratio import Drift

    tally = Tally(tokens=10, corrected=2, drifts=[Drift(2, 1.0, 0.2, 0.75), Drift(2, 0.6, 0.0, 0.5), Drift(0, 0.0, 0.0, 0.0)])
    row = drift_metrics(tally)
    assert row == pytest.approx({"drift": 0.4, "drift_k3": 0.05, "drift_max": 0.75, "sampler_known": 0.4, "corrected": 0.2})
    assert drift_metrics(Tally(tokens=10)) == {}
    plain = ObjectiveConfig(kind="ppo_clip")
    with pytest.warns(UserWarning, match="step 3: sampler and trainer differ by 0.400 nats per token.*; set objective.corr"):
        warn_of({"step": 3.0, **row}, MonitorConfig(max_drift=0.3), plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of({"step": 3.0, **row}, MonitorConfig(), plain)
        warn_of({"step": 3.0}, MonitorConfig(), plain)


@pytest.mark.parametrize("settings", [{"correction": {"kind": "tis"}}, {"kind": "nft"}])
def test_a_correction_is_advised_only_where_it_can_be_set(settings):
    """It is set already, or the loss is of whole attempts."""
    row = {"step": 3.0, "drift": 0.9, "corrected": 0.2}
    with pytest.warns(UserWarning, match="differ by 0.900") as told:
        warn_of(row, MonitorConfig(), ObjectiveConfig(**{"kind": "ppo_clip", **settings}))
    message = str(told[0].message)
    assert "set objective.correction" not in message and "temperature 1" in message
    assert ("cut 20% of the weights" in message) is ("correction" in settings)


def test_groups_without_zeros_are_as_before():
    plain = EncodedGroup((1,), (EncodedAttempt((2, 3), np.ones(2, np.float32), count=2),))
    assert denominators([pack([[plain]])]) == (2, 4)


def by_logp(inputs, _config):
    """An estimator that reads all that it is given."""
    return inputs.logp_G + inputs.seed % 1000


def estimated(rewarded, data_seed=3, max_tokens=100):
    data, config = DataConfig(group_size=2, seed=data_seed), AdvantageConfig(kind=Advantage(by_logp))
    stages = {"data": data, "advantage": config, "objective": ObjectiveConfig(), "select": SelectConfig()}
    formed = form_groups([rewarded], [rewarded], RoundGroups(0, most_stored=1), **stages)
    encoding = Encoding(Letters(), max_tokens, RewardConfig(), config, ObjectiveConfig(), data_seed)
    return sorted(
        encode_groups(tokenize_groups(formed.groups, encoding), encoding).trained, key=lambda one: len(one.group.attempts)
    )


def test_estimators_get_the_authors_log_probabilities_and_a_seed_for_the_group():
    task = Task("t", "say")
    attempts = tuple(Attempt("t", code, behavior_logp=logp) for code, logp in (("a", -1.0), ("b" * 20, -2.0), ("c", -4.0)))
    statuses = (Status.PASSED, Status.FAILED, Status.FAILED)
    verdicts = tuple(Verdict(a.attempt_id, status) for a, status in zip(attempts, statuses, strict=True))
    rewarded = reward(Group(task, attempts, verdicts), RewardConfig())
    drawn, whole = estimated(rewarded)
    seeds = [group_seed(one.group, 3) for one in (drawn, whole)]
    for one, seed in zip((drawn, whole), seeds, strict=True):
        assert one.advantages_G.tolist() == [attempt.behavior_logp + seed % 1000 for attempt in one.group.attempts]
    assert [len(one.group.attempts) for one in (drawn, whole)] == [2, 3] and seeds[0] != seeds[1]
    again, other = estimated(rewarded), estimated(rewarded, data_seed=4)
    assert [one.advantages_G.tolist() for one in again] == [drawn.advantages_G.tolist(), whole.advantages_G.tolist()]
    assert other[1].advantages_G.tolist() != whole.advantages_G.tolist()
    # the second attempt is too long: the advantages of the others are those of a group of two
    shorter = estimated(rewarded, max_tokens=10)[-1]
    assert shorter.advantages_G.tolist() == [logp + group_seed(shorter.group, 3) % 1000 for logp in (-1.0, -4.0)]


@pytest.mark.parametrize(("status", "batches"), [(Status.FAILED, 1), (Status.UNSCORED, 0)])
def test_unscored_attempts_are_no_failed_ones_of_the_monitors(status, batches):
    attempts = (Attempt("t", "a"), Attempt("t", "b"))
    verdicts = (Verdict(attempts[0].attempt_id, Status.PASSED), Verdict(attempts[1].attempt_id, status))
    one = Group(Task("t", "say"), attempts, verdicts)
    assert len(heldout_batches([one], Letters(), OptimConfig(), max_pairs=4, max_tokens=10)) == batches


def test_monitors_read_attempts_in_the_language_that_the_task_asks_for():
    """Training does not use others, since the prompt asks for another language."""
    attempts = tuple(
        Attempt("t", code, name) for code, name in (("a", "python"), ("b", "python3"), ("cc", "cpp"), ("dd", "cpp"))
    )
    statuses = (Status.PASSED, Status.FAILED, Status.PASSED, Status.FAILED)
    verdicts = tuple(Verdict(one.attempt_id, status) for one, status in zip(attempts, statuses, strict=True))
    one = Group(Task("t", "say", language=""), attempts, verdicts)
    (batch,) = heldout_batches([one], Letters(), OptimConfig(), max_pairs=4, max_tokens=10)
    assert sorted(zip(batch.target_T.tolist(), batch.advantages_T.tolist(), strict=True)) == [(ord("a"), 1.0), (ord("b"), -1.0)]


def test_unknown_log_probabilities_are_nan():
    assert np.isnan(behavior_logps([Attempt("t", "a")])).all() and behavior_logps([]).shape == (0,)


def test_the_longest_attempt_fills_max_tokens():
    encoded, left_out = encode(group(["a" * 8, "b" * 9, "c"], [1.0, 1.0, 0.0]))
    assert [len(one.ids_R) for one in encoded[0].attempts] == [8, 1] and encoded[0].tokens == 2 + 8 + 1
    assert left_out == {"attempts: over max_tokens": 1}


def test_a_negative_advantage_stays_where_the_nearest_passed_program_is_left():
    """Centred: 1/3, 1/3, -2/3. The failed program differs from a-b in one token, and from z*z*z in most."""
    one = group(["z*z*z", "a-b", "a+b"], [1, 1, 0])
    for window, kept in ((0, [0, -2 / 3, 0]), (1, [0, -2 / 3, -2 / 3])):
        *passed, failed = encode(one, advantage={"negatives": "divergence"}, window=window)[0][0].attempts
        assert failed.advantages_R.tolist() == pytest.approx(kept)
        assert all((attempt.advantages_R > 0).all() for attempt in passed)


def test_blame_moves_a_negative_advantage_to_the_line_that_raised():
    # share 0.5 of 3 tokens to one of them: 0.5, 0.5, 0.5 + 0.5 * 3; a positive advantage stays even
    one = judged(group(["a\nb", "c\nd"], [0.75, -0.25]), {"error_line": 2}, {"error_line": 2})
    first, second = encode(one, advantage={"blame": 0.5})[0][0].attempts
    assert first.advantages_R.tolist() == [0.5, 0.5, 0.5]
    assert second.advantages_R.tolist() == [-0.25, -0.25, -1.0] and second.advantages_R.dtype == np.float32
    assert second.rewards_R is None and second.mask_R is None
    assert encode(one)[0][0].attempts[1].advantages_R.tolist() == [-0.5, -0.5, -0.5]


def test_lines_that_never_ran_are_masked():
    one = judged(group(["a=1\nb=2", "c"], [1.0, 0.0]), {"executed_lines": (1,)}, {})
    first, second = encode(one, mask_unexecuted=True)[0][0].attempts
    assert first.mask_R.tolist() == [True] * 4 + [False] * 3
    assert first.advantages_R.tolist() == [0.5] * 4 + [0.0] * 3 and first.advantages_R.dtype == np.float32
    assert second.mask_R.tolist() == [True] and first.rewards_R is None


def test_gae_is_given_rewards_by_token():
    # the outcome is on the last token; the copies of "aa" have 1 and -0.5, mean 0.25
    parts = tuple((Part("outcome", value, 1.0),) for value in (1.0, -0.5, -0.25))
    encoded, left_out = encode(replace(group(["aa", "aa", "b"], [1.0, 0.0, 0.0]), parts=parts), kind="gae")
    first, second = encoded[0].attempts
    assert first.rewards_R.tolist() == [0.0, 0.25] and second.rewards_R.tolist() == [-0.25]
    assert first.rewards_R.dtype == second.rewards_R.dtype == np.float32 and first.mask_R is None
    assert first.advantages_R.tolist() == [0.0, 0.0] and not left_out, "an advantage that GAE has yet to compute is no zero"


def test_copies_are_one_attempt_with_their_mean():
    # centred: 1/3 twice and -2/3, times weights 1 and 0.5: mean 0.25
    first, second = encode(group(["aa", "aa", "b"], [1.0, 1.0, 0.0], [1.0, 0.5, 1.0], behavior_logp=-2.0))[0][0].attempts
    assert first.behavior == -2.0, "all else is that of the first copy"
    assert first.advantages_R.tolist() == pytest.approx([0.25, 0.25]) and first.advantages_R.dtype == np.float32
    assert (first.count, second.count) == (2, 1)
    # r - V of rewards 1 and 0.5 and 0: 0.75 - V and 0 - V
    first, second = encode(group(["aa", "aa", "b"], [1.0, 0.5, 0.0]), objective="oapl")[0][0].attempts
    assert first.value - second.value == pytest.approx(0.75)
    # in float32 the sum would stay 2^24
    assert mean([np.float32([2**24]), np.float32([1]), np.float32([1])]).tolist() == [5592406.0]


def test_pairs_of_which_one_is_left_are_left_out():
    pair, overlong = group(["aa", "b"], [1.0, 0.0]), group(["aa", "b" * 20], [1.0, 0.0])
    alike = group(["aa", "x"], [1.0, 0.0])
    same = (alike.group.attempts[0], replace(alike.group.attempts[1], token_ids=(97, 97)))
    alike = replace(alike, group=replace(alike.group, attempts=same))
    encoded, left_out = encode(overlong, overlong, alike, alike, pair, objective="dpo")
    assert len(encoded) == 1 and advantages(encoded) == [1.0, -1.0]
    assert left_out == {"attempts: over max_tokens": 2, "attempts: no other attempt to compare with": 6}
    alone, left_out = encode(group(["aa"], [1.0]), kind="passed")
    assert advantages(alone) == [1.0] and not left_out, "other objectives compare with nothing"


def test_only_edited_lines_of_a_pair_count():
    first, second = encode(group(["a\nb", "a\nc"], [1.0, 0.0]), objective="dpo", focal=True)[0][0].attempts
    assert first.advantages_R.tolist() == [0.0, 0.0, 1.0] and second.advantages_R.tolist() == [0.0, 0.0, -1.0]
    assert first.advantages_R.dtype == np.float32


def in_turns():
    """Four attempts, of which the second and third follow an earlier attempt."""
    one, earlier = group(["aa", "bbb", "c", "dddd"], [0.5, 1.0, 0.0, 0.25]), Turn(Attempt("t", "e"), None)
    return replace(one, group=replace(one.group, turns=((), (earlier,), (earlier,), ())))


def test_each_conversation_has_its_prompt_and_zeros_are_counted_once():
    one = in_turns()
    assert prompts_of([one.group, one.group], Letters()) == [[(7, 7), (7, 7, 8), (7, 7, 8), (7, 7)]] * 2
    first, second = encode(one)[0]
    assert [first.prompt_P, second.prompt_P] == [(7, 7), (7, 7, 8)]
    assert [[each.ids_R[0] for each in one.attempts] for one in (first, second)] == [[97, 100], [98, 99]]
    # mean 0.5: the last two have advantage 0
    first, second = encode(replace(one, rewards_G=np.array([1.0, 0.0, 0.5, 0.5])))[0]
    assert [(each.zero_attempts, each.zero_tokens) for each in (first, second)] == [(2, 1 + 4), (0, 0)]


def test_keys_tell_prompts_and_completions():
    def key(prompt, ids):
        return EncodedGroup(prompt, (EncodedAttempt(ids, np.ones(len(ids), np.float32)),)).attempt_keys()[0]

    assert key((1, 2), (3,)) == key((1, 2), (3,))
    assert len({key((1, 2), (3,)), key((1, 3), (3,)), key((1, 2), (4,)), key((1,), (2, 3))}) == 4


@pytest.mark.parametrize(
    ("attempt", "answers", "behavior"),
    [
        ({"behavior_logp": -3.0}, False, -3.0),
        ({"behavior_logp": -3.0, "answer": "so: aa"}, False, None),  # of more tokens than the code has
        ({"behavior_logp": -3.0, "answer": "so: aa"}, True, -3.0),
        ({"behavior_logp": -3.0, "token_ids": (97, 97), "token_logps": (-0.5, -0.25)}, False, -0.75),
        ({"behavior_logp": -3.0, "token_ids": (97, 98), "token_logps": (-0.5, -0.25)}, False, -3.0),  # of other tokens
        ({}, False, None),
    ],
)
def test_what_the_author_gave_an_attempt(attempt, answers, behavior):
    one = group(["aa"], [1.0], **attempt)
    item = TrainGroup(one.group, one.rewards_G, one.passed, np.array([0.1]), one.parts)
    found = encode_attempt(item, 0, (97, 97), 0.5, answers=answers)
    assert np.isnan(found.behavior) if behavior is None else found.behavior == behavior
    assert (found.sampler_logps_R is not None) == (behavior == -0.75)
    assert found.sampler_logps_R is None or found.sampler_logps_R.dtype == np.float32
    assert found.advantages_R.tolist() == np.float32([0.1, 0.1]).tolist() and found.advantages_R.dtype == np.float32


def test_a_log_probability_of_an_answer_counts_where_answers_are_trained_on(monkeypatch):
    one = group(["aa", "b"], [1.0, 0.0], behavior_logp=-3.0, answer="so: aa")
    assert np.isnan(encode(one)[0][0].attempts[0].behavior)
    monkeypatch.setattr(Letters, "answers", True)
    assert encode(one)[0][0].attempts[0].behavior == -3.0


@pytest.mark.parametrize("status", [Status.COMPILE_ERROR, Status.FAILED, None])
def test_code_that_does_not_compile_is_malformed(status):
    one = group(["aa"], [1.0])
    verdicts = (None if status is None else replace(one.group.verdicts[0], status=status),)
    item = TrainGroup(replace(one.group, verdicts=verdicts), one.rewards_G, one.passed, np.ones(1), one.parts)
    assert encode_attempt(item, 0, (97,), 0.0, answers=False).malformed is (status is Status.COMPILE_ERROR)


class Named(Letters):
    """Letters whose prompts name the outcome: 7 and 7 ask for a pass, 7 and 9 name a failure."""

    failing = SimpleNamespace(prompts=lambda asked: [EncodedPrompt(task.task_id, (7, 9)) for task, _, _ in asked])


def test_prompts_name_the_outcome_of_each_attempt():
    one = group(["ab", "c", "de"], [1, 0, 1], behavior_logp=-2.0)
    config = Encoding(Named(), 10, RewardConfig(), AdvantageConfig(kind="all"), ObjectiveConfig())
    passed, failed = encode_groups(tokenize_groups([one], config), config).groups
    assert passed.prompt_P == (7, 7) and [len(attempt.ids_R) for attempt in passed.attempts] == [2, 2]
    assert failed.prompt_P == (7, 9) and [len(attempt.ids_R) for attempt in failed.attempts] == [1]
    assert advantages([passed, failed]) == [1, 1, 1]
    wrong = group(["c", "ab"], [0, 1], behavior_logp=-2.0)
    known = [
        attempt.behavior for part in encode_groups(tokenize_groups([wrong], config), config).groups for attempt in part.attempts
    ]
    assert np.isnan(known[0]) and passed.attempts[0].behavior == -2.0, "its author did not see that prompt"
    assert prompts_of([one.group], Named()) == [[(7, 7)] * 3], "monitors ask for a pass"
