"""verl: a custom reward function, ``reward.custom_reward_function.{path: pkg://upsolve.adapters.verl, name: compute_score}``."""

from collections.abc import Mapping
from typing import Any

from upsolve.adapters.scoring import scorer_of, task_of_truth

__all__ = ["compute_score"]


def compute_score(
    data_source: str = "",
    solution_str: str = "",
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return ``score`` (the reward), ``acc`` (1.0 if all tests passed, else 0.0) and ``share`` (of passed tests) of an answer.

    Args:
        data_source: name of the data set, not read.
        solution_str: the answer.
        ground_truth: the tests, if ``extra_info`` names no task: ``{"inputs", "outputs"}``, ``{"assert_case"}`` or ``{"tests"}``, JSON or not.
        extra_info: ``task`` as JSON (``upsolve archive export --as verl``) or ``task_id``.
        options: ``reward_kwargs`` of verl's configuration are the options of ``Scorer``; other options, which verl
            passes to every function, are ignored.

    Raises:
        JudgeError: the attempt could not be judged; verl only takes numbers, and trains on each.
        SourceError: the row does not say what its task is.
    """
    del data_source
    judge = scorer_of(options)
    ((scored),) = judge.score([(task_of_truth(ground_truth, extra_info or {}, judge.known), solution_str)])
    return {"score": scored.number(), "acc": float(scored.passed), "share": scored.share}
