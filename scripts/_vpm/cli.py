"""The command line, run in the prepared environment."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable

from core.paths import REPOSITORY
from scripts._vpm import manual


def up(argv: list[str]) -> int:
    from scripts._local.forking import ForkServer, serving
    from scripts._stack.daemons import IMPORTS
    from scripts._stack.options import StackError, check_port, parse
    from scripts._stack.state import exclusive
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

    parser = argparse.ArgumentParser(prog="vpm bench")
    parser.add_argument("what", choices=NAMES)
    parser.add_argument("--quick", action="store_true", help="the smallest form, to see that it runs")
    args = parser.parse_args(argv)
    return run(args.what, quick=args.quick)


def verify(argv: list[str]) -> int:
    if not _has_rpc_option(argv):
        _use_local_stack()
    return _module("scripts._verify", argv)


def command(
    package: str, *words: str, is_local: Callable[[list[str]], bool] = lambda _argv: False
) -> Callable[[list[str]], int]:
    """Return a command that runs another module. `is_local` decides whether the command uses the local stack, if one
    runs and the settings name no other service."""

    def run(argv: list[str]) -> int:
        if is_local(argv):
            _use_local_stack()
        return _module(package, [*words, *argv])

    return run


def local_command(package: str, *words: str) -> Callable[[list[str]], int]:
    """Return a command that uses the local stack, if one runs and the settings name no other service."""
    return command(package, *words, is_local=lambda _argv: True)


def _has_rpc_option(argv: list[str]) -> bool:
    """Return whether the command line has --rpc, as `--rpc URL` or `--rpc=URL`. The programs accept no abbreviation of
    --rpc."""
    return any(word.partition("=")[0] == "--rpc" for word in argv)


def _use_local_stack() -> None:
    from scripts._stack.local_stack import local_stack

    stack = local_stack(os.environ)
    if stack is not None:
        print(f"No other service is set; using the local stack at {stack.base_url}.", file=sys.stderr)
        os.environ.update(stack.variables)


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
    if name in CHECKOUT_ONLY and not (REPOSITORY / "pyproject.toml").exists():
        print(
            f"vpm: '{name}' needs a checkout of the project; this is the image, which only runs the service.",
            file=sys.stderr,
        )
        return 2
    return COMMANDS[name](argv)


if __name__ == "__main__":
    sys.exit(main())
