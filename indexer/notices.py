"""Adds events for wallets, derived from the settlement wallet's logs, in the transaction that writes the projections.

An event's id derives from its block hash and log index, so a chain gives the same events on any database. If a
reorganization moves a log to another block, its event gets a new id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.agent.notices import log as event_log
from core.agent.notices import payloads
from core.agent.notices.log import Draft, EventType, source_of
from core.agent.notices.payloads import NoticeMarket, notice_markets
from core.contracts.events import agent as ev
from core.db.engine import Connection
from indexer.errors import Contradiction
from indexer.fold.agent import STAKE
from indexer.fold.rows import LogRecord
from indexer.sources import Sources
from indexer.store.tables import rows_by_key

WITH_EVENTS = (ev.Staked, ev.MarketDecided, ev.Paid, ev.PayoutFailed)
REFUSED = "The token rejected the transfer; it will be sent again later."


async def append_events(
    connection: Connection, sources: Sources, logs: Sequence[LogRecord], hashes: Mapping[int, bytes]
) -> None:
    """Append the events of these logs. The logs must be in chain order, and their projections must be stored already.
    `hashes` maps block numbers to hashes. Call this only once in a transaction, because it locks the wallets."""
    with_events = [each for each in logs if isinstance(each.event, WITH_EVENTS)]
    if not with_events:
        return
    markets = await notice_markets(connection, {each.event.market_id for each in with_events})
    books = await _books(connection, [each.event for each in with_events if isinstance(each.event, ev.MarketDecided)])
    sent = [(each.event.stake_id,) for each in with_events if isinstance(each.event, ev.Paid | ev.PayoutFailed)]
    paid = {row.stake_id: row for row in await rows_by_key(connection, STAKE, ("stake_id",), sent)}
    drafts: list[Draft] = []
    for each in with_events:
        at = _Place(sources.chain_id, each, hashes[each.block])
        market = markets.get(each.event.market_id)
        if market is None:
            raise Contradiction(f"In block {each.block}, log {each.index}, the market was never opened.")
        match e := each.event:
            case ev.Staked():
                payload = payloads.bet_placed(market, e, tx=each.tx, block=each.block)
                drafts.append(at.draft(EventType.BET_PLACED, e.wallet, payload, market, e.bet_hash))
            case ev.MarketDecided():
                winner, observed = (None, None) if e.is_void else (e.code, e.end.answer)
                drafts += _ended(at, market, winner, observed, books.get(e.market_id, ()))
            case ev.Paid() | ev.PayoutFailed():
                drafts.append(_payout(at, market, e, paid[e.stake_id]))
    await event_log.append(connection, drafts)


async def _books(connection: Connection, ended: Sequence[ev.MarketDecided]) -> dict[bytes, list[Any]]:
    """Return the stakes of each settled market, sorted by payment time. Late payments are excluded."""
    books: dict[bytes, list[Any]] = {}
    rows = await rows_by_key(connection, STAKE, ("market_id",), [(each.market_id,) for each in ended])
    for row in sorted(rows, key=lambda row: row.ordinal):
        if row.outcome is not None:
            books.setdefault(row.market_id, []).append(row)
    return books


@dataclass(frozen=True, slots=True)
class _Place:
    chain_id: int
    log: LogRecord
    block_hash: bytes

    def draft(
        self,
        kind: EventType,
        wallet: bytes,
        payload: str,
        market: NoticeMarket,
        trade_id: bytes | None,
        stake_id: int = 0,
    ) -> Draft:
        source = source_of(kind, self.chain_id, self.block_hash, self.log.index, wallet, stake_id)
        return Draft(wallet, kind, source, payload, market.id, trade_id, self.log.at, self.log.block)


def _ended(
    at: _Place, market: NoticeMarket, winner: int | None, observed: int | None, stakes: Sequence[Any]
) -> list[Draft]:
    """Draft a settled market's events: its result for each wallet, then the outcome of each stake. Refunded stakes
    neither won nor lost; their payout events report the refund."""
    resolved = payloads.market_resolved(market, winner=winner, observed=observed, tx=at.log.tx, block=at.log.block)
    wallets = dict.fromkeys(each.wallet for each in stakes)
    drafts = [at.draft(EventType.MARKET_RESOLVED, wallet, resolved, market, None) for wallet in wallets]
    if winner is None or market.book.refunds(winner):
        return drafts
    for each in stakes:
        kind = EventType.POSITION_WON if each.outcome == winner else EventType.POSITION_LOST
        payload = payloads.position_ended(
            market,
            outcome=each.outcome,
            winner=winner,
            amount=each.amount,
            shares=each.shares,
            owed=market.book.owed(winner, each.outcome, each.amount, each.shares),
        )
        drafts.append(at.draft(kind, each.wallet, payload, market, each.bet_hash, each.stake_id))
    return drafts


def _payout(at: _Place, market: NoticeMarket, e: ev.Paid | ev.PayoutFailed, stake: Any) -> Draft:
    paid = isinstance(e, ev.Paid)
    more: Mapping[str, Any] = {"refund": e.refund} if isinstance(e, ev.Paid) else {"reason": REFUSED}
    payload = payloads.payout(
        market,
        outcome=stake.outcome,
        amount=e.amount,
        stake_id=e.stake_id,
        tx=at.log.tx,
        blockNumber=at.log.block,
        **more,
    )
    kind = EventType.PAYOUT_PAID if paid else EventType.PAYOUT_FAILED
    return at.draft(kind, stake.wallet, payload, market, stake.bet_hash, e.stake_id)
