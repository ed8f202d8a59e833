"""``upsolve verify --serve``: the judge over HTTP."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upsolve.errors import ConfigError

if TYPE_CHECKING:
    from upsolve.config import RewardConfig
    from upsolve.verify.limits import JudgeSettings

__all__ = ["Host", "Port", "Serve", "TokenFile", "start"]

Serve = Annotated[bool, typer.Option("--serve", help="Serve the judge over HTTP instead of judging an archive.")]
Host = Annotated[str, typer.Option(help="--serve: address to listen on; an address other than localhost needs a token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="--serve: port to listen on; 0: any free port.")]
TokenFile = Annotated[
    Path | None, typer.Option(help="--serve: file with the token that requests must send; default: $UPSOLVE_TOKEN.")
]


def start(settings: "JudgeSettings", host: str, port: int, token_file: Path | None, *, rewards: "RewardConfig") -> None:
    """Serve until stopped; the options of the command line are the defaults of requests, ``rewards`` is for trainers."""
    from upsolve.adapters.openrlhf import reward_route
    from upsolve.adapters.scoring import with_analyses
    from upsolve.verify.service.app import serve
    from upsolve.verify.service.scheduler import Service

    service = Service(with_analyses(settings, rewards), token=token_of(token_file))
    serve(service, host, port, routes={"/openrlhf": reward_route(rewards)}, say=typer.echo)


def token_of(file: Path | None) -> str:
    """Return the token, empty if there is none."""
    if file is None:
        return os.environ.get("UPSOLVE_TOKEN", "").strip()
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {file}: cannot be read: {error}") from error
    if not token:
        raise ConfigError(f"--token-file {file}: the file is empty; create a token, for example with `openssl rand -hex 32`")
    return token
