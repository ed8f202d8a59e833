import math

import pytest
import torch
from pydantic import ValidationError

from upsolve.config import CorrectionConfig, ObjectiveConfig
from upsolve.objective.clipped import LossInputs
from upsolve.objective.losses import corrected_tokens, token_losses
from upsolve.objective.ratio import drift, icepop, tis, unknown_as_equal

RATIOS = torch.tensor([0.25, 0.5, 1.0, 4.0, 8.0])
ATTEMPT = torch.tensor([0, 0, 1, 1, 1])
OLD = torch.tensor([-1.0, -2.0, -1.5, -0.5, -3.0])
UNKNOWN = float("nan")


def batch(sampler, advantages=(1.0, 1.0, -1.0, -1.0, -1.0)):
    return LossInputs(ATTEMPT, torch.tensor(advantages), torch.zeros(2), None, OLD, sampler_T=sampler)


def config_of(objective, **correction):
    return ObjectiveConfig.model_validate({"kind": objective, "correction": correction})


def test_truncated_weights_by_hand():
    assert tis(RATIOS.log(), cap=2.0).tolist() == pytest.approx([0.25, 0.5, 1.0, 2.0, 2.0])


def test_icepop_masks_what_is_outside():
    assert icepop(RATIOS.log(), low=0.3, high=5.0).tolist() == pytest.approx([0.0, 0.5, 1.0, 4.0, 0.0])
    assert icepop(torch.zeros(1), low=1.0, high=5.0).tolist() == icepop(torch.zeros(1), low=0.5, high=1.0).tolist() == [1.0]


def test_unknown_samplers_have_weight_one_and_huge_ratios_are_finite():
    sampler = torch.tensor([UNKNOWN, -2.0 - math.log(4.0), -1.5, -1000.0, UNKNOWN])
    ratio = unknown_as_equal(OLD, sampler)
    assert ratio.tolist() == pytest.approx([0.0, math.log(4.0), 0.0, 20.0, 0.0])
    assert tis(ratio, cap=2.0).tolist() == [1.0, 2.0, 1.0, 2.0, 1.0]


@pytest.mark.parametrize("kind", ["ppo_clip", "gspo", "cispo", "m2po", "reinforce", "dft"])
def test_a_correction_multiplies_token_losses_and_not_the_kl_term(kind):
    logp, sampler = OLD + 0.05, OLD - RATIOS.log()
    plain = token_losses(logp, batch(sampler), config_of(kind))
    for correction, weights in (
        ({"kind": "tis", "cap": 2.0}, [0.25, 0.5, 1.0, 2.0, 2.0]),
        ({"kind": "icepop", "low": 0.3, "high": 5.0}, [0.0, 0.5, 1.0, 4.0, 0.0]),
    ):
        config = config_of(kind, **correction)
        assert config.needs_old
        assert token_losses(logp, batch(sampler), config).tolist() == pytest.approx((plain * torch.tensor(weights)).tolist())
    with_kl = ObjectiveConfig.model_validate({"kind": kind, "correction": {"kind": "icepop"}, "kl": {"coefficient": 1.0}})
    data = LossInputs(ATTEMPT, torch.zeros(5), torch.zeros(2), OLD, OLD, sampler_T=OLD + 10)
    assert (token_losses(logp, data, with_kl) > 0).all(), "the KL term is there where every weight is 0"


def test_a_sampler_that_agrees_changes_nothing():
    logp = OLD + 0.1
    for sampler in (OLD.clone(), None, torch.full((5,), UNKNOWN)):
        for kind in ("tis", "icepop"):
            config = config_of("ppo_clip", kind=kind)
            assert token_losses(logp, batch(sampler), config).tolist() == pytest.approx(
                token_losses(logp, batch(sampler), config_of("ppo_clip")).tolist()
            )
            assert not corrected_tokens(batch(sampler), config.correction).any()


def test_corrected_tokens_are_those_truncated_or_masked():
    sampler = OLD - RATIOS.log()
    assert corrected_tokens(batch(sampler), CorrectionConfig(kind="tis")).tolist() == [False, False, False, True, True]
    assert corrected_tokens(batch(sampler), CorrectionConfig(kind="icepop", low=0.3)).tolist() == [
        True,
        False,
        False,
        False,
        True,
    ]
    nothing = corrected_tokens(batch(sampler), CorrectionConfig())
    assert not nothing.any() and nothing.dtype == torch.bool


def test_a_truncated_weight_is_unbiased_below_its_cap():
    # two tokens, mu = (0.75, 0.25), pi = (0.5, 0.5): sum mu w f = sum pi f as long as pi/mu = (2/3, 2) is not truncated
    mu, pi, values = torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5]), torch.tensor([3.0, -1.0])
    assert float((mu * tis((pi / mu).log(), cap=2.5) * values).sum()) == pytest.approx(1.0)
    # truncated at 1: 0.75 * 2/3 * 3 - 0.25 * 1 * 1
    assert float((mu * tis((pi / mu).log(), cap=1.0) * values).sum()) == pytest.approx(1.25)


def test_drift_by_hand():
    # log-ratios log 2 and -log 2, one token unknown; k3(log mu/pi_old): 2 - 1 - log 2 and 1/2 - 1 + log 2
    found = drift(torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.0 - math.log(2), -1.0 + math.log(2), UNKNOWN]))
    assert (found.tokens, found.absolute, found.most) == (2, pytest.approx(2 * math.log(2)), pytest.approx(math.log(2)))
    assert found.k3 == pytest.approx(0.5, abs=1e-6)
    assert drift(torch.tensor([-1.0]), torch.tensor([-1.0 - math.log(2)])).k3 == pytest.approx(1 - math.log(2), abs=1e-6)
    nothing = drift(OLD, torch.full((5,), UNKNOWN))
    assert (nothing.tokens, nothing.absolute, nothing.k3, nothing.most) == (0, 0.0, 0.0, 0.0)


def test_missing_or_wrong_data_raises():
    data = LossInputs(ATTEMPT, torch.ones(5), torch.zeros(2), None, None, sampler_T=OLD)
    with pytest.raises(ValueError, match="objective.correction needs"):
        token_losses(OLD, data, config_of("reinforce", kind="tis"))
    with pytest.raises(ValidationError, match="the range must contain 1"):
        CorrectionConfig(kind="icepop", low=1.5)
