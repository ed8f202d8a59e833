"""Packages that attempts may import because their task ``requires`` them: installed once in a folder, mounted read-only in the sandbox."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["install_command", "missing_packages", "packages_folder", "prepared_folder", "profile_of", "required_by"]


def packages_folder() -> Path:
    """Return the folder of the packages for this version of Python: in $UPSOLVE_PACKAGES, or in packages/ where caches are kept."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upsolve"
    root = os.environ.get("UPSOLVE_PACKAGES") or Path(os.environ.get("UPSOLVE_CACHE") or home) / "packages"
    return Path(root) / f"python{sys.version_info[0]}.{sys.version_info[1]}"


def prepared_folder() -> Path:
    """Return the folder that holds what languages have prepared for their programs (``upsolve packages --prepare``)."""
    return packages_folder().with_name("languages")


def missing_packages(requires: Sequence[str]) -> list[str]:
    """Return the packages, by the names under which they are imported, that are not installed in ``packages_folder()``."""
    folder = packages_folder()
    return [name for name in requires if not ((folder / name).is_dir() or any(folder.glob(f"{name}.*")))]


def install_command(names: Sequence[str]) -> list[str]:
    """Return the command that installs packages, by the names that pip knows, into ``packages_folder()``."""
    return [sys.executable, "-m", "pip", "install", "--upgrade", "--target", str(packages_folder()), *names]


def profile_of(requires: Sequence[str]) -> str:
    """Return the profile of the sandbox for programs that require packages: ``python``, or ``python:numpy,pandas``."""
    return f"python:{','.join(sorted(requires))}" if requires else "python"


def required_by(profile: str) -> list[str]:
    """Return the packages that a profile loads."""
    return profile.partition(":")[2].split(",") if ":" in profile else []
