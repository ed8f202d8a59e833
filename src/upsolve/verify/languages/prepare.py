"""Files that a compiler or a runtime reads faster than their sources: precompiled headers, class data, snapshots.

A language makes them by its ``prepare`` script (``upsolve packages --prepare``), once for all programs, from files of the toolchain alone.
The sandbox mounts them read-only, so that no attempt can change what another one reads. They change the time of a build or a run, never
its outcome: words of a command that name ``{prepared}`` are left out where nothing has been prepared.

A script is run by ``sh -eu`` in the empty folder that it is to fill; $HOME is another one, with the language's ``files``.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from upsolve.errors import ConfigError
from upsolve.verify.languages import SYSTEM_PATH, Language, languages
from upsolve.verify.sandbox.packages import prepared_folder

__all__ = ["is_prepared", "preparable", "prepare"]


def preparable() -> list[Language]:
    """Return the languages that have something to prepare and whose tools are installed."""
    known = {one.name: one for one in languages().values()}
    return [one for one in known.values() if one.prepare and not one.missing()]


def is_prepared(one: Language) -> bool:
    """Return whether a language has been prepared with the tools that are installed now."""
    return (prepared_folder() / one.prepared_name).is_dir()


def prepare(one: Language) -> Path:
    """Run the ``prepare`` script of a language and return the folder that it has filled.

    What was there, and what was made for other versions of its tools, is replaced when all is made.

    Raises:
        ConfigError: the script fails; names the language and says what it printed.
    """
    root = prepared_folder()
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    target = root / one.prepared_name
    with tempfile.TemporaryDirectory(prefix=".making-", dir=root) as folder:
        made = Path(folder) / "made"
        made.mkdir()
        for name, text in one.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        environment = {"LANG": "C.UTF-8", **one.environment, "PATH": SYSTEM_PATH, "HOME": folder}
        done = subprocess.run(
            ["/bin/sh", "-eu", "-c", one.prepare], capture_output=True, text=True, check=False, env=environment, cwd=made
        )
        if done.returncode:
            raise ConfigError(f"language {one.name}: prepare: {(done.stderr or done.stdout).strip()[-500:]}")
        make_readable(made)
        for old in root.glob(f"{one.name}.*"):
            shutil.rmtree(old)
        os.rename(made, target)  # noqa: PTH104
    return target


def make_readable(folder: Path) -> None:
    """Let every user read what is in a folder: attempts have user ids of their own."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
