"""SkyRL's own registry makes our environment. Skipped where skyrl-gym is not installed."""

import json

import pytest

from upsolve.errors import JudgeError
from upsolve.records import to_row
from upsolve.types import Task, TestCase, TestKind

skyrl_gym = pytest.importorskip("skyrl_gym", reason="skyrl-gym is not installed")

DOUBLE = Task("my/double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6")), "f")
RIGHT, HALF = "```python\ndef f(x):\n    return 2 * x\n```", "```python\ndef f(x):\n    return 4\n```"
CONFIG = {"overrides": ["reward.preset=tests"]}


@pytest.fixture(scope="module")
def make():
    skyrl_gym.register(id="upsolve", entry_point="upsolve.adapters.skyrl:UpsolveEnv")
    return lambda **extras: skyrl_gym.make("upsolve", env_config=CONFIG, extras=extras)


def test_an_answer_is_a_step(make):
    with make(extra_info={"task": json.dumps(to_row(DOUBLE))}) as env:
        prompt = [{"role": "user", "content": "Double x."}]
        assert env.init(prompt) == (prompt, {})
        out = env.step(HALF)
        assert (out["reward"], out["done"], out["observations"]) == (0.5, True, [])
        assert out["metadata"] == {"status": "failed", "passed": 1, "total": 2}
        assert env.get_metrics() == {"passed": 0.0, "share": 0.5, "turns": 1.0}


def test_a_second_turn_follows_what_the_model_may_know(make):
    env = make(reward_spec={"ground_truth": '{"assert_case": ["assert f(2) == 4", "assert f(3) == 6"]}'}, max_turns=3)
    out = env.step(HALF)
    assert (out["reward"], out["done"]) == (0.0, False)
    assert out["observations"][0]["role"] == "user" and "1 of 2 visible tests passed" in out["observations"][0]["content"]
    out = env.step(RIGHT)
    assert (out["reward"], out["done"], out["observations"]) == (1.0, True, [])
    assert env.get_metrics()["turns"] == 2.0


def test_what_cannot_be_judged_raises(make):
    with pytest.raises(JudgeError, match="no reward"):
        make(reward_spec={"ground_truth": '{"tests": []}'}).step(RIGHT)
