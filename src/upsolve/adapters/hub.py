"""The Hugging Face Hub: a model or an archive with its card, in one commit."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from upsolve import __version__
from upsolve.archive.info import archive_info
from upsolve.archive.places import SHIPPED
from upsolve.archive.store import open_archive
from upsolve.errors import ArchiveError, ConfigError
from upsolve.policy.locate import ADAPTERS, is_model, is_path
from upsolve.report.card import CARD, HERE, TAGS, hub_base, known_of, model_card, run_of

__all__ = ["Upload", "plan_upload", "upload"]


@dataclass(frozen=True, slots=True)
class Upload:
    """Files and card of a push."""

    kind: str
    """Kind of the repository: ``model`` or ``dataset``."""
    files: Mapping[str, Path]
    """Path in the repository -> file, without the card."""
    card: str
    """Text of README.md."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path in the repository -> replaced text of a file in ``files``, without paths of this machine."""


def plan_upload(path: str | Path, title: str) -> Upload:
    """Return the files and the card of a push, without contacting the Hub; ConfigError if the path holds nothing to push."""
    folder = SHIPPED.get(str(path), Path(path))
    if folder.suffix == ".gguf" and folder.is_file():
        return Upload("model", {folder.name: folder}, model_card(folder, title, name=title))
    if (folder / "archive.json").is_file():
        return Upload("dataset", files_of(folder), archive_card(folder, title))
    for model in (folder / "training" / "model", folder / "model", folder):
        if model.is_dir() and (model != folder or is_model(folder)):
            return plan_model(model, title)
    if (folder / CARD).is_file() and (data := files_of(folder)):
        return Upload("dataset", data, (folder / CARD).read_text(encoding="utf-8"))
    raise ConfigError(
        f"{path}: no such file or folder; nothing is pushed"
        if not folder.exists()
        else f"{path}: is not a run, a model, a .gguf file, an archive, or a data set of `upsolve archive export`; nothing is pushed"
    )


def plan_model(model: Path, title: str) -> Upload:
    """Return the files and the card of a model's folder. The card is that of its run; else the one beside the weights; else a short one."""
    config, card = model / ADAPTERS, model / CARD
    texts = {ADAPTERS: with_hub_base(config, hub_base(known_of(model, run_of(model))))} if config.is_file() else {}
    if run_of(model) is None and card.is_file():
        text = card.read_text(encoding="utf-8").replace(f'\nname = "{HERE}"', f'\nname = "{title}"')
    else:
        text = model_card(model, title, name=title)
    return Upload("model", files_of(model), text, texts)


def with_hub_base(config: Path, base: str) -> str:
    """Return the configuration of adapters with the base model's name on the Hub in place of a folder of this machine."""
    settings: dict[str, Any] = json.loads(config.read_text(encoding="utf-8"))
    named = str(settings.get("base_model_name_or_path") or "")
    return json.dumps({**settings, "base_model_name_or_path": base or Path(named).name if is_path(named) else named}, indent=2)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their relative path, without the card, and without hidden and temporary files and locks."""
    found = {file.relative_to(folder): file for file in sorted(folder.rglob("*")) if file.is_file()}
    left_out = {name for name in found if name.suffix in (".tmp", ".lock") or name.name == "lock" or str(name) == CARD}
    hidden = {name for name in found if any(part.startswith(".") for part in name.parts)}
    return {str(name): file for name, file in found.items() if name not in left_out | hidden}


def archive_card(folder: Path, title: str) -> str:
    """Return the card of an archive: its counts, sources and judges, and how it is read."""
    info = archive_info(open_archive(folder))
    kinds = [name for name in ("tasks", "attempts", "verdicts") if any(folder.glob(f"{name}/*.parquet"))]
    configs = [{"config_name": name, "data_files": f"{name}/*.parquet"} for name in kinds]
    about = {"task_categories": ["text-generation"], "tags": [*TAGS], "configs": configs}
    counts = f"{info.tasks:,} tasks, {info.attempts:,} attempts, {info.verdicts:,} verdicts; {info.mixed_tasks:,} tasks have both outcomes."
    lines = [f"# {title}", f"An archive of upsolve {__version__}: {counts}"]
    for name, values in (("Sources", info.sources), ("Judges", info.judges), ("Outcomes", info.statuses)):
        if values:
            rows = [f"| {key or '(none)'} | {count:,} |" for key, count in values.items()]
            lines += [f"## {name}", "\n".join([f"| {name.lower()} | number |", "|---|---|", *rows])]
    how = f'import upsolve\nfrom huggingface_hub import snapshot_download\n\narchive = upsolve.open_archive(snapshot_download("{title}", repo_type="dataset"))'
    text = "\n\n".join([*lines, "## Use", f"```python\n{how}\n```"])
    return f"---\n{yaml.safe_dump(about, sort_keys=False, allow_unicode=True)}---\n\n{text}\n"


def upload(planned: Upload, repo: str, *, private: bool = False) -> str:
    """Create the repository if needed, push in one commit, and return its address; ArchiveError if the Hub refuses."""
    from huggingface_hub import CommitOperationAdd, HfApi

    texts = {name: text.encode() for name, text in planned.texts.items()}
    files: dict[str, Path | bytes] = {**planned.files, **texts, CARD: planned.card.encode()}
    operations = [CommitOperationAdd(name, content) for name, content in files.items()]
    try:
        api = HfApi()
        api.create_repo(repo, repo_type=planned.kind, private=private, exist_ok=True)
        done = api.create_commit(repo, operations, commit_message=f"Push by upsolve {__version__}", repo_type=planned.kind)
    except Exception as error:  # what the HTTP client of huggingface_hub raises differs between its versions
        raise ArchiveError(f"{repo}: cannot be pushed ({type(error).__name__}: {error}); `hf auth login` signs in") from error
    return str(done.repo_url)
