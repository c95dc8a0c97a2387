"""Reads the stock contracts and all their logs for the judge, directly from the chain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from eth_utils.crypto import keccak

from api.stock.sources import StockContracts
from core.chain import Call
from core.contracts.deployments import Deployment
from core.contracts.statuses import StockMarketStatus
from tests.simulator.chain import SimulatedChain
from tests.simulator.contracts import LOOKS_BACK_SECONDS, ChainTruth

_MANY = 10_000
_BOOK = ("principal", "acc", "capacity", "vested", "demand", "live")


def _topic(signature: str) -> str:
    return "0x" + keccak(text=signature).hex()


_ENTERED = _topic("Entered(uint256,uint256,address,uint8,uint256,uint64)")
_DELIVERED = _topic("Delivered(uint256,address,uint256,uint256,uint256)")
_RESIDUE = _topic("ResidueClaimed(uint256,uint256)")
_SWEPT = _topic("FeesSwept(uint256)")
_USED = _topic("AuthorizationUsed(address,bytes32)")


@dataclass(frozen=True)
class Entry:
    position: int
    market: int
    owner: str
    outcome: int
    offered: int
    is_seed: bool


@dataclass(frozen=True)
class Sent:
    position: int
    owner: str
    payout: int
    refund: int


@dataclass
class Ledger:
    """What the contract's logs say about money. Owners are in lower case; `by_authorization` is by owner and nonce."""

    entries: dict[int, Entry] = field(default_factory=dict)
    by_authorization: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    sent: dict[int, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    to_treasury: int = 0

    @property
    def came_in(self) -> int:
        return sum(each.offered for each in self.entries.values())

    @property
    def went_out(self) -> int:
        return self.to_treasury + sum(each.payout + each.refund for each in self.deliveries())

    def deliveries(self) -> Iterator[Sent]:
        for some in self.sent.values():
            yield from some


class StockTruth(ChainTruth):
    def __init__(self, chain: SimulatedChain, deployment: Deployment) -> None:
        found = StockContracts.of(deployment)
        assert found is not None
        super().__init__(chain, deployment, found.token)
        self.contracts = found
        self.settler = found.settler
        self._promised: dict[int, tuple[int, int, int]] = {}  # by position: block, forks until then, accrued

    def call(self, name: str, *arguments: object) -> Call:
        return self.settler.call(name, *arguments)

    def number(self, name: str) -> int:
        return int(self.read(self.call(name)))

    def position(self, identity: int) -> Any:
        return self.read(self.call("position", identity))

    def markets(self) -> range:
        return range(1, self.number("marketCount") + 1)

    def positions_of(self, market: int) -> list[int]:
        return list(self.read(self.call("positionsOf", market, 0, _MANY)))

    def due(self, position: int) -> int:
        *_, total, _deliverable = self.read(self.call("settlement", position))
        return int(total)

    def refund(self, position: int) -> int:
        _gross, _fee, _net, refund, *_ = self.read(self.call("settlement", position))
        return int(refund)

    # ------------------------------------------------------------ answers

    def answer(self, body: Any) -> str | None:
        """Judge a market's detail at the block that it names; see `Seen.true`."""
        block = int(body["head"]["blockNumber"])
        if block > self.chain.head or not self.chain.stood_for(block, LOOKS_BACK_SECONDS):
            return None
        about = f"market {body['market']['id']} at block {block}"
        market = int(body["market"]["id"])
        held, books = self.read(self.call("market", market), block), self.read(self.call("books", market), block)
        said = [tuple(int(book[name]) for name in _BOOK) for book in body["books"]]
        true = [tuple(int(book[name]) for name in _BOOK) for book in books]
        if said != true:
            return f"{about}: books {said}, on the chain {true}"
        if (len(body["positions"]), body["resolution"] is None) != (
            held["positions"],
            held["status"] == StockMarketStatus.OPEN,
        ):
            return f"{about}: {len(body['positions'])} positions, settled by {body['resolution']}; on the chain {held}"
        return self._promises(body, block, about)

    def _promises(self, body: Any, block: int, about: str) -> str:
        """Compare a position with the contract's, and check that no promise has fallen."""
        chosen = body["positions"][block % len(body["positions"])]
        true = int(self.read(self.call("accrued", int(chosen["id"])), block))
        if int(chosen["accrued"]) != true:
            return f"{about}: position {chosen['id']} is promised {chosen['accrued']}, on the chain {true}"
        for each in body["positions"]:
            identity, promised = int(each["id"]), int(each["accrued"])
            at, forks, before = self._promised.get(identity, (block, self.chain.forks, 0))
            if forks == self.chain.forks and at <= block and promised < before:
                return f"{about}: what position {identity} is promised fell from {before} to {promised}"
            if forks != self.chain.forks or at <= block:
                self._promised[identity] = block, self.chain.forks, promised
        return ""

    def receipt(self, owner: str, outcome: int, amount: int, answer: Any) -> str | None:
        """Check the response to a confirmed bet against the position's present state; see `Seen.true`."""
        if self.chain.forked_within(LOOKS_BACK_SECONDS):
            return None
        if answer["positionId"] is None:
            return ""
        held = self.position(int(answer["positionId"]))
        true = (held["owner"].lower(), held["outcome"], held["offered"])
        said = (owner.lower(), outcome, amount)
        return "" if true == said else f"position {answer['positionId']} is {true} and not {said}"

    # ------------------------------------------------------------ money

    def withdraw(self, owner: str, position: int) -> None:
        call = self.call("withdrawRefund", position)
        self.chain.ask("anvil_setBalance", owner, hex(10**18))
        self.chain.ask("anvil_impersonateAccount", owner)
        given = {"from": owner, "to": call.to, "data": "0x" + call.data.hex(), "gas": hex(400_000)}
        self.chain.ask("eth_sendTransaction", given)

    def ledger(self) -> Ledger:
        made = Ledger()
        by_tx: dict[str, list[Entry]] = defaultdict(list)
        for log in self._logs(self.settler.address):
            words = [int(log["data"][at : at + 64], 16) for at in range(2, len(log["data"]), 64)]
            topic = log["topics"][0]
            if topic == _ENTERED:
                market, position, owner = (int(each, 16) for each in log["topics"][1:])
                entry = Entry(position, market, f"0x{owner:040x}", words[0], words[1], words[2] == 0)
                made.entries[position] = entry
                by_tx[log["transactionHash"]].append(entry)
            elif topic == _DELIVERED:
                position, owner = (int(each, 16) for each in log["topics"][1:])
                made.sent[position].append(Sent(position, f"0x{owner:040x}", words[0], words[2]))
            elif topic in (_RESIDUE, _SWEPT):
                made.to_treasury += words[0]
        for log in self._logs(self.token.address, _USED):
            owner = "0x" + log["topics"][1][-40:]
            made.by_authorization[owner, log["topics"][2]] = by_tx.get(log["transactionHash"], [])
        return made

    def _logs(self, address: str, *topics: str) -> list[Any]:
        wanted = {"address": address, "fromBlock": "0x0", "toBlock": "latest", "topics": list(topics)}
        return list(self.chain.ask("eth_getLogs", wanted))
