"""The options of `./vpm up`, checked before anything starts."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import VpmError
from core.paths import REPOSITORY

DEFAULT_STATE = REPOSITORY / ".vpm" / "state"


class StackError(VpmError):
    """The local stack cannot start; one sentence says why and what to do."""


@dataclass(frozen=True)
class Options:
    """The options of `vpm up`."""

    port: int
    state: Path
    ready_file: Path | None
    demo: bool
    forks: Mapping[str, str | None]  # by chain, the node to fork or None


def parse(argv: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="vpm up", add_help=False)
    parser.add_argument("--port", type=int, default=8400)
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE)
    parser.add_argument("--ready-file", type=Path)
    parser.add_argument("--no-demo", action="store_true")
    parser.add_argument("--fork-base")
    parser.add_argument("--fork-stock")
    args = parser.parse_args(argv)
    if not 1 <= args.port <= 65535:
        parser.error(f"--port {args.port}: a port is a number from 1 to 65535")
    return Options(
        port=args.port,
        state=args.state.resolve(),
        ready_file=args.ready_file.resolve() if args.ready_file else None,
        demo=not args.no_demo,
        forks={"base": args.fork_base, "stock": args.fork_stock},
    )


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise StackError(f"port {port} is in use by another program; choose one with --port N.") from None
