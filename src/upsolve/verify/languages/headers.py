"""Headers that a compiler has read once for all programs: ``upsolve packages --headers`` makes them, the sandbox shows them read-only.

A language names them under ``headers``, with the command that makes each from ``{source}`` at ``{target}``; its ``compile`` command looks
for them in /mnt/packages, where a folder that is not there changes nothing but the time.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from upsolve.errors import ConfigError
from upsolve.verify.languages import SYSTEM_PATH, Language, languages
from upsolve.verify.sandbox.packages import headers_folder

__all__ = ["make_headers"]


def make_headers() -> list[Path]:
    """Make the headers of every language whose tools are installed; return their files.

    Raises:
        ConfigError: a compiler refuses; says what it said.
    """
    known = {one.name: one for one in languages().values()}
    return [make(one, header) for one in known.values() if not one.missing() for header in one.headers]


def make(one: Language, header: str) -> Path:
    """Make one header; the file is replaced when it is whole."""
    target = headers_folder() / f"{header}.gch"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "all.h", Path(folder) / "made.gch"
        source.write_text(f"#include <{header}>\n", encoding="utf-8")
        words = [word.replace("{source}", str(source)).replace("{target}", str(made)) for word in one.headers[header]]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={"PATH": SYSTEM_PATH}, cwd=folder)
        if done.returncode:
            raise ConfigError(f"language {one.name}: {' '.join(words)}: {done.stderr.strip()[:500]}")
        shutil.copyfile(made, f"{target}.part")
    os.replace(f"{target}.part", target)  # noqa: PTH105
    return target
