"""Inference engines for sampling (``sample.engine``, ``source.rollout.engine``).

Neither torch nor transformers is imported here; an engine imports what it needs when a sampler is made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upsolve.config import ModelConfig, SampleConfig
from upsolve.plugins import find
from upsolve.policy.request import PolicySampler, Sampler

if TYPE_CHECKING:
    from upsolve.policy.decoding.sample import LocalModel

__all__ = ["ENGINES", "Engine", "make_transformers", "policy_sampler", "sampler"]


@dataclass(frozen=True, slots=True)
class Engine:
    """An inference engine."""

    make: Callable[[SampleConfig, ModelConfig], Sampler]
    """Loads a model by name or folder, or connects to its server, and returns a sampler."""
    follow: Callable[[SampleConfig, ModelConfig, Path], PolicySampler] | None = None
    """Returns a sampler of the policy in training, which uses its current weights; the path is a folder for the engine's files in the
    run. None: the engine cannot be used in online training."""
    beside: Callable[[SampleConfig, ModelConfig, Path], Sampler] | None = None
    """Returns a sampler of the weights in a folder, which samples in a thread while the trainer steps (``source.ahead``); the model is that of
    the recipe. None: the engine cannot sample ahead."""
    every_rank: bool = False
    """True: in online training each rank samples its share of the tasks. False: rank 0 samples them all."""
    tempered_logps: bool = False
    """True: ``Attempt.token_logps`` belong to the sampled distribution, at any temperature and top-p. False: they are known only at temperature 1 and
    top-p 1; at other settings they are None, and ``objective.correction`` is rejected."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options with their defaults; a recipe sets them by ``sample.options``, and ``make`` and ``follow`` read ``config.settings``."""


def make_transformers(_config: SampleConfig, model: ModelConfig) -> "LocalModel":
    """Load a model and its tokenizer into this process, on the GPU if the machine has one."""
    import torch

    from upsolve.policy.decoding.sample import LocalModel
    from upsolve.policy.machine import keep_memory, precision_of
    from upsolve.policy.model import codec_of, load_model

    keep_memory()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    policy = load_model(model.name, dtype=precision_of(model), device=device, offline=model.offline)
    return LocalModel(policy, codec_of(model))


def follow_transformers(_config: SampleConfig, _model: ModelConfig, _folder: Path) -> PolicySampler:
    """Return a sampler of the model in this process; nothing is loaded or copied."""
    from upsolve.policy.decoding.sample import PolicyModel

    return PolicyModel()


def make_vllm(config: SampleConfig, model: ModelConfig) -> Sampler:
    """Load a model into vLLM, in this process."""
    from upsolve.policy.vllm import Vllm

    return Vllm(config.vllm, model)


def follow_vllm(_config: SampleConfig, model: ModelConfig, folder: Path) -> PolicySampler:
    """Load the policy into vLLM at the first call, and reload its weights at each later one."""
    from upsolve.policy.vllm import VllmFollower

    return VllmFollower(model, folder)


def make_server(config: SampleConfig, model: ModelConfig) -> Sampler:
    """Connect to a server; loads the tokenizer, except for ``chat``."""
    from upsolve.policy.model import codec_of
    from upsolve.policy.served import Server

    server = config.server
    codec = None if server.prompt == "chat" else codec_of(model, server.tokenizer)
    return Server(server, model.name, codec, style=model.prompt)


def follow_server(_config: SampleConfig, model: ModelConfig, folder: Path) -> PolicySampler:
    """Write the policy's weights to a folder at each call, from which vLLM servers load them."""
    from upsolve.policy.served import PolicyServers

    return PolicyServers(model, folder)


def servers_beside(config: SampleConfig, model: ModelConfig, folder: Path) -> Sampler:
    """Return a sampler of vLLM servers that load the weights in a folder; it has its own tokenizer, so that a thread may use it."""
    from upsolve.policy.model import codec_of
    from upsolve.policy.served import UpdatedServer

    return UpdatedServer(config, model, codec_of(model, config.server.tokenizer or str(folder)), folder)


ENGINES: Mapping[str, Engine] = {
    "server": Engine(make_server, follow_server, servers_beside),
    "transformers": Engine(make_transformers, follow_transformers, every_rank=True, tempered_logps=True),
    "vllm": Engine(make_vllm, follow_vllm),
}
"""Built-in engines by name."""


def sampler(config: SampleConfig, model: ModelConfig) -> Sampler:
    """Return a sampler of a model with the engine ``config.engine``; ModelError if the engine or the model cannot be loaded."""
    engine: Engine = find("engine", config.engine)
    return engine.make(config, model)


def policy_sampler(config: SampleConfig, model: ModelConfig, folder: Path) -> PolicySampler:
    """Return a sampler of the policy in training, with the engine ``config.engine``; ``folder``, created if needed, holds the engine's files."""
    engine: Engine = find("engine", config.engine)
    assert engine.follow is not None, "the recipe was checked: SourceConfig.engine_follows_the_policy"
    return engine.follow(config, model, folder)
