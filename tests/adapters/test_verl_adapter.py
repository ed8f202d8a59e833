"""verl: its loader, its reward manager and its SandboxFusion client, with the judge behind them. Skipped where verl is not installed."""

import asyncio
import json

import pytest
from serving import serving

from upsolve.adapters.verl import compute_score
from upsolve.archive.store import Archive
from upsolve.errors import JudgeError, SourceError
from upsolve.exports.exporting import export_archive
from upsolve.types import Task, TestCase, TestKind

DOUBLE = Task("my/double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6")), "f")
ECHO = Task("my/echo", "Echo.", (TestCase(TestKind.STDIO, "1\n", "1\n"), TestCase(TestKind.STDIO, "2\n", "2\n")))
RIGHT, HALF = "```python\ndef f(x):\n    return 2 * x\n```", "```python\ndef f(x):\n    return 4\n```"
PRESET = {"overrides": ["reward.preset=tests"]}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("verl")
    archive = Archive.create(folder / "a")
    archive.append(tasks=[DOUBLE, ECHO])
    done = export_archive(archive, folder / "out", "verl")
    (file,) = done.path.glob("*.parquet")
    return {row["extra_info"]["task_id"]: row for row in pq.read_table(file).to_pylist()}


def test_a_row_that_we_export_is_scored(rows):
    row = rows["my/double"]
    arguments = {"data_source": row["data_source"], "ground_truth": row["reward_model"]["ground_truth"], **PRESET}
    assert compute_score(solution_str=RIGHT, extra_info=row["extra_info"], **arguments) == {
        "score": 1.0,
        "acc": 1.0,
        "share": 1.0,
    }
    assert compute_score(solution_str=HALF, extra_info=row["extra_info"], **arguments) == {
        "score": 0.5,
        "acc": 0.0,
        "share": 0.5,
    }
    assert compute_score(solution_str=HALF, extra_info={"index": 3}, **arguments)["score"] == 0.5  # by the ground truth alone


@pytest.mark.parametrize(
    ("ground_truth", "solution"),
    [
        ({"inputs": ["1\n", "2\n"], "outputs": ["1\n", "3\n"]}, "```python\nprint(input())\n```"),
        ('{"assert_case": ["assert f(2) == 4", "assert f(3) == 6"]}', HALF),
        (
            {"tests": [{"kind": "call", "input": "f(2)", "expected": "4"}, {"kind": "call", "input": "f(3)", "expected": "6"}]},
            HALF,
        ),
        (["assert f(2) == 4", "assert f(3) == 6"], HALF),
        ({"fn_name": "f", "inputs": [[2], [3]], "outputs": [4, 6]}, HALF),
        ('{"fn_name": "g", "inputs": ["2\\n[3]", "3\\n[4]"], "outputs": ["[2, 3]", "x"]}', "def g(x, y):\n    return (x, *y)"),
    ],
)
def test_forms_of_ground_truth(ground_truth, solution):
    found = compute_score("apps", solution, ground_truth, {"entry_point": "f"}, reward_router_address=None, **PRESET)
    assert found == {"score": 0.5, "acc": 0.0, "share": 0.5}


def test_what_cannot_be_judged_raises():
    with pytest.raises(JudgeError, match="no reward"):
        compute_score("apps", RIGHT, {"tests": []})
    with pytest.raises(SourceError, match="ground_truth: is not JSON: '42 apples'"):
        compute_score("apps", RIGHT, "42 apples")


def test_verl_loads_and_calls_it(rows):
    pytest.importorskip("verl", reason="verl is not installed")
    omegaconf = pytest.importorskip("omegaconf")
    reward = pytest.importorskip("verl.trainer.ppo.reward")
    function = {"path": "pkg://upsolve.adapters.verl", "name": "compute_score", "reward_kwargs": PRESET}
    config = omegaconf.OmegaConf.create({"reward": {"custom_reward_function": function}})
    call = reward.get_custom_reward_fn(config)
    row = rows["my/double"]
    found = call(
        data_source=row["data_source"],
        solution_str=HALF,
        ground_truth=row["reward_model"]["ground_truth"],
        extra_info=row["extra_info"],
    )
    assert found["score"] == 0.5


def test_verls_reward_manager_scores_a_response(rows, tiny_model):
    pytest.importorskip("verl", reason="verl is not installed")
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    naive = pytest.importorskip("verl.experimental.reward_loop.reward_manager.naive")
    from functools import partial

    from transformers import AutoTokenizer
    from verl import DataProto

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    ids = torch.tensor([[*tokenizer.encode(HALF), 0]])
    columns = {
        name: np.array([rows["my/double"][name]], dtype=object) for name in ("data_source", "reward_model", "extra_info")
    }
    data = DataProto.from_dict({"responses": ids, "attention_mask": torch.ones_like(ids)}, non_tensors=columns)

    async def run():
        manager = naive.NaiveRewardManager(None, tokenizer, partial(compute_score, **PRESET))
        return await manager.run_single(data)

    found = asyncio.run(run())
    assert found["reward_score"] == 0.5 and found["reward_extra_info"] == {"score": 0.5, "acc": 0.0, "share": 0.5}


def test_an_unscored_attempt_is_masked_not_zero(rows, tiny_model):
    """The manager, found by verl's own loader, scores it nan; it has advantage 0, and the others are compared without it."""
    pytest.importorskip("verl", reason="verl is not installed")
    omegaconf, torch = pytest.importorskip("omegaconf"), pytest.importorskip("torch")
    import numpy as np
    from transformers import AutoTokenizer
    from verl import DataProto
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.reward import load_reward_manager

    place = {"source": "importlib", "name": "MaskingRewardManager", "module": {"path": "pkg://upsolve.adapters.verl_masked"}}
    function = {"path": "pkg://upsolve.adapters.verl", "name": "compute_score", "reward_kwargs": PRESET}
    config = omegaconf.OmegaConf.create({"reward": {"custom_reward_function": function, "reward_manager": place}})
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    row, answers = rows["my/double"], [RIGHT, HALF, RIGHT, HALF]
    infos = [
        row["extra_info"],
        row["extra_info"],
        {"task": None},
        row["extra_info"],
    ]  # the third names no task, and has no tests
    truths = [row["reward_model"]] * 2 + [{"ground_truth": {"tests": []}}] + [row["reward_model"]]
    encoded = [tokenizer.encode(answer) for answer in answers]
    width = max(map(len, encoded))
    ids = torch.tensor([one + [0] * (width - len(one)) for one in encoded])
    mask = torch.tensor([[1] * len(one) + [0] * (width - len(one)) for one in encoded])
    columns = {"data_source": ["apps"] * 4, "reward_model": truths, "extra_info": infos, "uid": ["a"] * 4}
    columns = {name: np.array(values, dtype=object) for name, values in columns.items()}
    data = DataProto.from_dict({"responses": ids, "attention_mask": mask}, non_tensors=columns)

    async def run():
        manager = load_reward_manager(config, tokenizer)
        return [await manager.run_single(data[number : number + 1]) for number in range(4)]

    found = asyncio.run(run())
    assert [one["reward_extra_info"]["unscored"] for one in found] == [0.0, 0.0, 1.0, 0.0]
    assert [one["reward_score"] for one in found] == pytest.approx([1.0, 0.5, float("nan"), 0.5], nan_ok=True)
    rewards = torch.zeros(mask.shape)
    rewards[range(4), mask.sum(1) - 1] = torch.tensor([one["reward_score"] for one in found])
    for name, expected in (
        ("upsolve_rloo", [0.5, -0.25, 0.0, -0.25]),  # of 1, 1/2, 1/2: 1 - 1/2; 1/2 - 3/4, twice
        ("upsolve_grpo", [1 / 3, -1 / 6, 0.0, -1 / 6]),  # less their mean of 2/3
    ):
        settings = omegaconf.OmegaConf.create({"norm_adv_by_std_in_grpo": False})
        arguments = {"token_level_rewards": rewards, "response_mask": mask, "index": columns["uid"], "config": settings}
        advantages, _ = get_adv_estimator_fn(name)(**arguments)  # as verl's compute_advantage calls it
        assert advantages[:, 0].tolist() == pytest.approx(expected), name


def test_verls_own_client_of_sandbox_fusion_runs_on_the_service(rows, tmp_path):
    """Rows that we export, judged by verl's scorer, which runs programs on our /run_code; the token is in the URL."""
    client = pytest.importorskip("verl.utils.reward_score.sandbox_fusion", reason="verl is not installed")
    from verl.utils.reward_score import default_compute_score

    with serving(tmp_path, UPSOLVE_TOKEN="a-long-word") as port:
        url = f"http://upsolve:a-long-word@127.0.0.1:{port}/run_code"
        truth = {name: row["reward_model"]["ground_truth"] for name, row in rows.items()}
        for name, answer, score in (
            ("my/double", RIGHT, 1.0),
            ("my/double", HALF, 0.5),
            ("my/echo", "```python\nprint(input())\n```", 1.0),
            ("my/echo", "```python\nprint(1)\n```", 0.5),
            ("my/echo", "```python\nprint(\n```", 0.0),
        ):
            assert client.compute_score(url, None, 512, answer, truth[name])[0] == score, (name, answer)
        assert default_compute_score("apps", RIGHT, truth["my/double"], sandbox_fusion_url=url, memory_limit_mb=512) == 1.0
        states, about = client.check_correctness(
            url, {"inputs": ["", ""], "outputs": ["", ""]}, "while True: pass", timeout=1, memory_limit_mb=512
        )
        assert states == [-3, -3] and {one["status"] for one in about} == {"timeout"}
        states, about = client.check_correctness(url, json.loads(truth["my/echo"]), "int main() { return 0; ", language="cobol")
        assert states == [
            -1,
            -1,
        ]  # unknown to verl itself: its client has no word for unscored but -1, which counts as not passed
