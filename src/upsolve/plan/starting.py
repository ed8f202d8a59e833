"""A first recipe for an archive, with comments: keys that the archive decides are filled in, all others keep their defaults."""

import math
from dataclasses import dataclass

from upsolve.archive.info import ArchiveInfo, archive_info
from upsolve.archive.preference import is_recorded
from upsolve.archive.store import Archive
from upsolve.yaml_text import yaml_line

__all__ = ["OWN_SHARE", "Beginning", "counts", "first_recipe", "look_at", "warnings"]

LENGTHS = """
select coalesce(quantile_cont(length(code), 0.95), 0) as code, coalesce(string_agg(distinct language, ', ' order by language), '') as languages
from attempts
"""
TASKS = (
    "select count(*) filter (len(tests) = 0) as untested, coalesce(quantile_cont(length(prompt), 0.95), 0) as prompt from tasks"
)
SIZES = """
with sizes as (select sum(count) as size from attempts group by task_id)
select coalesce(quantile_disc(size, 0.2), 1)::int as size from sizes where size > 1
"""
SPLITS = "select distinct json_extract_string(extra, '$.split') as split from tasks where extra != ''"
SPLIT_NAMES = frozenset({"train", "dev", "test", "validation"})
CHARACTERS = 2.5
"""Characters of code per token; a low estimate for safety, since most tokenizers have 3 to 4."""
OWN_SHARE = 0.5
"""Share of attempts by the model itself from which its attempts are compared instead of imitated."""
GROUP = 4
"""Attempts of a group, if the tasks have as many."""
FEW_TASKS = 300
"""Number of tasks below which one test split only shows large differences, so that folds are worth their time."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Facts of an archive that decide a recipe."""

    info: ArchiveInfo
    """Statistics of the archive."""
    code: int
    """Length of code that 95 % of the attempts do not exceed, characters."""
    prompt: int
    """Length of the prompt that 95 % of the tasks do not exceed, characters."""
    languages: str
    """Languages of the attempts."""
    untested: int
    """Tasks without a test."""
    has_split: bool
    """Whether the tasks record their split."""
    group: int = GROUP
    """Number of attempts that 80 % of the tasks with several attempts have, at most ``GROUP``; 1 if no task has several."""


def look_at(archive: Archive) -> Beginning:
    """Examine an archive; memory does not grow with the number of attempts."""
    lengths, tasks = (archive.query(sql).to_pylist()[0] for sql in (LENGTHS, TASKS))
    splits = {row["split"] for row in archive.query(SPLITS).to_pylist()}
    return Beginning(
        info=archive_info(archive),
        code=math.ceil(lengths["code"]),
        prompt=math.ceil(tasks["prompt"]),
        languages=lengths["languages"],
        untested=tasks["untested"],
        has_split={"train", "test"} <= splits <= SPLIT_NAMES,
        group=min(GROUP, archive.query(SIZES).to_pylist()[0]["size"]),
    )


def tokens_for(characters: float) -> int:
    """Return a limit in tokens for texts of this length: a multiple of 64, at least 64."""
    return 64 * max(1, math.ceil(characters / CHARACTERS / 64))


def first_recipe(name: str, archive: str, model: str, found: Beginning) -> str:
    """Return a commented recipe (YAML); `sft` if most attempts are by other authors, because a policy gradient cannot compare these."""
    share = found.info.authors.get(model, 0) / max(1, found.info.attempts)
    own = share >= OWN_SHARE and found.group > 1
    completion = tokens_for(found.code)
    longest = max(1024, tokens_for(1.5 * found.prompt + found.code))  # a prompt also has tests and the words of a chat
    step = max(4096, 2 * longest)
    lines = [
        f"# `upsolve init {archive}`: {counts(found)}",
        "# `upsolve explain KEY` documents a key, `--set KEY=VALUE` overrides one for a run, docs/recipes.md has all of them.",
        *(f"# {warning}" for warning in warnings(found)),
        f"name: {yaml_line(name)}",
        f"base: rloo  # {share:.0%} of the attempts are the model's own ({OWN_SHARE:.0%} or more): passed ones become more likely, failed ones less"
        if own
        else f"base: sft  # imitates passed attempts: {imitated(share)}; next: `rloo` on samples of the trained model",
        "model:",
        f"  name: {yaml_line(model)}  # a folder, a .gguf file or a name on the Hub",
        "  # lora_rank: 16  # train adapters instead of all weights: less memory; `upsolve memory RECIPE` computes both",
        "data:",
        f"  archive: {yaml_line(archive)}",
        *choices(found),
        f"  group_size: {found.group}  # attempts at a task that are compared with each other; tasks with fewer are left out",
        f"  max_tokens: {longest}  # of prompt and attempt; longer ones are left out and counted",
        "optim:",
        f"  lr: {'1.0e-5' if own else '2.0e-5  # models below 1B parameters often imitate better with 1.0e-4 and more'}",
        "  epochs: 1",
        f"  tokens_per_step: {step}",
        f"  tokens_per_batch: {step}  # a micro-batch: lower it when memory is short",
        "sample:",
        f"  max_tokens: {completion}  # 95 % of the attempts are not longer",
        "evaluate:",
        "  temperatures: [0, 0.2, 0.6, 1.0]  # each model is measured at the one that is best for it",
    ]
    return "\n".join(lines) + "\n"


def imitated(share: float) -> str:
    """Return the reason why a recipe imitates, given the share of attempts by the model."""
    if share >= OWN_SHARE:
        return "no task has several attempts to compare"
    return f"{share:.0%} of the attempts are the model's own, and comparing them needs {OWN_SHARE:.0%}"


def choices(found: Beginning) -> list[str]:
    """Return the lines of a recipe that choose the verdicts and the training tasks."""
    lines = list[str]()
    if {is_recorded(judge) for judge in found.info.judges} == {True, False}:
        lines.append(
            "  # judge: upsolve  # verdicts of `upsolve verify` alone: if the tests here are all that the recorded ones rest on"
        )
    if found.has_split:
        return [*lines, "  split_by: split  # the tasks say which are for training, choosing and testing"]
    lines.append("  train: 0.65  # share of the tasks; 10 % choose the temperature, the rest is the test")
    if found.info.tasks < FEW_TASKS:
        lines.append("  # folds: 5  # few tasks: `upsolve run RECIPE --folds 5` tests on each task once")
    return lines


def counts(found: Beginning) -> str:
    """Return the counts of an archive in one line."""
    info = found.info
    return (
        f"{info.attempts:,} attempts ({found.languages}) at {info.tasks:,} tasks; "
        f"{info.mixed_tasks:,} tasks have a passed and a failed attempt"
    )


def warnings(found: Beginning) -> list[str]:
    """Return the steps to take before training, one sentence each."""
    info, result = found.info, list[str]()
    if info.unjudged:
        result.append(f"{info.unjudged:,} attempts have no verdict yet: run `upsolve verify` first.")
    if not info.mixed_tasks:
        result.append("No task has both a passed and a failed attempt: `upsolve plan` says what is missing.")
    if found.untested:
        result.append(
            f"{found.untested:,} tasks have no tests: samples cannot be judged on these, so measure on others (evaluate.archives)."
        )
    return result
