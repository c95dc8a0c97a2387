"""`./vpm bench gas`: execution gas of every call in the gas tables.

Execution gas of the call as its own transaction with cold storage, without the 21,000 base and calldata, on the local
tokens. "Known best" is the strongest public implementation of the same mechanism measured the same way; the settlement
wallet has no such peer. The figures come from the forge tests named Gas, which print `GAS <row> <figure>`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts._vpm.checks import ROOT, forge


@dataclass(frozen=True)
class Row:
    key: str
    what: str
    known_best: str
    limit: int


ROWS = (
    Row("open", "open a market (create + register + list)", "1,094,097", 520_000),
    Row("enter_first", "enter, first in a block (finalizes a vintage)", "230,114", 160_000),
    Row("enter_joining", "enter, joining an open vintage", "126,952 to 166,702", 105_000),
    Row("enter_authorization", "enterWithAuthorization, joining", "195,976", 170_000),
    Row("finalize_200", "finalize a vintage of 200 entries", "6,802,465", 60_000),
    Row("resolve_rounds", "resolve from two given rounds", "164,161", 130_000),
    Row("deliver_50", "deliver a winning position, in a batch of 50 (each)", "53,858", 40_000),
    Row("settle_warm", "settle into a warm market", "-", 190_000),
    Row("wallet_resolve", "resolve a wallet market with a given round", "-", 90_000),
    Row("pay_50", "pay a stake, in a batch of 50 (each)", "-", 40_000),
    Row("list_binary", "list a binary market with 400 bytes of metadata", "-", 260_000),
)

LINE = re.compile(r"GAS\s+(\w+):?\s+(\d+)")


def main(json_path: Path | None) -> int:
    done = subprocess.run(
        [str(forge()), "test", "--match-path", "tests/contracts/forge/**/Gas*.t.sol", "-vv"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    measured: dict[str, int] = {}
    for name, figure in LINE.findall(done.stdout):
        measured[name] = max(int(figure), measured.get(name, 0))
    over = False
    print(f"{'Call':<56}{'known best':>20}{'ours, at most':>16}{'measured':>12}")
    for row in ROWS:
        figure = measured.get(row.key)
        bad = figure is None or figure > row.limit
        over |= bad
        shown = "missing" if figure is None else f"{figure:,}"
        print(f"{row.what:<56}{row.known_best:>20}{row.limit:>16,}{shown:>12}{'  OVER' if bad else ''}")
    if json_path:
        rows = [{"row": r.key, "limit": r.limit, "measured": measured.get(r.key)} for r in ROWS]
        json_path.write_text(json.dumps({"bench": "gas", "rows": rows}, indent=2) + "\n")
    if done.returncode != 0:
        print(done.stdout[-4000:] + done.stderr[-2000:], file=sys.stderr)
    return 1 if over or done.returncode != 0 else 0
