"""Objectives and advantages as records: built in, in a single file, with options."""

import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from upsolve import plugins
from upsolve.advantage.table import ADVANTAGES, advantage
from upsolve.config import AdvantageConfig, ObjectiveConfig, load_recipe
from upsolve.config.recipe import recipe_yaml
from upsolve.errors import ConfigError
from upsolve.objective import losses
from upsolve.objective.clipped import LossInputs
from upsolve.objective.losses import clipped_tokens, formula_id, token_losses
from upsolve.objective.table import OBJECTIVES, Objective, lazy
from upsolve.plugins import RecordError

ONE_FILE = '''
import torch

from upsolve.advantage.table import Advantage
from upsolve.objective.table import Objective


def hinge(logp_T, inputs, config):
    """loss_t = A max(0, margin - log pi/ref)."""
    margin = config.settings["margin"]
    return inputs.advantages_T * torch.relu(margin - inputs.reference_logratio(logp_T))


HINGE = Objective(hinge, reads=("reference",), keeps_zero=True, options={"margin": 1.0, "soft": False})
BEST = Advantage(lambda inputs, config: config.settings["scale"] * (inputs.rewards_G == inputs.rewards_G.max()), options={"scale": 1.0})
BROKEN = Advantage(lambda inputs, config: inputs.rewards_G[:1])
RAISING = Advantage(lambda inputs, config: 1 / 0)
BELOW = Advantage(lambda inputs, config: -inputs.rewards_G, nonnegative=True)
RAISES = Objective(lambda logp_T, inputs, config: logp_T / inputs.nothing)
TAKES_ONE = Objective(lambda logp_T: logp_T)
DETACHED = Objective(lambda logp_T, inputs, config: torch.zeros_like(logp_T))
TOUCHED = Objective(lambda logp_T, inputs, config: logp_T, touched=lambda logp_T, inputs, config: logp_T)
NUMBER = Objective(lambda logp_T, inputs, config: 1.5)
NO_STATISTIC = Objective(lambda logp_T, inputs, config: logp_T, step_statistic=lambda parts, config: parts.nothing)
STATISTIC = Objective(lambda logp_T, inputs, config: logp_T * inputs.statistic, step_statistic=lambda parts, config: 2.0)
'''


@pytest.fixture(autouse=True)
def one_file(tmp_path, monkeypatch):
    """A user's file in the working folder."""
    (tmp_path / "my_objective.py").write_text(ONE_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    yield
    sys.modules.pop("my_objective", None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RAISES", r"objective my_objective:RAISES: AttributeError: .*nothing.* \(my_objective.py, line \d+\)$"),
        ("TAKES_ONE", "objective my_objective:TAKES_ONE: TypeError: .*takes 1 positional argument"),
        ("NUMBER", r"my_objective:NUMBER: loss: expected one loss per token, of shape \[2\], got 1.5$"),
        ("NO_STATISTIC", "objective my_objective:NO_STATISTIC: AttributeError: .*nothing"),
        ("DETACHED", "my_objective:DETACHED: its loss has no gradient"),
        ("TOUCHED", "my_objective:TOUCHED: touched: expected one boolean per token, .* got a tensor of .* torch.float32"),
    ],
)
def test_a_faulty_objective_is_named_in_one_line(name, message):
    data = LossInputs(torch.tensor([0, 1]), torch.tensor([1.0, 2.0]), torch.zeros(2), None, None)
    logp, config = torch.zeros(2, requires_grad=True), ObjectiveConfig(kind=f"my_objective:{name}")
    with pytest.raises(RecordError, match=message) as caught:
        (clipped_tokens if name == "TOUCHED" else token_losses)(logp, data, config)
    assert isinstance(caught.value, ConfigError) and "\n" not in str(caught.value)


def test_a_loss_is_given_its_statistic_in_a_step_of_one_batch():
    data = LossInputs(torch.tensor([0, 1]), torch.tensor([1.0, 2.0]), torch.zeros(2), None, None)
    assert token_losses(torch.tensor([1.0, 3.0]), data, ObjectiveConfig(kind="my_objective:STATISTIC")).tolist() == [2, 6]


@pytest.mark.parametrize(
    ("name", "message"), [("RAISING", r"ZeroDivisionError: .* \(my_objective.py, line"), ("BELOW", "leave out nonneg")]
)
def test_a_faulty_estimator_is_named_in_one_line(name, message):
    with pytest.raises(RecordError, match=f"my_objective:{name}.*{message}"):
        advantage(np.array([1.0, 0.0]), AdvantageConfig(kind=f"my_objective:{name}"), passed_G=np.array([True, False]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "cannot import wrong_file: SyntaxError: .*line 1"),
        ("x = 1\nMINE = nothing", r"cannot import wrong_file: NameError: .*nothing.* \(wrong_file.py, line 2\)"),
        ("import math\nmath.nothing", r"cannot import wrong_file: AttributeError: .* \(wrong_file.py, line 2\)"),
        (
            "from upsolve.objective.table import Objective\nMINE = Objective(print, reads=('referense',))",
            r"reads: \('referense',\): must be of reference, old \(wrong_file.py, line 2\)",
        ),
        (
            "from upsolve.objective.table import Objective\nMINE = Objective(print, reads='old')",
            "reads: 'old': must be of reference, old",
        ),
    ],
)
def test_a_file_that_cannot_be_imported_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "wrong_file.py").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe("rloo", ["objective.kind=wrong_file:MINE"])


def test_a_file_may_be_named_with_its_ending():
    assert load_recipe("rloo", ["objective.kind=my_objective.py:HINGE"]).objective.settings["margin"] == 1
    with pytest.raises(ConfigError, match="':HINGE': must be module:attribute"):
        load_recipe("rloo", ["objective.kind=:HINGE"])


def test_two_packages_that_offer_one_name_are_named(monkeypatch):
    points = [EntryPoint("twice", f"{module}:HINGE", "upsolve.objectives") for module in ("my_objective", "other")]
    monkeypatch.setattr(plugins, "entry_points_of", lambda _group: points)
    with pytest.raises(
        ConfigError, match="objective 'twice' is defined by several packages; write one of my_objective:HINGE, other:HINGE"
    ):
        load_recipe("rloo", ["objective.kind=twice"])
    points.pop()
    assert load_recipe("rloo", ["objective.kind=twice"]).objective.needs_reference


def test_an_objective_is_one_file():
    config = ObjectiveConfig(kind="my_objective:HINGE")
    assert config.needs_reference and not config.needs_old and not config.needs_statistic
    data = LossInputs(torch.tensor([0, 1]), torch.tensor([1.0, 2.0]), torch.zeros(2), torch.tensor([-1.0, -1.0]), None)
    # log-ratios 0.5 and 2: 1 - 0.5 and 0; with margin 3: 2.5 and 2 * 1
    logp = torch.tensor([-0.5, 1.0])
    assert token_losses(logp, data, config).tolist() == [0.5, 0.0]
    wider = ObjectiveConfig(kind="my_objective:HINGE", options={"margin": 3})
    assert token_losses(logp, data, wider).tolist() == [2.5, 2.0]


@pytest.mark.parametrize("shape", ["scalar", "attempts"])
def test_a_loss_of_another_shape_is_refused(shape):
    """``token_mean`` took a scalar silently, and ``sequence_mean`` died of it."""
    wrong = Objective(lambda logp_T, *_: logp_T.sum() if shape == "scalar" else logp_T[:1])
    logp_T = torch.zeros(2, requires_grad=True)
    inputs = LossInputs(torch.zeros(2, dtype=torch.int64), torch.ones(2), torch.zeros(1), None, None)
    with pytest.raises(ValueError, match=r"expected one loss per token, of shape \[2\], got a tensor of shape"):
        losses.token_losses(logp_T, inputs, ObjectiveConfig(kind=wrong))


def test_an_advantage_is_one_file():
    config = AdvantageConfig(kind="my_objective:BEST", options={"scale": 0.5})
    passed_G = np.array([False, True, True])
    assert advantage(np.array([0.0, 1.0, 1.0]), config, passed_G=passed_G).tolist() == [0.0, 0.5, 0.5]
    with pytest.raises(ValueError, match="expected 2 finite advantages"):
        advantage(np.array([0.0, 1.0]), AdvantageConfig(kind="my_objective:BROKEN"), passed_G=passed_G[1:])


def test_a_recipe_names_it_and_a_run_can_be_resumed():
    recipe = load_recipe("rloo", ["objective.kind=my_objective:HINGE", "objective.options.margin=2.0"])
    assert recipe.objective.settings == {"margin": 2.0, "soft": False}
    passed_in_python = recipe.objective.model_copy(update={"kind": plugins.find("objective", "my_objective:HINGE")})
    written = recipe_yaml(recipe.model_copy(update={"objective": passed_in_python}))
    assert "kind: my_objective:HINGE" in written


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "my_objective:HINGE", "options": {"margn": 2.0}}, "no option 'margn'; did you mean margin"),
        ({"kind": "my_objective:HINGE", "options": {"margin": "wide"}}, "option margin is a float such as 1.0"),
        ({"kind": "my_objective:HINGE", "options": {"margin": float("nan")}}, "finite|option margin"),
        ({"kind": "my_objective:HINGE", "options": {"soft": 1}}, "option soft is a bool"),
        ({"kind": "reinforce", "options": {"margin": 2.0}}, "no option 'margin'; it has none"),
        ({"kind": "my_objective:NOTHING"}, "has no NOTHING"),
        ({"kind": "my_objective:BEST"}, "not a record of the class upsolve.objective.table:Objective"),
        ({"kind": "reinforc"}, "did you mean reinforce"),
    ],
)
def test_wrong_options_and_names_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        ObjectiveConfig.model_validate(settings)


def test_a_wrong_name_in_a_recipe_names_the_key():
    with pytest.raises(ConfigError, match=r"advantage\.kind: .*did you mean standardised"):
        load_recipe(None, ["advantage.kind=standardized"])


def test_every_built_in_record_resolves():
    for name, record in OBJECTIVES.items():
        for function in (record.loss, record.step_statistic, record.touched):
            if function is not None:
                name_in, table = (cell.cell_contents for cell in function.__closure__)
                assert callable(getattr(losses, table)[name_in]) and name_in == name
    assert {name for name, record in ADVANTAGES.items() if record.reads == "values"} == {"gae"}


@pytest.mark.parametrize(
    ("field", "words"),
    [("unit", ("attempt", "pair", "group")), ("advantages", ("token", "attempt", "sign", "unread"))],
)
def test_the_words_of_an_objective(field, words):
    for word in words:
        assert getattr(Objective(print, **{field: word}), field) == word
    with pytest.raises(ValueError, match=f"^{field}: .*must be of {', '.join(words)}"):
        Objective(print, **{field: "wrong"})


def test_functions_of_a_record_are_found_when_called():
    data = LossInputs(torch.tensor([0, 1]), torch.tensor([1.0, 2.0]), torch.zeros(2), None, None)
    assert lazy("LOSSES", "reinforce")(torch.tensor([1.0, 3.0]), data, ObjectiveConfig()).tolist() == [-1.0, -6.0]
    with pytest.raises(KeyError, match="nothing"):
        lazy("LOSSES", "nothing")(None)


def test_names_are_checked_without_torch():
    import subprocess

    probe = (
        "import sys; from upsolve.config import load_recipe;"
        "r = load_recipe('grpo', ['objective.kind=kto', 'advantage.kind=passed']);"
        "assert r.objective.needs_reference and r.objective.needs_statistic;"
        "print([m for m in ('torch', 'transformers', 'pyarrow') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_the_id_of_a_formula_is_of_its_numbers(monkeypatch):
    ids = {
        kind: formula_id(AdvantageConfig(kind=kind), ObjectiveConfig()) for kind in ("leave_one_out", "centred", "exponential")
    }
    assert len({*ids.values()}) == 3
    assert formula_id(AdvantageConfig(kind="exponential", beta=1.1), ObjectiveConfig()) != ids["exponential"]
    assert formula_id(AdvantageConfig(kind="leave_one_out", delta=0.7), ObjectiveConfig()) == ids["leave_one_out"], (
        "is not read"
    )
    means = ObjectiveConfig(reduce="sequence_mean")
    assert formula_id(AdvantageConfig(), means) != formula_id(AdvantageConfig(), ObjectiveConfig())
    monkeypatch.setitem(losses.LOSSES, "reinforce", lambda logp_T, i, _: -i.advantages_T * logp_T * 1.001)
    assert formula_id(AdvantageConfig(), ObjectiveConfig()) != ids["leave_one_out"]


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_every_objective_has_an_id(kind):
    estimator = {"nft": "maxrl", "kto": "passed"}.get(kind, "leave_one_out")
    assert len(formula_id(AdvantageConfig(kind=estimator), ObjectiveConfig(kind=kind))) == 12


def test_a_record_that_fails_on_the_probe_has_no_id():
    assert formula_id(AdvantageConfig(), ObjectiveConfig(kind="my_objective:RAISES")) == ""
