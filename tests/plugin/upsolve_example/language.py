"""The shell that every Debian has."""

from upsolve.languages import Language

POSIX = Language(
    "posix",
    file="main.sh",
    run=("sh", "main.sh"),
    compile=("sh", "-n", "main.sh"),
    error=r"^main\.sh: (?P<line>\d+): (?P<message>.*)$",
)
