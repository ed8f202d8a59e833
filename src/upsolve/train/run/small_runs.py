"""Warnings about runs that are too small to say anything: few optimizer steps, few dev tasks."""

from upsolve.config import DataConfig, EvalConfig, OptimConfig

__all__ = ["FEW_DEV_TASKS", "FEW_STEPS", "few_dev_tasks", "few_steps"]

FEW_STEPS = 10
"""Optimizer steps of a run below which there is a warning."""
FEW_DEV_TASKS = 10
"""Dev tasks on which a temperature is chosen below which there is a warning."""


def few_steps(steps: int, optim: OptimConfig) -> str:
    """Return a warning if a run has only some optimizer steps, less than ``optim.max_steps`` allows; "" if not."""
    if not 0 < steps < FEW_STEPS or 0 < optim.max_steps <= steps:
        return ""
    key = "attempts_per_step" if optim.attempts_per_step else "tokens_per_step"
    return (
        f"{steps} optimizer step{'s' * (steps > 1)} in all, so the model hardly changes: lower optim.{key} (now {getattr(optim, key):,}), or "
        f"raise optim.epochs (now {optim.epochs})"
    )


def few_dev_tasks(count: int, config: EvalConfig, data: DataConfig) -> str:
    """Return a warning if the temperature is chosen on only some dev tasks with tests; "" if not."""
    if count >= FEW_DEV_TASKS or len(config.temperatures) == 1:
        return ""
    short = f"evaluate.dev_tasks (now {config.dev_tasks})" if count == config.dev_tasks else f"data.dev (now {data.dev:g})"
    return f"{count} dev task{'s' * (count != 1)} with tests: which temperature is best on so few is chance; raise {short}"
