"""The chat template of a tokenizer: its arguments, its date, how it ends a turn, and whether it opens a thought."""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from jinja2 import Environment, TemplateError, meta

from upsolve.config import PromptConfig
from upsolve.errors import ModelError

__all__ = ["BEGIN_THOUGHT", "END_THOUGHT", "ChatTemplate", "Message", "is_thought_mark", "open_thought"]

Message = dict[str, str]
"""``role`` and ``content``."""

BEGIN_THOUGHT = r"[<\[◁][\w:]*think(?:ing)?[>\]▷]"
"""Mark that begins a thought: ``<think>``, ``[THINK]``, ``◁think▷``."""
END_THOUGHT = r"[<\[◁]/[\w:]*think(?:ing)?[>\]▷]"
"""Mark that ends a thought."""
OPENED = re.compile(rf"({BEGIN_THOUGHT})\s*\Z", re.IGNORECASE)
DATE = re.compile(r"\bstrftime_now\s*\(")
TODAY = re.compile(rf"{DATE.pattern}\s*(\"[^\"\\]*\"|'[^'\\]*')\s*\)")
"""Call in a template that asks transformers for today's date."""
GIVEN = ("messages", "add_generation_prompt")
"""Arguments of the template that every call passes."""
GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""Tags around the assistant's turns that transformers adds to Jinja's."""
USER_TURN: Message = {"role": "user", "content": "task"}
"""A sample question, to find the text that the template writes around a question."""
ASSISTANT_TURN: Message = {"role": "assistant", "content": "upsolve"}
"""A sample answer, to find the text that the template writes after an answer."""


def is_thought_mark(token: str) -> bool:
    """Return whether a token begins or ends a thought."""
    return re.fullmatch(f"{BEGIN_THOUGHT}|{END_THOUGHT}", token, re.IGNORECASE) is not None


def open_thought(text: str) -> tuple[str, str]:
    """Return the marks that open a thought at the end of a prompt and close it; empty strings if the prompt opens no thought."""
    found = OPENED.search(text)
    return (found[1], f"{found[1][0]}/{found[1][1:]}") if found else ("", "")


class ChatTemplate:
    """The chat template of a tokenizer with the arguments of ``model.prompt``."""

    def __init__(self, tokenizer: Any, style: PromptConfig, *, answers: bool) -> None:
        """Check the arguments (ModelError); unless completions are whole ``answers``, no thought stays open before the code."""
        self.tokenizer, self.answers, self.name = tokenizer, answers, tokenizer.name_or_path
        self.arguments, date = {**style.template}, style.date
        self.source = TODAY.sub(lambda found: json.dumps(date.strftime(found[1][1:-1])), tokenizer.get_chat_template())
        if style.date != PromptConfig().date and self.source == tokenizer.get_chat_template():
            raise ModelError(f"model.prompt.date: the chat template of {self.name} has no date; remove the key")
        if DATE.search(self.source):
            raise ModelError(
                f"the chat template of {self.name} builds the format of the date from variables; "
                "use a template with a literal format: strftime_now('%d %b %Y')"
            )
        if unread := [key for key in style.template if key not in self.names]:
            known = ", ".join(sorted(self.names)) or "none"
            raise ModelError(
                f"model.prompt.template.{unread[0]}: the chat template of {self.name} does not read this argument; its arguments are {known}"
            )
        if not answers and "enable_thinking" in self.names and self.opens():
            if style.template.get("enable_thinking"):
                raise ModelError(
                    "model.prompt.template.enable_thinking: completions are code alone, without thinking (model.completion: code); set model.completion: answer"
                )
            self.arguments["enable_thinking"] = False

    @cached_property
    def names(self) -> set[str]:
        """Names of the arguments that the template reads."""
        try:
            tree = Environment(extensions=["jinja2.ext.loopcontrols"]).parse(GENERATION.sub("", self.source))  # noqa: S701 (never rendered)
        except TemplateError as error:
            raise ModelError(f"the chat template of {self.name} cannot be parsed as Jinja: {error}") from error
        return meta.find_undeclared_variables(tree) - {*GIVEN, *self.tokenizer.special_tokens_map}

    def opens(self) -> str:
        """Return the beginning of an answer with which the prompt ends, such as ``<think>`` and a line end; empty if there is none."""
        try:
            text = self.render([USER_TURN])
        except TemplateError:
            return ""
        begin, _ = open_thought(text)
        return text[text.rindex(begin) :] if begin else ""

    def render(self, chat: Sequence[Message], *, answer: bool = True) -> str:
        """Return a conversation as text; with ``answer``, up to the start of the assistant's turn. TemplateError if the template refuses the
        conversation."""
        given = {"chat_template": self.source, "tokenize": False, "add_generation_prompt": answer}
        return str(self.tokenizer.apply_chat_template([*chat], **given, **self.arguments))

    def prompt(self, chat: Sequence[Message]) -> str:
        """Return the prompt of a conversation; a thought that the template opens is closed again if the model writes code."""
        text = self.render(chat)
        begin, end = open_thought(text) if not self.answers else ("", "")
        return f"{text.rstrip()}\n\n{end}\n\n" if begin else text

    @cached_property
    def turn_end(self) -> str:
        """The text that the template writes behind an answer; empty if the template refuses the conversation or leaves the answer out."""
        try:
            return self.render([USER_TURN, ASSISTANT_TURN], answer=False).partition(ASSISTANT_TURN["content"])[2]
        except TemplateError:
            return ""
