"""The outcomes of bets: whether a bet is on the chain, how its transaction ended, and whether a refusal is final.

A bet is accepted once its row is written, and has landed once it is on the chain, whoever sent it. To its bettor it is
confirmed, pending or reverted, the words of the specification.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal

from api.context import Context
from api.payments.attempts import Attempts, is_retriable
from api.problems import Problem
from api.stock import refusals
from api.stock.bets import KnownBet, RelayedBet
from api.stock.bodies.relay import RelayBody
from api.stock.landing import find_landing, find_position
from api.stock.sources import StockSources
from core.chain import RpcError
from core.hexadecimal import hex_of
from core.log import get_logger
from core.outbox import PAYER_REASONS, Intent, MinedOutcome

log = get_logger(__name__)

SPENT = "AuthorizationSpent"
"""The relayer's reason when the token reports the bet's authorization as used."""


class BetOutcomes:
    """The outcomes of bets, from the relayer, the index and the chain itself."""

    def __init__(self, context: Context, sources: StockSources, attempts: Attempts) -> None:
        self._contracts = sources.contracts
        self._client = sources.client
        self._attempts = attempts
        self._engine = context.primary
        self._request_seconds = context.settings.rpc_request_path_timeout_seconds

    async def of(self, relayed: RelayedBet, taken_in: KnownBet, until: float) -> RelayBody:
        """Wait until `until`, by the loop's clock, for the outcome of an accepted bet; return what is known then."""
        # A fork may have undone the block reported to the bettor: then the bet is pending again, and not used up.
        if taken_in.confirmation_sent and taken_in.intent.succeeded:
            assert taken_in.intent.tx_hash is not None
            position = await self._position(relayed, taken_in.intent.tx_hash)
            raise refusals.already_booked(relayed, taken_in.intent.tx_hash, position)
        left = max(0.0, until - asyncio.get_running_loop().time())
        return await self._ended(relayed, await self._attempts.result(taken_in.intent, left))

    async def _ended(self, relayed: RelayedBet, intent: Intent) -> RelayBody:
        if intent.succeeded:
            assert intent.tx_hash is not None
            return await self.confirmed(relayed, intent.tx_hash, intent.block_number)
        if intent.refused or intent.outcome is not None:
            tx = await self.landed(relayed, seen=intent.block_number, spent=intent.reason_code == SPENT)
            if tx is not None:
                return await self.confirmed(relayed, tx)
        if intent.outcome is MinedOutcome.REVERTED:
            assert intent.tx_hash is not None
            final = not await self._attempts.may_land(relayed.key.read_intent_keys)
            return relay_body(relayed, intent.tx_hash, "reverted", block=intent.block_number, final=final)
        if intent.refused:
            if intent.reason_code in PAYER_REASONS:
                raise refusals.payer_limited(intent, relayed)
            # A block no older than the one that refused the bet does not have it, so it was not refused because someone
            # else had already sent it. If the relayer's nodes did not agree on such a block, that may be the reason.
            raise refusals.nodes_disagree(relayed) if intent.block_number is None else refusals.not_sent(intent)
        if intent.tx_hash is None or intent.state.ended or intent.outcome is not None:
            raise refusals.outcome_unknown(relayed)
        return relay_body(relayed, intent.tx_hash, "pending")

    async def confirmed(self, relayed: RelayedBet, tx: bytes, block: int | None = None) -> RelayBody:
        return relay_body(relayed, tx, "confirmed", block=block, position=await self._position(relayed, tx))

    # ------------------------------------------------------------ on the chain

    async def landed(self, relayed: RelayedBet, *, seen: int | None, spent: bool = False) -> bytes | None:
        """Return the transaction in which the bet landed, or None if it certainly has not; raise a 502 if that is
        unknown (see `find_landing`). Must be called before any answer says that a bet was refused or not sent."""
        if self._client is None or self._contracts is None:
            raise refusals.outcome_unknown(relayed)
        landing = await find_landing(
            self._engine,
            self._client,
            self._contracts,
            relayed.bet,
            self._request_seconds,
            seen=seen,
            spent=spent,
        )
        if landing.tx is None and not landing.absent:
            raise refusals.outcome_unknown(relayed) if landing.unreachable else refusals.nodes_disagree(relayed)
        return landing.tx

    async def _position(self, relayed: RelayedBet, tx: bytes) -> str | None:
        """Return the position's id, if a node returns the receipt quickly."""
        if self._client is None or self._contracts is None:
            return None
        try:
            async with asyncio.timeout(self._request_seconds):
                receipt = await self._client.receipt(hex_of(tx))
        except (RpcError, TimeoutError):
            return None
        position_id = None if receipt is None else find_position(receipt, self._contracts, relayed.bet)
        return None if position_id is None else str(position_id)

    # ------------------------------------------------------------ final or not

    @contextlib.asynccontextmanager
    async def judging(self, relayed: RelayedBet, *, was_attempted: bool) -> AsyncIterator[None]:
        """Mark a refusal raised inside as not final if an attempt to place the bet may still land. was_attempted:
        whether this request found an attempt; another request may make one meanwhile."""
        try:
            yield
        except Problem as refusal:
            # Without an attempt, a retriable refusal needs no mark, and a stranger's signature can never place the bet.
            is_clear = not was_attempted and (is_retriable(refusal) or not relayed.is_signed)
            if is_clear or refusal.extra.get("receipt") == "confirmed":
                raise
            raise await self._attempts.mark_if_not_final(refusal, relayed.key.read_intent_keys) from None


def relay_body(
    relayed: RelayedBet,
    tx: bytes,
    receipt: Literal["confirmed", "pending", "reverted"],
    *,
    block: int | None = None,
    position: str | None = None,
    final: bool | None = None,
) -> RelayBody:
    return RelayBody(
        ok=receipt != "reverted",
        tx_hash=hex_of(tx),
        nonce=relayed.nonce_hex,
        receipt=receipt,
        position_id=position,
        block_number=None if block is None else str(block),
        final=final,
        escape_kit=relayed.escape_kit,
    )
