"""Conversion of GGUF files: dequantized once to float32 safetensors in the cache folder, with their tokenizer.

    $UPSOLVE_CACHE/models/<key>/{config.json, model.safetensors, tokenizer.json, ...}

The key is a hash of the file's path, size and modification time, and of the version of transformers. A conversion is written to a
temporary folder and then renamed, so a reader never sees an incomplete one; one process converts while others wait. The ``CACHED`` most
recently used conversions are kept, the others are removed.
"""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch

from upsolve.archive.places import locked
from upsolve.errors import ModelError
from upsolve.files import cache_folder, commit_folder
from upsolve.policy.machine import choose_accelerator
from upsolve.types import content_id

__all__ = ["converted"]

CACHED = 4
"""Number of conversions kept; one of 135M parameters takes 0.5 GB."""
FORMAT = "1"
"""Version of the format of conversions, part of the key."""


def converted(file: Path) -> Path:
    """Return the folder with a GGUF file's model and tokenizer as transformers reads them; ModelError if file or cache cannot
    be used."""
    models = cache_folder() / "models"
    stat = file.resolve().stat()
    name = content_id(FORMAT, version("transformers"), str(file.resolve()), str(stat.st_size), str(stat.st_mtime_ns))
    path = models / name
    try:
        models.mkdir(parents=True, exist_ok=True)
        with locked(models / "lock"):
            if not path.is_dir():
                convert(file, path)
            os.utime(path)
            prune(models)
    except OSError as error:
        raise ModelError(
            f"model {file}: cannot be converted in {models}: {error}; set UPSOLVE_CACHE to another folder"
        ) from error
    return path


def convert(file: Path, path: Path) -> None:
    """Write the model and tokenizer of a GGUF file to a new folder."""
    temporary = Path(mkdtemp(dir=path.parent, prefix=f"{path.name}.", suffix=".tmp"))
    try:
        model, tokenizer = loaded(file)
        choose_accelerator()
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        commit_folder(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def loaded(file: Path) -> tuple[Any, Any]:
    """Return the model of a GGUF file in float32, and its tokenizer."""
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM
    from transformers.models.auto.tokenization_auto import AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    where: dict[str, Any] = {"gguf_file": file.name}
    try:
        with quick_parsing():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **where)
            settings = GgufConfig(dequantize=True)
            model: Any = AutoModelForCausalLM.from_pretrained(
                file.parent, dtype=torch.float32, quantization_config=settings, **where
            )
    except Exception as error:  # the parser raises anything for a damaged file
        raise ModelError(
            f"model {file}: cannot be read as GGUF ({type(error).__name__}: {error}); is the file complete?"
        ) from error
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model, tokenizer


@contextmanager
def quick_parsing() -> Generator[None]:
    """Parse a GGUF file once; transformers would parse it three times, 0.7 s each, and ask for names once a module. Shows no progress bar.

    Slices of numpy's memory maps take five times as long as those of plain arrays. The bar ignores transformers' setting for bars.
    """
    library: Any = import_module("gguf")
    conversion: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    before = library.GGUFReader, library.get_tensor_name_map, conversion.tqdm
    plain = type("PlainReader", (before[0],), {"data": property(lambda self: self.plain, keep_plain)})
    library.GGUFReader, library.get_tensor_name_map = lru_cache(plain), lru_cache(before[1])
    conversion.tqdm = partial(before[2], disable=True)
    try:
        yield
    finally:
        library.GGUFReader, library.get_tensor_name_map, conversion.tqdm = before


def keep_plain(reader: Any, data: Any) -> None:
    """Keep the memory map of a reader as a plain array over the same memory."""
    reader.plain = data.view(np.ndarray)


def prune(models: Path) -> None:
    """Remove all but the ``CACHED`` most recently used conversions, and the temporary folders of killed conversions."""
    folders = sorted((path for path in models.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime, reverse=True)
    conversions = [folder for folder in folders if folder.suffix != ".tmp"]
    for old in [*conversions[CACHED:], *(folder for folder in folders if folder.suffix == ".tmp")]:
        shutil.rmtree(old, ignore_errors=True)
