"""Bets for tests of the keeper: plain calls of dev wallets, no API in between."""

from __future__ import annotations

from scripts._stack import wallets
from tests.support.keeper_rig import Rig, call_data

UP, DOWN = 0, 1


def token(rig: Rig) -> str:
    return rig.deployment("stock").token("USDG").address


def settler(rig: Rig) -> str:
    return rig.deployment("stock").contract("VestedMarkets").address


def enter(rig: Rig, bettor: wallets.Wallet, market_id: int, outcome: int, amount: int) -> None:
    """A stake in token units, entered by the bettor itself."""
    approve = call_data("approve(address,uint256)", ["address", "uint256"], [settler(rig), amount])
    rig.send("stock", bettor.address, token(rig), approve)
    types = ["uint256", "uint8", "uint256"]
    data = call_data("enter(uint256,uint8,uint256)", types, [market_id, outcome, amount])
    rig.send("stock", bettor.address, settler(rig), data)


def held(rig: Rig, owner: str) -> int:
    return rig.balance("stock", token(rig), owner)


def push(rig: Rig, ticker: str, answer: int, updated_at: int) -> None:
    """A round on a local price feed; 8 decimals, Unix seconds."""
    data = call_data("push(int256,uint256)", ["int256", "uint256"], [answer, updated_at])
    rig.send("stock", wallets.DEV[7].address, rig.deployment("stock").price_feed(ticker).proxy, data)


def view(rig: Rig, to: str, signature: str, types: list[str], values: list[object]) -> int:
    """The first word a view returns."""
    data = call_data(signature, types, values)
    answer = rig.ask("stock", "eth_call", {"to": to, "data": "0x" + data.hex()}, "latest")
    return int(answer[2:66], 16)
