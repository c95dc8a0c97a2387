"""A chain full of our events, made quickly: valid histories of stock and agent markets, emitted by stand-ins for the
contracts and the token.

A stand-in logs whatever its call data says, and calls the others likewise, so a block of a hundred events costs one
transaction. What they say is what the contracts would: books and payouts come from `core.stock` and `core.agent`; the
indexer checks them and would refuse others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eth_abi.abi import encode

from core.agent.book import Book
from core.chain.provider import ChainProvider
from core.contracts.events import Layout, Role, layouts_of
from core.contracts.events import stock as ev
from core.contracts.events.layout import arguments
from core.hexadecimal import bytes_of, hex_of
from core.stock import vested, vested_fold
from core.stock.vested import Moment
from indexer.sources import Sources

SETTLER = "0x" + "5e" * 20
SENDER = "0x" + "a1" * 20
UNIT = 10**6
RUNNING_MARKETS = 6
MARKET_BLOCKS = 40
ENTRIES_A_BLOCK = 60
OWNERS = 500

WALLET, RESOLVER, LISTER, TOKEN = ("0x" + 20 * each for each in ("5a", "5b", "5c", "5d"))
FEED = bytes.fromhex("fe" * 20)
STAKES_A_BLOCK = 30
CALL = 5

CHAIN_ID = 31337
STOCK = Sources("stock", CHAIN_ID, 1, "op-stack", {Role.SETTLER: bytes_of(SETTLER)}, None)

Record = tuple[bytes, bytes]  # joined topics, data


@dataclass(frozen=True)
class Elsewhere:
    """The records that another stand-in logs, called by the one that is at it."""

    address: str
    records: list[Record]


_LAYOUTS: dict[str, Layout] = {each.name: each for each in layouts_of(Role.SETTLER).values()}
_AGENT_ROLES = (Role.WALLET, Role.AGENT_RESOLVER, Role.AGENT_LISTER, Role.TOKEN)
_AGENT_LAYOUTS: dict[str, Layout] = {each.name: each for role in _AGENT_ROLES for each in layouts_of(role).values()}


@dataclass
class LoadVenue:
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
        values = (2**40 - 1, 3600, 200, 30, seed, UNIT, 10**12, 2**48 - 1)
        self.ledger.apply(ev.MarketCreated(market, opener, opener, *values))
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
        self.ledger.apply(ev.Entered(market, position, owner, outcome, amount, vintage))
        return record("Entered", (market, position, owner), (outcome, amount, vintage))

    def _finalize(self, market: int) -> Record:
        _, vintage = vested.match(self.ledger.markets[market])
        assert vintage.accepted is not None
        assert vintage.entry_acc is not None
        values = (*vintage.offered, *vintage.accepted, *vintage.entry_acc)
        self.ledger.apply(ev.VintageFinalized(market, vintage.number, *values))
        return record("VintageFinalized", (market, vintage.number), values)

    def _end(self, market: int, number: int) -> Iterator[Record]:
        del self.running[market]
        if self.ledger.markets[market].vintage is not None:
            yield self._finalize(market)
        winner = self._rng.randrange(2)
        self.ledger.apply(ev.Resolved(market, winner))
        yield record("Resolved", (market,), (winner,))
        for position_id in self.ledger.entries[market]:
            position = self.ledger.positions[position_id]
            value = self.ledger.markets[market]
            due = vested.settlement(value, position, self.ledger.vintage_of(position), Moment(number, 0))
            if due.deliverable:
                paid = (due.net, due.fee, due.refund)
                self.ledger.apply(ev.Delivered(position_id, position.owner, *paid))
                yield record("Delivered", (position_id, position.owner), paid)


@dataclass
class OpenMarket:
    """A market that takes stakes until block `last`."""

    index: int
    last: int
    book: Book
    stakes: list[tuple[bytes, int, int, int]] = field(default_factory=list)  # wallet, outcome, amount, shares


@dataclass
class AgentVenue:
    """Agent markets over many blocks: listed, staked on by payments, settled, paid."""

    seed: int = 1
    running: dict[bytes, OpenMarket] = field(default_factory=dict)
    listed: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._wallets = [self._rng.randbytes(20) for _ in range(OWNERS)]

    def block(self, number: int) -> list[Record | Elsewhere]:
        """What the settlement wallet logs in one block, and what those it calls do."""
        out: list[Record | Elsewhere] = []
        for key, market in list(self.running.items()):
            if number > market.last:
                out += self._end(key, self.running.pop(key))
        while len(self.running) < RUNNING_MARKETS:
            out += self._list(number)
        for _ in range(STAKES_A_BLOCK):
            out += self._stake(self._rng.choice(list(self.running)))
        return out

    def _list(self, number: int) -> Iterator[Record | Elsewhere]:
        rng = self._rng
        self.listed += 1
        key, weights = rng.randbytes(32), [rng.randint(5, 15) * UNIT for _ in range(rng.randint(2, 8))]
        last = number + rng.randint(MARKET_BLOCKS // 2, MARKET_BLOCKS)
        self.running[key] = OpenMarket(self.listed, last, Book.empty(weights, 200))
        opens, closes, cap = 1, 2**31, 10**15
        yield agent_record("MarketOpened", key, self.listed, opens, closes, 200, cap, weights)
        yield Elsewhere(RESOLVER, [agent_record("MarketRegistered", key, FEED)])
        spec = (1, FEED, 0, list(range(1, len(weights))), False, opens, closes, 0, closes + 9, weights)
        terms = (200, cap, False, 3_600, 0, closes + 10, closes + 20)
        yield Elsewhere(LISTER, [agent_record("MarketListed", key, FEED, self._wallets[0], spec, terms, "{}")])

    def _stake(self, key: bytes) -> Iterator[Record | Elsewhere]:
        rng, market = self._rng, self.running[key]
        wallet, amount = rng.choice(self._wallets), rng.randint(UNIT, 100 * UNIT)
        outcome, nonce = rng.randrange(market.book.outcomes), rng.randbytes(32)
        market.book, got = market.book.staked(outcome, amount)
        stake_id = market.index << 32 | len(market.stakes)
        market.stakes.append((wallet, outcome, amount, got.shares))
        hashes = (nonce, rng.randbytes(32), rng.randbytes(32))
        rest = (outcome, amount, got.fee, got.shares, *hashes, bytes(20), bytes(32))
        yield agent_record("Staked", key, stake_id, wallet, *rest)
        moved = agent_record("Transfer", wallet, bytes_of(WALLET), amount)
        yield Elsewhere(TOKEN, [agent_record("AuthorizationUsed", wallet, nonce), moved])

    def _end(self, key: bytes, market: OpenMarket) -> Iterator[Record | Elsewhere]:
        winner, nothing = self._rng.randrange(market.book.outcomes), (0, 0, 0)
        end = (1 << 64 | 9, winner + 1, 7)
        yield Elsewhere(RESOLVER, [agent_record("MarketDecided", key, False, winner, end, nothing)])
        yield agent_record("MarketResolved", key, winner)
        refund = market.book.refunds(winner)
        for n, (wallet, outcome, amount, shares) in enumerate(market.stakes):
            owed = market.book.owed(winner, outcome, amount, shares)
            if owed:
                yield agent_record("Paid", key, market.index << 32 | n, wallet, owed, refund)


def agent_record(name: str, *values: object) -> Record:
    """An event of the agent contracts or of the token, its values in the order of its declaration."""
    layout = _AGENT_LAYOUTS[name]
    declared = [(words[0], "indexed" in words) for words in (each.split() for each in arguments(layout.signature))]
    pairs = list(zip(declared, values, strict=True))
    topics = b"".join(encode([kind], [value]) for (kind, indexed), value in pairs if indexed)
    data = encode([kind for kind, indexed in declared if not indexed], [v for (_, indexed), v in pairs if not indexed])
    return layout.topic + topics, data


def record(name: str, indexed: tuple[int | bytes, ...], plain: tuple[int | bytes, ...]) -> Record:
    return _LAYOUTS[name].topic + b"".join(map(_word, indexed)), b"".join(map(_word, plain))


async def emit(
    rpc: ChainProvider, records: Sequence[Record | Elsewhere], *, to: str = SETTLER, mine: bool = True
) -> None:
    """One transaction with these events, and a block for it unless the chain makes its own."""
    transaction = {"from": SENDER, "to": to, "data": hex_of(_packed(records)), "gas": hex(200_000_000)}
    await rpc.call("eth_sendTransaction", [transaction], str, timeout_seconds=60)
    if mine:
        await rpc.call("evm_mine", [], object, timeout_seconds=60)


def _packed(records: Sequence[Record | Elsewhere]) -> bytes:
    """As the emitter reads them."""
    out = b""
    for each in records:
        if isinstance(each, Elsewhere):
            inner = _packed(each.records)
            out += bytes([CALL]) + len(inner).to_bytes(2) + bytes_of(each.address) + inner
        else:
            topics, data = each
            out += bytes([len(topics) // 32]) + len(data).to_bytes(2) + topics + data
    return out


async def place_emitter(rpc: ChainProvider, addresses: Sequence[str] = (SETTLER,)) -> None:
    for address in addresses:
        await rpc.call("anvil_setCode", [address, hex_of(_emitter())], object)
    await rpc.call("anvil_setBalance", [SENDER, hex(10**30)], object)
    await rpc.call("anvil_impersonateAccount", [SENDER], object)


def _emitter() -> bytes:
    """Bytecode that logs its call data: records of a byte (number of topics), two (size of data), topics, data; or, to
    have another stand-in log, of the byte CALL, two (size of its records), its address, its records."""
    # The stack holds the position in the call data throughout.
    code = bytearray.fromhex("5f")  # PUSH0: position 0
    loop = len(code)
    # JUMPDEST; position < CALLDATASIZE? else STOP
    code += bytes.fromhex("5b803611600957005b")
    assert code[9] == 0x5B
    branches = []
    for kind in (1, 2, 3, 4, CALL):
        # DUP1 CALLDATALOAD, shift down to the first byte, equal to `kind`? jump to its branch
        code += bytes.fromhex("803560f81c") + bytes([0x60, kind]) + bytes.fromhex("1461")
        branches.append(len(code))
        code += bytes.fromhex("000057")
    code += b"\x00"
    for topics, at in zip((1, 2, 3, 4), branches[:-1], strict=True):
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
    code[branches[-1] : branches[-1] + 2] = len(code).to_bytes(2)
    # size and CALLDATACOPY(0, position + 23, size) as above         stack: position size
    code += bytes.fromhex("5b803560e81c61ffff16") + bytes.fromhex("8082601701" + "5f37")
    # CALL(gas, CALLDATALOAD(position + 3) >> 96, 0, 0, size, 0, 0); POP
    code += bytes.fromhex("5f5f825f5f" + "8660030135" + "60601c" + "5af150")
    code += bytes.fromhex("01601701") + b"\x60" + bytes([loop]) + b"\x56"
    return bytes(code)


def _word(value: int | bytes) -> bytes:
    return value.rjust(32, b"\0") if isinstance(value, bytes) else value.to_bytes(32)
