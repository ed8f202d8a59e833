"""Layouts of trees of programs as maps: the parts of paths that are tasks, authors and outcomes."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any

from upsolve.errors import SourceError
from upsolve.importers.outcome import are_statuses
from upsolve.importers.rows import known_words
from upsolve.importers.tables.trees import pattern_of
from upsolve.languages.names import language_in

__all__ = ["LANGUAGES", "layouts_of"]

LANGUAGES = {ending: language for language, endings in known_words()["endings"].items() for ending in endings}
"""Ending of a program's name, in lower case -> language."""
TREES = known_words()["trees"]
TOOLS = (".sh", ".sql")
"""Endings of programs that only support others in their folder."""
TEST = re.compile(r"(?i:test_.*|.*_tests?|tests?|conftest)|.*[a-z0-9]Tests?|__init__")
"""Names, without endings, of files with tests of programs, and of other files that are not attempts."""
TESTS = ((".in", ".out"), (".in", ".ans"), (".in", ".expected"), (".txt", ".expected"), (".input", ".output"))
"""Endings of the two files of a test: its input, and the expected output."""
PERSON = re.compile(
    r"(student|user|author|team|model|participant|group|s|u)[-_]?\d+$|.*_assignsubmission_|[a-z]+_(late_)?\d+_\d+_|gpt|claude|llama|qwen|gemini|starcoder|codegen"
)
EXERCISE = re.compile(r"(problem|task|exercise|ex|lab|hw|assignment|question|prob|puzzle|p|q)[-_]?\d+")
DEEPEST, SAME = 9, 5
"""Most parts of a path that is compared with others; most patterns that differ only in names of folders, before an asterisk replaces these names."""
Parts = tuple[str, ...]


@dataclass(slots=True)
class Layout:
    """How the programs of one depth, and similar programs of other depths, are read."""

    levels: list[int]
    """Indices of the parts of the path that name task or author."""
    outcome: int | None
    """Index of the part whose names are words for outcomes."""
    example: PurePosixPath
    """One of the programs."""
    known: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    """Names that occur in each of these parts."""
    read: dict[tuple[Parts, str], list[PurePosixPath]] = field(default_factory=dict[tuple[Parts, str], list[PurePosixPath]])
    """Pattern and ending -> programs; ``{0}`` in a pattern stands for a part, by its index."""

    @property
    def places(self) -> list[int]:
        """Indices of all parts with a name."""
        return sorted([*self.levels, *([] if self.outcome is None else [self.outcome])])


def layouts_of(path: Path, found: Sequence[PurePosixPath]) -> list[tuple[str, dict[str, Any]]]:
    """Return the ways to read a tree of programs, as a description and a map, given its files; [] for another folder.

    The depth of most programs decides. Programs of other depths are read if their paths contain the known names of tasks and authors. Another depth
    with at least half as many programs is a separate way.

    Raises:
        SourceError: more than two parts of the paths differ; the message says how to name these.
    """
    programs = programs_in(found)
    if not len(programs) > sum(file.suffix.lower() in TREES["tables"] for file in found):
        return []
    depths: dict[int, list[PurePosixPath]] = defaultdict(list)
    for file in programs:
        depths[len(file.parts)].append(file)
    ranked = sorted(depths.values(), key=len, reverse=True)
    layouts = [layout_of(path, ranked[0], programs)]
    done = {file for files in layouts[0].read.values() for file in files}
    layouts += [layout_of(path, some, programs) for some in ranked[1:] if 2 * len({*some} - done) >= len(ranked[0])]
    return [way for one in layouts for way in ways_of(path, one, found, len(programs) if len(layouts) > 1 else 0)]


def programs_in(found: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Return the files that may be attempts, by their endings; without tests, packages, tools and notebooks, unless no other files exist."""
    named = [file for file in found if file.suffix.lower() in LANGUAGES]
    all_of_them = [file for file in named if file.suffix != ".ipynb"] or named
    splits = any(part in ("train", "dev") for file in all_of_them for part in file.parts)
    apart = {*TREES["apart"]} - ({"test"} if splits else set())  # a folder of a split
    kept = [file for file in all_of_them if not TEST.fullmatch(file.stem) and apart.isdisjoint(file.parts[:-1])] or all_of_them
    busy = {file.parent for file in kept if file.suffix not in TOOLS}
    return [file for file in kept if file.suffix not in TOOLS or file.parent not in busy]


def layout_of(path: Path, some: Sequence[PurePosixPath], programs: Sequence[PurePosixPath]) -> Layout:
    """Return the layout of programs of one depth, including similar programs of other depths."""
    last = len(some[0].parts) - 1
    names = [[parts_of(file)[level] for file in some] for level in range(last + 1)]
    varies = [len({*names[level]}) > 1 for level in range(last)]
    stems: dict[str, set[str]] = defaultdict(set)
    for file in some:
        stems[file.suffix].add(file.stem)
    varies.append(
        any(len(one) > 1 for one in stems.values()) or len({*map(str.lower, names[last])}.difference(TREES["solutions"])) > 1
    )
    outcome = next((level for level in range(last + 1) if varies[level] and are_statuses(map(word_of, names[level]))), None)
    free = [level for level in range(last + 1) if varies[level] and level != outcome and not are_languages(some, level)]
    if len(free) > 2 and free[-1] == last and len({file.parent for file in some}) == len(some):
        free.pop()  # the only program of each folder
    if len(free) > 2:
        example = "/".join(["{task}", "{author}", *["*"] * (last - 2), f"*{some[0].suffix}"])
        raise SourceError(
            f"{path}: programs are {last} folders deep, such as {some[0]}; say which part is the task: save this as my.yaml, then upsolve "
            f'ingest {shlex.quote(str(path))} ARCHIVE --map my.yaml\n    files: "{example}"\n'
            '    columns: {task_id: task, prompt: null, code: "{text}", author: author}'
        )
    layout = Layout(free, outcome, some[0])
    layout.known = {place: {*names[place]} for place in layout.places}
    for file in some:
        parts = tuple(
            f"{{{place}}}" if place in layout.known else "*" if is_open else plain(part)
            for place, (part, is_open) in enumerate(zip(parts_of(file), varies, strict=True))
        )
        layout.read.setdefault((parts, file.suffix), []).append(file)
    if layout.places:
        add_others(layout, [file for file in programs if len(file.parts) != last + 1])
    return layout


def add_others(layout: Layout, programs: Iterable[PurePosixPath]) -> None:
    """Add the programs of other depths whose paths have known names, unless another program has the same task and author."""
    taken = Counter(key_of(file, layout.places) for files in layout.read.values() for file in files)
    groups: dict[Parts, dict[tuple[Parts, str], list[PurePosixPath]]] = {}
    for file in programs:
        parts = parts_of(file)
        if len(parts) > DEEPEST or (places := places_in(parts, layout)) is None:
            continue
        taken[key_of(file, places)] += 1
        named = dict(zip(places, layout.places, strict=True))
        marked = tuple(f"{{{named[at]}}}" if at in named else plain(part) for at, part in enumerate(parts))
        general = tuple(part if at in named else "*" for at, part in enumerate(marked))
        groups.setdefault(general, {}).setdefault((marked, file.suffix), []).append(file)
    for general, group in groups.items():
        exact = group
        if len({marked for marked, _ in group}) > SAME:
            exact = {(general, suffix): list[PurePosixPath]() for _, suffix in group}
            for (_, suffix), files in group.items():
                exact[general, suffix] += files
        places = [at for at, part in enumerate(general) if part != "*"]
        for pattern, files in exact.items():
            if all(taken[key_of(file, places)] == 1 for file in files):
                layout.read[pattern] = files


def places_in(parts: Parts, layout: Layout) -> tuple[int, ...] | None:
    """Return the positions of a layout's named parts in another path: with as many known names as possible, on a tie at the same positions."""
    more = len(parts) - len(layout.example.parts)

    def fitness(places: tuple[int, ...]) -> tuple[int, int, int]:
        """Return how many names are known, and how many places are the same from the left and from the right."""
        pairs = [*zip(places, layout.places, strict=True)]
        return (
            sum(parts[at] in layout.known[place] for at, place in pairs),
            sum(at == place for at, place in pairs),
            sum(at - more == place for at, place in pairs),
        )

    ways = sorted(combinations(range(len(parts)), len(layout.places)), key=fitness, reverse=True)[:2]
    if not ways or not fitness(ways[0])[0] or (len(ways) > 1 and fitness(ways[0]) == fitness(ways[1])):
        return None
    outcome = next((at for at, place in zip(ways[0], layout.places, strict=True) if place == layout.outcome), None)
    return ways[0] if outcome is None or parts[outcome] in layout.known[layout.outcome or 0] else None


def key_of(file: PurePosixPath, places: Iterable[int]) -> Parts:
    """Return the names of task, author and outcome in the path of a file."""
    parts = parts_of(file)
    return tuple(parts[place] for place in places)


def parts_of(file: PurePosixPath) -> Parts:
    """Return the folders of a file and its name without ending."""
    return (*file.parts[:-1], file.stem)


def plain(part: str) -> str:
    """Return a name with its special characters escaped for a pattern."""
    return "*" if re.search(r"[*{}]|^!", part) else part


def word_of(name: str) -> str:
    """Return the first word of a name of a file or folder: ``correct`` of ``correct_1_003``."""
    return re.split(r"[\W\d_]*\d|[_.-](?=\d)|$", name)[0].replace("_", " ").replace("-", " ").strip() or name


def are_languages(some: Iterable[PurePosixPath], level: int) -> bool:
    """Return whether the folders of a level are named after the languages of their programs."""
    return all(language_in(parts_of(file)[level]) == LANGUAGES[file.suffix.lower()] for file in some)


def ways_of(path: Path, layout: Layout, found: Sequence[PurePosixPath], programs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the readings of a layout: its parts are tasks and authors, in one order or in both; ``programs``: number of all, if shown."""
    parts, read = parts_of(layout.example), sum(map(len, layout.read.values()))
    for names in orders_of(layout, parts, found):
        shown = ", ".join(f"{parts[level]} is the {name}" for level, name in sorted(names.items()))
        shown = shown or "as in all, the program is at one task"
        share = f" ({read} of {programs} programs)" if programs else ""
        yield f"a tree of programs; in {layout.example}, {shown}{share}", map_of(path, layout, names, found)


def orders_of(layout: Layout, parts: Parts, found: Sequence[PurePosixPath]) -> list[dict[int, str]]:
    """Return the roles (task or author) of a tree's levels: one way if names or files beside programs decide, else both ways."""
    levels = [{*map(str.lower, layout.known[level])} for level in layout.levels]
    if not levels:
        return [{}]
    others = [part.lower() for level, part in enumerate(parts) if level not in layout.places]
    first, second = levels[0], levels[1] if len(levels) > 1 else set[str]()
    told = [is_told(layout, level, found) for level in layout.levels]
    exercises, persons = ([bool(one) and all(map(form.match, one)) for one in (first, second)] for form in (EXERCISE, PERSON))
    is_task = exercises[0] or persons[1] or told[0]
    is_author = persons[0] or exercises[1] or any(told[1:])
    if not second:
        repeats = sum(map(len, layout.read.values())) > len(first)
        is_task |= (layout.outcome is not None and repeats) or any(map(PERSON.match, others))
        is_author |= any(map(EXERCISE.match, others))
    ways = [dict(zip(layout.levels, names, strict=False)) for names in (("task", "author"), ("author", "task"))]
    return ways if is_task == is_author else ways[:1] if is_task else ways[1:]


def is_told(layout: Layout, level: int, found: Iterable[PurePosixPath]) -> bool:
    """Return whether the folders of a level have a statement or tests, as folders of tasks have."""
    names = layout.known[level]
    plan = beside((), [file.parts[level + 1 :] for file in found if len(file.parts) > level + 1 and file.parts[level] in names])
    return "tests" in plan or ("texts" in plan and plan["texts"]["statement"] != "README.md")


def map_of(path: Path, layout: Layout, names: Mapping[int, str], found: Sequence[PurePosixPath]) -> dict[str, Any]:
    """Return the map of a layout whose levels have names."""
    named = {**names, **({layout.outcome: "verdict"} if layout.outcome is not None else {})}
    words = {f"{{{level}}}": f"{{{name}}}" for level, name in named.items()}
    files = {"/".join(words.get(part, part) for part in parts) + suffix: some for (parts, suffix), some in layout.read.items()}
    patterns = [*files, *(f"!{one}" for one in left_out(files, found))]
    columns = {"task_id": "task", "prompt": None, "code": "text", "author": "author", "status": "verdict"}
    columns = {field: name for field, name in columns.items() if name in (None, "text", *named.values())}
    plan: dict[str, Any] = {"files": patterns if len(patterns) > 1 else patterns[0], "constants": {}, "columns": columns}
    endings = {suffix[1:]: LANGUAGES[suffix.lower()] for _, suffix in layout.read}
    if len({*endings.values()}) == 1:
        plan["constants"] = {"language": next(iter(endings.values()))}
    else:
        columns["language"] = "ending"
        plan["languages"] = {ending: name for ending, name in endings.items() if language_in(ending) != name}
    if "task_id" not in columns:
        plan["constants"]["task_id"] = path.name.partition(".")[0]
    parts = [words.get(part, part) for part in next(iter(layout.read))[0]]
    task = next((level for level, name in names.items() if name == "task"), len(parts))
    if task < len(parts) - 1:
        plan |= beside(parts[: task + 1], [file.parts[task + 1 :] for file in found if len(file.parts) > task + 1])
        columns["prompt"] = "statement" if "texts" in plan else None
    return {key: value for key, value in plan.items() if value}


def left_out(files: Mapping[str, Sequence[PurePosixPath]], found: Iterable[PurePosixPath]) -> list[str]:
    """Return patterns of the files that other patterns would match, but that are not attempts."""
    read, patterns = {file for some in files.values() for file in some}, [pattern_of(one) for one in files]
    rest = [file for file in found if file not in read and any(one.fullmatch(str(file)) for one in patterns)]
    excluded = dict[str, re.Pattern[str]]()
    for file in rest:
        if any(one.fullmatch(str(file)) for one in excluded.values()):
            continue
        folder = next((part for part in file.parts[:-1] if part in TREES["apart"]), "")
        start = re.match(r"(?i)test_", file.stem)
        general = f"**/{folder}/**/*" if folder else f"**/{start[0]}*{file.suffix}" if start else f"**/{plain(file.name)}"
        hits = any(pattern_of(general).fullmatch(str(one)) for one in read)
        text = "/".join(map(plain, file.parts)) if hits else general
        excluded[text] = pattern_of(text)
    return [*excluded]


def beside(above: Sequence[str], inside: Sequence[Parts]) -> dict[str, Any]:
    """Return the part of a map about statement and tests in a task's folder, given the paths of the folder's files."""
    plan: dict[str, Any] = {}
    if statement := next((name for name in TREES["statements"] if (name,) in inside), ""):
        plan["texts"] = {"statement": "/".join([*above, statement])}
    places = {("/".join(parts[:-1]), PurePosixPath(parts[-1]).suffix) for parts in inside}
    for folder, suffix in sorted(places):
        if expected := next((end for given, end in TESTS if given == suffix and (folder, end) in places), ""):
            plan["tests"] = {"input": "/".join(filter(None, [*above, folder, f"*{suffix}"])), "expected": f"*{expected}"}
    return plan
