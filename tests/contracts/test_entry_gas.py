"""A wallet's own gas estimate for an entry, made while a vintage is open and mined when that has to be finalized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from eth_account import Account

from api.stock.authorization import StockBet
from core.chain import Contract as Target
from core.chain import checksum
from core.chain.contract import Abi
from core.contracts.deployments import Token
from core.hexadecimal import bytes_of, hex_of
from scripts._local.anvil import ask
from scripts._stack import contracts, wallets

BLOCKS = 20
START = 2_000_000_000
FREEZE = START + 1_000_000
GAS = 6_000_000
CHAIN_ID = 4663
SEED = 10 * 10**6
UP, DOWN = 0, 1
BETTOR = wallets.DEV[0]


class Chain:
    """A chain that mines on demand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.time = START

    def one(self, method: str, *params: Any) -> Any:
        return ask(self.url, method, *params)

    def mine(self) -> None:
        """Mine a block, a second after the last one whatever the machine's clock says."""
        self.time += 1
        self.one("evm_setNextBlockTimestamp", self.time)
        self.one("evm_mine")


@dataclass
class Contract:
    """A contract on the chain."""

    chain: Chain
    address: str
    abi: Abi

    def transaction(self, sender: str, name: str, *arguments: Any) -> dict[str, Any]:
        data = self.abi.function(name).encode(*arguments)
        return {"from": sender, "to": self.address, "data": hex_of(data), "gas": hex(GAS)}

    def read(self, name: str) -> Any:
        function = self.abi.function(name)
        answer = self.chain.one("eth_call", {"to": self.address, "data": hex_of(function.encode())}, "latest")
        return function.decode(bytes_of(answer))


def deployed(chain: Chain, sender: str, name: str, *arguments: str) -> Contract:
    built = contracts.compiled_contract(name)
    data = built["deploymentBytecode"]["bytecode"] + "".join(argument[2:].rjust(64, "0") for argument in arguments)
    sent = chain.one("eth_sendTransaction", {"from": sender, "data": data, "gas": hex(GAS)})
    chain.mine()
    receipt = chain.one("eth_getTransactionReceipt", sent)
    assert receipt["status"] == "0x1", name
    return Contract(chain, receipt["contractAddress"], Abi(built["abi"]))


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
        name, version = self.token.read("name"), self.token.read("version")
        self.domain = Token(
            symbol="USDG", address=checksum(self.token.address), decimals=6, domain_name=name, domain_version=version
        )

    def mined(self, transaction: dict[str, Any]) -> dict[str, Any]:
        """The transaction's receipt, from a block of its own unless others wait for it too."""
        sent = self.chain.one("eth_sendTransaction", transaction)
        self.chain.mine()
        return dict(self.chain.one("eth_getTransactionReceipt", sent))

    def estimated(self, call: dict[str, Any]) -> dict[str, Any]:
        """The call with the limit that the node estimates for it in the pending block, and nothing beside it."""
        return {**call, "gas": self.chain.one("eth_estimateGas", call, "pending")}

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
        bet = settler.transaction(market.first, "enter", 1, n % 2, amount)
        early = market.chain.one("eth_sendTransaction", bet)
        late = market.estimated(way(market, n % 2, amount, n))
        market.chain.mine()
        assert market.chain.one("eth_getTransactionReceipt", early)["status"] == "0x1"
        receipt = market.mined(late)
        events = [log for log in receipt["logs"] if log["address"] == settler.address]
        if receipt["status"] != "0x1":
            failed.append((n, int(late["gas"], 16), int(receipt["gasUsed"], 16)))
        else:
            assert len(events) == 2, "it finalizes the vintage before it, and enters"
    assert failed == []
