"""Checks the sandbox of this machine or a Ray cluster: each isolation layer, then every attack on every kind of tests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby

from upsolve.errors import IsolationError
from upsolve.types import Status, Verdict
from upsolve.verify.attacks import GVISOR_LIMITS, LIMITS, Try, honest, traces, tries
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.pool.pool import verify
from upsolve.verify.resources import usable_cores
from upsolve.verify.sandbox.gvisor import find_runsc
from upsolve.verify.sandbox.runner import REQUIRED

__all__ = ["Check", "checks", "layers", "run_attacks"]

OPTIONAL = tuple(name for name in ("read_only", "landlock", "own_uid", "cgroup") if name not in REQUIRED)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check."""

    group: str
    """``layers``, or the goal of the attack."""
    name: str
    """Name of the layer, or of the attack and kind of tests."""
    ok: bool
    """True if the check passed."""
    required: bool
    """True if untrusted code must not be judged when the check fails."""
    detail: str
    """What was observed."""


def checks(settings: JudgeSettings | None = None, *, quick: bool = False, progress: Progress | None = None) -> Iterator[Check]:
    """Yield the result of every check. If a required layer is missing, no attack is run, since it could reach the host.

    Args:
        settings: workers, executor, and isolation: ``gvisor`` runs the attacks in its containers.
        quick: run one attack per group.
        progress: called with the number of attempts judged and their total.
    """
    settings = replace(settings or JudgeSettings(), cache=None, analyses=(), repeats=1, lines=False)
    gvisor = settings.isolation == "gvisor"
    settings = replace(settings, limits=GVISOR_LIMITS if gvisor else LIMITS, isolation="gvisor" if gvisor else "best_effort")
    results = layers(settings)
    yield from results
    if all(check.ok or not check.required for check in results):
        groups = groupby(tries(), lambda case: case.attack.wants)
        yield from run_attacks([next(group) for _, group in groups] if quick else tries(), settings, progress)


def layers(settings: JudgeSettings) -> list[Check]:
    """Return a check per layer, which must be active on every worker that judges honest attempts."""
    workers = range(settings.workers or usable_cores())
    verdicts = verify([honest("python", f"nothing, {number}") for number in workers], settings)
    active = set[str].intersection(*(set(verdict.isolation.split(",")) for verdict in verdicts))
    broken = [verdict for verdict in verdicts if verdict.status is not Status.PASSED]
    if broken and active.issuperset(REQUIRED):  # without a required layer honest attempts may see others, which says less
        return [Check("layers", "sandbox", ok=False, required=True, detail=f"{broken[0].status} {broken[0].error_message}")]
    results: list[Check] = []
    for name in (*REQUIRED, *OPTIONAL):
        absent = "not available here" + ("; docs/install.md says what the sandbox needs" if name in REQUIRED else "")
        results.append(Check("layers", name, name in active, name in REQUIRED, "active" if name in active else absent))
    return [*results, own_kernel(settings)]


def own_kernel(settings: JudgeSettings) -> Check:
    """Return the check whether gVisor is available."""
    try:
        detail = f"active: {find_runsc()}" if settings.isolation == "gvisor" else f"with isolation: gvisor, by {find_runsc()}"
    except IsolationError as error:
        return Check("layers", "gvisor", ok=False, required=False, detail=str(error))
    return Check("layers", "gvisor", ok=True, required=False, detail=detail)


def run_attacks(todo: Sequence[Try], settings: JudgeSettings, progress: Progress | None = None) -> Iterator[Check]:
    """Run attacks group by group, and yield a check per attack and one per group for what the attacks left behind."""
    numbers, total = count(1), sum(len(planned.pairs()) for planned in todo if not planned.missing())

    def on_done(_place: int, _verdict: Verdict) -> None:
        if progress:
            progress(next(numbers), total)

    for wants, group in groupby(todo, lambda planned: planned.attack.wants):
        before, members = traces(), [*group]
        pairs = [pair for trial in members if not trial.missing() for pair in trial.pairs()]
        verdicts = iter(verify(pairs, settings, on_done=on_done))
        yield from (check_of(trial, [] if trial.missing() else [next(verdicts) for _ in trial.pairs()]) for trial in members)
        left = sorted(traces() - before)
        yield Check(wants, "left behind", not left, required=True, detail=", ".join(left) or "nothing")


def check_of(trial: Try, verdicts: Sequence[Verdict]) -> Check:
    """Return the check of an attack, from its verdicts; without verdicts, the check says why the attack was not run."""
    if not verdicts:
        return Check(trial.attack.wants, trial.name, ok=True, required=False, detail=f"not tried: no {trial.missing()} here")
    wrong = trial.wrong(verdicts)
    return Check(trial.attack.wants, trial.name, not wrong, required=True, detail="; ".join(wrong) or verdicts[0].status.value)
