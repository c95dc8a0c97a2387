"""A chain full of our events, made quickly: valid histories of stock markets, emitted by a stand-in for the contract.

The stand-in logs whatever its call data says, so a block of a hundred events costs one transaction. What it says is
what `VestedMarkets` would: books and payouts come from `core.mirror`; the indexer checks them and would refuse others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.chain.rpc import RpcClient
from core.events import Layout, Role, layouts_of
from core.mirror import vested, vested_fold
from core.mirror.vested import Moment

SETTLER = "0x" + "5e" * 20
SENDER = "0x" + "a1" * 20
UNIT = 10**6
RUNNING_MARKETS = 6
MARKET_BLOCKS = 40
ENTRIES_A_BLOCK = 60
OWNERS = 500

Record = tuple[bytes, bytes]  # joined topics, data

_LAYOUTS: dict[str, Layout] = {each.name: each for each in layouts_of(Role.SETTLER).values()}


@dataclass
class Venue:
    """Stock markets over many blocks: opened, entered by a crowd, settled, paid."""

    seed: int = 1
    ledger: vested_fold.Ledger = field(default_factory=vested_fold.Ledger)
    running: dict[int, int] = field(default_factory=dict)  # market -> last block of entries
    counts: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._owners = [self._rng.randbytes(20) for _ in range(OWNERS)]

    def block(self, number: int, entries: int = ENTRIES_A_BLOCK) -> list[Record]:
        """The events of one block."""
        out: list[Record] = []
        for market, last in list(self.running.items()):
            if number > last:
                out += self._end(market, number)
        while len(self.running) < RUNNING_MARKETS:
            out += self._create(number)
        chosen = self._rng.sample(list(self.running), 3)
        for market in chosen:
            if self.ledger.markets[market].vintage is not None:
                out.append(self._finalize(market))
            out += [self._enter(market, number) for _ in range(entries // len(chosen))]
        return out

    def _create(self, number: int) -> Iterator[Record]:
        market = len(self.ledger.markets) + 1
        opener, seed = self._owners[0], 1_000 * UNIT
        values = (2**40 - 1, 3600, 200, 30, seed, UNIT, 10**12)
        self.ledger.apply(vested_fold.MarketCreated(market, _hex(opener), _hex(opener), *values))
        self.running[market] = number + self._rng.randint(MARKET_BLOCKS // 2, MARKET_BLOCKS)
        yield record("MarketCreated", (market, opener), (opener, *values))
        for outcome in (0, 1):
            yield self._entered(market, opener, outcome, seed, 0)

    def _enter(self, market: int, number: int) -> Record:
        rng = self._rng
        return self._entered(market, rng.choice(self._owners), rng.randrange(2), rng.randint(UNIT, 100 * UNIT), number)

    def _entered(self, market: int, owner: bytes, outcome: int, amount: int, vintage: int) -> Record:
        n = self.counts.get((market, outcome), 0)
        self.counts[market, outcome] = n + 1
        position = market << 32 | n << 1 | outcome
        self.ledger.apply(vested_fold.Entered(market, position, _hex(owner), outcome, amount, vintage))
        return record("Entered", (market, position, owner), (outcome, amount, vintage))

    def _finalize(self, market: int) -> Record:
        _, vintage = vested.match(self.ledger.markets[market])
        assert vintage.accepted is not None
        assert vintage.entry_acc is not None
        values = (*vintage.offered, *vintage.accepted, *vintage.entry_acc)
        self.ledger.apply(vested_fold.VintageFinalized(market, vintage.number, *values))
        return record("VintageFinalized", (market, vintage.number), values)

    def _end(self, market: int, number: int) -> Iterator[Record]:
        del self.running[market]
        if self.ledger.markets[market].vintage is not None:
            yield self._finalize(market)
        winner = self._rng.randrange(2)
        self.ledger.apply(vested_fold.Resolved(market, winner))
        yield record("Resolved", (market,), (winner,))
        for position_id in self.ledger.entries[market]:
            position = self.ledger.positions[position_id]
            value = self.ledger.markets[market]
            due = vested.settlement(value, position, self.ledger.vintage_of(position), Moment(number, 0))
            if due.deliverable:
                paid = (due.net, due.fee, due.refund)
                self.ledger.apply(vested_fold.Delivered(position_id, position.owner, *paid))
                yield record("Delivered", (position_id, bytes.fromhex(position.owner[2:])), paid)


def record(name: str, indexed: tuple[int | bytes, ...], plain: tuple[int | bytes, ...]) -> Record:
    return _LAYOUTS[name].topic + b"".join(map(_word, indexed)), b"".join(map(_word, plain))


async def emit(rpc: RpcClient, records: list[Record], *, mine: bool = True) -> None:
    """One transaction with these events, and a block for it unless the chain makes its own."""
    data = b"".join(bytes([len(t) // 32]) + len(d).to_bytes(2) + t + d for t, d in records)
    transaction = {"from": SENDER, "to": SETTLER, "data": "0x" + data.hex(), "gas": hex(200_000_000)}
    await rpc.call("eth_sendTransaction", [transaction], str, timeout_seconds=60)
    if mine:
        await rpc.call("evm_mine", [], object, timeout_seconds=60)


async def place_emitter(rpc: RpcClient) -> None:
    for method, parameters in (
        ("anvil_setCode", [SETTLER, "0x" + _emitter().hex()]),
        ("anvil_setBalance", [SENDER, hex(10**30)]),
        ("anvil_impersonateAccount", [SENDER]),
    ):
        await rpc.call(method, parameters, object)


def _emitter() -> bytes:
    """Bytecode that logs its call data: records of a byte (number of topics), two (size of data), topics, data."""
    # The stack holds the position in the call data throughout.
    code = bytearray.fromhex("5f")  # PUSH0: position 0
    loop = len(code)
    # JUMPDEST; position < CALLDATASIZE? else STOP
    code += bytes.fromhex("5b803611600957005b")
    assert code[9] == 0x5B
    branches = []
    for topics in (1, 2, 3, 4):
        # DUP1 CALLDATALOAD, shift down to the first byte, equal to `topics`? jump to its branch
        code += bytes.fromhex("803560f81c") + bytes([0x60, topics]) + bytes.fromhex("1461")
        branches.append(len(code))
        code += bytes.fromhex("000057")
    code += b"\x00"
    for topics, at in zip((1, 2, 3, 4), branches, strict=True):
        code[at : at + 2] = len(code).to_bytes(2)
        head = 3 + 32 * topics
        code += b"\x5b"
        # size = (CALLDATALOAD(position) >> 232) & 0xffff            stack: position size
        code += bytes.fromhex("803560e81c61ffff16")
        # CALLDATACOPY(0, position + head, size)
        code += bytes.fromhex("808260") + bytes([head]) + bytes.fromhex("015f37")
        # the topics, the last one deepest                           stack: position size t4 .. t1
        for depth, topic in enumerate(reversed(range(topics))):
            code += bytes([0x81 + depth]) + b"\x60" + bytes([3 + 32 * topic]) + bytes.fromhex("0135")
        # LOGn(0, size, ...)                                         stack: position size
        code += bytes([0x80 + topics]) + b"\x5f" + bytes([0xA0 + topics])
        # position += head + size; again
        code += bytes.fromhex("0160") + bytes([head]) + bytes.fromhex("01") + b"\x60" + bytes([loop]) + b"\x56"
    return bytes(code)


def _word(value: int | bytes) -> bytes:
    return value.rjust(32, b"\0") if isinstance(value, bytes) else value.to_bytes(32)


def _hex(address: bytes) -> str:
    return "0x" + address.hex()
