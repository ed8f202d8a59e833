"""The key-value cache of batched decoding: rows of prompts, which all attempts at a task share, and rows of sampled tokens, the slots.

Decoding reads the whole cache for every token, so that memory limits its speed. A prompt is therefore stored and read once for all its attempts,
and a slot serves all attempts that are equal so far.

Legend: B slots, Q new tokens of a slot, T prompts, S largest number of slots of a prompt, H key-value heads, R query heads per key-value head, P prompt tokens,
L sampled tokens, E = P + L keys, D head size.
"""

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["BatchedCache", "PromptKV", "Step", "attempts_that_fit", "closed_up", "token_bytes"]

PromptKV = dict[int, tuple[Tensor, Tensor]]
"""Keys and values [1, H, P, D] of a prompt by layer."""
FREE = -1
"""Prompt index of a free slot."""
GROWTH = 32
"""Rows of the cache grow by a multiple of this many tokens. Rows are read as a whole: oneDNN copies parts of them before each product."""
NOWHERE = 2**40
"""Position of keys that no token sees."""
SHARE = 0.5
"""Largest share of the free memory for keys and values; the rest is for copies while the cache grows, and for logits."""


def token_bytes(layers: int, keys: int, itemsize: int) -> int:
    """Return the bytes of the keys and values of one token; ``keys``: width of all key-value heads, H D."""
    return 2 * layers * keys * itemsize


def attempts_that_fit(each: int, tokens: int, free: int) -> int:
    """Return how many attempts can be decoded at once, at least 1, with at most ``SHARE`` of the free memory for keys and
    values.

    ``each``: ``token_bytes`` of the model; ``tokens``: those of the longest prompt and attempt. No two attempts are assumed to share a prompt.
    """
    return max(1, int(SHARE * free / (each * tokens)))


@dataclass(frozen=True, slots=True)
class Step:
    """Indices and masks for the attention of one decoding step."""

    shape: tuple[int, int]
    """T and S: number of prompts, and largest number of slots of a prompt."""
    slot_TS: Tensor
    """int64 [T * S]: slots of each prompt; the padding is slot 0."""
    place_B: Tensor
    """int64 [B]: index of each slot in ``slot_TS``; 0 for a free slot."""
    sampled_B: Tensor
    """int64 [B]: number of sampled tokens before the new ones."""
    position_BQ: Tensor
    """int64 [B, Q]: positions of the new tokens."""
    key_position_BE: Tensor
    """int64 [B, E]: position of each key; keys after a new token are not visible to it."""
    bias_BQE: Tensor
    """[B, Q, E], in the dtype of the keys: 0 where the key is visible, else -inf."""
    tokens: tuple[int, int]
    """P and L: numbers of prompt tokens and of sampled tokens."""

    def by_prompt(self, slots: Tensor) -> Tensor:
        """Return [B, H, R, X] as [T, H, S * R, X]."""
        return slots.index_select(0, self.slot_TS).unflatten(0, self.shape).transpose(1, 2).flatten(2, 3)

    def by_slot(self, prompts: Tensor) -> Tensor:
        """Return [T, H, S * R, X] as [B, H, R, X]."""
        split = prompts.unflatten(2, (self.shape[1], -1))
        return split.transpose(1, 2).flatten(0, 1).index_select(0, self.place_B)


class BatchedCache:
    """Keys and values by layer, updated in place. Each slot decodes one sequence, after its prompt and with its own length.

    Decoding reads the whole cache for every token, and the memory's speed limits it: prompts are stored and read once for all their attempts.
    """

    def __init__(self, slots: int, device: torch.device, *, room: tuple[int, int, int] = (1, 1, 1)) -> None:
        """Start with free slots; ``room``: expected prompts, and most tokens of a prompt and of an attempt. There may be more."""
        self.device, self.room, self.capacity = device, room, slots
        self.fixed = False
        """Whether steps keep their shapes for as long as possible, at the cost of computing unused slots."""
        self.widest = 0
        """Largest number of slots of a prompt so far, where ``fixed``."""
        self.prompts: PromptKV = {}
        """[T, H, P, D] by layer."""
        self.sampled: PromptKV = {}
        """[capacity, H, L, D] by layer, of which the first B rows are in use."""
        self.prompt_tokens: list[int] = []
        """Number of tokens of each prompt, T."""
        self.prompt_of = [FREE] * slots
        """Prompt of each slot, B."""
        self.sampled_tokens = [0] * slots
        """Number of sampled tokens of each slot that are stored, B."""
        self.prefilled: PromptKV | None = None
        """The prompts that are prefilled at the moment, padded on the right."""
        self.step: Step | None = None
        """The decoding step that is computed at the moment."""

    def update(self, key: Tensor, value: Tensor, layer: int, *_: object) -> tuple[Tensor, Tensor]:
        """Store the keys and values of one layer, and return the keys and values of all sampled tokens; the model calls ``Cache.update``."""
        if self.step is None:
            assert self.prefilled is not None
            if before := self.prefilled.get(layer):
                key, value = (torch.cat(parts, dim=2) for parts in zip(before, (key, value), strict=True))
            self.prefilled[layer] = (key, value)
            return key, value
        slots, new = torch.arange(len(key), device=self.device)[:, None], torch.arange(key.shape[2], device=self.device)
        keys, values = self.sampled[layer]
        places_BQ = self.step.sampled_B[:, None] + new
        keys[slots, :, places_BQ] = key.transpose(1, 2)
        values[slots, :, places_BQ] = value.transpose(1, 2)
        return keys[: len(key)], values[: len(key)]

    def add(self, prompt: PromptKV) -> int:
        """Store a prefilled prompt, in place of an unused prompt if possible, and return its index."""
        number = next(n for n in range(len(self.prompt_tokens) + 1) if n not in self.prompt_of)
        tokens = next(iter(prompt.values()))[0].shape[2]
        self.prompt_tokens[number : number + 1] = [tokens]
        for layer, (key, value) in prompt.items():
            keys, values = self.prompts.get(layer) or (key[:0], value[:0])
            rows, longest = max(number + 1, self.room[0]), max(tokens, self.room[1])
            self.prompts[layer] = (grown(keys, rows, longest), grown(values, rows, longest))
            for stored, new in zip(self.prompts[layer], (key, value), strict=True):
                stored[number, :, :tokens] = new[0]
            if layer not in self.sampled:
                self.sampled[layer] = (grown(key[:0, :, :0], self.capacity, 0), grown(value[:0, :, :0], self.capacity, 0))
        return number

    def begin(self, slot: int, prompt: int) -> None:
        """Start a sequence after a stored prompt, in a slot that exists or in a new slot after the last."""
        self.prompt_of[slot : slot + 1], self.sampled_tokens[slot : slot + 1] = [prompt], [0]

    def fork(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy slots: of each pair the first to the second, which is free or comes after the last slot."""
        if not pairs:
            return
        for source, slot in pairs:
            self.begin(slot, self.prompt_of[source])
            self.sampled_tokens[slot] = self.sampled_tokens[source]
        copy_rows(self.sampled, pairs, max(self.sampled_tokens[source] for source, _ in pairs))

    def drop(self, slot: int, tokens: int) -> None:
        """Forget the last tokens of a slot."""
        self.sampled_tokens[slot] -= tokens

    def end(self, slot: int) -> None:
        """Free a slot."""
        self.begin(slot, FREE)

    def keep(self, slots: Sequence[int], prompt: int) -> int:
        """Keep these slots in this order, their prompts and one more prompt, and drop the rest; return the new index of that prompt."""
        used, self.widest = closed_up({prompt, *(self.prompt_of[slot] for slot in slots)}), 0
        copy_rows(self.sampled, [*zip(slots, range(len(slots)), strict=True)], max(self.sampled_tokens))
        copy_rows(self.prompts, [*zip(used, range(len(used)), strict=True)], max(self.prompt_tokens))
        self.prompt_tokens = [self.prompt_tokens[number] for number in used]
        self.prompt_of = [used.index(self.prompt_of[slot]) for slot in slots]
        self.sampled_tokens = [self.sampled_tokens[slot] for slot in slots]
        return used.index(prompt)

    def form(self, step: Step) -> tuple[Any, ...]:
        """Return the shapes of a step, and the shapes and addresses of keys and values; all layers move to new addresses at the same time."""
        stored = [tensor for cached in (self.prompts, self.sampled) for tensor in next(iter(cached.values()))]
        return (step.shape, step.position_BQ.shape, *((tensor.data_ptr(), tensor.shape) for tensor in stored))

    @contextmanager
    def decoding(self, new: int) -> Generator[Step]:
        """Make room for ``new`` more tokens of every slot; within the context the model decodes them."""
        tokens = max(self.sampled_tokens) + new
        if self.fixed:  # a power of two, but no more than the longest attempt, so that the cache is copied a few times only
            tokens = max(tokens, min(power_of_two(tokens), self.room[2]))
        for layer, (keys, values) in self.sampled.items():
            self.sampled[layer] = (grown(keys, self.capacity, tokens), grown(values, self.capacity, tokens))
        self.step = self.next_step(new)
        yield self.step
        self.step = None
        self.sampled_tokens = [
            n + new * (prompt != FREE) for n, prompt in zip(self.sampled_tokens, self.prompt_of, strict=True)
        ]

    def next_step(self, new: int) -> Step:
        """Return the next step, which decodes ``new`` tokens of every slot."""
        prompts, sampled = (next(iter(stored.values()))[0] for stored in (self.prompts, self.sampled))
        rows = min(power_of_two(len(self.prompt_tokens)), len(prompts)) if self.fixed else len(self.prompt_tokens)
        unused = [0] * (rows - len(self.prompt_tokens))
        prompt_B, sampled_B, prompt_T = (
            np.array(numbers) for numbers in (self.prompt_of, self.sampled_tokens, [*self.prompt_tokens, *unused])
        )
        busy = np.flatnonzero(prompt_B != FREE)
        busy = busy[np.argsort(prompt_B[busy], kind="stable")]
        count_T = np.bincount(prompt_B[busy], minlength=len(prompt_T))
        most = self.widest = max(int(count_T.max()), self.widest if self.fixed else 0)
        first_T = np.cumsum(count_T) - count_T
        place = prompt_B[busy] * most + np.arange(len(busy)) - first_T[prompt_B[busy]]
        slot_TS, place_B = np.zeros(len(prompt_T) * most, np.int64), np.zeros(len(prompt_B), np.int64)
        slot_TS[place], place_B[busy] = busy, place
        tokens, length_B1 = (prompts.shape[2], sampled.shape[2]), prompt_T[prompt_B][:, None]
        in_prompt, after = np.arange(tokens[0])[None], np.arange(tokens[1])[None]
        keys_BE = np.concatenate([np.where(in_prompt < length_B1, in_prompt, NOWHERE), length_B1 + after], 1)
        position_BQ = length_B1 + sampled_B[:, None] + np.arange(new)
        arrays = (slot_TS, place_B, sampled_B, position_BQ, keys_BE)
        slots, places, before, positions, key_positions = (torch.from_numpy(array).to(self.device) for array in arrays)
        hidden = key_positions[:, None] > positions[:, :, None]
        bias = torch.zeros(hidden.shape, dtype=sampled.dtype, device=self.device).masked_fill(hidden, -torch.inf)
        return Step((len(prompt_T), most), slots, places, before, positions, key_positions, bias, tokens)


def copy_rows(stored: PromptKV, pairs: Sequence[tuple[int, int]], tokens: int) -> None:
    """Copy the first tokens of some rows in all layers: of each pair the first row to the second, all at once."""
    moved = [pair for pair in pairs if pair[0] != pair[1]]
    if not moved or not tokens:
        return
    device = next(iter(stored.values()))[0].device
    sources, rows = (torch.tensor(side, device=device) for side in zip(*moved, strict=True))
    for cached in stored.values():
        for tensor in cached:
            tensor[rows, :, :tokens] = tensor[sources, :, :tokens]


def closed_up(used: Collection[int]) -> list[int]:
    """Return an order of the used rows without gaps that moves as few rows as possible: the last rows move to unused positions."""
    later = iter(sorted(used, reverse=True))
    return [place if place in used else next(later) for place in range(len(used))]


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below a positive number."""
    return 1 << (number - 1).bit_length()


def grown(stored: Tensor, rows: int, tokens: int) -> Tensor:
    """Return keys or values [N, H, L, D] with at least these numbers of rows and tokens: unchanged, or copied to more memory than needed."""
    if len(stored) >= rows and stored.shape[2] >= tokens:
        return stored
    rows = len(stored) if len(stored) >= rows else max(rows, 2 * len(stored))
    tokens = max(stored.shape[2], -(-tokens // GROWTH) * GROWTH)
    larger = stored.new_zeros(rows, stored.shape[1], tokens, stored.shape[3])
    larger[: len(stored), :, : stored.shape[2]] = stored
    return larger
