"""Preference losses: attempts compared with each other.

Legend: K pairs; S attempts; G attempts of one group. logratio = log pi(o)/ref(o), summed over an attempt's tokens, in nats.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from upsolve.objective.ratio import sum_by_attempt

__all__ = ["batch_kl", "dpo", "kto", "rank", "weighted_sum"]


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
    """z = max(0, mean log-ratio), without gradient: the reference point of ``kto`` (2402.01306).

    The paper uses log-ratios of answers paired with other prompts. Those of the attempts themselves are larger once the policy has
    learned the attempts.

    Args:
        logratio_S: [S].
        count_S: [S], how often each attempt occurs; None: once.
    """
    weights_S = torch.ones_like(logratio_S) if count_S is None else count_S
    return ((weights_S * logratio_S.detach()).sum() / weights_S.sum()).clamp(min=0)


def kto(
    logratio_S: Tensor, desirable_S: Tensor, kl: Tensor, *, beta: float = 0.1, weights: tuple[float, float] = (1, 1)
) -> Tensor:
    """loss_s = w (1 - sigma(beta (x - z))) for a desirable attempt, else w' (1 - sigma(beta (z - x))) (KTO, 2402.01306).

    Needs no pairs. If failed attempts far outnumber passed ones, choose weights that compensate for it.

    Args:
        logratio_S: [S], x.
        desirable_S: bool [S].
        kl: z, a number >= 0 without gradient (``batch_kl``).
        beta: > 0.
        weights: (w, w').
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
