"""The signs that precede a collapse, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from upsolve.config import MonitorConfig, Recipe, check_recipe
from upsolve.errors import CollapseError, ConfigError
from upsolve.train.run.monitor import check_health, held_out, limits_of

START = {"heldout_logit_variance": 4.0, "heldout_margin": 0.2, "heldout_failed_logp": -1.0, "heldout_passed_logp": -0.8}
HEALTHY = {"step": 3.0, "loss": 1.0, "grad_norm": 1.0, "entropy": 0.5}


def check(config, **now):
    check_health(HEALTHY | now, START, config)


def test_logit_variance_stops_above_its_multiple_of_the_start():
    limit = MonitorConfig(max_logit_variance=1.5)
    check(limit, heldout_logit_variance=6.0)
    check(MonitorConfig(), heldout_logit_variance=100.0)
    check(limit)  # no held-out attempts were measured at this step
    with pytest.raises(CollapseError, match=r"from 4.00 to 6.01, more than monitor.max_logit_variance 1.5 times") as raised:
        check(limit, heldout_logit_variance=6.01)
    assert raised.value.ahead


def test_the_gap_counts_only_where_failed_attempts_fell():
    limit = MonitorConfig(max_negative_gap=0.5)
    check(limit, heldout_margin=0.9, heldout_failed_logp=-0.9)  # passed attempts rose by 0.8
    check(limit, heldout_margin=0.7, heldout_failed_logp=-1.5)  # 0.5 wider, which is not more
    with pytest.raises(
        CollapseError, match="failed attempts fell by 0.800 nats per token and the gap to passed ones grew by 0.600"
    ):
        check(limit, heldout_margin=0.8, heldout_failed_logp=-1.8)
    check(MonitorConfig(), heldout_margin=9.0, heldout_failed_logp=-9.0)


def test_a_collapse_is_not_ahead():
    with pytest.raises(CollapseError) as raised:
        check(MonitorConfig(max_logit_variance=1.5), entropy=0.0, heldout_logit_variance=100.0)
    assert not raised.value.ahead


def test_limits_are_where_a_run_is_stopped():
    config = MonitorConfig(max_logit_variance=1.5, max_negative_gap=0.5, max_likelihood_drop=0.25)
    limits = limits_of(START, config)
    assert limits == pytest.approx(
        {"entropy": 0.002, "heldout_passed_logp": -1.05, "heldout_logit_variance": 6.0, "heldout_margin": 0.7}
    )
    for name, limit in limits.items():
        beyond = 1e-6 if name in ("heldout_logit_variance", "heldout_margin") else -1e-6
        fell = {"heldout_failed_logp": -9.0} if name == "heldout_margin" else {}
        check(config, **fell, **{name: limit - beyond})
        with pytest.raises(CollapseError):
            check(config, **fell, **{name: limit + beyond})
    assert limits_of({}, config) == limits_of({}, MonitorConfig()) == {"entropy": 0.002}


def test_the_variance_is_the_mean_over_tokens():
    batch = SimpleNamespace(attempt_T=np.array([0, 0, 1]), advantages_T=np.array([1.0, 1.0, -1.0]))
    scores = SimpleNamespace(logp_T=torch.tensor([-1.0, -3.0, -4.0]), logit_variance_T=torch.tensor([1.0, 2.0, 6.0]))
    row = held_out(lambda _: scores, [batch])
    assert row == {
        "heldout_logit_variance": 3.0,
        "heldout_passed_logp": -2.0,
        "heldout_failed_logp": -4.0,
        "heldout_margin": 2.0,
    }


def test_limits_without_held_out_attempts_are_refused():
    for monitor in ({"max_negative_gap": 1.0, "heldout": 0}, {"max_logit_variance": 2.0, "stop_on_collapse": False}):
        with pytest.raises(ConfigError, match=r"monitor.max_\w+: needs held-out attempts and stop_on_collapse"):
            check_recipe(Recipe.model_validate({"monitor": monitor}))
