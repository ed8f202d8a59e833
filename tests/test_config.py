import json
import re
import subprocess
import sys

import pytest
import yaml

from upsolve.config import Recipe, dump_recipe, explain, load_recipe, recipe_names
from upsolve.config.keys import all_keys
from upsolve.config.recipe import recipe_text, set_key
from upsolve.config.rules import RULES
from upsolve.errors import ConfigError
from upsolve.types import Status


def test_a_recipe_is_read_as_written(tmp_path):
    recipe = Recipe.model_validate(
        {
            "name": "Übung 日本",
            "data": {"archive": "daten/Prüfung"},
            "optim": {"lr": 3e-5},
            "reward": {"outcomes": {"passed": 2.0, "failed": -1.0}},
        }
    )
    dump_recipe(recipe, tmp_path / "r.yaml")
    assert load_recipe(tmp_path / "r.yaml") == recipe
    assert {"name: Übung 日本", "  archive: daten/Prüfung"} <= {*(tmp_path / "r.yaml").read_text("utf-8").splitlines()}
    assert recipe.reward.outcomes == {**Recipe().reward.outcomes, Status.PASSED: 2.0, Status.FAILED: -1.0}


def test_the_published_outcome_table_is_the_default():
    table = Recipe().reward.outcomes
    assert [table[Status(s)] for s in ("passed", "failed", "timeout", "runtime_error", "compile_error")] == [
        1.0,
        -0.1,
        -0.5,
        -0.6,
        -1.0,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optim: {learning_rate: 1}", r"optim\.learning_rate: no such key; did you mean optim\.lr\?"),
        ("lr: 1", r"lr: no such key; did you mean optim\.lr\?"),
        ("objective: {clip: {hig: 1}}", r"did you mean objective\.clip\.high"),
        ("rewards: {}", r"did you mean reward\?"),
        ("monitor: {zzz: 1}", r"monitor\.zzz: no such key; `upsolve explain"),
        ("objective: {clip: {high: .nan}}", r"objective\.clip\.high: .*finite"),
        ("advantage: {delta: .inf}", r"advantage\.delta: .*finite"),
        ("optim: {lr: -1}", r"optim\.lr: .*greater than 0"),
        ("advantage: {kind: magic}", r"advantage\.kind"),
        ("- a list", "mapping of stages"),
        ("a: [", "cannot be read as YAML"),
        ("optim: {lr: 1}\ndata: {}\noptim: {epochs: 2}", "line 3: optim is in line 1, too"),
        ("objective: {clip: {low: 0.1, high: 0.2, low: 0.3}}", "line 1: low is in line 1, too"),
        ("optim: {lr: true}", r"optim\.lr: true and false are not numbers"),
        ("optim: {max_steps: false}", r"optim\.max_steps: true and false are not numbers"),
        ("reward: {outcomes: {passed: true}}", r"reward\.outcomes: true and false are not numbers"),
        ("evaluate: {temperatures: [0, true]}", r"evaluate\.temperatures: true and false are not numbers"),
        (
            "base: rloo\nobjective: {clip: {high: 0.3}}",
            "objective.clip.high has no effect without objective.kind ppo_clip or gspo",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    file = tmp_path / "r.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(file)
    assert "r.yaml" in str(caught.value)


def test_the_vetted_settings_are_the_defaults():
    assert Recipe().objective.reduce == "token_mean" and Recipe().monitor.keep == "last"


STAGES = {*Recipe.model_fields} - {"name", "seed"}
CONTRADICTIONS = {
    "objective.kl.place: reward needs": ("rloo", ["objective.kl.place=reward", "objective.kl.coefficient=0.1"]),
    "objective.kl.estimator: place reward always uses k3": ("ppo", ["objective.kl.estimator=k1"]),
    "advantage.kind gae is for online": ("rloo", ["advantage.kind=gae"]),
    "advantage.kind gae: objective.kind kto": ("ppo", ["objective.kind=kto", "objective.kl.place=loss"]),
    "advantage.kind gae: objective.kind dpo": ("ppo", ["objective.kind=dpo", "objective.kl.place=loss"]),
    "reward.mask_unexecuted: objective.kind oapl": ("oapl", ["reward.mask_unexecuted=true"]),
    "reward.mask_unexecuted: objective.kind kto": ("kto", ["reward.mask_unexecuted=true"]),
    "reward.mask_unexecuted: objective.kind rank": ("rank", ["reward.mask_unexecuted=true"]),
    "reward.mask_unexecuted: objective.kind dro": ("rloo", ["objective.kind=dro", "reward.mask_unexecuted=true"]),
    "model.prompt.outcome: objective.kind dpo": ("dpo", ["model.prompt.outcome='Outcome: {outcome}'"]),
    "outcome: 'passed' names no outcome": ("sft", ["model.prompt.outcome=passed"]),
    "sample.guidance has no effect": ("sft", ["sample.guidance=1"]),
    "guidance: 1 needs engine": ("conditioned", ["sample.guidance=1", "sample.lookup=4"]),
    "advantage.negatives: objective.kind kto": ("kto", ["advantage.negatives=divergence"]),
    "advantage.negatives: advantage.kind passed": ("sft", ["advantage.negatives=divergence"]),
    "reward.window has no effect": ("rloo", ["reward.window=3"]),
    "advantage.blame: objective.kind oapl": ("oapl", ["advantage.blame=0.5"]),
    "advantage.blame: objective.kind kto": ("kto", ["advantage.blame=0.5"]),
    "advantage.blame: objective.kind rank": ("rank", ["advantage.blame=0.5"]),
    "advantage.blame: advantage.kind passed": ("sft", ["advantage.blame=0.5"]),
    "advantage.blame: advantage.kind gae": ("ppo", ["advantage.blame=0.5"]),
    "objective.clip.sequence_kl masks negative": ("sft", ["objective.clip.sequence_kl=0.1"]),
    "reward.credit needs rewards for every token": ("rloo", ["reward.credit.outcome=uniform"]),
    "objective.preference.focal weighs tokens itself": ("dpo_focal", ["reward.mask_unexecuted=true"]),
    "objective.correction weighs": ("kto", ["objective.correction.kind=tis"]),
    "objective.correction.kind: tis needs the probabilities .*vllm gives them at temperature 1 and top_p 1 alone, not at 0.7 and 1": (
        "grpo",
        ["objective.correction.kind=tis", "source.rollout.engine=vllm", "source.rollout.temperature=0.7"],
    ),
    "reward.gated needs rewards for every token": ("rloo", ["reward.preset=dense", "reward.gated=[functional]"]),
    "data.group_size: 1 has nothing to compare, and advantage.kind leave_one_out": ("rloo", ["data.group_size=1"]),
    "data.group_size: 1 has nothing to compare: source.oversample": ("ppo", ["data.group_size=1", "source.oversample=2"]),
    "data.group_size: 1 has nothing to compare: groups of stored": (
        "ppo",
        ["data.group_size=1", "source.mix={policy: 1, archive: 1}"],
    ),
    "data.group_size: 1 has nothing to compare: reward.verdicts": ("ppo", ["data.group_size=1", "reward.verdicts=shuffled"]),
    "data: train 0.9 and dev 0.1": ("rloo", ["data.train=0.9", "data.dev=0.1"]),
    "advantage.options.k: 0: at least 1": ("passk", ["advantage.options.k=0"]),
    "advantage.options.k: 1: at least 2": ("rspo", ["advantage.options.k=1"]),
    "advantage.kind passed: objective.kind nft reads the sign .*set advantage.kind: maxrl": ("nft", ["advantage.kind=passed"]),
    "advantage.kind exponential: objective.kind nft reads": ("nft", ["advantage.kind=exponential"]),
    "advantage.kind centred: objective.kind nft reads": ("nft", ["advantage.kind=centred"]),
    "advantage.kind exponential: objective.kind kto reads the sign .*: passed": ("kto", ["advantage.kind=exponential"]),
    "advantage.options_end.k: 8: at least 1, and below the 8 attempts": ("pkpo", ["advantage.options_end.k=8"]),
    "objective.clip.sequence_kl masks single attempts, and a loss of objective.kind dpo spans several attempts": (
        "dpo",
        ["objective.clip.sequence_kl=1"],
    ),
    "objective.clip.sequence_kl masks single attempts, and a loss of objective.kind rank spans several attempts": (
        "rank",
        ["objective.clip.sequence_kl=1"],
    ),
    "monitor.keep: best needs held-out": ("rloo", ["monitor.keep=best", "monitor.heldout=0"]),
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
def test_stages_that_contradict_each_other_are_refused(message):
    recipe, overrides = CONTRADICTIONS[message]
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(recipe, overrides)
    assert str(caught.value).startswith(f"{recipe}: ")


def test_messages_of_rules_name_keys_of_a_recipe():
    """Of a stage's own rules, the first word is a key of the stage."""
    known, dotted = {*all_keys(Recipe)}, re.compile(rf"\b(?:{'|'.join(Recipe.model_fields)})(?:\.[a-z_]+)+")
    named = [key for rule in RULES if isinstance(rule.message, str) for key in dotted.findall(rule.message)]
    stages = {name: field.annotation.RULES for name, field in Recipe.model_fields.items() if name in STAGES}
    texts = [(name, rule.message) for name, rules in stages.items() for rule in rules if isinstance(rule.message, str)]
    named += [f"{name}.{re.match('[a-z_]+', text)[0]}" for name, text in texts]
    assert len(named) > 60 and not {*named} - known


@pytest.mark.parametrize("name", recipe_names())
def test_the_recipes_do_not_contradict_themselves(name):
    assert load_recipe(name).name == name.removeprefix("papers/")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "optim={attempts_per_step: 8, tokens_per_step: 2048}",
            "tokens_per_step: 2048 has no effect with attempts_per_step: 8",
        ),
        ("reward.dataflow_threshold=0.5", "dataflow_threshold: dataflow has no weight"),
        ("advantage.options_end={k: 1}", "advantage.options_end: leave_one_out has no option 'k'; it has none"),
        ("reward.gated=[lint]", "gated: lint has no weight"),
        ("reward.gated=[outcome]", "gated: .* cannot name all; remove one"),
        ("reward.outcomes.unscored=0", "outcomes.unscored: an attempt that could not be judged .* has no reward; remove it"),
    ],
)
def test_a_setting_without_effect_is_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe(None, [override])


UNREAD = [
    *("objective.clip.low=0.1", "objective.clip.cap=3", "objective.beta_dro=0.5", "objective.beta_policy=0.5"),
    *("objective.preference.beta=0.5", "objective.preference.focal=true", "objective.preference.pairs=edit"),
    *("objective.kl.estimator=k1", "objective.correction.cap=9", "objective.value.lr=0.1", "objective.length=77"),
    *("advantage.beta=3", "advantage.delta=-0.5", "advantage.ddof=0", "advantage.max_weight=3", "advantage.gae.decay=0.5"),
    *("source.groups=99", "source.mix={archive: 1}", "source.oversample=3", "source.hints=0.5", "source.order=easy_first"),
    *(
        "model.lora_alpha=64",
        "reward.severity.error=0.9",
        "reward.length=[10, 20]",
        "reward.complexity=3",
        "advantage={delta: 0}",
    ),
    *(
        "source.replay_rounds=2",
        "source.rollout.vllm.gpus=2",
        "source.rollout.samples=2",
        "source.rollout.samples=8",
        "sample.server.model=x",
        "sample.vllm={gpus: 2}",
        "monitor.project=p",
        "monitor.max_drift=0.1",
        "evaluate.leaks=refuse",
    ),
]


@pytest.mark.parametrize(
    ("recipe", "override"),
    [
        *(("rloo", override) for override in UNREAD),
        ("rlvr_tests", "reward.outcomes.failed=-0.9"),
        *((name, "advantage.kind=standardised") for name in ("dpo", "oapl", "rank")),
        ("kto", "objective.preference.label_smoothing=0.1"),
        ("dpo", "data.group_size=8"),
        ("grpo", "data.groups_per_task=3"),
        *(
            ("grpo", override)
            for override in ("source.replay_rounds=2", "source.replay_solved=[0, 0.5]", "data.tasks_at_once=3")
        ),
        ("demo", "monitor.eval_every=5"),
        ("demo", "monitor.max_likelihood_drop=0.1"),
    ],
)
def test_a_setting_that_is_not_read_is_refused(recipe, override):
    with pytest.raises(ConfigError, match=f"{override.partition('=')[0]}.* has no effect without .*; leave it out"):
        load_recipe(recipe, [override])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["objective.kl.coefficient=0", "objective.kl.place=reward"],
            "kl.place has no effect without objective.kl.coefficient",
        ),
        (["source.mix={archive: 1}", "source.hints=0.5"], "source.hints has no effect without .* a share of policy"),
        (["source.mix={archive: 1}", "source.oversample=2"], "source.oversample has no effect without .* a share of policy"),
        (["source.mix_end={archive: 1}"], "source.mix_end.archive has no effect without source.rounds above 1"),
        (["evaluate.temperatures=[0]", "evaluate.many_samples=9"], "many_samples has no effect without a temperature above 0"),
        (["reward.detectors=[]", "reward.hacked=-1"], "reward.hacked has no effect without reward.detectors"),
        (["monitor.stop_on_collapse=false", "monitor.max_likelihood_drop=1"], "max_likelihood_drop has no effect without"),
    ],
)
def test_a_setting_that_another_one_switches_off_is_refused(overrides, message, tmp_path):
    (tmp_path / "one.yaml").write_text(f"base: {'ppo' if 'kl' in message else 'grpo'}\nsource: {{rounds: 1}}\n")
    (tmp_path / "own.yaml").write_text("base: one.yaml\n")
    with pytest.raises(ConfigError, match=message):
        load_recipe(tmp_path / "own.yaml", overrides)


@pytest.mark.parametrize("override", ["=3", "optim..lr=3", "optim.=3", "seed=-1", "data.seed=-1", "seed=99999999999999999999"])
def test_an_override_without_a_key_and_an_impossible_seed_are_refused(override):
    with pytest.raises(ConfigError, match=r"must be stage.key=value|should be (greater|less) than"):
        load_recipe("rloo", [override])


@pytest.mark.parametrize(
    ("recipe", "overrides"),
    [
        ("rloo", ["objective.clip.high=0.2"]),  # the default
        ("grpo", ["objective.kind=reinforce"]),  # the clip is the recipe's
        ("grpo", ["source.rounds=0", "source.groups=8"]),  # offline by choice
        ("rloo", ["source.rollout.max_tokens=9"]),
        ("rloo", ["objective.kl.coefficient=0.1", "objective.kl.estimator=k1"]),
        ("oapl", ["advantage.kind=asymre", "objective.clip.sequence_kl=0.1"]),  # masks negative advantages
        ("rloo", ["reward.weights.rank=1", "reward.rank=dataflow", "reward.dataflow_threshold=0.5"]),
        ("rlvr_tests", ["reward.weights.rank=1", "reward.rank=outcome", "reward.outcomes.failed=-0.9"]),
        ("hybrid", ["data.groups_per_task=3"]),
        ("rloo", ["evaluate.temperatures=[0]", "evaluate.dev_samples=8"]),  # one temperature by choice
        ("oapl", ["advantage.kind=passed"]),  # draws groups in which all passed
        ("rloo", ["sample.engine=transformers", "sample.server.model=x"]),  # another engine by choice
        ("rloo", ["monitor.heldout=0", "monitor.eval_every=5"]),
        ("replay", ["source.replay_rounds=2"]),
        ("hybrid", ["source.hints=0.5", "source.mix_end={policy: 1}"]),
    ],
)
def test_settings_that_are_read_or_not_the_users_are_accepted(recipe, overrides, tmp_path):
    loaded = load_recipe(recipe, overrides)
    dump_recipe(loaded, tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path / "recipe.yaml") == loaded, "a resolved recipe names all keys"


def test_gspo_has_a_narrow_clip_of_its_own():
    for overrides in (["objective.kind=gspo"], ["objective={kind: gspo, clip: {cap: 5}}"]):
        clip = load_recipe("rloo", overrides).objective.clip
        assert (clip.low, clip.high) == (3e-4, 4e-4)
    assert load_recipe("rloo", ["objective.kind=gspo", "objective.clip.low=0.1"]).objective.clip.low == 0.1
    assert load_recipe("rloo", "optim.max_steps=7").optim.max_steps == 7


def test_options_change_linearly_to_those_of_the_last_round():
    advantage = load_recipe("pkpo", ["advantage.options.k=7"]).advantage
    assert [advantage.at(number, 5).settings["k"] for number in range(5)] == [7, 6, 4, 3, 1]  # 5.5 and 2.5 are rounded up
    beta = load_recipe("unlikeliness", ["advantage.options_end.beta=0"]).advantage
    assert [beta.at(number, 3).settings["beta"] for number in range(3)] == [0.25, 0.125, 0]
    assert beta.at(0, 1).settings["beta"] == 0.25 and load_recipe("rspo").advantage.at(1, 2).settings["k"] == 4


def test_one_attempt_a_group_is_enough_where_nothing_is_compared():
    assert (
        load_recipe("sft", ["data.group_size=1"]).data.group_size
        == 1
        == load_recipe("ppo", ["data.group_size=1"]).data.group_size
    )


def test_a_recipe_is_based_on_another(tmp_path):
    (tmp_path / "mine.yaml").write_text("base: grpo\nname: mine\nobjective: {clip: {low: 0.1}}\nsource: {mix: {replay: 1}}\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "next.yaml").write_text("base: ../mine.yaml\nname: next\noptim: {lr: 7.0e-6}\n")
    mine, after, grpo = (load_recipe(name) for name in (tmp_path / "mine.yaml", tmp_path / "deep" / "next.yaml", "grpo"))
    assert (mine.objective.clip.low, mine.objective.clip.high) == (0.1, grpo.objective.clip.high) != (0.1, 0.1)
    assert mine.source.mix == {"replay": 1} and mine.source.rounds == grpo.source.rounds
    assert after == mine.model_copy(update={"name": "next", "optim": after.optim}) and after.optim.lr == 7e-6
    (tmp_path / "same.yaml").write_text("base: grpo\n")
    assert load_recipe(tmp_path / "same.yaml") == grpo, "a recipe that says nothing else is the one that it is based on"
    dump_recipe(after, tmp_path / "resolved.yaml")
    assert load_recipe(tmp_path / "resolved.yaml") == after


@pytest.mark.parametrize(
    ("base", "message"), [("r.yaml", "not based on this one"), ("[grpo]", "must be the name"), ("grp", "did you mean grpo")]
)
def test_a_wrong_base_is_named(tmp_path, base, message):
    (tmp_path / "r.yaml").write_text(f"base: {base}\n")
    with pytest.raises(ConfigError, match=message):
        load_recipe(tmp_path / "r.yaml")


def test_settings_that_work_together_are_accepted():
    load_recipe("rloo", ["advantage.blame=0.5", "reward.mask_unexecuted=true"])
    load_recipe("dpo", ["advantage.blame=0.5"])
    load_recipe("ppo_dense", ["reward.mask_unexecuted=true"])


def test_overrides():
    recipe = load_recipe(None, ["optim.lr=1e-4", "data.authors=[a, b]", "name=z"])
    assert (recipe.optim.lr, recipe.data.authors, recipe.name) == (1e-4, ("a", "b"), "z")
    with pytest.raises(ConfigError, match="stage.key=value"):
        load_recipe(None, ["optim.lr"])
    with pytest.raises(ConfigError, match="no such recipe"):
        load_recipe("nowhere.yaml")


def test_nothing_heavy_is_imported_before_it_is_needed():
    probe = "import sys, upsolve.cli.main, upsolve.config; print([m for m in ('torch', 'transformers', 'pyarrow', 'duckdb') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_overrides_are_merged_into_mappings():
    recipe = load_recipe("grpo", ["source.rollout={max_tokens: 9}", "objective.clip.low=0.1"])
    assert (recipe.source.rollout.max_tokens, recipe.source.rollout.temperature) == (9, 1.0)
    assert (recipe.objective.clip.low, recipe.objective.clip.high) == (0.1, 0.28)
    assert load_recipe("grpo", ["source.mix={archive: 1.0}"]).source.mix == {"archive": 1.0}, (
        "shares are not merged with a default"
    )


@pytest.mark.parametrize("override", ["optim.lr=[1", "name={a: ", "optim.lr='"])
def test_an_override_that_is_not_yaml_raises(override):
    with pytest.raises(ConfigError, match="the value cannot be read as YAML"):
        load_recipe(None, [override])


def test_a_recipe_that_is_not_text_raises(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_bytes(b"name: \xff\xfe")
    with pytest.raises(ConfigError, match="r.yaml: cannot be read as YAML"):
        load_recipe(file)


def test_a_key_is_explained():
    said = explain("advantage.ddof")
    assert "one of 0, 1" in said and "default: 1" in said and "sample deviation" in said
    assert "> 0" in explain("optim.lr") and "1.0e-05" in explain("optim.lr")
    assert "reinforce" in explain("objective.kind") and "package.module:attribute" in explain("objective.kind")
    assert "objective.clip.low: " in explain("objective.clip")
    with pytest.raises(ConfigError, match=r"no key 'optim.learning_rate' in a recipe; did you mean optim\.lr\?"):
        explain("optim.learning_rate")


def test_every_key_can_be_explained():
    for key in all_keys(Recipe):
        said = explain(key)
        assert said.startswith(key), key
        assert not said.rstrip().splitlines()[-1].startswith("  default:"), f"{key} has no documentation"


def test_recipes_have_names_and_a_line_each():
    found = recipe_names()
    assert "rloo" in found and found["dft"].startswith("Dynamic fine-tuning (2508.05629)")
    assert all(text for text in found.values())


@pytest.mark.parametrize("name", recipe_names())
def test_a_printed_recipe_and_the_keys_that_it_inherits_are_the_whole_recipe(name):
    text, data = recipe_text(name), {}
    inherited = text.partition("# inherited from")[2]
    own = {key: value for key, value in yaml.safe_load(text).items() if key != "base"}
    lines = [line.removeprefix("#   ").replace(": ", "=", 1) for line in inherited.splitlines() if line.startswith("#   ")]
    for line in (*lines, *(f"{key}={json.dumps(value)}" for key, value in own.items())):
        set_key(data, line)
    assert Recipe.model_validate(data) == load_recipe(name)


def test_a_recipe_of_the_user_is_printed_with_what_its_bases_say(tmp_path):
    (tmp_path / "mine.yaml").write_text("# mine\nbase: other.yaml  # near\noptim: {lr: 1.0e-4}\n")
    (tmp_path / "other.yaml").write_text("base: sft\noptim: {lr: 1.0e-3, epochs: 2}\n")
    assert recipe_text(tmp_path / "mine.yaml").splitlines() == [
        "# mine",
        "base: other.yaml  # near",
        "optim: {lr: 1.0e-4}",
        "# inherited from other.yaml:",
        "#   optim.epochs: 2",
        "# inherited from sft:",
        "#   name: sft",
        "#   advantage.kind: passed",
        "#   objective.kind: reinforce",
        "#   objective.reduce: token_mean",
        "#   data.groups_per_task: 2",
        "# all other keys have their defaults: `upsolve explain KEY`",
    ]


def test_one_key_of_the_rollout_leaves_the_others_at_their_defaults():
    """A rollout samples the policy as it is; the settings of an evaluation are not taken over."""
    rollout = Recipe.model_validate({"source": {"rollout": {"max_tokens": 7}}}).source.rollout
    assert (rollout.max_tokens, rollout.temperature, rollout.top_p) == (7, 1.0, 1.0)


def test_settings_of_an_inherited_choice_have_no_effect(tmp_path):
    """One temperature of the base leaves nothing to choose on dev tasks."""
    (tmp_path / "one.yaml").write_text("evaluate: {temperatures: [0.6]}\n")
    (tmp_path / "own.yaml").write_text("base: one.yaml\nevaluate: {dev_samples: 8}\n")
    with pytest.raises(ConfigError, match="evaluate.dev_samples has no effect without several evaluate.temperatures"):
        load_recipe(tmp_path / "own.yaml")
