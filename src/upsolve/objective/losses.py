"""Built-in objectives: pure functions of losses without a clipped ratio, and their application, with the losses of ``clipped``, to a micro-batch.

Legend: T tokens of all attempts of a batch, one after the other; S attempts; K pairs; G attempts of one group. In preference losses,
logratio = log pi(o)/ref(o), summed over an attempt's tokens, in nats. Pure functions return one loss per token, attempt or pair. A loss of a
whole attempt is divided evenly among its tokens, so that the sum over its tokens is the attempt's loss.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from upsolve.advantage import group
from upsolve.advantage.table import advantage
from upsolve.config import AdvantageConfig, CorrectionConfig, ObjectiveConfig
from upsolve.objective.clipped import LossInputs, cispo, gspo, m2po, m2po_bound, m2po_mask, opsm_mask, outside, ppo_clip
from upsolve.objective.ratio import KL, REDUCTIONS, bounded, icepop, mean_by_attempt, sum_by_attempt, tis
from upsolve.plugins import RecordError, reraise
from upsolve.types import content_id

__all__ = ["clipped_tokens", "corrected_tokens", "formula_id", "step_statistic", "token_losses"]


def reinforce(logp_T: Tensor, advantages_T: Tensor) -> Tensor:
    """loss_t = -A log pi(o_t). Summed over an attempt: the policy gradient without a ratio (2605.28409).

    Off policy it is biased, and for A < 0 unbounded below: the log-probability of a failed attempt can fall without end.
    """
    return -advantages_T * logp_T


def dft(logp_T: Tensor, advantages_T: Tensor) -> Tensor:
    """loss_t = -A sg(pi(o_t)) log pi(o_t) (DFT, 2508.05629); sg = stop gradient: unlikely tokens get small gradients."""
    return -advantages_T * logp_T.detach().exp() * logp_T


def topr(logp_T: Tensor, advantages_T: Tensor, logratio_T: Tensor) -> Tensor:
    """loss_t = -w A log pi(o_t), w = 1 for A >= 0, else min(1, sg(pi(o) / ref(o))) over the whole attempt (TOPR, 2503.14286).

    The reference stands in for the unknown policy mu that wrote the attempt: a failed attempt that the policy already avoids
    has a small weight. A and log pi(o)/ref(o), summed over the attempt's tokens, are given at each of its tokens.
    """
    weight = torch.where(advantages_T >= 0, torch.ones_like(logp_T), logratio_T.detach().clamp(max=0).exp())
    return -weight * advantages_T * logp_T


def unlikelihood(logp_T: Tensor, advantages_T: Tensor, *, floor: float) -> Tensor:
    """loss_t = -A log p for A >= 0, else A log(1 - (1 - f) max(p, f)), p = pi(o_t), f the floor (after Welleck, 1908.04319).

    Bounded, as REINFORCE is not: a token below the floor has no gradient, and the loss is at most -A log(1 / f), at p = 1.
    """
    lowered_T = torch.log1p(-(1 - floor) * logp_T.exp().clamp(min=floor))
    return advantages_T * torch.where(advantages_T >= 0, -logp_T, lowered_T)


def oapl(logratio_S: Tensor, values_S: Tensor, *, beta: float) -> Tensor:
    """loss_s = (beta log pi(o)/ref(o) - (r - V))^2 (OAPL, 2602.19362): a regression, bounded below."""
    return (beta * logratio_S - values_S).square()


def dro(logp_S: Tensor, advantages_S: Tensor, logratio_S: Tensor, *, beta: float) -> Tensor:
    """loss_s = -A log pi(o) + beta / 2 (log pi(o)/ref(o))^2 (DRO, 2405.19107).

    REINFORCE with a quadratic penalty towards the reference: bounded below, minimal where log pi/ref = A / beta. The paper learns a
    value function as the baseline of A; here A comes from the group.
    """
    return -advantages_S * logp_S + beta / 2 * logratio_S.square()


def nft(logratio_T: Tensor, passed_T: Tensor, rate_T: Tensor, *, floor: float) -> Tensor:
    """loss_t = -(1 - p) log R_t if the attempt passed, else -(1 - p) log max(floor, (1 - p R_t) / (1 - p)) (NFT, 2505.18116).

    R = pi/pi_old; p is the share of the group's attempts that passed, clamped to [0.02, 0.98]. A failed attempt is treated as a sample of the
    negative policy (pi_old - p pi) / (1 - p), whose likelihood is maximised; its gradient fades as R falls. ``floor`` (1 in the authors' runs) bounds
    the value but not the gradient, which below the floor is that of the fraction / floor.
    """
    limited_T, rate_T = bounded(logratio_T), rate_T.clamp(0.02, 0.98)
    negative_T = (1 - rate_T * limited_T.exp()) / (1 - rate_T)
    negative_T = negative_T + (negative_T.clamp(min=floor) - negative_T).detach()
    return -(1 - rate_T) * torch.where(passed_T, limited_T, negative_T.log())


def weighted_sum(logratio_T: Tensor, weights_T: Tensor, attempt_T: Tensor, attempts: int) -> Tensor:
    """Return [S]: sum_t w_t log pi(o_t)/ref(o_t) over each attempt's tokens. Weights of ``focal_weights`` make ``dpo`` focal DPO."""
    return sum_by_attempt(logratio_T * weights_T, attempt_T, attempts)


def dpo(chosen_K: Tensor, rejected_K: Tensor, *, beta: float = 0.1, label_smoothing: float = 0.0) -> Tensor:
    """loss_k = -(1 - e) log sigma(beta d) - e log sigma(-beta d), d = chosen - rejected log-ratio (DPO, 2305.18290).

    ``label_smoothing`` e is the assumed share of wrong labels (cDPO, note to 2305.18290). The loss can fall while both likelihoods
    fall, if the rejected one falls faster: watch ``heldout_passed_logp``.
    """
    margin_K = beta * (chosen_K - rejected_K)
    return -(1 - label_smoothing) * logsigmoid(margin_K) - label_smoothing * logsigmoid(-margin_K)


def batch_kl(logratio_S: Tensor, count_S: Tensor | None = None) -> Tensor:
    """z = max(0, mean log-ratio), without gradient: the reference point of ``kto`` (2402.01306); an attempt counts ``count_S``
    times.

    The paper uses log-ratios of answers paired with other prompts. The attempts' own log-ratios are larger once the policy has learned the attempts.
    """
    weights_S = torch.ones_like(logratio_S) if count_S is None else count_S
    return ((weights_S * logratio_S.detach()).sum() / weights_S.sum()).clamp(min=0)


def kto(
    logratio_S: Tensor, desirable_S: Tensor, kl: Tensor, *, beta: float = 0.1, weights: tuple[float, float] = (1, 1)
) -> Tensor:
    """loss_s = w (1 - sigma(beta (x - z))) for a desirable attempt, else w' (1 - sigma(beta (z - x))) (KTO, 2402.01306).

    x is the log-ratio, z a number >= 0 without gradient (``batch_kl``), ``weights`` are w and w'. Needs no pairs. If failed
    attempts far outnumber passed ones, choose weights that compensate for it.
    """
    sign_S = torch.where(desirable_S, 1.0, -1.0)
    weight_S = torch.where(desirable_S, *weights)
    return weight_S * torch.sigmoid(-beta * sign_S * (logratio_S - kl))


def rank(logratio_G: Tensor, rewards_G: Tensor, *, beta: float = 0.1, count_G: Tensor | None = None) -> Tensor:
    """loss = sum_i -log(e^{b x_i} / (e^{b x_i} + sum_{j: r_j < r_i} e^{b x_j})) over a group; b is ``beta``, x_i the log-ratio, r_i the reward.

    Minus the log-likelihood of the whole order under Plackett-Luce (2305.18290, app. A.3) when no two rewards are equal; attempts of equal reward are
    not compared. A group of two is ``dpo``; a group of one, or of equal rewards, gives 0. Both sums take an attempt ``count_G`` times; None: once.
    """
    score_G, count_G = beta * logratio_G, torch.ones_like(logratio_G) if count_G is None else count_G
    itself_GG = torch.eye(rewards_G.numel(), dtype=torch.bool, device=rewards_G.device)
    against_GG = (rewards_G[None, :] < rewards_G[:, None]) | itself_GG
    score_GG = (score_G + count_G.log() * ~itself_GG).masked_fill(~against_GG, -torch.inf)
    return (count_G * (score_GG.logsumexp(1) - score_G)).sum()


Part = tuple[Tensor, LossInputs]


def token_losses(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return [T]: loss_t = M_t w_t objective_t + coefficient KL_t.

    M is the mask of OPSM (``clip.sequence_kl``), w the weight of ``correction``; each is 1 unless the recipe asks for it.
    Neither applies to the KL term. ValueError: the batch lacks log-probabilities that the objective needs; RecordError: a
    plug-in raised an exception, or returned another shape than that of its tokens or a loss without a gradient.
    """
    loss_T = per_token("loss", logp_T, with_statistic(logp_T, inputs, config), config)
    if logp_T.requires_grad and torch.is_grad_enabled() and not loss_T.requires_grad:
        raise RecordError(
            f"objective.kind {config.kind}: its loss has no gradient; compute the loss from logp_T without logp_T.detach()"
        )
    if config.clip.sequence_kl is not None:
        loss_T = loss_T * sequence_kl_mask(logp_T, inputs, config.clip.sequence_kl)
    if config.correction.kind != "none":
        loss_T = loss_T * correction_weights(inputs, config.correction)
    if config.kl.coefficient and config.kl.place == "loss":
        loss_T = loss_T + config.kl.coefficient * KL[config.kl.estimator](inputs.reference_logratio(logp_T))
    return loss_T


def per_token(function: str, logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return the output of a function of the objective: [T] losses or, of ``touched``, booleans; RecordError for another shape or type."""
    try:
        found: Any = getattr(config.record, function)(logp_T, inputs, config)
    except Exception as error:
        reraise("objective", config.kind, error)
    what = "loss" if function == "loss" else "boolean"
    if isinstance(found, Tensor) and found.shape == logp_T.shape and (found.dtype == torch.bool) == (what == "boolean"):
        return found
    got = f"a tensor of shape {[*found.shape]} and {found.dtype}" if isinstance(found, Tensor) else repr(found)
    raise RecordError(
        f"objective.kind {config.kind}: {function}: expected one {what} per token, of shape {[*logp_T.shape]}, got {got}"
    )


def clipped_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return bool [T]: tokens that a clip or mask of the objective changes; except for ``cispo``, they have no gradient.

    A share that grows towards 1 means that the policy has moved far from pi_old.
    """
    with torch.no_grad():
        touched_T = torch.zeros_like(logp_T, dtype=torch.bool)
        if config.record.touched:
            touched_T = per_token("touched", logp_T, with_statistic(logp_T, inputs, config), config)
        if config.clip.sequence_kl is not None:
            touched_T = touched_T | ~sequence_kl_mask(logp_T, inputs, config.clip.sequence_kl)
    return touched_T


def correction_weights(inputs: LossInputs, config: CorrectionConfig) -> Tensor:
    """Return [T]: the weights of ``tis`` or ``icepop``, without gradient; 1 where the sampler is unknown."""
    logratio_T = inputs.sampler_logratio()
    if config.kind == "tis":
        return tis(logratio_T, cap=config.cap)
    return icepop(logratio_T, low=config.low, high=config.high)


def corrected_tokens(inputs: LossInputs, config: CorrectionConfig) -> Tensor:
    """Return bool [T]: tokens whose importance weight is truncated or masked by the correction."""
    if config.kind == "none":
        return torch.zeros_like(inputs.advantages_T, dtype=torch.bool)
    return correction_weights(inputs, config) != bounded(inputs.sampler_logratio()).exp()


def step_statistic(parts: Sequence[Part], config: ObjectiveConfig) -> Tensor:
    """Return the number that the objective computes over the micro-batches of a step, such as z of ``kto``; log-probabilities
    have no gradient."""
    try:
        return torch.as_tensor(config.record.step_statistic(parts, config))
    except Exception as error:
        reraise("objective", config.kind, error)


def with_statistic(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> LossInputs:
    """Return inputs with the step statistic that the objective needs; if none is given, the batch is the whole step."""
    if not config.needs_statistic or inputs.statistic is not None:
        return inputs
    return replace(inputs, statistic=statistic_of(logp_T, inputs, config))


def statistic_of(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Return the step statistic; if none is given, the statistic of this batch, which is the whole step."""
    return step_statistic([(logp_T.detach(), inputs)], config) if inputs.statistic is None else inputs.statistic


def sequence_kl_mask(logp_T: Tensor, inputs: LossInputs, threshold: float) -> Tensor:
    """Apply ``opsm_mask`` to a batch."""
    return opsm_mask(inputs.old_sequence_logratio(logp_T), inputs.advantages_T, threshold=threshold)


def reference_sums(logp_T: Tensor, inputs: LossInputs) -> Tensor:
    """Return [S]: log pi(o)/ref(o) of each attempt, summed over its tokens."""
    return sum_by_attempt(inputs.reference_logratio(logp_T), inputs.attempt_T, inputs.attempts)


def dro_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Apply ``dro`` to a batch; advantages that differ within an attempt count by their mean."""
    logp_S = sum_by_attempt(logp_T, inputs.attempt_T, inputs.attempts)
    advantages_S = mean_by_attempt(inputs.advantages_T, inputs.attempt_T, inputs.attempts)
    return inputs.per_token(dro(logp_S, advantages_S, reference_sums(logp_T, inputs), beta=config.beta_dro))


def clip_bounds(config: ObjectiveConfig) -> dict[str, float]:
    """Return the arguments ``low`` and ``high`` of ``ppo_clip``, ``gspo`` and ``outside``."""
    return {"low": config.clip.low, "high": config.clip.high}


def m2po_statistic(parts: Sequence[Part], config: ObjectiveConfig) -> Tensor:
    """Return ``m2po_bound`` of all tokens of a step."""
    logratio_T = torch.cat([inputs.old_logratio(logp_T) for logp_T, inputs in parts])
    count_T = torch.cat([inputs.counts_S[inputs.attempt_T] for _, inputs in parts])
    return m2po_bound(logratio_T, threshold=config.clip.second_moment, count_T=count_T)


def nft_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Apply ``nft`` to a batch. An attempt with a positive advantage passed; p is the share of passed attempts in its group, by count.

    The estimator must therefore give passed attempts a positive advantage and others a negative one, as ``maxrl`` does in groups with both.
    """
    passed_S = sum_by_attempt(inputs.advantages_T, inputs.attempt_T, inputs.attempts) > 0
    group_S = torch.zeros_like(inputs.values_S, dtype=torch.int64) if inputs.group_S is None else inputs.group_S
    groups = int(group_S.max()) + 1
    passed_K = sum_by_attempt(inputs.counts_S * passed_S, group_S, groups)
    rate_S = (passed_K / sum_by_attempt(inputs.counts_S, group_S, groups))[group_S]
    attempt_T, floor = inputs.attempt_T, config.settings["floor"]
    return nft(inputs.old_logratio(logp_T), passed_S[attempt_T], rate_S[attempt_T], floor=floor)


def dpo_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Apply ``dpo`` to a batch of groups of two, one after the other: the chosen attempt has positive advantages, the rejected one negative ones.

    Each token's log-ratio is weighted by its absolute advantage, which may be 0 for all tokens of one attempt (``preference.focal``).
    Both attempts of a pair carry the pair's loss, so that ``sequence_sum`` is the mean over pairs.
    """
    settings = config.preference
    x_S = weighted_sum(inputs.reference_logratio(logp_T), inputs.advantages_T.abs(), inputs.attempt_T, inputs.attempts)
    sign_S = sum_by_attempt(inputs.advantages_T, inputs.attempt_T, inputs.attempts)
    one_K, other_K = x_S.view(-1, 2).unbind(1)
    swapped_K = torch.lt(*sign_S.view(-1, 2).unbind(1))
    chosen_K, rejected_K = torch.where(swapped_K, other_K, one_K), torch.where(swapped_K, one_K, other_K)
    loss_K = dpo(chosen_K, rejected_K, beta=settings.beta, label_smoothing=settings.label_smoothing)
    return inputs.per_token(loss_K.repeat_interleave(2))


def kto_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Apply ``kto`` to a batch; an attempt with a positive advantage is desirable."""
    settings, kl = config.preference, statistic_of(logp_T, inputs, config)
    desirable_S = sum_by_attempt(inputs.advantages_T, inputs.attempt_T, inputs.attempts) > 0
    weights = (settings.desirable, settings.undesirable)
    return inputs.per_token(kto(reference_sums(logp_T, inputs), desirable_S, kl, beta=settings.beta, weights=weights))


def kto_statistic(parts: Sequence[Part], _config: ObjectiveConfig) -> Tensor:
    """Return ``batch_kl`` of all attempts of a step."""
    x_S = torch.cat([reference_sums(logp_T, inputs) for logp_T, inputs in parts])
    return batch_kl(x_S, torch.cat([inputs.counts_S for _, inputs in parts]))


def rank_tokens(logp_T: Tensor, inputs: LossInputs, config: ObjectiveConfig) -> Tensor:
    """Apply ``rank`` to a batch, and divide a group's loss evenly among its attempts, copies included.

    ``values_S`` replaces the rewards, since only their order matters. The training step multiplies each attempt's loss by ``count_S``.
    """
    x_S = reference_sums(logp_T, inputs)
    group_S = torch.zeros(inputs.attempts, dtype=torch.int64) if inputs.group_S is None else inputs.group_S
    sizes: list[int] = group_S.unique_consecutive(return_counts=True)[1].tolist()
    parts = zip(x_S.split(sizes), inputs.values_S.split(sizes), inputs.counts_S.split(sizes), strict=True)
    loss_K = [
        rank(x_G, values_G, beta=config.preference.beta, count_G=count_G) / count_G.sum() for x_G, values_G, count_G in parts
    ]
    return inputs.per_token(torch.cat([loss.expand(size) for loss, size in zip(loss_K, sizes, strict=True)]))


Loss = Callable[[Tensor, LossInputs, ObjectiveConfig], Tensor]
LOSSES: Mapping[str, Loss] = {
    "cispo": lambda logp_T, i, c: cispo(logp_T, i.old_logratio(logp_T), i.advantages_T, cap=c.clip.cap),
    "dft": lambda logp_T, i, _: dft(logp_T, i.advantages_T),
    "dpo": dpo_tokens,
    "dro": dro_tokens,
    "gspo": lambda logp_T, i, c: gspo(i.old_sequence_logratio(logp_T), i.advantages_T, **clip_bounds(c)),
    "kto": kto_tokens,
    "m2po": lambda logp_T, i, c: m2po(i.old_logratio(logp_T), i.advantages_T, statistic_of(logp_T, i, c)),
    "nft": nft_tokens,
    "oapl": lambda logp_T, i, c: i.per_token(oapl(reference_sums(logp_T, i), i.values_S, beta=c.beta_policy)),
    "ppo_clip": lambda logp_T, i, c: ppo_clip(i.old_logratio(logp_T), i.advantages_T, **clip_bounds(c)),
    "rank": rank_tokens,
    "reinforce": lambda logp_T, i, _: reinforce(logp_T, i.advantages_T),
    "topr": lambda logp_T, i, _: topr(logp_T, i.advantages_T, reference_sums(logp_T.detach(), i)[i.attempt_T]),
    "unlikelihood": lambda logp_T, i, c: unlikelihood(logp_T, i.advantages_T, floor=c.settings["floor"]),
}
"""Built-in objective -> its loss over a batch, [T]."""
TOUCHED: Mapping[str, Loss] = {
    "cispo": lambda logp_T, i, c: i.old_logratio(logp_T) > math.log(c.clip.cap),
    "gspo": lambda logp_T, i, c: outside(i.old_sequence_logratio(logp_T), i.advantages_T, **clip_bounds(c)),
    "m2po": lambda logp_T, i, c: ~m2po_mask(i.old_logratio(logp_T), statistic_of(logp_T, i, c)),
    "ppo_clip": lambda logp_T, i, c: outside(i.old_logratio(logp_T), i.advantages_T, **clip_bounds(c)),
    "unlikelihood": lambda logp_T, i, c: (i.advantages_T < 0) & (logp_T < math.log(c.settings["floor"])),
}
"""Built-in objective -> bool [T]: tokens outside the clip, capped tokens (which keep their gradient), or dropped tokens."""
STATISTICS: Mapping[str, Callable[[Sequence[Part], ObjectiveConfig], Tensor]] = {"kto": kto_statistic, "m2po": m2po_statistic}
"""Built-in objective -> its step statistic."""


PROBE = {False: ((1.0, 0.0, 0.0, 0.0), (1.0, 0.5, 1.0, 0.0), (0.3, -1.0, 1.0, 1.0)), True: ((1.0, 0.0), (1.0, 0.3))}
"""Rewards of the groups on which ``formula_id`` evaluates a formula; True: pairs of a chosen and a rejected attempt."""


def formula_id(advantages: AdvantageConfig, config: ObjectiveConfig) -> str:
    """Return a content id of an estimator and an objective: a hash of their advantages, loss and gradient on fixed inputs, to six decimals.

    Results store this id (``summary.json`` of a run, benchmarks/results), so a result shows which version of the formulas made it.
    Settings change the id only if they change these numbers. A plug-in that raises on the fixed inputs gives "".
    """
    try:
        computed = probed(advantages, config)
    except RecordError:
        return ""
    return content_id(*(f"{round(value, 6) + 0.0:.6f}" for value in computed))[:12]


def probed(advantages: AdvantageConfig, config: ObjectiveConfig) -> list[float]:
    """Return the advantages of the tokens, the loss and its gradient [T] on the groups of ``PROBE``; attempt i has 1 + i % 3 tokens."""
    groups = [np.array(rewards) for rewards in PROBE[config.record.unit == "pair"]]
    sizes = [len(rewards_G) for rewards_G in groups]
    attempts = sum(sizes)
    attempt_T = torch.arange(attempts).repeat_interleave(torch.arange(attempts) % 3 + 1)
    tokens = len(attempt_T)
    logp_T, reference_T, old_T, sampler_T = (
        torch.tensor([-1.1 - math.sin(7 * t + shift) for t in range(tokens)], dtype=torch.float64) for shift in range(4)
    )
    if advantages.needs_values:
        rewards_T = torch.zeros(tokens, dtype=torch.float64)
        rewards_T[-1] = 1.0
        found_T, _ = group.gae(rewards_T.numpy(), old_T.numpy(), gamma=advantages.gae.gamma, decay=advantages.gae.decay)
        advantages_T = torch.tensor(group.whiten(found_T) if advantages.gae.whiten else found_T)
    else:
        logp_G = np.array([-3.1, -5.2, -2.3, -8.4])
        found = [
            np.array([1.0, -1.0])
            if config.record.unit == "pair"
            else advantage(rewards_G, advantages, passed_G=rewards_G == 1, logp_G=logp_G)
            for rewards_G in groups
        ]
        advantages_T = torch.tensor(np.concatenate(found))[attempt_T]
    inputs = LossInputs(
        attempt_T,
        advantages_T,
        torch.tensor(np.concatenate([group.soft_values(rewards_G, beta=config.beta_value) for rewards_G in groups])),
        reference_T,
        old_T,
        group_S=torch.arange(len(groups)).repeat_interleave(torch.tensor(sizes)),
        sampler_T=sampler_T,
    )
    logp_T.requires_grad_()
    loss = REDUCTIONS[config.reduce](config)(token_losses(logp_T, inputs, config), attempt_T, attempts=attempts, tokens=tokens)
    loss.backward()
    assert logp_T.grad is not None
    return [*advantages_T.tolist(), loss.item(), *logp_T.grad.tolist()]
