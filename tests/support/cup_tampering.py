"""Exports of the tournament with one thing changed that whoever recomputes them must notice."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from core.cup.wheel import pocket_of

Change = Callable[[dict[str, Any]], None]


def _bump(name: str) -> Change:
    def change(row: dict[str, Any]) -> None:
        row[name] += 1

    return change


def _flip(name: str) -> Change:
    def change(row: dict[str, Any]) -> None:
        row[name] = "0x" + ("00" if row[name][2:4] != "00" else "11") + row[name][4:]

    return change


def _other_beacon(row: dict[str, Any]) -> None:
    """One by which the round fell elsewhere: one of 37 others does as well, and only the chain says which is right."""
    seed = bytes.fromhex(row["seed"][2:])
    others = (row["beacon_hash"][:-2] + f"{byte:02x}" for byte in range(256))
    row["beacon_hash"] = next(
        other for other in others if pocket_of(seed, row["round_no"], bytes.fromhex(other[2:])) != row["pocket"]
    )


def _other_pocket(row: dict[str, Any]) -> None:
    row["pocket"] = (row["pocket"] + 1) % 37


def _known_beacon(row: dict[str, Any]) -> None:
    """One that may be known while bets are taken."""
    row["beacon_after"] = int(datetime.fromisoformat(row["closes_at"]).timestamp()) - 1


def _trades_to_the_end(row: dict[str, Any]) -> None:
    row["closes_at"] = row["start_at"] or row["ends_at"]


def _moved(row: dict[str, Any]) -> None:
    for account in row["entries"]:
        row["entries"][account] *= 2


TAMPERINGS: tuple[tuple[str, Change], ...] = (
    ("account", _bump("balance_cents")),
    ("transaction", _moved),
    ("round", _flip("bets_hash")),
    ("trade", _bump("size_cents")),
    ("trade", _bump("shares_cents")),
    ("trade", _flip("signature")),
    ("bet", _bump("stake_cents")),
    ("bet", _bump("paid_cents")),
    ("bet", _flip("signature")),
    ("round", _flip("seed")),
    ("round", _other_beacon),
    ("round", _other_pocket),
    ("round", _known_beacon),
    ("position", _bump("cost_cents")),
    ("score", _bump("score_cents")),
    ("market", _bump("trades")),
    ("market", _trades_to_the_end),
    ("enrolment", _flip("signature")),
)


def tampered(raw: bytes, kind: str, change: Change) -> bytes:
    """Return the file with the first row of a kind changed."""
    rows = [json.loads(line) for line in raw.splitlines()]
    change(next(row for row in rows if row["type"] == kind and _can_change(row)))
    return b"\n".join(json.dumps(row).encode() for row in rows)


def miscounted(raw: bytes, kind: str) -> list[bytes]:
    """Return the file without the first row of a kind, and with that row twice; the count in the last line is right."""
    *rows, end = [json.loads(line) for line in raw.splitlines()]
    at = next(at for at, row in enumerate(rows) if row["type"] == kind)
    forged = (rows[:at] + rows[at + 1 :], rows[: at + 1] + rows[at:])
    return [b"\n".join(json.dumps(row).encode() for row in (*each, {**end, "lines": len(each)})) for each in forged]


def _can_change(row: dict[str, Any]) -> bool:
    """An open round has no result yet to tamper with."""
    return row["type"] != "round" or row["settled_at"] is not None
