"""``python -m upsolve`` is the command line."""

from upsolve.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
