"""docs/overview.md names the folder at every step."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_path_that_the_overview_names_exists():
    named = re.findall(r"`((?:src|tests)/[\w/.]+)`", (ROOT / "docs" / "overview.md").read_text())
    assert len(named) > 10 and not [name for name in named if not (ROOT / name).exists()]


def test_the_loop_has_one_short_method_for_each_verb_in_order():
    tree = ast.parse((ROOT / "src/upsolve/train/loop.py").read_text())
    (pipeline,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    lines = {node.name: node.end_lineno - node.lineno + 1 for node in pipeline.body if isinstance(node, ast.FunctionDef)}
    verbs = ["groups", "judge", "reward", "tokenize_and_filter", "advantage", "pack", "step"]
    assert [name for name in lines if name in verbs] == verbs and max(lines[name] for name in verbs) <= 15
