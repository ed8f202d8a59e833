"""Text -> token ids, where special tokens that are spelled in a text stay text.

A tokenizer turns ``<|im_end|>`` into the token that ends a turn, also inside of a program or a statement. Here only the chat template makes
such tokens: text that spells one is encoded by a copy of the tokenizer that knows none.
"""

import json
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tokenizers import Tokenizer

from upsolve.policy.chat_template import is_thought_mark

__all__ = ["Escaped", "TextEncoder"]

Spans = list[tuple[int, int]]
"""Characters (start, end) of each token."""

MARKER = re.compile(r"<[|｜].*[|｜]>", re.DOTALL)
"""Added tokens of this form control the model, whether or not the tokenizer calls them special."""
Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
"""Normalizers that replace characters by equivalent ones: another program where a string is compared or counted."""
PRIVATE = range(0xE000, 0xF900)
"""Characters that no standard uses, of which one marks the tokens that a text spells."""


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the tokens, with ids, that a text must not turn into: special tokens, and added tokens that the chat template writes.

    A single character, which some tokenizers name as their padding, is text in any case.
    """
    template = tokenizer.get_chat_template() if tokenizer.chat_template else ""
    added = {
        token.content: index
        for index, token in tokenizer.added_tokens_decoder.items()
        if token.special or token.content in template or MARKER.fullmatch(token.content) or is_thought_mark(token.content)
    }
    named = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    return {token: index for token, index in {**named, **added}.items() if len(token.strip()) > 1}


@dataclass(frozen=True, slots=True)
class Escaped:
    """Texts in which marks stand for the special tokens that they spell."""

    texts: list[str]
    """The texts."""
    shown: Callable[[str], str]
    """Puts what a text spells back in the place of the marks."""
    literal: bool
    """Whether the tokenizer would change one of the texts."""


class TextEncoder:
    """Encodes texts by a fast tokenizer of transformers. Ids of texts that spell no special token are the tokenizer's own."""

    def __init__(self, tokenizer: Any) -> None:
        """Read which tokens of a tokenizer are special."""
        self.tokenizer, self.control = tokenizer, control_tokens(tokenizer)
        longest_first = sorted(self.control, key=len, reverse=True)
        self.spelled = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        """Finds special tokens in a text; None: there are none."""
        normalizer = tokenizer.backend_tokenizer.normalizer
        parts = normalizers_of(json.loads(normalizer.__getstate__()) if normalizer else {})
        self.forms: list[Form] = [form for form in FORMS if any(part["type"] == form for part in parts)]

    def is_literal(self, text: str) -> bool:
        """Return whether the tokenizer would change a text: the text spells a special token, or has characters that are replaced."""
        if self.spelled and self.spelled.search(text):
            return True
        return not all(unicodedata.is_normalized(form, text) for form in self.forms)

    def escaped(self, texts: Sequence[str]) -> Escaped:
        """Replace the special tokens that texts spell by marks that no text has."""
        if not any(map(self.is_literal, texts)):
            return Escaped([*texts], str, literal=False)
        spelled: list[str] = []
        together = "".join(texts)
        mark = next(chr(code) for code in PRIVATE if chr(code) not in together)

        def hide(found: re.Match[str]) -> str:
            spelled.append(found[0])
            return f"{mark}{len(spelled) - 1}{mark}"

        hidden = [self.spelled.sub(hide, text) for text in texts] if self.spelled else [*texts]
        shown = re.compile(f"{mark}([0-9]+){mark}")
        return Escaped(hidden, lambda text: shown.sub(lambda found: spelled[int(found[1])], text), literal=True)

    @cached_property
    def literal(self) -> Tokenizer:
        """A copy of the tokenizer without special tokens and Unicode normalizers; 10 ms to 2 s."""
        data = json.loads(self.tokenizer.backend_tokenizer.to_str())
        data["added_tokens"], data["model"] = without_control(data["added_tokens"], data["model"], self.control)
        parts = [part for part in normalizers_of(data["normalizer"] or {}) if part["type"] not in FORMS]
        data["normalizer"] = {"type": "Sequence", "normalizers": parts} if parts else None
        copy: Tokenizer = Tokenizer.from_str(json.dumps(data))
        copy.no_padding()
        copy.no_truncation()
        return copy

    def ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the token ids of texts."""
        literal = [self.is_literal(text) for text in texts]
        own = [text for text, changed in zip(texts, literal, strict=True) if not changed]
        encoded = iter(self.tokenizer(own, add_special_tokens=False)["input_ids"] if own else [])
        pairs = zip(texts, literal, strict=True)
        return [self.literal_ids(text) if changed else tuple(next(encoded)) for text, changed in pairs]

    def literal_ids(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text that spells special tokens."""
        return tuple(self.literal.encode(text, add_special_tokens=False).ids)

    def spans(self, text: str) -> Spans:
        """Return the characters (start, end) of each token of a text."""
        if self.is_literal(text):
            return self.literal.encode(text, add_special_tokens=False).offsets
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [(int(start), int(end)) for start, end in encoded["offset_mapping"]]

    def made(self, text: str, shown: Callable[[str], str]) -> tuple[int, ...]:
        """Return the token ids of a text in which special tokens are meant, but those that ``shown`` puts back are not."""
        ids: list[int] = []
        for piece in self.pieces(text):
            ids += (self.control[piece],) if piece in self.control else self.literal_ids(shown(piece)) if piece else ()
        return tuple(ids)

    def pieces(self, text: str) -> Iterator[str]:
        """Yield special tokens and the texts between them, without the blanks that belong to a token (``lstrip``, ``rstrip``)."""
        added, position, strip = {token.content: token for token in self.tokenizer.added_tokens_decoder.values()}, 0, False
        for found in self.spelled.finditer(text) if self.spelled else ():
            token, before = added.get(found[0]), text[position : found.start()]
            before = before.lstrip() if strip else before
            yield before.rstrip() if token and token.lstrip else before
            yield found[0]
            position, strip = found.end(), bool(token and token.rstrip)
        yield text[position:].lstrip() if strip else text[position:]


def normalizers_of(normalizer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a normalizer of tokenizers."""
    parts = normalizer.get("normalizers", [normalizer] if normalizer else [])
    return [inner for part in parts for inner in (normalizers_of(part) if "normalizers" in part else [part])]


def without_control(
    added: list[dict[str, Any]], model: dict[str, Any], control: dict[str, int]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return added tokens and the model of a tokenizer in which control tokens have names that no text spells; ids stay as they are."""
    secret = secrets.token_hex(16)
    names = {token: f"{secret}-{index}" for token, index in control.items()}
    tokens = [{**token, "content": names.get(token["content"], token["content"])} for token in added]
    vocabulary = model.get("vocab", {})
    if isinstance(vocabulary, dict):
        renamed: Any = {names.get(token, token): index for token, index in vocabulary.items()}
    else:
        renamed = [[names.get(token, token), score] for token, score in vocabulary]
    changed = {**model, "vocab": renamed}
    if "merges" in model:
        pairs = ((merge, merge.split(" ", 1) if isinstance(merge, str) else merge) for merge in model["merges"])
        changed["merges"] = [merge for merge, pair in pairs if not {*pair, "".join(pair)} & names.keys()]
    if model.get("unk_token"):
        changed["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    return tokens, changed
