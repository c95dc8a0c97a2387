"""The command line, run in the prepared environment."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from core.paths import REPOSITORY
from scripts._vpm import manual

IS_CHECKOUT = (REPOSITORY / "pyproject.toml").exists()
SERVICE_SETTINGS = ("DATABASE_URL", "VPM_BASE_RPC_URLS", "VPM_STOCK_RPC_URLS", "VPM_DEPLOYMENTS_DIR")
"""If one of these settings is set, no command uses the local stack."""


def up(argv: list[str]) -> int:
    from scripts._local.forking import ForkServer, serving
    from scripts._stack.parts import IMPORTS
    from scripts._stack.state import StackError, check_port, exclusive, parse
    from scripts._stack.up import run

    options = parse(argv)
    try:
        check_port(options.port)
        # The daemons' modules are imported while other parts start.
        with exclusive(options.state) as state, serving(lambda: ForkServer(IMPORTS, eager=True)):
            return asyncio.run(run(options, state))
    except StackError as error:
        print(f"\nvpm: {error}", file=sys.stderr)
        return 1


def test(argv: list[str]) -> int:
    from scripts._vpm.checks import main

    return main(argv)


def bench(argv: list[str]) -> int:
    from scripts._bench.harness import NAMES, run

    parser = argparse.ArgumentParser(prog="vpm bench", add_help=False)
    parser.add_argument("what", choices=NAMES)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(argv)
    return run(args.what, quick=args.quick)


def verify(argv: list[str]) -> int:
    if not _has_rpc_option(argv):
        _use_local_stack()
    return _module("scripts._verify", argv)


def command(
    package: str, *words: str, is_local: Callable[[list[str]], bool] = lambda _argv: False
) -> Callable[[list[str]], int]:
    """Return a command that runs another module. If `is_local` returns True for the command line, the module uses the
    local stack, unless the environment names a different service."""

    def run(argv: list[str]) -> int:
        if is_local(argv):
            _use_local_stack()
        return _module(package, [*words, *argv])

    return run


def local_command(package: str, *words: str) -> Callable[[list[str]], int]:
    return command(package, *words, is_local=lambda _argv: True)


def _has_rpc_option(argv: list[str]) -> bool:
    """Return whether the command line has the option --rpc, as `--rpc URL` or `--rpc=URL`. The programs do not accept
    an abbreviated --rpc."""
    return any(word.partition("=")[0] == "--rpc" for word in argv)


def _use_local_stack() -> None:
    settings = local_stack(os.environ)
    if settings is not None:
        print(f"Using the local stack at {settings['VPM_PUBLIC_URL']}.", file=sys.stderr)
        os.environ.update(settings)


def local_stack(variables: Mapping[str, str], root: Path | None = None) -> dict[str, str] | None:
    """Return the settings that make a command use the running local stack. Return None if no stack is ready or if
    `variables` name a different service. There is never a stack in the image."""
    if not IS_CHECKOUT:
        return None
    from core.config import environment
    from scripts._stack.state import DEFAULT_STATE, State, running

    root = root or DEFAULT_STATE
    given = environment(variables)
    if any(name in given for name in SERVICE_SETTINGS) or not running(root):
        return None
    try:
        ready = json.loads(State(root).ready.read_text())
    except (OSError, ValueError):
        return None  # it is still starting
    return {
        "DATABASE_URL": ready["database_url"],
        "VPM_BASE_RPC_URLS": ready["rpc"]["base"],
        "VPM_STOCK_RPC_URLS": ready["rpc"]["stock"],
        "VPM_DEPLOYMENTS_DIR": ready["deployments"],
        "VPM_PUBLIC_URL": ready["base_url"],
    }


def _module(name: str, argv: list[str]) -> int:
    os.execv(sys.executable, [sys.executable, "-m", name, *argv])


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "up": up,
    "test": test,
    "migrate": command("core.db.migrate"),
    "bench": bench,
    "screenshots": command("pytest", "-q", "tests/browser/screenshots.py"),
    "indexer": command("indexer"),
    "relayer": command("relayer"),
    "keeper": command("keeper", is_local=lambda argv: argv[:1] == ["run-once"]),
    "api": command("api"),
    "rebuild": local_command("indexer", "rebuild"),
    "audit": local_command("indexer", "audit"),
    "config": command("core.config"),
    "verify": verify,
    "feed": command(
        "scripts._feed", is_local=lambda argv: argv[:1] in (["cost"], ["record"]) and not _has_rpc_option(argv)
    ),
    "status": local_command("scripts._status"),
    "switch": local_command("scripts._status.switch"),
    "reindex": local_command("scripts._status.reindex"),
    "prove": command("scripts._prove"),
}


CHECKOUT_ONLY = frozenset(COMMANDS) - {
    *("indexer", "relayer", "keeper", "api", "migrate", "config"),
    *("audit", "rebuild", "reindex", "status", "switch", "verify"),
}
"""Commands that the image lacks: it runs the service and its operator's commands."""


def main() -> int:
    exit_code = manual.show_help(sys.argv[1:])
    if exit_code is not None:
        return exit_code
    name, *argv = sys.argv[1:]
    if name in CHECKOUT_ONLY and not IS_CHECKOUT:
        print(
            f"vpm: '{name}' needs a checkout of the project; this is the image, which only runs the service.",
            file=sys.stderr,
        )
        return 2
    return COMMANDS[name](argv)


if __name__ == "__main__":
    sys.exit(main())
