"""A chain full of events, made quickly: histories of stock and agent markets from `index_world`, emitted by stand-ins
for the contracts and the token. A stand-in logs what its call data says, and calls the others with theirs, so a block
of a hundred events costs one transaction."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from core.chain.provider import ChainProvider
from core.contracts.events import Role
from core.hexadecimal import bytes_of, hex_of
from core.stock.vested import Moment
from indexer.sources import Sources
from tests.support.index_world import ADDRESSES, TOKEN, Emission, Tx, World

SENDER = "0x" + "a1" * 20
UNIT = 10**6
RUNNING_MARKETS = 6
MARKET_BLOCKS = 40
ENTRIES_A_BLOCK = 60
STAKES_A_BLOCK = 30
OWNERS = 500
BLOCK_SECONDS = 2
CALL = 5

CHAIN_ID = 31337
SETTLER = hex_of(ADDRESSES[Role.SETTLER])
STOCK = Sources("stock", CHAIN_ID, 1, "op-stack", {Role.SETTLER: ADDRESSES[Role.SETTLER]}, None)
AGENT_CONTRACTS = {role: ADDRESSES[role] for role in (Role.WALLET, Role.AGENT_RESOLVER, Role.AGENT_LISTER)}
AGENT = Sources("base", CHAIN_ID, 1, "op-stack", AGENT_CONTRACTS, TOKEN)


@dataclass
class Venue:
    """The contracts and their users over many blocks. `emitters`: the stand-ins that it needs; the first one is
    called."""

    emitters: ClassVar[Sequence[str]]

    seed: int = 1
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.owners = [self.rng.randbytes(20) for _ in range(OWNERS)]
        self.number = 0

    def do(self, what: str, *arguments: Any) -> list[Emission]:
        logs = self.world.run(Tx(0, what, arguments), Moment(self.number, self.number * BLOCK_SECONDS))
        assert logs is not None, what
        return logs

    def life(self) -> int:
        return BLOCK_SECONDS * self.rng.randint(MARKET_BLOCKS // 2, MARKET_BLOCKS)


@dataclass
class LoadVenue(Venue):
    """Stock markets that open, take a crowd's bets, settle and pay. Only the settler's own logs are kept."""

    emitters = (SETTLER,)

    running: list[int] = field(default_factory=list)

    def block(self, number: int, entries: int = ENTRIES_A_BLOCK) -> list[Emission]:
        self.number, logs = number, []
        for market in list(self.running):
            if number * BLOCK_SECONDS >= self.world.ledger.markets[market].terms.freeze_time:
                self.running.remove(market)
                logs += self.do("settle", market, self.rng.randrange(2))
                logs += self.do("deliver", self.world.ledger.entries[market], ())
        while len(self.running) < RUNNING_MARKETS:
            logs += self.do("create", self.life(), 30, 1_000 * UNIT, 200)
            self.running.append(len(self.world.ledger.markets))
        chosen = self.rng.sample(self.running, 3)
        for market in chosen:
            for _ in range(entries // len(chosen)):
                amount = self.rng.randint(UNIT, 100 * UNIT)
                logs += self.do("enter", market, self.rng.choice(self.owners), self.rng.randrange(2), amount, None)
        return [each for each in logs if each.address == ADDRESSES[Role.SETTLER]]


@dataclass
class AgentVenue(Venue):
    emitters = (*map(hex_of, AGENT_CONTRACTS.values()), hex_of(TOKEN))

    running: list[bytes] = field(default_factory=list)

    def block(self, number: int) -> list[Emission]:
        """Return what the settlement wallet logs in one block, and what those it calls do."""
        self.number, logs = number, []
        for key in list(self.running):
            if number * BLOCK_SECONDS >= self.world.agent[key].closes_at:
                self.running.remove(key)
                logs += self._end(key)
        while len(self.running) < RUNNING_MARKETS:
            key = self.rng.randbytes(32)
            logs += self.do("list", key, self.life(), self.rng.randint(2, 8), "{}")
            self.running.append(key)
        for _ in range(STAKES_A_BLOCK):
            key = self.rng.choice(self.running)
            outcome, amount = self.rng.randrange(self.world.agent[key].book.outcomes), self.rng.randint(1, 100) * UNIT
            logs += self.do("stake", key, self.rng.choice(self.owners), outcome, amount, self.rng.randbytes(32))
        return logs

    def _end(self, key: bytes) -> list[Emission]:
        market = self.world.agent[key]
        logs = self.do("close", key, self.rng.randrange(market.book.outcomes))
        stakes = [market.index << 32 | number for number in range(market.stakes)]
        paid = self.world.run(Tx(0, "pay", (stakes, ())), Moment(self.number, self.number * BLOCK_SECONDS))
        return logs + (paid or [])


async def emit(rpc: ChainProvider, logs: Sequence[Emission], to: str) -> None:
    transaction = {"from": SENDER, "to": to, "data": hex_of(_packed(logs, bytes_of(to))), "gas": hex(200_000_000)}
    await rpc.call("eth_sendTransaction", [transaction], str, timeout_seconds=60)
    await rpc.call("evm_mine", [], object, timeout_seconds=60)


def _packed(logs: Sequence[Emission], own: bytes) -> bytes:
    """Pack the events as the emitter at `own` reads them."""
    out = b""
    for each in logs:
        record = bytes([len(each.topics) // 32]) + len(each.data).to_bytes(2) + each.topics + each.data
        out += record if each.address == own else bytes([CALL]) + len(record).to_bytes(2) + each.address + record
    return out


async def place_emitter(rpc: ChainProvider, addresses: Sequence[str]) -> None:
    for address in addresses:
        await rpc.call("anvil_setCode", [address, hex_of(_emitter())], object)
    await rpc.call("anvil_setBalance", [SENDER, hex(10**30)], object)
    await rpc.call("anvil_impersonateAccount", [SENDER], object)


def _emitter() -> bytes:
    """Return bytecode that logs its call data. A record is a byte (number of topics), two (size of data), topics, data;
    or, to make another stand-in log, the byte CALL, two (size of its records), its address, its records."""
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
