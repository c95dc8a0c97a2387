"""Signed bets as the payment pipeline receives them, without a chain behind them."""

from __future__ import annotations

from api.agent.trade import records
from api.payments.attempts import Attempt, Funds
from api.payments.authorization import Authorization, SignedCall
from api.stock.bets import RelayedBet, StockBet
from core.agent.bet import Bet
from core.chain import Contract, checksum
from core.contracts.abi import abi
from core.db.engine import Connection

CHAIN, BASE = 4663, 8453
SETTLER = Contract("0x" + "11" * 20, abi("VestedMarkets"))
WALLET = checksum("0x" + "31" * 20)


def relayed(salt: int, amount: int = 5_000_000) -> RelayedBet:
    bet = StockBet(CHAIN, SETTLER.address, WALLET, 1, 0, amount, 0, 2**40, salt.to_bytes(32))
    signed = SignedCall("enter", CHAIN, bet.call(SETTLER, bytes(65)), bet.authorization)
    return RelayedBet(bet, True, signed, bet.key, None, None)


async def add_trade(
    connection: Connection,
    bet: Bet,
    bet_hash: bytes,
    nonce: bytes,
    *,
    chain_id: int = BASE,
    after: int = 0,
    funds: Funds | None = None,
    callback_url: str | None = None,
) -> Attempt:
    """Store an attempt of an agent's trade as the API does, with a call that settles nothing."""
    payment = Authorization(bet.wallet, SETTLER.address, bet.amount, 0, 2**40, nonce)
    return await records.add_attempt(
        connection,
        records.bet_key(chain_id, bet.wallet, bet.idem_hash),
        bet,
        bet_hash,
        SignedCall("settle", chain_id, SETTLER.call("finalizeVintage", int.from_bytes(nonce)), payment),
        after=after,
        funds=Funds(10**12, 1) if funds is None else funds,
        quote_id=None,
        callback_url=callback_url,
    )
