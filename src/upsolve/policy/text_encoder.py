"""Text -> token ids that decode to the same text.

A tokenizer turns ``<|im_end|>`` into the token that ends a turn, also inside of a program or a statement. Here only the chat template makes such
tokens: text that spells a special token is encoded by a copy of the tokenizer without special tokens.

Tokenizers in the style of SentencePiece also put a blank before a text, and turn ``▁`` into a blank. The copy adds no blank, since a completion
continues a prompt. Characters that the copy would change are encoded as tokens of single bytes.
"""

import json
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from tokenizers import Tokenizer
from tokenizers.models import BPE

from upsolve.policy.chat_template import is_thought_mark

__all__ = ["Escaped", "TextEncoder"]

Spans = list[tuple[int, int]]
"""Characters (start, end) of each token."""

MARKER = re.compile(r"<[|｜].*[|｜]>", re.DOTALL)
"""Added tokens of this form control the model, whether or not the tokenizer calls them special."""
Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
"""Normalizers that replace characters by equivalent ones, which changes programs that compare or count characters."""
PRIVATE = range(0xE000, 0xF900)
"""Private-use characters of Unicode; one of them marks the special tokens that a text contains."""
NO_BLANK = {"prepend_scheme": "never", "add_prefix_space": False}
"""Settings of pre-tokenizers that put no blank before a text."""


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """Return token -> id of the control tokens, which a text must not produce: special tokens and the chat template's added tokens."""
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
    """Texts in which marks replace the special tokens that they contain, such as a literal ``<|im_end|>``."""

    texts: list[str]
    """The texts."""
    shown: Callable[[str], str]
    """Returns a text with its marks replaced by the original characters."""
    literal: bool
    """Whether the tokenizer would change one of the texts."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a text."""

    ids: list[int]
    """Token ids."""
    spans: Spans
    """The characters of each token."""
    exact: bool
    """Whether the ids decode exactly to the text; otherwise they are the nearest ids that the tokenizer has."""


class TextEncoder:
    """Encodes texts by a fast tokenizer of transformers, as continuations of other text.

    Ids are the tokenizer's own if the text spells no special token, and the tokenizer changes no text.
    """

    def __init__(self, tokenizer: Any) -> None:
        """Read the special tokens of a tokenizer, and the characters that the tokenizer changes."""
        self.tokenizer, self.control = tokenizer, control_tokens(tokenizer)
        longest_first = sorted(self.control, key=len, reverse=True)
        self.special_pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        """Finds special tokens in a text; None: the tokenizer has no special tokens."""
        parts = parts_of(state(tokenizer.backend_tokenizer.normalizer))
        self.forms: list[Form] = [form for form in FORMS if any(part["type"] == form for part in parts)]
        self.faithful = is_faithful(tokenizer)
        """Whether the tokenizer changes nothing but the form of Unicode and bytes without a token."""
        self.missing = bytes({*range(256)} - self.byte_tokens.keys()) if self.faithful else b""
        """Bytes without a token, which a faithful tokenizer drops."""

    def is_literal(self, text: str) -> bool:
        """Return whether the tokenizer would change a text: special tokens that it spells, or characters that are replaced."""
        if self.special_pattern and self.special_pattern.search(text):
            return True
        if not all(unicodedata.is_normalized(form, text) for form in self.forms):
            return True
        if not self.faithful:
            return self.decode(self.literal.encode(text, add_special_tokens=False).ids) != text
        data = text.encode()
        return len(data.translate(None, self.missing)) < len(data)

    def escaped(self, texts: Sequence[str]) -> Escaped:
        """Replace the special tokens that texts contain by marks that occur in no text."""
        if not any(map(self.is_literal, texts)):
            return Escaped([*texts], str, literal=False)
        found_tokens: list[str] = []
        together = "".join(texts)
        mark = next(chr(code) for code in PRIVATE if chr(code) not in together)

        def hide(found: re.Match[str]) -> str:
            found_tokens.append(found[0])
            return f"{mark}{len(found_tokens) - 1}{mark}"

        hidden = [self.special_pattern.sub(hide, text) for text in texts] if self.special_pattern else [*texts]
        shown = re.compile(f"{mark}([0-9]+){mark}")
        return Escaped(hidden, lambda text: shown.sub(lambda found: found_tokens[int(found[1])], text), literal=True)

    @cached_property
    def literal(self) -> Tokenizer:
        """A copy of the tokenizer without special tokens, Unicode normalizers and a blank before texts; 10 ms to 2 s."""
        return literal_copy(self.tokenizer.backend_tokenizer.to_str(), tuple(self.control.items()))

    def ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the token ids of texts; no ids for a text that the tokenizer cannot express."""
        literal = [not self.faithful or self.is_literal(text) for text in texts]
        own = [text for text, changed in zip(texts, literal, strict=True) if not changed]
        encoded = iter(self.tokenizer(own, add_special_tokens=False)["input_ids"] if own else [])
        found = [self.encoded(text) if changed else None for text, changed in zip(texts, literal, strict=True)]
        return [tuple(next(encoded)) if each is None else tuple(each.ids) if each.exact else () for each in found]

    def encoded(self, text: str) -> Encoded:
        """Encode a text with the copied tokenizer; uses byte tokens for characters that the tokenizer changes."""
        found = self.literal.encode(text, add_special_tokens=False)
        if self.decode(found.ids) == text:
            return Encoded(found.ids, found.offsets, exact=True)
        parts = [*self.parts(text, found.ids, found.offsets)]
        ids, spans = [index for part, _ in parts for index in part], [span for _, part in parts for span in part]
        if self.decode(ids) == text:
            return Encoded(ids, spans, exact=True)
        return Encoded(found.ids, found.offsets, exact=False)

    def parts(self, text: str, ids: Sequence[int], spans: Spans) -> Iterator[tuple[Sequence[int], Spans]]:
        """Yield tokens and their characters, part by part: the token if it decodes to its characters, else byte tokens."""
        position = 0
        for index, (start, end) in zip(ids, spans, strict=True):
            own = text[start:end] if start >= position else ""
            if own and own == self.decode([index]) and "\ufffd" not in own:  # a part of a character is decoded to U+FFFD
                yield self.as_bytes(text, position, start)
                yield [index], [(start, end)]
            else:
                yield self.as_bytes(text, position, end)
            position = max(position, end)
        yield self.as_bytes(text, position, len(text))

    def as_bytes(self, text: str, start: int, end: int) -> tuple[Sequence[int], Spans]:
        """Return the tokens of the bytes of characters, each with its character; a byte without a token is skipped."""
        places = [(byte, (at, at + 1)) for at in range(start, end) for byte in text[at].encode()]
        known = [(self.byte_tokens[byte], span) for byte, span in places if byte in self.byte_tokens]
        return [index for index, _ in known], [span for _, span in known]

    @cached_property
    def byte_tokens(self) -> dict[int, int]:
        """Byte -> its token, for the bytes that have one."""
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        core = self.tokenizer.backend_tokenizer
        of_bytes = any(part["type"] == "ByteLevel" for part in parts_of(state(core.decoder)))
        names: dict[int, str] = bytes_to_unicode() if of_bytes else {byte: f"<0x{byte:02X}>" for byte in range(256)}
        return {byte: index for byte, name in names.items() if (index := core.token_to_id(name)) is not None}

    @cached_property
    def before(self) -> tuple[list[int], int]:
        """Tokens before a continuation, and their number of characters: a decoder may drop the blank that begins a text."""
        ids = [] if self.faithful else self.tokenizer("a", add_special_tokens=False)["input_ids"]
        return ids, len(self.tokenizer.decode(ids)) if ids else 0

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens that continue other text."""
        before, length = self.before
        text: str = self.tokenizer.decode([*before, *ids], clean_up_tokenization_spaces=False)
        return text[length:]

    def spans(self, text: str) -> Spans:
        """Return the characters (start, end) of each token of a text."""
        if not self.faithful or self.is_literal(text):
            return self.encoded(text).spans
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [(int(start), int(end)) for start, end in encoded["offset_mapping"]]

    def made(self, text: str, shown: Callable[[str], str], *, begins: bool = True) -> tuple[int, ...]:
        """Return the token ids of a text in which special tokens become tokens; special tokens that ``shown`` restores from marks stay text.

        ``begins``: the text starts a prompt, so it gets the blanks that the tokenizer adds.
        """
        ids: list[int] = []
        for piece in self.pieces(text):
            blank = self.blank(piece, first=not ids) if begins and piece not in self.control else ""
            ids += (self.control[piece],) if piece in self.control else self.encoded(blank + shown(piece)).ids if piece else ()
        return tuple(ids)

    def blank(self, piece: str, *, first: bool) -> str:
        """Return the blank, or nothing, that the tokenizer puts before a text, or before text behind a special token."""
        if self.faithful or not piece:
            return ""
        start = "" if first or not self.control else next(iter(self.control))
        sample = " a" if piece[0] == " " else "a"
        own = self.tokenizer(start + sample, add_special_tokens=False)["input_ids"][bool(start) :]
        plain, added = (self.literal.encode(text, add_special_tokens=False).ids for text in (sample, f" {sample}"))
        return " " if own == added != plain else ""

    def pieces(self, text: str) -> Iterator[str]:
        """Yield special tokens and the texts between them, without the blanks that belong to a token (``lstrip``, ``rstrip``)."""
        added, position, strip = {token.content: token for token in self.tokenizer.added_tokens_decoder.values()}, 0, False
        for found in self.special_pattern.finditer(text) if self.special_pattern else ():
            token, before = added.get(found[0]), text[position : found.start()]
            before = before.lstrip() if strip else before
            yield before.rstrip() if token and token.lstrip else before
            yield found[0]
            position, strip = found.end(), bool(token and token.rstrip)
        yield text[position:].lstrip() if strip else text[position:]


def state(part: Any) -> dict[str, Any]:
    """Return the settings of a part of a tokenizer; empty if the part is missing."""
    return json.loads(part.__getstate__()) if part else {}


def parts_of(rule: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the parts of a normalizer, a pre-tokenizer or a decoder of tokenizers."""
    inner = [rule[key] for key in ("normalizers", "pretokenizers", "decoders") if key in rule] if rule else []
    return [found for part in inner[0] for found in parts_of(part)] if inner else [rule] if rule else []


def is_faithful(tokenizer: Any) -> bool:
    """Return whether a tokenizer keeps all bytes that have a token, except for Unicode forms: byte-level BPE that drops nothing."""
    core: Any = tokenizer.backend_tokenizer
    model, splits = core.model, parts_of(state(core.pre_tokenizer))
    return (
        isinstance(model, BPE)
        and not (model.continuing_subword_prefix or model.end_of_word_suffix)
        and [part["type"] for part in parts_of(state(core.decoder))] == ["ByteLevel"]
        and all(part["type"] in FORMS for part in parts_of(state(core.normalizer)))
        and any(part["type"] == "ByteLevel" for part in splits)
        and all(part["type"] in ("ByteLevel", "Digits", "Split") for part in splits)
        and not any(part.get("add_prefix_space") or part.get("behavior") == "Removed" for part in splits)
        and not any(token.lstrip or token.rstrip for token in tokenizer.added_tokens_decoder.values() if not token.special)
    )


@lru_cache(maxsize=1)
def literal_copy(tokenizer: str, control: tuple[tuple[str, int], ...]) -> Tokenizer:
    """Return ``TextEncoder.literal`` of a tokenizer, given its JSON and control tokens; the last one is cached for further codecs of a model."""
    data = json.loads(tokenizer)
    data["added_tokens"], data["model"] = without_control(data["added_tokens"], data["model"], dict(control))
    parts = [part for part in parts_of(data["normalizer"]) if part["type"] not in {*FORMS, "Prepend"}]
    data["normalizer"] = {"type": "Sequence", "normalizers": parts} if parts else None
    for part in parts_of(data["pre_tokenizer"]):
        part.update({key: value for key, value in NO_BLANK.items() if key in part})
    copy: Tokenizer = Tokenizer.from_str(json.dumps(data))
    copy.no_padding()
    copy.no_truncation()
    return copy


def without_control(
    added: list[dict[str, Any]], model: dict[str, Any], control: dict[str, int]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the added tokens and the model of a tokenizer after renaming control tokens to names that no text spells; ids do not change."""
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
