"""Finding the records that recipes name: built in, ``package.module:attribute``, an entry point, or the record itself.

One table per kind maps built-in names to records. A new objective, component, engine, ... is a record of that kind, and needs no change
of upsolve (``docs/extending.md``).
"""

import os
import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from importlib import import_module, invalidate_caches
from importlib.metadata import EntryPoints, entry_points
from operator import attrgetter
from pathlib import Path
from traceback import extract_tb
from typing import Annotated, Any, NoReturn

from pydantic import BeforeValidator, PlainSerializer

from upsolve.errors import ConfigError, UpsolveError, one_line

__all__ = ["KINDS", "Kind", "RecordError", "find", "load", "load_named", "named", "names", "only", "reraise"]

SKIPPED = (f"{Path(__file__).parent}{os.sep}", f"{Path(import_module.__code__.co_filename).parent}{os.sep}", "<")
"""Path prefixes of code that calls or imports records (upsolve and the interpreter); tracebacks skip these frames."""


class RecordError(ConfigError, ValueError):
    """A record that a recipe names raised an exception or returned an invalid value: names the record and, if known, its line."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record that can be extended."""

    table: str
    """``module:attribute`` of the mapping from built-in names to records; it imports neither torch nor transformers."""
    record: str
    """``module:attribute`` of the class of the records."""
    of_file: str = ""
    """``module:attribute`` of the function that returns the record in a YAML file; empty if records are code."""

    @property
    def group(self) -> str:
        """Entry-point group in which other packages offer records of this kind, such as ``upsolve.objectives``."""
        return next(f"upsolve.{name}s" for name, kind in KINDS.items() if kind is self)


KINDS: Mapping[str, Kind] = {
    "advantage": Kind("upsolve.advantage.table:ADVANTAGES", "upsolve.advantage.table:Advantage"),
    "check": Kind("upsolve.clean.doctor:CHECKS", "upsolve.clean.check:Check"),
    "component": Kind("upsolve.reward.components:COMPONENTS", "upsolve.reward.components:Component"),
    "credit": Kind("upsolve.reward.credit:CREDITS", "upsolve.reward.credit:Credit"),
    "derivation": Kind("upsolve.derive.deriving:DERIVATIONS", "upsolve.derive.derivation:Derivation"),
    "detector": Kind("upsolve.reward.hacks:DETECTORS", "upsolve.reward.hacks:Detector"),
    "engine": Kind("upsolve.policy.engines:ENGINES", "upsolve.policy.engines:Engine"),
    "evidence": Kind("upsolve.solve.choose:EVIDENCE", "upsolve.solve.choose:Evidence"),
    "export": Kind("upsolve.exports.formats:EXPORTS", "upsolve.exports.record:Export"),
    "language": Kind("upsolve.languages:LANGUAGES", "upsolve.languages:Language"),
    "objective": Kind("upsolve.objective.table:OBJECTIVES", "upsolve.objective.table:Objective"),
    "parent": Kind("upsolve.solve.search:PARENTS", "upsolve.solve.search:Parents"),
    "source": Kind(
        "upsolve.importers.registry:SOURCES", "upsolve.importers.source:Source", "upsolve.importers.tables.table:source_of"
    ),
}
"""Kind -> location of its table and its class."""


def load(path: str) -> Any:
    """Import ``package.module:attribute`` of upsolve or of an installed package; the current folder is not searched.

    Raises:
        ValueError: the module or attribute does not exist, or the module raises an exception; the message says which.
    """
    module, _, attribute = path.partition(":")
    module = module.removesuffix(".py")
    if not module or not attribute:
        raise ValueError(f"{path!r}: must be module:attribute, such as my_file:MINE")
    try:
        imported = import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{path}: cannot import {module} ({error}); a file of your own must be in this folder or installed"
        ) from error
    except Exception as error:
        raise ValueError(f"{path}: cannot import {module}: {described(error)}") from error
    try:
        return attrgetter(attribute)(imported)
    except AttributeError as error:
        place, own = getattr(imported, "__file__", None), Path(f"{module}.py")
        is_shadowed = own.is_file() and not (place and own.samefile(place))
        shadowed = f" ({place}); rename {module}.py of this folder" if is_shadowed else ""
        raise ValueError(f"{path}: module {module} has no {attribute}{shadowed}") from error


def load_named(path: str) -> Any:
    """Import an object that a user named as ``package.module:attribute`` or ``file.py:attribute``.

    The current folder is searched after everything else, for this import alone: other imports never read files there.

    Raises:
        ValueError: as ``load``.
    """
    if path.partition(":")[0].removesuffix(".py") in sys.modules:
        return load(path)
    with current_folder_last():
        return load(path)


@contextmanager
def current_folder_last() -> Generator[None]:
    """Context manager: modules may be imported from the current folder if no other folder of the path has them."""
    folder = str(Path.cwd())
    sys.path.append(folder)
    invalidate_caches()  # the file may be newer than Python's list of the folder
    try:
        yield
    finally:
        sys.path.reverse()
        if folder in sys.path:  # an imported module may have rewritten the path
            sys.path.remove(folder)
        sys.path.reverse()


def described(error: Exception) -> str:
    """Return an exception in one line, with file and line of its first frame that is not upsolve's or the interpreter's, if there is one."""
    frames = [f for f in extract_tb(error.__traceback__) if not f.filename.startswith(SKIPPED)]
    place = f" ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else ""
    return f"{type(error).__name__}: {one_line(error)}{place}"


def reraise(kind: str, name: Any, error: Exception) -> NoReturn:
    """Raise the exception of a record's function again; adds name and line if the record is not built in.

    Raises:
        RecordError: the record is not built in. Expected errors, and those of memory, are raised as they are.
    """
    built = isinstance(name, str) and name in built_in(kind)
    if built or isinstance(error, UpsolveError | MemoryError) or type(error).__name__ == "OutOfMemoryError":
        raise error
    raise RecordError(f"{kind} {name}: {described(error)}") from error


@cache
def entry_points_of(group: str) -> EntryPoints:
    """Return the entry points of installed packages in a group; looked up once a process."""
    return entry_points(group=group)


@cache
def built_in(kind: str) -> Mapping[str, Any]:
    """Return the table of upsolve's own records of a kind. The table is imported once, since ``find`` is called for every attempt."""
    module, _, attribute = KINDS[kind].table.partition(":")
    return getattr(import_module(module), attribute)


def names(kind: str) -> list[str]:
    """Return the names that a recipe may use without a module: built-in names, and entry points of installed packages."""
    return sorted({*built_in(kind), *(point.name for point in entry_points_of(KINDS[kind].group))})


def find(kind: str, name: Any) -> Any:
    """Return the record of a name; a record is returned as it is. The map of a source is a YAML file, so no code of its package runs.

    Raises:
        ValueError: there is no such record (lists similar names), it is not of this kind, its package cannot be imported, or two packages
            offer a record under this name.
    """
    where = KINDS[kind]
    record = name
    if isinstance(name, str):
        if name in built_in(kind):
            return built_in(kind)[name]
        points = [point for point in entry_points_of(where.group) if point.name == name]
        if where.of_file and name.endswith((".yaml", ".yml")):
            record = Path(name)
        elif ":" in name:
            record = load_named(name)
        elif points:
            values = sorted({f"{point.module}:{point.attr}" for point in points})
            if len(values) > 1:
                raise ValueError(f"{kind} {name!r} is defined by several packages; write one of {', '.join(values)} instead")
            record = load(values[0])
        else:
            close, known = get_close_matches(name, names(kind), n=3), ", ".join(names(kind))
            hint = (
                f"did you mean {', '.join(close)}, or package.module:attribute?"
                if close
                else f"known: {known}, and package.module:attribute"
            )
            raise ValueError(f"no {kind} {name!r}; {hint}")
    if where.of_file and isinstance(record, Path):
        record = load(where.of_file)(record)
    if not isinstance(record, load(where.record)):
        raise ValueError(f"{name!r} is a {type(record).__name__}, not a record of the class {where.record}")
    return record


def only(field: str, given: Collection[str], allowed: Sequence[str]) -> None:
    """Check the words in a field of a record; the field is a list or a single word.

    Raises:
        ValueError: a word that is not among the allowed ones.
    """
    if isinstance(given, str) or not {*given} <= {*allowed}:
        raise ValueError(f"{field}: {given!r}: must be of {', '.join(allowed)}")


def named(kind: str) -> Any:
    """Return the pydantic type of a recipe's key that names a record of a kind; its value is the name, or the record itself."""
    return Annotated[Any, BeforeValidator(partial(checked, kind)), PlainSerializer(partial(name_of, kind), return_type=str)]


def checked(kind: str, value: Any) -> Any:
    """Return the name of a record of this kind, so that recipes compare and resume by name. A record that no module holds is returned itself."""
    find(kind, value)
    try:
        return name_of(kind, value)
    except ValueError:
        return value


def name_of(kind: str, value: Any) -> str:
    """Return the name of a record for a recipe file: built in, or ``module:attribute`` of a loaded module."""
    if isinstance(value, str):
        return value
    for name, record in built_in(kind).items():
        if record is value:
            return name
    for module in [*sys.modules.values()]:
        for attribute, candidate in [*getattr(module, "__dict__", {}).items()]:
            if candidate is value:
                return f"{module.__name__}:{attribute}"
    raise ValueError(f"a {kind} passed in Python must be an attribute of a module, so that a run can be resumed: {value!r}")
