"""Run jobs on warm sandbox servers under limits: one server per thread and profile, restarted when it breaks."""

import json
import marshal
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from upsolve.errors import IsolationError, JudgeError
from upsolve.languages import required_by, runs_programs
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.resources import LONGEST_RUN, CoreWatch
from upsolve.verify.sandbox.gvisor import KERNEL_BYTES, KERNEL_PROCESSES
from upsolve.verify.sandbox.inside.messages import STEADY
from upsolve.verify.sandbox.process import SLOTS, Job, RenewError, Server

__all__ = ["LONGEST_JUDGED", "REQUIRED", "Exit", "demand_layers", "run_jobs", "server"]

REQUIRED = (
    *("pidns", "netns", "mountns", "ipcns", "seccomp", "no_new_privs", "rlimits"),
    *(("own_uid",) if os.geteuid() == 0 else ()),  # without it an attempt of root could read root's files
)
"""Layers without which untrusted code is not judged, unless isolation is ``best_effort``."""
RESULTS_READ = 16 << 20
PATIENCE = 8.0
"""Factor on the elapsed-time limits when a run is repeated because it waited for its core."""
LONGEST_JUDGED = LONGEST_RUN + PATIENCE
"""Maximum elapsed time of a job with its repetition, as a multiple of its limit."""
LONG_SECONDS = 0.3
"""Seconds; a shorter run never counts as having waited for its core."""
STACK_BYTES = 1280 << 20
"""Extra address space for the stacks of threads, bytes; the control group limits the memory of programs with threads."""
PACKAGES_BYTES = 1 << 30
"""Extra address space for the libraries of required packages, which reserve far more than they use, bytes."""
MOST_RECORDS = 1 << 16
"""Maximum number of result lines that are read in addition to one per test."""
EAGER_BYTES = 1 << 18
"""Size of results that are parsed as a whole, bytes: parsed, 16 MiB take 600 MiB of memory."""
REPORT_BYTES = 1 << 12
"""Maximum size of the result line of a test that timed out, bytes."""
OTHER_BYTES = 1 << 20
"""Maximum size of the lines in longer results that belong to no test, such as executed lines, bytes."""
ERROR_BYTES = 16 << 20
"""Size of standard error at which a run exceeds its output limit, bytes. Standard error never contains an answer."""
WITHOUT_TESTS = ("program", "script", "command")
"""Kinds of jobs whose result lines belong to no test."""
OF_TEST = re.compile(rb'\{"test": ?(\d{1,9}),')
"""Beginning of the result line of a test."""
OWN_MEMORY = 64 << 20
"""Memory of the control group reserved for the launcher and the server, bytes."""


@dataclass(frozen=True)
class Exit:
    """End of a job; every number comes from the kernel or the server, none from the attempt."""

    returncode: int | None
    """Exit code of the attempt's process, 0-255; None if a signal or the deadline ended it."""
    signal: int = 0
    """Number of the signal that ended the process; 0 if none."""
    timed_out: bool = False
    """True if it exceeded its deadline or its CPU time limit."""
    out_of_memory: bool = False
    """True if the kernel's out-of-memory killer ended a process of the run's control group, possibly a child process."""
    wall_seconds: float = 0.0
    """Elapsed time from fork to exit, seconds."""
    cpu_seconds: float = 0.0
    """CPU time of the attempt's process, its children and its orphans, seconds."""
    memory_bytes: int = 0
    """Peak resident memory of the attempt's process, bytes."""
    results: bytes = b""
    """Raw result lines, written by the tester or, untrusted, by the attempt's process."""
    stdout: bytes = b""
    """Standard output, truncated at ``Limits.output_bytes``."""
    stderr: bytes = b""
    """Standard error, truncated at ``Limits.output_bytes``."""
    output_exceeded: bool = False
    """True if standard output or the results exceeded the limit, or standard error ERROR_BYTES."""
    layers: tuple[str, ...] = ()
    """Names of the active isolation layers."""
    waited_seconds: float = 0.0
    """Time for which a run that reached its deadline was runnable but waited for a core, seconds; 0 if unknown."""
    contended: bool = False
    """True if other processes kept the run's cores busy, so that it may have waited for them."""
    most_records: int = MOST_RECORDS
    """Maximum number of result lines that are read."""
    used_up: bool = False
    """True if the run's CPU time is at least STEADY times its limit of CPU time or of elapsed time."""

    @property
    def counted_seconds(self) -> float:
        """Time that counts against a budget, seconds: elapsed time, or CPU time if the run was contended."""
        return min(self.wall_seconds, self.cpu_seconds) if self.contended else self.wall_seconds

    @cached_property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """Result lines that are JSON objects; parsed on first access."""
        return tuple(parse_records(self.results, self.most_records))

    @cached_property
    def reports(self) -> Sequence[Mapping[str, Any]]:
        """``records``; for long results, objects of bounded size: the line of a test becomes ``{"test": index, "part": (start, end)}`` (``line``)."""
        return self.records if len(self.results) <= EAGER_BYTES else tuple(places_of(self.results, self.most_records))

    @property
    def late_tests(self) -> Sequence[Mapping[str, Any]]:
        """Result lines of tests that exceeded their time limit."""
        lines = (self.line(report, REPORT_BYTES) for report in self.reports if "test" in report)
        return [line for line in lines if "timeout" in line]

    @property
    def steadily_late(self) -> bool:
        """True if the run, or each of its late tests, timed out by CPU time: a busy machine does not change that outcome."""
        late = () if self.timed_out else self.late_tests
        return self.used_up or (len(late) > 0 and all(line.get("busy") is True for line in late))

    def line(self, report: Mapping[str, Any], max_bytes: int) -> Mapping[str, Any]:
        """Return the result line of a test in ``reports``; its value is opaque if the line is longer than ``max_bytes``."""
        if "part" not in report:
            return report
        start, end = report["part"]
        if end - start > max_bytes:
            return {"test": report["test"], "value": ["opaque", "too large"]}
        line = parsed(self.results[start:end].decode("utf-8", "replace"))
        return line if isinstance(line, dict) else {}


class OfThread(threading.local):
    """State of one thread."""

    def __init__(self) -> None:
        self.servers: dict[tuple[str, bool], Server] = {}
        """Servers of the thread, by (profile, whether under gVisor)."""
        self.watch = CoreWatch()


own = OfThread()


def server(profile: str = "python", *, gvisor: bool = False) -> Server:
    """Return this thread's server of a profile; start one if there is none."""
    if (profile, gvisor) not in own.servers:
        own.servers[profile, gvisor] = Server(profile, gvisor=gvisor)
    return own.servers[profile, gvisor]


def forget_server(profile: str = "python", *, gvisor: bool = False) -> None:
    """End this thread's server of a profile; the next job starts another."""
    if (profile, gvisor) in own.servers:
        own.servers.pop((profile, gvisor)).close()


@lru_cache
def server_limits(limits: Limits, folder: str, profile: str, grouped: bool) -> bytes:
    """Return the marshalled limits of a request; jobs of compiled programs carry further limits."""
    wide = {"address_bytes": 0, "file_bytes": 512 << 20, "processes": max(256, limits.processes), "cpu_seconds": 600}
    libraries = PACKAGES_BYTES if required_by(profile) else 0
    lean = {"address_bytes": limits.memory_bytes + libraries, "file_bytes": RESULTS_READ}
    options = {"files": 1024, "stack_bytes": STACK_BYTES if grouped else 0, "folder": folder}
    return marshal.dumps({**asdict(limits), **options, **(wide if runs_programs(profile) else lean)})


def run_jobs(jobs: Sequence[Job], settings: JudgeSettings) -> list[Exit]:
    """Run jobs, one after the other, and return how each ended, in order.

    Raises:
        IsolationError: a required layer is not available on this machine; names it.
        JudgeError: the sandbox broke; says how. No job has a result then.
    """
    ends: list[Exit] = []
    limits = settings.limits
    while len(ends) < len(jobs):
        left = jobs[len(ends) :]
        running = server(left[0].profile, gvisor=settings.isolation == "gvisor")
        demand_layers(running, settings)
        same = next((index for index, job in enumerate(left) if job.profile != left[0].profile), len(left))
        exits = run_part(running, left[: min(same, SLOTS if running.private else 1)], limits)
        ends += [run_again(job, running, limits) if starved(job, end) else end for job, end in zip(left, exits, strict=False)]
    return ends


def starved(job: Job, end: Exit) -> bool:
    """Return whether a run may have timed out because of waits for a core that were not measured.

    This is assumed if its CPU time is between 1/32 and 3/4 of the elapsed time without measured waits. A run below 1/32 has slept: even beside 30
    busy processes it would have got more. Waits are not measured for the limit of one test, for processes that ended before the deadline, and on
    kernels without scheduler statistics. A late test that the attempt reports counts only if the run took the time of a test.
    """
    own = end.wall_seconds - end.waited_seconds
    if not (end.contended and own / 32 < end.cpu_seconds < 0.75 * own):
        return False
    each = (job.tester or job.attempt).get("test_seconds", 0)
    return end.timed_out or (0 < each <= end.wall_seconds and len(end.late_tests) > 0)


def run_again(job: Job, running: Server, limits: Limits) -> Exit:
    """Run a job again with PATIENCE times its limits of elapsed time, not extended further; the CPU time limit is unchanged.

    A program that was built is built again, in empty folders. JudgeError if this fails.
    """

    def patient(part: dict[str, Any]) -> dict[str, Any]:
        return {**part, "test_seconds": PATIENCE * part["test_seconds"]} if "test_seconds" in part else part

    def run(one: Job) -> list[Exit]:
        return run_part(server(one.profile, gvisor=running.gvisor), [one], limits)

    tester = patient(job.tester) if job.tester else None
    longer = replace(job, attempt=patient(job.attempt), tester=tester, wall_seconds=PATIENCE * job.wall_seconds, waits=False)
    if job.build and [end.returncode for end in run(job.build)] != [0]:
        raise JudgeError("a program could not be built again, to repeat a run that had waited for a core")
    return run(longer)[0]


def demand_layers(running: Server, settings: JudgeSettings) -> None:
    """Raise IsolationError if a required layer is missing, unless isolation is ``best_effort``."""
    missing = [name for name in REQUIRED if name not in running.layers]
    if settings.isolation != "best_effort" and missing:
        raise IsolationError(
            f"isolation layers not available on this machine: {', '.join(missing)}; run as root, or allow unprivileged user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), "
            "or set isolation: best_effort to judge without them; docs/install.md has containers"
        )


def run_part(running: Server, jobs: Sequence[Job], limits: Limits) -> list[Exit]:
    """Run the jobs of one request on a server; return an Exit for each job that was run, which may be fewer.

    The kernel counts out-of-memory kills per control group. After such a kill, the first job that ended by SIGKILL (or else the first job) is run
    again alone, which attributes the kill to a job; later jobs are run again, too.
    """
    folder, profile, gvisor = running.work_folder(jobs[0].continues), jobs[0].profile, running.gvisor
    memory = max(job.memory_bytes or limits.memory_bytes for job in jobs) + (KERNEL_BYTES if gvisor else OWN_MEMORY)
    running.group.limit(memory, (512 if runs_programs(profile) else limits.processes + 8) + KERNEL_PROCESSES * gvisor)
    own.watch.begin()
    try:
        ends, lasts = running.run(jobs, server_limits(limits, folder, profile, running.group.active), limits.cpu_seconds)
        contended = max((end[4] for end in ends), default=0.0) > LONG_SECONDS and own.watch.contended()
        oom = running.group.out_of_memory()
        killed = (number for number, end in enumerate(ends) if os.WIFSIGNALED(int(end[0])) and os.WTERMSIG(int(end[0])) == 9)
        sure = len(jobs) if len(jobs) == 1 or not oom else next(killed, 0)
        facts = {"oom": oom and len(jobs) == 1, "contended": contended}
        collected = [collect(running, n, end, limits, job=jobs[n], **facts) for n, end in enumerate(ends[:sure])]
        running.empty_files(len(jobs))
        if not lasts:
            forget_server(profile, gvisor=gvisor)
        return collected if sure else run_part(server(profile, gvisor=gvisor), jobs[:1], limits)
    except RenewError as error:
        forget_server(profile, gvisor=gvisor)
        if running.fresh:
            raise JudgeError(
                "the limits of an attempt exceed those of this process; raise these (ulimit), or lower the limits in `verify`"
            ) from error
        return []
    except JudgeError:
        memory = len(jobs) == 1 and running.group.out_of_memory()
        full = memory or (len(jobs) == 1 and gvisor and running.group.out_of_processes())
        forget_server(profile, gvisor=gvisor)
        if not full:
            raise
        # the attempt also ended its server: it exhausted memory or, under gVisor, processes
        return [Exit(None, signal=9, out_of_memory=memory, layers=running.layers)]


def collect(running: Server, number: int, end: list[float], limits: Limits, *, job: Job, oom: bool, contended: bool) -> Exit:
    """Return the Exit of a job in a slot, from the six numbers of ``Server.run`` and the memory files."""
    out, err, results, _, _ = running.slot(number)
    code, timed_out, cpu_seconds, memory_bytes, wall_seconds, waited_seconds = end
    code = int(code)
    signalled = os.WIFSIGNALED(code)
    most = OTHER_BYTES if job.attempt["kind"] in WITHOUT_TESTS else max(RESULTS_READ, limits.output_bytes)
    stdout, stderr = (content(handle, limits.output_bytes + 1) for handle in (out, err))
    return Exit(
        returncode=None if signalled else os.WEXITSTATUS(code),
        signal=os.WTERMSIG(code) if signalled else 0,
        timed_out=bool(timed_out) or cpu_seconds > job.attempt.get("seconds", limits.cpu_seconds),
        out_of_memory=oom,
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        memory_bytes=int(memory_bytes),
        results=content(results, most),
        stdout=stdout[: limits.output_bytes],
        stderr=stderr[: limits.output_bytes],
        output_exceeded=len(stdout) > limits.output_bytes
        or os.fstat(err).st_size >= max(ERROR_BYTES, limits.output_bytes)
        or os.fstat(results).st_size >= max(RESULTS_READ, limits.output_bytes),
        layers=running.layers,
        waited_seconds=waited_seconds,
        contended=contended,
        most_records=MOST_RECORDS + len((job.tester or job.attempt).get("tests", ())),
        used_up=cpu_seconds >= STEADY * min(job.attempt.get("seconds", limits.cpu_seconds), job.wall_seconds),
    )


def content(handle: int, max_bytes: int) -> bytes:
    """Return at most ``max_bytes`` of a file; the buffer is never larger than the file, since allocating the limit is slow."""
    return os.pread(handle, min(max_bytes, os.fstat(handle).st_size), 0)


def places_of(data: bytes, most_records: int) -> Iterator[Mapping[str, Any]]:
    """Yield the result lines of long results; lines of tests by their offsets (``Exit.reports``)."""
    start, left = 0, OTHER_BYTES
    for _ in range(most_records):
        end = data.find(b"\n", start)
        whole, end = end >= 0, len(data) if end < 0 else end
        if whole and (found := OF_TEST.match(data, start, end)):
            yield {"test": int(found[1]), "part": (start, end)}
        elif end - start <= left:
            left -= end - start
            record = parsed(data[start:end].decode("utf-8", "replace"))
            if isinstance(record, dict):
                yield record
        start = end + 1
        if start >= len(data):
            return


def parse_records(data: bytes, most_records: int) -> list[Mapping[str, Any]]:
    """Return the JSON objects among the first result lines; the attempt may have written anything."""
    *lines, last = data.decode("utf-8", "replace").split("\n", most_records)
    try:
        parsed_lines = None if last else json.loads(f"[{','.join(lines)}]")
    except (ValueError, RecursionError, MemoryError):
        parsed_lines = None
    if parsed_lines is None or len(parsed_lines) != len(lines):
        parsed_lines = [parsed(line) for line in (*lines, last) if line.startswith("{")]
    return [record for record in parsed_lines if isinstance(record, dict)]


def parsed(line: str) -> Any:
    """Return the JSON value of a line; None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return None
