"""Engines: what runs a model that is sampled. A recipe names one by ``sample.engine`` and ``source.rollout.engine``.

Neither torch nor transformers is imported here; an engine imports what it needs when a sampler is made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from upsolve.config import ModelConfig, SampleConfig
from upsolve.plugins import find
from upsolve.policy.request import PolicySampler, Sampler

__all__ = ["ENGINES", "Engine", "policy_sampler", "sampler"]


@dataclass(frozen=True, slots=True)
class Engine:
    """What runs a model that is sampled."""

    make: Callable[[SampleConfig, ModelConfig], Sampler]
    """Loads the model of a name or folder, or connects to it."""
    follow: Callable[[SampleConfig, ModelConfig, Path], PolicySampler] | None = None
    """Returns what samples the policy in training with its current weights; the path is a folder of the engine's own inside the run.
    None: this engine cannot, and online training refuses it."""
    every_rank: bool = False
    """True: in online training each rank samples its share of the tasks. False: rank 0 samples them all."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The engine's own settings with their defaults; a recipe changes them by ``sample.options``, and ``make`` and ``follow`` read
    ``config.settings``."""

    @property
    def follows_policy(self) -> bool:
        """True if this engine can sample the policy in training."""
        return self.follow is not None


def make_transformers(_config: SampleConfig, model: ModelConfig) -> Sampler:
    """Load a model and its tokenizer into this process, on the GPU where there is one."""
    import torch

    from upsolve.policy.allocator import keep_memory
    from upsolve.policy.model import load_codec, load_model
    from upsolve.policy.sample import sample

    keep_memory()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if model.bf16 else torch.float32
    policy = load_model(model.name, dtype=dtype, device=device, offline=model.offline)
    return partial(sample, policy, load_codec(model.name, offline=model.offline))


def follow_transformers(_config: SampleConfig, _model: ModelConfig, _folder: Path) -> PolicySampler:
    """Sample the policy where it is: nothing is loaded or copied."""
    from upsolve.policy.sample import sample

    return sample


def make_vllm(config: SampleConfig, model: ModelConfig) -> Sampler:
    """Load a model into vLLM, in this process."""
    from upsolve.policy.vllm import Vllm

    return Vllm(config.vllm, model)


def follow_vllm(_config: SampleConfig, model: ModelConfig, folder: Path) -> PolicySampler:
    """Load the policy into vLLM at the first call, and its new weights at each later one."""
    from upsolve.policy.vllm import VllmFollower

    return VllmFollower(model, folder)


def make_server(config: SampleConfig, model: ModelConfig) -> Sampler:
    """Connect to a server; only the tokenizer is loaded here, and for ``chat`` not even that."""
    from upsolve.policy.model import load_codec
    from upsolve.policy.served import Server

    server = config.server
    codec = None if server.prompt == "chat" else load_codec(server.tokenizer or model.name, offline=model.offline)
    return Server(server, model.name, codec)


ENGINES: Mapping[str, Engine] = {
    "server": Engine(make_server),
    "transformers": Engine(make_transformers, follow_transformers, every_rank=True),
    "vllm": Engine(make_vllm, follow_vllm),
}
"""Built-in engines by name."""


def sampler(config: SampleConfig, model: ModelConfig) -> Sampler:
    """Return a model, ready to be sampled by ``config.engine``.

    Args:
        config: the engine and its settings.
        model: ``name`` (a name or folder), ``bf16`` and ``offline`` are read.

    Raises:
        ModelError: the model or its tokenizer cannot be loaded, or vLLM is not installed.
        ConfigError: the variable that should hold the server's key does not exist.
    """
    engine: Engine = find("engine", config.engine)
    return engine.make(config, model)


def policy_sampler(config: SampleConfig, model: ModelConfig, folder: Path) -> PolicySampler:
    """Return what samples the policy in training by ``config.engine``.

    Args:
        config: the engine and its settings.
        model: how the policy computes.
        folder: a folder of the engine's own inside the run; it need not exist.

    """
    engine: Engine = find("engine", config.engine)
    assert engine.follow is not None, "the recipe was checked: SourceConfig.engine_follows_the_policy"
    return engine.follow(config, model, folder)
