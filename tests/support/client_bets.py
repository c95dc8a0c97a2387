"""Bets with our client libraries, through one interface for all of them."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from eth_account import Account
from vpm_client import ApiError, AsyncClient, Client, Cursor, Placed, Ticket, VpmError
from vpm_client.call import to_json

from scripts._stack.wallets import Wallet
from tests.support.agent_service import AgentService
from tests.support.client_libraries import async_strangers, node, strangers


@dataclass(frozen=True)
class Attempt:
    base_url: str
    market: str
    size: float = 1
    final: bool = False
    idem_key: str | None = None
    patience_seconds: float = 120.0
    final_seconds: float = 20.0


@dataclass(frozen=True)
class Outcome:
    placed: Any = None
    payment: str | None = None
    error: str = ""
    message: str = ""
    ticket: Any = None


@dataclass
class Library(ABC):
    """A client library behind a common interface. Sizes and shares are numbers, tickets plain JSON."""

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
        "receipt": json.loads(to_json(placed.receipt)),
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

    async def try_bet(self, who: Wallet, bet: Attempt) -> Outcome:
        def made() -> Outcome:
            with strangers() as http:
                client = Client(
                    bet.base_url,
                    Account.from_key(who.private_key),
                    http=http,
                    patience_seconds=bet.patience_seconds,
                    final_seconds=bet.final_seconds,
                )
                try:
                    placed = client.bet(bet.market, "yes", bet.size, final=bet.final, idem_key=bet.idem_key)
                    return Outcome(shown(placed))
                except VpmError as error:
                    name = error.code if isinstance(error, ApiError) and error.code else type(error).__name__
                    ticket = None if error.ticket is None else json.loads(error.ticket.to_json())
                    return Outcome(None, error.payment.value, name, str(error), ticket)

        return await asyncio.to_thread(made)


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
        request = {"market": market, "side": side, "sizeUsd": size}
        said = await self.ask(who, "bet", request=request, final=final)
        return {**self.shown(said), "kept": said["kept"]}

    async def try_bet(self, who: Wallet, bet: Attempt) -> Outcome:
        said = await self.ask(
            who,
            "bet",
            request={"market": bet.market, "side": "yes", "sizeUsd": bet.size, "idemKey": bet.idem_key},
            final=bet.final,
            baseUrl=bet.base_url,
            options={"patienceSeconds": bet.patience_seconds, "finalSeconds": bet.final_seconds},
        )
        if "placed" in said:
            return Outcome(self.shown(said))
        error = said["error"]
        return Outcome(
            None, error["payment"], error.get("code") or error["name"], error["message"], error.get("ticket")
        )

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
            "receipt": placed["receipt"],
        }

    async def events(self, who: Wallet, count: int, start: int = 0) -> list[Any]:
        said = await self.ask(who, "events", count=count, **{"from": start})
        return [each["seq"] for each in said["found"]]


def python_error(act: Callable[[], object]) -> VpmError:
    with pytest.raises(VpmError) as caught:
        act()
    return caught.value
