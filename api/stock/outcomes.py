"""The outcomes of bets: whether the chain has one, how its transaction ended, and whether a refusal is final.

A bet is accepted once its row is written here, and has landed once the chain has it, no matter who sent it. Its bettor
sees it as confirmed, pending or reverted, the words of the specification.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal

from api.context import Context
from api.http.problem import Problem
from api.payments.attempts import Attempts, asks_again
from api.stock import refusals
from api.stock.bets import KnownBet, RelayedBet
from api.stock.bodies.relay import RelayBody
from api.stock.landing import landing_of, position_in
from api.stock.sources import StockSources
from core.chain import RpcError
from core.hexadecimal import hex_of
from core.log import get_logger
from core.outbox import PAYER_REASONS, Intent, MinedOutcome

log = get_logger(__name__)

SPENT = "AuthorizationSpent"
"""A reason: the token says that the bet's authorization is used."""


class BetOutcomes:
    """The outcomes of bets, by the relayer, the index and the chain itself."""

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
            raise refusals.landed_before(relayed, taken_in.intent.tx_hash, position)
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
                raise refusals.of_its_payer(intent, relayed)
            # A block no older than the one that refused the bet does not have it, so it was not refused because someone
            # else had already sent it. If the relayer's nodes agreed on no such block, that may be the reason.
            raise refusals.unproven(relayed) if intent.block_number is None else refusals.not_sent(intent)
        if intent.tx_hash is None or intent.state.ended or intent.outcome is not None:
            raise refusals.failed(relayed)
        return relay_body(relayed, intent.tx_hash, "pending")

    async def confirmed(self, relayed: RelayedBet, tx: bytes, block: int | None = None) -> RelayBody:
        return relay_body(relayed, tx, "confirmed", block=block, position=await self._position(relayed, tx))

    # ------------------------------------------------------------ on the chain

    async def landed(self, relayed: RelayedBet, *, seen: int | None, spent: bool = False) -> bytes | None:
        """Return the transaction in which the chain has the bet, or None when it certainly has it in none; a 502 when
        that is unknown (see `landing_of`). No bet is said to be refused or not sent before this was asked."""
        if self._client is None or self._contracts is None:
            raise refusals.failed(relayed)
        landing = await landing_of(
            self._engine,
            self._client,
            self._contracts,
            relayed.bet,
            self._request_seconds,
            seen=seen,
            spent=spent,
        )
        if landing.tx is None and not landing.absent:
            raise refusals.failed(relayed) if landing.unreachable else refusals.unproven(relayed)
        return landing.tx

    async def _position(self, relayed: RelayedBet, tx: bytes) -> str | None:
        """Return the position's id, if the receipt can be had quickly."""
        if self._client is None or self._contracts is None:
            return None
        try:
            async with asyncio.timeout(self._request_seconds):
                receipt = await self._client.receipt(hex_of(tx))
        except (RpcError, TimeoutError):
            return None
        position_id = None if receipt is None else position_in(receipt, self._contracts, relayed.bet)
        return None if position_id is None else str(position_id)

    # ------------------------------------------------------------ for good?

    @contextlib.asynccontextmanager
    async def judging(self, relayed: RelayedBet, *, was_attempted: bool) -> AsyncIterator[None]:
        """Mark a refusal raised inside as not final while an attempt to bring the bet to the chain may still do so.
        was_attempted: as this request found it; another may make one while this one is checked."""
        try:
            yield
        except Problem as refusal:
            # Where none was found, a request that is sent again will see, and a stranger's signature brings nothing.
            is_clear = not was_attempted and (asks_again(refusal) or not relayed.is_signed)
            if is_clear or refusal.extra.get("receipt") == "confirmed":
                raise
            raise await self._attempts.worded(refusal, relayed.key.read_intent_keys) from None


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
