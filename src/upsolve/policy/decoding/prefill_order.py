"""Which prompts are decoded in one batch, and which are prefilled in one forward pass."""

from collections.abc import Iterator, Sequence

from upsolve.policy.tokens import EncodedPrompt, common_prefix
from upsolve.types import Task

__all__ = ["of_like_length", "prefill_runs"]

PREFIX = 16
"""Tokens that a prompt must share with the one before to reuse its keys and values."""
TOGETHER, PASS = 1024, 64
"""Most tokens of several prompts that are prefilled in one forward pass, padding included; and the number of tokens whose computation takes about as
long as the fixed cost of a pass: 32 on an AMD EPYC, 140 on a Xeon with AMX, for SmolLM2-135M."""
PADDING, SPARE = 3, 384
"""A prompt of more tokens than ``PADDING`` times the mean of the shorter ones and ``SPARE`` is decoded after these."""


def of_like_length(prompts: Sequence[tuple[Task, EncodedPrompt]]) -> Iterator[list[tuple[Task, EncodedPrompt]]]:
    """Yield the prompts in parts that are decoded one after the other, the shortest prompts first.

    The cache stores the prompts of a part with the length of the longest, so a part ends before a prompt that is much longer
    (``PADDING``) than those before it.
    """
    part: list[tuple[Task, EncodedPrompt]] = []
    tokens = 0
    for task, prompt in sorted(prompts, key=lambda one: len(one[1].ids_P)):
        if part and len(prompt.ids_P) - SPARE > PADDING * tokens / len(part):
            yield part
            part, tokens = [], 0
        part.append((task, prompt))
        tokens += len(prompt.ids_P)
    yield part


def prefill_runs(last: tuple[int, ...], prompts: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Yield runs of prompts that are prefilled in one pass, each with the number of first tokens that its prompts share with the prompt before the run.

    A prompt joins a run if the run stays within ``TOGETHER`` tokens and computes at most ``PASS`` tokens more than the run and the prompt one
    after the other: padding, and tokens that the prompt could reuse. At least one token besides the last is computed.

    Args:
        last: the prompt that was prefilled last; () for none.
        prompts: further prompts, of which no two neighbours are equal.
    """
    run, shared = list[tuple[int, ...]](), 0
    for ids in prompts:
        alone, joint = (reusable(before, ids) for before in (run[-1] if run else last, last))
        joint = min(shared, joint) if run else joint
        together = (len(run) + 1) * (max(map(len, (*run, ids))) - joint)
        apart = len(run) * (max(map(len, run), default=0) - shared) + len(ids) - alone
        if run and together > min(TOGETHER, apart + PASS):
            yield shared, run
            last, run, joint = run[-1], [], alone
        run.append(ids)
        shared = joint
    if run:
        yield shared, run


def reusable(before: tuple[int, ...], ids: tuple[int, ...]) -> int:
    """Return the number of first tokens of a prompt whose keys and values are taken from the prompt before it."""
    shared = min(common_prefix(before, ids), len(ids) - 2)
    return shared if shared >= PREFIX else 0
