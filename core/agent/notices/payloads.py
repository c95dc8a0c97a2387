"""Event payloads as JSON text, and the markets that they name. docs/events.md describes the keys.

Amounts are exact numbers of USD, converted from integers with 6 decimals; averages are rounded down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.rows import namedtuple_row

from core.agent.bet import ref_text
from core.agent.book import Book
from core.agent.document import Specification, listed_document
from core.agent.words import FEED_DECIMALS, OutcomeWords
from core.contracts.events.agent import Staked
from core.contracts.statuses import MarketKind
from core.db.engine import Connection
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import json_number, json_ratio_down, to_json


@dataclass(frozen=True, slots=True)
class NoticeMarket:
    key: bytes
    id: str
    spec: Specification
    outcomes: tuple[OutcomeWords, ...]
    book: Book

    @property
    def times(self) -> dict[str, str]:
        """Return when staking ends, when the deciding reading is taken, and when the market can settle."""
        return {
            "deadlineAt": iso(self.spec.closes_at),
            "endsAt": iso(self.spec.ends_at),
            "settlesAfter": iso(self.spec.settles_after),
        }

    def side(self, outcome: int | None) -> str | None:
        return None if outcome is None or outcome >= len(self.outcomes) else self.outcomes[outcome].key


# A feed's key is the one in the indexer's deployment file; without one, the market is shown by its key.
_QUERY = (
    "SELECT m.market_id, m.kind, m.feed, m.target, m.bounds, m.early_resolvable, m.published, m.max_age, m.opens_at,"
    " m.closes_at, m.start_at, m.ends_at, m.early_from, m.settles_after, m.voids_after, m.weights, m.fee_bps,"
    " (SELECT c.sources->'observed'->>encode(m.feed, 'hex') FROM chain_cursor c WHERE c.sources ? 'wallet')"
    " AS feed_key, array_agg(o.net ORDER BY o.outcome) AS net, array_agg(o.shares ORDER BY o.outcome) AS shares,"
    " array_agg(o.excess ORDER BY o.outcome) AS excess"
    " FROM agent_market m JOIN agent_outcome o USING (market_id) WHERE m.market_id = ANY(%s) GROUP BY m.market_id"
)


async def notice_markets(connection: Connection, keys: Iterable[bytes]) -> dict[bytes, NoticeMarket]:
    """Return the indexed markets by their key in the contract."""
    chosen = list(set(keys))
    if not chosen:
        return {}
    async with connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(_QUERY, (chosen,))
        rows: list[Any] = await cursor.fetchall()
    return {row.market_id: _named(row) for row in rows}


def _named(row: Any) -> NoticeMarket:
    spec = Specification.from_row(row)
    document = listed_document(row.market_id, spec, row.feed_key)
    return NoticeMarket(row.market_id, document.id, spec, document.outcomes, Book.from_row(row))


def text(payload: Mapping[str, Any]) -> str:
    return to_json(payload).decode()


def bet_submitted(market: NoticeMarket, outcome: int, amount: int, tx: bytes) -> str:
    return text({"side": market.side(outcome), "sizeUsd": json_number(amount), "txHash": hex_of(tx)})


def bet_placed(market: NoticeMarket, e: Staked, *, tx: bytes, block: int) -> str:
    """Return the payload. `avgPriceCents` is the stake less its fee, per share, rounded down to 4 decimals."""
    cents = json_ratio_down(100 * (e.amount - e.fee), e.shares, 4) if e.shares else json_number(0)
    return text(
        {
            "side": market.side(e.outcome),
            "sizeUsd": json_number(e.amount),
            "feeUsd": json_number(e.fee),
            "shares": json_number(e.shares),
            "avgPriceCents": cents,
            "builderCode": hex_of(e.builder) if any(e.builder) else None,
            "ref": ref_text(e.ref),
            "stakeId": str(e.stake_id),
            **market.times,
            "txHash": hex_of(tx),
            "blockNumber": block,
        }
    )


def market_resolved(market: NoticeMarket, *, winner: int | None, observed: int | None, tx: bytes, block: int) -> str:
    """Return the payload. `refunded` is true if all stakes are refunded in full. `payoutPerShareUsd` is null if the
    winning shares are not all paid the same amount."""
    book = market.book
    share = book.share_payout(winner)
    caps = market.spec.kind is not MarketKind.DIRECTION
    label = "Void, stakes refunded" if winner is None else market.outcomes[winner].label
    return text(
        {
            "status": "void" if winner is None else "resolved",
            "resolvedOutcome": "void" if winner is None else market.side(winner),
            "resolvedOutcomeLabel": label,
            "observedMarketCapUsd": json_number(observed, FEED_DECIMALS) if caps and observed is not None else None,
            "payoutPerShareUsd": None if share is None else json_ratio_down(*share, 6),
            "poolUsd": json_number(book.net_pool),
            "refunded": book.refunds(winner),
            **market.times,
            "txHash": hex_of(tx),
            "blockNumber": block,
        }
    )


def position_ended(market: NoticeMarket, *, outcome: int, winner: int, amount: int, shares: int, owed: int) -> str:
    return text(
        {
            "side": market.side(outcome),
            "resolvedOutcome": market.side(winner),
            "sizeUsd": json_number(amount),
            "shares": json_number(shares),
            "payoutUsd": json_number(owed),
        }
    )


def payout(market: NoticeMarket, *, outcome: int | None, amount: int, stake_id: int, tx: bytes, **more: Any) -> str:
    """Return the payload of a payout that was sent, completed or refused. `side` is null for a payment that arrived too
    late to become a stake."""
    return text(
        {
            "amountUsd": json_number(amount),
            "side": market.side(outcome),
            "stakeId": str(stake_id),
            "txHash": hex_of(tx),
            **more,
        }
    )
