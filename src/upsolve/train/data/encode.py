"""Rewarded groups -> token ids without over-long attempts -> advantages, rewards and masks of every token.

Legend: P prompt tokens, R tokens of one attempt.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from upsolve.advantage.group import soft_values
from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, RewardConfig
from upsolve.config.select import ask_pairs, columns_read, pair_query, selection_table
from upsolve.errors import ConfigError
from upsolve.policy.tokens import Codec
from upsolve.reward.credit import blame_weights, kept_negatives, token_rewards
from upsolve.reward.formula import Rewarded
from upsolve.reward.judged import Judged, conversations, turns_of
from upsolve.reward.selection import fill
from upsolve.train.data.groups import Formed, TrainGroup, draw_tasks, keeps_zero, with_advantages
from upsolve.types import Group, Status, content_id

__all__ = [
    "Encoded",
    "EncodedAttempt",
    "EncodedGroup",
    "Encoding",
    "Tokenized",
    "draw_pairs",
    "encode_groups",
    "focal_weights",
    "prompts_of",
    "tokenize_groups",
]

Pair = tuple[int, int]


def ranked_pairs(item: Rewarded, kinds: Sequence[str], *, number: int = 0, seed: int = 0) -> list[list[tuple[int, Pair]]]:
    """Return the pairs of each kind with their ranks, the best first: attempts of the group that fulfil the query (``config.select.PAIRS``)."""
    read = columns_read(map(pair_query, kinds))
    with selection_table() as table:
        fill(table, [item], read, number=number, seed=seed)
        try:
            return [[(rank, (i, j)) for i, j, rank in ask_pairs(table, kind)] for kind in kinds]
        except ValueError as error:
            raise ConfigError(f"objective.preference.pairs: {error}") from error


def build_pairs(ranked: Sequence[Sequence[tuple[int, Pair]]], random: np.random.Generator, *, max_pairs: int) -> list[Pair]:
    """Return up to ``max_pairs`` pairs (chosen, rejected) of attempts, as indices into the group; each attempt is in at most one.

    Kinds take turns. Candidates of a kind are taken by rank, equal ranks in random order.
    """
    kinds = [[candidates[i] for i in random.permutation(len(candidates))] for candidates in ranked]
    waiting = [iter([pair for _, pair in sorted(candidates, key=itemgetter(0))]) for candidates in kinds]
    picked: list[Pair] = []
    taken: set[int] = set()
    while waiting and len(picked) < max_pairs:
        candidates = waiting.pop(0)
        if pair := next((pair for pair in candidates if not taken.intersection(pair)), None):
            picked.append(pair)
            taken.update(pair)
            waiting.append(candidates)
    return picked


def draw_pairs(
    rewarded: Sequence[Rewarded], data: DataConfig, kinds: str | Sequence[str], *, epoch: int, most: int | None = None
) -> Formed:
    """Sample up to ``data.groups_per_task`` pairs per task, different pairs in every epoch; ``most``: see ``draw_groups``."""
    several = [kinds] if isinstance(kinds, str) else [*kinds]

    def draw(item: Rewarded, random: np.random.Generator) -> tuple[Sequence[Sequence[int]], str]:
        ranked = ranked_pairs(item, several, number=epoch, seed=data.seed)
        pairs = build_pairs(ranked, random, max_pairs=data.groups_per_task)
        return pairs, "" if pairs else f"no pair by {', '.join(several)}"

    return draw_tasks(rewarded, draw, data, epoch=epoch, most=most)


def focal_weights(
    code: str, other: str, offsets: Sequence[tuple[int, int]], *, inside: float = 1.0, outside: float = 0.0
) -> NDArray[np.float64]:
    """Return [R]: ``inside`` for tokens that overlap a line of ``code`` that differs from ``other``, else ``outside``.

    Weights 1 and 0 ignore shared lines (2503.02783); 2 and 1 emphasise differing lines (2502.11475). Lines that only ``other``
    has have no tokens here. ``offsets`` are the character spans of the completion's tokens (``Codec.offsets``).
    """
    starts = np.cumsum([0, *map(len, code.splitlines(keepends=True))])
    matcher = SequenceMatcher(None, code.splitlines(), other.splitlines(), autojunk=False)
    weights_R = np.full(len(offsets), outside)
    for tag, first, last, _, _ in matcher.get_opcodes():
        if tag != "equal":
            touched = [start < starts[last] and end > starts[first] for start, end in offsets]
            weights_R[touched] = inside
    return weights_R


Floats = NDArray[np.float32]
ALONE = "attempts: no other attempt to compare with"
"""Reason counted when a group has too few attempts left to compare."""


@dataclass(frozen=True, slots=True)
class EncodedAttempt:
    """An attempt as token ids."""

    ids_R: tuple[int, ...]
    """Completion token ids."""
    advantages_R: Floats
    """Advantage of every token."""
    value: float = 0.0
    """Reward minus baseline, r - V (``LossInputs.values_S``)."""
    behavior: float = float("nan")
    """Log-probability of the attempt under its author, nats: under the sampled distribution if known; nan if unknown."""
    malformed: bool = False
    """True where the code does not compile."""
    count: int = 1
    """Occurrences of the attempt in its group, >= 1: equal attempts are merged."""
    rewards_R: Floats | None = None
    """Reward of every token, from which ``gae`` computes the advantages; None for other estimators."""
    mask_R: NDArray[np.bool_] | None = None
    """False for tokens left out of the loss, such as tokens of lines that never ran; None: no mask."""
    sampler_logps_R: Floats | None = None
    """Log-probability of each token in the distribution that was sampled, nats; None where unknown."""


@dataclass(frozen=True, slots=True)
class EncodedGroup:
    """A group as token ids, or the attempts of it with one prompt; attempts without a gradient and over-long ones are left out."""

    prompt_P: tuple[int, ...]
    """Prompt token ids."""
    attempts: tuple[EncodedAttempt, ...]
    """Distinct attempts."""
    zero_attempts: int = 0
    """Attempts left out because their advantage is 0; they count in the denominators of the loss."""
    zero_tokens: int = 0
    """Tokens of the attempts counted by ``zero_attempts``."""

    @property
    def tokens(self) -> int:
        """P + sum of R: tokens of the group in a packed row."""
        return len(self.prompt_P) + sum(len(attempt.ids_R) for attempt in self.attempts)

    def attempt_keys(self) -> list[str]:
        """Return a content key for each attempt: hash of prompt and completion ids."""
        prompt = str(self.prompt_P)
        return [content_id(prompt, str(attempt.ids_R)) for attempt in self.attempts]


@dataclass(frozen=True, slots=True)
class TokenizedGroup:
    """The attempts of a rewarded group that fit into the token limit, as token ids."""

    rewarded: Rewarded
    """The G attempts with their rewards."""
    prompts_G: Sequence[tuple[int, ...]]
    """Prompt token ids of each attempt; attempts of one conversation have the same."""
    ids_G: Sequence[tuple[int, ...]]
    """Completion token ids of each attempt."""


class Tokenized(NamedTuple):
    """Groups of a round as token ids, before their advantages."""

    groups: list[TokenizedGroup]
    """The groups, in the order of training."""
    left_out: Counter[str]
    """Attempts that do not fit, by reason."""


class Encoded(NamedTuple):
    """Groups of a round with their advantages."""

    groups: list[EncodedGroup]
    """Groups with a gradient, in the order of training."""
    left_out: Counter[str]
    """Attempts that do not fit or have no gradient, by reason."""
    trained: list[TrainGroup]
    """All groups of attempts that fit, with one advantage for each attempt."""


def mean(arrays: Sequence[Floats]) -> Floats:
    """Return the elementwise mean of arrays."""
    return np.stack(arrays).mean(0, dtype=np.float64).astype(np.float32)


def merged(attempts: Sequence[EncodedAttempt]) -> tuple[EncodedAttempt, ...]:
    """Return each distinct attempt once, with its count, and the mean of its copies' advantages, rewards and values."""
    copies: dict[tuple[int, ...], list[EncodedAttempt]] = {}
    for attempt in attempts:
        copies.setdefault(attempt.ids_R, []).append(attempt)
    return tuple(
        same[0]
        if len(same) == 1
        else replace(
            same[0],
            advantages_R=mean([attempt.advantages_R for attempt in same]),
            rewards_R=None
            if same[0].rewards_R is None
            else mean([attempt.rewards_R for attempt in same if attempt.rewards_R is not None]),
            value=float(np.mean([attempt.value for attempt in same])),
            count=len(same),
            sampler_logps_R=next((attempt.sampler_logps_R for attempt in same if attempt.sampler_logps_R is not None), None),
        )
        for same in copies.values()
    )


@dataclass(frozen=True, slots=True)
class Encoding:
    """The settings that decide how attempts are encoded."""

    codec: Codec
    """Tokenizer and prompt."""
    max_tokens: int
    """Longest prompt and attempt together (``data.max_tokens``)."""
    reward: RewardConfig
    """How rewards are assigned to tokens."""
    advantage: AdvantageConfig
    """The estimator with the options of the round, ``blame`` and ``negatives``."""
    objective: ObjectiveConfig
    """The loss."""
    seed: int = 0
    """Seed of estimators that use random numbers (``data.seed``)."""

    def at(self, number: int, rounds: int) -> Self:
        """Return the settings of a round, from 0: the options of the estimator can change from round to round."""
        return replace(self, advantage=self.advantage.at(number, rounds))

    @property
    def pairs(self) -> bool:
        """Whether a group is a pair of a chosen and a rejected attempt."""
        return self.objective.record.unit == "pair"

    @property
    def by_token(self) -> bool:
        """Whether the tokens of one attempt differ in reward, advantage or mask."""
        assigns = self.advantage.blame > 0 or self.advantage.negatives is not None
        return self.advantage.needs_values or assigns or self.reward.mask_unexecuted

    @property
    def keeps_zero(self) -> bool:
        """Whether an attempt with advantage 0 is trained on (``keeps_zero``): a KL term gives it a gradient."""
        return keeps_zero(self.advantage, self.objective)


def with_credit(plain: EncodedAttempt, item: TrainGroup, index: int, config: Encoding) -> EncodedAttempt:
    """Return the attempt with rewards, advantages and mask set for each token, if tokens differ in them."""
    if config.by_token:
        return credited(plain, item, index, config)
    if config.pairs and config.objective.preference.focal:
        attempt, other = item.group.attempts[index], item.group.attempts[1 - index]
        weights_R = focal_weights(attempt.code, other.code, config.codec.spans_of(attempt))
        return replace(plain, advantages_R=(plain.advantages_R * weights_R).astype(np.float32))
    return plain


def credited(plain: EncodedAttempt, item: TrainGroup, index: int, config: Encoding) -> EncodedAttempt:
    """Assign rewards, blame and the mask of unexecuted lines to the tokens of an attempt."""
    attempt, verdict = item.group.attempts[index], item.group.verdicts[index]
    assert verdict is not None, "only judged attempts have advantages"
    passed = tuple(one.code for one, good in zip(item.group.attempts, item.passed_G, strict=True) if good)
    judged = Judged(item.group.task, attempt, verdict, passed=passed)
    offsets = config.codec.spans_of(attempt)
    credit = token_rewards(judged, item.parts[index], offsets, config.reward)
    advantages_R, blame, negatives = plain.advantages_R, config.advantage.blame, config.advantage.negatives
    if blame and item.advantages_G[index] < 0:
        advantages_R = advantages_R * blame_weights(judged, offsets, blame)
    if negatives and item.advantages_G[index] < 0:
        advantages_R = advantages_R * kept_negatives(negatives, judged, offsets, config.reward)
    return replace(
        plain,
        advantages_R=(advantages_R * credit.mask_R).astype(np.float32),
        rewards_R=credit.rewards_R.astype(np.float32) if config.advantage.needs_values else None,
        mask_R=credit.mask_R if config.reward.mask_unexecuted else None,
    )


def tokenize_groups(groups: Sequence[Rewarded], config: Encoding) -> Tokenized:
    """Tokenize prompts and attempts. Attempts over ``max_tokens``, and groups with nothing left to compare, are left out and counted."""
    found: list[TokenizedGroup] = []
    left_out: Counter[str] = Counter()
    prompts = prompts_of([group.group for group in groups], config.codec, [group.passed.tolist() for group in groups])
    completions = iter(config.codec.ids_of_all([attempt for group in groups for attempt in group.group.attempts]))
    for group, asked_G in zip(groups, prompts, strict=True):
        item = without_overlong(group, asked_G, [*islice(completions, len(asked_G))], config, left_out)
        if len(item.ids_G) >= (2 if config.pairs else 1):
            found.append(item)
        else:
            left_out[ALONE] += len(item.ids_G)
    return Tokenized(found, left_out)


def encode_groups(tokenized: Tokenized, config: Encoding) -> Encoded:
    """Compute the advantages of groups, over the attempts that fit; attempts without a gradient are left out and counted.

    A baseline holds only attempts that are trained on. Equal attempts of a group become one, with their count: it is scored once. A group whose
    attempts belong to several conversations becomes one group for each; the first of these counts the attempts with advantage 0.
    """
    encoded: list[EncodedGroup] = []
    trained: list[TrainGroup] = []
    left_out: Counter[str] = Counter(tokenized.left_out)
    fewest = 1 if config.objective.record.unit == "attempt" else 2
    for group in tokenized.groups:
        item = with_advantages(group.rewarded, config.advantage, seed=config.seed, pair=config.pairs)
        trained.append(item)
        by_prompt: dict[tuple[int, ...], list[EncodedAttempt]] = {}
        zeros: list[int] = []
        values = soft_values(item.rewards_G, beta=config.objective.beta_value)
        for index, ids in enumerate(group.ids_G):
            if item.advantages_G[index] == 0 and not config.keeps_zero:
                left_out["attempts: zero advantage"] += 1
                zeros.append(len(ids))
            else:
                named = config.codec.failing is not config.codec
                plain = encode_attempt(item, index, ids, float(values[index]), answers=config.codec.answers, named=named)
                by_prompt.setdefault(group.prompts_G[index], []).append(with_credit(plain, item, index, config))
        counted = [] if config.advantage.record.selects else zeros
        for prompt, same in by_prompt.items():
            if len(attempts := merged(same)) >= fewest:
                encoded.append(EncodedGroup(prompt, attempts, len(counted), sum(counted)))
                counted = []
            else:
                left_out[ALONE] += len(same)
    return Encoded(encoded, left_out, trained)


def prompts_of(
    groups: Sequence[Group], codec: Codec, passed: Sequence[Sequence[bool]] | None = None
) -> list[list[tuple[int, ...]]]:
    """Return for each group the token ids of the prompt of each attempt; those with the same earlier turns, prefix and outcome have the same prompt.

    ``passed``: which attempts passed, where prompts name the outcome (``model.prompt.outcome``); None: prompts ask for a pass.
    """
    if passed is None or codec.failing is codec:
        passed = [[True] * len(group.attempts) for group in groups]
    shared = [[*same_prompt(group, codec, named_G)] for group, named_G in zip(groups, passed, strict=True)]
    requests = [
        (bool(named_G[alike[0]]), (group.task, turns_of(group, alike[0]), codec.prefix_of(group.attempts[alike[0]])))
        for group, named_G, parts in zip(groups, passed, shared, strict=True)
        for alike in parts
    ]
    encoded = {
        named: iter(one.prompts([asked for other, asked in requests if other is named]))
        for named, one in ((True, codec), (False, codec.failing))
    }
    ids, prompts = iter([next(encoded[named]).ids_P for named, _ in requests]), list[list[tuple[int, ...]]]()
    for parts in shared:
        own: dict[int, tuple[int, ...]] = {}
        for alike in parts:
            own |= dict.fromkeys(alike, next(ids))
        prompts.append([own[index] for index in range(len(own))])
    return prompts


def same_prompt(group: Group, codec: Codec, passed_G: Sequence[bool]) -> Iterator[list[int]]:
    """Yield lists of indices of the attempts with the same earlier turns, prefix and outcome, in order of first appearance."""
    for alike in conversations(group):
        parts: dict[tuple[str, bool], list[int]] = {}
        for index in alike:
            parts.setdefault((codec.prefix_of(group.attempts[index]), bool(passed_G[index])), []).append(index)
        yield from parts.values()


def without_overlong(
    item: Rewarded,
    prompts_G: Sequence[tuple[int, ...]],
    ids_G: Sequence[tuple[int, ...]],
    config: Encoding,
    left_out: Counter[str],
) -> TokenizedGroup:
    """Return a group without attempts that have no ids or are over-long, which are counted."""
    fits = [i for i, ids in enumerate(ids_G) if ids and len(prompts_G[i]) + len(ids) <= config.max_tokens]
    if len(fits) == len(ids_G):
        return TokenizedGroup(item, prompts_G, ids_G)
    for i in {*range(len(ids_G))} - {*fits}:
        attempt = item.group.attempts[i]
        without = "attempts: the tokenizer cannot express it" if attempt.code or attempt.answer else "attempts: empty"
        left_out["attempts: over max_tokens" if ids_G[i] else without] += 1
    return TokenizedGroup(item.part(fits), [prompts_G[i] for i in fits], [ids_G[i] for i in fits])


def encode_attempt(
    item: TrainGroup, index: int, ids: tuple[int, ...], value: float, *, answers: bool, named: bool = False
) -> EncodedAttempt:
    """Return an attempt of a group with one advantage for all its tokens.

    The author's log-probability counts only if training sees the same text: of a whole answer if whole answers are trained on (``answers``), of an
    attempt with a parent if the prompt shows the parent, of a failed attempt if its prompt does not name the outcome (``named``).
    """
    attempt, verdict = item.group.attempts[index], item.group.verdicts[index]
    shown = (not attempt.parent_id or bool(turns_of(item.group, index))) and not (named and not item.passed_G[index])
    logps = attempt.token_logps if shown and attempt.token_ids == ids else None
    known = attempt.behavior_logp if shown and (answers or not attempt.answer) else None
    behavior = known if logps is None else sum(logps)
    return EncodedAttempt(
        ids_R=ids,
        advantages_R=np.full(len(ids), item.advantages_G[index], dtype=np.float32),
        value=value,
        behavior=float("nan") if behavior is None else behavior,
        malformed=verdict is not None and verdict.status is Status.COMPILE_ERROR,
        sampler_logps_R=None if logps is None else np.array(logps, dtype=np.float32),
    )
