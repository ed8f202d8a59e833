"""How a policy is evaluated: tasks, temperatures, samples."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from upsolve.config.strict import Rule, Strict

__all__ = ["EvalConfig"]


class EvalConfig(Strict):
    """Evaluation before and after training, at several temperatures."""

    RULES = (Rule(("temperatures",), lambda e: e.temperatures, "temperatures: must have at least one, such as [0]"),)

    split: Literal["dev", "test"] = "test"
    """Tasks to measure on; with ``dev`` the temperatures are chosen on other samples of the same tasks."""
    tasks: int = Field(default=0, ge=0)
    """Most tasks to measure on; 0: all of the split."""
    temperatures: tuple[Annotated[float, Field(ge=0)], ...] = (0.0, 0.2, 0.6, 1.0)
    """Sampling temperatures; 0: greedy, one sample per task. Each model's best one is chosen on dev tasks; with a single one, nothing is
    chosen, and a change of capability cannot be told from one of temperature."""
    dev_tasks: int = Field(default=64, ge=0)
    """Most dev tasks on which the best temperatures are chosen; 0: all of the split."""
    dev_samples: int = Field(default=4, ge=1)
    """Samples per dev task at each temperature above 0; ``sample.samples`` is their number on the tasks that are measured."""
    many_samples: int = Field(default=0, ge=0)
    """Samples per measured task at the temperature that is best for pass@k: for large k, and for the number of tasks that are solved at all,
    such as in 64 samples; 0: ``sample.samples``."""
    ks: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(1, 4, 8), min_length=1)
    """The k of pass@k."""
    likelihood_tasks: int = Field(default=64, ge=0)
    """Most held-out tasks whose stored attempts that passed are scored for their log-probability (engine ``transformers``); 0: none."""

    archives: tuple[str, ...] = ()
    """Further tasks to measure on, at the same temperatures: archives and benchmarks, with a split if not all of their tasks:
    ``[mbpp:test, humaneval+, my-archive:test]`` (docs/evaluation.md)."""
    benchmarks: dict[str, str] = Field(default_factory=dict[str, str])
    """Where benchmarks are, by name: ``{mbpp: data/mbpp.jsonl}``; a file, ``source:file``, or the folder of an archive. Others are looked for
    in the folder that $UPSOLVE_BENCHMARKS names."""
    leaks: Literal["report", "refuse"] = "report"
    """What to do about tasks of ``archives`` that are nearly equal to training or dev tasks: a warning, or an error."""

    @field_validator("archives")
    @classmethod
    def archives_differ(cls, archives: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse a task set that is named twice."""
        if twice := sorted({name for name in archives if archives.count(name) > 1}):
            raise ValueError(f"archives: {twice[0]} is named twice")
        return archives

    @field_validator("temperatures")
    @classmethod
    def temperatures_rise(cls, temperatures: tuple[float, ...]) -> tuple[float, ...]:
        """Return them sorted, each once."""
        return tuple(sorted(set(temperatures)))
