"""Scores of derived tasks: corrections beside new samples of as many tokens, log-odds and AUC over questions."""

import json
from statistics import fmean

import numpy as np
from rounding import percent

from upsolve.evaluate.intervals import mean_interval, over_seeds, paired_difference
from upsolve.evaluate.scores import pass_at_k
from upsolve.solve.scoring import by_likelihood

__all__ = ["auc", "compared", "log_odds", "passes"]


def passes(row, count):
    """Return the chance that one of ``count`` samples passes."""
    return pass_at_k(len(row["samples"]), sum(one for _, one in row["samples"]), count) if count else 0.0


def at_tokens(row, tokens, with_prompt):
    """Return how many new samples the tokens allow, and the chance that one of them passes: pass@n, linear between whole n."""
    count = min(tokens / cost(row, with_prompt), len(row["samples"]))
    low, high = int(count), min(int(count) + 1, len(row["samples"]))
    return count, passes(row, low) + (count - low) * (passes(row, high) - passes(row, low))


def cost(row, with_prompt):
    """Return the mean tokens of a sample."""
    return fmean(tokens for tokens, _ in row["samples"]) + with_prompt * row["prompt"]


def compared(fixes, news, names, most):
    """Return the share of questions solved by corrections, and by new samples of as many tokens, over seeds."""
    table = {"questions": len(names)}
    for count, with_prompt in ((1, True), (1, False), (most, True)):
        spent = [{name: count * cost(fixed[name], with_prompt) for name in names} for fixed in fixes]
        found = [
            {name: at_tokens(new[name], each[name], with_prompt) for name in names}
            for new, each in zip(news, spent, strict=True)
        ]
        resampled = over_seeds([{name: chance for name, (_, chance) in each.items()} for each in found])
        repaired = over_seeds([{name: passes(fixed[name], count) for name in names} for fixed in fixes])
        table[f"{count}, {'prompt and completion' if with_prompt else 'completion alone'}"] = {
            "tokens": round(fmean(one for each in spent for one in each.values()), 1),
            "new_samples": round(fmean(one for each in found for one, _ in each.values()), 2),
            "repaired": percent(mean_interval([*repaired.values()])),
            "resampled": percent(mean_interval([*resampled.values()])),
            "difference": percent(paired_difference(resampled, repaired).difference),
        }
    return table


def auc(scores, passed):
    """Return the share of pairs of a right and a wrong query that scores order rightly, of all pairs and of pairs within a question.

    Args:
        scores: scores of the queries of each question.
        passed: whether each passes.
    """
    right, wrong = (
        [[s for s, one in zip(*pair, strict=True) if one is which] for pair in zip(scores, passed, strict=True)]
        for which in (True, False)
    )
    wins, pairs = (np.zeros((len(scores), len(scores))) for _ in range(2))
    for row, column in np.ndindex(wins.shape):
        ahead = np.subtract.outer(np.array(right[row]), np.array(wrong[column]))
        wins[row, column], pairs[row, column] = (ahead > 0).sum() + (ahead == 0).sum() / 2, ahead.size
    drawn = np.random.default_rng(0).multinomial(len(scores), np.full(len(scores), 1 / len(scores)), 1000)
    weights = [np.ones(len(scores)), *drawn]
    every = [w @ wins @ w / (w @ pairs @ w) for w in weights]
    inside = [w @ wins.diagonal() / (w @ pairs.diagonal()) for w in weights]
    shown = {"auc": every, "auc_within_questions": inside}
    return {name: [round(float(one), 3) for one in (of[0], *np.quantile(of[1:], (0.025, 0.975)))] for name, of in shown.items()}


def log_odds(file, model, asked):
    """Return the log-odds of ``pass`` against ``fail`` of each derived task; computed once."""
    if not file.exists():
        answers, by_id, odds = asked.attempts(), {task.task_id: task for task in asked.tasks()}, {}
        found = by_likelihood(str(model))([(by_id[one.task_id], one) for one in answers])
        for one, scores in zip(answers, found, strict=True):
            odds[one.task_id] = odds.get(one.task_id, 0.0) + scores["likelihood_sum"] * (1 if one.code == "pass" else -1)
        file.write_text(json.dumps(odds))
    return json.loads(file.read_text())
