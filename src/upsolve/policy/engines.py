"""What runs a model that is sampled: transformers, vLLM, or a server."""

from collections.abc import Callable
from functools import partial

import torch

from upsolve.config import Recipe
from upsolve.policy.model import load_codec, load_model
from upsolve.policy.request import Sampler
from upsolve.policy.sample import sample
from upsolve.policy.served import Served
from upsolve.policy.vllm import InProcess

__all__ = ["ENGINES", "sampler"]


def with_transformers(recipe: Recipe, model: str) -> Sampler:
    """Load a model and its tokenizer here, on the best device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    policy = load_model(model, dtype=torch.bfloat16 if recipe.model.bf16 else torch.float32, device=device)
    return partial(sample, policy, load_codec(model))


def with_vllm(recipe: Recipe, model: str) -> Sampler:
    """Load a model into vLLM, in this process."""
    return InProcess(recipe.sample.vllm, model, bf16=recipe.model.bf16)


def with_server(recipe: Recipe, model: str) -> Sampler:
    """Ask a server; of the model only the tokenizer is read here, and for ``chat`` not even that."""
    server = recipe.sample.server
    return Served(server, model, None if server.prompt == "chat" else load_codec(server.tokenizer or model))


ENGINES: dict[str, Callable[[Recipe, str], Sampler]] = {
    "server": with_server,
    "transformers": with_transformers,
    "vllm": with_vllm,
}
"""A recipe's name for an engine -> what makes a sampler of a recipe and a model."""


def sampler(recipe: Recipe, model: str) -> Sampler:
    """Return the model, ready to be sampled by the recipe's engine.

    Args:
        recipe: its ``sample.engine``, what that engine's settings are, and ``model.bf16``.
        model: name or folder.

    Raises:
        ModelError: the model or its tokenizer cannot be loaded, or vLLM is not installed.
        ConfigError: the variable that should hold the server's key does not exist.
    """
    return ENGINES[recipe.sample.engine](recipe, model)
