"""The prompt of a model: system message and solved examples."""

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
    """System message and solved examples that precede the task in every prompt; by default none (docs/sampling.md)."""

    system: str = ""
    """System message; for a model without a chat template the first paragraph of the text."""
    shots: tuple[Shot, ...] = ()
    """Solved examples, each a question and its answer in a fence: ``[{prompt: Add one., code: "def f(x): return x + 1"}]``."""
