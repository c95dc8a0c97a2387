"""`python -m tests.requirements check | table`: which requirements have no test, and the table for the docs."""

from __future__ import annotations

import argparse
import sys

from tests.requirements.manifest import ManifestError, load
from tests.requirements.proofs import scan
from tests.requirements.report import CONFORMANCE, TITLES, Coverage, cover, table


def _check(coverage: Coverage, faults: tuple[str, ...], summary: bool) -> int:
    """Print what is missing; 1 when a finished surface has a gap, a proof is wrong or the docs are out of date."""
    failures = [*faults, *coverage.unknown]
    for surface in coverage.manifest.surfaces:
        missing = coverage.unproved(surface)
        finished = surface.name in coverage.manifest.finished
        total = len(surface.requirements)
        state = ", finished" if finished else ""
        print(f"{TITLES[surface.name]}{state}: {total - len(missing)} of {total} requirements have a test")
        if finished or not summary:
            for requirement in missing:
                print(f"  {requirement.id}")
        if finished and missing:
            failures.append(f"{surface.name} is listed as finished and has {len(missing)} requirements without a test")
        if finished:
            failures += (f"{each} is proved by thorough tests only" for each in coverage.only_thorough(surface))
    if not CONFORMANCE.exists() or CONFORMANCE.read_text(encoding="utf-8") != table(coverage):
        failures.append("docs/conformance.md is out of date: run `python -m tests.requirements table`")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.requirements", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="list requirements without a test; fail on gaps, wrong proofs, old docs")
    check.add_argument("--summary", action="store_true", help="counts only, except for finished surfaces")
    commands.add_parser("table", help="write docs/conformance.md")
    options = parser.parse_args(arguments)
    try:
        manifest = load()
    except ManifestError as broken:
        print(broken, file=sys.stderr)
        return 1
    found = scan()
    coverage = cover(manifest, found)
    if options.command == "table":
        CONFORMANCE.write_text(table(coverage), encoding="utf-8")
        print(f"wrote {CONFORMANCE.relative_to(CONFORMANCE.parents[1])}")
        return 0
    return _check(coverage, found.faults, options.summary)


if __name__ == "__main__":
    sys.exit(main())
