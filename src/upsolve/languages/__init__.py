"""Languages other than Python, and the packages that tasks require, which the sandbox mounts read-only.

A language is a YAML file in this folder, in the folders of $UPSOLVE_LANGUAGES, and of other packages.

name: cpp                    # in attempts and tasks
aliases: [c++]               # other names
file: main.cpp               # file to which the attempt is written
constant: ...                # optional: program that prints 1, to find tests that it passes
compile: [g++, ...]          # optional: compiler, or syntax check
engine: sqlite | duckdb      # instead of run: attempts are queries, judged by their rows (judge/queries.py)
run: [./main]                # {memory_mb} stands for the memory limit, {stack_mb} for that of the stack
version: [g++, --version]
install: g++                 # Debian packages
memory: address | group      # without control group, memory is limited by address space, or (managed heaps) not at all
environment: {NAME: value}
error: regex                 # compiler output with the position; groups line, column, message
reason: regex                # compiler output with the message, if on a separate line
trace: regex                 # standard error of a failed run with the position; group line
exception: regex             # standard error of a failed run with the name of the exception; group type
out_of_memory: regex         # standard error of a run whose heap is full
prepare: |                   # optional: script that fills the folder {prepared} once for all programs
  g++ -x c++-header ...
grammar: tree_sitter_cpp     # optional: module of the tree-sitter grammar, or module:function
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from upsolve.errors import ConfigError, one_line
from upsolve.files import cache_folder, commit_folder
from upsolve.types import content_id

__all__ = [
    "ENGINES",
    "MOST_STACK",
    "PYTHON",
    "SYSTEM_PATH",
    "Language",
    "install_command",
    "is_prepared",
    "language",
    "languages",
    "missing_packages",
    "packages_folder",
    "preparable",
    "prepare",
    "prepared_folder",
    "profile_of",
    "required_by",
    "runs_programs",
    "stack_bytes",
]

PYTHON = ("", "python", "python3", "py")
"""Names of Python, which has no record in this table: it is judged in forks of the warm interpreter."""
FOLDER = Path(__file__).parent
MOST_STACK = 1 << 30
"""Largest stack of a program's main thread, to which it may raise its own limit, bytes."""
ENGINES: Mapping[str, tuple[str, ...]] = {"sqlite": (), "duckdb": ("duckdb",)}
"""Query engine -> packages that it needs, installed by ``upsolve packages``."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of the sandbox, which hides home folders."""


def stack_bytes(memory_bytes: int) -> int:
    """Return the size of the main thread's stack under a memory limit. It is smaller than the limit, so that endless recursion overflows the stack."""
    return min(memory_bytes // 4 * 3, MOST_STACK)


@dataclass(frozen=True, slots=True)
class Language:
    """Commands that build and run programs of a language (``docs/languages.md``).

    Raises:
        ValueError: an invalid regular expression or value; names the key.
    """

    name: str
    """Name in tasks and attempts."""
    file: str
    """Name of the file to which the attempt is written."""
    run: tuple[str, ...] = ()
    """Command that runs the program; empty for queries."""
    compile: tuple[str, ...] = ()
    """Command that compiles the program or checks its syntax; empty if none."""
    aliases: tuple[str, ...] = ()
    """Other names."""
    version: tuple[str, ...] = ()
    """Command that prints a version."""
    package: tuple[str, ...] = ()
    """Command that fails if the package ``{package}`` cannot be loaded, for tasks with ``requires``; empty if there is none."""
    install: str = ""
    """Debian packages of the language's tools."""
    memory: str = "address"
    """Limit of memory without a control group: ``address``: by address space; ``group``: no limit."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name -> content of further files in the working folder."""
    error: str = ""
    """Regular expression for the position of a compile error; groups ``line``, ``column``, ``message``."""
    reason: str = ""
    """Regular expression for the message of a compile error, if on a separate line; group ``message``."""
    trace: str = ""
    """Regular expression for the position of a runtime error; group ``line``."""
    exception: str = ""
    """Regular expression for the exception that ended a run; group ``type``. The last match counts."""
    out_of_memory: str = ""
    """Regular expression for the standard error of a run whose heap is full."""
    engine: str = ""
    """Query engine, one of ``ENGINES``; empty for programs."""
    prepare: str = ""
    """Shell script that fills an empty folder, once for all programs (see prepare.py). In commands and in values of
    ``environment``, ``{prepared}`` is that folder; words and variables with it are left out until the script has been run."""
    grammar: str = ""
    """Module of the tree-sitter grammar, or ``module:function``; empty if none."""
    constant: str = field(default="", repr=False)  # no part of ``identity``
    """Program that prints 1 whatever it reads, or query for 1; empty if none."""

    def __post_init__(self) -> None:
        for key in ("error", "reason", "trace", "exception", "out_of_memory"):
            try:
                re.compile(getattr(self, key))
            except re.error as error:
                raise ValueError(f"{key}: {error}") from error
        if self.memory not in ("address", "group"):
            raise ValueError(f"memory must be address or group, got {self.memory!r}")
        if self.engine not in ("", *ENGINES):
            raise ValueError(f"engine must be {' or '.join(ENGINES)}, got {self.engine!r}")
        if bool(self.run) == bool(self.engine):
            raise ValueError("set either run or engine, not both")

    def missing(self) -> str:
        """Return the first tool, or package of the engine, that is not installed; empty if all are."""
        if self.engine:
            return next(iter(missing_packages(ENGINES[self.engine])), "")
        return next((tool for tool in self.tools if shutil.which(tool, path=SYSTEM_PATH) is None), "")

    @property
    def tools(self) -> list[str]:
        """Return the programs of the commands ``compile``, ``run`` and ``version``, each once; relative paths are left out."""
        commands = (self.compile, self.run, self.version)
        return list(dict.fromkeys(words[0] for words in commands if words and "/" not in words[0]))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name and the aliases."""
        return (self.name, *self.aliases)

    @property
    def identity(self) -> str:
        """Return a text that identifies the language's runtime: this record, and path, size and mtime of its tools."""
        files = [Path(path) for path in (shutil.which(tool, path=SYSTEM_PATH) for tool in self.tools) if path]
        return repr((self, [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]))

    @property
    def prepared_name(self) -> str:
        """Return the name of the prepared folder, which changes with ``identity``; empty for a language without a script."""
        return f"{self.name}.{content_id(self.identity)[:12]}" if self.prepare else ""

    def command(self, words: tuple[str, ...], memory_bytes: int, prepared: str = "") -> list[str]:
        """Return a command with ``{memory_mb}``, ``{stack_mb}`` and ``{prepared}`` replaced; ``memory_bytes``: the memory limit."""
        stack = str(stack_bytes(memory_bytes) >> 20)
        known = {"{memory_mb}": str(memory_bytes >> 20), "{stack_mb}": stack, "{prepared}": prepared}
        return [re.sub("|".join(known), lambda found: known[found[0]], word) for word in words]


def read(file: Path) -> Language:
    """Read a language from a YAML file; ConfigError names the file and the invalid key."""
    try:
        return read_text(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as YAML: {one_line(error)}") from error


def read_text(text: str, where: str) -> Language:
    """Read a language from YAML; ConfigError names ``where`` and the unknown, missing or invalid key."""
    import yaml

    from upsolve.yaml_text import read_yaml

    try:
        data: Any = read_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: cannot be read as YAML: {one_line(error)}") from error
    data = data if isinstance(data, dict) else {}
    if "headers" in data:
        raise ConfigError(f"{where}: headers: is now `prepare`, a script that makes them (docs/languages.md)")
    needed = {"name", "file", "run"} - ({"run"} if "engine" in data else set())
    wrong = (data.keys() - {f.name for f in fields(Language)}) | (needed - data.keys())
    if wrong:
        raise ConfigError(f"{where}: unknown or missing keys: {', '.join(sorted(wrong))}")
    values: dict[str, Any] = {key: tuple(map(str, value)) if isinstance(value, list) else value for key, value in data.items()}
    try:
        return Language(**values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def from_entry_points() -> list[Language]:
    """Return the languages of other packages' entry points: a ``Language``, a ``Path`` of a YAML file, or YAML text; ConfigError for other types."""
    records: list[Language] = []
    for point in entry_points(group="upsolve.languages"):
        value: Any = point.load()
        if isinstance(value, Path):
            value = read(value)
        elif isinstance(value, str):
            value = read_text(value, f"entry point {point.value}")
        if not isinstance(value, Language):
            raise ConfigError(f"entry point {point.value}: must be a Language, a Path or YAML text, not {type(value).__name__}")
        records.append(value)
    return records


@cache
def languages() -> Mapping[str, Language]:
    """Return all languages by name and alias. $UPSOLVE_LANGUAGES overrides packages, which override built-in languages."""

    def read_all(folder: Path) -> list[Language]:
        return [read(file) for file in sorted(folder.glob("*.yaml"))]

    own = [Path(folder) for folder in os.environ.get("UPSOLVE_LANGUAGES", "").split(os.pathsep) if folder]
    records = [*read_all(FOLDER), *from_entry_points(), *(record for folder in own for record in read_all(folder))]
    return {name: record for record in records for name in record.names}


def __getattr__(name: str) -> Any:
    if name == "LANGUAGES":  # the table of plugins.py, loaded on first access
        return languages()
    raise AttributeError(f"module {__name__} has no attribute {name}")


def language(name: str) -> Language:
    """Return a language by name or alias.

    Raises:
        ValueError: the language is unknown, or a tool is missing; names the known languages, or the package to install.
    """
    by_name = languages()
    if name not in by_name:
        known = ", ".join(sorted({"python", *(record.name for record in by_name.values())}))
        own = os.environ.get("UPSOLVE_LANGUAGES") or "not set"
        raise ValueError(f"unknown language {name!r}; known: {known}, and those in folders of $UPSOLVE_LANGUAGES ({own})")
    tool = by_name[name].missing()
    if tool and by_name[name].engine:
        raise ValueError(f"language {name}: no package {tool}: run `upsolve packages {tool}`")
    if tool:
        raise ValueError(f"language {name}: no {tool} in {SYSTEM_PATH}: apt install {by_name[name].install}")
    return by_name[name]


def packages_folder() -> Path:
    """Return the package folder of this Python version, in $UPSOLVE_PACKAGES or in packages/ of the cache folder."""
    root = os.environ.get("UPSOLVE_PACKAGES") or cache_folder() / "packages"
    return Path(root) / f"python{sys.version_info[0]}.{sys.version_info[1]}"


def prepared_folder() -> Path:
    """Return the folder of files that languages have prepared (``upsolve packages --prepare``)."""
    return packages_folder().with_name("languages")


def missing_packages(requires: Sequence[str]) -> list[str]:
    """Return the packages, by import name, that are not installed in ``packages_folder()``; texts that are not package names are skipped."""
    folder = packages_folder()
    names = filter(str.isidentifier, requires)
    installed = {name for name in names if (folder / name).is_dir() or any(folder.glob(f"{name}.*"))}
    return [name for name in requires if name not in installed]


def install_command(names: Sequence[str]) -> list[str]:
    """Return the command that installs packages, given by distribution name, into ``packages_folder()``."""
    return [sys.executable, "-P", "-m", "pip", "install", "--upgrade", "--target", str(packages_folder()), *names]


def runs_programs(profile: str) -> bool:
    """Return whether jobs of a profile are programs other than Python, which need /proc, more room and further processes."""
    return profile in ("any", "checker")


def profile_of(requires: Sequence[str]) -> str:
    """Return the sandbox profile for required packages: ``python``, or for example ``python:numpy,pandas``."""
    return f"python:{','.join(sorted(requires))}" if requires else "python"


def required_by(profile: str) -> list[str]:
    """Return the packages that a profile imports, by import name."""
    return profile.partition(":")[2].split(",") if ":" in profile else []


def preparable() -> list[Language]:
    """Return the languages with a ``prepare`` script whose tools are installed."""
    by_name = {language.name: language for language in languages().values()}
    return [language for language in by_name.values() if language.prepare and not language.missing()]


def is_prepared(language: Language) -> bool:
    """Return whether a language has been prepared with the currently installed tools."""
    return (prepared_folder() / language.prepared_name).is_dir()


def prepare(language: Language) -> Path:
    """Run the ``prepare`` script of a language and return its folder.

    Prepared files are files that compilers and runtimes load faster than sources: precompiled headers, class data archives, snapshots.

    A language's ``prepare`` script (``upsolve packages --prepare``) creates them once for all programs, only from files of the
    toolchain. The sandbox mounts them read-only, so that no attempt can affect another. They change the time of a build or run,
    never its outcome: words of a command that contain ``{prepared}`` are left out if nothing has been prepared.

    A script is run by ``sh -eu`` in an empty folder that it fills; $HOME is a separate folder with the language's ``files``.

    Folders of previous runs, also those for other versions of the tools, are replaced only when the script has succeeded.

    Raises:
        ConfigError: the script failed; names the language and shows the script's output.
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
