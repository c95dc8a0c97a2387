"""`vpm advisories`: asks an OSV database about every pinned package of both lock files.

Nothing is installed or run to find out, and npm packages are asked about as well as Python's. Exit code 0: no
advisory is known; 1: some are; 69: the database cannot be asked, which says nothing either way. Standard library only,
as `sbom`.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from scripts._vpm import sbom

DATABASE = "https://api.osv.dev"
BATCH = 1_000  # packages the database answers for at once
TIMEOUT_SECONDS = 30.0
MAX_PAGES = 100  # of answers to one batch
CANNOT_ASK = 69


class Unreachable(Exception):
    """The failure of the database to give a usable answer; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Advisory:
    """A known weakness of a package that is used."""

    purl: str
    id: str
    summary: str
    fixed: tuple[str, ...]

    def sentence(self) -> str:
        remedy = f"fixed in {', '.join(self.fixed)}" if self.fixed else "no fixed version is known"
        return f"{self.purl}: {self.id} {self.summary or 'without a summary'} ({remedy})"


def advisories(purls: list[str], database: str = DATABASE) -> list[Advisory]:
    """Every advisory that is in force, by package. Unreachable rather than a list that may lack some."""
    named: list[tuple[str, str]] = []
    for at in range(0, len(purls), BATCH):
        named += _named(purls[at : at + BATCH], database)
    details = {each: _ask(f"{database}/v1/vulns/{each}") for each in {each for _, each in named}}
    in_force = []
    for purl, each in sorted(named):
        detail = details[each]
        if "withdrawn" not in detail:
            in_force.append(Advisory(purl, each, str(detail.get("summary", "")), _fixed(detail, purl)))
    return in_force


def _named(purls: list[str], database: str) -> list[tuple[str, str]]:
    """Package and advisory id. A package with many advisories is answered in pages."""
    ids: list[tuple[str, str]] = []
    asked: list[tuple[str, str | None]] = [(purl, None) for purl in purls]
    for _ in range(MAX_PAGES):
        queries = [{"package": {"purl": purl}} | ({"page_token": token} if token else {}) for purl, token in asked]
        results = _ask(f"{database}/v1/querybatch", {"queries": queries}).get("results")
        if not isinstance(results, list) or len(results) != len(asked):
            raise Unreachable(f"{database} did not answer for each package.")
        more: list[tuple[str, str | None]] = []
        for (purl, _), result in zip(asked, results, strict=True):
            ids += [(purl, str(one["id"])) for one in result.get("vulns", [])]
            if result.get("next_page_token"):
                more.append((purl, result["next_page_token"]))
        if not more:
            return ids
        asked = more
    raise Unreachable(f"{database} did not come to an end of its answers.")


def _fixed(detail: dict[str, Any], purl: str) -> tuple[str, ...]:
    """Versions that mend it, of the package in question: an advisory may be about several."""
    name = purl.rpartition("@")[0]
    versions: dict[str, None] = {}
    for affected in detail.get("affected", []):
        if affected.get("package", {}).get("purl", name) != name:
            continue
        for span in affected.get("ranges", []):
            if span.get("type") != "GIT":
                versions |= {event["fixed"]: None for event in span.get("events", []) if "fixed" in event}
    return tuple(versions)


def _ask(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 (of the caller)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            answer = json.load(response)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unreachable(f"{url} cannot be asked: {reason}.") from None
    if not isinstance(answer, dict):
        raise Unreachable(f"{url} did not answer with an object.")
    return answer


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="vpm advisories")
    parser.add_argument("--image", action="store_true", help="only what the container image holds")
    parser.add_argument("--database", default=DATABASE, help="another server of the same interface")
    options = parser.parse_args(argv)
    purls = [one["purl"] for one in sbom.document(image_only=options.image)["components"]]
    try:
        in_force = advisories(purls, options.database.rstrip("/"))
    except Unreachable as problem:
        print(f"vpm advisories: {problem} Nothing is known either way.", file=sys.stderr)
        return CANNOT_ASK
    for each in in_force:
        print(each.sentence())
    print(f"{len(purls)} packages, {len(in_force)} advisories")
    return 1 if in_force else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
