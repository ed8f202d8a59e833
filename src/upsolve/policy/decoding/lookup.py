"""Tokens proposed by looking up how the text went on before: prompt lookup decoding (2304.04487).

A program that corrects another one repeats most of it. The policy scores the proposed tokens in one forward pass; they are kept as long as
they equal the tokens that are sampled with the attempt's own random numbers. Proposals therefore change the time, and nothing else.
"""

from collections.abc import Sequence

__all__ = ["Lookup"]

SIZES = (3, 2)
"""Numbers of last tokens that are looked up, the longest first."""


class Lookup:
    """The prompt and the sampled tokens of one attempt."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.ids: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}
        """Place of the token that last followed some tokens."""
        for token in prompt:
            self.append(token)

    def append(self, token: int) -> None:
        """Append a token."""
        for size in SIZES:
            self.after[tuple(self.ids[-size:])] = len(self.ids)
        self.ids.append(token)

    def draft(self, most: int) -> list[int]:
        """Return at most this many tokens that followed the last tokens when they occurred before; none if they did not."""
        places = (self.after.get(tuple(self.ids[-size:])) for size in SIZES)
        place = next((place for place in places if place is not None), len(self.ids))
        return self.ids[place : place + most]
