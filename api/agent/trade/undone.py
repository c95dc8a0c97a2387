"""What is said of a trade whose market the chain has no more, since a fork undid its listing."""

from __future__ import annotations

from api.agent.chain import AgentContracts, read_facts
from api.agent.facts import key_of
from api.agent.requests import TradeRequest
from api.agent.storage import storage
from api.agent.trade import refusals as trade_refusals
from api.agent.trade.arrivals import PaymentArrivals
from api.agent.trade.outcomes import TradeOutcomes
from api.context import Context
from core.agent.bet import ZERO_ADDRESS
from core.chain import ChainClient, RpcError
from core.log import get_logger

log = get_logger(__name__)


class UndoneTrades:
    """What became of trades whose market was undone."""

    def __init__(
        self, context: Context, contracts: AgentContracts, outcomes: TradeOutcomes, arrivals: PaymentArrivals
    ) -> None:
        self._contracts = contracts
        self._primary = context.primary
        self._outcomes = outcomes
        self._arrivals = arrivals
        # The longest a call to the node may take within a request.
        self._request_seconds = context.settings.rpc_request_path_timeout_seconds

    async def check(self, client: ChainClient | None, trade: TradeRequest, key_hash: bytes) -> None:
        """Raises what became of a trade whose market the chain has no more, since a fork undid its listing; nothing
        when no payment for it was taken in.

        That it is over is said when the blocks that refuse it are final: before that another fork may bring both back.
        """
        past = await self._outcomes.paid_under(trade, key_hash)
        booked, nonces = past.trade, past.nonces
        if booked is None or booked.market_key != key_of(trade.market_id):
            return
        if (trade.size, trade.builder or ZERO_ADDRESS) != (booked.amount, booked.builder):
            raise trade_refusals.conflict(trade.idem_key)
        if not booked.is_over:
            raise trade_refusals.undone_for_now(booked.intent)
        try:
            if client is None:
                raise trade_refusals.unavailable("Base cannot be reached")
            facts = await read_facts(client, self._contracts, trade.wallet, key_hash, nonces, self._request_seconds)
        except RpcError as error:
            log.warning("an undone trade has no chain", action="agent.no_chain", why=error)
            raise trade_refusals.unavailable("Base cannot be reached") from None
        for nonce in nonces:
            if facts.is_astray(nonce):
                await self._arrivals.account_for(trade.wallet, trade.size, nonce, facts.block)
        async with storage("The trade records"), self._primary.connect() as reading:
            may_settle = await self._outcomes.may_settle(reading, trade, key_hash, or_is_on_its_way=True)
        if facts.settled_stake or may_settle:
            raise trade_refusals.undone_for_now(booked.intent)
        raise trade_refusals.undone(booked.intent)
