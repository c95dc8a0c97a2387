"""`./vpm mutate`: takes each guard out of a copy of the project and expects its tests to fail.

A guard whose tests pass without it is a survivor: nobody would notice its loss. Results are kept, so a run that was
stopped goes on, and only guards that changed since, in their source or their tests, are tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.local.packages import foundry_binary
from core.paths import REPOSITORY
from tests.guards.catalogue import GUARDS
from tests.guards.guard import FORGE_TESTS, Guard
from tests.guards.table import PAGE, page

BUILD = REPOSITORY / ".vpm" / "build" / "guards"
RESULTS = BUILD / "results.json"
MAX_SECONDS = 900
NO_TESTS = 5
"""pytest's exit code when nothing was collected."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guard's tests said without it. `why` is the first failure, or what went wrong."""

    killed: bool
    why: str
    seconds: float


class Copy:
    """The project's tracked files in a folder of their own, with the environment of the original."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=REPOSITORY,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.split("\0")
        present = {name for name in names if name and (REPOSITORY / name).is_file()}
        for path in self.folder.rglob("*"):
            inside = str(path.relative_to(self.folder))
            kept = inside.split(os.sep, maxsplit=1)[0] in (".vpm", "node_modules", ".build")
            if path.is_file() and not path.is_symlink() and not kept and inside not in present:
                path.unlink()
        for name in present:
            source, target = REPOSITORY / name, self.folder / name
            if target.exists() and target.read_bytes() == source.read_bytes():
                continue  # keeps its time, and with it what was compiled from it
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        (self.folder / ".vpm").mkdir(exist_ok=True)
        for name in ("node_modules", ".vpm/env"):
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(REPOSITORY / name)

    def without(self, guard: Guard) -> Verdict:
        """Runs the guard's tests in the copy without it, and puts it back."""
        source = self.folder / guard.source
        text = source.read_text()
        started = time.monotonic()
        try:
            source.write_text(text.replace(guard.code, guard.without))
            code, output = self._forge(guard) if guard.is_solidity else self._pytest(guard)
        except subprocess.TimeoutExpired:
            code, output = 1, f"FAILED: no end within {MAX_SECONDS} s"
        finally:
            source.write_text(text)
        return _verdict(code, output, time.monotonic() - started)

    def passes(self, guards: Sequence[Guard]) -> str | None:
        """What fails in the copy as it is; None when every test of these guards passes."""
        for chosen in ([g for g in guards if g.is_solidity], [g for g in guards if not g.is_solidity]):
            if not chosen:
                continue
            code, output = self._forge(*chosen) if chosen[0].is_solidity else self._pytest(*chosen)
            if code != 0:
                return output[-3000:]
        return None

    def _pytest(self, *guards: Guard) -> tuple[int, str]:
        tests = sorted({test for guard in guards for test in guard.tests})
        argv = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
        return self._run(argv, {})

    def _forge(self, *guards: Guard) -> tuple[int, str]:
        suites = ",".join(
            sorted({Path(file).relative_to(FORGE_TESTS).as_posix() for g in guards for file in g.test_files})
        )
        names = "|".join(sorted({test.partition("::")[2] for guard in guards for test in guard.tests}))
        path = f"{FORGE_TESTS}/" + (f"{{{suites}}}" if "," in suites else suites)
        argv = [str(foundry_binary("forge")), "test", "--match-path", path, "--match-test", f"^({names})\\b"]
        return self._run(argv, {"FOUNDRY_PROFILE": "quick", "FOUNDRY_SPARSE_MODE": "true"})

    def _run(self, argv: list[str], env: dict[str, str]) -> tuple[int, str]:
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=MAX_SECONDS,
        )
        return done.returncode, done.stdout + done.stderr


def _verdict(code: int, output: str, seconds: float) -> Verdict:
    failures = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR", "[FAIL"))]
    if code == 0:
        return Verdict(False, "its tests pass without it", seconds)
    if code == NO_TESTS or not failures:
        return Verdict(False, "its tests did not run: " + " ".join(output.split())[-300:], seconds)
    return Verdict(True, failures[0][:200], seconds)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vpm mutate", description="takes out one guard at a time")
    parser.add_argument("--only", metavar="WORD", help="guards whose sentence or source holds this")
    parser.add_argument("--part", metavar="K/N", default="1/1", help="the K-th of N equal parts")
    parser.add_argument("--again", action="store_true", help="also those with a result that still stands")
    parser.add_argument("--list", action="store_true", help="list them, with the results there are")
    parser.add_argument("--table", action="store_true", help=f"write {PAGE.relative_to(REPOSITORY)} and stop")
    options = parser.parse_args(argv)
    if options.table:
        PAGE.write_text(page(GUARDS))
        return 0
    part, _, of = options.part.partition("/")
    if not (part.isdigit() and of.isdigit() and 1 <= int(part) <= int(of)):
        parser.error("--part wants K/N, such as 2/4")
    chosen = [g for g in GUARDS if not options.only or options.only in g.stops or options.only in g.source]
    chosen = chosen[int(part) - 1 :: int(of)]
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if options.list:
        for guard in chosen:
            said = known.get(guard.fingerprint(), {}).get("why", "not tried")
            print(f"{guard.source:<40} {guard.stops}\n{'':<40} {said}")
        return 0
    return _try_all(chosen, known, again=options.again)


def _try_all(chosen: Sequence[Guard], known: dict[str, dict[str, object]], *, again: bool) -> int:
    stale = [(guard, problem) for guard in chosen if (problem := guard.problem()) is not None]
    for guard, problem in stale:
        print(f"NOT AS LISTED  {guard.stops}: {problem}")
    waiting = [g for g in chosen if g.problem() is None and (again or g.fingerprint() not in known)]
    copy = Copy(BUILD / "copy")
    if waiting:
        BUILD.mkdir(parents=True, exist_ok=True)
        copy.make()
        broken = copy.passes(waiting)
        if broken is not None:
            print(f"The copy's tests fail with every guard in its place:\n{broken}")
            return 1
    for number, guard in enumerate(waiting, 1):
        verdict = copy.without(guard)
        known[guard.fingerprint()] = {"killed": verdict.killed, "why": verdict.why}
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True))
        word = "killed  " if verdict.killed else "SURVIVES"
        print(f"{number}/{len(waiting)} {word} {verdict.seconds:5.1f} s  {guard.stops}\n    {verdict.why}", flush=True)
    survivors = [g for g in chosen if not known.get(g.fingerprint(), {}).get("killed", False)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} guards are missed by their tests when they are gone")
    for guard in survivors:
        print(f"  survives: {guard.stops} ({guard.source})")
    return 1 if survivors or stale else 0


if __name__ == "__main__":
    sys.exit(main())
