"""Files that compilers and runtimes load faster than sources: precompiled headers, class data archives, snapshots.

A language's ``prepare`` script (``upsolve packages --prepare``) creates them once for all programs, only from files of the
toolchain. The sandbox mounts them read-only, so that no attempt can affect another. They change the time of a build or run,
never its outcome: words of a command that contain ``{prepared}`` are left out if nothing has been prepared.

A script is run by ``sh -eu`` in an empty folder that it fills; $HOME is a separate folder with the language's ``files``.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from upsolve.errors import ConfigError
from upsolve.files import commit_folder
from upsolve.languages import SYSTEM_PATH, Language, languages, prepared_folder

__all__ = ["is_prepared", "preparable", "prepare"]


def preparable() -> list[Language]:
    """Return the languages with a ``prepare`` script whose tools are installed."""
    by_name = {language.name: language for language in languages().values()}
    return [language for language in by_name.values() if language.prepare and not language.missing()]


def is_prepared(language: Language) -> bool:
    """Return whether a language has been prepared with the currently installed tools."""
    return (prepared_folder() / language.prepared_name).is_dir()


def prepare(language: Language) -> Path:
    """Run the ``prepare`` script of a language and return its folder.

    Folders of previous runs, also those for other versions of the tools, are replaced only when the script has succeeded.

    Raises:
        ConfigError: the script failed; names the language and says what the script printed.
    """
    root = prepared_folder()
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    target = root / language.prepared_name
    with tempfile.TemporaryDirectory(prefix=".making-", dir=root) as folder:
        filled = Path(folder) / "filled"
        filled.mkdir()
        for name, text in language.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        environment = {"LANG": "C.UTF-8", **language.environment, "PATH": SYSTEM_PATH, "HOME": folder}
        done = subprocess.run(
            ["/bin/sh", "-eu", "-c", language.prepare], capture_output=True, text=True, check=False, env=environment, cwd=filled
        )
        if done.returncode:
            raise ConfigError(f"language {language.name}: prepare: {(done.stderr or done.stdout).strip()[-500:]}")
        for path in (filled, *filled.rglob("*")):  # by every user, since attempts run under other user ids
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        for old in root.glob(f"{language.name}.*"):
            shutil.rmtree(old)
        commit_folder(filled, target)
    return target
