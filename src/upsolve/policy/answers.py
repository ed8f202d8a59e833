"""The program in a model's answer: the rule that sampling, importers, exports and adapters share. Linear in the answer's length."""

import ast
import builtins
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from upsolve.languages.names import is_query_language, judged_languages, language_in
from upsolve.policy.blocks import Answer, Block, Line, end_of, read_answer
from upsolve.types import Task, TestKind
from upsolve.verify.judge.scopes import names_bound_by

__all__ = ["code_spans", "defined_in", "free_names", "is_only_code", "names_of", "program_in"]

NEAR = 200
"""Number of characters of a line that are read on each side of a name."""
MOST = 2000
"""Largest number of occurrences of names that are read."""
IMPORTED = 0.5
"""Count of a name that a program only imports, where a defined name counts 1."""
CASELESS = frozenset({"ada", "fortran", "pascal"})
KEYWORD = re.compile(
    r"(?<![\w$])(?:def|function|func|fun|fn|sub|class|struct|interface|enum|trait|type|module|let|rec|const|var|val|local|procedure|define"
    r"|object|record|package|my|our|auto|proc|subroutine|constant)(?:[ \t]*\([^()]*\))?[ \t(*&]*(?:\w+(?:\.|:{1,2}))?$",
    re.IGNORECASE,
)
"""A word that introduces a definition, at the end of the text before a name; the receiver of a Go method or a class may stand between."""
LINE_START = re.compile(r"^[ \t(]*(?:[\w.$]+[.:])?$")
ASSIGNED = re.compile(r"[ \t]*(?:=(?![=>])|<-|:{1,2}=|::|:[ \t]*(?:async[ \t]+)?(?:function\b|\())")
TYPED = re.compile(
    r"^[ \t]*(?!(?:return|else|new|throw|case|await|yield|not|and|or|in|assert|print|puts|echo|delete|goto|typeof)\b)[A-Za-z_][\w:<>,.*&\[\]?~ \t]*[ \t*&>\]:]$"
)
CALLED = re.compile(r"[ \t]*[(<]")
DECLARED = re.compile(r"[^\n{]*;[ \t\r]*(?:\n|$)")
METHOD = re.compile(r"[ \t]*\([^()\n]*\)[^\n;=]*\{")
EQUATION = re.compile(r"[^\n=]*=(?!=)")


def defined_in(text: str, names: Sequence[str], language: str) -> float:
    """Return how many of the names a program defines; a name that it only imports counts a half."""
    if not names:
        return 0
    if language in ("python", "python2", "pypy"):
        defined, imported = python_forms(tuple(names))
        found = {next(filter(None, match.groups())) for match in defined.finditer(text)}
        return len(found) or IMPORTED * (imported.search(text) is not None)
    return len({name for name, before, after in uses(text, tuple(names), language) if is_defined(before, after, language)})


@lru_cache(maxsize=1024)
def python_forms(names: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the forms of definitions and of imports of names in Python."""
    any_name = "|".join(map(re.escape, names))
    defined = (
        rf"^[ \t]*+(?:async[ \t]++)?(?:def|class)[ \t]++({any_name})(?!\w)"
        rf"|^({any_name})(?!\w)[ \t]*+(?::[^=\n]*+)?=(?!=)"
    )
    return re.compile(defined, re.MULTILINE), re.compile(rf"^(?:from|import)\b[^\n]*\b(?:{any_name})(?!\w)", re.MULTILINE)


def uses(text: str, names: tuple[str, ...], language: str) -> list[tuple[str, str, str]]:
    """Return the names in a text, each with the text before the name and after it on its line, and the next line."""
    flags = re.IGNORECASE if language in CASELESS else 0
    form = re.compile(rf"(?<![\w$])(?:{'|'.join(map(re.escape, names))})(?![\w$])", flags)
    found: list[tuple[str, str, str]] = []
    for match in islice(form.finditer(text), MOST):
        before = text[max(0, match.start() - NEAR) : match.start()]
        found.append(
            (match[0].lower() if flags else match[0], before.rpartition("\n")[2], text[match.end() : match.end() + NEAR])
        )
    return found


def is_defined(before: str, after: str, language: str) -> bool:
    """Return whether a name is defined at its position, judged by the text around it."""
    if KEYWORD.search(before):
        return True
    if LINE_START.match(before):
        if ASSIGNED.match(after) or (language in ("haskell", "ocaml") and EQUATION.match(after)):
            return True
        method = METHOD.match(after)
        if method and "=>" not in method[0] and "function" not in method[0]:
            return True
    return TYPED.match(before) is not None and CALLED.match(after) is not None and DECLARED.match(after) is None


SQL = ("sql", "postgres", "postgresql", "mysql", "psql", "tsql", "plsql", "mariadb")
"""Labels of queries in any dialect."""
FAMILIES = (frozenset({"c", "cpp"}), frozenset({"javascript", "typescript", "jsx", "tsx"}))
"""Languages whose labels are often mistaken for each other."""
OTHERS = frozenset(
    "text txt plain plaintext output out stdout stderr input stdin console terminal pycon shell-session log json yaml yml toml ini xml "  # noqa: SIM905
    "html css csv diff patch md markdown latex tex math mermaid http dockerfile makefile cmake pseudocode pseudo none".split()
)
"""Labels of blocks that are not programs."""
WITH_MAIN = frozenset({"c", "cpp", "java", "go", "rust", "d", "haskell", "c#", "kotlin", "scala"})
"""Languages whose programs have a function ``main``."""
BUILTINS = frozenset(dir(builtins))
LONGEST_PARSED = 1 << 18
"""Longest text that is parsed as Python, characters."""
FEW = 3
"""Largest number of paragraphs of prose that are cut behind an unfenced program."""
TESTS_READ = 50
START = re.compile(
    r"^(?:(?:async[ \t]++)?def[ \t]++\w++[ \t]*+[(\[]|class[ \t]++\w++[ \t]*+[:(\[]|import[ \t]++\w[\w.]*+[ \t]*+(?:,|as\b|$)"
    r"|from[ \t]++[\w.]++[ \t]++import\b|@\w)",
    re.MULTILINE,
)
"""First line of an unfenced program in Python."""
QUERY = re.compile(
    r"(?:^[ \t]*+|: )(SELECT\b|WITH\s++(?:RECURSIVE\s++)?\w++\s*+(?:\([^()]{0,1000}+\)\s*+)?AS\s*+\()",
    re.MULTILINE | re.IGNORECASE,
)
IS_QUERY = re.compile(r"(?:\s++|--[^\n]*+|\()*+(?:SELECT|WITH|VALUES|FROM)\b", re.IGNORECASE)
QUERY_END = re.compile(r";[ \t]*+$|\n[ \t]*+\n", re.MULTILINE)
CODE = re.compile(r"[(){}=;$]")


def program_in(answer: str, language: str = "python", names: Sequence[str] = (), *, prompt: str = "") -> str:
    """Return the program in a model's answer; empty if the answer ends within a thought.

    If the prompt opened a fence, the program is the text before the closing fence. Otherwise the fenced blocks in the language are compared (if there
    are none, blocks without a label; else all blocks). The program is the last block that defines most of ``names`` or, without names, the last block
    that can be a program of its own, else the longest. An answer without blocks is a whole program; prose around a query, or around Python, is cut.
    Line ends become ``\\n``; thoughts, and control tokens at the end such as ``<|im_end|>``, are removed.

    Args:
        answer: the model's whole answer.
        language: language of the program, by any of its names; empty for Python.
        names: functions and classes that the program must define (``names_of``).
        prompt: the prompt as text, whose end may open a fence or a thought.
    """
    return "\n".join(text for _, text in program_lines(answer, language, names, prompt))


def names_of(task: Task) -> tuple[str, ...]:
    """Return the names that a program for a task must define: the entry point's or, in Python, the names that its tests use."""
    if task.entry_point:
        return tuple(dict.fromkeys(re.findall(r"[^\W\d]\w*", task.entry_point)))
    return names_used(task) if is_python(task.language) else ()


@lru_cache(maxsize=4096)
def names_used(task: Task) -> tuple[str, ...]:
    """Return the names that a task's tests read and that neither the tests nor the setup bind."""
    tests = [test.input for test in islice(task.tests, TESTS_READ) if test.kind in (TestKind.CALL, TestKind.CODE)]
    return free_names(tests, task.setup)


def free_names(sources: Iterable[str], setup: str = "") -> tuple[str, ...]:
    """Return the names that Python sources read and that neither the sources, a setup nor Python bind, sorted."""
    trees = [tree for source in sources if (tree := parsed(source))]
    before = parsed(setup)
    bound = {name for tree in [*trees, *([before] if before else [])] for name in bound_in(tree)}
    return tuple(sorted({name for tree in trees for name in read_in(tree)} - bound - BUILTINS))


def is_only_code(answer: str, code: str) -> bool:
    """Return whether an answer holds nothing but a program, its closing fence and control tokens."""
    return code.strip() == answer[: end_of(answer)].rstrip().removesuffix("```").strip()


def code_spans(answer: str, code: str, spans: Iterable[tuple[int, int]], language: str = "") -> list[tuple[int, int]]:
    """Return spans (start, end) of an answer, in characters, counted from the start of its program.

    Spans before the program are negative. Lines of the program correspond to lines of the answer, also if the answer indents them or ends them with
    ``\\r\\n``. If the program is not in the answer, all spans are negative.
    """
    spans = list(spans)
    lines = lines_with(answer, code, language)
    if not lines:
        shift = len(answer) + max((end for _, end in spans), default=0)
        return [(start - shift, end - shift) for start, end in spans]
    return list(zip(moved(lines, [start for start, _ in spans]), moved(lines, [end for _, end in spans]), strict=True))


def moved(lines: Sequence[Line], places: Sequence[int]) -> list[int]:
    """Return the positions in the program, in characters, of ascending positions in the answer."""
    out: list[int] = []
    index, begin = 0, 0
    for place in places:
        while index + 1 < len(lines) and place >= lines[index + 1][0]:
            begin += len(lines[index][1]) + 1
            index += 1
        inside = place - lines[index][0]
        out.append(begin + (inside if index + 1 == len(lines) else min(inside, len(lines[index][1]) + 1)))
    return out


def lines_with(answer: str, code: str, language: str) -> Sequence[Line]:
    """Return the lines of the last part of an answer that is a program; none if no part is."""
    wanted = code.strip("\n").rstrip()
    found = read_answer(answer, python=is_python(language))
    before = unfenced_part(found.between(found.start, found.first_fence), language, ())
    for lines in (*(block.lines for block in reversed(found.blocks)), before, unfenced(found, language, ())):
        if "\n".join(text for _, text in lines).rstrip() == wanted:
            return lines
    place = answer.rfind(code.rstrip())
    return ((place, code.rstrip()),) if place >= 0 else ()


def is_python(language: str) -> bool:
    """Return whether a language is Python; the empty name means Python."""
    return (language_in(language) or "python") in ("python", "python2")


def program_lines(answer: str, language: str, names: Sequence[str], prompt: str) -> Sequence[Line]:
    """Return the lines of the program in an answer with their places (``program_in``)."""
    name = language_in(language) or "python"
    python = is_python(name)
    found = read_answer(answer, prompt=prompt, python=python)
    if found.thinking:
        return ()
    if found.continued:
        return found.blocks[0].lines
    if not found.blocks:
        return unfenced(found, name, names)
    if python and found.first_fence < found.end:
        whole = found.between(found.start, found.end)
        closed = trim_end(whole[:-1]) if whole and whole[-1][1].strip() == "```" else ()
        for lines in (whole, closed):  # their other fences are in strings or comments
            if lines and is_program(whole_text(lines), names):
                return lines
    before = found.between(found.start, found.first_fence)
    return chosen(found, before, name, names)


def whole_text(lines: Sequence[Line]) -> str:
    """Return lines as one text."""
    return "\n".join(text for _, text in lines)


def chosen(found: Answer, before: Sequence[Line], language: str, names: Sequence[str]) -> Sequence[Line]:
    """Return the lines of the block that holds the program, or of the text before the first fence."""
    blocks = [block for block in found.blocks if block.text.strip()]
    tiers = [tier(block.label, language) for block in blocks]
    head = unfenced_part(before, language, names)
    parts = [Block("", tuple(head)), *blocks]
    tiers = [1, *tiers]
    wanted = names or (("main",) if language in WITH_MAIN else ())
    counts = [defined_in(part.text, wanted, language) for part in parts]
    if any(counts):
        key = max((counts[index] >= 1, tiers[index], counts[index], index) for index in range(len(parts)))
        if names or key[3]:
            return parts[key[3]].lines
    if not names:
        alone = [index for index in alone_of([part.text for part in parts], language) if index or found.lone]
        if alone:
            return parts[max(alone, key=lambda index: (tiers[index], index))].lines
    if not blocks:
        return head
    return max(zip(tiers[1:], blocks, strict=True), key=lambda one: (one[0], len(one[1].text)))[1].lines


def tier(label: str, language: str) -> int:
    """Return the priority of a block's label: 2 for the language, 1 for a missing, unknown or related label, 0 for any other label."""
    if not label:
        return 1
    if label in OTHERS and label != language:
        return 0
    name = language_in(label)
    if name == language or (label in SQL and is_query_language(language)):
        return 2
    related = any({name, language} <= family for family in FAMILIES)
    return 1 if related or (name != "python" and name not in judged_languages()) else 0


def is_program(text: str, names: Sequence[str]) -> bool:
    """Return whether a text as a whole is a Python program that defines the names, or that has an effect."""
    tree = parsed(text)
    return tree is not None and acts(tree) and (not names or defined_in(text, names, "python") >= 1)


def alone_of(texts: Sequence[str], language: str) -> Iterator[int]:
    """Yield the indices of the texts that can be independent programs.

    In Python such a text parses, has a statement that is more than a value, and reads no name that only an earlier text binds (as tests would). A
    query starts with SELECT or WITH. In other languages the text has a character of code, and does not end like a sentence.
    """
    before: set[str] = set()
    for index, text in enumerate(texts):
        if is_query_language(language):
            good = IS_QUERY.match(text) is not None
        elif not is_python(language):
            good = CODE.search(text) is not None and not text.rstrip().endswith((":", "."))
        elif tree := parsed(text):
            bound = bound_in(tree)
            good = acts(tree) and not (read_in(tree) - bound - BUILTINS) & before
            before |= bound
        else:
            good = False
        if good:
            yield index


def acts(tree: ast.Module) -> bool:
    """Return whether a program has a statement that is more than a value."""
    plain = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.Subscript, ast.Attribute)
    return any(not (isinstance(node, ast.Expr) and isinstance(node.value, plain)) for node in tree.body)


def parsed(code: str) -> ast.Module | None:
    """Return the tree of a program in Python; None if it does not parse, or is longer than ``LONGEST_PARSED``."""
    return None if len(code) > LONGEST_PARSED else tree_or_line(code)[0]


def tree_or_line(code: str) -> tuple[ast.Module | None, int]:
    """Return the tree of a program in Python, or the line of its first syntax error (0 if the error has no line)."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(code), 0
    except SyntaxError as error:
        return None, error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return None, 0


def bound_in(tree: ast.AST) -> set[str]:
    """Return the names that a tree binds, in any scope."""
    return {name for node in ast.walk(tree) for name in names_bound_by(node)}


def read_in(tree: ast.AST) -> set[str]:
    """Return the names that a tree reads, in any scope."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def unfenced(found: Answer, language: str, names: Sequence[str]) -> Sequence[Line]:
    """Return the program in an answer without fences. A query runs from SELECT or WITH to an empty line, or to a semicolon at the end of a line."""
    lines = found.between(found.start, found.end)
    if not is_query_language(language):
        return unfenced_part(lines, language, names)
    begin = QUERY.search(found.text, found.start, found.end)
    if begin is None:
        return lines
    end = QUERY_END.search(found.text, begin.start(1), found.end)
    return found.between(begin.start(1), end.end() if end else found.end) or lines


def unfenced_part(lines: Sequence[Line], language: str, names: Sequence[str]) -> Sequence[Line]:
    """Return the Python program between prose: from the first to the last line of code; if none is found, all lines."""
    text = whole_text(lines)
    if not is_python(language) or len(text) > LONGEST_PARSED or tree_or_line(text)[0]:
        return lines
    begin = START.search(text)
    if begin is None:
        return lines
    part = lines[text.count("\n", 0, begin.start()) :]
    for _ in range(1 + FEW):
        code = whole_text(part)
        tree, line = tree_or_line(code)
        if tree:
            good = acts(tree) and (not names or defined_in(code, names, "python") >= 1)
            return part if good else lines
        if line < 2:
            break
        part = trim_end(part[: line - 1])
    return lines


def trim_end(lines: Sequence[Line]) -> Sequence[Line]:
    """Return lines without the empty lines at their end."""
    last = len(lines)
    while last and not lines[last - 1][1].strip():
        last -= 1
    return lines[:last]
