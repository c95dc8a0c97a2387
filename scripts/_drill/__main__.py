"""`vpm drill`: see the manual. Exit code 0: everything held; 1: something did not; 2: it cannot be run here."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from core.contracts.deployments import load_deployment
from core.errors import VpmError
from core.paths import REPOSITORY
from scripts._drill.audience import Audience
from scripts._drill.catalogue import DRILLS, QUICK
from scripts._drill.fleet import FleetSize, fleet
from scripts._drill.genesis import genesis
from scripts._drill.guard import NotLocal, require_local
from scripts._drill.load import Load
from scripts._drill.movement import SeenMetrics, judge, watching
from scripts._drill.run import final_checks, run_drills, warm
from scripts._stack.state import State
from scripts._status.table import declared

CANNOT_RUN = 2


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vpm drill", description="Break one thing at a time and see what holds.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="drills to run, see --list")
    parser.add_argument("--all", action="store_true", help="every drill")
    parser.add_argument("--quick", action="store_true", help="a few, about a minute")
    parser.add_argument("--list", action="store_true", help="names and what they break")
    parser.add_argument(
        "--state", type=Path, default=REPOSITORY / ".vpm" / "drill", help="where the service under drill lives"
    )
    parser.add_argument("--small", action="store_true", help="one process of each daemon, two indexers")
    parser.add_argument(
        "--for", dest="seconds", type=float, default=0.0, help="repeat until so many seconds have passed"
    )
    parser.add_argument("--pace", type=float, default=2.0, help="seconds between bets on each surface")
    parser.add_argument("--patience", type=float, default=1.0, help="wait so many times as long, on a busy machine")
    parser.add_argument("--ready", type=Path, help="refuse unless this ready file describes a local stack")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args(argv)
    if options.list:
        for drill in DRILLS.values():
            print(f"{drill.name:<14} {drill.breaks}\n{'':<14} expected: {drill.expected}")
            print(f"{'':<14} afterwards: {drill.afterwards}")
        return 0
    names = list(DRILLS) if options.all else list(QUICK) if options.quick else options.names
    unknown = [name for name in names if name not in DRILLS]
    if unknown or not names:
        wrong = f"there is no drill {unknown[0]!r}" if unknown else "name a drill, or give --all or --quick"
        print(f"vpm drill: {wrong}; --list names them.", file=sys.stderr)
        return CANNOT_RUN
    try:
        with _alone(options.state):
            return asyncio.run(_run(options, names))
    except VpmError as error:
        print(f"vpm drill: {error.sentence()}", file=sys.stderr)
        return CANNOT_RUN
    except KeyboardInterrupt:
        return 130


async def _run(options: argparse.Namespace, names: list[str]) -> int:
    if options.ready is not None:
        _check_ready(options.ready)
    print("making the service that is drilled (the first time takes a minute or two)", flush=True)
    made = await genesis(options.state / "genesis")
    size = FleetSize(api=1, keeper=1, relayer=1) if options.small else FleetSize()
    began, results, said = time.monotonic(), [], []
    seen = SeenMetrics()
    async with (
        fleet(options.state / "fleet", made, size, patience=options.patience) as running,
        Load(running, options.pace) as load,
        Audience(load),
        watching(running, seen),
    ):
        print(f"running: {', '.join(running.running)}", flush=True)
        await warm(running, load, _say)
        while True:
            results += await run_drills(running, [DRILLS[name] for name in names], load, _say)
            if not all(one.passed for one in results) or time.monotonic() - began >= options.seconds:
                break
        said = await final_checks(running, load, _say)
        restarts = running.restarts
    verdict = judge(await asyncio.to_thread(declared), seen)
    _say("\n" + "\n  ".join(verdict.sentences()))
    if options.all and len(results) >= len(names):
        said += verdict.faults()
    passed = sum(one.passed for one in results)
    print(f"\n{passed} of {len(results)} drills held, {len(said)} faults, {restarts} daemons started again")
    if options.json is not None:
        body = {
            "drills": [one.body() for one in results],
            "faults": said,
            "restarts": restarts,
            "metrics": asdict(verdict),
        }
        options.json.write_text(json.dumps(body, indent=2) + "\n")
    return 0 if passed == len(results) and not said else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _check_ready(path: Path) -> None:
    """NotLocal unless the file is of a local stack. Drills never touch it; this is for scripts that want to be sure."""
    try:
        ready = json.loads(path.read_text())
        state = State(Path(ready["deployments"]).parent)
        urls = {"base": ready["rpc"]["base"], "stock": ready["rpc"]["stock"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise NotLocal(f"{path} is no ready file of a local stack.") from None
    for name, url in urls.items():
        require_local(name, url, load_deployment(state.deployment(name)))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One drill at a time in a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("w")
    except OSError as error:
        raise NotLocal(f"cannot use {folder}: {error.strerror}; choose another with --state DIR.") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise NotLocal(f"another drill uses {folder}; choose another with --state DIR.") from None
        yield


if __name__ == "__main__":
    sys.exit(main())
