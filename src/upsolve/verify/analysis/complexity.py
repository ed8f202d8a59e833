"""Cyclomatic complexity of functions, in the languages that Lizard supports."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from upsolve.languages import languages
from upsolve.types import Finding
from upsolve.verify.analysis.source import Source

__all__ = ["complexity"]

OUTSIDE = "*global*"


@cache
def analyzer() -> Any:
    """Return Lizard's analyzer, with code outside functions counted as a function."""
    import lizard

    return lizard.FileAnalyzer(lizard.get_extensions(["outside"]))


def complexity(sources: Sequence[Source]) -> list[tuple[Finding, ...]]:
    """Return one finding per function: kind ``complexity``, ``value`` its cyclomatic complexity, 1 + decisions (McCabe 1976).

    Decisions are branches, loops, handlers, conditional expressions, and the operators ``and`` and ``or`` in them. Code outside
    functions counts as a function ``<module>`` if it has a decision. Of code that does not parse, the readable part is counted.
    """
    return [of_program(source) for source in sources]


def of_program(source: Source) -> tuple[Finding, ...]:
    """Return the findings of one program; none if Lizard does not support its language."""
    from lizard_languages import get_reader_for

    file = "0.py" if source.language == "python" else languages()[source.language].file
    if get_reader_for(file) is None:
        return ()
    functions = analyzer().analyze_source_code(f"0{Path(file).suffix}", source.code).function_list
    return tuple(finding(function) for function in functions if function.name != OUTSIDE or function.cyclomatic_complexity > 1)


def finding(function: Any) -> Finding:
    """Build a finding from a Lizard function record."""
    name = "<module>" if function.name == OUTSIDE else function.name
    figure = function.cyclomatic_complexity
    first = max(1, function.start_line)
    message = f"{name}: cyclomatic complexity {figure}"
    return Finding("complexity", "cyclomatic", message[:500], first, end_line=max(first, function.end_line), value=figure)
