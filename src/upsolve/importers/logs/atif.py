"""Trajectories of agents in Harbor's format ATIF (1.0 to 1.8): ``trajectory.json``, with the rewards in ``result.json`` of the trial.

<trial>/result.json                      task_name, verifier_result.rewards, exception_info
<trial>/agent/trajectory.json            or steps/<name>/agent/trajectory.json, with a step_results[] each
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.logs.rollouts import ROLLOUT_OPTIONS, Rollout, Rollouts, number_of, text_of
from upsolve.importers.rows import BadRow, Row, build_each
from upsolve.importers.source import Option, Source

__all__ = ["SOURCE", "read"]

Json = dict[str, Any]

OWN_FAULTS = frozenset(
    {
        "AgentTimeoutError",
        "ContextWindowExceededError",
        "ContextLengthExceededError",
        "OutputTokenExceededError",
        "OutputLengthExceededError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
    }
)
"""Exceptions of a trial after which its reward still measures the agent; after all others it measures a failure of the infrastructure."""


def read(path: Path, *, reward: str = "", **options: Any) -> Iterator[Row]:
    """Yield the tasks, attempts and verdicts of a trajectory or of all trajectories below a folder.

    Args:
        path: a trajectory, or the folder of a trial or a job.
        reward: name of the reward that is the score; default: ``reward``, or the only one.
        options: of ``upsolve.importers.logs.rollouts.Rollouts``.

    Raises:
        SourceError: there is no trajectory.json, or an option is invalid.
    """
    files = [path] if path.is_file() else sorted(path.rglob("trajectory.json"))
    if not files:
        raise SourceError(f"{path}: contains no trajectory.json")
    rollouts = Rollouts("atif", **options)
    for file in files:
        yield from build_each(file, [(1, content_of(file))], partial(records_of, file=file, reward=reward, rollouts=rollouts))


def content_of(file: Path) -> Json | BadRow:
    """Return the trajectory in a file, or a ``BadRow`` with the reason."""
    try:
        content = json.loads(file.read_bytes())
        if not isinstance(content, dict) or not str(content.get("schema_version")).startswith("ATIF-v1."):
            raise ValueError("is not a trajectory: schema_version is not ATIF-v1.x")
    except (OSError, ValueError, RecursionError) as error:
        return BadRow(str(file), 1, str(error), "")
    return content


def trial_of(file: Path) -> Json:
    """Return the result of the trial that a trajectory belongs to; of a trial with several steps that of its step. Empty if there is none."""
    for folder in list(file.resolve().parents)[1:4]:
        try:
            result = json.loads((folder / "result.json").read_bytes())
        except OSError:
            continue
        name = file.resolve().relative_to(folder).parts[1] if (folder / "steps") in file.resolve().parents else ""
        steps = [step for step in result.get("step_results") or [] if step.get("step_name") == name]
        about = {key: result.get(key) for key in ("task_name", "trial_name", "source", "task_checksum", "exception_info")}
        return {**about, "verifier_result": result.get("verifier_result"), **(steps[0] if steps else {})}
    return {}


def records_of(trajectory: Json, *, file: Path, reward: str, rollouts: Rollouts) -> Iterator[Row]:
    """Yield the records of a trajectory; the answer is the last message of the agent.

    A trajectory without one has no program, and an empty one would be judged as a failure: it is set aside with its error.
    """
    trial, steps = trial_of(file), trajectory["steps"]
    score, reason = score_of(trajectory, trial, reward)
    said = [step for step in steps if step["source"] == "agent" and not step.get("is_copied_context")]
    answers = [step for step in said if text_of(step["message"]).strip()]
    asked = [text_of(step["message"]) for step in steps if step["source"] == "user"]
    if not answers or not asked:
        raise ValueError(f"has no {'answer' if asked else 'step of the user'}: {reason or 'the agent wrote no message'}")
    last, agent = answers[-1], trajectory["agent"]
    metrics = last.get("metrics") or {}
    names = [str(trial[key]) for key in ("task_name", "step_name") if trial.get(key)]
    rest = {name: value for name, value in trajectory.items() if name != "steps" or len(said) > 1}
    rollout = Rollout(
        prompt=asked[0],
        answer=text_of(last["message"]),
        score=score,
        reason=reason,
        name="/".join(names),
        author=last.get("model_name") or agent.get("model_name") or agent["name"],
        created=last.get("timestamp") or "",
        tokens=metrics.get("completion_tokens") or None,
        token_ids=metrics.get("completion_token_ids") or [],
        logps=metrics.get("logprobs") or [],
        extra={**rest, "trial": trial},
    )
    yield from rollouts.records(rollout)


def score_of(trajectory: Json, trial: Json, name: str) -> tuple[float | None, str]:
    """Return the reward of a trial, or None and the reason; a trial that the infrastructure broke has no valid one.

    Raises:
        ValueError: there are several rewards, or none of the wanted name.
    """
    error = trial.get("exception_info") or {}
    if error and error.get("exception_type") not in OWN_FAULTS:
        return None, f"{error.get('exception_type')}: {error.get('exception_message')}"
    rewards = (trial.get("verifier_result") or {}).get("rewards") or {}
    if not rewards and "reward" in (trajectory.get("extra") or {}):
        rewards = {"reward": trajectory["extra"]["reward"]}
    if not rewards:
        return None, "no reward is recorded" + (f" after {error['exception_type']}" if error else "")
    wanted = name or ("reward" if "reward" in rewards or len(rewards) > 1 else next(iter(rewards)))
    if wanted not in rewards:
        raise ValueError(f"has no reward {wanted}: --reward must name one of {', '.join(rewards)}")
    return number_of(rewards[wanted]), ""


SOURCE = Source(
    read,
    "trajectory.json in Harbor's format ATIF, or the folder of a trial or a job",
    (Option("reward", str, "name of the reward that is the score (default: reward, or the only one)"), *ROLLOUT_OPTIONS),
)
