"""Bets as the relay receives them, unsigned and without a chain behind them."""

from __future__ import annotations

from api.stock.authorization import StockBet
from api.stock.bets import BetKey, RelayedBet
from core.chain import Contract, checksum
from core.contracts.abi import abi

CHAIN = 4663
SETTLER = Contract("0x" + "11" * 20, abi("VestedMarkets"))
WALLET = checksum("0x" + "31" * 20)


def relayed(salt: int, amount: int = 5_000_000) -> RelayedBet:
    bet = StockBet(CHAIN, SETTLER.address, WALLET, 1, 0, amount, 0, 2**40, salt.to_bytes(32))
    call, key = bet.call(SETTLER, bytes(65)), BetKey(CHAIN, bytes.fromhex(WALLET[2:]), bet.nonce)
    return RelayedBet(bet, True, call, key, None, None)
