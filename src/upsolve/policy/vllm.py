"""Sampling by vLLM in this process: a stored model, or the policy in training."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from upsolve.config import ModelConfig, SampleConfig, VllmConfig
from upsolve.errors import ModelError
from upsolve.policy.locate import locate
from upsolve.policy.machine import precision_of
from upsolve.policy.model import codec_of, load_model, save_model
from upsolve.policy.request import Follower, Part, Request, requests
from upsolve.policy.tokens import Codec
from upsolve.types import Attempt, Task

__all__ = ["Vllm", "VllmFollower"]

CHUNK = 1024
"""Number of requests that vLLM gets at a time."""
MEMORY = 0.9
"""Default share of a device's memory that vLLM uses."""


class Vllm:
    """Sample a model by vLLM (``upsolve.policy.request.Sampler``)."""

    def __init__(self, config: VllmConfig, model: ModelConfig, *, sleeps: bool = False) -> None:
        """Load a model, converted or merged for vLLM first; ``sleeps``: enable sleep mode, on GPUs only. ModelError without
        vLLM or the model."""
        try:
            vllm: Any = import_module("vllm")
        except ImportError as error:
            raise ModelError(f"sample.engine=vllm: vLLM cannot be imported ({error}); `pip install vllm`") from error
        self.settings_of, self.sleeps, self.asleep = vllm.SamplingParams, sleeps, False
        self.model, self.codec = model.name, codec_of(model)
        dtype = precision_of(model)
        with TemporaryDirectory() as folder:
            try:
                self.llm: Any = vllm.LLM(
                    model=plain_folder(model, dtype, folder),
                    dtype=str(dtype).removeprefix("torch."),
                    tensor_parallel_size=config.gpus,
                    gpu_memory_utilization=config.memory or MEMORY,
                    max_model_len=config.context_tokens or None,
                    enforce_eager=not config.compile,
                    **({"enable_sleep_mode": True} if sleeps else {}),
                    **whole_prefill(),
                )
            except (OSError, RuntimeError, ValueError) as error:
                raise ModelError(f"model {model.name}: vLLM cannot load it: {error}") from error

    def __call__(self, tasks: Sequence[Task], *, config: SampleConfig, **how: Any) -> Iterator[Attempt]:
        """Yield ``config.samples`` attempts per task, in the order of the tasks; vLLM is given up to ``CHUNK`` requests at a time.

        Log-probabilities are those of the untempered distribution (vLLM's ``raw_logprobs``), so ``token_logps``, which are of the distribution
        that is sampled, are None for other settings than temperature 1 and top-p 1. ``entropy`` is None.
        """
        for _, attempt in self.sample_requests([*requests(tasks, config)], config=config, **how):
            yield attempt

    def sample_requests(
        self,
        requests: Sequence[Request],
        *,
        config: SampleConfig,
        author: str = "",
        on_done: Callable[[int], None] | None = None,
    ) -> Iterator[Part]:
        """Yield ``part`` and the attempt of each request, in their order (``RequestSampler``), then ``sleep``."""
        prompts = {
            key: {"prompt_token_ids": list(self.codec.prompt(*key).ids_P)} for key in {one.prompt_key for one in requests}
        }
        try:
            for start in range(0, len(requests), CHUNK):
                chunk = requests[start : start + CHUNK]
                batch = [prompts[request.prompt_key] for request in chunk]
                outputs = self.llm.generate(batch, [self.settings(request, config) for request in chunk], use_tqdm=False)
                for request, output in zip(chunk, outputs, strict=True):
                    yield request.part, self.attempt(request, output.outputs[0], author, is_plain=config.is_plain)
                if on_done:
                    on_done(start + len(chunk))
        finally:
            self.sleep()  # also if the caller stops early

    def reload(self) -> None:
        """Wake vLLM up, reload the weights from the model's folder, and reset the prefix cache, which was computed with the old weights."""
        if self.asleep:
            self.llm.wake_up(tags=["weights"])
        self.llm.collective_rpc("reload_weights")
        if self.asleep:  # after loading, which needs memory besides the weights
            self.llm.wake_up(tags=["kv_cache"])
        self.asleep = False
        self.llm.reset_prefix_cache()

    def sleep(self) -> None:
        """Free the memory of weights and key-value cache if sleep mode is enabled; ``reload`` allocates it again."""
        if self.sleeps and not self.asleep:
            self.llm.sleep(level=2)  # 2: no copy of the weights in host memory, because `reload` reads them from the folder
            self.asleep = True

    def settings(self, request: Request, config: SampleConfig) -> Any:
        """Return vLLM's sampling parameters of a request."""
        return self.settings_of(
            temperature=config.temperature,
            top_p=config.top_p,
            max_tokens=config.max_tokens,
            seed=request.seed,
            stop=self.codec.stops,
            stop_token_ids=sorted(self.codec.ends),
            logprobs=0,
        )

    def attempt(self, request: Request, output: Any, author: str, *, is_plain: bool) -> Attempt:
        """Return the attempt in a completion of vLLM; its ``logprobs`` hold a mapping from token id to log-probability per sampled token.

        ``is_plain``: the sample was drawn at temperature 1 without a nucleus.
        """
        ids = tuple(output.token_ids)
        code, answer = self.codec.code_and_answer(ids, request.task, request.prefix)
        logps = tuple(
            min(float(candidates[token].logprob), 0.0) for token, candidates in zip(ids, output.logprobs, strict=True)
        )
        return Attempt(
            **request.origin,
            code=code,
            answer=answer,
            author=author or self.model,
            behavior_logp=sum(logps),
            tokens=len(ids),
            truncated=output.finish_reason == "length",
            token_ids=ids,
            token_logps=logps if is_plain else None,
        )


class VllmFollower(Follower):
    """Sample the policy in training: each call writes its weights to a folder and loads them into vLLM, which sleeps between calls."""

    def __init__(self, model: ModelConfig, folder: Path) -> None:
        """Set the folder for the policy's weights; vLLM is loaded at the first call, in bfloat16 if ``model.bf16``, else in float32."""
        self.model, self.folder = model, folder
        self.engine: Vllm | None = None

    def ready(self, model: Any, codec: Codec, config: SampleConfig) -> Vllm:
        """Return vLLM with the policy's current weights."""
        save_model(model, codec, self.folder)
        model.to("cpu")  # frees the GPU: this copy is not used after it was written
        on_gpu = torch.cuda.is_available()
        if on_gpu:
            torch.cuda.empty_cache()  # vLLM's engine is another process, which cannot use memory cached by this one's allocator
        if self.engine is None:
            self.engine = Vllm(config.vllm, self.model.at(str(self.folder)), sleeps=config.vllm.sleep and on_gpu)
        else:
            self.engine.reload()
        return self.engine


def whole_prefill() -> dict[str, bool]:
    """Disable chunked prefill on CPUs: vLLM 0.32 rewinds the generator of a seeded request, which CPU generators do not
    support."""
    on_cpu = import_module("vllm.platforms").current_platform.is_cpu()
    return {"enable_chunked_prefill": False} if on_cpu else {}


def plain_folder(model: ModelConfig, dtype: torch.dtype, folder: str) -> str:
    """Return a name or folder that vLLM can load; a model with adapters is merged and written to ``folder``."""
    location = locate(model.name, offline=model.offline)
    if not location.adapters:
        return location.folder
    save_model(load_model(model.name, dtype=dtype, offline=model.offline), codec_of(model), folder)
    return folder
