"""inspect_ai: the scorer ``upsolve_scorer``, the task ``upsolve_tasks``, and the sandbox ``upsolve``. inspect finds them by an entry point."""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false, reportUntypedClassDecorator=false

import json
import shlex
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from anyio.to_thread import run_sync
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr
from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, sandboxenv

from upsolve.adapters.scoring import Scorer, task_of
from upsolve.archive.store import read_tasks
from upsolve.policy.prompt import messages
from upsolve.records import to_row
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import SPARE_SECONDS, Batch
from upsolve.verify.sandbox.runner import LONGEST_JUDGED
from upsolve.verify.service.run_code import Program, run_program

__all__ = ["UpsolveSandbox", "upsolve_scorer", "upsolve_tasks"]

OWN = ("main.py", "main.sh")
"""Names of files that the sandbox itself writes; commands cannot change the sample's files of these names."""


@task
def upsolve_tasks(tasks: str = "embedded", recipe: str = "", url: str = "", *, token: str = "", prompt_end: str = "") -> Any:
    """Return the tasks of an archive or ``source:path``, with the prompts that upsolve shows, judged by ``upsolve_scorer``."""
    every = read_tasks(tasks, f"tasks {tasks}")
    dataset = [
        Sample(id=one.task_id, input=messages(one)[0]["content"], metadata={"task": json.dumps(to_row(one))}) for one in every
    ]
    return Task(dataset=dataset, scorer=upsolve_scorer(recipe=recipe, url=url, token=token, prompt_end=prompt_end))


@scorer(metrics=[accuracy(), stderr()])
def upsolve_scorer(tasks: str = "", recipe: str = "", url: str = "", *, token: str = "", prompt_end: str = "") -> Any:
    """Return a scorer: C if all tests pass, else I, with the reward in the metadata; unscored if the judge cannot judge the answer.

    The sample's metadata holds the task (``task``, ``task_id`` or ``tests``), or the sample's id is the id of a task in ``tasks``.
    """
    judge = Scorer(tasks, recipe=recipe or None, url=url, token=token, prompt_end=prompt_end)

    async def score(state: Any, target: Any) -> Any:  # noqa: ARG001  inspect's signature
        row = {"task_id": str(state.sample_id), **(state.metadata or {})}
        found = task_of(row, judge.known)
        (one,) = await run_sync(judge.score, [(found, state.output.completion)])
        about = {**one.outcome, "reward": one.reward}
        if one.reward is None:
            return Score.unscored(reason="scoring_failed", answer=one.attempt.code, explanation=one.reason, metadata=about)
        value = CORRECT if one.passed else INCORRECT
        return Score(value=value, answer=one.attempt.code, explanation=one.error or None, metadata=about)

    return score


@sandboxenv(name="upsolve")
class UpsolveSandbox(SandboxEnvironment):
    """Runs each command in a new sandbox with the files of the sample, without network and without write access to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.settings = JudgeSettings()

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, Any]:  # noqa: ARG003
        """Return the sandbox of a sample."""
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: dict[str, Any], interrupted: bool) -> None:
        """Do nothing: a sandbox ends with its command."""

    async def exec(self, cmd: list[str], input: str | bytes | None = None, cwd: str | None = None, **options: Any) -> Any:  # noqa: A002
        """Run a command for at most ``timeout`` seconds (default: 10): ``python -c CODE`` by a warm interpreter, any other by bash."""
        if options.get("user"):
            raise PermissionError(f"the sandbox of upsolve has only one user, not {options['user']}")
        env: dict[str, str] = options.get("env") or {}
        python = (
            len(cmd) == 3 and cmd[0] in ("python", "python3") and cmd[1] == "-c" and not (cwd or env or "main.py" in self.files)
        )
        lines = [*(f"export {name}={shlex.quote(value)}" for name, value in env.items()), shlex.join(cmd)]
        lines = [f"cd {shlex.quote(relative(cwd))} || exit 1", *lines] if cwd else lines
        stdin = input.encode() if isinstance(input, str) else input or b""
        code, language = (cmd[2], "python") if python else ("\n".join(lines) + "\n", "bash")
        program = Program(code, language, stdin, self.files, fetch=None)
        end, files = await run_sync(self.run, program, options.get("timeout"))
        self.files = files
        if end.timed_out:
            raise TimeoutError(f"{shlex.join(cmd)[:200]}: ran longer than {options.get('timeout') or 'the limit'} s")
        out, err = (text.decode("utf-8", "replace") for text in (end.stdout, end.stderr))
        if end.output_exceeded:
            raise OutputLimitExceededError("1 MiB", out)
        code_of_exit = end.returncode if end.returncode is not None else 128 + end.signal
        return ExecResult(code_of_exit == 0, code_of_exit, out, err)

    def run(self, program: Program, timeout: float | None) -> tuple[Any, dict[str, bytes]]:
        """Return the end of a program's run, and the files after it."""
        limits = self.settings.limits
        limits = replace(limits, wall_seconds=timeout or limits.wall_seconds, cpu_seconds=timeout or limits.cpu_seconds)
        settings = replace(self.settings, limits=limits)
        seconds = SPARE_SECONDS + LONGEST_JUDGED * limits.wall_seconds
        result = Batch(settings).call(run_program, program, settings, seconds=seconds)
        own = {name: data for name, data in self.files.items() if name in OWN}
        return result.noted, {name: data for name, data in result.files.items() if name not in OWN} | own

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file of the sample."""
        self.files = {**self.files, relative(file): contents.encode() if isinstance(contents, str) else contents}

    async def read_file(self, file: str, text: bool = True) -> Any:
        """Return the content of a file of the sample."""
        name = relative(file)
        if any(other.startswith(f"{name}/") for other in self.files):
            raise IsADirectoryError(file)
        if name not in self.files:
            raise FileNotFoundError(file)
        return self.files[name].decode() if text else self.files[name]


def relative(file: str) -> str:
    """Return a path below the folder of the sample; PermissionError for other paths."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts:
        raise PermissionError(f"{file}: is outside the folder of the sample")
    return str(path)
