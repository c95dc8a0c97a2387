"""`vpm status`: see the manual. Exit code 0: nothing needs a look, 1: something does, 2: the database is away."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from core.config import environment
from core.errors import VpmError
from scripts._status.concerns import concerns
from scripts._status.facts import StatusFacts, read
from scripts._status.scrape import scrape
from scripts._status.view import lines

CANNOT_READ = 2
MIN_WATCH_SECONDS = 1.0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="vpm status", description="One look at everything that runs.", allow_abbrev=False
    )
    parser.add_argument("--ready", type=Path, help="the ready file of a local stack, which names everything")
    parser.add_argument("--database", help="PostgreSQL instead of DATABASE_URL")
    parser.add_argument(
        "--metrics", action="append", default=[], metavar="NAME=URL", help="a daemon's /metrics; repeatable"
    )
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="again and again")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    options = parser.parse_args(argv)
    try:
        url, endpoints = _where(options)
    except ValueError as error:
        print(f"vpm status: {error}", file=sys.stderr)
        return CANNOT_READ
    while True:
        code = _once(url, endpoints, as_json=options.json, clear=options.watch is not None)
        if options.watch is None:
            return code
        time.sleep(max(MIN_WATCH_SECONDS, options.watch))


def _where(options: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """The database, and metrics addresses by name. ValueError with a sentence."""
    endpoints: dict[str, str] = {}
    url = options.database or environment(os.environ).secret("DATABASE_URL")
    if options.ready is not None:
        try:
            ready = json.loads(options.ready.read_text())
            url, endpoints = options.database or ready["database_url"], dict(ready["metrics"])
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"{options.ready} is no ready file of a running stack ({error}).") from None
    for given in options.metrics:
        name, equals, address = given.partition("=")
        endpoints[name if equals else given] = address if equals else given
    if not url:
        raise ValueError("DATABASE_URL is not set: set it, or give --database URL or --ready FILE.")
    return str(url), endpoints


def _once(url: str, endpoints: dict[str, str], *, as_json: bool, clear: bool) -> int:
    metrics = scrape(endpoints)
    try:
        facts = StatusFacts(read(url), metrics)
    except VpmError as error:
        if as_json:
            print(json.dumps({"ok": False, "error": error.sentence(), "metrics": metrics}, indent=2))
        else:
            print(f"vpm status: {error.sentence()}", file=sys.stderr)
            for name, seen in metrics.items():
                print(f"  {name}: {'answers' if seen['up'] else 'down, ' + seen['why']}", file=sys.stderr)
        return CANNOT_READ
    worries = concerns(facts)
    if as_json:
        body: dict[str, Any] = {"ok": not worries, "concerns": worries, **facts.sections, "metrics": facts.metrics}
        print(json.dumps(body, indent=2, default=str))
    else:
        if clear:
            print("\x1b[2J\x1b[H", end="")
        print("\n".join(lines(facts, worries)))
    return 1 if worries else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
