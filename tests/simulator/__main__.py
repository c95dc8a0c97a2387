"""`python -m tests.simulator [--seeds N] [--from S]` plays worlds one after the other, each in its own process. For a
seed that fails it prints the violations and the command that repeats it."""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from core import log
from tests.simulator.sides import SIDES
from tests.simulator.stand import Stand, standing
from tests.simulator.weather import Weather
from tests.simulator.world import SeedResult, World

SHOWN_OF_EACH = 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--surface", choices=sorted(SIDES), default="agent", help="the side of the service; agent")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="how many")
    parser.add_argument("--from", type=int, default=1, metavar="S", dest="first", help="the first one")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="how many at a time")
    parser.add_argument("--weather", default="", metavar="SAID", help="in place of what is drawn: fork_rate=0.3,pace=1")
    parser.add_argument("--log", metavar="LEVEL", default="CRITICAL", help="what the daemons log, in virtual time")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write every step to this file")
    options = parser.parse_args(arguments)
    try:
        Weather.of(random.Random(0)).but(options.weather)
    except ValueError as error:
        parser.error(f"--weather: {error}")
    log.configure(options.log, "console")

    def prepare(world: World) -> None:
        if options.trace is not None:
            world.loop.trace_file = options.trace.open("w", buffering=1 << 20)

    totals: Counter[str] = Counter()
    failed, began, own = [], time.monotonic(), 0.0
    with standing(options.surface, options.weather) as stand:
        for result in _in_turn(stand, range(options.first, options.first + options.seeds), prepare, options.jobs):
            own += result.cpu_seconds
            totals.update(result.counts)
            if result.found:
                failed.append(result.seed)
            _say(result, options.surface, options.weather)
    print(f"{options.seeds} seeds, {len(failed)} failed{': ' if failed else ''}{' '.join(map(str, failed))}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = (used.ru_utime + used.ru_stime) / options.seeds
    print(
        f"a seed: {own / options.seeds:.1f} s of processor time in its process, {whole:.1f} s with chain and database,"
        f" {(time.monotonic() - began) / options.seeds:.1f} s by the clock"
    )
    print(", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    return 1 if failed else 0


def _in_turn(
    stand: Stand, seeds: Sequence[int], prepare: Callable[[World], None], at_once: int
) -> Iterator[SeedResult]:
    running: deque[Callable[[], SeedResult]] = deque()
    for seed in seeds:
        running.append(stand.start(seed, prepare))
        if len(running) == at_once:
            yield running.popleft()()
    while running:
        yield running.popleft()()


def _say(result: SeedResult, surface: str, weather: str) -> None:
    bets = result.counts.get("bets", 0)
    print(f"seed {result.seed}: {'FAILED' if result.found else 'ok'} {result.digest} {result.cpu_seconds:.1f} s, "
          f"{bets} bets, {result.counts.get('kills', 0)} kills, "
          f"{result.counts.get('forks', 0)} forks", flush=True)  # fmt: skip
    shown = Counter[str]()
    for sentence, what in result.found:
        shown[sentence] += 1
        if shown[sentence] <= SHOWN_OF_EACH:
            print(f"    not so: {sentence}: {what}")
    for each in result.crashes[:5]:
        print(f"    {each}")
    if result.found:
        again = f"python -m tests.simulator --surface {surface} --from {result.seed} --seeds 1"
        print(f"    {result.weather}\n    again: {again}{f' --weather {weather}' if weather else ''}", flush=True)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulator", *sys.argv[1:]],
                  {**os.environ, "PYTHONHASHSEED": "0"})  # fmt: skip
    sys.exit(main())
