"""The prompt of a model: system message, solved examples, and whether queries name their database."""

import datetime
from typing import Any

from pydantic import Field

from upsolve.config.strict import Strict

__all__ = ["PromptConfig", "Shot"]


class Shot(Strict):
    """A solved example before the task."""

    prompt: str = Field(min_length=1)
    """What is asked for, as in the prompt of a task."""
    code: str = Field(min_length=1)
    """A program that answers it; shown in a fence."""


class PromptConfig(Strict):
    """System message and solved examples that precede the task in every prompt, by default none, and the form of queries (docs/sampling.md)."""

    system: str = ""
    """System message; for a model without a chat template the first paragraph of the text."""
    dialect: bool = True
    """End the statement of a query with the database that will run it: ``Answer with one query for SQLite.``. False where ``system`` says it: then
    prompts of one schema differ in the question alone, and a step computes fewer tokens."""
    shots: tuple[Shot, ...] = ()
    """Solved examples, each a question and its answer in a fence: ``[{prompt: Add one., code: "def f(x): return x + 1"}]``."""
    template: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Arguments of the model's chat template, such as ``{enable_thinking: false}``; an argument that the template does not read is an error.
    To a server with ``prompt: chat`` they go as ``chat_template_kwargs``."""
    date: datetime.date = datetime.date(2024, 7, 26)
    """Today's date for a chat template that writes one into every prompt (Llama 3.2): the same on every day, so that prompts stay the same."""
