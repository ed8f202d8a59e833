"""Questions to a model, which is loaded and sampled in the background, one question at a time; other pages keep working."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upsolve.config import ModelConfig, SampleConfig, VerifyConfig
from upsolve.errors import ConfigError, one_line
from upsolve.extras import needs_extras
from upsolve.languages.names import language_in
from upsolve.plugins import find
from upsolve.policy.engines import sampler
from upsolve.policy.request import Sampler
from upsolve.report.programs import syntax_spans
from upsolve.solve.asked import asked_task
from upsolve.solve.choose import Evidence
from upsolve.solve.solving import Answer, SolveSettings, solve
from upsolve.types import Task, Verdict
from upsolve.verify.limits import JudgeSettings, judge_settings
from upsolve.verify.pool.pool import verify

__all__ = ["MOST_SAMPLES", "Model", "shown_answer"]

MOST_SAMPLES = 16
"""Largest number of candidates of a question."""
SPREAD = 0.8
"""Temperature that the page offers if the recipe samples greedily, which would give the same candidate each time."""
NOT_JUDGED = "Nothing was judged: the question has no tests."


class Model:
    """A model that is loaded in the background, and the last question to it."""

    def __init__(
        self,
        model: ModelConfig,
        sample: SampleConfig,
        verify: VerifyConfig,
        load: Callable[[SampleConfig, ModelConfig], Sampler] = sampler,
    ) -> None:
        """Begin to load ``model``; ``load`` returns the sampler."""
        self.model, self.sample, self.verify = model, sample, verify
        self.state, self.error = "loading", ""
        self.draw: Sampler | None = None
        self.number, self.asked = 0, dict[str, Any]()
        self.lock = threading.Lock()
        threading.Thread(target=self.load, args=(load,), daemon=True).start()

    def load(self, load: Callable[[SampleConfig, ModelConfig], Sampler]) -> None:
        """Load the model; an error becomes a sentence on the page."""
        try:
            with needs_extras():
                self.draw = load(self.sample, self.model)
            self.state = "ready"
        except Exception as error:  # a thread of its own: what is not told here is never told
            self.state, self.error = "failed", f"The model cannot be loaded: {sentence(error)}"

    def about(self) -> dict[str, Any]:
        """Return the name of the model, whether it is ready, and the initial values of the page's form."""
        return {
            "name": self.model.name,
            "state": self.state,
            "error": self.error,
            "samples": min(max(4, self.sample.samples), MOST_SAMPLES),
            "most": MOST_SAMPLES,
            "temperature": self.sample.temperature or SPREAD,
        }

    def ask(self, question: Mapping[str, Any], task: Task | None) -> dict[str, Any]:
        """Start answering a question, and return its number.

        Args:
            question: ``samples``, ``temperature`` and, without a task, ``prompt``, ``language`` and ``schema``.
            task: the task of the archive that is asked; None for a typed prompt.

        Raises:
            ConfigError: the model is not ready or answers another question, or a field is out of range.
        """
        config = self.settings(question)
        if task is None:
            if not str(question.get("prompt", "")).strip():
                raise ConfigError("Write a question, or choose a task.")
            language = language_in(str(question.get("language") or "python"))
            task = asked_task(str(question["prompt"]), language=language, schema=str(question.get("schema", "")))
        with self.lock:
            if self.draw is None:
                raise ConfigError(self.error or "The model is still loading; ask again in a moment.")
            if self.asked.get("state") == "running":
                raise ConfigError("The model answers another question; wait for it.")
            self.number += 1
            self.asked = {"state": "running"}
        threading.Thread(target=self.answer, args=(self.draw, task, config), daemon=True).start()
        return {"number": self.number}

    def settings(self, question: Mapping[str, Any]) -> SampleConfig:
        """Return the settings of sampling for a question; ConfigError if a field is out of range."""
        given = {**self.about(), **question}
        try:
            samples, temperature = int(given["samples"]), float(given["temperature"])
        except (TypeError, ValueError) as error:
            raise ConfigError(f"samples and temperature must be numbers: {error}") from error
        if not 1 <= samples <= MOST_SAMPLES or not 0 <= temperature <= 2:
            raise ConfigError(f"samples must be 1 to {MOST_SAMPLES}, and the temperature 0 to 2")
        return self.sample.model_copy(update={"samples": samples, "temperature": temperature})

    def answer(self, draw: Sampler, task: Task, config: SampleConfig) -> None:
        """Answer a question; an error becomes a sentence on the page."""
        try:
            found = {"state": "done", "answer": shown_answer(draw, task, config, judge_settings(self.verify))}
        except Exception as error:  # as in ``load``
            found = {"state": "failed", "error": f"The question cannot be answered: {sentence(error)}"}
        self.asked = found

    def result(self, number: int) -> dict[str, Any]:
        """Return the state of a question and its answer; ConfigError if another question was asked since."""
        if number != self.number or not number:
            raise ConfigError("The answer to this question is gone, because another question was asked.")
        return self.asked


def sentence(error: Exception) -> str:
    """Return an error in one line."""
    return one_line(error) or type(error).__name__


def shown_answer(draw: Sampler, task: Task, config: SampleConfig, settings: JudgeSettings) -> dict[str, Any]:
    """Return the candidates of a task, sampled and chosen as ``upsolve solve`` does, and judged by all its tests.

    Hidden tests only judge; they do not choose. Sampling never stops early, so that all candidates can be compared.
    """
    (answer,) = solve([task], draw, config, how=SolveSettings(stop_early=False), settings=settings)
    candidates = answer.candidates
    hidden = any(test.hidden for test in task.tests)
    verdicts: Sequence[Verdict | None] = candidates.verdicts
    if hidden:
        verdicts = verify([(task, attempt) for attempt in candidates.attempts], settings)
    has_inputs = any(outputs.texts for outputs in candidates.outputs)
    kinds = [kind for kind in answer.choice.scores if kind not in candidates.unknown]
    return {
        "task": task.task_id,
        "prompt": task.prompt,
        "language": task.language,
        "note": "" if task.tests else NOT_JUDGED,
        "why": why_chosen(answer, has_inputs=has_inputs),
        "kinds": {kind: find("evidence", kind).help for kind in kinds},
        "candidates": [candidate(answer, index, verdicts[index], kinds) for index in range(len(candidates.attempts))],
    }


def candidate(answer: Answer, index: int, verdict: Verdict | None, kinds: Sequence[str]) -> dict[str, Any]:
    """Return a candidate as plain data: program, likelihood, outcome, evidence."""
    attempt = answer.candidates.attempts[index]
    logp, count = attempt.behavior_logp, attempt.tokens or 0
    return {
        "code": attempt.code,
        "answer": attempt.answer,
        "syntax": syntax_spans(attempt.code, attempt.language),
        "chosen": index == answer.choice.index,
        "greedy": index == 0,
        "tokens": count,
        "logp": logp,
        "logp_per_token": logp / count if logp is not None and count else None,
        "status": verdict.status if verdict else None,
        "passed": verdict.passed if verdict else None,
        "total": verdict.total if verdict else None,
        "error": " ".join(filter(None, (verdict.error_type, verdict.error_message))) if verdict else "",
        "evidence": {kind: answer.choice.scores[kind][index] for kind in kinds},
        "outputs": [*answer.candidates.outputs[index].texts],
    }


def why_chosen(answer: Answer, *, has_inputs: bool) -> str:
    """Return in one sentence why the chosen candidate was chosen."""
    kind, scores = answer.choice.decided_by, answer.choice.scores
    count = len(answer.candidates.attempts)
    if count == 1:
        return "There is one candidate."
    if not kind:
        return f"All {count} candidates are equal by all evidence: the first one, decoded greedily, was taken."
    evidence: Evidence = find("evidence", kind)
    own = scores[kind][answer.choice.index]
    least = min(scores[kind])
    without = "" if has_inputs else " Programs were not compared by their outputs: there is no input to run them on."
    return f"Chosen by {kind} ({evidence.help}): {own:.3g}, where the lowest candidate has {least:.3g}.{without}"
