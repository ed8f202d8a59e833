"""Text <-> token ids. No other module calls a tokenizer.

Legend: P prompt tokens, R completion tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from jinja2 import TemplateError

from upsolve.archive.answers import code_spans, names_of, program_in
from upsolve.archive.blocks import before_fence
from upsolve.config import PromptConfig
from upsolve.errors import ModelError
from upsolve.policy.prompt import (
    MARK,
    PLAIN,
    completion_text,
    fenced_answer,
    messages,
    opening,
    plain_prompt,
)
from upsolve.types import Attempt, Task, Turn

__all__ = ["Codec", "EncodedPrompt", "common_prefix"]


KEPT = 200_000
"""Completions whose token ids are kept."""


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


def begin_ids(tokenizer: Any) -> tuple[int, ...]:
    """Return the beginning-of-text token where a tokenizer adds one to each text, else nothing."""
    first = tuple(tokenizer("a")["input_ids"][:1])
    return first if first == (tokenizer.bos_token_id,) else ()


class Codec:
    """A tokenizer with the project's format of prompts and completions."""

    def __init__(self, tokenizer: Any, *, answers: bool = False, style: PromptConfig = PLAIN) -> None:
        """Wrap a fast tokenizer of transformers.

        Args:
            tokenizer: the tokenizer.
            answers: whether completions are whole answers instead of code (``model.completion``).
            style: system message and solved examples (``model.prompt``).

        Raises:
            ValueError: the tokenizer is not a fast one, so it has no character offsets.
            ModelError: the chat template leaves out, or refuses, the system message or the examples.
        """
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(f"{type(tokenizer).__name__} is not a fast tokenizer; character offsets need one")
        self.tokenizer, self.answers, self.style = tokenizer, answers, style
        self.begin = () if tokenizer.chat_template else begin_ids(tokenizer)
        self.kept: dict[tuple[str, bool], tuple[int, ...]] = {}
        self.stop_mask = lru_cache(maxsize=1)(self._stop_mask)
        self.check_style()

    def check_style(self) -> None:
        """Refuse a prompt of which the model would not see all."""
        if self.style == PLAIN:
            return
        try:
            shown = self.prompt_text(Task("", "task"))
        except TemplateError as error:
            raise ModelError(f"model.prompt: the chat template of {self.tokenizer.name_or_path} refuses it: {error}") from error
        texts = [("system", self.style.system.strip()), *(("shots", shot.code.strip()) for shot in self.style.shots)]
        if hidden := [name for name, text in texts if text not in shown]:
            raise ModelError(f"model.prompt.{hidden[0]}: the chat template of {self.tokenizer.name_or_path} leaves it out")

    def prompt_text(self, task: Task, turns: Sequence[Turn] = ()) -> str:
        """Return the prompt of a task as text, up to where the completion begins: the code, or the whole answer."""
        if not self.tokenizer.chat_template:
            return plain_prompt(task, self.style, turns, fence=not self.answers)
        chat = messages(task, self.style, turns)
        text = str(self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        if hidden := [turn for turn in turns if turn.attempt.code.strip() not in text]:
            raise ModelError(
                f"data.turns: the chat template of {self.tokenizer.name_or_path} leaves out {len(hidden)} of {len(turns)} earlier attempts"
            )
        return text if self.answers else text + opening(task)

    def prompt(self, task: Task, turns: Sequence[Turn] = ()) -> EncodedPrompt:
        """Encode the prompt of a task, with the earlier attempts of a conversation.

        Without a chat template it begins with the tokenizer's beginning-of-text token, if it adds one.

        Raises:
            ModelError: the chat template leaves out an earlier attempt.
        """
        return self.prompts([(task, turns)])[0]

    def prompts(self, asked: Sequence[tuple[Task, Sequence[Turn]]]) -> list[EncodedPrompt]:
        """Encode many prompts as ``prompt`` does each, in half of the time."""
        texts = [self.prompt_text(task, turns) for task, turns in asked]
        encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        return [EncodedPrompt(task.task_id, (*self.begin, *ids)) for (task, _), ids in zip(asked, encoded, strict=True)]

    def completion(self, code: str, *, closed: bool = True) -> tuple[int, ...]:
        """Return the token ids of a completion, with the closing fence if ``closed``."""
        return self.completions([(code, closed)])[0]

    def completions(self, asked: Sequence[tuple[str, bool]]) -> list[tuple[int, ...]]:
        """Encode many completions, (code, closed), as ``completion`` does each, in half of the time; the last ones are kept."""
        if new := [key for key in dict.fromkeys(asked) if key not in self.kept]:
            texts = [completion_text(code) if closed else code for code, closed in new]
            encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
            if len(self.kept) + len(new) > KEPT:
                self.kept = {key: self.kept[key] for key in asked if key in self.kept}
            self.kept.update(zip(new, map(tuple, encoded), strict=True))
        return [self.kept[key] for key in asked]

    def offsets(self, code: str, *, closed: bool = True) -> list[tuple[int, int]]:
        """Return the character span (start, end) of each completion token in ``completion_text(code)``; in ``code`` if not ``closed``."""
        text = completion_text(code) if closed else code
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [(int(a), int(b)) for a, b in encoded["offset_mapping"]]

    def ids_of(self, attempt: Attempt) -> tuple[int, ...]:
        """Return the token ids of an attempt's completion: the sampled ids if they decode to it, else those of its text tokenized.

        The completion of a whole answer ends with the end-of-text token, unless the attempt is truncated.
        """
        return self.ids_of_all([attempt])[0]

    def ids_of_all(self, attempts: Sequence[Attempt]) -> list[tuple[int, ...]]:
        """Return the token ids of many attempts, as ``ids_of`` those of each."""
        texts = [fenced_answer(attempt) if self.answers else attempt.code for attempt in attempts]
        sampled = [self.sampled_ids(attempt, text) for attempt, text in zip(attempts, texts, strict=True)]
        asked = [
            (text, not self.answers and not attempt.truncated)  # a truncated attempt never closed its fence
            for attempt, text, ids in zip(attempts, texts, sampled, strict=True)
            if not ids
        ]
        encoded = iter(self.completions(asked))
        return [ids or next(encoded) + self.end_of(attempt) for attempt, ids in zip(attempts, sampled, strict=True)]

    def sampled_ids(self, attempt: Attempt, text: str) -> tuple[int, ...]:
        """Return the sampled ids of an attempt if they decode to its text, else none."""
        ids = attempt.token_ids or ()
        return ids if ids and max(ids) < len(self.tokenizer) and self.decode(list(ids)) == text else ()

    def end_of(self, attempt: Attempt) -> tuple[int, ...]:
        """Return the ids that follow those of an attempt's text: the end-of-text token after a whole answer."""
        end = self.tokenizer.eos_token_id if self.answers and not attempt.truncated else None
        return () if end is None else (end,)

    def spans_of(self, attempt: Attempt) -> list[tuple[int, int]]:
        """Return the character span (start, end) of each token of ``ids_of``, counted from the start of the code.

        In a whole answer, spans before the code are negative; if the answer does not contain the code, all are.
        """
        ids, closed = self.ids_of(attempt), not attempt.truncated
        if self.answers:
            return code_spans(fenced_answer(attempt), attempt.code, self.decoded_spans(ids), attempt.language)
        if ids == self.completion(attempt.code, closed=closed):
            return self.offsets(attempt.code, closed=closed)
        return self.decoded_spans(ids)

    def decoded_spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the character span (start, end) of each token in the decoded text."""
        text = self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        pieces = self.tokenizer.batch_decode([[token] for token in ids], clean_up_tokenization_spaces=False)
        if "".join(pieces) == text and "\ufffd" not in text:
            return list(pairwise(accumulate(map(len, pieces), initial=0)))
        parts = [self.tokenizer.decode(list(ids[:end]), clean_up_tokenization_spaces=False) for end in range(1, len(ids))]
        ends = [len(part.rstrip("\ufffd")) for part in parts]  # a token may end within a character
        return list(pairwise([0, *ends, len(text)]))

    def decode(self, ids: list[int]) -> str:
        """Return the completion of sampled ids without special tokens: the code, up to the closing fence, or the whole answer."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text if self.answers else before_fence(text)

    def code_and_answer(self, ids: Sequence[int], task: Task) -> tuple[str, str]:
        """Return ``code`` and ``answer`` of an attempt at a task with these sampled ids."""
        text = self.decode(list(ids))
        return (program_in(text, task.language, names_of(task), prompt=self.prompt_end), text) if self.answers else (text, "")

    @cached_property
    def prompt_end(self) -> str:
        """Return a prompt, whose end is that of all prompts: it may begin a thought."""
        return self.prompt_text(Task("", "task"))

    @property
    def stops(self) -> list[str]:
        """Return the strings that end a completion."""
        return [] if self.answers else [MARK]

    def _stop_mask(self, vocabulary: int) -> np.ndarray:
        """Return a bool array [vocabulary], True for tokens that end a completion: special ones and, for code, those that contain a fence."""
        mask = np.zeros(vocabulary, dtype=bool)
        for index in range(0 if self.answers else min(vocabulary, len(self.tokenizer))):
            mask[index] = "```" in self.tokenizer.decode([index])
        mask[[index for index in self.tokenizer.all_special_ids if index < vocabulary]] = True
        return mask
