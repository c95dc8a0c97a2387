"""Events for transactions that are about to be sent to settle a bet or pay it out.

The relayer appends these events in the database transaction that stores the signed bytes, so they precede the chain's
own events. Another transaction may have locked the wallet's events; a rebuild may hold that lock for a long time. The
relayer then sends the money without waiting, and the event is added after the lock is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.agent.notices import log as event_log
from core.agent.notices import payloads
from core.agent.notices.log import Draft, EventType, source_of
from core.agent.notices.payloads import notice_markets
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.engine import Connection

BETS = frozenset({"settle", "credit"})
PAYOUTS = frozenset({"pay"})
KINDS = BETS | PAYOUTS

_WORD = 32
# Another transaction may hold the same wallet; it must block neither this one nor the lane.
_LOCK_TIMEOUT_MS = 200


@dataclass(frozen=True, slots=True)
class Submitted:
    intent_id: int
    kind: str
    data: bytes
    tx_hash: bytes


async def announce(connection: Connection, chain_id: int, submitted: Sequence[Submitted]) -> None:
    """Append the intents' events that are not in the log yet. Every intent's kind must be in `KINDS`.

    Call this last in the transaction that stores the intents: it sets a short lock timeout for the rest of the
    transaction.
    """
    drafts = [
        *await _bets(connection, chain_id, {each.intent_id: each for each in submitted if each.kind in BETS}),
        *await _payouts(connection, chain_id, [each for each in submitted if each.kind in PAYOUTS]),
    ]
    if drafts:
        await connection.execute(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}".encode())
        await event_log.append(connection, drafts)


# The time of the last indexed block, null before the first one. A transaction sent now lands in a later block, so no
# chain event gets an earlier time than the event of its sending. The node's newest block must not be used: events
# indexed later could then be dated into a second that a reader has already read.
_CHAIN_NOW = "(SELECT block_time FROM chain_cursor WHERE chain_id = %s)"


async def _bets(connection: Connection, chain_id: int, submitted: dict[int, Submitted]) -> list[Draft]:
    if not submitted:
        return []
    rows = await (
        await connection.execute(
            f"SELECT intent_id, wallet, market_id, outcome, amount, bet_hash, {_CHAIN_NOW} FROM agent_trade"  # noqa: S608
            " WHERE intent_id = ANY(%s) ORDER BY intent_id",
            (chain_id, list(submitted)),
        )
    ).fetchall()
    markets = await notice_markets(connection, {row[2] for row in rows})
    drafts = []
    for intent_id, wallet, market_id, outcome, amount, bet_hash, now in rows:
        market = markets.get(market_id)
        if market is not None:
            payload = payloads.bet_submitted(market, outcome, int(amount), submitted[intent_id].tx_hash)
            kind = EventType.BET_SUBMITTED
            source = source_of(kind, chain_id, intent_id)
            drafts.append(Draft(wallet, kind, source, payload, market.id, bet_hash, chain_at=now))
    return drafts


async def _payouts(connection: Connection, chain_id: int, submitted: Sequence[Submitted]) -> list[Draft]:
    carried = {stake: each for each in submitted for stake in stakes_paid(each.data)}
    if not carried:
        return []
    rows = await (
        await connection.execute(
            f"SELECT {_CHAIN_NOW}, s.stake_id, s.market_id, s.wallet, s.outcome, s.amount, s.shares, s.bet_hash,"  # noqa: S608
            " s.status, s.paid_amount, m.status, m.winner FROM agent_stake s JOIN agent_market m USING (market_id)"
            " WHERE s.stake_id = ANY(%s) ORDER BY s.stake_id",
            (chain_id, list(carried)),
        )
    ).fetchall()
    markets = await notice_markets(connection, {row[2] for row in rows})
    drafts = []
    for now, stake_id, market_id, wallet, outcome, amount, shares, bet_hash, status, paid, phase, winner in rows:
        market, how = markets[market_id], carried[stake_id]
        if status in (StakeStatus.PAID, StakeStatus.REFUNDED):  # the event was delayed and the payout has landed
            owed, refund = int(paid), status == StakeStatus.REFUNDED
        else:
            won = winner if phase == AgentMarketStatus.RESOLVED else None
            refund = status == StakeStatus.OWED_BACK or market.book.refunds(won)
            owed = int(amount) if refund else market.book.owed(won, outcome, int(amount), int(shares))
        payload = payloads.payout(
            market, outcome=outcome, amount=owed, stake_id=stake_id, tx=how.tx_hash, refund=refund
        )
        kind = EventType.PAYOUT_SUBMITTED
        source = source_of(kind, chain_id, how.intent_id, stake_id)
        drafts.append(Draft(wallet, kind, source, payload, market.id, bet_hash, chain_at=now))
    return drafts


def stakes_paid(data: bytes) -> list[int]:
    """Return the stake ids of a `pay(bytes32,uint256[])` call, or an empty list for any other call."""
    words = [data[at : at + _WORD] for at in range(4, len(data), _WORD)]
    if len(words) < 3 or int.from_bytes(words[1]) != 2 * _WORD or int.from_bytes(words[2]) != len(words) - 3:
        return []
    ids = [int.from_bytes(word) for word in words[3:]]
    return [each for each in ids if each < 2**63]
