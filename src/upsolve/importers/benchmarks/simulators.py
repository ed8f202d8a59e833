"""Tasks with simulated worlds as tests: the folder of a domain, and tasks composed by a grammar (``docs/simulators.md``)."""

from upsolve.importers.source import Option, Source
from upsolve.worlds.composed.source import read as read_composed
from upsolve.worlds.tasks import domain_folder, read

__all__ = ["COMPOSED", "SIMULATOR"]

SIMULATOR = Source(read, "`robot`, or the folder of a domain", locate=domain_folder)
COMPOSED = Source(
    read_composed,
    "`robot`",
    (
        Option("tasks", int, "number of tasks (default: 480)"),
        Option("seed", int, "random seed (default: 0)"),
        Option("docs", str, "description of the robot's methods in prompts: none, names or full (default: none)"),
        Option("worlds", int, "number of worlds of each task (default: 4)"),
    ),
    locate=domain_folder,
)
