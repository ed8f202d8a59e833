"""Pay for comments, on the lines that have them; flag programs in capitals."""

import numpy as np

from upsolve.reward.components import Component
from upsolve.reward.credit import Credit, distribute
from upsolve.reward.hacks import Detector
from upsolve.types import Finding


def share_of_comments(judged, _config):
    lines = judged.attempt.code.splitlines()
    return sum("#" in line for line in lines) / len(lines) if lines else 0.0


def on_comments(given):
    lines = given.judged.attempt.code.splitlines()
    found = [Finding("comment", "", "", number) for number, line in enumerate(lines, 1) if "#" in line]
    return np.asarray(distribute(given.part.value, given.tokens_at(found, whole_lines=True), given.code_R))


def shouts(attempt, _task):
    return "all capitals" if attempt.code.isupper() else ""


COMMENTS = Component(share_of_comments, 0, 1, credit=Credit(on_comments))
SHOUTING = Detector(shouts)
