"""A chain as the keeper sees it: its contracts, its nodes, and how far the index of it is."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from core.chain import ChainClient, Contract
from core.config import ChainName
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.db.schema.index import chain_cursor

INDEX_LAG_SECONDS = 60
"""How far, on the chain's clock, the index may trail the head before nothing new is listed on its word."""


@dataclass(frozen=True)
class KeeperChain:
    """One chain and what a job does on it. `opinions` are clients of one URL each, where two or more are configured."""

    name: ChainName
    deployment: Deployment
    client: ChainClient
    opinions: tuple[ChainClient, ...] = ()

    @property
    def chain_id(self) -> int:
        return self.deployment.chain_id

    @property
    def is_local(self) -> bool:
        return self.deployment.kind == "local"

    def contract(self, name: str, *others: str) -> Contract:
        """One of ours by its name in the deployment file; `others` name contracts whose errors may come through it."""
        return Contract(self.deployment.contract(name).address, abi(name), *(abi(each) for each in others))

    def at(self, address: str, interface: str) -> Contract:
        return Contract(address, abi(interface))


@dataclass(frozen=True, slots=True)
class IndexState:
    """How far the index is. `number` and `time` are of its last block, `l1_number` what contracts saw there;
    `finalized`: the node's finalized block, None where it has no such notion."""

    number: int
    time: int
    l1_number: int
    state: str
    finalized: int | None = None

    def trails(self, now: int) -> str | None:
        """Why it cannot be taken for the present state of the chain, or None when it can."""
        if self.state != "tail":
            return f"the index is in state {self.state}"
        behind = now - self.time
        return f"the index trails the chain by {behind} s" if behind > INDEX_LAG_SECONDS else None


async def index_state(engine: AsyncEngine, chain_id: int) -> IndexState | None:
    """None before the first block is indexed."""
    columns = chain_cursor.c
    query = select(columns.number, columns.block_time, columns.l1_block_number, columns.state, columns.finalized_number)
    async with engine.connect() as connection:
        row = (await connection.execute(query.where(columns.chain_id == chain_id))).first()
    if row is None or row.block_time is None:
        return None
    return IndexState(row.number, row.block_time, row.l1_block_number or row.number, row.state, row.finalized_number)
