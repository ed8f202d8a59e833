"""Data sets for training on the stored attempts, in the columns that TRL reads: groups, pairs, completions, labelled completions."""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from upsolve.exports.record import (
    CHAT,
    COMPLETION,
    FORM,
    OF_ATTEMPT,
    OF_TASK,
    REAL,
    Column,
    Content,
    Export,
    Form,
    LeftOut,
    Place,
    attempt_values,
    completion_of,
    listed,
    prefixed,
    prompt_of,
    task_values,
    text_type,
)
from upsolve.reward.judged import conversations, turns_of
from upsolve.train.data.groups import TrainGroup

__all__ = ["GROUPS", "KTO", "PAIRS", "SFT"]

Row = dict[str, Any]


def prompt_column(form: Form) -> Column:
    """Return the column of the prompt."""
    return Column("prompt", text_type(form), "statement with up to three visible tests, as training shows it")


def judged_values(item: TrainGroup, index: int) -> Row:
    """Return the values of ``OF_ATTEMPT`` of one attempt of a group."""
    return attempt_values(item.group, index)


def group_columns(form: Form = Form.CONVERSATIONAL, **_options: Any) -> tuple[Column, ...]:
    """Return the columns of ``groups``."""
    return (
        prompt_column(form),
        Column("completions", pa.list_(text_type(form)), "attempts of the group"),
        Column("rewards", pa.list_(REAL), "reward of each completion"),
        Column("advantages", pa.list_(REAL), "advantage of each completion within the row, times select.weight"),
        *OF_TASK,
        *listed(OF_ATTEMPT),
    )


def group_rows(
    item: TrainGroup, place: Place, *, form: Form = Form.CONVERSATIONAL, completion: Content = Content.CODE
) -> Iterator[Row]:
    """Yield the row of a group; with ``data.turns``, one for each conversation that its attempts belong to."""
    task = item.group.task
    for indices in conversations(item.group):
        judged = [judged_values(item, index) for index in indices]
        yield {
            "prompt": prompt_of(task, form, place, turns=turns_of(item.group, indices[0]), content=completion),
            "completions": [completion_of(task, item.group.attempts[index], form, completion) for index in indices],
            "rewards": item.rewards_G[indices].tolist(),
            "advantages": item.advantages_G[indices].tolist(),
            **task_values(task),
            **{column.name: [values[column.name] for values in judged] for column in OF_ATTEMPT},
        }


def pair_columns(form: Form = Form.CONVERSATIONAL, **_options: Any) -> tuple[Column, ...]:
    """Return the columns of ``pairs``."""
    return (
        prompt_column(form),
        Column("chosen", text_type(form), "completion that is preferred"),
        Column("rejected", text_type(form), "completion that is not"),
        Column("chosen_reward", REAL, "reward of the chosen attempt"),
        Column("rejected_reward", REAL, "reward of the rejected attempt"),
        *OF_TASK,
        *prefixed("chosen", OF_ATTEMPT),
        *prefixed("rejected", OF_ATTEMPT),
    )


def pair_rows(
    item: TrainGroup, place: Place, *, form: Form = Form.CONVERSATIONAL, completion: Content = Content.CODE
) -> Iterator[Row]:
    """Yield the row of a pair."""
    task = item.group.task
    row: Row = {"prompt": prompt_of(task, form, place, content=completion)}
    for index, name in enumerate(("chosen", "rejected")):
        row[name] = completion_of(task, item.group.attempts[index], form, completion)
        row[f"{name}_reward"] = float(item.rewards_G[index])
        row |= {f"{name}_{key}": value for key, value in judged_values(item, index).items()}
    yield row | task_values(task)


class ChatForm(StrEnum):
    """How the rows of ``sft`` are written."""

    CONVERSATIONAL = "conversational"
    PLAIN = "plain"
    MESSAGES = "messages"


CHAT_FORM = replace(FORM, kind=ChatForm, help=f"{FORM.help}, or messages (one column with the whole chat)")


def completion_columns(form: Form = Form.CONVERSATIONAL, **_options: Any) -> tuple[Column, ...]:
    """Return the columns of rows with one attempt."""
    return (
        prompt_column(form),
        Column("completion", text_type(form), "the attempt"),
        Column("reward", REAL, "reward of the attempt"),
        *OF_TASK,
        *OF_ATTEMPT,
    )


def imitated_columns(form: ChatForm = ChatForm.CONVERSATIONAL, **_options: Any) -> tuple[Column, ...]:
    """Return the columns of ``sft``."""
    if form is not ChatForm.MESSAGES:
        return completion_columns(Form(form))
    return Column("messages", CHAT, "the prompt and the attempt"), *completion_columns()[2:]


def completion_row(item: TrainGroup, index: int, place: Place, *, form: Form, completion: Content) -> Row:
    """Return the row of one attempt of a group."""
    task = item.group.task
    return {
        "prompt": prompt_of(task, form, place, turns=turns_of(item.group, index), content=completion),
        "completion": completion_of(task, item.group.attempts[index], form, completion),
        "reward": float(item.rewards_G[index]),
        **task_values(task),
        **judged_values(item, index),
    }


def imitated_rows(
    item: TrainGroup, place: Place, *, form: ChatForm = ChatForm.CONVERSATIONAL, completion: Content = Content.CODE
) -> Iterator[Row | LeftOut]:
    """Yield the rows of the attempts to imitate: passed attempts, as ``advantage.kind: passed`` selects them."""
    for index, imitated in enumerate(item.passed_G):
        if not imitated:
            yield LeftOut("attempts: not passed")
        elif form is ChatForm.MESSAGES:
            row = completion_row(item, index, place, form=Form.CONVERSATIONAL, completion=completion)
            yield {"messages": row.pop("prompt") + row.pop("completion"), **row}
        else:
            yield completion_row(item, index, place, form=Form(form), completion=completion)


def labelled_columns(form: Form = Form.CONVERSATIONAL, **_options: Any) -> tuple[Column, ...]:
    """Return the columns of ``kto``."""
    label = Column("label", pa.bool_(), "true if the advantage of the attempt is above 0, as for objective.kind: kto")
    return (*completion_columns(form)[:2], label, *completion_columns(form)[2:])


def labelled_rows(
    item: TrainGroup, place: Place, *, form: Form = Form.CONVERSATIONAL, completion: Content = Content.CODE
) -> Iterator[Row]:
    """Yield a labelled row for every attempt of a group."""
    for index, advantage in enumerate(item.advantages_G):
        yield completion_row(item, index, place, form=form, completion=completion) | {"label": bool(advantage > 0)}


GROUPS = Export(
    group_rows,
    group_columns,
    "group",
    "one row for each task: all of its attempts with rewards and advantages",
    options=(FORM, COMPLETION),
)
PAIRS = Export(
    pair_rows,
    pair_columns,
    "pair",
    "one row for each pair of a better and a worse attempt",
    options=(FORM, COMPLETION),
    recipe="dpo",
)
SFT = Export(
    imitated_rows,
    imitated_columns,
    "group",
    "one row for each attempt to imitate",
    options=(CHAT_FORM, COMPLETION),
    recipe="sft",
)
KTO = Export(
    labelled_rows,
    labelled_columns,
    "group",
    "one row for each attempt, labelled as good or bad",
    options=(FORM, COMPLETION),
    recipe="kto",
)
