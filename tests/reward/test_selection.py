"""Groups and attempts selected, weighted and ordered by SQL expressions."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from upsolve.archive.groups import Lazy
from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, SelectConfig, check_recipe, load_recipe
from upsolve.config.select import COLUMNS
from upsolve.errors import ConfigError
from upsolve.reward.formula import Rewarded
from upsolve.reward.selection import Likelihood, choose
from upsolve.train.data.groups import with_advantages
from upsolve.train.data.sources import RoundGroups
from upsolve.train.loop import form_groups
from upsolve.types import Attempt, Group, Status, Task, Verdict


def made(name, rewards, **columns):
    """A group whose attempt i has reward i, code of i + 1 characters, and column i of each of ``columns``."""
    attempts, verdicts = [], []
    for i, reward in enumerate(rewards):
        fields = {key: values[i] for key, values in columns.items()}
        attempts.append(Attempt(name, "x" * (i + 1), **fields))
        status = Status.PASSED if reward >= 1 else Status.FAILED
        verdicts.append(Verdict(attempts[i].attempt_id, status, int(reward >= 1), 1))
    group = Group(Task(name, ""), tuple(attempts), tuple(verdicts))
    return Rewarded(group, np.array(rewards, dtype=float), ((),) * len(rewards), Counter(), Counter())


EASY, HARD, ALL = made("easy", [1, 1, 1, 0]), made("hard", [0, 0, 1, -0.5]), made("all", [1, 1])
GROUPS = [EASY, HARD, ALL]


def kept(config, groups=GROUPS, **more):
    chosen = choose(groups, SelectConfig(**config), **more).rewarded
    return {one.group.task.task_id: [len(a.code) - 1 for a in one.group.attempts] for one in chosen}


def test_groups_are_rewarded_once_while_they_fit_in_memory(monkeypatch):
    read = []
    groups = Lazy(range(3), lambda index: read.append(index) or GROUPS[index])
    assert kept({"attempts": "passed"}, groups) == kept({"attempts": "passed"}) and read == [0, 1, 2]
    monkeypatch.setattr("upsolve.reward.selection.HELD", len(EASY.rewards_G))
    assert kept({"attempts": "passed"}, groups) == kept({"attempts": "passed"}) and read[3:] == [0, 1, 1, 2, 1, 2]


def test_no_expression_changes_nothing():
    assert choose(GROUPS, SelectConfig()).rewarded == GROUPS


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("passed", {"easy": [0, 1, 2], "hard": [2], "all": [0, 1]}),
        ("reward_rank <= 1 OR reward_rank > attempts - 1", {"easy": [0, 1, 2, 3], "hard": [2, 3], "all": [0, 1]}),  # PF-PPO
        (
            "row_number() OVER (PARTITION BY group_id ORDER BY length) <= 2",
            {"easy": [0, 1], "hard": [0, 1], "all": [0, 1]},
        ),  # GFPO
        ("length = min(length) FILTER (WHERE passed) OVER (PARTITION BY group_id)", {"easy": [0], "hard": [2], "all": [0]}),
    ],
)
def test_attempts_that_stay(expression, wanted):
    assert kept({"attempts": expression}) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("pass_rate BETWEEN 0.2 AND 0.8", {"easy", "hard"}),
        ("max(reward) > min(reward) + 1.2", {"hard"}),
        ("avg(length) < 2", {"all"}),
    ],
)
def test_groups_that_stay_and_those_that_are_counted(expression, wanted):
    found = choose(GROUPS, SelectConfig(groups=expression))
    assert {one.group.task.task_id for one in found.rewarded} == wanted
    assert found.left_out == Counter({"tasks: select.groups": 3 - len(wanted)})


def test_select_reads_fields_unknown_to_the_importer():
    extra = ['{"licence": "MIT", "points": 3}', '{"licence": "GPL"}', ""]
    known = made("known", [1, 0, 0], extra=extra, language=["python", "c++", "python"])
    other = replace(known, group=replace(known.group, task=replace(known.group.task, task_id="other", extra='{"year": 2020}')))
    groups = [known, other]
    assert kept({"attempts": "extra->>'licence' = 'MIT'"}, groups) == {"known": [0], "other": [0]}
    assert kept({"attempts": "ifnull(extra->>'points', 0) < 3"}, groups) == {"known": [1, 2], "other": [1, 2]}
    assert kept({"attempts": "extra IS NULL"}, groups) == {"known": [2], "other": [2]}
    assert kept({"attempts": "language = 'c++'", "groups": "task_extra->>'year' >= 2020"}, groups) == {"other": [1]}


def test_attempts_left_out_are_counted_and_rewards_stay_with_them():
    easy = choose(GROUPS, SelectConfig(attempts="NOT passed")).rewarded[0]
    assert easy.left_out == Counter({"select.attempts": 3})
    assert easy.rewards_G.tolist() == [0] and len(easy.parts) == 1


def test_groups_in_order():
    assert [*kept({"order": "pass_rate"})] == ["hard", "easy", "all"]
    assert [*kept({"order": "max(length) DESC, task_id"})] == ["easy", "hard", "all"]


def test_counts_are_samples_and_log_probabilities_are_means():
    group = made("t", [1, 0], count=(3, 1), behavior_logp=(-6.0, None), tokens=(3, None))
    assert kept({"attempts": "pass_rate = 0.75 AND logp = -2.0"}, [group]) == {"t": [0]}
    assert kept({"attempts": "logp IS NULL"}, [group]) == {"t": [1]}


def test_chance_is_uniform_repeats_and_changes_with_round_and_seed():
    many = [made(f"t{i}", [0] * 8) for i in range(100)]
    counts = {
        (number, seed): kept({"attempts": "chance < 0.25"}, many, number=number, seed=seed)
        for number in (0, 1)
        for seed in (0, 1)
    }
    for one in counts.values():
        assert 150 < sum(map(len, one.values())) < 250  # 800 draws at 1/4: 200, deviation 12
    assert counts[0, 0] == kept({"attempts": "chance < 0.25"}, many) and len({str(one) for one in counts.values()}) == 4


@pytest.mark.parametrize(
    ("field", "expression", "words"),
    [
        ("attempts", "lenght < 3", "did you mean length"),
        ("attempts", "passed AND", "select.attempts: 'passed AND'"),
        ("groups", "random() > 0", "not authorized"),
        ("order", "1; DROP TABLE attempts", "one statement|syntax error"),
        ("weight", "load_extension('x')", "not authorized"),
        ("weight", "1; --", "select.weight"),
    ],
)
def test_wrong_expressions_are_refused_when_the_recipe_is_read(field, expression, words):
    with pytest.raises(ValidationError, match=words):
        SelectConfig(**{field: expression})


@pytest.mark.parametrize("expression", ["NULL", "status", "1.0 / (passes - 1)"])
def test_a_weight_is_a_finite_number(expression):
    with pytest.raises(ConfigError, match="finite number"):
        choose([HARD], SelectConfig(weight=expression))


def test_a_weight_is_computed_for_the_attempts_that_stay():
    """A task that nobody passed has no 1 / passes."""
    groups = [made("solved", [1.0, 0.0]), made("unsolved", [0.0, 0.0])]
    chosen = choose(groups, SelectConfig(attempts="passed", weight="1.0 / passes")).rewarded
    assert [item.weights_G.tolist() for item in chosen] == [[1.0], []]
    found = formed(groups, SelectConfig(attempts="passed", weight="1.0 / passes"))
    assert [one.group.task.task_id for one in found.groups] == ["solved"]


def formed(groups, select, kind="passed", size=4):
    data = DataConfig(group_size=size)
    config = AdvantageConfig(kind=kind)
    found = form_groups([], groups, RoundGroups(0), data=data, advantage=config, objective=ObjectiveConfig(), select=select)
    return replace(found, groups=[with_advantages(item, config, seed=0) for item in found.groups])


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("START_LOGP > -2", {"start_logp"}),
        ("author = 'start_logp'", {"author"}),
        ("task_extra->>'extra' > 2", {"task_extra"}),
        ("passed", {"passed"}),
    ],
)
def test_columns_are_those_that_sqlite_reads(expression, reads):
    """Names in other cases are read, and names within texts are not."""
    select = SelectConfig(attempts=expression)
    assert {name for name in ("start_logp", "author", "extra", "task_extra", "passed") if select.names(name)} == reads
    assert select.reads_start == ("start_logp" in reads)


def test_rft_counts_every_task_once():
    found = formed([EASY, HARD, ALL], SelectConfig(attempts="passed", weight="1.0 / passes", order="task_id"))
    assert [one.group.task.task_id for one in found.groups] == ["all", "easy", "hard"]
    assert [sorted(one.advantages_G.tolist()) for one in found.groups] == [[0.5, 0.5], pytest.approx([1 / 3] * 3), [1.0]]
    assert found.left_out["attempts: select.attempts"] == 4


def test_advantages_are_those_among_the_attempts_that_stay():
    found = formed([HARD], SelectConfig(attempts="reward_rank <= 2 AND length > 1"), kind="centred", size=2)
    assert sorted(found.groups[0].advantages_G.tolist()) == [-0.5, 0.5]
    assert not formed([ALL], SelectConfig(), kind="centred", size=2).groups  # nothing to compare with, unlike imitation
    assert len(formed([ALL], SelectConfig(), kind="passed", size=2).groups) == 1


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("dpo", "select.weight=1.0 / passes", "multiplies advantages"),
        ("kto", "select.weight=1.0 / passes", "multiplies advantages"),
        ("ppo", "select.weight=1.0 / passes", "multiplies advantages"),
        ("grpo", "select.order=pass_rate", "random order"),
        ("pkpo", "data.group_size=4", "k: 4: at least 1, and below the 4 attempts"),
    ],
)
def test_what_has_no_effect_is_refused(name, setting, words):
    with pytest.raises(ConfigError, match=words):
        check_recipe(load_recipe(name, [setting]))


def published():
    """The lines of the table of published filters: the method's first words and its keys."""
    page = (Path(__file__).parents[2] / "docs" / "filters.md").read_text()
    rows = re.findall(r"^\| ?([^`|]+?) ?\| ?(`.+?)(?: \(recipe `\w+`\))? ?\|$", page.partition("\n## ")[0], re.MULTILINE)
    return {label.split(":")[0]: dict(re.findall(r"`(\w+): ([^`]+)`", keys)) for label, keys in rows}


FEW = made("few", [1, 0.5, 0.25, 0, -1], tokens=(1, 1, 1, 1, 1), created=("2025-01-01", "2026-02-01", "", "2026-03-01", ""))
SURE = [[Likelihood(-0.1 * i, -20.0 if i == 0 else -1.0) for i in range(5)]]


@pytest.mark.parametrize(
    ("method", "attempts"),
    [
        ("RFT, ReST-EM (2203.14465, 2312.06585)", [0]),
        ("PF-PPO (2409.06957)", [0, 1, 3, 4]),
        ("GFPO (2508.09726)", [0, 1, 2, 3]),
        ("DAPO (2503.14476)", [0, 1, 2, 3, 4]),
        ("Pre-PPO (2503.22230)", [0, 1, 2, 3, 4]),  # its mean reward is 0.15
        ("curriculum by pass rate", [0, 1, 2, 3, 4]),
        ("a range of difficulty, as in the choice of tasks at test time (2510.04786)", [0, 1, 2, 3, 4]),
        ("the shortest passed attempt of a task", [0]),
        ("attempts of other authors (2606.00628)", []),  # what passed has a token below the floor
        (
            "labels that are probably right ([archives](archives.md#how-many-labels-are-right)), weighted by that probability",
            [],
        ),
        ("the newest attempt of each author", [3]),
        ("attempts written since a date", [1, 3]),
    ],
)
def test_published_filters_are_a_line_each(method, attempts):
    found = kept(published()[method], [FEW], likelihoods=lambda _: SURE)
    assert found.get("few", []) == attempts


def test_every_published_filter_is_an_expression():
    assert len(published()) == 14 and all(SelectConfig(**keys).is_on for keys in published().values())


def test_btp_replays_in_proportion_to_likelihood_and_tests_passed():
    sure = [[Likelihood(0.0 if i < 4 else -9.0, -9.0) for i in range(8)]] * 100
    many = [made(f"t{n}", [1, 1, 0, 0, 0, 0, 0, 0]) for n in range(100)]
    found = kept(published()["BTP (2410.12236)"], many, likelihoods=lambda _: sure)
    counts = Counter(i for places in found.values() for i in places)
    assert counts[0] == counts[1] == 100 and counts[4] + counts[5] + counts[6] + counts[7] == 0
    assert 70 < counts[2] + counts[3] < 130  # 200 draws at 1/2: 100, deviation 7


def test_the_page_lists_every_column():
    page = (Path(__file__).parents[2] / "docs" / "selection.md").read_text()
    for name, (_, meaning) in COLUMNS.items():
        assert f"|`{name}`|{meaning}|" in page
