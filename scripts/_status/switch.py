"""`vpm switch`: the operator's switches. Every process sees a change within two seconds."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys

import psycopg

from core.config import Settings, load
from core.db.engine import connect
from core.db.switches import read_switches, set_switch
from core.errors import VpmError

SWITCHES = {
    "trading_paused": "refuse every trade of the agent API",
    "cup_halted": "refuse real trades and tournament bets of wallets that are not enrolled",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vpm switch", add_help=False)
    parser.add_argument("name", nargs="?", choices=sorted(SWITCHES))
    parser.add_argument("state", nargs="?", choices=("on", "off"))
    parser.add_argument("--reason", default="")
    parser.add_argument("--by")
    options = parser.parse_args(argv)
    if (options.name is None) != (options.state is None):
        parser.error("give both the switch's name and on or off")
    try:
        url = load(Settings).database_url.get_secret_value()
        asyncio.run(_apply(url, options, options.by or _login(parser)))
    except VpmError as error:
        print(f"vpm switch: {error.sentence()}", file=sys.stderr)
        return 2
    except psycopg.Error as error:
        print(f"vpm switch: the database reported an error: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    return 0


def _login(parser: argparse.ArgumentParser) -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a numeric user without a name
        parser.error("you have no login name here; give your name with --by")


async def _apply(url: str, options: argparse.Namespace, by: str) -> None:
    async with await connect(url, application_name="vpm-switch") as connection:
        if options.name is not None:
            await set_switch(connection, options.name, options.state == "on", changed_by=by, reason=options.reason)
        state = await read_switches(connection)
    for name, what in SWITCHES.items():
        print(f"{name:<16} {'on ' if state.get(name) else 'off'}  {what}")


if __name__ == "__main__":
    sys.exit(main())
