"""SkyRL: an environment for ``skyrl_gym.register(id="upsolve", entry_point="upsolve.adapters.skyrl:UpsolveEnv")``."""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from collections.abc import Mapping
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from upsolve.adapters.scoring import Scored, scorer_of, shown, task_of_truth

__all__ = ["UpsolveEnv"]


class UpsolveEnv(BaseTextEnv):
    """One task, for ``max_turns`` answers: after an answer that does not pass, the model is shown the outcome of the visible tests."""

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        """Set up an episode.

        Args:
            env_config: options of ``Scorer``.
            extras: columns of the row: ``task``, ``task_id``, ``extra_info`` with either, or ``reward_spec.ground_truth``; ``max_turns``.

        Raises:
            SourceError: the row does not say what its task is.
        """
        super().__init__()
        extras = extras or {}
        self.scorer = scorer_of(env_config or {})
        about = {**extras, **(extras.get("extra_info") or {})}
        truth = (extras.get("reward_spec") or {}).get("ground_truth")
        self.task = task_of_truth(truth, about, self.scorer.known)
        self.max_turns: int = extras.get("max_turns") or 1
        self.last: Scored | None = None

    def step(self, action: str) -> Any:
        """Judge an answer: the last one gets its reward, earlier ones 0. JudgeError for an unscored answer, because SkyRL needs a number."""
        self.turns += 1
        (self.last,) = self.scorer.score([(self.task, action)])
        reward = self.last.number()
        done = self.last.passed or self.turns >= self.max_turns
        return BaseTextEnvStepOutput(
            observations=[] if done else [{"role": "user", "content": shown(self.last)}],
            reward=reward if done else 0.0,
            done=done,
            metadata=self.last.outcome,
        )

    def get_metrics(self) -> dict[str, float]:
        """Return ``passed`` and ``share`` (of passed tests) of the last answer, and ``turns``."""
        if self.last is None:
            return {}
        return {"passed": float(self.last.passed), "share": self.last.share, "turns": float(self.turns)}
