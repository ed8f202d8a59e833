"""An engine without a model: it answers every task with the same program."""

from upsolve.policy.engines import Engine
from upsolve.types import Attempt

ADD = "a, b = map(int, input().split())\nprint(a + b)"


def make(config, model):
    def sample(tasks, *, config=config, author="", on_done=None):
        code = f"# {config.settings['comment']}\n{ADD}"
        for number, task in enumerate(task for task in tasks for _ in range(config.samples)):
            yield Attempt(task.task_id, code, author=author or model.name, tokens=len(code.split()))
            if on_done:
                on_done(number + 1)

    return sample


PARROT = Engine(make, options={"comment": "parrot"})
