"""The mirror against a real chain: markets are played on anvil, the mirror is folded from the logs alone, and every
view of the contract is compared with it.

All markets run side by side, one block a round. What a history says happens in one block happens in one block here;
where it waits within a block it does not: a block of anvil's has one time only (the replay in forge covers that).
`VPM_TEST_CHAIN_HISTORIES` overrides how many markets (100).
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from core.chain.contract import Abi
from core.contracts.events import SETTLER_EVENTS
from core.hexadecimal import hex_of
from core.stock.vested import Moment
from core.stock.vested_fold import Ledger, is_folded
from core.stock.vested_views import market_view, position_view
from scripts._stack import contracts
from tests.contracts.model import histories as step
from tests.contracts.model.encoding import history
from tests.contracts.model.histories import OPENER, History, Step

COUNT = int(os.environ.get("VPM_TEST_CHAIN_HISTORIES", "100"))
SEED = os.environ.get("VPM_TEST_SEED", "vested")

START = 2_000_000_000
FREEZE = START + 1_000_000
OPERATOR = 9
"""The account that lists, resolves and runs every errand; the actors of the histories are accounts 0 to 8."""
TREASURY = "0x00000000000000000000000000000000007ea5c0"
GAS = 6_000_000
COMPARE_EVERY = 6

READ_CLOCK = "0x4360005242602052" + "60406000f3"
"""Creation code that returns `block.number` and `block.timestamp`: what views see, whatever the node calls latest."""


class Chain:
    """A chain that mines when told; requests go in batches."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.time = START

    def batch(self, requests: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        answers: list[Any] = []
        for first in range(0, len(requests), 500):
            body = [
                {"jsonrpc": "2.0", "id": n, "method": method, "params": params}
                for n, (method, params) in enumerate(requests[first : first + 500])
            ]
            request = urllib.request.Request(self.url, json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=120) as response:
                found = {answer["id"]: answer for answer in json.loads(response.read())}
            for n in range(len(body)):
                assert "result" in found[n], (body[n], found[n])
                answers.append(found[n]["result"])
        return answers

    def one(self, method: str, *params: Any) -> Any:
        return self.batch([(method, list(params))])[0]

    def mine(self, not_before: int = 0) -> int:
        """A block, a second or more after the last one whatever the machine's clock says; its number."""
        self.time = max(self.time + 1, not_before)
        self.one("evm_setNextBlockTimestamp", self.time)
        self.one("evm_mine")
        return int(self.one("eth_blockNumber"), 16)

    def clock(self, block: int) -> Moment:
        number, timestamp = self._words(self.one("eth_call", {"data": READ_CLOCK}, hex(block)))
        return Moment(number, timestamp)

    @staticmethod
    def _words(data: str) -> list[int]:
        raw = bytes.fromhex(data[2:])
        return [int.from_bytes(raw[at : at + 32], "big") for at in range(0, len(raw), 32)]


@dataclass
class Contract:
    chain: Chain
    address: str
    abi: Abi

    def transaction(self, sender: str, name: str, *arguments: Any) -> tuple[str, list[Any]]:
        data = self.abi.function(name).encode(*arguments)
        return "eth_sendTransaction", [{"from": sender, "to": self.address, "data": "0x" + data.hex(), "gas": hex(GAS)}]

    def read(self, block: int, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Each call a function's name and its arguments; all at the same block."""
        functions = [(self.abi.function(name), arguments) for name, *arguments in calls]
        answers = self.chain.batch(
            [
                ("eth_call", [{"to": self.address, "data": "0x" + f.encode(*given).hex()}, hex(block)])
                for f, given in functions
            ]
        )
        return [f.decode(bytes.fromhex(answer[2:])) for (f, _), answer in zip(functions, answers, strict=True)]


def deployed(chain: Chain, sender: str, name: str, *arguments: str) -> Contract:
    built = contracts.compiled_contract(name)
    data = built["deploymentBytecode"]["bytecode"] + "".join(argument[2:].rjust(64, "0") for argument in arguments)
    sent = chain.one("eth_sendTransaction", {"from": sender, "data": data, "gas": hex(GAS)})
    chain.mine()
    receipt = chain.one("eth_getTransactionReceipt", sent)
    assert receipt["status"] == "0x1", name
    return Contract(chain, receipt["contractAddress"], Abi(built["abi"]))


def blocks_of(steps: Sequence[Step]) -> tuple[list[list[Step]], list[list[Step]]]:
    """A history's steps by the block they happen in, before its freeze and after."""
    before: list[list[Step]] = [[]]
    after: list[list[Step]] = [[]]
    side = before
    for s in steps:
        match s:
            case step.Freeze():
                side = after
            case step.NextBlock() | step.Resolve() | step.Void() | step.Claim() | step.Refund() | step.Deliver():
                side.append([] if isinstance(s, step.NextBlock) else [s])
            case step.Wait() | step.Check():
                pass
            case _:
                side[-1].append(s)
    return before, after


class Play:
    """All markets on one settler, and the ledger folded from its logs."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.accounts: list[str] = chain.one("eth_accounts")
        operator = self.accounts[OPERATOR]
        self.token = deployed(chain, operator, "LocalUSDG")
        self.settler = deployed(
            chain,
            operator,
            "VestedMarkets",
            *(self.token.address, operator, operator, TREASURY),
        )
        self.nonces = {a: int(chain.one("eth_getTransactionCount", a, "latest"), 16) for a in self.accounts}
        self.ledger = Ledger()
        self.folded_to = 0
        self.compared = 0
        self.send(self.token.transaction(a, "mint", a, 2**120) for a in self.accounts)
        self.send(self.token.transaction(a, "approve", self.settler.address, 2**255) for a in self.accounts)
        chain.mine()

    def send(self, transactions: Iterable[tuple[str, list[Any]]]) -> None:
        """All of them, each sender's in the order given: the node works on a batch's requests at the same time, so the
        nonces are told."""
        numbered = []
        for method, [transaction] in transactions:
            sender = transaction["from"]
            numbered.append((method, [{**transaction, "nonce": hex(self.nonces[sender])}]))
            self.nonces[sender] += 1
        self.chain.batch(numbered)

    def create(self, told: History) -> list[tuple[str, list[Any]]]:
        operator = self.accounts[OPERATOR]
        terms = (
            self.accounts[OPENER],
            operator,
            FREEZE,
            1,
            told.fee_bps,
            told.kappa,
            told.seed,
            1,
            2**48 - 1,
            told.side_cap,
        )
        return [
            self.token.transaction(operator, "transfer", self.settler.address, 2 * told.seed),
            self.settler.transaction(operator, "create", terms),
        ]

    def transaction(self, market_id: int, s: Step) -> Iterable[tuple[str, list[Any]]]:
        """What a step sends. Payments that are due nothing are sent all the same, and revert."""
        operator, settler = self.accounts[OPERATOR], self.settler
        ids = self.ledger.entries[market_id]
        match s:
            case step.Enter(actor, side, amount):
                yield settler.transaction(self.accounts[actor], "enter", market_id, side, amount)
            case step.Finalize():
                yield settler.transaction(operator, "finalizeVintage", market_id)
            case step.Transfer(entry, to) if entry < len(ids):
                owner = hex_of(self.ledger.positions[ids[entry]].owner)
                yield settler.transaction(owner, "transferPosition", ids[entry], self.accounts[to])
            case step.Resolve(winner):
                yield settler.transaction(operator, "resolve", market_id, winner)
            case step.Void(by_resolver):
                yield settler.transaction(operator if by_resolver else self.accounts[0], "voidMarket", market_id)
            case step.Refund(entry) if entry < len(ids):
                yield settler.transaction(operator, "withdrawRefund", ids[entry])
            case step.Claim(entry) if entry < len(ids):
                yield settler.transaction(operator, "claim", ids[entry])
            case step.Deliver(entries):
                yield settler.transaction(operator, "deliver", [ids[entry] for entry in entries if entry < len(ids)])
            case step.TakeResidue():
                yield settler.transaction(operator, "claimResidue", market_id)

    def rounds(self, markets: dict[int, list[list[Step]]]) -> None:
        """Block after block, the next one of every market that has one left."""
        longest = max(map(len, markets.values()))
        for n in range(longest):
            self.send(
                transaction
                for market_id, blocks in markets.items()
                if n < len(blocks)
                for s in blocks[n]
                for transaction in self.transaction(market_id, s)
            )
            self.fold(self.chain.mine())
            if n % COMPARE_EVERY == 0 or n == longest - 1:
                self.compare(self.folded_to)

    def fold(self, block: int) -> None:
        for log in self.chain.one(
            "eth_getLogs",
            {"address": self.settler.address, "fromBlock": hex(self.folded_to + 1), "toBlock": hex(block)},
        ):
            topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
            event = SETTLER_EVENTS[topics[0]].read(b"".join(topics), bytes.fromhex(log["data"][2:]))
            if is_folded(event):
                self.ledger.apply(event)
        self.folded_to = block

    # ---------------------------------------------------------------- comparing

    def compare(self, block: int) -> None:
        now = self.chain.clock(block)
        read: Callable[[Iterable[tuple[Any, ...]]], list[Any]] = lambda calls: self.settler.read(block, calls)  # noqa: E731
        ids = list(self.ledger.markets)
        assert read([("marketCount",), ("feesAccrued",)]) == [len(ids), self.ledger.fees_accrued]
        names = ("market", "books", "headroom", "positionsOf")
        answers = read((name, i, *((0, 10_000) if name == "positionsOf" else ())) for i in ids for name in names)
        for at, market_id in enumerate(ids):
            self.compare_market(market_id, now, answers[4 * at : 4 * at + 4])
        positions = list(self.ledger.positions)
        answers = read((name, i) for i in positions for name in ("position", "accrued", "settlement"))
        for at, position_id in enumerate(positions):
            self.compare_position(position_id, now, answers[3 * at : 3 * at + 3])
        self.compared += len(positions)

    def compare_market(self, market_id: int, now: Moment, answers: Sequence[Any]) -> None:
        stated, books, headroom, listed = answers
        market = self.ledger.markets[market_id]
        view = market_view(market, now)
        t = market.terms
        assert (stated["opener"], stated["resolver"]) == (hex_of(t.opener), hex_of(t.resolver))
        assert stated["freezeTime"] == t.freeze_time
        assert (stated["feeBps"], stated["kappa"], stated["seedPerLeg"]) == (t.fee_bps, t.kappa, t.seed_per_leg)
        assert (stated["pool"], stated["distributed"]) == (view.pool, view.distributed)
        assert stated["unpaidPrincipal"] == view.unpaid_principal
        assert stated["vintageBlock"] == (market.vintage.number if market.vintage else 0)
        assert stated["positions"] == len(self.ledger.entries[market_id])
        assert tuple(headroom) == view.headroom
        for told, book in zip(books, view.books, strict=True):
            assert told == {name: getattr(book, name) for name in told}
        assert sorted(listed) == sorted(self.ledger.entries[market_id])

    def compare_position(self, position_id: int, now: Moment, answers: Sequence[Any]) -> None:
        stated, accrued, settlement = answers
        position = self.ledger.positions[position_id]
        market = self.ledger.markets[position.market_id]
        view = position_view(market, position, self.ledger.vintage_of(position), now)
        due = view.settlement
        assert stated["owner"] == hex_of(position.owner)
        for name in ("outcome", "offered", "vintage", "seed"):
            assert stated[name] == getattr(position, name), name
        assert stated["marketId"] == position.market_id
        assert stated["finalized"] == (view.accepted is not None)
        assert (stated["accepted"], stated["refused"]) == (view.accepted or 0, view.refused)
        if view.entry_acc is not None:
            assert stated["entryAcc"] == view.entry_acc
        assert accrued == view.accrued
        assert tuple(settlement) == (due.gross, due.fee, due.net, due.refund, due.total, due.deliverable)
        # A loser's flags tell no more than that nothing is due any more.
        if due.net:
            assert stated["claimed"] == position.claimed
        if due.refund:
            assert stated["refunded"] == position.refunded


@pytest.mark.timeout(900)
@pytest.mark.thorough
def test_the_mirror_folded_from_logs_equals_every_view(anvil: Callable[..., Any]) -> None:
    print(f"{COUNT} histories of seed {SEED!r}")
    started = anvil(mine_on_demand=True, timestamp=START, gas_limit=10**11, extra=("--transaction-block-keeper", "64"))
    play = Play(Chain(started.url))
    told = [history(SEED, number) for number in range(COUNT)]
    for each in told:
        play.send(play.create(each))
    play.fold(play.chain.mine())
    assert sorted(play.ledger.markets) == list(range(1, COUNT + 1))
    play.compare(play.folded_to)

    split = {number: blocks_of(each.steps) for number, each in enumerate(told, start=1)}
    play.rounds({number: before for number, (before, _) in split.items()})
    entries = sum(isinstance(s, step.Enter) for each in told for s in each.steps)
    assert len(play.ledger.positions) == entries + 2 * COUNT
    # The first block at the freeze: every pending vintage is over, and nothing is finalized yet.
    play.fold(play.chain.mine(not_before=FREEZE))
    play.compare(play.folded_to)
    play.rounds({number: after for number, (_, after) in split.items()})

    for market in play.ledger.markets.values():
        assert market.settled, market
        assert market.unpaid_principal == 0, market
        assert market.distributed == market.pool, market
    assert play.ledger.fees_accrued > 0
    play.send([play.settler.transaction(play.accounts[OPERATOR], "sweepFees")])
    play.fold(play.chain.mine())
    assert play.ledger.fees_accrued == 0
    [left], [owed] = (
        play.token.read(play.folded_to, [("balanceOf", play.settler.address)]),
        play.settler.read(play.folded_to, [("liabilities",)]),
    )
    assert (left, owed) == (0, 0)
    print(f"{play.compared} positions compared in {play.folded_to} blocks")
