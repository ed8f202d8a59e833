"""TRL's GRPOTrainer with the reward function and the environment, really run on a tiny random model."""

import json
from pathlib import Path

import pytest

from upsolve.adapters.trl import environment_factory, reward_function
from upsolve.archive.store import Archive, open_archive
from upsolve.types import Task, TestCase, TestKind

DOUBLE = Task("my/double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6", True)), "f")
RIGHT, ODD = "```python\ndef f(x):\n    return 2 * x\n```", "def f(x):\n    return 4"


def train(tmp_path, model, rows, **arguments):
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        str(tmp_path / "out"),
        per_device_train_batch_size=4,
        num_generations=2,
        max_completion_length=8,
        max_steps=2,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        log_completions=True,
        disable_tqdm=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = arguments.pop("chat_template", tokenizer.chat_template)
    trainer = GRPOTrainer(model, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, **arguments)
    trainer.train()
    return trainer


@pytest.mark.filterwarnings("ignore")
def test_two_steps_of_grpo_with_rewards_of_the_judge(tmp_path, tiny_model):
    """Completions of random bytes fail; a task without tests is unscored: no reward, but counted; each is in TRL's own files."""
    Archive.create(tmp_path / "a").append(tasks=[DOUBLE, Task("my/none", "No tests.")])
    rows = [{"prompt": "Double x.", "task_id": "my/double"}, {"prompt": "No tests.", "task_id": "my/none"}]
    trainer = train(tmp_path, tiny_model, rows, reward_funcs=reward_function(tmp_path / "a"))
    logs = [row for row in trainer.state.log_history if "upsolve/passed" in row]
    assert len(logs) == 2
    assert all(row["upsolve/passed"] == 0 and row["upsolve/unscored"] == 0.5 for row in logs)
    archive = Archive.create(tmp_path / "back")
    from upsolve.importers.ingest import ingest

    ingest(archive, "trl", tmp_path / "out", tasks=str(tmp_path / "a"), reward="upsolve")
    found = archive.query(
        "select t.task_id, v.status, a.extra from attempts a join tasks t using (task_id) join verdicts v using (attempt_id)"
    )
    by_task = {}
    for row in found.to_pylist():
        by_task.setdefault(row["task_id"], set()).add((row["status"], json.loads(row["extra"])["upsolve_status"]))
    assert {status for status, _ in by_task["my/none"]} == {"unscored"} == {status for _, status in by_task["my/none"]}
    assert "passed" not in {status for status, _ in by_task["my/double"]}
    assert "unscored" not in {status for _, status in by_task["my/double"]}


def test_a_batch_is_judged_with_statuses_for_the_trainers_tables():
    extra, metrics = {}, {}
    reward = reward_function(columns={"tests": "test_list"}, overrides=["reward.preset=tests"])
    rewards = reward(
        prompts=[[{"role": "user", "content": "Double x."}]] * 3,
        completions=[[{"role": "assistant", "content": text}] for text in (RIGHT, ODD, "")],
        completion_ids=[[1]] * 3,
        test_list=[["assert f(2) == 4", "assert f(3) == 6"]] * 2 + [[]],
        trainer_state=object(),
        log_extra=extra.__setitem__,
        log_metric=metrics.__setitem__,
        environments=None,
    )
    assert rewards == [1.0, 0.5, None] and reward.__name__ == "upsolve"
    assert extra["upsolve_status"] == ["passed", "failed", "unscored"] and "no tests" in extra["upsolve_reason"][2]
    assert metrics == {f"upsolve/{name}": pytest.approx(1 / 3) for name in ("passed", "failed", "unscored")}


def test_an_environment_is_played_as_the_trainer_plays_it():
    environment = environment_factory([DOUBLE], overrides=["reward.preset=tests"])()
    row = {"prompt": [{"role": "user", "content": "Double x."}], "task_id": "double"}
    assert environment.reset(**row) is None
    assert (
        environment.run_tests("def f(x):\n    return y")
        == "0 of 1 visible tests passed; NameError: test 1: name 'y' is not defined"
    )
    assert environment.run_tests("def f(x):\n    return 4") == "1 of 1 visible tests passed"  # the hidden one failed
    assert environment.get_reward() == 0.5
    environment.reset(**row)
    assert environment.get_reward() == 0.0  # the model never submitted a program
    environment.reset(tests=[], prompt="")
    assert environment.run_tests("1").startswith("could not be judged: ") and environment.get_reward() is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_steps_of_grpo_in_the_environment(tmp_path, tiny_model):
    import trl
    from transformers import AutoTokenizer

    template = Path(trl.__file__).with_name("chat_templates") / "qwen3.jinja"
    rows = [{"prompt": [{"role": "user", "content": "Double x."}], "task_id": "my/double"}]
    AutoTokenizer.from_pretrained(tiny_model)
    trainer = train(
        tmp_path,
        tiny_model,
        rows * 2,
        environment_factory=environment_factory([DOUBLE]),
        chat_template=template.read_text(),
    )
    rewards = [row["rewards/Environment/mean"] for row in trainer.state.log_history if "rewards/Environment/mean" in row]
    assert len(rewards) == 2 and max(rewards) < 0


def test_embedded_tasks_are_found_by_their_ids():
    task = open_archive("embedded").tasks()[0]
    reward = reward_function("embedded")
    assert reward(prompts=["p"], completions=[task.reference], task_id=[task.task_id]) == [1.0]


@pytest.mark.parametrize(
    ("prompt", "completion", "expected"),
    [
        ("Double.\n\n```python\n", "def f(x):\n    return 2 * x\n```", 1.0),
        ("Double.\n\n```python\n", "def f(x):\n    return 2 * x", 1.0),
        ("Double.<|im_start|>assistant\n<think>\n", RIGHT, -0.6),
        ("Double.<|im_start|>assistant\n<think>\n", f"So.\n</think>\n{RIGHT}", 1.0),
    ],
)
def test_a_completion_continues_its_prompt(prompt, completion, expected):
    given = {"prompts": [prompt], "completions": [completion], "tests": [["assert f(2) == 4"]]}
    assert reward_function()(**given) == [expected]


def test_the_end_of_the_chat_template_is_that_of_each_prompt():
    chat = {"prompts": [[{"role": "user", "content": "Double."}]], "completions": [[{"role": "assistant", "content": RIGHT}]]}
    given = {**chat, "tests": [["assert f(2) == 4"]]}
    assert reward_function()(**given) == [1.0] and reward_function(prompt_end="<think>\n")(**given) == [-0.6]
