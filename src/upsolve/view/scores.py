"""Rewards and advantages of attempts and of their tokens, by the recipe of a run and the functions of training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from upsolve.archive.turns import earlier_turns
from upsolve.config import AdvantageConfig, RewardConfig
from upsolve.reward.judged import Part
from upsolve.types import Attempt, Group, Task, Turn, Verdict

__all__ = ["RunScores"]


@dataclass(frozen=True, slots=True)
class Scored:
    """An attempt of a group that has a reward."""

    reward: float
    """Its reward."""
    advantage: float
    """Its advantage in the group; 0 where the estimator gives each token its own."""
    parts: tuple[Part, ...]
    """The terms of the reward."""
    verdict: Verdict
    """The verdict that the reward is for: in a control run not the judge's."""


@dataclass(frozen=True)
class RunScores:
    """The sections of a recipe that give rewards and advantages, and the run's tokenizer."""

    reward: RewardConfig
    """How attempts are rewarded."""
    advantage: AdvantageConfig
    """The estimator of advantages."""
    seed: int
    """Seed of estimators that use random numbers (``data.seed``)."""
    group_note: str
    """Which group the advantages are relative to, one sentence."""
    load_codec: Callable[[], Any]
    """Loads the tokenizer; called once, when tokens are first asked for. ModelError if it cannot be loaded."""
    by_round: bool = False
    """Whether the groups are those of the rounds of an online run, else all attempts at a task."""
    score: Callable[[Task, Attempt, Sequence[Turn]], Sequence[float]] | None = None
    """Log-probabilities of an attempt's tokens under the run's model, after earlier turns, nats; None: not computed."""
    turns: int = 0
    """Most earlier attempts that prompts of the run show (``data.turns``)."""

    def rewarded(self, group: Group, places: Sequence[int]) -> tuple[dict[int, Scored], dict[str, int]]:
        """Return the attempts of a group that have a reward, by place, and the others counted by reason."""
        from upsolve.reward.formula import reward
        from upsolve.train.groups import whole_groups

        scored = reward(group, self.reward)
        groups = whole_groups([scored], self.advantage, seed=self.seed).groups
        if not groups:
            return {}, dict(scored.left_out)
        kept = kept_places(group, scored.group, places)
        values = zip(groups[0].rewards_G.tolist(), groups[0].advantages_G.tolist(), strict=True)
        found = zip(kept, values, scored.parts, scored.group.verdicts, strict=True)
        return {place: Scored(*value, parts, verdict) for place, value, parts, verdict in found if verdict}, dict(
            scored.left_out
        )

    def of_group(self, group: Group, places: Sequence[int]) -> dict[str, Any]:
        """Return rewards and advantages of a group: ``rows`` by place, and ``left_out`` by reason."""
        found, left_out = self.rewarded(group, places)
        rows = [
            {
                "place": place,
                "reward": one.reward,
                "advantage": None if self.advantage.needs_values else one.advantage,
                "parts": [[part.name, part.value, part.weight] for part in one.parts],
            }
            for place, one in found.items()
        ]
        return {"rows": rows, "left_out": left_out}

    def about(self) -> dict[str, Any]:
        """Return the estimator of advantages, and which group they are relative to."""
        return {"kind": self.advantage.kind, "note": self.group_note}

    def of_tokens(self, group: Group, places: Sequence[int], place: int) -> dict[str, Any]:
        """Return ``spans`` [R, 2] of the tokens of one attempt, in characters of its code, and what is known of each token."""
        found, left_out = self.rewarded(group, places)
        index, codec = [*places].index(place), loaded(self.load_codec)
        attempt, chains = group.attempts[index], earlier_turns(group.attempts, group.verdicts, self.turns)
        ids, spans = codec.ids_of(attempt), codec.spans_of(attempt)
        answer: dict[str, Any] = {
            "spans": spans,
            "note": self.group_note,
            **self.logps(group.task, attempt, ids, turns=chains[index] if chains else ()),
        }
        if place not in found or not spans:
            return {**answer, "note": f"this attempt has no reward; left out of its group: {listed(left_out) or 'nothing'}"}
        return {**answer, **self.credited(group.task, attempt, found[place], spans=spans)}

    def credited(self, task: Task, attempt: Attempt, scored: Scored, *, spans: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """Return rewards and advantages of the tokens of a rewarded attempt, as training assigns them."""
        from upsolve.reward.credit import blame_weights, token_rewards
        from upsolve.reward.judged import Judged

        judged, blame = Judged(task, attempt, scored.verdict), self.advantage.blame
        credit = token_rewards(judged, scored.parts, spans, self.reward)
        tokens: dict[str, Any] = {"reward": scored.reward, "rewards": credit.rewards_R.tolist()}
        if self.advantage.needs_values:
            return {
                **tokens,
                "note": f"{self.advantage.kind}: advantages need the values of that step, which a run does not store",
            }
        weights_R = blame_weights(judged, spans, blame) if blame and scored.advantage < 0 else 1.0
        by_token = scored.advantage * weights_R * credit.mask_R
        return {**tokens, "advantage": scored.advantage, "advantages": by_token.tolist()}

    def logps(self, task: Task, attempt: Attempt, ids: Sequence[int], *, turns: Sequence[Turn]) -> dict[str, Any]:
        """Return log-probabilities of the tokens: under the run's model if it was asked for, else the stored ones of the sampler."""
        if self.score is not None:
            return {"logps": list(self.score(task, attempt, turns)), "logps_of": "the run's model"}
        if attempt.token_logps is not None and attempt.token_ids == tuple(ids):
            return {"logps": list(attempt.token_logps), "logps_of": "the sampler, when the attempt was written"}
        return {}


def listed(counts: dict[str, int]) -> str:
    """Return counts by reason as text."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


@cache
def loaded(load: Callable[[], Any]) -> Any:
    """Return what a function loads, loaded once."""
    return load()


def kept_places(group: Group, kept: Group, places: Sequence[int]) -> list[int]:
    """Return the places of the attempts of a group that have a reward: they are in the order of the group."""
    remaining = iter(zip(group.attempts, places, strict=True))
    return [next(place for other, place in remaining if other is attempt) for attempt in kept.attempts]
