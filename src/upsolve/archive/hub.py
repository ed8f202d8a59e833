"""Data sets of the Hugging Face Hub by name, ``hf://ORG/NAME[@REVISION][/CONFIG][:SPLIT]``, read by the library ``datasets``.

``hf://datasets/...`` and the like are paths of fsspec (``archive.places``).
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upsolve.errors import SourceError, UpsolveError
from upsolve.extras import needs_extras
from upsolve.files import commit_file

__all__ = ["copy_data_set", "is_data_set", "name_of", "version_of"]

NAME = re.compile(
    r"hf://(?!(?:buckets|datasets|kernels|models|spaces)/)"
    r"(?P<path>[^/:@]+/[^/:@]+)(?:@(?P<revision>[^/:]+))?(?:/(?P<name>[^/:]+))?(?::(?P<split>.+))?"
)


def is_data_set(url: str) -> bool:
    """Return whether a URL names a data set of the Hub."""
    return bool(NAME.fullmatch(url))


def name_of(url: str) -> str:
    """Return the name of a data set without its organisation."""
    return str(parts_of(url)["path"]).partition("/")[2]


def version_of(url: str) -> str:
    """Return the commit of a data set or, of a folder in the Hub's layout, a hash of its files.

    Raises:
        SourceError: it cannot be reached, or has no such configuration.
        MissingExtraError: the extra ``hub`` is not installed.
    """
    asked = parts_of(url)
    del asked["split"]
    with reading(url) as datasets:
        return str(datasets.load_dataset_builder(**asked).hash)


def copy_data_set(url: str, folder: Path) -> None:
    """Write a split, or all, of a data set into a folder, as ``SPLIT.parquet``, holding some rows in memory at a time.

    Raises:
        SourceError: it cannot be read, or has no such split.
        MissingExtraError: the extra ``hub`` is not installed.
    """
    asked = parts_of(url)
    folder.mkdir(parents=True, exist_ok=True)
    with reading(url) as datasets:
        found = datasets.load_dataset(**asked, streaming=True)
        for split, rows in ({asked["split"]: found} if asked["split"] else found).items():
            file = folder / f"{split}.parquet"
            if not file.exists():
                temporary = folder / f"{split}.tmp"
                rows.to_parquet(str(temporary))
                commit_file(temporary, file)


def parts_of(url: str) -> dict[str, str | None]:
    """Return what a URL says, by the names of the arguments of ``load_dataset``."""
    match = NAME.fullmatch(url)
    assert match, "a data set of the Hub"
    return match.groupdict()


@contextmanager
def reading(url: str) -> Generator[Any]:
    """Yield the library; its errors name the data set in one line."""
    with needs_extras():
        import datasets
        from huggingface_hub.constants import HF_HUB_OFFLINE
    try:
        yield datasets
    except UpsolveError:
        raise
    except Exception as error:  # of the library, of the connection, of the files
        offline = "; HF_HUB_OFFLINE is set: unset it, or name a folder" if HF_HUB_OFFLINE else ""
        raise SourceError(f"{url}: cannot be read: {str(error).splitlines()[0].rstrip('.')}{offline}") from error
