"""Rewards and advantages of attempts and their tokens: as the run recorded them, else recomputed from its recipe."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq

from upsolve.archive.groups import earlier_turns
from upsolve.config import AdvantageConfig, ObjectiveConfig, RewardConfig
from upsolve.errors import ArchiveError
from upsolve.evaluate.comparison import Pairing, pairings_of, task_changes
from upsolve.evaluate.runs import load_sweep
from upsolve.evaluate.scores import Evaluation, temperature_name
from upsolve.report.blocks import Node
from upsolve.report.content import Example, example, samples_of
from upsolve.report.overview import example_block, overview_block
from upsolve.report.programs import Sample, program_line, question_line
from upsolve.report.run import read_overview
from upsolve.reward.judged import group_of
from upsolve.train.data.drawn import attempt_key
from upsolve.train.data.groups import TrainGroup
from upsolve.types import Attempt, Group, Task, Turn

__all__ = ["Drawn", "Measured", "Recorded", "RunScores", "Scored", "TaskScores"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A group in the form in which it was trained on."""

    round: int
    """Round of the group, from 0; offline, an epoch."""
    number: int
    """Index of the group in the round, from 0."""
    keys: tuple[str, ...]
    """``attempt_key`` of each attempt, [G]."""
    rewards: tuple[float, ...]
    """Reward of each attempt, [G]."""
    advantages: tuple[float | None, ...]
    """Advantage of each attempt, [G]; None if the estimator gives each token its own."""


MOST_LISTED = 500
"""Largest number of attempts that are listed for a range of rewards."""


class Recorded:
    """The recorded groups of a run; new files are read when they appear."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; it need not exist."""
        self.folder, self.lock = folder, threading.Lock()
        self.state: list[tuple[str, int]] = []
        self.rows: duckdb.DuckDBPyConnection | None = None
        self.dropped = 0

    def read(self) -> "duckdb.DuckDBPyConnection | None":
        """Return a database with all rows, sorted by task; None if the run recorded nothing."""
        with self.lock:
            files = sorted(self.folder.glob("*.parquet"))
            state = [(file.name, file.stat().st_mtime_ns) for file in files]
            if state != self.state:
                self.state, self.rows = state, load(files) if files else None
                whole = [pq.read_metadata(file).metadata for file in files]
                self.dropped = sum(int(each[b"groups"]) - int(each[b"recorded"]) for each in whole)
            return self.rows

    def ask(self, sql: str, *values: Any) -> list[Any] | None:
        """Return the rows of a query of the table ``drawn``; None if the run recorded nothing."""
        rows = self.read()
        if rows is None:
            return None
        with rows.cursor() as cursor:
            return cursor.execute(sql, values).fetchall()

    def tasks(self) -> list[str]:
        """Return the ids of the tasks that have a recorded group, sorted."""
        return [name for (name,) in self.ask("select distinct task_id from drawn order by task_id") or ()]

    def rewards(self) -> list[tuple[float, int]]:
        """Return each reward of a trained-on attempt, rounded, with the number of such attempts in all groups, the smallest reward first."""
        return (
            self.ask(
                "select round(reward, 6) as value, count(*) from drawn where reward is not null group by value order by value"
            )
            or []
        )

    def between(self, low: float, high: float) -> list[dict[str, Any]]:
        """Return the first ``MOST_LISTED`` attempts in groups with a reward between ``low`` and ``high``."""
        sql = f"select task_id, round, number, reward, advantage from drawn where round(reward, 6) between ? and ? limit {MOST_LISTED}"  # noqa: S608
        names = ("task_id", "round", "number", "reward", "advantage")
        return [dict(zip(names, row, strict=True)) for row in self.ask(sql, low, high) or ()]

    def of_task(self, task_id: str) -> list[Drawn] | None:
        """Return the groups of a task in the order of training; None if the run recorded no groups."""
        columns = ", ".join(f"list({name} order by file_row_number)" for name in ("attempt", "reward", "advantage"))
        sql = f"select round, number, {columns} from drawn where task_id = ? group by all order by round, number"  # noqa: S608  ours
        found = self.ask(sql, task_id)
        return None if found is None else [Drawn(number, place, *map(tuple, lists)) for number, place, *lists in found]


def load(files: Sequence[Path]) -> "duckdb.DuckDBPyConnection":
    """Return a database with the rows of all files, sorted by task."""
    rows = duckdb.connect()
    sql = "create table drawn as select * from read_parquet(?, file_row_number = true) order by task_id, round, number"
    rows.execute(sql, [[str(file) for file in files]])
    return rows


RECORDED = "as in training, in the groups of its rounds (offline, a round is an epoch)"
UNRECORDED = "the run has recorded no groups; the group here is all judged attempts at the task"
UNDRAWN = "this attempt was in no recorded group, so it has no advantage"


@dataclass(frozen=True, slots=True)
class Scored:
    """A group whose attempts have rewards."""

    item: TrainGroup
    """The group, with rewards and advantages."""
    places: list[int]
    """Places of its attempts in the index, [G]; equal attempts share one."""
    drawn: Drawn | None = None
    """The record of the group; None for the group of all attempts at a task."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Rewards and advantages of the attempts at a task."""

    group: Group
    """All attempts at the task."""
    places: list[int]
    """Places of the attempts in the index."""
    whole: Scored | None
    """The attempts with a reward; None if no attempt has one."""
    left_out: dict[str, int]
    """Attempts without a reward, by reason."""
    drawn: list[Scored] | None
    """The groups of training, without attempts that are missing in this archive; None if the run recorded no groups."""

    def of_place(self, place: int) -> Scored | None:
        """Return the first training group with this attempt, else the group of all attempts at the task."""
        found = (scored for scored in (*(self.drawn or ()), self.whole) if scored and place in scored.places)
        return next(found, None)


@dataclass(frozen=True)
class RunScores:
    """The sections of a recipe that give rewards and advantages, the run's recorded groups, and its tokenizer."""

    reward: RewardConfig
    """How attempts are rewarded."""
    advantage: AdvantageConfig
    """The estimator of advantages."""
    objective: ObjectiveConfig
    """The loss, which may weight the tokens of a pair."""
    seed: int
    """Seed of estimators that use random numbers (``data.seed``)."""
    recorded: Recorded
    """The groups of training."""
    load_codec: Callable[[], Any]
    """Loads the tokenizer; called once, when tokens are first asked for. ModelError if it cannot be loaded."""
    score: Callable[[Task, Attempt, Sequence[Turn]], Sequence[float]] | None = None
    """Log-probabilities of an attempt's tokens under the run's model, after earlier turns, nats; None: not computed."""
    turns: int = 0
    """Most earlier attempts that prompts of the run show (``data.turns``)."""

    def of_task(self, group: Group, places: list[int]) -> TaskScores:
        """Return rewards and advantages of the attempts at a task."""
        from upsolve.reward.formula import reward
        from upsolve.train.data.groups import with_advantages

        scored, whole = reward(group, self.reward), None
        if len(scored.rewards_G):
            item = with_advantages(scored, self.advantage, seed=self.seed)
            whole = Scored(item, rewarded_places(group, scored.group, places))
        records = self.recorded.of_task(group.task.task_id)
        drawn = None if records is None else [] if whole is None else [located(record, whole) for record in records]
        return TaskScores(group, places, whole, dict(scored.left_out), drawn)

    def of_group(self, task: TaskScores) -> dict[str, Any]:
        """Return ``rows`` by place, ``drawn`` groups in the form in which they were trained on, ``left_out`` by reason, and ``about``."""
        known = task.drawn is None and not self.advantage.needs_values
        item, places = (task.whole.item, task.whole.places) if task.whole else (None, [])
        rows = [
            {
                "place": place,
                "reward": float(item.rewards_G[index]),
                "advantage": float(item.advantages_G[index]) if known else None,
                "parts": [[part.name, part.value, part.weight] for part in item.parts[index]],
            }
            for index, place in enumerate(places)
            if item
        ]
        return {
            "rows": rows,
            "drawn": [drawn_row(each) for each in task.drawn or ()],
            "left_out": task.left_out,
            **self.about(),
        }

    def about(self) -> dict[str, Any]:
        """Return the estimator of advantages, and the groups to which advantages are relative."""
        note = UNRECORDED if self.recorded.read() is None else RECORDED
        dropped = self.recorded.dropped
        return {"kind": self.advantage.kind, "note": f"{note}; of {dropped:,} groups there is no record" if dropped else note}

    def of_tokens(self, task: TaskScores, place: int) -> dict[str, Any]:
        """Return ``spans`` [R, 2] of the tokens of one attempt, in characters of its code, and the known values of each token."""
        if place not in task.places:
            return {"spans": [], "note": f"no group: only the first {len(task.places):,} attempts at a task are read"}
        index, codec, scored = task.places.index(place), loaded(self.load_codec), task.of_place(place)
        group = task.group
        attempt, chains = group.attempts[index], earlier_turns(group.attempts, group.verdicts, self.turns)
        ids, spans = codec.ids_of(attempt), codec.spans_of(attempt)
        answer: dict[str, Any] = {
            "spans": spans,
            "note": UNRECORDED if task.drawn is None else "",
            **self.logps(group.task, attempt, ids, turns=chains[index] if chains else ()),
        }
        if scored is None or not spans:
            reasons = ", ".join(f"{count} {reason}" for reason, count in task.left_out.items()) or "nothing"
            return {**answer, "note": f"this attempt has no reward; left out of its group: {reasons}"}
        return {**answer, **self.credited(scored, scored.places.index(place), recorded=task.drawn is not None)}

    def credited(self, scored: Scored, index: int, *, recorded: bool) -> dict[str, Any]:
        """Return rewards and advantages of the tokens of a rewarded attempt, as training assigns them."""
        from upsolve.reward.credit import token_rewards
        from upsolve.reward.judged import Judged
        from upsolve.train.data.encode import EncodedAttempt, Encoding, with_credit

        item, codec, drawn = scored.item, loaded(self.load_codec), scored.drawn
        attempt, verdict = item.group.attempts[index], item.group.verdicts[index]
        assert verdict is not None, "only judged attempts have rewards"
        credit = token_rewards(
            Judged(item.group.task, attempt, verdict), item.parts[index], codec.spans_of(attempt), self.reward
        )
        tokens: dict[str, Any] = {"reward": float(item.rewards_G[index]), "rewards": credit.rewards_R.tolist()}
        if self.advantage.needs_values:
            stored = "advantages need the values of that step, which a run does not store"
            return {**tokens, "note": f"{self.advantage.kind}: {stored}"}
        if recorded and drawn is None:
            return {**tokens, "note": UNDRAWN}
        value = float(item.advantages_G[index])
        plain = EncodedAttempt(codec.ids_of(attempt), np.full(len(credit.mask_R), value, dtype=np.float32))
        encoding = Encoding(codec, 0, self.reward, self.advantage, self.objective)
        by_token = with_credit(plain, item, index, encoding).advantages_R.tolist()
        note = {"note": f"as trained on in round {drawn.round}"} if drawn else {}
        return {**tokens, "advantage": value, "advantages": by_token, **note}

    def logps(self, task: Task, attempt: Attempt, ids: Sequence[int], *, turns: Sequence[Turn]) -> dict[str, Any]:
        """Return log-probabilities of the tokens: under the run's model if it was loaded, else the sampler's stored ones."""
        if self.score is not None:
            return {"logps": list(self.score(task, attempt, turns)), "logps_of": "the run's model"}
        if attempt.token_logps is not None and attempt.token_ids == tuple(ids):
            return {"logps": list(attempt.token_logps), "logps_of": "the sampler at its temperature and top-p"}
        return {}


def located(record: Drawn, whole: Scored) -> Scored:
    """Return a recorded group with only the attempts that an archive has; they keep their recorded rewards and advantages."""
    item = whole.item
    index_of = {attempt_key(attempt): index for index, attempt in enumerate(item.group.attempts)}
    found = [(index_of[key], at) for at, key in enumerate(record.keys) if key in index_of]
    indices, at = [index for index, _ in found], [each for _, each in found]
    rewards_G, advantages_G = (
        np.array([0.0 if values[each] is None else values[each] for each in at], dtype=np.float64)
        for values in (record.rewards, record.advantages)
    )
    parts = tuple(item.parts[index] for index in indices)
    group = TrainGroup(group_of(item.group, indices), rewards_G, item.passed_G[indices], advantages_G, parts)
    return Scored(group, [whole.places[index] for index in indices], record)


def drawn_row(scored: Scored) -> dict[str, Any]:
    """Return a recorded group as data, with the number of its attempts that this archive lacks."""
    assert scored.drawn is not None, "a recorded group"
    known = None not in scored.drawn.advantages
    values = zip(scored.places, scored.item.rewards_G.tolist(), scored.item.advantages_G.tolist(), strict=True)
    rows = [{"place": place, "reward": reward, "advantage": value if known else None} for place, reward, value in values]
    missing = len(scored.drawn.keys) - len(rows)
    return {"round": scored.drawn.round, "number": scored.drawn.number, "attempts": rows, "missing": missing}


@cache
def loaded(load: Callable[[], Any]) -> Any:
    """Return the result of ``load()``, which is called only once."""
    return load()


def rewarded_places(group: Group, rewarded: Group, places: Sequence[int]) -> list[int]:
    """Return the places of the attempts of a group that have a reward, in the order of the group."""
    remaining = iter(zip(group.attempts, places, strict=True))
    return [next(place for other, place in remaining if other is attempt) for attempt in rewarded.attempts]


@dataclass(frozen=True, slots=True)
class Measured:
    """The evaluations of a run."""

    home: Path
    """Folder of the run."""
    find: Callable[[Sequence[str]], Mapping[str, Task]]
    """Returns tasks by id."""

    def overview(self) -> Node:
        """Return the overview of the run, which is the beginning of its report."""
        return overview_block(read_overview(self.home, self.find))

    def pairings(self) -> list[Pairing]:
        """Return the evaluations of both models, side by side; [] until both are measured."""
        files = self.files()
        return pairings_of(*(load_sweep(file) for file in files)) if all(file.is_file() for file in files) else []

    def files(self) -> tuple[Path, Path]:
        """Return the evaluations of the base and of the trained model."""
        return self.home / "base.json", self.home / "trained.json"

    def table(self) -> dict[str, Any]:
        """Return the tasks of every pairing: passed and scored samples of both models, and the change."""
        return {
            "sets": [
                {
                    "label": one.label,
                    "before": where_of(one.before),
                    "after": where_of(one.after),
                    "rows": [asdict(row) for row in task_changes(one.before, one.after)],
                }
                for one in self.pairings()
            ]
        }

    def samples(self, number: int) -> tuple[str, Mapping[str, list[Sample]], Mapping[str, list[Sample]]]:
        """Return the label of the pairing with this number, and the samples of both models by task; ArchiveError for another number."""
        pairings = self.pairings()
        if not 0 <= number < len(pairings):
            raise ArchiveError(f"the run has no pair of evaluations with the number {number}")
        one, (first, second) = pairings[number], (file.with_suffix(".samples.jsonl") for file in self.files())
        return one.label, stored(first, one.before), stored(second, one.after)

    def pair(self, task_id: str, number: int) -> dict[str, Any]:
        """Return two programs at a task, of the pairing with this number; ArchiveError without samples."""
        label, before, after = self.samples(number)
        if task_id not in before or task_id not in after:
            raise ArchiveError(f"the run has no samples of both models at task {task_id!r}, {label}")
        task = self.find([task_id]).get(task_id) or Task(task_id, "")
        return {"block": example_block(example(task, before[task_id], after[task_id]))}

    def previews(self, number: int) -> dict[str, dict[str, Any]]:
        """Return for each task of a pairing the question, and one answer of each model with its reason of failure, each in one line."""
        _, before, after = self.samples(number)
        names = [name for name in before if name in after]
        tasks = self.find(names)
        return {name: preview_of(example(tasks.get(name) or Task(name, ""), before[name], after[name])) for name in names}


def preview_of(one: Example) -> dict[str, Any]:
    """Return the question of an example, and both programs with outcome and reason, each in one line."""
    sides = zip((one.before, one.after), (one.before_status, one.after_status), one.reasons, strict=True)
    answers = [{"code": program_line(code), "status": status, "reason": reason.line} for code, status, reason in sides]
    return {"question": question_line(one.prompt), "answers": answers}


def where_of(evaluation: Evaluation) -> dict[str, str]:
    """Return the name of an evaluation, which is the author of its samples, and the value of the filter ``sampled`` that selects them."""
    heat = evaluation.temperature
    return {"name": evaluation.name, "sampled": "" if heat is None else f"{evaluation.tasks}, {temperature_name(heat)}"}


def stored(file: Path, evaluation: Evaluation) -> Mapping[str, list[Sample]]:
    """Return the samples of an evaluation by task; the last files read are cached until they change."""
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    return remembered(file, changed, evaluation.tasks, evaluation.temperature)


@lru_cache(maxsize=4)
def remembered(file: Path, _changed: int, tasks: str, temperature: float | None) -> Mapping[str, list[Sample]]:
    """Return the samples of a file by task, cached."""
    return samples_of(file, tasks, temperature)
