"""The built-in export formats by name."""

from collections.abc import Mapping

from upsolve.exports.formats import jsonl, prompts, samples, trl
from upsolve.exports.record import Export

__all__ = ["EXPORTS"]

EXPORTS: Mapping[str, Export] = {
    "evalplus": samples.EVALPLUS,
    "groups": trl.GROUPS,
    "human-eval": samples.HUMAN_EVAL,
    "jsonl": jsonl.JSONL,
    "kto": trl.KTO,
    "openrlhf": prompts.OPENRLHF,
    "pairs": trl.PAIRS,
    "sft": trl.SFT,
    "verl": prompts.VERL,
}
"""Name of a format -> record."""
