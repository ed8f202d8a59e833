"""The functions that the task files name. ``$UPSOLVE_TASKS`` is an archive or ``source:path``; other variables are those of all adapters."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from upsolve.adapters.scoring import scorer_from_environment, task_of
from upsolve.errors import ConfigError
from upsolve.policy.prompt import messages, plain_prompt
from upsolve.records import to_row

__all__ = ["load", "score", "score_chat"]


def load(**_: Any) -> dict[str, Any]:
    """Return the tasks of ``$UPSOLVE_TASKS`` as the split ``test``; ``prompt`` is for completion, ``question`` for chat."""
    from datasets import Dataset

    tasks = scorer_from_environment().known.tasks
    if not tasks:
        raise ConfigError("set UPSOLVE_TASKS to an archive or to source:path, such as UPSOLVE_TASKS=mbpp:mbpp.jsonl")
    rows = [
        {
            "task_id": task.task_id,
            "task": json.dumps(to_row(task)),
            "prompt": plain_prompt(task),
            "question": messages(task)[0]["content"],
        }
        for task in tasks
    ]
    return {"test": Dataset.from_list(rows)}


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return the metrics (``metrics_of``) of the completion of a prompt that opened a fence."""
    return metrics_of(doc, results[0], doc["prompt"])


def score_chat(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return the metrics (``metrics_of``) of the whole answer to a question."""
    return metrics_of(doc, results[0], "")


def metrics_of(doc: Mapping[str, Any], answer: str, prompt: str) -> dict[str, float]:
    """Return ``passed``, ``share`` (of passed tests) and ``unscored``; only ``unscored`` if the answer cannot be judged."""
    (one,) = scorer_from_environment().score([(task_of(doc), answer)], prompts=[prompt])
    if one.reward is None:
        return {"unscored": 1.0}
    return {"passed": float(one.passed), "share": one.share, "unscored": 0.0}
