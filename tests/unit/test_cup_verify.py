"""What a forger could write into the tournament's file, and the database would never have let in."""

from __future__ import annotations

from typing import Any

import orjson

from core.agent.book import Book
from core.cup import messages
from core.cup.amounts import CLAIM_CENTS
from core.cup.books import FEE_BPS
from core.cup.export import FORMAT
from core.cup.verify import verify
from tests.support.cup_rig import Signer

SLUG = "a-market"
OPENS, TRADED, CLOSES, ENDS = (f"2026-11-2{day}T12:00:00Z" for day in range(1, 5))


def exported(*cents: int) -> list[bytes]:
    """The file of one wallet that traded for these amounts, one after the other."""
    signer, book = Signer(), Book.empty([1_000, 1_000], FEE_BPS)
    wallet, market = f"wallet:{signer.address}", f"market:{SLUG}"
    entries: list[dict[str, int]] = [{wallet: CLAIM_CENTS, "mint": -CLAIM_CENTS}]
    keys, trades = [f"claim:{signer.address}"], []
    for size in cents:
        book, got = book.staked(0, size)
        trade_id = f"t-{len(keys)}"
        keys.append(f"trade:{trade_id}")
        entries.append({wallet: -size, market: size})
        message = messages.trade_message(signer.address, SLUG, "yes", size, trade_id, TRADED)
        trades.append(
            {
                "transaction_id": len(keys),
                "trade_id": trade_id,
                "wallet": signer.address,
                "slug": SLUG,
                "outcome": 0,
                "size_cents": size,
                "shares_cents": got.shares,
                "issued_at": TRADED,
                "signature": signer.sign(message),
                "at": TRADED,
            }
        )
    listed = {
        "slug": SLUG,
        "outcomes": [{"key": "yes"}, {"key": "no"}],
        "weights_cents": [1_000, 1_000],
        "net_cents": book.net,
        "shares_cents": book.shares,
        "trades": len(trades),
        "opens_at": OPENS,
        "closes_at": CLOSES,
        "start_at": None,
        "ends_at": ENDS,
        "status": "open",
        "winner": None,
        "settled_at": None,
    }
    held = {"wallet": signer.address, "slug": SLUG, "outcome": 0, "status": "open", "paid_cents": 0}
    balances = {"mint": -CLAIM_CENTS, wallet: CLAIM_CENTS - sum(cents), market: sum(cents)}
    rows: list[dict[str, Any]] = [
        {"type": "export", "format": FORMAT},
        *({"type": "account", "account": each, "balance_cents": held} for each, held in balances.items()),
        {"type": "market", **listed},
        *(
            {"type": "transaction", "id": number, "kind": key.split(":")[0], "key": key, "entries": moved}
            for number, (key, moved) in enumerate(zip(keys, entries, strict=True), 1)
        ),
        *({"type": "trade", **each} for each in trades),
        {"type": "position", **held, "cost_cents": sum(cents), "shares_cents": book.shares[0]},
    ]
    return [orjson.dumps(row) for row in (*rows, {"type": "end", "lines": len(rows)})]


def test_a_file_of_trades_agrees() -> None:
    assert verify(exported(500, 200)).faults == []


def test_a_signed_trade_of_less_than_nothing_is_found() -> None:
    """By it the operator's own wallet would have had its stake back before the market was lost."""
    assert verify(exported(500, -200)).faults == ["trade t-2 is of -200 cents"]
