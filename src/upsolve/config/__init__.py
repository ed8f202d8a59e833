"""Recipes: one strict model a stage. Unknown keys fail; nothing here imports torch.

A recipe is YAML; ``load_recipe`` reads it, ``dump_recipe`` writes the resolved one beside the results.
"""

from upsolve.config.learning import AdvantageConfig, ClipConfig, CorrectionConfig, GaeConfig, KlConfig, ObjectiveConfig
from upsolve.config.online import OwnConfig, SourceConfig
from upsolve.config.recipe import (
    Recipe,
    check_recipe,
    dump_recipe,
    explain,
    load_recipe,
    recipe_names,
    recipe_yaml,
)
from upsolve.config.reward import RewardConfig
from upsolve.config.running import (
    DataConfig,
    EvalConfig,
    ModelConfig,
    MonitorConfig,
    OptimConfig,
    PromptConfig,
    SampleConfig,
    ServerConfig,
    Shot,
    VerifyConfig,
    VllmConfig,
)
from upsolve.config.select import SelectConfig

__all__ = [
    "AdvantageConfig",
    "ClipConfig",
    "CorrectionConfig",
    "DataConfig",
    "EvalConfig",
    "GaeConfig",
    "KlConfig",
    "ModelConfig",
    "MonitorConfig",
    "ObjectiveConfig",
    "OptimConfig",
    "OwnConfig",
    "PromptConfig",
    "Recipe",
    "RewardConfig",
    "SampleConfig",
    "SelectConfig",
    "ServerConfig",
    "Shot",
    "SourceConfig",
    "VerifyConfig",
    "VllmConfig",
    "check_recipe",
    "dump_recipe",
    "explain",
    "load_recipe",
    "recipe_names",
    "recipe_yaml",
]
