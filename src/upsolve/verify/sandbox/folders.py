"""Folders of the sandbox. Standard library only: it is shipped into the sandbox."""

from __future__ import annotations

import os

__all__ = ["OWN", "PACKAGES", "READABLE", "tidy"]

OWN = ("/tmp", "/dev/shm")
"""Temporary folders, writable, emptied after each attempt."""
PACKAGES = "/mnt/packages"
"""Where the packages that a task requires, or what languages have prepared, are mounted."""
READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix")
"""Folders of the system, mounted read-only."""


def clear(folder: str) -> None:
    """Remove everything in a folder."""
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            clear(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def tidy(own: bool) -> bool:
    """Empty the temporary folders; return False when that does not work: then this server has served."""
    try:
        for folder in OWN:
            if own:  # then an attempt, too, may change its mode
                os.chmod(folder, 0o1777)
            if os.listdir(folder):
                clear(folder)
    except (OSError, RecursionError):
        return False
    return True
