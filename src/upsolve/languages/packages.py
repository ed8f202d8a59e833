"""Packages that tasks require: installed once in a folder, which the sandbox mounts read-only."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "install_command",
    "missing_packages",
    "packages_folder",
    "prepared_folder",
    "profile_of",
    "required_by",
    "runs_programs",
]


def packages_folder() -> Path:
    """Return the package folder of this Python version, in $UPSOLVE_PACKAGES or in packages/ of the cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upsolve"
    root = os.environ.get("UPSOLVE_PACKAGES") or Path(os.environ.get("UPSOLVE_CACHE") or home) / "packages"
    return Path(root) / f"python{sys.version_info[0]}.{sys.version_info[1]}"


def prepared_folder() -> Path:
    """Return the folder of files that languages have prepared (``upsolve packages --prepare``)."""
    return packages_folder().with_name("languages")


def missing_packages(requires: Sequence[str]) -> list[str]:
    """Return those of the packages, given by import name, that are not installed in ``packages_folder()``; no other text is looked up there."""
    folder = packages_folder()
    return [name for name in requires if not (name.isidentifier() and is_installed(folder, name))]


def is_installed(folder: Path, name: str) -> bool:
    """Return whether a folder has a package or module of a name."""
    return (folder / name).is_dir() or any(folder.glob(f"{name}.*"))


def install_command(names: Sequence[str]) -> list[str]:
    """Return the command that installs packages, given by distribution name, into ``packages_folder()``."""
    return [sys.executable, "-P", "-m", "pip", "install", "--upgrade", "--target", str(packages_folder()), *names]


def runs_programs(profile: str) -> bool:
    """Return whether jobs of a profile are programs other than Python, which need /proc, more room and further processes."""
    return profile in ("any", "checker")


def profile_of(requires: Sequence[str]) -> str:
    """Return the sandbox profile for required packages: ``python``, or such as ``python:numpy,pandas``."""
    return f"python:{','.join(sorted(requires))}" if requires else "python"


def required_by(profile: str) -> list[str]:
    """Return the packages that a profile imports, by import name."""
    return profile.partition(":")[2].split(",") if ":" in profile else []
