"""A plan: what it counts, what it says, and what it costs, on archives made so that the answers are known."""

import json
import math
import re
import signal
import sys
from collections import Counter
from dataclasses import replace

import pytest

from upsolve.archive.split import Split
from upsolve.archive.store import Archive
from upsolve.cli.main import main
from upsolve.cli.recipes import cost_rows, what_next
from upsolve.config import DataConfig, EvalConfig, ModelConfig, OptimConfig, Recipe, RewardConfig, SampleConfig, load_recipe
from upsolve.config.rules import few_dev_tasks, few_steps, few_tasks
from upsolve.evaluate.intervals import Estimate
from upsolve.plan.findings import (
    FEW_GROUPS,
    BasePass,
    Cost,
    Groups,
    Leaks,
    Likelihood,
    Noise,
    Plan,
    Tests,
    checks_of,
    deciding,
    share,
)
from upsolve.plan.planning import imitates, leaks_of, outcomes_of, plan_archive, quiet_split
from upsolve.plan.planning import tests_of as count_tests
from upsolve.plan.probed import Samples, Scores, base_of, cost_of, spread_tasks
from upsolve.policy.decoding.sample import LocalModel
from upsolve.types import Attempt, Group, Status, Task, TestCase, TestKind, Verdict

NOTHING = LocalModel(None, None)
RIGHT, WRONG = "def f(x):\n    return 2 * x", "def f(x):\n    return x"


def advice_of(plan):
    return deciding(plan)[1]


def task(name, *, tests=1, difficulty="", extra=""):
    cases = tuple(TestCase(TestKind.CALL, f"f({n})", str(2 * n)) for n in range(1, 1 + tests))
    return Task(name, f"Write f for {name}: {' '.join(name * 9)}.", cases, "f", difficulty=difficulty, extra=extra)


def judged(one, status, judge="recorded:x", isolation=""):
    return Verdict(one.attempt_id, status, judge=judge, isolation=isolation)


def group(statuses, *, author="a"):
    """A group of attempts with these verdicts; None: not judged."""
    one = task("t")
    attempts = tuple(Attempt("t", f"{RIGHT}  # {n}", author=author) for n in range(len(statuses)))
    return Group(one, attempts, tuple(judged(a, s) if s else None for a, s in zip(attempts, statuses, strict=True)))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Twenty tasks, each with a right and a wrong attempt; the record calls the wrong one of every fifth task a pass."""
    made = Archive.create(tmp_path_factory.mktemp("plan") / "archive")
    attempts, verdicts = [], []
    tasks = [task(f"t{n}", tests=1 + n % 3, difficulty="hard" if n % 2 else "easy") for n in range(20)]
    for number, one in enumerate(tasks):
        right, wrong = (Attempt(one.task_id, code, author="someone") for code in (RIGHT, WRONG))
        said = Status.PASSED if number % 5 == 0 else Status.FAILED
        attempts += [right, wrong]
        verdicts += [judged(right, Status.PASSED), judged(wrong, said)]
    made.append(tasks=tasks, attempts=attempts, verdicts=verdicts)
    return made


def recipe_of(archive, **stages):
    given = {"data": DataConfig(archive=str(archive.path), group_size=2, split="ranked"), **stages}
    return Recipe(**given)


def test_pairs_need_two_attempts_whatever_the_size_of_groups(archive):
    def mixed(kind):
        four = recipe_of(archive, objective={"kind": kind}, data=DataConfig(archive=str(archive.path), split="ranked"))
        return plan_archive(four, with_model=False, judged=0).groups

    groups, pairs = mixed("reinforce"), mixed("dpo")
    assert (groups.mixed, pairs.mixed) == (0, groups.others["fewer than 4 attempts"]) and pairs.mixed > 5


def test_tasks_without_tests_have_none_that_fail_an_attempt():
    """Their attempts have recorded outcomes, which say nothing about tests."""
    tested = group((Status.FAILED,))
    untested = replace(tested, task=replace(tested.task, tests=()))
    found = count_tests(Split({"train": [tested.task, untested.task]}, {"train": (tested, untested)}))
    assert (found.discerning.count, found.discerning.of) == (1, 1)


def test_a_share_has_an_interval():
    """8 of 10 and 1.5 of 3, t(12) = 2.17881: m' = 9.5 / 13, S' = 9.5 - 13 m'^2 = 2.557692, m' - t sqrt(S' / 13 / 12)."""
    found = share(8, 10)
    assert (found.count, found.of, found.value, found.high) == (8, 10, 0.8, 1.0)
    assert found.low == pytest.approx(0.45179, abs=1e-4)
    assert (share(0, 0).low, share(0, 0).high) == (0.0, 1.0) and math.isnan(share(0, 0).value)
    with pytest.raises(ValueError, match="0 <= count <= of"):
        share(3, 2)


def test_every_task_without_a_group_has_its_reason():
    p, f, u = Status.PASSED, Status.FAILED, Status.UNSCORED
    data, config = DataConfig(authors=("a",), group_size=4), RewardConfig()
    left_out = Counter()
    reasons = {
        (p, p, f, f): "",
        (p, f): "fewer than 4 attempts",
        (p, p): "all passed",
        (f, f): "all failed",
        (f,): "one attempt",
        (f, u): "one attempt",
        (u, None): "no scored attempt",
    }
    assert {s: outcomes_of(group(s), data, config, left_out=left_out)[0] for s in reasons} == reasons
    twice = group((p, f))
    twice = replace(twice, attempts=tuple(replace(attempt, count=2) for attempt in twice.attempts))
    assert outcomes_of(twice, data, config, left_out=left_out) == ("", 1)
    assert outcomes_of(group(()), data, config, left_out=left_out) == ("no attempt", 0)
    assert (
        outcomes_of(group((p, f), author="b"), data, config, left_out=left_out)[0]
        == "no attempt by data.authors in the language of the task"
    )
    assert left_out == {"no reward for unscored": 1}
    mine = group((p, f))
    beside = replace(mine, verdicts=tuple(replace(v, isolation="in_process") for v in mine.verdicts))
    assert outcomes_of(beside, data, config, left_out=left_out) == ("filtered by reward", 0)


def test_attempts_without_a_test_are_not_sent_to_the_judge():
    untested = group((Status.UNSCORED, None))
    untested = replace(untested, task=replace(untested.task, tests=()))
    assert outcomes_of(untested, DataConfig(authors=("a",)), RewardConfig(), left_out=Counter()) == ("no tests", 0)


@pytest.mark.parametrize(
    ("name", "wanted"), [("sft", True), ("dft", True), ("rft", True), ("ssd", True), ("kto", False), ("rloo", False)]
)
def test_recipes_that_train_on_passed_attempts_alone_imitate(name, wanted):
    recipe = load_recipe(name)
    assert imitates(recipe.advantage, recipe.objective) is wanted


def test_plan_of_an_archive_without_a_model(archive):
    twin = Task("bench/1", quiet_split(archive, recipe_of(archive).data).tasks["train"][0].prompt, (), "f")
    benchmarks = {"bench": [twin, task("other")]}
    found = plan_archive(recipe_of(archive), with_model=False, judged=40, benchmarks=benchmarks)
    assert len(found.warnings) == 2 and "4 tasks to measure on" in found.warnings[0] and "data.dev" in found.warnings[1]
    assert (found.groups.tasks, found.groups.attempts, found.groups.training_tasks) == (20, 40, 12)
    assert found.groups.mixed + found.groups.others["all passed"] == 12
    assert (found.tests.fewest, found.tests.median, found.tests.most) == (1, 2, 3)
    assert (found.tests.discerning.count, found.tests.discerning.of) == (16, 20)
    # the record is wrong about the wrong attempts of four tasks
    assert (found.noise.agreement.count, found.noise.agreement.of) == (36, 40)
    assert (found.noise.false_passes, found.noise.false_failures, found.noise.unscored) == (4, 0, 0)
    assert found.leaks.sizes == {"test split": 4, "bench": 2}
    assert found.leaks.counts == {"test split": 0, "bench": 1} and "same" in found.leaks.examples[0]
    assert found.model == "" and found.base == () and found.cost is None


def test_a_sample_of_verdicts_depends_on_the_seed_alone(archive):
    some = [plan_archive(recipe_of(archive, seed=seed), with_model=False, judged=6).noise for seed in (0, 0, 1)]
    assert some[0] == some[1] and {one.agreement.of for one in some} == {6}


@pytest.mark.filterwarnings("ignore:batched decoding")
def test_plan_measures_likelihood_pass_rate_and_speed_of_a_model(archive, tiny_model):
    sample = SampleConfig(max_tokens=8, samples=3)
    recipe = recipe_of(archive, model=ModelConfig(name=tiny_model, bf16=False), sample=sample)
    seen = []
    found = plan_archive(recipe, tasks=3, judged=4, progress=lambda stage, done, total: seen.append((stage, done, total)))
    assert seen[-1] == ("sample", 15, 15)
    # random weights: every byte about equally likely, log(1 / 258) = -5.55
    assert found.likelihood.passed.mean == pytest.approx(-5.55, abs=0.3)
    assert found.likelihood.own.mean == pytest.approx(-5.55, abs=0.3)
    assert found.likelihood.by_model.count == 0 and found.likelihood.by_model.of == 40
    assert [row.difficulty for row in found.base] == ["easy", "hard", "all"]
    assert [(row.tasks, row.greedy.count, row.greedy.of, row.sampled.of) for row in found.base][-1] == (3, 0, 3, 12)
    cost = found.cost
    assert cost.peak_bytes > 0 and 0 < cost.training_seconds == pytest.approx(
        3 * cost.training_tokens / cost.score_tokens_per_second
    )
    assert cost.rollout_seconds == 0 and cost.evaluation_seconds > 0


def test_a_plan_says_that_recorded_splits_are_not_used():
    tasks = [task(f"t{number}", extra=json.dumps({"split": name})) for number, name in enumerate(["train", "dev", "test"])]
    parts = dict(zip(("train", "dev", "test"), ([one] for one in tasks), strict=True))
    assert not leaks_of(Split(parts, {}), {}).ignored_split
    without_dev = {"train": tasks[:1], "dev": [task("t3", extra=tasks[0].extra)], "test": tasks[2:]}
    assert not leaks_of(Split(without_dev, {}), {}).ignored_split, "a part of the training tasks is dev then"
    moved = {"train": tasks[:2], "dev": [], "test": tasks[2:]}
    assert leaks_of(Split(moved, {}), {}).ignored_split
    assert not leaks_of(Split({**moved, "dev": [task("without")]}, {}), {}).ignored_split


def test_tasks_are_taken_in_turn_from_each_difficulty():
    tasks = [task(f"e{n}", difficulty="easy") for n in range(9)] + [task("h", difficulty="hard"), Task("none", "no tests")]
    chosen = spread_tasks(tasks, 4)
    assert [one.difficulty for one in chosen] == ["easy", "hard", "easy", "easy"] and len({*chosen}) == 4
    assert "none" not in [one.task_id for one in spread_tasks(tasks, 99)]


def test_unscored_samples_are_no_failures():
    one = task("t")
    verdicts = [Verdict("x", status) for status in (Status.PASSED, Status.UNSCORED, Status.TIMEOUT)]
    rows = base_of(Samples(((one, verdicts[0]),), tuple((one, v) for v in verdicts), (), math.nan, math.nan))
    assert [(r.difficulty, r.tasks, r.greedy.of, r.sampled.count, r.sampled.of) for r in rows] == [("all", 1, 1, 1, 2)]


GOOD = Plan(
    archive="here",
    model="m",
    online=False,
    imitates=False,
    needs="contrast",
    groups=Groups(100, 400, 65, 60, {"all failed": 5}, {}),
    tests=Tests(3, 5, 9, share(90, 100), share(1, 20)),
    noise=Noise(share(40, 40), 0, 0, 0),
    leaks=Leaks({"test split": 0}, {"test split": 25}, ()),
    likelihood=Likelihood(
        Estimate(-0.6, -0.7, -0.5, 12), Estimate(-0.7, -0.8, -0.6, 12), Estimate(-0.5, -0.6, -0.4, 24), share(0, 9)
    ),
    base=(BasePass("all", 12, share(3, 12), share(5, 24)),),
    cost=Cost(2**30, 2**33, 1000.0, 300.0, 100_000, 300.0, 0.0, 300.0),
    advice="",
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "Train: 60 groups with a passed and a failed attempt, about 10 minutes"),
        ({"noise": Noise(share(30, 40), 10, 0, 0)}, "Judge the archive again before training .`upsolve verify here --all`"),
        ({"noise": Noise(share(38, 40), 2, 0, 0)}, "Train:"),  # within chance of 95 %
        ({"groups": Groups(100, 400, 65, FEW_GROUPS - 1, {"all failed": 36}, {})}, "Do not train on it yet: 29 of 65 .*all failed.* 30 are needed.*stronger author"),
        ({"groups": Groups(100, 0, 65, 0, {"no attempt": 65}, {})}, "upsolve sample"),
        ({"leaks": Leaks({"test split": 0, "bench": 9}, {"test split": 25, "bench": 164}, ())}, "9 of 164 tasks of bench"),
        ({"cost": replace(GOOD.cost, peak_bytes=2**34)}, "does not fit: 16.0 GiB are needed and 8.0 are free"),
        ({"base": (BasePass("all", 12, share(11, 12), share(20, 24)),)}, "Add harder tasks"),
        ({"base": (BasePass("all", 12, share(6, 12), share(4, 24)),)}, "may become sharper, not more capable"),
        ({"likelihood": replace(GOOD.likelihood, passed=Estimate(-1.5, -2, -1, 12))}, "Imitate first"),
        ({"likelihood": replace(GOOD.likelihood, passed=Estimate(-1.5, -2, -1, 12)), "imitates": True}, "Train:"),
        ({"base": (BasePass("all", 12, share(0, 12), share(0, 48)),)}, "Imitate first .*passes none of 12 tasks, greedily or in 48 samples"),
        ({"base": (BasePass("all", 12, share(0, 12), share(0, 48)),), "imitates": True}, "Train:"),
        ({"base": (BasePass("all", 12, share(0, 12), share(1, 48)),)}, "Train:"),
        ({"likelihood": None, "base": (), "cost": None, "model": ""}, "The archive passes all checks: 60 groups"),
        ({"groups": Groups(100, 400, 65, 0, {"all passed": 65}, {}, 65), "imitates": True, "needs": "pass"}, "Train: 65 groups with a passed attempt,"),
        ({"groups": Groups(100, 400, 65, 0, {"all passed": 60, "all failed": 5}, {}, 29), "imitates": True, "needs": "pass"}, "29 of 65 training tasks have a passed attempt .most often: all failed"),
        ({"groups": Groups(900, 1400, 900, 0, {"all failed": 860, "all passed": 40}, {}, 40), "imitates": True, "needs": "pass", "base": (BasePass("all", 12, share(0, 12), share(0, 48)),)}, "Imitate the failed attempts first .*860 training tasks have failed attempts alone, 40 a passed one"),
        ({"groups": Groups(900, 1400, 900, 0, {"all failed": 860, "all passed": 40}, {}, 40), "imitates": True, "needs": "pass"}, "Train:"),
        ({"groups": Groups(100, 400, 65, 0, {"all failed": 65}, {}, 0), "needs": "attempt"}, "Train: 65 groups with a scored attempt,"),
        ({"groups": Groups(100, 400, 65, 0, {"no tests": 65}, {})}, "attempts cannot be judged without tests"),
        ({"tests": Tests(0, 0, 0, share(90, 100), share(0, 0))}, "Train: 60 groups.* None of its tasks has tests, so measure on others"),
    ],
)  # fmt: skip
def test_advice_is_the_first_rule_that_applies(change, said):
    found = advice_of(replace(GOOD, **change))
    assert re.search(said, found) and found.endswith("."), found
    plan = replace(GOOD, **change)
    missed = [check.rule for check in checks_of(plan) if not check.holds]
    assert [*missed, "worth_it"][0] == deciding(plan)[0], "the first threshold that is missed decides"


def few(reason):
    return {"groups": Groups(100, 400, 65, 0, {reason: 65} if reason else {}, {})}


IMITATED = {
    "groups": Groups(900, 1400, 900, 0, {"all failed": 860, "all passed": 40}, {}, 40),
    "imitates": True,
    "needs": "pass",
}
NONE_PASS = {"base": (BasePass("all", 12, share(0, 12), share(0, 48)),)}


@pytest.mark.parametrize(
    ("change", "command"),
    [
        ({}, "run sft --archive here --model m --out runs/sft"),
        ({"tests": Tests(0, 0, 0, share(90, 100), share(0, 0))}, "train sft --archive here --model m --out runs/sft"),
        ({"likelihood": None, "base": (), "cost": None, "model": ""}, "plan here --recipe sft --model m"),
        ({"noise": Noise(share(30, 40), 10, 0, 0)}, "verify here --all"),
        (few("no attempt"), "sample --archive here --model m"),
        (few("one attempt"), "sample --archive here --model m"),
        (few("fewer than 4 attempts"), "sample --archive here --model m"),
        (few("no scored attempt"), "verify here"),
        (few("all passed"), "tests grow here here-grown"),
        (few("all failed"), "train unsolved --archive here --model m --out runs/unsolved"),
        (few("no tests"), "ingest PATH here"),
        (few(""), "ingest PATH here"),
        ({**few("no attempt"), "archive": "embedded"}, "archive info embedded"),
        ({"leaks": Leaks({"bench": 9}, {"bench": 164}, ())}, "archive doctor here --fix here-clean"),
        ({"cost": replace(GOOD.cost, peak_bytes=2**34)}, "memory sft --archive here --model m"),
        ({"base": (BasePass("all", 12, share(11, 12), share(20, 24)),)}, "ingest PATH here"),
        ({"base": (BasePass("all", 12, share(6, 12), share(4, 24)),)}, "run ssd --archive here --model m --out runs/ssd"),
        (NONE_PASS, "plan here --recipe sft --model m"),
        ({"likelihood": replace(GOOD.likelihood, passed=Estimate(-1.5, -2, -1, 12))}, "plan here --recipe sft --model m"),
        ({**IMITATED, **NONE_PASS}, "train unsolved --archive here --model m --out runs/unsolved"),
    ],
)  # fmt: skip
def test_every_advice_has_a_next_command_on_the_same_archive(change, command):
    plan = replace(GOOD, **change)
    loaded = load_recipe("sft", [f"data.archive={plan.archive}", "model.name=m"])
    line = what_next(replace(plan, rule=deciding(plan)[0]), "sft", loaded)
    assert line.startswith(f"next: upsolve {command}    # "), line


def test_the_next_command_repeats_settings_and_leaves_out_what_the_recipe_says(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text("base: sft\nmodel: {name: m}\ndata: {archive: here}\n")
    loaded = load_recipe(str(file), ["optim.lr=1e-5"])
    good = replace(GOOD, rule="worth_it")
    assert f"run {file} --set optim.lr=1e-5 --out runs/r " in what_next(good, str(file), loaded, ["optim.lr=1e-5"])
    assert "upsolve init here --model m " in what_next(good, None, loaded)


def test_checks_name_the_value_and_the_threshold_of_each_rule():
    rows = {check.rule: (check.measured, check.threshold) for check in checks_of(GOOD)}
    assert rows == {
        "noisy": ("40 of 40, at most 100%", "95% is possible"),
        "scarce": ("60 of 65", "at least 30"),
        "leaking": ("0 of 25: 0%", "at most 2%"),
        "too_large": ("1.0 GiB", "at most 8.0 GiB"),
        "solved": ("3 of 12: 25%", "below 90%"),
        "unable": ("3 of 12, 5 of 24", "at least 1"),
        "sharper": ("4 points", "below 10 points, or attempts more than 0.5 nats per token below own samples"),
        "unlike": ("0.10 nats per token", "at most 0.5"),
    }
    (failed,) = [check for check in checks_of(replace(GOOD, imitates=True)) if check.rule == "failed_alone"]
    assert failed.measured == "5 beside 60 with a passed one" and failed.threshold.startswith("below 8 for each")
    assert [check.rule for check in checks_of(replace(GOOD, base=(), cost=None, likelihood=None))] == [
        "noisy",
        "scarce",
        "leaking",
    ]


def test_rules_come_in_the_order_of_what_must_be_mended_first():
    noisy = replace(GOOD, noise=Noise(share(20, 40), 20, 0, 0), groups=Groups(100, 400, 65, 0, {}, {}))
    assert advice_of(noisy).startswith("Judge the archive again")
    alone = replace(noisy, noise=GOOD.noise)
    assert advice_of(alone).startswith("Do not train on it yet")
    assert advice_of(replace(alone, online=True)).startswith("Train"), "online training makes its own attempts"


def test_speeds_that_were_not_measured_are_left_out():
    """Without a training group nothing is scored, and without a task nothing is sampled."""
    unscored = replace(GOOD.cost, score_tokens_per_second=math.nan)
    unknown = replace(unscored, sample_tokens_per_second=math.nan)
    told = [dict(row[::2] for row in cost_rows(replace(GOOD, cost=cost)))["training"] for cost in (unscored, unknown)]
    assert told == ["100,000 tokens in 0 steps; 300 tokens/s sampled", "100,000 tokens in 0 steps"]


def test_the_cost_of_a_run_is_counted_in_tokens(monkeypatch):
    """Offline: 2 epochs x 10 groups x (P + 4 R); online: 3 rounds x 5 groups x (P + 8 x 20), sampled at 50 tokens a second."""
    from upsolve.plan import probed

    monkeypatch.setattr(probed, "mean_lengths", lambda _codec, _split: (100.0, 50.0))
    monkeypatch.setattr(probed, "memory_of", lambda _recipe, _groups: type("P", (), {"peak_bytes": 1}))
    split = type("S", (), {"tasks": {"test": [0] * 7, "dev": [0] * 3}, "groups": {"train": []}})
    samples, scores = Samples((), (), (), 20.0, 50.0), Scores((), (), 600.0)
    offline = Recipe(optim={"epochs": 2}, sample={"samples": 5}, data={"group_size": 4})
    cost = cost_of(NOTHING, split, offline, usable=10, scores=scores, samples=samples)
    assert (cost.training_tokens, cost.training_seconds, cost.rollout_seconds) == (6000, 30.0, 0.0)
    # four temperatures, one of them greedy: 7 tasks x (1 + 3 x 5) and 3 dev tasks x (1 + 3 x 4), twice
    assert cost.evaluation_seconds == pytest.approx(2 * (7 * 16 + 3 * 13) * 20 / 50)
    once = offline.model_copy(update={"evaluate": offline.evaluate.model_copy(update={"temperatures": (1.0,), "tasks": 2})})
    cost = cost_of(NOTHING, split, once, usable=10, scores=scores, samples=samples)
    assert cost.evaluation_seconds == pytest.approx(2 * 2 * 5 * 20 / 50), "one temperature: nothing is chosen on dev tasks"
    limited = offline.model_copy(update={"optim": offline.optim.model_copy(update={"max_steps": 1, "tokens_per_step": 640})})
    assert cost_of(NOTHING, split, limited, usable=10, scores=scores, samples=samples).training_tokens == 640
    by_attempts = Recipe(optim={"attempts_per_step": 9, "max_steps": 2})  # two whole groups of four in a step
    assert cost_of(NOTHING, split, by_attempts, usable=10, scores=scores, samples=samples).training_tokens == 2 * 2 * 300
    online = Recipe(source={"rounds": 3, "groups": 5, "oversample": 2.0}, data={"group_size": 8})
    cost = cost_of(NOTHING, split, online, usable=0, scores=scores, samples=samples)
    assert cost.training_tokens == 3 * 5 * (100 + 8 * 20)
    assert cost.rollout_seconds == pytest.approx(3 * 5 * 8 * 2.0 * 20 / 50)
    pairs = {"objective": {"kind": "dpo"}, "data": {"group_size": 8, "groups_per_task": 3}}
    cost = cost_of(NOTHING, split, Recipe(**pairs), usable=10, scores=scores, samples=samples)
    assert cost.training_tokens == 10 * 3 * (100 + 2 * 50)
    cost = cost_of(NOTHING, split, Recipe(**pairs, source=online.source), usable=0, scores=scores, samples=samples)
    assert cost.training_tokens == 3 * 5 * 3 * (100 + 2 * 20)
    assert cost.rollout_seconds == pytest.approx(3 * 5 * 8 * 2.0 * 20 / 50)


@pytest.fixture
def here(monkeypatch, capfd):
    """The command line in this process."""
    before = signal.getsignal(signal.SIGTERM)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["upsolve", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capfd.readouterr()
        assert not done.value.code, out + err
        return out

    yield run
    signal.signal(signal.SIGTERM, before)


def test_the_command_prints_tables_or_json(archive, here):
    words = ("plan", archive.path, "--no-model", "--set", "data.group_size=2", "--set", "data.split=ranked", "--judged", 8)
    said = here(*words)
    *_, last, then = said.rstrip().splitlines()
    assert "recorded verdicts" in said and last.endswith(".") and then.startswith("next: upsolve ")
    assert "what the advice rests on" in said and "at least 30" in said and "missed" in said
    found = json.loads(here(*words, "--json", "--against", "embedded"))
    assert (
        found["groups"]["tasks"] == 20 and found["noise"]["agreement"]["of"] == 8 and found["leaks"]["sizes"]["embedded"] == 259
    )
    assert found["cost"] is None and found["advice"]


def test_small_runs_are_warned_about():
    optim, data = OptimConfig(tokens_per_step=4096), DataConfig(dev=0.1)
    assert "optim.tokens_per_step (now 4,096)" in few_steps(1, optim) and few_steps(9, optim)
    assert "optim.attempts_per_step (now 8)" in few_steps(2, OptimConfig(attempts_per_step=8))
    assert not few_steps(10, optim) and not few_steps(0, optim), "enough, and unknown"
    assert not few_steps(5, OptimConfig(max_steps=5)) and few_steps(5, OptimConfig(max_steps=6)), "as few as were asked for"
    several, one = EvalConfig(temperatures=(0, 1), dev_tasks=24), EvalConfig(temperatures=(0,))
    assert "data.dev (now 0.1)" in few_dev_tasks(1, several, data)
    assert "evaluate.dev_tasks (now 2)" in few_dev_tasks(2, EvalConfig(temperatures=(0, 1), dev_tasks=2), data)
    assert not few_dev_tasks(10, several, data) and not few_dev_tasks(1, one, data)
    assert "1 task to measure on" in few_tasks(1, EvalConfig()) and "--folds 5" in few_tasks(29, EvalConfig())
    assert "evaluate.tasks (now 2)" in few_tasks(2, EvalConfig(tasks=2))
    assert not few_tasks(30, EvalConfig()) and not few_tasks(0, EvalConfig()), "enough, and measured on other archives"
