"""Several nodes of one run: equal copies of input files, files of rank 0 for disks that are not shared, and lost nodes.

The disk of rank 0 holds the run. Where another node does not see it, files go over the process group: rank 0 sends the checkpoint and the samples of
earlier rounds; the node sends its part of a checkpoint back.
"""

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from upsolve.archive.store import open_filled
from upsolve.config import ModelConfig
from upsolve.errors import ModelError, TrainingError, one_line
from upsolve.files import is_remote
from upsolve.policy.locate import locate
from upsolve.train.run.folder import CHECKPOINT, PARTS, WEIGHTS
from upsolve.train.run.processes import Processes

__all__ = ["collect", "digest_of", "find_disks", "leave_disks", "spread", "watched"]

CHUNK = 1 << 24
"""Bytes that are sent at once."""
NEEDED = (CHECKPOINT, PARTS, "rollouts", "rounds")
"""Files of a run folder that every rank reads."""
WHOLE, PIECES = 1 << 26, 64
"""Bytes up to which a file is compared whole, and the pieces of 1 MiB that are compared of a larger one."""
BEAT, LOST = 2.0, 40.0
"""Seconds between two signs of life of a node, and seconds without one after which it is lost."""
CLOSED = ("connection closed by peer", "connection reset", "broken pipe", "connection refused", "socket closed")
"""Messages of gloo and NCCL when a process of the run has ended, in lower case."""
RESUME = "run the same command on all nodes to resume from the last checkpoint"


def digest_of(root: Path) -> str:
    """Return a digest of a file, or of all files of a folder: names, sizes and content. For a file above 64 MiB only 64 pieces of 1 MiB are read."""
    digest = sha256()
    for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
        if path.is_file():
            size, read = path.stat().st_size, WHOLE
            digest.update(f"{path.relative_to(root)} {size}\n".encode())
            starts = [0]
            if size > WHOLE:
                read, starts = 1 << 20, [(size - (1 << 20)) * n // (PIECES - 1) for n in range(PIECES)]
            with path.open("rb") as handle:
                for start in starts:
                    handle.seek(start)
                    digest.update(handle.read(read))
    return digest.hexdigest()[:12]


def copies_of(settings: str, archive: str, model: ModelConfig) -> dict[str, str]:
    """Return digests of the recipe, the archive and the model that a node reads; an archive at a URL and a hub's model have none."""
    place, parts = open_filled(archive).path, dict[str, str]()
    if not is_remote(place):
        parts = {f"archive {archive}, {table}": digest_of(place / table) for table in ("tasks", "attempts", "verdicts")}
    with suppress(ModelError):  # loading it says what is wrong
        location = locate(model.name, offline=model.offline)
        files = location.gguf or Path(location.where)
        parts |= {f"model {model.name}": digest_of(files)} if files.exists() else {}
    return {"recipe": sha256(settings.encode()).hexdigest()[:12], **parts}


def check_copies(processes: Processes, settings: str, archive: str, model: ModelConfig) -> None:
    """Raise TrainingError on all ranks if a node has another recipe, archive or model than rank 0's. Collective."""
    if processes.nodes == 1:
        return
    own = [(socket.gethostname(), copies_of(settings, archive, model))] if processes.is_first_of_node else []
    (host, first), *others = processes.gather(own)
    for other, copies in others:
        for name, digest in first.items():
            if copies.get(name) != digest:
                raise TrainingError(
                    f"{name}: node {other} has another copy ({copies.get(name)}) than node {host} of rank 0 ({digest}); "
                    "copy the files of rank 0's node there (rsync -a --delete), and start all nodes with the same command"
                )


def find_disks(folder: Path, processes: Processes) -> None:
    """Find the nodes that do not share the disk of rank 0, and send them the files of the run's folder that they read. Collective."""
    if processes.nodes == 1:
        return
    mark = folder / f".seen-{processes.from_main(lambda: uuid4().hex)}"
    if processes.is_main:
        mark.touch()
    processes.wait()
    alone = not mark.exists() and processes.is_first_of_node
    processes.disks = sorted(processes.gather([processes.index] if alone else []))
    if processes.is_main:
        mark.unlink()
    for name in NEEDED:
        spread(folder / name, processes)


def files_of(root: Path) -> dict[str, str]:
    """Return the digest of each file of a folder (or of a single file) by its name in the folder; {} if there is none."""
    paths = [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else [root] * root.is_file()
    return {str(path.relative_to(root)): digest_of(path) for path in paths}


def pieces(file: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces; the last piece is empty."""
    with file.open("rb") as handle:
        while piece := handle.read(CHUNK):
            yield piece
    yield b""


def send(root: Path, name: str, processes: Processes, *, source: int, keeps: bool) -> None:
    """Send a file from the disk of a rank; ``keeps``: this rank writes it. Collective."""
    content = pieces(root / name) if processes.index == source else iter(())
    target = root / name
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    if keeps:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
    while piece := processes.from_rank(source, partial(next, content)):
        if keeps:
            with temporary.open("ab") as handle:
                handle.write(piece)
    if keeps:
        temporary.touch()
        temporary.replace(target)


def spread(root: Path, processes: Processes) -> None:
    """Make a file or folder of rank 0 the same on nodes that do not share its disk. Collective."""
    if not processes.disks:
        return
    writes = processes.index in processes.disks
    wanted: Mapping[str, str] = processes.from_main(lambda: files_of(root))
    here = files_of(root) if writes else {}
    for name in here.keys() - wanted.keys():
        (root / name).unlink()
    missing = {name for name, digest in wanted.items() if writes and here.get(name) != digest}
    for name in sorted({*processes.gather([*missing])}):
        send(root, name, processes, source=0, keeps=name in missing)


def collect(root: Path, processes: Processes) -> None:
    """Move the files that nodes with disks of their own wrote into a folder to the disk of rank 0. Collective."""
    for rank in processes.disks:
        for name in sorted(processes.from_rank(rank, lambda: files_of(root))):
            send(root, name, processes, source=rank, keeps=processes.is_main)
        if processes.index == rank:
            shutil.rmtree(root, ignore_errors=True)


def leave_disks(folder: Path, processes: Processes) -> None:
    """Remove the copies of a finished run's files from a node that has a disk of its own."""
    if processes.index in processes.disks:
        (folder / CHECKPOINT).unlink(missing_ok=True)
        for name in (*NEEDED[1:], WEIGHTS):
            shutil.rmtree(folder / name, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


class Watch:
    """Ends this process with one line when another node gives no sign of life, or when the store of rank 0's node does not answer.

    A node that crashes closes its connections, so collectives fail at once. A node that loses its network or power does not: collectives would wait
    for ``PATIENCE``.
    """

    def __init__(self, processes: Processes) -> None:
        """Start beating and watching, in threads."""
        self.node, self.nodes, self.stopped = processes.index // processes.per_node, processes.nodes, threading.Event()
        self.heard = dict.fromkeys(range(self.nodes), time.monotonic())
        self.values: dict[int, bytes] = {}
        for work in (self.beat, self.watch):
            threading.Thread(target=work, daemon=True, name="upsolve-nodes").start()

    def beat(self) -> None:
        """Write this node's sign of life to the store, and read those of other nodes; a store that does not answer blocks this thread."""
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        with suppress(Exception):  # the other thread ends the run
            store = STORES.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=LOST))
            while not self.stopped.is_set():
                self.tell(store, uuid4().hex)
                for node in range(self.nodes):
                    key = f"upsolve/{node}"
                    if store.check([key]) and self.values.get(node) != (value := store.get(key)):
                        self.values[node], self.heard[node] = value, time.monotonic()
                    if self.values.get(node) == b"done":
                        self.heard[node] = time.monotonic()
                self.stopped.wait(BEAT)
            self.tell(store, "done")

    def tell(self, store: Any, text: str) -> None:
        """Write a sign of life of this node."""
        store.set(f"upsolve/{self.node}", text)

    def watch(self) -> None:
        """End the process when another node is silent. If even this node's own sign of life is old, the store is silent: name node 0, which holds the
        store."""
        while not self.stopped.wait(1.0):
            silent = [node for node, heard in self.heard.items() if time.monotonic() - heard > LOST]
            if silent:
                named = f"node {silent[0]}" if self.node not in silent else "node 0, or the network to it,"
                print(
                    f"upsolve: {named} has not answered for {LOST:.0f} s, so the run ends; {RESUME}",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)


STORES: Any = torch.distributed
WATCHING: list[Watch] = []
"""The ``Watch`` of this process while it runs; else empty."""


@contextmanager
def watched(processes: Processes, settings: str, archive: str, model: ModelConfig) -> Generator[None]:
    """Check the copies of all nodes (``check_copies``), then end the run within a minute if a node is lost, with one line.

    TrainingError: a copy differs, or a process of the run has ended.
    """
    first = processes.nodes > 1 and processes.is_first_of_node and not WATCHING
    if first:
        WATCHING.append(Watch(processes))
    try:
        check_copies(processes, settings, archive, model)
        yield
    except RuntimeError as error:
        if processes.count > 1 and any(closed in str(error).lower() for closed in CLOSED):
            raise TrainingError(
                f"another process of the run has ended, or cannot be reached ({one_line(error)}); {RESUME}"
            ) from error
        raise
    finally:
        if first:
            WATCHING.pop().stopped.set()
