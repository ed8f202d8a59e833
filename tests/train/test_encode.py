"""Encoding of groups: attempts left out before the baseline, denominators, log-probabilities of the sampler."""

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from upsolve.advantage.table import Advantage
from upsolve.config import AdvantageConfig, DataConfig, MonitorConfig, ObjectiveConfig, OptimConfig, RewardConfig, SelectConfig
from upsolve.policy.tokens import EncodedPrompt
from upsolve.reward.formula import Rewarded, reward
from upsolve.train.data.drawn import DrawnGroups
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup, Encoding, encode_groups, tokenize_groups
from upsolve.train.data.form import form_groups
from upsolve.train.data.groups import behavior_logps, group_seed
from upsolve.train.data.pack import pack
from upsolve.train.data.sources import RoundGroups
from upsolve.train.run.monitor import warn_of_drift
from upsolve.train.run.steps import heldout_batches
from upsolve.train.update.step import Tally, denominators, drift_metrics
from upsolve.types import Attempt, Group, Status, Task, Verdict
from upsolve.view.drawn import Recorded


class Letters:
    """A codec whose tokens are characters: the prompt has 2."""

    answers = False

    def prompts(self, asked):
        return [EncodedPrompt(task.task_id, (7, 7)) for task, _ in asked]

    def ids_of_all(self, attempts):
        return [self.ids_of(attempt) for attempt in attempts]

    def ids_of(self, attempt):
        return attempt.token_ids or tuple(map(ord, attempt.code))


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


def encode(one, kind="centred", objective="reinforce", max_tokens=10, kl=0.0):
    loss = ObjectiveConfig(kind=objective, kl={"coefficient": kl})
    config = Encoding(Letters(), max_tokens, RewardConfig(), AdvantageConfig(kind=kind), loss)
    encoded, left_out, _ = encode_groups(tokenize_groups([one], config), config)
    return encoded, left_out


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


def test_weights_of_a_group_with_an_overlong_attempt_are_kept():
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
        assert Recorded(tmp_path).of_task("t")[-1].advantages == pytest.approx(wanted)


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
    from upsolve.objective.correction import Drift

    tally = Tally(tokens=10, corrected=2, drifts=[Drift(2, 1.0, 0.2, 0.75), Drift(2, 0.6, 0.0, 0.5), Drift(0, 0.0, 0.0, 0.0)])
    row = drift_metrics(tally)
    assert row == pytest.approx({"drift": 0.4, "drift_k3": 0.05, "drift_max": 0.75, "sampler_known": 0.4, "corrected": 0.2})
    assert drift_metrics(Tally(tokens=10)) == {}
    with pytest.warns(UserWarning, match="step 3: sampler and trainer differ by 0.400 nats per token"):
        warn_of_drift({"step": 3.0, **row}, MonitorConfig(max_drift=0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_drift({"step": 3.0, **row}, MonitorConfig())
        warn_of_drift({"step": 3.0}, MonitorConfig())


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


def test_unknown_log_probabilities_are_nan():
    assert np.isnan(behavior_logps([Attempt("t", "a")])).all() and behavior_logps([]).shape == (0,)
