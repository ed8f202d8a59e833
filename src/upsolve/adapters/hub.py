"""The Hugging Face Hub: a model or an archive with its card, in one commit."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from upsolve import __version__
from upsolve.archive.info import archive_info
from upsolve.archive.places import SHIPPED
from upsolve.archive.store import open_archive
from upsolve.errors import ArchiveError, ConfigError, UpsolveError
from upsolve.evaluate.capability import capability
from upsolve.evaluate.runs import load_sweep
from upsolve.policy.locate import ADAPTERS, BUILTIN, is_model, is_path

__all__ = ["Upload", "plan_upload", "upload"]

CARD = "README.md"
CODE = ["code", "upsolve"]


@dataclass(frozen=True, slots=True)
class Upload:
    """Files and card of a push."""

    kind: str
    """``model`` or ``dataset``."""
    files: Mapping[str, Path]
    """Path in the repository -> file, without the card."""
    card: str
    """Text of README.md."""


def plan_upload(path: str | Path, title: str) -> Upload:
    """Return the files and the card of a push, without contacting the Hub; ConfigError if there is nothing to push."""
    folder = SHIPPED.get(str(path), Path(path))
    if folder.suffix == ".gguf" and folder.is_file():
        return Upload("model", {folder.name: folder}, model_card(folder, title))
    if (folder / "archive.json").is_file():
        return Upload("dataset", files_of(folder), archive_card(folder, title))
    for trained in (folder / "training", folder):
        if (trained / "model").is_dir():
            recipe = {file.name: file for file in (trained / "recipe.yaml",) if file.is_file()}
            return Upload("model", files_of(trained / "model") | recipe, model_card(trained / "model", title, run=folder))
    if is_model(folder):
        return Upload("model", files_of(folder), model_card(folder, title))
    if (folder / CARD).is_file() and (data := files_of(folder)):
        return Upload("dataset", data, (folder / CARD).read_text(encoding="utf-8"))
    raise ConfigError(
        f"{path}: no such file or folder; nothing is pushed"
        if not folder.exists()
        else f"{path}: is not a run, a model, a .gguf file, an archive, or a data set of `upsolve archive export`; nothing is pushed"
    )


def files_of(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their relative path, without a card; hidden ones, temporary ones and locks are left out."""
    found = {file.relative_to(folder): file for file in sorted(folder.rglob("*")) if file.is_file()}
    left_out = {name for name in found if name.suffix in (".tmp", ".lock") or name.name == "lock" or str(name) == CARD}
    hidden = {name for name in found if any(part.startswith(".") for part in name.parts)}
    return {str(name): file for name, file in found.items() if name not in left_out | hidden}


def model_card(model: Path, title: str, *, run: Path | None = None) -> str:
    """Return the card of a model: base model, measurements of its run, and the recipe."""
    adapters = model / ADAPTERS
    recipe = model.parent / "recipe.yaml" if run else None
    settings: dict[str, Any] = yaml.safe_load(recipe.read_text(encoding="utf-8")) if recipe and recipe.is_file() else {}
    base = str((settings.get("model") or {}).get("name") or "")
    if adapters.is_file():
        base = base or str(json.loads(adapters.read_text(encoding="utf-8")).get("base_model_name_or_path") or "")
    base = "HuggingFaceTB/SmolLM2-135M-Instruct" if base == BUILTIN else base
    known = {"base_model": base} if base and not is_path(base) and not base.endswith(".gguf") else {}
    library = "gguf" if model.suffix == ".gguf" else "peft" if adapters.is_file() else "transformers"
    about = {"library_name": library, "pipeline_tag": "text-generation", **known, "tags": CODE}
    lines = [
        f"# {title}",
        f"Post-trained by upsolve {__version__}." if run else f"Pushed by upsolve {__version__}.",
        *measured(run),
    ]
    if settings:
        lines += ["## Recipe", f"```yaml\n{yaml.safe_dump(settings, sort_keys=False)}```"]
    return text_of_card(about, lines)


def measured(run: Path | None) -> list[str]:
    """Return what a run measured: the sentence of its report, with the warnings."""
    files = [run / f"{name}.json" for name in ("base", "trained")] if run else []
    if not files or not all(file.is_file() for file in files):
        return []
    try:
        before, after = map(load_sweep, files)
        change = capability(before, after)
    except (UpsolveError, ValueError) as error:
        return [f"The evaluations cannot be compared: {error}"]
    return ["## Measured", change.sentence, *change.choices, *change.warnings]


def archive_card(folder: Path, title: str) -> str:
    """Return the card of an archive: its counts, sources and judges, and how it is read."""
    info = archive_info(open_archive(folder))
    kinds = [name for name in ("tasks", "attempts", "verdicts") if any(folder.glob(f"{name}/*.parquet"))]
    configs = [{"config_name": name, "data_files": f"{name}/*.parquet"} for name in kinds]
    about = {"task_categories": ["text-generation"], "tags": CODE, "configs": configs}
    counts = f"{info.tasks:,} tasks, {info.attempts:,} attempts, {info.verdicts:,} verdicts; {info.mixed_tasks:,} tasks have both outcomes."
    lines = [f"# {title}", f"An archive of upsolve {__version__}: {counts}"]
    for name, values in (("Sources", info.sources), ("Judges", info.judges), ("Outcomes", info.statuses)):
        if values:
            rows = [f"| {key or '(none)'} | {count:,} |" for key, count in values.items()]
            lines += [f"## {name}", "\n".join([f"| {name.lower()} | number |", "|---|---|", *rows])]
    how = f'import upsolve\nfrom huggingface_hub import snapshot_download\n\narchive = upsolve.open_archive(snapshot_download("{title}", repo_type="dataset"))'
    return text_of_card(about, [*lines, "## Use", f"```python\n{how}\n```"])


def text_of_card(about: Mapping[str, Any], lines: Sequence[str]) -> str:
    """Return the text of a card."""
    return f"---\n{yaml.safe_dump(dict(about), sort_keys=False)}---\n\n" + "\n\n".join(lines) + "\n"


def upload(planned: Upload, repo: str, *, private: bool = False) -> str:
    """Create the repository if needed, push in one commit, and return its address; ArchiveError if the Hub refuses."""
    from huggingface_hub import CommitOperationAdd, HfApi

    files: dict[str, Path | bytes] = {**planned.files, CARD: planned.card.encode()}
    operations = [CommitOperationAdd(name, content) for name, content in files.items()]
    try:
        api = HfApi()
        api.create_repo(repo, repo_type=planned.kind, private=private, exist_ok=True)
        done = api.create_commit(repo, operations, commit_message=f"Push by upsolve {__version__}", repo_type=planned.kind)
    except Exception as error:  # what the HTTP client of huggingface_hub raises differs between its versions
        raise ArchiveError(f"{repo}: cannot be pushed ({type(error).__name__}: {error}); `hf auth login` signs in") from error
    return str(done.repo_url)
