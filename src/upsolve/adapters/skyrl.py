"""SkyRL: an environment for ``skyrl_gym.register(id="upsolve", entry_point="upsolve.adapters.skyrl:UpsolveEnv")``."""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from upsolve.adapters.scoring import Scored, Scorer, shown, task_of_truth

__all__ = ["UpsolveEnv"]

OPTIONS = ("tasks", "recipe", "overrides", "url", "token", "prompt_end")


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
        extras, config = extras or {}, env_config or {}
        options = {name: config.get(name) for name in OPTIONS if config.get(name)}
        self.scorer = scorer_of(json.dumps(options, sort_keys=True, default=list))
        about = {**extras, **(extras.get("extra_info") or {})}
        truth = (extras.get("reward_spec") or {}).get("ground_truth")
        self.task = task_of_truth(truth, about, self.scorer.known)
        self.max_turns: int = extras.get("max_turns") or 1
        self.last: Scored | None = None

    def step(self, action: str) -> Any:
        """Judge an answer; the last answer gets its reward, earlier answers get 0.

        Raises:
            JudgeError: it could not be judged: SkyRL takes a number only.
        """
        self.turns += 1
        (self.last,) = self.scorer.score([(self.task, action)])
        reward = self.last.number()
        done = self.last.passed or self.turns >= self.max_turns
        verdict = self.last.verdict
        return BaseTextEnvStepOutput(
            observations=[] if done else [{"role": "user", "content": shown(self.last)}],
            reward=reward if done else 0.0,
            done=done,
            metadata={"status": str(verdict.status), "passed": verdict.passed, "total": verdict.total},
        )

    def get_metrics(self) -> dict[str, float]:
        """Return ``passed`` and ``share`` (of passed tests) of the last answer, and ``turns``."""
        if self.last is None:
            return {}
        return {"passed": float(self.last.passed), "share": self.last.share, "turns": float(self.turns)}


@lru_cache(8)
def scorer_of(options: str) -> Scorer:
    """Return the scorer of options as JSON; one for all episodes of a process."""
    return Scorer(**json.loads(options))
