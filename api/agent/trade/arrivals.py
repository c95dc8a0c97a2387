"""Payments that the token calls used while their key has settled nothing: by what, as far as the index knows."""

from __future__ import annotations

from api.agent.chain import AgentContracts
from api.agent.facts import Arrival, ArrivalState
from api.agent.index import AgentIndex
from api.agent.rows import read_arrival
from api.agent.storage import storage
from api.agent.trade import refusals as trade_refusals
from api.context import Context
from api.finality import read_final_block

INDEX_WAIT_SECONDS = 5.0


class PaymentArrivals:
    """What became of authorizations that were used past us."""

    def __init__(self, context: Context, contracts: AgentContracts, index: AgentIndex) -> None:
        self._contracts = contracts
        self._primary = context.primary  # what is said of money must not be behind what was just written
        self._index = index
        # How deep a block lies that nothing undoes, where the node does not say.
        self._finality_blocks = context.settings.chain("base").finality_blocks

    async def account_for(self, wallet: str, amount: int, nonce: bytes, block: int) -> None:
        """Raises what became of a payment that was brought under this key before and used since; nothing when it was
        cancelled, so that another may be asked for."""
        tx, value = brought_for_good(*await self.read(wallet, nonce, block))
        if value is None:
            return
        if value != amount:
            raise trade_refusals.other_amount(value, amount, tx)
        raise trade_refusals.arriving(value, tx)

    async def read(self, payer: str, nonce: bytes, block: int) -> tuple[Arrival | None, bool]:
        """What the index holds of it once it holds this block, and whether that is final."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            arrival = await read_arrival(
                connection, self._contracts.chain_id, self._contracts.token.address, payer, nonce
            )
            final = await read_final_block(connection, self._contracts.chain_id, self._finality_blocks)
        return arrival, arrival is not None and arrival.block <= final


def brought_for_good(arrival: Arrival | None, is_final: bool) -> tuple[bytes, int | None]:
    """The transaction that used an authorization, and what it has brought us for good: None when it was cancelled, and
    brings nothing. Raises as long as that is not known. The index holds no payments but those to us."""
    if arrival is None:
        raise trade_refusals.unseen()
    if arrival.state is ArrivalState.CANCELED:
        return arrival.tx, None
    if arrival.value is None:
        raise trade_refusals.unpaired(arrival.tx)
    if not is_final:
        raise trade_refusals.arriving(arrival.value, arrival.tx)
    return arrival.tx, arrival.value
