"""Objectives and advantages as records: built in, in a single file, with options."""

import sys

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
from upsolve.objective.inputs import LossInputs
from upsolve.objective.losses import token_losses
from upsolve.objective.table import OBJECTIVES, Objective

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
'''


@pytest.fixture(autouse=True)
def one_file(tmp_path, monkeypatch):
    """A user's file in the working folder."""
    (tmp_path / "my_objective.py").write_text(ONE_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    yield
    sys.modules.pop("my_objective", None)


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
    assert advantage(np.array([0.0, 1.0, 1.0]), config).tolist() == [0.0, 0.5, 0.5]
    with pytest.raises(ValueError, match="expected 2 finite advantages"):
        advantage(np.array([0.0, 1.0]), AdvantageConfig(kind="my_objective:BROKEN"))


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
                (referenced,) = (cell.cell_contents for cell in function.__closure__)
                assert callable(getattr(losses, referenced)), name
    assert {name for name, record in ADVANTAGES.items() if record.reads == "values"} == {"gae"}


def test_names_are_checked_without_torch():
    import subprocess

    probe = (
        "import sys; from upsolve.config import load_recipe;"
        "r = load_recipe('grpo', ['objective.kind=kto', 'advantage.kind=passed']);"
        "assert r.objective.needs_reference and r.objective.needs_statistic;"
        "print([m for m in ('torch', 'transformers', 'pyarrow') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.strip() == "[]"
