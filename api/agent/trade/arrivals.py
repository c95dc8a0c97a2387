"""Payments that the token calls used while their key has settled nothing: what used them, as far as the index knows.

What an authorization brought past us is booked by the keeper, from a final block, for the bet that its payer brought it
for. Here its payer learns what became of it.
"""

from __future__ import annotations

from typing import NoReturn

from api.agent.chain import AgentContracts, PaymentFacts
from api.agent.facts import Arrival, ArrivalState, Stake
from api.agent.index import AgentIndex
from api.agent.rows import read_arrival, read_by_nonce
from api.agent.storage import storage
from api.agent.trade import refusals as trade_refusals
from api.agent.trade.payment import form_of
from api.context import Context
from api.payments.authorization import Authorization
from api.payments.finality import read_final_block
from core.contracts.statuses import Form

INDEX_WAIT_SECONDS = 5.0


class PaymentArrivals:
    """What became of authorizations that were used past us."""

    def __init__(self, context: Context, contracts: AgentContracts, index: AgentIndex) -> None:
        self._contracts = contracts
        self._primary = context.primary  # what is said of money must not be behind what was just written
        self._index = index
        # How deep a block lies that nothing undoes, where the node does not say.
        self._finality_blocks = context.settings.chain("base").finality_blocks

    async def account_for(self, wallet: str, amount: int, nonces: tuple[bytes, ...], facts: PaymentFacts) -> None:
        """Raise what became of a payment that was brought under this key before and used since; nothing if all of them
        were cancelled, so that another may be asked for."""
        for nonce in nonces:
            if facts.is_astray(nonce):
                arrival, is_final = await self._read(wallet, nonce, facts.block)
                if arrival is None or arrival.state is not ArrivalState.CANCELED:
                    self._refuse(arrival, amount, is_final=is_final)

    async def used(self, payment: Authorization, amount: int, facts: PaymentFacts, *, fault: str | None) -> Stake:
        """Return what an authorization was booked as; raise what became of it if it was not. `fault`: why it does not
        pay for this bet of `amount`."""
        if payment.nonce in facts.booked:
            return await self._booked(payment, facts.block)
        arrival, is_final = await self._read(payment.payer, payment.nonce, facts.block)
        if arrival is not None and arrival.value is not None and form_of(payment) is Form.RECEIVE:
            # Only the contract takes it in this form, and books it in the same call: in a block after the one read.
            return await self._booked(payment, arrival.block)
        if arrival is not None and arrival.state is ArrivalState.CANCELED:
            raise trade_refusals.cancelled(arrival.tx)
        if fault is not None and is_final and arrival is not None and arrival.value is not None:
            raise trade_refusals.other_use(fault, arrival.tx)
        self._refuse(arrival, amount, is_final=is_final)

    def _refuse(self, arrival: Arrival | None, amount: int, *, is_final: bool) -> NoReturn:
        """Raise what is known of a payment that was not cancelled. The index holds no payments but those to us."""
        if arrival is None:
            raise trade_refusals.unseen()
        if arrival.value is None:
            raise trade_refusals.unpaired(arrival.tx)
        if is_final and arrival.value != amount:
            raise trade_refusals.other_amount(arrival.value, amount, arrival.tx)
        raise trade_refusals.arriving(arrival.value, arrival.tx)

    async def _booked(self, payment: Authorization, block: int) -> Stake:
        """Wait for the index to show an authorization that is booked, however late that is noticed."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            stake = await read_by_nonce(connection, payment.payer, payment.nonce)
        if stake is None:
            raise trade_refusals.unseen()
        return stake

    async def _read(self, payer: str, nonce: bytes, block: int) -> tuple[Arrival | None, bool]:
        """Return what the index holds of it once it holds this block, and whether that is final."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            arrival = await read_arrival(
                connection, self._contracts.chain_id, self._contracts.token.address, payer, nonce
            )
            final = await read_final_block(connection, self._contracts.chain_id, self._finality_blocks)
        return arrival, arrival is not None and arrival.block <= final
