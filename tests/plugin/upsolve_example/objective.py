"""REINFORCE whose loss stops at a bound; torch is imported when it is first called."""

from upsolve.objective.table import Objective


def bounded_tokens(logp_T, inputs, config):
    """loss_t = -A clamp(log pi, min=-bound)."""
    return -inputs.advantages_T * logp_T.clamp(min=-config.settings["bound"])


BOUNDED = Objective(bounded_tokens, options={"bound": 20.0})
