"""Losses without a clipped ratio: pure functions that return one loss per token, attempt or pair, not summed over the batch.

Legend: T tokens of all attempts of a batch, one after the other; S attempts; K pairs; G attempts of one group. In preference losses,
logratio = log pi(o)/ref(o), summed over an attempt's tokens, in nats.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from upsolve.objective.ratio import bounded, sum_by_attempt

__all__ = ["batch_kl", "dft", "dpo", "dro", "kto", "nft", "oapl", "rank", "reinforce", "topr", "weighted_sum"]


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

    R = pi/pi_old; p is the share of the group's attempts that passed, clamped to [0.02, 0.98]. A failed attempt is treated as a
    sample of the negative policy (pi_old - p pi) / (1 - p), whose likelihood is maximised; its gradient fades as R falls.
    ``floor`` (1 in the authors' runs) bounds the value but not the gradient, which below the floor is that of the fraction /
    floor.
    """
    limited_T, rate_T = bounded(logratio_T), rate_T.clamp(0.02, 0.98)
    negative_T = (1 - rate_T * limited_T.exp()) / (1 - rate_T)
    negative_T = negative_T + (negative_T.clamp(min=floor) - negative_T).detach()
    return -(1 - rate_T) * torch.where(passed_T, limited_T, negative_T.log())


def weighted_sum(logratio_T: Tensor, weights_T: Tensor, attempt_T: Tensor, attempts: int) -> Tensor:
    """Return [S]: sum_t w_t log pi(o_t)/ref(o_t). With the weights of ``train.pairs.focal_weights`` ``dpo`` is focal DPO."""
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

    The paper uses log-ratios of answers paired with other prompts. Those of the attempts themselves are larger once the policy
    has learned the attempts.
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


def rank(logratio_G: Tensor, rewards_G: Tensor, *, beta: float = 0.1) -> Tensor:
    """loss = sum_i -log(e^{b x_i} / (e^{b x_i} + sum_{j: r_j < r_i} e^{b x_j})) over a group; b is ``beta``.

    Minus the log-likelihood of the whole order under Plackett-Luce (2305.18290, app. A.3) when no two rewards are equal;
    attempts of equal reward are not compared. A group of two is ``dpo``; a group of one, or of equal rewards, gives 0.
    """
    score_G = beta * logratio_G
    itself_GG = torch.eye(rewards_G.numel(), dtype=torch.bool, device=rewards_G.device)
    against_GG = (rewards_G[None, :] < rewards_G[:, None]) | itself_GG
    return (score_G.expand_as(against_GG).masked_fill(~against_GG, -torch.inf).logsumexp(1) - score_G).sum()
