"""Folder of a domain -> tasks. The folder holds ``world.py`` and YAML files, each a list of tasks:

- name: fetch_cup                  # unique in the domain
  difficulty: easy
  prompt: What the robot has to do.
  checks: [...]                    # hold in every world, see checks.py
  worlds:                          # at least three
    - start: {...}                 # argument of World
      checks: [...]                # hold in this world, too
  reference: |                     # a program that passes
    def run(robot): ...
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from upsolve.errors import SourceError, one_line
from upsolve.types import Task, TestCase, TestKind
from upsolve.verify.judge.domains import ENTRY_POINT, Domain, domain_of
from upsolve.verify.judge.simulations import parsed

__all__ = ["BUILT_IN", "domain_folder", "read"]

BUILT_IN = {"robot": Path(__file__).parent / "robot"}
"""Name -> folder of the built-in domains."""


class WorldText(BaseModel):
    """One world of a task."""

    model_config = ConfigDict(extra="forbid", strict=True)
    start: dict[str, Any]
    """Argument of the domain's ``World``."""
    checks: list[Any] = []
    """Checks that must hold in this world."""


class TaskText(BaseModel):
    """Schema of a task in a YAML file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = Field(pattern=r"^\w+$")
    """Name, unique in the domain."""
    difficulty: str
    """Label of difficulty, any text."""
    prompt: str
    """Statement: the goal of the program."""
    checks: list[Any] = []
    """Checks that must hold in every world."""
    worlds: list[WorldText] = Field(min_length=3)
    """Worlds in which the program is judged."""
    reference: str
    """A program that passes."""


def domain_folder(path: Path) -> Path:
    """Return the folder of a domain, given as the name of a built-in one or as a path."""
    return path if path.exists() else BUILT_IN.get(str(path), path)


def read(path: Path) -> Iterator[Task]:
    """Yield the tasks of a domain's folder, with ids ``<folder>/<name>``; SourceError names file, task and key."""
    try:
        source = (path / "world.py").read_text(encoding="utf-8")
        domain = domain_of(source)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path / 'world.py'}: {error}") from error
    task_ids: set[str] = set()
    for file in sorted(path.glob("*.yaml")):
        for row in rows(file):
            try:
                task = task_of(row, path.name, source, domain)
            except ValueError as error:
                name = row.get("name", "?") if isinstance(row, dict) else "?"
                raise SourceError(f"{file}: task {name}: {reason(error)}") from error
            if task.task_id in task_ids:
                raise SourceError(f"{file}: task {task.task_id} is defined twice; rename one of the two")
            task_ids.add(task.task_id)
            yield task
    if not task_ids:
        raise SourceError(f"{path}: no tasks; add a .yaml file with a list of tasks (docs/simulators.md)")


def rows(file: Path) -> list[Any]:
    """Return the items of a YAML file."""
    import yaml

    from upsolve.yaml_text import read_yaml

    try:
        data = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SourceError(f"{file}: cannot be read as YAML: {one_line(error)}") from error
    if not isinstance(data, list):
        raise SourceError(f"{file}: must be a list of tasks (docs/simulators.md); got a {type(data).__name__}")
    return data


def reason(error: ValueError) -> str:
    """Return an error message in one line, with the key."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors())


def task_of(row: Any, name: str, source: str, domain: Domain) -> Task:
    """Build a task, in which every world is a hidden test; raise ValueError if it is invalid."""
    text = TaskText.model_validate(row)
    tests = tuple(
        TestCase(TestKind.SIMULATION, json.dumps(world.start), json.dumps([*text.checks, *world.checks]), hidden=True)
        for world in text.worlds
    )
    ask = f"{text.prompt.strip()}\n\nWrite a Python function `{ENTRY_POINT}({name})` that does it."
    task = Task(
        task_id=f"{name}/{text.name}",
        prompt=f"{domain.described(name)}\n\nTask: {ask}",
        tests=tests,
        entry_point=ENTRY_POINT,
        difficulty=text.difficulty,
        source=name,
        reference=text.reference,
        setup=source,
    )
    parsed(task)
    return task
