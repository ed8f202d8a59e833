"""What Python attempts find imported and can import, and packages that tests import and the sandbox lacks: then the task is at fault."""

import ast
import sys
from dataclasses import replace

from upsolve.languages.packages import missing_packages
from upsolve.types import Task
from upsolve.verify.contest import Imports, with_imports
from upsolve.verify.judge.memo import memo
from upsolve.verify.limits import JudgeSettings

__all__ = ["absent_packages", "as_judged"]


def as_judged(task: Task, settings: JudgeSettings) -> Task:
    """Return a task as Python attempts at it are judged: with the imports and packages of the settings."""
    task = with_imports(task) if settings.imports is Imports.CONTEST else task
    packages = tuple(dict.fromkeys((*task.requires, *settings.packages)))
    return task if packages == task.requires else replace(task, requires=packages)


def absent_packages(task: Task, source: str) -> list[str]:
    """Return the packages that a test, which parses, imports and the sandbox lacks, sorted; none if the setup makes modules."""
    others = sorted(packages_of(source).difference(task.requires))
    if not others or "sys.modules" in task.setup:
        return []
    return missing_packages(others) if task.requires else others


@memo
def packages_of(source: str) -> frozenset[str]:
    """Return the packages outside the standard library that Python code imports in any case: not within a ``try`` or a function."""
    body = ast.parse(source).body if "import" in source else []
    modules = [module for statement in body for module in modules_of(statement)]
    return frozenset(module.partition(".")[0] for module in modules) - sys.stdlib_module_names - {"attempt"}


def modules_of(statement: ast.stmt) -> list[str]:
    """Return the modules that a statement imports by name."""
    if isinstance(statement, ast.ImportFrom):
        return [statement.module] if statement.module and not statement.level else []
    return [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
