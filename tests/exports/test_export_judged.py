"""Every form of an export, judged by every adapter, has the verdicts of the archive."""

import json

import pytest

from upsolve.adapters import openrlhf, verl
from upsolve.adapters.scoring import Scorer
from upsolve.adapters.trl import reward_function
from upsolve.archive.store import Archive
from upsolve.exports.exporting import export_archive
from upsolve.records import to_row
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify

CALLS = (TestCase(TestKind.CALL, "f(2)", "4", True), TestCase(TestKind.CALL, "f(3)", "6", True))
DOUBLE = Task("my/double", "Double x.", CALLS, "f")
METHOD = Task(
    "my/method", "Double.", tuple(TestCase(TestKind.CALL, f"Solution().f({x})", str(2 * x), True) for x in (2, 3)), "f"
)
NAMELESS = Task("my/nameless", "Double it.", (TestCase(TestKind.CALL, "f(2)", "4", True), CALLS[1]))
SCRIPT = Task("my/script", "Double n.", tuple(TestCase(TestKind.STDIO, f"{x}\n", f"{2 * x}\n", True) for x in (2, 3)))
QUERY = Task(
    "my/query",
    "All of a.",
    (TestCase(TestKind.STDIO, "CREATE TABLE b (a); INSERT INTO b VALUES (1), (2);", "[1]\n[2]", True),),
    language="sql",
    compare="rows",
)
P = "def f(x):\n    return 2 * x"
PROGRAMS = {
    DOUBLE: (
        P,
        "def f(x):\n    return 4",
        "def f(x):\n    return x +",
        "",
        'def f(x):\n    """\n    ```\n    f(2)\n    ```\n    """\n    return 2 * x\n',
        '"""\n```python\nf(2)\n```\n"""\n\n\ndef f(x):\n    return 2 * x',
        "import math\r\ndef f(x):\r\n    return 2 * x\r\n",
        "f = lambda x: 2 * x  # ```",
        "def f(x):\n    return 2 * x\n\nassert f(1) == 2\nprint('<|im_end|>', '</think>')",
        "def f(x):\n\treturn x * 2\n\n\n",
    ),
    METHOD: (
        "class Solution:\n    def f(self, x):\n        return 2 * x",
        "class Solution:\n    def f(self, x):\n        return 4",
    ),
    NAMELESS: (P, "def f(x):\n    return 4"),
    SCRIPT: ("print(2 * int(input()))", "print(4)", "n = int(input())\nif n:\n    print(n + n)\n"),
    QUERY: ("SELECT a FROM b", "SELECT a FROM b WHERE a > 1", "SELECT a\nFROM b;\n", "SELECT a FROM c"),
}
ANSWERS = {
    P: f"<think>\n```python\n{P} + 1\n```\n</think>\n```python\n{P} + 2\n```\nNo:\n```python\n{P}\n```\nTests:\n```python\nassert f(2) == 4\n```",
    "SELECT a FROM b": "A draft:\n```sql\nSELECT a, a, a FROM b\n```\nThen:\n```sql\nSELECT a FROM b\n```\nRows:\n```\n1\n2\n```",
}
FORMS = [
    *(
        pytest.param(name, {"form": form, "completion": content}, marks=[pytest.mark.slow] * is_slow)
        for name in ("groups", "sft", "kto", "pairs")
        for form, content, is_slow in (
            *(("conversational", "code", False), ("plain", "answer", False)),  # each form and each completion once
            *(("conversational", "answer", True), ("plain", "code", True)),
        )
    ),
    pytest.param("sft", {"form": "messages", "completion": "code"}),
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    archive = Archive.create(tmp_path_factory.mktemp("judged") / "a")
    pairs = [
        (task, Attempt(task.task_id, code, task.language, answer=ANSWERS.get(code, "")))
        for task, codes in PROGRAMS.items()
        for code in codes
    ]
    verdicts = verify(pairs, JudgeSettings())
    assert len({verdict.status for verdict in verdicts}) > 2 and Status.UNSCORED not in {verdict.status for verdict in verdicts}
    archive.append(tasks=[*PROGRAMS], attempts=[attempt for _, attempt in pairs], verdicts=verdicts)
    return archive


def rows_of(archive, folder, name, options):
    """Return task, prompt, completion and status of every completion of an export."""
    from datasets import Dataset

    done = export_archive(archive, folder / "out", name, options=options)
    files = [str(file) for file in sorted(done.path.rglob("*.parquet"))]
    found = []
    for row in Dataset.from_parquet(files, cache_dir=str(folder / "cache")):
        prompt = row.get("prompt") or row["messages"][:-1]
        if name == "groups":
            found += [
                (row["task_id"], prompt, one, status) for one, status in zip(row["completions"], row["status"], strict=True)
            ]
        elif name == "pairs":
            found += [(row["task_id"], prompt, row[side], row[f"{side}_status"]) for side in ("chosen", "rejected")]
        else:
            found.append((row["task_id"], prompt, row.get("completion") or row["messages"][-1:], row["status"]))
    assert found
    return found


@pytest.mark.parametrize(("name", "options"), FORMS, ids=[" ".join((one.values[0], *one.values[1].values())) for one in FORMS])
def test_an_export_has_the_verdicts_of_the_archive(archive, tmp_path, name, options):
    tasks = {task.task_id: task for task in PROGRAMS}
    names, prompts, completions, statuses = zip(*rows_of(archive, tmp_path, name, options), strict=True)
    said = {}
    reward_function(archive.path, overrides=["reward.in_process=keep"])(
        prompts, completions, task_id=[*names], log_extra=lambda key, values: said.update({key: values})
    )
    assert [*zip(names, said["upsolve_status"], strict=True)] == [*zip(names, statuses, strict=True)]
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    passed = [status == "passed" for status in statuses]
    for task_id, text, right in zip(names, texts, passed, strict=True):  # verl passes no prompt
        about = {"task": json.dumps(to_row(tasks[task_id]))}
        assert verl.compute_score("", text, None, about)["acc"] == right, (task_id, text)
    shown = [one if isinstance(one, str) else "\n".join(part["content"] for part in one) for one in prompts]
    labels = [json.dumps(to_row(tasks[task_id])) for task_id in names]
    queries = [prompt + text for prompt, text in zip(shown, texts, strict=True)]
    answers = openrlhf.answers_of(queries, shown, labels, Scorer().known)
    assert [one.passed for one in Scorer().score(answers, prompts=shown)] == passed
