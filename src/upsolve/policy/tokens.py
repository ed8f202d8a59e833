"""Text <-> token ids. No other module calls a tokenizer.

Legend: P prompt tokens, R completion tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from jinja2 import TemplateError

from upsolve.config import PromptConfig
from upsolve.errors import ModelError
from upsolve.policy.answers import code_spans, names_of, program_in
from upsolve.policy.blocks import before_fence
from upsolve.policy.chat_template import BEGIN_THOUGHT, END_THOUGHT, ChatTemplate, is_thought_mark, open_thought
from upsolve.policy.prompt import (
    MARK,
    PLAIN,
    beginning,
    completion_text,
    fenced_answer,
    messages,
    named_outcome,
    plain_prompt,
)
from upsolve.policy.text_encoder import Escaped, TextEncoder
from upsolve.types import Attempt, Status, Task, Turn

__all__ = ["Codec", "EncodedPrompt", "common_prefix"]


THOUGHT = re.compile(rf"(\s*)({BEGIN_THOUGHT})(.*?)(?:({END_THOUGHT})(.*))?\Z", re.DOTALL | re.IGNORECASE)
"""Matches an answer that begins with a thought; the groups are blanks, mark, thought, end mark and rest."""
CACHED = 200_000
"""Most completions whose token ids are cached."""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """The prompt of a task as token ids."""

    task_id: str
    """The task."""
    ids_P: tuple[int, ...]
    """Token ids [P]: the chat template (without one, the tokenizer's beginning-of-text token), the statement and the opening code fence."""


def common_prefix(ids: Sequence[int], others: Sequence[int]) -> int:
    """Return the number of tokens with which both prompts begin, less than the length of the shorter one."""
    most = min(len(ids), len(others)) - 1
    return next((at for at in range(most) if ids[at] != others[at]), most)


class Codec:
    """A tokenizer with the project's format of prompts and completions."""

    def __init__(self, tokenizer: Any, *, answers: bool = False, style: PromptConfig = PLAIN) -> None:
        """Wrap a fast tokenizer of transformers; ``answers`` and ``style`` are ``model.completion`` and ``model.prompt``.

        ValueError: the tokenizer is not a fast one. ModelError: the chat template leaves out, or refuses, the system message or
        the examples.
        """
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(
                f"{type(tokenizer).__name__} is not a fast tokenizer, which character offsets need; choose a model with a fast tokenizer"
            )
        self.tokenizer, self.answers, self.style = tokenizer, answers, style
        self.template = ChatTemplate(tokenizer, style, answers=answers) if tokenizer.chat_template else None
        first = () if self.template else tuple(tokenizer("a")["input_ids"][:1])
        self.begin = first if first == (tokenizer.bos_token_id,) else ()  # that of a tokenizer that adds it to each text
        self.text = TextEncoder(tokenizer)
        self.opened = self.template.opens() if self.template and answers else ""
        self.cached: dict[tuple[str, bool], tuple[int, ...]] = {}
        self.stop_mask = lru_cache(maxsize=1)(self._stop_mask)
        self.check_style()

    def check_style(self) -> None:
        """Refuse a prompt that the chat template would cut."""
        if self.style == PLAIN:
            return
        if self.template is None and (self.style.template or self.style.date != PLAIN.date):
            raise ModelError(
                f"model.prompt: template and date need a chat template, but {self.tokenizer.name_or_path} has none; remove these keys"
            )
        try:
            shown = self.prompt_text(Task("", "task"))
        except TemplateError as error:
            raise ModelError(
                f"model.prompt: the chat template of {self.tokenizer.name_or_path} raises an error: {error}"
            ) from error
        texts = [("system", self.style.system.strip()), *(("shots", shot.code.strip()) for shot in self.style.shots)]
        if hidden := [name for name, text in texts if text not in shown]:
            raise ModelError(
                f"model.prompt.{hidden[0]}: the chat template of {self.tokenizer.name_or_path} does not show this text; remove the key"
            )

    @cached_property
    def failing(self) -> "Codec":
        """The codec whose prompts name the outcome ``failed``; this codec itself if prompts name no outcome (``model.prompt.outcome``)."""
        if not self.style.outcome:
            return self
        return Codec(self.tokenizer, answers=self.answers, style=named_outcome(self.style, Status.FAILED))

    def prompt_text(self, task: Task, turns: Sequence[Turn] = (), prefix: str = "") -> str:
        """Return the prompt of a task as text, up to the start of the completion: the code or the whole answer, behind the prefix."""
        text, contents = self.marked_prompt(task, turns, prefix)
        return contents.shown(text)

    def marked_prompt(self, task: Task, turns: Sequence[Turn] = (), prefix: str = "") -> tuple[str, Escaped]:
        """Return the prompt of a task with marks for special tokens in its contents, and the escaped contents.

        ModelError: the chat template leaves out an earlier attempt.
        """
        if self.template is None:
            contents = self.text.escaped([plain_prompt(task, self.style, turns, prefix=prefix, fence=not self.answers)])
            return contents.texts[0], contents
        chat = messages(task, self.style, turns)
        contents = self.text.escaped([*(turn["content"] for turn in chat), beginning(task, prefix, fence=not self.answers)])
        escaped = [{**turn, "content": content} for turn, content in zip(chat, contents.texts, strict=False)]
        text = self.template.prompt(escaped)
        whole = contents.shown(text)
        if hidden := [turn for turn in turns if turn.attempt.code.strip() not in whole]:
            raise ModelError(
                f"data.turns, solve --rounds: the chat template of {self.tokenizer.name_or_path} leaves out {len(hidden)} of {len(turns)} "
                "earlier attempts"
            )
        return text + contents.texts[-1], contents

    def prompt(self, task: Task, turns: Sequence[Turn] = (), prefix: str = "") -> EncodedPrompt:
        """Encode the prompt of a task, with the earlier attempts of a conversation and the beginning of the answer.

        Without a chat template, the prompt begins with the beginning-of-text token if the tokenizer adds one.
        """
        return self.prompts([(task, turns, prefix)])[0]

    def prompts(self, requests: Sequence[tuple[Task, Sequence[Turn], str]]) -> list[EncodedPrompt]:
        """Encode many prompts (task, turns, prefix) like ``prompt``, in half of the time."""
        prompts = [self.marked_prompt(*one) for one in requests]
        texts = [text for text, contents in prompts if not contents.literal]
        encoded = iter(self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else [])
        ids = [self.text.made(text, contents.shown) if contents.literal else next(encoded) for text, contents in prompts]
        return [EncodedPrompt(task.task_id, (*self.begin, *each)) for (task, *_), each in zip(requests, ids, strict=True)]

    def completion(self, code: str, *, closed: bool = True) -> tuple[int, ...]:
        """Return the token ids of a completion, with the closing fence if ``closed``."""
        return self.completions([(code, closed)])[0]

    def completions(self, requests: Sequence[tuple[str, bool]]) -> list[tuple[int, ...]]:
        """Encode many completions (code, closed) like ``completion``, in half of the time; the latest results are cached."""
        if new := [key for key in dict.fromkeys(requests) if key not in self.cached]:
            texts = [completion_text(code) if closed else code for code, closed in new]
            encoded = self.answer_ids(texts) if self.answers else self.text.ids(texts)
            if len(self.cached) + len(new) > CACHED:
                self.cached = {key: self.cached[key] for key in requests if key in self.cached}
            self.cached.update(zip(new, encoded, strict=True))
        return [self.cached[key] for key in requests]

    def offsets(self, code: str, *, closed: bool = True) -> list[tuple[int, int]]:
        """Return the character span (start, end) of each completion token in ``completion_text(code)``; in ``code`` if not ``closed``."""
        return self.text.spans(completion_text(code) if closed else code)

    def ids_of(self, attempt: Attempt) -> tuple[int, ...]:
        """Return the token ids of an attempt's completion: the sampled ids if they decode to the completion, else its tokenized text.

        The completion of a whole answer ends with the end of a turn (``end``), unless the attempt is truncated. A completion that the
        tokenizer cannot express has no ids. The completion does not hold the beginning that was given to the author (``prefix_of``).
        """
        return self.ids_of_all([attempt])[0]

    def ids_of_all(self, attempts: Sequence[Attempt]) -> list[tuple[int, ...]]:
        """Return the token ids of many attempts, as ``ids_of`` does for each."""
        texts = [self.written(attempt)[len(self.prefix_of(attempt)) :] for attempt in attempts]
        sampled = [self.sampled_ids(attempt, text) for attempt, text in zip(attempts, texts, strict=True)]
        completed = [
            (text, not self.answers and not attempt.truncated)  # a truncated attempt never closed its fence
            for attempt, text, ids in zip(attempts, texts, sampled, strict=True)
            if not ids
        ]
        encoded = iter(self.completions(completed))
        pairs = zip(attempts, texts, sampled, strict=True)
        return [ids or self.ended(attempt, next(encoded), text) for attempt, text, ids in pairs]

    def written(self, attempt: Attempt) -> str:
        """Return the text of an attempt: its code, or its whole answer (``whole_answer``)."""
        return self.whole_answer(attempt) if self.answers else attempt.code

    def prefix_of(self, attempt: Attempt) -> str:
        """Return the beginning of an attempt's text that was given to its author, which belongs to the prompt; empty if there is none."""
        return attempt.prefix if attempt.prefix and self.written(attempt).startswith(attempt.prefix) else ""

    def whole_answer(self, attempt: Attempt) -> str:
        """Return the whole answer of an attempt, without the mark that opens a thought if the prompt already ends with that mark.

        If the answer has no thought, it then begins with the mark that closes the empty thought.
        """
        text = fenced_answer(attempt)
        if not self.opened:
            return text
        begin, end = open_thought(self.opened)
        rest = text.removeprefix(self.opened).removeprefix(begin)
        if end in rest or attempt.truncated or self.sampled_ids(attempt, rest.removeprefix(attempt.prefix)):
            return rest
        return f"\n{end}\n\n{rest}"

    def answer_ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the token ids of whole answers: the marks around a thought at its beginning are tokens, the rest is text."""
        thoughts = [THOUGHT.match(self.opened + text) if self.text.is_literal(text) else None for text in texts]
        plain = iter(self.text.ids([text for text, found in zip(texts, thoughts, strict=True) if not found]))
        return [self.thought_ids(text, found) if found else next(plain) for text, found in zip(texts, thoughts, strict=True)]

    def thought_ids(self, text: str, found: re.Match[str]) -> tuple[int, ...]:
        """Return the token ids of a whole answer that begins with a thought; none if the tokenizer cannot express it."""
        contents = self.text.escaped([found[1], found[3], found[5] or ""])
        before, thought, after = contents.texts
        marked = f"{before}{found[2]}{thought}{found[4] or ''}{after}"
        ids = self.text.made(marked.removeprefix(self.opened), contents.shown, begins=False)
        return ids if self.text.decode(ids) == text else ()

    def sampled_ids(self, attempt: Attempt, text: str) -> tuple[int, ...]:
        """Return the sampled ids of an attempt if they decode to its text, else none."""
        ids = attempt.token_ids or ()
        return ids if ids and max(ids) < len(self.tokenizer) and self.decode(list(ids)) == text else ()

    @cached_property
    def end(self) -> int | None:
        """The token that ends a turn in the chat template; without one, the end-of-text token; None if the tokenizer has neither."""
        after = self.template.turn_end if self.template else ""
        found = self.text.special_pattern.search(after) if self.text.special_pattern else None
        return self.text.control[found[0]] if found else self.tokenizer.eos_token_id

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end a completion: the end of a turn and every special token, except the marks of a thought in whole answers."""
        ids = {index for index, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        ends = {*ids, *self.tokenizer.all_special_ids, *([] if self.end is None else [self.end])}
        return frozenset(
            index for index in ends if not (self.answers and is_thought_mark(self.tokenizer.convert_ids_to_tokens(index)))
        )

    def ended(self, attempt: Attempt, ids: tuple[int, ...], text: str) -> tuple[int, ...]:
        """Return the ids of an attempt's text, with the end of the turn after a whole answer; none for a text without ids."""
        end = self.end if self.answers and not attempt.truncated else None
        return ids if end is None or (text and not ids) else (*ids, end)

    def spans_of(self, attempt: Attempt) -> list[tuple[int, int]]:
        """Return the character span (start, end) of each token of ``ids_of``, counted from the start of the code.

        In a whole answer, spans before the code are negative; if the answer does not contain the code, all are.
        """
        ids, closed, given = self.ids_of(attempt), not attempt.truncated, len(self.prefix_of(attempt))
        rest = attempt.code[given:]
        is_text = not self.answers and ids == self.completion(rest, closed=closed)
        spans = self.offsets(rest, closed=closed) if is_text else self.decoded_spans(ids)
        placed = [(start + given, end + given) for start, end in spans] if given else spans
        return code_spans(self.whole_answer(attempt), attempt.code, placed, attempt.language) if self.answers else placed

    def decoded_spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the character span (start, end) of each token in the decoded text."""
        text = self.text.decode(ids)
        pieces = [self.text.decode([token]) for token in ids]
        if "".join(pieces) == text and "\ufffd" not in text:
            return list(pairwise(accumulate(map(len, pieces), initial=0)))
        parts = [self.text.decode(ids[:end]) for end in range(1, len(ids))]
        ends = [len(part.rstrip("\ufffd")) for part in parts]  # a token may end within a character
        return list(pairwise([0, *ends, len(text)]))

    def decode(self, ids: list[int]) -> str:
        """Return the completion of sampled ids without the tokens that end it: the code, up to the closing fence, or the whole answer."""
        answer_ids = [index for index in ids if index not in self.ends]
        text = self.text.decode(answer_ids)
        return text if self.answers else before_fence(text)

    def code_and_answer(self, ids: Sequence[int], task: Task | str, prefix: str = "") -> tuple[str, str]:
        """Return ``code`` and ``answer`` of an attempt with these sampled ids behind a prefix; ``task`` may also be the name of a language."""
        text = prefix + self.decode(list(ids))
        known_task = Task("", "", language=task) if isinstance(task, str) else task
        return self.of_answer(text, known_task) if self.answers else (text, "")

    def of_answer(self, text: str, task: Task) -> tuple[str, str]:
        """Return ``code`` and ``answer`` of a whole answer, which begins with the thought that the prompt has opened."""
        return program_in(text, task.language, names_of(task), prompt=self.prompt_end), self.opened + text

    @cached_property
    def prompt_end(self) -> str:
        """Return a prompt for its end, which is the same for all prompts: it may begin a thought."""
        return self.prompt_text(Task("", "task"))

    @property
    def stops(self) -> list[str]:
        """Return the strings that end a completion."""
        return [] if self.answers else [MARK]

    def _stop_mask(self, vocabulary: int) -> np.ndarray:
        """Return a bool array [vocabulary], True for tokens that end a completion: ``ends`` and, for code, those that contain a fence."""
        mask = np.zeros(vocabulary, dtype=bool)
        for index in range(0 if self.answers else min(vocabulary, len(self.tokenizer))):
            mask[index] = "```" in self.tokenizer.decode([index])
        mask[[index for index in self.ends if index < vocabulary]] = True
        return mask
