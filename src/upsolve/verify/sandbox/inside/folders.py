"""Folders of the sandbox. Standard library only: sent into the sandbox."""

from __future__ import annotations

import os

__all__ = ["OWN", "PACKAGES", "READABLE", "tidy"]

OWN = ("/tmp", "/dev/shm")
"""Temporary folders, writable, emptied after each attempt."""
PACKAGES = "/mnt/packages"
"""Mount point of required packages or of prepared files of languages."""
READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/var/lib/ghc")
"""System folders, mounted read-only; the last one has Debian's list of Haskell packages."""


def clear(folder: str) -> None:
    """Remove all entries of a folder, and keep the folder."""
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            clear(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def tidy(own: bool) -> bool:
    """Empty the temporary folders; return False on failure: the server must then be replaced."""
    try:
        for folder in OWN:
            if own:  # attempts run with the server's user id and can change its mode
                os.chmod(folder, 0o1777)
            if os.listdir(folder):
                clear(folder)
    except (OSError, RecursionError):
        return False
    return True
