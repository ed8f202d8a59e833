"""``python -m upsolve`` is the command line."""

import sys
from pathlib import Path

__all__: list[str] = []


def leave_current_folder() -> None:
    """Remove the current folder, which ``python -m`` puts first, from the module path, so that its files replace no package. If upsolve is in this
    folder, move the folder to the end of the path."""
    here = str(Path.cwd())
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", here):
        del sys.path[0]
        if Path(__file__).parents[1] == Path(here):
            sys.path.append(here)


if __name__ == "__main__":
    leave_current_folder()
    from upsolve.cli.main import main

    main()
