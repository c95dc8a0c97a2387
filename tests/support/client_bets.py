"""Bets placed with our client libraries, through one interface for all of them."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from eth_account import Account
from vpm_client import AsyncClient, Client, Cursor, Placed, Ticket, VpmError

from scripts._stack.wallets import Wallet
from tests.support.agent_service import AgentService
from tests.support.client_libraries import async_strangers, node, strangers


@dataclass
class Library(ABC):
    """One of the libraries, asked in the same words. Sizes and shares are numbers, tickets plain JSON."""

    service: AgentService

    @abstractmethod
    async def bet(self, who: Wallet, market: str, side: str, size: float, *, final: bool = False) -> Any: ...

    @abstractmethod
    async def place(self, who: Wallet, ticket: Any) -> Any: ...

    @abstractmethod
    async def events(self, who: Wallet, count: int, start: int = 0) -> list[Any]: ...


def shown(placed: Placed) -> Any:
    return {
        "tradeId": placed.receipt.trade_id,
        "replay": placed.replay,
        "attester": placed.attester,
        "final": placed.is_final,
        "ticket": json.loads(placed.ticket.to_json()),
    }


class Sync(Library):
    async def bet(self, who: Wallet, market: str, side: str, size: float, *, final: bool = False) -> Any:
        def made() -> Any:
            with strangers() as http:
                kept: list[Ticket] = []
                client = Client(self.service.url, Account.from_key(who.private_key), http=http)
                placed = client.bet(market, side, size, final=final, keep=kept.append)
                return {**shown(placed), "kept": [json.loads(each.to_json()) for each in kept]}

        return await asyncio.to_thread(made)

    async def place(self, who: Wallet, ticket: Any) -> Any:
        def made() -> Any:
            with strangers() as http:
                client = Client(self.service.url, Account.from_key(who.private_key), http=http)
                return shown(client.place(Ticket.from_json(json.dumps(ticket)), final=False))

        return await asyncio.to_thread(made)

    async def events(self, who: Wallet, count: int, start: int = 0) -> list[Any]:
        def read() -> list[Any]:
            with strangers() as http:
                stream = Client(self.service.url, http=http).events(who.address, cursor=Cursor(start))
                return [next(stream).seq for _ in range(count)]

        return await asyncio.to_thread(read)


class Async(Library):
    async def bet(self, who: Wallet, market: str, side: str, size: float, *, final: bool = False) -> Any:
        kept: list[Ticket] = []

        async def keep(ticket: Ticket) -> None:
            kept.append(ticket)

        async with async_strangers() as http:
            client = AsyncClient(self.service.url, Account.from_key(who.private_key), http=http)
            placed = await client.bet(market, side, size, final=final, keep=keep)
        return {**shown(placed), "kept": [json.loads(each.to_json()) for each in kept]}

    async def place(self, who: Wallet, ticket: Any) -> Any:
        async with async_strangers() as http:
            client = AsyncClient(self.service.url, Account.from_key(who.private_key), http=http)
            return shown(await client.place(Ticket.from_json(json.dumps(ticket)), final=False))

    async def events(self, who: Wallet, count: int, start: int = 0) -> list[Any]:
        found: list[Any] = []
        async with async_strangers() as http:
            async for event in AsyncClient(self.service.url, http=http).events(who.address, cursor=Cursor(start)):
                found.append(event.seq)
                if len(found) == count:
                    break
        return found


class TypeScript(Library):
    async def ask(self, who: Wallet, act: str, **order: Any) -> Any:
        given = {"act": act, "baseUrl": self.service.url, "privateKey": who.private_key, **order}
        return await asyncio.to_thread(node, given)

    async def bet(self, who: Wallet, market: str, side: str, size: float, *, final: bool = False) -> Any:
        wish = {"market": market, "side": side, "sizeUsd": size}
        said = await self.ask(who, "bet", wish=wish, final=final)
        return {**self.shown(said), "kept": said["kept"]}

    async def place(self, who: Wallet, ticket: Any) -> Any:
        return self.shown(await self.ask(who, "bet", ticket=ticket))

    def shown(self, said: Any) -> Any:
        assert "placed" in said, said
        placed = said["placed"]
        return {
            "tradeId": placed["receipt"]["tradeId"],
            "replay": placed["replay"],
            "attester": placed["attester"],
            "final": "proof" in placed,
            "ticket": placed["ticket"],
        }

    async def events(self, who: Wallet, count: int, start: int = 0) -> list[Any]:
        said = await self.ask(who, "events", count=count, **{"from": start})
        return [each["seq"] for each in said["found"]]


def python_error(act: Callable[[], object]) -> VpmError:
    with pytest.raises(VpmError) as caught:
        act()
    return caught.value
