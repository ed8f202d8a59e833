"""Judge many attempts at once, over all cores."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.judge import judge
from upsolve.verify.limits import Limits

__all__ = ["verify"]


def verify(
    pairs: Sequence[tuple[Task, Attempt]],
    *,
    limits: Limits | None = None,
    workers: int = 0,
    isolation: str = "required",
    on_done: Callable[[int, Verdict], None] | None = None,
) -> list[Verdict]:
    """Judge attempts in parallel; equal attempts are judged once.

    Args:
        pairs: tasks and attempts.
        limits: of one attempt; None means the defaults.
        workers: how many at once; 0 means one a core.
        isolation: ``required`` or ``best_effort``.
        on_done: called in this thread with an index into ``pairs`` and its verdict, as they come.

    Returns:
        Verdicts in the order of ``pairs``; what could not be judged is ``UNSCORED``, with the reason.

    Raises:
        IsolationError: a required layer is missing here.
    """
    places: dict[str, list[int]] = {}
    for index, (_, attempt) in enumerate(pairs):
        places.setdefault(attempt.attempt_id, []).append(index)
    verdicts: dict[int, Verdict] = {}
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        waiting: dict[Future[Verdict], list[int]] = {
            pool.submit(judge, *pairs[same[0]], limits, isolation=isolation): same for same in places.values()
        }
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    for index in waiting.pop(future):
                        verdicts[index] = future.result()
                        if on_done:
                            on_done(index, verdicts[index])
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [verdicts[index] for index in range(len(pairs))]
