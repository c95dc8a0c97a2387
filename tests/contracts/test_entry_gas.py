"""A wallet's own gas estimate for an entry, made while a vintage is open and mined when that has to be finalized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from eth_account import Account

from api.stock.authorization import StockBet
from core.chain import Contract as Target
from core.chain import checksum
from core.contracts.deployments import Token
from core.hexadecimal import hex_of
from scripts._stack import wallets
from tests.contracts.test_mirror_on_chain import FREEZE, START, Chain, Contract, deployed

BLOCKS = 20
CHAIN_ID = 4663
SEED = 10 * 10**6
UP, DOWN = 0, 1
BETTOR = wallets.DEV[0]


class Market:
    """One market on a chain that mines on demand: `first` bets early in each block, `second` by its own estimate."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.first, self.second, operator, *_ = chain.one("eth_accounts")
        self.token = deployed(chain, operator, "LocalUSDG")
        self.settler = deployed(chain, operator, "VestedMarkets", self.token.address, operator, operator, operator)
        for owner in (self.first, self.second, operator):
            self.mined(self.token.transaction(owner, "mint", owner, 2**60))
            self.mined(self.token.transaction(owner, "approve", self.settler.address, 2**255))
        self.mined(self.token.transaction(operator, "mint", BETTOR.address, 2**60))
        self.mined(self.token.transaction(operator, "transfer", self.settler.address, 2 * SEED))
        terms = (operator, operator, FREEZE, 1, 0, 30, SEED, 1, 2**48 - 1, 2**48 - 1)
        self.mined(self.settler.transaction(operator, "create", terms))
        name, version = self.token.read(self.block, [("name",), ("version",)])
        self.domain = Token(
            symbol="USDG", address=checksum(self.token.address), decimals=6, domain_name=name, domain_version=version
        )

    @property
    def block(self) -> int:
        return int(self.chain.one("eth_blockNumber"), 16)

    def mined(self, transaction: tuple[str, list[Any]]) -> dict[str, Any]:
        """The transaction's receipt, from a block of its own unless others wait for it too."""
        sent = self.chain.batch([transaction])[0]
        self.chain.mine()
        return dict(self.chain.one("eth_getTransactionReceipt", sent))

    def estimated(self, call: dict[str, Any]) -> tuple[str, list[Any]]:
        """The call with the limit that the node estimates for it in the pending block, and nothing beside it."""
        return "eth_sendTransaction", [{**call, "gas": self.chain.one("eth_estimateGas", call, "pending")}]

    def direct(self, outcome: int, amount: int, _: int) -> dict[str, Any]:
        data = self.settler.abi.function("enter").encode(1, outcome, amount)
        return {"from": self.second, "to": self.settler.address, "data": hex_of(data)}

    def signed(self, outcome: int, amount: int, salt: int) -> dict[str, Any]:
        bet = StockBet(
            chain_id=CHAIN_ID,
            settler=checksum(self.settler.address),
            signer=checksum(BETTOR.address),
            market_id=1,
            outcome=outcome,
            amount=amount,
            valid_after=0,
            valid_before=FREEZE,
            salt=salt.to_bytes(32, "big"),
        )
        signature = bytes(Account.unsafe_sign_hash(bet.digest(self.domain), BETTOR.private_key).signature)
        call = bet.call(Target(bet.settler, self.settler.abi), signature)
        return {"from": self.second, "to": call.to, "data": hex_of(call.data)}


@pytest.mark.parametrize("rationed", [False, True])
@pytest.mark.parametrize("way", [Market.direct, Market.signed])
def test_an_estimate_still_suffices_when_the_vintage_before_has_to_be_finalized(
    anvil: Callable[..., Any], way: Callable[[Market, int, int, int], dict[str, Any]], rationed: bool
) -> None:
    market = Market(Chain(anvil(CHAIN_ID, mine_on_demand=True, timestamp=START).url))
    settler: Contract = market.settler
    amount = 10**9 if rationed else 10**6
    failed = []
    for n in range(BLOCKS):
        early = market.chain.batch([settler.transaction(market.first, "enter", 1, n % 2, amount)])[0]
        late = market.estimated(way(market, n % 2, amount, n))
        market.chain.mine()
        assert market.chain.one("eth_getTransactionReceipt", early)["status"] == "0x1"
        receipt = market.mined(late)
        events = [log for log in receipt["logs"] if log["address"] == settler.address]
        if receipt["status"] != "0x1":
            failed.append((n, int(late[1][0]["gas"], 16), int(receipt["gasUsed"], 16)))
        else:
            assert len(events) == 2, "it finalizes the vintage before it, and enters"
    assert failed == []
