"""Languages other than Python: one YAML file each, in languages/ or in the folders of $UPSOLVE_LANGUAGES; no code.

name: cpp                    # of attempts and tasks
aliases: [c++]               # other names
file: main.cpp               # what the attempt is written to
compile: [g++, ...]          # optional; or a check of the syntax
run: [./main]                # {memory_mb} stands for the memory limit
version: [g++, --version]
install: g++                 # Debian packages
memory: address | group      # how memory is limited: by address space, or (managed heaps) by the control group alone
environment: {NAME: value}
error: regex                 # a line of the compiler that tells where; groups line, column, message
reason: regex                # the line with the message, where it is another one
trace: regex                 # a line of a failing run that tells where; group line
out_of_memory: regex         # what a run prints when its heap is full
grammar: tree_sitter_cpp     # optional: module of the tree-sitter grammar, or module:function
"""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from upsolve.errors import ConfigError

__all__ = ["PYTHON", "SYSTEM_PATH", "Language", "language", "languages"]

PYTHON = ("", "python", "python3", "py")
"""Names that mean Python, which has a sandbox of its own and no file here."""
FOLDER = Path(__file__).parent
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the sandbox finds programs: homes cannot be seen there."""


@dataclass(frozen=True, slots=True)
class Language:
    """How programs of one language are built and run."""

    name: str
    """Name in tasks and attempts."""
    file: str
    """File the attempt is written to."""
    run: tuple[str, ...]
    """Command that runs it."""
    compile: tuple[str, ...] = ()
    """Command that builds it or checks its syntax; empty if none."""
    aliases: tuple[str, ...] = ()
    """Other names."""
    version: tuple[str, ...] = ()
    """Command that prints a version."""
    install: str = ""
    """Debian packages that hold its tools."""
    memory: str = "address"
    """``address``: limited by address space; ``group``: by the control group alone."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further files beside the attempt, by name."""
    error: str = ""
    """Expression for the place of a compile error."""
    reason: str = ""
    """Expression for its message, where that stands on another line."""
    trace: str = ""
    """Expression for the place of a runtime error."""
    out_of_memory: str = ""
    """Expression for a full heap."""
    grammar: str = ""
    """Module of its tree-sitter grammar, or ``module:function``; empty if none."""

    def missing(self) -> str:
        """Return the tool that is not installed here, an empty string when all are."""
        tools = [command[0] for command in (self.compile, self.run) if command and "/" not in command[0]]
        return next((tool for tool in tools if shutil.which(tool, path=SYSTEM_PATH) is None), "")

    def command(self, words: tuple[str, ...], memory_bytes: int) -> list[str]:
        """Return a command with its places filled in."""
        return [word.replace("{memory_mb}", str(memory_bytes >> 20)) for word in words]


def read(file: Path) -> Language:
    """Read one language.

    Raises:
        ConfigError: bad YAML, an unknown key, a missing one, a bad expression; names file and key.
    """
    import yaml

    try:
        data: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{file}: cannot be read as YAML: {error}") from error
    data = data if isinstance(data, dict) else {}
    wrong = (data.keys() - {f.name for f in fields(Language)}) | ({"name", "file", "run"} - data.keys())
    if wrong:
        raise ConfigError(f"{file}: unknown or missing keys: {', '.join(sorted(wrong))}")
    for key in ("error", "reason", "trace", "out_of_memory"):
        try:
            re.compile(str(data.get(key, "")))
        except re.error as error:
            raise ConfigError(f"{file}: {key}: {error}") from error
    if data.get("memory", "address") not in ("address", "group"):
        raise ConfigError(f"{file}: memory is address or group, not {data['memory']!r}")
    values: dict[str, Any] = {key: tuple(map(str, value)) if isinstance(value, list) else value for key, value in data.items()}
    return Language(**values)


@cache
def languages() -> Mapping[str, Language]:
    """Return all languages by name and alias; later folders override earlier ones."""
    folders = [FOLDER, *map(Path, filter(None, os.environ.get("UPSOLVE_LANGUAGES", "").split(os.pathsep)))]
    found = [read(file) for folder in folders for file in sorted(folder.glob("*.yaml"))]
    return {name: one for one in found for name in (one.name, *one.aliases)}


def language(name: str) -> Language:
    """Return a language; ValueError names those that are known, or the package to install."""
    known = languages()
    if name not in known:
        raise ValueError(f"language {name!r} is not known here; known: {', '.join(sorted({'python', *known}))}")
    if tool := known[name].missing():
        raise ValueError(f"language {name}: no {tool} in {SYSTEM_PATH}: apt install {known[name].install}")
    return known[name]
