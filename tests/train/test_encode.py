"""Encoding of groups: attempts left out before the baseline, denominators, log-probabilities of the sampler."""

import warnings

import numpy as np
import pytest

from upsolve.advantage.table import Advantage
from upsolve.config import AdvantageConfig, DataConfig, MonitorConfig, ObjectiveConfig, RewardConfig, SelectConfig
from upsolve.policy.tokens import EncodedPrompt
from upsolve.reward.formula import reward
from upsolve.train.encode import EncodedAttempt, EncodedGroup, Encoding, encode_groups
from upsolve.train.groups import TrainGroup, behavior_logps
from upsolve.train.monitor import warn_of_drift
from upsolve.train.pack import pack
from upsolve.train.rounds import advantages_of
from upsolve.train.sources import RoundGroups
from upsolve.train.step import denominators
from upsolve.train.step_metrics import Tally, drift_metrics
from upsolve.types import Attempt, Group, Status, Task, Verdict


class Letters:
    """A codec whose tokens are characters: the prompt has 2."""

    answers = False

    def prompts(self, asked):
        return [EncodedPrompt(task.task_id, (7, 7)) for task, _ in asked]

    def ids_of_all(self, attempts):
        return [attempt.token_ids or tuple(map(ord, attempt.code)) for attempt in attempts]


def group(codes, rewards, **first):
    task = Task("t", "say")
    attempts = tuple(Attempt("t", code, **(first if i == 0 else {})) for i, code in enumerate(codes))
    verdicts = tuple(Verdict(a.attempt_id, Status.PASSED) for a in attempts)
    rewards = np.array(rewards)
    return TrainGroup(Group(task, attempts, verdicts), rewards, rewards - rewards.mean())


def encode(one, kind="centred", objective="reinforce", max_tokens=10, kl=0.0):
    loss = ObjectiveConfig(kind=objective, kl={"coefficient": kl})
    config = Encoding(Letters(), max_tokens, RewardConfig(), AdvantageConfig(kind=kind), loss)
    return encode_groups([one], config)


def test_the_baseline_holds_only_attempts_that_are_trained_on():
    # mean of all four 0.5; without the one of 20 tokens 1/3
    encoded, left_out = encode(group(["aa", "bbb", "c" * 20, "d"], [1.0, 0.0, 1.0, 0.0]))
    assert [float(one.advantages_R[0]) for one in encoded[0].attempts] == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert left_out == {"attempts: over max_tokens": 1}
    # only equal rewards are left: nothing to learn
    encoded, left_out = encode(group(["aa", "bbb", "c" * 20], [0.0, 0.0, 1.0]))
    assert encoded == [] and left_out == {"attempts: over max_tokens": 1, "attempts: zero advantage": 2}


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
    one = TrainGroup(one.group, one.rewards_G, np.array([1.0, 0.0, 0.0]))
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
    one = TrainGroup(Group(one.group.task, attempts, one.group.verdicts), one.rewards_G, one.advantages_G)
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


def estimated(rewarded, data_seed=3):
    data, config = DataConfig(group_size=2, seed=data_seed), AdvantageConfig(kind=Advantage(by_logp))
    taken = RoundGroups(0, most_stored=1)
    return advantages_of(
        [rewarded], [rewarded], taken, data=data, advantage=config, objective=ObjectiveConfig(), select=SelectConfig()
    )


def test_estimators_get_the_authors_log_probabilities_and_a_seed_for_the_group():
    task = Task("t", "say")
    attempts = tuple(Attempt("t", code, behavior_logp=logp) for code, logp in (("a", -1.0), ("b" * 20, -2.0), ("c", -4.0)))
    statuses = (Status.PASSED, Status.FAILED, Status.FAILED)
    verdicts = tuple(Verdict(a.attempt_id, status) for a, status in zip(attempts, statuses, strict=True))
    formed = estimated(reward(Group(task, attempts, verdicts), RewardConfig()))
    drawn, whole = sorted(formed.groups, key=lambda one: len(one.group.attempts))
    for one in (drawn, whole):
        logps = [attempt.behavior_logp for attempt in one.group.attempts]
        assert one.advantages_G.tolist() == [logp + one.seed % 1000 for logp in logps]
    assert len(drawn.group.attempts) == 2 and drawn.seed != whole.seed
    again = estimated(reward(Group(task, attempts, verdicts), RewardConfig()))
    assert {one.seed for one in again.groups} == {drawn.seed, whole.seed}
    other = estimated(reward(Group(task, attempts, verdicts), RewardConfig()), data_seed=4)
    assert not {one.seed for one in other.groups} & {drawn.seed, whole.seed}
    # the second attempt is too long: the others' advantages are computed anew, of their log-probabilities and the same seed
    config = Encoding(Letters(), 10, RewardConfig(), AdvantageConfig(kind=Advantage(by_logp)), ObjectiveConfig())
    encoded, _ = encode_groups([whole], config)
    found = [float(one.advantages_R[0]) for one in encoded[0].attempts]
    assert found == [whole.seed % 1000 - 1.0, whole.seed % 1000 - 4.0]


def test_unknown_log_probabilities_are_nan():
    assert np.isnan(behavior_logps([Attempt("t", "a")])).all() and behavior_logps([]).shape == (0,)
