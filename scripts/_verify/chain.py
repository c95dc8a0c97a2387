"""Reads one chain at one block. Addresses come from the deployment file; logs are read in block ranges that the node
accepts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from core.chain import Block, Call, ChainClient, Contract, Log, Receipt, RpcError, RpcErrorKind, checksum
from core.chain.provider import ChainProvider
from core.chain.wire import data_bytes
from core.config import environment, setting
from core.contracts.abi import abi
from core.contracts.deployments import Deployment, load_deployment
from core.contracts.events import agent, stock
from core.contracts.events.layout import Layout
from core.contracts.events.shared import TOKEN_EVENTS, Transfer
from core.feeds.rounds import FeedReader
from core.hexadecimal import hex_of
from core.paths import REPOSITORY
from scripts._verify.claims import NotCheckable

TOKEN = {"base": "USDC", "stock": "USDG"}
EVENTS: Mapping[str, Mapping[bytes, Layout]] = {
    "VestedMarkets": stock.SETTLER_EVENTS,
    "RoundResolver": stock.RESOLVER_EVENTS,
    "MarketLister": stock.LISTER_EVENTS,
    "SettlementWallet": agent.WALLET_EVENTS,
    "FeedResolver": agent.AGENT_RESOLVER_EVENTS,
    "AgentLister": agent.AGENT_LISTER_EVENTS,
    "token": TOKEN_EVENTS,
}
Topics: TypeAlias = Sequence[str | Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class DecodedLog:
    event: Any
    block: int
    index: int
    tx: str

    @property
    def place(self) -> tuple[int, int]:
        return self.block, self.index


@dataclass
class PinnedChain:
    client: ChainClient
    deployment: Deployment
    head: Block
    attester: str | None = None  # who must have signed offers and receipts
    _headers: dict[int, Block] = field(default_factory=dict)
    _feeds: dict[str, FeedReader] = field(default_factory=dict)

    @classmethod
    async def connect(cls, rpc: ChainProvider, deployments: Path, block: int | None) -> PinnedChain:
        """Return the node's chain, pinned at a block. Raise NotCheckable if no deployment file describes the chain."""
        client = ChainClient(rpc)
        chain_id = await client.eth.chain_id
        by_chain_id = deployments_in(deployments)
        if chain_id not in by_chain_id:
            listed = ", ".join(f"{each.chain_id} ({each.network})" for each in by_chain_id.values()) or "none"
            raise NotCheckable(f"The node serves chain {chain_id}, but {deployments} describes {listed}.")
        deployment = by_chain_id[chain_id]
        if not deployment.is_deployed:
            raise NotCheckable(
                f"{deployments / (deployment.network + '.json')} says that nothing is deployed on chain {chain_id}. "
                "For a local stack, give --deployments DIR, the folder `deployments` in its state folder."
            )
        head = await client.head() if block is None else await client.block(block)
        if head is None:
            raise NotCheckable(f"The node has no block {block}.")
        return cls(client, deployment, head, deployment.operator_wallets.get("attestation"))

    @property
    def name(self) -> str:
        return "base" if "SettlementWallet" in self.deployment.contracts else "stock"

    def contract(self, name: str) -> Contract:
        return Contract(self.deployment.contract(name).address, abi(name))

    @property
    def token(self) -> Contract:
        symbol = TOKEN[self.name]
        return Contract(self.deployment.token(symbol).address, abi(f"Local{symbol}"))

    async def read(self, call: Call) -> Any:
        return await self.client.read(call, self.head.number)

    async def time_of(self, block: int) -> int:
        return (await self.header(block)).timestamp

    async def header(self, block: int) -> Block:
        if block not in self._headers:
            header = await self.client.block(block)
            if header is None:
                raise NotCheckable(f"The node has no block {block}.")
            self._headers[block] = header
        return self._headers[block]

    async def receipt(self, tx: Any) -> Receipt | None:
        """Return a transaction's receipt. Return None if `tx` is not a hash or is not mined at the pinned block."""
        if not is_hash(tx):
            return None
        receipt = await self.client.receipt(tx)
        return receipt if receipt is not None and receipt.block_number <= self.head.number else None

    async def view(self, name: str, function: str, *arguments: Any) -> tuple[Any, str]:
        """Call a view function at the pinned block. Return its result, and the call as text."""
        written = ", ".join(hex_of(each) if isinstance(each, bytes) else str(each) for each in arguments)
        return await self.read(self.contract(name).call(function, *arguments)), f"{name}.{function}({written})"

    async def logs_in(self, tx: Any, name: str, *events: str) -> list[DecodedLog]:
        """Return the logs that one contract emitted in a transaction. Return no logs if the transaction is not mined at
        the pinned block."""
        receipt = await self.receipt(tx)
        return [] if receipt is None else decode_logs(receipt.logs, *self._source(name, events))

    async def transferred(self, tx: str, sender: str, to: str, value: int) -> bool:
        transfers = await self.logs_in(tx, "token", "Transfer")
        return any(is_transfer(one.event, sender, to, value) for one in transfers)

    async def logs(self, name: str, topics: Topics = (), *events: str) -> list[DecodedLog]:
        return await self.logs_of(*self._source(name, events), topics)

    async def logs_of(self, address: str, layouts: Mapping[bytes, Layout], topics: Topics = ()) -> list[DecodedLog]:
        """Return a contract's decoded logs in chain order, from our deployment's first block to the pinned block."""
        filters: list[str | Sequence[str] | None] = [[hex_of(topic) for topic in layouts], *topics]
        logs = await self.range(address, filters, self.deployment.start_block, self.head.number)
        return decode_logs(logs, address, layouts)

    def _source(self, name: str, events: Sequence[str]) -> tuple[str, Mapping[bytes, Layout]]:
        contract = self.token if name == "token" else self.contract(name)
        return contract.address, {t: each for t, each in EVENTS[name].items() if not events or each.name in events}

    async def range(self, address: str, topics: list[Any], first: int, last: int) -> list[Log]:
        """Return a contract's logs between two blocks. They are requested in block ranges that the node accepts."""
        try:
            return await self.client.logs(first, last, [address], topics)
        except RpcError as error:
            if error.kind not in (RpcErrorKind.RANGE_TOO_WIDE, RpcErrorKind.TIMEOUT) or first == last:
                raise
        middle = (first + last) // 2
        below = await self.range(address, topics, first, middle)
        return below + await self.range(address, topics, middle + 1, last)

    def feed(self, address: str) -> FeedReader:
        return self._feeds.setdefault(address, FeedReader(self.client, address, self.head.number))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rpc")
    folder = Path(environment().get("VPM_DEPLOYMENTS_DIR") or REPOSITORY / "deployments")
    parser.add_argument("--deployments", type=Path, default=folder)


def node_url(rpc: str | None, variable: str) -> str:
    url = rpc or (setting(variable) or "").partition(",")[0].strip()
    if not url:
        raise NotCheckable("No node was given.", hint=f"Give --rpc URL, or set {variable}.")
    return url


def deployments_in(folder: Path) -> dict[int, Deployment]:
    files = [path for path in sorted(folder.glob("*.json")) if path.name != "schema.json"]
    return {each.chain_id: each for each in map(load_deployment, files)}


def decode_logs(logs: Sequence[Log], address: str, layouts: Mapping[bytes, Layout]) -> list[DecodedLog]:
    out = []
    for log in logs:
        if checksum(log.address) != checksum(address) or log.removed or not log.topics:
            continue
        topics = b"".join(data_bytes(topic) for topic in log.topics)
        layout = layouts.get(topics[:32])
        if layout is None or not layout.fits(topics, data_bytes(log.data)):
            continue
        event = layout.read(topics, data_bytes(log.data))
        out.append(DecodedLog(event, int(log.block_number, 16), int(log.log_index, 16), log.transaction_hash))
    return sorted(out, key=lambda one: one.place)


def is_transfer(moved: Transfer, sender: str, to: str, value: int) -> bool:
    return (checksum(moved.sender), checksum(moved.to), moved.value) == (checksum(sender), checksum(to), value)


def word(value: int | bytes) -> str:
    return hex_of(value.to_bytes(32) if isinstance(value, int) else value.rjust(32, b"\0"))


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"0x[0-9a-fA-F]{64}", value) is not None
