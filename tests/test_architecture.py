"""The design as drawn: import order, no cycles, small files and functions, explicit exports.

One test a rule, not one a file; each lists every violation as ``module: what``.
"""

import ast
import itertools
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "upsolve"
GROUND = (
    "types",
    "records",
    "checkers",
    "errors",
    "files",
    "extras",
    "config",
    "plugins",
    "yaml_text",
    "languages",
)
"""Imported by every stage; they import each other alone."""
PIPELINE = (
    "archive",
    "verify",
    "reward",
    "advantage",
    "objective",
    "policy",
    "train",
    "solve",
    "evaluate",
    "report",
    "experiment",
)
"""Stages from the attempts to the report of a run, in order."""
BESIDE = ("worlds", "importers", "suites", "derive", "clean", "exports", "plan", "view", "adapters")
"""Packages beside the pipeline: it works without them (tests/test_pipeline_alone.py)."""
ORDER = (*PIPELINE, *BESIDE, "cli", "__main__")
NAME = re.compile(r"upsolve(\.\w+)+(:\w+)?")
LINES, FUNCTION_LINES, MEDIAN_LINES, PARAMETERS = 500, 50, 12, 8
NAMED_ABOVE, BY_POSITION = 4, 3


@dataclass(frozen=True)
class Module:
    """A source file, parsed once for all rules."""

    name: str
    text: str
    tree: ast.Module
    is_package: bool

    @property
    def stage(self):
        return stage(self.name)

    @cached_property
    def nodes(self):
        """All nodes of the tree: walking it takes longer than parsing it, and most rules do."""
        return [*ast.walk(self.tree)]

    def imports(self, *, top=False):
        """Names of the modules it imports; ``top``: those that are imported when it is."""
        for node in self.tree.body if top else self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)

    def names(self):
        """Names of upsolve's modules in its strings, by which it could import them."""
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                yield node.value.partition(":")[0]

    @cached_property
    def functions(self):
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def stage(module):
    """The second word of a module's name; the package itself is the public API, which stands after all stages."""
    return module.split(".")[1] if "." in module else "__init__"


def read(file):
    words = ["upsolve", *file.relative_to(SOURCE).with_suffix("").parts]
    text = file.read_text()
    package = words[-1] == "__init__"
    return Module(".".join(words[:-1] if package else words), text, ast.parse(text), package)


@cache
def modules():
    """All modules; parsing them takes seconds, which collecting the tests need not take in every process."""
    return [read(file) for file in sorted(SOURCE.rglob("*.py")) if file.parts[-3] != "attacks"]


def violations(rule):
    """``module: what`` for everything that a rule yields, over all modules."""
    return [f"{module.name}: {what}" for module in modules() for what in rule(module)]


def test_a_stage_imports_only_from_its_left():
    def rule(module):
        for other in module.imports():
            if other.partition(".")[0] != "upsolve" or module.stage == "__init__" or stage(other) in (*GROUND, "__init__"):
                continue
            if module.stage in GROUND or ORDER.index(stage(other)) > ORDER.index(module.stage):
                yield f"imports {other}"

    assert not violations(rule)


def test_no_stage_imports_by_a_string():
    """Only names that a user gave are imported so: ``plugins`` looks them up in the tables of records, the package its public names."""

    def rule(module):
        if module.name not in ("upsolve.plugins", "upsolve"):
            known = {one.name for one in modules()}
            yield from (f"names {other}" for other in module.names() if other in known and stage(other) != module.stage)

    assert not violations(rule)


def test_files_and_functions_are_small():
    def rule(module):
        if (lines := len(module.text.splitlines())) > LINES:
            yield f"{lines} lines"
        for node in module.functions:
            if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
                yield f"{node.name}: {lines} lines"

    assert not violations(rule)
    lengths = [node.end_lineno - node.lineno + 1 for module in modules() for node in module.functions]
    assert statistics.median(lengths) <= MEDIAN_LINES


def test_an_adapter_is_thin():
    """It turns a tool's arguments into tasks and attempts, and verdicts back, with what adapters share in ``scoring``."""
    adapters = [module for module in modules() if module.stage == "adapters" and module.name != "upsolve.adapters.scoring"]
    lengths = {module.name: len(module.text.splitlines()) for module in adapters}
    assert lengths and not {name: lines for name, lines in lengths.items() if lines >= 150}


def is_command(function):
    """Return whether a function is a command of the CLI (``@app.command``)."""
    inner = (part for decorator in function.decorator_list for part in ast.walk(decorator))
    return any(isinstance(part, ast.Attribute) and part.attr == "command" for part in inner)


def test_functions_take_at_most_eight_parameters_and_hide_none_in_tuples():
    """Commands of the CLI are exempt: their parameters are the command's options."""

    def rule(module):
        for node in module.functions:
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            plain = [one for one in given if one.arg not in ("self", "cls")]
            if len(plain) > PARAMETERS and not is_command(node):
                yield f"{node.name}: {len(plain)} parameters"
            yield from (f"{node.name}: {one.arg} packs parameters into a tuple" for one in plain if packed(one.annotation))

    assert not violations(rule)


def test_public_functions_of_many_parameters_take_three_by_position():
    """Above four parameters a call is unreadable without names. Three by position are often one unit: model, codec, tasks.

    Commands of the CLI are exempt: their parameters are the command's options.
    """

    def rule(module):
        for name, node in public_functions(module):
            given = [one for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")]
            many = len(given) + len(node.args.kwonlyargs) > NAMED_ABOVE and len(given) > BY_POSITION
            if many and module.stage != "cli" and name not in POSITIONAL:
                yield f"{name}: {len(given)} parameters by position"

    assert not violations(rule)


POSITIONAL = {"train", "tree_attention"}
"""Fixed by users (``upsolve.train_policy``) and by transformers (attention functions)."""


def public_functions(module):
    """Names and nodes of the functions in ``__all__``, and of the methods of the classes in it."""
    names = [name for value in (v for n, v in assigned(module.tree) if n == "__all__") for name in ast.literal_eval(value)]
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and node.name in names:
            yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, ast.FunctionDef))


def test_only_the_run_itself_takes_the_whole_recipe():
    """A function that takes the configuration of its stage can be called, and tested, without the others."""
    found = {
        f"{module.name.removeprefix('upsolve.')}.{node.name}"
        for module in modules()
        for node in module.functions
        if module.stage not in ("config", "cli")
        and any(is_name(one.annotation, "Recipe") for one in (*node.args.args, *node.args.kwonlyargs))
    }
    assert found == WHOLE_RECIPE


WHOLE_RECIPE = {
    *(
        "experiment.run_recipe",
        "experiment.run_folds",
        "experiment.trained_model",
        *(f"evaluate.own.{name}" for name in ("run_rounds", "continued", "__init__", "add")),
        "train.loop.train",
        "train.loop.train_claimed",
        "train.loop.open_pipeline",
        "train.loop.open_online",
        "train.run.steps.start_run",
    ),
    "exports.exporting.__init__",
    "report.run.run_content",
    *("train.check.check_run", "train.check.checked_rewarder", "train.run.memory.memory_of"),
    *("plan.planning.plan_archive", "plan.planning.ask_model", "plan.probed.cost_of"),
    *("train.run.folder.claim", "train.run.folder.claim_run", "train.run.folder.changed_keys", "train.run.folder.check_out"),
}
"""Run, checks across stages, the folder that holds the recipe, the memory, the plan and the report of a run; to become fewer, not more."""


def is_name(node, name):
    """Return whether an expression is just a name."""
    return isinstance(node, ast.Name) and node.id == name


def packed(annotation):
    """True for ``tuple[A, B]`` of different types; a pair of one type, such as a range, is a value."""
    if not (isinstance(annotation, ast.Subscript) and is_name(annotation.value, "tuple")):
        return False
    parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
    return len({ast.unparse(part) for part in parts if ast.unparse(part) != "..."}) > 1


def test_exports_are_sorted_and_exist():
    def rule(module):
        if not [node for node in module.tree.body if not isinstance(node, ast.Expr)]:
            return
        found = [value for name, value in assigned(module.tree) if name == "__all__"]
        if len(found) != 1:
            yield "needs one __all__"
            return
        names = ast.literal_eval(found[0])
        if names != sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)):
            yield f"__all__ is not sorted (UPPER, Classes, functions): {names}"
        defined = {node.name for node in module.nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        defined |= {name for name, _ in assigned(module.tree)}
        if module.is_package:  # a package may export what its modules define
            nodes = [node for node in module.nodes if isinstance(node, ast.ImportFrom)]
            defined |= {alias.asname or alias.name for node in nodes for alias in node.names}
        yield from (f"__all__ names {name}, which it does not define" for name in sorted(set(names) - defined))

    assert not violations(rule)


def assigned(tree):
    """Name and value of the assignments of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value


def test_torch_stays_out_of_the_early_stages():
    early = (*GROUND, "archive", "verify", "reward", "advantage", "cli", "__init__")

    def rule(module):
        if module.stage in early:
            yield from (
                f"imports {other}" for other in module.imports(top=True) if other.partition(".")[0] in ("torch", "transformers")
            )

    assert not violations(rule)


def test_there_are_no_import_cycles():
    graph = {m.name: {other for other in m.imports() if other.startswith("upsolve.")} for m in modules() if m.name != "upsolve"}
    done, path = set(), []

    def visit(module):
        assert module not in path, f"cycle: {[*path, module]}"
        if module in done or module not in graph:
            return
        path.append(module)
        for other in sorted(graph[module]):
            visit(other)
        path.pop()
        done.add(module)

    for module in graph:
        visit(module)


def loaded_by(code):
    """Top-level modules in a fresh interpreter after some code."""
    script = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


HEAVY = {"torch", "transformers", "pyarrow", "duckdb", "numpy", "matplotlib", "pydantic", "ruff", "jinja2"}


def test_importing_the_command_line_loads_nothing_heavy():
    """``upsolve --help`` takes less than 0.3 s on a quiet machine because of this; a count does not depend on the machine."""
    loaded = loaded_by("import upsolve.cli.main")
    assert not loaded & HEAVY
    assert len(loaded) < 200, sorted(loaded)


def test_every_file_of_tests_has_a_name_of_its_own():
    """Pytest imports the files of tests by their names."""
    files = sorted(Path(__file__).parent.rglob("test_*.py"), key=lambda file: file.name)
    assert [f"{one} and {two}" for one, two in itertools.pairwise(files) if one.name == two.name] == []


def test_transformers_is_imported_by_its_modules():
    """``from transformers import ...`` makes pyright read all its models: 20 s."""
    assert not violations(
        lambda module: (f"imports {other} as a whole" for other in module.imports() if other == "transformers")
    )
