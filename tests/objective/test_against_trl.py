"""Value and gradient of our losses beside TRL's own code, on the same tensors.

TRL's trainers are made without their constructors and given only the settings that their loss reads; in the place of a model
stands what a model would have returned. Everything between log-probabilities and loss is TRL's.
"""

import importlib
from collections import defaultdict
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from upsolve.advantage.group import leave_one_out
from upsolve.config import ObjectiveConfig
from upsolve.objective.clipped import LossInputs, outside, sequence_logratio
from upsolve.objective.losses import batch_kl, clipped_tokens, dpo, kto, token_losses
from upsolve.objective.ratio import REDUCTIONS, sum_by_attempt

LENGTHS = torch.tensor([7, 3, 5, 1, 6, 4])
S, R = len(LENGTHS), 7
MASK = (torch.arange(R) < LENGTHS[:, None]).long()
ATTEMPT = torch.arange(S).repeat_interleave(LENGTHS)
ADVANTAGES = torch.tensor([1.2, -0.7, 0.4, -1.5, -0.3, 0.9])
PROMPT = torch.ones(S, 2, dtype=torch.long)
EVERYWHERE = torch.tensor(0.0)


def class_of(name):
    """Return a trainer of TRL, whose import takes a second."""
    module = importlib.import_module(f"trl.trainer.{name.lower()}_trainer")
    return getattr(module, f"{name}Trainer")


def drawn(seed, spread=0.4):
    """Log-probabilities of every token, 0 in the padding: around the same mean, ``spread`` apart from seed to seed."""
    mean = -1.5 + 0.5 * torch.randn(S, R, generator=torch.Generator().manual_seed(0))
    return (mean + spread * torch.randn(S, R, generator=torch.Generator().manual_seed(seed))) * MASK


def policy():
    return drawn(1).requires_grad_()


OLD, REFERENCE = drawn(2), drawn(3, spread=0.2)


def whole(value, **_):
    return value


ALONE = SimpleNamespace(
    num_processes=1,
    is_main_process=True,
    device="cpu",
    autocast=nullcontext,
    gather=whole,
    reduce=whole,
    gather_for_metrics=whole,
)


def trainer_of(kind, **settings):
    """Return a trainer that knows only these settings."""
    trainer = object.__new__(kind)
    args = {"report_to": [], "use_bias_correction_kl": False, "delta": None, "steps_per_generation": 1}
    trainer.__dict__ |= {
        "accelerator": ALONE,
        "args": SimpleNamespace(**args),
        "aux_loss_enabled": False,
        "model": SimpleNamespace(training=True),
        "state": SimpleNamespace(global_step=0),
        "_metrics": {"train": defaultdict(list)},
        "_total_train_tokens": 0,
        "_tp_size": 1,
        **settings,
    }
    return trainer


def answering(logp, other=None):
    """Return a stand-in for a model that scores any tokens so; ``other`` answers ids of zeros."""

    def model(input_ids, **_):
        found = logp if input_ids.any() else other
        rest = EVERYWHERE.expand_as(found)
        return SimpleNamespace(log_probs=found, entropy=rest, mean_logits=rest, is_top1=rest.bool())

    return model


def online(kind, logp, inputs, **settings):
    """Return TRL's loss on a batch of sampled attempts, and the figures it logs."""
    defaults = {
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "importance_sampling_level": "token",
        "beta": 0.0,
    }
    defaults |= {"use_vllm": False, "_entropy_bonus_enabled": False, "current_gradient_accumulation_steps": 1}
    given = {"prompt_ids": PROMPT, "prompt_mask": PROMPT, "completion_ids": torch.ones_like(MASK), "completion_mask": MASK}
    trainer = trainer_of(kind, **{**defaults, **settings})
    return trainer._compute_loss(answering(logp), {**given, **inputs}), trainer._metrics["train"]


def inputs_of(advantages):
    """Return the same batch as we have it, its tokens one after the other."""
    there = MASK.bool()
    return LossInputs(ATTEMPT, advantages[ATTEMPT], torch.zeros(S), REFERENCE[there], OLD[there])


def ours(config, logp, advantages=ADVANTAGES):
    """Return our loss on the same batch."""
    loss_T = token_losses(logp[MASK.bool()], inputs_of(advantages), config)
    return REDUCTIONS[config.reduce](config)(loss_T, ATTEMPT, attempts=S, tokens=len(ATTEMPT))


def assert_same(their, our, their_logp, our_logp):
    assert float(our.detach()) == pytest.approx(float(their.detach()), abs=1e-5)
    their.backward()
    our.backward()
    there = MASK.bool()
    assert torch.allclose(our_logp.grad[there], their_logp.grad[there], atol=1e-5, rtol=0)
    assert our_logp.grad.abs().max() > 1e-2


GRPO = {"loss_type": "grpo", "epsilon_low": 0.2, "epsilon_high": 0.28}
CLIP = {"low": 0.2, "high": 0.28}
CASES = {
    "GRPO": (GRPO, {"kind": "ppo_clip", "reduce": "sequence_mean", "clip": CLIP}),
    "DAPO": (GRPO | {"loss_type": "dapo"}, {"kind": "ppo_clip", "reduce": "token_mean", "clip": CLIP}),
    "Dr. GRPO": (
        GRPO | {"loss_type": "dr_grpo", "max_completion_length": 9},
        {"kind": "ppo_clip", "reduce": "constant_length", "length": 9, "clip": CLIP},
    ),
    "GSPO": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon_low": 0.03, "epsilon_high": 0.04},
        {"kind": "gspo", "reduce": "sequence_mean", "clip": {"low": 0.03, "high": 0.04}},
    ),
    "CISPO": (
        {"loss_type": "cispo", "epsilon_low": 0.2, "epsilon_high": 1.3},
        {"kind": "cispo", "reduce": "token_mean", "clip": {"cap": 1.3}},
    ),
    "GRPO with OPSM": (
        GRPO | {"off_policy_mask_threshold": 0.1},
        {"kind": "ppo_clip", "reduce": "sequence_mean", "clip": CLIP | {"sequence_kl": 0.1}},
    ),
    "GRPO with KL": (
        GRPO | {"beta": 0.3},
        {"kind": "ppo_clip", "reduce": "sequence_mean", "clip": CLIP, "kl": {"coefficient": 0.3, "estimator": "k3"}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_objectives_of_sampled_attempts(name):
    settings, config = CASES[name]
    their_logp, our_logp = policy(), policy()
    inputs = {"advantages": ADVANTAGES, "old_per_token_logps": OLD, "ref_per_token_logps": REFERENCE}
    inputs |= {"num_items_in_batch": torch.tensor(len(ATTEMPT))}
    their, logged = online(class_of("GRPO"), their_logp, inputs, **settings)
    config = ObjectiveConfig.model_validate(config)
    assert_same(their, ours(config, our_logp), their_logp, our_logp)
    if config.kind == "ppo_clip" and config.clip.sequence_kl is None:
        clipped_T = clipped_tokens(our_logp[MASK.bool()], inputs_of(ADVANTAGES), config)
        assert logged["clip_ratio/region_mean"] == pytest.approx([float(clipped_T.float().mean())])


def test_the_tensors_reach_every_branch():
    logratio = (policy().detach() - OLD)[MASK.bool()]
    signs = ADVANTAGES[ATTEMPT]
    for ratio, low, high in ((logratio, 0.2, 0.28), (sequence_logratio(logratio, ATTEMPT, S), 0.03, 0.04)):
        cut = outside(ratio, signs, low=low, high=high)
        for push in (signs > 0, signs < 0):
            assert (cut & push).any() and (~cut & push).any()
        assert ((ratio.exp() > 1 + high) & (signs < 0)).any() and ((ratio.exp() < 1 - low) & (signs > 0)).any()
    left = -sequence_logratio(logratio, ATTEMPT, S)
    assert ((left > 0.1) & (signs < 0)).any() and ((left <= 0.1) & (signs < 0)).any() and ((left > 0.1) & (signs > 0)).any()


def test_rloo_on_policy_has_the_gradient_of_reinforce():
    their_logp, our_logp = policy(), policy()
    advantages = torch.from_numpy(leave_one_out([1.0, -0.1, -0.6, -0.1, 1.0, -1.0])).float()
    inputs = {"advantages": advantages, "old_logps": their_logp.detach().sum(1)}
    online(class_of("RLOO"), their_logp, inputs, epsilon_low=0.2, epsilon_high=0.2)[0].backward()
    ours(ObjectiveConfig(kind="reinforce", reduce="sequence_sum"), our_logp, advantages).backward()
    assert torch.allclose(our_logp.grad, their_logp.grad, atol=1e-5, rtol=0)
    assert our_logp.grad.abs().max() > 1e-2


def sums(logp):
    """Return our log pi/ref of every attempt."""
    there = MASK.bool()
    return sum_by_attempt((logp - REFERENCE)[there], ATTEMPT, S)


def offline(trainer, logp, more, other=None, attempts=slice(None)):
    """Return TRL's loss on stored attempts, which start after one token of prompt."""
    completion = torch.cat([torch.zeros(S, 1, dtype=torch.long), MASK], dim=1)[attempts]
    given = {"input_ids": torch.ones_like(completion), "attention_mask": torch.ones_like(completion)}
    return trainer._compute_loss(answering(logp[attempts], other), {**given, "completion_mask": completion, **more}, False)


@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_dpo(beta):
    their_logp, our_logp = policy(), policy()
    settings = {"beta": beta, "loss_types": ["sigmoid"], "loss_weights": [1.0], "f_divergence_type": "reverse_kl"}
    trainer = trainer_of(class_of("DPO"), **settings, ld_alpha=None, precompute_ref_logps=True, use_weighting=False)
    chosen, rejected = REFERENCE.sum(1).chunk(2)
    their = offline(trainer, their_logp, {"ref_chosen_logps": chosen, "ref_rejected_logps": rejected})
    assert_same(their, dpo(*sums(our_logp).chunk(2), beta=beta).mean(), their_logp, our_logp)


def test_dpo_with_label_smoothing():
    # of TRL's losses only AOT smooths labels so; with one pair there is nothing to sort, and AOT is DPO
    their_logp, our_logp = policy(), policy()
    settings = {"beta": 0.5, "loss_types": ["aot"], "loss_weights": [1.0], "f_divergence_type": "reverse_kl"}
    settings |= {"label_smoothing": 0.2, "ld_alpha": None, "precompute_ref_logps": True, "use_weighting": False}
    chosen, rejected = REFERENCE.sum(1)[:2].chunk(2)
    more = {"ref_chosen_logps": chosen, "ref_rejected_logps": rejected}
    their = offline(trainer_of(class_of("DPO"), **settings), their_logp, more, attempts=slice(2))
    logratio = sums(our_logp)
    assert_same(their, dpo(logratio[:1], logratio[1:2], beta=0.5, label_smoothing=0.2).mean(), their_logp, our_logp)


@pytest.mark.parametrize("shift", [0.5, -0.5])
def test_kto(shift):
    their_logp, our_logp = policy(), policy()
    desirable = torch.tensor([True, False, False, True, False, True])
    elsewhere = REFERENCE + shift * MASK  # answers put to other prompts; below the reference the estimate is cut at 0
    settings = {"beta": 0.3, "loss_type": "kto", "desirable_weight": 1.0, "undesirable_weight": 0.7, "calculate_KL": True}
    more = {"label": desirable, "ref_logps": REFERENCE.sum(1), "ref_KL_logps": REFERENCE.sum(1)}
    nothing = torch.zeros(S, R + 1, dtype=torch.long)
    more |= {"KL_input_ids": nothing, "KL_attention_mask": nothing, "KL_completion_mask": nothing}
    their = offline(trainer_of(class_of("KTO"), **settings, precompute_ref_logps=True), their_logp, more, elsewhere)
    point = batch_kl(sums(elsewhere))
    assert (point > 0) == (shift > 0)
    assert_same(their, kto(sums(our_logp), desirable, point, beta=0.3, weights=(1.0, 0.7)).mean(), their_logp, our_logp)
